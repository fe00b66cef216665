//! Posts of accounts that their stored counts lack, by the schedule of profiles: real and made-up people in simulated time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use serde_json::json;
use twitter_updater::base::activity::{Activity, Pace};
use twitter_updater::base::clock::Millis;
use twitter_updater::config::Settings;
use twitter_updater::engine::schedule::adaptive::budget::{Normaliser, Spending};
use twitter_updater::engine::schedule::visits::rhythm::DAY;
use twitter_updater::engine::schedule::{Schedule, ScheduledItem, corrected};
use twitter_updater::model::account::AccountCounts;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::profiles::pace::{PreviousCounts, estimate_pace};
use twitter_updater::pipelines::profiles::profiles_pipeline;

use crate::Size;
use crate::report::{Report, Table};
use crate::visits::Given;
use crate::visits::data::{self, Person, Set};

const ABOUT: &str = "\
Unseen: posts that the stored number of posts lacks, of an average account at an average moment of the second half of its time.
Silence and adaptive are accounts.schedule, with the default intervals and bounds; known rates is adaptive, but each account's
pace is that of its second half. The price is corrected once a day in both. Unlimited quota: calls are made when they are due.
At equal calls: unseen × calls ÷ those of silence, since unseen goes as 1 ÷ calls.";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Policy {
    Silence,
    Adaptive,
    KnownRates,
}

/// The calls that a schedule makes, and the posts that it misses.
#[derive(Debug, Clone, Copy, Default)]
struct Outcome {
    /// Calls of an account and day.
    calls: f64,
    /// Unseen posts.
    unseen: f64,
}

pub async fn run(size: Size, given: Given) -> Report {
    tokio::task::spawn_blocking(move || measure(size, &given)).await.unwrap()
}

fn measure(size: Size, given: &Given) -> Report {
    let made_up = data::made_up(size.pick(2_000, 40), size.pick(120, 30), 7);
    let mut table = Table::new(
        "accounts",
        &["set", "accounts", "schedule", "calls a day", "to silence", "unseen", "at equal calls"],
    );
    let mostly_silent = mostly_silent(&made_up);
    for set in given.folders.iter().map(|folder| data::read(folder)).chain([made_up, mostly_silent]) {
        let all = [("silence", Policy::Silence), ("adaptive", Policy::Adaptive), ("known rates", Policy::KnownRates)];
        let came = all.map(|(name, policy)| (name, replay(&set, policy)));
        let (_, silence) = came[0];
        for (name, came) in came {
            let equal = came.unseen * came.calls / (silence.unseen * silence.calls);
            let round = |figure: f64| json!((figure * 1e3).round() / 1e3);
            table.row(vec![
                json!(set.name),
                json!(set.people.len()),
                json!(name),
                round(came.calls),
                round(came.calls / silence.calls),
                round(came.unseen),
                round(equal),
            ]);
        }
    }
    Report { about: ABOUT.lines().map(str::to_owned).collect(), tables: vec![table] }
}

/// Of four accounts in five one post in forty.
fn mostly_silent(set: &Set) -> Set {
    let mut people = set.people.clone();
    for person in people.iter_mut().enumerate().filter(|(at, _)| at % 5 > 0).map(|(_, person)| person) {
        person.observed.events = person.observed.events.iter().copied().step_by(40).collect();
    }
    Set { name: "made up, mostly silent".into(), people, left_out: [0; 2] }
}

/// The schedule as `accounts.schedule` makes it of the default settings.
fn schedule(kind: &str) -> Arc<dyn Schedule> {
    let settings = Settings::load_with(&[], None, &[("TWITTER_UPDATER__ACCOUNTS__SCHEDULE", kind)]).unwrap();
    profiles_pipeline(&Provider::Twitter).schedule(&settings)
}

/// An account while it is followed.
#[derive(Clone, Copy, Default)]
struct Followed {
    before: PreviousCounts,
    due: Millis,
}

fn replay(set: &Set, policy: Policy) -> Outcome {
    let base = schedule(if policy == Policy::Silence { "silence" } else { "adaptive" });
    let begin = set.people.iter().map(|person| person.observed.from).min().unwrap_or(0);
    let mut followed = vec![Followed::default(); set.people.len()];
    // The first lookups are spread over the first day.
    let first = |at: usize, person: &Person| person.observed.from + (at as Millis * 7_919) % (DAY / 1_000) * 1_000;
    let mut due: BinaryHeap<Reverse<(Millis, usize)>> =
        set.people.iter().enumerate().map(|(at, person)| Reverse((first(at, person), at))).collect();
    let (mut schedule, mut by, mut day, mut spent) = (base.clone(), Normaliser::default(), begin, Spending::default());
    let (mut calls, mut unseen, mut whole) = (0.0, 0.0, 0.0);
    while let Some(Reverse((now, at))) = due.pop() {
        let person = &set.people[at];
        let (events, until, split) = (&person.observed.events, person.observed.until, person.split);
        let measured = |from: Millis, to: Millis| {
            let those = &events[events.partition_point(|event| *event < from.max(split))..];
            those.iter().take_while(|event| **event < to).map(|event| (to - event) as f64 / DAY as f64).sum::<f64>()
        };
        let last = followed[at].before.at.unwrap_or(person.observed.from);
        unseen += measured(last, now.min(until));
        if now >= until {
            whole += (until - split) as f64 / DAY as f64;
            continue;
        }
        while now - day >= DAY {
            by = by.after_day(&spent, 1.0);
            (day, spent) = (day + DAY, Spending::default());
            schedule = corrected(&base, by);
        }
        calls += if now >= split { 1.0 } else { 0.0 };
        let seen = events.partition_point(|event| *event <= now);
        let counts = AccountCounts { posts: Some(seen as i64), ..AccountCounts::default() };
        let learnt = match policy {
            Policy::KnownRates => {
                let of_second = events.len() - events.partition_point(|event| *event < split);
                let per_day = of_second as f64 / ((until - split) as f64 / DAY as f64);
                Some(Pace { per_day, at: now, since: followed[at].before.at })
            }
            Policy::Silence | Policy::Adaptive => estimate_pace(&followed[at].before, &counts, None, now),
        };
        let posted = seen.checked_sub(1).map_or(person.observed.from, |newest| events[newest]);
        let activity = Activity { last: Some(posted), pace: learnt, ..Activity::default() };
        let id = at.to_string();
        let known = ScheduledItem { activity, ..ScheduledItem::new(&id, None) };
        spent = spent.plus(schedule.spending(&known, followed[at].due).unwrap_or_default());
        let next = now + schedule.next(&known, now).map_or(DAY, |(_, delay)| delay.max(1));
        followed[at] = Followed {
            before: PreviousCounts { at: Some(now), counts, per_day: schedule.recent_events(&known) },
            due: next,
        };
        due.push(Reverse((next.min(until), at)));
    }
    Outcome { calls: calls / whole, unseen: unseen / whole }
}
