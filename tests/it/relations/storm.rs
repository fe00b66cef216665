//! A storm of accounts that post once, in simulated time: the lists of repeat posters get no older for it, and of the others the
//! newest are visited first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use twitter_updater::base::clock::{Millis, span};
use twitter_updater::base::random;
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::config::{Settings, VisitOrder};
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::engine::schedule::{Schedule, Schedules};
use twitter_updater::engine::worker::{ClaimSettings, HandlerKind, Worker};
use twitter_updater::ingest::Starter;
use twitter_updater::model::pipeline_id::PipelineId;
use twitter_updater::model::provider::Provider;
use twitter_updater::model::relation::ListKind;
use twitter_updater::pipelines::blame::Evidence;
use twitter_updater::pipelines::item_handler::ItemHandler;
use twitter_updater::pipelines::kind::{Intake, PipelineKind};
use twitter_updater::pipelines::refresh::{Arrival, Mention, Receiver};
use twitter_updater::pipelines::relations::Lists;
use twitter_updater::pipelines::relations::handler::{CrawlBounds, ListWork, UnansweredLists};
use twitter_updater::pipelines::relations::member_collector::MemberCollector;
use twitter_updater::pipelines::relations::owner_receiver::OwnerReceiver;
use twitter_updater::pipelines::relations::schedule::VisitSchedule;
use twitter_updater::pipelines::store_call::PipelineStore;
use twitter_updater::providers::lookup::{Charge, LookupError};
use twitter_updater::providers::relations::{ListCapabilities, Member, Members, PageRequest, RelationPage, Relations};
use twitter_updater::quota::{Credential, CredentialKind, Credentials, Pacing, Window};
use twitter_updater::store::Way;

use crate::support::lists::LISTS;
use crate::support::memory_ledger::MemoryLedger;
use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::memory_store::MemoryStore;
use crate::support::queue_model::Rules;

const MINUTE: Millis = 60_000;
const HOUR: Millis = 60 * MINUTE;
/// A day at 12:00 UTC.
const ORIGIN: Millis = 1_800_014_400_000;
/// A window, and the calls in it of a user and of an application.
const WINDOW: Millis = 15 * MINUTE;
const CALLS: u32 = 15;
const LATENCY: Duration = Duration::from_millis(200);
/// Accounts that post once an hour, all at one moment. Every tenth list has two pages.
const REPEAT: u64 = 80;
/// Accounts that post once, so many at a time, in a storm of so many hours.
const ONCE: u64 = 10_000;
const TOGETHER: u64 = 10;
const STORM: Millis = 5;
/// Hours before it.
const BEFORE: Millis = 3;
const KIND: Lists = Lists(ListKind::Followers);

/// The API: lists of one or two pages, and windows that open with a call.
#[derive(Debug)]
struct Network {
    clock: Arc<ServiceClock>,
    windows: Mutex<BTreeMap<String, (Millis, u32)>>,
    /// Calls for first pages, and for all.
    visits: Mutex<Vec<(Millis, String)>>,
    calls: Mutex<Vec<Millis>>,
}

fn has_two_pages(owner: &str) -> bool {
    owner.ends_with('7')
}

#[async_trait]
impl Relations for Network {
    fn capabilities(&self, _: ListKind) -> ListCapabilities {
        ListCapabilities { page_limit: 5_000, charge: Charge::PerCall, endpoint: "followers/ids" }
    }

    async fn page(&self, request: PageRequest<'_>, credential: &Credential) -> Result<RelationPage, LookupError> {
        let now = self.clock.now();
        let quota = {
            let mut windows = self.windows.lock().unwrap();
            let window = windows.entry(credential.name.clone()).or_insert((0, 0));
            *window = if now >= window.0 { (now + WINDOW, 1) } else { (window.0, window.1 + 1) };
            let (reset_at, made) = *window;
            assert!(made <= CALLS, "a call that the quota has not");
            Window { limit: CALLS, remaining: CALLS - made, reset_at, reset_in: reset_at - now, length: None }
        };
        self.calls.lock().unwrap().push(now);
        if request.cursor.is_none() {
            self.visits.lock().unwrap().push((now, request.owner.to_owned()));
        }
        let next = (request.cursor.is_none() && has_two_pages(request.owner)).then(|| "2".to_owned());
        tokio::time::sleep(LATENCY).await;
        let members = vec![Member::new(request.cursor.unwrap_or("1").to_owned())];
        Ok(RelationPage::new(Members { members, next, ..Members::default() }, Some(quota)))
    }
}

