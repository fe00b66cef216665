//! The posts of simulated timelines.
//!
//! A timeline has posts at an even pace, without start or end. Each becomes visible some time after the creation time in its
//! id, so ids become visible out of order. The posts of a timeline depend on the seed and on its query or account.
//!
//! If accounts have [days](SimulatorOptions::posting_day), each has its own rate and hours. Half of them post less than once
//! per day, three in ten post one to ten times, the others twenty times on average (as paper 002 counted). They post more by
//! day than by night (`HOURS`, from real accounts).

use super::bits::{AUTHOR_MASK, SEQUENCE_MASK, author_bits};
use super::options::SimulatorOptions;
use super::random::{mix, to_unit};
use super::text::{author_with_handle, author_with_id, user_id};
use engine::base::clock::{self, Millis};
use networks::model::post::{SNOWFLAKE_EPOCH_MS, TweetId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Twitter and X; Bluesky's uris are made of these ids.
    Twitter,
    Mastodon,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelinePost {
    /// The world's id, which contains the creation time.
    pub id: TweetId,
    /// Time at which it becomes visible, ms since the epoch.
    pub visible_at: Millis,
}

/// Target of a timeline: a user (a number, `@handle` or `from:handle`), whose posts have one author; or a search, a list, or the
/// caller of a home timeline. A user that the world lacks is mapped to one that it has.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    random: u64,
    pub author: Option<u64>,
}

/// Number of authors that stand in for users that the world does not have.
const STAND_INS: u64 = 20_000;

impl Target {
    pub fn parse(text: &str) -> Self {
        let stand_in = || random(text) % STAND_INS;
        match (text.parse(), Self::parse_handle(text)) {
            (Ok(id), _) => Self::from_author(author_with_id(id).unwrap_or_else(stand_in)),
            (_, Some(handle)) => Self::from_author(author_with_handle(handle).unwrap_or_else(stand_in)),
            _ => Self { random: random(text), author: None },
        }
    }

    pub fn from_author(author: u64) -> Self {
        Self { random: random(&user_id(author).to_string()), author: Some(author) }
    }

    /// Handle in the name of a timeline (`@handle`, `from:handle`); `None` for another name.
    pub fn parse_handle(text: &str) -> Option<&str> {
        text.strip_prefix('@').or_else(|| text.strip_prefix("from:"))
    }
}

fn random(text: &str) -> u64 {
    text.bytes().fold(0, |sum, byte| mix(sum ^ u64::from(byte)))
}

/// All timelines: their pace, and the delay of their posts.
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

/// Posts in the hours of a day by UTC, as multiples of the mean (`dapurv5/twitter-influence-propagation-dataset`, 2016).
const HOURS: [f64; 24] = [
    1.245, 1.281, 1.239, 1.148, 1.162, 1.184, 1.187, 1.187, 1.019, 0.823, 0.712, 0.604, 0.552, 0.557, 0.584, 0.683,
    0.801, 0.931, 1.057, 1.168, 1.251, 1.227, 1.186, 1.212,
];
/// Exponent of the hours: one account's nights are darker than the mean of many time zones.
const CONTRAST: f64 = 3.0;

impl Timelines {
    pub fn new(options: &SimulatorOptions) -> Self {
        let pace_ms = 1_000.0 / options.posts_per_second.clamp(0.001, 500.0);
        let [late_ms, day_ms] = [options.posts_late, options.posting_day].map(clock::millis);
        let hours = HOURS.map(|hour| hour.powf(CONTRAST));
        let hours = (hours, hours.iter().sum());
        Self { seed: options.seed, pace_ms, late_ms, day_ms: day_ms as f64, hours }
    }

    /// The slot of a time; each slot has one post.
    pub fn slot(&self, at: Millis) -> i64 {
        (at as f64 / self.pace_ms) as i64
    }

    pub fn slot_start(&self, slot: i64) -> Millis {
        (slot as f64 * self.pace_ms) as Millis
    }

    pub fn late_ms(&self) -> Millis {
        self.late_ms
    }

