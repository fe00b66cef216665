//! The sections with a chart: lateness, what is coming, and the flow.

use maud::{Markup, html};

use super::chart::{Axis, Chart, Ink, PARTS, Series, Shape};
use super::words::{count, plain, time};
use crate::base::clock::Millis;
use crate::base::humanize::grouped;
use crate::engine::lateness::Lateness;
use crate::engine::queue::Minute;
use crate::ops::snapshot::{Coming, MINUTES_SHOWN, Snapshot, ids_per_request};

/// Where an axis of lateness has a word, ms.
const LATENESS: [f64; 12] =
    [1.0, 10.0, 100.0, 1e3, 10e3, 60e3, 600e3, 3_600e3, 21_600e3, 86_400e3, 604_800e3, 31_557_600e3];
/// And where it has one besides, as long as there would be few.
const BETWEEN: [f64; 8] = [3.0, 30.0, 300.0, 3e3, 30e3, 180e3, 1_800e3, 10_800e3];
/// How many are few.
const FEW: usize = 4;
/// What an axis of minutes measures.
const FROM_NOW: &str = "time from now";
/// How many minutes an axis may show, and how many lie between two of its words: as many as there is something
/// to be seen in.
const RANGES: [(u32, usize); 4] = [(5, 1), (15, 5), (30, 10), (MINUTES_SHOWN, 15)];

/// `#lateness`
pub(super) fn lateness(snapshot: &Snapshot) -> Markup {
    let mut hour = Lateness::default();
    snapshot.minutes.iter().for_each(|minute| hour.merge(&minute.lateness));
    html! {
        section.panel #lateness aria-labelledby="lateness-name" {
            h2 #lateness-name { "Lateness" }
            @if let (Some(p50), Some(p99)) = (hour.quantile(0.5), hour.quantile(0.99)) {
                p.lead { "How long after its due time an id was claimed" }
                (lateness_chart(&snapshot.minutes, p50, p99).markup())
                (facts(&[
                    ("Median", time(p50)),
                    ("p99", time(p99)),
                    ("Oldest due now", time(snapshot.status.stats.oldest_lateness_ms)),
                ]))
                p.note.quiet { "Of " (grouped(hour.ids())) " ids claimed within the hour" }
            } @else {
                p.lead.none { "No ids were claimed in the last hour." }
            }
        }
    }
}

fn lateness_chart(minutes: &[Minute], p50: Millis, p99: Millis) -> Chart {
    let series = |name: &str, ink, share| Series {
        name: name.to_owned(),
        ink,
        shape: Shape::Line,
        points: past(minutes, |minute| minute.lateness.quantile(share).map(|late| late as f64)),
    };
    let series = vec![series("p99", Ink::First, 0.99), series("p50", Ink::Second, 0.5)];
    let values =
        || series.iter().flat_map(|series| &series.points).map(|(_, late)| *late).filter(|late| !late.is_nan());
    let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(1.0, f64::max));
    // From the word below the least to the one above the most.
    let start = LATENESS.into_iter().rev().find(|at| *at <= least).unwrap_or(LATENESS[0]);
    let end = LATENESS.into_iter().find(|at| *at >= most && *at > start).unwrap_or(most * 2.0);
    let range = start..=end;
    let mut words: Vec<f64> = LATENESS.into_iter().filter(|at| range.contains(at)).collect();
    if words.len() < FEW {
        words.extend(BETWEEN.into_iter().filter(|at| range.contains(at)));
    }
    Chart {
        gist: format!(
            "Lateness at the claim, by minute, on a logarithmic axis: over the last hour p50 {}, p99 {}",
            time(p50),
            time(p99)
        ),
        x: minutes_past(minutes),
        y: Axis::logarithmic("lateness", start..end, words.into_iter().map(|at| (at, time(at as Millis))).collect()),
        series,
        marks: Vec::new(),
    }
}

/// The range that holds so many minutes.
fn range(minutes: usize) -> (u32, usize) {
    let fits = |(shown, _): &(u32, usize)| *shown as usize >= minutes;
    RANGES.into_iter().find(fits).unwrap_or(RANGES[RANGES.len() - 1])
}

/// The minutes from the first on in which anything was done, the current one last.
fn lived(minutes: &[Minute]) -> &[Minute] {
    let idle = minutes.iter().take_while(|minute| minute.counters.is_empty() && minute.lateness.ids() == 0).count();
    let (shown, _) = range(minutes.len() - idle);
    // A line goes from minute to minute: one more than there is between them.
    &minutes[minutes.len().saturating_sub(shown as usize + 1)..]
}

