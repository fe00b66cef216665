//! An owner that is gone: what `store.on_deleted` asks for is done.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::claim;
use async_trait::async_trait;
use twitter_updater::base::clock::Millis;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::config::VisitOrder;
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::engine::queue::{Claim, EmbeddedQueue, Jobs, Lane, NewJob, Verdict};
use twitter_updater::engine::worker::Handler;
use twitter_updater::model::account::Absence;
use twitter_updater::model::post::ItemState;
use twitter_updater::model::relation::{ListKind, PartialReason};
use twitter_updater::pipelines::blame::Evidence;
use twitter_updater::pipelines::item_handler::ItemHandler;
use twitter_updater::pipelines::refresh::UnavailableSettings;
use twitter_updater::pipelines::relations::handler::{CrawlBounds, ListWork, UnansweredLists};
use twitter_updater::pipelines::relations::member_collector::MemberCollector;
use twitter_updater::pipelines::relations::removal::Removal;
use twitter_updater::pipelines::relations::schedule::VisitSchedule;
use twitter_updater::pipelines::store_call::PipelineStore;
use twitter_updater::providers::lookup::{Charge, LookupError};
use twitter_updater::providers::relations::{
    ListCapabilities, Listing, Member, Members, PageRequest, RelationPage, Relations, Unreadable,
};
use twitter_updater::quota::{AcquireOutcome, Credential, CredentialKind, Credentials, EmbeddedLedger, Pacing};
use twitter_updater::store::{EdgeChange, Edges, Forgetting, ItemSet, Lifecycle, NewItem, Posts, SqliteStore, Way};

pub const LISTS: &str = "followers:twitter";
const PATIENCE: Duration = Duration::from_secs(20);

/// What the network says of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Says {
    /// Its two pages.
    #[default]
    Pages,
    /// Its owner is gone.
    Gone,
    /// The first page, and that the cursor behind it is stale.
    Stale,
    /// Empty pages without an end.
    Nothing,
    /// Pages of new members without an end.
    Endless,
    /// More members than a page has.
    TooMany,
    /// Its first page, without a word of the next one.
    Unlinked,
    /// Its two pages, the first one with an id that cannot be read.
    Unreadable,
    /// No answer.
    Out,
}

/// A network of one list.
#[derive(Debug, Default)]
pub struct Network {
    pub says: Mutex<Says>,
    calls: AtomicU32,
}

#[async_trait]
impl Relations for Network {
    fn capabilities(&self, _: ListKind) -> ListCapabilities {
        ListCapabilities { page_limit: 3, charge: Charge::PerCall, endpoint: "followers/ids" }
    }

    async fn page(&self, request: PageRequest<'_>, _: &Credential) -> Result<RelationPage, LookupError> {
        let says = *self.says.lock().unwrap();
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let listing = |listing| Ok(RelationPage { listing, quota: None });
        match says {
            Says::Gone => return listing(Listing::OwnerAbsent(Some(Absence::NotFound))),
            Says::Stale if request.cursor.is_some() => return listing(Listing::StaleCursor),
            Says::Nothing => {
                let members = Members { next: Some(format!("n{call}")), ..Members::default() };
                return Ok(RelationPage::new(members, None));
            }
            Says::Endless => {
                let members = (0..3).map(|n| Member::new((100 + 3 * call + n).to_string())).collect();
                let members = Members { members, next: Some(format!("n{call}")), ..Members::default() };
                return Ok(RelationPage::new(members, None));
            }
            Says::TooMany => {
                let members = ["1", "2", "3", "4"].map(|id| Member::new(id.to_owned())).to_vec();
                return Ok(RelationPage::new(Members { members, ..Members::default() }, None));
            }
            Says::Out => return Err(LookupError::Outage("HTTP 500".to_owned())),
            Says::Pages | Says::Stale | Says::Unlinked | Says::Unreadable => {}
        }
        let is_unlinked = says == Says::Unlinked;
        let (ids, next) = match request.cursor {
            None => (["11", "12", "13"], (!is_unlinked).then(|| "2".to_owned())),
            Some(_) => (["13", "14", "15"], None),
        };
        let mut members = ids.map(|id| Member::new(id.to_owned())).to_vec();
        let mut unreadable = Unreadable::default();
        if says == Says::Unreadable && request.cursor.is_none() {
            members.remove(1);
            unreadable.add("it is no id".to_owned());
        }
        let partial = is_unlinked.then_some(PartialReason::Unlinked);
        Ok(RelationPage::new(Members { members, next, partial, unreadable, ..Members::default() }, None))
    }
}

pub struct World {
    pub network: Arc<Network>,
    queue: Arc<EmbeddedQueue>,
    pub store: Arc<SqliteStore>,
    credentials: Arc<Credentials>,
    pub reader: ItemHandler<ListWork>,
    claims: AtomicU32,
    _folder: tempfile::TempDir,
}

