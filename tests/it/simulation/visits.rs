//! Followed accounts in the simulation: timelines whose posts are made by a script, the pages that the API shows of them, and
//! what is stored, compared with the script.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use twitter_updater::base::clock::{Millis, Stopwatch, millis, wall_ms};
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::retry::RetryPolicy;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::engine::queue::{Lane, Place};
use twitter_updater::engine::schedule::visits::coefficients::Coefficients;
use twitter_updater::engine::schedule::visits::{Options, Visits};
use twitter_updater::engine::schedule::{Schedule, Schedules};
use twitter_updater::ingest::{LaneChooser, Rebuild, Starter};
use twitter_updater::model::post::{Tweet, TweetId};
use twitter_updater::model::provider::Provider as Network;
use twitter_updater::pipelines::visits::handler::AccountTimelineBuilder;
use twitter_updater::providers::lookup::{LookupError, Outcome};
use twitter_updater::providers::since::{IdLayout, Reading};
use twitter_updater::providers::source::{Source, SourceKeys};
use twitter_updater::providers::timeline::{NextPage, Page, Post, Rules, Timeline, TimelineRequest};
use twitter_updater::providers::unreadable::UnreadableObject;
use twitter_updater::quota::Credential;
use twitter_updater::store::{
    FollowList, FollowedAccount, Lifecycle, Part, Positions, SavedPage, SavedSource, SourceGap, SourceRow,
    SourceTrouble, StoreError,
};

use super::link::{LinkedLookup, LinkedQueue, LinkedStore, call_of_store};
use super::network::Way;
use super::provider::{ENDPOINT, Nature, Provider};
use super::world::{NAMESPACE, ORIGIN, World};
use crate::support::memory_positions::MemoryPositions;
use crate::support::memory_queue::{MemoryQueue, ServiceClock};

/// The pipeline of the posts that are found.
const POSTS: &str = "posts:found";
/// Posts of a page.
const PAGE: u32 = 5;
/// The intervals between visits of an account.
pub const SHORTEST: Duration = Duration::from_secs(10);
pub const LONGEST: Duration = Duration::from_secs(60);

/// What the visits leave behind.
#[derive(Debug)]
pub struct Found {
    pub posts: Arc<MemoryQueue>,
    positions: Arc<MemoryPositions>,
}

impl Found {
    pub fn new(clock: Arc<ServiceClock>) -> Self {
        Self { posts: Arc::new(MemoryQueue::new(POSTS, clock, Default::default())), positions: Arc::default() }
    }
}

/// When accounts are visited.
pub fn schedule() -> Visits {
    let options = Options { every: 30_000, shortest: millis(SHORTEST), longest: millis(LONGEST), ..Options::default() };
    Visits::new(options, Arc::new(Coefficients::embedded().unwrap()))
}

/// The lanes in which they wait.
pub fn lanes() -> Vec<Lane> {
    let schedule = schedule();
    (millis(SHORTEST)..=millis(LONGEST))
        .step_by(1_000)
        .filter_map(|interval| schedule.lane_for_interval(interval))
        .collect()
}

/// When an account makes a post, in that time: each has an interval of its own.
fn made(account: &str, from: Millis, until: Millis) -> Vec<u64> {
    let mut hasher = DefaultHasher::new();
    account.hash(&mut hasher);
    let dice = hasher.finish();
    let interval = 5_000 + (dice % 35_000) as Millis;
    let ahead = (dice >> 16) as Millis % interval;
    let first = (from - ORIGIN - ahead).div_euclid(interval) + 1;
    let moments = (first..).map(|number| ORIGIN + ahead + number * interval).take_while(|at| *at <= until);
    moments.map(|at| TweetId::at(at, (dice >> 40) as u32).get()).collect()
}

/// The timeline of an account at the end of a process's way. Whether it is there, the nature of the account says.
#[derive(Debug)]
struct LinkedTimeline {
    account: String,
    lookup: Arc<LinkedLookup>,
}

#[async_trait]
impl Timeline for LinkedTimeline {
    fn rules(&self) -> Rules {
        Rules::new(ENDPOINT, IdLayout::TWITTER, 1_000, PAGE)
    }

