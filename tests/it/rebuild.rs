//! Rebuilding the queue from the store: nobody is lost, doubled or revived, whatever happens in between.
//! Each case on Redis with PostgreSQL, and on the embedded queue with SQLite.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tempfile::TempDir;
use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::base::retry::RetryPolicy;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::data::dead::{DeadAction, DeadItems};
use twitter_updater::engine::queue::{
    Claim, EmbeddedQueue, Lane, NewJob, Place, Queue, RedisQueue, ScheduleOutcome, Verdict,
};
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::ingest::{LaneChooser, Rebuild, RebuildCounts, Starter};
use twitter_updater::model::post::{ItemState, TweetId};
use twitter_updater::providers::unreadable::UnreadableObject;
use twitter_updater::store::{
    Finding, ListedItem, Listing, NewItem, Observation, PostgresStore, SqliteStore, Store, Way,
};

use crate::support::claim;
use crate::support::journal::{Call, Journal, JournalledQueue, JournalledStore, Trouble};
use crate::support::postgres;
use crate::support::redis::{TestRedis, namespace};

const MINUTE: Millis = 60_000;
const HOUR: Millis = 60 * MINUTE;
const DAY: Millis = 24 * HOUR;

/// A queue and a store; what the rebuild does to them goes through the journal.
struct World {
    queue: Arc<dyn Queue>,
    store: Arc<dyn Store>,
    journal: Journal,
    rebuild: Rebuild,
    stop: Stop,
    _folder: TempDir,
}

impl World {
    async fn new(queue: Arc<dyn Queue>, store: Arc<dyn Store>, folder: TempDir) -> Self {
        store.migrate().await.unwrap();
        let journal = Journal::default();
        let lanes = LaneChooser {
            schedule: "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h, 30d: 1d".parse::<AgeTable>().unwrap().into(),
            unavailable: Lane::new("unavailable", Duration::from_secs(6 * 3_600)),
            id_date: Arc::new(TweetId::date_of),
        };
        let rebuild = Rebuild {
            queue: Arc::new(JournalledQueue { inner: queue.clone(), journal: journal.clone() }),
            store: Arc::new(JournalledStore { inner: store.clone(), journal: journal.clone() }),
            lanes,
            lease: Duration::from_secs(60),
            rate: 1_000_000,
            retry: RetryPolicy { tries: 3, first: Duration::from_millis(1), most: Duration::from_millis(5) },
        };
        Self { queue, store, journal, rebuild, stop: Stop::new(), _folder: folder }
    }

    /// Records a tweet of that age, due in so long (or ago).
    async fn tweet(&self, number: u32, age: Millis, due_in: Millis) -> String {
        let now = wall_ms();
        let id = TweetId::at(now - age, number).to_string();
        let new = NewItem {
            id: id.clone(),
            created_at: Some(now - age),
            next_due: Some(now + due_in),
            content: None,
            read_at: None,
        };
        self.store.record(self.queue.namespace(), now, &Way::new("enqueue"), &[new]).await.unwrap();
        id
    }

    /// An answer that leaves a tweet in this state.
    async fn answer(&self, id: &str, state: ItemState) {
        save(&*self.store, self.queue.namespace(), id, state).await;
    }

    async fn mark_dead(&self, id: &str) {
        let reason = [(id.to_owned(), "why".to_owned())];
        self.store.mark_dead(self.queue.namespace(), wall_ms(), &reason).await.unwrap();
    }

    /// A worker claims what is due, which is this tweet alone, and does this with it.
    async fn settle(&self, id: &str, verdict: Verdict) {
        let request = claim::at_once(id, 1, Duration::from_secs(60));
        let Claim::Batch(batch) = self.queue.claim(&request).await.unwrap() else { panic!("{id} is not due") };
        assert_eq!(batch.jobs[0].id, id);
        self.queue.settle(&batch.fence, &[(batch.jobs[0].clone(), verdict)], &[]).await.unwrap();
    }

