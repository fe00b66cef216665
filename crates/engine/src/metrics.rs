//! Counters and histograms of one process. The queue sums the counters over all workers, and `ops` shows them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::base::call_error::CallError;
use crate::base::clock::{Millis, Stopwatch};
use crate::error_log::{ErrorLog, ErrorPlace};
use crate::last_call::LastCall;
use crate::lateness::Lateness;

const MAX_REASONS: usize = 32;
const ANOTHER_REASON: &str = "another reason";

/// Defines a set of counters. The doc comment of each is its help text.
#[macro_export]
macro_rules! __counters {
    ($(#[doc = $of:literal])* $Counters:ident { $(#[doc = $doc:literal] $name:ident),* $(,)? }) => {
        $(#[doc = $of])*
        #[derive(Debug, Default)]
        pub struct $Counters {
            $(#[doc = $doc] pub $name: $crate::metrics::Counter,)*
        }

        impl $crate::metrics::CounterSet for $Counters {
            fn list_with_help(&self) -> Vec<(&'static str, &'static str, &$crate::metrics::Counter)> {
                vec![$((stringify!($name), $doc, &self.$name)),*]
            }
        }
    };
}
pub use __counters as counters;

macro_rules! histograms {
    ($(#[doc = $doc:literal] $name:ident: $bounds:expr),* $(,)?) => {
        #[derive(Debug)]
        pub struct Histograms {
            $(#[doc = $doc] pub $name: Histogram,)*
        }

        impl Default for Histograms {
            fn default() -> Self {
                Self { $($name: Histogram::new($bounds),)* }
            }
        }

        impl Histograms {
            pub fn list_with_help(&self) -> impl Iterator<Item = (&'static str, &'static str, &Histogram)> {
                [$((stringify!($name), $doc, &self.$name)),*].into_iter()
            }
        }
    };
}

histograms! {
    /// Lateness of each id at its claim, in seconds.
    lateness_seconds: [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1_800.0, 3_600.0, 21_600.0, 86_400.0],
    /// Ids in each claimed batch.
    batch_ids: [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 99.0, 100.0],
    /// Duration of each call to the API, in seconds.
    lookup_seconds: [0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
    /// Time of the store to save each batch, in seconds.
    save_seconds: [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0],
    /// Time of the queue to settle each batch, in seconds.
    settle_seconds: [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0],
}

counters! {
    /// Counters of one process, since it started.
    Counters {
        /// Calls made to the API.
        requests,
        /// Calls of those that gave no outcomes.
        requests_failed,
        /// Duration of all calls to the API together, in ms.
        lookup_ms,
        /// Ids asked for in calls that gave outcomes.
        looked_up,
        /// Items found.
        found,
        /// Items found, withheld somewhere.
        withheld,
        /// Ids the API did not return.
        unavailable,
        /// Objects we could not read.
        broken,
        /// Unrequested objects in answers.
        unsolicited,
        /// Items whose life ended.
        ended,
        /// Items marked dead.
        buried_here,
        /// Answers the store refused because it had a newer one.
        saves_refused,
        /// History rows written.
        changes,
        /// Ids put into other pipelines that were not in them before.
        fanned_out,
        /// Ids that another pipeline's queue did not take.
        fan_out_failed,
        /// Members of `incoming` scheduled or known.
        incoming_accepted,
        /// Members of `incoming` that are malformed.
        incoming_refused,
        /// Members of `incoming` past the last age bracket, which are not looked up.
        incoming_too_old,
        /// Changed configurations that were taken over.
        config_reloads,
        /// Changed configurations that were refused.
        config_reloads_refused,
    }
}

/// Counters of one kind, for a scrape and for the queue.
pub trait CounterSet: fmt::Debug + Send + Sync {
    fn list_with_help(&self) -> Vec<(&'static str, &'static str, &Counter)>;

    fn unreported(&self) -> Unreported<'_> {
        let unreported =
            self.list_with_help().into_iter().map(|(name, _, counter)| (name, counter.unreported(), counter));
        Unreported(unreported.filter(|(_, by, _)| *by != 0).collect())
    }
}

/// Increments of some counters since the last report to the queue.
#[derive(Debug)]
pub struct Unreported<'a>(Vec<(&'static str, i64, &'a Counter)>);

impl Unreported<'_> {
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, i64)> {
        self.0.iter().map(|(name, by, _)| (*name, *by)).collect()
    }

    pub fn mark_reported(&self) {
        self.0.iter().for_each(|(_, by, counter)| counter.mark_reported(*by));
    }
}

#[derive(Debug, Default)]
pub struct Counter {
    total: AtomicI64,
    reported: AtomicI64,
}

impl Counter {
    pub fn add(&self, by: usize) {
        self.total.fetch_add(i64::try_from(by).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.total.load(Ordering::Relaxed)
    }

    fn unreported(&self) -> i64 {
        self.get() - self.reported.load(Ordering::Relaxed)
    }

    fn mark_reported(&self, by: i64) {
        self.reported.fetch_add(by, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub struct Metrics {
    pub counters: Counters,
    pub histograms: Histograms,
    /// Batches claimed and not settled yet.
    pub in_flight: Gauge,
    pub last_call: LastCall,
    pub errors: ErrorLog,
    /// In ms, to two digits, for a percentile that a person reads.
    lateness: Mutex<hdrhistogram::Histogram<u64>>,
    unreported_lateness: Mutex<Lateness>,
    additional_counters: Mutex<Vec<(String, Arc<dyn CounterSet>)>>,
    unreadable: Mutex<BTreeMap<String, u64>>,
    /// Number of task restarts, by name and cause.
    restarts: Mutex<BTreeMap<(String, &'static str), u64>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    #[must_use]
    pub fn new() -> Self {
        Self::with_error_log(ErrorLog::default())
    }

    #[must_use]
    pub fn with_error_log(errors: ErrorLog) -> Self {
        // Two significant digits of ms; it grows automatically. The crate accepts 0 to 5 digits, so this cannot fail.
        #[allow(clippy::expect_used)]
        let lateness = hdrhistogram::Histogram::new(2).expect("two significant digits");
        Self {
            counters: Counters::default(),
            histograms: Histograms::default(),
            in_flight: Gauge::default(),
            last_call: LastCall::default(),
            errors,
            lateness: Mutex::new(lateness),
            unreported_lateness: Mutex::default(),
            additional_counters: Mutex::default(),
            unreadable: Mutex::new([(ANOTHER_REASON.to_owned(), 0)].into()),
            restarts: Mutex::default(),
        }
    }

    /// Makes an API call for `ids` ids, counts and times it, and records its error. `example` is one of the ids.
    pub async fn call<T, E: CallError>(
        &self,
        (endpoint, example): (&str, Option<&str>),
        ids: usize,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let (counters, watch) = (&self.counters, Stopwatch::start());
        counters.requests.add(1);
        let answer = call.await;
        self.histograms.lookup_seconds.observe(watch.elapsed().as_secs_f64());
        counters.lookup_ms.add(usize::try_from(watch.elapsed_ms()).unwrap_or(0));
        match &answer {
            Ok(_) => {
                counters.looked_up.add(ids);
                self.last_call.record_answer();
            }
            Err(error) => {
                counters.requests_failed.add(1);
                if let Some(kind) = error.kind() {
                    self.errors.record(kind, &error.to_string(), ErrorPlace { host: None, endpoint, example });
                }
                if error.is_outage() {
                    self.last_call.record_failure(&error.to_string());
                }
            }
        }
        tracing::debug!(ids, lookup_ms = watch.elapsed_ms(), ok = answer.is_ok(), "looked up");
        answer
    }

    /// Adds counters that are shown under that namespace.
    pub fn add_counters(&self, namespace: &str, counters: Arc<dyn CounterSet>) {
        let mut additional_counters = self.additional_counters.lock().unwrap_or_else(PoisonError::into_inner);
        additional_counters.push((namespace.to_owned(), counters));
    }

    #[must_use]
    pub fn additional_counters(&self) -> Vec<(String, Arc<dyn CounterSet>)> {
        self.additional_counters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts a response that could not be read. Quoted parts of the reason are removed, so that there are few reasons.
    pub fn count_unreadable(&self, why: &str) {
        let mut reason = String::new();
        for (at, part) in why.split('"').enumerate() {
            reason += if at % 2 == 0 { part } else { "…" };
        }
        let mut reasons = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        if reasons.len() >= MAX_REASONS && !reasons.contains_key(&reason) {
            ANOTHER_REASON.clone_into(&mut reason);
        }
        *reasons.entry(reason).or_default() += 1;
    }

    #[must_use]
    pub fn unreadable_by_reason(&self) -> BTreeMap<String, u64> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn count_restart(&self, task: &str, cause: &'static str) {
        let mut restarts = self.restarts.lock().unwrap_or_else(PoisonError::into_inner);
        *restarts.entry((task.to_owned(), cause)).or_default() += 1;
    }

    #[must_use]
    pub fn restarts(&self) -> BTreeMap<(String, &'static str), u64> {
        self.restarts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the lateness of claimed jobs, ms. Early jobs count as 0.
    pub fn record_lateness(&self, lateness: impl Iterator<Item = Millis>) {
        let mut histogram = self.lateness.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unreported = self.unreported_lateness.lock().unwrap_or_else(PoisonError::into_inner);
        for late in lateness {
            // It fails only in a histogram that may not grow.
            let _ = histogram.record(u64::try_from(late).unwrap_or(0));
            unreported.add(late, 1);
            self.histograms.lateness_seconds.observe(late.max(0) as f64 / 1e3);
        }
    }

    /// The lateness in ms that this percentage of the jobs did not exceed; 0 before the first job.
    #[must_use]
    pub fn lateness_percentile(&self, percentile: f64) -> Millis {
        let histogram = self.lateness.lock().unwrap_or_else(PoisonError::into_inner);
        Millis::try_from(histogram.value_at_percentile(percentile)).unwrap_or(Millis::MAX)
    }

    #[must_use]
    pub fn unreported_lateness(&self) -> Lateness {
        self.unreported_lateness.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn mark_lateness_reported(&self, reported: &Lateness) {
        self.unreported_lateness.lock().unwrap_or_else(PoisonError::into_inner).subtract(reported);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_increment_is_reported_once() {
        let counters = Counters::default();
        counters.found.add(5);
        let unreported = counters.unreported();
        counters.found.add(2);
        assert_eq!(unreported.counts(), [("found", 5)]);
        unreported.mark_reported();
        assert_eq!(counters.unreported().counts(), [("found", 2)]);
    }

    #[test]
    fn reasons_are_few_whatever_an_answer_says() {
        let metrics = Metrics::new();
        for n in 0..100 {
            metrics.count_unreadable(&format!("created_at \"{n}\" is not a date"));
            metrics.count_unreadable(&format!("it fails in way {n}"));
        }
        let by_reason = metrics.unreadable_by_reason();
        assert_eq!(by_reason["created_at … is not a date"], 100);
        assert_eq!((by_reason.len(), by_reason.values().sum::<u64>()), (MAX_REASONS, 200), "{by_reason:?}");
        assert!(by_reason[ANOTHER_REASON] > 60);
    }

    #[test]
    fn each_lateness_is_reported_once() {
        let metrics = Metrics::new();
        metrics.record_lateness([5, -3].into_iter());
        let first = metrics.unreported_lateness();
        assert_eq!(first.bounds().collect::<Vec<_>>(), [(1, 1), (6, 1)]);
        metrics.record_lateness([6].into_iter());
        metrics.mark_lateness_reported(&first);
        assert_eq!(metrics.unreported_lateness().bounds().collect::<Vec<_>>(), [(6, 1)]);
    }
}
