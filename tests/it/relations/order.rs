//! Owners of lists as posts name them: repeat posters before new ones, the least recently visited first, and the newest of
//! the new ones first.

use std::sync::Arc;
use std::time::Duration;

use crate::support::claim;
use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::retry::RetryPolicy;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::config::Settings;
use twitter_updater::engine::queue::{Claim, EmbeddedQueue, Jobs};
use twitter_updater::engine::schedule::{Schedule, Schedules};
use twitter_updater::ingest::{LaneChooser, Rebuild, Starter};
use twitter_updater::model::pipeline_id::PipelineId;
use twitter_updater::model::post::{ItemState, Tweet};
use twitter_updater::model::provider::Provider;
use twitter_updater::model::relation::ListKind;
use twitter_updater::pipelines::kind::{Intake, PipelineKind};
use twitter_updater::pipelines::refresh::{Arrival, Mention, Receiver};
use twitter_updater::pipelines::relations::Lists;
use twitter_updater::pipelines::relations::owner_receiver::OwnerReceiver;
use twitter_updater::store::{Finding, Observation, SqliteStore, Store, Way};

const LISTS: &str = "followers:twitter";
const KIND: Lists = Lists(ListKind::Followers);

struct World {
    queue: Arc<EmbeddedQueue>,
    store: Arc<dyn Store>,
    starter: Starter,
    receiver: Arc<dyn Receiver>,
    rebuild: Rebuild,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let patience = Duration::from_secs(10);
        let queue = Arc::new(EmbeddedQueue::open(&folder.path().join("jobs.db"), LISTS, patience).await.unwrap());
        let store: Arc<dyn Store> =
            Arc::new(SqliteStore::open(&folder.path().join("lists.db"), patience).await.unwrap());
        store.migrate().await.unwrap();
        let settings = Settings::load_with(&[], None, &[("TWITTER_UPDATER__RELATIONS__COLLECT", "followers")]).unwrap();
        let id = PipelineId::items(&Provider::Twitter, "followers");
        let schedule: Arc<dyn Schedule> = KIND.schedule(&id, &settings);
        let schedules: Arc<dyn Schedules> = Reloadable::new(schedule).into();
        let Intake { id_date, parse } = KIND.intake(&id);
        let starter = Starter::new(queue.clone(), Some(store.clone()), schedules.clone(), id_date.clone(), parse);
        let receiver =
            Arc::new(OwnerReceiver { namespace: id.to_string(), schedule: schedules.clone(), store: store.clone() });
        let unavailable = KIND.terms(&settings).unavailable.lane;
        let rebuild = Rebuild {
            queue: queue.clone(),
            store: store.clone(),
            lanes: LaneChooser { schedule: schedules, unavailable, id_date },
            lease: Duration::from_secs(60),
            rate: 1_000_000,
            retry: RetryPolicy::default(),
        };
        Self { queue, store, starter: starter.with_way(Way::new("fan_out")), receiver, rebuild, _folder: folder }
    }

    /// An account posts.
    async fn posts(&self, owner: &str, post: &str, at: Millis) {
        let mention = Mention {
            from: post.to_owned(),
            answered_at: at,
            ..Mention::first(owner, Arrival::Author { posted_at: Some(at) })
        };
        let received = self.receiver.receive(&self.starter, &[&mention]).await.unwrap();
        received.apply(&self.starter).await.unwrap();
    }

    /// Its list was visited then.
    async fn visited(&self, owner: &str, at: Millis) {
        let observation = Observation {
            id: owner.to_owned(),
            answered_at: at,
            finding: Finding::Found(Tweet { id: owner.to_owned(), raw: "{}".to_owned(), ..Tweet::default() }),
            state: ItemState::Live,
            next_due: Some(at + 30 * 86_400_000),
            follow: None,
            forget: false,
            recent: None,
        };
        self.store.save(LISTS, &[observation]).await.unwrap();
    }

    /// The lists in the order in which they are claimed, each with its lane.
    async fn order(&self) -> Vec<(String, String)> {
        let mut order = Vec::new();
        loop {
            let token = format!("t{}", order.len());
            let request = claim::at_once(&token, 1, Duration::from_secs(600));
            let Claim::Batch(batch) = self.queue.claim(&request).await.unwrap() else { return order };
            order.extend(batch.jobs.into_iter().map(|job| (job.id, job.lane.to_string())));
        }
    }
}

fn named(order: &[(&str, &str)]) -> Vec<(String, String)> {
    order.iter().map(|(id, lane)| ((*id).to_owned(), (*lane).to_owned())).collect()
}

#[tokio::test]
async fn a_second_post_moves_an_owner_up_and_the_newest_of_the_new_ones_is_first() {
    let (world, now) = (World::new().await, wall_ms());
    for (owner, post) in [("11", "1"), ("12", "2"), ("13", "3"), ("14", "4")] {
        world.posts(owner, post, now - 60_000).await;
        // Due times are whole milliseconds: one after the other.
        let before = wall_ms();
        while wall_ms() == before {}
    }
    // The same post, seen again, is no second one.
    world.posts("11", "1", now - 60_000).await;
    world.posts("12", "5", now - 30_000).await;
    assert_eq!(world.order().await, named(&[("12", "repeat"), ("14", "new"), ("13", "new"), ("11", "new")]));
}

#[tokio::test]
async fn an_owner_that_posts_after_its_visit_is_due_the_least_recently_visited_first_also_in_a_queue_that_is_built_again()
 {
    let (world, now) = (World::new().await, wall_ms());
    for owner in ["11", "12", "13", "14"] {
        world.posts(owner, &format!("{owner}1"), now - 9_000_000).await;
    }
    for (owner, ago) in [("11", 1_000_000), ("12", 3_000_000), ("13", 2_000_000)] {
        world.visited(owner, now - ago).await;
    }
    // A post of before the visit, and three of after it.
    world.posts("13", "132", now - 2_500_000).await;
    world.posts("11", "112", now - 500_000).await;
    world.posts("12", "122", now - 400_000).await;
    world.posts("12", "123", now - 300_000).await;
    // One that was never visited posts again.
    world.posts("15", "151", now - 90_000).await;
    world.posts("15", "152", now - 80_000).await;
    world.queue.forget(&["11", "12", "13", "14", "15"].map(str::to_owned)).await.unwrap();
    let done = world.rebuild.run(&Stop::new(), |_| {}).await.unwrap();
    assert_eq!(done.rows, 5);
    let expected = [("15", "repeat"), ("12", "repeat"), ("11", "repeat"), ("14", "new")];
    assert_eq!(world.order().await, named(&expected));
}
