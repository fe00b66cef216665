//! An updater's process: the real worker and its maintenance over its links. It can be stopped, frozen, and killed at
//! any await; killed, it is started again, as its supervisor would.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;
use twitter_updater::app::Maintenance;
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::engine::lateness::Lateness;
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::engine::queue::{DUE_SLACK, Workers};
use twitter_updater::engine::schedule::Budgeted;
use twitter_updater::engine::schedule::visits::classes;
use twitter_updater::engine::worker::{Handler, HandlerKind, Worker};
use twitter_updater::model::post::Weights;
use twitter_updater::model::relation::ListKind;
use twitter_updater::pipelines::blame::Evidence;
use twitter_updater::pipelines::item_handler::ItemHandler;
use twitter_updater::pipelines::posts::PostJudge;
use twitter_updater::pipelines::profiles::ProfileJudge;
use twitter_updater::pipelines::refresh::mass_miss_alert::MassMissAlert;
use twitter_updater::pipelines::refresh::{FailureTracker, Judge, Refresher};
use twitter_updater::pipelines::relations::handler::{CrawlBounds, ListWork, UnansweredLists};
use twitter_updater::pipelines::relations::member_collector::MemberCollector;
use twitter_updater::pipelines::store_call::PipelineStore;
use twitter_updater::pipelines::timelines::reader::{Reader, SharedState};
use twitter_updater::pipelines::visits::handler::VisitWork;
use twitter_updater::providers::lookup::Lookup;
use twitter_updater::providers::relations::Relations;
use twitter_updater::quota::{Credential, CredentialKind, Credentials, Pacing};
use twitter_updater::store::Edges;

use super::communities;
use super::files;
use super::link::{LinkedLedger, LinkedLookup, LinkedQueue, LinkedStore};
use super::lists::{LinkedEdges, LinkedRelations};
use super::network::Way;
use super::provider::ENDPOINT;
use super::visits;
use super::world::{Items, NAMESPACE, Setup, World};

/// How often a process says that it is alive.
const BEAT_EVERY: Duration = Duration::from_secs(5);

pub struct Process {
    pub way: Arc<Way>,
    pub stop: Stop,
    killed: Arc<Notify>,
    supervisor: JoinHandle<Result<(), String>>,
}

impl Process {
    pub fn start(world: &Arc<World>, number: usize) -> Self {
        let (way, stop, killed) = (Way::new(number, world.network.clone()), Stop::new(), Arc::new(Notify::new()));
        let supervisor = tokio::spawn({
            let (world, way, stop, killed) = (world.clone(), way.clone(), stop.clone(), killed.clone());
            async move {
                loop {
                    let mut life = tokio::spawn(life(&world, &way, &stop, &killed));
                    tokio::select! {
                        biased;
                        () = killed.notified() => life.abort(),
                        ended = &mut life => return ended.unwrap(),
                    }
                    world.log.note(format_args!("process {number} dies"));
                    let _ = life.await; // it is gone when this answers
                    tokio::time::sleep(Duration::from_millis(world.dice.between(0, 10_000))).await;
                }
            }
        });
        Self { way, stop, killed, supervisor }
    }

    /// As `kill -9` does.
    pub fn kill(&self) {
        self.killed.notify_one();
    }

    /// Stops it in the first way, and waits for its end.
    pub async fn drain(self) -> Result<(), String> {
        self.stop.drain();
        let ended = tokio::time::timeout(Duration::from_secs(120), self.supervisor).await;
        ended.map_err(|_| "it does not stop".to_owned())?.map_err(|_| "it panicked".to_owned())?
    }
}

/// One life of a process: it works, says that it is alive, and does its maintenance, until the work ends.
fn life(
    world: &Arc<World>,
    way: &Arc<Way>,
    stop: &Stop,
    killed: &Arc<Notify>,
) -> impl Future<Output = Result<(), String>> + Send + use<> {
    let wave = Reloadable::new(None);
    let queue = Arc::new(LinkedQueue { way: way.clone(), queue: world.queue.clone() });
    let name = format!("w{}", way.process);
    let maintenance = Maintenance {
        queue: queue.clone(),
        name: name.clone(),
        wave: wave.clone(),
        refresh: world.refresh(way),
        slack: DUE_SLACK.max(2 * world.setup.claims.lease),
    };
    let worker = worker(world, way, stop, killed, wave);
    let growing =
        (world.setup.items == Items::Community).then(|| communities::grow(world.clone(), way.clone(), stop.clone()));
    let stop = stop.clone();
    async move {
        let _growing = growing.map(|growing| AbortOnDropHandle::new(tokio::spawn(growing)));
        let _maintaining = AbortOnDropHandle::new(tokio::spawn(Arc::new(maintenance).run(stop.clone())));
        let _beating = AbortOnDropHandle::new(tokio::spawn(async move {
            while !stop.is_draining() {
                let _ = queue.heartbeat(&name, &[], &[], &Lateness::default()).await; // the next one comes soon
                stop.sleep(BEAT_EVERY).await;
            }
        }));
        worker.run().await.map_err(|failure| failure.to_string())
    }
}

/// What the handlers of all items have.
pub struct Parts<'a> {
    pub setup: &'a Setup,
    pub store: Arc<LinkedStore>,
    credentials: Arc<Credentials>,
    metrics: Arc<Metrics>,
    wave: Reloadable<Option<MassMissAlert>>,
}

