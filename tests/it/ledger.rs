//! The quota ledger's contract: one suite, run on every backend.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, SqliteConnection};
use twitter_updater::base::clock::{Millis, Stopwatch, wall_ms};
use twitter_updater::quota::{
    Budget, BudgetStatus, CallRecord, ChargedReads, CredentialStatus, DAY_MS, EmbeddedLedger, Grant, Ledger, Park,
    Period, PermitRequest, RedisLedger, Window,
};

use crate::support::memory_ledger::MemoryLedger;
use crate::support::memory_queue::ServiceClock;
use crate::support::redis::{Cluster, TestRedis, namespace, pool};
use crate::support::users::Guarded;
use crate::support::wait::until_true;

const ENDPOINT: &str = "statuses/lookup";

/// One ledger, seen by two processes.
struct World {
    one: Arc<dyn Ledger>,
    two: Arc<dyn Ledger>,
    _folder: tempfile::TempDir,
}

fn world_at(redis: &str) -> World {
    let provider = namespace();
    World {
        one: Arc::new(RedisLedger::new(pool(redis), &provider)),
        two: Arc::new(RedisLedger::new(pool(redis), &provider)),
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
    let open = || async { EmbeddedLedger::open(&file, "twitter", Duration::from_secs(20)).await.unwrap() };
    World { one: Arc::new(open().await), two: Arc::new(open().await), _folder: folder }
}

/// The ledger of simulations.
async fn memory_world() -> World {
    let ledger = Arc::new(MemoryLedger::new(ServiceClock::right()));
    World { one: ledger.clone(), two: ledger, _folder: tempfile::tempdir().unwrap() }
}

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
    an_unknown_window_is_opened_by_one_call,
    no_call_is_granted_twice,
    an_unused_permit_goes_back_by_an_explicit_return_only,
    the_same_permit_again_is_the_same_call,
    the_calls_that_expire_soonest_go_first,
    answers_may_overtake_each_other,
    an_end_that_varies_names_one_window,
    a_late_answer_of_an_ended_window_says_nothing,
    a_window_that_ended_is_opened_anew,
    a_parked_credential_leaves_the_others_working,
    quota_is_parked_per_endpoint,
    more_due_than_there_are_calls_is_spread,
    a_provider_without_limits_is_not_held_back,
    a_windows_length_is_the_longest_that_was_told,
    what_a_call_elsewhere_told_opens_the_window,
    a_parked_credential_is_freed_by_hand,
    pauses_grow_while_calls_are_refused,
    refusals_of_calls_under_way_count_once,
    another_secret_is_tried_at_once,
    accounts_tell_what_is_known,
    reads_are_granted_up_to_the_budget,
    what_was_read_today_is_free,
    forgotten_ids_are_removed_and_still_count,
    a_reservation_that_is_repeated_counts_once,
    what_was_not_read_goes_back_once,
    what_two_calls_asked_for_stays_counted,
    an_edited_post_counts_as_its_last_version,
    around_midnight_a_read_counts_for_both_days,
    a_period_of_a_part_of_a_day_begins_anew,
    no_read_is_granted_twice,
);

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn ask(ledger: &dyn Ledger, of: &[&str], permit: &str, backlog: u64) -> Grant {
    let names = names(of);
    let ask = PermitRequest {
        names: &names,
        fingerprints: &[],
        endpoint: ENDPOINT,
        permit,
        expiry: Duration::from_secs(60),
        backlog,
    };
    ledger.acquire(&ask).await.unwrap()
}

async fn granted(ledger: &dyn Ledger, of: &[&str], permit: &str) -> String {
    match ask(ledger, of, permit, 0).await {
        Grant::Granted(name) | Grant::Trial(name) => name,
        Grant::Wait(wait) => panic!("{permit} has to wait {wait:?}"),
    }
}

async fn refused(ledger: &dyn Ledger, of: &[&str]) -> Duration {
    match ask(ledger, of, "one too many", 0).await {
        Grant::Wait(wait) => wait,
        Grant::Granted(name) | Grant::Trial(name) => panic!("{name} was granted"),
    }
}

/// The window that ends in so long.
fn window(limit: u32, remaining: u32, reset_in: Millis) -> Window {
    Window { limit, remaining, reset_at: (wall_ms() + reset_in) / 1_000 * 1_000, reset_in, length: None }
}

async fn answered(ledger: &dyn Ledger, name: &str, permit: &str, window: Window) {
    let used = CallRecord { window: Some(window), ..CallRecord::default() };
    ledger.record_call(name, ENDPOINT, permit, &used).await.unwrap();
}

/// Opens the window of a credential: its first call is answered with it.
async fn open(ledger: &dyn Ledger, name: &str, window: Window) {
    assert_eq!(granted(ledger, &[name], "first").await, name);
    answered(ledger, name, "first", window).await;
}

async fn account(ledger: &dyn Ledger, name: &str) -> CredentialStatus {
    ledger.statuses(ENDPOINT, &names(&[name]), &[]).await.unwrap().remove(0)
}

async fn an_unknown_window_is_opened_by_one_call(world: World) {
    let ledger = &*world.one;
    assert_eq!(granted(ledger, &["a"], "1").await, "a");
    assert!(refused(&*world.two, &["a"]).await <= Duration::from_millis(50), "its answer is awaited");
    // The call failed without an answer: another may try.
    ledger.record_call("a", ENDPOINT, "1", &CallRecord::default()).await.unwrap();
    assert_eq!(granted(&*world.two, &["a"], "2").await, "a");
    answered(ledger, "a", "2", window(5, 4, 4_000)).await;
    for permit in ["3", "4", "5", "6"] {
        granted(ledger, &["a"], permit).await;
    }
    assert!(refused(ledger, &["a"]).await > Duration::from_secs(2), "until the reset");
}

