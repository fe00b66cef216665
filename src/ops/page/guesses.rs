//! Guesses at the token: each address may be wrong a few times, then it waits.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::base::clock::Stopwatch;
use crate::ops::server::household;

/// Wrong tokens an address may send at once,
const AT_ONCE: u32 = 5;
/// and how soon it may send one more: some 8,600 a day.
const EVERY: Duration = Duration::from_secs(10);
/// Addresses that are remembered. Of more, the one whose last guess is oldest is forgotten.
const ADDRESSES: usize = 4_096;

/// The addresses with wrong tokens, and until when each counts: each wrong token adds [`EVERY`]. Times are those since it was made.
#[derive(Debug)]
pub(super) struct Guesses {
    begun: Stopwatch,
    until: Mutex<HashMap<IpAddr, Duration>>,
}

impl Default for Guesses {
    fn default() -> Self {
        Self { begun: Stopwatch::start(), until: Mutex::default() }
    }
}

impl Guesses {
    /// The wait before an address may send another token; none if it may send one now.
    pub fn wait(&self, from: IpAddr) -> Option<Duration> {
        let guesses = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let until = guesses.get(&household(from))?;
        until.checked_sub(self.begun.elapsed() + EVERY * (AT_ONCE - 1)).filter(|wait| !wait.is_zero())
    }

    /// The token that came from there was wrong.
    pub fn wrong(&self, from: IpAddr) {
        let now = self.begun.elapsed();
        let mut guesses = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        guesses.retain(|_, until| *until > now);
        if guesses.len() >= ADDRESSES {
            let oldest = guesses.iter().min_by_key(|(_, until)| **until).map(|(from, _)| *from);
            oldest.and_then(|oldest| guesses.remove(&oldest));
        }
        *guesses.entry(household(from)).or_insert(now) += EVERY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_is_wrong_a_few_times_and_then_once_in_a_while() {
        let (guesses, one, other) = (Guesses::default(), IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        for _ in 0..AT_ONCE {
            assert_eq!(guesses.wait(one), None);
            guesses.wrong(one);
        }
        assert_eq!(guesses.wait(one), Some(EVERY));
        assert_eq!(guesses.wait(other), None);
        let mut tried = 0;
        for _ in 0..3_600 {
            tokio::time::advance(Duration::from_secs(1)).await;
            if guesses.wait(one).is_none() {
                guesses.wrong(one);
                tried += 1;
            }
        }
        assert_eq!(tried, 360);
        tokio::time::advance(EVERY * AT_ONCE).await;
        guesses.wrong(other);
        assert_eq!(guesses.until.lock().unwrap().len(), 1, "what is over is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_addresses_are_remembered_and_no_more() {
        let guesses = Guesses::default();
        for n in 0..u32::try_from(ADDRESSES).unwrap() + 100 {
            guesses.wrong(IpAddr::from(n.to_be_bytes()));
        }
        assert_eq!(guesses.until.lock().unwrap().len(), ADDRESSES);
    }
}
