//! The store breaks, in every way it can, under two updaters in full swing: they pause, give back what they
//! hold, and go on by themselves. Nothing is settled that is not saved.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::sync::Mutex;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::lane::Lane;
use twitter_updater::engine::queue::{NewJob, Place};
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, Running, SimulatorOptions};
use twitter_updater::store::{NewItem, SqliteStore, Store, Way};

use crate::support::census::{Census, assert_answers_are_in_order, census};
use crate::support::disk::TinyDisk;
use crate::support::postgres::{self, as_postgres};
use crate::support::process::{Process, Variables, command, variables, wrap};
use crate::support::redis::TestRedis;
use crate::support::wait::until_true;
use crate::support::world::World;

const PROCESSES: usize = 2;
const SLOTS: usize = 4;
/// Tweets that become due together before each fault: 40 calls, 8 at once, 150 ms each.
const WAVE: u32 = 4_000;
/// How long a fault stands once it is felt.
const OUTAGE: Duration = Duration::from_secs(1);
/// Probes of one process meanwhile, at the most: the k-th follows its delay, drawn evenly from 0 to
/// 2^k × 0.25 s, so that seven delays fit into a second has the odds 1 ÷ 7! ÷ (0.5 × 1 × … × 32) = 1e-8.
const PROBES: usize = 6;
/// The back-off of an outage like these ends within 32 s.
const WITHIN: Duration = Duration::from_secs(90);

/// Updaters over one world, fed in waves. Whatever they are given is due once: an hour later again.
struct Fleet {
    world: World,
    api: Running,
    processes: Vec<Process>,
    log: PathBuf,
    ids: Vec<String>,
}

/// What the queue has counted.
#[derive(Debug, Clone, Copy)]
struct Counted {
    claims: i64,
    rescheduled: i64,
    released: i64,
}

impl Fleet {
    /// The world's settings are given to `start`, which starts a process.
    async fn new(
        folder: &Path,
        postgres: Option<String>,
        settings: &[(&str, &str)],
        start: impl Fn(&Variables, &Path) -> Process,
    ) -> Self {
        let options = SimulatorOptions {
            latency: Duration::from_millis(140),
            jitter: Duration::from_millis(20),
            calls_per_window: 0,
            missing_share: 0.0,
            body_padding: 0,
            ..SimulatorOptions::default()
        };
        let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
        let redis = TestRedis::start(&["--appendonly", "yes"]);
        let mut world = World::over(Some(&redis.url), postgres, folder, &api.base_url()).await;
        world.redis = Some(redis);
        let concurrency = SLOTS.to_string();
        world.settings.extend(variables(&[
            ("tweet_age", "30d: 1h"),
            ("updater.concurrency", &concurrency),
            // Nothing may be saved by a lease that ran out.
            ("updater.lease", "60s"),
            ("updater.save_timeout", "1s"),
            ("store.postgres.statement_timeout", "600ms"),
        ]));
        world.settings.extend(variables(settings));
        let log = folder.join("updater.log");
        let processes = (0..PROCESSES).map(|_| start(&world.settings, &log)).collect();
        // One that starts during a fault ends with it.
        until_true("all have begun", WITHIN, async || world.queue.stats().await.unwrap().workers.len() == PROCESSES)
            .await;
        Self { world, api, processes, log, ids: Vec::new() }
    }

    async fn counted(&self) -> Counted {
        let counters = self.world.queue.stats().await.unwrap().counters;
        assert_eq!((counters.get("expired"), counters.get("buried")), (None, None), "nobody is blamed: {counters:?}");
        assert_eq!(counters.get("retried"), None, "nobody is blamed: {counters:?}");
        let of = |name: &str| counters.get(name).copied().unwrap_or(0);
        Counted { claims: of("claims"), rescheduled: of("rescheduled"), released: of("released") }
    }

    /// New tweets, recorded and due now; in the order in which they are claimed.
    async fn feed(&mut self) -> Vec<String> {
        let (now, before) = (wall_ms(), self.ids.len() as u32);
        let lane = Lane::new("30d", Duration::from_secs(3_600));
        let fresh: Vec<TweetId> = (before..before + WAVE).map(|n| TweetId::at(now - 86_400_000, n)).collect();
        let mut ids: Vec<String> = fresh.iter().map(ToString::to_string).collect();
        ids.sort();
        for id in &ids {
            assert!(!self.ids.contains(id));
        }
        let new = |id: &String| NewItem {
            id: id.clone(),
            created_at: Some(now),
            next_due: Some(now),
            content: None,
            read_at: None,
        };
        let tweets: Vec<NewItem> = ids.iter().map(new).collect();
        self.world.store.record(NAMESPACE, now, &Way::new("enqueue"), &tweets).await.unwrap();
        let jobs: Vec<NewJob> =
            ids.iter().map(|id| NewJob { id: id.clone(), lane: lane.clone(), due: 0.into() }).collect();
        self.world.queue.schedule(&jobs).await.unwrap();
        self.ids.extend(ids.iter().cloned());
        ids
    }

