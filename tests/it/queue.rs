//! The queue's contract: one suite, run on every backend.

mod embedded_only;
mod errors;
mod failover;
mod figures;
mod half_way;
mod idle_file;
mod kinds;
mod other_version;
mod promotes;
mod random;
mod redis_only;
mod repairs;
mod resharding;
mod samples;
mod suspects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use twitter_updater::base::backend::redis::{RedisOptions, RedisPool, Tls};
use twitter_updater::base::clock::{Millis, QueueTime, Stopwatch, wall_ms};
use twitter_updater::engine::queue::{
    Administration, Batch, Claim, ClaimRequest, Due, ERRORS_KEPT, EmbeddedQueue, ErrorRecords, Fence, HOUR_MS,
    HOURS_KEPT, Hour, Inbox, Incoming, Inspection, Job, Jobs, Lane, LaneDue, Lateness, MINUTE_MS, MINUTES_KEPT, Minute,
    NewJob, Order, PAGE_LIMIT, Place, PostponeOutcome, PromoteOutcome, Queue, QueueError, REFUSED_KEPT,
    REFUSED_KEPT_FOR, RecordedError, RedisQueue, RowRange, Sample, ScheduleOutcome, SettleOutcome, Verdict, Workers,
    suspect_limit, worker_name_of_token,
};
use twitter_updater::quota::PermitRequest;

use self::errors::*;
use self::figures::*;
use self::kinds::*;
use self::promotes::*;
use self::random::*;
use self::repairs::*;
use self::samples::*;
use self::suspects::*;
use crate::support::claim;
use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::queue_model::Rules;
use crate::support::redis::{Cluster, TestRedis, namespace, pool};
use crate::support::users::Guarded;

/// A request to a ledger for one call.
fn one_call(names: &[String]) -> PermitRequest<'_> {
    PermitRequest { endpoint: "e", permit: "p", expiry: Duration::from_secs(60), backlog: 0, names, fingerprints: &[] }
}

/// One queue, seen by two processes.
struct World {
    one: Arc<dyn Queue>,
    two: Arc<dyn Queue>,
    _folder: tempfile::TempDir,
}

fn world_at(redis: &str) -> World {
    let namespace = namespace();
    World {
        one: Arc::new(RedisQueue::new(pool(redis), &namespace)),
        two: Arc::new(RedisQueue::new(pool(redis), &namespace)),
        _folder: tempfile::tempdir().unwrap(),
    }
}

async fn redis_world() -> World {
    world_at(&TestRedis::shared().url)
}

async fn cluster_world() -> World {
    world_at(&Cluster::shared().await.url)
}

async fn embedded_world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let open = || async { EmbeddedQueue::open(&file, "test", Duration::from_secs(20)).await.unwrap() };
    World { one: Arc::new(open().await), two: Arc::new(open().await), _folder: folder }
}

/// The reference the others are compared with, and the queue of simulations.
async fn memory_world() -> World {
    let queue = Arc::new(MemoryQueue::new("test", ServiceClock::right(), Rules::default()));
    World { one: queue.clone(), two: queue, _folder: tempfile::tempdir().unwrap() }
}

/// Makes each scenario a test per backend.
macro_rules! contract {
    ($($scenario:ident),* $(,)?) => {
        mod on_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() { super::$scenario(super::redis_world().await).await; })*
        }
        mod as_the_deployed_user {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() { super::$scenario(super::world_at(&super::Guarded::shared().url("app"))).await; })*
        }
        mod on_a_cluster {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() { super::$scenario(super::cluster_world().await).await; })*
        }
        mod on_embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() { super::$scenario(super::embedded_world().await).await; })*
        }
        mod in_memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() { super::$scenario(super::memory_world().await).await; })*
        }
    };
}

