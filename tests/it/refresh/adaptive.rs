//! The adaptive schedule through the real handler: what it is told of a post, what is stored for it, and when the post is due.

use std::sync::Arc;

use twitter_updater::app::{CallBudget, MeteredEndpoint};
use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::retry::RetryPolicy;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::engine::lateness::Lateness;
use twitter_updater::engine::schedule::adaptive::budget::{Normaliser, Spending};
use twitter_updater::engine::schedule::history::{Answer, History};
use twitter_updater::engine::schedule::{Budgeted, CorrectedSchedule, Schedule, ScheduledItem, Schedules};
use twitter_updater::engine::worker::Handler;
use twitter_updater::ingest::{LaneChooser, Rebuild};
use twitter_updater::model::post::{ItemState, Metrics, Tweet, TweetId};
use twitter_updater::providers::twitter_v1;
use twitter_updater::store::{BudgetCorrections, Finding, Standing};

use crate::support::journal::{Call, Trouble};
use crate::support::postgres;
use crate::support::rig::{Backends, DAY, HOUR, MINUTE, Rig, Setup, adaptive};

fn setup() -> Setup {
    Setup { adaptive: true, ages: "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h, 30d: 1d", ..Setup::default() }
}

/// The same on one file and on servers.
macro_rules! on_both {
    ($($scenario:ident)*) => { $(
        mod $scenario {
            #[tokio::test]
            async fn embedded() { super::$scenario(super::setup()).await; }
            #[tokio::test]
            async fn on_servers() {
                let backends = super::Backends::Servers(super::postgres::database().await);
                super::$scenario(super::Setup { backends, ..super::setup() }).await;
            }
        }
    )* };
}

on_both! {
    a_busy_post_is_due_sooner_than_a_quiet_one_of_its_age
    a_count_that_an_answer_leaves_out_is_the_stored_one
    after_a_miss_the_counts_of_before_are_of_no_known_time
    what_the_queue_lost_comes_back_to_its_lane
    a_day_of_too_many_calls_raises_the_price_for_all_workers
}

/// Its interactions so far, as the simulated world has them.
fn counts(rig: &Rig, id: &str) -> Metrics {
    let tweet = rig.simulator().world().tweet(TweetId::parse(id).unwrap(), wall_ms()).unwrap();
    Metrics {
        retweet_count: Some(tweet.retweet_count),
        favorite_count: Some(tweet.favorite_count),
        ..Metrics::default()
    }
}

fn sum(metrics: Metrics) -> i64 {
    metrics.retweet_count.unwrap_or(0) + metrics.favorite_count.unwrap_or(0)
}

fn found(id: &str, metrics: Metrics) -> Finding {
    Finding::Found(Tweet { id: id.to_owned(), metrics, raw: "{}".to_owned(), ..Tweet::default() })
}

fn half(of: Metrics) -> Metrics {
    Metrics {
        retweet_count: of.retweet_count.map(|count| count / 2),
        favorite_count: of.favorite_count.map(|count| count / 2),
        ..of
    }
}

/// Two posts of one age with nearly as many interactions, the first with fewer, at least a hundred.
fn alike(rig: &Rig) -> [String; 2] {
    let mut known: Vec<(i64, String)> =
        rig.there(600, 6 * HOUR).into_iter().map(|id| (sum(counts(rig, &id)), id)).collect();
    known.sort();
    let pair = known.windows(2).find(|pair| pair[0].0 >= 100 && pair[1].0 * 10 <= pair[0].0 * 11).unwrap();
    [pair[0].1.clone(), pair[1].1.clone()]
}

async fn standing(rig: &Rig, id: &str) -> Standing {
    rig.store.standing(&rig.handler.items.namespace, &[id.to_owned()]).await.unwrap().remove(0).unwrap()
}

/// Its interval as it was decided: from its last answer to its due time, on which queue and store agree.
async fn interval(rig: &Rig, id: &str) -> Millis {
    let stored = rig.stored(id).await;
    let (lane, due) = rig.lane(id).await;
    let next_due = stored.next_due.unwrap();
    // The queue counts from the moment of the settle.
    assert!((0..20_000).contains(&(due - next_due)), "{due} {next_due}");
    assert!(lane.starts_with('~'), "{lane}");
    next_due - stored.checked_at.unwrap()
}