/// A point per minute, by how many minutes ago it was; none where there is nothing to show.
fn past(minutes: &[Minute], of: impl Fn(&Minute) -> Option<f64>) -> Vec<(f64, f64)> {
    let minutes = lived(minutes);
    let ago = |at: usize| at as f64 + 1.0 - minutes.len() as f64;
    minutes.iter().enumerate().map(|(at, minute)| (ago(at), of(minute).unwrap_or(f64::NAN))).collect()
}

fn minutes_past(minutes: &[Minute]) -> Axis {
    let (shown, apart) = range(lived(minutes).len().saturating_sub(1));
    let words = (0..=shown).step_by(apart).map(|ago| match ago {
        0 => (0.0, "now".to_owned()),
        ago => (-f64::from(ago), format!("−{ago}m")),
    });
    Axis::even(FROM_NOW, -f64::from(shown)..0.0, words.collect())
}

fn facts(facts: &[(&str, String)]) -> Markup {
    html! {
        dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
    }
}

/// `#coming`
pub(super) fn coming(snapshot: &Snapshot) -> Markup {
    let stats = &snapshot.status.stats;
    let within =
        |minutes: usize| -> u64 { snapshot.coming.iter().flat_map(|lane| lane.per_minute.iter().take(minutes)).sum() };
    html! {
        section.panel #coming aria-labelledby="coming-name" {
            h2 #coming-name { "Coming due" }
            @let hour = within(MINUTES_SHOWN as usize);
            @if hour > 0 {
                p.lead { "Ids that come due, by minute and bracket" }
                (coming_chart(&snapshot.coming).markup())
            } @else {
                p.lead.none { "No ids are due within an hour." }
            }
            (facts(&[
                ("Due now", grouped(stats.due)),
                ("Within 5 minutes", grouped(within(5))),
                ("Within the hour", grouped(hour)),
            ]))
            p.note.quiet {
                (grouped(stats.delayed)) " ids are delayed in all, " (grouped(stats.leased)) " leased, "
                (grouped(stats.incoming)) " incoming"
                @if stats.incoming_refused > 0 { ", " (grouped(stats.incoming_refused)) " refused" }
            }
        }
    }
}

/// The lanes on top of each other, the most impatient at the bottom.
fn coming_chart(coming: &[Coming]) -> Chart {
    let mut sums = vec![0_u64; MINUTES_SHOWN as usize];
    let mut series: Vec<Series> = Vec::new();
    for (part, lane) in coming.iter().enumerate().filter(|(_, lane)| lane.per_minute.iter().any(|ids| *ids > 0)) {
        for (sum, ids) in sums.iter_mut().zip(&lane.per_minute) {
            *sum += ids;
        }
        // A minute is as wide as it is long: up, along, down.
        let steps =
            sums.iter().enumerate().flat_map(|(at, sum)| [(at as f64, *sum as f64), (at as f64 + 1.0, *sum as f64)]);
        let (name, ink) = (lane.lane.clone(), Ink::Part(part.min(PARTS - 1)));
        series.push(Series { name, ink, shape: Shape::Filled, points: steps.collect() });
    }
    let most = sums.iter().max().copied().unwrap_or(0);
    let last = sums.iter().rposition(|ids| *ids > 0).map_or(0, |last| last + 1);
    let (shown, apart) = range(last);
    let words = (0..=shown).step_by(apart).map(|minute| match minute {
        0 => (0.0, "now".to_owned()),
        minute => (f64::from(minute), format!("+{minute}m")),
    });
    for series in &mut series {
        series.points.truncate(2 * shown as usize);
    }
    Chart {
        gist: format!(
            "Ids that come due in each minute of the next hour, by bracket: {} at the most",
            count(most, "id")
        ),
        x: Axis::even(FROM_NOW, 0.0..f64::from(shown), words.collect()),
        y: Axis::up_to("ids per minute", most as f64),
        series,
        marks: Vec::new(),
    }
}

