//! Reads the [`Snapshot`] once for all viewers, and not at all without viewers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use super::counting::Counting;
use super::freshness::{Measured, has_lost, measure};
use super::lately::History;
use super::pace::Pace;
use super::polled::Polled;
use super::whole_queue::PATIENCE;
use super::{Terms, WholeQueue};
use crate::base::clock::{self, Millis, Stopwatch};
use crate::base::reload::Reloadable;
use crate::base::task;
use crate::engine::queue::{Minute, QueueError, Stats, joined};
use crate::ops::report::crawls::{self, Crawls};
use crate::ops::report::known_accounts::KnownAccounts;
use crate::ops::report::list_backlog::{self, ListBacklog};
use crate::ops::snapshot::{LatestReading, MINUTES_SHOWN, Outage, Reading, Sampled, Snapshot, moments};
use crate::pipelines::profiles::holds_accounts;
use crate::store::{AccountTotal, Database, ListCrawl, ListTotals, OldReader, Store};

/// Interval between readings while the page has viewers, longer if they are slow: counting in a large file is a long walk.
const READ_EVERY: Duration = Duration::from_secs(1);
/// Age after which a pending answer is outdated.
const STALE_AFTER: Duration = Duration::from_secs(600);
/// Interval between measurements of the stored answers, unless they take long,
const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// or after a measurement in which not all were up to date,
const MEASURE_AGAIN: Duration = Duration::from_secs(2);
/// and time limit of a measurement and of each check of the store. A store that hangs shows within 15 s.
const STORE_PATIENCE: Duration = Duration::from_secs(3);
/// Interval of counts of the stored accounts; longer if a count takes more than its part of the time, since it reads all of them.
const COUNT_EVERY: Duration = Duration::from_secs(15);
/// Age from which a transaction is reported. It keeps old rows from being cleaned up, which slows down all others.
const OLD_TRANSACTION: Duration = Duration::from_secs(300);
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// The store, or the reason why it cannot be opened, in one line.
pub type StoreAtHand = Reloadable<Result<Arc<dyn Store>, String>>;

/// The database, or the reason why it cannot be opened, in one line.
pub type DatabaseAtHand = Reloadable<Result<Database, String>>;

#[derive(Debug)]
pub struct Reader {
    whole: Arc<WholeQueue>,
    store: StoreAtHand,
    database: Option<DatabaseAtHand>,
    terms: Reloadable<Terms>,
    polled: Option<Arc<Polled>>,
    latest: watch::Sender<LatestReading>,
    new_viewer: Notify,
}

/// A question to queue and ledger: their answer with its duration, and the time of the question.
type Asking = (AbortOnDropHandle<(Result<Reading, QueueError>, Duration)>, Stopwatch);

#[derive(Debug, Default)]
struct ReaderState {
    snapshot: Option<Arc<Snapshot>>,
    reading: Option<Reading>,
    /// A question that was not answered in time. Counting in a file cannot be stopped, so the question is not put again meanwhile.
    asking: Option<Asking>,
    took: Duration,
    /// A reader that looks once does not know the start of an outage.
    looks_once: bool,
    outage: Option<Outage>,
    store_out: Option<Outage>,
    /// The reason why queue or store, which answer, cannot be written.
    unwritable: Option<Outage>,
    old_reader: Option<OldReader>,
    store_checked: Option<Stopwatch>,
    writes_checked: Option<Stopwatch>,
    pollers: Option<String>,
    measured: Sampled,
    /// Time of the measurement, and the time until the next one.
    measured_at: Option<(Stopwatch, Duration)>,
    reading_pace: Pace,
    brief_pace: Pace,
    measuring_pace: Pace,
    accounts: Counting<Vec<AccountTotal>, KnownAccounts>,
    lists: Counting<ListTotals, ListBacklog>,
    crawls: Counting<Vec<ListCrawl>, Crawls>,
    counted: History,
}

impl ReaderState {
    fn latest(&self) -> LatestReading {
        LatestReading { snapshot: self.snapshot.clone(), outage: self.outage.clone(), pollers: self.pollers.clone() }
    }
}

