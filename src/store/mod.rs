//! The store of tweets: the current state of each, and the history of its metrics. It also stores how far each polled
//! source has been read ([`Positions`]), which accounts are visited ([`FollowList`]), who follows whom ([`Edges`]), and who
//! belongs to which community ([`Communities`]).
//!
//! One trait, two backends ([`PostgresStore`], [`SqliteStore`]), one contract suite (`tests/it/store.rs`).
//!
//! Rules every backend keeps:
//! - every call is one transaction over the whole batch (set-based), and repeating it changes nothing;
//! - an answer older than the stored one changes nothing and is counted ([`Saved::older`]);
//! - a history row is written only when a count differs from the stored one;
//! - a `None` never overwrites a stored value;
//! - *dead* and *ended* stand here before they stand in the queue.
//!
//! The effect of an answer, a recording and a burial on a row is defined once, in SQL that both databases take as it is
//! (`sql/merge.sql`, `sql/revive.sql`, `sql/bury.sql`, `sql/exhume.sql`); NUL characters, which a database text cannot
//! hold, are stored as U+FFFD.

mod accounts;
mod budget;
mod communities;
mod crawling;
mod edges;
mod error;
pub mod export;
mod followed;
mod forget;
mod graph;
mod list_totals;
mod media;
mod packed;
mod positions;
mod postgres;
mod pseudonyms;
mod rows;
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

pub use self::accounts::{AccountTotal, Accounts, Bearer, CountsAt, KeptHandle, Sighting, Signs, StoredAccount};
pub use self::budget::{Budgets, Learnt};
pub use self::communities::{
    Appearance, BelongingChange, Communities, CommunityAccount, CommunitySize, Decision, Facts, FoundPost, Growth,
    HandDecision, KnownAccount, Mark, Neighbours, PostLanguage, PostText, ProfileFacts, Reason, StoredAppearance,
    Unwanted, UnwantedPost,
};
pub use self::edges::{
    CrawlEnd, CrawlKind, CrawlRecord, CrawlUnderWay, Edge, EdgeChange, EdgePage, EdgePlace, Edges, End, Ended, Follow,
    ListCrawl, MemberAt, MemberSeen, NewCrawl, Next, OVERLAP, PageSaved, WaveGuard, brings_nothing,
};
pub use self::followed::{FollowList, FollowedAccount, Part};
pub use self::forget::{Forgetting, ItemsOf, PersonOf, RemovedRows, network, providers};
pub use self::graph::{GraphPart, GraphWanted, Graphs, Interval, Node, Scope, Visit};
pub use self::list_totals::{ListBounds, ListTotals, TIERS, TierTotal, UnreadTotal};
pub use self::media::{Looked, MediaStore, MediaTotal, MediumSeen, MediumTried, Room, StoredMedium, Taken};
pub use self::positions::{Positions, SavedPage, SavedSource, SourceGap, SourceRow, SourceTrouble};
pub use self::postgres::PostgresStore;
pub use self::sqlite::SqliteStore;
use crate::base::clock::Millis;
use crate::model::account::Absence;
use crate::model::post::{Details, Metrics, Tweet, TweetState};

/// A tweet the starter hands over, before it is scheduled.
#[derive(Debug, Clone)]
pub struct NewTweet {
    /// The id under which it is looked up.
    pub id: String,
    /// When it was made, ms since the epoch, if known.
    pub created_at: Option<Millis>,
    /// When its first update is due, ms since the epoch; `None` when it is too old to be updated.
    pub next_due: Option<Millis>,
    /// The ingest's data about it. Kept only until the first answer, which overwrites it.
    pub content: Option<Box<Tweet>>,
    /// When the content was read from the network, on the queue's clock, ms since the epoch. Its counts are then those of an answer
    /// of that time: they make a history row, and replace older ones. `None`: its age is unknown, and its counts make no row.
    pub read_at: Option<Millis>,
}

/// By which way tweets came.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, sqlx_macros::FromRow)]
pub struct Way {
    /// The way by which they came: `enqueue`, `once`, `http`, `incoming`, `poll`, `stream`, `rebuild`, `fan_out`.
    pub pipeline: String,
    /// Which of its sources: the name of a file, of a source in the settings, or of the pipeline that fans out. Empty
    /// where there is one only.
    pub source: String,
    /// The request of that source: a query, an account.
    pub query: Option<String>,
}

/// The way of what is to be looked up once. What came by another way, too, is looked up by its age.
pub const ONCE: &str = "once";

