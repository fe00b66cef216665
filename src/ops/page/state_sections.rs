//! The sections with tables: freshness, quota, workers, dead items.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::format::{capitalize, count_text, date, format_span, one_line, percent, relative_time, share_bar};
use super::layout::item_link;
use super::scroll_table::{STACKED, scroll_table};
use crate::ops::page::routes::Routes;
use crate::ops::report::plan::format_dollars;
use crate::ops::snapshot::{Freshness, Snapshot};
use collect::pipelines::kind::ItemWords;
use collect::pipelines::refresh::mass_miss_alert::MassMissAlert;
use engine::base::humanize::{format_number, group_digits};
use engine::queue::{DeadJob, MINUTE_MS, WorkerStats};
use engine::quota::{BudgetStatus, CredentialStatus};

const MAX_WORKERS: usize = 100;

pub(super) fn freshness(snapshot: &Snapshot) -> Markup {
    let all = snapshot.total_freshness();
    let ItemWords { one, many, .. } = snapshot.words;
    html! {
        section.panel #freshness aria-labelledby="freshness-name" {
            h2 #freshness-name { "Freshness" }
            @match (all.ids, all.fresh_share()) {
                (0, _) => p.lead.none { "No " (many) " are scheduled." },
                (ids, None) => p.lead { strong { (count_text(ids, one)) } "; their freshness is not measured yet" },
                (ids, Some(share)) => p.lead {
                    strong { (percent(share)) } " of " strong { (count_text(ids, one)) }
                    " are up to date: the last answer is no older than the interval plus " (format_span(snapshot.buffer_ttl_ms)) " of waiting for a full request"
                    @if let Some(waiting @ 1..) = all.waiting { "; " strong { (group_digits(waiting)) } " wait for their first answer" }
                    @if let Some(missing @ 1..) = all.missing { "; " strong.warn { (group_digits(missing)) } " are missing from the latest answers" }
                    @if all.beyond > 0 { "; " strong.warn { (group_digits(all.beyond)) } " are due too late: the updaters correct that" }
                },
            }
            @if let Some(unseen) = snapshot.unseen_interactions() {
                p #unseen {
                    "Estimated " strong { (count_text(unseen, "interaction")) } " since the last answers"
                    @if let Some(calls) = snapshot.status.demand_to_budget {
                        "; so far " strong { (format!("{:.0} %", calls * 100.0)) } " of the calls of the fixed intervals"
                    }
                }
            }
            @if let Some(busiest) = &snapshot.status.busiest { p #busiest { (busiest) } }
            @if let Some(wave) = snapshot.wave.filter(MassMissAlert::lasts) {
                p.note #wave {
                    strong.warn { "Mass-miss alert" } " since " (date(wave.since_ms)) ": " (percent(wave.share()))
                    " of the latest answers lack " (many) " that were found before. "
                    "During the alert, a miss takes longer to be confirmed, and no " (one) " ends."
                }
            }
            @if !snapshot.freshness.is_empty() {
                (scroll_table("freshness-box", "Freshness by lane", None, &[
                    ("", "Lane"), ("lesser", "Interval"), ("n", &capitalize(many)), ("meter", "Up to date"),
                    ("n", "Late"), ("n", "Oldest due")
                ], html! {
                    @for lane in age_lanes_first(snapshot) { (lane_row(lane)) }
                }))
            }
        }
    }
}

/// Returns the lanes of ages first. Their names start with a digit.
fn age_lanes_first(snapshot: &Snapshot) -> impl Iterator<Item = &Freshness> {
    let is_bracket = |lane: &&Freshness| lane.lane.starts_with(|c: char| c.is_ascii_digit());
    let others = move |lane: &&Freshness| !is_bracket(lane);
    snapshot.freshness.iter().filter(is_bracket).chain(snapshot.freshness.iter().filter(others))
}

