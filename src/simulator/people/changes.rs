//! Times of profile changes: time is cut into slots, and in each slot one field changes.

use super::lives::Lives;
use crate::base::clock::{self, Millis};
use crate::simulator::dice::{draw, unit};
use crate::simulator::options::SimulatorOptions;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Handle,
    DisplayName,
    Description,
    Location,
    Url,
    Picture,
    Verified,
    Protected,
}

/// Frequency of each field's changes: a die of 16 sides.
const DIE: [Field; 16] = [
    Field::Handle,
    Field::Handle,
    Field::DisplayName,
    Field::DisplayName,
    Field::DisplayName,
    Field::Description,
    Field::Description,
    Field::Description,
    Field::Description,
    Field::Location,
    Field::Location,
    Field::Url,
    Field::Picture,
    Field::Picture,
    Field::Verified,
    Field::Protected,
];

/// Number of the fields; each has an index among the versions.
const FIELDS: usize = 8;

/// The slot in which each field took its value; `None` for a first value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Versions([Option<i64>; FIELDS]);

impl Versions {
    pub fn of(&self, field: Field) -> Option<i64> {
        self.0[field as usize]
    }
}

#[derive(Debug, Clone)]
pub struct Changes {
    seed: u64,
    since: Millis,
    every: Millis,
}

impl Changes {
    pub fn new(options: &SimulatorOptions) -> Self {
        Self { seed: options.seed, since: options.accounts_since, every: clock::millis(options.account_changes) }
    }

    pub fn are_on(&self) -> bool {
        self.every > 0
    }

    /// Slots since the first one, as a fraction; 0 if accounts never change.
    pub fn elapsed(&self, at: Millis) -> f64 {
        if self.are_on() { (at - self.since).max(0) as f64 / self.every as f64 } else { 0.0 }
    }

    pub fn dice(&self, salt: u64, number: u64, slot: i64) -> u64 {
        draw(self.seed, salt, number, slot)
    }

    /// Time at which a field of an account changes in a slot, ms since the epoch.
    pub fn moment(&self, number: u64, slot: i64) -> Millis {
        self.since + slot * self.every + (unit(self.dice(MOMENT, number, slot)) * self.every as f64) as Millis
    }

    fn field(&self, number: u64, slot: i64) -> Field {
        DIE[(self.dice(FIELD, number, slot) & 15) as usize]
    }

    /// Slots in which an account has made its change by `at`, newest first. It makes none while it is away.
    fn made<'a>(&'a self, number: u64, at: Millis, lives: &'a Lives) -> impl Iterator<Item = i64> {
        let last = |at: Millis| if self.are_on() && at >= self.since { (at - self.since) / self.every } else { -1 };
        let mut slot = last(at);
        std::iter::from_fn(move || {
            while slot >= 0 {
                let this = slot;
                slot -= 1;
                let moment = self.moment(number, this);
                match lives.away(number, moment) {
                    // An absence may be much longer than a slot.
                    Some(away) => slot = slot.min(last(away.from)),
                    None if moment <= at => return Some(this),
                    None => {}
                }
            }
            None
        })
    }

    pub fn versions(&self, number: u64, at: Millis, lives: &Lives) -> Versions {
        let mut versions = Versions::default();
        let mut missing = FIELDS;
        for slot in self.made(number, at, lives) {
            let version = &mut versions.0[self.field(number, slot) as usize];
            if version.is_none() {
                *version = Some(slot);
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        versions
    }

    /// The slots of the last two changes of an account's handle by `at`.
    pub fn handles(&self, number: u64, at: Millis, lives: &Lives) -> (Option<i64>, Option<i64>) {
        let mut slots = self.made(number, at, lives).filter(|slot| self.field(number, *slot) == Field::Handle);
        (slots.next(), slots.next())
    }

    /// Times in a span (after `from`, until `to`) at which an account may change.
    pub fn moments(&self, number: u64, from: Millis, to: Millis) -> impl Iterator<Item = Millis> {
        let slot = |at: Millis| if self.are_on() { (at - self.since).div_euclid(self.every) } else { -1 };
        let (first, last) = (slot(from).max(0), slot(to));
        let moments = (first..=last).map(move |slot| self.moment(number, slot));
        moments.filter(move |moment| *moment > from && *moment <= to)
    }
}

const MOMENT: u64 = 121;
const FIELD: u64 = 122;