    /// A wave of tweets, and the fault in the middle of it. While it stands nearly nothing is claimed; when
    /// it is over all is done, by the same processes.
    async fn survives(&mut self, fault: &str, begins: impl AsyncFnOnce(), ends: impl AsyncFnOnce()) {
        let start = self.counted().await;
        self.feed().await;
        until_true(&format!("{fault}: they are in full swing"), WITHIN, async || {
            self.counted().await.rescheduled >= start.rescheduled + 100
        })
        .await;
        begins().await;
        let began = self.counted().await;
        until_true(&format!("{fault}: it is felt, and what was held is released"), WITHIN, async || {
            self.counted().await.released > began.released
        })
        .await;
        let felt = self.counted().await;
        tokio::time::sleep(OUTAGE).await;
        let stood = self.counted().await;
        let claims = usize::try_from(stood.claims - felt.claims).unwrap();
        assert!(claims <= PROCESSES * (SLOTS + PROBES), "{fault}: {claims} claims in {OUTAGE:?}");
        assert!(self.world.queue.stats().await.unwrap().due > 0, "{fault}: it came too late");
        ends().await;
        self.all_is_done(fault).await;
        let ended = self.counted().await;
        println!(
            "{fault}: {} ids released, {claims} claims in the {OUTAGE:?} it stood",
            ended.released - start.released
        );
    }

    /// Waits until no tweet is due or held, and sees that each has been saved.
    async fn all_is_done(&mut self, fault: &str) {
        until_true(&format!("{fault}: all is done"), WITHIN, async || {
            for process in &mut self.processes {
                assert!(process.runs(), "{fault}:\n{}", std::fs::read_to_string(&self.log).unwrap());
            }
            let stats = self.world.queue.stats().await.unwrap();
            stats.due == 0 && stats.leased == 0
        })
        .await;
        assert_eq!(self.world.queue.stats().await.unwrap().delayed as usize, self.ids.len());
    }

    /// Ends the processes. Each tweet that the queue has done with is saved in `store`.
    async fn ends(self, store: &dyn Store) {
        for process in self.processes {
            let status = process.terminate();
            assert!(status.success(), "{status}\n{}", std::fs::read_to_string(&self.log).unwrap());
        }
        self.api.stop().await;
        let hour_later = wall_ms() + 3_000_000;
        for ids in self.ids.chunks(1_000) {
            let places = self.world.queue.locate(ids).await.unwrap();
            let standings = store.standing(NAMESPACE, ids).await.unwrap();
            for ((id, places), standing) in ids.iter().zip(places).zip(standings) {
                assert!(matches!(&places[..], [Place::Delayed { due, .. }] if *due > hour_later), "{id}: {places:?}");
                let checked_at = standing.and_then(|known| known.checked_at);
                assert!(checked_at.is_some(), "{id} is settled and not saved");
            }
        }
        let found = census(&*self.world.queue, store, &self.ids).await;
        assert_eq!(found, Census { delayed: self.ids.len(), ..Census::default() });
        assert_answers_are_in_order(store, &self.ids[..1_000]).await;
    }
}

fn updater(settings: &Variables, log: &Path) -> Process {
    Process::start(&["updater"], settings, log)
}

/// Two processes live through all of it, one fault after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_breaks_in_every_way() {
    let folder = tempfile::tempdir().unwrap();
    let server = RefCell::new(postgres::own());
    let url = server.borrow().url("postgres");
    let mut fleet = Fleet::new(folder.path(), Some(url.clone()), &[], updater).await;

    let crash = async || server.borrow_mut().crash();
    let start = async || server.borrow_mut().start();
    fleet.survives("a crash", crash, start).await;
    let stop = async || server.borrow_mut().stop();
    let start = async || server.borrow_mut().start();
    fleet.survives("a stop", stop, start).await;

    let operator = Mutex::new(PgConnection::connect(&url).await.unwrap());
    let run = async |statements: &str| {
        operator.lock().await.execute(AssertSqlSafe(statements.to_owned())).await.unwrap();
    };
    let lock = async || run("BEGIN; LOCK TABLE tweet IN EXCLUSIVE MODE").await;
    fleet.survives("a lock past the statement timeout", lock, async || run("ROLLBACK").await).await;

    for (fault, code) in [("serialization failures", "40001"), ("out of memory", "53200"), ("no disk", "53100")] {
        let refuse = format!(
            "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'as told' USING ERRCODE = '{code}'; END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON tweet FOR EACH ROW EXECUTE FUNCTION refuse()"
        );
        fleet.survives(fault, async || run(&refuse).await, async || run("DROP TRIGGER refuse ON tweet").await).await;
    }

    // Deferred, it runs in the commit, which no statement timeout ends.
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN
            IF coalesce(current_setting('test.slept', true), '') = '' THEN
                PERFORM set_config('test.slept', 'yes', true), pg_sleep(2.5);
            END IF;
            RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON tweet DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION slow()";
    fleet.survives("slow commits", async || run(slow).await, async || run("DROP TRIGGER slow ON tweet").await).await;

    let store = fleet.world.store.clone();
    fleet.ends(&*store).await;
}

