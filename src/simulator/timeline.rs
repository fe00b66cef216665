//! The posts of simulated timelines.
//!
//! A timeline has its posts at an even pace, from always until always, each a while after its id says that it was made: ids
//! become visible out of order. The posts of a timeline depend on the seed and on its query or account.

use super::bits::{AUTHOR, SEQUENCE, author_bits};
use super::dice::{mix, unit};
use super::options::SimulatorOptions;
use super::text::{author_named, author_with, user_id};
use crate::base::clock::{self, Millis};
use crate::model::post::{SNOWFLAKE_EPOCH_MS, TweetId};

/// Whose ids a timeline has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Twitter's and X's; Bluesky's uris are made of them.
    Twitter,
    Mastodon,
}

/// A post of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelinePost {
    /// The world's id, which says when it was made.
    pub id: TweetId,
    /// When it is first seen, ms since the epoch.
    pub visible_at: Millis,
}

/// What a timeline is of: a number, `@handle` or `from:handle` is a user, whose posts have one author; all else is a
/// text to search for, a list, or whose home timeline it is. A user that the world does not have stands for one that it
/// has.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    dice: u64,
    pub author: Option<u64>,
}

/// Authors of whom one stands for each user that the world does not have.
const STAND_INS: u64 = 20_000;

impl Target {
    pub fn of(text: &str) -> Self {
        let stand_in = || dice(text) % STAND_INS;
        match (text.parse(), Self::handle(text)) {
            (Ok(id), _) => Self::by(author_with(id).unwrap_or_else(stand_in)),
            (_, Some(handle)) => Self::by(author_named(handle).unwrap_or_else(stand_in)),
            _ => Self { dice: dice(text), author: None },
        }
    }

    /// The posts of an author.
    pub fn by(author: u64) -> Self {
        Self { dice: dice(&user_id(author).to_string()), author: Some(author) }
    }

    /// The handle that a text names.
    pub fn handle(text: &str) -> Option<&str> {
        text.strip_prefix('@').or_else(|| text.strip_prefix("from:"))
    }
}

fn dice(text: &str) -> u64 {
    text.bytes().fold(0, |sum, byte| mix(sum ^ u64::from(byte)))
}

/// All timelines: their pace, and how late posts become visible.
#[derive(Debug, Clone)]
pub struct Timelines {
    seed: u64,
    pace_ms: f64,
    late_ms: Millis,
}

impl Timelines {
    pub fn new(options: &SimulatorOptions) -> Self {
        let pace_ms = 1_000.0 / options.posts_per_second.clamp(0.001, 500.0);
        Self { seed: options.seed, pace_ms, late_ms: clock::millis(options.posts_late) }
    }

    /// The slot of a moment: each has one post.
    pub fn slot(&self, at: Millis) -> i64 {
        (at as f64 / self.pace_ms) as i64
    }

    /// The beginning of a slot, ms since the epoch.
    pub fn begins(&self, slot: i64) -> Millis {
        (slot as f64 * self.pace_ms) as Millis
    }

    /// How late a post becomes visible at the most, in ms.
    pub fn late_ms(&self) -> Millis {
        self.late_ms
    }

    fn dice(&self, target: Target, slot: i64, of: u64) -> u64 {
        mix(mix(self.seed ^ target.dice ^ of.wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ slot.unsigned_abs())
    }

    /// When the post of a slot was made, ms since the epoch: somewhere in the slot.
    pub fn made(&self, target: Target, slot: i64) -> Millis {
        ((slot as f64 + unit(self.dice(target, slot, 1))) * self.pace_ms) as Millis
    }

    pub fn post(&self, network: Network, target: Target, slot: i64) -> TimelinePost {
        let made = self.made(target, slot);
        let late = self.late_ms as f64 * unit(self.dice(target, slot, 2));
        let drawn = self.dice(target, slot, 3) & network.sequence();
        let sequence = match target.author {
            Some(author) => drawn & !AUTHOR | author_bits(self.seed, author),
            None => drawn,
        };
        TimelinePost { id: TweetId::at(made, sequence as u32), visible_at: made + late as Millis }
    }

    /// The newest post of an author that is visible then, and its slot. One that is deleted is among them.
    pub fn newest(&self, author: u64, now: Millis) -> Option<(i64, TimelinePost)> {
        let posts =
            (0..=self.slot(now)).rev().map(|slot| (slot, self.post(Network::Twitter, Target::by(author), slot)));
        posts.into_iter().find(|(_, post)| post.visible_at <= now)
    }
}

impl Network {
    /// The bits below the time that differ from post to post.
    fn sequence(self) -> u64 {
        match self {
            // The others say which version of a post it is.
            Self::Twitter => SEQUENCE,
            Self::Mastodon => 0xffff,
        }
    }

    /// When an id was made, ms since the epoch.
    pub fn made_at(self, id: u64) -> Millis {
        match self {
            Self::Twitter => (id >> 22) as Millis + SNOWFLAKE_EPOCH_MS,
            Self::Mastodon => (id >> 16) as Millis,
        }
    }

    /// The network's id of a post.
    pub fn id(self, post: TweetId) -> u64 {
        match (self, post.created_at()) {
            (Self::Mastodon, Some(made)) => ((made as u64) << 16) | (post.get() & 0xffff),
            _ => post.get(),
        }
    }
}
