//! Promotes: of delayed ids, of leased ones, and what becomes of their notes.

use super::*;

const HOUR: Millis = 3_600_000;

fn new(id: &str, lane: &Lane, delay: Millis) -> NewJob {
    NewJob { id: id.to_owned(), lane: lane.clone(), due: delay.into() }
}

async fn promote(queue: &dyn Queue, lane: &Lane, delay: Millis, ids: &[&str]) -> Vec<PromoteOutcome> {
    queue.promote(&ids.iter().map(|id| new(id, lane, delay)).collect::<Vec<_>>()).await.unwrap()
}

/// The lane and how long from now until it is due.
async fn waits(queue: &dyn Queue, id: &str) -> (String, Millis) {
    let now = queue.stats().await.unwrap().now_ms;
    match place(queue, id).await {
        Some(Place::Delayed { lane, due }) => (lane, due - now),
        other => panic!("{id} is in {other:?}"),
    }
}

/// Whether it waits in that lane for about so long: a test on a busy machine takes its time.
async fn assert_waits(queue: &dyn Queue, id: &str, lane: &Lane, about: Millis) {
    let (of, wait) = waits(queue, id).await;
    assert!(*of == *lane.name && (about - 30_000..=about).contains(&wait), "{id} is in {of}, due in {wait} ms");
}

pub(super) async fn the_delayed_move_and_are_due_no_later(world: World) {
    let queue = &*world.one;
    assert_eq!(queue.promote(&[]).await.unwrap(), []);
    assert_eq!(promote(queue, &young(), 0, &["nowhere"]).await, [PromoteOutcome::Absent]);
    assert_eq!(queue.stats().await.unwrap().lanes, [], "no lane for what is in no place");
    schedule(queue, &old(), HOUR, &["sooner", "later", "same-lane", "same-lane-later"]).await;
    schedule(queue, &old(), 0, &["dead"]).await;
    let claimed = batch(queue, request("a")).await;
    let mark_dead = Verdict::MarkDead { reason: "why".into() };
    queue.settle(&claimed.fence, &[(claimed.jobs[0].clone(), mark_dead)], &[]).await.unwrap();

    let jobs = [
        new("sooner", &young(), 600_000),
        new("dead", &young(), 0),
        new("later", &young(), 2 * HOUR),
        new("same-lane", &old(), 600_000),
        new("nowhere", &young(), 0),
        new("same-lane-later", &old(), 2 * HOUR),
    ];
    let [moved, dead, absent] = [PromoteOutcome::Moved, PromoteOutcome::Dead, PromoteOutcome::Absent];
    // The second time as after a lost reply: nothing becomes later.
    for queue in [&world.one, &world.two] {
        assert_eq!(queue.promote(&jobs).await.unwrap(), [moved, dead, moved, moved, absent, moved]);
        assert_waits(&**queue, "sooner", &young(), 600_000).await;
        assert_waits(&**queue, "later", &young(), HOUR).await;
        assert_waits(&**queue, "same-lane", &old(), 600_000).await;
        assert_waits(&**queue, "same-lane-later", &old(), HOUR).await;
        assert!(matches!(place(&**queue, "dead").await, Some(Place::Dead { .. })));
        assert_eq!(place(&**queue, "nowhere").await, None);
    }
    assert_eq!(promote(queue, &young(), -5_000, &["sooner"]).await, [moved]);
    let claimed = batch(queue, request("b")).await;
    assert_eq!((ids(&claimed), &*claimed.jobs[0].lane), (vec!["sooner"], "young"));
    assert!((0..30_000).contains(&(claimed.claimed_at - claimed.jobs[0].due)), "the past counts as now");
    assert_eq!(queue.stats().await.unwrap().counters["promoted"], 9);
}