struct World {
    clock: Arc<ServiceClock>,
    network: Arc<Network>,
    receiver: Arc<dyn Receiver>,
    starter: Starter,
    stop: Stop,
    workers: Vec<Worker>,
}

fn world() -> World {
    let settings = Settings::load_with(&[], None, &[("TWITTER_UPDATER__RELATIONS__COLLECT", "followers")]).unwrap();
    let clock = ServiceClock::starting_at(ORIGIN);
    let (queue, store) =
        (Arc::new(MemoryQueue::new(LISTS, clock.clone(), Rules::default())), Arc::new(MemoryStore::default()));
    let network = Arc::new(Network {
        clock: clock.clone(),
        windows: Mutex::default(),
        visits: Mutex::default(),
        calls: Mutex::default(),
    });
    let id = PipelineId::items(&Provider::Twitter, "followers");
    let schedule: Arc<dyn Schedule> = KIND.schedule(&id, &settings);
    let schedules: Arc<dyn Schedules> = Reloadable::new(schedule).into();
    let Intake { id_date, parse } = KIND.intake(&id);
    let starter = Starter::new(queue.clone(), Some(store.clone()), schedules.clone(), id_date, parse);
    let (stop, updater) = (Stop::new(), &settings.updater);
    let ledger = Arc::new(MemoryLedger::new(clock.clone()));
    let named = |name: &str| Credential { name: name.to_owned(), kind: CredentialKind::Anonymous };
    let credentials = vec![named("user"), named("app")];
    let credentials = Arc::new(Credentials::new(credentials, ledger, Pacing::Auto, updater.lease));
    let worker = |number| {
        let relations = &settings.relations;
        let reader = ListWork {
            metrics: Arc::default(),
            items: PipelineStore::new(LISTS.to_owned(), store.clone(), updater),
            side: ListKind::Followers,
            relations: network.clone(),
            edges: store.clone(),
            credentials: credentials.clone(),
            visits: VisitSchedule { order: VisitOrder::Tiers, revisit: relations.revisit },
            bounds: CrawlBounds { known_tail: 0, complete_every: 0, longest: 0, shrink: 1.0, page: 0 },
            unavailable: KIND.terms(&settings).unavailable,
            call_timeout: settings.lookup.timeout,
            counters: Arc::default(),
            unanswered: UnansweredLists::default(),
            evidence: Evidence::default(),
            member_collector: MemberCollector {
                accounts: "profiles:twitter".to_owned(),
                targets: Vec::new(),
                store: store.clone(),
                side: ListKind::Followers,
                profile_limit: 0,
                community_limit: 0,
                time_limit: updater.save_timeout,
                metrics: Arc::new(Metrics::new()),
            },
        };
        let claims = ClaimSettings { limit: 1, linger: updater.buffer_ttl, lookahead: 0.0, lease: updater.lease };
        Worker {
            name: format!("w{number}"),
            queue: queue.clone(),
            handling: HandlerKind::Metered(Arc::new(ItemHandler(reader)), credentials.clone()),
            claims: claims.into(),
            early: 0.0.into(),
            concurrency: 1.into(),
            metrics: Arc::new(Metrics::new()),
            health: Arc::default(),
            stop: stop.clone(),
        }
    };
    World {
        receiver: Arc::new(OwnerReceiver { namespace: id.to_string(), schedule: schedules, store: store.clone() }),
        starter: starter.with_way(Way::new("fan_out")),
        workers: (0..8).map(worker).collect(),
        clock,
        network,
        stop,
    }
}

impl World {
    /// These accounts post; returns when.
    async fn posts(&self, owners: &[String]) -> Millis {
        let at = self.clock.now();
        let mention = |owner: &String| Mention {
            from: format!("{owner}{at}"),
            answered_at: at,
            ..Mention::first(owner, Arrival::Author { posted_at: Some(at) })
        };
        let mentions: Vec<Mention> = owners.iter().map(mention).collect();
        let received = self.receiver.receive(&self.starter, &mentions.iter().collect::<Vec<_>>()).await.unwrap();
        received.apply(&self.starter).await.unwrap();
        at
    }

