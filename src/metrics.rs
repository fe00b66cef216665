//! What one process counts. Each counter is named once, here; the queue sums them over all workers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use hdrhistogram::Histogram;

use crate::clock::Millis;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one process, since it started.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        impl Counters {
            /// Every counter with its name.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, &Counter)> {
                [$((stringify!($name), &self.$name)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Calls made to the provider.
    requests,
    /// Calls of those that gave no outcomes.
    requests_failed,
    /// Ids asked for in calls that gave outcomes.
    looked_up,
    /// Tweets found.
    found,
    /// Tweets found, with their text withheld.
    withheld,
    /// Ids the provider did not return.
    unavailable,
    /// Tweet objects we could not read.
    broken,
    /// Objects in answers that nobody asked for.
    unasked,
    /// Tweets whose life ended.
    ended,
    /// Tweets buried.
    buried_here,
    /// Answers the store refused because it had a newer one.
    saves_refused,
    /// History rows written.
    changes,
    /// Members of `incoming` scheduled or known.
    incoming_accepted,
    /// Malformed members of `incoming`.
    incoming_refused,
    /// Changed configurations that were taken over.
    config_reloads,
    /// Changed configurations that were refused.
    config_reloads_refused,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter {
    total: AtomicI64,
    told: AtomicI64,
}

impl Counter {
    /// Adds.
    pub fn add(&self, by: usize) {
        self.total.fetch_add(i64::try_from(by).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// The sum since the process started.
    pub fn get(&self) -> i64 {
        self.total.load(Ordering::Relaxed)
    }

    /// What came since the last [`Counter::told`].
    pub fn untold(&self) -> i64 {
        self.get() - self.told.load(Ordering::Relaxed)
    }

    /// The queue has heard of so many more.
    pub fn told(&self, by: i64) {
        self.told.fetch_add(by, Ordering::Relaxed);
    }
}

/// Counters and the lateness of one process.
#[derive(Debug)]
pub struct Metrics {
    /// The counters.
    pub counters: Counters,
    lateness: Mutex<Histogram<u64>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All zero.
    #[must_use]
    pub fn new() -> Self {
        // Two digits of a number of milliseconds; grows by itself. 2 is within what the crate takes
        // (0 to 5), so this cannot fail.
        #[allow(clippy::expect_used)]
        let lateness = Histogram::new(2).expect("two significant digits");
        Self { counters: Counters::default(), lateness: Mutex::new(lateness) }
    }

    /// Notes how late jobs were claimed, in ms; early ones count as 0.
    pub fn late(&self, lateness: impl Iterator<Item = Millis>) {
        if let Ok(mut histogram) = self.lateness.lock() {
            for late in lateness {
                // Refused only by a histogram that may not grow.
                let _ = histogram.record(u64::try_from(late).unwrap_or(0));
            }
        }
    }

    /// The lateness below which so many of a hundred jobs stayed, in ms; 0 when there was none.
    #[must_use]
    pub fn lateness(&self, percentile: f64) -> Millis {
        match self.lateness.lock() {
            Ok(histogram) => Millis::try_from(histogram.value_at_percentile(percentile)).unwrap_or(Millis::MAX),
            Err(_) => 0,
        }
    }
}