    /// The living rows, as a rebuild read them some time ago.
    async fn page(&self) -> Vec<ListedItem> {
        self.store.page(self.queue.namespace(), Listing::Tracked, None, 1_000).await.unwrap()
    }

    /// The same of the dead.
    async fn dead_page(&self) -> Vec<ListedItem> {
        self.store.page(self.queue.namespace(), Listing::Dead, None, 1_000).await.unwrap()
    }

    async fn put_back(&self, page: &[ListedItem]) -> RebuildCounts {
        self.rebuild.put_back("token", page).await.unwrap()
    }

    async fn run(&self) -> RebuildCounts {
        self.rebuild.run(&self.stop, |_| ()).await.unwrap()
    }

    async fn place(&self, id: &str) -> Option<Place> {
        let mut places = self.queue.locate(&[id.to_owned()]).await.unwrap().remove(0);
        assert!(places.len() <= 1, "{id} is in several places: {places:?}");
        places.pop()
    }

    async fn lane(&self, id: &str) -> (String, Millis) {
        match self.place(id).await {
            Some(Place::Delayed { lane, due }) => (lane, due),
            elsewhere => panic!("{id} is in no lane: {elsewhere:?}"),
        }
    }

    async fn state(&self, id: &str) -> ItemState {
        self.store.tweet(self.queue.namespace(), id).await.unwrap().unwrap().state
    }

    async fn schedule(&self, id: &str) -> ScheduleOutcome {
        let lane = Lane::new("18m", Duration::from_secs(180));
        self.queue.schedule(&[NewJob { id: id.to_owned(), lane, due: 0.into() }]).await.unwrap()[0]
    }

    /// A person does this to one of the dead, beside the journal; answers how many were refused.
    async fn says(dead: DeadItems, act: DeadAction, id: &str) -> u64 {
        dead.act(act, &[id.to_owned()], |_, _| ()).await.unwrap().refused
    }

    /// What looks after the dead, beside the journal.
    fn person(&self) -> DeadItems {
        DeadItems { queue: self.queue.clone(), store: self.store.clone(), ..self.dead() }
    }

    /// What looks after the dead, through the journal.
    fn dead(&self) -> DeadItems {
        let Rebuild { queue, store, lanes, .. } = self.rebuild.clone();
        DeadItems { queue, store, lanes }
    }

    fn starter(&self) -> Starter {
        let parse = |_: &str| Err(UnreadableObject::NotAccepted);
        let ages = self.rebuild.lanes.schedule.clone();
        Starter::new(self.queue.clone(), Some(self.store.clone()), ages, Arc::new(TweetId::date_of), parse)
    }
}

async fn save(store: &dyn Store, namespace: &str, id: &str, state: ItemState) {
    let at = wall_ms();
    let seen = if state == ItemState::Live {
        Finding::Broken("no text".to_owned())
    } else {
        Finding::Missing { misses: 9, since: at - DAY, reason: None, handle: None }
    };
    let next_due = (state != ItemState::Ended).then_some(at + HOUR);
    let answer = Observation {
        id: id.to_owned(),
        answered_at: at,
        finding: seen,
        state,
        next_due,
        follow: None,
        forget: false,
        recent: None,
    };
    assert_eq!(store.save(namespace, &[answer]).await.unwrap().saved, 1);
}

async fn servers() -> World {
    let url = SecretString::from(postgres::database().await);
    let store = PostgresStore::connect(&url, 8, Duration::from_secs(30)).await.unwrap();
    let queue = RedisQueue::new(TestRedis::shared().pool(), &namespace());
    World::new(Arc::new(queue), Arc::new(store), tempfile::tempdir().unwrap()).await
}

async fn embedded() -> World {
    let (folder, patience) = (tempfile::tempdir().unwrap(), Duration::from_secs(30));
    let file = folder.path().join("home.db");
    let queue = EmbeddedQueue::open(&file, "tweet:update", patience).await.unwrap();
    let store = SqliteStore::open(&file, patience).await.unwrap();
    World::new(Arc::new(queue), Arc::new(store), folder).await
}