/// What the schedule says of this history.
fn expected(rig: &Rig, id: &str, history: History) -> Millis {
    let at = history.last.unwrap().at;
    Schedule::next(&adaptive(&rig.ages()), &ScheduledItem { history, ..ScheduledItem::new(id, None) }, at).unwrap().1
}

async fn a_busy_post_is_due_sooner_than_a_quiet_one_of_its_age(setup: Setup) {
    let rig = Rig::start(setup).await;
    let [busy, quiet] = alike(&rig);
    rig.seen(&busy, HOUR, found(&busy, half(counts(&rig, &busy))), ItemState::Live).await;
    rig.seen(&quiet, HOUR, found(&quiet, counts(&rig, &quiet)), ItemState::Live).await;
    rig.schedule(&[busy.clone(), quiet.clone()]).await;
    rig.round().await;
    let (often, seldom) = (interval(&rig, &busy).await, interval(&rig, &quiet).await);
    assert!(often * 2 < seldom, "{often} {seldom}");
    let recent = [standing(&rig, &busy).await.recent.unwrap(), standing(&rig, &quiet).await.recent.unwrap()];
    assert!(recent[0] > recent[1], "{recent:?}");
}

async fn a_count_that_an_answer_leaves_out_is_the_stored_one(setup: Setup) {
    let rig = Rig::start(setup).await;
    let id = rig.there(1, 6 * HOUR).remove(0);
    // The simulated API gives no replies: a hundred that an earlier answer gave are no events that went away.
    let before = Metrics { reply_count: Some(100), ..counts(&rig, &id) };
    rig.seen(&id, HOUR, found(&id, before), ItemState::Live).await;
    let earlier = standing(&rig, &id).await;
    rig.schedule(std::slice::from_ref(&id)).await;
    rig.round().await;
    let now = standing(&rig, &id).await;
    let answer = |known: &Standing| Answer {
        at: known.checked_at.unwrap(),
        count: (sum(known.metrics) + known.metrics.reply_count.unwrap()) as f64,
    };
    // The API's date, in whole seconds.
    let created_at = now.created_at;
    let history = History { created_at, last: Some(answer(&now)), before: Some(answer(&earlier)), recent: None };
    assert!(history.last.unwrap().count >= 100.0);
    assert_eq!(interval(&rig, &id).await, expected(&rig, &id, history));
    assert_eq!(
        now.recent,
        adaptive(&rig.ages()).recent_events(&ScheduledItem { history, ..ScheduledItem::new(&id, None) })
    );
}

async fn after_a_miss_the_counts_of_before_are_of_no_known_time(setup: Setup) {
    let rig = Rig::start(setup).await;
    let id = alike(&rig)[0].clone();
    rig.seen(&id, 3 * HOUR, found(&id, half(counts(&rig, &id))), ItemState::Live).await;
    let missing = Finding::Missing { misses: 1, since: wall_ms() - MINUTE, reason: None, handle: None };
    rig.seen(&id, MINUTE, missing, ItemState::Live).await;
    rig.schedule(std::slice::from_ref(&id)).await;
    rig.round().await;
    let now = standing(&rig, &id).await;
    let last = Answer { at: now.checked_at.unwrap(), count: sum(now.metrics) as f64 };
    // The API's date, in whole seconds.
    let created_at = now.created_at;
    let history = History { created_at, last: Some(last), ..History::default() };
    assert_eq!(interval(&rig, &id).await, expected(&rig, &id, history));
}

async fn what_the_queue_lost_comes_back_to_its_lane(setup: Setup) {
    let rig = Rig::start(setup).await;
    let [busy, quiet] = alike(&rig);
    rig.seen(&busy, HOUR, found(&busy, half(counts(&rig, &busy))), ItemState::Live).await;
    let ids = [busy.clone(), quiet.clone(), rig.there(1, 26 * HOUR).remove(0)];
    rig.schedule(&ids).await;
    rig.round().await;
    let mut before = Vec::new();
    for id in &ids {
        before.push(rig.lane(id).await);
    }
    rig.queue.forget(&ids).await.unwrap();
    let lanes = LaneChooser {
        schedule: rig.handler.schedule.clone(),
        unavailable: rig.handler.unavailable.lane.clone(),
        id_date: Arc::new(TweetId::date_of),
    };
    let (queue, store) = (rig.queue.clone(), rig.store.clone());
    let (lease, retry) = (rig.setup.claims.lease, RetryPolicy::default());
    let rebuild = Rebuild { queue, store, lanes, lease, rate: 1_000, retry };
    assert_eq!(rebuild.run(&Stop::new(), |_| ()).await.unwrap().put_back, 3);
    for (id, (lane, due)) in ids.iter().zip(before) {
        let after = rig.lane(id).await;
        assert_eq!(after.0, lane);
        // Due times are rounded by the clock of the rebuild.
        assert!((after.1 - due).abs() <= 1_000, "{after:?} {due}");
    }
}

