//! Classes of priority, as in the thesis on a national archive (004, section 3.3.4). An item with something new rises, an item without
//! falls. Items of a higher class are visited more often. An *event* is something new that a visit finds. Pure.

use serde::{Deserialize, Serialize};

use super::hours::hour_of;
use crate::base::clock::Millis;

/// Initial priority, in the middle.
pub const FIRST_PRIORITY: u8 = 50;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Added to the priority by a visit that finds something new.
    pub up: u8,
    /// Subtracted from it by a visit that finds nothing new.
    pub down: u8,
    /// Hours of the night, UTC: from the first to before the second. No priority falls then. Two equal hours: no night.
    pub night: [u8; 2],
    /// Time after an item's last event in which its priority does not fall, ms.
    pub just: Millis,
    /// Ratio of the interval of a class to that of the class before, 1 to 10. The thesis leaves it open.
    pub step: f64,
}

impl Default for Rules {
    fn default() -> Self {
        // By `docs/visits.md`: with greater steps it is worse than visits in turn.
        Self { up: 20, down: 10, night: [3, 7], just: 3_600_000, step: 1.2 }
    }
}

impl Rules {
    /// The priority after a visit at `now`. `last` is the time of the item's last known event.
    #[must_use]
    pub fn next_priority(&self, priority: u8, is_new: bool, last: Option<Millis>, now: Millis) -> u8 {
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

/// Class of a priority, 1 (the most often visited) to 6: 100, 99–81, 80–61, 60–41, 40–21, 20–1.
#[must_use]
pub fn class_of_priority(priority: u8) -> u8 {
    match priority {
        100.. => 1,
        81..=99 => 2,
        61..=80 => 3,
        41..=60 => 4,
        21..=40 => 5,
        _ => 6,
    }
}

impl Rules {
    /// Interval of a class as a multiple of the average interval: 1 for class 4, and [`Rules::step`] times longer per class.
    #[must_use]
    pub fn interval_factor(&self, class: u8) -> f64 {
        let step = if self.step.is_finite() { self.step.clamp(1.0, 10.0) } else { 1.0 };
        step.powi(i32::from(class) - 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Millis = 3_600_000;

    #[test]
    fn new_events_raise_and_known_ones_lower_but_not_at_night_and_not_at_once() {
        let rules = Rules { night: [22, 6], ..Rules::default() };
        let noon = 12 * HOUR;
        assert_eq!(rules.next_priority(50, true, Some(noon), noon), 70);
        assert_eq!(rules.next_priority(95, true, Some(noon), noon), 100);
        assert_eq!(rules.next_priority(50, false, Some(0), noon), 40);
        assert_eq!(rules.next_priority(3, false, None, noon), 1);
        assert_eq!(rules.next_priority(50, false, Some(noon - HOUR / 2), noon), 50, "an event half an hour ago");
        assert_eq!([23, 2, 5].map(|hour| rules.next_priority(50, false, None, (24 + hour) * HOUR)), [50; 3], "night");
        assert_eq!([6, 21].map(|hour| rules.next_priority(50, false, None, hour * HOUR)), [40; 2]);
        // Two equal hours: no night.
        let light = Rules { night: [3, 3], ..rules };
        assert_eq!(light.next_priority(50, false, None, 3 * HOUR), 40);
    }

    #[test]
    fn classes_are_those_of_the_thesis() {
        let classes = [100, 99, 81, 80, 61, 60, 41, 40, 21, 20, 1].map(class_of_priority);
        assert_eq!(classes, [1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]);
        let rules = Rules { step: 2.0, ..Rules::default() };
        assert_eq!([1, 4, 6].map(|class| rules.interval_factor(class)), [0.125, 1.0, 4.0]);
        assert_eq!(Rules { step: f64::NAN, ..rules }.interval_factor(1), 1.0);
    }
}
