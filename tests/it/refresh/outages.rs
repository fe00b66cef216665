//! A service is out: nothing is lost, nothing is blamed, nobody hammers, and all catches up after.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::Verdict;
use twitter_updater::engine::worker::{ClaimSettings, Outlook};
use twitter_updater::simulator::{Fault, Rule, SimulatorOptions};

use crate::support::journal::{Call, Event, Journal, Trouble};
use crate::support::postgres;
use crate::support::rig::{Backends, DAY, Rig, Setup, eventually};

const SLOTS: usize = 4;
/// How long the outages here last.
const OUTAGE: Duration = Duration::from_secs(1);
/// Probes in such an outage, at the most. The k-th follows its delay, drawn evenly from 0 to
/// 2^k × 0.25 s: that seven delays fit into it has the odds 1 ÷ 7! ÷ (0.5 × 1 × … × 32) = 1e-8.
const PROBES: usize = 6;

fn setup() -> Setup {
    let setup = Setup { slots: SLOTS, ..Setup::default() };
    Setup {
        claims: ClaimSettings { limit: 10, ..setup.claims },
        // Long enough for calls to overlap, if they may.
        simulator: SimulatorOptions { latency: Duration::from_millis(20), ..setup.simulator.clone() },
        ..setup
    }
}

fn failed_claims(journal: &Journal) -> usize {
    journal.count(|event| matches!(event, Event::ClaimFailed))
}

/// One worker with four slots, an outage that begins before it does, and its end. `asked` counts what a
/// probe costs.
async fn survives(
    mut rig: Rig,
    begins: impl AsyncFnOnce(&mut Rig),
    ends: impl AsyncFnOnce(&mut Rig),
    asked: fn(&Journal) -> usize,
    most: usize,
) {
    let ids = rig.there(100, 3 * DAY);
    rig.schedule(&ids).await;
    let dues = rig.dues(&ids).await.unwrap();
    begins(&mut rig).await;
    rig.work();
    eventually("the outage is met", async || asked(&rig.journal) > 0).await;
    tokio::time::sleep(OUTAGE).await;

    let (asked, calls) = (asked(&rig.journal), rig.journal.lookups());
    assert!((2..=most).contains(&asked), "asked {asked} times in {OUTAGE:?}");
    assert_eq!(rig.journal.count(|event| matches!(event, Event::Saved(_) | Event::Settled(_))), 0);
    eventually("all are in their lanes, with their old due times", async || {
        rig.dues(&ids).await.as_ref() == Some(&dues)
    })
    .await;
    // Before the first failure is known every slot may call; from then on there are only probes.
    let mut probing = BTreeSet::new();
    for (_, event) in rig.journal.events() {
        match event {
            Event::LookedUp { call, .. } if (SLOTS..calls).contains(&call) => {
                assert!(probing.is_empty(), "call {call} began while {probing:?} was not answered");
                probing.insert(call);
            }
            Event::Answered { call } => {
                probing.remove(&call);
            }
            _ => {}
        }
    }

    ends(&mut rig).await;
    rig.all_updated(&ids).await;
    rig.drain().await;
    assert_eq!(rig.stored_tweets().await, 100);
    for job in rig.journal.claimed().into_iter().flatten() {
        assert_eq!((job.deliveries, job.due), (0, dues[&job.id]), "an outage is nobody's fault");
    }
}

/// At the most what the slots had begun, and two calls per step of the back-off: what failed is asked in
/// halves.
async fn survives_calls(rig: Rig, begins: impl AsyncFnOnce(&mut Rig), ends: impl AsyncFnOnce(&mut Rig)) {
    survives(rig, begins, ends, Journal::lookups, SLOTS + 2 * PROBES).await;
}