async fn a_day_of_too_many_calls_raises_the_price_for_all_workers(setup: Setup) {
    let rig = Rig::start(setup).await;
    // The first answers of older posts do not depend on the price.
    let ids = rig.there(3, 10 * MINUTE);
    rig.schedule(&ids).await;
    rig.round().await;
    let ns = rig.handler.items.namespace.clone();
    let counted = async || Spending::from_counters(&rig.queue.stats().await.unwrap().counters);
    let real = counted().await;
    assert!(real.calls >= 3.0 && real.table_calls > 0.0, "each answer is counted: {real:?}");

    let plain: Arc<dyn Schedule> = Arc::new(adaptive(&rig.ages()));
    let worker = |name: &str| CallBudget {
        queue: rig.queue.clone(),
        store: rig.store.clone(),
        name: name.to_owned(),
        schedule: CorrectedSchedule { schedule: Reloadable::new(plain.clone()), by: Normaliser::default().into() },
        metered: MeteredEndpoint {
            credentials: rig.credentials.clone(),
            endpoint: rig.handler.endpoint(),
            batch_limit: twitter_v1::CAPABILITIES.batch_limit,
        },
        early: 0.0.into(),
    };
    let price = |budget: &CallBudget| budget.schedule.by.load().price;
    let (one, other) = (worker("a"), worker("b"));
    for name in ["a", "b"] {
        rig.queue.heartbeat(name, &[], &[], &Lateness::default()).await.unwrap();
    }
    other.update().await.unwrap();
    assert_eq!(rig.store.corrections(&ns).await.unwrap(), None, "another worker leads");
    one.update().await.unwrap();
    let begun = rig.store.corrections(&ns).await.unwrap().unwrap();
    assert_eq!((begun.price, begun.calls), (1.0, real.calls));

    // A day ago it was, and since then twice as many calls were demanded as the table would have made.
    let yesterday = BudgetCorrections { at: begun.at - DAY, ..begun };
    assert!(rig.store.replace_corrections(&ns, Some(begun.at), &yesterday).await.unwrap());
    let day = Spending { calls: 2_000.0, table_calls: 1_000.0, ..Spending::default() };
    rig.queue.heartbeat("a", &[], &day.to_counters(), &Lateness::default()).await.unwrap();
    one.update().await.unwrap();
    let expected = Normaliser::default().after_day(&day, 1.0).price;
    assert!(expected > 1.5 && (price(&one) - expected).abs() < 1e-6, "{} {expected}", price(&one));
    let known = rig.store.corrections(&ns).await.unwrap();
    one.update().await.unwrap();
    assert_eq!(rig.store.corrections(&ns).await.unwrap(), known, "once a day");

    // Whoever looks next, also after a restart, goes by it: intervals are longer.
    other.update().await.unwrap();
    assert_eq!(price(&other), price(&one));
    let item = ScheduledItem::new("1", TweetId::parse(&ids[0]).unwrap().created_at());
    let delay = |schedule: Arc<dyn Schedule>| schedule.next(&item, wall_ms()).unwrap().1;
    assert!(delay(other.schedule.current_schedule()) > delay(plain.clone()));
}

/// The age schedule reads nothing before it judges; the adaptive one gives its batch back while it cannot.
#[tokio::test]
async fn the_store_is_asked_what_was_there_before_only_where_that_is_needed() {
    for adaptive in [false, true] {
        let rig = Rig::start(Setup { adaptive, ..setup() }).await;
        let ids = rig.there(3, HOUR);
        rig.schedule(&ids).await;
        rig.journal.trouble(Call::Standing, Trouble::Down, 1);
        let round = rig.round().await;
        assert_eq!(round.handled.release.len(), if adaptive { 3 } else { 0 });
        assert_eq!(rig.stored_tweets().await, if adaptive { 0 } else { 3 });
    }
}