pub(super) async fn a_postpone_makes_the_delayed_due_later_and_nothing_else(world: World) {
    let queue = &*world.one;
    assert_eq!(queue.postpone(&[]).await.unwrap(), []);
    assert_eq!(queue.postpone(&[new("nowhere", &young(), 0)]).await.unwrap(), [PostponeOutcome::Absent]);
    assert_eq!(queue.stats().await.unwrap().lanes, [], "no lane for what is in no place");
    schedule(queue, &old(), 0, &["dead"]).await;
    let claimed = batch(queue, request("a")).await;
    let mark_dead = Verdict::MarkDead { reason: "why".into() };
    queue.settle(&claimed.fence, &[(claimed.jobs[0].clone(), mark_dead)], &[]).await.unwrap();
    schedule(queue, &old(), 0, &["leased"]).await;
    let held = batch(queue, request("b")).await;
    assert_eq!(promote(queue, &young(), 600_000, &["leased"]).await, [PromoteOutcome::Noted]);
    schedule(queue, &old(), HOUR, &["later", "same-lane", "sooner"]).await;
    schedule(queue, &old(), 0, &["due"]).await;
    let jobs = ["later", "dead", "due", "leased", "nowhere"].map(|id| new(id, &young(), 2 * HOUR));
    let jobs = [&jobs[..], &[new("sooner", &young(), 600_000), new("same-lane", &old(), 2 * HOUR)]].concat();
    use PostponeOutcome::{Absent, Dead, Kept, Leased, Moved};
    assert_eq!(queue.postpone(&jobs).await.unwrap(), [Moved, Dead, Moved, Leased, Absent, Kept, Moved]);
    for id in ["later", "due"] {
        assert_waits(queue, id, &young(), 2 * HOUR).await;
    }
    assert_waits(queue, "sooner", &old(), HOUR).await;
    assert_waits(queue, "same-lane", &old(), 2 * HOUR).await;
    // As after a lost reply; the moment is the same.
    let due = queue.stats().await.unwrap().now_ms + 3 * HOUR;
    let at = |id: &str| NewJob { id: id.to_owned(), lane: young(), due: Due::At(due) };
    assert_eq!(queue.postpone(&[at("later")]).await.unwrap(), [Moved]);
    assert_eq!(world.two.postpone(&[at("later")]).await.unwrap(), [Kept]);
    no_batch(queue, request("c")).await;
    // The note of the promote is there, and nothing else.
    queue.settle(&held.fence, &reschedule(&held, &old(), HOUR), &[]).await.unwrap();
    assert_waits(queue, "leased", &young(), 600_000).await;
}

pub(super) async fn the_leased_are_noted_and_take_the_earlier_due(world: World) {
    let queue = &*world.one;
    schedule(queue, &old(), 0, &["noted", "own", "twice", "none", "at-once"]).await;
    let claimed = batch(queue, request("a")).await;
    assert_eq!(promote(queue, &young(), 600_000, &["noted", "twice"]).await, [PromoteOutcome::Noted; 2]);
    assert_eq!(promote(queue, &young(), 3 * HOUR, &["own"]).await, [PromoteOutcome::Noted]);
    assert_eq!(promote(queue, &young(), 0, &["at-once"]).await, [PromoteOutcome::Noted]);
    // The earlier due and the newer lane.
    let middle = Lane::new("middle", Duration::from_secs(3_600));
    assert_eq!(promote(&*world.two, &middle, HOUR, &["twice"]).await, [PromoteOutcome::Noted]);
    assert!(matches!(place(queue, "noted").await, Some(Place::Leased { .. })), "no move");

    let settled = queue.settle(&claimed.fence, &reschedule(&claimed, &old(), 2 * HOUR), &[]).await.unwrap();
    assert_eq!(settled, SettleOutcome { settled: 5, lost: 0 });
    assert_waits(queue, "noted", &young(), 600_000).await;
    assert_waits(queue, "own", &young(), 2 * HOUR).await;
    assert_waits(queue, "twice", &middle, 600_000).await;
    assert_waits(queue, "none", &old(), 2 * HOUR).await;
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.counters["promoted"], stats.counters["rescheduled"]), (5, 5));
    let lanes: Vec<_> = stats.lanes.iter().map(|lane| (&*lane.lane, lane.patience_ms)).collect();
    assert_eq!(lanes, [("young", 180_000), ("middle", HOUR), ("old", 24 * HOUR)]);

    // The note was for one time.
    let again = batch(queue, request("b")).await;
    assert_eq!(ids(&again), ["at-once"]);
    queue.settle(&again.fence, &reschedule(&again, &old(), 2 * HOUR), &[]).await.unwrap();
    assert_waits(queue, "at-once", &old(), 2 * HOUR).await;
}

