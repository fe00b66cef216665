//! Suspects: whose lease ran out, and what that says of them.

use super::*;

/// A short lease and no waiting.
fn brief(token: &str) -> ClaimRequest<'_> {
    ClaimRequest { lease: Duration::from_millis(300), ..request(token) }
}

pub(super) async fn only_a_trial_makes_a_lease_that_ran_out_a_failure(world: World) {
    let queue = &*world.one;
    schedule(queue, &young(), 0, &["1"]).await;
    let first = batch(queue, brief("a")).await;
    assert_eq!((first.jobs[0].deliveries, first.jobs[0].failures), (0, 0));
    until_expired(queue).await;
    let second = batch(queue, brief("b")).await;
    assert_eq!((second.jobs[0].deliveries, second.jobs[0].failures), (1, 0), "others were in flight with it");

    // After a failover, a claim that was lost may have had the same fence.
    let lost = Fence { token: "lost".to_owned(), ..second.fence.clone() };
    assert!(!queue.mark_trial(&lost).await.unwrap());
    // The same twice: its reply may have been lost. A lease that is over is no trial.
    assert!(!queue.mark_trial(&first.fence).await.unwrap());
    assert!(queue.mark_trial(&second.fence).await.unwrap() && queue.mark_trial(&second.fence).await.unwrap());
    until_expired(&*world.two).await;
    let third = batch(&*world.two, brief("c")).await;
    assert_eq!((third.jobs[0].deliveries, third.jobs[0].failures), (2, 1), "it was alone");
    let again = batch(&*world.two, brief("c")).await;
    assert_eq!(again.jobs, third.jobs, "the same token answers the same, failures too");

    // What was noted of one lease says nothing of the next.
    until_expired(queue).await;
    let fourth = batch(queue, brief("d")).await;
    assert_eq!((fourth.jobs[0].deliveries, fourth.jobs[0].failures), (3, 1));

    // On trial, and the worker lives: given back, it is as it was; done, it is like any other.
    assert!(queue.mark_trial(&fourth.fence).await.unwrap());
    assert_eq!(queue.release(&fourth.fence, &fourth.jobs).await.unwrap().settled, 1);
    let fifth = batch(queue, request("e")).await;
    assert_eq!((fifth.jobs[0].deliveries, fifth.jobs[0].failures), (3, 1));
    assert!(queue.mark_trial(&fifth.fence).await.unwrap());
    queue.settle(&fifth.fence, &reschedule(&fifth, &young(), 0), &[]).await.unwrap();
    let sixth = batch(queue, request("f")).await;
    assert_eq!((sixth.jobs[0].deliveries, sixth.jobs[0].failures), (0, 0));
}

pub(super) async fn a_suspect_travels_apart_and_has_not_failed(world: World) {
    let queue = &*world.one;
    schedule(queue, &young(), 0, &["1"]).await;
    let first = batch(queue, request("a")).await;
    let verdict = Verdict::Suspect { after: 0 };
    assert_eq!(queue.settle(&first.fence, &[(first.jobs[0].clone(), verdict)], &[]).await.unwrap().settled, 1);
    let again = batch(queue, request("b")).await;
    assert_eq!((again.jobs[0].deliveries, again.jobs[0].failures), (1, 0));
}

/// A queue that knows no lane: a rebuild died between two steps of its first page.
pub(super) async fn an_orphan_that_is_tried_again_is_in_a_lane(world: World) {
    let queue = &*world.one;
    let id = ["1".to_owned()];
    queue.adopt("rebuild", &id, Duration::from_millis(50)).await.unwrap();
    until_expired(queue).await;
    let claimed = batch(queue, request("a")).await;
    let retry = Verdict::Retry { after: 0, counted: false };
    assert_eq!(queue.settle(&claimed.fence, &[(claimed.jobs[0].clone(), retry)], &[]).await.unwrap().settled, 1);
    assert_eq!(batch(queue, request("b")).await.jobs[0].id, "1");
}

pub(super) async fn suspects_have_one_call_in_four_while_others_wait(world: World) {
    let queue = &*world.one;
    let suspects = ["s1", "s2", "s3"];
    schedule(queue, &young(), 0, &suspects).await;
    let claimed = batch(queue, request("suspected")).await;
    let retry = Verdict::Retry { after: 0, counted: true };
    let verdicts: Vec<_> = claimed.jobs.iter().map(|job| (job.clone(), retry.clone())).collect();
    queue.settle(&claimed.fence, &verdicts, &[]).await.unwrap();
    others_are_due(queue).await;

    let mut kinds = String::new();
    for round in 0..9 {
        let token = format!("round {round}");
        let claimed = batch(queue, ClaimRequest { limit: 2, ..request(&token) }).await;
        let of_suspects = claimed.jobs[0].deliveries > 0;
        assert!(claimed.jobs.iter().all(|job| (job.deliveries > 0) == of_suspects));
        assert_eq!(claimed.jobs.len(), if of_suspects { 1 } else { 2 });
        kinds.push(if of_suspects { 's' } else { 'o' });
        queue.settle(&claimed.fence, &reschedule(&claimed, &young(), 3_600_000), &[]).await.unwrap();
    }
    assert_eq!(kinds, "sooosooos", "the suspects are the most urgent all the while");
}

