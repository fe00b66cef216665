//! The rules of a quota window, pure. `lua/acquire.lua` and `lua/used.lua` have them for Redis; the contract suite compares the two.

use std::time::Duration;

use crate::base::clock::{self, Millis};

/// A credential's window for one endpoint, as a response stated it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub limit: u32,
    pub remaining: u32,
    /// End of the window, ms since the epoch, by the API's clock. It also names the window.
    pub reset_at: Millis,
    /// Time from the response to that end, in ms, by the clock that the API used.
    pub reset_in: Millis,
    /// Length of a window in ms, if the API states it.
    pub length: Option<Millis>,
}

impl Window {
    /// The length of a window in ms: as the API states it, else the longest that answers showed.
    fn stated_or_longest(&self, known: Millis) -> Millis {
        self.length.unwrap_or_else(|| known.max(self.reset_in).max(0))
    }

    /// The window of an API that answers without stating a limit. It delays no call, for a minute.
    #[must_use]
    pub fn unmetered() -> Self {
        const MINUTE_MS: Millis = 60_000;
        let reset_at = clock::wall_ms() + MINUTE_MS;
        Self { limit: UNMETERED, remaining: UNMETERED, reset_at, reset_in: MINUTE_MS, length: None }
    }

    #[must_use]
    pub fn is_metered(&self) -> bool {
        self.limit < UNMETERED
    }
}

pub(super) const UNMETERED: u32 = u32::MAX;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    Granted(String),
    /// A trial: the one call that shows whether the API still rejects this credential.
    Trial(String),
    /// No credential may call now. The caller waits this long before it asks again.
    Wait(Duration),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RateWindow {
    /// Calls per window; 0: unknown.
    pub limit: i64,
    pub remaining: i64,
    /// End of the window, by the ledger's clock, ms since the epoch.
    pub reset_at: Millis,
    /// The API's own figure for the end, from the first response of this window. It names the window.
    pub reset: Millis,
    /// Earliest time of the next call, if calls are spread.
    pub next_at: Millis,
    /// Lowest `remaining` in any response of this window.
    pub lowest_remaining: i64,
    /// End of the wait for the response of the call that opens the window.
    pub opening_until: Millis,
    /// Length of a window: as the API states it, else the longest in any response with this limit.
    pub length: Millis,
}

impl RateWindow {
    /// Returns true if a response has stated the rest of this window.
    pub fn is_open(&self, now: Millis) -> bool {
        self.limit > 0 && now < self.reset_at
    }

    /// Returns the earliest time of a granted call. After refusals (`on_trial`), one call at a time is granted.
    pub fn next_grant_at(&self, now: Millis, paced: bool, on_trial: bool) -> Millis {
        match self.is_open(now) {
            _ if on_trial && self.opening_until > now => self.opening_until.min(now + OPENING_POLL_MS),
            // One call opens the window. Other calls wait for its response, for a while.
            false => self.opening_until.clamp(now, now + OPENING_POLL_MS),
            true if self.remaining <= 0 => self.reset_at,
            true if paced && self.next_at > now => self.next_at,
            true => now,
        }
    }

    /// Takes one call. After refusals (`on_trial`), no other call is granted before its response.
    pub fn grant(&mut self, now: Millis, on_trial: bool) {
        self.opening_until = match self.is_open(now) {
            _ if on_trial => now + TRIAL_MS,
            true => self.opening_until,
            false => now + OPENING_MS,
        };
        if self.is_open(now) {
            // Even spread over the rest, 2 % faster, so that the last call does not miss the end.
            let gap = (self.reset_at - now) * 98 / 100 / self.remaining.max(1);
            self.next_at = now + gap;
            self.remaining -= 1;
        }
    }

    /// Applies a response. `others` is the number of other open permits; the API may not have counted their calls.
    pub fn apply(&mut self, window: &Window, others: i64, now: Millis) {
        let remaining = i64::from(window.remaining);
        let free = (remaining - others).max(0);
        let reset_in = window.reset_in.max(0);
        let reset_at = now + reset_in;
        let is_near = self.is_open(now)
            && i64::from(window.limit) == self.limit
            && (window.reset_at - self.reset).abs() < SAME_WINDOW_MS;
        if self.limit > 0 && (window.reset_at == self.reset || is_near) {
            // Responses overtake each other: inside one window the lowest figure is the right one. The calls of other permits may be
            // counted in it or not. Their possible cost is reserved, and freed when no other permit is out. The end comes in whole
            // seconds and with delay: the earliest is the right one.
            self.lowest_remaining = self.lowest_remaining.min(remaining);
            self.remaining = if others == 0 { self.lowest_remaining } else { self.remaining.min(free) };
            self.reset_at = self.reset_at.min(reset_at);
            self.length = window.stated_or_longest(self.length);
        } else if window.reset_at > self.reset || !self.is_open(now) {
            let limit = i64::from(window.limit);
            // Another limit means another plan: the ledger learns the length of its windows again.
            let known = if limit == self.limit { self.length } else { 0 };
            let length = window.stated_or_longest(known);
            *self = Self {
                limit,
                remaining: free,
                reset_at,
                reset: window.reset_at,
                lowest_remaining: remaining,
                length,
                ..Self::default()
            };
        } // else: a late response from a window that has ended, of no use
    }

    pub fn return_call(&mut self, now: Millis) {
        self.opening_until = 0;
        if self.is_open(now) {
            self.remaining = (self.remaining + 1).min(self.limit);
            self.next_at = now;
        }
    }
}

/// Two ends less than this apart name one window, while it is open. An API may calculate the end again for each response.
/// Cut to seconds it varies by up to one; a span in seconds varies by one more, from the clock to which it is added.
/// Shorter windows stay apart, since each closes at its own end.
const SAME_WINDOW_MS: Millis = 2_000;

/// Wait for the response of the call that opens a window, ms. Then another call may try: the first worker may be dead, and
/// a lease must not wait for it. A slow API gets one such call per second.
pub(super) const OPENING_MS: Millis = 1_000;

/// Longest wait for the response of a trial, ms. It is longer than a call may take, so no second call precedes a slow refusal.
pub(super) const TRIAL_MS: Millis = 30_000;

/// The wait for that response before the next check, ms.
pub(super) const OPENING_POLL_MS: Millis = 50;

/// Longest wait that a ledger returns, ms: an operator may free a parked credential.
pub(super) const LONGEST_WAIT_MS: Millis = 5_000;

pub(super) fn wait_until(until: Millis, now: Millis) -> Grant {
    Grant::Wait(clock::span((until - now).clamp(1, LONGEST_WAIT_MS)))
}
