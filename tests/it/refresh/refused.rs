//! What the API refuses: a request, a credential, a call too many, the whole plan.

use std::collections::BTreeSet;
use std::time::Duration;

use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::engine::queue::{Claim, ClaimRequest, Place, Verdict};
use twitter_updater::engine::worker::{ClaimSettings, Outlook};
use twitter_updater::model::post::ItemState;
use twitter_updater::quota::AcquireOutcome;
use twitter_updater::simulator::{Fault, SimulatorOptions};

use crate::support::journal::{Call, Event, Trouble};
use crate::support::rig::{DAY, HOUR, Rig, Setup, eventually};

fn small_batches(slots: usize) -> Setup {
    let setup = Setup { slots, ..Setup::default() };
    Setup { claims: ClaimSettings { limit: 10, ..setup.claims }, ..setup }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_id_that_spoils_its_requests_ends_dead() {
    let mut rig = Rig::start(Setup { slots: 2, ..Setup::default() }).await;
    let ids = rig.there(100, 3 * DAY);
    let (poison, others) = ids.split_last().unwrap();
    rig.schedule(&ids).await;
    rig.api_fails(Fault::Poison { ids: vec![poison.clone()] });
    rig.work();
    eventually("it is buried", async || matches!(rig.place(poison).await, Some(Place::Dead { .. }))).await;
    eventually("the others are updated", async || rig.stored_tweets().await == 100).await;
    rig.drain().await;

    let stored = rig.stored(poison).await;
    let reason = stored.reason.unwrap();
    assert_eq!((stored.state, stored.next_due), (ItemState::Dead, None));
    assert!(reason.contains("refused 2 times while alone") && reason.contains("HTTP 400"), "{reason}");
    assert!(matches!(rig.place(poison).await, Some(Place::Dead { reason: why, .. }) if why == reason));
    assert_eq!(rig.metrics.counters.buried_here.get(), 1);

    // Its batches halve until it is alone, and alone it is refused twice.
    let sizes: Vec<usize> = rig.journal.looked_up().iter().filter(|ids| ids.contains(poison)).map(Vec::len).collect();
    assert_eq!(sizes[0], 100);
    assert!(sizes.windows(2).all(|pair| pair[1] <= pair[0].div_ceil(2)), "{sizes:?}");
    assert!(sizes.ends_with(&[1, 1]), "{sizes:?}");

    // The store before the queue.
    let events = rig.journal.events();
    let at = |which: &dyn Fn(&Event) -> bool| events.iter().position(|(_, event)| which(event)).unwrap();
    let buried = at(&|event| matches!(event, Event::Buried(ids) if ids == std::slice::from_ref(poison)));
    let told = at(&|event| {
        let mark_dead = |(id, verdict): &(String, Verdict)| id == poison && matches!(verdict, Verdict::MarkDead { .. });
        matches!(event, Event::Settled(verdicts) if verdicts.iter().any(mark_dead))
    });
    assert!(buried < told);

    for id in others {
        let stored = rig.stored(id).await;
        assert_eq!((stored.state, stored.lookups), (ItemState::Live, 1));
        assert!(stored.text.is_some());
    }
    // Nobody else is suspect any more: all are claimed together, with no delivery to their names.
    let due = rig.there(1, 3 * DAY);
    rig.schedule(&due).await;
    let early = ClaimRequest {
        token: "all",
        limit: 1_000,
        linger: Duration::ZERO,
        lookahead: 1.0,
        early: 0.0,
        lease: Duration::from_secs(60),
    };
    let Claim::Batch(batch) = rig.queue.claim(&early).await.unwrap() else { panic!("one is due") };
    assert!(batch.jobs.iter().all(|job| job.deliveries == 0));
    let claimed: BTreeSet<&String> = batch.jobs.iter().map(|job| &job.id).collect();
    assert_eq!(claimed, others.iter().chain(&due).collect());
}

/// Bad ids that are first in line, side by side, and right after the API refused everybody: they are found,
/// and all others are updated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_ids_side_by_side_hold_nobody_up() {
    let mut rig = Rig::start(Setup { slots: 2, ..Setup::default() }).await;
    let ids = rig.there(60, 3 * DAY);
    let (bad, good) = ids.split_at(3);
    rig.schedule_late(bad, 60_000).await;
    rig.schedule(good).await;
    rig.api_fails(Fault::Status { status: 400, code: Some(214) });
    rig.work();
    eventually("everybody was refused", async || rig.journal.count(|event| matches!(event, Event::Released)) >= 2)
        .await;
    rig.api_is_well();
    rig.api_fails(Fault::Poison { ids: bad.to_vec() });
    eventually("all others are updated", async || {
        rig.dues(good).await.is_some_and(|dues| dues.values().all(|due| *due > wall_ms() + 60_000))
    })
    .await;
    rig.drain().await;
}

