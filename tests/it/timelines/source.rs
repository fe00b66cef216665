//! Sources in their queue, against the simulated API: killed at every point, none of their posts is lost.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use tokio::sync::Notify;
use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::engine::health::Health;
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::engine::queue::{EmbeddedQueue, Inspection, Place};
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::engine::worker::{ClaimSettings, HandlerKind, PermanentFailure, Worker};
use twitter_updater::ingest::Starter;
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::timelines::counters::PollCounters;
use twitter_updater::pipelines::timelines::pace::Pace;
use twitter_updater::pipelines::timelines::reader::{Reader, SharedState};
use twitter_updater::pipelines::timelines::slow_polls::SlowPollLimiter;
use twitter_updater::pipelines::timelines::source::{SourcePoll, TimelineDirectory};
use twitter_updater::providers::http::{HttpClient, HttpOptions};
use twitter_updater::providers::lookup::{LookupError, Quota};
use twitter_updater::providers::source::{Source, SourceKind};
use twitter_updater::providers::timeline::{Page, Timeline};
use twitter_updater::providers::timeline::{Rules, TimelineRequest};
use twitter_updater::providers::twitter_v1::parse_ingested;
use twitter_updater::providers::twitter_v1::timeline::{Kind, TwitterApi};
use twitter_updater::quota::{Credential, CredentialKind, Credentials, EmbeddedLedger, Pacing};
use twitter_updater::simulator::{self, Running, SimulatorOptions};
use twitter_updater::store::{
    Lifecycle, Positions, SavedPage, SavedSource, SourceGap, SourceRow, SourceTrouble, SqliteStore, StoreError,
};

use crate::support::rig::eventually;
use crate::timelines::polled;

pub const TWEETS: &str = "tweet:update";
pub const BUSY: Duration = Duration::from_secs(20);
/// How long a source that was in work when its poller was killed is nobody's.
const LEASE: Duration = Duration::from_secs(1);
pub const LATE: Duration = Duration::from_secs(1);

/// Where a poller is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Page,
    BeforeSave,
    AfterSave,
}

/// Stops a poller for ever at a point, the so-manieth time it comes by.
#[derive(Debug, Default)]
pub struct Trap {
    armed: std::sync::Mutex<Option<(At, u64)>>,
    sprung: Notify,
    saves: AtomicU64,
}

impl Trap {
    fn arm(&self, at: At, times: u64) {
        *self.armed.lock().unwrap() = Some((at, times));
    }

