//! Reads the [`Figures`] for whoever watches: once for all of them, and not at all while nobody does.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::figures::{Figures, MINUTES_SHOWN, Outage, Reading, Seen, Terms, moments};
use super::whole_queue::{PATIENCE, WholeQueue};
use crate::clock::{self, Millis, Stopwatch};
use crate::live::Live;
use crate::queue::{MINUTE_MS, Minute, QueueError};
use crate::store::Store;

/// How often it reads while somebody watches,
const READ_EVERY: Duration = Duration::from_secs(1);
/// unless that takes more than so large a part of the time: counting in a large file is a long walk.
const SHARE_OF_THE_TIME: u32 = 10;
/// How often it sees whether the store answers, meanwhile.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// The store, or why it cannot be opened, in one line.
pub type StoreAtHand = Live<Result<Arc<dyn Store>, String>>;

/// The one who reads, for all who watch in this process.
#[derive(Debug)]
pub struct Reader {
    whole: Arc<WholeQueue>,
    store: StoreAtHand,
    terms: Live<Terms>,
    seen: watch::Sender<Seen>,
    somebody_watches: Notify,
}

/// What is kept from one reading to the next.
#[derive(Debug, Default)]
struct Known {
    figures: Option<Arc<Figures>>,
    outage: Option<Outage>,
    store_out: Option<Outage>,
    store_checked: Option<Stopwatch>,
}

impl Reader {
    /// Reads nothing before it [runs](Reader::run).
    #[must_use]
    pub fn new(whole: Arc<WholeQueue>, store: StoreAtHand, terms: Live<Terms>) -> Self {
        Self { whole, store, terms, seen: watch::Sender::default(), somebody_watches: Notify::new() }
    }

    /// What is seen from now on, about once a second. Nothing [was read](Seen::is_read) at first, unless somebody
    /// watches already.
    pub fn watch(&self) -> watch::Receiver<Seen> {
        let seen = self.seen.subscribe();
        self.somebody_watches.notify_one();
        seen
    }

    /// What is seen at this moment: of the last second or two, as a rule. Waits while nobody [runs](Reader::run) it.
    pub async fn look(&self) -> Seen {
        let mut seen = self.watch();
        let read = seen.wait_for(Seen::is_read).await;
        // The sender is our own.
        read.map(|seen| seen.clone()).unwrap_or_default()
    }

    /// Reads while somebody watches, for ever.
    pub async fn run(&self) {
        let mut known = Known::default();
        loop {
            if self.seen.receiver_count() == 0 {
                // By the time that somebody comes, this is no news.
                self.seen.send_replace(Seen::default());
                known.outage = None;
                self.somebody_watches.notified().await;
                continue;
            }
            let watch = Stopwatch::start();
            self.read(&mut known).await;
            self.seen.send_replace(Seen { figures: known.figures.clone(), outage: known.outage.clone() });
            let took = watch.elapsed();
            // An outage takes long, too, but not the service's time.
            let every = if known.outage.is_some() { READ_EVERY } else { READ_EVERY.max(took * SHARE_OF_THE_TIME) };
            tokio::time::sleep(every.saturating_sub(took)).await;
        }
    }

    async fn read(&self, known: &mut Known) {
        let terms = self.terms.load();
        let minutes = known.figures.as_ref().map_or(&[][..], |last| &last.minutes);
        let check_store = known.store_checked.is_none_or(|checked| checked.elapsed() >= CHECK_EVERY);
        let check = async { if check_store { Some(self.check_store().await) } else { None } };
        let (reading, checked) = tokio::join!(self.reading(&terms, minutes), check);
        if let Some(checked) = checked {
            known.store_out = outage(checked, known.store_out.take());
            known.store_checked = Some(Stopwatch::start());
        }
        match reading {
            Ok(reading) => {
                let figures = Figures::new(reading, known.store_out.clone(), &terms, self.whole.capabilities);
                (known.figures, known.outage) = (Some(Arc::new(figures)), None);
            }
            Err(why) => known.outage = outage(Err(why), known.outage.take()),
        }
    }

