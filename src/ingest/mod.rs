//! The starter: one call beside an existing ingest, which puts a tweet into the pipeline.
//!
//! ```text
//!   an ingest ── queue_tweet ─────┐
//!   an ingest ── POST /tweets ────┤   (and /accounts)
//!   a file or a pipe ── enqueue ──┼─▶ admit ─▶ store.record ─▶ queue.schedule ─▶ Queued
//!   `incoming` ── Drain ──────────┘   (id, date, age)
//!
//!   the store ── Rebuild ─▶ what the queue has lost
//!   a person ── Refresh ─▶ what is to be looked up now
//! ```
//!
//! The store comes before the queue. A post that is recorded and not scheduled is found by repeating the call. One that
//! is scheduled and not recorded would be lost with a wiped queue. Each of these ways may be repeated: an id already in
//! the queue returns [`Queued::Known`]. An id that a worker holds stays in `incoming` until its release, because the
//! worker may be ending its life.

mod body;
mod cut;
mod elements;
mod file;
mod first;
mod http;
mod incoming;
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

pub use self::cut::LONGEST_LINE;
pub use self::file::{EnqueueError, EnqueueOptions, Input, Progress, enqueue};
pub use self::first::{First, Pace};
pub use self::http::{AccountDoor, Hook, OPENAPI};
pub use self::incoming::{Drain, DrainRound};
pub use self::lines::{CR_ALONE, no_text};
pub(crate) use self::named::{NAMES_COLUMNS, SKIPPED};
pub use self::named::{NamedLine, NamedLines};
pub use self::progress::ProgressDisplay;
pub use self::rebuild::{Lanes, Rebuild, RebuildError, Rebuilt};
pub use self::refresh::{Living, Moment, Refresh, Refreshed, Which};
pub use self::rounding::Rounding;
pub(crate) use self::summary::LINES_OF_ONE_REASON;
pub use self::summary::{Refusal, Summary};
pub use self::tweets::{Item, Tweets};
use crate::base::clock::{self, Millis, Stopwatch};
use crate::base::failpoint;
use crate::engine::queue::{Incoming, NewJob, Queue, QueueError, Scheduled, check_id};
use crate::engine::schedule::{Known, Schedules};
use crate::model::post::ItemState;
use crate::model::post::SECONDS_BELOW;
use crate::model::post::{Ingested, Tweet};
use crate::providers::registry::Parse;
use crate::store::{NewItem, ONCE, Standing, Store, StoreError, Way};

/// Limit of a network's unresolved handles, and of handles per body. Resolving costs calls, so more would wait for
/// days.
const MOST_HANDLES: u32 = 100_000;

/// Reads the creation date from an id, ms since the epoch: `None` if this form of id contains no date. The error, one
/// clause, means that the text is not an id of the provider.
pub type IdDate = Arc<dyn Fn(&str) -> Result<Option<Millis>, String> + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Queued {
    Scheduled,
    Known,
    /// Held by a worker. The id waits in `incoming` until its release; with [`First::Once`] it does not, since the
    /// lookup is under way.
    Leased,
    Dead,
    /// Belongs to a forgotten person (`forget account`): neither recorded nor scheduled.
    Forgotten,
    /// Older than the last age bracket: neither recorded nor scheduled.
    TooOld,
    /// Cannot be scheduled, for the reason given.
    Refused(String),
}

const NO_DATE: &str = "the id does not contain the date of its post: created_at is needed";

pub(crate) const FORGOTTEN: &str = "its person asked to be forgotten: nothing of it is stored (forget account)";

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
    /// Returns true if the same call may succeed later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Store(error) => error.is_passing(),
            Self::Queue(error) => error.is_passing(),
        }
    }
}

/// Posts ready for handover: records for the store and jobs for the queue, in the same order.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    /// Empty without a store, or if they are recorded already.
    tweets: Vec<NewItem>,
    jobs: Vec<NewJob>,
    /// Creation dates, ms since the epoch.
    dates: Vec<Millis>,
}

#[derive(Debug, Default)]
pub(crate) struct HandedOver {
    /// In the order of admission.
    answers: Vec<Queued>,
    /// Ids that a worker holds. The worker may be about to end their lives, so they stay in `incoming` until their
    /// release.
    leased: HashSet<String>,
}