impl Way {
    /// A way that has one source only.
    #[must_use]
    pub fn of(pipeline: &str) -> Self {
        Self { pipeline: pipeline.to_owned(), source: String::new(), query: None }
    }
}

/// The effect of [`Lifecycle::record`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Rows that were not there.
    pub new: u64,
    /// Rows that were there and stay as they are.
    pub known: u64,
    /// Rows that were *ended* and live again.
    pub revived: u64,
}

/// The stored state of a tweet before an answer is judged.
#[derive(Debug, Clone, Default, PartialEq, sqlx_macros::FromRow)]
pub struct Standing {
    /// Its state.
    pub state: TweetState,
    /// When it was made, ms since the epoch.
    pub created_at: Option<Millis>,
    /// When the newest answer about it was given, ms since the epoch; `None` before the first.
    pub checked_at: Option<Millis>,
    /// The number of misses in a row.
    pub misses: i64,
    /// Since when it is not returned, ms since the epoch.
    pub missing_since: Option<Millis>,
    /// When it was recorded, ms since the epoch.
    pub first_seen: Millis,
    /// Answers stored about it, misses included.
    pub lookups: i64,
    /// The id of the version that is to be asked for, where it differs (edits).
    pub current_id: Option<String>,
    /// Why its newest answer could not be read.
    pub unreadable: Option<String>,
    /// Its counts.
    #[sqlx(flatten)]
    pub metrics: Metrics,
    /// [`Observation::recent`] of the newest answer that found it.
    pub recent: Option<f64>,
    /// True if it is looked up once only: all its ways are [`ONCE`].
    pub once: bool,
    /// True if it was found, and its content was erased since. Kinds without an object of their own always are.
    pub is_blanked: bool,
}

impl Standing {
    /// Returns true if an answer has found it, and no miss since was believed. An id that no answer ever found is known
    /// to be nothing: half of an old archive may be gone, which is no wave.
    #[must_use]
    pub fn is_known_to_live(&self) -> bool {
        self.state == TweetState::Live && self.was_found()
    }

    /// Returns true if an answer has found it.
    #[must_use]
    pub fn was_found(&self) -> bool {
        self.lookups > self.misses
    }
}

/// The newest stored answer about an item, as far as the next one is compared with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, sqlx_macros::FromRow)]
pub struct LastAnswer {
    /// When it was given, ms since the epoch; `None` before the first.
    pub checked_at: Option<Millis>,
    /// The number of misses in a row: 0 where it found the item.
    pub misses: i64,
    /// The item's counts.
    #[sqlx(flatten)]
    pub metrics: Metrics,
    /// [`Observation::recent`].
    pub recent: Option<f64>,
}

impl From<&Standing> for LastAnswer {
    fn from(&Standing { checked_at, misses, metrics, recent, .. }: &Standing) -> Self {
        Self { checked_at, misses, metrics, recent }
    }
}

/// One answer about one item, judged and ready to be stored.
#[derive(Debug, Clone)]
pub struct Observation<T = Tweet> {
    /// The id that was asked for: the row's key.
    pub id: String,
    /// When the answer was given, on the queue's clock, ms since the epoch.
    pub answered_at: Millis,
    /// The observation.
    pub seen: Seen<T>,
    /// The state it is in from now on.
    pub state: TweetState,
    /// When it is due again, ms since the epoch; `None` when its life is over.
    pub next_due: Option<Millis>,
    /// The id of a newer version, which is to be asked for next; `None`: the newest known one was.
    pub follow: Option<String>,
    /// It was deleted, and what it said is to be forgotten: its text with its former ones, its author and its object. Its
    /// id, its times and its counts stay.
    pub forget: bool,
    /// Recent events of the item as of this answer, in weighted counts: an adaptive schedule wants them back after the next
    /// one. `None` where there was no count, or the schedule goes by age alone.
    pub recent: Option<f64>,
}

/// The record of an item without columns of its own.
#[derive(Debug, Clone)]
pub struct Object {
    /// When it was made, ms since the epoch, where it says so.
    pub created_at: Option<Millis>,
    /// As it came.
    pub raw: String,
}

impl<T> Observation<T> {
    /// An answer about an item that stays the same, and of which nothing is counted.
    #[must_use]
    pub fn new(id: &str, answered_at: Millis, seen: Seen<T>, state: TweetState, next_due: Option<Millis>) -> Self {
        Self { id: id.to_owned(), answered_at, seen, state, next_due, follow: None, forget: false, recent: None }
    }

