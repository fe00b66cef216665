//! The reader of [`Snapshot`]s: one reading for all viewers, and none without viewers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use super::cached_sources::CachedSources;
use super::freshness::{LaneMeasurement, has_lost_items, measure_freshness};
use super::pace::Pace;
use super::recent_counts::CounterHistory;
use super::slow_query::SlowQuery;
use super::whole_queue::QUEUE_TIMEOUT;
use super::{FigureSettings, NoAnswer, WholeQueue};
use crate::ops::report::crawls::{self, Crawls};
use crate::ops::report::known_accounts::KnownAccounts;
use crate::ops::report::list_backlog::{self, ListBacklog};
use crate::ops::report::status::Status;
use crate::ops::snapshot::{LatestReading, MINUTES_SHOWN, Measurement, Outage, Reading, Snapshot, count_offsets};
use collect::pipelines::kind::ItemContent;
use engine::base::clock::{self, Millis, Stopwatch};
use engine::base::reload::Reloadable;
use engine::base::task;
use engine::queue::{Minute, QueueError, Stats, append_minutes};
use store::{AccountTotal, Database, ListCrawl, ListTotals, OldReader, Store};

/// Interval between readings while the page has viewers; longer if they are slow, such as counts in a large file.
const READ_EVERY: Duration = Duration::from_secs(1);
/// Age after which a pending answer is outdated.
const STALE_AFTER: Duration = Duration::from_secs(600);
/// Interval between measurements of the stored answers; longer if they are slow.
const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// Interval after a measurement in which not all items were up to date.
const MEASURE_AGAIN: Duration = Duration::from_secs(2);
/// Time limit of a measurement and of each check of the store. A store that hangs shows within 15 s.
const STORE_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval of counts of the stored accounts; longer if they are slow, since a count reads all accounts.
const COUNT_EVERY: Duration = Duration::from_secs(15);
/// Age from which a transaction is reported. It prevents the cleanup of old rows, which slows down all others.
const OLD_TRANSACTION: Duration = Duration::from_secs(300);
const CHECK_EVERY: Duration = Duration::from_secs(5);

pub type OpenedStore = Reloadable<Result<Arc<dyn Store>, NoAnswer>>;

pub type OpenedDatabase = Reloadable<Result<Database, NoAnswer>>;

#[derive(Debug)]
pub struct SnapshotReader {
    whole: Arc<WholeQueue>,
    store: OpenedStore,
    database: Option<OpenedDatabase>,
    terms: Reloadable<FigureSettings>,
    polled: Option<Arc<CachedSources>>,
    latest: watch::Sender<LatestReading>,
    new_viewer: Notify,
}

/// A running query to queue and ledger, whose result has its duration; and its start.
type PendingReading = (AbortOnDropHandle<(Result<Reading, QueueError>, Duration)>, Stopwatch);

#[derive(Debug, Default)]
struct ReaderState {
    snapshot: Option<Arc<Snapshot>>,
    reading: Option<Reading>,
    /// A query that was not answered in time. Counting in a file cannot be stopped, so the query is not repeated.
    pending: Option<PendingReading>,
    took: Duration,
    /// True for a single reading, which does not know the start of an outage.
    reads_once: bool,
    outage: Option<Outage>,
    store_out: Option<Outage>,
    /// The reason why the queue or the store answers but cannot be written.
    unwritable: Option<Outage>,
    old_reader: Option<OldReader>,
    store_checked: Option<Stopwatch>,
    writes_checked: Option<Stopwatch>,
    pollers: Option<String>,
    measured: Measurement,
    /// Time of the measurement, and the time until the next one.
    measured_at: Option<(Stopwatch, Duration)>,
    reading_pace: Pace,
    brief_pace: Pace,
    measuring_pace: Pace,
    accounts: SlowQuery<Vec<AccountTotal>, KnownAccounts>,
    lists: SlowQuery<ListTotals, ListBacklog>,
    crawls: SlowQuery<Vec<ListCrawl>, Crawls>,
    counted: CounterHistory,
}

impl ReaderState {
    fn latest(&self) -> LatestReading {
        LatestReading { snapshot: self.snapshot.clone(), outage: self.outage.clone(), pollers: self.pollers.clone() }
    }
}