contract!(
    schedule_says_where_each_id_is,
    a_batch_waits_to_fill_or_for_the_linger,
    the_wait_of_an_empty_claim_is_when_a_batch_is_ready,
    overload_is_shared_by_patience,
    a_short_batch_takes_what_is_due_soon,
    the_same_token_answers_the_same_batch,
    fences_are_unique_and_rise,
    each_verdict_puts_its_id_in_one_place,
    a_settle_after_the_lease_changes_nothing,
    an_expired_lease_needs_no_rescuer,
    an_expired_batch_is_halved_until_each_is_alone,
    release_gives_back_the_old_due_uncounted,
    counted_retries_travel_apart,
    a_success_clears_the_deliveries,
    only_a_trial_makes_a_lease_that_ran_out_a_failure,
    a_suspect_travels_apart_and_has_not_failed,
    an_orphan_that_is_tried_again_is_in_a_lane,
    suspects_have_one_call_in_four_while_others_wait,
    what_is_due_behind_many_suspects_keeps_its_place,
    the_turn_of_suspects_comes_also_while_there_are_none,
    suspects_whose_leases_ran_out_wait_for_their_turn_too,
    a_pause_stops_claims_and_nothing_else,
    incoming_is_read_by_one_drainer_and_moved_aside,
    stats_speak_the_words_of_the_keys,
    ids_that_cannot_be_are_refused,
    many_claimers_share_without_overlap,
    adopting_takes_what_is_nowhere_and_nothing_else,
    an_adoption_answers_the_same_again,
    an_adoption_that_is_left_alone_runs_out,
    revived_jobs_go_into_their_lanes_in_one_step,
    the_forgotten_are_nowhere_unless_leased,
    the_dead_are_listed_page_by_page,
    what_comes_due_is_counted_by_lane,
    minutes_are_told_one_by_one,
    minutes_are_added_to_their_hours_once,
    a_lease_names_the_worker_that_holds_it,
    random_commands_leave_each_id_in_one_place,
    claims_of_any_size_take_the_most_urgent,
    large_batches_work,
    the_delayed_move_and_are_due_no_later,
    a_postpone_makes_the_delayed_due_later_and_nothing_else,
    the_leased_are_noted_and_take_the_earlier_due,
    each_way_out_of_a_lease_takes_or_deletes_the_note,
    a_note_outlives_a_lease_that_ran_out,
    a_promote_of_the_same_id_twice_is_as_two_promotes,
    thousands_are_promoted_in_one_call,
    a_tally_is_counted_once_and_with_the_verdicts,
    a_sample_is_of_each_lane_and_of_the_leased,
    each_id_has_a_fair_chance_in_a_sample,
    due_times_out_of_bounds_are_mended_and_no_others,
    a_changed_interval_applies_to_waiting_jobs,
    nothing_is_mended_while_the_clock_is_behind_the_fences,
    a_due_time_may_be_a_moment_long_past,
    the_age_of_data_is_no_lateness,
    the_newest_goes_first_where_the_lane_says_so,
    a_lease_on_newcomers_that_ran_out_needs_no_rescuer,
    tiers_are_strict,
    a_batch_of_several_tiers_lingers_as_one,
    early_ids_make_a_batch_by_their_share,
    a_promote_into_a_lane_of_another_kind_brings_the_kind,
    many_newcomers_are_claimed_from_the_newest_on,
    errors_of_all_workers_add_up,
    errors_are_bounded_and_kept_for_a_week,
    forgotten_ids_and_handles_leave_the_errors,
);

fn young() -> Lane {
    Lane::new("young", Duration::from_secs(180))
}

fn old() -> Lane {
    Lane::new("old", Duration::from_secs(86_400))
}

fn request(token: &str) -> ClaimRequest<'_> {
    claim::at_once(token, 100, Duration::from_secs(60))
}

async fn schedule(queue: &dyn Queue, lane: &Lane, delay: Millis, ids: &[&str]) -> Vec<ScheduleOutcome> {
    let jobs: Vec<_> =
        ids.iter().map(|id| NewJob { id: (*id).to_owned(), lane: lane.clone(), due: delay.into() }).collect();
    queue.schedule(&jobs).await.unwrap()
}

/// Puts ids into lanes as if they had been due `late` ms ago. The queue must be idle otherwise.
async fn schedule_late(queue: &dyn Queue, jobs: &[(&Lane, Millis, &str)]) {
    for (lane, _, id) in jobs {
        schedule(queue, lane, 0, &[id]).await;
    }
    let batch = batch(queue, ClaimRequest { limit: jobs.len(), ..request("late") }).await;
    assert_eq!(batch.jobs.len(), jobs.len(), "nothing else may be due here");
    let late = |id: &str| jobs.iter().find(|(.., known)| *known == id).unwrap().1;
    let jobs: Vec<_> =
        batch.jobs.iter().map(|job| Job { due: batch.claimed_at - late(&job.id), ..job.clone() }).collect();
    queue.release(&batch.fence, &jobs).await.unwrap();
}

async fn batch(queue: &dyn Queue, request: ClaimRequest<'_>) -> Batch {
    match queue.claim(&request).await.unwrap() {
        Claim::Batch(batch) => batch,
        Claim::Empty { wait, paused } => panic!("no batch, wait {wait:?}, paused {paused:?}"),
    }
}