    /// The same answer, of which the object is kept and nothing else.
    pub fn of_object(&self, object: impl FnOnce(&T) -> Object) -> Observation {
        let seen = match &self.seen {
            Seen::Found(item) => {
                let Object { created_at, raw } = object(item);
                Seen::Found(Tweet { id: self.id.clone(), created_at, raw, ..Tweet::default() })
            }
            Seen::Missing { misses, since, reason, .. } => {
                Seen::Missing { misses: *misses, since: *since, reason: *reason, handle: None }
            }
            Seen::Broken(why) => Seen::Broken(why.clone()),
        };
        Observation {
            id: self.id.clone(),
            answered_at: self.answered_at,
            seen,
            state: self.state,
            next_due: self.next_due,
            follow: self.follow.clone(),
            forget: self.forget,
            recent: self.recent,
        }
    }
}

/// An answer about one item.
#[derive(Debug, Clone)]
pub enum Seen<T = Tweet> {
    /// Returned. Clears misses; sets or clears the withheld mark. A text that is cut short does not replace a longer one of
    /// the same version, and none replaces no text.
    Found(T),
    /// Not returned: absolute figures, so that a repeated save counts nothing twice.
    Missing {
        /// Misses in a row, this one included.
        misses: i64,
        /// When the first of them was answered, ms since the epoch.
        since: Millis,
        /// Why, where the answer says it.
        reason: Option<Absence>,
        /// The handle of an account, where the answer states it all the same.
        handle: Option<String>,
    },
    /// Returned in a shape we cannot read, or not mentioned; says why. Only that and the next due time are stored. It is
    /// no answer, so it makes the post look no fresher.
    Broken(String),
}

/// The effect of [`Posts::save`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Saved {
    /// Rows written (repeated ones included).
    pub saved: u64,
    /// Answers refused because a newer one is stored, or the tweet is dead.
    pub older: u64,
    /// History rows written: a count had changed.
    pub changed: u64,
}

/// A stored tweet, whole.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, sqlx_macros::FromRow)]
pub struct StoredTweet {
    /// The id under which it is looked up.
    pub id: String,
    /// Its state.
    pub state: TweetState,
    /// When it was made, ms since the epoch.
    pub created_at: Option<Millis>,
    /// The newest known id of it (after edits), where it differs.
    pub current_id: Option<String>,
    /// Its text.
    pub text: Option<String>,
    /// The author's id.
    pub author_id: Option<String>,
    /// The author's handle.
    pub author_name: Option<String>,
    /// Its counts.
    #[sqlx(flatten)]
    pub metrics: Metrics,
    /// Its fields beside its text and its counts.
    #[serde(flatten)]
    #[sqlx(flatten)]
    pub details: Details,
    /// Countries in which it is withheld, comma separated; `None` when it is not.
    pub withheld_in: Option<String>,
    /// The newest object as the provider sent it.
    pub raw: Option<String>,
    /// When the starter recorded it, ms since the epoch.
    pub first_seen: Millis,
    /// When the newest answer about it was given, ms since the epoch.
    pub checked_at: Option<Millis>,
    /// When it is due again, ms since the epoch.
    pub next_due: Option<Millis>,
    /// Answers stored about it.
    pub lookups: i64,
    /// Misses in a row.
    pub misses: i64,
    /// Since when it is missing, ms since the epoch.
    pub missing_since: Option<Millis>,
    /// Why it is missing, as the network states it ([`Absence::as_str`]).
    pub missing_reason: Option<String>,
    /// Why it is dead.
    pub reason: Option<String>,
    /// Why its newest answer could not be read; `None` when it could.
    pub unreadable: Option<String>,
    /// [`Observation::recent`] of the newest answer that found it. Internal, so it is not shown.
    #[serde(skip)]
    pub recent: Option<f64>,
}

/// One change of a tweet itself, beside its counts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, sqlx_macros::FromRow)]
pub struct Change {
    /// When the answer was given that showed it, ms since the epoch.
    pub at: Millis,
    /// The changed field: `text`, `current_id`, `withheld_in`, `reply_settings` or `state`.
    pub field: String,
    /// As it was.
    #[sqlx(rename = "old_value")]
    pub old: Option<String>,
    /// As it is from then on.
    #[sqlx(rename = "new_value")]
    pub new: Option<String>,
}

/// One row of a tweet's history: its counts from `checked_at` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct MetricsAt {
    /// When the answer was given, ms since the epoch.
    pub checked_at: Millis,
    /// The counts then.
    #[sqlx(flatten)]
    pub metrics: Metrics,
}

/// The number of tweets by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct StateCounts {
    /// See [`TweetState::Live`].
    pub live: u64,
    /// See [`TweetState::Unavailable`].
    pub unavailable: u64,
    /// See [`TweetState::Ended`].
    pub ended: u64,
    /// See [`TweetState::Dead`].
    pub dead: u64,
}

