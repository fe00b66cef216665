//! Is everything fresh, and if not, why? Pure.

use std::fmt;

use serde::Serialize;

use super::figures::{Figures, Freshness, Outage, Seen};
use crate::credential::Reads;
use crate::figures::{figure, grouped, one_line, span, when};

/// Of a lane's ids, so many may be on the way at any moment without it being late: a hundredth, or as many as a
/// request takes.
const ON_THE_WAY: u64 = 100;
/// Minutes that say whether calls fail: the current one and the one before it.
const LATELY: usize = 2;

/// Of namespaces that are fresh, so many are named.
const NAMED: usize = 3;

/// How it is, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Updated within their intervals.
    Fresh,
    /// Some are overdue.
    Late,
    /// Nothing is updated.
    Stopped,
    /// There are no new figures.
    Unknown,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// In a word.
    pub state: State,
    /// In one sentence, with what there is to be done.
    pub sentence: String,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "fresh",
            Self::Late => "late",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
        })
    }
}

impl Answer {
    /// What is seen, in one sentence: the first of what keeps tweets from being fresh.
    #[must_use]
    pub fn of(seen: &Seen) -> Self {
        if let Some(Outage { why, since_ms }) = &seen.outage {
            let since = when(*since_ms);
            return State::Unknown.because(format!("Unknown: the queue is out since {since}: {}", one_line(why)));
        }
        let Some(figures) = &seen.figures else {
            return State::Unknown.because("Unknown: nothing has been read yet".to_owned());
        };
        if let Some(why) = stopped(figures) {
            return State::Stopped.because(format!("Stopped: {why}"));
        }
        let all = figures.freshness_of_all();
        let expired = figures.status.stats.expired;
        let quota = &figures.status.quota;
        // While the quota of some credential is not known yet, it may suffice.
        let over = quota.demand_by_quota.zip(quota.remedy);
        let over = over.map(|(ratio, remedy)| format!("the demand is {ratio:.2} × the quota; to mend it: {remedy}"));
        if !figures.freshness.iter().any(|lane| is_late(lane, figures)) && expired <= figures.request_ids {
            let fresh = match all.ids {
                0 => "Fresh: nothing is scheduled".to_owned(),
                ids => format!("Fresh: {} of {} tweets are within their interval", percent(&all), grouped(ids)),
            };
            let but = over.map_or_else(String::new, |over| format!(", but that will not last: {over}"));
            return State::Fresh.because(fresh + &but);
        }
        let late = format!(
            "Late: {} of {} tweets are overdue, the oldest by {}",
            grouped(all.overdue),
            grouped(all.ids),
            span(all.oldest_lateness_ms)
        );
        let why = over.unwrap_or_else(|| slow(figures));
        State::Late.because(format!("{late}: {why}"))
    }
}

impl Answer {
    /// Of several namespaces, by the state of each: the worst first, with the names of those that are in it.
    #[must_use]
    pub fn of_all(namespaces: &[(&str, State)]) -> Self {
        let worst_first = [State::Stopped, State::Unknown, State::Late, State::Fresh];
        let mut parts = Vec::new();
        for state in worst_first {
            let names: Vec<&str> = namespaces.iter().filter(|one| one.1 == state).map(|one| one.0).collect();
            let who = match names.len() {
                0 => continue,
                all if all == namespaces.len() => format!("all {all} namespaces"),
                // Who is well need not be named.
                many if state == State::Fresh && many > NAMED => format!("the {many} others"),
                _ => names.join(", "),
            };
            parts.push((state, format!("{state}: {who}")));
        }
        let Some((worst, _)) = parts.first() else {
            return State::Unknown.because("Unknown: no namespace is shown".to_owned());
        };
        let text = parts.iter().map(|(_, part)| part.as_str()).collect::<Vec<_>>().join("; ");
        // The words of the states are ASCII.
        worst.because(text[..1].to_ascii_uppercase() + &text[1..])
    }
}