async fn no_batch(queue: &dyn Queue, request: ClaimRequest<'_>) -> Duration {
    match queue.claim(&request).await.unwrap() {
        Claim::Batch(batch) => panic!("a batch: {:?}", ids(&batch)),
        Claim::Empty { wait, .. } => wait,
    }
}

/// Claims again whenever the queue said it might be worth it.
async fn next_batch(queue: &dyn Queue, request: ClaimRequest<'_>) -> Batch {
    loop {
        match queue.claim(&request).await.unwrap() {
            Claim::Batch(batch) => return batch,
            Claim::Empty { wait, .. } => tokio::time::sleep(wait).await,
        }
    }
}

fn ids(batch: &Batch) -> Vec<&str> {
    batch.jobs.iter().map(|job| job.id.as_str()).collect()
}

fn sorted(batch: &Batch) -> BTreeSet<String> {
    batch.jobs.iter().map(|job| job.id.clone()).collect()
}

fn reschedule(batch: &Batch, lane: &Lane, delay: Millis) -> Vec<(Job, Verdict)> {
    let verdict = Verdict::Reschedule { lane: lane.clone(), due: delay.into() };
    batch.jobs.iter().map(|job| (job.clone(), verdict.clone())).collect()
}

fn job(id: &str) -> Job {
    Job { id: id.to_owned(), lane: "young".into(), due: 0, deliveries: 0, failures: 0, order: Default::default() }
}

async fn place(queue: &dyn Queue, id: &str) -> Option<Place> {
    let mut places = queue.locate(&[id.to_owned()]).await.unwrap().remove(0);
    assert!(places.len() <= 1, "{id} is in several places: {places:?}");
    places.pop()
}