    async fn page(&self, ask: &TimelineRequest, credential: &Credential) -> Result<Page, LookupError> {
        let (account, ask, sent_at, watch) = (self.account.clone(), ask.clone(), wall_ms(), Stopwatch::start());
        let read = move |provider: &Provider| {
            let mut ids = made(&account, ORIGIN - 300_000, provider.now());
            ids.retain(|id| ask.since.is_none_or(|since| *id > since) && ask.below.is_none_or(|below| *id < below));
            ids.into_iter().rev().take(ask.count as usize).collect::<Vec<u64>>()
        };
        let (answer, ids) = self.lookup.answer_with(std::slice::from_ref(&self.account), credential, read).await?;
        if let Outcome::Unavailable | Outcome::Absent(_) = answer.outcomes[0] {
            return Err(LookupError::BadRequest("no such account".to_owned()));
        }
        let post = |id: u64| {
            let created_at = TweetId::parse(&id.to_string()).unwrap().created_at();
            Post { id, tweet: Tweet { id: id.to_string(), created_at, ..Tweet::default() } }
        };
        let reading = Reading { sent_at, took: watch.elapsed_ms() + 1, date: None };
        let posts = ids.into_iter().map(post).collect();
        Ok(Page { posts, broken: 0, misdated: 0, more: NextPage::Unstated, reading, quota: answer.quota })
    }
}

/// The services that visits need more than others, at the end of a process's way.
#[derive(Debug, Clone)]
pub struct Linked {
    way: Arc<Way>,
    world: Arc<World>,
}

impl Linked {
    pub fn new(way: &Arc<Way>, world: &Arc<World>) -> Self {
        Self { way: way.clone(), world: world.clone() }
    }

    /// The timelines of accounts.
    pub fn timelines(lookup: LinkedLookup) -> AccountTimelineBuilder {
        let lookup = Arc::new(lookup);
        let build = move |_: &Network, written: &SourceKeys, _: Duration| {
            let account = written.iter().find(|(key, _)| *key != "kind").map(|(_, account)| account.clone()).unwrap();
            let timeline = LinkedTimeline { account: account.clone(), lookup: lookup.clone() };
            Ok(Source { timeline: Arc::new(timeline), query: Some(account) })
        };
        AccountTimelineBuilder { provider: Network::Twitter, build: Box::new(build), k: Duration::ZERO }
    }

    /// Takes the posts.
    pub fn starter(&self) -> Starter {
        let queue = LinkedQueue { way: self.way.clone(), queue: self.world.found.posts.clone() };
        let store = LinkedStore { way: self.way.clone(), store: self.world.store.clone() };
        let ages: Arc<dyn Schedules> = Reloadable::new(self.world.setup.ages.clone()).into();
        let ids_only = |_: &str| Err(UnreadableObject::NotAccepted);
        Starter::new(Arc::new(queue), Some(Arc::new(store)), ages, Arc::new(Provider::created_at), ids_only)
    }
}

#[async_trait]
impl Positions for Linked {
    async fn saved_source(&self, namespace: &str, source: &str) -> Result<SavedSource, StoreError> {
        let (world, namespace, source) = (self.world.clone(), namespace.to_owned(), source.to_owned());
        call_of_store(&self.way, async move { world.found.positions.saved_source(&namespace, &source).await }).await
    }

    async fn save_page(&self, namespace: &str, source: &str, page: &SavedPage<'_>) -> Result<bool, StoreError> {
        let (world, namespace, source) = (self.world.clone(), namespace.to_owned(), source.to_owned());
        let SavedPage { at, is_start, has_new_posts, followed_at, .. } = *page;
        let gaps = page.gaps.to_vec();
        let (position, notes) = (page.position.to_owned(), page.notes.map(str::to_owned));
        call_of_store(&self.way, async move {
            let (position, gaps, notes) = (&*position, &*gaps, notes.as_deref());
            let page = SavedPage { at, position, is_start, gaps, has_new_posts, notes, followed_at };
            let saved = world.found.positions.save_page(&namespace, &source, &page).await?;
            world.store.note_page(&source, format_args!("{position}"));
            Ok(saved)
        })
        .await
    }

    async fn save_trouble(&self, namespace: &str, source: &str, trouble: &SourceTrouble) -> Result<(), StoreError> {
        let (world, namespace, source) = (self.world.clone(), namespace.to_owned(), source.to_owned());
        let trouble = trouble.clone();
        call_of_store(&self.way, async move { world.found.positions.save_trouble(&namespace, &source, &trouble).await })
            .await
    }

    async fn was_another_source_read(
        &self,
        namespaces: &[String],
        (namespace, source): (&str, &str),
        within: (Millis, Millis),
    ) -> Result<bool, StoreError> {
        let (world, namespaces) = (self.world.clone(), namespaces.to_vec());
        let (namespace, source) = (namespace.to_owned(), source.to_owned());
        call_of_store(&self.way, async move {
            world.found.positions.was_another_source_read(&namespaces, (&namespace, &source), within).await
        })
        .await
    }