/// A 400 for whatever is asked is no id's fault, though each is refused as often as a bad one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_that_refuses_everybody_buries_nobody() {
    let mut rig = Rig::start(Setup { slots: 2, max_deliveries: 1, ..Setup::default() }).await;
    let ids = rig.there(100, 3 * DAY);
    rig.schedule(&ids).await;
    rig.api_fails(Fault::Status { status: 400, code: Some(214) });
    rig.work();
    // Halved until all is suspect, and then given back, as in an outage.
    eventually("it is taken for an outage", async || rig.journal.count(|event| matches!(event, Event::Released)) >= 2)
        .await;
    assert_eq!(rig.stored_tweets().await, 0, "nobody is dead");
    rig.api_is_well();
    rig.all_updated(&ids).await;
    rig.drain().await;
    assert_eq!(rig.metrics.counters.buried_here.get(), 0);
    let counts = rig.store.counts("tweet:update").await.unwrap();
    assert_eq!((counts.live, counts.dead), (100, 0));
}

#[tokio::test]
async fn a_burial_waits_for_the_store_but_not_for_ever() {
    let rig = Rig::start(Setup { save_timeout: Duration::from_millis(100), ..Setup::default() }).await;
    let id = rig.there(1, 3 * DAY);
    rig.schedule(&id).await;
    rig.api_fails(Fault::Poison { ids: id.clone() });
    rig.journal.trouble(Call::Bury, Trouble::Down, 1);
    rig.journal.trouble(Call::Bury, Trouble::Hangs, 1);
    for _ in 0..2 {
        let mut batch = rig.claim(1).await;
        batch.jobs[0].failures = 100;
        let handled = tokio::time::timeout(Duration::from_secs(20), rig.round_of(batch)).await.unwrap().handled;
        assert!(matches!(handled.outlook, Outlook::Outage(_)));
        assert_eq!((handled.verdicts.len(), handled.release.len()), (0, 1));
        assert!(rig.find(&id[0]).await.is_none());
    }
    let mut batch = rig.claim(1).await;
    batch.jobs[0].failures = 100;
    rig.round_of(batch).await;
    assert_eq!(rig.stored(&id[0]).await.state, ItemState::Dead);
    assert!(matches!(rig.place(&id[0]).await, Some(Place::Dead { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_credential_is_left_alone() {
    let mut rig = Rig::start(small_batches(4)).await;
    let ids = rig.there(100, 3 * DAY);
    rig.schedule(&ids).await;
    let dues = rig.dues(&ids).await;
    rig.api_fails(Fault::Status { status: 401, code: Some(89) });
    rig.work();
    eventually(
        "it is parked",
        async || matches!(rig.leave().await, AcquireOutcome::Wait(wait) if wait > Duration::from_secs(4)),
    )
    .await;
    eventually("all are given back as they were", async || {
        rig.journal.in_flight().0 == 0 && rig.dues(&ids).await == dues
    })
    .await;
    // Whatever loops without a credential asks hundreds of times in this time; at the most each slot had
    // its permit before the first refusal.
    tokio::time::sleep(Duration::from_millis(400)).await;
    let claims = rig.journal.count(|event| matches!(event, Event::Claimed(_) | Event::NothingToClaim { .. }));
    assert!(
        (1..=4).contains(&rig.journal.lookups()) && claims <= 4,
        "{} calls, {claims} claims",
        rig.journal.lookups()
    );
    rig.drain().await;
    assert_eq!(rig.dues(&ids).await, dues);
    assert_eq!(rig.stored_tweets().await, 0);
    assert!(rig.claim(100).await.jobs.iter().all(|job| job.deliveries == 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_quota_nobody_calls_until_the_reset() {
    let mut rig = Rig::start(small_batches(1)).await;
    let ids = rig.there(30, 3 * DAY);
    rig.schedule(&ids).await;
    let dues = rig.dues(&ids).await.unwrap();
    rig.inject(Fault::RateLimited { reset_s: 2 }, 1);
    rig.work();
    rig.all_updated(&ids).await;
    rig.drain().await;

    let events = rig.journal.events();
    let of = |which: &dyn Fn(&Event) -> bool| -> Vec<Millis> {
        events.iter().filter(|(_, event)| which(event)).map(|(at, _)| *at).collect()
    };
    let answered = of(&|event| matches!(event, Event::Answered { .. }))[0];
    let calls = of(&|event| matches!(event, Event::LookedUp { .. }));
    // Both ends of the pause are told in whole seconds, cut off: it may end up to one second late.
    assert!(calls[1] - answered >= 2_000, "called again after {} ms", calls[1] - answered);
    assert_eq!(calls.len(), 4);
    let asked_meanwhile = events
        .iter()
        .filter(|(at, event)| {
            (answered + 1..answered + 1_990).contains(at)
                && matches!(event, Event::Claimed(_) | Event::NothingToClaim { .. })
        })
        .count();
    assert_eq!(asked_meanwhile, 0, "a permit comes before a claim");
    for job in rig.journal.claimed().into_iter().flatten() {
        assert_eq!((job.deliveries, job.due), (0, dues[&job.id]), "quota is nobody's fault");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_used_up_window_is_waited_out_without_asking() {
    let simulator =
        SimulatorOptions { calls_per_window: 1, window: Duration::from_secs(1), ..Setup::default().simulator };
    let mut rig = Rig::start(Setup { simulator, ..small_batches(1) }).await;
    let ids = rig.there(30, 3 * DAY);
    rig.schedule(&ids).await;
    rig.work();
    rig.all_updated(&ids).await;
    rig.drain().await;
    let counters = rig.simulator().counters();
    assert_eq!((counters.requests, counters.throttled), (3, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_without_the_endpoint_ends_the_process() {
    let mut rig = Rig::start(small_batches(4)).await;
    let ids = rig.there(100, HOUR);
    rig.schedule(&ids).await;
    let dues = rig.dues(&ids).await;
    rig.api_fails(Fault::Status { status: 403, code: Some(453) });
    rig.work();
    let message = rig.ended().await.unwrap_err().to_string();
    assert!(message.contains("the API plan of this credential does not include statuses/lookup"), "{message}");
    assert!(rig.stop.is_draining(), "the others of the process are told");
    assert_eq!(rig.dues(&ids).await, dues, "all are given back as they were");
    assert_eq!(rig.stored_tweets().await, 0);
    assert!(rig.journal.lookups() <= 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_can_never_work_does_not_wait_for_its_idle_loops() {
    let setup = small_batches(2);
    let claims = ClaimSettings { linger: Duration::from_secs(3_600), ..setup.claims };
    // The answer comes when the other loop has found nothing and sleeps for the linger.
    let simulator = SimulatorOptions { latency: Duration::from_millis(500), ..setup.simulator.clone() };
    let mut rig = Rig::start(Setup { claims, simulator, ..setup }).await;
    let ids = rig.there(10, HOUR);
    rig.schedule(&ids).await;
    rig.api_fails(Fault::Status { status: 403, code: Some(453) });
    rig.work();
    assert!(rig.ended().await.is_err());
    assert_eq!(rig.journal.count(|event| matches!(event, Event::NothingToClaim { .. })), 1);
}