impl SnapshotReader {
    /// Reads nothing before it [runs](SnapshotReader::run).
    #[must_use]
    pub fn new(whole: Arc<WholeQueue>, store: OpenedStore, terms: Reloadable<FigureSettings>) -> Self {
        let (latest, new_viewer) = (watch::Sender::default(), Notify::new());
        Self { whole, store, database: None, terms, polled: None, latest, new_viewer }
    }

    #[must_use]
    pub fn with_database(self, database: OpenedDatabase) -> Self {
        Self { database: Some(database), ..self }
    }

    #[must_use]
    pub(super) fn with_polled(self, polled: Option<Arc<CachedSources>>) -> Self {
        Self { polled, ..self }
    }

    /// Subscribes to the readings, about one per second. The first viewer gets [nothing](LatestReading::is_read) at first.
    pub fn watch(&self) -> watch::Receiver<LatestReading> {
        let latest = self.latest.subscribe();
        self.new_viewer.notify_one();
        latest
    }

    /// Returns the current reading, normally at most two seconds old. Waits until a task [runs](SnapshotReader::run) it.
    pub async fn current(&self) -> LatestReading {
        let mut latest = self.watch();
        let read = latest.wait_for(LatestReading::is_read).await;
        // Cannot fail: this reader owns the sender.
        read.map(|latest| latest.clone()).unwrap_or_default()
    }

    /// Reads once, for a caller that asks only once; it need not [run](SnapshotReader::run).
    pub async fn read_once(&self) -> LatestReading {
        let mut state = ReaderState { reads_once: true, ..ReaderState::default() };
        self.read(&mut state).await;
        state.latest()
    }

    /// Reads while there are viewers. Never returns.
    pub async fn run(&self) {
        let mut state = ReaderState::default();
        loop {
            if self.latest.receiver_count() == 0 {
                // The last reading is outdated when the next viewer comes.
                self.latest.send_replace(LatestReading::default());
                state.outage = None;
                tokio::select! {
                    () = self.new_viewer.notified() => {}
                    // The start of a store outage must be known even without viewers.
                    () = tokio::time::sleep(CHECK_EVERY) => self.update_store_outage(&mut state).await,
                }
                continue;
            }
            let watch = Stopwatch::start();
            let pending = self.read(&mut state).await;
            self.latest.send_replace(state.latest());
            // The duration of an outage is no work of the service, so the pace ignores it.
            let is_out = state.outage.is_some();
            let every = if is_out { READ_EVERY } else { state.reading_pace.pause_after(pending, READ_EVERY) };
            let mut pace = READ_EVERY;
            while every.saturating_sub(watch.elapsed()) > pace {
                tokio::time::sleep(pace).await;
                pace = self.read_brief(&mut state).await;
            }
            tokio::time::sleep(every.saturating_sub(watch.elapsed())).await;
        }
    }

    /// Reads everything. Returns the time that queue and ledger took. Store and sources have their own pace: they may hang.
    async fn read(&self, state: &mut ReaderState) -> Duration {
        let terms = self.terms.load();
        let pending = state.pending.take().filter(|(_, since)| since.elapsed() < STALE_AFTER);
        let (mut pending, since) = pending.unwrap_or_else(|| self.start_reading(&terms, state.snapshot.clone()));
        // Up to twice the last duration, a missing answer is not an outage.
        let (mut answered, mut pace) = (None, READ_EVERY);
        while answered.is_none() && (state.took * 2).saturating_sub(since.elapsed()) > QUEUE_TIMEOUT {
            answered = tokio::time::timeout(pace, &mut pending).await.ok();
            if answered.is_none() {
                pace = self.read_brief(state).await;
            }
        }
        let reading = async {
            let watch = Stopwatch::start();
            let answer = async {
                let ended = |why: JoinError| (Err(QueueError::Unavailable(why.to_string())), Duration::ZERO);
                let answered = match answered {
                    Some(answered) => answered,
                    None => (&mut pending).await,
                };
                let (reading, took) = answered.unwrap_or_else(ended);
                Ok::<_, QueueError>((reading?, took))
            };
            (self.whole.in_time(QUEUE_TIMEOUT, answer).await, watch.elapsed())
        };
        let ((reading, waited), (), pollers) = tokio::join!(reading, self.watch_store(state), self.poller_trouble());
        state.pending = (!pending.is_finished()).then_some((pending, since));
        state.pollers = pollers;
        match reading {
            Ok((reading, took)) => {
                state.took = took;
                // A file states the time at which the count started.
                let now = reading.stats.now_ms + since.elapsed_ms();
                self.build_snapshot(state, &terms, reading, now).await;
                took
            }
            Err(why) => {
                self.note_queue_outage(state, &why);
                waited
            }
        }
    }

