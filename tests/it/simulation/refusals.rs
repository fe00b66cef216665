//! An API that refuses calls: all processes together call it less and less often, and use it again soon after it recovers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use twitter_updater::base::clock::Millis;

use super::network::Dice;
use super::process::Process;
use super::provider::{Answered, Mood, Nature, Refusal};
use super::world::{Items, Setup, World, simulate};

const MINUTE: Millis = 60_000;
/// Number of processes, as in a larger installation; each has several batches in flight.
const PROCESSES: usize = 8;
/// Rounds of refusals and recovery: after a recovery the pauses are short again.
const ROUNDS: usize = 2;

/// Each pipeline that is metered.
const ITEMS: [Items; 4] = [Items::Posts, Items::Accounts, Items::Lists, Items::Visits];

const REFUSALS: [Refusal; 7] = [
    Refusal::TooFast,
    Refusal::AtOnce,
    Refusal::ResetPast,
    Refusal::NoHeaders,
    Refusal::Overloaded(0),
    Refusal::Overloaded(30),
    Refusal::Forbidden,
];

/// A world in which more is due than its processes have calls for.
async fn busy(items: Items, credentials: usize) -> (Arc<World>, Vec<Process>) {
    let mut setup = Setup { items, credentials, calls_per_window: 100_000, ..Setup::default() };
    if matches!(items, Items::Lists | Items::Visits) {
        // Each page is a call, and there is time for further pages, as in `Settings::timeline_lease`.
        setup.claims.limit = 1;
        setup.claims.lease = setup.lookup_timeout + 5 * setup.save_timeout;
    }
    let world = World::new(Dice::of(1), setup, false);
    let ids: Vec<String> = (0..60).map(|number| world.tweet(30_000, number, Nature::Lives)).collect();
    world.put_in(&ids, |_| 0).await;
    let processes = (0..PROCESSES).map(|number| Process::start(&world, number)).collect();
    (world, processes)
}

async fn minutes(count: Millis) {
    tokio::time::sleep(Duration::from_millis((count * MINUTE).unsigned_abs())).await;
}

/// Calls since a moment, by their credentials.
fn by_credential(world: &World, since: Millis) -> BTreeMap<String, Vec<Answered>> {
    let mut by: BTreeMap<String, Vec<Answered>> = BTreeMap::new();
    for call in world.provider.answered().into_iter().filter(|call| call.at >= since) {
        by.entry(call.credential.clone()).or_default().push(call);
    }
    by
}

fn refused(calls: &[Answered]) -> Vec<Millis> {
    calls.iter().filter(|call| call.is_refused).map(|call| call.at).collect()
}

#[test]
fn ten_minutes_of_refusals_see_five_to_twelve_calls_and_a_recovery_is_found_within_five() {
    for items in ITEMS {
        for refusal in REFUSALS {
            simulate(1, async {
                let what = format!("{items:?}, {refusal:?}");
                let (world, processes) = busy(items, 2).await;
                minutes(2).await;
                let answered = world.provider.answered();
                assert!(answered.len() > 20 && refused(&answered).is_empty(), "{what}: all is well before");
                for _ in 0..if refusal == Refusal::AtOnce { ROUNDS } else { 1 } {
                    let begun = world.now();
                    world.provider.set(Mood::Refuses(refusal));
                    minutes(10).await;
                    let by = by_credential(&world, begun);
                    assert_eq!(by.len(), 2, "{what}");
                    for (credential, calls) in by {
                        let calls = refused(&calls);
                        println!("{what}: {} calls of {credential} in 10 minutes", calls.len());
                        let after: Vec<_> = calls.iter().take(40).map(|at| (at - begun) / 1_000).collect();
                        // After a 403 each call in flight may also request a witness.
                        let most = if refusal == Refusal::Forbidden { 12 + 2 * PROCESSES } else { 12 };
                        assert!(
                            (5..=most).contains(&calls.len()),
                            "{what}, {credential}: {}, after {after:?} s",
                            calls.len()
                        );
                    }
                    minutes(4).await;
                    let (back, calls) = (world.now(), world.provider.answered().len());
                    world.provider.set(Mood::Works);
                    minutes(5).await;
                    let again = world.provider.answered().split_off(calls);
                    let first = again.iter().find(|call| !call.is_refused);
                    let first = first.unwrap_or_else(|| panic!("{what}: none is answered in 5 minutes"));
                    println!("{what}: the first answer is {} s after the recovery", (first.at - back) / 1_000);
                    minutes(2).await;
                    assert!(world.provider.answered().len() > calls + 20, "{what}: as before");
                }
                for process in processes {
                    process.drain().await.unwrap();
                }
                assert_eq!(world.log.first_wrong(), None, "{what}");
            });
        }
    }
}

#[test]
fn an_api_that_alternates_refusals_and_answers_is_no_busy_loop() {
    for items in ITEMS {
        simulate(1, async {
            let (world, processes) = busy(items, 1).await;
            minutes(3).await;
            println!("{items:?}: {} calls before", world.provider.answered().len());
            let begun = world.now();
            world.provider.set(Mood::Alternates);
            minutes(10).await;
            let calls = by_credential(&world, begun).remove("c0").unwrap_or_default();
            let refused = refused(&calls).len();
            println!("{items:?}: {} calls in 10 minutes, {refused} of them refused", calls.len());
            assert!((5..=13).contains(&refused) && calls.len() > refused, "{items:?}: {refused} of {}", calls.len());
            world.provider.set(Mood::Works);
            minutes(8).await;
            let before = world.provider.answered().len();
            minutes(3).await;
            assert!(world.provider.answered().len() > before + 20, "{items:?}");
            for process in processes {
                process.drain().await.unwrap();
            }
            assert_eq!(world.log.first_wrong(), None, "{items:?}");
        });
    }
}

#[test]
fn the_end_of_a_quota_window_lets_no_pause_grow() {
    simulate(1, async {
        // The quota is smaller than the demand, and another program uses a part of it.
        let setup = Setup { calls_per_window: 12, ..Setup::default() };
        let world = World::new(Dice::of(1), setup, false);
        let ids: Vec<String> = (0..400).map(|number| world.tweet(30_000, number, Nature::Lives)).collect();
        world.put_in(&ids, |_| 0).await;
        let processes: Vec<_> = (0..PROCESSES).map(|number| Process::start(&world, number)).collect();
        minutes(1).await;
        for window in 0..30 {
            let begun = world.now();
            let others = 4;
            for _ in 0..others {
                drop(world.provider.answer(&[ids[0].clone()], "c0").await);
            }
            minutes(1).await;
            let calls = by_credential(&world, begun).remove("c0").unwrap();
            let answered = calls.iter().filter(|call| !call.is_refused).count();
            assert!(answered >= 11, "window {window}: {answered} of 12 calls are used");
        }
        for process in processes {
            process.drain().await.unwrap();
        }
    });
}