/// Makes each case a test per pair of backends.
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod on_servers {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(super::servers().await).await; })*
        }
        mod on_embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(super::embedded().await).await; })*
        }
    };
}

mod audit;
mod refresh;

on_both!(
    what_was_lost_is_put_back_as_the_updater_would,
    what_is_overdue_comes_due_within_an_interval,
    what_is_in_the_queue_stays_as_it_is,
    what_ended_after_its_page_was_read_is_not_put_back,
    what_a_worker_without_a_lease_ends_is_seen,
    a_tweet_enqueued_again_in_the_middle_is_not_lost,
    a_dead_one_retried_in_the_middle_is_not_lost,
    the_dead_are_buried_in_the_queue_again,
    one_retried_or_dropped_after_its_page_was_read_is_not_buried,
    one_retried_or_dropped_while_it_is_buried_again_does_not_stay_dead,
    one_retried_before_a_burial_was_cut_off_does_not_stay_dead,
    lost_replies_change_nothing,
    a_failure_in_the_second_pass_leaves_no_lease,
    two_at_once_put_each_back_once,
    one_that_was_killed_leaves_leases_that_run_out,
    it_stops_between_two_pages,
    an_outage_says_how_far_it_came,
    an_id_that_cannot_be_stops_nobody,
    one_enqueued_again_while_it_is_dropped_is_not_lost,
    a_retry_or_drop_that_was_cut_off_is_given_again,
);

async fn what_was_lost_is_put_back_as_the_updater_would(world: World) {
    let young = world.tweet(1, 5 * MINUTE, 2 * MINUTE).await;
    let week = world.tweet(2, 6 * DAY, 3 * HOUR).await;
    let missing = world.tweet(3, HOUR, 0).await;
    world.answer(&missing, ItemState::Unavailable).await;
    let over = world.tweet(4, 31 * DAY, HOUR).await;
    let (ended, dead) = (world.tweet(5, HOUR, 0).await, world.tweet(6, HOUR, 0).await);
    world.answer(&ended, ItemState::Ended).await;
    world.mark_dead(&dead).await;
    // From before Snowflake, and nobody ever knew when.
    world.answer("20", ItemState::Live).await;

    let before = wall_ms();
    let done = world.run().await;
    assert_eq!((done.rows, done.put_back, done.buried, done.complete, done.down_to), (6, 5, 1, true, None));
    let due = async |id: &str| world.store.tweet(world.queue.namespace(), id).await.unwrap().unwrap().next_due.unwrap();
    for (id, lane) in [(&young, "18m"), (&week, "7d"), (&missing, "unavailable"), (&"20".to_owned(), "30d")] {
        let (found, at) = world.lane(id).await;
        assert_eq!(found, lane);
        // Reckoned from the queue's clock at the adoption, which the settling follows.
        let due = due(id).await;
        assert!((due..due + 20_000).contains(&at), "{lane}: {} ms off", at - due);
    }
    // Its life is over by its age: that is the updater's to say, now.
    let (lane, at) = world.lane(&over).await;
    assert!(lane == "30d" && (before - 20_000..wall_ms() + 20_000).contains(&at));
    assert_eq!(world.place(&ended).await, None);
    assert!(matches!(world.place(&dead).await, Some(Place::Dead { reason, .. }) if reason == "why"));
    assert_eq!((world.state(&ended).await, world.state(&dead).await), (ItemState::Ended, ItemState::Dead));
    // The lanes are known with their intervals.
    let lanes: BTreeMap<_, _> =
        world.queue.stats().await.unwrap().lanes.into_iter().map(|lane| (lane.lane, lane.patience_ms)).collect();
    assert_eq!((lanes["18m"], lanes["30d"], lanes["unavailable"]), (3 * MINUTE, DAY, 6 * HOUR));

    let again = world.run().await;
    assert_eq!((again.rows, again.known, again.dead), (6, 5, 1), "twice is once");
    assert_eq!((again.put_back, again.buried), (0, 0));
}