    /// Reads the quick figures and publishes them with the last counts: a slow count must not hide a fault. Returns the time until the next
    /// call.
    async fn read_brief(&self, state: &mut ReaderState) -> Duration {
        let Some(last) = state.reading.clone() else { return READ_EVERY };
        let brief = async {
            let watch = Stopwatch::start();
            (self.whole.in_time(QUEUE_TIMEOUT, self.whole.queue.brief_stats()).await, watch.elapsed())
        };
        let ((brief, took), (), pollers) = tokio::join!(brief, self.watch_store(state), self.poller_trouble());
        state.pollers = pollers;
        let every = match brief {
            Ok(brief) => {
                let Stats { lanes, delayed, due, oldest_lateness_ms, .. } = last.stats;
                let stats = Stats { lanes, delayed, due, oldest_lateness_ms, ..brief };
                let now = stats.now_ms;
                self.build_snapshot(state, &self.terms.load(), Reading { stats, ..last }, now).await;
                state.brief_pace.pause_after(took, READ_EVERY)
            }
            Err(why) => {
                self.note_queue_outage(state, &why);
                READ_EVERY
            }
        };
        self.latest.send_replace(state.latest());
        every
    }

    /// Builds the snapshot from this reading and the store's figures. `now` is the queue's clock, ms since the epoch.
    async fn build_snapshot(&self, state: &mut ReaderState, terms: &FigureSettings, reading: Reading, now: Millis) {
        let ids = reading.stats.delayed + reading.stats.leased;
        self.update_measurement(state, terms, ids, now).await;
        self.count_accounts(state).await;
        self.count_lists(state, terms, now).await;
        self.read_crawls(state, terms).await;
        let lately = state.counted.add(&reading.stats.counters);
        let (measured, known_accounts) = (state.measured.clone(), state.accounts.answer.clone());
        let (lists, crawls) = (state.lists.answer.clone(), state.crawls.answer.clone());
        state.reading = Some(reading.clone());
        let reading = Reading { measured, lately, known_accounts, lists, crawls, ..reading };
        let snapshot = Snapshot::new(reading, state.store_out.clone(), terms, self.whole.capabilities);
        let (unwritable, old_reader) = (state.unwritable.clone(), state.old_reader.clone());
        let status = Status { old_reader, ..snapshot.status };
        let snapshot = Snapshot { unwritable, status, ..snapshot };
        (state.snapshot, state.outage) = (Some(Arc::new(snapshot)), None);
    }

    /// Records an outage of the queue. The health check runs all the time, so it knows the start even without viewers.
    fn note_queue_outage(&self, state: &mut ReaderState, why: &NoAnswer) {
        let lost = || self.whole.health.trouble().map_or_else(clock::wall_ms, |trouble| trouble.since_ms);
        state.outage = Some(Outage { why: why.to_string(), since_ms: (!state.reads_once).then(lost) });
    }

    async fn poller_trouble(&self) -> Option<String> {
        let polled = self.polled.as_ref()?;
        polled.sources().await.collection_trouble(&self.whole.provider)
    }

    async fn watch_store(&self, state: &mut ReaderState) {
        let is_due = |checked: Option<Stopwatch>| checked.is_none_or(|checked| checked.elapsed() >= CHECK_EVERY);
        if is_due(state.store_checked) {
            self.update_store_outage(state).await;
        }
        // Without viewers only the store is checked. The first viewer must see that nothing can be saved.
        if is_due(state.writes_checked) {
            self.update_write_outage(state).await;
        }
    }

    /// Checks that store and queue can be written, and records the start of a failure.
    async fn update_write_outage(&self, state: &mut ReaderState) {
        if state.store_out.is_some() {
            return; // a second timeout would delay the page
        }
        let (written, old_reader) = tokio::join!(self.check_writes(), self.old_reader());
        state.old_reader = old_reader;
        state.unwritable = continued_outage(written, state.unwritable.take(), state.reads_once);
        state.writes_checked = Some(Stopwatch::start());
    }

