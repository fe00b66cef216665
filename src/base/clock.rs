//! The one place that reads a clock.
//!
//! Two clocks matter here. The **queue's clock** (`TIME` in Redis, the machine's in the embedded
//! file) decides what is due and which lease has ended; a worker only ever learns it from a claim's
//! answer and carries it forward on the monotonic clock ([`QueueTime`]). The **wall clock** of this
//! process ([`wall_ms`]) serves where no queue has spoken yet: a starter that reads a file.
//!
//! Spans are measured on tokio's clock: the machine's monotonic one, unless a test has paused it and
//! lets it jump from timer to timer. So a simulated hour is an hour for everything that waits or counts.
//!
//! Every other module is kept from `SystemTime::now` and `Instant::now` by `clippy.toml`.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Milliseconds since the Unix epoch, or a span of them. Signed, so that differences are plain.
pub type Millis = i64;

/// The allowance for dates in the future, since clocks differ, ms.
pub const FUTURE_TOLERANCE_MS: Millis = 60_000;

/// Largest accepted lead of the queue's clock, ms. A queue's clock that is further ahead of this machine's clock, and of the API's if
/// the pipeline calls one, is wrong: tracking would end too early, and results with a future date would hide later ones until then.
pub const FURTHEST_AHEAD_MS: Millis = 3_600_000;

/// Returns true if a date lies further ahead of `now` than clocks differ; both in ms since the epoch.
#[must_use]
pub const fn is_ahead(date: Millis, now: Millis) -> bool {
    date > now.saturating_add(FUTURE_TOLERANCE_MS)
}

thread_local! {
    /// A simulation's wall clock: the time it was set to, and the time since.
    static SIMULATED: Cell<Option<QueueTime>> = const { Cell::new(None) };
}

/// This machine's wall clock, in milliseconds since the Unix epoch; a simulation's, while there is one.
#[must_use]
#[allow(clippy::disallowed_methods)] // this is the place
pub fn wall_ms() -> Millis {
    if let Some(simulated) = SIMULATED.get() {
        return simulated.now();
    }
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => millis(since),
        // A clock before 1970 is broken; 0 makes everything look new rather than panic.
        Err(_) => 0,
    }
}

/// The wall clock of this thread shows `at`, ms since the epoch, and goes with tokio's clock from now on, until the answer
/// is dropped. For simulations.
#[must_use]
pub fn simulated(at: Millis) -> Simulated {
    SIMULATED.set(Some(QueueTime::read(at)));
    Simulated(())
}

/// While it lives, the wall clock of its thread is simulated.
#[derive(Debug)]
pub struct Simulated(());

impl Drop for Simulated {
    fn drop(&mut self) {
        SIMULATED.set(None);
    }
}

/// A duration in whole milliseconds, saturating.
#[must_use]
pub fn millis(span: Duration) -> Millis {
    Millis::try_from(span.as_millis()).unwrap_or(Millis::MAX)
}

/// Milliseconds as a duration; a negative span is zero.
#[must_use]
pub fn span(ms: Millis) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

tokio::task_local! {
    /// The queue's clock, for a batch in work.
    static AT_WORK: QueueTime;
}

/// Work by the queue's clock: [`queue_ms`] tells it while the future runs.
pub async fn by_queue<F: Future>(clock: QueueTime, work: F) -> F::Output {
    AT_WORK.scope(clock, work).await
}

/// The queue's clock, ms since the Unix epoch; `None` outside work [by it](by_queue).
#[must_use]
pub fn queue_ms() -> Option<Millis> {
    AT_WORK.try_with(QueueTime::now).ok()
}

/// A monotonic reading, for spans inside one process. A stopwatch that started later compares greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[must_use]
    #[allow(clippy::disallowed_methods)] // this is the place
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Whole milliseconds since the start.
    #[must_use]
    pub fn elapsed_ms(&self) -> Millis {
        millis(self.elapsed())
    }
}

/// The queue's clock as a claim reported it, carried forward on the monotonic clock.
///
/// Used to date answers: no worker's wall clock, however wrong, can make an older answer look newer (invariant 4). It
/// runs behind the queue by the time the claim's reply took, no more.
#[derive(Debug, Clone, Copy)]
pub struct QueueTime {
    at: Millis,
    read: Stopwatch,
    behind: Millis,
}

impl QueueTime {
    /// The queue said `at`, ms since the epoch, just now.
    #[must_use]
    pub fn read(at: Millis) -> Self {
        Self { at, read: Stopwatch::start(), behind: 0 }
    }

    /// The same, where the queue was asked for it at the start of a stopwatch.
    #[must_use]
    pub fn asked(self, since: &Stopwatch) -> Self {
        Self { behind: since.elapsed_ms() + 1, ..self }
    }

    /// A time that the queue's clock has not passed yet, in milliseconds since the epoch: [`now`](Self::now), and the time
    /// that the claim's reply took at the most.
    #[must_use]
    pub fn latest(&self) -> Millis {
        self.now().saturating_add(self.behind)
    }

    /// The queue's clock now, in milliseconds since the epoch.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.at.saturating_add(self.read.elapsed_ms())
    }
}
