//! The starter: one call beside an existing ingest, which puts a tweet into the pipeline.
//!
//! ```text
//!   an ingest ── queue_tweet ─────┐
//!   an ingest ── POST /tweets ────┤   (and /accounts)
//!   a file or a pipe ── enqueue ──┼─▶ admit ─▶ store.record ─▶ queue.schedule ─▶ Queued
//!   `incoming` ── Drain ──────────┘   (id, date, age)
//!
//!   the store ── Rebuild ─▶ ids that the queue has lost
//!   a person ── Refresh ─▶ ids that become due now
//! ```
//!
//! The store comes before the queue. A post that is recorded and not scheduled is found by repeating the call. One that
//! is scheduled and not recorded would be lost with a wiped queue. Each of these ways may be repeated: an id already in
//! the queue returns [`Queued::Known`]. An id that a worker holds stays in `incoming` until its release, because the
//! worker may be ending its life.

mod body;
mod elements;
mod file;
mod first;
mod http;
mod incoming;
mod invalid_entry;
mod json_splitter;
mod lines;
mod named;
mod pasted;
mod progress;
mod rebuild;
mod refresh;
mod rounding;
mod summary;
mod table;
mod tweets;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::file::{EnqueueError, EnqueueOptions, Input, Progress, enqueue};
pub use self::first::{FirstLookup, LookupPace};
pub use self::http::{AccountEndpoint, IngestApi, OPENAPI};
pub use self::incoming::{Drain, DrainRound};
pub use self::invalid_entry::InvalidEntry;
pub use self::json_splitter::LONGEST_LINE;
pub use self::lines::{CR_ALONE, detect_binary};
pub use self::named::{AccountLine, AccountReader};
pub use self::named::{HEADER_LINE, HEADER_SKIPPED};
pub use self::progress::ProgressDisplay;
pub use self::rebuild::{LaneChooser, Rebuild, RebuildCounts, RebuildError};
pub use self::refresh::{InvalidMoment, InvalidState, LivingState, Moment, Refresh, RefreshCounts, RefreshFilter};
pub use self::rounding::RoundingDetector;
pub use self::summary::LINES_OF_ONE_REASON;
pub use self::summary::{Refusal, Summary};
pub use self::tweets::{Item, PostReader};
use engine::base::clock::{self, Millis, Stopwatch};
use engine::base::failpoint;
use engine::queue::{Incoming, NewJob, Queue, QueueError, ScheduleOutcome, check_id};
use engine::schedule::{ScheduledItem, Schedules};
use networks::model::post::{BadId, Ingested, ItemState, SECONDS_BELOW, Tweet};
use networks::providers::registry::Parse;
use store::{NewItem, ONCE, Standing, Store, StoreError, Way};

/// Limit of a network's unresolved handles, and of handles per body. Resolving costs calls, so more would wait for
/// days.
const MOST_HANDLES: u32 = 100_000;

/// Reads the creation date from an id, ms since the epoch: `None` if this form of id contains no date. The error, one
/// clause, means that the text is not an id of the provider.
pub type IdDate = Arc<dyn Fn(&str) -> Result<Option<Millis>, BadId> + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Queued {
    Scheduled,
    Known,
    /// Held by a worker. The id waits in `incoming` until its release; with [`FirstLookup::Once`] it does not, since the
    /// lookup is under way.
    Leased,
    Dead,
    /// Belongs to a forgotten person (`forget account`): neither recorded nor scheduled.
    Forgotten,
    /// Older than the last age bracket: neither recorded nor scheduled.
    TooOld,
    /// Cannot be scheduled.
    Refused(InvalidEntry),
}

pub const FORGOTTEN: &str = "the person behind it asked to be forgotten, so nothing of it is stored (forget account)";