/// `#flow`
pub(super) fn flow(snapshot: &Snapshot) -> Markup {
    let minutes = &snapshot.minutes;
    let sum = |names: &[&str]| -> u64 {
        let counts = minutes.iter().flat_map(|minute| names.iter().map(|name| minute.count(name)));
        counts.map(|count| u64::try_from(count).unwrap_or(0)).sum()
    };
    let hour = Minute {
        counters: ["requests", "requests_failed", "looked_up"]
            .map(|name| (name.to_owned(), sum(&[name]) as i64))
            .into(),
        ..Minute::default()
    };
    let done = [
        ("Scheduled", sum(&["scheduled"])),
        ("Looked up", sum(&["looked_up"])),
        ("Updated", sum(&["found", "withheld"])),
        ("Unavailable", sum(&["unavailable"])),
        ("Ended", sum(&["finished"])),
        ("Buried", sum(&["buried"])),
    ];
    html! {
        section.panel #flow aria-labelledby="flow-name" {
            h2 #flow-name { "Flow" }
            p.lead {
                "Last hour: " strong { (count(sum(&["requests"]), "request")) }
                @if let Some(ids) = ids_per_request(&hour) { " of " strong { (plain(ids)) } " ids" }
                @let failed = sum(&["requests_failed"]);
                @if failed > 0 { ", " strong.bad { (grouped(failed)) " failed" } }
            }
            (flow_chart(snapshot).markup())
            (facts(&done.map(|(name, number)| (name, grouped(number)))))
        }
    }
}

fn flow_chart(snapshot: &Snapshot) -> Chart {
    let series = |name: &str, counter: &str, ink| Series {
        name: name.to_owned(),
        ink,
        shape: Shape::Line,
        points: past(&snapshot.minutes, |minute| Some(snapshot.per_second(minute, counter))),
    };
    let series = vec![
        series("looked up", "looked_up", Ink::First),
        series("rescheduled", "rescheduled", Ink::Second),
        series("scheduled", "scheduled", Ink::Third),
    ];
    let most = series.iter().flat_map(|series| &series.points).map(|(_, rate)| *rate).fold(0.0, f64::max);
    let now = series.iter().filter_map(|series| Some(format!("{} {}", plain(series.points.last()?.1), series.name)));
    Chart {
        gist: format!("Ids per second over the last hour; now {}", now.collect::<Vec<_>>().join(", ")),
        x: minutes_past(&snapshot.minutes),
        y: Axis::up_to("ids per second", most),
        series,
        marks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::queue::{LaneDue, LaneStats, MINUTE_MS, Stats};
    use crate::ops::{Reading, Terms};
    use crate::providers::twitter_v1::CAPABILITIES;

    const NOW: Millis = 1_760_000_000_000;

    fn snapshot(reading: Reading) -> Snapshot {
        let stats = Stats { now_ms: NOW, ..reading.stats };
        Snapshot::new(Reading { stats, ..reading }, None, &Terms::usual(), CAPABILITIES)
    }

    /// So many idle minutes, then these.
    fn minutes(idle: usize, then: &[(&str, i64)]) -> Vec<Minute> {
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
        for (idle, shown) in [(58, 6), (40, 31), (30, 31), (0, 60)] {
            let minutes = minutes(idle, &vec![("requests", 1); 60 - idle]);
            assert_eq!(lived(&minutes).len(), shown, "{idle}");
        }
        assert_eq!(lived(&[]).len(), 0);
        assert_eq!(minutes_past(&[]), minutes_past(&minutes(60, &[])));
    }

    #[test]
    fn nothing_at_all_is_shown_without_a_flaw() {
        let snapshot = snapshot(Reading::default());
        let all = [lateness(&snapshot), coming(&snapshot), flow(&snapshot)].map(Markup::into_string).concat();
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
        let markup = coming(&snapshot).into_string();
        assert!(
            markup.contains("&lt;1h&gt;") && markup.contains("<dd>55</dd>") && markup.contains("<dd>660</dd>"),
            "{markup}"
        );
    }

    #[test]
    fn a_minute_in_which_nothing_was_claimed_is_a_gap() {
        let mut minutes = minutes(0, &[("claims", 1); 60]);
        minutes[3].lateness.add(40, 99);
        minutes[50].lateness.add(5_000, 1);
        let snapshot = snapshot(Reading { minutes, ..Reading::default() });
        let markup = lateness(&snapshot).into_string();
        assert!(markup.contains("p50 48ms, p99 48ms") || markup.contains("p99 6s"), "{markup}");
        assert_eq!(markup.matches("<circle").count(), 4, "two minutes, each alone, on two lines: {markup}");
        assert!(!markup.contains("NaN"), "{markup}");
    }
}