async fn no_call_is_granted_twice(world: World) {
    open(&*world.one, "a", window(100, 80, 60_000)).await;
    open(&*world.one, "b", window(100, 50, 60_000)).await;
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let ledger = if worker % 2 == 0 { world.one.clone() } else { world.two.clone() };
        workers.spawn(async move {
            let mut mine = 0;
            while let Grant::Granted(_) = ask(&*ledger, &["a", "b"], &format!("{worker}-{mine}"), 0).await {
                mine += 1;
            }
            mine
        });
    }
    let mut sum = 0;
    while let Some(mine) = workers.join_next().await {
        sum += mine.unwrap();
    }
    assert_eq!(sum, 130);
}

async fn an_unused_permit_goes_back_by_an_explicit_return_only(world: World) {
    let ledger = &*world.one;
    open(ledger, "a", window(10, 2, 60_000)).await;
    granted(ledger, &["a"], "1").await;
    let of = names(&["a"]);
    let short = PermitRequest {
        names: &of,
        fingerprints: &[],
        endpoint: ENDPOINT,
        permit: "2",
        expiry: Duration::from_millis(1),
        backlog: 0,
    };
    assert_eq!(ledger.acquire(&short).await.unwrap(), Grant::Granted("a".into()));
    refused(ledger, &["a"]).await;
    // Its worker died: the call may have gone out.
    until_true("it has expired", Duration::from_secs(10), async || account(ledger, "a").await.outstanding == 1).await;
    refused(ledger, &["a"]).await;
    ledger.return_permit("a", ENDPOINT, "2").await.unwrap();
    refused(ledger, &["a"]).await;
    ledger.return_permit("a", ENDPOINT, "1").await.unwrap();
    ledger.return_permit("a", ENDPOINT, "1").await.unwrap(); // said again: counted once
    granted(&*world.two, &["a"], "3").await;
    refused(ledger, &["a"]).await;
}

async fn the_same_permit_again_is_the_same_call(world: World) {
    let ledger = &*world.one;
    open(ledger, "a", window(10, 2, 60_000)).await;
    for _ in 0..3 {
        assert_eq!(granted(&*world.two, &["a"], "1").await, "a");
    }
    assert_eq!(account(ledger, "a").await.remaining, Some(1));
}

async fn the_calls_that_expire_soonest_go_first(world: World) {
    let ledger = &*world.one;
    open(ledger, "late", window(10, 2, 50_000)).await;
    open(ledger, "soon", window(10, 2, 20_000)).await;
    let mut order = Vec::new();
    for permit in ["1", "2", "3", "4"] {
        order.push(granted(ledger, &["late", "soon"], permit).await);
    }
    assert_eq!(order, ["soon", "soon", "late", "late"]);
    assert!(refused(ledger, &["late", "soon"]).await <= Duration::from_secs(20), "the first reset");
    // Whose window is not known opens it before anything else expires.
    assert_eq!(granted(ledger, &["late", "soon", "new"], "5").await, "new");
}

async fn answers_may_overtake_each_other(world: World) {
    let ledger = &*world.one;
    let stated = window(30, 29, 60_000);
    open(ledger, "a", stated).await;
    for permit in ["1", "2", "3"] {
        granted(ledger, &["a"], permit).await;
    }
    // The third is answered first: its figure may hold the calls of the two others, or not.
    answered(ledger, "a", "3", Window { remaining: 26, ..stated }).await;
    assert_eq!(account(ledger, "a").await.remaining, Some(24), "what they may cost is held back");
    answered(ledger, "a", "1", Window { remaining: 28, ..stated }).await;
    assert_eq!(account(ledger, "a").await.remaining, Some(24));
    // All is quiet: the least figure is the truth.
    answered(ledger, "a", "2", Window { remaining: 27, ..stated }).await;
    assert_eq!(account(ledger, "a").await.remaining, Some(26));
    // Somebody else uses the same credential.
    granted(ledger, &["a"], "4").await;
    answered(ledger, "a", "4", Window { remaining: 3, ..stated }).await;
    assert_eq!(account(ledger, "a").await.remaining, Some(3));
}

async fn an_end_that_varies_names_one_window(world: World) {
    let ledger = &*world.one;
    let stated = window(30, 29, 600_000);
    open(ledger, "a", stated).await;
    for permit in ["1", "2", "3"] {
        granted(ledger, &["a"], permit).await;
    }
    // The end is calculated for each answer, and two answers overtake each other.
    let at = |by: Millis, remaining| Window { remaining, reset_at: stated.reset_at + by, ..stated };
    for (permit, by, left, kept) in [("3", 1_999, 20, 18), ("1", -1_999, 22, 18), ("2", 1_000, 21, 20)] {
        answered(ledger, "a", permit, at(by, left)).await;
        assert_eq!(account(ledger, "a").await.remaining, Some(kept), "{permit}");
    }
    // Calls stay spread: the next may go out in half a minute.
    granted(ledger, &["a"], "4").await;
    answered(ledger, "a", "4", at(1_500, 19)).await;
    assert!(matches!(ask(ledger, &["a"], "5", 1_000).await, Grant::Wait(_)));
    // Two seconds later is another window, and so is another limit.
    answered(ledger, "a", "", at(2_000, 29)).await;
    assert_eq!(account(ledger, "a").await.remaining, Some(29));
    answered(ledger, "a", "", Window { limit: 40, ..at(2_001, 39) }).await;
    let known = account(ledger, "a").await;
    assert_eq!((known.limit, known.remaining), (Some(40), Some(39)));
    // Windows of a second stay apart: one that has ended is followed by another.
    open(ledger, "b", Window { reset_in: 0, ..at(0, 0) }).await;
    granted(ledger, &["b"], "1").await;
    answered(ledger, "b", "1", at(1_000, 4)).await;
    assert_eq!(account(ledger, "b").await.remaining, Some(4));
}