fn lane_row(lane: &Freshness) -> Markup {
    let share = lane.fresh_share();
    let tone = match share {
        Some(share) if share < 0.9 => "bad",
        Some(share) if share < 0.99 => "warn",
        _ => "",
    };
    html! {
        tr {
            th scope="row" { (lane.lane) }
            td.lesser { (format_span(lane.interval_ms)) }
            td.n { (group_digits(lane.ids)) }
            @match share {
                Some(share) => td class={ "meter " (tone) } { div { span { (percent(share)) } (share_bar(share, tone)) } },
                None => td.meter.quiet { "–" },
            }
            td.n { @match lane.late { Some(late) => (group_digits(late)), None => "–" } }
            td.n { @if lane.due > 0 { (format_span(lane.oldest_lateness_ms)) } @else { "–" } }
        }
    }
}

pub(super) fn quota(snapshot: &Snapshot) -> Markup {
    let (text, load, one) = (snapshot.status.quota.to_string(), &snapshot.load, snapshot.words.one);
    html! {
        section.panel #quota aria-labelledby="quota-name" {
            h2 #quota-name { "Quota" }
            @for line in text.lines() { p.lead { (line) } }
            @for api in &snapshot.status.apis { p.api { "API: " (one_line(api)) } }
            @if let Some(reads) = &snapshot.status.budget { (budget_block(reads, snapshot.at_ms())) }
            div.note { @for account in &snapshot.accounts { (credential_block(account, snapshot.at_ms())) } }
            p.note #measured {
                "Measured in the last " (format_span(load.span_ms / MINUTE_MS * MINUTE_MS)) ", bursts included: "
                (count_text(load.arrived, one)) " arrived, " (count_text(load.calls, "call")) " made."
                @if load.is_burst() { " More than a tenth of them arrived within one minute: a burst is not a rate." }
            }
            @if let Some(forecast) = &snapshot.forecast {
                @let plan = &forecast.plan;
                p.note {
                    "If they keep arriving at this rate (" (format_number(plan.tweets_per_day.round())) " per day): "
                    (format_number(plan.lookups_per_15_min.ceil())) " calls per 15 min in the long run"
                    @if let Some(ratio) = forecast.demand_by_quota { ", " (format!("{ratio:.2}")) " × the quota" }
                    "."
                }
            }
        }
    }
}

fn budget_block(reads: &BudgetStatus, now: i64) -> Markup {
    let BudgetStatus { reads, limit, spent, reset_in_ms, today, dollars, .. } = reads;
    html! {
        div.note #budget {
            div.account {
                p {
                    strong { "Reads" }
                    span {
                        @match limit {
                            Some(limit) => {
                                (group_digits(limit.saturating_sub(*reads))) " of " (group_digits(*limit)) " posts left, reset "
                                (relative_time(now + reset_in_ms, now, "ago"))
                            }
                            None => { (group_digits(*reads)) " posts read, no limit" }
                        }
                    }
                }
                @if let Some(limit) = limit {
                    (share_bar(limit.saturating_sub(*reads) as f64 / (*limit).max(1) as f64, if *spent { "bad" } else { "" }))
                }
                @if *spent { p.bad { span { "The budget is spent: calls stop until the reset" } } }
                p.quiet { span { "$" (format_dollars(*dollars)) " at the most" } span { (group_digits(*today)) " today (UTC)" } }
            }
        }
    }
}

fn credential_block(account: &CredentialStatus, now: i64) -> Markup {
    let parked = account.parked_for_ms > 0;
    let window = account.limit.zip(account.remaining);
    let left = window.map(|(limit, remaining)| f64::from(remaining) / f64::from(limit.max(1)));
    let tone = if parked { "bad" } else { "" };
    html! {
        div.account {
            p {
                strong { (one_line(&account.name)) }
                span {
                    @match (window, account.limit) {
                        (Some((limit, remaining)), _) => {
                            (group_digits(remaining.into())) " of " (group_digits(limit.into())) " calls left"
                            @if let Some(reset) = account.reset_in_ms { ", reset " (relative_time(now + reset, now, "ago")) }
                        }
                        (None, Some(limit)) => { "all of " (group_digits(limit.into())) " calls left: no window is open" }
                        _ if account.unmetered => "no limit",
                        _ => "limit unknown until the first API response",
                    }
                }
            }
            @if let Some(left) = left.or_else(|| account.limit.map(|_| 1.0)) { (share_bar(left, tone)) }
            @if parked {
                p.bad {
                    span {
                        "Parked, free " (relative_time(now + account.parked_for_ms, now, "ago")) ": "
                        (one_line(account.parked_why.as_deref().unwrap_or("no reason is given")))
                    }
                }
            }
            p.quiet {
                span { (count_text(account.outstanding.into(), "call")) " in flight" }
                span { (group_digits(account.calls_today)) " calls today (UTC)" }
            }
        }
    }
}