impl World {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let queue = Arc::new(EmbeddedQueue::open(&path("jobs.db"), LISTS, PATIENCE).await.unwrap());
        let store = Arc::new(SqliteStore::open(&path("lists.db"), PATIENCE).await.unwrap());
        store.migrate().await.unwrap();
        let ledger = EmbeddedLedger::open(&path("quota.db"), "twitter", PATIENCE).await.unwrap();
        let nobody = Credential { name: "nobody".to_owned(), kind: CredentialKind::Anonymous };
        let credentials = Arc::new(Credentials::new(vec![nobody], Arc::new(ledger), Pacing::Greedy, PATIENCE));
        let network = Arc::<Network>::default();
        let visits = VisitSchedule { order: VisitOrder::Tiers, revisit: Duration::from_secs(86_400) };
        let reader = ListWork {
            metrics: Arc::default(),
            items: PipelineStore {
                namespace: LISTS.to_owned(),
                store: store.clone(),
                save_timeout: PATIENCE,
                max_deliveries: 3,
            },
            side: ListKind::Followers,
            relations: network.clone(),
            edges: store.clone(),
            credentials: credentials.clone(),
            visits,
            bounds: CrawlBounds { known_tail: 0, complete_every: 1, longest: 0, shrink: 1.0, page: 0 },
            unavailable: UnavailableSettings {
                lane: Lane::new("unavailable", Duration::from_secs(86_400)),
                confirmed_after: 0,
                limit: 2,
                after: 0,
                confirm: None,
                forget: true,
            },
            call_timeout: PATIENCE,
            counters: Arc::default(),
            unanswered: UnansweredLists::default(),
            evidence: Evidence::default(),
            member_collector: MemberCollector {
                accounts: "profiles:twitter".to_owned(),
                targets: Vec::new(),
                store: store.clone(),
                side: ListKind::Followers,
                profile_limit: 4,
                community_limit: 0,
                time_limit: PATIENCE,
                metrics: Arc::new(Metrics::new()),
            },
        };
        let reader = ItemHandler(reader);
        Self { network, queue, store, credentials, reader, claims: AtomicU32::new(0), _folder: folder }
    }

    /// The list is due, and read once.
    pub async fn read(&self, owner: &str) -> Verdict {
        let due = NewJob { id: owner.to_owned(), lane: VisitSchedule::repeat_lane(), due: 0.into() };
        self.queue.forget(&[owner.to_owned()]).await.unwrap();
        self.queue.schedule(&[due]).await.unwrap();
        let token = self.claims.fetch_add(1, Ordering::Relaxed).to_string();
        let request = claim::at_once(&token, 1, PATIENCE);
        let Claim::Batch(batch) = self.queue.claim(&request).await.unwrap() else { panic!("it is due") };
        let AcquireOutcome::Granted(permit) = self.credentials.acquire(self.reader.endpoint(), 1).await.unwrap() else {
            panic!("the quota has no limit")
        };
        let handled = self.reader.handle(&batch, permit).await;
        self.queue.settle(&batch.fence, &handled.verdicts, &[]).await.unwrap();
        handled.verdicts.into_iter().next().unwrap_or_else(|| panic!("released")).1
    }

    async fn edges(&self) -> usize {
        self.store.edge_changes(LISTS, EdgeChange::Appeared, (0, Millis::MAX), None, 99).await.unwrap().len()
    }
}

#[tokio::test]
async fn the_list_of_an_owner_that_is_gone_goes_and_so_does_its_job() {
    let world = World::new().await;
    let row = NewItem { id: "9".to_owned(), created_at: None, next_due: Some(1), content: None, read_at: None };
    world.store.record(LISTS, 1, &Way::new("enqueue"), &[row]).await.unwrap();
    for _ in 0..2 {
        assert!(matches!(world.read("9").await, Verdict::Reschedule { .. }));
    }
    assert_eq!((world.edges().await, world.store.crawls(LISTS, "9", 9).await.unwrap().len()), (5, 1));
    let removal = Removal { network: "twitter".to_owned(), edges: world.store.clone() };
    assert_eq!(removal.remove_due(&Stop::new()).await.unwrap(), 0);

    // It is believed at once here, and its content goes with the answer; the edges at the next look.
    *world.network.says.lock().unwrap() = Says::Gone;
    assert!(matches!(world.read("9").await, Verdict::Reschedule { lane, .. } if *lane.name == *"unavailable"));
    let stored = world.store.tweet(LISTS, "9").await.unwrap().unwrap();
    assert_eq!((stored.state, stored.raw), (ItemState::Unavailable, None));
    assert_eq!((world.edges().await, removal.remove_due(&Stop::new()).await.unwrap()), (5, 5));
    assert_eq!((world.edges().await, world.store.crawls(LISTS, "9", 9).await.unwrap().len()), (0, 0));
    // A second miss, a moment later, ends its life.
    let before = stored.checked_at;
    let mut verdict = world.read("9").await;
    while world.store.tweet(LISTS, "9").await.unwrap().unwrap().checked_at == before {
        verdict = world.read("9").await;
    }
    assert_eq!(verdict, Verdict::Finish);
    assert_eq!(world.store.tweet(LISTS, "9").await.unwrap().unwrap().state, ItemState::Ended);
}

/// Its list may be in the queue still, and would be the most urgent each time.
#[tokio::test]
async fn the_list_of_somebody_who_asked_to_be_forgotten_while_it_was_read_leaves_the_queue() {
    let world = World::new().await;
    world.read("9").await;
    assert!(world.store.block_account("twitter", "9", 1).await.unwrap());
    world.store.forget_edges("twitter", "9").await.unwrap();
    let list = ItemSet { namespace: LISTS.to_owned(), ids: vec!["9".to_owned()] };
    world.store.remove_items(&list).await.unwrap();
    let asked = world.network.calls.load(Ordering::Relaxed);
    assert_eq!(world.read("9").await, Verdict::Finish);
    assert_eq!(world.network.calls.load(Ordering::Relaxed), asked);
    assert_eq!(world.store.standing(LISTS, &["9".to_owned()]).await.unwrap(), [None]);
}
