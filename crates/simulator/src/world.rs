//! The simulated posts: each is a function of the seed, its id and the time. So two runs, or two simulators, agree without
//! storing anything, and a test can compare with the truth.

use super::bits::{SEQUENCE_BITS, SEQUENCE_MASK, author_of};
use super::options::SimulatorOptions;
use super::people::People;
use super::random::{mix, to_unit};
use super::timeline::Timelines;
use engine::base::clock::{self, Millis};
use networks::model::post::TweetId;

/// Exponent of the growth curve. By default a post has 56 % of its final counts after 18 minutes, 83 % after an hour, 99.5 % after a day.
const DECAY: f64 = 1.2;

/// Tail of the final sizes (Pareto's alpha) and its scale: half of all posts end below 3 retweets, a few get thousands.
const TAIL: f64 = 1.1;
const SCALE: f64 = 3.0;

/// Limit of retweets of a post.
const MOST: f64 = 300_000.0;

/// Final number of followers that a post brings: 2 per second when it is an hour old, one per 5 minutes after a day.
const FOLLOWERS_WON: f64 = 50_000.0;

/// Mean age at deletion. Half of the missing posts never existed.
const MEAN_AGE_AT_DELETION_MS: f64 = 6.0 * 3_600_000.0;

/// The last sequential id; and the time of the first tweet, 2006-03-21T20:50:14Z.
const LAST_SEQUENTIAL: f64 = 29_700_859_247.0;
const FIRST_TWEET_MS: Millis = 1_142_974_214_000;

pub(super) const MOST_EDITS: usize = 5;
pub(super) const EDITABLE_MS: Millis = 3_600_000;

const EDIT_PAUSE_MS: Millis = 30_000;

#[derive(Debug, Clone)]
pub struct World {
    seed: u64,
    missing_share: f64,
    withheld_share: f64,
    retweet_share: f64,
    edited_share: f64,
    growth_ms: f64,
    people: People,
    timelines: Timelines,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedTweet {
    pub id: TweetId,
    pub created_at: Millis,
    pub author: u64,
    /// Retweets at that moment; for a retweet, the original's.
    pub retweet_count: i64,
    /// Likes at that moment; 0 for a retweet.
    pub favorite_count: i64,
    pub withheld: bool,
    pub original: Option<Box<SimulatedTweet>>,
}

/// One version of a simulated post of X at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The version itself, under its own id. Its counts are those of the time at which a newer version replaced it.
    pub tweet: SimulatedTweet,
    /// The ids of all versions up to then, oldest first.
    pub history: Vec<TweetId>,
}

impl World {
    pub(super) fn new(options: &SimulatorOptions) -> Self {
        Self {
            seed: options.seed,
            missing_share: options.missing_share,
            withheld_share: options.withheld_share,
            retweet_share: options.retweet_share,
            edited_share: options.edited_share,
            growth_ms: clock::millis(options.growth).max(1) as f64,
            people: People::new(options),
            timelines: Timelines::new(options),
        }
    }

    #[must_use]
    pub fn people(&self) -> &People {
        &self.people
    }

    pub(super) fn timelines(&self) -> &Timelines {
        &self.timelines
    }

    /// The post at `now` (ms since the epoch); `None` if it is not made yet, is deleted, or never existed.
    #[must_use]
    pub fn tweet(&self, id: TweetId, now: Millis) -> Option<SimulatedTweet> {
        let made = created_at(id);
        if made > now || self.deleted_at(id, made).is_some_and(|gone| gone <= now) {
            return None;
        }
        let mut tweet = self.base_tweet(id, made, now);
        tweet.withheld = self.random_unit(id, Salt::Withheld) < self.withheld_share;
        if self.is_retweet(id) {
            // One second to six hours earlier.
            let lag = 1_000 + (self.random_unit(id, Salt::Lag) * 21_600_000.0) as Millis;
            let random = self.random(id, Salt::Lag);
            let original = match self.people.communities() {
                Some(of) => of.post_by(of.peer(tweet.author, random), made - lag, random),
                None => TweetId::at(made - lag, (random & SEQUENCE_MASK) as u32),
            };
            // An id before Snowflake's first has no room for its creation time: then it is no retweet.
            if original.created_at().is_some() {
                let original = self.base_tweet(original, made - lag, now);
                tweet.retweet_count = original.retweet_count;
                tweet.favorite_count = 0;
                tweet.original = Some(Box::new(original));
            }
        }
        Some(tweet)
    }

    /// A version of a post of X at `now` (ms since the epoch), by its own id; `None` if it is not made yet, or its post is gone.
    #[must_use]
    pub fn version(&self, id: TweetId, now: Millis) -> Option<Version> {
        let history = self.history(id, now);
        let first = *history.first()?;
        let newest = self.tweet(first, now)?;
        let seen = match history.iter().find(|later| **later > id) {
            Some(next) => self.tweet(first, created_at(*next))?,
            None => newest,
        };
        Some(Version { tweet: SimulatedTweet { id, created_at: created_at(id), ..seen }, history })
    }

    /// Ids of the versions that a post of X has by `now` (ms since the epoch), oldest first, by the id of any version; also of deleted
    /// posts. Empty if that version does not exist yet.
    #[must_use]
    pub fn history(&self, id: TweetId, now: Millis) -> Vec<TweetId> {
        let all = match self.first_version(id) {
            Some(first) => self.versions(first),
            None => vec![id],
        };
        let history: Vec<TweetId> = all.into_iter().take_while(|version| created_at(*version) <= now).collect();
        if history.contains(&id) { history } else { Vec::new() }
    }