pub(super) async fn each_way_out_of_a_lease_takes_or_deletes_the_note(world: World) {
    let queue = &*world.one;
    let all = ["retry", "counted", "suspect", "release", "finish", "bury", "forgotten"];
    schedule(queue, &old(), 0, &all).await;
    let claimed = batch(queue, request("a")).await;
    let job = |id: &str| claimed.jobs.iter().find(|job| job.id == id).unwrap().clone();
    assert_eq!(promote(queue, &young(), 600_000, &all).await, [PromoteOutcome::Noted; 7]);
    queue.forget(&["forgotten".to_owned()]).await.unwrap();
    let verdicts = [
        (job("retry"), Verdict::Retry { after: HOUR, counted: false }),
        (job("counted"), Verdict::Retry { after: HOUR, counted: true }),
        (job("suspect"), Verdict::Suspect { after: HOUR }),
        (job("finish"), Verdict::Finish),
        (job("bury"), Verdict::MarkDead { reason: "why".into() }),
        (job("forgotten"), Verdict::Reschedule { lane: old(), due: HOUR.into() }),
    ];
    let settled = queue.settle(&claimed.fence, &verdicts, &[]).await.unwrap();
    assert_eq!(settled, SettleOutcome { settled: 6, lost: 0 });
    let late = Job { due: claimed.claimed_at + HOUR, ..job("release") };
    assert_eq!(queue.release(&claimed.fence, &[late]).await.unwrap(), SettleOutcome { settled: 1, lost: 0 });
    for id in ["retry", "counted", "suspect", "release"] {
        assert_waits(queue, id, &young(), 600_000).await;
    }
    assert_waits(queue, "forgotten", &old(), HOUR).await;
    assert_eq!(place(queue, "finish").await, None);
    assert!(matches!(place(queue, "bury").await, Some(Place::Dead { .. })));

    // New lives know nothing of the notes.
    let jobs = [new("finish", &old(), 0), new("bury", &old(), 0)];
    assert_eq!(queue.revive(&jobs).await.unwrap(), [ScheduleOutcome::Scheduled; 2]);
    let second = batch(queue, request("b")).await;
    assert_eq!(sorted(&second), ["bury".to_owned(), "finish".to_owned()].into());
    queue.settle(&second.fence, &reschedule(&second, &old(), HOUR), &[]).await.unwrap();
    for id in ["finish", "bury"] {
        assert_waits(queue, id, &old(), HOUR).await;
    }
    // The deliveries are as they would be without a promote.
    promote(queue, &young(), 0, &all).await;
    let mut deliveries = BTreeMap::new();
    for token in ["c", "d", "e", "f"] {
        if let Claim::Batch(claimed) = queue.claim(&request(token)).await.unwrap() {
            deliveries.extend(claimed.jobs.into_iter().map(|job| (job.id, (job.deliveries, job.failures))));
        }
    }
    let of = |id: &str| deliveries[id];
    assert_eq!((of("retry"), of("counted"), of("suspect"), of("release")), ((0, 0), (1, 1), (1, 0), (0, 0)));
}

pub(super) async fn a_note_outlives_a_lease_that_ran_out(world: World) {
    let queue = &*world.one;
    schedule(queue, &old(), 0, &["1", "2"]).await;
    let dies = batch(queue, ClaimRequest { lease: Duration::from_millis(50), ..request("dies") }).await;
    assert_eq!(promote(queue, &young(), 600_000, &["1"]).await, [PromoteOutcome::Noted]);
    until_expired(queue).await;
    // Nobody has claimed them since: leased all the same.
    assert_eq!(promote(queue, &young(), 600_000, &["2"]).await, [PromoteOutcome::Noted]);
    assert_eq!(queue.settle(&dies.fence, &reschedule(&dies, &old(), HOUR), &[]).await.unwrap().lost, 2);
    let heir = next_batch(&*world.two, request("heir")).await;
    assert_eq!(heir.jobs.len(), 2);
    assert_eq!(queue.settle(&dies.fence, &reschedule(&dies, &old(), HOUR), &[]).await.unwrap().lost, 2);
    assert_eq!(queue.release(&dies.fence, &dies.jobs).await.unwrap().lost, 2);
    let settled = queue.settle(&heir.fence, &reschedule(&heir, &old(), HOUR), &[]).await.unwrap();
    assert_eq!(settled, SettleOutcome { settled: 2, lost: 0 });
    assert_waits(queue, "1", &young(), 600_000).await;
    assert_waits(queue, "2", &young(), 600_000).await;
    // Settled: the same again changes nothing, and the notes are gone.
    assert_eq!(queue.settle(&heir.fence, &reschedule(&heir, &old(), 0), &[]).await.unwrap().lost, 2);
    assert_waits(queue, "1", &young(), 600_000).await;
}