impl Admitted {
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn replace(&mut self, job: &NewJob) {
        if let Some(admitted) = self.jobs.iter_mut().find(|admitted| admitted.id == job.id) {
            admitted.clone_from(job);
        }
    }

    /// Splits into batches of `size`, sorted by id; equal ids keep their order.
    fn in_batches(self, size: usize) -> impl Iterator<Item = Self> {
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

    fn ends(&self) -> Option<(&str, &str)> {
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
    first: First,
    patience: Option<Duration>,
    leaves_out_hidden: bool,
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
            way: Way::of("library"),
            first: First::Interval,
            patience: None,
            leaves_out_hidden: false,
        }
    }

    /// Stores only the id of a post whose author shows it to logged-in people alone.
    #[must_use]
    pub fn leaving_out_hidden(mut self, leaves_out: bool) -> Self {
        self.leaves_out_hidden = leaves_out;
        self
    }

    /// Returns true for a post of which only the id is stored.
    pub(crate) fn leaves_out(&self, post: &Tweet) -> bool {
        self.leaves_out_hidden && post.details.is_for_members_only()
    }

    fn drop_hidden_content(&self, content: Option<Box<Tweet>>) -> Option<Box<Tweet>> {
        content.filter(|content| !self.leaves_out(content))
    }

    /// Sets the way by which the posts come; the store records it.
    #[must_use]
    pub fn by(mut self, way: Way) -> Self {
        self.way = way;
        self
    }

    #[must_use]
    pub fn first(mut self, first: First) -> Self {
        if first.is_once() {
            self.way.pipeline = ONCE.to_owned();
        }
        self.first = first;
        self
    }

