//! Politeness towards the hosts of files: few requests at a time to each, and a pause for one that fails.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use engine::base::clock::Stopwatch;
use engine::base::random;

/// Maximum number of idle hosts in memory. It is limited because the hosts come from posts of strangers.
const MAX_HOSTS: usize = 4_096;
/// Longest pause that a host may request.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

#[derive(Debug, Clone, Copy)]
pub struct Politeness {
    /// Maximum requests in flight per host.
    pub per_host: usize,
    /// Longest first pause after a failure; it doubles with each further one.
    pub first_pause: Duration,
    /// Longest pause without a request of the host.
    pub longest_pause: Duration,
}

#[derive(Debug)]
pub struct HostLimiter {
    politeness: Politeness,
    clock: Stopwatch,
    hosts: Mutex<HashMap<String, Host>>,
}

#[derive(Debug)]
struct Host {
    permits: Arc<Semaphore>,
    /// Failures in a row.
    failures: u32,
    /// End of the pause, on the clock of [`HostLimiter`].
    paused_until: Duration,
}

impl HostLimiter {
    #[must_use]
    pub fn new(politeness: Politeness) -> Self {
        Self { politeness, clock: Stopwatch::start(), hosts: Mutex::default() }
    }

    /// Waits for a permit of the host. The error is the rest of the host's pause.
    pub async fn acquire(&self, host: &str) -> Result<OwnedSemaphorePermit, Duration> {
        let (permits, rest) =
            self.with_host(host, |host, now| (host.permits.clone(), host.paused_until.checked_sub(now)));
        if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
            return Err(rest);
        }
        // The semaphores are never closed.
        let Ok(permit) = permits.acquire_owned().await else { return Err(Duration::ZERO) };
        match self.remaining_pause(host) {
            // The host failed during the wait.
            Some(rest) => Err(rest),
            None => Ok(permit),
        }
    }

    /// `None`: the host may be called.
    #[must_use]
    pub fn remaining_pause(&self, host: &str) -> Option<Duration> {
        self.with_host(host, |host, now| host.paused_until.checked_sub(now)).filter(|rest| !rest.is_zero())
    }

    pub fn record_success(&self, host: &str) {
        self.with_host(host, |host, _| host.failures = 0);
    }

    /// Pauses a failed host: as long as it requests, or else twice the last pause. Requests in flight together count as one failure.
    pub fn record_failure(&self, host: &str, asked: Option<Duration>) {
        let Politeness { first_pause, longest_pause, .. } = self.politeness;
        self.with_host(host, |host, now| {
            let pause = match asked {
                Some(asked) => asked.min(LONGEST_PAUSE),
                None if host.paused_until > now => return,
                None => {
                    let step = first_pause.saturating_mul(2u32.saturating_pow(host.failures)).min(longest_pause);
                    // At least half, so that processes do not return together, and none at once.
                    step.mul_f64(0.5 + random::fraction() / 2.0)
                }
            };
            host.failures = host.failures.saturating_add(1);
            host.paused_until = host.paused_until.max(now.saturating_add(pause));
        });
    }

    fn with_host<T>(&self, name: &str, work: impl FnOnce(&mut Host, Duration) -> T) -> T {
        let now = self.clock.elapsed();
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= MAX_HOSTS && !hosts.contains_key(name) {
            hosts.retain(|_, host| host.paused_until > now || Arc::strong_count(&host.permits) > 1);
        }
        let permits = || Arc::new(Semaphore::new(self.politeness.per_host.max(1)));
        let new = || Host { permits: permits(), failures: 0, paused_until: Duration::ZERO };
        work(hosts.entry(name.to_owned()).or_insert_with(new), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(per_host: usize) -> HostLimiter {
        let seconds = Duration::from_secs;
        HostLimiter::new(Politeness { per_host, first_pause: seconds(10), longest_pause: seconds(60) })
    }

    #[tokio::test(start_paused = true)]
    async fn each_host_has_its_own_limit() {
        let hosts = hosts(2);
        let (first, _second) = (hosts.acquire("a").await.unwrap(), hosts.acquire("a").await.unwrap());
        let third = hosts.acquire("a");
        tokio::pin!(third);
        assert!(futures::poll!(&mut third).is_pending());
        drop(hosts.acquire("b").await.unwrap());
        drop(first);
        assert!(futures::poll!(&mut third).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_fails_rests_longer_each_time_and_an_answer_ends_it() {
        let hosts = hosts(2);
        hosts.record_failure("a", None);
        let first = hosts.acquire("a").await.unwrap_err();
        assert!((5..=10).contains(&first.as_secs()), "{first:?}");
        hosts.record_failure("a", None); // in flight at the same time
        assert!(hosts.remaining_pause("a").unwrap() <= first && hosts.remaining_pause("b").is_none());
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(hosts.acquire("a").await.is_ok());
        hosts.record_failure("a", None);
        let second = hosts.remaining_pause("a").unwrap().as_secs();
        assert!((9..=20).contains(&second), "{second}");
        for _ in 0..40 {
            tokio::time::advance(Duration::from_secs(61)).await;
            hosts.record_failure("a", None);
        }
        assert!(hosts.remaining_pause("a").unwrap().as_secs() <= 60);
        tokio::time::advance(Duration::from_secs(61)).await;
        hosts.record_success("a");
        hosts.record_failure("a", None);
        assert!(hosts.remaining_pause("a").unwrap().as_secs() <= 10);
        // A pause that the host requests is kept, up to an hour.
        hosts.record_failure("a", Some(Duration::from_secs(120)));
        assert_eq!(hosts.remaining_pause("a").unwrap().as_secs(), 120);
        hosts.record_failure("c", Some(Duration::from_secs(1_000_000)));
        assert_eq!(hosts.remaining_pause("c"), Some(LONGEST_PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn names_of_strangers_fill_no_memory() {
        let hosts = hosts(1);
        let _permit = hosts.acquire("busy").await.unwrap();
        hosts.record_failure("resting", Some(LONGEST_PAUSE));
        for n in 0..3 * MAX_HOSTS {
            hosts.record_success(&n.to_string());
        }
        let known = hosts.hosts.lock().unwrap();
        assert!(known.len() <= MAX_HOSTS && known.contains_key("resting"), "{}", known.len());
        assert_eq!(known["busy"].permits.available_permits(), 0, "its permit is still in use");
    }
}
