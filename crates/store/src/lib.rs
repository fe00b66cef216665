//! The store of posts: the current state of each post and the history of its counts. Its other traits store the positions of
//! polled sources ([`Positions`]), visited accounts ([`FollowList`]), follows ([`Edges`]) and communities ([`Communities`]).
//!
//! One trait, two backends ([`PostgresStore`], [`SqliteStore`]), one contract suite (`tests/it/store.rs`).
//!
//! Rules of every backend:
//! - Each call is one transaction over the whole batch (set-based), and repeating it changes nothing.
//! - An answer older than the stored one changes nothing and is counted ([`SaveCounts::older`]).
//! - A history row is written only when a count differs from the stored one.
//! - A `None` never overwrites a stored value.
//! - The store marks a post *dead* or *ended* before the queue does.
//!
//! The effect on a row of an answer, of recording it and of marking it dead is the same in both databases: `merge`, `revive`,
//! `mark_dead` and `resolve_dead` in `sql/posts`. A database text cannot hold NUL characters, so they are stored as U+FFFD.

#[macro_use]
mod sql;

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
pub mod postgres_address;
mod pseudonyms;
mod rows;
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

pub use self::accounts::{
    AccountTotal, Accounts, CountsAt, HandleBearer, ScheduleInputs, Sighting, StoredAccount, StoredHandle,
};
pub use self::budget::{BudgetCorrections, Budgets};
pub use self::communities::{
    AccountFacts, Appearance, BelongingChange, Communities, CommunityAccount, CommunitySize, Decision, FollowMark,
    FoundPost, GrowthLimits, HandDecision, KnownAccount, NetworkPipelines, PostLanguage, PostText, ProfileFacts,
    Reason, StoredAppearance, UnwantedPost, UnwantedQuery,
};
pub use self::edges::{
    ClosingLimit, CrawlEnd, CrawlKind, CrawlOutcome, CrawlRecord, CrawlUnderWay, Edge, EdgeChange, EdgePage, EdgePlace,
    Edges, End, Follow, ListCrawl, ListedMember, MemberAt, NewCrawl, Next, OVERLAP, SavedEdges, is_stalled,
};
pub use self::followed::{FollowList, FollowedAccount, Part};
pub use self::forget::{Forgetting, ItemSet, PersonSource, RemovedRows, person_network, providers_of_network};
pub use self::graph::{FollowInterval, GraphFilter, GraphPart, Graphs, Node, PartVisitor, Scope};
pub use self::list_totals::{ListBounds, ListTotals, TIERS, TierTotal, UnreadTotal};
pub use self::media::{
    FetchAttempt, FileReservation, MediaStore, MediaTotal, MediumSighting, ReservationOutcome, StoredMedium, UnusedPage,
};
pub use self::positions::{Positions, SavedPage, SavedSource, SourceGap, SourceRow, SourceTrouble};
pub use self::postgres::PostgresStore;
pub use self::sqlite::SqliteStore;
use engine::base::clock::Millis;
use networks::model::account::Absence;
use networks::model::post::{Details, ItemState, Metrics, Tweet};

#[derive(Debug, Clone)]
pub struct NewItem {
    pub id: String,
    pub created_at: Option<Millis>,
    /// First due time; `None` if the post is too old to be updated.
    pub next_due: Option<Millis>,
    /// The ingest's data about it, kept only until the first answer overwrites it.
    pub content: Option<Box<Tweet>>,
    /// Time at which the content was read from the network, on the queue's clock. Its counts then act as an answer of that
    /// time: they make a history row and replace older ones. `None`: its age is unknown, and its counts make no row.
    pub read_at: Option<Millis>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, sqlx_macros::FromRow)]
pub struct Way {
    /// `enqueue`, `once`, `http`, `incoming`, `poll`, `stream`, `rebuild` or `fan_out`.
    pub pipeline: String,
    /// Name of the file, of the configured source, or of the pipeline that fans out. Empty if there is only one source.
    pub source: String,
    /// The request of that source: a query or an account.
    pub query: Option<String>,
}

/// Origin of posts that are looked up once. A post that also came another way is looked up by its age.
pub const ONCE: &str = "once";

