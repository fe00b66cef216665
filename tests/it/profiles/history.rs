//! The history of accounts is the script that they followed, as far as lookups can tell.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use twitter_updater::base::clock::{Millis, span};
use twitter_updater::base::random;
use twitter_updater::model::account::AccountState;
use twitter_updater::store::Accounts;

use super::world::{DAY, Event, HOUR, MINUTE, NS, ORIGIN, World, settings, simulated};

const RUN: Millis = 60 * DAY;

#[test]
fn an_account_that_is_missing_once_is_asked_for_alone_then_weekly_and_may_come_back() {
    simulated(async {
        let _replayed = random::replay_seed(7);
        let world = World::new(settings(&[]), 1, 300);
        world.network.lock().unwrap().tells_why = true;
        let posts = |from: Millis| (from..60).map(|day| (day * DAY, Event::Post));
        world.add("11", posts(0));
        let gone = (9 * DAY / 2, Event::State(AccountState::Suspended));
        world.add("12", posts(0).chain([gone, (30 * DAY, Event::State(AccountState::Live))]));
        // Left out of one answer only.
        let hiccup = [(5 * DAY - HOUR, AccountState::Suspended), (5 * DAY + 5 * MINUTE, AccountState::Live)];
        world.add("13", posts(0).chain(hiccup.map(|(at, state)| (at, Event::State(state)))));
        world.put_in(&["11", "12", "13", "14"].map(str::to_owned)).await;
        let working = world.start(1);
        tokio::time::sleep(span(RUN)).await;
        world.end(working).await;

        let calls = world.calls_for("12");
        let after = calls.iter().position(|(at, _)| *at > 9 * DAY / 2).unwrap();
        let (missed, alone, weekly) = (calls[after], calls[after + 1], &calls[after + 2..after + 5]);
        assert!(missed.1 > 1 && alone.1 == 1, "{calls:?}");
        assert!((10 * MINUTE..10 * MINUTE + HOUR / 6).contains(&(alone.0 - missed.0)), "{calls:?}");
        let apart = std::iter::once(alone.0).chain(weekly.iter().map(|(at, _)| *at)).collect::<Vec<_>>();
        assert!(apart.windows(2).all(|of| (of[1] - of[0] - 7 * DAY).abs() < HOUR), "{calls:?}");
        let states = |changes: Vec<twitter_updater::store::Change>| {
            let states = changes.into_iter().filter(|change| change.field == "state");
            states.map(|of| (of.at - ORIGIN, of.old.unwrap(), of.new.unwrap())).collect::<Vec<_>>()
        };
        let told = states(world.store.account_changes(NS, "12").await.unwrap());
        let [(at, old, new), (back, _, again)] = &told[..] else { panic!("{told:?}") };
        assert_eq!((old.as_str(), new.as_str(), again.as_str()), ("live", "suspended", "live"));
        assert!((at - alone.0).abs() < MINUTE && (30 * DAY..37 * DAY + HOUR).contains(back), "{told:?}");
        // One that was missing once has no history, and was asked for alone once.
        assert_eq!(states(world.store.account_changes(NS, "13").await.unwrap()), []);
        let calls = world.calls_for("13").into_iter().map(|(at, _)| at).skip_while(|at| *at < 5 * DAY - HOUR);
        let [missed, alone, then] = calls.take(3).collect::<Vec<_>>()[..] else { panic!("three calls") };
        assert!((alone - missed - 10 * MINUTE).abs() < MINUTE && (then - alone - DAY).abs() < MINUTE);
        // What was never there needs no call of its own.
        let never = world.store.account(NS, "14").await.unwrap().unwrap();
        // Sixty days after the first miss.
        assert_eq!((never.state.as_str(), world.calls_for("14").len() < 14), ("deleted", true));
    });
}

/// A faulty API leaves accounts out in silence, and what is erased cannot be had again.
#[test]
fn an_account_is_erased_when_the_api_says_why_it_is_gone_or_after_six_hours_of_silence() {
    for (tells_why, state, erased_after) in [
        (true, AccountState::Suspended, Some(10 * MINUTE)),
        (false, AccountState::Suspended, Some(6 * HOUR)),
        // It is there, and this credential may not see it.
        (true, AccountState::Unknown, None),
    ] {
        simulated(async {
            let _replayed = random::replay_seed(7);
            let world = World::new(settings(&[("STORE__ON_DELETED", "blank")]), 1, 300);
            world.network.lock().unwrap().tells_why = tells_why;
            world.add("12", [(0, Event::Post), (DAY / 2, Event::State(state))]);
            world.put_in(&["12".to_owned()]).await;
            let working = world.start(1);
            tokio::time::sleep(span(3 * DAY)).await;
            world.end(working).await;

            let stored = world.store.account(NS, "12").await.unwrap().unwrap();
            let missed = world.calls_for("12").into_iter().map(|(at, _)| at).find(|at| *at > DAY / 2).unwrap();
            let erased = stored.forgotten_at.map(|at| at - ORIGIN - missed);
            let is_so = match (erased, erased_after) {
                (Some(erased), Some(after)) => (erased - after).abs() < MINUTE,
                (erased, after) => erased == after,
            };
            assert!(is_so, "{erased:?} {stored:?}");
            assert_eq!(stored.handle.is_some(), erased_after.is_none(), "{stored:?}");
        });
    }
}

