//! How long to wait before the same call is made again.

use std::time::Duration;

/// Exponential backoff with full jitter: before try n + 1, anything up to `first` · 2ⁿ, at most
/// `most`. The whole span is random, so that many who failed together do not come back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries in all, at least 1.
    pub tries: u32,
    /// The longest wait before the second try.
    pub first: Duration,
    /// The longest wait before any try.
    pub most: Duration,
}

impl RetryPolicy {
    /// The wait after so many failures in a row.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        rand::random_range(Duration::ZERO..=self.ceiling(failures))
    }

    fn ceiling(&self, failures: u32) -> Duration {
        let doubled = 2u32.saturating_pow(failures.saturating_sub(1));
        self.first.saturating_mul(doubled).min(self.most)
    }
}

impl Default for RetryPolicy {
    /// 8 tries: up to 0.2 + 0.4 + … + 12.8 s ≈ 25 s, half of that on average: a restart or a failover
    /// is waited out, a service that is gone is told of soon.
    fn default() -> Self {
        Self { tries: 8, first: Duration::from_millis(200), most: Duration::from_secs(15) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_doubles_up_to_its_most() {
        let policy = RetryPolicy { tries: 9, first: Duration::from_millis(200), most: Duration::from_secs(1) };
        let ceilings: Vec<u128> = (1..6).map(|failures| policy.ceiling(failures).as_millis()).collect();
        assert_eq!(ceilings, [200, 400, 800, 1000, 1000]);
        assert_eq!(policy.ceiling(u32::MAX), Duration::from_secs(1));
        for failures in 1..40 {
            assert!(policy.delay(failures) <= policy.ceiling(failures));
        }
    }

    #[test]
    fn the_waits_spread_over_the_whole_span() {
        let policy = RetryPolicy { tries: 2, first: Duration::from_secs(1), most: Duration::from_secs(1) };
        let waits: Vec<Duration> = (0..200).map(|_| policy.delay(1)).collect();
        // Each half is missed with a chance of 2^-200.
        assert!(waits.iter().any(|wait| *wait < Duration::from_millis(500)));
        assert!(waits.iter().any(|wait| *wait > Duration::from_millis(500)));
    }
}