impl State {
    fn because(self, sentence: String) -> Answer {
        Answer { state: self, sentence }
    }
}

/// Why nothing is updated.
fn stopped(figures: &Figures) -> Option<String> {
    let stats = &figures.status.stats;
    if let Some(Outage { why, since_ms }) = &figures.store_out {
        return Some(format!("the store is out since {}, nothing can be saved: {}", when(*since_ms), one_line(why)));
    }
    if let Some(reason) = &stats.paused {
        return Some(format!("it is paused: {}", one_line(reason)));
    }
    if stats.workers.is_empty() {
        return Some("no worker has beaten for a minute; start `twitter-updater updater`".to_owned());
    }
    if let Some(Reads { reads, limit: Some(limit), spent: true, reset_in_ms, .. }) = &figures.status.budget {
        let [reads, limit] = [reads, limit].map(|count| grouped(*count));
        // To the second: by the time it is read, it is less.
        let left = span((reset_in_ms + 999) / 1_000 * 1_000);
        return Some(format!(
            "the budget of reads is spent, {reads} of {limit}; it goes on at the reset in {left}, or with more x.reads"
        ));
    }
    let first = figures.accounts.iter().min_by_key(|account| account.parked_for_ms)?;
    (first.parked_for_ms > 0).then(|| {
        let who = match figures.accounts.len() {
            1 => "the only credential is".to_owned(),
            many => format!("all {many} credentials are"),
        };
        let why = first.parked_why.as_deref().map_or_else(|| "no reason is given".to_owned(), one_line);
        // To the second: by the time it is read, it is less.
        let left = span((first.parked_for_ms + 999) / 1_000 * 1_000);
        format!("{who} parked, {} for another {left}: {why}", first.name)
    })
}

/// Whether more are overdue than are on the way at any moment, or one has missed a whole interval.
fn is_late(lane: &Freshness, figures: &Figures) -> bool {
    let on_the_way = figures.request_ids.max(lane.ids / ON_THE_WAY);
    lane.overdue > on_the_way
        || (lane.overdue > 0 && lane.oldest_lateness_ms > lane.interval_ms + figures.buffer_ttl_ms)
}

/// Why tweets are overdue although the quota suffices.
fn slow(figures: &Figures) -> String {
    let (stats, lately) = (&figures.status.stats, figures.minutes.len().saturating_sub(LATELY));
    let lately = figures.minutes.get(lately..).unwrap_or_default();
    let count = |counter: &str| lately.iter().map(|minute| minute.count(counter)).sum::<i64>();
    let (calls, failed) = (count("requests"), count("requests_failed"));
    if failed * 2 > calls {
        let [calls, failed] = [calls, failed].map(|count| grouped(count.unsigned_abs()));
        return format!("{failed} of the last {calls} calls to the API failed");
    }
    if stats.expired > 0 {
        let expired = grouped(stats.expired);
        return format!("{expired} more were with workers that died or hang, and wait for another to claim them");
    }
    let seconds: f64 = lately.iter().map(|minute| figures.seconds_of(minute)).sum();
    let per_second = figure((count("looked_up") as f64 / seconds.max(1.0) * 10.0).round() / 10.0);
    let workers = match stats.workers.len() {
        1 => "the only worker updates".to_owned(),
        many => format!("{many} workers update"),
    };
    format!("{workers} {per_second} a second; they catch up, or there are too few (more, or updater.concurrency)")
}

