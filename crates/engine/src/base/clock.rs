//! The one place that reads a clock.
//!
//! The **queue's clock** (`TIME` in Redis, the machine's in the embedded file) decides which items are due and which leases
//! have ended. A worker learns it from the response to a claim, and carries it forward on the monotonic clock
//! ([`QueueTime`]). The **wall clock** of this process ([`wall_ms`]) serves before any queue was read.
//!
//! Spans are measured on tokio's clock: the monotonic one, or in a paused test one that jumps from timer to timer.
//!
//! `clippy.toml` forbids `SystemTime::now` and `Instant::now` in every other module.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Milliseconds since the Unix epoch, or a span of them. Signed, so that differences are plain.
pub type Millis = i64;

/// The allowance for dates in the future, since clocks differ, ms.
pub const FUTURE_TOLERANCE_MS: Millis = 60_000;

/// Maximum lead of the queue's clock over this machine's or the API's clock, ms. Further ahead it is wrong: tracking would end too
/// early, and results with a future date would hide later ones.
pub const FURTHEST_AHEAD_MS: Millis = 3_600_000;

/// Returns true if a date lies further ahead of `now` than clocks differ; both in ms since the epoch.
#[must_use]
pub const fn is_ahead(date: Millis, now: Millis) -> bool {
    date > now.saturating_add(FUTURE_TOLERANCE_MS)
}

thread_local! {
    /// A simulation's wall clock: its start time, and the time since.
    static SIMULATED: Cell<Option<QueueTime>> = const { Cell::new(None) };
}

/// The wall clock, in ms since the Unix epoch: this machine's, or a simulation's while there is one.
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

/// Sets this thread's wall clock to `at`, ms since the epoch, for simulations. It follows tokio's clock until the guard is dropped.
#[must_use]
pub fn simulate_clock(at: Millis) -> SimulatedClock {
    SIMULATED.set(Some(QueueTime::starting_at(at)));
    SimulatedClock(())
}

#[derive(Debug)]
pub struct SimulatedClock(());

impl Drop for SimulatedClock {
    fn drop(&mut self) {
        SIMULATED.set(None);
    }
}

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
    static AT_WORK: QueueTime;
}

/// Runs the work by the queue's clock: [`queue_ms`] returns it meanwhile.
pub async fn with_queue_clock<F: Future>(clock: QueueTime, work: F) -> F::Output {
    AT_WORK.scope(clock, work).await
}

/// The queue's clock, ms since the Unix epoch; `None` outside work [by it](with_queue_clock).
#[must_use]
pub fn queue_ms() -> Option<Millis> {
    AT_WORK.try_with(QueueTime::now).ok()
}

/// A monotonic reading, for spans inside one process. A stopwatch that started later compares greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[must_use]
    #[allow(clippy::disallowed_methods)] // this is the place
    pub fn start() -> Self {
        Self(Instant::now())
    }

    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    #[must_use]
    pub fn elapsed_ms(&self) -> Millis {
        millis(self.elapsed())
    }
}

/// The queue's clock as a claim reported it, carried forward on the monotonic clock.
///
/// It dates the responses, so a wrong wall clock cannot make an older response look newer (invariant 4). It is behind the
/// queue's clock by at most the time of the claim's reply.
#[derive(Debug, Clone, Copy)]
pub struct QueueTime {
    at: Millis,
    read: Stopwatch,
    behind: Millis,
}

impl QueueTime {
    /// A queue's clock that showed `at` just now, ms since the epoch.
    #[must_use]
    pub fn starting_at(at: Millis) -> Self {
        Self { at, read: Stopwatch::start(), behind: 0 }
    }

    /// Returns this time, corrected for the duration since its request was sent, at the start of the stopwatch.
    #[must_use]
    pub fn with_request_start(self, since: &Stopwatch) -> Self {
        Self { behind: since.elapsed_ms() + 1, ..self }
    }

    /// A time that the queue's clock has not passed yet, ms since the epoch: [`now`](Self::now) plus the time of the claim's reply.
    #[must_use]
    pub fn latest(&self) -> Millis {
        self.now().saturating_add(self.behind)
    }

    #[must_use]
    pub fn now(&self) -> Millis {
        self.at.saturating_add(self.read.elapsed_ms())
    }
}