async fn a_late_answer_of_an_ended_window_says_nothing(world: World) {
    let ledger = &*world.one;
    let now = window(30, 20, 60_000);
    open(ledger, "a", now).await;
    granted(ledger, &["a"], "slow").await;
    let before = Window { remaining: 0, reset_at: now.reset_at - 900_000, reset_in: 1, ..now };
    answered(ledger, "a", "slow", before).await;
    assert_eq!(account(ledger, "a").await.remaining, Some(19));
}

async fn a_window_that_ended_is_opened_anew(world: World) {
    let ledger = &*world.one;
    open(ledger, "a", window(2, 1, 400)).await;
    granted(ledger, &["a"], "1").await;
    let wait = refused(ledger, &["a"]).await;
    assert!(wait <= Duration::from_millis(400), "{wait:?}");
    tokio::time::sleep(wait).await; // as told
    granted(ledger, &["a"], "2").await;
    refused(ledger, &["a"]).await; // "2" opens it
    let next = Window { reset_at: wall_ms() + 60_000, ..window(2, 1, 60_000) };
    answered(ledger, "a", "2", next).await;
    // "1" has not been heard of: it may have gone out in this window as well.
    assert_eq!(account(ledger, "a").await.remaining, Some(0));
    ledger.record_call("a", ENDPOINT, "1", &CallRecord::default()).await.unwrap();
    assert_eq!(account(ledger, "a").await.limit, Some(2));
}

fn parked(everywhere: bool) -> CallRecord {
    let park = Park { pause: Duration::from_secs(600), why: "HTTP 401, code 89".into(), everywhere };
    CallRecord { park: Some(park), ..CallRecord::default() }
}

async fn a_parked_credential_leaves_the_others_working(world: World) {
    let ledger = &*world.one;
    open(ledger, "a", window(10, 9, 60_000)).await;
    open(ledger, "b", window(10, 9, 90_000)).await;
    assert_eq!(granted(ledger, &["a", "b"], "1").await, "a");
    ledger.record_call("a", ENDPOINT, "1", &parked(true)).await.unwrap();
    assert_eq!(granted(&*world.two, &["a", "b"], "2").await, "b");
    assert_eq!(refused(ledger, &["a"]).await, Duration::from_secs(5), "somebody may free it");
    let parked = account(ledger, "a").await;
    assert!((590_000..=600_000).contains(&parked.parked_for_ms));
    assert_eq!(parked.parked_why.as_deref(), Some("HTTP 401, code 89"));
    assert_eq!(account(ledger, "b").await.parked_why, None);
    // For every endpoint.
    let of = names(&["a"]);
    let elsewhere = PermitRequest {
        names: &of,
        fingerprints: &[],
        endpoint: "other",
        permit: "3",
        expiry: Duration::from_secs(9),
        backlog: 0,
    };
    assert!(matches!(ledger.acquire(&elsewhere).await.unwrap(), Grant::Wait(_)));
}

async fn quota_is_parked_per_endpoint(world: World) {
    let ledger = &*world.one;
    granted(ledger, &["a"], "1").await;
    ledger.record_call("a", ENDPOINT, "1", &parked(false)).await.unwrap();
    refused(ledger, &["a"]).await;
    let of = names(&["a"]);
    let elsewhere = PermitRequest {
        names: &of,
        fingerprints: &[],
        endpoint: "other",
        permit: "2",
        expiry: Duration::from_secs(9),
        backlog: 0,
    };
    assert_eq!(ledger.acquire(&elsewhere).await.unwrap(), Grant::Granted("a".into()));
}

async fn more_due_than_there_are_calls_is_spread(world: World) {
    let ledger = &*world.one;
    open(ledger, "a", window(20, 10, 2_000)).await;
    // Fewer due than there are calls: at once.
    for permit in ["1", "2"] {
        assert!(matches!(ask(ledger, &["a"], permit, 8).await, Grant::Granted(_)));
    }
    // More: one now, the next after an eighth of what is left of the window, and so on to its end.
    let watch = Stopwatch::start();
    let mut times = Vec::new();
    while times.len() < 8 {
        match ask(ledger, &["a"], &format!("paced {}", times.len()), 1_000).await {
            Grant::Granted(_) | Grant::Trial(_) => times.push(watch.elapsed_ms()),
            Grant::Wait(wait) => tokio::time::sleep(wait).await,
        }
    }
    let gaps: Vec<Millis> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(times[7] < 2_000, "all of them before the reset: {times:?}");
    assert!(times[7] > 1_000, "not in one burst: {times:?}");
    assert!(gaps.iter().all(|gap| *gap >= 50), "{gaps:?}");
}

