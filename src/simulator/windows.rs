//! Rate limits as Twitter keeps them: per credential and endpoint, in windows that start with their
//! first call.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use axum::http::HeaderMap;
use axum::http::HeaderValue;

use crate::clock::Millis;

/// What one call did to its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Calls per window.
    pub limit: u32,
    /// Calls left after this one.
    pub remaining: u32,
    /// When the next window can start, in seconds since the epoch.
    pub reset: Millis,
}

/// The windows of every credential.
#[derive(Debug, Default)]
pub struct Windows {
    open: Mutex<HashMap<(String, &'static str), Open>>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    ends: Millis,
    used: u32,
}

impl Windows {
    /// Takes a call from the window; `Err` where none is left.
    pub fn take(
        &self,
        who: &str,
        endpoint: &'static str,
        limit: u32,
        length: Millis,
        now: Millis,
    ) -> Result<Window, Window> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = Open { ends: now + length, used: 0 };
        let window = open.entry((who.to_owned(), endpoint)).or_insert(fresh);
        if window.ends <= now {
            *window = fresh;
        }
        let allowed = window.used < limit;
        window.used += u32::from(allowed);
        let told = window.told(limit);
        if allowed { Ok(told) } else { Err(told) }
    }

    /// The window as it stands, without taking a call.
    pub fn look(&self, who: &str, endpoint: &'static str, limit: u32, length: Millis, now: Millis) -> Window {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let window = open.get(&(who.to_owned(), endpoint)).filter(|window| window.ends > now);
        window.copied().unwrap_or(Open { ends: now + length, used: 0 }).told(limit)
    }
}

impl Open {
    fn told(self, limit: u32) -> Window {
        // Rounded up: whoever comes back at the second told finds the window open.
        Window { limit, remaining: limit.saturating_sub(self.used), reset: (self.ends + 999).div_euclid(1000) }
    }
}

impl Window {
    /// Writes the `x-rate-limit-*` headers.
    pub fn write(self, headers: &mut HeaderMap) {
        headers.insert("x-rate-limit-limit", HeaderValue::from(self.limit));
        headers.insert("x-rate-limit-remaining", HeaderValue::from(self.remaining));
        headers.insert("x-rate-limit-reset", HeaderValue::from(self.reset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_starts_with_its_first_call_and_the_next_after_its_end() {
        let windows = Windows::default();
        let take = |now| windows.take("me", "/e", 2, 900_000, now);
        let told = |remaining, reset| Window { limit: 2, remaining, reset };
        assert_eq!(windows.look("me", "/e", 2, 900_000, 500), told(2, 901));
        assert_eq!(take(1_000), Ok(told(1, 901)));
        assert_eq!(take(900_000), Ok(told(0, 901)), "not aligned to the clock");
        assert_eq!(take(900_999), Err(told(0, 901)));
        assert_eq!(windows.look("me", "/e", 2, 900_000, 900_999), told(0, 901));
        assert_eq!(take(901_000), Ok(told(1, 1801)));
        assert_eq!(windows.take("you", "/e", 2, 900_000, 901_001), Ok(told(1, 1802)));
        assert_eq!(windows.take("me", "/other", 2, 900_000, 901_000), Ok(told(1, 1801)));
    }
}
