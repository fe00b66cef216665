//! A pipeline that the house does not know: `things/pipeline.rs` is all of it. It runs through the real processes: worker,
//! queue, ledger, store, rebuild, the dead, metrics, status and page, as the posts do beside it.

mod pipeline;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::{Value, json};
use tempfile::TempDir;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{EmbeddedQueue, Place, Queue, RedisQueue};
use twitter_updater::model::post::TweetState;
use twitter_updater::store::Standing;

use crate::support::process::{Process, Variables, command_of, text, variables};
use crate::support::redis::pool;
use crate::support::role::{Role, value};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const NAME: &str = "things:twitter";
const PATIENCE: Duration = Duration::from_secs(60);
/// Its request is refused, whoever else is in it.
const REFUSED: &str = "666";
/// Calls in 15 minutes.
const LIMIT: u32 = 10_000;
/// There is no such thing.
const ABSENT: &str = "404";
const ARGUMENTS: &str = "THINGS_ARGUMENTS";

/// The program, with the things registered: one of the processes of the tests below.
#[test]
#[ignore = "it is a process of the other tests"]
fn as_a_process() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    let arguments = ["things"].into_iter().chain(arguments.split('\n')).map(Into::into);
    let code = twitter_updater::app::cli::main_with(pipeline::registry(), arguments);
    std::process::exit(if code == std::process::ExitCode::SUCCESS { 0 } else { 65 });
}

fn command(arguments: &[&str], settings: &Variables) -> Command {
    let mut command = command_of(&std::env::current_exe().unwrap(), settings);
    command.args(["--exact", "things::as_a_process", "--ignored", "--nocapture", "--test-threads", "1"]);
    command.env(ARGUMENTS, arguments.join("\n"));
    command
}