async fn a_provider_without_limits_is_not_held_back(world: World) {
    let ledger = &*world.one;
    granted(ledger, &["a"], "1").await;
    answered(ledger, "a", "1", Window::unmetered()).await;
    for permit in 0..200 {
        assert!(matches!(ask(ledger, &["a"], &permit.to_string(), 1_000_000).await, Grant::Granted(_)));
    }
    let account = account(ledger, "a").await;
    assert_eq!((account.limit, account.remaining, account.outstanding), (None, None, 200));
    assert_eq!((account.unmetered, account.window_ms, account.reset_in_ms), (true, None, None));
}

async fn a_windows_length_is_the_longest_that_was_told(world: World) {
    let ledger = &*world.one;
    let length = async || account(ledger, "a").await.window_ms;
    assert_eq!(length().await, None);
    // Nobody knows how long it has been open: it is at least as long as what is left of it.
    let joined = window(30, 12, 40_000);
    open(ledger, "a", joined).await;
    assert_eq!(length().await, Some(40_000));
    granted(ledger, &["a"], "1").await;
    answered(ledger, "a", "1", Window { remaining: 11, reset_in: 39_000, ..joined }).await;
    assert_eq!(length().await, Some(40_000));
    // The next one's opening answer tells it whole; later answers tell less.
    let next = window(30, 29, 90_000);
    for (permit, left) in [("2", next), ("3", Window { remaining: 28, reset_in: 60_000, ..next })] {
        granted(&*world.two, &["a"], permit).await;
        answered(ledger, "a", permit, left).await;
        assert_eq!(length().await, Some(90_000), "{permit}");
    }
    // Another plan, of other windows.
    granted(ledger, &["a"], "4").await;
    answered(ledger, "a", "4", Window { reset_at: next.reset_at + 9_000, ..window(60, 59, 50_000) }).await;
    assert_eq!((length().await, account(ledger, "a").await.limit), (Some(50_000), Some(60)));
    // A minute without limits is nobody's length.
    granted(ledger, &["b"], "1").await;
    answered(ledger, "b", "1", Window::unmetered()).await;
    granted(ledger, &["b"], "2").await;
    answered(ledger, "b", "2", Window { reset_at: wall_ms() + 90_000, ..window(15, 14, 30_000) }).await;
    assert_eq!(account(ledger, "b").await.window_ms, Some(30_000));
    // What the API states is right from the first answer on, in the middle of a window, and after answers that did not state it.
    let stated = Window { length: Some(300_000), ..window(3_000, 2_000, 20_000) };
    for name in ["c", "b"] {
        granted(ledger, &[name], "5").await;
        let reset_at = wall_ms() + 120_000;
        answered(ledger, name, "5", Window { reset_at, ..stated }).await;
        assert_eq!(account(ledger, name).await.window_ms, Some(300_000), "{name}");
        granted(ledger, &[name], "6").await;
        answered(ledger, name, "6", Window { reset_at, remaining: 1_999, reset_in: 19_000, length: None, ..stated })
            .await;
        assert_eq!(account(ledger, name).await.window_ms, Some(300_000), "{name}");
        granted(ledger, &[name], "7").await;
        answered(
            ledger,
            name,
            "7",
            Window { reset_at, remaining: 1_998, reset_in: 18_000, length: Some(60_000), ..stated },
        )
        .await;
        assert_eq!(account(ledger, name).await.window_ms, Some(60_000), "{name}: it states another");
    }
}

async fn what_a_call_elsewhere_told_opens_the_window(world: World) {
    let ledger = &*world.one;
    let record = async |of: &str, used: CallRecord| ledger.record_call(of, ENDPOINT, "", &used).await.unwrap();
    let left = window(30, 20, 60_000);
    record("a", CallRecord { window: Some(left), ..CallRecord::default() }).await;
    let known = account(ledger, "a").await;
    assert_eq!((known.limit, known.remaining, known.outstanding, known.calls_today), (Some(30), Some(20), 0, 0));
    // It may not have counted the calls that are under way.
    granted(ledger, &["a"], "1").await;
    granted(ledger, &["a"], "2").await;
    record("a", CallRecord { window: Some(left), ..CallRecord::default() }).await;
    let known = account(&*world.two, "a").await;
    assert_eq!((known.remaining, known.outstanding), (Some(18), 2));
    // The call that opens a window goes on doing so, whatever else is learnt meanwhile.
    let watch = Stopwatch::start();
    assert_eq!(granted(ledger, &["b"], "opening").await, "b");
    record("b", CallRecord::default()).await;
    let second = ask(ledger, &["b"], "another", 0).await;
    // (Its answer is awaited for a second.)
    assert!(matches!(second, Grant::Wait(_)) || watch.elapsed() >= Duration::from_secs(1));
    // Who is refused is parked.
    record("a", parked(true)).await;
    refused(ledger, &["a"]).await;
}

