//! Classes of priority, as the thesis on a national archive has them (004, section 3.3.4): an item with something new rises,
//! one without falls, and the higher its class, the more often it is visited. Pure.

use serde::{Deserialize, Serialize};

use super::rhythm::hour_of;
use crate::base::clock::Millis;

/// The priority that an item begins with: in the middle.
pub const FIRST: u8 = 50;

/// How priorities rise and fall.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Added to the priority by a visit that finds something new.
    pub up: u8,
    /// Taken from it by one that does not.
    pub down: u8,
    /// Hours of the night, UTC: from the first to before the second. No priority falls then. Two equal ones: there is no night.
    pub night: [u8; 2],
    /// For so long after an item's last event its priority does not fall, ms.
    pub just: Millis,
}

impl Default for Rules {
    fn default() -> Self {
        Self { up: 20, down: 5, night: [3, 7], just: 3_600_000 }
    }
}

impl Rules {
    /// The priority after a visit at `now`. `last`: the last event that is known.
    #[must_use]
    pub fn after(&self, priority: u8, is_new: bool, last: Option<Millis>, now: Millis) -> u8 {
        let priority = priority.clamp(1, 100);
        if is_new {
            return priority.saturating_add(self.up).min(100);
        }
        let is_just = last.is_some_and(|last| now.saturating_sub(last) < self.just);
        if is_just || self.is_night(now) { priority } else { priority.saturating_sub(self.down).max(1) }
    }

    fn is_night(&self, now: Millis) -> bool {
        let ([from, to], hour) = (self.night.map(usize::from), hour_of(now));
        if from <= to { (from..to).contains(&hour) } else { hour >= from || hour < to }
    }
}
