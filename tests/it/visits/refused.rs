//! Accounts whose timelines are refused: one alone, or all of them; and the sign of life that wakes one. Each visit is made by a
//! process that knows nothing of those before it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::base::reload::Reloadable;
use twitter_updater::engine::queue::{Claim, EmbeddedQueue, Jobs, Lane, NewJob, Verdict};
use twitter_updater::engine::schedule::Schedules;
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::engine::schedule::visits::coefficients::Coefficients;
use twitter_updater::engine::schedule::visits::{Options, Visits, classes};
use twitter_updater::engine::worker::{Handler, Outlook};
use twitter_updater::ingest::Starter;
use twitter_updater::model::post::{ItemState, TweetId};
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::item_handler::ItemHandler;
use twitter_updater::pipelines::refresh::{Arrival, Mention, Receiver, UNAVAILABLE_LANE, UnavailableSettings};
use twitter_updater::pipelines::store_call::PipelineStore;
use twitter_updater::pipelines::timelines::reader::{Reader, SharedState};
use twitter_updater::pipelines::visits::handler::{AccountTimelineBuilder, VisitWork};
use twitter_updater::pipelines::visits::post_count_receiver::PostCountReceiver;
use twitter_updater::providers::http::{HttpClient, HttpOptions};
use twitter_updater::providers::registry::source_kinds;
use twitter_updater::providers::twitter_v1::parse_ingested;
use twitter_updater::providers::x_v2::Fields;
use twitter_updater::quota::{AcquireOutcome, Credential, CredentialKind, Credentials, EmbeddedLedger, Pacing};
use twitter_updater::store::{FollowList, Lifecycle, Positions, SavedPage, SqliteStore};

use crate::support::claim;
use crate::support::http::{Asked, Canned, CannedServer};
use crate::support::wait::until_true;

const VISITS: &str = "visits:mastodon:social";
const PATIENCE: Duration = Duration::from_secs(20);

/// Followed accounts of an instance that is asked without a token, and refuses some of them.
struct World {
    accounts: Vec<String>,
    refused: Arc<Mutex<BTreeSet<String>>>,
    instance: CannedServer,
    queue: Arc<EmbeddedQueue>,
    posts: Arc<EmbeddedQueue>,
    store: Arc<SqliteStore>,
    credentials: Arc<Credentials>,
    claims: AtomicU32,
    _folder: tempfile::TempDir,
}

fn schedule() -> Arc<dyn Schedules> {
    Reloadable::new(Visits::new(Options::default(), Arc::new(Coefficients::embedded().unwrap()))).into()
}