async fn a_parked_credential_is_freed_by_hand(world: World) {
    let ledger = &*world.one;
    assert!(!ledger.unpark("a", "").await.unwrap(), "the credential is unknown");
    open(ledger, "a", window(10, 9, 60_000)).await;
    assert!(!ledger.unpark("a", "").await.unwrap(), "it is not parked");
    ledger.record_call("a", ENDPOINT, "", &parked(true)).await.unwrap();
    ledger.record_call("b", ENDPOINT, "", &parked(true)).await.unwrap();
    let before = account(ledger, "a").await;
    assert!(before.parked_everywhere && before.parked_for_ms > 0, "{before:?}");
    assert!(world.two.unpark("a", "").await.unwrap());
    let free = account(ledger, "a").await;
    assert_eq!((free.parked_for_ms, free.parked_why, free.parked_everywhere), (0, None, false));
    assert_eq!((free.remaining, free.calls_today), (Some(9), 1), "the rest is as it was");
    assert_eq!(granted(ledger, &["a", "b"], "1").await, "a");
    refused(ledger, &["b"]).await;
    // Its quota stays parked where it is.
    ledger.record_call("a", ENDPOINT, "1", &parked(false)).await.unwrap();
    assert!(!world.two.unpark("a", "").await.unwrap());
    refused(ledger, &["a"]).await;
    let known = account(ledger, "a").await;
    assert!(known.parked_for_ms > 0 && !known.parked_everywhere, "{known:?}");
    // Parked again, for both: freed of the one.
    ledger.record_call("a", ENDPOINT, "", &parked(true)).await.unwrap();
    assert!(ledger.unpark("a", "").await.unwrap());
    assert!(account(ledger, "a").await.parked_for_ms > 0);
}

/// A refusal that states this pause, for the secret of that fingerprint.
fn refusal(pause_ms: u64, everywhere: bool, fingerprint: &str) -> CallRecord {
    let park = Park { pause: Duration::from_millis(pause_ms), why: "HTTP 429".into(), everywhere };
    CallRecord { park: Some(park), fingerprint: fingerprint.into(), ..CallRecord::default() }
}

/// Acquires a permit as soon as there is one.
async fn in_time(ledger: &dyn Ledger, of: &[&str], permit: &str) -> Grant {
    loop {
        match ask(ledger, of, permit, 0).await {
            Grant::Wait(wait) => tokio::time::sleep(wait).await,
            granted => return granted,
        }
    }
}

async fn pauses_grow_while_calls_are_refused(world: World) {
    let (one, two) = (&*world.one, &*world.two);
    open(one, "b", window(900, 800, 600_000)).await;
    // Processes share the pauses. `Retry-After: 0` or a window with calls left does not shorten them.
    for (refused, (ledger, seconds)) in [(one, 1), (two, 2), (one, 4)].into_iter().enumerate() {
        let permit = format!("refused {refused}");
        let name = "a".to_owned();
        let expected = if refused == 0 { Grant::Granted(name) } else { Grant::Trial(name) };
        assert_eq!(in_time(ledger, &["a"], &permit).await, expected);
        assert_eq!(ask(ledger, &["a"], &permit, 0).await, expected, "the same permit again, after a lost reply");
        let left = Window { remaining: 800, ..window(900, 800, 600_000) };
        let used = CallRecord { window: Some(left), ..refusal(0, false, "") };
        ledger.record_call("a", ENDPOINT, &permit, &used).await.unwrap();
        let known = account(one, "a").await.parked_for_ms;
        assert!((seconds * 1_000 - 900..=seconds * 1_000).contains(&known), "refusal {refused}: {known} ms");
    }
    assert_eq!(granted(two, &["a", "b"], "another").await, "b", "another credential is not slowed");
    // Then calls are granted one at a time, as trials. A trial's answer is awaited for longer than that of a call that opens a window.
    let watch = Stopwatch::start();
    in_time(two, &["a"], "trial").await;
    for _ in 0..24 {
        tokio::time::sleep(refused(one, &["a"]).await).await;
    }
    answered(two, "a", "trial", window(900, 799, 600_000)).await;
    in_time(one, &["a"], "another trial").await;
    assert!(refused(two, &["a"]).await <= Duration::from_millis(50));
    // The recovery is complete after answers for as long as the pause was.
    while watch.elapsed_ms() < 8_000 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    answered(one, "a", "another trial", window(900, 798, 600_000)).await;
    for permit in ["1", "2", "3"] {
        granted(two, &["a"], permit).await;
    }
    // The next refusal counts as the first. A longer pause that an answer states is kept.
    one.record_call("a", ENDPOINT, "1", &refusal(0, false, "")).await.unwrap();
    assert!(account(two, "a").await.parked_for_ms <= 1_000);
    two.record_call("a", ENDPOINT, "2", &refusal(100_000, false, "")).await.unwrap();
    assert!(account(one, "a").await.parked_for_ms > 90_000);
}

async fn refusals_of_calls_under_way_count_once(world: World) {
    let ledger = &*world.one;
    open(ledger, "a", window(900, 800, 600_000)).await;
    let permits: Vec<String> = (0..8).map(|number| number.to_string()).collect();
    for permit in &permits {
        granted(ledger, &["a"], permit).await;
    }
    for permit in &permits {
        ledger.record_call("a", ENDPOINT, permit, &refusal(0, false, "")).await.unwrap();
    }
    let known = account(&*world.two, "a").await.parked_for_ms;
    assert!(known <= 1_000, "{known} ms");
}