/// An operator updates two tweets of a batch in the other order: the save loses, and runs again. Nobody pauses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_costs_no_batch() {
    let folder = tempfile::tempdir().unwrap();
    let url = postgres::database().await;
    let mut operator = PgConnection::connect(&url).await.unwrap();
    let victim_after = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = %L', \
         current_database(), '2s'); END $$";
    operator.execute(victim_after).await.unwrap();
    operator.execute("SET deadlock_timeout = '30s'").await.unwrap();
    let patient = [("store.postgres.statement_timeout", "20s"), ("updater.save_timeout", "20s")];
    let mut fleet = Fleet::new(folder.path(), Some(url.clone()), &patient, updater).await;

    fleet.world.queue.pause(Some("until the operator has begun")).await.unwrap();
    let ids = fleet.feed().await;
    let update = async |operator: &mut PgConnection, id: &String| {
        sqlx::query("UPDATE tweet SET text = text WHERE id = $1").bind(id).execute(operator).await.unwrap();
    };
    operator.execute("BEGIN").await.unwrap();
    let last = &ids[1_999];
    update(&mut operator, last).await;
    fleet.world.queue.pause(None).await.unwrap();
    let mut watcher = PgConnection::connect(&url).await.unwrap();
    until_true("a save waits for the operator", WITHIN, async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity \
             WHERE datname = current_database() AND wait_event = 'transactionid'";
        sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut watcher).await.unwrap() > 0
    })
    .await;
    // Rows are locked in the order of their ids: the batch's first one is the save's already.
    let places = fleet.world.queue.locate(&ids).await.unwrap();
    assert!(matches!(places[1_999][..], [Place::Leased { .. }]), "{:?}", places[1_999]);
    let first = places.iter().position(|place| *place == places[1_999]).unwrap();
    update(&mut operator, &ids[first]).await;
    operator.execute("COMMIT").await.unwrap();

    fleet.all_is_done("a deadlock").await;
    assert_eq!(fleet.counted().await.released, 0);
    until_true("the deadlock is in the server's statistics", WITHIN, async || {
        let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        sqlx::query_scalar::<_, i64>(deadlocks).fetch_one(&mut watcher).await.unwrap() > 0
    })
    .await;
    let store = fleet.world.store.clone();
    fleet.ends(&*store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresqls_disk_is_full() {
    let Some(disk) = TinyDisk::new(as_postgres(), 48) else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = postgres::own();
    let url = server.url("postgres");
    let mut fleet = Fleet::new(folder.path(), Some(url.clone()), &[], updater).await;
    let mut operator = PgConnection::connect(&url).await.unwrap();
    let move_there =
        format!("CREATE TABLESPACE tiny LOCATION '{}'; ALTER TABLE tweet SET TABLESPACE tiny", disk.path().display());
    for statement in move_there.split("; ") {
        operator.execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
    }
    fleet.survives("a full disk", async || disk.fill(), async || disk.clear()).await;
    let log = std::fs::read_to_string(&fleet.log).unwrap();
    assert!(log.contains("No space left on device"), "{log}");
    let store = fleet.world.store.clone();
    fleet.ends(&*store).await;
    drop(server); // before its disk
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlites_disk_is_full() {
    let Some(disk) = TinyDisk::new(Command::new("env"), 48) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = disk.inside().join("tweets.db");
    let start = |settings: &Variables, log: &Path| {
        let mut there = wrap(disk.command(), &command(&["updater"], settings));
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        Process::of(there.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    };
    let settings = [("store.sqlite.path", file.to_str().unwrap())];
    let mut fleet = Fleet::new(folder.path(), None, &settings, start).await;
    fleet.survives("a full disk", async || disk.fill(), async || disk.clear()).await;
    let log = std::fs::read_to_string(&fleet.log).unwrap();
    assert!(log.contains("full"), "{log}");
    // SQLite resolves a path's links, and this one leads elsewhere: what they wrote is read from a copy.
    for process in std::mem::take(&mut fleet.processes) {
        assert!(process.terminate().success());
    }
    let copy = folder.path().join("copy.db");
    for end in ["", "-wal"] {
        let name = format!("tweets.db{end}");
        if disk.path().join(&name).exists() {
            std::fs::copy(disk.path().join(&name), format!("{}{end}", copy.display())).unwrap();
        }
    }
    let store = SqliteStore::open(&copy, Duration::from_secs(10)).await.unwrap();
    fleet.ends(&store).await;
}
