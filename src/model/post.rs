//! The vocabulary: what a tweet is to us. No I/O.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::words::stored_as_word;
use crate::base::clock::Millis;

/// The first millisecond of Twitter's Snowflake ids: 2010-11-04T01:42:54.657Z.
pub const SNOWFLAKE_EPOCH_MS: Millis = 1_288_834_974_657;

/// The smallest id that can be a Snowflake: one millisecond after the epoch.
///
/// Ids before the switch were sequential and reached about 29.7 billion; one millisecond of
/// Snowflake is 2^22 ids, so everything below 7,080 ms (29.7e9 / 2^22) after the epoch is ambiguous
/// and is read as sequential.
const FIRST_SNOWFLAKE: u64 = 29_700_859_248;

/// A tweet's id: 1 to 19 decimal digits, at most 2^63 − 1. It travels as text everywhere else,
/// since a double cannot hold 19 digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TweetId(u64);

/// Why a text is not a tweet id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadId {
    /// Nothing there.
    #[error("the id is empty")]
    Empty,
    /// More than 19 digits.
    #[error("the id has {0} digits; ids have at most 19")]
    TooLong(usize),
    /// Below zero.
    #[error("the id is negative")]
    Negative,
    /// As spreadsheets write large numbers.
    #[error("the id is in scientific notation, its last digits are gone; export the column as text")]
    Scientific,
    /// Something else than a digit.
    #[error("the id has a character that is not a digit: {0:?}")]
    NotADigit(char),
    /// Zero, or a leading zero: not how Twitter writes ids, and two texts for one id.
    #[error("the id starts with 0")]
    LeadingZero,
    /// Beyond a signed 64-bit integer.
    #[error("the id is larger than an id can be (2^63 - 1)")]
    TooLarge,
}

impl TweetId {
    /// Reads an id as Twitter writes it (`id_str`). No surrounding space is taken off here.
    ///
    /// # Errors
    /// Not an id; says why.
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

    /// [`TweetId::created_at`] of an id as it is written.
    ///
    /// # Errors
    /// Not an id; says why.
    pub fn date_of(text: &str) -> Result<Option<Millis>, String> {
        Self::parse(text).map(Self::created_at).map_err(|why| why.to_string())
    }

    /// When the tweet was made, ms since the epoch, read from the id itself; `None` for ids older than Snowflake
    /// (before 2010-11-04), which were handed out in sequence.
    #[must_use]
    pub fn created_at(self) -> Option<Millis> {
        (self.0 >= FIRST_SNOWFLAKE).then(|| {
            // 63 − 22 = 41 bits: always fits.
            (self.0 >> 22) as Millis + SNOWFLAKE_EPOCH_MS
        })
    }

    /// The least id that Snowflake could have made at `at`, ms since the epoch: for tests and the simulator.
    #[must_use]
    pub fn at(at: Millis, sequence: u32) -> Self {
        let since = u64::try_from(at - SNOWFLAKE_EPOCH_MS).unwrap_or(0);
        Self((since << 22) | u64::from(sequence & 0x3f_ffff))
    }

    /// The id as a number.
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

/// The counts of a tweet. A network that does not give one leaves it `None`; a `None` never
/// overwrites a stored count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct Metrics {
    /// Retweets, reposts, reblogs.
    pub retweet_count: Option<i64>,
    /// Likes, favourites.
    pub favorite_count: Option<i64>,
    /// Replies; v1.1 lookups do not give them.
    pub reply_count: Option<i64>,
    /// Quotes; v1.1 lookups do not give them.
    pub quote_count: Option<i64>,
    /// Bookmarks (X API v2, Bluesky).
    pub bookmark_count: Option<i64>,
    /// Views (X API v2).
    pub impression_count: Option<i64>,
}

/// Weights of the counts, for a schedule that compares answers: events per interaction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Of [`Metrics::favorite_count`].
    pub likes: f64,
    /// Of [`Metrics::retweet_count`].
    pub retweets: f64,
    /// Of [`Metrics::reply_count`].
    pub replies: f64,
    /// Of [`Metrics::quote_count`].
    pub quotes: f64,
    /// Of [`Metrics::impression_count`].
    pub views: f64,
}

