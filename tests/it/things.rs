//! A pipeline that the house does not know: `things/pipeline.rs` is all of it. It runs through the real processes: worker,
//! queue, ledger, store, rebuild, the dead, metrics, status and page, as the posts do beside it.

mod makers;
mod pipeline;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::extract::{Path as Of, Query};
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::{Value, json};
use tempfile::TempDir;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{EmbeddedQueue, Lane, NewJob, Place, Queue, RedisQueue};
use twitter_updater::model::post::ItemState;
use twitter_updater::store::{Standing, Way};

use crate::support::process::{Process, Variables, command_of, text, variables};
use crate::support::redis::pool;
use crate::support::role::{Role, value};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const NAME: &str = "things:twitter";
const MAKERS: &str = "makers:twitter";
/// More than the minute for which an id of a failed call is put off.
const PATIENCE: Duration = Duration::from_secs(150);
/// Its request is refused, whoever else is in it.
const REFUSED: &str = "666";
/// Calls in 15 minutes.
const LIMIT: u32 = 10_000;
/// There is no such thing.
const ABSENT: &str = "404";
const ARGUMENTS: &str = "THINGS_ARGUMENTS";
/// The makers are not registered.
const ALONE: &str = "THINGS_ALONE";

/// The program, with the things registered: one of the processes of the tests below.
#[test]
#[ignore = "it is a process of the other tests"]
fn as_a_process() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    let arguments = ["things"].into_iter().chain(arguments.split('\n')).map(Into::into);
    let alone = pipeline::registry();
    let registry = if std::env::var(ALONE).is_ok() { alone } else { alone.with(makers::Makers) };
    let code = twitter_updater::app::cli::main_with(registry, arguments);
    std::process::exit(if code == std::process::ExitCode::SUCCESS { 0 } else { 65 });
}

fn command(arguments: &[&str], settings: &Variables) -> Command {
    let mut command = command_of(&std::env::current_exe().unwrap(), settings);
    command.args(["--exact", "things::as_a_process", "--ignored", "--nocapture", "--test-threads", "1"]);
    command.env(ARGUMENTS, arguments.join("\n"));
    command
}