async fn what_is_overdue_comes_due_within_an_interval(world: World) {
    let mut ids = Vec::new();
    for number in 0..60 {
        ids.push(world.tweet(number, 5 * MINUTE, -50 * MINUTE).await); // every 3 minutes
    }
    let little = world.tweet(100, 5 * MINUTE, -1_000).await;
    let rare = world.tweet(101, 20 * DAY, -12 * HOUR).await;
    let before = wall_ms();
    world.run().await;
    let after = wall_ms();
    let within = async |id: &String, span: Millis| {
        let due = world.lane(id).await.1;
        assert!((before..=after + span).contains(&due), "{id}: in {} ms", due - before);
        due
    };
    let mut dues = Vec::new();
    for id in &ids {
        dues.push(within(id, 3 * MINUTE).await);
    }
    dues.sort_unstable();
    // 60 of 180,000 evenly: that all are within a minute has a chance of 3^-59.
    assert!(dues[59] - dues[0] > MINUTE, "they come due together: {dues:?}");
    within(&little, 20_000).await;
    within(&rare, 10 * MINUTE).await;
}

async fn what_is_in_the_queue_stays_as_it_is(world: World) {
    let leased = world.tweet(1, 5 * MINUTE, 0).await;
    world.schedule(&leased).await;
    let request = claim::at_once("a", 1, Duration::from_secs(60));
    let Claim::Batch(batch) = world.queue.claim(&request).await.unwrap() else { panic!("nothing is due") };
    let dead = world.tweet(2, 5 * MINUTE, 0).await;
    world.schedule(&dead).await;
    let page = world.page().await;
    world.mark_dead(&dead).await;
    world.settle(&dead, Verdict::MarkDead { reason: "why".into() }).await;
    let known = world.tweet(3, 5 * MINUTE, HOUR).await;
    world.schedule(&known).await;
    let place = world.place(&known).await;
    let done = world.put_back(&[&page[..], &world.page().await[..1]].concat()).await;
    assert_eq!((done.rows, done.known, done.leased, done.dead, done.put_back), (3, 1, 1, 1, 0));
    assert_eq!(world.place(&known).await, place);
    assert!(matches!(world.place(&leased).await, Some(Place::Leased { fence, .. }) if fence == batch.fence.deadline));
}

/// Steps: its page is read; a worker is done with it, store first; then the rebuild adopts.
async fn what_ended_after_its_page_was_read_is_not_put_back(world: World) {
    let (ended, dead) = (world.tweet(1, HOUR, 0).await, world.tweet(2, HOUR, 0).await);
    world.schedule(&ended).await;
    let page = world.page().await;
    world.answer(&ended, ItemState::Ended).await;
    world.settle(&ended, Verdict::Finish).await;
    world.mark_dead(&dead).await; // and its queue is wiped
    let done = world.put_back(&page).await;
    assert_eq!((done.rows, done.withdrawn, done.put_back), (2, 2, 0));
    assert_eq!((world.place(&ended).await, world.place(&dead).await), (None, None));
    assert_eq!((world.state(&ended).await, world.state(&dead).await), (ItemState::Ended, ItemState::Dead));
}

/// Steps: adopted; a worker whose lease was wiped says the end to the store; the rows are read again.
async fn what_a_worker_without_a_lease_ends_is_seen(world: World) {
    let id = world.tweet(1, HOUR, 0).await;
    let page = world.page().await;
    let (store, namespace, ending) = (world.store.clone(), world.queue.namespace().to_owned(), id.clone());
    world.journal.meanwhile(Call::Adopt, async move { save(&*store, &namespace, &ending, ItemState::Ended).await });
    assert_eq!(world.put_back(&page).await.withdrawn, 1);
    assert_eq!(world.place(&id).await, None);
}