/// Waits for the end of a lease, as the queue tells it.
async fn until_expired(queue: &dyn Queue) {
    while queue.stats().await.unwrap().expired == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn schedule_says_where_each_id_is(world: World) {
    let queue = &*world.one;
    assert_eq!(
        schedule(queue, &young(), 0, &["1", "2", "3", "1"]).await,
        [ScheduleOutcome::Scheduled, ScheduleOutcome::Scheduled, ScheduleOutcome::Scheduled, ScheduleOutcome::Known]
    );
    let claimed = batch(queue, ClaimRequest { limit: 2, ..request("a") }).await;
    let mark_dead = Verdict::MarkDead { reason: "it breaks the parser".into() };
    queue.settle(&claimed.fence, &[(claimed.jobs[0].clone(), mark_dead)], &[]).await.unwrap();
    let (dead, leased) = (claimed.jobs[0].id.as_str(), claimed.jobs[1].id.as_str());
    let known = ["1", "2", "3"].into_iter().find(|id| *id != dead && *id != leased).unwrap();
    // Also from another lane: an id is in one lane.
    assert_eq!(
        schedule(&*world.two, &old(), 5, &[dead, leased, known, "4"]).await,
        [ScheduleOutcome::Dead, ScheduleOutcome::Leased, ScheduleOutcome::Known, ScheduleOutcome::Scheduled]
    );
    assert!(matches!(place(queue, known).await, Some(Place::Delayed { lane, .. }) if lane == "young"));
    assert_eq!(queue.schedule(&[]).await.unwrap(), []);
}

async fn a_batch_waits_to_fill_or_for_the_linger(world: World) {
    let queue = &*world.one;
    let lingering = ClaimRequest { limit: 3, linger: Duration::from_millis(300), ..request("a") };
    let empty = no_batch(queue, lingering).await;
    assert_eq!(empty, lingering.linger, "with nothing scheduled, something may be scheduled meanwhile");

    schedule(queue, &young(), 0, &["1"]).await;
    let watch = Stopwatch::start();
    schedule(queue, &old(), 0, &["2"]).await;
    let wait = no_batch(queue, lingering).await;
    assert!(wait <= lingering.linger);
    let flushed = next_batch(queue, lingering).await;
    assert!(watch.elapsed() >= Duration::from_millis(290), "sent after {:?}", watch.elapsed());
    assert_eq!(sorted(&flushed), ["1".to_owned(), "2".to_owned()].into());

    // Three due over both lanes: no waiting, however long the linger.
    schedule(queue, &young(), 0, &["3", "4"]).await;
    schedule(queue, &old(), 0, &["5"]).await;
    let full = batch(queue, ClaimRequest { token: "b", linger: Duration::from_secs(3600), ..lingering }).await;
    assert_eq!(full.jobs.len(), 3);
}

async fn the_wait_of_an_empty_claim_is_when_a_batch_is_ready(world: World) {
    let queue = &*world.one;
    let patient = ClaimRequest { limit: 2, linger: Duration::from_secs(60), ..request("a") };
    schedule(queue, &young(), 200, &["1"]).await;
    schedule(queue, &old(), 400, &["2"]).await;
    let wait = no_batch(queue, patient).await;
    assert!(wait > Duration::from_millis(200) && wait <= Duration::from_millis(650), "two are due in 400 ms: {wait:?}");
    // Leased for a little: the next lease's end comes before anything else.
    let short = ClaimRequest { token: "b", lease: Duration::from_millis(500), ..patient };
    assert_eq!(next_batch(queue, short).await.jobs.len(), 2);
    let wait = no_batch(queue, ClaimRequest { token: "c", ..patient }).await;
    assert!(wait <= Duration::from_millis(500), "{wait:?}");
}

async fn overload_is_shared_by_patience(world: World) {
    let queue = &*world.one;
    // Late by 1.0, 0.5 and 0.1 of their interval; in absolute terms the other way round.
    let middle = Lane::new("middle", Duration::from_secs(3_600));
    let late = [(&old(), 8_640_000, "old-0.1"), (&young(), 180_000, "young-1.0"), (&middle, 1_800_000, "middle-0.5")];
    schedule_late(queue, &late).await;
    let first = batch(queue, ClaimRequest { limit: 2, ..request("a") }).await;
    assert_eq!(ids(&first), ["young-1.0", "middle-0.5"]);
    assert_eq!(&*first.jobs[0].lane, "young");
    let lateness = first.claimed_at - first.jobs[0].due;
    assert!((180_000..190_000).contains(&lateness), "{lateness}");
    assert_eq!(ids(&batch(queue, ClaimRequest { limit: 2, ..request("b") }).await), ["old-0.1"]);

    // A thousand old ones, late by 5 s, and three young ones that have just become due: 30 ms are
    // 0.017 % of three minutes, 5 s are 0.006 % of a day.
    let many: Vec<String> = (0..1_000).map(|n| format!("old{n}")).collect();
    let late: Vec<_> = many.iter().map(|id| (old(), 5_000, id.as_str())).collect();
    schedule_late(queue, &late.iter().map(|(lane, late, id)| (lane, *late, *id)).collect::<Vec<_>>()).await;
    schedule(queue, &young(), 0, &["y1", "y2", "y3"]).await;
    tokio::time::sleep(Duration::from_millis(30)).await; // lateness is a span of time: it has to pass
    let mixed = batch(queue, ClaimRequest { limit: 50, ..request("c") }).await;
    let first: BTreeSet<_> = ids(&mixed).into_iter().take(3).collect();
    assert_eq!(first, ["y1", "y2", "y3"].into(), "{:?}", ids(&mixed));
    assert_eq!(mixed.jobs.len(), 50);
}

async fn a_short_batch_takes_what_is_due_soon(world: World) {
    let queue = &*world.one;
    schedule(queue, &young(), 0, &["due"]).await;
    schedule(queue, &young(), 3_000, &["young+3s"]).await; // 1.7 % of 180 s
    schedule(queue, &young(), 10_000, &["young+10s"]).await; // 5.6 %: too early
    schedule(queue, &old(), 2_000, &["old+2s"]).await;
    schedule(queue, &old(), 12_000, &["old+12s"]).await; // 0.01 % of a day, and behind one that stays
    let short = batch(queue, ClaimRequest { lookahead: 0.02, ..request("a") }).await;
    let taken: BTreeSet<_> = ids(&short).into_iter().collect();
    assert_eq!(taken, ["due", "old+2s", "young+3s"].into());
    // Nothing due, only soon: early ids alone make no batch.
    queue.settle(&short.fence, &reschedule(&short, &young(), 1_000), &[]).await.unwrap();
    no_batch(queue, ClaimRequest { lookahead: 0.02, ..request("b") }).await;
}

async fn the_same_token_answers_the_same_batch(world: World) {
    let queue = &*world.one;
    schedule(queue, &young(), 0, &["1", "2", "3"]).await;
    let first = batch(queue, ClaimRequest { limit: 2, ..request("a") }).await;
    let again = batch(&*world.two, ClaimRequest { limit: 2, ..request("a") }).await;
    assert_eq!(again.fence, first.fence);
    assert_eq!(
        again.jobs.iter().map(|job| (&job.id, &job.lane, job.due)).collect::<BTreeSet<_>>(),
        first.jobs.iter().map(|job| (&job.id, &job.lane, job.due)).collect::<BTreeSet<_>>()
    );
    assert_eq!(queue.stats().await.unwrap().leased, 2);
    // What the claim no longer holds is not answered again.
    queue.settle(&first.fence, &reschedule(&first, &young(), 60_000)[..1], &[]).await.unwrap();
    assert_eq!(ids(&batch(queue, ClaimRequest { limit: 2, ..request("a") }).await), [first.jobs[1].id.as_str()]);
    // Settled as a whole, the token is a new claim.
    queue.settle(&first.fence, &reschedule(&first, &young(), 60_000)[1..], &[]).await.unwrap();
    let next = batch(queue, ClaimRequest { limit: 2, ..request("a") }).await;
    assert_ne!(next.fence.deadline, first.fence.deadline);
    assert_eq!(next.jobs.len(), 1);
}

async fn fences_are_unique_and_rise(world: World) {
    let names: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    schedule(&*world.one, &young(), 0, &names).await;
    let mut last = 0;
    for (n, token) in names.iter().enumerate() {
        let queue = if n % 2 == 0 { &world.one } else { &world.two };
        // A shorter lease would end before the last one's: it still rises.
        let lease = Duration::from_millis(60_000 - 1_000 * n as u64);
        let claimed = batch(&**queue, ClaimRequest { limit: 1, lease, ..request(token) }).await;
        assert!(claimed.fence.deadline > last);
        last = claimed.fence.deadline;
    }
}

async fn each_verdict_puts_its_id_in_one_place(world: World) {
    let queue = &*world.one;
    schedule(queue, &young(), 0, &["r", "f", "t", "c", "b", "h"]).await;
    let claimed = batch(queue, request("a")).await;
    let job = |id: &str| claimed.jobs.iter().find(|job| job.id == id).unwrap().clone();
    let settled = queue
        .settle(
            &claimed.fence,
            &[
                (job("r"), Verdict::Reschedule { lane: old(), due: 5_000.into() }),
                (job("f"), Verdict::Finish),
                (job("t"), Verdict::Retry { after: 7_000, counted: false }),
                (job("c"), Verdict::Retry { after: 9_000, counted: true }),
                (job("b"), Verdict::MarkDead { reason: "why not".into() }),
            ],
            &[],
        )
        .await
        .unwrap();
    assert_eq!(settled, SettleOutcome { settled: 5, lost: 0 });
    let now = queue.stats().await.unwrap().now_ms;
    let about = |due: Millis, delay: Millis| (now - 2_000..=now).contains(&(due - delay));
    assert!(
        matches!(place(queue, "r").await, Some(Place::Delayed { lane, due }) if lane == "old" && about(due, 5_000))
    );
    assert_eq!(place(queue, "f").await, None);
    assert!(
        matches!(place(queue, "t").await, Some(Place::Delayed { lane, due }) if lane == "young" && about(due, 7_000))
    );
    assert!(
        matches!(place(queue, "c").await, Some(Place::Delayed { lane, due }) if lane == "young" && about(due, 9_000))
    );
    assert!(matches!(place(queue, "b").await, Some(Place::Dead { reason, at }) if reason == "why not" && about(at, 0)));
    assert!(matches!(place(queue, "h").await, Some(Place::Leased { .. })), "the rest is still held");
    // The same settle again (its reply was lost): nothing moves.
    let again =
        queue.settle(&claimed.fence, &[(job("r"), Verdict::Finish), (job("b"), Verdict::Finish)], &[]).await.unwrap();
    assert_eq!(again, SettleOutcome { settled: 0, lost: 2 });
    assert!(place(queue, "r").await.is_some() && place(queue, "b").await.is_some());
    // An id the claim never had, and one twice.
    let stray = Job { id: "nobody".into(), ..job("h") };
    let last = queue
        .settle(
            &claimed.fence,
            &[(stray, Verdict::Finish), (job("h"), Verdict::Finish), (job("h"), Verdict::Finish)],
            &[],
        )
        .await
        .unwrap();
    assert_eq!(last.settled, 1);
    assert_eq!(last.lost, 2);
}

async fn a_settle_after_the_lease_changes_nothing(world: World) {
    let queue = &*world.one;
    schedule(queue, &young(), 0, &["1", "2"]).await;
    let slow = batch(queue, ClaimRequest { lease: Duration::from_millis(50), ..request("slow") }).await;
    until_expired(queue).await;
    // Run out, though nobody has claimed it since.
    let settled = queue.settle(&slow.fence, &reschedule(&slow, &old(), 1_000), &[]).await.unwrap();
    assert_eq!(settled, SettleOutcome { settled: 0, lost: 2 });
    let released = queue.release(&slow.fence, &slow.jobs).await.unwrap();
    assert_eq!(released, SettleOutcome { settled: 0, lost: 2 });
    let other = batch(&*world.two, ClaimRequest { limit: 4, ..request("other") }).await;
    assert_eq!(other.jobs.len(), 2);
    // Claimed by another: the late verdict is lost, theirs counts.
    assert_eq!(queue.settle(&slow.fence, &reschedule(&slow, &old(), 1_000), &[]).await.unwrap().lost, 2);
    assert!(matches!(place(queue, "1").await, Some(Place::Leased { fence, .. }) if fence == other.fence.deadline));
    assert_eq!(queue.settle(&other.fence, &reschedule(&other, &old(), 1_000), &[]).await.unwrap().settled, 2);
    assert_eq!(queue.stats().await.unwrap().counters["lost"], 6);
}

async fn an_expired_lease_needs_no_rescuer(world: World) {
    let queue = &*world.one;
    schedule(queue, &old(), 0, &["1", "2", "3"]).await;
    schedule(queue, &young(), 60_000, &["later"]).await;
    let lost = batch(queue, ClaimRequest { lease: Duration::from_millis(50), ..request("dies") }).await;
    // Exempt from linger, at once when the lease ends.
    let lingering = ClaimRequest { linger: Duration::from_secs(3_600), ..request("next") };
    assert!(no_batch(&*world.two, lingering).await <= Duration::from_millis(50));
    let taken = next_batch(&*world.two, lingering).await;
    assert_eq!(sorted(&taken), sorted(&lost));
    for job in &taken.jobs {
        assert_eq!((&*job.lane, job.deliveries), ("young", 1));
        assert!(job.due <= lost.claimed_at, "due at {}, claimed at {}", job.due, lost.claimed_at);
    }
    // The old token answers the dead worker's batch no longer.
    no_batch(queue, ClaimRequest { token: "dies", ..lingering }).await;
}

/// `step` sets the queue's clock ahead by so many seconds.
async fn what_is_given_back_while_the_clock_is_ahead_waits_for_nothing(queue: &dyn Queue, step: impl Fn(i64)) {
    schedule(queue, &young(), 0, &["1", "2"]).await;
    batch(queue, request("in flight when it jumps")).await;
    step(7_200);
    let taken = batch(queue, request("over at once")).await;
    assert_eq!(queue.release(&taken.fence, &taken.jobs).await.unwrap().settled, 2);
    step(0);
    assert_eq!(ids(&batch(queue, request("after")).await).len(), 2);
}

async fn an_expired_batch_is_halved_until_each_is_alone(world: World) {
    let queue = &*world.one;
    let names: Vec<String> = (0..16).map(|n| n.to_string()).collect();
    schedule(queue, &young(), 0, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    // "7" kills whoever handles it: its lease runs out, the others' are settled.
    let mut deaths = Vec::new();
    let mut buried = false;
    for round in 0..64 {
        let token = round.to_string();
        let (lease, linger) = (Duration::from_millis(1_500), Duration::from_secs(2));
        let claimed = match queue.claim(&ClaimRequest { limit: 16, lease, linger, ..request(&token) }).await.unwrap() {
            Claim::Batch(batch) => batch,
            Claim::Empty { .. } if queue.stats().await.unwrap().leased == 0 => break,
            Claim::Empty { wait, .. } => {
                tokio::time::sleep(wait).await;
                continue;
            }
        };
        let most = claimed.jobs.iter().map(|job| job.deliveries).max().unwrap();
        assert!(claimed.jobs.len() <= suspect_limit(16, most), "{} with {most} deliveries", claimed.jobs.len());
        if claimed.jobs.len() == 1 && claimed.jobs[0].id == "7" {
            assert_eq!(most, 4, "alone after log2(16) deaths");
            let mark_dead = [(claimed.jobs[0].clone(), Verdict::MarkDead { reason: "killed its worker".into() })];
            queue.settle(&claimed.fence, &mark_dead, &[]).await.unwrap();
            buried = true;
        } else if claimed.jobs.iter().any(|job| job.id == "7") {
            deaths.push(claimed.jobs.len());
        } else {
            queue.settle(&claimed.fence, &reschedule(&claimed, &young(), 3_600_000), &[]).await.unwrap();
        }
    }
    assert!(buried);
    assert_eq!(deaths, [16, 8, 4, 2]);
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.delayed, stats.leased, stats.dead), (15, 0, 1));
}