    fn random(&self, target: Target, slot: i64, of: u64) -> u64 {
        mix(mix(self.seed ^ target.random ^ of.wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ slot.unsigned_abs())
    }

    /// Creation time of the post of a slot, ms since the epoch: a random time in the slot.
    pub fn post_time(&self, target: Target, slot: i64) -> Millis {
        ((slot as f64 + to_unit(self.random(target, slot, 1))) * self.pace_ms) as Millis
    }

    pub fn posts_per_day(&self, author: u64) -> f64 {
        let random = mix(self.seed ^ user_id(author).wrapping_mul(0x2545_f491_4f6c_dd1d));
        let (group, within) = (to_unit(random), to_unit(mix(random)));
        let rate = match group {
            of if of < 0.5 => within,
            of if of < 0.8 => 10.0_f64.powf(within),
            _ => 20.0 * -(1.0 - within).max(1e-3).ln(),
        };
        rate.min(self.day_ms / self.pace_ms / 4.0)
    }

    /// Returns true if a slot has a post. If accounts have days, not every slot has one.
    pub fn has_post(&self, target: Target, slot: i64) -> bool {
        let Some(author) = target.author.filter(|_| self.day_ms > 0.0) else { return true };
        // Its noon is at a random time of the day.
        let zone = to_unit(mix(mix(user_id(author)) ^ self.seed));
        let day = (slot as f64 * self.pace_ms / self.day_ms + zone).rem_euclid(1.0);
        let (hours, sum) = &self.hours;
        let hour = hours[(day * 24.0) as usize % 24];
        let slots = self.day_ms / self.pace_ms;
        to_unit(self.random(target, slot, 4)) < self.posts_per_day(author) / slots * hour / sum * 24.0
    }

    pub fn post(&self, network: Network, target: Target, slot: i64) -> TimelinePost {
        let made = self.post_time(target, slot);
        let late = self.late_ms as f64 * to_unit(self.random(target, slot, 2));
        let drawn = self.random(target, slot, 3) & network.sequence();
        let sequence = match target.author {
            Some(author) => drawn & !AUTHOR_MASK | author_bits(self.seed, author),
            None => drawn,
        };
        TimelinePost { id: TweetId::at(made, sequence as u32), visible_at: made + late as Millis }
    }

    /// The newest visible post of an author, among its last days; deleted posts count.
    pub fn newest_post(&self, author: u64, now: Millis) -> Option<TimelinePost> {
        let target = Target::from_author(author);
        let made = self.recent_slots(now).filter(|slot| self.has_post(target, *slot));
        made.map(|slot| self.post(Network::Twitter, target, slot)).find(|post| post.visible_at <= now)
    }

    pub fn count_posts(&self, author: u64, from: Millis, now: Millis) -> u64 {
        let (target, first) = (Target::from_author(author), self.slot(from));
        if self.day_ms == 0.0 {
            let newest =
                self.recent_slots(now).find(|slot| self.post(Network::Twitter, target, *slot).visible_at <= now);
            return newest.map_or(0, |slot| (slot - first).max(0).unsigned_abs());
        }
        let made = (first..=self.slot(now)).filter(|slot| self.has_post(target, *slot));
        made.filter(|slot| self.post(Network::Twitter, target, *slot).visible_at <= now).count() as u64
    }

    /// Slots of the last 30 days of an account, or all slots if it posts evenly; newest first.
    fn recent_slots(&self, now: Millis) -> impl Iterator<Item = i64> {
        const LONGEST_PAUSE_DAYS: f64 = 30.0;
        let newest = self.slot(now);
        let oldest =
            if self.day_ms > 0.0 { newest - (LONGEST_PAUSE_DAYS * self.day_ms / self.pace_ms) as i64 } else { 0 };
        (oldest.max(0)..=newest).rev()
    }
}

impl Network {
    /// The bits below the time that differ from post to post.
    fn sequence(self) -> u64 {
        match self {
            // The other bits are the version of a post.
            Self::Twitter => SEQUENCE_MASK,
            Self::Mastodon => 0xffff,
        }
    }

    pub fn made_at(self, id: u64) -> Millis {
        match self {
            Self::Twitter => (id >> 22) as Millis + SNOWFLAKE_EPOCH_MS,
            Self::Mastodon => (id >> 16) as Millis,
        }
    }

    pub fn id(self, post: TweetId) -> u64 {
        match (self, post.created_at()) {
            (Self::Mastodon, Some(made)) => ((made as u64) << 16) | (post.get() & 0xffff),
            _ => post.get(),
        }
    }
}