pub(super) async fn a_promote_of_the_same_id_twice_is_as_two_promotes(world: World) {
    let queue = &*world.one;
    schedule(queue, &old(), 0, &["leased"]).await;
    let claimed = batch(queue, request("a")).await;
    schedule(queue, &old(), 2 * HOUR, &["delayed"]).await;
    let jobs = [
        new("delayed", &young(), 600_000),
        new("leased", &young(), 600_000),
        new("absent", &young(), 0),
        new("delayed", &old(), HOUR),
        new("leased", &old(), HOUR),
        new("absent", &old(), 0),
    ];
    let [moved, noted, absent] = [PromoteOutcome::Moved, PromoteOutcome::Noted, PromoteOutcome::Absent];
    assert_eq!(queue.promote(&jobs).await.unwrap(), [moved, noted, absent, moved, noted, absent]);
    queue.settle(&claimed.fence, &reschedule(&claimed, &young(), 2 * HOUR), &[]).await.unwrap();
    for id in ["delayed", "leased"] {
        assert_waits(queue, id, &old(), 600_000).await;
    }
    for id in ["", "a b"] {
        assert!(matches!(queue.promote(&[new(id, &old(), 0)]).await, Err(QueueError::Refused(_))), "{id:?}");
    }
}

pub(super) async fn thousands_are_promoted_in_one_call(world: World) {
    let queue = &*world.one;
    let names: Vec<String> = (0..3_500).map(|n| n.to_string()).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    schedule(queue, &old(), 0, &all[..1_500]).await;
    let claimed = batch(queue, ClaimRequest { limit: 1_500, ..request("a") }).await;
    schedule(queue, &old(), HOUR, &all[1_500..3_000]).await;
    let answers = promote(&*world.two, &young(), 0, &all).await;
    assert!(answers[..1_500].iter().all(|answer| *answer == PromoteOutcome::Noted));
    assert!(answers[1_500..3_000].iter().all(|answer| *answer == PromoteOutcome::Moved));
    assert!(answers[3_000..].iter().all(|answer| *answer == PromoteOutcome::Absent));
    let settled = queue.settle(&claimed.fence, &reschedule(&claimed, &old(), HOUR), &[]).await.unwrap();
    assert_eq!(settled.settled, 1_500);
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.delayed, stats.due, stats.counters["promoted"]), (3_000, 3_000, 3_000));
    assert_eq!((&*stats.lanes[0].lane, stats.lanes[0].delayed), ("young", 3_000));
}

pub(super) async fn a_tally_is_counted_once_and_with_the_verdicts(world: World) {
    let queue = &*world.one;
    schedule(queue, &old(), 0, &["1", "2"]).await;
    let claimed = batch(queue, request("a")).await;
    let tally = [("waves", 3), ("misses", -1), ("none", 0), ("waves", 4), ("rescheduled", 10)];
    let verdicts = reschedule(&claimed, &old(), HOUR);
    let first = queue.settle(&claimed.fence, &verdicts[..1], &tally).await.unwrap();
    let again = queue.settle(&claimed.fence, &verdicts[..1], &tally).await.unwrap();
    assert_eq!((first.settled, again.settled), (1, 0));
    let counted = |counters: &BTreeMap<String, i64>| {
        ["waves", "misses", "none", "rescheduled"].map(|name| counters.get(name).copied().unwrap_or(0))
    };
    assert_eq!(counted(&queue.stats().await.unwrap().counters), [7, -1, 0, 11]);
    assert_eq!(queue.settle(&claimed.fence, &verdicts, &tally).await.unwrap(), SettleOutcome { settled: 1, lost: 1 });
    let counters = world.two.stats().await.unwrap().counters;
    assert_eq!(counted(&counters), [14, -2, 0, 22]);
    let minutes = queue.minutes(3).await.unwrap();
    assert_eq!(minutes.iter().filter_map(|minute| minute.counters.get("waves")).sum::<i64>(), 14);
    let nobody = Fence { deadline: claimed.fence.deadline, token: "b".into() };
    queue.settle(&nobody, &[], &tally).await.unwrap();
    assert_eq!(queue.stats().await.unwrap().counters, counters, "no verdict, no tally");
}