impl Way {
    #[must_use]
    pub fn new(pipeline: &str) -> Self {
        Self { pipeline: pipeline.to_owned(), source: String::new(), query: None }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordCounts {
    pub new: u64,
    pub known: u64,
    pub revived: u64,
}

/// The stored state of a post before an answer is judged.
#[derive(Debug, Clone, Default, PartialEq, sqlx_macros::FromRow)]
pub struct Standing {
    pub state: ItemState,
    pub created_at: Option<Millis>,
    pub checked_at: Option<Millis>,
    pub misses: i64,
    pub missing_since: Option<Millis>,
    pub first_seen: Millis,
    /// Stored answers, misses included.
    pub lookups: i64,
    /// Id of the version to request, if it differs (edits).
    pub current_id: Option<String>,
    pub unreadable: Option<String>,
    #[sqlx(flatten)]
    pub metrics: Metrics,
    /// [`Observation::recent`] of the newest answer that found it.
    pub recent: Option<f64>,
    /// True if it is looked up only once: it came only by [`ONCE`].
    pub once: bool,
    /// True if it was found and its content was erased since. Kinds without an object of their own always are.
    pub is_blanked: bool,
}

impl Standing {
    /// Returns true if an answer found it and no miss was confirmed since. An id that no answer ever found does not
    /// count: half of an old archive may be gone, which must not raise the mass-miss alert.
    #[must_use]
    pub fn is_known_to_live(&self) -> bool {
        self.state == ItemState::Live && self.was_found()
    }

    #[must_use]
    pub fn was_found(&self) -> bool {
        self.lookups > self.misses
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, sqlx_macros::FromRow)]
pub struct LastAnswer {
    pub checked_at: Option<Millis>,
    pub misses: i64,
    #[sqlx(flatten)]
    pub metrics: Metrics,
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
    pub id: String,
    /// On the queue's clock, ms since the epoch.
    pub answered_at: Millis,
    pub finding: Finding<T>,
    pub state: ItemState,
    /// Next due time; `None` if tracking ends.
    pub next_due: Option<Millis>,
    /// Id of a newer version, to be requested next; `None` if the newest known version was requested.
    pub follow: Option<String>,
    /// True if the item was deleted and its content must be removed: current and former texts, author and object. Id,
    /// times and counts stay.
    pub forget: bool,
    /// Recent events of the item as of this answer, in weighted counts; an adaptive schedule needs them after the next
    /// answer. `None` if there was no count, or the schedule goes by age alone.
    pub recent: Option<f64>,
}

const NO_OBJECT: &str = "{}";

/// Life of an item without columns of its own. Its object is a JSON text, or none.
pub type Life = Observation<Option<String>>;

#[derive(Debug, Clone)]
pub struct Object {
    pub created_at: Option<Millis>,
    pub raw: String,
}

impl<T> Observation<T> {
    #[must_use]
    pub fn new(id: &str, answered_at: Millis, finding: Finding<T>, state: ItemState, next_due: Option<Millis>) -> Self {
        Self { id: id.to_owned(), answered_at, finding, state, next_due, follow: None, forget: false, recent: None }
    }

    /// Reduces the answer to its object, for kinds without columns of their own.
    pub fn to_object(&self, object: impl FnOnce(&T) -> Object) -> Observation {
        let finding = match &self.finding {
            Finding::Found(item) => {
                let Object { created_at, raw } = object(item);
                Finding::Found(Tweet { id: self.id.clone(), created_at, raw, ..Tweet::default() })
            }
            Finding::Missing { misses, since, reason, .. } => {
                Finding::Missing { misses: *misses, since: *since, reason: *reason, handle: None }
            }
            Finding::Broken(why) => Finding::Broken(why.clone()),
        };
        Observation {
            id: self.id.clone(),
            answered_at: self.answered_at,
            finding,
            state: self.state,
            next_due: self.next_due,
            follow: self.follow.clone(),
            forget: self.forget,
            recent: self.recent,
        }
    }
}

#[derive(Debug, Clone)]
pub enum Finding<T = Tweet> {
    /// Returned by the API. Clears misses; sets or clears the withheld mark. A truncated text does not replace a longer
    /// one of the same version, and a missing text does not replace a stored one.
    Found(T),
    /// Not returned by the API. The figures are absolute, so a repeated save counts nothing twice.
    Missing {
        /// Misses in a row, including this one.
        misses: i64,
        since: Millis,
        reason: Option<Absence>,
        handle: Option<String>,
    },
    /// Unreadable, or not mentioned in the answer; holds the reason. The store saves only the reason and the next due
    /// time. It is not an answer, so `checked_at` stays.
    Broken(String),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SaveCounts {
    pub saved: u64,
    /// Answers rejected because a newer one is stored or the post is dead.
    pub older: u64,
    pub changed: u64,
}

#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, sqlx_macros::FromRow)]
pub struct StoredTweet {
    pub id: String,
    pub state: ItemState,
    pub created_at: Option<Millis>,
    pub current_id: Option<String>,
    pub text: Option<String>,
    pub author_id: Option<String>,
    pub author_name: Option<String>,
    #[sqlx(flatten)]
    pub metrics: Metrics,
    #[serde(flatten)]
    #[sqlx(flatten)]
    pub details: Details,
    /// Country codes, comma separated; `None` if it is not withheld.
    pub withheld_in: Option<String>,
    pub raw: Option<String>,
    pub first_seen: Millis,
    pub checked_at: Option<Millis>,
    pub next_due: Option<Millis>,
    pub lookups: i64,
    pub misses: i64,
    pub missing_since: Option<Millis>,
    /// The reason as the network states it ([`Absence::as_str`]).
    pub missing_reason: Option<String>,
    pub reason: Option<String>,
    pub unreadable: Option<String>,
    /// [`Observation::recent`] of the newest answer that found it. Internal, so it is not serialized.
    #[serde(skip)]
    pub recent: Option<f64>,
}

/// One change of a post's own fields; counts are in its history.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, sqlx_macros::FromRow)]
pub struct Change {
    pub at: Millis,
    /// `text`, `current_id`, `withheld_in`, `reply_settings` or `state`.
    pub field: String,
    #[sqlx(rename = "old_value")]
    pub old: Option<String>,
    #[sqlx(rename = "new_value")]
    pub new: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct MetricsAt {
    pub checked_at: Millis,
    #[sqlx(flatten)]
    pub metrics: Metrics,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct StateCounts {
    pub live: u64,
    pub unavailable: u64,
    pub ended: u64,
    pub dead: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Posts whose newest answer, or without one their recording, is older than this time.
    Before(Millis),
    /// Posts that an answer found, that the network deleted since, and whose content was removed ([`Observation::forget`]).
    Deleted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// *Live* and *unavailable*: posts that belong in a lane of the queue.
    Tracked,
    Dead,
    Ended,
}

#[derive(Debug, Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct ListedItem {
    pub id: String,
    pub state: ItemState,
    pub created_at: Option<Millis>,
    pub next_due: Option<Millis>,
    pub checked_at: Option<Millis>,
    pub reason: Option<String>,
    pub once: bool,
}

/// A dead post that is to live again, or to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadResolution {
    pub id: String,
    /// Fills in an unknown time only.
    pub created_at: Option<Millis>,
    /// `None` ends its tracking.
    pub next_due: Option<Millis>,
}

pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// A store error; its variant decides the caller's next step.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The call stored nothing, or its effect is unknown. The caller may repeat it.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The tables are missing or of another version; the text states the remedy.
    #[error("{0}")]
    Schema(String),
    /// The store's file was deleted or replaced. Nothing is written any more, and the process must stop.
    #[error("{0}")]
    Gone(String),
    /// The statement can never succeed: a bug or a corrupt table.
    #[error("the store refused the statement: {0}")]
    Refused(String),
}

impl StoreError {
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// An old open transaction. Cleanup cannot remove what is written after its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OldReader {
    pub age_ms: Millis,
    pub what: String,
}

/// The life of items of every kind: recorded, looked up again, missing, ended or dead.
///
/// `namespace` is a pipeline (`tweet:update`); ids are unique within one. Times are ms since the epoch.
///
/// # Errors
/// After [`StoreError::Unavailable`] the effect of a call is unknown, and the caller may repeat it.
/// [`StoreError::Schema`] and [`StoreError::Refused`] need a person.
#[async_trait]
pub trait Lifecycle: Send + Sync + std::fmt::Debug {
    async fn migrate(&self) -> Result<()>;

    /// Checks that the store answers and that its tables are of this version.
    async fn check(&self) -> Result<()>;

    /// Returns the oldest transaction older than this. Rows and files grow until it ends.
    async fn old_reader(&self, _older_than: Duration) -> Result<Option<OldReader>> {
        Ok(None)
    }

    /// Returns why writes would fail although the store answers, as far as reads show it.
    async fn check_writes(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Records posts before they are scheduled. A new row is *live*, or *ended* if `next_due` is `None`. An *ended* row
    /// with a new `next_due` becomes *live*: its unknown `created_at` is filled in, and its misses stay until an answer
    /// finds it. All other rows stay as they are. If an id is given twice, the second counts as known; the first
    /// `next_due` is used. Counts with a time ([`NewItem::read_at`]) go into each row that is not *dead* or missing
    /// and has no newer answer. `way` is added to the known ways of each post.
    ///
    /// No call writes data about [blocked](Forgetting) people. Their posts count as known, and have no
    /// [standing](Lifecycle::standing).
    async fn record(&self, namespace: &str, at: Millis, way: &Way, tweets: &[NewItem]) -> Result<RecordCounts>;

    /// Returns the stored state of each id, in the order of `ids`; `None` for an id never recorded.
    async fn standing(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<Standing>>>;

    /// Returns the newest stored answer about each id, in the order of `ids`; `None` for an id never recorded. A
    /// schedule that compares answers reads this before each save; it costs a database half of reading the whole state.
    async fn last_answers(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<LastAnswer>>> {
        let standings = self.standing(namespace, ids).await?;
        Ok(standings.iter().map(|known| known.as_ref().map(LastAnswer::from)).collect())
    }

    /// Marks ids dead, each with its reason. Call it before the queue marks them dead. Creates missing rows. A
    /// dead row keeps its reason.
    async fn mark_dead(&self, namespace: &str, at: Millis, ids_and_reasons: &[(String, String)]) -> Result<()>;

    /// Makes dead posts *live*, or *ended* without a `next_due`. Clears misses and the reason, and `lookups` if no
    /// answer found the post. Creates missing rows. Rows that are not dead stay as they are.
    async fn resolve_dead(&self, namespace: &str, at: Millis, tweets: &[DeadResolution]) -> Result<()>;

    /// Brings lookups forward, each id to its new due time. Affects *live* and *unavailable* rows that are due later. The
    /// caller does this before it promotes them in the queue ([`Jobs::promote`](engine::queue::Jobs::promote)).
    async fn promote(&self, namespace: &str, ids: &[(String, Millis)]) -> Result<()>;

    /// Returns up to `limit` posts of the listing with ids less than `below` (`None`: from the top), greatest first;
    /// ids compare by their bytes. The next page starts below the last id of this one. So each row that stays in the
    /// listing is met once, even while others come and go.
    async fn page(&self, namespace: &str, of: Listing, below: Option<&str>, limit: u32) -> Result<Vec<ListedItem>>;

    /// Removes the *ended* and expired posts among these ids, with their history; returns their number. A revived post
    /// stays. A medium with a file stays, too: it is removed with the posts that show it.
    async fn remove(&self, namespace: &str, which: Expiry, ids: &[String]) -> Result<u64>;

    /// Returns the ways by which a post came, each with its time, first one first.
    async fn ways(&self, namespace: &str, id: &str) -> Result<Vec<(Millis, Way)>>;

    /// Counts posts by state. Reads all of them.
    async fn counts(&self, namespace: &str) -> Result<StateCounts>;

    /// Counts *dead* posts. A backend reads no other rows if it can.
    async fn dead(&self, namespace: &str) -> Result<u64> {
        Ok(self.counts(namespace).await?.dead)
    }
}

/// The records of posts. Errors are those of [`Lifecycle`].
///
/// An item of another kind without columns of its own is stored in the same way, as its raw object
/// ([`Observation::to_object`]).
#[async_trait]
pub trait Posts: Send + Sync + std::fmt::Debug {
    /// Stores a batch of answers, all or nothing. Creates missing rows, since the queue may have been filled without
    /// the store. A *dead* row stays as it is. An answer as old as the stored one counts as a repetition and changes
    /// nothing. If an id is given twice, the newest answer is used, and the others count as older.
    async fn save(&self, namespace: &str, observations: &[Observation]) -> Result<SaveCounts>;

    /// Stores lives as [`Self::save`] stores answers.
    async fn save_lives(&self, namespace: &str, lives: &[Life]) -> Result<SaveCounts> {
        let object = |raw: &Option<String>| Object {
            created_at: None,
            raw: raw.clone().unwrap_or_else(|| NO_OBJECT.to_owned()),
        };
        let answers: Vec<Observation> = lives.iter().map(|life| life.to_object(object)).collect();
        self.save(namespace, &answers).await
    }

    async fn tweet(&self, namespace: &str, id: &str) -> Result<Option<StoredTweet>>;

    async fn history(&self, namespace: &str, id: &str) -> Result<Vec<MetricsAt>>;

    /// Returns the newest 1,000 changes of a post, oldest first; each value is cut to 1,000 characters.
    async fn changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>>;
}

#[derive(Debug, Clone)]
pub struct Database {
    pub store: Arc<dyn Store>,
    pub positions: Arc<dyn Positions>,
    pub edges: Arc<dyn Edges>,
    pub followed: Arc<dyn FollowList>,
    pub communities: Arc<dyn Communities>,
    pub forgetting: Arc<dyn Forgetting>,
}

pub trait Store: Lifecycle + Posts + Accounts + MediaStore + Budgets {}

impl<T: Lifecycle + Posts + Accounts + MediaStore + Budgets> Store for T {}
