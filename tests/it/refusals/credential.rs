//! A credential that is refused at every call, with one id per call: no id is blamed.

use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::worker::ClaimSettings;
use twitter_updater::quota::AcquireOutcome;
use twitter_updater::simulator::{Fault, Rule};

use crate::support::rig::{DAY, Rig, Setup, eventually};

fn one_id_per_call() -> Setup {
    let setup = Setup::default();
    Setup { claims: ClaimSettings { limit: 1, ..setup.claims }, ..setup }
}

const REFUSED: Fault = Fault::Status { status: 401, code: None };

async fn is_parked(rig: &Rig) -> bool {
    matches!(rig.leave().await, AcquireOutcome::Wait(wait) if wait > Duration::from_secs(4))
}

/// The token is revoked after some answers: the API refuses a few witnesses, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_that_is_revoked_in_the_middle_is_parked_and_no_id_is_blamed() {
    let mut rig = Rig::start(Setup { slots: 4, ..one_id_per_call() }).await;
    let (before, after) = (rig.there(20, 3 * DAY), rig.there(20, 3 * DAY));
    rig.schedule(&before).await;
    rig.work();
    rig.all_updated(&before).await;
    rig.api_fails(REFUSED);
    rig.schedule(&after).await;
    eventually("it is parked", async || is_parked(&rig).await).await;
    rig.drain().await;
    // Each slot requests one id and three witnesses.
    let calls = rig.journal.lookups() - before.len();
    assert!((2..=4 * (1 + 3)).contains(&calls), "{calls} calls");
    assert_eq!(rig.stored_tweets().await, 20, "no id is blamed");
    assert!(rig.dues(&after).await.is_some_and(|dues| dues.values().all(|due| *due < wall_ms() + 60_000)));
}

/// No id was ever answered: one refusal is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_that_was_never_answered_is_parked_at_its_first_refusal() {
    let mut rig = Rig::start(one_id_per_call()).await;
    let ids = rig.there(20, 3 * DAY);
    rig.schedule(&ids).await;
    rig.api_fails(REFUSED);
    rig.work();
    eventually("it is parked", async || is_parked(&rig).await).await;
    rig.drain().await;
    assert_eq!((rig.journal.lookups(), rig.stored_tweets().await), (1, 0));
}

/// The only id of the queue is refused, although it was answered before: no other id can show whether the credential works. From the
/// second refusal on, other endpoints may use the credential.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_id_of_a_queue_parks_the_credential_and_then_its_endpoint_alone() {
    let rig = Rig::start(one_id_per_call()).await;
    let only = rig.there(1, 3 * DAY);
    rig.schedule(&only).await;
    rig.round().await;
    rig.api_fails(REFUSED);
    let mut everywhere = Vec::new();
    for _ in 0..2 {
        rig.queue.forget(&only).await.unwrap();
        rig.schedule(&only).await;
        rig.round().await;
        everywhere.push(rig.credentials.statuses("statuses/lookup").await.unwrap()[0].parked_everywhere);
        assert!(rig.credentials.unpark("nobody").await.unwrap() || !everywhere[everywhere.len() - 1]);
        // On its next delivery the id is deferred once, without a call.
        if everywhere.len() < 2 {
            let calls = rig.journal.lookups();
            rig.queue.forget(&only).await.unwrap();
            rig.schedule(&only).await;
            rig.round().await;
            assert_eq!(rig.journal.lookups(), calls);
            assert!(rig.lane(&only[0]).await.1 > wall_ms());
        }
    }
    assert_eq!(everywhere, [true, false]);
    assert_eq!(rig.stored(&only[0]).await.misses, 0, "no miss");
}

/// The first id in line is refused in a new process, which has no witness yet. After the pause the other ids are looked up first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_id_in_line_of_a_new_process_is_not_the_first_again() {
    for limit in [1, 10] {
        let setup = one_id_per_call();
        let mut rig = Rig::start(Setup { claims: ClaimSettings { limit, ..setup.claims }, ..setup }).await;
        let ids = rig.there(30, 3 * DAY);
        let (bad, others) = ids.split_first().unwrap();
        rig.schedule_late(std::slice::from_ref(bad), 60_000).await;
        rig.schedule(others).await;
        rig.simulator().faults().add(Rule { asked: vec![bad.clone()], ..REFUSED.into() });
        rig.work();
        // Ends the pauses of the credential at once.
        eventually("all others are updated", async || {
            rig.credentials.unpark("nobody").await.unwrap();
            rig.dues(others).await.is_some_and(|dues| dues.values().all(|due| *due > wall_ms() + 60_000))
        })
        .await;
        eventually("it is a miss", async || {
            rig.credentials.unpark("nobody").await.unwrap();
            rig.find(bad).await.is_some_and(|post| post.misses == 1)
        })
        .await;
        rig.drain().await;
    }
}

/// 40 due ids in a row are of an author who locked the account: each becomes a miss, and the credential is not parked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_refused_ids_side_by_side_are_misses() {
    let mut rig = Rig::start(one_id_per_call()).await;
    let (open, locked) = (rig.there(20, 3 * DAY), rig.there(40, 3 * DAY));
    rig.schedule(&open).await;
    rig.work();
    rig.all_updated(&open).await;
    rig.simulator().faults().add(Rule { asked: locked.clone(), ..REFUSED.into() });
    rig.schedule(&locked).await;
    eventually("each is a miss", async || {
        let mut misses = 0;
        for id in &locked {
            misses += rig.find(id).await.map_or(0, |post| post.misses);
        }
        misses == 40
    })
    .await;
    rig.drain().await;
    assert_eq!(rig.journal.lookups(), 20 + 40 + 40, "one witness per refused id");
    assert!(!is_parked(&rig).await);
}
