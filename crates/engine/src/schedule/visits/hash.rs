//! Visits by the hours of the last days, as in the paper on visiting (002, section 4.2, "Hash model"). There are 24 hourly bins.
//! The newest day has the weight w, the day before w (1 − w), and so on. An item is visited after a number of expected events
//! since its last visit, or after a time. Pure.
//!
//! The paper plans each midnight and carries over the rest of the day before. Here the sum continues over midnight instead.

use serde::{Deserialize, Serialize};

use super::rhythm::{DAYS, HOUR, Rhythm, day_of, hour_of, is_weekend};
use crate::base::clock::Millis;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Number of expected new events that causes a visit (the paper's y). 0: as the budget of visits allows.
    pub events: f64,
    /// Weight of the newest day, above 0 to 1.
    pub weight: f64,
    /// Longest time between visits, ms. 0: one and a half of the average intervals, which did best in `docs/visits.md`. The paper has
    /// 30 days.
    pub span: Millis,
    /// Forecasts Saturdays and Sundays from such days alone, and other days from other days.
    pub weekends: bool,
    /// Visits inactive and unstable items in turn, once per period (the paper's Poisson model), not by their hours.
    pub by_kind: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { events: 0.0, weight: 0.5, span: 0, weekends: false, by_kind: false }
    }
}

/// Events expected in an hour, from the same hour of the known days, up to the last visit.
#[must_use]
pub fn expected_in_hour(rules: &Rules, rhythm: &Rhythm, at: Millis) -> f64 {
    let (hour, day) = (hour_of(at), day_of(at));
    let visited = rhythm.visited.unwrap_or(rhythm.since);
    let weight = if rules.weight.is_finite() { rules.weight.clamp(0.01, 1.0) } else { 1.0 };
    let (mut sum, mut weighs) = (0.0, weight);
    for (back, counts) in rhythm.days.iter().enumerate().take(DAYS) {
        let of = rhythm.today.saturating_sub(back as i64);
        // Today's hour is known once it is over.
        let is_known = back > 0 || hour < hour_of(visited);
        if is_known && (!rules.weekends || is_weekend(of) == is_weekend(day)) {
            sum += weighs * f64::from(counts[hour]);
            weighs *= 1.0 - weight;
        }
    }
    sum
}

impl Rules {
    /// Longest interval, ms, for an average interval `every`.
    #[must_use]
    pub fn longest_interval(&self, every: Millis) -> Millis {
        if self.span > 0 { self.span } else { every.saturating_add(every / 2).max(1) }
    }
}

/// Time from the last visit until `events` are expected, ms, at most `latest`.
#[must_use]
pub fn interval(rules: &Rules, rhythm: &Rhythm, events: f64, latest: Millis) -> Millis {
    let from = rhythm.visited.unwrap_or(rhythm.since);
    let latest = latest.max(1);
    // The hours repeat after a week, by day and by weekday.
    let week: [f64; 7 * 24] = std::array::from_fn(|at| {
        let start = from.div_euclid(HOUR).saturating_add(at as Millis).saturating_mul(HOUR);
        expected_in_hour(rules, rhythm, start)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::visits::classes;
    use crate::schedule::visits::rhythm::DAY;

    /// Two events in each hour from 9 to 17 on workdays, one at 12 on weekends, for three weeks; visited at midnight.
    fn worker() -> Rhythm {
        // A Thursday.
        let mut rhythm = Rhythm::new(0);
        for day in 0..22 {
            let hours = if is_weekend(day) { 12..13 } else { 9..17 };
            let times = if is_weekend(day) { 1 } else { 2 };
            let events: Vec<Millis> =
                hours.flat_map(|hour| (0..times).map(move |of| day * DAY + hour * HOUR + of)).collect();
            rhythm.record_visit(&events, (day + 1) * DAY, &classes::Rules::default());
        }
        rhythm
    }

    #[test]
    fn the_newest_day_weighs_most_and_weekends_may_be_apart() {
        // The last day was a Thursday, the next one is a Friday.
        let (rhythm, friday) = (worker(), 22 * DAY);
        let rules = Rules::default();
        let nine = expected_in_hour(&rules, &rhythm, friday + 9 * HOUR);
        // Thursday to Monday, not the weekend: 2 × (½ + ¼ + ⅛ + 1/16), and the Friday of the week before, 1/128.
        assert!((nine - 2.0 * (0.937_5 + 1.0 / 128.0)).abs() < 1e-9, "{nine}");
        let apart = Rules { weekends: true, ..rules };
        assert!((expected_in_hour(&apart, &rhythm, friday + 9 * HOUR) - 2.0 * (1.0 - 1.0 / 32.0)).abs() < 1e-9);
        let saturday = friday + DAY;
        assert!(
            (expected_in_hour(&apart, &rhythm, saturday + 12 * HOUR) - 0.75).abs() < 1e-9,
            "the last two days of a weekend"
        );
        assert_eq!(expected_in_hour(&apart, &rhythm, saturday + 9 * HOUR), 0.0);
    }

    #[test]
    fn the_span_is_a_setting_or_follows_the_budget() {
        assert_eq!([0, 7].map(|span| Rules { span, ..Rules::default() }.longest_interval(100)), [150, 7]);
    }

    #[test]
    fn a_visit_is_due_at_the_expected_events_or_after_the_span() {
        let rhythm = worker();
        let weekly = Rules { weekends: true, weight: 0.99, ..Rules::default() };
        let at = interval(&weekly, &rhythm, 4.0, 30 * DAY);
        assert!((11 * HOUR..11 * HOUR + HOUR / 10).contains(&at), "{at}");
        assert!(interval(&weekly, &rhythm, 2.0, 30 * DAY) < at);
        assert_eq!(interval(&weekly, &rhythm, 4.0, 3 * HOUR), 3 * HOUR);
        assert_eq!(interval(&weekly, &Rhythm::new(0), 4.0, 2 * DAY), 2 * DAY, "nothing is known: as late as may be");
        // The expectation continues over midnight: the rest of a day counts for the next one.
        assert!(interval(&weekly, &rhythm, 17.0, 30 * DAY) > DAY);
    }
}
