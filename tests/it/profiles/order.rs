//! Never seen accounts first, then the oldest data; a short quota is used up, and no account is left behind.

use std::collections::BTreeMap;
use std::time::Duration;

use twitter_updater::base::clock::{Millis, span};
use twitter_updater::base::random;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::engine::queue::{Jobs, Place};

use super::world::{DAY, Event, HOUR, MINUTE, ORIGIN, WINDOW, World, settings, simulated};

/// Accounts known from the start, and those that come in a storm.
const KNOWN: usize = 20_000;
const NEW: usize = 2_000;
/// Calls in a window, of each of two credentials: a round of all accounts takes 20,000 ÷ (100 × 2 × 4) windows = 6.25 h.
const CALLS: u32 = 4;

fn ids(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|n| format!("{n}")).collect()
}

#[test]
fn with_too_few_calls_the_never_seen_go_first_and_no_data_gets_older_than_a_round() {
    simulated(async {
        let _replayed = random::replay_seed(7);
        // All are due again an hour after an answer, six times as often as the quota carries.
        let world = World::new(settings(&[("ACCOUNTS__ACTIVE", "1h")]), 2, CALLS);
        let (known, new) = (ids(1_000_000, KNOWN), ids(5_000_000, NEW));
        for id in known.iter().chain(&new) {
            world.add(id, [(-HOUR, Event::Post)]);
        }
        world.put_in(&known).await;
        let working = world.start(8);
        let round = (KNOWN as f64 / (f64::from(CALLS) * 2.0 * 100.0) * WINDOW as f64) as Millis;
        tokio::time::sleep(span(round + round / 2)).await;
        // A storm of accounts that nobody has seen: ten times the usual, for an hour.
        let storm = world.now();
        for some in new.chunks(NEW / 12) {
            world.put_in(some).await;
            tokio::time::sleep(span(5 * MINUTE)).await;
        }
        tokio::time::sleep(span(round + round / 2)).await;
        world.end(working).await;

        let network = world.network.lock().unwrap();
        let mut visits = BTreeMap::<&str, Vec<Millis>>::new();
        for call in &network.calls {
            call.ids.iter().for_each(|id| visits.entry(id).or_default().push(call.at));
        }
        // Never seen first: before any account is asked for a second time, all were asked for once.
        let first = |ids: &[String]| ids.iter().map(|id| visits[&**id][0]).max().unwrap();
        let second = known.iter().filter_map(|id| visits[&**id].get(1)).min().unwrap();
        assert!(first(&known) <= *second, "{} > {second}", first(&known));
        let waited = new.iter().map(|id| visits[&**id][0] - storm).max().unwrap();
        // Their own calls, one window more, and the hour in which they came.
        let own = (NEW as f64 / (f64::from(CALLS) * 2.0 * 100.0) * WINDOW as f64) as Millis;
        assert!(waited <= HOUR + own.max(WINDOW) + WINDOW, "{waited}");
        // The age of data: accounts ÷ (calls × 100), and a tenth more. In the storm there are more accounts.
        let bound =
            |accounts: usize| (1.1 * accounts as f64 / (f64::from(CALLS) * 2.0 * 100.0) * WINDOW as f64) as Millis;
        let mut oldest = 0;
        for at in visits.values().flat_map(|at| at.windows(2)) {
            oldest = oldest.max(at[1] - at[0]);
        }
        assert!(oldest <= bound(KNOWN + NEW), "{oldest} > {}", bound(KNOWN + NEW));
        // Every window that was over is used.
        let mut windows = BTreeMap::<(&str, Millis), u32>::new();
        let mut ends = BTreeMap::<&str, Millis>::new();
        for call in &network.calls {
            let end = ends.entry(&call.credential).or_default();
            if call.at >= *end {
                *end = call.at + WINDOW;
            }
            *windows.entry((&call.credential, *end)).or_default() += 1;
        }
        let closed: Vec<u32> = windows
            .iter()
            .filter(|((_, end), _)| *end < network.calls.last().unwrap().at)
            .map(|(_, made)| *made)
            .collect();
        assert!(closed.len() > 60 && closed.iter().all(|made| *made == CALLS), "{closed:?}");
        let carried: usize = network.calls.iter().map(|call| call.ids.len()).sum();
        let full = carried as f64 / (network.calls.len() * 100) as f64;
        assert!(full > 0.97, "requests are full: {full}");
        println!(
            "oldest data {:.2} h (a round is {:.2} h), the last new account after {:.1} min, requests {:.1} % full",
            oldest as f64 / HOUR as f64,
            round as f64 / HOUR as f64,
            waited as f64 / MINUTE as f64,
            100.0 * full
        );
    });
}