    /// Sets the time limit for store and queue together per call. A service that exceeds it counts as down.
    #[must_use]
    pub fn within(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Creation date in the id, ms since the epoch; `None` if it has none, or the id is invalid.
    #[must_use]
    pub fn date_of_id(&self, id: &str) -> Option<Millis> {
        (self.id_date)(id).ok().flatten()
    }

    /// Records posts that cannot be scheduled, so that they are not lost. Does nothing without a store.
    pub async fn keep(&self, tweets: Vec<Ingested>) -> Result<(), StarterError> {
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
        self.in_time("store", watch, recorded).await?.map_err(StarterError::Store).map(drop)
    }

    /// Waits for one service, within the rest of the time limit.
    async fn in_time<T>(&self, who: &str, watch: Stopwatch, work: impl Future<Output = T>) -> Result<T, StarterError> {
        let Some(patience) = self.patience else { return Ok(work.await) };
        let left = patience.saturating_sub(watch.elapsed());
        tokio::time::timeout(left, work).await.map_err(|_| {
            let why = format!("the {who} did not answer within {} ms", patience.as_millis());
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
    /// use twitter_updater::app;
    /// use twitter_updater::base::clock;
    /// use twitter_updater::config::Settings;
    /// use twitter_updater::engine::queue::EmbeddedQueue;
    /// use twitter_updater::engine::schedule::age::AgeTable;
    /// use twitter_updater::ingest::Queued;
    /// use twitter_updater::model::post::{Ingested, TweetId};
    /// use twitter_updater::model::provider::Provider;
    /// use twitter_updater::pipelines::posts::posts_of;
    /// use twitter_updater::store::{Lifecycle, SqliteStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let (file, patience) = (folder.path().join("tweets.db"), Duration::from_secs(5));
    /// let queue = EmbeddedQueue::open(&file, "tweet:update", patience).await?;
    /// let store = SqliteStore::open(&file, patience).await?;
    /// store.migrate().await?;
    /// let ages: AgeTable = "18m: 3m, 60m: 10m".parse()?;
    /// let posts = posts_of(&Provider::Twitter);
    /// let settings = Settings::load_with(&[], None, &[])?;
    /// let starter = app::starter(&settings, &posts, Arc::new(queue), Some(Arc::new(store)), ages);
    ///
    /// let a_minute_old = TweetId::at(clock::wall_ms() - 60_000, 1).to_string();
    /// assert_eq!(starter.queue_tweet(Ingested::bare(&*a_minute_old)).await?, Queued::Scheduled);
    /// assert_eq!(starter.queue_tweet(Ingested::bare(&*a_minute_old)).await?, Queued::Known);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn queue_tweet(&self, tweet: Ingested) -> Result<Queued, StarterError> {
        let answer = self.queue_tweets(vec![tweet]).await?.pop();
        Ok(answer.unwrap_or_else(|| Queued::Refused("no answer".to_owned()))) // one tweet has one answer
    }

    /// Does the same as [`Starter::queue_tweet`] for many posts (about 1,000 is a good number), in two calls to the
    /// services. Returns results in the given order. An id that comes twice is scheduled once, then known.
    pub async fn queue_tweets(&self, tweets: Vec<Ingested>) -> Result<Vec<Queued>, StarterError> {
        let now = clock::wall_ms();
        let mut admitted = Admitted::default();
        let turned_away: Vec<Option<Queued>> =
            tweets.into_iter().map(|tweet| self.admit(tweet, now, &mut admitted).err()).collect();
        let mut handed = self.hand_over(&admitted).await?.into_iter();
        Ok(turned_away.into_iter().filter_map(|answer| answer.or_else(|| handed.next())).collect())
    }

    /// Adds a post to those ready for handover; `Err` is the result of any other.
    pub(crate) fn admit(&self, tweet: Ingested, now: Millis, to: &mut Admitted) -> Result<(), Queued> {
        let schedule = self.schedule.in_force();
        let needs_date = schedule.needs_date() && !self.first.is_once();
        let created_at = self.date(&tweet, needs_date, now).map_err(Queued::Refused)?;
        let regular = schedule.first(&Known::new(&tweet.id, created_at), now);
        let (lane, delay) = self.first.of(&tweet, regular, now).ok_or(Queued::TooOld)?;
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

    /// Returns the creation date: from the ingest, else from the id.
    fn date(&self, tweet: &Ingested, is_needed: bool, now: Millis) -> Result<Option<Millis>, String> {
        let by_id = (self.id_date)(&tweet.id)?;
        check_id(&tweet.id)?; // the queue's rule for ids of any provider
        let Some(created_at) = tweet.created_at.or(by_id) else {
            return if is_needed { Err(NO_DATE.to_owned()) } else { Ok(None) };
        };
        if created_at < 0 {
            return Err("created_at is before 1970".to_owned());
        }
        if created_at < SECONDS_BELOW {
            return Err("created_at is before 1973 in milliseconds: it seems to be in seconds".to_owned());
        }
        if clock::is_ahead(created_at, now) {
            return Err("the post is dated more than 60 s into the future".to_owned());
        }
        Ok(Some(created_at))
    }

    pub(crate) fn queue(&self) -> &Arc<dyn Queue> {
        &self.queue
    }

    pub(crate) fn admits(&self, id: &str) -> bool {
        self.admit(Ingested::bare(id), clock::wall_ms(), &mut Admitted::default()).is_ok()
    }

    /// Records ids and returns those that [`Starter::hand_over`] has to schedule. Leaves out dead, forgotten, too old and
    /// invalid ids.
    pub(crate) async fn record_ids(&self, ids: BTreeSet<&str>) -> Result<Admitted, StoreError> {
        let (now, mut admitted) = (clock::wall_ms(), Admitted::default());
        for id in ids {
            if let Err(why) = self.admit(Ingested::bare(id), now, &mut admitted) {
                tracing::debug!(namespace = self.queue.namespace(), id, ?why, "not recorded");
            }
        }
        let aside = self.record(&admitted.tweets).await?.into_iter().chain(std::iter::repeat(None));
        let living = admitted.jobs.into_iter().zip(admitted.dates).zip(aside).filter(|(_, aside)| aside.is_none());
        let (jobs, dates) = living.map(|(dated, _)| dated).unzip();
        Ok(Admitted { tweets: Vec::new(), jobs, dates })
    }

    /// Removes old delays of admitted jobs among `ids`, so that the next [`Starter::hand_over`] schedules them like new
    /// jobs.
    pub(crate) async fn clear_delays(&self, admitted: &Admitted, ids: &[String]) -> Result<(), StarterError> {
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
    pub(crate) async fn keep_handles(&self, handles: &[String]) -> Result<bool, StarterError> {
        let none = || StoreError::Unavailable("handles are kept in a store, and there is none".to_owned());
        let store = self.store.as_ref().ok_or_else(none)?;
        Ok(store.keep_handles(self.queue.namespace(), handles, clock::wall_ms(), MOST_HANDLES).await?)
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
    pub(crate) async fn hand_over(&self, admitted: &Admitted) -> Result<Vec<Queued>, StarterError> {
        let watch = Stopwatch::start();
        let HandedOver { answers, leased } = self.record_and_schedule(admitted, watch).await?;
        // With `First::Once` the lookup is under way. If it fails, the job stays in the queue; from `incoming` it would
        // be scheduled by age. If its end was stored just before this record, the audit ends it with one more lookup.
        if !leased.is_empty() && !self.first.is_once() {
            let dated = admitted.jobs.iter().zip(&admitted.dates);
            let again = dated.filter(|(job, _)| leased.contains(&job.id));
            let again = again.map(|(job, date)| Incoming { member: job.id.clone(), created_at: *date });
            let again: Vec<Incoming> = again.collect();
            self.in_time("queue", watch, self.queue.put_incoming(&again)).await??;
        }
        Ok(answers)
    }

    async fn record_and_schedule(&self, admitted: &Admitted, watch: Stopwatch) -> Result<HandedOver, StarterError> {
        if admitted.jobs.is_empty() {
            return Ok(HandedOver::default());
        }
        let aside = self.in_time("store", watch, self.record(&admitted.tweets)).await??;
        failpoint::point("after_record");
        if aside.iter().all(Option::is_none) {
            return self.in_time("queue", watch, self.schedule(&admitted.jobs)).await?;
        }
        // The store knows the dead even if the queue was wiped: they are not scheduled again.
        let living = admitted.jobs.iter().zip(&aside).filter(|(_, aside)| aside.is_none()).map(|(job, _)| job.clone());
        let living: Vec<NewJob> = living.collect();
        let HandedOver { answers, leased } = self.in_time("queue", watch, self.schedule(&living)).await??;
        let mut scheduled = answers.into_iter();
        let answers = aside.into_iter().filter_map(|aside| aside.or_else(|| scheduled.next()));
        Ok(HandedOver { answers: answers.collect(), leased })
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

    async fn schedule(&self, jobs: &[NewJob]) -> Result<HandedOver, StarterError> {
        if jobs.is_empty() {
            return Ok(HandedOver::default());
        }
        let answers = self.queue.schedule(jobs).await?;
        if answers.len() != jobs.len() {
            let (asked, got) = (jobs.len(), answers.len());
            return Err(QueueError::Refused(format!("the queue gave {got} answers for {asked} jobs")).into());
        }
        let leased = jobs.iter().zip(&answers).filter(|(_, answer)| **answer == Scheduled::Leased);
        let leased = leased.map(|(job, _)| job.id.clone()).collect();
        let queued = |answer| match answer {
            Scheduled::Scheduled => Queued::Scheduled,
            Scheduled::Known => Queued::Known,
            Scheduled::Leased => Queued::Leased,
            Scheduled::Dead => Queued::Dead,
        };
        Ok(HandedOver { answers: answers.into_iter().map(queued).collect(), leased })
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
    use crate::engine::queue::EmbeddedQueue;
    use crate::engine::schedule::age::AgeTable;
    use crate::model::post::TweetId;

    #[tokio::test]
    async fn who_did_not_answer_in_time_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let queue = EmbeddedQueue::open(&folder.path().join("jobs.db"), "n", Duration::from_secs(20)).await.unwrap();
        let ages: AgeTable = "1d: 1h".parse().unwrap();
        let starter = Starter::new(Arc::new(queue), None, ages, Arc::new(TweetId::date_of), |_| {
            Ok(crate::model::post::Tweet::default())
        })
        .within(Duration::from_millis(5));
        for who in ["store", "queue"] {
            let error = starter.in_time(who, Stopwatch::start(), std::future::pending::<()>()).await.unwrap_err();
            assert!(error.to_string().contains(&format!("the {who} did not answer within 5 ms")), "{error}");
            assert!(error.is_passing() && matches!(error, StarterError::Store(_)) == (who == "store"));
        }
        assert_eq!(starter.in_time("store", Stopwatch::start(), async { 7 }).await.unwrap(), 7);
    }
}