impl Default for Weights {
    /// Each interaction is one event. Views are none: they are so many that no other count would matter.
    fn default() -> Self {
        Self { likes: 1.0, retweets: 1.0, replies: 1.0, quotes: 1.0, views: 0.0 }
    }
}

impl Metrics {
    /// These counts, and the older ones where one is missing.
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

/// Further fields of a tweet, beside its text and counts, that researchers filter by. `None` where the network has no
/// such thing, or the object does not say; it never overwrites what is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct Details {
    /// Its language, as the network calls it (`en`, `pt`; several of Bluesky's are comma separated).
    pub lang: Option<String>,
    /// The id of the post it replies to.
    pub reply_to: Option<String>,
    /// The id of the account it replies to.
    pub reply_to_author: Option<String>,
    /// The id of the post that it repeats.
    pub retweet_of: Option<String>,
    /// The id of the post that it quotes.
    pub quote_of: Option<String>,
    /// The id of the post that the conversation began with.
    pub conversation_id: Option<String>,
    /// Who may reply (X).
    pub reply_settings: Option<String>,
    /// Labels of the post and of its author that say how to treat it, comma separated (Bluesky).
    pub labels: Option<String>,
    /// True if its text is cut short: by the network, or here for its length ([`bounded`](super::bound::bounded)).
    pub truncated: Option<bool>,
}

/// The label of what is to be shown only to people who are logged in (Bluesky).
const MEMBERS_ONLY: &str = "!no-unauthenticated";

impl Details {
    /// Returns true if its author asks that only people who are logged in see it.
    #[must_use]
    pub fn is_for_members_only(&self) -> bool {
        self.labels.as_deref().is_some_and(|labels| labels.split(',').any(|label| label == MEMBERS_ONLY))
    }
}

/// A tweet as a provider answered it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tweet {
    /// The id the provider gave it: the asked one, or a newer one after an edit.
    pub id: String,
    /// When it was made, ms since the epoch; `None` where the answer does not say.
    pub created_at: Option<Millis>,
    /// The full text; `None` where a notice stands in its place (withheld).
    pub text: Option<String>,
    /// The author's id.
    pub author_id: Option<String>,
    /// The author's handle, without `@`.
    pub author_name: Option<String>,
    /// Its counts.
    pub metrics: Metrics,
    /// Its other fields.
    pub details: Details,
    /// Countries in which it is withheld, comma separated (`XY`: everywhere); `None` when it is not.
    pub withheld_in: Option<String>,
    /// Ids of versions that are newer than this one, oldest first (X: an edit makes a new id).
    pub newer: Vec<String>,
    /// The object as it came.
    pub raw: String,
}

impl Tweet {
    /// One of an id, of which there is no object: what says that an item without columns of its own lives.
    #[must_use]
    pub fn without_object(id: &str) -> Self {
        Self { id: id.to_owned(), raw: "{}".to_owned(), ..Self::default() }
    }
}

/// The state of a tweet's life in the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TweetState {
    /// Updated by its age.
    #[default]
    Live,
    /// The provider did not return it lately; looked up again at slow intervals.
    Unavailable,
    /// Its life is over: past the last bracket, or missing for too long.
    Ended,
    /// Buried: it kept breaking the process that handled it.
    Dead,
}

impl TweetState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Live, Self::Unavailable, Self::Ended, Self::Dead];

    /// The word in the database, in `status` and on the page.
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

stored_as_word!(TweetState, "state");

impl fmt::Display for TweetState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Below this a number of milliseconds since the epoch is a date before 1973-03-03, and the same
/// number in seconds one before the year 5138: where milliseconds are meant, it is in seconds.
pub const SECONDS_BELOW: Millis = 100_000_000_000;

/// A tweet as an ingest hands it over.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ingested {
    /// The unchecked id under which it is looked up.
    pub id: String,
    /// When it was made, ms since the epoch; `None` to take it from the id.
    pub created_at: Option<Millis>,
    /// Further details from the ingest. Mostly there are none, and many ids are held at once.
    pub content: Option<Box<Tweet>>,
    /// When the content was read from the network, ms since the epoch, on the queue's clock; `None`: its age is unknown.
    pub read_at: Option<Millis>,
}

impl Ingested {
    /// A tweet of which the id is all that is known.
    pub fn bare(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }
}

impl From<Tweet> for Ingested {
    /// Keeps the tweet as content where it says more than an id and a date.
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
