//! Rate limits as Twitter keeps them: per credential and endpoint, in windows that start with their first call.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::HeaderMap;
use axum::http::HeaderValue;

use engine::base::clock::Millis;

/// The group whose calls are counted together: users and applications have separate limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// Signed calls, and calls without a credential.
    Users,
    /// Calls with a bearer token.
    Applications,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Calls per window; 0: no limit.
    pub calls: u32,
    /// The length of a window, in ms.
    pub length: Millis,
    /// True if windows are aligned to the clock, and do not start with their first call.
    pub aligned: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub limit: u32,
    /// Calls left after this one.
    pub remaining: u32,
    /// Earliest start of the next window, in seconds since the epoch.
    pub reset: Millis,
    /// The length of a window, in seconds.
    pub length_s: Millis,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedWindow {
    /// The owner's name, as the gate assigns it: `user main`, `app main`, or the token itself.
    pub who: String,
    pub endpoint: &'static str,
    /// Start and end, ms since the epoch.
    pub span: (Millis, Millis),
    pub limit: u32,
    pub used: u32,
    pub refused: u32,
}

#[derive(Debug, Default)]
pub struct Windows {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: HashMap<(String, &'static str), OpenWindow>,
    closed: Vec<ClosedWindow>,
}

#[derive(Debug, Clone, Copy)]
struct OpenWindow {
    starts: Millis,
    ends: Millis,
    length: Millis,
    used: u32,
    refused: u32,
}

impl Windows {
    /// Takes a call from the window; `Err` if none is left.
    pub fn take_call(&self, who: &str, endpoint: &'static str, limit: Limit, now: Millis) -> Result<Window, Window> {
        let mut state = self.state();
        let State { open, closed } = &mut *state;
        let window = open.entry((who.to_owned(), endpoint)).or_insert_with(|| OpenWindow::at(now, limit));
        if window.ends <= now {
            let OpenWindow { starts, ends, used, refused, .. } = *window;
            let (who, span) = (who.to_owned(), (starts, ends));
            closed.push(ClosedWindow { who, endpoint, span, limit: limit.calls, used, refused });
            *window = OpenWindow::at(now, limit);
        }
        let allowed = window.used < limit.calls;
        window.used += u32::from(allowed);
        window.refused += u32::from(!allowed);
        let quota = window.quota(limit.calls);
        if allowed { Ok(quota) } else { Err(quota) }
    }

    /// The current window, without taking a call.
    pub fn current(&self, who: &str, endpoint: &'static str, limit: Limit, now: Millis) -> Window {
        let state = self.state();
        let window = state.open.get(&(who.to_owned(), endpoint)).filter(|window| window.ends > now);
        window.copied().unwrap_or_else(|| OpenWindow::at(now, limit)).quota(limit.calls)
    }

    /// The windows that have ended and were followed by another, in the order of their ends.
    pub fn closed(&self) -> Vec<ClosedWindow> {
        self.state().closed.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenWindow {
    /// Window that starts now, or started with the clock's. Its end is rounded up to a whole second, as in the headers.
    fn at(now: Millis, Limit { length, aligned, .. }: Limit) -> Self {
        let starts = if aligned { now - now.rem_euclid(length.max(1)) } else { now };
        Self { starts, ends: (starts + length + 999).div_euclid(1000) * 1000, length, used: 0, refused: 0 }
    }

    fn quota(self, limit: u32) -> Window {
        let length_s = (self.length + 999).div_euclid(1000);
        Window { limit, remaining: limit.saturating_sub(self.used), reset: self.ends / 1000, length_s }
    }
}

impl Window {
    pub fn write_headers(self, headers: &mut HeaderMap) {
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
        let two = Limit { calls: 2, length: 900_000, aligned: false };
        let take = |now| windows.take_call("me", "/e", two, now);
        let quota = |remaining, reset| Window { limit: 2, remaining, reset, length_s: 900 };
        assert_eq!(windows.current("me", "/e", two, 500), quota(2, 901));
        assert_eq!(take(500), Ok(quota(1, 901)));
        assert_eq!(take(900_000), Ok(quota(0, 901)), "not aligned to the clock");
        assert_eq!(take(900_999), Err(quota(0, 901)), "it ends at its stated end");
        assert_eq!(windows.current("me", "/e", two, 900_999), quota(0, 901));
        assert_eq!(windows.closed(), []);
        assert_eq!(take(901_000), Ok(quota(1, 1801)));
        assert_eq!(windows.take_call("you", "/e", two, 901_001), Ok(quota(1, 1802)));
        assert_eq!(windows.take_call("me", "/other", two, 901_000), Ok(quota(1, 1801)));
        let span = (500, 901_000);
        let closed = ClosedWindow { who: "me".to_owned(), endpoint: "/e", span, limit: 2, used: 2, refused: 1 };
        assert_eq!(windows.closed(), [closed]);
    }

    #[test]
    fn an_aligned_window_begins_with_the_clocks() {
        let windows = Windows::default();
        let limit = Limit { calls: 2, length: 300_000, aligned: true };
        let quota = |remaining, reset| Window { limit: 2, remaining, reset, length_s: 300 };
        assert_eq!(windows.take_call("me", "/api", limit, 599_000), Ok(quota(1, 600)));
        assert_eq!(windows.take_call("me", "/api", limit, 600_000), Ok(quota(1, 900)));
    }
}
