//! Simulated timelines of every network.
//!
//! A timeline has its posts at an even pace, from always until always, each a while after its id says that it was made: ids
//! become visible out of order. The posts of a timeline depend on the seed and on its query or account.

use super::shared::Api;
use crate::base::clock::{self, Millis};
use crate::model::post::{SNOWFLAKE_EPOCH_MS, TweetId};
use crate::simulator::dice::{mix, unit};
use crate::simulator::text::{author_named, author_with, user_id};
use crate::simulator::world::{AUTHOR, SEQUENCE};

pub(crate) const DAY_MS: Millis = 86_400_000;

/// Whose ids a timeline has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// Twitter's and X's; Bluesky's uris are made of them.
    Twitter,
    Mastodon,
}

/// A part of a timeline, at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice {
    /// Ids above this
    pub(crate) since: u64,
    /// and below this.
    pub(crate) below: u64,
    /// Only so many of the newest,
    pub(crate) depth: Option<i64>,
    /// none made before this (ms since the epoch),
    pub(crate) oldest: Millis,
    /// and those that are visible then.
    pub(crate) now: Millis,
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
pub(crate) struct Target {
    dice: u64,
    pub author: Option<u64>,
}

impl Target {
    pub(crate) fn of(text: &str) -> Self {
        let dice = |text: &str| text.bytes().fold(0, |sum, byte| mix(sum ^ u64::from(byte)));
        let stand_in = || dice(text) % STAND_INS;
        let handle = text.strip_prefix('@').or_else(|| text.strip_prefix("from:"));
        let author = match (text.parse(), handle) {
            (Ok(id), _) => Some(author_with(id).unwrap_or_else(stand_in)),
            (_, Some(handle)) => Some(author_named(handle).unwrap_or_else(stand_in)),
            _ => None,
        };
        let dice = author.map_or_else(|| dice(text), |author| dice(&user_id(author).to_string()));
        Self { dice, author }
    }
}

/// Authors of whom one stands for each user that the world does not have.
const STAND_INS: u64 = 20_000;

impl Api {
    /// The ids of a slice, newest first but for what was made in the same slot; those of deleted posts, too.
    pub(crate) fn ids(&self, network: Network, target: &str, slice: Slice) -> impl Iterator<Item = u64> {
        let target = Target::of(target);
        let newest = self.slot(slice.now);
        let first = slice.depth.map_or(0, |depth| newest - depth);
        let top = newest.min(self.slot(network.made_at(slice.below)));
        let oldest = slice.oldest.max(network.made_at(slice.since));
        (first..=top)
            .rev()
            .take_while(move |slot| self.made(target, *slot) >= oldest)
            .map(move |slot| self.post(network, target, slot))
            .filter(move |post| post.visible_at <= slice.now)
            .map(move |post| network.id(post.id))
            .filter(move |id| *id > slice.since && *id < slice.below)
    }

    pub(crate) fn is_retweet(&self, id: u64, now: Millis) -> bool {
        let tweet = TweetId::parse(&id.to_string()).ok().and_then(|id| self.world.tweet(id, now));
        tweet.is_some_and(|tweet| tweet.original.is_some())
    }

    pub(super) fn pace_ms(&self) -> f64 {
        1_000.0 / self.options.posts_per_second.clamp(0.001, 500.0)
    }

    pub(super) fn slot(&self, at: Millis) -> i64 {
        (at as f64 / self.pace_ms()) as i64
    }

    fn dice(&self, target: Target, slot: i64, of: u64) -> u64 {
        mix(mix(self.options.seed ^ target.dice ^ of.wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ slot.unsigned_abs())
    }

    /// When the post of a slot was made, ms since the epoch: somewhere in the slot.
    fn made(&self, target: Target, slot: i64) -> Millis {
        ((slot as f64 + unit(self.dice(target, slot, 1))) * self.pace_ms()) as Millis
    }

    pub(super) fn post(&self, network: Network, target: Target, slot: i64) -> TimelinePost {
        let made = self.made(target, slot);
        let late = clock::millis(self.options.posts_late) as f64 * unit(self.dice(target, slot, 2));
        let drawn = self.dice(target, slot, 3) & network.sequence();
        let sequence = match target.author {
            Some(author) => drawn & !AUTHOR | self.world.author_bits(author),
            None => drawn,
        };
        TimelinePost { id: TweetId::at(made, sequence as u32), visible_at: made + late as Millis }
    }

    pub(crate) fn posts(&self, network: Network, target: &str, from: Millis, to: Millis) -> Vec<TimelinePost> {
        let (slots, target) = (self.slot(from)..=self.slot(to), Target::of(target));
        slots
            .map(|slot| self.post(network, target, slot))
            .filter(|post| post.id.created_at().is_some_and(|made| (from..to).contains(&made)))
            .filter(|post| self.world.tweet(post.id, Millis::MAX / 2).is_some())
            .collect()
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
    pub(crate) fn made_at(self, id: u64) -> Millis {
        match self {
            Self::Twitter => (id >> 22) as Millis + SNOWFLAKE_EPOCH_MS,
            Self::Mastodon => (id >> 16) as Millis,
        }
    }

    /// The network's id of a post.
    pub(crate) fn id(self, post: TweetId) -> u64 {
        match (self, post.created_at()) {
            (Self::Mastodon, Some(made)) => ((made as u64) << 16) | (post.get() & 0xffff),
            _ => post.get(),
        }
    }
}
