//! A call was made and its reply is lost, or the call has to be made again: each id is still looked up
//! once and blamed for nothing. On both queues.

use std::time::Duration;

use twitter_updater::engine::queue::Place;
use twitter_updater::engine::worker::ClaimSettings;
use twitter_updater::simulator::Fault;

use crate::support::journal::{Call, Event, Trouble};
use crate::support::postgres;
use crate::support::rig::{Backends, DAY, Rig, Setup, eventually};

/// Leases are long: what waits for the end of one waits longer than a test does.
fn setup() -> Setup {
    let setup = Setup { slots: 2, ..Setup::default() };
    Setup { claims: ClaimSettings { limit: 10, lease: Duration::from_secs(3_600), ..setup.claims }, ..setup }
}

macro_rules! on_both {
    ($($scenario:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() { super::$scenario(super::Rig::start(super::setup()).await).await; })*
        }
        mod servers {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                let backends = super::Backends::Servers(super::postgres::database().await);
                super::$scenario(super::Rig::start(super::Setup { backends, ..super::setup() }).await).await;
            })*
        }
    };
}

on_both!(
    nothing_goes_wrong,
    of_a_claim,
    of_a_claim_and_then_the_queue_is_down,
    of_a_settle,
    of_a_release,
    a_settle_is_made_again_until_it_is_done,
);

/// Works everything off. Each id was looked up once, claimed in no worse state than it was put in, and
/// so many settles and releases changed nothing.
async fn works_off(mut rig: Rig, lost: i64, calls_before: usize) {
    let ids = rig.there(50, 3 * DAY);
    rig.schedule(&ids).await;
    let dues = rig.dues(&ids).await.unwrap();
    rig.work();
    rig.all_updated(&ids).await;
    rig.drain().await;
    for job in rig.journal.claimed().into_iter().flatten() {
        assert_eq!((job.deliveries, job.due), (0, dues[&job.id]));
    }
    assert_eq!(rig.journal.lookups(), 5 + calls_before);
    if calls_before == 0 {
        rig.assert_each_looked_up_once(&ids);
    }
    let stats = rig.queue.stats().await.unwrap();
    assert_eq!(stats.counters.get("lost").copied().unwrap_or(0), lost);
    assert_eq!(stats.counters["claims"], (5 + calls_before) as i64, "a repeated claim takes nothing new");
}

async fn nothing_goes_wrong(rig: Rig) {
    works_off(rig, 0, 0).await;
}

async fn of_a_claim(rig: Rig) {
    rig.journal.trouble(Call::Claim, Trouble::AnswerLost, 1);
    works_off(rig, 0, 0).await;
}

/// The token is kept until it is answered, however long the queue is away.
async fn of_a_claim_and_then_the_queue_is_down(rig: Rig) {
    rig.journal.trouble(Call::Claim, Trouble::AnswerLost, 1);
    rig.journal.trouble(Call::Claim, Trouble::Down, 4);
    works_off(rig, 0, 0).await;
}

async fn of_a_settle(rig: Rig) {
    rig.journal.trouble(Call::Settle, Trouble::AnswerLost, 1);
    works_off(rig, 10, 0).await;
}

async fn of_a_release(rig: Rig) {
    rig.inject(Fault::Status { status: 503, code: Some(130) }, 1);
    rig.journal.trouble(Call::Release, Trouble::AnswerLost, 1);
    works_off(rig, 10, 1).await;
}

async fn a_settle_is_made_again_until_it_is_done(rig: Rig) {
    rig.journal.trouble(Call::Settle, Trouble::Down, 3);
    rig.journal.trouble(Call::Settle, Trouble::Full, 1);
    works_off(rig, 0, 0).await;
}

/// The queue is away for longer than the lease: the answers are saved, the ids claimed again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_settled_within_the_lease_is_claimed_again() {
    let setup = setup();
    let claims = ClaimSettings { lease: Duration::from_millis(400), ..setup.claims };
    let mut rig = Rig::start(Setup { claims, slots: 1, ..setup }).await;
    let ids = rig.there(4, 3 * DAY);
    rig.schedule(&ids).await;
    rig.journal.trouble(Call::Settle, Trouble::Down, u32::MAX);
    rig.work();
    eventually("the lease ran out", async || {
        rig.journal.claimed().into_iter().flatten().any(|job| job.deliveries == 1)
    })
    .await;
    rig.journal.well_again(Call::Settle);
    eventually("all are in their lane", async || {
        let places = rig.queue.locate(&ids).await.unwrap();
        places.iter().all(|places| matches!(&places[..], [Place::Delayed { lane, .. }] if lane == "7d"))
            && rig.queue.stats().await.unwrap().due == 0
    })
    .await;
    rig.drain().await;
    assert!(rig.journal.count(|event| matches!(event, Event::Saved(_))) >= 2);
    assert_eq!(rig.stored_tweets().await, 4);
}