/// Steps: adopted, and ended in the store; then somebody enqueues it, and hears that the queue has it;
/// then the rebuild lets go of it.
async fn a_tweet_enqueued_again_in_the_middle_is_not_lost(world: World) {
    let id = world.tweet(1, HOUR, 0).await;
    let page = world.page().await;
    world.answer(&id, ItemState::Ended).await;
    let (starter, again) = (world.starter(), id.clone());
    world.journal.meanwhile(Call::Standing, async move {
        let queued = starter.queue_tweet(twitter_updater::model::post::Ingested::bare(again)).await.unwrap();
        assert_eq!(queued, twitter_updater::ingest::Queued::Leased);
    });
    let done = world.put_back(&page).await;
    assert_eq!((done.put_back, done.withdrawn), (1, 0));
    assert_eq!((world.state(&id).await, world.lane(&id).await.0.as_str()), (ItemState::Live, "1d"));
}

/// The same with one of the dead, and a person.
async fn a_dead_one_retried_in_the_middle_is_not_lost(world: World) {
    let id = world.tweet(1, HOUR, 0).await;
    let page = world.page().await;
    world.mark_dead(&id).await;
    let dead = DeadItems { queue: world.queue.clone(), store: world.store.clone(), ..world.dead() };
    let again = [id.clone()];
    world.journal.meanwhile(Call::Standing, async move {
        // The rebuild has it right now: it may be about to take it for dead, so it is to be said again.
        let tally =
            dead.act(DeadAction::Retry, &again, |_, why| assert!(why.contains("try again"), "{why}")).await.unwrap();
        assert_eq!((tally.done, tally.refused), (0, 1));
    });
    assert_eq!(world.put_back(&page).await.put_back, 1);
    assert_eq!((world.state(&id).await, world.lane(&id).await.0.as_str()), (ItemState::Live, "1d"));
}

/// A queue that was wiped counts none of the dead; a rebuild that is stopped is completed by the next.
async fn the_dead_are_buried_in_the_queue_again(world: World) {
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(world.tweet(number, HOUR, 0).await);
        world.mark_dead(&ids[number as usize]).await;
    }
    assert_eq!(world.queue.stats().await.unwrap().dead, 0);
    // One row a second is one row a page; the pause after it is cut short.
    let slow = Rebuild { rate: 1, ..world.rebuild.clone() };
    let stopped = slow
        .run(&world.stop, |done| {
            if done.buried > 0 {
                world.stop.drain();
            }
        })
        .await
        .unwrap();
    assert_eq!((stopped.rows, stopped.buried, stopped.complete), (1, 1, false));
    assert_eq!(stopped.down_to.as_ref(), ids.iter().max());
    assert_eq!(world.queue.stats().await.unwrap().dead, 1);
    let rest = world.rebuild.run(&Stop::new(), |_| ()).await.unwrap();
    assert_eq!((rest.rows, rest.dead, rest.buried, rest.put_back, rest.complete), (3, 1, 2, 0, true));
    assert!(rest.to_string().ends_with("1 dead, 0 withdrawn, 2 marked dead again"), "{rest}");
    for id in &ids {
        assert!(matches!(world.place(id).await, Some(Place::Dead { reason, .. }) if reason == "why"));
        assert_eq!(world.state(id).await, ItemState::Dead);
    }
    let stats = world.queue.stats().await.unwrap();
    assert_eq!((stats.dead, stats.delayed, stats.leased), (3, 0, 0));
    // It is one of the dead as any other.
    assert_eq!(World::says(world.person(), DeadAction::Retry, &ids[0]).await, 0);
    assert_eq!(world.lane(&ids[0]).await.0, "1d");
}

