//! Visits by the hours of the last days, as the paper on visiting has them (002, section 4.2, "Hash model"): 24 hourly bins,
//! in which the newest day has the weight w, the day before w (1 − w), and so on. An item is visited when so many events
//! are expected since its last visit, or after a time. Pure.
//!
//! The paper's plan is made each midnight and carries over what is left of the day before; here the sum begins with the
//! last visit and goes on over midnight, which is the same.

use serde::{Deserialize, Serialize};

use super::rhythm::{DAY, DAYS, HOUR, Rhythm, day_of, hour_of, is_weekend};
use crate::base::clock::Millis;

/// What the operator sets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// An item is visited when it has so many new events by expectation (the paper's y). 0: as many as the budget of visits
    /// allows.
    pub events: f64,
    /// Weight of the newest day, above 0 to 1.
    pub weight: f64,
    /// An item is visited after so long whatever is expected, ms.
    pub span: Millis,
    /// Saturdays and Sundays are forecast from such days alone, and other days from others.
    pub weekends: bool,
    /// Inactive and unstable items are visited in turn, once in each period (the paper's Poisson model), and not by their
    /// hours.
    pub by_kind: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { events: 0.0, weight: 0.5, span: 30 * DAY, weekends: false, by_kind: false }
    }
}

/// Events expected in an hour, by the same hour of the days that are known: those up to the last visit.
#[must_use]
pub fn of_hour(rules: &Rules, rhythm: &Rhythm, at: Millis) -> f64 {
    let (hour, day) = (hour_of(at), day_of(at));
    let visited = rhythm.visited.unwrap_or(rhythm.since);
    let weight = if rules.weight.is_finite() { rules.weight.clamp(0.01, 1.0) } else { 1.0 };
    let (mut sum, mut weighs) = (0.0, weight);
    for (back, counts) in rhythm.days.iter().enumerate().take(DAYS) {
        let of = rhythm.today.saturating_sub(back as i64);
        // Today's hour is known when it is over.
        let is_known = back > 0 || hour < hour_of(visited);
        if is_known && (!rules.weekends || is_weekend(of) == is_weekend(day)) {
            sum += weighs * f64::from(counts[hour]);
            weighs *= 1.0 - weight;
        }
    }
    sum
}

/// From the last visit to the next one, ms: when `events` are expected, at most [`Rules::span`] and `longest`.
#[must_use]
pub fn interval(rules: &Rules, rhythm: &Rhythm, events: f64, longest: Millis) -> Millis {
    let from = rhythm.visited.unwrap_or(rhythm.since);
    let latest = rules.span.clamp(1, longest.max(1));
    // A week on, the hours repeat: by day and by weekday.
    let week: [f64; 7 * 24] = std::array::from_fn(|at| {
        let start = from.div_euclid(HOUR).saturating_add(at as Millis).saturating_mul(HOUR);
        of_hour(rules, rhythm, start)
    });
    let (mut expected, mut at) = (0.0, 0);
    let first = HOUR - from.rem_euclid(HOUR);
    for hour in 0.. {
        let length = if hour == 0 { first } else { HOUR };
        let more = week[hour % week.len()] * length as f64 / HOUR as f64;
        if more > 0.0 && expected + more >= events {
            return (at + ((events - expected) / more * length as f64) as Millis).clamp(1, latest);
        }
        expected += more;
        at += length;
        if at >= latest {
            break;
        }
    }
    latest
}
