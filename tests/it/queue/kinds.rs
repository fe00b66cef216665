//! Lanes of several tiers and orders, due times that are moments, and claims for the sake of idle quota.

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);
const HOUR_MS: Millis = 3_600_000;

fn visits() -> Lane {
    Lane::new("visits", HOUR).with_order(Order::OldestFirst)
}

fn newcomers() -> Lane {
    Lane::new("newcomers", HOUR).with_order(Order::NewestFirst)
}

async fn schedule_at(queue: &dyn Queue, lane: &Lane, jobs: &[(&str, Millis)]) {
    let new = |(id, moment): &(&str, Millis)| NewJob { id: (*id).into(), lane: lane.clone(), due: Due::At(*moment) };
    let answers = queue.schedule(&jobs.iter().map(new).collect::<Vec<_>>()).await.unwrap();
    assert!(answers.iter().all(|answer| *answer == ScheduleOutcome::Scheduled), "{answers:?}");
}

fn is_in(lane: &Lane, due: Millis) -> Option<Place> {
    Some(Place::Delayed { lane: lane.name.to_string(), due })
}

pub(super) async fn a_due_time_may_be_a_moment_long_past(world: World) {
    let queue = &*world.one;
    let now = queue.stats().await.unwrap().now_ms;
    let jobs = [("yesterday", now - 86_400_000), ("never b", 0), ("1970", 5), ("never a", 0), ("before", -7)];
    let jobs = jobs.map(|(id, moment)| (id.replace(' ', "-"), moment));
    let jobs: Vec<_> = jobs.iter().map(|(id, moment)| (id.as_str(), *moment)).collect();
    schedule_at(queue, &visits(), &jobs).await;
    assert_eq!(place(queue, "1970").await, is_in(&visits(), 5));
    assert_eq!(place(queue, "before").await, is_in(&visits(), 0));
    // The oldest first, by id among equals; no waiting for others to come.
    let lingering = ClaimRequest { linger: HOUR, ..request("a") };
    let first = batch(&*world.two, ClaimRequest { limit: 3, ..lingering }).await;
    assert_eq!(ids(&first), ["before", "never-a", "never-b"]);
    assert!(first.jobs.iter().all(|job| job.order == Order::OldestFirst && job.lateness(first.claimed_at).is_none()));
    let rest = batch(queue, ClaimRequest { token: "b", ..lingering }).await;
    assert_eq!(ids(&rest), ["1970", "yesterday"]);
    // A settle and a promote name moments, too. Of two the earlier one counts, whatever it is.
    let verdict = |id: &str, moment| {
        let of = rest.jobs.iter().find(|job| job.id == id).unwrap().clone();
        (of, Verdict::Reschedule { lane: visits(), due: Due::At(moment) })
    };
    let promoted = |id: &str, due| NewJob { id: id.into(), lane: visits(), due };
    assert_eq!(queue.promote(&[promoted("1970", Due::At(3))]).await.unwrap(), [PromoteOutcome::Noted]);
    let settled = queue.settle(&rest.fence, &[verdict("1970", 9), verdict("yesterday", now)], &[]).await.unwrap();
    assert_eq!(settled.settled, 2);
    assert_eq!(place(queue, "1970").await, is_in(&visits(), 3));
    assert_eq!(place(queue, "yesterday").await, is_in(&visits(), now));
    let both = [promoted("yesterday", 0.into()), promoted("yesterday", Due::At(now - 1)), promoted("1970", 0.into())];
    assert_eq!(queue.promote(&both).await.unwrap(), [PromoteOutcome::Moved; 3]);
    assert_eq!(place(queue, "yesterday").await, is_in(&visits(), now - 1));
    assert_eq!(place(queue, "1970").await, is_in(&visits(), 3));
}

