//! A round of pages is one visit: of one claim, or of several where it is cut short.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::base::reload::Reloadable;
use twitter_updater::config::Settings;
use twitter_updater::engine::queue::{Claim, Due, EmbeddedQueue, Jobs, Lane, NewJob, Verdict};
use twitter_updater::engine::schedule::Schedules;
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::engine::schedule::visits::coefficients::Coefficients;
use twitter_updater::engine::schedule::visits::rhythm::Rhythm;
use twitter_updater::engine::schedule::visits::{Options, Visits, classes};
use twitter_updater::engine::worker::{BatchOutcome, Handler, Outlook};
use twitter_updater::ingest::Starter;
use twitter_updater::model::post::{Tweet, TweetId};
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::item_handler::ItemHandler;
use twitter_updater::pipelines::kind::PipelineKind;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::pipelines::store_call::PipelineStore;
use twitter_updater::pipelines::timelines::counters::PollCounters;
use twitter_updater::pipelines::timelines::reader::{Reader, SharedState};
use twitter_updater::pipelines::visits::AccountVisits;
use twitter_updater::pipelines::visits::handler::{AccountTimelineBuilder, VisitWork};
use twitter_updater::pipelines::visits::summary::VisitSummary;
use twitter_updater::providers::lookup::LookupError;
use twitter_updater::providers::since::{IdLayout, Reading};
use twitter_updater::providers::source::{Source, SourceKeys};
use twitter_updater::providers::timeline::{NextPage, Page, Post, Rules, Timeline, TimelineRequest};
use twitter_updater::providers::twitter_v1::parse_ingested;
use twitter_updater::quota::{AcquireOutcome, Credential, CredentialKind, Credentials, EmbeddedLedger, Pacing};
use twitter_updater::store::{FollowList, Lifecycle, Positions, Posts, SqliteStore};

use crate::support::claim;
use crate::support::visits::VISITS;

const PATIENCE: Duration = Duration::from_secs(20);
const ENDPOINT: &str = "statuses/user_timeline";
const ACCOUNT: &str = "7";
/// Posts of a page.
const PAGE: u32 = 5;

/// The ids of an account's posts, the newest last; while the queue's clock is wrong there is no answer. The last figure is the time
/// that processes have lost meanwhile, ms.
#[derive(Debug, Clone, Default)]
struct Scripted(Arc<Mutex<Vec<u64>>>, Arc<AtomicBool>, Arc<AtomicI64>);

#[async_trait]
impl Timeline for Scripted {
    fn rules(&self) -> Rules {
        Rules { depth: Some(3_200), ..Rules::new(ENDPOINT, IdLayout::TWITTER, 1_000, PAGE) }
    }

    async fn page(&self, ask: &TimelineRequest, _: &Credential) -> Result<Page, LookupError> {
        if self.1.load(Ordering::Relaxed) {
            return Err(LookupError::QueueClock("the queue's clock is 2h ahead of the API's".to_owned()));
        }
        let mut ids = self.0.lock().unwrap().clone();
        ids.retain(|id| ask.since.is_none_or(|since| *id > since) && ask.below.is_none_or(|below| *id < below));
        let post = |id: u64| {
            let created_at = TweetId::parse(&id.to_string()).unwrap().created_at();
            Post { id, tweet: Tweet { id: id.to_string(), created_at, raw: "{}".to_owned(), ..Tweet::default() } }
        };
        let posts = ids.into_iter().rev().take(ask.count as usize).map(post).collect();
        let reading = Reading { sent_at: wall_ms() + self.2.load(Ordering::Relaxed), took: 1, date: None };
        Ok(Page { posts, broken: 0, misdated: 0, more: NextPage::Unstated, reading, quota: None })
    }
}

