//! What a rebuild and a person who looks after the dead do.

use super::*;

const LEASE: Duration = Duration::from_secs(60);

fn names(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

/// Buries ids, which are put into the queue for it; it must be idle otherwise.
async fn mark_dead(queue: &dyn Queue, ids: &[&str]) {
    schedule(queue, &young(), 0, ids).await;
    let claimed = batch(queue, ClaimRequest { limit: ids.len(), ..request("bury") }).await;
    let why = |job: &Job| (job.clone(), Verdict::MarkDead { reason: format!("why {}", job.id) });
    let verdicts: Vec<_> = claimed.jobs.iter().map(why).collect();
    assert_eq!(queue.settle(&claimed.fence, &verdicts, &[]).await.unwrap().settled, ids.len() as u64);
}

pub(super) async fn adopting_takes_what_is_nowhere_and_nothing_else(world: World) {
    let queue = &*world.one;
    mark_dead(queue, &["dead"]).await;
    schedule(queue, &young(), 0, &["leased"]).await;
    let held = batch(queue, request("a")).await;
    schedule(queue, &old(), 60_000, &["delayed"]).await;
    let ids = names(&["new", "dead", "delayed", "leased", "other"]);
    let taken = world.two.adopt("rebuild", &ids, LEASE).await.unwrap();
    let [ours, dead, known, leased] =
        [ScheduleOutcome::Scheduled, ScheduleOutcome::Dead, ScheduleOutcome::Known, ScheduleOutcome::Leased];
    assert_eq!(taken.answers, [ours, dead, known, leased, ours]);
    assert!(taken.fence.deadline > held.fence.deadline && taken.now <= taken.fence.deadline - 60_000);
    // Nobody else gets them: not another rebuild, not a starter, not a claim.
    assert_eq!(queue.adopt("second", &ids, LEASE).await.unwrap().answers, [leased, dead, known, leased, leased]);
    assert_eq!(schedule(queue, &young(), 0, &["new"]).await, [leased]);
    no_batch(queue, request("b")).await;
    // Settled like any batch; what was never ours is lost.
    let verdicts = [
        (job("new"), Verdict::Reschedule { lane: old(), due: 5_000.into() }),
        (job("other"), Verdict::Finish),
        (job("leased"), Verdict::Finish),
    ];
    assert_eq!(queue.settle(&taken.fence, &verdicts, &[]).await.unwrap(), SettleOutcome { settled: 2, lost: 1 });
    let due = taken.now + 5_000;
    assert!(
        matches!(place(queue, "new").await, Some(Place::Delayed { lane, due: at }) if lane == "old" && (due..due + 20_000).contains(&at))
    );
    assert_eq!(place(queue, "other").await, None);
    assert!(matches!(place(queue, "leased").await, Some(Place::Leased { fence, .. }) if fence == held.fence.deadline));
    assert_eq!(queue.adopt("none", &[], LEASE).await.unwrap().answers, []);
    assert_eq!(queue.stats().await.unwrap().counters["adopted"], 2);
}

pub(super) async fn an_adoption_answers_the_same_again(world: World) {
    let queue = &*world.one;
    schedule(queue, &young(), 0, &["known"]).await;
    let ids = names(&["1", "known", "2"]);
    let first = queue.adopt("a", &ids, LEASE).await.unwrap();
    let again = world.two.adopt("a", &ids, LEASE).await.unwrap();
    assert_eq!((&again.fence, &again.answers), (&first.fence, &first.answers));
    // One of them settled in between (its reply lost too): it is where it went.
    queue.settle(&first.fence, &[(job("1"), Verdict::Reschedule { lane: young(), due: 0.into() })], &[]).await.unwrap();
    let third = queue.adopt("a", &ids, LEASE).await.unwrap();
    assert_eq!(third.answers, [ScheduleOutcome::Known, ScheduleOutcome::Known, ScheduleOutcome::Scheduled]);
    assert_eq!(queue.settle(&third.fence, &[(job("2"), Verdict::Finish)], &[]).await.unwrap().settled, 1);
    assert_eq!(queue.stats().await.unwrap().leased, 0);
}

pub(super) async fn an_adoption_that_is_left_alone_runs_out(world: World) {
    let queue = &*world.one;
    let taken = queue.adopt("dies", &names(&["1", "2"]), Duration::from_millis(50)).await.unwrap();
    until_expired(queue).await;
    assert_eq!(queue.settle(&taken.fence, &[(job("1"), Verdict::Finish)], &[]).await.unwrap().lost, 1);
    // Not ours again by the same token, but the next claim's.
    let answers = queue.adopt("dies", &names(&["1", "2"]), LEASE).await.unwrap().answers;
    assert_eq!(answers, [ScheduleOutcome::Leased, ScheduleOutcome::Leased]);
    assert_eq!(sorted(&next_batch(&*world.two, request("a")).await), ["1".to_owned(), "2".to_owned()].into());
}

pub(super) async fn revived_jobs_go_into_their_lanes_in_one_step(world: World) {
    let queue = &*world.one;
    mark_dead(queue, &["1", "2", "3"]).await;
    schedule(queue, &young(), 60_000, &["delayed"]).await;
    let new = |id: &str| NewJob { id: id.into(), lane: old(), due: 0.into() };
    let jobs = [new("1"), new("delayed"), new("nowhere"), new("2")];
    assert_eq!(
        queue.revive(&jobs).await.unwrap(),
        [ScheduleOutcome::Scheduled, ScheduleOutcome::Known, ScheduleOutcome::Scheduled, ScheduleOutcome::Scheduled]
    );
    assert_eq!(world.two.revive(&jobs).await.unwrap(), [ScheduleOutcome::Known; 4], "the reply was lost");
    assert!(matches!(place(queue, "delayed").await, Some(Place::Delayed { lane, .. }) if lane == "young"));
    assert!(matches!(place(queue, "3").await, Some(Place::Dead { .. })));
    let claimed = batch(queue, request("a")).await;
    assert_eq!(sorted(&claimed), names(&["1", "2", "nowhere"]).into_iter().collect());
    assert!(claimed.jobs.iter().all(|job| job.deliveries == 0 && &*job.lane == "old"), "{:?}", claimed.jobs);
    assert_eq!(queue.revive(&jobs[..1]).await.unwrap(), [ScheduleOutcome::Leased]);
    assert_eq!(queue.stats().await.unwrap().dead, 1);
}

pub(super) async fn the_forgotten_are_nowhere_unless_leased(world: World) {
    let queue = &*world.one;
    mark_dead(queue, &["1", "2"]).await;
    schedule(queue, &young(), 0, &["leased"]).await;
    batch(queue, request("a")).await;
    schedule(queue, &old(), 0, &["delayed"]).await;
    let gone = names(&["1", "leased", "delayed", "nobody"]);
    for queue in [&world.one, &world.two] {
        queue.forget(&gone).await.unwrap();
        assert_eq!(place(&**queue, "1").await, None);
        assert_eq!(place(&**queue, "delayed").await, None);
        assert!(matches!(place(&**queue, "leased").await, Some(Place::Leased { .. })));
        assert!(matches!(place(&**queue, "2").await, Some(Place::Dead { reason, .. }) if reason == "why 2"));
    }
    // A place of its own again, and no reason left over.
    mark_dead(queue, &["1"]).await;
    queue.forget(&[]).await.unwrap();
    assert_eq!(queue.stats().await.unwrap().dead, 2);
    // Put in again, it is a new job: its failures are forgotten, too.
    for round in ["b", "c"] {
        schedule(queue, &old(), 0, &["failed"]).await;
        let claimed = batch(queue, request(round)).await;
        assert_eq!((claimed.jobs.len(), claimed.jobs[0].deliveries, claimed.jobs[0].failures), (1, 0, 0));
        let retry = Verdict::Retry { after: 0, counted: true };
        let settled = queue.settle(&claimed.fence, &[(claimed.jobs[0].clone(), retry)], &[]).await;
        assert_eq!(settled.unwrap().settled, 1);
        queue.forget(&names(&["failed"])).await.unwrap();
    }
}

pub(super) async fn the_dead_are_listed_page_by_page(world: World) {
    let queue = &*world.one;
    assert_eq!(queue.list_dead(RowRange::new(0, 10)).await.unwrap(), []);
    mark_dead(queue, &["b"]).await;
    // The next is buried in a later millisecond.
    let first = queue.list_dead(RowRange::new(0, 10)).await.unwrap()[0].at;
    while queue.stats().await.unwrap().now_ms <= first {}
    mark_dead(queue, &["a", "c"]).await;
    let all = world.two.list_dead(RowRange::new(0, 10)).await.unwrap();
    let listed: Vec<_> = all.iter().map(|dead| (&*dead.id, &*dead.reason)).collect();
    assert_eq!(listed, [("b", "why b"), ("a", "why a"), ("c", "why c")]);
    assert!(all[0].at < all[1].at && all[1].at <= all[2].at);
    assert_eq!(queue.list_dead(RowRange::new(1, 1)).await.unwrap(), all[1..2]);
    assert_eq!(queue.list_dead(RowRange::new(3, 10)).await.unwrap(), []);
    assert_eq!(queue.list_dead(RowRange::new(0, 0)).await.unwrap(), []);
}

pub(super) async fn large_batches_work(world: World) {
    let queue = &*world.one;
    let names: Vec<String> = (0..2_500).map(|n| n.to_string()).collect();
    schedule(queue, &young(), 0, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let all = batch(queue, ClaimRequest { limit: 5_000, ..request("a") }).await;
    assert_eq!(all.jobs.len(), 2_500);
    assert_eq!(queue.settle(&all.fence, &reschedule(&all, &old(), 1), &[]).await.unwrap().settled, 2_500);
    let ids: Vec<String> = (2_000..4_500).map(|n| n.to_string()).collect();
    let answers = queue.adopt("b", &ids, LEASE).await.unwrap().answers;
    assert_eq!(answers.iter().filter(|answer| **answer == ScheduleOutcome::Scheduled).count(), 2_000);
    assert!(answers[..500].iter().all(|answer| *answer == ScheduleOutcome::Known));
    queue.forget(&ids).await.unwrap();
    assert_eq!((queue.stats().await.unwrap().delayed, queue.stats().await.unwrap().leased), (2_000, 2_000));
}