/// An account's life: changes days apart, a suspension or two.
fn script(dice: &mut StdRng) -> Vec<(Millis, Event)> {
    let mut script = vec![(0, Event::Post)];
    let (mut at, mut n) = (0, 0);
    loop {
        at += 3 * DAY + dice.random_range(0..5 * DAY);
        if at > RUN {
            return script;
        }
        n += 1;
        match dice.random_range(0..5u8) {
            0 => script.push((at, Event::Handle(format!("h{n}")))),
            1 => script.push((at, Event::Location(format!("l{n}")))),
            2 => script.push((at, Event::Post)),
            3 => script.push((at, Event::State(AccountState::Protected))),
            _ => {
                // Longer than it takes to be believed, and to be looked up weekly.
                script.push((at, Event::State(AccountState::Suspended)));
                at += 8 * DAY;
                script.push((at, Event::State(AccountState::Live)));
                at += 5 * DAY;
            }
        }
    }
}

/// The changes that a script makes of what is looked up: field and value, each with its moment.
fn truth(script: &[(Millis, Event)]) -> Vec<(Millis, &'static str, String)> {
    let mut truth: Vec<(Millis, &'static str, String)> = Vec::new();
    let (mut state, mut is_closed) = (AccountState::Live, false);
    for (at, event) in script {
        match event {
            Event::Handle(new) => truth.push((*at, "handle", new.clone())),
            Event::Location(new) => truth.push((*at, "location", new.clone())),
            Event::State(new) => {
                if *new != state {
                    truth.push((*at, "state", new.to_string()));
                }
                let closes = *new == AccountState::Protected;
                if closes != is_closed && *new != AccountState::Suspended {
                    truth.push((*at, "protected", closes.to_string()));
                    is_closed = closes;
                }
                state = *new;
            }
            Event::Post => {}
        }
    }
    truth
}

#[test]
fn the_history_of_a_thousand_accounts_is_their_script_within_the_resolution_of_the_schedule() {
    simulated(async {
        let _replayed = random::replay_seed(11);
        let world = World::new(settings(&[("ACCOUNTS__IDLE_AFTER", "90d"), ("ACCOUNTS__FREEZE_AFTER", "0s")]), 2, 300);
        world.network.lock().unwrap().tells_why = true;
        let mut dice = StdRng::seed_from_u64(5);
        let ids: Vec<String> = (1..=1_000).map(|n| n.to_string()).collect();
        for id in &ids {
            world.add(id, script(&mut dice));
        }
        world.put_in(&ids).await;
        let working = world.start(3);
        tokio::time::sleep(span(RUN) + Duration::from_secs(16 * 86_400)).await;
        world.end(working).await;

        let mut changes = 0;
        for id in &ids {
            let truth = truth(world.network.lock().unwrap().script(id));
            let told = world.store.account_changes(NS, id).await.unwrap();
            for field in ["handle", "location", "protected", "state"] {
                let of = |told: &[(Millis, &'static str, String)]| {
                    let of_field = told.iter().filter(|(_, name, _)| *name == field);
                    of_field.map(|(at, _, value)| (*at, value.clone())).collect::<Vec<_>>()
                };
                let truth = of(&truth);
                let told: Vec<_> = told.iter().filter(|change| change.field == field).collect();
                let values: Vec<String> = told.iter().map(|change| change.new.clone().unwrap()).collect();
                let expected: Vec<String> = truth.iter().map(|(_, value)| value.clone()).collect();
                assert_eq!(values, expected, "{id} {field}: {truth:?} {told:?}");
                for (change, (at, _)) in told.iter().zip(&truth) {
                    // A day; while it is away, a week.
                    let late = change.at - at;
                    assert!((0..8 * DAY).contains(&late), "{id} {field}: {late}");
                    changes += 1;
                }
            }
        }
        assert!(changes > 5_000, "{changes}");
        println!("{changes} changes of 1,000 accounts in {} days, each told once, in order", RUN / DAY);
    });
}