impl Parts<'_> {
    pub fn items(&self) -> PipelineStore {
        let Setup { save_timeout, max_deliveries, .. } = *self.setup;
        PipelineStore { namespace: NAMESPACE.to_owned(), store: self.store.clone(), save_timeout, max_deliveries }
    }

    fn refresher<J: Judge>(self, lookup: Arc<dyn Lookup<J::Item>>, judge: J) -> Arc<dyn Handler> {
        Arc::new(Refresher {
            items: self.items(),
            lookup,
            credentials: self.credentials,
            schedule: self.setup.schedule(),
            judge,
            unavailable: self.setup.unavailable(),
            call_timeout: self.setup.lookup_timeout,
            metrics: self.metrics,
            wave: self.wave,
            fan_out: Vec::new(),
            failure_tracker: FailureTracker::default(),
        })
    }
}

impl Parts<'_> {
    /// Crawls are complete, or end at known members, by turns.
    fn list_reader(self, relations: Arc<dyn Relations>, edges: Arc<dyn Edges>) -> Arc<dyn Handler> {
        let reader = ListWork {
            metrics: Arc::default(),
            items: self.items(),
            side: ListKind::Followers,
            relations,
            edges,
            credentials: self.credentials,
            visits: self.setup.visits(),
            bounds: CrawlBounds { known_tail: 3, complete_every: 100_000, longest: 0, shrink: 1.0, page: 0 },
            unavailable: self.setup.unavailable(),
            call_timeout: self.setup.lookup_timeout,
            counters: Arc::default(),
            unanswered: UnansweredLists::default(),
            evidence: Evidence::default(),
            member_collector: MemberCollector {
                accounts: "profiles:twitter".to_owned(),
                targets: Vec::new(),
                store: self.store,
                side: ListKind::Followers,
                profile_limit: 0,
                community_limit: 0,
                time_limit: self.setup.save_timeout,
                metrics: self.metrics,
            },
        };
        Arc::new(ItemHandler(reader))
    }
}

impl Parts<'_> {
    fn visitor(self, lookup: LinkedLookup, linked: &visits::Linked) -> Arc<dyn Handler> {
        let items = self.items();
        let reader = Reader {
            metrics: Arc::default(),
            namespace: NAMESPACE.to_owned(),
            endpoint: ENDPOINT,
            pages: 3,
            starter: linked.starter(),
            way: "visit",
            stores_old: true,
            positions: Arc::new(linked.clone()),
            credentials: self.credentials,
            call_timeout: self.setup.lookup_timeout,
            save_timeout: self.setup.save_timeout,
            longest: visits::LONGEST,
            polls: Arc::default(),
            shared_state: SharedState::new([NAMESPACE.to_owned()]),
        };
        let visitor = VisitWork {
            items,
            part: 0,
            reader,
            accounts: visits::Linked::timelines(lookup),
            followed: Arc::new(linked.clone()),
            schedule: self.setup.schedule(),
            rules: classes::Rules::default(),
            unavailable: self.setup.unavailable(),
            shortest: visits::SHORTEST,
            evidence_sender: None,
        };
        Arc::new(ItemHandler(visitor))
    }
}

fn worker(
    world: &Arc<World>,
    way: &Arc<Way>,
    stop: &Stop,
    killed: &Arc<Notify>,
    wave: Reloadable<Option<MassMissAlert>>,
) -> Worker {
    let setup = &world.setup;
    let credential = |at| Credential { name: format!("c{at}"), kind: CredentialKind::Anonymous };
    let ledger = Arc::new(LinkedLedger { way: way.clone(), ledger: world.ledger.clone() });
    let all = (0..setup.credentials).map(credential).collect();
    let credentials = Arc::new(Credentials::new(all, ledger, Pacing::Auto, setup.claims.lease));
    let metrics = Arc::new(Metrics::new());
    let lookup = LinkedLookup {
        way: way.clone(),
        provider: world.provider.clone(),
        timeout: setup.lookup_timeout,
        killed: killed.clone(),
    };
    let parts = Parts {
        store: Arc::new(LinkedStore { way: way.clone(), store: world.store.clone() }),
        credentials: credentials.clone(),
        setup,
        metrics: metrics.clone(),
        wave,
    };
    let metered = |handler| HandlerKind::Metered(handler, credentials);
    let handling = match setup.items {
        // The retweets are the moment of the answer, which says nothing of what happens at a post.
        Items::Posts => metered(parts.refresher(
            Arc::new(lookup),
            PostJudge { weights: Weights { retweets: 0.0, ..Weights::default() }, ..PostJudge::default() },
        )),
        Items::Accounts => metered(parts.refresher(Arc::new(lookup), ProfileJudge { schedule: setup.by_silence() })),
        Items::Media => HandlerKind::Unmetered(Arc::new(files::handler(parts, world, way, killed))),
        Items::Lists => {
            let edges = Arc::new(LinkedEdges { way: way.clone(), store: world.store.clone() });
            metered(parts.list_reader(Arc::new(LinkedRelations(lookup)), edges))
        }
        Items::Visits => metered(parts.visitor(lookup, &visits::Linked::new(way, world))),
        Items::Community => HandlerKind::Unmetered(Arc::new(communities::handler(parts, world, way))),
    };
    let queue = Arc::new(LinkedQueue { way: way.clone(), queue: world.queue.clone() });
    Worker {
        name: format!("w{}", way.process),
        queue,
        handling,
        claims: setup.claims.into(),
        early: setup.learnt().map_or(0.0, |adaptive| adaptive.quota_use().max_earliness).into(),
        concurrency: setup.slots.into(),
        metrics,
        health: Arc::default(),
        stop: stop.clone(),
    }
}