    /// Longest time from a post to one of its versions, in ms.
    pub(super) fn max_edit_delay(&self) -> Millis {
        if self.edited_share > 0.0 { EDITABLE_MS } else { 0 }
    }

    /// The first id of a version's post, computed from the form of the id; `None` for a post that cannot be edited.
    fn first_version(&self, id: TweetId) -> Option<TweetId> {
        let made = id.created_at().filter(|_| self.edited_share > 0.0)?;
        Some(TweetId::at(made - self.edit_delay(id, edit_number(id.get())), (id.get() & SEQUENCE_MASK) as u32))
    }

    /// The ids of all versions that a post will ever have.
    fn versions(&self, first: TweetId) -> Vec<TweetId> {
        let is_edited = self.random_unit(first, Salt::Edited) < self.edited_share && !self.is_retweet(first);
        let edits = if is_edited { 1 + self.random(first, Salt::Edits) % MOST_EDITS as u64 } else { 0 };
        let sequence = |edit: u64| ((edit << SEQUENCE_BITS) | (first.get() & SEQUENCE_MASK)) as u32;
        (0..=edits).map(|edit| TweetId::at(created_at(first) + self.edit_delay(first, edit), sequence(edit))).collect()
    }

    /// Time from a post to its edit with this number, in ms. It depends only on the part that the ids of all versions share.
    fn edit_delay(&self, version: TweetId, edit: u64) -> Millis {
        let span = (EDITABLE_MS / MOST_EDITS as Millis - EDIT_PAUSE_MS) as f64;
        let pause = |edit| {
            let random = self.random_for((edit << SEQUENCE_BITS) | (version.get() & SEQUENCE_MASK), Salt::Edits);
            EDIT_PAUSE_MS + (to_unit(random) * span) as Millis
        };
        (1..=edit).map(pause).sum()
    }

    fn is_retweet(&self, id: TweetId) -> bool {
        self.random_unit(id, Salt::Retweet) < self.retweet_share
    }

    /// Followers that a post of time `made` has brought its author by `now`, both in ms since the epoch: real objects change at nearly
    /// every lookup, too. 0 if accounts change, and with planted groups.
    pub(super) fn gained_followers(&self, made: Millis, now: Millis) -> u64 {
        if self.people.are_changing() || self.people.communities().is_some() {
            0
        } else {
            (FOLLOWERS_WON * self.growth(made, now)) as u64
        }
    }

    pub(super) fn random(&self, id: TweetId, salt: Salt) -> u64 {
        self.random_for(id.get(), salt)
    }

    fn random_for(&self, number: u64, salt: Salt) -> u64 {
        mix(mix(self.seed ^ (salt as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ number)
    }

    fn random_unit(&self, id: TweetId, salt: Salt) -> f64 {
        to_unit(self.random(id, salt))
    }

    fn deleted_at(&self, id: TweetId, made: Millis) -> Option<Millis> {
        if self.random_unit(id, Salt::Missing) >= self.missing_share {
            return None;
        }
        let when = self.random_unit(id, Salt::Deleted);
        // The upper half of the range, stretched to 0..1, through the exponential's inverse.
        let age = if when < 0.5 { 0.0 } else { -(2.0 - 2.0 * when).ln() * MEAN_AGE_AT_DELETION_MS };
        Some(made.saturating_add(age as Millis))
    }

    /// Share of its final counts that a post of time `made` has by `now`.
    fn growth(&self, made: Millis, now: Millis) -> f64 {
        1.0 - (1.0 + (now - made).max(0) as f64 / self.growth_ms).powf(-DECAY)
    }

    fn author(&self, id: TweetId) -> u64 {
        let author = author_of(self.seed, id.get());
        self.people.communities().map_or(author, |communities| communities.author(author))
    }

    fn base_tweet(&self, id: TweetId, made: Millis, now: Millis) -> SimulatedTweet {
        let grown = self.growth(made, now);
        let retweets = (SCALE * ((1.0 - self.random_unit(id, Salt::Size)).powf(-1.0 / TAIL) - 1.0)).min(MOST);
        // Likes grow with retweets, two to six per retweet, and a few come without.
        let likes =
            retweets * (2.0 + 4.0 * self.random_unit(id, Salt::Likes)) + 5.0 * self.random_unit(id, Salt::Withheld);
        SimulatedTweet {
            id,
            created_at: made,
            author: self.author(id),
            // Rounding down a product of a constant and a growing share never falls.
            retweet_count: (retweets * grown) as i64,
            favorite_count: (likes * grown) as i64,
            withheld: false,
            original: None,
        }
    }
}

/// Creation time of an id. A sequential id is placed on the curve on which Twitter's ids grew (the fourth power of the time).
pub(super) fn created_at(id: TweetId) -> Millis {
    id.created_at().unwrap_or_else(|| {
        let span = (networks::model::post::SNOWFLAKE_EPOCH_MS - FIRST_TWEET_MS) as f64;
        let made = FIRST_TWEET_MS + (span * (id.get() as f64 / LAST_SEQUENTIAL).powf(0.25)) as Millis;
        // Whole seconds, as `created_at` is written.
        made / 1000 * 1000
    })
}

/// The number of the edit that made a version; 0 for a first version.
fn edit_number(id: u64) -> u64 {
    (id >> SEQUENCE_BITS) & 0b111
}

pub(super) fn is_later_version(id: u64) -> bool {
    edit_number(id) > 0
}

/// The random choices: the same id gets an independent number for each.
#[derive(Debug, Clone, Copy)]
pub(super) enum Salt {
    Missing = 1,
    Deleted,
    Withheld,
    Retweet,
    Lag,
    Size,
    Likes,
    Text = 9,
    Order,
    Edited,
    Edits,
}