    /// All that the queue and the ledger tell. Of the minutes known already, those that are over stay as they are.
    async fn reading(&self, terms: &Terms, known: &[Minute]) -> Result<Reading, String> {
        let (whole, queue) = (&self.whole, &self.whole.queue);
        let moments = moments(terms.buffer_ttl);
        let minutes = async {
            match joined(known, queue.minutes(2).await?) {
                Some(minutes) => Ok::<_, QueueError>(minutes),
                None => queue.minutes(MINUTES_SHOWN).await,
            }
        };
        let all =
            async { tokio::try_join!(queue.stats(), whole.accounts(), whole.reads(), queue.due_by(&moments), minutes) };
        let (stats, accounts, reads, due, minutes) = whole.in_time(all).await?;
        Ok(Reading { stats, accounts, reads, due, minutes })
    }

    async fn check_store(&self) -> Result<(), String> {
        let store = self.store.load();
        let store = store.as_ref().as_ref().map_err(Clone::clone)?;
        match tokio::time::timeout(PATIENCE, store.check()).await {
            Ok(checked) => checked.map_err(|error| error.to_string()),
            Err(_) => Err(format!("the store did not answer within {} s", PATIENCE.as_secs())),
        }
    }
}

/// An outage lasts since it was noticed, whatever the reasons are.
fn outage(answer: Result<(), String>, before: Option<Outage>) -> Option<Outage> {
    let why = answer.err()?;
    let since_ms = before.map_or_else(clock::wall_ms, |before| before.since_ms);
    Some(Outage { why, since_ms })
}

/// The minutes that are known, with the current one and the one before it as they are now. `None` where others are
/// missing, or where the queue's clock went back.
fn joined(known: &[Minute], news: Vec<Minute>) -> Option<Vec<Minute>> {
    let (last, first) = (known.last()?.at_ms, news.first()?.at_ms);
    if last != first && last != first + MINUTE_MS {
        return None;
    }
    let closed = known.iter().filter(|minute| minute.at_ms < first).cloned();
    let mut minutes: Vec<Minute> = closed.chain(news).collect();
    let shown = Millis::from(MINUTES_SHOWN) * MINUTE_MS;
    let newest = minutes.last()?.at_ms;
    minutes.retain(|minute| minute.at_ms > newest - shown);
    Some(minutes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(of: impl IntoIterator<Item = Millis>, requests: i64) -> Vec<Minute> {
        let minute = |minute| Minute {
            at_ms: minute * MINUTE_MS,
            counters: [("requests".to_owned(), requests)].into(),
            ..Minute::default()
        };
        of.into_iter().map(minute).collect()
    }

    #[test]
    fn minutes_that_are_over_are_kept_and_the_last_two_are_news() {
        let hour = minutes(1..=60, 1);
        let same = joined(&hour, minutes(59..=60, 2)).unwrap();
        assert_eq!(same, [minutes(1..=58, 1), minutes(59..=60, 2)].concat());
        let next = joined(&hour, minutes(60..=61, 2)).unwrap();
        assert_eq!(next, [minutes(2..=59, 1), minutes(60..=61, 2)].concat());
        // A minute was missed, the clock went back, or nothing is known.
        for news in [61..=62, 58..=59, 0..=1] {
            assert_eq!(joined(&hour, minutes(news, 2)), None);
        }
        assert_eq!(joined(&[], minutes(59..=60, 2)), None);
    }

    #[test]
    fn an_outage_lasts_since_it_was_noticed() {
        let first = outage(Err("no route".to_owned()), Some(Outage { why: "refused".to_owned(), since_ms: 7 }));
        assert_eq!(first, Some(Outage { why: "no route".to_owned(), since_ms: 7 }));
        assert_eq!(outage(Ok(()), first), None);
        assert!(outage(Err("no route".to_owned()), None).is_some_and(|new| new.since_ms > 7));
    }
}