impl Reader {
    /// Reads nothing before it [runs](Reader::run).
    #[must_use]
    pub fn new(whole: Arc<WholeQueue>, store: StoreAtHand, terms: Reloadable<Terms>) -> Self {
        let (latest, new_viewer) = (watch::Sender::default(), Notify::new());
        Self { whole, store, database: None, terms, polled: None, latest, new_viewer }
    }

    #[must_use]
    pub fn with_database(self, database: DatabaseAtHand) -> Self {
        Self { database: Some(database), ..self }
    }

    #[must_use]
    pub(super) fn with_polled(self, polled: Option<Arc<Polled>>) -> Self {
        Self { polled, ..self }
    }

    /// Subscribes to the readings, about one per second. Nothing [was read](LatestReading::is_read) at first, unless there is a viewer already.
    pub fn watch(&self) -> watch::Receiver<LatestReading> {
        let latest = self.latest.subscribe();
        self.new_viewer.notify_one();
        latest
    }

    /// Returns the current reading, normally at most two seconds old. Waits until a task [runs](Reader::run) it.
    pub async fn look(&self) -> LatestReading {
        let mut latest = self.watch();
        let read = latest.wait_for(LatestReading::is_read).await;
        // Cannot fail: this reader owns the sender.
        read.map(|latest| latest.clone()).unwrap_or_default()
    }

    /// Reads once, for a caller that asks only once; it need not [run](Reader::run).
    pub async fn look_once(&self) -> LatestReading {
        let mut known = ReaderState { looks_once: true, ..ReaderState::default() };
        self.read(&mut known).await;
        known.latest()
    }

    /// Reads while there are viewers; never returns.
    pub async fn run(&self) {
        let mut known = ReaderState::default();
        loop {
            if self.latest.receiver_count() == 0 {
                // The last reading is outdated when the next viewer comes.
                self.latest.send_replace(LatestReading::default());
                known.outage = None;
                tokio::select! {
                    () = self.new_viewer.notified() => {}
                    // The start of an outage of the store is known even without viewers.
                    () = tokio::time::sleep(CHECK_EVERY) => self.look_at_store(&mut known).await,
                }
                continue;
            }
            let watch = Stopwatch::start();
            let asking = self.read(&mut known).await;
            self.latest.send_replace(known.latest());
            // An outage takes long, too, but not the service's time.
            let is_out = known.outage.is_some();
            let every = if is_out { READ_EVERY } else { known.reading_pace.rest(asking, READ_EVERY) };
            let mut pace = READ_EVERY;
            while every.saturating_sub(watch.elapsed()) > pace {
                tokio::time::sleep(pace).await;
                pace = self.look_again(&mut known).await;
            }
            tokio::time::sleep(every.saturating_sub(watch.elapsed())).await;
        }
    }

    /// Reads everything. Returns the time that queue and ledger took. The store and the sources have their own pace, and one that hangs
    /// must not delay the next reading.
    async fn read(&self, known: &mut ReaderState) -> Duration {
        let terms = self.terms.load();
        let asking = known.asking.take().filter(|(_, since)| since.elapsed() < STALE_AFTER);
        let (mut asking, since) = asking.unwrap_or_else(|| self.ask(&terms, known.snapshot.clone()));
        // Twice the last duration is no outage.
        let (mut answered, mut pace) = (None, READ_EVERY);
        while answered.is_none() && (known.took * 2).saturating_sub(since.elapsed()) > PATIENCE {
            answered = tokio::time::timeout(pace, &mut asking).await.ok();
            if answered.is_none() {
                pace = self.look_again(known).await;
            }
        }
        let reading = async {
            let watch = Stopwatch::start();
            let answer = async {
                let ended = |why: JoinError| (Err(QueueError::Unavailable(why.to_string())), Duration::ZERO);
                let answered = match answered {
                    Some(answered) => answered,
                    None => (&mut asking).await,
                };
                let (reading, took) = answered.unwrap_or_else(ended);
                Ok::<_, QueueError>((reading?, took))
            };
            (self.whole.in_time(PATIENCE, answer).await, watch.elapsed())
        };
        let ((reading, waited), (), pollers) =
            tokio::join!(reading, self.watch_store(known), self.trouble_of_pollers());
        known.asking = (!asking.is_finished()).then_some((asking, since));
        known.pollers = pollers;
        match reading {
            Ok((reading, took)) => {
                known.took = took;
                // A file states the time at which the count started.
                let now = reading.stats.now_ms + since.elapsed_ms();
                self.show(known, &terms, reading, now).await;
                took
            }
            Err(why) => {
                self.lost_contact(known, why);
                waited
            }
        }
    }

