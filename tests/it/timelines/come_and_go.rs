//! Sources that no setting names: they come and go while a poller runs, and at times it cannot be told whether they are there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{Inspection, Jobs, NewJob, Place};
use twitter_updater::pipelines::timelines::pace::interval_lane;
use twitter_updater::pipelines::timelines::source::TimelineDirectory;
use twitter_updater::providers::source::{Source, SourceKind};
use twitter_updater::providers::twitter_v1::timeline::{Kind, TwitterApi};
use twitter_updater::simulator::Running;
use twitter_updater::store::{Lifecycle, Positions, SqliteStore, StoreError};

use super::source::{BUSY, LATE, Poller, TWEETS, Trap, api, simulated};
use crate::support::wait::until_true;
use crate::timelines::polled;

/// The accounts that are followed, as a store would have them.
struct Followed {
    api: TwitterApi,
    accounts: Mutex<BTreeSet<String>>,
    is_out: AtomicBool,
}

impl Followed {
    fn of(simulator: &Running, accounts: &[&str]) -> Arc<Self> {
        let accounts = accounts.iter().map(|id| (*id).to_owned()).collect();
        Arc::new(Self { api: api(simulator), accounts: Mutex::new(accounts), is_out: AtomicBool::new(false) })
    }
}

#[async_trait]
impl TimelineDirectory for Followed {
    async fn get(&self, id: &str) -> Result<Option<Source>, StoreError> {
        if self.is_out.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("no accounts".to_owned()));
        }
        let source = || {
            let timeline = Kind::User { screen_name: Some(id.to_owned()), user_id: None }.build(&self.api, LATE);
            Source { timeline: Arc::new(timeline), query: Some(format!("account {id}")) }
        };
        Ok(self.accounts.lock().unwrap().contains(id).then(source))
    }
}

async fn put_into_the_queue(poller: &Poller, id: &str) {
    poller.queue.schedule(&[NewJob { id: id.to_owned(), lane: interval_lane(5_000), due: 0.into() }]).await.unwrap();
}

async fn places(poller: &Poller, id: &str) -> Vec<Place> {
    poller.queue.locate(&[id.to_owned()]).await.unwrap().remove(0)
}

async fn position(store: &SqliteStore, id: &str) -> Option<String> {
    store.saved_source(&polled("statuses/user_timeline"), id).await.unwrap().position
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_is_polled_from_when_it_is_put_into_the_queue_until_it_is_gone() {
    let (folder, simulator) = (tempfile::tempdir().unwrap(), simulated(20.0).await);
    let followed = Followed::of(&simulator, &["one"]);
    let poller = Poller::start(folder.path(), followed.clone(), &Arc::new(Trap::default())).await;
    assert_eq!(places(&poller, "one").await, [], "nobody lists them: whoever adds one schedules it");
    put_into_the_queue(&poller, "one").await;
    until_true("it is read", BUSY, async || position(&poller.store, "one").await.is_some()).await;
    // Another appears beside it.
    followed.accounts.lock().unwrap().insert("two".to_owned());
    put_into_the_queue(&poller, "two").await;
    until_true("the new one, too", BUSY, async || position(&poller.store, "two").await.is_some()).await;
    let begun = wall_ms();
    let is_asked_for = async || {
        let made = simulator.timeline("@two", begun, wall_ms());
        let Some(first) = made.iter().map(|post| post.id.get()).min() else { return false };
        let ways = poller.store.ways(TWEETS, &first.to_string()).await.unwrap();
        ways.iter().any(|(_, way)| way.query.as_deref() == Some("account two"))
    };
    until_true("its posts say what was asked for", BUSY, is_asked_for).await;
    // The first is gone.
    followed.accounts.lock().unwrap().remove("one");
    until_true("its job ends", BUSY, async || places(&poller, "one").await.is_empty()).await;
    let left = position(&poller.store, "one").await;
    assert!(left.is_some(), "its position stays");
    let polls = poller.polls.polls.get();
    until_true("the other goes on", BUSY, async || poller.polls.polls.get() > polls + 1).await;
    assert_eq!(position(&poller.store, "one").await, left, "and nobody reads it");
    // It comes back, and goes on where it was.
    followed.accounts.lock().unwrap().insert("one".to_owned());
    put_into_the_queue(&poller, "one").await;
    until_true("it is read again", BUSY, async || position(&poller.store, "one").await != left).await;
    assert_eq!(poller.polls.gaps.get(), 0);
    poller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_cannot_be_told_of_is_released_and_read_later() {
    let (folder, simulator) = (tempfile::tempdir().unwrap(), simulated(20.0).await);
    let followed = Followed::of(&simulator, &["one"]);
    followed.is_out.store(true, Ordering::Relaxed);
    let poller = Poller::start(folder.path(), followed.clone(), &Arc::new(Trap::default())).await;
    put_into_the_queue(&poller, "one").await;
    let says_so = async || poller.health.trouble().is_some_and(|trouble| trouble.why.contains("no accounts"));
    until_true("the outage is told of", BUSY, says_so).await;
    assert_eq!((places(&poller, "one").await.len(), poller.polls.polls.get()), (1, 0), "it stays, and is not polled");
    assert_eq!(position(&poller.store, "one").await, None);
    followed.is_out.store(false, Ordering::Relaxed);
    until_true("it is read", BUSY, async || position(&poller.store, "one").await.is_some()).await;
    until_true("nothing is wrong any more", BUSY, async || poller.health.trouble().is_none()).await;
    assert_eq!(poller.polls.polls_failed.get(), 0);
    poller.stop().await;
}
