//! The authors of posts reach their own queue, whatever the store and that queue fail to answer meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::engine::queue::{EmbeddedQueue, Inspection, Queue};
use twitter_updater::engine::schedule::{Schedule, Schedules};
use twitter_updater::engine::worker::{ClaimSettings, Handler, Outlook};
use twitter_updater::ingest::Starter;
use twitter_updater::model::pipeline_id::PipelineId;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::media::schedule::FreshFirstSchedule;
use twitter_updater::pipelines::refresh::{Arrival, FanOutTarget, Mention, Mentions, Receiver, apply_to_targets};
use twitter_updater::providers::unreadable::UnreadableObject;
use twitter_updater::store::Way;

use crate::support::accounts_of_posts::PROFILES;
use crate::support::journal::{Call, Event, Trouble};
use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::memory_store::MemoryStore;
use crate::support::queue_model::Rules;
use crate::support::rig::{DAY, IdsOnly, Rig, Round, Setup, eventually};

/// A lease that a test waits for, and longer than all that happens in one.
const LEASE: Duration = Duration::from_millis(800);
/// One that never ends in a test.
const LONG_LEASE: Duration = Duration::from_secs(60);

async fn rig() -> (Rig, TempDir) {
    rig_with(LEASE).await
}

async fn rig_with(lease: Duration) -> (Rig, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let queue = EmbeddedQueue::open(&folder.path().join("queue.db"), PROFILES, Duration::from_secs(20)).await.unwrap();
    let authors: Arc<dyn Queue> = Arc::new(queue);
    let save_timeout = lease / 4;
    let setup = Setup { authors: Some(authors), save_timeout, ..Setup::default() };
    let claims = ClaimSettings { limit: 10, lease, ..setup.claims };
    (Rig::start(Setup { claims, ..setup }).await, folder)
}

/// The authors of these stored posts; none of the others has one.
async fn authors_of(rig: &Rig, ids: &[String]) -> BTreeSet<String> {
    let mut authors = BTreeSet::new();
    for id in ids {
        authors.extend(rig.find(id).await.and_then(|post| post.author_id));
    }
    authors
}

async fn are_in_their_queue(rig: &Rig, authors: &BTreeSet<String>) -> bool {
    let authors: Vec<String> = authors.iter().cloned().collect();
    let queue = rig.setup.authors.as_ref().expect("it has one");
    queue.locate(&authors).await.unwrap().iter().all(|places| places.len() == 1)
}