    /// Reads the quick figures again and shows them with the last counts. A slow count must not hide that no worker runs, that it is
    /// paused, or that the store is out. Returns the time until the next look.
    async fn look_again(&self, known: &mut ReaderState) -> Duration {
        let Some(last) = known.reading.clone() else { return READ_EVERY };
        let brief = async {
            let watch = Stopwatch::start();
            (self.whole.in_time(PATIENCE, self.whole.queue.brief()).await, watch.elapsed())
        };
        let ((brief, took), (), pollers) = tokio::join!(brief, self.watch_store(known), self.trouble_of_pollers());
        known.pollers = pollers;
        let every = match brief {
            Ok(brief) => {
                let Stats { lanes, delayed, due, oldest_lateness_ms, .. } = last.stats;
                let stats = Stats { lanes, delayed, due, oldest_lateness_ms, ..brief };
                let now = stats.now_ms;
                self.show(known, &self.terms.load(), Reading { stats, ..last }, now).await;
                known.brief_pace.rest(took, READ_EVERY)
            }
            Err(why) => {
                self.lost_contact(known, why);
                READ_EVERY
            }
        };
        self.latest.send_replace(known.latest());
        every
    }

    /// Shows the answer of queue and ledger, with the store's figures. `now` is the queue's clock, ms since the epoch.
    async fn show(&self, known: &mut ReaderState, terms: &Terms, reading: Reading, now: Millis) {
        let ids = reading.stats.delayed + reading.stats.leased;
        self.measure(known, terms, ids, now).await;
        self.count_accounts(known).await;
        self.count_lists(known, terms, now).await;
        self.read_crawls(known, terms).await;
        let lately = known.counted.add(&reading.stats.counters);
        let (measured, known_accounts) = (known.measured.clone(), known.accounts.said.clone());
        let (lists, crawls) = (known.lists.said.clone(), known.crawls.said.clone());
        known.reading = Some(reading.clone());
        let reading = Reading { measured, lately, known_accounts, lists, crawls, ..reading };
        let snapshot = Snapshot::new(reading, known.store_out.clone(), terms, self.whole.capabilities);
        let (unwritable, old_reader) = (known.unwritable.clone(), known.old_reader.clone());
        let snapshot = Snapshot { unwritable, status: snapshot.status.with_old_reader(old_reader), ..snapshot };
        (known.snapshot, known.outage) = (Some(Arc::new(snapshot)), None);
    }

    /// Notes that the queue does not answer. The health check watches the contact all the time, so the start of the outage is known even
    /// without viewers.
    fn lost_contact(&self, known: &mut ReaderState, why: String) {
        let lost = || self.whole.health.trouble().map_or_else(clock::wall_ms, |trouble| trouble.since_ms);
        known.outage = Some(Outage { why, since_ms: (!known.looks_once).then(lost) });
    }

    async fn trouble_of_pollers(&self) -> Option<String> {
        let polled = self.polled.as_ref()?;
        polled.sources().await.trouble_of(&self.whole.provider)
    }

    /// Checks the store if the last check is old enough.
    async fn watch_store(&self, known: &mut ReaderState) {
        let is_due = |checked: Option<Stopwatch>| checked.is_none_or(|checked| checked.elapsed() >= CHECK_EVERY);
        if is_due(known.store_checked) {
            self.look_at_store(known).await;
        }
        // Without viewers only the store is checked. The first viewer must see that nothing can be saved.
        if is_due(known.writes_checked) {
            self.look_at_writes(known).await;
        }
    }