async fn release_gives_back_the_old_due_uncounted(world: World) {
    let queue = &*world.one;
    schedule_late(queue, &[(&old(), 5_000, "1"), (&old(), 5_000, "2")]).await;
    let first = batch(queue, request("a")).await;
    assert_eq!(queue.release(&first.fence, &first.jobs[..1]).await.unwrap(), SettleOutcome { settled: 1, lost: 0 });
    let again = batch(&*world.two, request("b")).await;
    assert_eq!(again.jobs, first.jobs[..1], "same lane, same due, no delivery");
    assert!(matches!(place(queue, &first.jobs[1].id).await, Some(Place::Leased { .. })));
}

async fn counted_retries_travel_apart(world: World) {
    let queue = &*world.one;
    let names: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    schedule(queue, &young(), 0, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let first = batch(queue, ClaimRequest { limit: 10, ..request("a") }).await;
    let verdicts: Vec<_> =
        first.jobs.iter().map(|job| (job.clone(), Verdict::Retry { after: 0, counted: *job.id < *"4" })).collect();
    queue.settle(&first.fence, &verdicts, &[]).await.unwrap();
    let mut batches = Vec::new();
    for token in ["b", "c", "d"] {
        if let Claim::Batch(batch) = queue.claim(&ClaimRequest { limit: 8, ..request(token) }).await.unwrap() {
            let suspects = batch.jobs.iter().filter(|job| job.deliveries > 0).count();
            assert!(suspects == 0 || suspects == batch.jobs.len(), "mixed: {:?}", batch.jobs);
            assert!(suspects <= 4, "half of 8");
            batches.push(batch.jobs.len());
        }
    }
    assert_eq!(batches.iter().sum::<usize>(), 10, "{batches:?}");
}

async fn a_success_clears_the_deliveries(world: World) {
    let queue = &*world.one;
    schedule(queue, &young(), 0, &["1"]).await;
    let claimed = batch(queue, request("a")).await;
    let retry = Verdict::Retry { after: 0, counted: true };
    queue.settle(&claimed.fence, &[(claimed.jobs[0].clone(), retry)], &[]).await.unwrap();
    let second = batch(queue, request("b")).await;
    assert_eq!(second.jobs[0].deliveries, 1);
    queue.settle(&second.fence, &reschedule(&second, &young(), 0), &[]).await.unwrap();
    assert_eq!(batch(queue, request("c")).await.jobs[0].deliveries, 0);
}

async fn a_pause_stops_claims_and_nothing_else(world: World) {
    let queue = &*world.one;
    schedule(queue, &young(), 0, &["1", "2"]).await;
    let held = batch(queue, ClaimRequest { limit: 1, ..request("a") }).await;
    queue.pause(Some("the database moves")).await.unwrap();
    match world.two.claim(&request("b")).await.unwrap() {
        Claim::Empty { paused, .. } => assert_eq!(paused.as_deref(), Some("the database moves")),
        Claim::Batch(_) => panic!("claimed while paused"),
    }
    assert_eq!(queue.stats().await.unwrap().paused.as_deref(), Some("the database moves"));
    assert_eq!(queue.settle(&held.fence, &reschedule(&held, &young(), 0), &[]).await.unwrap().settled, 1);
    assert_eq!(schedule(queue, &young(), 0, &["3"]).await, [ScheduleOutcome::Scheduled]);
    queue.pause(None).await.unwrap();
    assert_eq!(batch(&*world.two, request("b")).await.jobs.len(), 3);
}

async fn incoming_is_read_by_one_drainer_and_moved_aside(world: World) {
    let queue = &*world.one;
    assert_eq!(queue.read_incoming("w1", 10).await.unwrap(), []);
    let put = |member: &str, created_at| Incoming { member: member.into(), created_at };
    queue.add_incoming(&[put("11", 0), put("not an id", 5), put("", 6), put("12", 1_700_000_000_000)]).await.unwrap();
    let read = queue.read_incoming("w1", 3).await.unwrap();
    assert_eq!(read, [put("11", 0), put("not an id", 5), put("", 6)]);
    assert_eq!(world.two.read_incoming("w2", 10).await.unwrap(), [], "w1 is at it");
    queue.accept_incoming(&["11".into()]).await.unwrap();
    queue
        .refuse_incoming(&[("not an id".into(), "white space".into()), (String::new(), "empty".into())])
        .await
        .unwrap();
    assert_eq!(queue.read_incoming("w1", 10).await.unwrap(), [put("12", 1_700_000_000_000)]);
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.incoming, stats.incoming_refused), (1, 2));
}

