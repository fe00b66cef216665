//! A token that clients send: compared in constant time, replaceable while the process runs, with a limit on wrong ones.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::clock::Stopwatch;
use super::reload::Reloadable;

/// Wrong tokens, from all clients together, that are answered at once.
const MAX_BURST: u32 = 10;
const GUESS_INTERVAL: Duration = Duration::from_secs(1);
/// Seconds after which a client may guess again: `GUESS_INTERVAL`.
pub const RETRY_AFTER_S: &str = "1";

/// A token that clients send. Clones are the same token.
///
/// Only wrong tokens are limited, so the right one always passes at once. It must be too long to guess; the settings check this.
#[derive(Clone)]
pub struct AccessToken {
    current: Reloadable<Current>,
    guesses: Arc<Guesses>,
}

/// The number of a token; each replacement changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    Wrong,
    /// The token is wrong, and too many wrong tokens came shortly before it: the client must wait.
    TooManyGuesses,
}

struct Current {
    /// Digests have one length, so a comparison does not reveal the token's length.
    digest: Vec<u8>,
    generation: Generation,
}

impl AccessToken {
    #[must_use]
    pub fn new(token: &SecretString) -> Self {
        let current = Current { digest: digest_of(token.expose_secret().as_bytes()), generation: Generation(0) };
        Self { current: Reloadable::new(current), guesses: Arc::default() }
    }

    /// Checks a token that a client sent, and counts it as a guess if it is wrong.
    pub fn check(&self, sent: &[u8]) -> Result<Generation, Denied> {
        let current = self.current.load();
        match bool::from(digest_of(sent).ct_eq(&current.digest)) {
            true => Ok(current.generation),
            false if self.guesses.admit() => Err(Denied::Wrong),
            false => Err(Denied::TooManyGuesses),
        }
    }

    #[must_use]
    pub fn generation(&self) -> Generation {
        self.current.load().generation
    }

    #[must_use]
    pub fn matches(&self, token: &SecretString) -> bool {
        digest_of(token.expose_secret().as_bytes()).ct_eq(&self.current.load().digest).into()
    }

    pub fn replace(&self, token: &SecretString) {
        let Generation(before) = self.generation();
        let digest = digest_of(token.expose_secret().as_bytes());
        self.current.set(Current { digest, generation: Generation(before + 1) });
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AccessToken").field(&self.generation()).finish()
    }
}

fn digest_of(token: &[u8]) -> Vec<u8> {
    digest(&SHA256, token).as_ref().to_vec()
}

/// Wrong tokens of all clients. Each reserves [`GUESS_INTERVAL`] of future time.
struct Guesses {
    stopwatch: Stopwatch,
    /// The end of the reserved time, counted from the start of the stopwatch.
    until: Mutex<Duration>,
}

impl Default for Guesses {
    fn default() -> Self {
        Self { stopwatch: Stopwatch::start(), until: Mutex::default() }
    }
}

impl Guesses {
    /// Returns true if one more wrong token may be answered with `Denied::Wrong`.
    fn admit(&self) -> bool {
        let now = self.stopwatch.elapsed();
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let next = now.max(*until) + GUESS_INTERVAL;
        let is_within = next <= now + GUESS_INTERVAL * MAX_BURST;
        if is_within {
            *until = next;
        }
        is_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> SecretString {
        text.into()
    }

    #[tokio::test(start_paused = true)]
    async fn the_right_token_passes_while_guesses_come() {
        let right = AccessToken::new(&token("correct horse"));
        for _ in 0..MAX_BURST {
            assert_eq!(right.check(b"wrong"), Err(Denied::Wrong));
        }
        for sent in ["wrong", "", "correct hors", "correct horse "] {
            assert_eq!(right.check(sent.as_bytes()), Err(Denied::TooManyGuesses), "{sent:?}");
            assert!(right.check(b"correct horse").is_ok());
        }
        let mut answered = 0;
        for _ in 0..3_600 {
            tokio::time::advance(GUESS_INTERVAL / 4).await;
            answered += u32::from(right.check(b"wrong") == Err(Denied::Wrong));
        }
        assert_eq!(answered, 900, "one per interval");
    }

    #[test]
    fn a_replaced_token_is_wrong_and_has_another_number() {
        let current = AccessToken::new(&token("old"));
        let old = current.check(b"old").unwrap();
        let same = current.clone();
        assert!(current.matches(&token("old")) && !current.matches(&token("new")));
        same.replace(&token("new"));
        assert_eq!(current.check(b"old"), Err(Denied::Wrong));
        assert_eq!(current.check(b"new"), Ok(current.generation()));
        assert_ne!(current.generation(), old);
        assert!(!format!("{current:?}").contains("new"));
    }
}