/// What asks for things, and how often each was asked for.
struct Api {
    address: String,
    asked: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Api {
    async fn start() -> Self {
        let asked = Arc::new(Mutex::new(BTreeMap::new()));
        let (counted, calls) = (asked.clone(), Arc::new(AtomicU32::new(0)));
        let answer = move |Query(query): Query<BTreeMap<String, String>>| async move {
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
            (StatusCode::OK, quota, Json(there.map(|id| json!({"id": id, "size": id.len()})).collect()))
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/things", get(answer));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, asked }
    }

    /// How often the thing was asked for that was asked for least.
    fn least(&self, ids: &[String]) -> u32 {
        let asked = self.asked.lock().unwrap();
        ids.iter().map(|id| asked.get(id).copied().unwrap_or(0)).min().unwrap()
    }
}

/// Services with the things in them.
struct House {
    api: Api,
    world: World,
    queue: Arc<dyn Queue>,
    settings: Variables,
    /// Those that there are.
    ids: Vec<String>,
    folder: TempDir,
}

impl House {
    async fn new(backends: Backends) -> Self {
        let (api, folder) = (Api::start().await, tempfile::tempdir().unwrap());
        let world = World::new(backends, folder.path(), &api.address).await;
        let queue: Arc<dyn Queue> = match &world.redis {
            Some(redis) => Arc::new(RedisQueue::new(pool(&redis.url), NAME)),
            None => Arc::new(EmbeddedQueue::open(&folder.path().join("jobs.db"), NAME, PATIENCE).await.unwrap()),
        };
        let mut settings = world.settings.clone();
        settings.extend(variables(&[("updater.max_deliveries", "2"), ("log.level", "info")]));
        let ids = (1_000..1_050).map(|id: u32| id.to_string()).collect();
        Self { api, world, queue, settings, ids, folder }
    }

    /// A role, with a log of its own.
    async fn role(&self, name: &str) -> Role {
        let log = tempfile::Builder::new().prefix(name).tempfile_in(self.folder.path()).unwrap();
        let (_, log) = log.keep().unwrap();
        Role::of(Process::start_by(command(&[name, "--listen", "127.0.0.1:0"], &self.settings), &log), &log).await
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

    async fn enqueue(&self) {
        let mut lines = self.ids.clone();
        lines.extend([REFUSED.to_owned(), ABSENT.to_owned(), "no thing".to_owned()]);
        let file = self.folder.path().join("ids.txt");
        std::fs::write(&file, lines.join("\n")).unwrap();
        let put_in = self.json(&["enqueue", "--pipeline", NAME, "--json", file.to_str().unwrap()]);
        assert_eq!((&put_in["scheduled"], &put_in["refused"]), (&json!(52), &json!(1)), "{put_in}");
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

    async fn seen(&self, updater: &Role) {
        let metrics = updater.get("/metrics").await.1;
        let of = |name: &str, namespace: &str| value(&metrics, &format!("{name}{{namespace=\"{namespace}\"}}"));
        assert!(of("twitter_updater_found_total", NAME).unwrap() >= 100.0, "{metrics}");
        assert_eq!(of("twitter_updater_found_total", "tweet:update"), Some(0.0), "the posts' own");

        let status = self.json(&["status", "--json"]);
        let of = |name: &str| {
            let all = status["namespaces"].as_array().unwrap();
            all.iter().find(|one| one["namespace"] == name).unwrap_or_else(|| panic!("{name}: {status}"))
        };
        let whole = of(NAME);
        // The refused one may be dead again.
        let all: u64 = ["delayed", "leased", "dead"].iter().map(|place| whole[*place].as_u64().unwrap()).sum();
        assert_eq!(all, 52, "{status}");
        assert_eq!(whole["lanes"][0]["lane"], "often", "{status}");
        // Its calls are counted in the ledger, at its own endpoint; the posts had none.
        assert_eq!(whole["quota"]["unknown"], 0, "{status}");
        assert!(whole["quota"]["supply_calls_per_15_min"].as_f64().unwrap() > 0.0, "{status}");
        assert_eq!(of("tweet:update")["quota"]["unknown"], 1, "{status}");

        let ops = self.role("ops").await;
        let overview = ops.get("/").await.1;
        assert!(overview.contains(NAME) && overview.contains("tweet:update"), "{overview}");
        let own = ops.get(&format!("/n/{NAME}/")).await.1;
        assert!(own.contains("often"), "{own}");
        let thing = ops.get(&format!("/n/{NAME}/tweet?id=1000")).await.1;
        assert!(thing.contains("often, every 2s") || thing.contains("often, every 2 s"), "{thing}");
        let gauges = ops.get("/metrics").await.1;
        assert_eq!(value(&gauges, &format!("twitter_updater_queue_up{{namespace=\"{NAME}\"}}")), Some(1.0), "{gauges}");
        assert!(gauges.contains(&format!("lane=\"often\",namespace=\"{NAME}\"")) || gauges.contains(NAME));
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
                let file = self.folder.path().join("jobs.db");
                self.queue = Arc::new(EmbeddedQueue::open(&file, NAME, PATIENCE).await.unwrap());
            }
        }
        assert_eq!(self.queue.stats().await.unwrap().delayed, 0);
        let output = text(&self.run(&["rebuild", "--json"]).stdout);
        let of_things = output.lines().find(|line| line.contains(NAME)).unwrap_or_else(|| panic!("{output}"));
        let rebuilt: Value = serde_json::from_str(&of_things[of_things.find('{').unwrap()..]).unwrap();
        assert_eq!(rebuilt["put_back"], 51, "the dead one stays dead: {rebuilt}");
    }
}

async fn runs_through_the_house(backends: Backends) {
    let mut house = House::new(backends).await;
    house.enqueue().await;
    let updater = house.role("updater").await;
    house.rounds(2).await;
    updater.process.kill(); // -9
    let updater = house.role("updater").await;
    house.dead().await;
    house.rounds(4).await;
    house.seen(&updater).await;
    // It was due again, was refused again, and is dead for the second time.
    until_true("the retried one is dead", PATIENCE, async || house.world.store.counts(NAME).await.unwrap().dead == 1)
        .await;
    assert_eq!(updater.stopped().await, Some(0));

    let standings = house.standings(&house.ids).await;
    assert!(standings.iter().flatten().all(|known| known.state == TweetState::Live && known.lookups >= 2));
    let absent = house.standings(&[ABSENT.to_owned()]).await.remove(0).unwrap();
    assert!(absent.misses >= 2 && absent.state == TweetState::Live, "not believed yet: {absent:?}");
    let stored = house.world.store.tweet(NAME, "1000").await.unwrap().unwrap();
    assert_eq!(stored.raw.as_deref(), Some(r#"{"id":"1000","size":4}"#));
    let places = house.queue.locate(&house.ids).await.unwrap();
    assert!(places.iter().all(|places| matches!(&places[..], [Place::Delayed { .. }])), "{places:?}");

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

/// CONTRIBUTING's example is this file.
#[test]
fn the_example_of_the_documents_is_the_pipeline() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    assert!(read("CONTRIBUTING.md").contains("tests/it/things/pipeline.rs"));
    assert!(read("tests/it/things/pipeline.rs").contains("Registry::default().with(Things)"));
}