async fn another_secret_is_tried_at_once(world: World) {
    let ledger = &*world.one;
    let asks = async |name: &str, fingerprint: &str, endpoint: &str, permit: &str| {
        let (names, fingerprints) = (names(&[name]), names(&[fingerprint]));
        let expiry = Duration::from_secs(60);
        let ask = PermitRequest { names: &names, fingerprints: &fingerprints, endpoint, permit, expiry, backlog: 0 };
        ledger.acquire(&ask).await.unwrap()
    };
    for (name, endpoint, everywhere) in [("a", "everywhere", true), ("b", "here", false)] {
        let is_granted = async |fingerprint: &str, permit: &str| {
            !matches!(asks(name, fingerprint, endpoint, permit).await, Grant::Wait(_))
        };
        let refuse = async |fingerprint: &str, permit: &str| {
            let used = refusal(600_000, everywhere, fingerprint);
            ledger.record_call(name, endpoint, permit, &used).await.unwrap();
        };
        let parked = async |of: &[String]| {
            let known = world.two.statuses(endpoint, &names(&[name]), of).await.unwrap().remove(0);
            known.parked_for_ms > 0
        };
        assert!(is_granted("old", "1").await);
        refuse("old", "1").await;
        assert!(!is_granted("old", "2").await && parked(&[]).await && parked(&names(&["old"])).await);
        assert!(!parked(&names(&["new"])).await, "a process that starts with the new secret is not parked");
        assert!(is_granted("new", "3").await, "{endpoint}");
        assert!(!parked(&[]).await, "without a fingerprint, the status is that of the last secret");
        // Two processes with different secrets do not end each other's pauses.
        refuse("new", "3").await;
        assert!(!is_granted("old", "4").await && !is_granted("new", "5").await, "{endpoint}");
        assert!(is_granted("third", "6").await);
        ledger.return_permit(name, endpoint, "6").await.unwrap();
        assert_eq!(ledger.unpark(name, "old").await.unwrap(), everywhere);
        assert_eq!(is_granted("old", "7").await, everywhere);
        assert!(!is_granted("new", "8").await);
    }
}

async fn accounts_tell_what_is_known(world: World) {
    let ledger = &*world.one;
    open(ledger, "a", window(900, 880, 60_000)).await;
    granted(ledger, &["a"], "1").await;
    let accounts = world.two.statuses(ENDPOINT, &names(&["b", "a"]), &[]).await.unwrap();
    assert_eq!(accounts[0], CredentialStatus { name: "b".into(), ..CredentialStatus::default() });
    let a = &accounts[1];
    assert_eq!((a.limit, a.remaining, a.outstanding, a.calls_today), (Some(900), Some(879), 1, 2));
    assert!((50_000..=60_000).contains(&a.reset_in_ms.unwrap()));
    // Of a window that has ended, the limit is known and nothing else.
    open(ledger, "c", Window { reset_at: wall_ms(), ..window(300, 299, 0) }).await;
    let over = account(ledger, "c").await;
    assert_eq!((over.limit, over.remaining, over.reset_in_ms, over.unmetered), (Some(300), None, None, false));
    ledger.return_permit("a", ENDPOINT, "1").await.unwrap();
    assert_eq!(account(ledger, "a").await.calls_today, 1, "it was not made");
}

#[tokio::test]
async fn a_file_of_another_version_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let open_ledger = async || EmbeddedLedger::open(&file, "twitter", Duration::from_secs(20)).await;
    open(&open_ledger().await.unwrap(), "a", window(30, 12, 40_000)).await;
    let mut plain = SqliteConnection::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    for table in ["credential", "window", "permit", "reads", "charged", "period"] {
        let rename = |from, to| sqlx::AssertSqlSafe(format!("ALTER TABLE quota_{table} RENAME COLUMN {from} TO {to}"));
        sqlx::query(rename("api", "provider")).execute(&mut plain).await.unwrap();
        let error = open_ledger().await.unwrap_err().to_string();
        assert!(error.contains(&format!("the table quota_{table}")) && !error.contains('\n'), "{error}");
        sqlx::query(rename("provider", "api")).execute(&mut plain).await.unwrap();
    }
    assert_eq!(account(&open_ledger().await.unwrap(), "a").await.remaining, Some(12));
}

/// A budget whose days are distinguished at midnight to the ms.
fn budget(reads: u64) -> Budget {
    Budget { reads, per: Period::Month { from_day: 1 }, margin: 0, price_per_read: 0.005 }
}

async fn reads(ledger: &dyn Ledger, budget: &Budget) -> BudgetStatus {
    budget.status(&ledger.counted_reads(budget.per).await.unwrap())
}

async fn reserve(ledger: &dyn Ledger, call: &str, ids: &[&str], budget: &Budget) -> Vec<bool> {
    ledger.reserve(call, &names(ids), budget).await.unwrap()
}

async fn unread(ledger: &dyn Ledger, call: &str, ids: &[&str], budget: &Budget) {
    let charged = ChargedReads { unread: names(ids), edited: Vec::new() };
    ledger.charge(call, &charged, budget).await.unwrap();
}

/// A midnight that passes in the middle of a scenario would count what is free.
async fn far_from_midnight() {
    let left = DAY_MS - wall_ms().rem_euclid(DAY_MS);
    if left < 10_000 {
        tokio::time::sleep(Duration::from_millis(left as u64 + 10)).await;
    }
}