/// Which of the *ended* have expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    /// Those whose newest answer is older than this moment, ms since the epoch; where there was none, those recorded before.
    Before(Millis),
    /// Those that an answer had, that the network has deleted since, and whose content is forgotten
    /// ([`Observation::forget`]).
    Deleted,
}

/// The tweets that a page lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// The tweets that belong into the queue: *live* and *unavailable*.
    Living,
    /// The *dead*.
    Dead,
    /// The *ended*.
    Ended,
}

/// A tweet on a page.
#[derive(Debug, Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Listed {
    /// The id under which it is looked up.
    pub id: String,
    /// Its state.
    pub state: TweetState,
    /// When it was made, ms since the epoch.
    pub created_at: Option<Millis>,
    /// When it is due again, ms since the epoch; `None` when it is dead.
    pub next_due: Option<Millis>,
    /// When the newest answer about it was given, ms since the epoch; `None` before the first.
    pub checked_at: Option<Millis>,
    /// Why it is dead.
    pub reason: Option<String>,
    /// True if it is looked up once only: all its ways are [`ONCE`].
    pub once: bool,
}

/// A dead tweet that is to live again, or whose life is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exhumed {
    /// The id under which it is looked up.
    pub id: String,
    /// When it was made, ms since the epoch; fills in what is unknown.
    pub created_at: Option<Millis>,
    /// When it is due, ms since the epoch; `None` ends its life.
    pub next_due: Option<Millis>,
}

/// Reads the details out of a raw object of that namespace; `None` where it cannot.
pub type DetailsOf = fn(namespace: &str, raw: &str) -> Option<Details>;

/// The errors of the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why the store could not do it. The variants are what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was stored, or it is not known whether it was; the same call may be made again.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The tables are missing or of another version; the text says what to do.
    #[error("{0}")]
    Schema(String),
    /// The store's file was deleted or replaced: nothing is written any more, and the process has to stop.
    #[error("{0}")]
    Gone(String),
    /// The statement cannot succeed however often it is made: a bug or a corrupt table.
    #[error("the store refused the statement: {0}")]
    Refused(String),
}

impl StoreError {
    /// Returns true if the same call may succeed later by itself.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// A transaction that began long ago and continues. What is written meanwhile cannot be cleaned up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OldReader {
    /// The age of the transaction, ms.
    pub age_ms: Millis,
    /// The session or the reader, in words for people.
    pub what: String,
}

/// The life of items of every kind: recorded, looked up again, missing, ended or dead.
///
/// `namespace` is a pipeline (`tweet:update`); ids are unique inside one.
///
/// # Errors
/// Every call's: [`StoreError::Unavailable`] when it is not known whether it was done; the same call may be made
/// again. [`StoreError::Schema`] and [`StoreError::Refused`] want a person.
#[async_trait]
pub trait Lifecycle: Send + Sync + std::fmt::Debug {
    /// Creates or updates the tables.
    async fn migrate(&self) -> Result<()>;

    /// Says whether the store answers and its tables are of this version.
    async fn check(&self) -> Result<()>;

    /// The transaction of a reader that is older than that, the oldest one: rows and files grow until it ends.
    async fn old_reader(&self, _older_than: Duration) -> Result<Option<OldReader>> {
        Ok(None)
    }