    /// When each account posted.
    async fn live(&self) -> BTreeMap<String, Vec<Millis>> {
        let mut posted = BTreeMap::<String, Vec<Millis>>::new();
        let repeat: Vec<String> = (0..REPEAT).map(|number| (1_000 + number).to_string()).collect();
        let once: Vec<String> = (0..ONCE).map(|number| (1_000_000 + number).to_string()).collect();
        let mut once = once.chunks(TOGETHER as usize);
        for hour in 0..BEFORE + STORM {
            let at = self.posts(&repeat).await;
            repeat.iter().for_each(|owner| posted.entry(owner.clone()).or_default().push(at));
            let next = ORIGIN + (hour + 1) * HOUR;
            let batches = if hour < BEFORE { 0 } else { ONCE / STORM as u64 / TOGETHER };
            for left in (1..=batches).rev() {
                let some = once.next().unwrap();
                let at = self.posts(some).await;
                some.iter().for_each(|owner| posted.entry(owner.clone()).or_default().push(at));
                tokio::time::sleep(span((next - self.clock.now()) / left as Millis)).await;
            }
            tokio::time::sleep(span(next - self.clock.now())).await;
        }
        posted
    }
}

/// The longest time from a post of a repeat poster to the next visit of its list, of posts in that span of time.
fn longest_wait(
    posted: &BTreeMap<String, Vec<Millis>>,
    visits: &[(Millis, String)],
    hours: std::ops::Range<Millis>,
) -> Millis {
    let of = |owner: &String, at: Millis| {
        visits.iter().find(|(when, of)| of == owner && *when >= at).map(|(when, _)| when - at)
    };
    let repeat = posted.iter().filter(|(_, posts)| posts.len() > 1);
    let posts = repeat.flat_map(|(owner, posts)| posts.iter().map(move |at| (owner, *at)));
    let within = posts.filter(|(_, at)| hours.contains(&((at - ORIGIN) / HOUR)));
    within.map(|(owner, at)| of(owner, at).unwrap_or(Millis::MAX)).max().unwrap()
}

#[test]
fn a_storm_leaves_repeat_posters_alone_and_the_newest_of_the_others_go_first() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let _replayed = random::replay_seed(7);
        let mut world = world();
        let working: Vec<_> =
            std::mem::take(&mut world.workers).into_iter().map(|worker| tokio::spawn(worker.run())).collect();
        let posted = world.live().await;
        world.stop.drain();
        for worker in working {
            worker.await.unwrap().unwrap();
        }
        let visits = world.network.visits.lock().unwrap().clone();
        let calls = world.network.calls.lock().unwrap().clone();

        // No repeat poster waits longer than all their pages take by the quota, and a tenth more; storm or not.
        let pages: usize = posted.iter().filter(|(_, posts)| posts.len() > 1).map(|(owner, _)| 1 + usize::from(has_two_pages(owner))).sum();
        let round = (pages as f64 / f64::from(2 * CALLS) * WINDOW as f64) as Millis;
        let (calm, storm) =
            (longest_wait(&posted, &visits, 1..BEFORE), longest_wait(&posted, &visits, BEFORE..BEFORE + STORM - 1));
        let minutes = |ms: Millis| ms as f64 / MINUTE as f64;
        println!(
            "a round of {pages} pages takes {:.1} min; the longest wait of a repeat poster is {:.1} min, {:.1} min in the storm",
            minutes(round),
            minutes(calm),
            minutes(storm)
        );
        assert!(storm <= round * 11 / 10, "{storm} > {round}");

        // The newest of those that were never visited: nobody waits who posted later and before the call.
        let once: BTreeMap<&str, Millis> =
            posted.iter().filter(|(_, posts)| posts.len() == 1).map(|(owner, posts)| (&**owner, posts[0])).collect();
        let first: BTreeMap<&str, Millis> = visits.iter().rev().map(|(at, owner)| (&**owner, *at)).collect();
        let seen: Vec<_> = first.iter().filter_map(|(owner, at)| Some((once.get(owner)?, at))).collect();
        for (mine, at) in &seen {
            let passed_over = once.iter().find(|(owner, other)| {
                **other > **mine && **other < **at - 1_000 && first.get(*owner).is_none_or(|visited| visited > *at)
            });
            assert_eq!(passed_over, None, "one of {mine} was visited at {at} before it");
        }
        let storm_began = ORIGIN + BEFORE * HOUR;
        let made = calls.iter().filter(|at| **at >= storm_began).count();
        let most = (2 * CALLS) as usize * (STORM * HOUR / WINDOW) as usize;
        println!("{made} of {most} calls in the storm; {} of {} that post once were visited", seen.len(), once.len());
        assert!(seen.len() > 100 && once.len() == ONCE as usize, "{}", seen.len());
        assert!(made as f64 >= 0.97 * most as f64, "{made} of {most} calls");
    });
}