async fn stats_speak_the_words_of_the_keys(world: World) {
    let queue = &*world.one;
    let empty = queue.stats().await.unwrap();
    assert_eq!((empty.delayed, empty.due, empty.leased, empty.dead, empty.oldest_lateness_ms), (0, 0, 0, 0, 0));
    schedule_late(queue, &[(&young(), 4_000, "1"), (&young(), 4_000, "2")]).await;
    schedule(queue, &old(), 60_000, &["3"]).await;
    batch(queue, ClaimRequest { limit: 1, ..request("a") }).await;
    queue.heartbeat("w1", &[("version", "1.2.3".into())], &[("requests", 3)], &Lateness::default()).await.unwrap();
    queue.heartbeat("w1", &[("version", "1.2.3".into())], &[("requests", 4)], &Lateness::default()).await.unwrap();
    let stats = world.two.stats().await.unwrap();
    assert_eq!((stats.delayed, stats.due, stats.leased, stats.expired, stats.dead), (2, 1, 1, 0, 0));
    assert!((4_000..60_000).contains(&stats.oldest_lateness_ms), "{}", stats.oldest_lateness_ms);
    let lanes: Vec<_> =
        stats.lanes.iter().map(|lane| (lane.lane.as_str(), lane.patience_ms, lane.delayed, lane.due)).collect();
    assert_eq!(lanes, [("young", 180_000, 1, 1), ("old", 86_400_000, 1, 0)]);
    assert_eq!(stats.counters["scheduled"], 3);
    assert_eq!(stats.counters["claims"], 2);
    assert_eq!(stats.counters["requests"], 7);
    assert_eq!(stats.workers.len(), 1);
    assert_eq!((stats.workers[0].worker.as_str(), stats.workers[0].fields["version"].as_str()), ("w1", "1.2.3"));
    assert!(stats.workers[0].beat_age_ms < 30_000);
    queue.deregister("w1").await.unwrap();
    assert_eq!(queue.stats().await.unwrap().workers, []);
}

