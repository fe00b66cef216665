//! The sections with charts: lateness, coming posts, and the flow.

use maud::{Markup, html};

use super::chart::{Axis, Chart, ChartColor, STACKED_COLORS, Series, SeriesShape};
use super::format::{count_text, format_span, round_to_tenth};
use super::routes::Routes;
use super::time_range::{FROM_NOW, Past, fit_minutes_axis};
use crate::ops::snapshot::{ComingDue, MINUTES_SHOWN, Snapshot};
use engine::base::clock::Millis;
use engine::base::humanize::group_digits;

/// Labels of the lateness axis, ms.
const LATENESS: [f64; 12] =
    [1.0, 10.0, 100.0, 1e3, 10e3, 60e3, 600e3, 3_600e3, 21_600e3, 86_400e3, 604_800e3, 31_557_600e3];
/// Additional labels, ms, if fewer than [`MIN_LABELS`] of [`LATENESS`] are visible.
const BETWEEN: [f64; 8] = [3.0, 30.0, 300.0, 3e3, 30e3, 180e3, 1_800e3, 10_800e3];
const MIN_LABELS: usize = 4;

/// `oldest_ms`: lateness of the oldest due id, if it is shown.
pub(super) fn render_lateness(past: &Past, oldest_ms: Option<Millis>, routes: &Routes) -> Markup {
    let (all, name) = (past.lateness(), past.range.name());
    html! {
        section.panel #lateness aria-labelledby="lateness-name" {
            h2 #lateness-name { "Lateness" }
            (past.range_links(routes, "lateness"))
            @if let (Some(p50), Some(p99)) = (all.quantile(0.5), all.quantile(0.99)) {
                p.lead { "Time from the due time of an id to its claim" }
                (lateness_chart(past, p50, p99).markup())
                @let oldest = oldest_ms.map(|late| ("Oldest due now", format_span(late)));
                (facts([("Median", format_span(p50)), ("p99", format_span(p99))].into_iter().chain(oldest)))
                p.note.quiet { (group_digits(all.ids())) " ids claimed in the last " (name) ", without first lookups" }
                (past.gap_note())
            } @else {
                p.lead.none { "No ids were claimed in the last " (name) ", apart from first lookups." }
            }
        }
    }
}

fn lateness_chart(past: &Past, p50: Millis, p99: Millis) -> Chart {
    let series = |name: &str, color, share| Series {
        name: name.to_owned(),
        color,
        shape: SeriesShape::Line,
        points: past.points(|step| step.lateness.quantile(share).map(|late| late as f64)),
    };
    let series = vec![series("p99", ChartColor::First, 0.99), series("p50", ChartColor::Second, 0.5)];
    let values =
        || series.iter().flat_map(|series| &series.points).map(|(_, late)| *late).filter(|late| !late.is_nan());
    let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(1.0, f64::max));
    // From the label below the least to the label above the most.
    let start = LATENESS.into_iter().rev().find(|at| *at <= least).unwrap_or(LATENESS[0]);
    let end = LATENESS.into_iter().find(|at| *at >= most && *at > start).unwrap_or(most * 2.0);
    let range = start..=end;
    let mut words: Vec<f64> = LATENESS.into_iter().filter(|at| range.contains(at)).collect();
    if words.len() < MIN_LABELS {
        words.extend(BETWEEN.into_iter().filter(|at| range.contains(at)));
    }
    Chart {
        alt_text: format!(
            "Lateness at the claim, by {}, on a logarithmic axis: over the last {} p50 {}, p99 {}",
            past.range.step(),
            past.range.name(),
            format_span(p50),
            format_span(p99)
        ),
        x: past.axis(),
        y: Axis::logarithmic(
            "lateness",
            start..end,
            words.into_iter().map(|at| (at, format_span(at as Millis))).collect(),
        ),
        series,
        marks: Vec::new(),
    }
}

fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, String)>) -> Markup {
    html! {
        dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
    }
}