/// Never 100 % where one is missing.
fn percent(all: &Freshness) -> String {
    let fresh = u128::from(all.ids - all.overdue) * 10_000 / u128::from(all.ids.max(1));
    format!("{} %", fresh as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::credential::Account;
    use crate::lookup::twitter_v1::CAPABILITIES;
    use crate::ops::figures::{Reading, Terms};
    use crate::queue::{LaneDue, LaneStats, MINUTE_MS, Minute, Stats, WorkerStats};

    const NOW: i64 = 1_800_000_020_000;

    /// All is well: 100,000 ids in two lanes, 50 overdue in each, one worker, quota enough.
    fn reading() -> Reading {
        let lane = |name: &str, patience_ms, delayed| LaneStats {
            lane: name.to_owned(),
            patience_ms,
            delayed,
            due: 60,
            oldest_lateness_ms: 6_000,
            ..LaneStats::default()
        };
        let due = |name: &str| LaneDue { lane: name.to_owned(), counts: vec![50, 60, 70] };
        let worker = WorkerStats { worker: "w".to_owned(), beat_age_ms: 900, fields: [].into() };
        let counters = [("requests", 40), ("looked_up", 4_000)].map(|(name, count)| (name.to_owned(), count));
        let minute = |at_ms| Minute { at_ms, counters: counters.clone().into(), ..Minute::default() };
        Reading {
            stats: Stats {
                namespace: "tweet:update".to_owned(),
                now_ms: NOW,
                lanes: vec![lane("18m", 180_000, 4_000), lane("1d", 3_600_000, 96_000)],
                workers: vec![worker],
                ..Stats::default()
            },
            accounts: vec![Account { limit: Some(900), window_ms: Some(900_000), ..named("main") }],
            reads: None,
            due: vec![due("18m"), due("1d")],
            minutes: vec![minute(NOW - NOW % MINUTE_MS - MINUTE_MS), minute(NOW - NOW % MINUTE_MS)],
        }
    }

    fn named(name: &str) -> Account {
        Account { name: name.to_owned(), ..Account::default() }
    }

    fn figures(reading: Reading, store_out: Option<Outage>) -> Figures {
        let ages = "18m: 3m, 1d: 1h".parse().unwrap();
        let terms = Terms { ages, buffer_ttl: Duration::from_secs(5), lookahead: 0.1 };
        Figures::new(reading, store_out, &terms, CAPABILITIES)
    }

    fn seen(figures: Figures) -> Seen {
        Seen { figures: Some(Arc::new(figures)), outage: None }
    }

    /// What is answered when so much is changed of what is well.
    fn answers(change: impl FnOnce(&mut Reading)) -> (State, String) {
        let mut reading = reading();
        change(&mut reading);
        let Answer { state, sentence } = Answer::of(&seen(figures(reading, None)));
        (state, sentence)
    }

    fn is(state: State, sentence: &str) -> (State, String) {
        (state, sentence.to_owned())
    }

    fn overdue(reading: &mut Reading, count: u64) {
        reading.due[1].counts = vec![count, count + 10, count + 20];
    }

    fn park(reading: &mut Reading) {
        let why = Some("its account is locked".to_owned());
        reading.accounts[0] = Account { parked_for_ms: 60_001, parked_why: why, ..named("main") };
    }

    /// 96,000 ÷ 3,600 s and 4,000 ÷ 180 s are 44,000 in 15 min: 440 calls.
    fn demand(reading: &mut Reading) {
        reading.accounts[0].limit = Some(220);
    }

    #[test]
    fn fresh_with_the_share() {
        let all_is_well = is(State::Fresh, "Fresh: 99.9 % of 100,000 tweets are within their interval");
        assert_eq!(answers(|_| {}), all_is_well);
        assert_eq!(
            answers(|reading| reading.due.iter_mut().for_each(|lane| lane.counts.fill(0))).1,
            "Fresh: 100 % of 100,000 tweets are within their interval"
        );
        assert_eq!(answers(|reading| overdue(reading, 960)).0, State::Fresh, "a hundredth is on the way");
        // One of very many is missing: not 100 %.
        let many = answers(|reading| {
            reading.stats.lanes[0].delayed = 3_000_000;
            reading.due[1].counts.fill(0);
        });
        assert_eq!(
            many.1,
            "Fresh: 99.99 % of 3,096,000 tweets are within their interval, but that will not last: the \
                            demand is 166.93 × the quota; to mend it: 496 more app-only credentials or 166 user \
                            credentials, or intervals 166.11 times as long (tweet_age)"
        );
        let nothing = answers(|reading| (reading.stats.lanes, reading.due) = (vec![], vec![]));
        assert_eq!(nothing, is(State::Fresh, "Fresh: nothing is scheduled"));
    }

    #[test]
    fn late_says_why_and_what_mends_it() {
        let late = "Late: 5,050 of 100,000 tweets are overdue, the oldest by 6s: ";
        let says = |why: &str| is(State::Late, &format!("{late}{why}"));
        assert_eq!(
            answers(|reading| {
                overdue(reading, 5_000);
                demand(reading);
            }),
            says(
                "the demand is 2.00 × the quota; to mend it: 1 more app-only credential or 1 user credential, or \
                 intervals 2.00 times as long (tweet_age)"
            )
        );
        assert_eq!(
            answers(|reading| {
                overdue(reading, 5_000);
                reading.minutes[1].counters = [("requests".to_owned(), 50), ("requests_failed".to_owned(), 50)].into();
            }),
            says("50 of the last 90 calls to the API failed")
        );
        assert_eq!(
            answers(|reading| {
                overdue(reading, 5_000);
                reading.stats.expired = 16;
            }),
            says("16 more were with workers that died or hang, and wait for another to claim them")
        );
        assert!(
            answers(|reading| {
                overdue(reading, 5_000);
                demand(reading);
                reading.accounts.push(named("not used yet"));
            })
            .1
            .contains("the only worker"),
            "with it the quota may suffice"
        );
        // 8,000 in a minute and twenty seconds.
        let slow = "100 a second; they catch up, or there are too few (more, or updater.concurrency)";
        assert_eq!(answers(|reading| overdue(reading, 5_000)), says(&format!("the only worker updates {slow}")));
        assert_eq!(
            answers(|reading| {
                overdue(reading, 5_000);
                reading.stats.workers.push(reading.stats.workers[0].clone());
            }),
            says(&format!("2 workers update {slow}"))
        );
    }

    #[test]
    fn late_is_also_who_missed_a_whole_interval_or_was_lost_with_a_worker() {
        let starved = answers(|reading| reading.stats.lanes[0].oldest_lateness_ms = 185_001);
        assert_eq!(
            (starved.0, &starved.1[..55]),
            (State::Late, "Late: 100 of 100,000 tweets are overdue, the oldest by ")
        );
        assert_eq!(answers(|reading| reading.stats.lanes[0].oldest_lateness_ms = 185_000).0, State::Fresh);
        assert_eq!(answers(|reading| reading.stats.expired = 101).0, State::Late);
        assert_eq!(answers(|reading| reading.stats.expired = 100).0, State::Fresh);
    }

    #[test]
    fn stopped_says_what_stops_it() {
        let locked = "main for another 1m 1s: its account is locked";
        assert_eq!(answers(park), is(State::Stopped, &format!("Stopped: the only credential is parked, {locked}")));
        let both = answers(|reading| {
            park(reading);
            reading.accounts.push(Account { parked_for_ms: 90_000, ..named("second") });
        });
        assert_eq!(both, is(State::Stopped, &format!("Stopped: all 2 credentials are parked, {locked}")));
        let one_works = answers(|reading| {
            park(reading);
            reading.accounts.push(named("second"));
        });
        assert_eq!(one_works.0, State::Fresh);
        let reads = Reads {
            reads: 1_000,
            limit: Some(1_000),
            spent: true,
            since_ms: 0,
            reset_in_ms: 90_000_001,
            today: 7,
            dollars: 5.0,
            has_room: false,
        };
        let spent = "Stopped: the budget of reads is spent, 1,000 of 1,000; it goes on at the reset in 1day 1h, or with more \
                     x.reads";
        assert_eq!(answers(|reading| reading.reads = Some(reads.clone())), is(State::Stopped, spent));
        let left = Reads { reads: 999, spent: false, ..reads };
        assert_eq!(answers(|reading| reading.reads = Some(left)).0, State::Fresh);
        assert_eq!(
            answers(|reading| reading.stats.workers.clear()),
            is(State::Stopped, "Stopped: no worker has beaten for a minute; start `twitter-updater updater`")
        );
        assert_eq!(
            answers(|reading| reading.stats.paused = Some("the database\nmoves".to_owned())),
            is(State::Stopped, "Stopped: it is paused: the database moves")
        );
        let out = Outage { why: "no route\nto host".to_owned(), since_ms: 1_769_851_800_000 };
        assert_eq!(
            Answer::of(&seen(figures(reading(), Some(out)))).sentence,
            "Stopped: the store is out since 2026-01-31T09:30:00Z, nothing can be saved: no route to host"
        );
    }

    #[test]
    fn unknown_is_what_nobody_answers() {
        let outage = Some(Outage { why: "no route".to_owned(), since_ms: 1_769_851_800_000 });
        let last = Seen { outage: outage.clone(), ..seen(figures(reading(), None)) };
        for seen in [last, Seen { figures: None, outage }] {
            assert_eq!(
                Answer::of(&seen),
                State::Unknown.because("Unknown: the queue is out since 2026-01-31T09:30:00Z: no route".to_owned())
            );
        }
        assert_eq!(Answer::of(&Seen::default()).state, State::Unknown);
    }

    #[test]
    fn the_first_reason_is_given() {
        type Change = fn(&mut Reading);
        let changes: [(Change, &str); 6] = [
            (|reading| reading.stats.expired = 500, "died or hang"),
            (|reading| reading.minutes[1].counters = [("requests_failed".to_owned(), 99)].into(), "failed"),
            (demand, "demand"),
            (park, "parked"),
            (|reading| reading.stats.workers.clear(), "no worker"),
            (|reading| reading.stats.paused = Some("why".to_owned()), "paused"),
        ];
        let mut reading = reading();
        overdue(&mut reading, 5_000);
        for (change, says) in changes {
            change(&mut reading);
            let sentence = Answer::of(&seen(figures(reading.clone(), None))).sentence;
            assert!(sentence.contains(says), "{says}: {sentence}");
        }
        let out = Outage { why: "no route".to_owned(), since_ms: 0 };
        let mut worst = seen(figures(reading, Some(out.clone())));
        assert!(Answer::of(&worst).sentence.contains("the store is out"));
        worst.outage = Some(out);
        assert!(Answer::of(&worst).sentence.contains("the queue is out"));
    }

    #[test]
    fn several_namespaces_are_as_the_worst_of_them() {
        use State::{Fresh, Late, Stopped, Unknown};
        let of = |states: &[(&str, State)]| {
            let answer = Answer::of_all(states);
            (answer.state, answer.sentence)
        };
        assert_eq!(of(&[("a", Fresh), ("b", Fresh)]), (Fresh, "Fresh: all 2 namespaces".to_owned()));
        assert_eq!(of(&[("a", Fresh), ("b", Late)]), (Late, "Late: b; fresh: a".to_owned()));
        assert_eq!(
            of(&[("a", Unknown), ("b", Late), ("c", Stopped), ("d", Late), ("e", Fresh)]),
            (Stopped, "Stopped: c; unknown: a; late: b, d; fresh: e".to_owned())
        );
        let many: Vec<(&str, State)> = ["a", "b", "c", "d"].map(|name| (name, Fresh)).into();
        let most = [&many[..], &[("x", Unknown)]].concat();
        assert_eq!(of(&most), (Unknown, "Unknown: x; fresh: the 4 others".to_owned()));
        assert_eq!(of(&[("a", Stopped), ("b", Stopped)]), (Stopped, "Stopped: all 2 namespaces".to_owned()));
        assert_eq!(of(&[]).0, Unknown);
    }
}
