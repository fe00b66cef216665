//! Posts: their ids, fields and states. No I/O.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::words::stored_as_word;
use engine::base::clock::Millis;

/// The first millisecond of Twitter's Snowflake ids: 2010-11-04T01:42:54.657Z.
pub const SNOWFLAKE_EPOCH_MS: Millis = 1_288_834_974_657;

/// The smallest id that can be a Snowflake.
///
/// Ids before the switch were sequential and reached about 29.7 billion. One millisecond of Snowflake is 2^22 ids.
/// Ids below 7,080 ms (29.7e9 / 2^22) after the epoch are ambiguous and are read as sequential.
const FIRST_SNOWFLAKE: u64 = 29_700_859_248;

/// A tweet's id: 1 to 19 decimal digits, at most 2^63 − 1. It travels as text everywhere else,
/// since a double cannot hold 19 digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TweetId(u64);

/// Reason why a text is no id of its network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadId {
    #[error("the id is empty")]
    Empty,
    #[error("the id has {0} digits; ids have at most 19")]
    TooLong(usize),
    #[error("the id is negative")]
    Negative,
    /// Spreadsheets write large numbers like this.
    #[error("the id is in scientific notation, its last digits are gone; export the column as text")]
    Scientific,
    #[error("the id has a character that is not a digit: {0:?}")]
    NotADigit(char),
    /// Zero, or a leading zero. Twitter writes no such id, and two texts would name one id.
    #[error("the id starts with 0")]
    LeadingZero,
    #[error("the id is larger than an id can be (2^63 - 1)")]
    TooLarge,
    /// Not of the form of Mastodon or Bluesky, or an impossible date in the id.
    #[error("{0}")]
    Form(&'static str),
}

impl TweetId {
    /// Parses an id as Twitter writes it (`id_str`). Surrounding space is an error.
    pub fn parse(text: &str) -> Result<Self, BadId> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if text.is_empty() {
            return Err(BadId::Empty);
        }
        if let Some(odd) = digits.chars().find(|c| !c.is_ascii_digit()) {
            let scientific = matches!(odd, '.' | ',' | 'e' | 'E')
                && digits.chars().any(|c| matches!(c, 'e' | 'E'))
                && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | 'e' | 'E' | '+'));
            return Err(if scientific { BadId::Scientific } else { BadId::NotADigit(odd) });
        }
        if digits.len() != text.len() {
            return Err(BadId::Negative);
        }
        if digits.len() > 19 {
            return Err(BadId::TooLong(digits.len()));
        }
        if digits.starts_with('0') {
            return Err(BadId::LeadingZero);
        }
        match digits.parse::<u64>() {
            Ok(id) if id <= i64::MAX as u64 => Ok(Self(id)),
            _ => Err(BadId::TooLarge),
        }
    }

    /// [`TweetId::created_at`] of an id in its text form.
    pub fn date_of(text: &str) -> Result<Option<Millis>, BadId> {
        Self::parse(text).map(Self::created_at)
    }

    /// Creation time, ms since the epoch, read from the id itself. `None` for sequential ids, which are older than Snowflake
    /// (before 2010-11-04).
    #[must_use]
    pub fn created_at(self) -> Option<Millis> {
        (self.0 >= FIRST_SNOWFLAKE).then(|| {
            // 63 − 22 = 41 bits: always fits.
            (self.0 >> 22) as Millis + SNOWFLAKE_EPOCH_MS
        })
    }

    /// The Snowflake id of time `at` (ms since the epoch) with `sequence` as its low 22 bits: for tests and the simulator.
    #[must_use]
    pub fn at(at: Millis, sequence: u32) -> Self {
        let since = u64::try_from(at - SNOWFLAKE_EPOCH_MS).unwrap_or(0);
        Self((since << 22) | u64::from(sequence & 0x3f_ffff))
    }

    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TweetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts of a post. A count is `None` if the network does not return it; a `None` never overwrites a stored count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct Metrics {
    pub retweet_count: Option<i64>,
    pub favorite_count: Option<i64>,
    /// Not in v1.1 lookups.
    pub reply_count: Option<i64>,
    /// Not in v1.1 lookups.
    pub quote_count: Option<i64>,
    /// X API v2, Bluesky.
    pub bookmark_count: Option<i64>,
    /// Views (X API v2).
    pub impression_count: Option<i64>,
}

/// Weights of the counts, for a schedule that compares responses: events per interaction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    pub likes: f64,
    pub retweets: f64,
    pub replies: f64,
    pub quotes: f64,
    pub views: f64,
}