/// Steps: the page of the dead is read; a person retries two of them and drops one; one of the two is looked up, and ends.
async fn one_retried_or_dropped_after_its_page_was_read_is_not_buried(world: World) {
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(world.tweet(number, HOUR, 0).await);
        world.mark_dead(&ids[number as usize]).await;
    }
    let page = world.dead_page().await;
    let [over, waits, dropped] = &ids[..] else { panic!("three") };
    for (act, id) in [(DeadAction::Retry, over), (DeadAction::Drop, dropped)] {
        assert_eq!(World::says(world.person(), act, id).await, 0);
    }
    world.answer(over, ItemState::Ended).await;
    world.settle(over, Verdict::Finish).await;
    assert_eq!(World::says(world.person(), DeadAction::Retry, waits).await, 0);
    let place = world.place(waits).await;
    let done = world.put_back(&page).await;
    assert_eq!((done.rows, done.known, done.withdrawn, done.buried, done.dead), (3, 1, 2, 0, 0));
    assert!(place.is_some() && world.place(waits).await == place);
    assert_eq!((world.place(over).await, world.place(dropped).await), (None, None));
}

/// Steps: adopted, and found dead in the store; then a person retries or drops it, and the queue has it under a lease; then
/// the rebuild buries it.
async fn one_retried_or_dropped_while_it_is_buried_again_does_not_stay_dead(world: World) {
    for (number, act) in [(1, DeadAction::Retry), (2, DeadAction::Drop)] {
        let id = world.tweet(number, HOUR, 0).await;
        world.mark_dead(&id).await;
        let page = world.dead_page().await;
        let (person, again) = (world.person(), id.clone());
        world.journal.meanwhile(Call::Standing, async move {
            let refused = World::says(person, act, &again).await;
            assert_eq!(refused, u64::from(act == DeadAction::Retry), "a retry is to be said again");
        });
        let done = world.put_back(&page).await;
        assert_eq!(done.buried, 0, "{act:?}");
        if act == DeadAction::Retry {
            assert_eq!((done.put_back, world.state(&id).await), (1, ItemState::Live));
            assert_eq!(world.lane(&id).await.0, "1d");
        } else {
            assert_eq!((done.withdrawn, world.state(&id).await), (1, ItemState::Ended));
            assert_eq!(world.place(&id).await, None);
        }
    }
}

/// The same; and when it is buried, the store is away. The next try finds it dead in the queue.
async fn one_retried_before_a_burial_was_cut_off_does_not_stay_dead(world: World) {
    let id = world.tweet(1, HOUR, 0).await;
    world.mark_dead(&id).await;
    let (person, again, journal) = (world.person(), id.clone(), world.journal.clone());
    world.journal.meanwhile(Call::Standing, async move {
        assert_eq!(World::says(person, DeadAction::Retry, &again).await, 1);
        journal.trouble(Call::Standing, Trouble::Down, 1);
    });
    let done = world.run().await;
    assert_eq!((done.put_back, done.buried, done.dead, done.complete), (1, 0, 0, true));
    assert_eq!((world.state(&id).await, world.lane(&id).await.0.as_str()), (ItemState::Live, "1d"));
}

async fn lost_replies_change_nothing(world: World) {
    let (live, ended) = (world.tweet(1, HOUR, HOUR).await, world.tweet(2, HOUR, HOUR).await);
    for (call, trouble) in [
        (Call::Adopt, Trouble::Down),
        (Call::Adopt, Trouble::AnswerLost),
        (Call::Standing, Trouble::Down),
        (Call::Settle, Trouble::Down),
        (Call::Settle, Trouble::AnswerLost),
    ] {
        world.journal.trouble(call, trouble, 1);
        let (store, namespace, ending) = (world.store.clone(), world.queue.namespace().to_owned(), ended.clone());
        world.journal.meanwhile(Call::Adopt, async move { save(&*store, &namespace, &ending, ItemState::Ended).await });
        let done = world.run().await;
        assert!(done.complete, "{call:?} {trouble:?}");
        let stats = world.queue.stats().await.unwrap();
        assert_eq!((stats.delayed, stats.leased, stats.dead), (1, 0, 0), "{call:?} {trouble:?}");
        assert_eq!(world.place(&ended).await, None);
        // Lost again, and the ended one revived by hand, for the next.
        world.queue.forget(std::slice::from_ref(&live)).await.unwrap();
        let new = NewItem {
            id: ended.clone(),
            created_at: Some(wall_ms()),
            next_due: Some(wall_ms() + HOUR),
            content: None,
            read_at: None,
        };
        world.store.record(world.queue.namespace(), wall_ms(), &Way::new("enqueue"), &[new]).await.unwrap();
        world.journal.well_again(call);
    }
}