    /// Checks that store and queue can be written, and notes since when they cannot. The queue is asked only while the page has viewers.
    async fn look_at_writes(&self, known: &mut ReaderState) {
        if known.store_out.is_some() {
            return; // it would keep the page waiting once more
        }
        let (written, old_reader) = tokio::join!(self.check_writes(), self.old_reader());
        known.old_reader = old_reader;
        known.unwritable = outage(written, known.unwritable.take(), known.looks_once);
        known.writes_checked = Some(Stopwatch::start());
    }

    async fn look_at_store(&self, known: &mut ReaderState) {
        let answer = self.check_store().await;
        known.store_out = outage(answer, known.store_out.take(), known.looks_once);
        known.store_checked = Some(Stopwatch::start());
    }

    /// Measures the freshness of the stored answers if the last measurement is too old. `ids` is the number of ids in the queue, `now`
    /// the queue's clock, ms since the epoch.
    async fn measure(&self, known: &mut ReaderState, terms: &Terms, ids: u64, now: Millis) {
        if let Some(Outage { why, .. }) = &known.store_out {
            // Measured again as soon as the store answers.
            (known.measured.error, known.measured_at) = (Some(why.clone()), None);
            return;
        }
        let last = &known.measured;
        // Measure again if the queue has just become empty: it may have lost its data,
        let became_empty = ids == 0 && last.error.is_none() && last.of.iter().flatten().any(|of| of.ids > 0);
        // or if the clock stepped back: the last measurement then has a future date.
        let stepped_back = last.at_ms.is_some_and(|at| now < at);
        let is_news = became_empty || stepped_back;
        let will_do = known.measured_at.as_ref().is_some_and(|(watch, rest)| watch.elapsed() < *rest);
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
                    let of = measure(queue, &**store, terms, now).await?;
                    let has_lost = ids == 0 && has_lost(&**store, queue.namespace(), now()).await?;
                    Ok::<_, String>((of, has_lost))
                };
                match tokio::time::timeout(STORE_PATIENCE, measuring).await {
                    Ok(measured) => measured,
                    Err(_) => Err(format!("queue and store did not answer within {} s", STORE_PATIENCE.as_secs())),
                }
            }
            Err(why) => Err(why.clone()),
        };
        match measured {
            Ok((of, has_lost)) => {
                known.measured = Sampled { of: Some(of), at_ms: Some(now), has_lost, ..Sampled::default() };
            }
            Err(why) => known.measured.error = Some(why),
        }
        let is_well = known.measured.of.iter().flatten().all(Measured::is_well);
        // The store of an empty queue may have items that are about to be scheduled.
        let every = if is_well && ids > 0 { MEASURE_EVERY } else { MEASURE_AGAIN };
        let every = match &known.measured.error {
            // The time did not go into the services' work.
            Some(_) => MEASURE_EVERY,
            None => known.measuring_pace.rest(watch.elapsed(), every),
        };
        if known.measured.error.is_none() {
            known.measured.for_ms = clock::millis(every);
        }
        known.measured_at = Some((Stopwatch::start(), every));
    }

    async fn count_accounts(&self, known: &mut ReaderState) {
        if !holds_accounts(self.whole.queue.namespace()) {
            return;
        }
        let (store, namespace) = (self.store.clone(), self.whole.queue.namespace().to_owned());
        let ask = || async move {
            let store = store.load();
            let store = store.as_ref().as_ref().map_err(Clone::clone)?;
            store.account_states(&namespace).await.map_err(|error| error.to_string())
        };
        let out = known.store_out.as_ref();
        known.accounts.ask(COUNT_EVERY, STORE_PATIENCE, out, ask, KnownAccounts::of).await;
    }

    /// Counts the lists, where the items are lists and the last count is too old; `now` is the queue's clock, ms since the epoch.
    async fn count_lists(&self, known: &mut ReaderState, terms: &Terms, now: Millis) {
        let (Some(lists), Some(database)) = (&terms.lists, self.database.clone()) else { return };
        let (namespace, bounds) = (self.whole.queue.namespace().to_owned(), list_backlog::bounds(lists, now));
        let ask = || async move {
            let database = database.load();
            let Database { edges, .. } = database.as_ref().as_ref().map_err(Clone::clone)?;
            edges.list_totals(&namespace, &bounds).await.map_err(|error| error.to_string())
        };
        let out = known.store_out.as_ref();
        let of = |read| ListBacklog::new(read, lists, now);
        known.lists.ask(MEASURE_EVERY, STORE_PATIENCE, out, ask, of).await;
    }

    async fn read_crawls(&self, known: &mut ReaderState, terms: &Terms) {
        let (Some(lists), Some(database)) = (&terms.lists, self.database.clone()) else { return };
        let namespace = self.whole.queue.namespace().to_owned();
        let ask = || async move {
            let database = database.load();
            let Database { edges, .. } = database.as_ref().as_ref().map_err(Clone::clone)?;
            let read = edges.crawls_under_way(&namespace, 0, crawls::READ).await;
            read.map_err(|error| error.to_string())
        };
        let out = known.store_out.as_ref();
        known.crawls.ask(MEASURE_EVERY, STORE_PATIENCE, out, ask, |read| Crawls::of(read, lists.pages)).await;
    }

    /// Asks queue and ledger for everything. Known minutes that are over stay as they are.
    fn ask(&self, terms: &Terms, last: Option<Arc<Snapshot>>) -> Asking {
        let (whole, moments) = (self.whole.clone(), moments(terms.buffer_ttl));
        let asking = async move {
            let (watch, queue) = (Stopwatch::start(), &whole.queue);
            let known: &[Minute] = last.as_ref().map_or(&[][..], |last| &last.minutes);
            let minutes = async {
                match joined(known, queue.minutes(2).await?, MINUTES_SHOWN) {
                    Some(minutes) => Ok::<_, QueueError>(minutes),
                    None => queue.minutes(MINUTES_SHOWN).await,
                }
            };
            let all = tokio::try_join!(queue.stats(), whole.statuses(), whole.reads(), queue.due_by(&moments), minutes);
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
        let asking = task::within(task::current(), asking);
        (AbortOnDropHandle::new(tokio::spawn(asking)), Stopwatch::start())
    }

    async fn check_store(&self) -> Result<(), String> {
        let store = self.store.load();
        let store = store.as_ref().as_ref().map_err(Clone::clone)?;
        match tokio::time::timeout(STORE_PATIENCE, store.check()).await {
            Ok(checked) => checked.map_err(|error| error.to_string()),
            Err(_) => Err(format!("the store did not answer within {} s", STORE_PATIENCE.as_secs())),
        }
    }

    /// The oldest transaction in the store's database, if it is too old. A store that does not answer is reported elsewhere.
    async fn old_reader(&self) -> Option<OldReader> {
        let store = self.store.load();
        let Ok(store) = store.as_ref() else { return None };
        tokio::time::timeout(STORE_PATIENCE, store.old_reader(OLD_TRANSACTION)).await.ok()?.ok()?
    }

    /// Checks that store and queue can be written. A service that does not answer is reported elsewhere.
    async fn check_writes(&self) -> Result<(), String> {
        let checks = async {
            if let Ok(store) = self.store.load().as_ref() {
                store.check_writes().await?;
            }
            self.whole.queue.check_writes().await
        };
        tokio::time::timeout(STORE_PATIENCE, checks).await.unwrap_or(Ok(()))
    }
}

/// An outage keeps its start, even if the reason changes. A reader that looks once knows no start.
fn outage(answer: Result<(), String>, before: Option<Outage>, looks_once: bool) -> Option<Outage> {
    let why = answer.err()?;
    let since_ms = before.map_or_else(|| (!looks_once).then(clock::wall_ms), |before| before.since_ms);
    Some(Outage { why, since_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_lasts_since_it_was_noticed() {
        let out = |why: &str, since_ms| Some(Outage { why: why.to_owned(), since_ms });
        let failed = || Err("no route".to_owned());
        let first = outage(failed(), out("refused", Some(7)), false);
        assert_eq!(first, out("no route", Some(7)));
        assert_eq!(outage(Ok(()), first, false), None);
        assert!(outage(failed(), None, false).is_some_and(|new| new.since_ms > Some(7)));
        assert_eq!(outage(failed(), None, true), out("no route", None));
    }
}