/// Reasons why a handover failed. Nothing is lost: the same call may be repeated, even if the store has the posts
/// already and only the queue failed.
#[derive(Debug, thiserror::Error)]
pub enum StarterError {
    /// The store could not record them; the queue was not called.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store has recorded them; the queue may not have scheduled them.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl StarterError {
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Store(error) => error.is_temporary(),
            Self::Queue(error) => error.is_temporary(),
        }
    }
}

/// Posts ready for handover: records for the store and jobs for the queue, in the same order.
#[derive(Debug, Default)]
pub(crate) struct AdmittedBatch {
    /// Empty without a store, or if they are recorded already.
    tweets: Vec<NewItem>,
    jobs: Vec<NewJob>,
    /// Creation dates, ms since the epoch.
    dates: Vec<Millis>,
}

#[derive(Debug, Default)]
pub(crate) struct HandoverResult {
    answers: Vec<Queued>,
    /// Ids that a worker holds. The worker may be about to end their lives, so they stay in `incoming` until their
    /// release.
    leased: HashSet<String>,
}

impl AdmittedBatch {
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    pub fn replace(&mut self, job: &NewJob) {
        if let Some(admitted) = self.jobs.iter_mut().find(|admitted| admitted.id == job.id) {
            admitted.clone_from(job);
        }
    }

    /// Splits into batches of `size`, sorted by id; equal ids keep their order.
    fn into_batches(self, size: usize) -> impl Iterator<Item = Self> {
        let tweets = self.tweets.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        let mut all: Vec<_> = self.jobs.into_iter().zip(self.dates).zip(tweets).collect();
        all.sort_by(|((one, _), _), ((other, _), _)| one.id.cmp(&other.id));
        let mut all = all.into_iter();
        std::iter::from_fn(move || {
            let mut batch = Self::default();
            for ((job, date), tweet) in all.by_ref().take(size) {
                batch.jobs.push(job);
                batch.dates.push(date);
                batch.tweets.extend(tweet);
            }
            (batch.len() > 0).then_some(batch)
        })
    }

    fn id_range(&self) -> Option<(&str, &str)> {
        Some((&*self.jobs.first()?.id, &*self.jobs.last()?.id))
    }

    fn last_due(&self, now: Millis) -> Option<Millis> {
        self.jobs.last().map(|job| job.due.moment(now))
    }
}

#[derive(Clone)]
pub struct Starter {
    queue: Arc<dyn Queue>,
    store: Option<Arc<dyn Store>>,
    schedule: Arc<dyn Schedules>,
    id_date: IdDate,
    parse: Parse,
    way: Way,
    first: FirstLookup,
    time_limit: Option<Duration>,
    drops_hidden_content: bool,
}

impl Starter {
    /// Creates a starter for the queue's namespace. Without a store, posts are only scheduled, and an updater records
    /// them at their first lookup. `parse` reads the JSON objects of [`enqueue`].
    pub fn new(
        queue: Arc<dyn Queue>,
        store: Option<Arc<dyn Store>>,
        schedule: impl Into<Arc<dyn Schedules>>,
        id_date: IdDate,
        parse: Parse,
    ) -> Self {
        Self {
            queue,
            store,
            schedule: schedule.into(),
            id_date,
            parse,
            way: Way::new("library"),
            first: FirstLookup::Interval,
            time_limit: None,
            drops_hidden_content: false,
        }
    }

    /// Stores only the id of a post whose author shows it to logged-in people alone.
    #[must_use]
    pub fn with_hidden_content_dropped(mut self, leaves_out: bool) -> Self {
        self.drops_hidden_content = leaves_out;
        self
    }

    pub(crate) fn is_content_dropped(&self, post: &Tweet) -> bool {
        self.drops_hidden_content && post.details.is_for_members_only()
    }

    fn drop_hidden_content(&self, content: Option<Box<Tweet>>) -> Option<Box<Tweet>> {
        content.filter(|content| !self.is_content_dropped(content))
    }

    /// Sets the way by which the posts come; the store records it.
    #[must_use]
    pub fn with_way(mut self, way: Way) -> Self {
        self.way = way;
        self
    }