/// Enqueued again in the middle as above; and when it has been adopted for the second time, the store is away.
async fn a_failure_in_the_second_pass_leaves_no_lease(world: World) {
    let id = world.tweet(1, HOUR, HOUR).await;
    let (starter, again) = (world.starter(), id.clone());
    let (store, namespace, ending) = (world.store.clone(), world.queue.namespace().to_owned(), id.clone());
    world.journal.meanwhile(Call::Adopt, async move { save(&*store, &namespace, &ending, ItemState::Ended).await });
    world.journal.meanwhile(Call::Standing, async move {
        starter.queue_tweet(twitter_updater::model::post::Ingested::bare(again)).await.unwrap();
    });
    let (journal, then) = (world.journal.clone(), world.journal.clone());
    world.journal.meanwhile(Call::Settle, async move {
        journal.meanwhile(Call::Adopt, async move { then.trouble(Call::Standing, Trouble::Down, 1) });
    });
    assert!(world.run().await.complete);
    let stats = world.queue.stats().await.unwrap();
    assert_eq!((stats.delayed, stats.leased), (1, 0));
    assert_eq!(world.state(&id).await, ItemState::Live);
}

async fn two_at_once_put_each_back_once(world: World) {
    let now = wall_ms();
    let new = |number: u32| NewItem {
        id: TweetId::at(now - HOUR - i64::from(number), number).to_string(),
        created_at: Some(now - HOUR),
        next_due: Some(now + HOUR),
        content: None,
        read_at: None,
    };
    let tweets: Vec<_> = (0..3_500).map(new).collect();
    world.store.record(world.queue.namespace(), now, &Way::new("enqueue"), &tweets).await.unwrap();
    let (one, two) = tokio::join!(world.run(), world.run());
    assert_eq!((one.rows, two.rows, one.put_back + two.put_back), (3_500, 3_500, 3_500));
    let stats = world.queue.stats().await.unwrap();
    assert_eq!((stats.delayed, stats.leased), (3_500, 0));
    let ids: Vec<String> = tweets.into_iter().map(|tweet| tweet.id).collect();
    assert!(world.queue.locate(&ids).await.unwrap().iter().all(|places| places.len() == 1));
}

async fn one_that_was_killed_leaves_leases_that_run_out(world: World) {
    let id = world.tweet(1, HOUR, HOUR).await;
    let killed = Rebuild { lease: Duration::from_millis(50), ..world.rebuild.clone() };
    world.journal.trouble(Call::Standing, Trouble::Hangs, 1);
    let page = world.page().await;
    tokio::select! {
        _ = killed.put_back("killed", &page) => panic!("it hangs"),
        () = async { while world.queue.stats().await.unwrap().expired == 0 {
            tokio::time::sleep(Duration::from_millis(3)).await;
        } } => {}
    }
    assert_eq!(world.run().await.leased, 1, "it is in the queue");
    world.settle(&id, Verdict::Reschedule { lane: Lane::new("1d", Duration::from_secs(3_600)), due: 0.into() }).await;
    assert_eq!(world.run().await.known, 1);
}