/// A followed account, and the settings that nobody has changed.
struct World {
    settings: Settings,
    timeline: Scripted,
    queue: Arc<EmbeddedQueue>,
    posts: Arc<EmbeddedQueue>,
    store: Arc<SqliteStore>,
    credentials: Arc<Credentials>,
    polls: Arc<PollCounters>,
    claims: AtomicU32,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let store = Arc::new(SqliteStore::open(&path("visits.db"), PATIENCE).await.unwrap());
        store.migrate().await.unwrap();
        store.follow(VISITS, wall_ms(), &[(ACCOUNT.to_owned(), 0)]).await.unwrap();
        let ledger = EmbeddedLedger::open(&path("quota.db"), "twitter", PATIENCE).await.unwrap();
        let nobody = Credential { name: "nobody".to_owned(), kind: CredentialKind::Anonymous };
        Self {
            settings: Settings::load_with(&[], None, &[]).unwrap(),
            timeline: Scripted::default(),
            queue: Arc::new(EmbeddedQueue::open(&path("jobs.db"), VISITS, PATIENCE).await.unwrap()),
            posts: Arc::new(EmbeddedQueue::open(&path("jobs.db"), NAMESPACE, PATIENCE).await.unwrap()),
            store,
            credentials: Arc::new(Credentials::new(vec![nobody], Arc::new(ledger), Pacing::Greedy, PATIENCE)),
            polls: Arc::default(),
            claims: AtomicU32::new(0),
            _folder: folder,
        }
    }

    /// So many posts, one a minute, the last of them `before_now` ago.
    fn make(&self, posts: i64, before_now: Duration) {
        let last = wall_ms() - before_now.as_millis() as Millis;
        let ids = (0..posts).rev().map(|number| TweetId::at(last - number * 60_000, 1).get());
        self.timeline.0.lock().unwrap().extend(ids);
    }

    fn visitor(&self, pages: u32) -> ItemHandler<VisitWork> {
        let (timeline, settings) = (self.timeline.clone(), &self.settings);
        let build = move |_: &Provider, _: &SourceKeys, _: Duration| {
            Ok(Source { timeline: Arc::new(timeline.clone()), query: Some(ACCOUNT.to_owned()) })
        };
        let ages: AgeTable = "30d: 1d".parse().unwrap();
        let date_of = Arc::new(TweetId::date_of);
        let reader = Reader {
            namespace: VISITS.to_owned(),
            endpoint: ENDPOINT,
            pages,
            starter: Starter::new(self.posts.clone(), Some(self.store.clone()), ages, date_of, parse_ingested),
            way: "visit",
            stores_old: true,
            positions: self.store.clone(),
            credentials: self.credentials.clone(),
            call_timeout: settings.lookup.timeout,
            save_timeout: settings.updater.save_timeout,
            longest: settings.visits.longest,
            metrics: Arc::default(),
            polls: self.polls.clone(),
            shared_state: SharedState::new([VISITS.to_owned()]),
        };
        let schedule: Arc<dyn Schedules> =
            Reloadable::new(Visits::new(Options::default(), Arc::new(Coefficients::embedded().unwrap()))).into();
        let visitor = VisitWork {
            items: PipelineStore::new(VISITS.to_owned(), self.store.clone(), &settings.updater),
            part: 0,
            reader,
            accounts: AccountTimelineBuilder { provider: Provider::Twitter, build: Box::new(build), k: Duration::ZERO },
            followed: self.store.clone(),
            schedule,
            rules: classes::Rules::default(),
            unavailable: AccountVisits.terms(settings).unavailable,
            shortest: settings.visits.shortest,
            evidence_sender: None,
        };
        ItemHandler(visitor)
    }

    async fn is_due(&self) {
        let due = NewJob { id: ACCOUNT.to_owned(), lane: Lane::first(), due: 0.into() };
        self.queue.forget(&[ACCOUNT.to_owned()]).await.unwrap();
        self.queue.schedule(&[due]).await.unwrap();
    }

    /// A claim that reads so many pages at the most.
    async fn handled(&self, pages: u32) -> BatchOutcome {
        let token = self.claims.fetch_add(1, Ordering::Relaxed).to_string();
        let request = claim::at_once(&token, 1, AccountVisits.terms(&self.settings).lease);
        let Claim::Batch(batch) = self.queue.claim(&request).await.unwrap() else { panic!("it is due") };
        let visitor = self.visitor(pages);
        let AcquireOutcome::Granted(permit) = self.credentials.acquire(visitor.endpoint(), 1).await.unwrap() else {
            panic!("the quota has no limit")
        };
        let handled = visitor.handle(&batch, permit).await;
        self.queue.settle(&batch.fence, &handled.verdicts, &[]).await.unwrap();
        self.queue.release(&batch.fence, &handled.release).await.unwrap();
        handled
    }

    /// The same; answers whether the visit is over.
    async fn claim(&self, pages: u32) -> bool {
        let handled = self.handled(pages).await;
        let [(job, Verdict::Reschedule { due, .. })] = &handled.verdicts[..] else { panic!("{handled:?}") };
        *due != Due::At(job.due)
    }

    async fn rhythm(&self) -> Rhythm {
        self.store.saved_source(VISITS, ACCOUNT).await.unwrap().notes.unwrap().into()
    }

    async fn summary(&self) -> VisitSummary {
        let row = self.store.tweet(VISITS, ACCOUNT).await.unwrap().unwrap();
        serde_json::from_str(&row.raw.unwrap()).unwrap()
    }
}