async fn ids_that_cannot_be_are_refused(world: World) {
    for id in ["", "a b", "a\nb", "\u{7}", &"9".repeat(513)] {
        let job = NewJob { id: id.into(), lane: young(), due: 0.into() };
        assert!(matches!(world.one.schedule(&[job]).await, Err(QueueError::Refused(_))), "{id:?}");
    }
    let uri = "at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3l6oveex3ii2l";
    assert_eq!(schedule(&*world.one, &young(), 0, &[uri]).await, [ScheduleOutcome::Scheduled]);
    assert_eq!(ids(&batch(&*world.two, request("a")).await), [uri]);
}

async fn many_claimers_share_without_overlap(world: World) {
    let all: BTreeSet<String> = (0..3_000).map(|n| format!("{}", 10_000 + n)).collect();
    let jobs: Vec<_> = all
        .iter()
        .enumerate()
        .map(|(n, id)| NewJob { id: id.clone(), lane: if n % 3 == 0 { old() } else { young() }, due: 0.into() })
        .collect();
    world.one.schedule(&jobs).await.unwrap();
    let mut claimers = tokio::task::JoinSet::new();
    for claimer in 0..8 {
        let queue = if claimer % 2 == 0 { world.one.clone() } else { world.two.clone() };
        claimers.spawn(async move {
            let mut mine = Vec::new();
            for round in 0.. {
                let token = format!("{claimer}-{round}");
                match queue.claim(&request(&token)).await.unwrap() {
                    Claim::Batch(batch) => {
                        mine.extend(batch.jobs.iter().map(|job| job.id.clone()));
                        queue.settle(&batch.fence, &reschedule(&batch, &old(), 3_600_000), &[]).await.unwrap();
                    }
                    Claim::Empty { .. } => break,
                }
            }
            mine
        });
    }
    let mut seen = Vec::new();
    while let Some(mine) = claimers.join_next().await {
        seen.extend(mine.unwrap());
    }
    assert_eq!(seen.len(), 3_000, "each once");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), all);
    assert_eq!(world.one.stats().await.unwrap().delayed, 3_000);
}