pub(super) fn workers(snapshot: &Snapshot) -> Markup {
    let stats = &snapshot.status.stats;
    let mut workers: Vec<&WorkerStats> = stats.workers.iter().collect();
    // Sorted by name, so that a row keeps its place after each heartbeat.
    workers.sort_by(|one, other| one.worker.cmp(&other.worker));
    let kinds =
        |field: &str| workers.iter().filter_map(|worker| worker.fields.get(field)).collect::<BTreeSet<_>>().len();
    html! {
        section.panel #workers aria-labelledby="workers-name" {
            h2 #workers-name { "Workers" }
            @if workers.is_empty() {
                p.lead.bad { "No worker heartbeat: lookups are stopped." }
            } @else {
                p.lead {
                    strong { (count_text(workers.len() as u64, "worker")) } ", " strong { (group_digits(stats.leased)) } " " (snapshot.words.many) " leased"
                    @if stats.expired > 0 { "; " strong { (group_digits(stats.expired)) } " leases have expired: the next claim takes them over" }
                    @for (field, what) in [("version", "versions"), ("config_revision", "configurations")] {
                        @if kinds(field) > 1 { "; " strong.warn { (kinds(field)) " " (what) } " at once" }
                    }
                }
                (scroll_table("workers-box", "List of the workers", STACKED, &[
                    ("", "Worker"), ("", "Heartbeat"), ("", "Version"), ("lesser", "Config"), ("n", "Requests"),
                    ("n", "Late p99")
                ], html! {
                    @for one in workers.iter().take(MAX_WORKERS) { (worker_rows(one, snapshot.at_ms())) }
                }))
                @if workers.len() > MAX_WORKERS { p.note { "and " (count_text((workers.len() - MAX_WORKERS) as u64, "worker")) " more" } }
            }
        }
    }
}

fn worker_rows(worker: &WorkerStats, now: i64) -> Markup {
    let field = |name: &str| worker.fields.get(name).map(|value| one_line(value)).filter(|value| !value.is_empty());
    let number = |name: &str| field(name).and_then(|value| value.parse::<u64>().ok());
    let late = number("late_p99_ms").map(|late| i64::try_from(late).unwrap_or(i64::MAX));
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    let refusals = [
        (WorkerStats::TROUBLE, "cannot work"),
        (WorkerStats::FAILING, "a task fails"),
        (WorkerStats::CALL_FAILED, "its last call failed"),
        ("config_refused", "refused a changed configuration"),
        ("config_needs_restart", "needs a restart"),
    ];
    html! {
        tr {
            th.name scope="row" { (one_line(&worker.worker)) }
            td data-name="Heartbeat" { (relative_time(now - worker.beat_age_ms, now, "ago")) }
            td data-name="Version" { (or_dash(field("version"))) }
            td.id.lesser { (or_dash(field("config_revision"))) }
            td.n data-name="Requests" { (or_dash(number("requests").map(group_digits))) }
            td.n data-name="Late p99" { (or_dash(late.map(format_span))) }
        }
        @for (name, what) in refusals {
            @if let Some(why) = field(name) {
                tr { td.wrap.warn colspan="6" { (what) ": " (why) } }
            }
        }
    }
}