#[tokio::test]
async fn the_lease_has_room_for_all_pages_of_a_visit() {
    let world = World::new().await;
    let pages = world.settings.visits.pages;
    world.make(i64::from(PAGE), Duration::from_secs(7_200));
    world.is_due().await;
    assert!(world.claim(pages).await, "the first visit reads the newest page");
    // The last page reaches what is known.
    world.make(i64::from((pages - 1) * PAGE + 1), Duration::from_secs(10));
    world.is_due().await;
    assert!(world.claim(pages).await, "it is cut short");
    assert_eq!(world.polls.pages.get(), i64::from(1 + pages));
}

#[tokio::test]
async fn a_visit_that_is_cut_short_is_one_visit_in_rhythm_and_summary() {
    let world = World::new().await;
    world.make(3, Duration::from_secs(7_200));
    world.is_due().await;
    assert!(world.claim(1).await);
    let first = world.rhythm().await;
    world.make(12, Duration::from_secs(10));
    world.is_due().await;
    let mut claims = 1;
    while !world.claim(1).await {
        claims += 1;
    }
    assert_eq!(claims, 3);
    let last = world.rhythm().await;
    assert_eq!((last.before, last.count), (first.visited, first.count + 12));
    assert_eq!(last.priority, first.priority + classes::Rules::default().up);
    assert_eq!(world.summary().await.posts, 12);
}

/// The processes that read its pages die between two pages, an hour each.
#[tokio::test]
async fn an_account_without_posts_that_posts_once_has_no_gap() {
    let world = World::new().await;
    world.is_due().await;
    assert!(world.claim(1).await, "its timeline is empty");
    world.make(1, Duration::from_secs(2));
    world.is_due().await;
    while !world.claim(1).await {
        world.timeline.2.fetch_add(3_600_000, Ordering::Relaxed);
    }
    assert_eq!(world.summary().await.posts, 1);
    assert_eq!(world.store.gaps(VISITS, ACCOUNT).await.unwrap(), []);
    assert_eq!(world.polls.gaps.get(), 0);
}

#[tokio::test]
async fn an_empty_page_below_a_new_post_is_no_gap_where_the_older_posts_are_deleted() {
    let world = World::new().await;
    world.make(2, Duration::from_secs(7_200));
    world.is_due().await;
    assert!(world.claim(1).await);
    world.timeline.0.lock().unwrap().clear();
    world.make(1, Duration::from_secs(2));
    world.is_due().await;
    while !world.claim(1).await {}
    assert_eq!(world.summary().await.posts, 1);
    assert_eq!(world.store.gaps(VISITS, ACCOUNT).await.unwrap(), []);
}

/// It is no failure of the account, whose next visit would be by that clock.
#[tokio::test]
async fn while_the_queue_s_clock_is_wrong_each_is_given_back() {
    let world = World::new().await;
    world.make(3, Duration::from_secs(7_200));
    world.is_due().await;
    world.timeline.1.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        let handled = world.handled(1).await;
        assert_eq!((handled.verdicts.len(), handled.release.len()), (0, 1));
        assert!(matches!(&handled.outlook, Outlook::Outage(why) if why.contains("ahead")), "{handled:?}");
    }
    assert_eq!(world.store.tweet(VISITS, ACCOUNT).await.unwrap(), None, "nothing is noted of it");
    world.timeline.1.store(false, Ordering::Relaxed);
    assert!(world.claim(1).await, "due as it was");
}