    #[must_use]
    pub fn with_first_lookup(mut self, first: FirstLookup) -> Self {
        if first.is_once() {
            self.way.pipeline = ONCE.to_owned();
        }
        self.first = first;
        self
    }

    /// Sets the time limit for store and queue together per call. A service that exceeds it counts as down.
    #[must_use]
    pub fn with_timeout(mut self, time_limit: Duration) -> Self {
        self.time_limit = Some(time_limit);
        self
    }

    /// Creation date in the id, ms since the epoch; `None` if it has none, or the id is invalid.
    #[must_use]
    pub fn date_of_id(&self, id: &str) -> Option<Millis> {
        (self.id_date)(id).ok().flatten()
    }

    /// Records posts that cannot be scheduled, so that they are not lost. Does nothing without a store.
    pub async fn record_unscheduled(&self, tweets: Vec<Ingested>) -> Result<(), StarterError> {
        let Some(store) = self.store.as_ref().filter(|_| !tweets.is_empty()) else { return Ok(()) };
        let now = clock::wall_ms();
        let kept = tweets.into_iter().map(|Ingested { id, created_at, content, read_at }| NewItem {
            id,
            created_at: created_at.or(Some(now)),
            next_due: None,
            content: self.drop_hidden_content(content),
            read_at,
        });
        let kept: Vec<NewItem> = kept.collect();
        let watch = Stopwatch::start();
        let recorded = store.record(self.queue.namespace(), now, &self.way, &kept);
        self.run_with_timeout("store", watch, recorded).await?.map_err(StarterError::Store).map(drop)
    }

    async fn run_with_timeout<T>(
        &self,
        who: &str,
        watch: Stopwatch,
        work: impl Future<Output = T>,
    ) -> Result<T, StarterError> {
        let Some(time_limit) = self.time_limit else { return Ok(work.await) };
        let left = time_limit.saturating_sub(watch.elapsed());
        tokio::time::timeout(left, work).await.map_err(|_| {
            let why = format!("the {who} did not answer within {} ms", time_limit.as_millis());
            match who {
                "store" => StarterError::Store(StoreError::Unavailable(why)),
                _ => StarterError::Queue(QueueError::Unavailable(why)),
            }
        })
    }