/// A hundred suspects of one crash stand together. Where it is not their turn, what is due behind them is not passed over for what
/// is less urgent.
pub(super) async fn what_is_due_behind_many_suspects_keeps_its_place(world: World) {
    let queue = &*world.one;
    let put = async |lane: &Lane, kind: char, count: u32, due: Due| {
        let job = |n| NewJob { id: format!("{kind}{n:03}"), lane: lane.clone(), due };
        queue.schedule(&(0..count).map(job).collect::<Vec<_>>()).await.unwrap();
    };
    let hundred = |token| ClaimRequest { limit: 100, ..request(token) };
    put(&young(), 'm', 100, Due::In(0)).await;
    let crashed = batch(queue, hundred("crashed")).await;
    let verdicts: Vec<_> = crashed.jobs.iter().map(|job| (job.clone(), Verdict::Suspect { after: 0 })).collect();
    queue.settle(&crashed.fence, &verdicts, &[]).await.unwrap();
    let theirs = batch(queue, hundred("their turn")).await;
    queue.release(&theirs.fence, &theirs.jobs).await.unwrap();

    let now = wall_ms();
    put(&young(), 'a', 25, Due::At(now - 60_000)).await;
    put(&young(), 'n', 200, Due::In(0)).await;
    put(&old(), 'o', 70, Due::At(now - 10 * 86_400_000)).await;
    put(&old(), 'p', 200, Due::In(0)).await;
    let others = batch(queue, hundred("others")).await;
    let mut kinds: BTreeMap<char, u32> = BTreeMap::new();
    others.jobs.iter().for_each(|job| *kinds.entry(job.id.chars().next().unwrap()).or_default() += 1);
    assert_eq!(kinds, BTreeMap::from([('a', 25), ('o', 70), ('n', 5)]));
}

pub(super) async fn the_turn_of_suspects_comes_also_while_there_are_none(world: World) {
    let queue = &*world.one;
    let suspect = async |token| {
        let claimed = batch(queue, ClaimRequest { limit: 1, ..request(token) }).await;
        queue.settle(&claimed.fence, &[(claimed.jobs[0].clone(), Verdict::Suspect { after: 0 })], &[]).await.unwrap();
    };
    schedule(queue, &young(), 0, &["s"]).await;
    suspect("suspected").await;
    others_are_due(queue).await;
    for (token, deliveries) in [("its turn", 1), ("others", 0), ("others too", 0), ("others again", 0)] {
        let claimed = batch(queue, ClaimRequest { limit: 2, ..request(token) }).await;
        assert_eq!(claimed.jobs[0].deliveries, deliveries, "{token}");
        queue.settle(&claimed.fence, &reschedule(&claimed, &young(), 3_600_000), &[]).await.unwrap();
    }
    schedule(queue, &young(), 0, &["t"]).await;
    let at = queue.stats().await.unwrap().now_ms;
    while queue.stats().await.unwrap().now_ms < at + 10 {
        tokio::time::sleep(Duration::from_millis(1)).await; // until it is the most urgent
    }
    suspect("suspected too").await;
    let at = queue.stats().await.unwrap().now_ms;
    while queue.stats().await.unwrap().now_ms < at + 10 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let claimed = batch(queue, ClaimRequest { limit: 2, ..request("its turn again") }).await;
    assert_eq!((&*claimed.jobs[0].id, claimed.jobs[0].deliveries), ("t", 1));
}

pub(super) async fn suspects_whose_leases_ran_out_wait_for_their_turn_too(world: World) {
    let queue = &*world.one;
    schedule(queue, &young(), 0, &["s1", "s2"]).await;
    for token in ["a", "b"] {
        assert_eq!(batch(queue, brief(token)).await.jobs.len(), 2, "the first time they go at once, together");
        while queue.stats().await.unwrap().expired < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    others_are_due(queue).await;
    let mut kinds = String::new();
    for round in 0..5 {
        let token = format!("round {round}");
        let claimed = batch(queue, ClaimRequest { limit: 4, ..request(&token) }).await;
        kinds.push(if claimed.jobs[0].deliveries > 0 { 's' } else { 'o' });
        assert_eq!(claimed.jobs.len(), if claimed.jobs[0].deliveries > 0 { 1 } else { 4 });
    }
    assert_eq!(kinds, "sooos");
}

/// Many that are due and less urgent than whatever was due before.
async fn others_are_due(queue: &dyn Queue) {
    while queue.stats().await.unwrap().oldest_lateness_ms < 5 && queue.stats().await.unwrap().due > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let others: Vec<String> = (0..60).map(|n| format!("o{n}")).collect();
    schedule(queue, &old(), 0, &others.iter().map(String::as_str).collect::<Vec<_>>()).await;
}
