//! The past that the charts show: the last hour by minute, or a longer range by hour or day.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;

use super::chart::Axis;
use super::routes::Routes;
use crate::ops::snapshot::{MINUTES_SHOWN, Snapshot};
use engine::base::clock::Millis;
use engine::lateness::Lateness;
use engine::queue::{HOUR_MS, Hour, Minute};

pub(super) const FROM_NOW: &str = "time from now";
/// Minutes of an axis, with the minutes between two labels. The shortest axis that contains all busy minutes is used.
const MINUTES: [(u32, usize); 4] = [(5, 1), (15, 5), (30, 10), (MINUTES_SHOWN, 15)];
const HOURS_OF_A_DAY: Millis = 24;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
pub(super) enum Range {
    #[default]
    #[serde(rename = "1h")]
    Hour,
    #[serde(rename = "24h")]
    Day,
    #[serde(rename = "7d")]
    Week,
    #[serde(rename = "30d")]
    Month,
}

impl Range {
    pub const ALL: [Self; 4] = [Self::Hour, Self::Day, Self::Week, Self::Month];

    /// Value of `?range=`.
    pub const fn query_value(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
        }
    }

    /// The name after "last": `hour`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "24 hours",
            Self::Week => "7 days",
            Self::Month => "30 days",
        }
    }

    pub const fn step(self) -> &'static str {
        match self {
            Self::Hour => "minute",
            Self::Day | Self::Week => "hour",
            Self::Month => "day",
        }
    }

    /// Length of a step, in hours; `None`: a minute.
    const fn step_h(self) -> Option<Millis> {
        match self {
            Self::Hour => None,
            Self::Day | Self::Week => Some(1),
            Self::Month => Some(HOURS_OF_A_DAY),
        }
    }

    /// (Number of steps before the current one, number of steps between two labels of the axis.)
    const fn steps(self) -> (u32, usize) {
        match self {
            Self::Hour => (MINUTES_SHOWN, 15),
            Self::Day => (24, 6),
            Self::Week => (7 * 24, 24),
            Self::Month => (30, 5),
        }
    }

    pub fn hours(self) -> u32 {
        let step = self.step_h().and_then(|hours| u32::try_from(hours).ok()).unwrap_or(0);
        (self.steps().0 + 1) * step
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Step {
    /// Seconds with data.
    seconds: f64,
    counters: BTreeMap<String, i64>,
    /// Lateness of the ids that were claimed in it.
    pub lateness: Lateness,
}

impl Step {
    /// Rate per second of that counter; `None` without data.
    pub fn per_second(&self, counter: &str) -> Option<f64> {
        let count = self.counters.get(counter).copied().unwrap_or(0);
        (self.seconds > 0.0).then(|| count as f64 / self.seconds)
    }

    fn add(&mut self, hour: &Hour) {
        self.seconds += f64::from(hour.minutes) * 60.0;
        hour.counters.iter().for_each(|(name, by)| *self.counters.entry(name.clone()).or_default() += by);
        self.lateness.merge(&hour.lateness);
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Past {
    pub range: Range,
    steps: Vec<Step>,
}

impl Past {
    pub const fn empty(range: Range) -> Self {
        Self { range, steps: Vec::new() }
    }

    /// Returns the last hour by minute. Each minute has data, even if it was idle.
    pub fn by_minute(snapshot: &Snapshot) -> Self {
        let step = |minute: &Minute| Step {
            seconds: snapshot.elapsed_seconds(minute),
            counters: minute.counters.clone(),
            lateness: minute.lateness.clone(),
        };
        Self { range: Range::Hour, steps: snapshot.minutes.iter().map(step).collect() }
    }

    /// Returns a range made of hours, at `now`, ms since the epoch. Days are those of UTC.
    pub fn by_hour(range: Range, hours: &[Hour], now: Millis) -> Self {
        let before = range.steps().0 as usize;
        let mut steps = vec![Step::default(); before + 1];
        let length = range.step_h().unwrap_or(1) * HOUR_MS;
        for hour in hours {
            let ago = usize::try_from(now.div_euclid(length) - hour.at_ms.div_euclid(length));
            if let Some(step) = ago.ok().and_then(|ago| steps.get_mut(before.checked_sub(ago)?)) {
                step.add(hour);
            }
        }
        Self { range, steps }
    }

    pub fn lateness(&self) -> Lateness {
        let mut all = Lateness::default();
        self.steps.iter().for_each(|step| all.merge(&step.lateness));
        all
    }

    pub fn sum_counters(&self, names: &[&str]) -> u64 {
        let counts = self.steps.iter().flat_map(|step| names.iter().map(|name| step.counters.get(*name)));
        counts.flatten().map(|count| u64::try_from(*count).unwrap_or(0)).sum()
    }

    /// Returns a point per step: its age in steps (0 or negative) and its value, or NaN without data.
    pub fn points(&self, of: impl Fn(&Step) -> Option<f64>) -> Vec<(f64, f64)> {
        let steps = self.visible_steps();
        let ago = |at: usize| at as f64 + 1.0 - steps.len() as f64;
        steps.iter().enumerate().map(|(at, step)| (ago(at), of(step).unwrap_or(f64::NAN))).collect()
    }

    pub fn axis(&self) -> Axis {
        let (shown, apart) = match self.range {
            Range::Hour => fit_minutes_axis(self.visible_steps().len().saturating_sub(1)),
            range => range.steps(),
        };
        let word = |ago: u32| match (ago, self.range) {
            (0, _) => "now".to_owned(),
            (ago, Range::Hour) => format!("−{ago}m"),
            (ago, Range::Day) => format!("−{ago}h"),
            (ago, Range::Week) => format!("−{}d", ago / 24),
            (ago, Range::Month) => format!("−{ago}d"),
        };
        let words = (0..=shown).step_by(apart).map(|ago| (0.0 - f64::from(ago), word(ago)));
        Axis::linear(FROM_NOW, -f64::from(shown)..0.0, words.collect())
    }

    /// Steps to draw. An hour begins with its first busy minute.
    fn visible_steps(&self) -> &[Step] {
        if self.range != Range::Hour {
            return &self.steps;
        }
        let is_idle = |step: &&Step| step.counters.is_empty() && step.lateness.ids() == 0;
        let idle = self.steps.iter().take_while(is_idle).count();
        let (shown, _) = fit_minutes_axis(self.steps.len() - idle);
        // A line goes from minute to minute, so it has one more point than gaps.
        &self.steps[self.steps.len().saturating_sub(shown as usize + 1)..]
    }

    pub fn gap_note(&self) -> Markup {
        let step = self.range.step();
        html! {
            @if self.range != Range::Hour {
                p.note.quiet {
                    "One point per " (step) @if self.range == Range::Month { " (UTC)" } "; a gap has no records"
                }
            }
        }
    }

    /// Renders a link to each range. `section`: the section that has the links.
    pub fn range_links(&self, routes: &Routes, section: &str) -> Markup {
        html! {
            nav.ranges aria-label={ "Time range of " (section) } {
                @for range in Range::ALL {
                    a id={ (section) "-" (range.query_value()) } href=(routes.range_address(range.query_value(), section))
                        aria-current=[(range == self.range).then_some("true")] { (range.query_value()) }
                }
            }
        }
    }
}

pub(super) fn unknown_range() -> String {
    let [words @ .., last] = Range::ALL.map(Range::query_value);
    format!("Unknown range: use ?range= with {} or {last}", words.join(", "))
}

/// Smallest axis for that number of minutes: its length and the distance of its labels, both in minutes.
pub(super) fn fit_minutes_axis(count: usize) -> (u32, usize) {
    let fits = |(shown, _): &(u32, usize)| *shown as usize >= count;
    MINUTES.into_iter().find(fits).unwrap_or(MINUTES[MINUTES.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-31 10:30 UTC.
    const NOW: Millis = 1_769_855_400_000;

    fn hour(ago: Millis, minutes: u32, looked_up: i64) -> Hour {
        let at_ms = NOW - NOW.rem_euclid(HOUR_MS) - ago * HOUR_MS;
        Hour { at_ms, minutes, counters: [("looked_up".to_owned(), looked_up)].into(), ..Hour::default() }
    }

    fn rates(past: &Past) -> Vec<(f64, f64)> {
        let points = past.points(|step| step.per_second("looked_up"));
        points.into_iter().filter(|(_, rate)| !rate.is_nan()).collect()
    }

    #[test]
    fn an_hour_of_which_nothing_is_known_is_a_gap() {
        let past =
            Past::by_hour(Range::Day, &[hour(25, 60, 9), hour(24, 60, 36), hour(3, 30, 36), hour(0, 30, 0)], NOW);
        assert_eq!(past.points(|_| None).len(), 25);
        assert_eq!(rates(&past), [(-24.0, 0.01), (-3.0, 0.02), (0.0, 0.0)]);
        assert_eq!(past.sum_counters(&["looked_up"]), 72, "an hour before the range is not in it");
    }

    #[test]
    fn a_day_is_one_of_utc() {
        // The current day has 10.5 hours, of which ten were recorded.
        let hours: Vec<Hour> = (1..=34).map(|ago| hour(ago, 60, 3_600)).collect();
        let past = Past::by_hour(Range::Month, &hours, NOW);
        assert_eq!(rates(&past), [(-1.0, 1.0), (0.0, 1.0)]);
        let counted = past.points(|step| step.counters.get("looked_up").map(|count| *count as f64));
        assert_eq!(counted[29..], [(-1.0, 24.0 * 3_600.0), (0.0, 10.0 * 3_600.0)]);
    }

    #[test]
    fn each_range_has_a_name_that_is_read_back() {
        for range in Range::ALL {
            let asked: Range = serde_json::from_value(range.query_value().into()).unwrap();
            assert_eq!(asked, range);
            let links = Past::empty(range).range_links(&Routes::default(), "flow").into_string();
            assert_eq!(links.matches("aria-current").count(), 1, "{links}");
            assert!(links.contains(&format!("href=\"/?range={}#flow\"", range.query_value())), "{links}");
        }
        assert_eq!(Range::ALL.map(Range::hours), [0, 25, 169, 744]);
        assert!(Range::ALL.iter().all(|range| range.hours() <= engine::queue::HOURS_KEPT));
    }
}