pub(super) fn dead(snapshot: &Snapshot, latest: &[DeadJob], routes: &Routes) -> Markup {
    let dead = snapshot.status.stats.dead;
    let ItemWords { one, many, .. } = snapshot.words;
    html! {
        section.panel #dead aria-labelledby="dead-name" {
            h2 #dead-name { "Dead" }
            @if dead == 0 {
                p.lead.none { "No dead " (many) "." }
            } @else {
                p.lead {
                    strong { (count_text(dead, one)) } " failed for good: retry or drop them. "
                    a #all-dead href=(routes.address("/dead")) { "All dead " (many) }
                }
                @if !latest.is_empty() {
                    (scroll_table("dead-box", "Latest dead items", STACKED, &[
                        ("", &capitalize(one)), ("", "Dead since"), ("", "Reason")
                    ], html! {
                        @for one in latest {
                            tr {
                                th.id scope="row" { (item_link(routes, &one.id)) }
                                td data-name="Dead since" { (relative_time(one.at, snapshot.at_ms(), "ago")) }
                                td.wrap dir="auto" { (one_line(&one.reason)) }
                            }
                        }
                    }))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{FigureSettings, LaneMeasurement, Measurement, Reading};
    use engine::queue::{LaneDue, LaneStats, Minute, Stats};
    use networks::providers::twitter_v1::CAPABILITIES;

    const EVIL: &str = "</td><script>alert(1)</script>\"'&";

    fn snapshot(reading: Reading) -> Snapshot {
        Snapshot::new(reading, None, &FigureSettings::usual(), CAPABILITIES)
    }

    #[test]
    fn nothing_at_all_is_shown_without_a_flaw() {
        let snapshot = snapshot(Reading::default());
        let all =
            [freshness(&snapshot), quota(&snapshot), workers(&snapshot), dead(&snapshot, &[], &Routes::default())];
        let all = all.map(Markup::into_string).concat();
        for says in ["No posts are scheduled", "no quota", "lookups are stopped", "No dead posts"] {
            assert!(all.contains(says), "{says}: {all}");
        }
        assert!(!all.contains("NaN"), "{all}");
    }

    #[test]
    fn a_share_is_a_number_and_a_bar_and_never_rounded_to_all() {
        let lane = LaneStats {
            lane: "18m".to_owned(),
            patience_ms: 180_000,
            delayed: 10_000,
            due: 9,
            oldest_lateness_ms: 61_000,
            ..LaneStats::default()
        };
        let snapshot = snapshot(Reading {
            stats: Stats { lanes: vec![lane], delayed: 10_000, due: 9, ..Stats::default() },
            due: vec![LaneDue { lane: "18m".to_owned(), counts: vec![1, 9] }],
            measured: Measurement {
                of: Some(vec![LaneMeasurement {
                    lane: Some("18m".to_owned()),
                    ids: 10_000,
                    sampled: 10_000,
                    late: 1,
                    waiting: 7,
                    ..LaneMeasurement::default()
                }]),
                at_ms: Some(0),
                ..Measurement::default()
            },
            ..Reading::default()
        });
        let markup = freshness(&snapshot).into_string();
        for says in
            [">99.9 %<", "width=\"99.99\"", "10,000 posts", ">1m 1s<", ">3m<", "5s of waiting", ">7</strong> wait"]
        {
            assert!(markup.contains(says), "{says}: {markup}");
        }
    }

    #[test]
    fn a_burst_is_no_rate() {
        let minute = |at, scheduled| Minute {
            at_ms: at * MINUTE_MS,
            counters: [("scheduled".to_owned(), scheduled), ("requests".to_owned(), 1)].into(),
            ..Minute::default()
        };
        let shown = |minutes: Vec<Minute>| {
            let stats = Stats { now_ms: 30 * MINUTE_MS, ..Stats::default() };
            let credential = CredentialStatus { limit: Some(100), window_ms: Some(900_000), ..Default::default() };
            let reading = Reading { stats, minutes, accounts: vec![credential], ..Reading::default() };
            quota(&snapshot(reading)).into_string()
        };
        let burst = shown((0..30).map(|at| minute(at, if at == 7 { 3_000 } else { 1 })).collect());
        let says = "Measured in the last 30m, bursts included: 3,029 posts arrived, 30 calls made. More than a tenth";
        assert!(burst.contains(says) && !burst.contains("× the quota") && !burst.contains("per day"), "{burst}");
        let steady = shown((0..30).map(|at| minute(at, 100)).collect());
        for says in ["3,000 posts arrived, 30 calls made.<", "(144,000 per day): ", " × the quota."] {
            assert!(steady.contains(says), "{says}: {steady}");
        }
    }

    #[test]
    fn each_credential_says_what_is_left_and_why_it_is_parked() {
        let open = CredentialStatus {
            name: "main".to_owned(),
            limit: Some(900),
            window_ms: Some(900_000),
            remaining: Some(225),
            reset_in_ms: Some(60_000),
            ..CredentialStatus::default()
        };
        let parked = CredentialStatus {
            name: EVIL.to_owned(),
            parked_for_ms: 3_600_000,
            parked_why: Some(EVIL.to_owned()),
            parked_everywhere: true,
            ..CredentialStatus::default()
        };
        let unmetered = CredentialStatus { name: "free".to_owned(), unmetered: true, ..CredentialStatus::default() };
        let snapshot = snapshot(Reading { accounts: vec![open, parked, unmetered], ..Reading::default() });
        let markup = quota(&snapshot).into_string();
        for says in ["225 of 900 calls left", "width=\"25.00\"", ">in 1m<", "Parked, free", ">in 1h<", "no limit"] {
            assert!(markup.contains(says), "{says}: {markup}");
        }
        assert!(!markup.contains("<script>") && markup.contains("&lt;script&gt;"), "{markup}");
    }

    #[test]
    fn a_budget_is_a_bar_with_its_reset() {
        let reads = BudgetStatus {
            reads: 750,
            limit: Some(1_000),
            spent: false,
            since_ms: 0,
            reset_in_ms: 3_600_000,
            today: 12,
            dollars: 3.75,
            has_room: true,
        };
        let shown = |reads| quota(&snapshot(Reading { reads: Some(reads), ..Reading::default() })).into_string();
        let some = shown(reads.clone());
        for says in ["250 of 1,000 posts left", "width=\"25.00\"", ">in 1h<", "$3.75 at the most", "12 today"] {
            assert!(some.contains(says), "{says}: {some}");
        }
        assert!(!some.contains("is spent"));
        let spent = shown(BudgetStatus { reads: 1_000, spent: true, ..reads.clone() });
        assert!(spent.contains("The budget is spent") && spent.contains("width=\"0.00\""), "{spent}");
        assert!(shown(BudgetStatus { limit: None, ..reads }).contains("750 posts read, no limit"));
    }

    #[test]
    fn what_workers_and_the_dead_say_stays_text() {
        let says = |config: &str| {
            let fields =
                [("version", "0.1.0"), ("config_revision", config), ("config_refused", EVIL), ("requests", "12345")];
            fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
        };
        let worker = |config| WorkerStats { worker: EVIL.to_owned(), beat_age_ms: 2_000, fields: says(config) };
        let stats = Stats { now_ms: 9_000, dead: 1, workers: vec![worker("a"), worker("b")], ..Stats::default() };
        let snapshot = snapshot(Reading { stats, ..Reading::default() });
        let latest = [DeadJob { id: EVIL.to_owned(), at: 1_000, reason: EVIL.to_owned() }];
        let markup = workers(&snapshot).into_string() + &dead(&snapshot, &latest, &Routes::default()).into_string();
        assert!(!markup.contains("<script>") && !markup.contains("href=\"/tweet"), "{markup}");
        for says in ["2 configurations", "refused a changed configuration", ">12,345<", ">2s ago<", ">8s ago<"] {
            assert!(markup.contains(says), "{says}: {markup}");
        }
    }
}
