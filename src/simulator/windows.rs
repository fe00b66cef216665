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
