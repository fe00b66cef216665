//! The rules of a window, pure; `lua/acquire.lua` and `lua/used.lua` say the same in Redis, and the
//! contract suite holds the two together.

use std::time::Duration;

use crate::base::clock::{self, Millis};

/// A credential's window for one endpoint, as an answer told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Calls per window.
    pub limit: u32,
    /// Calls left in this window.
    pub remaining: u32,
    /// When the window ends, ms since the epoch, by the API's clock: it also names the window.
    pub reset_at: Millis,
    /// How far off that was when the answer was given, in ms, by whatever clock the API used.
    pub reset_in: Millis,
    /// The length of a window in ms, where the API states it.
    pub length: Option<Millis>,
}

impl Window {
    /// The length of a window, in ms: as the API states it, else the longest that is known.
    fn length_after(&self, known: Millis) -> Millis {
        self.length.unwrap_or_else(|| known.max(self.reset_in).max(0))
    }

    /// The window of an API that answers and tells no limit: for a minute, nothing is held back.
    #[must_use]
    pub fn unmetered() -> Self {
        const MINUTE_MS: Millis = 60_000;
        let reset_at = clock::wall_ms() + MINUTE_MS;
        Self { limit: UNMETERED, remaining: UNMETERED, reset_at, reset_in: MINUTE_MS, length: None }
    }

    /// Returns true if the window delays calls.
    #[must_use]
    pub fn is_metered(&self) -> bool {
        self.limit < UNMETERED
    }
}

/// The limit of a window that has none.
pub(super) const UNMETERED: u32 = u32::MAX;

/// A ledger's answer to a request for a permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// A call with this credential.
    Granted(String),
    /// Granted as a trial: the one call that shows whether the API still refuses this credential.
    Trial(String),
    /// Nobody may call now; when it may be worth asking again.
    Wait(Duration),
}

/// A window as it is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RateWindow {
    /// Calls per window; 0: nothing is known yet.
    pub limit: i64,
    /// Calls that may still be granted.
    pub remaining: i64,
    /// When the window ends, by the ledger's clock, ms since the epoch.
    pub reset_at: Millis,
    /// The API's own figure for it, as its first answer told it; it names the window.
    pub reset: Millis,
    /// When the next call may go out, if calls are spread.
    pub next_at: Millis,
    /// The least any answer of this window told.
    pub told: i64,
    /// Until when the call that opens the window is awaited.
    pub opening_until: Millis,
    /// The length of a window: as the API states it, else the longest in any answer with this limit.
    pub length: Millis,
}

impl RateWindow {
    /// Returns true if an answer has told what this window holds.
    pub fn is_open(&self, now: Millis) -> bool {
        self.limit > 0 && now < self.reset_at
    }

    /// Returns the time from which a call may be granted. After refusals (`on_trial`), one call at a time is granted.
    pub fn free_at(&self, now: Millis, paced: bool, on_trial: bool) -> Millis {
        match self.is_open(now) {
            _ if on_trial && self.opening_until > now => self.opening_until.min(now + OPENING_POLL_MS),
            // One call opens the window; its answer is awaited, for a while.
            false => self.opening_until.clamp(now, now + OPENING_POLL_MS),
            true if self.remaining <= 0 => self.reset_at,
            true if paced && self.next_at > now => self.next_at,
            true => now,
        }
    }

    /// Takes one call. After refusals (`on_trial`), no other call is granted before its answer.
    pub fn grant(&mut self, now: Millis, on_trial: bool) {
        self.opening_until = match self.is_open(now) {
            _ if on_trial => now + TRIAL_MS,
            true => self.opening_until,
            false => now + OPENING_MS,
        };
        if self.is_open(now) {
            // Evenly over what is left, and a little faster, so that the last call does not miss the end.
            let gap = (self.reset_at - now) * 98 / 100 / self.remaining.max(1);
            self.next_at = now + gap;
            self.remaining -= 1;
        }
    }

    /// Takes an answer's word, with so many other permits out whose calls it may not have counted.
    pub fn told(&mut self, window: &Window, others: i64, now: Millis) {
        let told = i64::from(window.remaining);
        let free = (told - others).max(0);
        let reset_in = window.reset_in.max(0);
        let reset_at = now + reset_in;
        let is_near = self.is_open(now)
            && i64::from(window.limit) == self.limit
            && (window.reset_at - self.reset).abs() < SAME_WINDOW_MS;
        if self.limit > 0 && (window.reset_at == self.reset || is_near) {
            // Answers overtake each other: inside one window the least figure is the truest. While other
            // permits are out, their calls may be in it or not: what they may cost is held back, and freed
            // when all is quiet. The end is told in whole seconds and from afar: the earliest is the truest.
            self.told = self.told.min(told);
            self.remaining = if others == 0 { self.told } else { self.remaining.min(free) };
            self.reset_at = self.reset_at.min(reset_at);
            self.length = window.length_after(self.length);
        } else if window.reset_at > self.reset || !self.is_open(now) {
            let limit = i64::from(window.limit);
            // With another limit it is another plan, so the length of its windows is learnt again.
            let known = if limit == self.limit { self.length } else { 0 };
            let length = window.length_after(known);
            *self = Self { limit, remaining: free, reset_at, reset: window.reset_at, told, length, ..Self::default() };
        } // else a late answer from a window that has ended: of no use
    }

    /// Takes an unused permit back.
    pub fn returned(&mut self, now: Millis) {
        self.opening_until = 0;
        if self.is_open(now) {
            self.remaining = (self.remaining + 1).min(self.limit);
            self.next_at = now;
        }
    }
}

/// Ends that are told less than this apart name one window, while it is open. An API may calculate the end anew for each
/// answer: cut to seconds it varies by up to one, and a span in seconds by one more, from the clock that it is added to.
/// Shorter windows stay apart, since each closes at its own end.
const SAME_WINDOW_MS: Millis = 2_000;

/// How long the answer of the call that opens a window is awaited, before another may try: its worker
/// may be dead, and a lease must not wait for it. An API that is slow gets one such call a second.
pub(super) const OPENING_MS: Millis = 1_000;

/// Longest wait for the answer of a trial, ms: longer than a call may take, so that no second call goes out before a slow refusal.
pub(super) const TRIAL_MS: Millis = 30_000;

/// The wait for that answer before asking again.
pub(super) const OPENING_POLL_MS: Millis = 50;

/// The longest wait a ledger answers: a parked credential may be freed by hand.
pub(super) const LONGEST_WAIT_MS: Millis = 5_000;

/// A wait within bounds.
pub(super) fn wait(until: Millis, now: Millis) -> Grant {
    Grant::Wait(clock::span((until - now).clamp(1, LONGEST_WAIT_MS)))
}