#[test]
fn accounts_are_looked_up_the_less_often_the_longer_they_are_silent_and_frozen_ones_at_night() {
    simulated(async {
        let _replayed = random::replay_seed(7);
        let world = World::new(settings(&[]), 1, 300);
        world.add("11", (0..90).map(|day| (day * DAY, Event::Post)));
        world.add("12", [(-8 * DAY, Event::Post)]);
        // Posted at noon, day after day, until two months ago.
        world.add("13", [(-60 * DAY, Event::Post)]);
        // It posts at all hours but from 8 to 12, as its collected posts tell.
        world.add("14", [(-60 * DAY, Event::Post)]);
        world.put_in(&["11", "12", "13", "14"].map(str::to_owned)).await;
        let posts = (0..100).filter(|n| !(8..12).contains(&(n % 24)));
        let at = |n: Millis| ORIGIN - 12 * HOUR - 70 * DAY + n * HOUR;
        let seen =
            posts.map(|n| twitter_updater::store::Sighting { account: "14".into(), post: n.to_string(), at: at(n) });
        use twitter_updater::store::Accounts as _;
        world.store.record_sightings(super::world::NS, &seen.collect::<Vec<_>>()).await.unwrap();
        let working = world.start(1);
        tokio::time::sleep(Duration::from_secs(86_400 * 92)).await;
        world.end(working).await;

        let visits = |id| world.calls_for(id).into_iter().map(|(at, _)| at).collect::<Vec<_>>();
        assert!((90..=93).contains(&visits("11").len()), "{}", visits("11").len());
        // Idle for three weeks more, then frozen.
        let of_idle = visits("12");
        assert_eq!(of_idle[..4].iter().map(|at| at / DAY).collect::<Vec<_>>(), [0, 7, 14, 21]);
        assert!((6..=7).contains(&of_idle.len()), "{of_idle:?}");
        for (id, from) in [("13", 3), ("14", 8)] {
            let frozen = visits(id);
            assert_eq!(frozen.len(), 4, "{id}: {frozen:?}");
            for at in &frozen[1..] {
                let hour = ((ORIGIN + at) / HOUR) % 24;
                assert!((from..from + 4).contains(&hour), "{id}: at {hour}");
            }
            assert!(frozen.windows(2).all(|of| (29 * DAY - MINUTE..=30 * DAY + MINUTE).contains(&(of[1] - of[0]))));
        }
    });
}

#[test]
fn accounts_whose_counts_change_fast_are_looked_up_more_often_where_the_schedule_is_adaptive() {
    simulated(async {
        let _replayed = random::replay_seed(7);
        let world = World::new(settings(&[("ACCOUNTS__SCHEDULE", "adaptive")]), 1, 300);
        world.add("21", (0..40 * 96).map(|n| (n * DAY / 96, Event::Post)));
        world.add("22", (0..40).map(|day| (day * DAY, Event::Post)));
        world.add("23", [(-8 * DAY, Event::Post)]);
        world.put_in(&["21", "22", "23"].map(str::to_owned)).await;
        let working = world.start(2);
        tokio::time::sleep(Duration::from_secs(86_400 * 40)).await;
        world.end(working).await;

        // At the first price: 96 posts a day, one, and none. With the intervals of silence 41, 41 and some 6.
        let visits = ["21", "22", "23"].map(|id| world.calls_for(id).len());
        println!("{visits:?}");
        assert!((90..=140).contains(&visits[0]) && (10..=20).contains(&visits[1]), "{visits:?}");
        assert!((5..=12).contains(&visits[2]), "{visits:?}");
        // What was learnt is kept with the answers, not in a process.
        use twitter_updater::store::Accounts as _;
        let signs = world.store.schedule_inputs(super::world::NS, &["21".to_owned()]).await.unwrap()[0].unwrap();
        assert!((signs.recent.unwrap() / 96.0 - 1.0).abs() < 0.1, "{signs:?}");
    });
}

#[test]
fn a_queue_that_is_built_again_has_the_never_seen_first_and_the_others_as_they_were() {
    simulated(async {
        let _replayed = random::replay_seed(7);
        let world = World::new(settings(&[]), 1, 300);
        let ids = ["11", "12", "13"].map(str::to_owned);
        world.add("11", [(-HOUR, Event::Post)]);
        world.add("12", [(-8 * DAY, Event::Post)]);
        world.put_in(&ids[..2]).await;
        let working = world.start(1);
        tokio::time::sleep(Duration::from_secs(600)).await;
        world.end(working).await;
        world.put_in(&ids[2..]).await;
        let place = |id: &str| match world.queue.with_model(|model| model.place(id)) {
            Some(Place::Delayed { lane, due }) => (lane.to_string(), due),
            other => panic!("{id}: {other:?}"),
        };
        let before = ids.each_ref().map(|id| place(id));
        assert_eq!(before.each_ref().map(|(lane, _)| lane.as_str()), ["active", "idle", "first"]);
        world.queue.forget(&ids).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let done = world.rebuild().run(&Stop::new(), |_| {}).await.unwrap();
        assert_eq!(done.put_back, 3);
        let after = ids.each_ref().map(|id| place(id));
        for ((lane, due), (lane_after, due_after)) in before.iter().zip(&after).take(2) {
            assert!(lane == lane_after && (due - due_after).abs() < 1_000, "{before:?}, then {after:?}");
        }
        assert_eq!(after[2].0, "first", "never seen, so it goes before them");
    });
}