pub(super) fn render_coming(snapshot: &Snapshot) -> Markup {
    let stats = &snapshot.status.stats;
    let within =
        |minutes: usize| -> u64 { snapshot.coming.iter().flat_map(|lane| lane.per_minute.iter().take(minutes)).sum() };
    html! {
        section.panel #coming aria-labelledby="coming-name" {
            h2 #coming-name { "Coming due" }
            @let hour = within(MINUTES_SHOWN as usize);
            @if hour > 0 {
                p.lead { "Ids that become due, by minute and lane" }
                (coming_chart(&snapshot.coming).markup())
            } @else {
                p.lead.none { "No ids are due within an hour." }
            }
            (facts([
                ("Due now", group_digits(stats.due)),
                ("Within 5 minutes", group_digits(within(5))),
                ("Within the hour", group_digits(hour)),
            ]))
            p.note.quiet {
                (group_digits(stats.delayed)) " ids waiting, " (group_digits(stats.leased)) " leased, "
                (group_digits(stats.incoming)) " incoming"
                @if stats.incoming_refused > 0 { ", " (group_digits(stats.incoming_refused)) " refused" }
            }
        }
    }
}

/// Stacks the lanes, the shortest interval at the bottom.
fn coming_chart(coming: &[ComingDue]) -> Chart {
    let mut sums = vec![0_u64; MINUTES_SHOWN as usize];
    let mut series: Vec<Series> = Vec::new();
    for (part, lane) in coming.iter().enumerate().filter(|(_, lane)| lane.per_minute.iter().any(|ids| *ids > 0)) {
        for (sum, ids) in sums.iter_mut().zip(&lane.per_minute) {
            *sum += ids;
        }
        // A minute is a step of its full width: up, along, down.
        let steps =
            sums.iter().enumerate().flat_map(|(at, sum)| [(at as f64, *sum as f64), (at as f64 + 1.0, *sum as f64)]);
        let (name, color) = (lane.lane.clone(), ChartColor::Stacked(part.min(STACKED_COLORS - 1)));
        series.push(Series { name, color, shape: SeriesShape::Filled, points: steps.collect() });
    }
    let most = sums.iter().max().copied().unwrap_or(0);
    let last = sums.iter().rposition(|ids| *ids > 0).map_or(0, |last| last + 1);
    let (shown, apart) = fit_minutes_axis(last);
    let words = (0..=shown).step_by(apart).map(|minute| match minute {
        0 => (0.0, "now".to_owned()),
        minute => (f64::from(minute), format!("+{minute}m")),
    });
    for series in &mut series {
        series.points.truncate(2 * shown as usize);
    }
    Chart {
        alt_text: format!(
            "Ids that become due in each minute of the next hour, by lane: {} at the most",
            count_text(most, "id")
        ),
        x: Axis::linear(FROM_NOW, 0.0..f64::from(shown), words.collect()),
        y: Axis::from_zero("ids per minute", most as f64),
        series,
        marks: Vec::new(),
    }
}

/// Renders the section with the counts of ids by outcome and of requests.
pub(super) fn render_flow(past: &Past, routes: &Routes) -> Markup {
    let counted = |name: &str| past.sum_counters(&[name]);
    let done = [
        ("Scheduled", past.sum_counters(&["scheduled"])),
        ("Looked up", past.sum_counters(&["looked_up"])),
        ("Updated", past.sum_counters(&["found", "withheld"])),
        ("Unavailable", past.sum_counters(&["unavailable"])),
        ("Ended", past.sum_counters(&["finished"])),
        ("Dead", past.sum_counters(&["buried"])),
    ];
    let (requests, failed) = (counted("requests"), counted("requests_failed"));
    html! {
        section.panel #flow aria-labelledby="flow-name" {
            h2 #flow-name { "Flow" }
            (past.range_links(routes, "flow"))
            p.lead {
                "Last " (past.range.name()) ": " strong { (count_text(requests, "request")) }
                @if let Some(ids) = ids_per_request(requests, failed, counted("looked_up")) {
                    " of " strong { (round_to_tenth(ids)) } " ids"
                }
                @if failed > 0 { ", " strong.bad { (group_digits(failed)) " failed" } }
            }
            (flow_chart(past).markup())
            (facts(done.map(|(name, number)| (name, group_digits(number)))))
            (past.gap_note())
        }
    }
}