pub(super) async fn the_age_of_data_is_no_lateness(world: World) {
    let queue = &*world.one;
    let now = queue.stats().await.unwrap().now_ms;
    schedule_at(queue, &visits(), &[("old", 0), ("far", now + 100 * HOUR_MS)]).await;
    schedule_at(queue, &newcomers(), &[("new", now - 5_000), ("farther", now + 100 * HOUR_MS)]).await;
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.delayed, stats.due, stats.oldest_lateness_ms), (4, 2, 0));
    for (lane, of, age) in [(&stats.lanes[0], newcomers(), 5_000), (&stats.lanes[1], visits(), now)] {
        assert_eq!((&*lane.lane, lane.order, lane.tier), (&*of.name, of.order, 0));
        assert_eq!((lane.due, lane.oldest_lateness_ms, lane.beyond), (1, 0, 0));
        assert!((age..age + 60_000).contains(&lane.oldest_age_ms), "{lane:?}");
    }
    assert_eq!(queue.repair_due_times(Duration::from_secs(120), 100).await.unwrap(), 0);
    schedule_at(queue, &young(), &[("late", now - 5_000)]).await;
    let stats = world.two.stats().await.unwrap();
    assert!((5_000..60_000).contains(&stats.oldest_lateness_ms), "{}", stats.oldest_lateness_ms);
    let orders: Vec<Order> = queue.sample(10).await.unwrap().iter().map(|sample| sample.order).collect();
    assert_eq!(orders, [Order::ByLateness, Order::NewestFirst, Order::OldestFirst, Order::ByLateness]);
}

pub(super) async fn the_newest_goes_first_where_the_lane_says_so(world: World) {
    let queue = &*world.one;
    schedule_at(queue, &newcomers(), &[("a", 1_000), ("c", 3_000), ("b", 2_000), ("d", 3_000)]).await;
    schedule(queue, &newcomers(), HOUR_MS, &["later"]).await;
    // The greater id among equals: ids rise with time.
    let first = batch(queue, ClaimRequest { limit: 3, ..request("1") }).await;
    assert_eq!(ids(&first), ["d", "c", "b"]);
    assert_eq!(
        ids(&batch(&*world.two, ClaimRequest { limit: 3, ..request("1") }).await).len(),
        3,
        "the reply was lost"
    );
    assert!(first.jobs.iter().all(|job| job.order == Order::NewestFirst && job.lateness(first.claimed_at).is_none()));
    // Given back, each has its old place.
    queue.release(&first.fence, &first.jobs[1..]).await.unwrap();
    assert_eq!(place(queue, "c").await, is_in(&newcomers(), 3_000));
    schedule_at(queue, &newcomers(), &[("bb", 2_500)]).await;
    let second = batch(queue, ClaimRequest { limit: 2, ..request("2") }).await;
    assert_eq!(ids(&second), ["c", "bb"]);
    // What is not due yet fills no batch, however far a claim looks ahead.
    let far = ClaimRequest { lookahead: 10.0, ..request("3") };
    assert_eq!(ids(&batch(queue, far).await), ["b", "a"]);
    no_batch(queue, ClaimRequest { token: "4", early: 10.0, ..far }).await;
}

pub(super) async fn a_lease_on_newcomers_that_ran_out_needs_no_rescuer(world: World) {
    let queue = &*world.one;
    schedule_at(queue, &newcomers(), &[("a", 1_000), ("b", 2_000), ("c", 3_000)]).await;
    let lost = batch(queue, ClaimRequest { limit: 2, lease: Duration::from_millis(30), ..request("dies") }).await;
    assert_eq!(ids(&lost), ["c", "b"]);
    until_expired(queue).await;
    let taken = batch(&*world.two, ClaimRequest { limit: 4, ..request("heir") }).await;
    assert_eq!(ids(&taken), ["b", "c"], "in the order of their leases, and by themselves");
    assert!(taken.jobs.iter().all(|job| (&*job.lane, job.deliveries) == ("newcomers", 1)));
    assert!(taken.jobs.iter().all(|job| job.due <= lost.claimed_at));
    assert_eq!(queue.settle(&taken.fence, &reschedule(&taken, &newcomers(), 0), &[]).await.unwrap().settled, 2);
    assert_eq!(ids(&batch(queue, request("last")).await), ["c", "b", "a"]);
}