impl Default for Weights {
    /// Each interaction is one event. Views count as none: they would outweigh every other count.
    fn default() -> Self {
        Self { likes: 1.0, retweets: 1.0, replies: 1.0, quotes: 1.0, views: 0.0 }
    }
}

impl Metrics {
    /// These counts, with the older ones in place of missing ones.
    #[must_use]
    pub fn or(self, older: Self) -> Self {
        Self {
            retweet_count: self.retweet_count.or(older.retweet_count),
            favorite_count: self.favorite_count.or(older.favorite_count),
            reply_count: self.reply_count.or(older.reply_count),
            quote_count: self.quote_count.or(older.quote_count),
            bookmark_count: self.bookmark_count.or(older.bookmark_count),
            impression_count: self.impression_count.or(older.impression_count),
        }
    }
}

/// Further fields of a post that researchers filter by. `None` if the network has no such field, or the object does not
/// state it; a `None` never overwrites a stored value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct Details {
    /// The network's code (`en`, `pt`). Bluesky may state several, comma separated.
    pub lang: Option<String>,
    pub reply_to: Option<String>,
    pub reply_to_author: Option<String>,
    pub retweet_of: Option<String>,
    pub quote_of: Option<String>,
    pub conversation_id: Option<String>,
    pub reply_settings: Option<String>,
    /// Labels of the post and its author that ask for special treatment, comma separated (Bluesky).
    pub labels: Option<String>,
    /// True if its text is cut: by the network, or here for its length ([`truncate_text`](super::bound::truncate_text)).
    pub truncated: Option<bool>,
}

const MEMBERS_ONLY: &str = "!no-unauthenticated";

impl Details {
    /// Returns true if its author wants only logged-in readers to see it.
    #[must_use]
    pub fn is_for_members_only(&self) -> bool {
        self.labels.as_deref().is_some_and(|labels| labels.split(',').any(|label| label == MEMBERS_ONLY))
    }
}

/// A post in an API response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tweet {
    /// The requested id, or a newer one after an edit.
    pub id: String,
    /// Creation time, ms since the epoch; `None` if the response does not state it.
    pub created_at: Option<Millis>,
    /// The full text; `None` if the network shows a notice in its place (withheld).
    pub text: Option<String>,
    pub author_id: Option<String>,
    pub author_name: Option<String>,
    pub metrics: Metrics,
    pub details: Details,
    /// Countries in which it is withheld, comma separated (`XY`: everywhere).
    pub withheld_in: Option<String>,
    /// Ids of newer versions, oldest first (X: an edit makes a new id).
    pub newer: Vec<String>,
    pub raw: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ItemState {
    /// Updated at the interval of its age.
    #[default]
    Live,
    /// The provider did not return it lately. It is looked up again at slow intervals.
    Unavailable,
    /// Tracking is finished: it is past the last bracket, or was missing for too long.
    Ended,
    /// Failed for good: it kept breaking the process that handled it.
    Dead,
}

impl ItemState {
    pub const ALL: [Self; 4] = [Self::Live, Self::Unavailable, Self::Ended, Self::Dead];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Unavailable => "unavailable",
            Self::Ended => "ended",
            Self::Dead => "dead",
        }
    }
}

stored_as_word!(ItemState, "state");

impl fmt::Display for ItemState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Below this, a time in ms is a date before 1973-03-03; in seconds it is a date before the year 5138. A time in ms below
/// this is therefore in seconds.
pub const SECONDS_BELOW: Millis = 100_000_000_000;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ingested {
    pub id: String,
    /// Creation time, ms since the epoch; `None` to read it from the id.
    pub created_at: Option<Millis>,
    /// Further details from the ingest. Boxed: most ingests have none, and many ids are in memory at once.
    pub content: Option<Box<Tweet>>,
    /// Time at which the content was read from the network, ms since the epoch, on the queue's clock; `None`: unknown.
    pub read_at: Option<Millis>,
}

impl Ingested {
    pub fn bare(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }
}

impl From<Tweet> for Ingested {
    /// Keeps the post as content if it has more than an id and a date.
    fn from(tweet: Tweet) -> Self {
        let says_more = tweet.text.is_some()
            || tweet.author_id.is_some()
            || tweet.author_name.is_some()
            || tweet.metrics != Metrics::default();
        Self {
            id: tweet.id.clone(),
            created_at: tweet.created_at,
            content: says_more.then(|| Box::new(tweet)),
            read_at: None,
        }
    }
}