    /// Says why nothing can be written although the store answers, where that shows without a write.
    async fn check_writes(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Records tweets before they are scheduled. Of people who are [kept away](Forgetting) nothing is written here or by any
    /// other call; they count as known, and have no [standing](Lifecycle::standing) after it. A row that is not there is made (*live*, or *ended*
    /// when `next_due` is `None`); one that is *ended* lives again when `next_due` is given (an unknown
    /// `created_at` is filled in; its misses stay, until an answer finds it); all others stay as they are. An id
    /// twice in `tweets` counts once as new, then as known; the first that has a `next_due` is taken.
    /// Counts with a time ([`NewTweet::read_at`]) go into each row that is not *dead*, is not missing and has no newer answer.
    ///
    /// `at` is when, ms since the epoch; `way` is how they came, which is kept of each beside the ways known before.
    async fn record(&self, namespace: &str, at: Millis, way: &Way, tweets: &[NewTweet]) -> Result<Recorded>;

    /// The stored state of each id, in the order asked; `None` for one never recorded.
    async fn standing(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<Standing>>>;

    /// The newest stored answer about each id, in the order asked; `None` for one never recorded. A schedule that compares
    /// answers reads this before each save, so a database gives it for half of what all of the state costs.
    async fn last_answers(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<LastAnswer>>> {
        let standings = self.standing(namespace, ids).await?;
        Ok(standings.iter().map(|known| known.as_ref().map(LastAnswer::from)).collect())
    }

    /// Marks ids dead, each with the reason, before they are buried in the queue. A row that is not
    /// there is made; one that is dead keeps its reason. `at` is when, ms since the epoch.
    async fn bury(&self, namespace: &str, at: Millis, ids: &[(String, String)]) -> Result<()>;

    /// Takes tweets out of the dead: each is *live*, or *ended* where it has no `next_due`; misses and
    /// the reason are cleared, and the number of answers of what none found. A row that is not there is made; one
    /// that is not dead stays as it is. `at` is when, ms since the epoch.
    async fn exhume(&self, namespace: &str, at: Millis, tweets: &[Exhumed]) -> Result<()>;

    /// Brings lookups forward: each id with its new due time, ms since the epoch. One that is *live* or *unavailable* is
    /// due then, if that is sooner; all others stay as they are. Before the queue hears of it
    /// ([`Jobs::promote`](crate::engine::queue::Jobs::promote)).
    async fn promote(&self, namespace: &str, ids: &[(String, Millis)]) -> Result<()>;

    /// Up to `limit` tweets of that kind whose ids are less than `below` (`None`: from the top), the
    /// greatest first; ids compare by their bytes. The next page is below the last id of this one, so
    /// each row that stays of its kind meanwhile is met once, whatever comes and goes around it.
    async fn page(&self, namespace: &str, of: Listing, below: Option<&str>, limit: u32) -> Result<Vec<Listed>>;

    /// Removes those of these ids that are *ended* and expired, with their history; returns how many. One that was revived
    /// meanwhile stays, and so does a medium with a file: that goes with the posts that show it.
    async fn remove(&self, namespace: &str, which: Expired, ids: &[String]) -> Result<u64>;

    /// The ways by which a tweet came, the first one first, each with its time, ms since the epoch.
    async fn ways(&self, namespace: &str, id: &str) -> Result<Vec<(Millis, Way)>>;

    /// Tweets by state. Walks over all of them.
    async fn counts(&self, namespace: &str) -> Result<StateCounts>;

    /// The number of *dead* tweets. Walks over no others, where it can.
    async fn dead(&self, namespace: &str) -> Result<u64> {
        Ok(self.counts(namespace).await?.dead)
    }
}

/// The records of posts. Errors are those of [`Lifecycle`].
///
/// An item of another kind is kept in the same way where it has no columns of its own: as its raw object
/// ([`Observation::of_object`]).
#[async_trait]
pub trait Posts: Send + Sync + std::fmt::Debug {
    /// Stores a batch of answers, all or nothing. A row that is not there is made (the queue may
    /// have been filled without the store). A *dead* row stays as it is. An answer as old as the
    /// stored one is that one again, and changes nothing. Of an id twice in `observations` the newest
    /// answer is taken, the others are counted as older.
    async fn save(&self, namespace: &str, observations: &[Observation]) -> Result<Saved>;

    /// One tweet, whole.
    async fn tweet(&self, namespace: &str, id: &str) -> Result<Option<StoredTweet>>;

    /// A tweet's history, oldest first.
    async fn history(&self, namespace: &str, id: &str) -> Result<Vec<MetricsAt>>;

    /// A tweet's own changes, oldest first: the newest 1,000, and the first 1,000 characters of each value.
    async fn changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>>;

    /// Reads the details of tweets that an earlier version stored out of their raw objects, a page at a time; says how many
    /// it read, 0 when all are done. What it has done it does not do again, whoever calls it and however it ended.
    async fn fill_details(&self, details_of: DetailsOf) -> Result<u64>;
}

/// An open database, by what lies in it.
#[derive(Debug, Clone)]
pub struct Database {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The positions of the polled sources.
    pub positions: Arc<dyn Positions>,
    /// Who follows whom.
    pub edges: Arc<dyn Edges>,
    /// The accounts that are visited.
    pub followed: Arc<dyn FollowList>,
    /// Who belongs to which community.
    pub communities: Arc<dyn Communities>,
    /// People who are forgotten.
    pub forgetting: Arc<dyn Forgetting>,
}

/// The store: the lifecycle, what is kept of each kind, and corrections of budgets.
pub trait Store: Lifecycle + Posts + Accounts + MediaStore + Budgets {}

impl<T: Lifecycle + Posts + Accounts + MediaStore + Budgets> Store for T {}