    async fn pass(&self, at: At) {
        let stops = {
            let mut armed = self.armed.lock().unwrap();
            match &mut *armed {
                Some((point, left)) if *point == at && *left == 1 => {
                    *armed = None;
                    true
                }
                Some((point, left)) if *point == at => {
                    *left -= 1;
                    false
                }
                _ => false,
            }
        };
        if stops {
            self.sprung.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

/// A timeline and positions with the trap in them.
#[derive(Debug, Clone)]
struct Trapped<T> {
    inner: T,
    trap: Arc<Trap>,
}

#[async_trait]
impl<T: Timeline> Timeline for Trapped<T> {
    fn rules(&self) -> Rules {
        self.inner.rules()
    }

    async fn page(&self, ask: &TimelineRequest, credential: &Credential) -> Result<Page, LookupError> {
        let page = self.inner.page(ask, credential).await;
        self.trap.pass(At::Page).await;
        page
    }
}

#[async_trait]
impl Positions for Trapped<Arc<SqliteStore>> {
    async fn saved_source(&self, namespace: &str, source: &str) -> Result<SavedSource, StoreError> {
        self.inner.saved_source(namespace, source).await
    }

    async fn save_page(&self, namespace: &str, source: &str, page: &SavedPage<'_>) -> Result<bool, StoreError> {
        // Where a first page begins is saved before its posts are handed over.
        if page.has_new_posts {
            self.trap.pass(At::BeforeSave).await;
        }
        let saved = self.inner.save_page(namespace, source, page).await?;
        self.trap.saves.fetch_add(1, Ordering::Relaxed);
        self.trap.pass(At::AfterSave).await;
        Ok(saved)
    }

    async fn save_trouble(&self, namespace: &str, source: &str, trouble: &SourceTrouble) -> Result<(), StoreError> {
        self.inner.save_trouble(namespace, source, trouble).await
    }

    async fn was_another_source_read(
        &self,
        namespaces: &[String],
        source: (&str, &str),
        within: (Millis, Millis),
    ) -> Result<bool, StoreError> {
        self.inner.was_another_source_read(namespaces, source, within).await
    }

    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>, StoreError> {
        self.inner.gaps(namespace, source).await
    }

    async fn sources(&self, gaps: u32) -> Result<Vec<SourceRow>, StoreError> {
        self.inner.sources(gaps).await
    }
}

pub fn api(simulator: &Running) -> TwitterApi {
    let http = HttpClient::new(&HttpOptions {
        timeout: BUSY,
        connect_timeout: BUSY,
        max_body_bytes: 16 << 20,
        user_agent: "test".into(),
        proxy: None,
    });
    TwitterApi::new(http.unwrap(), &simulator.base_url()).unwrap()
}

pub async fn simulated(posts_per_second: f64) -> Running {
    simulated_without(posts_per_second, 0.1).await
}

/// The same without that share of the posts, sooner or later.
async fn simulated_without(posts_per_second: f64, missing_share: f64) -> Running {
    let options = SimulatorOptions {
        posts_per_second,
        posts_late: LATE,
        missing_share,
        body_padding: 0,
        ..SimulatorOptions::default()
    };
    simulator::start("127.0.0.1:0".parse().unwrap(), options).await.unwrap()
}

/// Users' timelines, as the settings name them.
fn named(simulator: &Running, users: &[&str], trap: &Arc<Trap>) -> Arc<dyn TimelineDirectory> {
    let source = |user: &&str| {
        let inner = Kind::User { screen_name: Some((*user).to_owned()), user_id: None }.build(&api(simulator), LATE);
        ((*user).to_owned(), Source { timeline: Arc::new(Trapped { inner, trap: trap.clone() }), query: None })
    };
    Arc::new(users.iter().map(source).collect::<BTreeMap<_, _>>())
}

/// A poller of user timelines, as a process has it: everything but the files is its own.
pub struct Poller {
    pub queue: Arc<EmbeddedQueue>,
    pub tweets: Arc<EmbeddedQueue>,
    pub store: Arc<SqliteStore>,
    pub polls: Arc<PollCounters>,
    pub health: Arc<Health>,
    run: tokio::task::JoinHandle<Result<(), PermanentFailure>>,
    stop: Stop,
}

impl Poller {
    pub async fn start(folder: &Path, timelines: Arc<dyn TimelineDirectory>, trap: &Arc<Trap>) -> Self {
        let file = folder.join("all.db");
        let store = Arc::new(SqliteStore::open(&file, BUSY).await.unwrap());
        store.migrate().await.unwrap();
        let of_sources = polled("statuses/user_timeline");
        let queue = Arc::new(EmbeddedQueue::open(&file, &of_sources, BUSY).await.unwrap());
        let tweets = Arc::new(EmbeddedQueue::open(&file, TWEETS, BUSY).await.unwrap());
        let ledger = Arc::new(EmbeddedLedger::open(&file, "twitter", BUSY).await.unwrap());
        let credential = Credential { name: "app".into(), kind: CredentialKind::Bearer(SecretString::from("token")) };
        let credentials = Arc::new(Credentials::new(vec![credential], ledger, Pacing::Greedy, LEASE));
        let ages: AgeTable = "30d: 1d".parse().unwrap();
        let polls = Arc::<PollCounters>::default();
        let concurrency = Reloadable::new(2);
        let reader = Reader {
            metrics: Arc::default(),
            namespace: of_sources,
            endpoint: "statuses/user_timeline",
            way: "poll",
            stores_old: false,
            longest: Duration::from_millis(500),
            pages: 3,
            starter: Starter::new(
                tweets.clone(),
                Some(store.clone()),
                ages,
                Arc::new(TweetId::date_of),
                parse_ingested,
            ),
            positions: Arc::new(Trapped { inner: store.clone(), trap: trap.clone() }),
            credentials: credentials.clone(),
            call_timeout: BUSY,
            save_timeout: BUSY,
            polls: polls.clone(),
            shared_state: SharedState::new([polled("statuses/user_timeline")]),
        };
        let handler = Arc::new(SourcePoll {
            reader,
            timelines,
            pace: Pace { shortest: Duration::from_millis(100), longest: Duration::from_millis(500), fill: 0.5 },
            slow_polls: SlowPollLimiter::new(concurrency.clone()),
        });
        handler.schedule(&*queue).await.unwrap();
        let claims = ClaimSettings { limit: 1, linger: Duration::from_millis(10), lookahead: 0.0, lease: LEASE };
        let stop = Stop::new();
        let health = Arc::new(Health::new(BUSY, stop.clone()));
        let worker = Worker {
            name: "poller".into(),
            queue: queue.clone(),
            handling: HandlerKind::Metered(handler, credentials),
            claims: Reloadable::new(claims),
            early: 0.0.into(),
            concurrency,
            metrics: Arc::new(Metrics::new()),
            health: health.clone(),
            stop: stop.clone(),
        };
        let run = tokio::spawn(worker.run());
        Self { queue, tweets, store, polls, health, run, stop }
    }

    /// As kill -9: nothing is settled or given back.
    async fn kill(self) {
        self.run.abort();
        assert!(self.run.await.unwrap_err().is_cancelled());
    }

    pub async fn stop(self) {
        self.stop.drain();
        self.run.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_every_point_it_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let simulator = simulated(40.0).await;
    let trap = Arc::new(Trap::default());
    let begun = wall_ms();
    for (round, at) in [At::Page, At::BeforeSave, At::AfterSave].into_iter().cycle().take(9).enumerate() {
        trap.arm(at, 1 + round as u64 % 4);
        let poller = Poller::start(folder.path(), named(&simulator, &["one"], &trap), &trap).await;
        trap.sprung.notified().await;
        poller.kill().await;
    }
    let poller = Poller::start(folder.path(), named(&simulator, &["one"], &trap), &trap).await;
    let due: Vec<String> =
        simulator.timeline("@one", begun, wall_ms()).iter().map(|post| post.id.to_string()).collect();
    assert!(due.len() > 100, "{}", due.len());
    let store = poller.store.clone();
    let tweets = poller.tweets.clone();
    eventually("every post is in the queue, once", async || {
        let places = tweets.locate(&due).await.unwrap();
        places.iter().all(|of| matches!(&of[..], [Place::Delayed { .. }]))
    })
    .await;
    let recorded = store.standing(TWEETS, &due).await.unwrap();
    assert!(recorded.iter().all(Option::is_some), "and in the store, before that");
    assert_eq!(store.gaps(&polled("statuses/user_timeline"), "one").await.unwrap(), []);
    poller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_page_that_was_handed_over_is_gone_back_to_however_long_nobody_polls() {
    let folder = tempfile::tempdir().unwrap();
    let simulator = simulated(400.0).await;
    let trap = Arc::new(Trap::default());
    let users = || named(&simulator, &["one"], &trap);
    let begun = wall_ms();
    trap.arm(At::BeforeSave, 1);
    let poller = Poller::start(folder.path(), users(), &trap).await;
    trap.sprung.notified().await;
    poller.kill().await;
    let killed = wall_ms();
    let made = async || simulator.timeline("@one", killed, wall_ms()).len() > 400;
    eventually("there are more new posts than a page has", made).await;

    let poller = Poller::start(folder.path(), users(), &trap).await;
    let due: Vec<String> =
        simulator.timeline("@one", begun, wall_ms()).iter().map(|post| post.id.to_string()).collect();
    let tweets = poller.tweets.clone();
    eventually("every post is in the queue", async || {
        tweets.locate(&due).await.unwrap().iter().all(|of| matches!(&of[..], [Place::Delayed { .. }]))
    })
    .await;
    assert_eq!(poller.store.gaps(&polled("statuses/user_timeline"), "one").await.unwrap(), []);
    poller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_is_not_ours_to_see_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let simulator = simulated(20.0).await;
    let trap = Arc::new(Trap::default());
    let users = named(&simulator, &["missing", "one", "protected"], &trap);
    let poller = Poller::start(folder.path(), users, &trap).await;
    eventually("the one that can be is polled", async || trap.saves.load(Ordering::Relaxed) >= 5).await;
    let counted = poller.polls.clone();
    eventually("and counted, with those that cannot be", async || {
        counted.pages.get() >= 5 && counted.polls_failed.get() >= 2 && counted.polls.get() > counted.polls_failed.get()
    })
    .await;
    let (new, seen) = (counted.posts_new.get(), counted.posts_seen.get());
    assert!(0 < new && new <= seen, "{new} of {seen}");
    assert_eq!(counted.gaps.get(), 0);
    let queue = poller.queue.clone();
    let is_delayed = async |name: &str| {
        let places = queue.locate(&[name.to_owned()]).await.unwrap().remove(0);
        matches!(&places[..], [Place::Delayed { .. }])
    };
    for name in ["missing", "protected"] {
        eventually("it is tried again, later", async || is_delayed(name).await).await;
        assert_eq!(poller.store.saved_source(&polled("statuses/user_timeline"), name).await.unwrap().position, None);
    }
    poller.stop().await;
}

#[tokio::test]
async fn every_kind_is_read_back_to_what_is_known() {
    // Half of the missing are gone at once. A page of 100 that lacks none of them would be one in 10 million.
    let simulator = simulated_without(10.0, 0.3).await;
    let api = api(&simulator);
    let anonymous = Credential { name: "none".into(), kind: CredentialKind::Anonymous };
    for (kind, target, limit) in [
        (Kind::Search { query: "rust lang".into() }, "rust lang", 180),
        (Kind::User { screen_name: Some("jack".into()), user_id: None }, "@jack", 900),
        (Kind::List { list_id: "12".into() }, "list 12", 900),
        (Kind::Home {}, "anonymous", 15),
    ] {
        let timeline = kind.clone().build(&api, LATE);
        let count = timeline.rules().count;
        let ask = |since, below| TimelineRequest { since, below, cursor: None, count };
        let sent = wall_ms();
        let page = timeline.page(&ask(None, None), &anonymous).await.unwrap();
        let ids: Vec<u64> = page.posts.iter().map(|post| post.id).collect();
        assert!(ids.is_sorted_by(|a, b| a > b) && ids.len() > count as usize / 2, "{kind:?}: {}", ids.len());
        assert!(ids.len() < count as usize, "some are left out after the count");
        let Quota { limit: told, .. } = page.quota.unwrap();
        assert_eq!(told, limit, "{kind:?}");
        let asked_at = page.reading.asked_at().unwrap();
        assert!((sent - 60_000..=wall_ms()).contains(&asked_at), "{kind:?}: {:?}", page.reading);
        // The middle alone, both ends left out.
        let (below, since) = (ids[10], ids[30]);
        let middle = timeline.page(&ask(Some(since), Some(below)), &anonymous).await.unwrap();
        let middle: Vec<u64> = middle.posts.iter().map(|post| post.id).collect();
        let old: Vec<u64> = simulator
            .timeline(target, sent - 60_000, sent - 2_000)
            .iter()
            .map(|post| post.id.get())
            .filter(|id| since < *id && *id < below)
            .collect();
        assert!(old.iter().all(|id| middle.contains(id)), "{kind:?}");
        assert!(middle.iter().all(|id| since < *id && *id < below), "{kind:?}");
    }
}