pub(super) async fn tiers_are_strict(world: World) {
    let queue = &*world.one;
    let now = queue.stats().await.unwrap().now_ms;
    let (second, third) = (old().with_tier(1), Lane::new("third", Duration::from_millis(1)).with_tier(2));
    schedule_at(queue, &third, &[("3a", 0), ("3b", 0)]).await;
    schedule_at(queue, &second, &[("2a", now - 2_000), ("2b", now - 4_000)]).await;
    schedule_at(queue, &young(), &[("1a", now - 1_000), ("1b", now - 500)]).await;
    schedule_at(queue, &newcomers(), &[("1c", now - 3_000), ("1d", now - 1_000)]).await;
    // In a tier those by lateness come before the newest; the free places of a batch are the next tier's.
    let all = ["1a", "1b", "1d", "1c", "2b", "2a", "3a", "3b"];
    for limit in [1, 2, 3, 5, 7, 8, 9] {
        let token = limit.to_string();
        let claimed = batch(queue, ClaimRequest { limit, ..request(&token) }).await;
        assert_eq!(ids(&claimed), all[..limit.min(8)], "of {limit}");
        queue.release(&claimed.fence, &claimed.jobs).await.unwrap();
    }
    let names: Vec<_> = queue.stats().await.unwrap().lanes.into_iter().map(|lane| (lane.lane, lane.tier)).collect();
    assert_eq!(
        names,
        [("young", 0), ("newcomers", 0), ("old", 1), ("third", 2)].map(|(of, tier)| (of.to_owned(), tier))
    );
}

pub(super) async fn a_batch_of_several_tiers_lingers_as_one(world: World) {
    let queue = &*world.one;
    let second = old().with_tier(1);
    let patient = ClaimRequest { limit: 4, linger: HOUR, ..request("a") };
    schedule(queue, &young(), 0, &["1a"]).await;
    schedule(queue, &second, 0, &["2a", "2b"]).await;
    no_batch(queue, patient).await;
    // Full over both tiers.
    schedule(queue, &young(), 0, &["1b"]).await;
    let full = batch(queue, patient).await;
    assert_eq!(ids(&full)[2..], ["2a", "2b"]);
    queue.settle(&full.fence, &reschedule(&full, &second, 2 * HOUR_MS), &[]).await.unwrap();
    // One of a later tier has waited long enough: all that is due goes, the first tier first.
    schedule(queue, &young(), 0, &["1c"]).await;
    no_batch(queue, ClaimRequest { token: "b", ..patient }).await;
    let now = queue.stats().await.unwrap().now_ms;
    schedule_at(queue, &second, &[("2c", now - HOUR_MS)]).await;
    assert_eq!(ids(&batch(queue, ClaimRequest { token: "b", ..patient }).await), ["1c", "2c"]);
}

pub(super) async fn early_ids_make_a_batch_by_their_share(world: World) {
    let queue = &*world.one;
    let (young, old) = (|| Lane::new("~3m", Duration::from_secs(180)), || Lane::new("~1d", 24 * HOUR));
    schedule(queue, &Lane::new("unavailable", 6 * HOUR), 1_000, &["missing"]).await;
    schedule(queue, &young(), 9_000, &["young-5%"]).await;
    schedule(queue, &young(), 36_000, &["young-20%"]).await;
    schedule(queue, &old(), 1_728_000, &["old-2%"]).await;
    schedule(queue, &old().with_tier(1), 6_048_000, &["old-7%"]).await;
    schedule(queue, &old(), 25_920_000, &["old-30%"]).await;
    schedule(queue, &visits(), 1_000, &["visit"]).await;
    schedule(queue, &newcomers(), 1_000, &["newcomer"]).await;
    let patient = ClaimRequest { linger: HOUR, lookahead: 1.0, ..request("a") };
    no_batch(queue, patient).await;
    no_batch(queue, ClaimRequest { early: 0.01, ..patient }).await;
    let one = batch(queue, ClaimRequest { limit: 1, early: 0.1, ..patient }).await;
    assert_eq!(ids(&one), ["old-2%"], "due in half an hour, the young one in 9 s");
    queue.release(&one.fence, &one.jobs).await.unwrap();
    let some = batch(&*world.two, ClaimRequest { early: 0.1, ..patient }).await;
    assert_eq!(ids(&some), ["old-2%", "young-5%", "old-7%"]);
    queue.release(&some.fence, &some.jobs).await.unwrap();
    // What is due goes before, of whatever tier and without a wait; what does not fit is the least early.
    schedule(queue, &old().with_tier(1), 0, &["due"]).await;
    let mixed = batch(queue, ClaimRequest { limit: 4, early: 0.5, ..patient }).await;
    assert_eq!(ids(&mixed), ["due", "old-2%", "young-5%", "old-7%"]);
    let last = batch(queue, ClaimRequest { token: "b", early: 0.5, ..patient }).await;
    assert_eq!(ids(&last), ["young-20%", "old-30%"]);
    // What failed is repeated when it is due, whoever's turn it is.
    let failed: Vec<_> = last.jobs.iter().map(|job| (job.clone(), Verdict::Suspect { after: 60_000 })).collect();
    queue.settle(&last.fence, &failed, &[]).await.unwrap();
    for token in ["c", "d", "e", "f", "g"] {
        no_batch(queue, ClaimRequest { token, early: 0.5, ..patient }).await;
    }
}