async fn survives_a_bad_api(setup: Setup, fault: Fault) {
    let rig = Rig::start(setup).await;
    survives_calls(rig, async |rig| rig.api_fails(fault), async |rig| rig.api_is_well()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_is_over_capacity() {
    survives_a_bad_api(setup(), Fault::Status { status: 503, code: Some(130) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_does_not_answer() {
    survives_a_bad_api(Setup { lookup_timeout: Duration::from_millis(200), ..setup() }, Fault::Timeout).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_is_not_there() {
    let rig = Rig::start(setup()).await;
    survives_calls(rig, async |rig| rig.stop_api().await, async |rig| rig.restart_api().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_is_down() {
    let rig = Rig::start(setup()).await;
    let begins = async |rig: &mut Rig| rig.journal.trouble(Call::Save, Trouble::Down, u32::MAX);
    survives_calls(rig, begins, async |rig| rig.journal.well_again(Call::Save)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_hangs() {
    let rig = Rig::start(Setup { save_timeout: Duration::from_millis(200), ..setup() }).await;
    let begins = async |rig: &mut Rig| rig.journal.trouble(Call::Save, Trouble::Hangs, u32::MAX);
    survives_calls(rig, begins, async |rig| rig.journal.well_again(Call::Save)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_is_stopped_and_started() {
    let server = RefCell::new(postgres::own());
    let backends = Backends::Servers(server.borrow().url("postgres"));
    let rig = Rig::start(Setup { backends, save_timeout: Duration::from_millis(500), ..setup() }).await;
    let (begins, ends) =
        (async |_: &mut Rig| server.borrow_mut().stop(), async |_: &mut Rig| server.borrow_mut().start());
    survives_calls(rig, begins, ends).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_is_down() {
    let rig = Rig::start(setup()).await;
    let begins = async |rig: &mut Rig| rig.journal.trouble(Call::Claim, Trouble::Down, u32::MAX);
    let ends = async |rig: &mut Rig| rig.journal.well_again(Call::Claim);
    // A claim that failed is made again at once: its reply may have been lost.
    survives(rig, begins, ends, failed_claims, 2 * (1 + PROBES)).await;
}

/// It fails every call that asks for it. The API works: nobody else waits for it, and it is not blamed,
/// since a failure may be the network's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_fails_its_calls_holds_nobody_up() {
    for fault in [Fault::Status { status: 500, code: Some(131) }, Fault::NotJson, Fault::CutBody] {
        let mut rig = Rig::start(Setup { max_deliveries: 1, ..setup() }).await;
        let ids = rig.there(200, 3 * DAY);
        let (bad, others) = ids.split_first().unwrap();
        rig.schedule(&ids).await;
        rig.simulator().faults().add(Rule { asked: vec![bad.clone()], ..fault.into() });
        rig.work();
        rig.all_updated(others).await;
        eventually("it waits", async || {
            let late = rig.dues(&ids).await.and_then(|dues| dues.get(bad).copied());
            late.is_some_and(|due| due > wall_ms())
        })
        .await;
        rig.drain().await;
        assert!(rig.find(bad).await.is_none(), "neither answered nor dead");
        let alone = rig.journal.looked_up().iter().filter(|asked| asked == &std::slice::from_ref(bad)).count();
        assert_eq!(alone, 1, "found, and left alone");
    }
}

/// As of a Mastodon before 4.3: no answer beside it tells that the others are well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_call_takes_one_id_one_that_always_fails_holds_nobody_up() {
    let too_large = Fault::Status { status: 413, code: None };
    for fault in [Fault::Status { status: 500, code: Some(131) }, Fault::NotJson, too_large] {
        let claims = ClaimSettings { limit: 1, ..setup().claims };
        let mut rig = Rig::start(Setup { claims, ..setup() }).await;
        let mut ids = rig.there(5, 3 * DAY);
        ids.sort(); // the first of those that are due at once
        let (bad, others) = ids.split_first().unwrap();
        rig.schedule(&ids).await;
        rig.simulator().faults().add(Rule { asked: vec![bad.clone()], ..fault.into() });
        rig.work();
        rig.all_updated(others).await;
        rig.drain().await;
        assert!(rig.find(bad).await.is_none(), "neither answered nor dead");
        assert!(rig.lane(bad).await.1 > wall_ms(), "others go first");
    }
}

/// The API never answers a call that asks for it, and a lease has room for four such calls. It is found by what a few
/// batches leave open; everybody else is answered meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_whose_calls_hang_is_alone_after_a_few_batches() {
    // Two for the first suspicion; then half of those in doubt go first until these are without it, by lot; then four
    // halvings a batch. That the lot is against it eight times in a row has the odds 2^-8.
    const BATCHES: usize = 2 + 8 + 4;
    let timeout = Duration::from_millis(500);
    let setup = Setup { lookup_timeout: timeout, save_timeout: timeout, ..setup() };
    let claims = ClaimSettings { limit: 100, lease: 6 * timeout, ..setup.claims };
    let rig = Rig::start(Setup { claims, ..setup }).await;
    let ids = rig.there(100, 3 * DAY);
    let (bad, others) = ids.split_first().unwrap();
    rig.schedule(&ids).await;
    rig.simulator().faults().add(Rule { asked: vec![bad.clone()], ..Fault::Timeout.into() });
    for batch in 1.. {
        assert!(batch <= BATCHES, "not found in {BATCHES} batches");
        // Others are due all the time.
        rig.schedule(&rig.there(5, 3 * DAY)).await;
        let handled = rig.round().await.handled;
        let suspects: Vec<_> =
            handled.verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Suspect { .. })).collect();
        if let [(job, _)] = &suspects[..] {
            assert_eq!(&job.id, bad, "nobody else is blamed");
            println!("found in batch {batch}");
            break;
        }
        assert!(suspects.is_empty(), "{suspects:?}");
    }
    // It may have been found before the last of the others had its turn: that comes with the next batches.
    let mut batches = 0;
    for id in others {
        while rig.find(id).await.is_none() {
            batches += 1;
            assert!(batches <= BATCHES, "{id} was not looked up");
            rig.schedule(&rig.there(5, 3 * DAY)).await;
            assert_eq!(rig.round().await.handled.outlook, Outlook::Fine);
        }
    }
    assert!(rig.find(bad).await.is_none());
}

/// A suspect in an outage is first in line by its age: it steps back, uncounted.
#[tokio::test]
async fn a_suspect_that_fails_alone_steps_back() {
    let rig = Rig::start(setup()).await;
    let id = rig.there(1, 3 * DAY);
    rig.schedule(&id).await;
    rig.inject(Fault::Close, 1);
    let mut batch = rig.claim(1).await;
    batch.jobs[0].deliveries = 1;
    let handled = rig.round_of(batch).await.handled;
    assert!(matches!(handled.outlook, Outlook::Outage(_)), "{:?}", handled.outlook);
    assert!(matches!(handled.verdicts[..], [(_, Verdict::Retry { counted: false, .. })]), "{:?}", handled.verdicts);
    assert!(rig.lane(&id[0]).await.1 > wall_ms());
}

/// Sixteen calls fail together: that is one failure, not sixteen in a row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hiccup_costs_one_step_of_the_back_off_however_many_calls_it_met() {
    let setup = Setup { slots: 16, ..setup() };
    let simulator = SimulatorOptions { latency: Duration::from_millis(1_500), ..setup.simulator.clone() };
    let mut rig = Rig::start(Setup { simulator, ..setup }).await;
    let ids = rig.there(160, 3 * DAY);
    rig.schedule(&ids).await;
    rig.inject(Fault::Status { status: 503, code: Some(130) }, 16);
    rig.work();
    rig.all_updated(&ids).await;
    rig.drain().await;
    assert_eq!(rig.journal.in_flight().1, 16, "they were under way together");
    // A first step is up to 0.5 s, and the calls themselves take 1.5 s, in which all sixteen are claimed; the sixteenth is up to 10 s.
    let events = rig.journal.events();
    let calls: Vec<_> =
        events.iter().filter(|(_, event)| matches!(event, Event::LookedUp { .. })).map(|(at, _)| *at).collect();
    let pauses: Vec<_> = calls.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(calls.len(), 32);
    assert!(pauses.iter().all(|pause| *pause < 4_000), "{pauses:?}");
}