/// What is asked for things and makers, and how often each id was asked for.
struct Api {
    address: String,
    asked: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Api {
    async fn start() -> Self {
        let asked = Arc::new(Mutex::new(BTreeMap::new()));
        let (counted, calls) = (asked.clone(), Arc::new(AtomicU32::new(0)));
        let answer = move |Of(kind): Of<String>, Query(query): Query<BTreeMap<String, String>>| async move {
            let ids: Vec<&str> = query["ids"].split(',').collect();
            ids.iter().for_each(|id| *counted.lock().unwrap().entry((*id).to_owned()).or_default() += 1);
            let calls = calls.fetch_add(1, Ordering::Relaxed) + 1;
            let left = ("x-rate-limit-remaining", LIMIT.saturating_sub(calls).to_string());
            let reset = ("x-rate-limit-reset", (wall_ms() / 900_000 * 900 + 900).to_string());
            let quota = [("x-rate-limit-limit", LIMIT.to_string()), left, reset];
            if ids.contains(&REFUSED) {
                return (StatusCode::BAD_REQUEST, quota, Json(json!({"error": "no such things here"})));
            }
            let there = ids.iter().filter(|id| **id != ABSENT);
            let answer = there.map(|id| match &*kind {
                "things" => json!({"id": id, "size": id.len(), "maker": maker_of(id)}),
                _ => json!({"id": id}),
            });
            (StatusCode::OK, quota, Json(answer.collect()))
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/{kind}", get(answer));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, asked }
    }

    /// How often the thing was asked for that was asked for least.
    fn least(&self, ids: &[String]) -> u32 {
        let asked = self.asked.lock().unwrap();
        ids.iter().map(|id| asked.get(id).copied().unwrap_or(0)).min().unwrap()
    }
}

/// Two things have one.
fn maker_of(thing: &str) -> String {
    (thing.parse::<u32>().unwrap() / 2).to_string()
}

/// Services with the things in them.
struct House {
    api: Api,
    world: World,
    queue: Arc<dyn Queue>,
    makers: Arc<dyn Queue>,
    settings: Variables,
    /// Those that there are.
    ids: Vec<String>,
    folder: TempDir,
}

impl House {
    async fn new(backends: Backends) -> Self {
        let (api, folder) = (Api::start().await, tempfile::tempdir().unwrap());
        let world = World::new(backends, folder.path(), &api.address).await;
        let [queue, makers] = queues(&world, folder.path()).await;
        let mut settings = world.settings.clone();
        settings.extend(variables(&[("updater.max_deliveries", "2"), ("log.level", "info")]));
        let ids = (1_000..1_050).map(|id: u32| id.to_string()).collect();
        Self { api, world, queue, makers, settings, ids, folder }
    }

    /// A role as a process, with a log of its own.
    fn process(&self, name: &str, settings: &Variables) -> (Process, PathBuf) {
        let log = tempfile::Builder::new().prefix(name).tempfile_in(self.folder.path()).unwrap();
        let (_, log) = log.keep().unwrap();
        (Process::start_by(command(&[name, "--listen", "127.0.0.1:0"], settings), &log), log)
    }

    /// The same, once it says where it listens.
    async fn role(&self, name: &str) -> Role {
        let (process, log) = self.process(name, &self.settings);
        Role::of(process, &log).await
    }

    /// The settings, and one more variable.
    fn with(&self, name: &str, value: &str) -> Variables {
        self.settings.iter().cloned().chain([(name.to_owned(), value.to_owned())]).collect()
    }

    /// The makers of the things that there are.
    fn all_makers(&self) -> Vec<String> {
        self.ids.iter().map(|id| maker_of(id)).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        command(arguments, &self.settings).output().unwrap()
    }

    /// The answer of a command that prints one JSON object.
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        let line = out.lines().find_map(|line| line.find('{').map(|at| &line[at..]));
        serde_json::from_str(line.unwrap_or_else(|| panic!("{arguments:?}: {out}{error}"))).unwrap()
    }

    async fn standings(&self, ids: &[String]) -> Vec<Option<Standing>> {
        self.world.store.standing(NAME, ids).await.unwrap()
    }

    /// Waits until all were asked for so often, and answered.
    async fn rounds(&self, times: u32) {
        until_true("each was asked for again", PATIENCE, async || self.api.least(&self.ids) >= times).await;
    }

    /// What `enqueue` says of these lines.
    fn enqueue_lines(&self, lines: &[String]) -> Value {
        let file = self.folder.path().join("ids.txt");
        std::fs::write(&file, lines.join("\n")).unwrap();
        self.json(&["enqueue", "--first", "interval", "--pipeline", NAME, "--json", file.to_str().unwrap()])
    }

    /// All things, of which so many are in the queue already.
    fn enqueue(&self, known: u32) {
        let mut lines = self.ids.clone();
        lines.extend([REFUSED.to_owned(), ABSENT.to_owned(), "no thing".to_owned()]);
        let put_in = self.enqueue_lines(&lines);
        assert_eq!((&put_in["scheduled"], &put_in["refused"]), (&json!(52 - known), &json!(1)), "{put_in}");
    }

    async fn dead(&self) {
        until_true("the refused one is dead", PATIENCE, async || {
            matches!(&self.queue.locate(&[REFUSED.to_owned()]).await.unwrap()[0][..], [Place::Dead { .. }])
        })
        .await;
        let list = self.json(&["dead", "--pipeline", NAME, "list", "--json"]);
        assert_eq!(list["dead"][0]["id"], REFUSED, "{list}");
        let reason = list["dead"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("refused 2 times") && reason.contains("no such things here"), "{reason}");
        let retried = self.json(&["dead", "--pipeline", NAME, "retry", REFUSED, "--json"]);
        assert_eq!(retried["done"], 1, "{retried}");
    }

    /// It is killed after it has saved so many things: their makers are in the store then, and in no queue.
    async fn dies_before_it_fans_out(&self, things: &[String]) {
        self.enqueue_lines(things);
        let (mut updater, _) = self.process("updater", &self.with("TWITTER_UPDATER_CRASH_AT", "after_commit"));
        assert!(!updater.ended(PATIENCE).await.success());
        let saved = self.standings(things).await.into_iter().flatten().filter(Standing::was_found).count();
        let recorded = self.world.store.counts(MAKERS).await.unwrap().live;
        assert!(saved > 0 && recorded > 0, "{saved} things, {recorded} makers");
        assert_eq!(self.makers.stats().await.unwrap().delayed, 0);
    }

    /// Each maker of a found thing was put in once and looked up, also those of things that were saved by a process which died
    /// then; the refused thing and the absent one have none.
    async fn fanned_out(&self, updater: &Role) {
        let makers = self.all_makers();
        until_true("all makers were answered", PATIENCE, async || {
            let standings = self.world.store.standing(MAKERS, &makers).await.unwrap();
            standings.iter().flatten().filter(|known| known.was_found()).count() == makers.len()
        })
        .await;
        let all = self.world.store.counts(MAKERS).await.unwrap();
        assert_eq!((makers.len(), all.live, all.ended, all.dead), (25, 25, 0, 0), "{all:?}");
        assert!(makers.iter().all(|maker| self.api.asked.lock().unwrap()[maker] == 1), "{:?}", self.api.asked);
        until_true("each was counted once", PATIENCE, async || {
            let metrics = updater.get("/metrics").await.1;
            let of = |name: &str| value(&metrics, &format!("twitter_updater_{name}_total{{namespace=\"{NAME}\"}}"));
            (of("fanned_out"), of("fan_out_failed")) == (Some(25.0), Some(0.0))
        })
        .await;
        let ways = self.world.store.ways(MAKERS, &makers[0]).await.unwrap();
        assert_eq!(ways[0].1, Way { source: NAME.to_owned(), ..Way::new("fan_out") });
    }

    async fn seen(&self, updater: &Role) {
        // The rounds so far may be those of the process before.
        until_true("two rounds are counted, as its own", PATIENCE, async || {
            let metrics = updater.get("/metrics").await.1;
            let found = |of: &str| value(&metrics, &format!("twitter_updater_found_total{{namespace=\"{of}\"}}"));
            assert_eq!(found("tweet:update"), Some(0.0), "the posts' own");
            found(NAME).unwrap() >= 100.0
        })
        .await;

        let status = self.json(&["status", "--json"]);
        let of = |name: &str| {
            let all = status["namespaces"].as_array().unwrap();
            all.iter().find(|one| one["namespace"] == name).unwrap_or_else(|| panic!("{name}: {status}"))
        };
        let whole = of(NAME);
        // The refused one may be dead again.
        let all: u64 = ["delayed", "leased", "dead"].iter().map(|place| whole[*place].as_u64().unwrap()).sum();
        assert_eq!(all, 52, "{status}");
        let lanes = whole["lanes"].as_array().unwrap().iter().map(|lane| (&lane["lane"], &lane["patience_ms"]));
        assert_eq!(lanes.collect::<Vec<_>>(), [(&json!("even"), &json!(2_000)), (&json!("odd"), &json!(3_000))]);
        assert_eq!(of(MAKERS)["lanes"][0]["delayed"], 25, "{status}");
        // Its calls are counted in the ledger, at its own endpoint; the posts had none.
        assert_eq!(whole["quota"]["unknown"], 0, "{status}");
        assert!(whole["quota"]["supply_calls_per_15_min"].as_f64().unwrap() > 0.0, "{status}");
        assert_eq!(of("tweet:update")["quota"]["unknown"], 1, "{status}");

        let ops = self.role("ops").await;
        let overview = ops.get("/").await.1;
        assert!(overview.contains(NAME) && overview.contains("tweet:update"), "{overview}");
        let own = ops.get(&format!("/n/{NAME}/")).await.1;
        assert!(own.contains("even") && own.contains("odd"), "{own}");
        let thing = ops.get(&format!("/n/{NAME}/tweet?id=1000")).await.1;
        assert!(thing.contains("2s (lane even)"), "{thing}");
        let gauges = ops.get("/metrics").await.1;
        assert_eq!(value(&gauges, &format!("twitter_updater_queue_up{{namespace=\"{NAME}\"}}")), Some(1.0), "{gauges}");
        // For a moment all of a lane may be leased.
        until_true("the gauges count both lanes", PATIENCE, async || {
            let gauges = ops.get("/metrics").await.1;
            let of = |lane: &str| format!("twitter_updater_delayed{{namespace=\"{NAME}\",lane=\"{lane}\"}}");
            let [even, odd] = ["even", "odd"].map(|lane| value(&gauges, &of(lane)).unwrap_or(0.0));
            (1.0..=27.0).contains(&even) && (1.0..=25.0).contains(&odd)
        })
        .await;
        assert_eq!(ops.stopped().await, Some(0));
    }

    /// The queue is gone; the store knows all of them.
    async fn rebuilt(&mut self) {
        match &self.world.redis {
            Some(redis) => redis::cmd("FLUSHALL").exec_async(&mut redis.connection().await).await.unwrap(),
            None => {
                for end in ["", "-wal", "-shm"] {
                    let _ = std::fs::remove_file(self.folder.path().join(format!("jobs.db{end}")));
                }
                [self.queue, self.makers] = queues(&self.world, self.folder.path()).await;
            }
        }
        assert_eq!(self.queue.stats().await.unwrap().delayed, 0);
        assert_eq!(self.rebuild(), [(NAME, 51), (MAKERS, 25)], "the dead one stays dead");
    }

    /// Rebuilds; how many of each were put back.
    fn rebuild(&self) -> [(&'static str, u64); 2] {
        let output = text(&self.run(&["rebuild", "--json"]).stdout);
        [NAME, MAKERS].map(|name| {
            let line = output.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{output}"));
            let rebuilt: Value = serde_json::from_str(&line[line.find('{').unwrap()..]).unwrap();
            (name, rebuilt["put_back"].as_u64().unwrap())
        })
    }
}

/// Those of the things and of the makers.
async fn queues(world: &World, folder: &Path) -> [Arc<dyn Queue>; 2] {
    let mut queues: Vec<Arc<dyn Queue>> = Vec::new();
    for name in [NAME, MAKERS] {
        queues.push(match &world.redis {
            Some(redis) => Arc::new(RedisQueue::new(pool(&redis.url), name)),
            None => Arc::new(EmbeddedQueue::open(&folder.join("jobs.db"), name, PATIENCE).await.unwrap()),
        });
    }
    queues.try_into().unwrap()
}

async fn runs_through_the_house(backends: Backends) {
    let mut house = House::new(backends).await;
    house.dies_before_it_fans_out(&house.ids[..20]).await;
    house.enqueue(20);
    let updater = house.role("updater").await;
    house.rounds(3).await;
    house.fanned_out(&updater).await;
    updater.process.kill(); // -9
    let updater = house.role("updater").await;
    house.dead().await;
    house.rounds(5).await;
    house.seen(&updater).await;
    // It was due again, was refused again, and is dead for the second time.
    until_true("the retried one is dead", PATIENCE, async || house.world.store.counts(NAME).await.unwrap().dead == 1)
        .await;
    assert_eq!(updater.stopped().await, Some(0));

    let standings = house.standings(&house.ids).await;
    assert!(standings.iter().flatten().all(|known| known.state == ItemState::Live && known.lookups >= 2));
    let absent = house.standings(&[ABSENT.to_owned()]).await.remove(0).unwrap();
    assert!(absent.misses >= 2 && absent.state == ItemState::Live, "not believed yet: {absent:?}");
    let stored = house.world.store.tweet(NAME, "1000").await.unwrap().unwrap();
    assert_eq!(stored.raw.as_deref(), Some(r#"{"id":"1000","maker":"500","size":4}"#));
    let places = house.queue.locate(&house.ids).await.unwrap();
    let lane = |at: usize| ["even", "odd"][at % 2];
    let is_in_its_lane = |(at, places): (usize, &Vec<Place>)| matches!(&places[..], [Place::Delayed { lane: its, .. }] if its == lane(at));
    assert!(places.iter().enumerate().all(is_in_its_lane), "{places:?}");

    house.rebuilt().await;
    let updater = house.role("updater").await;
    let before = house.api.least(&house.ids);
    house.rounds(before + 1).await;
    assert_eq!(updater.stopped().await, Some(0));
    assert_eq!(house.queue.stats().await.unwrap().leased, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_file_and_one_line_are_a_pipeline_embedded() {
    runs_through_the_house(Backends { redis: false, postgres: false }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_file_and_one_line_are_a_pipeline_on_redis_and_postgres() {
    runs_through_the_house(Backends { redis: true, postgres: true }).await;
}

/// The queues take nothing new: things are refreshed as before, and `rebuild` puts the makers in when there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_of_makers_stops_no_thing() {
    let house = House::new(Backends { redis: true, postgres: false }).await;
    house.enqueue(0);
    let mut raw = house.world.redis.as_ref().unwrap().connection().await;
    let mut maxmemory = async |bytes: u32| {
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).exec_async(&mut raw).await.unwrap();
    };
    maxmemory(1).await;
    let (process, log) = house.process("updater", &house.settings);
    let updater = Role::of(process, &log).await;
    house.rounds(3).await;
    let metrics = updater.get("/metrics").await.1;
    let of = |name: &str| value(&metrics, &format!("twitter_updater_{name}_total{{namespace=\"{NAME}\"}}")).unwrap();
    assert_eq!(of("fanned_out"), 0.0, "{metrics}");
    assert!(of("fan_out_failed") >= 25.0 && of("found") >= 100.0, "{metrics}");
    let said = std::fs::read_to_string(&log).unwrap();
    assert_eq!(said.matches("takes no ids from other pipelines").count(), 1, "{said}");
    assert_eq!((house.makers.stats().await.unwrap().delayed, house.api.least(&house.all_makers())), (0, 0));

    maxmemory(0).await;
    assert_eq!(house.rebuild(), [(NAME, 0), (MAKERS, 25)]);
    until_true("all makers were asked for", PATIENCE, async || house.api.least(&house.all_makers()) == 1).await;
    assert_eq!(updater.stopped().await, Some(0));
}

/// An answer about a dead thing is refused by the store: its maker is neither recorded nor looked up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_store_refuses_fans_out_nothing() {
    let house = House::new(Backends { redis: false, postgres: false }).await;
    let [dead, living] = ["3000", "1000"].map(str::to_owned);
    house.world.store.mark_dead(NAME, wall_ms(), &[(dead.clone(), "a test".to_owned())]).await.unwrap();
    let lane = Lane::new("even", Duration::from_secs(2));
    let jobs = [&dead, &living].map(|id| NewJob { id: id.clone(), lane: lane.clone(), due: 0.into() });
    house.queue.schedule(&jobs).await.unwrap();
    let updater = house.role("updater").await;
    until_true("it is dead in the queue, and the maker of the other was asked for", PATIENCE, async || {
        let is_dead =
            matches!(&house.queue.locate(std::slice::from_ref(&dead)).await.unwrap()[0][..], [Place::Dead { .. }]);
        is_dead && house.api.least(&[maker_of(&living)]) == 1
    })
    .await;
    assert_eq!(house.api.asked.lock().unwrap()[&dead], 1, "it was answered");
    assert_eq!(house.world.store.standing(MAKERS, &[maker_of(&dead)]).await.unwrap(), [None]);
    assert_eq!(updater.stopped().await, Some(0));
}

/// Settings that have no makers: things are refreshed all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_not_there_is_left_out() {
    let house = House::new(Backends { redis: false, postgres: false }).await;
    house.enqueue(0);
    let (process, log) = house.process("updater", &house.with(ALONE, "1"));
    let updater = Role::of(process, &log).await;
    house.rounds(2).await;
    assert_eq!(house.world.store.counts(MAKERS).await.unwrap().live, 0);
    assert_eq!(updater.stopped().await, Some(0));
}

/// CONTRIBUTING's example is this file.
#[test]
fn the_example_of_the_documents_is_the_pipeline() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    assert!(read("CONTRIBUTING.md").contains("tests/it/things/pipeline.rs"));
    assert!(read("tests/it/things/pipeline.rs").contains("Registry::default().with(Things)"));
}