pub(super) async fn a_promote_into_a_lane_of_another_kind_brings_the_kind(world: World) {
    let queue = &*world.one;
    let tier = newcomers().with_tier(3);
    schedule(queue, &young(), HOUR_MS, &["delayed"]).await;
    schedule(queue, &young(), 0, &["leased"]).await;
    let claimed = batch(queue, request("a")).await;
    let to = |id: &str| NewJob { id: id.into(), lane: tier.clone(), due: Due::At(7) };
    assert_eq!(
        queue.promote(&[to("delayed"), to("leased")]).await.unwrap(),
        [PromoteOutcome::Moved, PromoteOutcome::Noted]
    );
    assert_eq!(queue.settle(&claimed.fence, &reschedule(&claimed, &young(), 0), &[]).await.unwrap().settled, 1);
    assert_eq!(place(queue, "delayed").await, is_in(&tier, 7));
    assert_eq!(place(queue, "leased").await, is_in(&tier, 7));
    let of = |stats: &twitter_updater::engine::queue::Stats| {
        let lane = stats.lanes.iter().find(|lane| lane.lane == "newcomers").unwrap();
        (lane.order, lane.tier, lane.delayed)
    };
    assert_eq!(of(&queue.stats().await.unwrap()), (Order::NewestFirst, 3, 2));
    let again = batch(&*world.two, request("b")).await;
    assert_eq!(ids(&again), ["leased", "delayed"]);
    // The kind is what the last job said that was put into the lane.
    let plain = Lane::new("newcomers", HOUR);
    assert_eq!(queue.settle(&again.fence, &reschedule(&again, &plain, 0), &[]).await.unwrap().settled, 2);
    assert_eq!(of(&queue.stats().await.unwrap()), (Order::ByLateness, 0, 2));
}

pub(super) async fn many_newcomers_are_claimed_from_the_newest_on(world: World) {
    let queue = &*world.one;
    let names: Vec<String> = (0..1_200).map(|n| format!("{n:04}")).collect();
    let new =
        |(n, id): (usize, &String)| NewJob { id: id.clone(), lane: newcomers(), due: Due::At(1_000 + n as i64 / 3) };
    queue.schedule(&names.iter().enumerate().map(new).collect::<Vec<_>>()).await.unwrap();
    schedule_at(queue, &visits().with_tier(1), &[("visit", 0)]).await;
    let mut newest_first = names.iter().rev();
    for token in 0..13 {
        let claimed = batch(queue, request(&token.to_string())).await;
        let expected: Vec<&str> = newest_first.by_ref().take(100).map(String::as_str).collect();
        let expected = if expected.is_empty() { vec!["visit"] } else { expected };
        assert_eq!(ids(&claimed), expected, "batch {token}");
    }
    assert_eq!(queue.stats().await.unwrap().delayed, 0);
}