/// A worker looks posts up while that call fails in that way so many times.
async fn arrive(call: Call, trouble: Trouble, times: u32) {
    let (mut rig, _folder) = rig().await;
    let ids = rig.there(30, 3 * DAY);
    rig.schedule(&ids).await;
    if times > 0 {
        rig.journal.trouble(call, trouble, times);
    }
    rig.work();
    rig.all_updated(&ids).await;
    let authors = authors_of(&rig, &ids).await;
    assert!(authors.len() > 5, "{authors:?}");
    eventually("all authors are in their queue", async || are_in_their_queue(&rig, &authors).await).await;
    eventually("nothing is leased any more", async || rig.queue.stats().await.unwrap().leased == 0).await;
    rig.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_wrong() {
    arrive(Call::Save, Trouble::Down, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_saved_and_did_not_say_so() {
    arrive(Call::Save, Trouble::AnswerLost, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_saved_and_said_so_too_late() {
    arrive(Call::Save, Trouble::Late(LEASE / 2), 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_queue_is_away() {
    arrive(Call::Schedule, Trouble::Down, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_queue_does_not_answer() {
    arrive(Call::Schedule, Trouble::Hangs, 2).await;
}

/// A queue may be full for days, and no post waits for that: `rebuild` schedules what it did not take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_not_waited_for() {
    let (mut rig, _folder) = rig().await;
    let ids = rig.there(30, 3 * DAY);
    rig.schedule(&ids).await;
    rig.journal.trouble(Call::Schedule, Trouble::Full, u32::MAX);
    rig.work();
    rig.all_updated(&ids).await;
    rig.drain().await;
    rig.assert_each_looked_up_once(&ids);
    let authors = authors_of(&rig, &ids).await;
    assert!(!are_in_their_queue(&rig, &authors).await);
}

/// A process is cut off while the store saves: its successor hands them over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_is_cut_off_while_it_saves() {
    let (mut rig, _folder) = rig().await;
    let ids = rig.there(10, 3 * DAY);
    rig.schedule(&ids).await;
    rig.journal.trouble(Call::Save, Trouble::Late(Duration::from_secs(20)), 1);
    rig.work();
    eventually("it saves", async || rig.journal.count(|event| matches!(event, Event::Saved(_))) > 0).await;
    eventually("all are stored", async || authors_of(&rig, &ids).await.len() > 3).await;
    rig.stop.abandon();
    rig.forsaken().await;
    rig.stop = Stop::new();
    rig.work();
    let authors = authors_of(&rig, &ids).await;
    eventually("all authors are in their queue", async || are_in_their_queue(&rig, &authors).await).await;
    eventually("nothing is leased any more", async || rig.queue.stats().await.unwrap().leased == 0).await;
    rig.drain().await;
}

/// Their queue is away, or the store can only be read: however long that lasts, each post comes again at once, in batches that
/// get no smaller, and none fails, though it be alone in its process.
#[tokio::test]
async fn an_outage_of_something_else_is_no_fault_of_theirs() {
    for call in [Call::Schedule, Call::Save] {
        let (rig, _folder) = rig_with(LONG_LEASE).await;
        let ids = rig.there(8, 3 * DAY);
        rig.schedule(&ids).await;
        rig.journal.trouble(call, Trouble::Down, u32::MAX);
        for deliveries in [0, 1, 1, 1] {
            let batch = rig.claim(100).await;
            assert!(rig.queue.mark_trial(&batch.fence).await.unwrap());
            let Round { batch, handled } = rig.round_of(batch).await;
            assert_eq!(batch.jobs.len(), ids.len(), "{call:?}");
            let is_blameless = batch.jobs.iter().all(|job| (job.deliveries, job.failures) == (deliveries, 0));
            assert!(is_blameless, "{call:?}: {:?}", batch.jobs);
            assert!(matches!(handled.outlook, Outlook::Outage(_)), "{call:?}: {handled:?}");
            assert_eq!(rig.queue.stats().await.unwrap().leased, 0, "{call:?}");
        }
        rig.journal.well_again(call);
        rig.round().await;
        let authors = authors_of(&rig, &ids).await;
        assert!(!authors.is_empty() && are_in_their_queue(&rig, &authors).await, "{call:?}: {authors:?}");
        assert!(rig.dues(&ids).await.unwrap().values().all(|due| *due > wall_ms()), "{call:?}");
    }
}

#[tokio::test]
async fn known_posts_do_not_wait_for_a_queue_that_is_away() {
    let (rig, _folder) = rig_with(LONG_LEASE).await;
    let [known, new] = [rig.there(3, 3 * DAY), rig.there(3, 3 * DAY)];
    rig.lived(&known).await;
    rig.schedule(&[&known[..], &new].concat()).await;
    rig.journal.trouble(Call::Schedule, Trouble::Down, 1);
    assert_eq!(rig.round().await.handled.outlook, Outlook::Fine);
    assert!(rig.dues(&known).await.unwrap().values().all(|due| *due > wall_ms()));
    assert!(rig.dues(&new).await.unwrap().values().all(|due| *due <= wall_ms()), "once more at once");
}

/// The process says so itself: its jobs need not wait for the end of the lease, and one that is alone has not ended it.
#[tokio::test]
async fn who_is_cut_off_has_not_failed() {
    let (rig, _folder) = rig_with(LONG_LEASE).await;
    let ids = rig.there(1, 3 * DAY);
    rig.schedule(&ids).await;
    for deliveries in [0, 1, 1] {
        let batch = rig.claim(1).await;
        assert_eq!((batch.jobs[0].deliveries, batch.jobs[0].failures), (deliveries, 0));
        assert!(rig.queue.mark_trial(&batch.fence).await.unwrap());
        let handled = rig.handler.handle_abandoned(&batch);
        rig.queue.settle(&batch.fence, &handled.verdicts, &handled.tally).await.unwrap();
        rig.queue.release(&batch.fence, &handled.release).await.unwrap();
        assert_eq!(rig.queue.stats().await.unwrap().leased, 0);
    }
}

#[tokio::test]
async fn an_arrival_reaches_the_pipelines_that_take_it_and_no_other() {
    const NOW: i64 = 1_800_000_000_000;
    let store = Arc::new(MemoryStore::default());
    let target = |kind: &'static str, receiver: Option<Arc<dyn Receiver>>| {
        let id = PipelineId::items(&Provider::Twitter, kind);
        let queue = Arc::new(MemoryQueue::new(&id.to_string(), ServiceClock::starting_at(NOW), Rules::default()));
        let schedule = Arc::new(FreshFirstSchedule { first_delay: Duration::from_secs(60) }) as Arc<dyn Schedule>;
        let schedules: Arc<dyn Schedules> = Reloadable::new(schedule).into();
        let ids_only = |_: &str| Err(UnreadableObject::NotAccepted);
        let starter =
            Starter::new(queue.clone(), Some(store.clone()), schedules, Arc::new(|_: &str| Ok(None)), ids_only);
        (FanOutTarget::new(id, starter.with_way(Way::new("fan_out")), receiver), queue)
    };
    let ((profiles, of_profiles), (makers, of_makers)) =
        (target("profiles", Some(Arc::new(IdsOnly))), target("makers", None));
    let mut named = Mentions::for_item("0", NOW);
    named.add_id("makers", "1");
    named.add(Mention::first("2", Arrival::Account { profile: None, posted_at: None }));
    named.add(Mention::first("3", Arrival::NewPosts));
    named.add_id("profiles", "4");
    let targets = [profiles, makers];
    let changes = named.record(&targets).await.unwrap();
    apply_to_targets(&targets, changes, Duration::from_secs(5), &Metrics::new().counters).await.unwrap();
    let ids = ["1", "2", "3", "4"].map(str::to_owned);
    let waiting = async |queue: &MemoryQueue| {
        let places = queue.locate(&ids).await.unwrap();
        let waits = ids.iter().zip(places).filter(|(_, places)| !places.is_empty());
        waits.map(|(id, _)| id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (waiting(&of_profiles).await, waiting(&of_makers).await),
        (vec!["2".into(), "4".into()], vec!["1".into()])
    );
}
