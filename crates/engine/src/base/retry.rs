//! Delays between tries: exponential, with full jitter.
//!
//! The `backoff` crate only computes the delays. It is not maintained any more (RUSTSEC-2025-0012), so this type hides it.

use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff as _;

use crate::base::random;

/// Growing delays. The n-th is drawn uniformly from 0 to `min(most, first × 2^n)`, so processes that failed together do not retry
/// together.
#[derive(Debug)]
pub struct Retry {
    delays: ExponentialBackoff,
    attempts: u32,
}

impl Retry {
    /// The first delay is at most `first`, every delay at most `most`.
    #[must_use]
    pub fn new(first: Duration, most: Duration) -> Self {
        // The steps alone: the crate's own jitter cannot be replayed from a seed.
        let mut delays = ExponentialBackoff {
            initial_interval: first,
            current_interval: first,
            max_interval: most,
            multiplier: 2.0,
            randomization_factor: 0.0,
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        };
        delays.reset();
        Self { delays, attempts: 0 }
    }

    pub fn next_delay(&mut self) -> Duration {
        self.attempts += 1;
        // `None` only with a `max_elapsed_time`, and there is none.
        let step = self.delays.next_backoff().unwrap_or(self.delays.max_interval);
        // Whole milliseconds, as timers have them.
        Duration::from_millis(step.mul_f64(random::fraction()).as_millis() as u64)
    }

    /// Delays since the last success.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    pub fn reset(&mut self) {
        self.delays.reset();
        self.attempts = 0;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Number of tries, at least 1.
    pub tries: u32,
    pub first: Duration,
    pub most: Duration,
}

impl RetryPolicy {
    #[must_use]
    pub fn start(&self) -> Retry {
        Retry::new(self.first, self.most)
    }

    /// Delay before the next try; `None` if the error is permanent, or the last try has failed.
    pub fn next_retry(&self, delays: &mut Retry, is_temporary: bool) -> Option<Duration> {
        let delay = delays.next_delay();
        (is_temporary && delays.attempts() < self.tries).then_some(delay)
    }
}

impl Default for RetryPolicy {
    /// 8 tries: up to 0.2 + 0.4 + … + 12.8 s ≈ 25 s, half of that on average. This outlasts a restart or a failover.
    fn default() -> Self {
        Self { tries: 8, first: Duration::from_millis(200), most: Duration::from_secs(15) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_stay_below_their_step_and_use_it() {
        let (first, most) = (Duration::from_millis(100), Duration::from_secs(3));
        let mut largest = [Duration::ZERO; 8];
        for _ in 0..300 {
            let mut retry = Retry::new(first, most);
            for (attempt, largest) in largest.iter_mut().enumerate() {
                let delay = retry.next_delay();
                let step = most.min(first * 2u32.pow(attempt as u32));
                assert!(delay <= step, "attempt {attempt}: {delay:?} > {step:?}");
                *largest = delay.max(*largest);
            }
        }
        for (attempt, largest) in largest.into_iter().enumerate() {
            let step = most.min(first * 2u32.pow(attempt as u32));
            assert!(largest > step * 8 / 10, "attempt {attempt}: full jitter reaches up to its step, saw {largest:?}");
        }
    }

    #[test]
    fn a_success_starts_over() {
        let mut retry = Retry::new(Duration::from_millis(100), Duration::from_secs(60));
        (0..10).for_each(|_| assert!(retry.next_delay() <= Duration::from_secs(60)));
        assert_eq!(retry.attempts(), 10);
        retry.reset();
        assert!(retry.next_delay() <= Duration::from_millis(100));
    }
}
