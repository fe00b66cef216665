//! A quota ledger in memory: the contract's rules once more, for simulations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use twitter_updater::base::clock::{Millis, millis, span};
use twitter_updater::quota::{
    Budget, CallRecord, ChargedReads, CountedReads, CredentialStatus, Grant, Ledger, LedgerError, Period,
    PermitRequest, Span,
};

use super::memory_queue::ServiceClock;

/// How long the call that opens a window keeps others waiting, and how often they ask.
const OPENING: (Millis, Millis) = (1_000, 50);
/// Longest wait for the answer of a trial after refusals, ms.
const TRIAL: Millis = 30_000;
/// First and longest pause after refusals, ms; then the longest time of answers that is needed for a recovery, ms.
const PAUSES: (Millis, Millis) = (1_000, 256_000);
const RECOVERY: Millis = 60_000;
const LONGEST_WAIT: Millis = 5_000;
/// Two ends of one window are told less than this apart.
const SAME_WINDOW: Millis = 2_000;

#[derive(Debug)]
pub struct MemoryLedger {
    clock: Arc<ServiceClock>,
    /// Held while a call is granted: one step, as in the others.
    granting: Mutex<()>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// By credential and endpoint.
    windows: BTreeMap<(String, String), Known>,
    /// By credential, fingerprint of its secret, and endpoint; an empty endpoint stands for all.
    refusals: BTreeMap<(String, String, String), Refused>,
    /// The fingerprint of each credential that was used or refused last.
    fingerprints: BTreeMap<String, String>,
    /// Calls granted, by credential and day.
    calls: BTreeMap<(String, Millis), u64>,
    /// Ids that were read, by day: by which calls, and in which period.
    read: BTreeMap<(Millis, String), (BTreeSet<String>, Span)>,
}

/// Refusals in a row of a secret.
#[derive(Debug, Clone, Default)]
struct Refused {
    until: Millis,
    /// The pause that these refusals demand; the next one doubles it.
    pause: Millis,
    at: Millis,
    why: String,
}

impl Refused {
    fn left(&self, now: Millis) -> Millis {
        if self.at <= now { (self.until - now).max(0) } else { 0 }
    }

    fn refuse(&mut self, stated: Millis, why: &str, now: Millis) {
        if self.left(now) == 0 {
            self.pause = (self.pause * 2).clamp(PAUSES.0, PAUSES.1);
            (self.until, self.at, self.why) = (now.saturating_add(stated.max(self.pause)), now, why.to_owned());
        } else if now.saturating_add(stated) > self.until {
            (self.until, self.why) = (now.saturating_add(stated), why.to_owned());
        }
    }

    /// Returns true if an answer now completes the recovery.
    fn is_over(&self, now: Millis) -> bool {
        self.left(now) == 0 && (now < self.at || now - self.at >= self.pause + self.pause.min(RECOVERY))
    }
}

impl Inner {
    /// Refusals of a secret: at this endpoint, and at every endpoint.
    fn refusals_of(&self, name: &str, fingerprint: &str, endpoint: &str) -> [Refused; 2] {
        [endpoint, ""].map(|endpoint| {
            let key = (name.to_owned(), fingerprint.to_owned(), endpoint.to_owned());
            self.refusals.get(&key).cloned().unwrap_or_default()
        })
    }

    /// Reads that count in that period: none is kept twice, so they are counted anew each time.
    fn reads(&self, span: Span) -> u64 {
        let counts = |((day, _), (_, of)): &(&(Millis, String), &(BTreeSet<String>, Span))| match span {
            Span::Days(from, to) => (from..to).contains(day),
            Span::Part(..) => *of == span,
        };
        self.read.iter().filter(counts).count() as u64
    }
}

/// A window, as far as it is known.
#[derive(Debug, Clone, Default)]
struct Known {
    limit: i64,
    remaining: i64,
    ends: Millis,
    /// The provider's own figure for its end: its name.
    named: Millis,
    least_told: i64,
    /// The longest it was told to last.
    lasts: Millis,
    next_call: Millis,
    opening_until: Millis,
    /// Permits out, and when they count as spent.
    permits: BTreeMap<String, Millis>,
}