async fn reads_are_granted_up_to_the_budget(world: World) {
    far_from_midnight().await;
    let (ledger, three) = (&*world.one, budget(3));
    let fresh = reads(ledger, &three).await;
    assert_eq!((fresh.reads, fresh.limit, fresh.spent, fresh.has_room, fresh.today), (0, Some(3), false, true, 0));
    assert!(fresh.reset_in_ms > 0 && fresh.reset_in_ms <= 31 * DAY_MS);
    assert_eq!(reserve(ledger, "1", &["a", "b"], &three).await, [true, true]);
    assert_eq!(reserve(&*world.two, "2", &["c", "d", "e"], &three).await, [true, false, false], "the first that fit");
    let spent = reads(&*world.two, &three).await;
    assert_eq!((spent.reads, spent.spent, spent.has_room, spent.today, spent.dollars), (3, true, false, 3, 0.015));
    // Raised, it goes on; without a bound, too.
    assert!(reads(ledger, &budget(4)).await.has_room);
    assert_eq!(reserve(ledger, "3", &["d", "e"], &budget(4)).await, [true, false]);
    let endless = budget(0);
    assert_eq!(reserve(ledger, "4", &["e", "f"], &endless).await, [true, true]);
    let all = reads(ledger, &endless).await;
    assert_eq!((all.reads, all.limit, all.spent, all.has_room), (6, None, false, true));
    // By the day it is the same reads.
    let daily = Budget { per: Period::Every(DAY_MS), ..three };
    assert_eq!(reads(ledger, &daily).await.reads, 6);
}

async fn what_was_read_today_is_free(world: World) {
    far_from_midnight().await;
    let (ledger, two) = (&*world.one, budget(2));
    assert_eq!(reserve(ledger, "1", &["a", "b"], &two).await, [true, true]);
    assert_eq!(reserve(&*world.two, "2", &["b", "c", "a"], &two).await, [true, false, true]);
    // An id that comes twice is one read.
    assert_eq!(reserve(ledger, "3", &["d", "d"], &budget(3)).await, [true, true]);
    assert_eq!(reads(ledger, &two).await.reads, 3);
}

async fn forgotten_ids_are_removed_and_still_count(world: World) {
    far_from_midnight().await;
    let (ledger, four) = (&*world.one, budget(4));
    assert_eq!(reserve(ledger, "1", &["user:7", "user:7:2", "a"], &four).await, [true, true, true]);
    let ids = ["user:7", "user:7:2", "b"].map(str::to_owned);
    assert_eq!(world.two.forget(&ids).await.unwrap(), 2);
    assert_eq!(world.two.forget(&ids).await.unwrap(), 0);
    assert_eq!(reads(ledger, &four).await.reads, 3);
    // The budget has room for one more: `a` is known still, the forgotten ids are new.
    assert_eq!(reserve(ledger, "2", &["a", "user:7", "user:7:2"], &four).await, [true, true, false]);
}

async fn a_reservation_that_is_repeated_counts_once(world: World) {
    far_from_midnight().await;
    let (ledger, two) = (&*world.one, budget(2));
    for _ in 0..3 {
        assert_eq!(reserve(ledger, "1", &["a", "b", "c"], &two).await, [true, true, false]);
    }
    assert_eq!(reads(ledger, &two).await.reads, 2);
}

async fn what_was_not_read_goes_back_once(world: World) {
    far_from_midnight().await;
    let (ledger, three) = (&*world.one, budget(3));
    reserve(ledger, "1", &["a", "b", "c"], &three).await;
    reserve(ledger, "1", &["a", "b", "c"], &three).await; // its reply was lost
    for _ in 0..2 {
        unread(&*world.two, "1", &["a", "b"], &three).await;
        assert_eq!(reads(ledger, &three).await.reads, 1);
    }
    // Neither another call's, nor what was never counted.
    unread(ledger, "2", &["c", "x"], &three).await;
    assert_eq!(reads(ledger, &three).await.reads, 1);
    assert_eq!(reserve(ledger, "2", &["a", "d", "e"], &three).await, [true, true, false]);
    // "1" says it again, late: that is "2"'s by now.
    unread(ledger, "1", &["a"], &three).await;
    assert_eq!(reads(ledger, &three).await.reads, 3);
}

async fn what_two_calls_asked_for_stays_counted(world: World) {
    far_from_midnight().await;
    let (ledger, three) = (&*world.one, budget(3));
    reserve(ledger, "1", &["a", "b"], &three).await;
    reserve(&*world.two, "2", &["a"], &three).await;
    // Either may have been charged.
    unread(ledger, "1", &["a", "b"], &three).await;
    unread(ledger, "2", &["a"], &three).await;
    assert_eq!(reads(ledger, &three).await.reads, 1);
    // An id that was not granted is nobody's.
    reserve(ledger, "3", &["c", "d"], &three).await;
    assert_eq!(reserve(ledger, "4", &["c", "e"], &three).await, [true, false]);
    unread(ledger, "4", &["e"], &three).await;
    assert_eq!(reads(ledger, &three).await.reads, 3);
}

async fn an_edited_post_counts_as_its_last_version(world: World) {
    far_from_midnight().await;
    let (ledger, two) = (&*world.one, budget(2));
    let edited = |as_id: &str| ChargedReads { unread: vec![], edited: vec![("a".to_owned(), as_id.to_owned())] };
    for (call, version, charged) in [("1", "b", 1), ("2", "b", 1), ("3", "c", 2), ("4", "c", 2)] {
        assert_eq!(reserve(ledger, call, &["a"], &budget(3)).await, [true]);
        for _ in 0..2 {
            ledger.charge(call, &edited(version), &two).await.unwrap(); // said again: the same
        }
        assert_eq!(reads(ledger, &two).await.reads, charged, "{call}");
    }
    // What was charged is counted, whatever room there is.
    ledger.charge("never counted", &edited("d"), &two).await.unwrap();
    assert_eq!(reads(ledger, &two).await.reads, 3);
}