    async fn update_store_outage(&self, state: &mut ReaderState) {
        let answer = self.check_store().await;
        state.store_out = continued_outage(answer, state.store_out.take(), state.reads_once);
        state.store_checked = Some(Stopwatch::start());
    }

    /// Measures the freshness if the last measurement is too old. `ids` is the number of ids in the queue, `now` its clock, ms since the
    /// epoch.
    async fn update_measurement(&self, state: &mut ReaderState, terms: &FigureSettings, ids: u64, now: Millis) {
        if let Some(Outage { why, .. }) = &state.store_out {
            // The next measurement is due as soon as the store answers.
            (state.measured.error, state.measured_at) = (Some(why.clone()), None);
            return;
        }
        let last = &state.measured;
        // A queue that has just become empty may have lost its data.
        let became_empty = ids == 0 && last.error.is_none() && last.of.iter().flatten().any(|of| of.ids > 0);
        // After a step of the clock, the last measurement has a future date.
        let stepped_back = last.at_ms.is_some_and(|at| now < at);
        let is_news = became_empty || stepped_back;
        let will_do = state.measured_at.as_ref().is_some_and(|(watch, rest)| watch.elapsed() < *rest);
        if will_do && !is_news {
            return;
        }
        let watch = Stopwatch::start();
        let store = self.store.load();
        let measured = match store.as_ref() {
            Ok(store) => {
                let now = || now + watch.elapsed_ms();
                let measuring = async {
                    let queue = &*self.whole.queue;
                    let of = measure_freshness(queue, &**store, terms, now).await?;
                    let has_lost = ids == 0 && has_lost_items(&**store, queue.namespace(), now()).await?;
                    Ok::<_, NoAnswer>((of, has_lost))
                };
                match tokio::time::timeout(STORE_TIMEOUT, measuring).await {
                    Ok(measured) => measured,
                    Err(_) => Err(NoAnswer::within_seconds("the queue or the store did not answer", STORE_TIMEOUT)),
                }
            }
            Err(why) => Err(why.clone()),
        };
        match measured {
            Ok((of, has_lost)) => {
                state.measured = Measurement { of: Some(of), at_ms: Some(now), has_lost, ..Measurement::default() };
            }
            Err(why) => state.measured.error = Some(why.to_string()),
        }
        let is_well = state.measured.of.iter().flatten().all(LaneMeasurement::is_up_to_date);
        // The store of an empty queue may have items that are about to be scheduled.
        let every = if is_well && ids > 0 { MEASURE_EVERY } else { MEASURE_AGAIN };
        let every = match &state.measured.error {
            // The duration of a failure is no work of the services.
            Some(_) => MEASURE_EVERY,
            None => state.measuring_pace.pause_after(watch.elapsed(), every),
        };
        if state.measured.error.is_none() {
            state.measured.for_ms = clock::millis(every);
        }
        state.measured_at = Some((Stopwatch::start(), every));
    }

    async fn count_accounts(&self, state: &mut ReaderState) {
        if self.whole.terms.load().words.content != ItemContent::Accounts {
            return;
        }
        let (store, namespace) = (self.store.clone(), self.whole.queue.namespace().to_owned());
        let ask = || async move {
            let store = store.load();
            let store = store.as_ref().as_ref().map_err(Clone::clone)?;
            Ok(store.account_states(&namespace).await?)
        };
        let out = state.store_out.as_ref();
        state.accounts.refresh(COUNT_EVERY, STORE_TIMEOUT, out, ask, KnownAccounts::new).await;
    }

    /// Counts the lists, if the items are lists. `now` is the queue's clock, ms since the epoch.
    async fn count_lists(&self, state: &mut ReaderState, terms: &FigureSettings, now: Millis) {
        let (Some(lists), Some(database)) = (&terms.lists, self.database.clone()) else { return };
        let (namespace, bounds) = (self.whole.queue.namespace().to_owned(), list_backlog::bounds(lists, now));
        let ask = || async move {
            let database = database.load();
            let Database { edges, .. } = database.as_ref().as_ref().map_err(Clone::clone)?;
            Ok(edges.list_totals(&namespace, &bounds).await?)
        };
        let out = state.store_out.as_ref();
        let of = |read| ListBacklog::new(read, lists, now);
        state.lists.refresh(MEASURE_EVERY, STORE_TIMEOUT, out, ask, of).await;
    }