impl World {
    async fn new(accounts: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let queue = Arc::new(EmbeddedQueue::open(&path("jobs.db"), VISITS, PATIENCE).await.unwrap());
        let posts = Arc::new(EmbeddedQueue::open(&path("jobs.db"), "mastodon:social", PATIENCE).await.unwrap());
        let store = Arc::new(SqliteStore::open(&path("visits.db"), PATIENCE).await.unwrap());
        store.migrate().await.unwrap();
        let followed: Vec<(String, i64)> = accounts.iter().map(|account| ((*account).to_owned(), 0)).collect();
        store.follow(VISITS, wall_ms(), &followed).await.unwrap();
        let ledger = EmbeddedLedger::open(&path("quota.db"), "mastodon:social", PATIENCE).await.unwrap();
        let nobody = Credential { name: "nobody".to_owned(), kind: CredentialKind::Anonymous };
        let credentials = Arc::new(Credentials::new(vec![nobody], Arc::new(ledger), Pacing::Greedy, PATIENCE));
        let refused = Arc::<Mutex<BTreeSet<String>>>::default();
        let refuses = refused.clone();
        let instance = CannedServer::start_with(move |asked: &Asked| {
            let is_of = |account: &String| asked.target.contains(&format!("/accounts/{account}/statuses"));
            match refuses.lock().unwrap().iter().any(is_of) {
                true => Canned::new(401, r#"{"error":"This method requires an authenticated user"}"#),
                false => Canned::new(200, "[]"),
            }
        })
        .await;
        Self {
            accounts: accounts.iter().map(|account| (*account).to_owned()).collect(),
            refused,
            instance,
            queue,
            posts,
            store,
            credentials,
            claims: AtomicU32::new(0),
            _folder: folder,
        }
    }

    /// The accounts that are refused from now on.
    fn refuse(&self, accounts: &[&str]) {
        *self.refused.lock().unwrap() = accounts.iter().map(|account| (*account).to_owned()).collect();
    }

    fn starter(&self) -> Starter {
        let ages: AgeTable = "30d: 1d".parse().unwrap();
        let date_of = Arc::new(TweetId::date_of);
        Starter::new(self.posts.clone(), Some(self.store.clone()), ages, date_of, parse_ingested)
    }

    fn visitor(&self) -> ItemHandler<VisitWork> {
        let provider = Provider::Mastodon("social".to_owned());
        let http = HttpClient::new(&HttpOptions::default()).unwrap();
        let build = (source_kinds(&provider).open)(http, &self.instance.base_url(), Fields::default()).unwrap();
        let reader = Reader {
            namespace: VISITS.to_owned(),
            endpoint: "statuses",
            pages: 3,
            starter: self.starter(),
            way: "visit",
            stores_old: true,
            positions: self.store.clone(),
            credentials: self.credentials.clone(),
            call_timeout: Duration::from_secs(2),
            save_timeout: Duration::from_secs(2),
            longest: Duration::from_secs(3_600),
            metrics: Arc::default(),
            polls: Arc::default(),
            shared_state: SharedState::new([VISITS.to_owned()]),
        };
        let (namespace, save_timeout) = (VISITS.to_owned(), Duration::from_secs(2));
        let items = PipelineStore { namespace, store: self.store.clone(), save_timeout, max_deliveries: 3 };
        let visitor = VisitWork {
            items,
            part: 0,
            reader,
            accounts: AccountTimelineBuilder { provider, build, k: Duration::ZERO },
            followed: self.store.clone(),
            schedule: schedule(),
            rules: classes::Rules::default(),
            unavailable: UnavailableSettings {
                lane: Lane::new(UNAVAILABLE_LANE, Duration::from_secs(7 * 86_400)).with_tier(1),
                confirmed_after: 1,
                limit: u32::MAX,
                after: i64::MAX,
                confirm: None,
                forget: false,
            },
            shortest: Duration::from_secs(300),
            evidence_sender: None,
        };
        ItemHandler(visitor)
    }

    /// The account alone is due, and is visited. Answers where it goes, and what that says of the process.
    async fn visit(&self, account: &str) -> (Lane, Outlook) {
        let due = NewJob { id: account.to_owned(), lane: Lane::first(), due: 0.into() };
        self.queue.forget(&self.accounts).await.unwrap();
        self.queue.schedule(&[due]).await.unwrap();
        self.visit_due().await
    }

    async fn visit_due(&self) -> (Lane, Outlook) {
        // What happens within a millisecond has no order, and nothing is believed within it.
        let before = wall_ms();
        until_true("a millisecond passes", PATIENCE, async || wall_ms() > before + 1).await;
        let token = self.claims.fetch_add(1, Ordering::Relaxed).to_string();
        let request = claim::at_once(&token, 1, PATIENCE);
        let Claim::Batch(batch) = self.queue.claim(&request).await.unwrap() else { panic!("it is due") };
        let visitor = self.visitor();
        let AcquireOutcome::Granted(permit) = self.credentials.acquire(visitor.endpoint(), 1).await.unwrap() else {
            panic!("the quota has no limit")
        };
        let handled = visitor.handle(&batch, permit).await;
        self.queue.settle(&batch.fence, &handled.verdicts, &[]).await.unwrap();
        let [(_, Verdict::Reschedule { lane, .. })] = &handled.verdicts[..] else { panic!("{handled:?}") };
        (lane.clone(), handled.outlook)
    }

    /// A lookup of its profile shows that the account has posted. Answers who is visited for it.
    async fn shows_posts(&self, account: &str) -> Vec<String> {
        let signs = PostCountReceiver { namespace: VISITS.to_owned(), schedule: schedule(), store: self.store.clone() };
        let mention = Mention { answered_at: wall_ms(), ..Mention::new(account, Arrival::NewPosts) };
        let received = signs.receive(&self.starter(), &[&mention]).await.unwrap();
        self.queue.promote(&received.promote).await.unwrap();
        received.promote.iter().map(|job| job.id.clone()).collect()
    }

    async fn state(&self, account: &str) -> ItemState {
        let known = self.store.standing(VISITS, &[account.to_owned()]).await.unwrap();
        known[0].as_ref().unwrap().state
    }

    /// The first account is refused, and the second one read, until the first is believed gone.
    async fn lose_the_first(&self) {
        self.refuse(&["1"]);
        self.visit("1").await;
        assert_eq!(self.visit("2").await.1, Outlook::Fine);
        // The first refusal beside an answer may be the last one of an outage.
        let (lane, outlook) = self.visit("1").await;
        assert_ne!(&*lane.name, UNAVAILABLE_LANE);
        assert_eq!((self.state("1").await, outlook), (ItemState::Live, Outlook::Unchanged));
        let (lane, outlook) = self.visit("1").await;
        assert_eq!((&*lane.name, outlook), (UNAVAILABLE_LANE, Outlook::Unchanged));
        assert_eq!(self.state("1").await, ItemState::Unavailable);
    }
}

/// As an instance does that wants a token from now on.
#[tokio::test]
async fn a_refusal_of_everybody_parks_nobody_and_is_an_outage() {
    let world = World::new(&["1", "2", "3"]).await;
    world.refuse(&["1", "2", "3"]);
    for account in &world.accounts {
        world.visit(account).await;
    }
    for account in world.accounts.iter().cycle().take(9) {
        let (lane, outlook) = world.visit(account).await;
        assert_ne!(&*lane.name, UNAVAILABLE_LANE, "{account}");
        let is_shown = matches!(&outlook, Outlook::Outage(why) if why.contains("no account is read"));
        assert!(is_shown, "{account}: {outlook:?}");
        assert_eq!(world.state(account).await, ItemState::Live, "{account}");
    }
    world.refuse(&[]);
    for account in &world.accounts {
        assert_eq!(world.visit(account).await.1, Outlook::Fine, "{account}");
    }
}

/// Nobody else can show that the API works.
#[tokio::test]
async fn an_account_that_is_followed_alone_is_never_believed_gone() {
    let world = World::new(&["1"]).await;
    world.refuse(&["1"]);
    world.visit("1").await;
    for _ in 0..5 {
        let (lane, outlook) = world.visit("1").await;
        assert_ne!(&*lane.name, UNAVAILABLE_LANE);
        assert!(matches!(outlook, Outlook::Outage(_)), "{outlook:?}");
    }
    assert_eq!(world.state("1").await, ItemState::Live);
}

/// As a process leaves it whose clock was an hour ahead.
#[tokio::test]
async fn a_page_that_is_dated_ahead_does_not_show_that_others_are_read() {
    let world = World::new(&["1", "2"]).await;
    let followed_at = world.store.saved_source(VISITS, "2").await.unwrap().followed_at;
    let at = wall_ms() + 3_600_000;
    let page =
        SavedPage { at, position: "{}", is_start: false, gaps: &[], has_new_posts: true, notes: None, followed_at };
    assert!(world.store.save_page(VISITS, "2", &page).await.unwrap());
    world.refuse(&["1", "2"]);
    world.visit("1").await;
    for _ in 0..3 {
        let (lane, outlook) = world.visit("1").await;
        assert_ne!(&*lane.name, UNAVAILABLE_LANE);
        assert!(matches!(outlook, Outlook::Outage(_)), "{outlook:?}");
    }
    assert_eq!(world.state("1").await, ItemState::Live);
}

#[tokio::test]
async fn one_that_is_refused_while_others_are_read_is_believed_gone_until_a_sign_of_life() {
    let world = World::new(&["1", "2"]).await;
    // Never read before, then read before.
    for _ in 0..2 {
        world.lose_the_first().await;
        // Still refused: back to where it was.
        assert_eq!(world.shows_posts("1").await, ["1"]);
        let (lane, outlook) = world.visit_due().await;
        assert_eq!((&*lane.name, outlook), (UNAVAILABLE_LANE, Outlook::Unchanged));
        world.refuse(&[]);
        assert_eq!(world.shows_posts("1").await, ["1"]);
        assert_eq!(world.visit_due().await.1, Outlook::Fine);
        assert_eq!(world.state("1").await, ItemState::Live);
    }
    // One that is followed no more stays away.
    world.store.unfollow(VISITS, wall_ms(), &["1".to_owned()]).await.unwrap();
    assert!(world.shows_posts("1").await.is_empty());
}