async fn around_midnight_a_read_counts_for_both_days(world: World) {
    far_from_midnight().await;
    // As if the next midnight, or the last one, were within what nobody knows.
    let since = wall_ms().rem_euclid(DAY_MS);
    let margin = since.min(DAY_MS - since) + 9_000;
    let (ledger, long) = (&*world.one, Budget { per: Period::Every(10 * DAY_MS), ..budget(3) });
    let near = Budget { margin, ..long };
    if margin > DAY_MS / 2 || near.days(wall_ms()).iter().any(|(_, span)| *span != near.days(wall_ms())[0].1) {
        // Noon, or the end of the ten days: nothing to be seen by this clock. The property test has every time.
        return;
    }
    assert_eq!(reserve(ledger, "1", &["a", "b"], &near).await, [true, false]);
    assert_eq!(reads(ledger, &long).await.reads, 2);
    // There is room for one, and a new id would count twice.
    let left = reads(ledger, &near).await;
    assert!(!left.has_room && !left.spent, "{left:?}");
    assert_eq!(reserve(ledger, "2", &["c", "a"], &near).await, [false, true]);
    assert_eq!(reserve(ledger, "2", &["c"], &long).await, [true]);
    unread(ledger, "1", &["a"], &near).await;
    assert_eq!(reads(ledger, &long).await.reads, 3, "two calls asked for it");
    unread(ledger, "2", &["c"], &near).await;
    assert_eq!(reads(ledger, &long).await.reads, 2);
}

async fn a_period_of_a_part_of_a_day_begins_anew(world: World) {
    far_from_midnight().await;
    let (ledger, length) = (&*world.one, 3_000);
    let short = Budget { per: Period::Every(length), ..budget(2) };
    let next_period = async || {
        let left = length - wall_ms().rem_euclid(length);
        tokio::time::sleep(Duration::from_millis(left as u64 + 5)).await;
    };
    next_period().await;
    assert_eq!(reserve(ledger, "1", &["a", "b", "c"], &short).await, [true, true, false]);
    let spent = reads(ledger, &short).await;
    assert!(spent.spent && (1..=length).contains(&spent.reset_in_ms), "{spent:?}");
    next_period().await;
    assert!(reads(ledger, &short).await.has_room);
    // What was read today is free, and what the last period counted is not taken from this one.
    assert_eq!(reserve(ledger, "2", &["a", "c", "d", "e"], &short).await, [true, true, true, false]);
    unread(ledger, "1", &["b"], &short).await;
    let now = reads(ledger, &short).await;
    assert_eq!((now.reads, now.spent, now.today), (2, true, 3));
    unread(ledger, "2", &["d"], &short).await;
    assert_eq!(reads(ledger, &short).await.reads, 1);
}

async fn no_read_is_granted_twice(world: World) {
    far_from_midnight().await;
    let hundred = budget(100);
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let ledger = if worker % 2 == 0 { world.one.clone() } else { world.two.clone() };
        workers.spawn(async move {
            let mut mine = 0;
            for call in 0..5 {
                let ids: Vec<String> = (0..7).map(|id| format!("{worker}-{call}-{id}")).collect();
                let granted = ledger.reserve(&format!("{worker}-{call}"), &ids, &hundred).await.unwrap();
                mine += granted.iter().filter(|granted| **granted).count();
            }
            mine
        });
    }
    let mut sum = 0;
    while let Some(mine) = workers.join_next().await {
        sum += mine.unwrap();
    }
    assert_eq!((sum, reads(&*world.one, &hundred).await.reads), (100, 100));
}

/// Every key is documented in `credential/redis.rs`, and in the provider's slot.
#[tokio::test]
async fn every_key_written_is_documented() {
    let redis = TestRedis::start(&[]);
    let ledger = RedisLedger::new(redis.pool(), "twitter");
    open(&ledger, "a", window(10, 9, 60_000)).await;
    granted(&ledger, &["a"], "1").await;
    granted(&ledger, &["b"], "2").await;
    ledger.record_call("b", ENDPOINT, "2", &parked(true)).await.unwrap();
    reserve(&ledger, "1", &["a"], &Budget { per: Period::Every(5_000), ..budget(9) }).await;
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut redis.connection().await).await.unwrap();
    assert!(keys.len() >= 7, "{keys:?}");
    let documented = include_str!("../../crates/engine/src/quota/redis.rs");
    for key in keys {
        let word = key.strip_prefix("{twitter}:").unwrap().split(':').next().unwrap().to_owned();
        let named = [format!("`{{api}}:{word}:<"), format!("`{{api}}:{word}`")];
        assert!(named.iter().any(|name| documented.contains(name)), "{key}");
    }
}

/// A process that restarts during a pause waits for its end, and the next pause is longer.
#[tokio::test]
async fn a_pause_outlasts_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let open_ledger = async || EmbeddedLedger::open(&file, "twitter", Duration::from_secs(20)).await.unwrap();
    for (life, most) in [1_000, 2_000].into_iter().enumerate() {
        let permit = life.to_string();
        let ledger = open_ledger().await;
        in_time(&ledger, &["a"], &permit).await;
        ledger.record_call("a", ENDPOINT, &permit, &refusal(0, false, "")).await.unwrap();
        drop(ledger);
        let known = account(&open_ledger().await, "a").await.parked_for_ms;
        assert!((most - 900..=most).contains(&known), "{known} ms");
    }
}