async fn it_stops_between_two_pages(world: World) {
    for number in 0..5 {
        world.tweet(number, HOUR, HOUR).await;
    }
    // Two rows a second are two rows a page; the pause after it is cut short.
    let slow = Rebuild { rate: 2, ..world.rebuild.clone() };
    let stopped = slow.run(&world.stop, |_| world.stop.drain()).await.unwrap();
    let page = world.page().await;
    assert_eq!((stopped.rows, stopped.put_back, stopped.complete), (2, 2, false));
    assert_eq!(stopped.down_to.as_deref(), Some(&*page[1].id));
    assert!(stopped.to_string().contains(&format!("stopped before the end, down to id {}", page[1].id)), "{stopped}");
    assert_eq!(world.queue.stats().await.unwrap().delayed, 2);
    let rest = world.rebuild.run(&Stop::new(), |_| ()).await.unwrap();
    assert_eq!((rest.known, rest.put_back, rest.complete), (2, 3, true));
}

async fn an_outage_says_how_far_it_came(world: World) {
    for number in 0..3 {
        world.tweet(number, HOUR, HOUR).await;
    }
    let first = world.page().await[0].id.clone();
    let slow = Rebuild { rate: 1, ..world.rebuild.clone() };
    let journal = world.journal.clone();
    let error = slow.run(&world.stop, |_| journal.trouble(Call::Adopt, Trouble::Down, 9)).await.unwrap_err();
    assert_eq!((error.rows, error.last.as_deref()), (1, Some(&*first)));
    let said = format!("{:#}", anyhow::Error::from(error));
    assert!(said.contains("1 row, down to id") && said.contains("run it again: the queue is not available"), "{said}");
    world.journal.well_again(Call::Adopt);
    assert_eq!(world.run().await.put_back, 2);
}

async fn an_id_that_cannot_be_stops_nobody(world: World) {
    let good = world.tweet(1, HOUR, HOUR).await;
    world.answer("white space", ItemState::Live).await;
    let done = world.run().await;
    assert_eq!((done.rows, done.put_back, done.refused), (2, 1, 1));
    assert_eq!(world.lane(&good).await.0, "1d");
}

/// Steps: ended in the store; somebody enqueues it, and hears that it is dead; then the queue forgets it.
async fn one_enqueued_again_while_it_is_dropped_is_not_lost(world: World) {
    let id = world.tweet(1, HOUR, 0).await;
    world.schedule(&id).await;
    world.mark_dead(&id).await;
    world.settle(&id, Verdict::MarkDead { reason: "why".into() }).await;
    let (starter, again) = (world.starter(), id.clone());
    world.journal.meanwhile(Call::ResolveDead, async move {
        starter.queue_tweet(twitter_updater::model::post::Ingested::bare(again)).await.unwrap();
    });
    world.dead().act(DeadAction::Drop, std::slice::from_ref(&id), |_, _| ()).await.unwrap();
    assert_eq!((world.state(&id).await, world.lane(&id).await.0.as_str()), (ItemState::Live, "1d"));
}

async fn a_retry_or_drop_that_was_cut_off_is_given_again(world: World) {
    for (act, trouble) in [DeadAction::Retry, DeadAction::Drop]
        .into_iter()
        .flat_map(|act| [(act, Trouble::Down), (act, Trouble::AnswerLost)])
    {
        let id = world.tweet(1, HOUR, 0).await;
        world.schedule(&id).await;
        world.mark_dead(&id).await;
        world.settle(&id, Verdict::MarkDead { reason: "why".into() }).await;
        let ids = std::slice::from_ref(&id);
        world.journal.trouble(Call::ResolveDead, trouble, 1);
        world.dead().act(act, ids, |_, _| ()).await.unwrap_err();
        assert!(matches!(world.place(&id).await, Some(Place::Dead { .. })), "the store comes first");
        assert_eq!(world.dead().act(act, ids, |_, _| ()).await.unwrap().done, 1, "{act:?} {trouble:?}");
        let alive = act == DeadAction::Retry;
        let state = if alive { ItemState::Live } else { ItemState::Ended };
        assert_eq!((world.state(&id).await, world.place(&id).await.is_some()), (state, alive));
        if alive {
            // Due now, for the next to begin with.
            world.settle(&id, Verdict::Finish).await;
        }
    }
}
