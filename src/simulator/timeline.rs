//! The posts of simulated timelines.
//!
//! A timeline has its posts at an even pace, from always until always, each a while after its id says that it was made: ids
//! become visible out of order. The posts of a timeline depend on the seed and on its query or account.
//!
//! Where accounts have [days](SimulatorOptions::posting_day), each has a rate and hours of its own: half of them post less than
//! once a day, three in ten one to ten times, the others twenty times on average (as paper 002 counted), more by day than by
//! night (as `HOURS` of real accounts have it).

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
    /// The length of an account's day; 0: posts come evenly.
    day_ms: f64,
    /// [`HOURS`] with their contrast, and their sum.
    hours: ([f64; 24], f64),
}

/// Posts in the hours of a day, as multiples of the mean: of 1.4 million posts of 3,431 accounts in 2016
/// (`dapurv5/twitter-influence-propagation-dataset`), by UTC.
const HOURS: [f64; 24] = [
    1.245, 1.281, 1.239, 1.148, 1.162, 1.184, 1.187, 1.187, 1.019, 0.823, 0.712, 0.604, 0.552, 0.557, 0.584, 0.683,
    0.801, 0.931, 1.057, 1.168, 1.251, 1.227, 1.186, 1.212,
];
/// A night is darker than the mean of many time zones: hours are raised to this power.
const CONTRAST: f64 = 3.0;

impl Timelines {
    pub fn new(options: &SimulatorOptions) -> Self {
        let pace_ms = 1_000.0 / options.posts_per_second.clamp(0.001, 500.0);
        let [late_ms, day_ms] = [options.posts_late, options.posting_day].map(clock::millis);
        let hours = HOURS.map(|hour| hour.powf(CONTRAST));
        let hours = (hours, hours.iter().sum());
        Self { seed: options.seed, pace_ms, late_ms, day_ms: day_ms as f64, hours }
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

    /// Posts of an account in one of its days, on average.
    pub fn per_day(&self, author: u64) -> f64 {
        let dice = mix(self.seed ^ user_id(author).wrapping_mul(0x2545_f491_4f6c_dd1d));
        let (group, within) = (unit(dice), unit(mix(dice)));
        let rate = match group {
            of if of < 0.5 => within,
            of if of < 0.8 => 10.0_f64.powf(within),
            _ => 20.0 * -(1.0 - within).max(1e-3).ln(),
        };
        rate.min(self.day_ms / self.pace_ms / 4.0)
    }

    /// Returns true if a slot has a post: not every one has, where accounts have days.
    pub fn is_made(&self, target: Target, slot: i64) -> bool {
        let Some(author) = target.author.filter(|_| self.day_ms > 0.0) else { return true };
        // Its noon is somewhere in the day.
        let zone = unit(mix(mix(user_id(author)) ^ self.seed));
        let day = (slot as f64 * self.pace_ms / self.day_ms + zone).rem_euclid(1.0);
        let (hours, sum) = &self.hours;
        let hour = hours[(day * 24.0) as usize % 24];
        let slots = self.day_ms / self.pace_ms;
        unit(self.dice(target, slot, 4)) < self.per_day(author) / slots * hour / sum * 24.0
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

    /// The newest post of an author that is visible then; one that is deleted counts. Looked for in its last days.
    pub fn newest(&self, author: u64, now: Millis) -> Option<TimelinePost> {
        let target = Target::by(author);
        let made = self.back(now).filter(|slot| self.is_made(target, *slot));
        made.map(|slot| self.post(Network::Twitter, target, slot)).find(|post| post.visible_at <= now)
    }

    /// Posts of an author from then until now, as far as they are visible.
    pub fn count(&self, author: u64, from: Millis, now: Millis) -> u64 {
        let (target, first) = (Target::by(author), self.slot(from));
        if self.day_ms == 0.0 {
            let newest = self.back(now).find(|slot| self.post(Network::Twitter, target, *slot).visible_at <= now);
            return newest.map_or(0, |slot| (slot - first).max(0).unsigned_abs());
        }
        let made = (first..=self.slot(now)).filter(|slot| self.is_made(target, *slot));
        made.filter(|slot| self.post(Network::Twitter, target, *slot).visible_at <= now).count() as u64
    }

    /// Slots, the newest first, of as many days as an account may be silent.
    fn back(&self, now: Millis) -> impl Iterator<Item = i64> {
        const SILENT: f64 = 30.0;
        let newest = self.slot(now);
        let oldest = if self.day_ms > 0.0 { newest - (SILENT * self.day_ms / self.pace_ms) as i64 } else { 0 };
        (oldest.max(0)..=newest).rev()
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