    /// Records the post, then schedules its first update after the interval of its age: `queueTweet` of the
    /// specification.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// use engine::base::clock;
    /// use engine::queue::EmbeddedQueue;
    /// use engine::schedule::age::AgeTable;
    /// use twitter_updater_collect::ingest::{Queued, Starter};
    /// use networks::model::post::{Ingested, TweetId};
    /// use networks::model::provider::Provider;
    /// use twitter_updater_collect::pipelines::kind::Intake;
    /// use twitter_updater_collect::pipelines::posts::posts_pipeline;
    /// use store::{Lifecycle, SqliteStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let (file, patience) = (folder.path().join("tweets.db"), Duration::from_secs(5));
    /// let queue = EmbeddedQueue::open(&file, "tweet:update", patience).await?;
    /// let store = SqliteStore::open(&file, patience).await?;
    /// store.migrate().await?;
    /// let ages: AgeTable = "18m: 3m, 60m: 10m".parse()?;
    /// let posts = posts_pipeline(&Provider::Twitter);
    /// let Intake { id_date, parse } = posts.kind.intake(&posts.id);
    /// let starter = Starter::new(Arc::new(queue), Some(Arc::new(store)), ages, id_date, parse);
    ///
    /// let a_minute_old = TweetId::at(clock::wall_ms() - 60_000, 1).to_string();
    /// assert_eq!(starter.queue_tweet(Ingested::bare(&*a_minute_old)).await?, Queued::Scheduled);
    /// assert_eq!(starter.queue_tweet(Ingested::bare(&*a_minute_old)).await?, Queued::Known);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn queue_tweet(&self, tweet: Ingested) -> Result<Queued, StarterError> {
        let answer = self.queue_tweets(vec![tweet]).await?.pop();
        Ok(answer.unwrap_or(Queued::Refused(InvalidEntry::NoAnswer))) // one tweet has one answer
    }

    /// Records and schedules many posts (about 1,000 is a good number), in two calls to the services.
    /// Returns results in the given order. An id that comes twice is scheduled once, then known.
    pub async fn queue_tweets(&self, tweets: Vec<Ingested>) -> Result<Vec<Queued>, StarterError> {
        let now = clock::wall_ms();
        let mut admitted = AdmittedBatch::default();
        let turned_away: Vec<Option<Queued>> =
            tweets.into_iter().map(|tweet| self.admit(tweet, now, &mut admitted).err()).collect();
        let mut handed = self.hand_over(&admitted).await?.into_iter();
        Ok(turned_away.into_iter().filter_map(|answer| answer.or_else(|| handed.next())).collect())
    }

    /// Adds a post to those ready for handover; `Err` is the result of any other.
    pub(crate) fn admit(&self, tweet: Ingested, now: Millis, to: &mut AdmittedBatch) -> Result<(), Queued> {
        let schedule = self.schedule.current_schedule();
        let needs_date = schedule.needs_date() && !self.first.is_once();
        let created_at = self.creation_date(&tweet, needs_date, now).map_err(Queued::Refused)?;
        let regular = schedule.first(&ScheduledItem::new(&tweet.id, created_at), now);
        let (lane, delay) = self.first.choose(&tweet, regular, now).ok_or(Queued::TooOld)?;
        to.jobs.push(NewJob { id: tweet.id.clone(), lane, due: delay.into() });
        to.dates.push(created_at.unwrap_or(now));
        if self.store.is_some() {
            let next_due = Some(now.saturating_add(delay));
            to.tweets.push(NewItem {
                id: tweet.id,
                created_at,
                next_due,
                content: self.drop_hidden_content(tweet.content),
                read_at: tweet.read_at,
            });
        }
        Ok(())
    }

    fn creation_date(&self, tweet: &Ingested, is_needed: bool, now: Millis) -> Result<Option<Millis>, InvalidEntry> {
        let by_id = (self.id_date)(&tweet.id).map_err(InvalidEntry::rejected)?;
        check_id(&tweet.id).map_err(InvalidEntry::BadId)?; // the queue's rule for ids of any provider
        let Some(created_at) = tweet.created_at.or(by_id) else {
            return if is_needed { Err(InvalidEntry::NoDate) } else { Ok(None) };
        };
        if created_at < 0 {
            return Err(InvalidEntry::BadDate("created_at is before 1970"));
        }
        if created_at < SECONDS_BELOW {
            return Err(InvalidEntry::BadDate(
                "created_at is before 1973 if read as milliseconds: it seems to be in seconds, so send milliseconds",
            ));
        }
        if clock::is_ahead(created_at, now) {
            return Err(InvalidEntry::BadDate("the post is dated more than 60 s into the future"));
        }
        Ok(Some(created_at))
    }

    pub fn queue(&self) -> &Arc<dyn Queue> {
        &self.queue
    }

    pub(crate) fn is_admissible(&self, id: &str) -> bool {
        self.admit(Ingested::bare(id), clock::wall_ms(), &mut AdmittedBatch::default()).is_ok()
    }

    /// Records ids and returns those that [`Starter::hand_over`] has to schedule. Leaves out dead, forgotten, too old and
    /// invalid ids.
    pub(crate) async fn record_ids(&self, ids: BTreeSet<&str>) -> Result<AdmittedBatch, StoreError> {
        let (now, mut admitted) = (clock::wall_ms(), AdmittedBatch::default());
        for id in ids {
            if let Err(why) = self.admit(Ingested::bare(id), now, &mut admitted) {
                tracing::debug!(namespace = self.queue.namespace(), id, ?why, "not recorded");
            }
        }
        let aside = self.record(&admitted.tweets).await?.into_iter().chain(std::iter::repeat(None));
        let schedulable = admitted.jobs.into_iter().zip(admitted.dates).zip(aside).filter(|(_, aside)| aside.is_none());
        let (jobs, dates) = schedulable.map(|(dated, _)| dated).unzip();
        Ok(AdmittedBatch { tweets: Vec::new(), jobs, dates })
    }

    /// Removes old delays of admitted jobs among `ids`, so that the next [`Starter::hand_over`] schedules them like new
    /// jobs.
    pub(crate) async fn clear_delays(&self, admitted: &AdmittedBatch, ids: &[String]) -> Result<(), StarterError> {
        let (now, ids) = (clock::wall_ms(), ids.iter().collect::<BTreeSet<_>>());
        let jobs = admitted.jobs.iter().filter(|job| ids.contains(&job.id));
        let dates: Vec<(String, Millis)> = jobs.map(|job| (job.id.clone(), job.due.moment(now))).collect();
        if let Some(store) = &self.store {
            store.promote(self.queue.namespace(), &dates).await?;
        }
        let ids: Vec<String> = dates.into_iter().map(|(id, _)| id).collect();
        Ok(self.queue.forget(&ids).await?)
    }

    /// Stores handles until they are resolved. Returns false, and stores none, if too many wait. Fails without a store.
    pub async fn store_handles(&self, handles: &[String]) -> Result<bool, StarterError> {
        let none = || StoreError::Unavailable("handles need a store, and none is configured".to_owned());
        let store = self.store.as_ref().ok_or_else(none)?;
        Ok(store.store_handles(self.queue.namespace(), handles, clock::wall_ms(), MOST_HANDLES).await?)
    }

    /// Makes jobs due sooner, and others later; skips jobs that are not in the queue.
    pub(crate) async fn move_jobs(&self, sooner: &[NewJob], later: &[NewJob]) -> Result<(), StarterError> {
        if !sooner.is_empty() {
            self.queue.promote(sooner).await?;
        }
        if !later.is_empty() {
            self.queue.postpone(later).await?;
        }
        Ok(())
    }

    /// Records, then schedules; ids held by a worker go to `incoming`. Returns results in the order of admission.
    pub(crate) async fn hand_over(&self, admitted: &AdmittedBatch) -> Result<Vec<Queued>, StarterError> {
        let watch = Stopwatch::start();
        let HandoverResult { answers, leased } = self.record_and_schedule(admitted, watch).await?;
        // With `FirstLookup::Once` the lookup is under way. If it fails, the job stays in the queue; from `incoming` it would
        // be scheduled by age. If its end was stored just before this record, the audit ends it with one more lookup.
        if !leased.is_empty() && !self.first.is_once() {
            let dated = admitted.jobs.iter().zip(&admitted.dates);
            let again = dated.filter(|(job, _)| leased.contains(&job.id));
            let again = again.map(|(job, date)| Incoming { member: job.id.clone(), created_at: *date });
            let again: Vec<Incoming> = again.collect();
            self.run_with_timeout("queue", watch, self.queue.add_incoming(&again)).await??;
        }
        Ok(answers)
    }

    async fn record_and_schedule(
        &self,
        admitted: &AdmittedBatch,
        watch: Stopwatch,
    ) -> Result<HandoverResult, StarterError> {
        if admitted.jobs.is_empty() {
            return Ok(HandoverResult::default());
        }
        let aside = self.run_with_timeout("store", watch, self.record(&admitted.tweets)).await??;
        failpoint::point("after_record");
        if aside.iter().all(Option::is_none) {
            return self.run_with_timeout("queue", watch, self.schedule(&admitted.jobs)).await?;
        }
        // The store knows the dead even if the queue was wiped: they are not scheduled again.
        let schedulable =
            admitted.jobs.iter().zip(&aside).filter(|(_, aside)| aside.is_none()).map(|(job, _)| job.clone());
        let schedulable: Vec<NewJob> = schedulable.collect();
        let HandoverResult { answers, leased } =
            self.run_with_timeout("queue", watch, self.schedule(&schedulable)).await??;
        let mut scheduled = answers.into_iter();
        let answers = aside.into_iter().filter_map(|aside| aside.or_else(|| scheduled.next()));
        Ok(HandoverResult { answers: answers.collect(), leased })
    }

    /// Records posts and returns `Queued::Dead` or [`Queued::Forgotten`] for those that are; returns nothing if no
    /// post was known.
    async fn record(&self, tweets: &[NewItem]) -> Result<Vec<Option<Queued>>, StoreError> {
        let Some(store) = self.store.as_ref().filter(|_| !tweets.is_empty()) else { return Ok(Vec::new()) };
        let namespace = self.queue.namespace();
        let recorded = store.record(namespace, clock::wall_ms(), &self.way, tweets).await?;
        if recorded.known == 0 {
            return Ok(Vec::new()); // both are among the known, so a first load asks nothing more
        }
        let ids: Vec<String> = tweets.iter().map(|tweet| tweet.id.clone()).collect();
        let standings = store.standing(namespace, &ids).await?;
        let aside = |of: &Option<Standing>| match of {
            None => Some(Queued::Forgotten), // all others have a row now
            Some(of) => (of.state == ItemState::Dead).then_some(Queued::Dead),
        };
        Ok(standings.iter().map(aside).collect())
    }

    async fn schedule(&self, jobs: &[NewJob]) -> Result<HandoverResult, StarterError> {
        if jobs.is_empty() {
            return Ok(HandoverResult::default());
        }
        let answers = self.queue.schedule(jobs).await?;
        if answers.len() != jobs.len() {
            let (asked, got) = (jobs.len(), answers.len());
            return Err(QueueError::Refused(format!("the queue gave {got} answers for {asked} jobs")).into());
        }
        let leased = jobs.iter().zip(&answers).filter(|(_, answer)| **answer == ScheduleOutcome::Leased);
        let leased = leased.map(|(job, _)| job.id.clone()).collect();
        let queued = |answer| match answer {
            ScheduleOutcome::Scheduled => Queued::Scheduled,
            ScheduleOutcome::Known => Queued::Known,
            ScheduleOutcome::Leased => Queued::Leased,
            ScheduleOutcome::Dead => Queued::Dead,
        };
        Ok(HandoverResult { answers: answers.into_iter().map(queued).collect(), leased })
    }
}

impl fmt::Debug for Starter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Starter")
            .field("queue", &self.queue)
            .field("store", &self.store)
            .field("schedule", &self.schedule)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::queue::EmbeddedQueue;
    use engine::schedule::age::AgeTable;
    use networks::model::post::TweetId;

    #[tokio::test]
    async fn who_did_not_answer_in_time_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let queue = EmbeddedQueue::open(&folder.path().join("jobs.db"), "n", Duration::from_secs(20)).await.unwrap();
        let ages: AgeTable = "1d: 1h".parse().unwrap();
        let starter = Starter::new(Arc::new(queue), None, ages, Arc::new(TweetId::date_of), |_| {
            Ok(networks::model::post::Tweet::default())
        })
        .with_timeout(Duration::from_millis(5));
        for who in ["store", "queue"] {
            let error =
                starter.run_with_timeout(who, Stopwatch::start(), std::future::pending::<()>()).await.unwrap_err();
            assert!(error.to_string().contains(&format!("the {who} did not answer within 5 ms")), "{error}");
            assert!(error.is_temporary() && matches!(error, StarterError::Store(_)) == (who == "store"));
        }
        assert_eq!(starter.run_with_timeout("store", Stopwatch::start(), async { 7 }).await.unwrap(), 7);
    }
}
