//! Times of profile changes: time is cut into slots, and in each slot one field changes.

use super::lives::Absences;
use crate::options::SimulatorOptions;
use crate::random::{draw, to_unit};
use engine::base::clock::{self, Millis};

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

/// Fields that change, each as often as it is listed.
const FIELD_FREQUENCIES: [Field; 16] = [
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

const FIELDS: usize = 8;

/// The slot in which each field took its value; `None` for a first value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Versions([Option<i64>; FIELDS]);

impl Versions {
    /// Slot in which the field took its value; `None` for its first value.
    pub fn slot(&self, field: Field) -> Option<i64> {
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

    pub fn is_enabled(&self) -> bool {
        self.every > 0
    }

    /// Slots since the first one, as a fraction; 0 if accounts never change.
    pub fn elapsed(&self, at: Millis) -> f64 {
        if self.is_enabled() { (at - self.since).max(0) as f64 / self.every as f64 } else { 0.0 }
    }

    pub fn random(&self, salt: u64, number: u64, slot: i64) -> u64 {
        draw(self.seed, salt, number, slot)
    }

    /// Time at which a field of an account changes in a slot, ms since the epoch.
    pub fn moment(&self, number: u64, slot: i64) -> Millis {
        self.since + slot * self.every + (to_unit(self.random(MOMENT, number, slot)) * self.every as f64) as Millis
    }

    fn field(&self, number: u64, slot: i64) -> Field {
        FIELD_FREQUENCIES[(self.random(FIELD, number, slot) & 15) as usize]
    }

    /// Slots in which an account has made its change by `at`, newest first. It makes none while it is away.
    fn changed_slots<'a>(&'a self, number: u64, at: Millis, absences: &'a Absences) -> impl Iterator<Item = i64> {
        let last = |at: Millis| if self.is_enabled() && at >= self.since { (at - self.since) / self.every } else { -1 };
        let mut slot = last(at);
        std::iter::from_fn(move || {
            while slot >= 0 {
                let this = slot;
                slot -= 1;
                let moment = self.moment(number, this);
                match absences.absence_at(number, moment) {
                    // An absence may be much longer than a slot.
                    Some(away) => slot = slot.min(last(away.from)),
                    None if moment <= at => return Some(this),
                    None => {}
                }
            }
            None
        })
    }

    pub fn versions(&self, number: u64, at: Millis, absences: &Absences) -> Versions {
        let mut versions = Versions::default();
        let mut missing = FIELDS;
        for slot in self.changed_slots(number, at, absences) {
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
    pub fn last_handle_slots(&self, number: u64, at: Millis, absences: &Absences) -> (Option<i64>, Option<i64>) {
        let mut slots =
            self.changed_slots(number, at, absences).filter(|slot| self.field(number, *slot) == Field::Handle);
        (slots.next(), slots.next())
    }

    /// Times in a span (after `from`, until `to`) at which an account may change.
    pub fn moments(&self, number: u64, from: Millis, to: Millis) -> impl Iterator<Item = Millis> {
        let slot = |at: Millis| if self.is_enabled() { (at - self.since).div_euclid(self.every) } else { -1 };
        let (first, last) = (slot(from).max(0), slot(to));
        let moments = (first..=last).map(move |slot| self.moment(number, slot));
        moments.filter(move |moment| *moment > from && *moment <= to)
    }
}

const MOMENT: u64 = 121;
const FIELD: u64 = 122;