impl Known {
    fn is_open(&self, now: Millis) -> bool {
        self.limit > 0 && now < self.ends
    }
}

impl MemoryLedger {
    pub fn new(clock: Arc<ServiceClock>) -> Self {
        Self { clock, granting: Mutex::default(), inner: Mutex::default() }
    }

    /// What is known of a window, with the permits that still count, and the time.
    fn with<T>(&self, name: &str, endpoint: &str, change: impl FnOnce(&mut Known, Millis) -> T) -> T {
        let (mut inner, now) = (self.inner.lock().unwrap(), self.clock.now());
        let known = inner.windows.entry((name.to_owned(), endpoint.to_owned())).or_default();
        known.permits.retain(|_, until| *until > now);
        change(known, now)
    }
}

fn day(now: Millis) -> Millis {
    now.div_euclid(86_400_000)
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn acquire(&self, ask: &PermitRequest<'_>) -> Result<Grant, LedgerError> {
        let _granting = self.granting.lock().unwrap();
        let mut known = Vec::new();
        for (at, name) in ask.names.iter().enumerate() {
            let fingerprint = ask.fingerprints.get(at).cloned().unwrap_or_default();
            let window = self.with(name, ask.endpoint, |window, _| window.clone());
            let refusals = self.inner.lock().unwrap().refusals_of(name, &fingerprint, ask.endpoint);
            let on_trial = refusals.iter().any(|refused| refused.pause > 0);
            if window.permits.contains_key(ask.permit) {
                return Ok(if on_trial { Grant::Trial } else { Grant::Granted }(name.clone()));
            }
            let now = self.clock.now();
            let parked = now + refusals.iter().map(|refused| refused.left(now)).max().unwrap();
            known.push(((name, fingerprint, on_trial), parked, window));
        }
        let now = self.clock.now();
        let usable = known.iter().filter(|(_, parked, window)| *parked <= now && window.is_open(now));
        let left: i64 = usable.map(|(.., window)| window.remaining.max(0)).sum();
        let spread = i64::try_from(ask.backlog).unwrap_or(i64::MAX) > left;
        let mut wake = now + LONGEST_WAIT;
        let mut best = None;
        for (of, parked, window) in &known {
            let free = match window.is_open(now) {
                _ if *parked > now => *parked,
                _ if of.2 && window.opening_until > now => window.opening_until.min(now + OPENING.1),
                false => window.opening_until.clamp(now, now + OPENING.1),
                true if window.remaining <= 0 => window.ends,
                true if spread => window.next_call.max(now),
                true => now,
            };
            if free > now {
                wake = wake.min(free);
                continue;
            }
            let ends = if window.is_open(now) { window.ends } else { 0 };
            if best.is_none_or(|(soonest, _)| ends < soonest) {
                best = Some((ends, of));
            }
        }
        let Some((_, (name, fingerprint, on_trial))) = best else {
            return Ok(Grant::Wait(span((wake - now).clamp(1, LONGEST_WAIT))));
        };
        self.with(name, ask.endpoint, |window, now| {
            if window.is_open(now) {
                window.next_call = now + (window.ends - now) * 98 / 100 / window.remaining.max(1);
                window.remaining -= 1;
            }
            if *on_trial || !window.is_open(now) {
                window.opening_until = now + if *on_trial { TRIAL } else { OPENING.0 };
            }
            window.permits.insert(ask.permit.to_owned(), now + millis(ask.expiry));
        });
        let mut inner = self.inner.lock().unwrap();
        *inner.calls.entry(((*name).clone(), day(now))).or_default() += 1;
        inner.fingerprints.insert((*name).clone(), fingerprint.clone());
        let grant = if *on_trial { Grant::Trial } else { Grant::Granted };
        Ok(grant((*name).clone()))
    }

    async fn record_call(
        &self,
        name: &str,
        endpoint: &str,
        permit: &str,
        used: &CallRecord,
    ) -> Result<(), LedgerError> {
        self.with(name, endpoint, |window, now| {
            if window.permits.remove(permit).is_some() || used.window.is_some() {
                window.opening_until = 0;
            }
            if let Some(told) = used.window {
                let (others, left) = (window.permits.len() as i64, i64::from(told.remaining));
                let (free, ends) = ((left - others).max(0), now + told.reset_in.max(0));
                let is_near = window.is_open(now)
                    && window.limit == i64::from(told.limit)
                    && (told.reset_at - window.named).abs() < SAME_WINDOW;
                if told.reset_at == window.named || is_near {
                    window.least_told = window.least_told.min(left);
                    window.remaining = if others == 0 { window.least_told } else { window.remaining.min(free) };
                    window.ends = window.ends.min(ends);
                    window.lasts = told.length.unwrap_or(window.lasts.max(ends - now));
                } else if told.reset_at > window.named || !window.is_open(now) {
                    let same_plan = window.limit == i64::from(told.limit);
                    *window = Known {
                        limit: i64::from(told.limit),
                        lasts: told.length.unwrap_or(if same_plan { window.lasts.max(ends - now) } else { ends - now }),
                        remaining: free,
                        ends,
                        named: told.reset_at,
                        least_told: left,
                        next_call: 0,
                        ..std::mem::take(window)
                    };
                }
            }
        });
        let (mut inner, now) = (self.inner.lock().unwrap(), self.clock.now());
        let key = |endpoint: &str| (name.to_owned(), used.fingerprint.clone(), endpoint.to_owned());
        if let Some(park) = &used.park {
            let refused = inner.refusals.entry(key(if park.everywhere { "" } else { endpoint })).or_default();
            refused.refuse(millis(park.pause), &park.why, now);
            inner.fingerprints.insert(name.to_owned(), used.fingerprint.clone());
        } else if used.window.is_some() {
            for endpoint in [endpoint, ""] {
                if inner.refusals.get(&key(endpoint)).is_some_and(|refused| refused.is_over(now)) {
                    inner.refusals.remove(&key(endpoint));
                }
            }
        }
        Ok(())
    }

    async fn return_permit(&self, name: &str, endpoint: &str, permit: &str) -> Result<(), LedgerError> {
        let returned = self.with(name, endpoint, |window, now| {
            let was_out = window.permits.remove(permit).is_some();
            if was_out {
                window.opening_until = 0;
                if window.is_open(now) {
                    (window.remaining, window.next_call) = ((window.remaining + 1).min(window.limit), now);
                }
            }
            was_out
        });
        if returned
            && let Some(calls) = self.inner.lock().unwrap().calls.get_mut(&(name.to_owned(), day(self.clock.now())))
        {
            *calls -= 1;
        }
        Ok(())
    }

    async fn unpark(&self, name: &str, fingerprint: &str) -> Result<bool, LedgerError> {
        let key = (name.to_owned(), fingerprint.to_owned(), String::new());
        let now = self.clock.now();
        Ok(self.inner.lock().unwrap().refusals.remove(&key).is_some_and(|refused| refused.left(now) > 0))
    }

    async fn statuses(
        &self,
        endpoint: &str,
        names: &[String],
        fingerprints: &[String],
    ) -> Result<Vec<CredentialStatus>, LedgerError> {
        let account = |(at, name): (usize, &String)| {
            let window = self.with(name, endpoint, |window, _| window.clone());
            let (inner, now) = (self.inner.lock().unwrap(), self.clock.now());
            let told = u32::try_from(window.limit).ok().filter(|limit| *limit > 0);
            let limit = told.filter(|limit| *limit < u32::MAX);
            let open = limit.filter(|_| window.is_open(now));
            let fingerprint =
                fingerprints.get(at).or_else(|| inner.fingerprints.get(name)).cloned().unwrap_or_default();
            let [here, everywhere] = inner.refusals_of(name, &fingerprint, endpoint);
            let parked_everywhere = everywhere.left(now) > 0;
            let longer = if everywhere.left(now) >= here.left(now) { everywhere } else { here };
            CredentialStatus {
                name: name.clone(),
                limit,
                unmetered: told.is_some() && limit.is_none(),
                window_ms: limit.map(|_| window.lasts).filter(|lasts| *lasts > 0),
                remaining: open.map(|_| u32::try_from(window.remaining).unwrap_or(0)),
                reset_in_ms: open.map(|_| window.ends - now),
                outstanding: window.permits.len() as u32,
                parked_for_ms: longer.left(now),
                parked_why: (longer.left(now) > 0).then_some(longer.why),
                parked_everywhere,
                calls_today: inner.calls.get(&(name.clone(), day(now))).copied().unwrap_or(0),
            }
        };
        Ok(names.iter().enumerate().map(account).collect())
    }

    async fn reserve(&self, call: &str, ids: &[String], budget: &Budget) -> Result<Vec<bool>, LedgerError> {
        let (mut inner, now) = (self.inner.lock().unwrap(), self.clock.now());
        let days = budget.days(now);
        let mut granted = Vec::new();
        for id in ids {
            let fresh: Vec<_> =
                days.iter().filter(|(day, _)| !inner.read.contains_key(&(*day, id.clone()))).copied().collect();
            let fits = |(_, span): &(Millis, Span)| {
                let more = fresh.iter().filter(|(_, of)| of == span).count() as u64;
                inner.reads(*span) + more <= budget.reads
            };
            let fits = budget.reads == 0 || fresh.iter().all(fits);
            granted.push(fits);
            if fits {
                for (day, span) in &days {
                    let read = inner.read.entry((*day, id.clone())).or_insert_with(|| (BTreeSet::new(), *span));
                    read.0.insert(call.to_owned());
                }
            }
        }
        Ok(granted)
    }

    async fn charge(&self, call: &str, charged: &ChargedReads, budget: &Budget) -> Result<(), LedgerError> {
        let (mut inner, now) = (self.inner.lock().unwrap(), self.clock.now());
        let alone = BTreeSet::from([call.to_owned()]);
        let is_back = |id: &String, calls: &BTreeSet<String>| charged.unread.contains(id) && *calls == alone;
        inner.read.retain(|(_, id), (calls, _)| !is_back(id, calls));
        for (asked, read) in &charged.edited {
            let ours = |((day, id), (calls, span)): (&(Millis, String), &(BTreeSet<String>, Span))| {
                (id == asked && *calls == alone).then_some((*day, *span))
            };
            let days: Vec<_> = inner.read.iter().filter_map(ours).collect();
            for (day, _) in &days {
                inner.read.remove(&(*day, asked.clone()));
            }
            for (day, span) in days.into_iter().chain(budget.days(now)) {
                // Of no call that could take it back.
                inner.read.entry((day, read.clone())).or_insert_with(|| (BTreeSet::new(), span));
            }
        }
        Ok(())
    }

    async fn counted_reads(&self, per: Period) -> Result<CountedReads, LedgerError> {
        let (inner, now) = (self.inner.lock().unwrap(), self.clock.now());
        let mut by_day = BTreeMap::new();
        for (day, _) in inner.read.keys() {
            *by_day.entry(*day).or_default() += 1;
        }
        let part = match per.span(day(now), now) {
            Span::Part(length, number) => Some((number, inner.reads(Span::Part(length, number)))),
            Span::Days(..) => None,
        };
        Ok(CountedReads { now, by_day, part })
    }

    async fn forget(&self, ids: &[String]) -> Result<u64, LedgerError> {
        let mut inner = self.inner.lock().unwrap();
        let gone: Vec<_> = inner.read.extract_if(.., |(_, id), _| ids.contains(id)).collect();
        for (at, ((day, _), read)) in gone.iter().enumerate() {
            // They count, but no id has them.
            let unnamed = format!("forgotten {} {at}", inner.read.len());
            inner.read.insert((*day, unnamed), read.clone());
        }
        Ok(gone.len() as u64)
    }
}
