//! Absences of accounts: suspended, deactivated, or deleted for good.

use crate::options::SimulatorOptions;
use crate::random::{draw, to_unit};
use engine::base::clock::{self, Millis};
use networks::model::account::AccountState;

/// Largest share of time away: with more, two absences of an account would meet.
pub const MOST_GONE: f64 = 0.5;

/// Width of the uniform distribution of absences, in mean lengths.
const SPREAD: f64 = 1.0;
/// Its lower end, in mean lengths.
const SHORTEST: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absence {
    pub from: Millis,
    /// End (excluded), ms since the epoch; `Millis::MAX` for a deleted account.
    pub until: Millis,
    pub state: AccountState,
}

/// Absences of all accounts. Time is cut into periods; in each, an account is away once.
#[derive(Debug, Clone)]
pub struct Absences {
    seed: u64,
    since: Millis,
    away_ms: f64,
    period_ms: f64,
    deleted_share: f64,
}

impl Absences {
    pub fn new(options: &SimulatorOptions) -> Self {
        let away_ms = clock::millis(options.account_away).max(1) as f64;
        let gone = options.accounts_gone.clamp(0.0, MOST_GONE);
        Self {
            seed: options.seed,
            since: options.accounts_since,
            away_ms,
            period_ms: if gone > 0.0 { away_ms / gone } else { f64::INFINITY },
            deleted_share: options.accounts_deleted,
        }
    }

    /// Absence of an account that covers `at`; `None` if it is present.
    pub fn absence_at(&self, number: u64, at: Millis) -> Option<Absence> {
        let period = self.period(number, at)?;
        if let Some(deleted) = self.deletion(number, period, at) {
            return Some(deleted);
        }
        Some(self.absence_in_period(number, period)).filter(|away| (away.from..away.until).contains(&at))
    }

    /// The absences of an account that begin or end in a span of time, oldest first.
    pub fn between(&self, number: u64, from: Millis, to: Millis) -> Vec<Absence> {
        let Some(last) = self.period(number, to) else { return Vec::new() };
        let first = self.period(number, from).unwrap_or(0);
        if let Some(deleted) = self.deletion(number, last, to) {
            let last = self.period(number, deleted.from).unwrap_or(0);
            let before = (first..last)
                .map(|period| self.absence_in_period(number, period))
                .filter(|away| away.from >= self.since);
            return before.chain([deleted]).collect();
        }
        (first..=last)
            .map(|period| self.absence_in_period(number, period))
            .filter(|away| away.from >= self.since)
            .collect()
    }

    /// The period of an account at that time; `None` before the first, and if accounts are never away.
    fn period(&self, number: u64, at: Millis) -> Option<i64> {
        if at < self.since || self.period_ms.is_infinite() {
            return None;
        }
        Some((((at - self.since) as f64 + self.offset(number)) / self.period_ms) as i64)
    }

    /// Periods of different accounts begin at different times.
    fn offset(&self, number: u64) -> f64 {
        to_unit(draw(self.seed, OFFSET, number, 0)) * self.period_ms
    }

    /// The absence in a period. One that would begin before all periods is empty: it ends when it begins.
    fn absence_in_period(&self, number: u64, period: i64) -> Absence {
        let length = self.away_ms * (SHORTEST + SPREAD * to_unit(draw(self.seed, LENGTH, number, period)));
        let start = (self.period_ms - length) * to_unit(draw(self.seed, START, number, period));
        let from = self.since + (period as f64 * self.period_ms - self.offset(number) + start).ceil() as Millis;
        let until = if from < self.since { from } else { from + (length as Millis).max(1) };
        let is_suspended = draw(self.seed, KIND, number, period) & 1 == 0;
        let state = if is_suspended { AccountState::Suspended } else { AccountState::Deactivated };
        Absence { from, until, state }
    }

    /// The permanent absence of an account, if it has started by `at`.
    fn deletion(&self, number: u64, period: i64, at: Millis) -> Option<Absence> {
        if self.deleted_share <= 0.0 {
            return None;
        }
        let is_for_good = |period: &i64| to_unit(draw(self.seed, FOR_GOOD, number, *period)) < self.deleted_share;
        let begins = |period: i64| self.absence_in_period(number, period).from;
        let mut for_good = (0..=period).filter(is_for_good).map(begins).filter(|from| *from >= self.since);
        let from = for_good.next().filter(|from| *from <= at)?;
        Some(Absence { from, until: Millis::MAX, state: AccountState::Deleted })
    }
}

const OFFSET: u64 = 101;
const LENGTH: u64 = 102;
const START: u64 = 103;
const KIND: u64 = 104;
const FOR_GOOD: u64 = 105;
