//! Politeness towards the hosts of files: few requests at a time to each, and a pause for one that fails.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::base::clock::Stopwatch;
use crate::base::random;

/// Maximum idle hosts in memory: the names come from strangers.
const HOSTS: usize = 4_096;
/// The longest pause that a host may ask for.
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
pub struct Hosts {
    politeness: Politeness,
    clock: Stopwatch,
    hosts: Mutex<HashMap<String, Host>>,
}

#[derive(Debug)]
struct Host {
    places: Arc<Semaphore>,
    /// Failures in a row.
    failures: u32,
    /// End of the pause, on the clock of [`Hosts`].
    rests_until: Duration,
}

impl Hosts {
    #[must_use]
    pub fn new(politeness: Politeness) -> Self {
        Self { politeness, clock: Stopwatch::start(), hosts: Mutex::default() }
    }

    /// Waits for a place at the host; dropping the permit frees it. The error is the rest of the host's pause.
    pub async fn enter(&self, host: &str) -> Result<OwnedSemaphorePermit, Duration> {
        let (places, rest) = self.with(host, |host, now| (host.places.clone(), host.rests_until.checked_sub(now)));
        if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
            return Err(rest);
        }
        // The semaphores are never closed.
        let Ok(place) = places.acquire_owned().await else { return Err(Duration::ZERO) };
        match self.rest(host) {
            // The host failed during the wait.
            Some(rest) => Err(rest),
            None => Ok(place),
        }
    }

    /// Rest of the host's pause; `None`: it may be asked.
    #[must_use]
    pub fn rest(&self, host: &str) -> Option<Duration> {
        self.with(host, |host, now| host.rests_until.checked_sub(now)).filter(|rest| !rest.is_zero())
    }

    /// Ends the series of failures: the host has answered.
    pub fn answers(&self, host: &str) {
        self.with(host, |host, _| host.failures = 0);
    }

    /// Pauses a failed host: as long as it requests, or else twice the last pause. Requests in flight together count as one failure.
    pub fn failed(&self, host: &str, asked: Option<Duration>) {
        let Politeness { first_pause, longest_pause, .. } = self.politeness;
        self.with(host, |host, now| {
            let pause = match asked {
                Some(asked) => asked.min(LONGEST_PAUSE),
                None if host.rests_until > now => return,
                None => {
                    let step = first_pause.saturating_mul(2u32.saturating_pow(host.failures)).min(longest_pause);
                    // At least half, so that processes do not return together, and none at once.
                    step.mul_f64(0.5 + random::share() / 2.0)
                }
            };
            host.failures = host.failures.saturating_add(1);
            host.rests_until = host.rests_until.max(now.saturating_add(pause));
        });
    }

    fn with<T>(&self, name: &str, work: impl FnOnce(&mut Host, Duration) -> T) -> T {
        let now = self.clock.elapsed();
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= HOSTS && !hosts.contains_key(name) {
            hosts.retain(|_, host| host.rests_until > now || Arc::strong_count(&host.places) > 1);
        }
        let places = || Arc::new(Semaphore::new(self.politeness.per_host.max(1)));
        let new = || Host { places: places(), failures: 0, rests_until: Duration::ZERO };
        work(hosts.entry(name.to_owned()).or_insert_with(new), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(per_host: usize) -> Hosts {
        let seconds = Duration::from_secs;
        Hosts::new(Politeness { per_host, first_pause: seconds(10), longest_pause: seconds(60) })
    }

    #[tokio::test(start_paused = true)]
    async fn each_host_has_its_own_limit() {
        let hosts = hosts(2);
        let (first, _second) = (hosts.enter("a").await.unwrap(), hosts.enter("a").await.unwrap());
        let third = hosts.enter("a");
        tokio::pin!(third);
        assert!(futures::poll!(&mut third).is_pending());
        drop(hosts.enter("b").await.unwrap());
        drop(first);
        assert!(futures::poll!(&mut third).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_fails_rests_longer_each_time_and_an_answer_ends_it() {
        let hosts = hosts(2);
        hosts.failed("a", None);
        let first = hosts.enter("a").await.unwrap_err();
        assert!((5..=10).contains(&first.as_secs()), "{first:?}");
        hosts.failed("a", None); // in flight at the same time
        assert!(hosts.rest("a").unwrap() <= first && hosts.rest("b").is_none());
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(hosts.enter("a").await.is_ok());
        hosts.failed("a", None);
        let second = hosts.rest("a").unwrap().as_secs();
        assert!((9..=20).contains(&second), "{second}");
        for _ in 0..40 {
            tokio::time::advance(Duration::from_secs(61)).await;
            hosts.failed("a", None);
        }
        assert!(hosts.rest("a").unwrap().as_secs() <= 60);
        tokio::time::advance(Duration::from_secs(61)).await;
        hosts.answers("a");
        hosts.failed("a", None);
        assert!(hosts.rest("a").unwrap().as_secs() <= 10);
        // A pause that the host requests is kept, up to an hour.
        hosts.failed("a", Some(Duration::from_secs(120)));
        assert_eq!(hosts.rest("a").unwrap().as_secs(), 120);
        hosts.failed("c", Some(Duration::from_secs(1_000_000)));
        assert_eq!(hosts.rest("c"), Some(LONGEST_PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn names_of_strangers_fill_no_memory() {
        let hosts = hosts(1);
        let _place = hosts.enter("busy").await.unwrap();
        hosts.failed("resting", Some(LONGEST_PAUSE));
        for n in 0..3 * HOSTS {
            hosts.answers(&n.to_string());
        }
        let known = hosts.hosts.lock().unwrap();
        assert!(known.len() <= HOSTS && known.contains_key("resting"), "{}", known.len());
        assert_eq!(known["busy"].places.available_permits(), 0, "its place is taken still");
    }
}