    async fn read_crawls(&self, state: &mut ReaderState, terms: &FigureSettings) {
        let (Some(lists), Some(database)) = (&terms.lists, self.database.clone()) else { return };
        let namespace = self.whole.queue.namespace().to_owned();
        let ask = || async move {
            let database = database.load();
            let Database { edges, .. } = database.as_ref().as_ref().map_err(Clone::clone)?;
            Ok(edges.crawls_under_way(&namespace, 0, crawls::MAX_CRAWLS).await?)
        };
        let out = state.store_out.as_ref();
        state.crawls.refresh(MEASURE_EVERY, STORE_TIMEOUT, out, ask, |read| Crawls::new(read, lists.pages)).await;
    }

    /// Starts a query of all figures of queue and ledger. Known minutes that are over are not read again.
    fn start_reading(&self, terms: &FigureSettings, last: Option<Arc<Snapshot>>) -> PendingReading {
        let (whole, offsets) = (self.whole.clone(), count_offsets(terms.buffer_ttl));
        let pending = async move {
            let (watch, queue) = (Stopwatch::start(), &whole.queue);
            let known: &[Minute] = last.as_ref().map_or(&[][..], |last| &last.minutes);
            let minutes = async {
                match append_minutes(known, queue.minutes(2).await?, MINUTES_SHOWN) {
                    Some(minutes) => Ok::<_, QueueError>(minutes),
                    None => queue.minutes(MINUTES_SHOWN).await,
                }
            };
            let all = tokio::try_join!(
                queue.stats(),
                whole.statuses(),
                whole.reads(),
                queue.due_counts_by(&offsets),
                minutes
            );
            let reading = all.map(|(stats, accounts, reads, due, minutes)| Reading {
                stats,
                accounts,
                reads,
                due,
                minutes,
                ..Reading::default()
            });
            (reading, watch.elapsed())
        };
        let pending = task::run_in_task(task::current(), pending);
        (AbortOnDropHandle::new(tokio::spawn(pending)), Stopwatch::start())
    }

    async fn check_store(&self) -> Result<(), NoAnswer> {
        let store = self.store.load();
        let store = store.as_ref().as_ref().map_err(Clone::clone)?;
        match tokio::time::timeout(STORE_TIMEOUT, store.check()).await {
            Ok(checked) => Ok(checked?),
            Err(_) => Err(NoAnswer::within_seconds("the store did not answer", STORE_TIMEOUT)),
        }
    }

    /// Returns the oldest transaction in the store's database if it is too old; `None` also if the store does not answer.
    async fn old_reader(&self) -> Option<OldReader> {
        let store = self.store.load();
        let Ok(store) = store.as_ref() else { return None };
        tokio::time::timeout(STORE_TIMEOUT, store.old_reader(OLD_TRANSACTION)).await.ok()?.ok()?
    }

    /// Checks that store and queue can be written; `Ok` also if one does not answer, which other checks report.
    async fn check_writes(&self) -> Result<(), NoAnswer> {
        let checks = async {
            if let Ok(store) = self.store.load().as_ref() {
                store.check_writes().await?;
            }
            self.whole.queue.check_writes().await.map_err(|why| why.to_string())
        };
        tokio::time::timeout(STORE_TIMEOUT, checks).await.unwrap_or(Ok(())).map_err(NoAnswer::Failed)
    }
}

/// Returns the outage of this answer. It keeps the start of the outage `before`, even if the reason changes.
fn continued_outage(answer: Result<(), NoAnswer>, before: Option<Outage>, reads_once: bool) -> Option<Outage> {
    let why = answer.err()?.to_string();
    let since_ms = before.map_or_else(|| (!reads_once).then(clock::wall_ms), |before| before.since_ms);
    Some(Outage { why, since_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_lasts_since_it_was_noticed() {
        let out = |why: &str, since_ms| Some(Outage { why: why.to_owned(), since_ms });
        let failed = || Err(NoAnswer::Failed("no route".to_owned()));
        let first = continued_outage(failed(), out("refused", Some(7)), false);
        assert_eq!(first, out("no route", Some(7)));
        assert_eq!(continued_outage(Ok(()), first, false), None);
        assert!(continued_outage(failed(), None, false).is_some_and(|new| new.since_ms > Some(7)));
        assert_eq!(continued_outage(failed(), None, true), out("no route", None));
    }
}