    // What people look at is not asked for here.
    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>, StoreError> {
        self.world.found.positions.gaps(namespace, source).await
    }

    async fn sources(&self, gaps: u32) -> Result<Vec<SourceRow>, StoreError> {
        self.world.found.positions.sources(gaps).await
    }
}

/// Everybody is followed, in one part.
#[async_trait]
impl FollowList for Linked {
    async fn follow(&self, _: &str, _: Millis, accounts: &[(String, Part)]) -> Result<Vec<Part>, StoreError> {
        Ok(vec![0; accounts.len()])
    }

    async fn unfollow(&self, _: &str, _: Millis, _: &[String]) -> Result<Vec<(String, Part)>, StoreError> {
        Ok(Vec::new())
    }

    async fn follow_for_community(
        &self,
        _: &str,
        _: Millis,
        _: &[(String, Part)],
        _: &str,
        _: &[String],
    ) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn unfollow_for_community(
        &self,
        _: &str,
        _: Millis,
        _: &[String],
        _: &str,
        _: &[String],
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn followed(&self, _: &str, accounts: &[String]) -> Result<Vec<Option<Part>>, StoreError> {
        let count = accounts.len();
        call_of_store(&self.way, async move { Ok(vec![Some(0); count]) }).await
    }

    async fn move_to_part(&self, _: &str, _: Part, _: &[String]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn end_visits(&self, _: &str, _: Part, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn page_followed(&self, _: &str, _: &str, _: u32) -> Result<Vec<FollowedAccount>, StoreError> {
        Ok(Vec::new())
    }
}

/// Of accounts that were there all the time, all posts are stored and in their queue, from the newest page of the first visit
/// that was finished to those that were made before the last round. A process that dies in its first visit may leave posts that
/// are recorded only: a rebuild puts them back.
pub async fn check(world: &World, ids: &[String]) {
    let lives =
        |id: &&String| matches!(world.provider.nature(id), Some(Nature::Lives | Nature::Withheld | Nature::Broken));
    let is_in_the_queue =
        |post: &String| matches!(world.found.posts.with_model(|model| model.place(post)), Some(Place::Delayed { .. }));
    let (from, until) = (ORIGIN - 300_000, world.now() - millis(LONGEST + Duration::from_secs(40)));
    let (mut recorded, saves) = (Vec::new(), world.store.stored());
    for id in ids.iter().filter(lives) {
        let posts: Vec<String> = made(id, from, until).iter().map(u64::to_string).collect();
        let known = world.store.standing(POSTS, &posts).await.unwrap();
        let found: Vec<(&String, bool)> = posts.iter().zip(known.iter().map(Option::is_some)).collect();
        let first = found.iter().position(|(post, _)| is_in_the_queue(post));
        for (post, is_stored) in &found[first.unwrap_or(found.len())..] {
            if !is_stored || !is_in_the_queue(post) {
                world.log.wrong(format_args!("{id}: post {post} is stored: {is_stored}, and not in the queue"));
            }
        }
        // One that was visited in the last round alone need have none.
        let is_old = saves.get(id).is_some_and(|saves| saves[0].at < until) && !posts.is_empty();
        if first.is_none() && is_old {
            world.log.wrong(format_args!("{id}: none of its {} posts is in the queue", posts.len()));
        }
        recorded.extend(found.into_iter().filter(|(_, is_stored)| *is_stored).map(|(post, _)| post.clone()));
        let gaps = world.found.positions.row(NAMESPACE, id).gaps;
        if gaps > 0 {
            world.log.wrong(format_args!("{id}: {gaps} gaps in a timeline without any"));
        }
    }
    let lanes = world.refresh(&Way::new(usize::MAX, world.network.clone())).rebuild.lanes;
    let rebuild = Rebuild {
        queue: world.found.posts.clone(),
        store: world.store.clone(),
        lanes: LaneChooser { schedule: Reloadable::new(world.setup.ages.clone()).into(), ..lanes },
        lease: world.setup.claims.lease,
        rate: 10_000,
        retry: RetryPolicy::default(),
    };
    rebuild.run(&Stop::new(), |_| {}).await.unwrap();
    if let Some(post) = recorded.iter().find(|post| !is_in_the_queue(post)) {
        world.log.wrong(format_args!("post {post} is stored, and not in the queue that was built again"));
    }
}