/// Returns ids per answered request; `None` without one.
fn ids_per_request(requests: u64, failed: u64, looked_up: u64) -> Option<f64> {
    let answered = requests.saturating_sub(failed);
    // A heartbeat between a request and its answer reports only the request, so `looked_up` may be 0.
    (answered > 0 && looked_up > 0).then(|| looked_up as f64 / answered as f64)
}

/// Returns the shortest unit in which the rate is at least 1, as seconds and name; the hour for lower rates.
fn rate_unit(per_second: f64) -> (f64, &'static str) {
    let units = [(1.0, "second"), (60.0, "minute"), (3_600.0, "hour")];
    let is_large = |(seconds, _): &(f64, &str)| per_second * seconds >= 1.0;
    units.into_iter().find(is_large).unwrap_or(if per_second > 0.0 { units[2] } else { units[0] })
}

fn flow_chart(past: &Past) -> Chart {
    let series = |name: &str, counter: &str, color| Series {
        name: name.to_owned(),
        color,
        shape: SeriesShape::Line,
        points: past.points(|step| step.per_second(counter)),
    };
    let mut series = vec![
        series("looked up", "looked_up", ChartColor::First),
        series("rescheduled", "rescheduled", ChartColor::Second),
        series("scheduled", "scheduled", ChartColor::Third),
    ];
    let rates = series.iter().flat_map(|series| &series.points).map(|(_, rate)| *rate);
    let most = rates.filter(|rate| !rate.is_nan()).fold(0.0, f64::max);
    let (seconds, unit) = rate_unit(most);
    series.iter_mut().flat_map(|series| &mut series.points).for_each(|(_, rate)| *rate *= seconds);
    let now = series.iter().filter_map(|series| {
        let (_, rate) = series.points.last().filter(|(_, rate)| !rate.is_nan())?;
        Some(format!("{} {}", round_to_tenth(*rate), series.name))
    });
    let now = now.collect::<Vec<_>>().join(", ");
    let now = if now.is_empty() { "unknown".to_owned() } else { now };
    Chart {
        alt_text: format!("Ids per {unit} over the last {}, by {}; now {now}", past.range.name(), past.range.step()),
        x: past.axis(),
        y: Axis::from_zero(&format!("ids per {unit}"), most * seconds),
        series,
        marks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{FigureSettings, Reading};
    use engine::queue::{LaneDue, LaneStats, MINUTE_MS, Minute, Stats};
    use networks::providers::twitter_v1::CAPABILITIES;

    const NOW: Millis = 1_760_000_000_000;

    fn snapshot(reading: Reading) -> Snapshot {
        let stats = Stats { now_ms: NOW, ..reading.stats };
        Snapshot::new(Reading { stats, ..reading }, None, &FigureSettings::usual(), CAPABILITIES)
    }

    fn minutes_of(idle: usize, then: &[(&str, i64)]) -> Vec<Minute> {
        let all = idle + then.len();
        let mut minutes: Vec<Minute> = (0..all)
            .map(|at| Minute { at_ms: NOW - (all - 1 - at) as Millis * MINUTE_MS, ..Minute::default() })
            .collect();
        for (minute, (name, count)) in minutes[idle..].iter_mut().zip(then) {
            minute.counters.insert((*name).to_owned(), *count);
        }
        minutes
    }

    #[test]
    fn an_axis_of_minutes_begins_where_something_was_done() {
        let points = |minutes: Vec<Minute>| {
            Past::by_minute(&snapshot(Reading { minutes, ..Reading::default() })).points(|_| None).len()
        };
        for (idle, shown) in [(58, 6), (40, 31), (30, 31), (0, 60)] {
            assert_eq!(points(minutes_of(idle, &vec![("requests", 1); 60 - idle])), shown, "{idle}");
        }
        assert_eq!(points(Vec::new()), 0);
        let axis = |minutes| Past::by_minute(&snapshot(Reading { minutes, ..Reading::default() })).axis();
        assert_eq!(axis(Vec::new()), axis(minutes_of(60, &[])));
    }

    #[test]
    fn a_slow_flow_is_stated_per_minute_or_hour() {
        let units = [0.0, 2.0, 1.0, 0.5, 1.0 / 3_000.0, 1e-9].map(|rate| rate_unit(rate).1);
        assert_eq!(units, ["second", "second", "second", "minute", "hour", "hour"]);
    }

    #[test]
    fn ids_per_request_are_those_of_calls_that_gave_outcomes() {
        assert_eq!(ids_per_request(12, 2, 970), Some(97.0));
        assert_eq!((ids_per_request(0, 0, 0), ids_per_request(2, 2, 0)), (None, None));
    }

    #[test]
    fn nothing_at_all_is_shown_without_a_flaw() {
        let snapshot = snapshot(Reading::default());
        let (past, routes) = (Past::by_minute(&snapshot), Routes::default());
        let all = [render_lateness(&past, Some(0), &routes), render_coming(&snapshot), render_flow(&past, &routes)]
            .map(Markup::into_string)
            .concat();
        for says in ["No ids were claimed", "No ids are due", "0 requests"] {
            assert!(all.contains(says), "{says}: {all}");
        }
        assert!(!all.contains("NaN") && !all.contains("inf"), "{all}");
    }

    #[test]
    fn what_is_coming_is_stacked_the_most_impatient_lane_at_the_bottom() {
        let lane = |name: &str, patience_ms| LaneStats {
            lane: name.to_owned(),
            patience_ms,
            delayed: 90,
            ..LaneStats::default()
        };
        // Overdue, due, and by the end of each minute.
        let due = |name: &str, per_minute: u64| LaneDue {
            lane: name.to_owned(),
            counts: (0..62).map(|at| at * per_minute).collect(),
        };
        let snapshot = snapshot(Reading {
            stats: Stats { lanes: vec![lane("18m", 1), lane("<1h>", 2), lane("none", 3)], ..Stats::default() },
            due: vec![due("18m", 1), due("<1h>", 10), due("none", 0)],
            ..Reading::default()
        });
        let chart = coming_chart(&snapshot.coming);
        let tops: Vec<_> = chart.series.iter().map(|series| (&*series.name, series.points[0].1)).collect();
        assert_eq!(tops, [("18m", 1.0), ("<1h>", 11.0)]);
        let markup = render_coming(&snapshot).into_string();
        assert!(
            markup.contains("&lt;1h&gt;") && markup.contains("<dd>55</dd>") && markup.contains("<dd>660</dd>"),
            "{markup}"
        );
    }

    #[test]
    fn a_minute_in_which_nothing_was_claimed_is_a_gap() {
        let mut minutes = minutes_of(0, &[("claims", 1); 60]);
        minutes[3].lateness.add(40, 99);
        minutes[50].lateness.add(5_000, 1);
        let snapshot = snapshot(Reading { minutes, ..Reading::default() });
        let markup = render_lateness(&Past::by_minute(&snapshot), Some(0), &Routes::default()).into_string();
        assert!(markup.contains("p50 48ms, p99 48ms") || markup.contains("p99 6s"), "{markup}");
        assert_eq!(markup.matches("<circle").count(), 4, "two minutes, each alone, on two lines: {markup}");
        assert!(!markup.contains("NaN"), "{markup}");
    }
}
