//! The table of docs/operations.md, row by row: the fault is made with the real binaries, and the page, `/status` and the
//! alert say the colour and the cause that the row names, within 15 s, and nothing is green until it is over; and they are
//! green within 15 s and one interval after its end.
//!
//! Three systems at the same time, with the default `updater.buffer_ttl` of 5 s: one meets the faults of the API, one those of the
//! processes and services, one those of Redis's disk and clock and of a provider. All of it twice: with intervals of 3 s, and with
//! the default age table, where a call fails only when a post comes due. Beside them a system of lists meets those of lists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use twitter_updater::base::clock::{Millis, Stopwatch, wall_ms};
use twitter_updater::engine::queue::{Administration, Inspection, RedisQueue};
use twitter_updater::model::post::ItemState;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{
    self, Fault, Running, SimulatedCredential, SimulatedKeys, SimulatorOptions, Standing, id_of,
};
use twitter_updater::store::{Lifecycle, PostgresStore, Standing as Stored};

use crate::support::disk::TinyDisk;
use crate::support::lists::LISTS;
use crate::support::port::Port;
use crate::support::postgres::{self, OwnPostgres};
use crate::support::process::{Process, Variables, run, run_with_input, text, variables};
use crate::support::redis::TestRedis;
use crate::support::role::Role;
use crate::support::stepping_clock::SteppingClock;
use crate::support::wait::until;

const OPERATIONS: &str = include_str!("../../../docs/operations.md");
const ALERTS: &str = include_str!("../../../k8s/components/monitoring/alerts.yaml");

/// The colour and the cause show within this time after the first failed call.
const BOUND: Duration = Duration::from_secs(15);
const BUFFER_TTL: Duration = Duration::from_secs(5);
/// Time for a system to be green at first.
const PATIENCE: Duration = Duration::from_secs(60);
const MINUTE: Millis = 60_000;

/// The posts of a system, and their intervals.
#[derive(Debug, Clone, Copy)]
struct Pace {
    name: &'static str,
    tweet_age: &'static str,
    /// The table by which they are put in. The start of the updater spreads them over a shorter interval.
    tweet_age_before: &'static str,
    /// Of these posts, at first and at last.
    interval_at_first: Duration,
    interval: Duration,
    posts: u32,
    age: Millis,
    /// From the beginning of a fault to the first failed call, and from its end to the first answered one, at most.
    until_a_call: Duration,
}

const SHORT: Pace = Pace {
    name: "3 s",
    tweet_age: "30d: 3s",
    tweet_age_before: "30d: 3s",
    interval_at_first: Duration::from_secs(3),
    interval: Duration::from_secs(3),
    posts: 1_000,
    age: 24 * 60 * MINUTE,
    until_a_call: Duration::from_secs(3),
};
/// The posts stay below an age of an hour while the test runs: 3, later 10 minutes.
const DEFAULT: Pace = Pace {
    name: "default",
    tweet_age: "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h, 30d: 1d",
    tweet_age_before: "18m: 1h, 60m: 1h, 1d: 1h, 7d: 6h, 30d: 1d",
    interval_at_first: Duration::from_secs(180),
    interval: Duration::from_secs(600),
    posts: 3_000,
    age: 2 * MINUTE,
    until_a_call: BUFFER_TTL,
};
/// Posts due within [`Pace::until_a_call`] that suffice for a mass-miss alert if half of them are missing.
const MANY_DUE: u64 = 60;
const OWNERS: u64 = 150;

/// A row of the table, in its words.
#[derive(Debug, Clone)]
struct Row {
    colour: &'static str,
    causes: Vec<&'static str>,
}

impl Row {
    fn state(&self) -> &'static str {
        match self.colour {
            "red" => "stopped",
            "amber" => "late",
            "grey" => "unknown",
            other => panic!("{other} is no colour of a fault"),
        }
    }
}

/// The table of the document: each fault with its row.
fn documented() -> BTreeMap<&'static str, Row> {
    let section = OPERATIONS.split_once("## What the headline says, and what to do").expect("the section").1;
    let rows = section.lines().skip_while(|line| !line.starts_with("|--")).skip(1);
    rows.take_while(|line| line.starts_with('|'))
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let [fault, colour, cause, to_do] = cells[..] else { panic!("{row}") };
            let causes: Vec<_> = cause.split('`').skip(1).step_by(2).collect();
            assert!(!causes.is_empty() && !to_do.is_empty(), "{row}");
            (fault, Row { colour, causes })
        })
        .collect()
}

/// An alert's expression of the one form `min by (LABEL) (METRIC) == NUMBER`.
#[derive(Debug)]
struct Alert {
    minimum: bool,
    by: String,
    metric: String,
    /// Series are left out whose label begins like this.
    except: Option<(String, String)>,
    above: bool,
    bound: f64,
}

impl Alert {
    fn named(name: &str) -> Self {
        let rule = ALERTS.split_once(&format!("alert: {name}\n")).unwrap_or_else(|| panic!("no alert {name}")).1;
        let expression = rule.split_once("expr: ").unwrap().1.lines().next().unwrap();
        Self::read(expression).unwrap_or_else(|| panic!("{expression} is of another form"))
    }

    fn read(expression: &str) -> Option<Self> {
        let (what, rest) = expression.split_once(" by (")?;
        let (by, rest) = rest.split_once(") (")?;
        let (metric, rest) = rest.split_once(") ")?;
        let (comparison, bound) = rest.split_once(' ')?;
        let (metric, except) = match metric.split_once('{') {
            Some((metric, matcher)) => {
                let (label, start) = matcher.strip_suffix(".+\"}")?.split_once("!~\"")?;
                (metric, Some((label.to_owned(), start.to_owned())))
            }
            None => (metric, None),
        };
        let one_of = |word: &str, yes: &str, no: &str| (word == yes || word == no).then_some(word == yes);
        Some(Self {
            minimum: one_of(what, "min", "max")?,
            by: by.to_owned(),
            metric: metric.to_owned(),
            except,
            above: one_of(comparison, ">", "==")?,
            bound: bound.parse().ok()?,
        })
    }

    /// The groups of these exposed metrics for which it holds.
    fn rings(&self, exposed: &str) -> BTreeSet<String> {
        let mut groups: BTreeMap<String, f64> = BTreeMap::new();
        for line in exposed.lines().filter_map(|line| line.strip_prefix(&self.metric)?.strip_prefix('{')) {
            let (labels, value) = line.rsplit_once("} ").unwrap();
            let value_of =
                |label: &str| labels.split_once(&format!("{label}=\"")).unwrap().1.split('"').next().unwrap();
            if self.except.as_ref().is_some_and(|(label, start)| value_of(label).starts_with(start)) {
                continue;
            }
            let label = value_of(&self.by);
            let value: f64 = value.parse().unwrap();
            let choose = if self.minimum { f64::min } else { f64::max };
            groups.entry(label.to_owned()).and_modify(|known| *known = choose(*known, value)).or_insert(value);
        }
        let holds =
            |value: f64| if self.above { value > self.bound } else { (value - self.bound).abs() < f64::EPSILON };
        groups.into_iter().filter(|(_, value)| holds(*value)).map(|(group, _)| group).collect()
    }
}

#[test]
fn an_alert_of_that_form_is_evaluated() {
    let exposed = "# TYPE a gauge\na{namespace=\"x\",lane=\"1\"} 1\na{namespace=\"x\",lane=\"2\"} 0\na{lane=\"1\",namespace=\"y\"} 1\nab{namespace=\"z\"} 0\n";
    let rings = |expression| Alert::read(expression).unwrap().rings(exposed).into_iter().collect::<Vec<_>>();
    assert_eq!(rings("min by (namespace) (a) == 0"), ["x"]);
    assert_eq!(rings("max by (namespace) (a) > 0"), ["x", "y"]);
    let exposed = format!("{exposed}a{{namespace=\"x:1\"}} 1\n");
    let all_but = Alert::read("max by (namespace) (a{namespace!~\"x:.+\"}) > 0").unwrap().rings(&exposed);
    assert_eq!(all_but.into_iter().collect::<Vec<_>>(), ["x", "y"]);
    assert!(Alert::read("sum by (namespace) (a) > 0").is_none() && Alert::read("absent(a)").is_none());
}

/// Faults that were made, each with what was measured.
type Done = Vec<(&'static str, String)>;

/// What is seen at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Headline {
    state: String,
    sentence: String,
}

impl Headline {
    /// Of a page.
    fn of_page(page: &str) -> Option<Self> {
        let (state, rest) = page.split_once("id=\"answer\" data-state=\"")?.1.split_once('"')?;
        let marked = rest.split_once('>')?.1.split_once("</p>")?.0;
        let sentence: String =
            marked.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
        let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
        let sentence = plain.iter().fold(sentence, |text, (from, to)| text.replace(from, to));
        Some(Self { state: state.to_owned(), sentence })
    }

    /// Whether it says the same, but for its figures: a sentence counts seconds.
    fn is_like(&self, other: &Self) -> bool {
        let plain = |text: &str| text.replace(|c: char| c.is_ascii_digit() || " ,.msh".contains(c), "");
        self.state == other.state && plain(&self.sentence) == plain(&other.sentence)
    }

    fn is_green(&self) -> bool {
        self.state == "fresh"
    }
}

/// A running system, seen through its `ops`.
struct System {
    name: &'static str,
    ops: Role,
    /// Where its page is, and its figures for programs.
    page: String,
    status: String,
    namespace: String,
    store: PostgresStore,
    database: String,
    queue: RedisQueue,
    ids: Vec<String>,
    pace: Pace,
    /// When its posts were put in, ms since the epoch.
    since: Millis,
    rows: BTreeMap<&'static str, Row>,
    done: Mutex<Done>,
}

impl System {
    /// What all three say, once they agree: two of them may be of different seconds.
    async fn look(&self) -> Headline {
        let alert = Alert::named("TwitterUpdaterNotFresh");
        until(&format!("{}: page, status and alert agree", self.name), Duration::from_secs(10), async || {
            let ops = &self.ops;
            let (page, status, metrics) = tokio::join!(ops.get(&self.page), ops.get(&self.status), ops.get("/metrics"));
            let page = Headline::of_page(&page.1)?;
            let status: Value = serde_json::from_str(&status.1).ok()?;
            let rings = alert.rings(&metrics.1).contains(&self.namespace);
            let word = |name: &str| status["answer"][name].as_str().map(str::to_owned);
            let said = Headline { state: word("state")?, sentence: word("sentence")? };
            (said.is_like(&page) && rings != page.is_green()).then_some(page)
        })
        .await
    }

    /// Until a second of calls was answered, with short intervals until each post was looked up twice; then all is green.
    async fn is_in_full_swing(&self) {
        until(&format!("{}: posts are answered", self.name), PATIENCE, async || {
            let all = self.standings().await;
            let is_short = self.pace.interval < PATIENCE;
            let answered = all.iter().filter(|post| post.lookups > i64::from(is_short)).count();
            (answered >= if is_short { all.len() } else { 20 }).then_some(())
        })
        .await;
        self.is_green(BOUND).await;
    }

    async fn is_green(&self, within: Duration) -> Duration {
        let watch = Stopwatch::start();
        loop {
            let seen = self.look().await;
            if seen.is_green() {
                return watch.elapsed();
            }
            if watch.elapsed() >= within {
                let late = self.latest_first().await;
                panic!("{}: not green within {within:?}: {seen:?}; answered longest ago: {late:#?}", self.name);
            }
            pause().await;
        }
    }

    /// Rows of the store whose last answer is oldest, with their places in the queue.
    async fn latest_first(&self) -> Vec<String> {
        let rows = sqlx::query_as::<_, (String, String, i64, Option<i64>, Option<i64>, i64, i64)>(
            "SELECT id, state, first_seen, checked_at, next_due, lookups, misses FROM tweet WHERE namespace = $1 \
             ORDER BY coalesce(checked_at, first_seen) LIMIT 3",
        );
        let mut connection = PgConnection::connect(&self.database).await.unwrap();
        let rows = rows.bind(&self.namespace).fetch_all(&mut connection).await.unwrap();
        let mut all = Vec::new();
        for row in rows {
            let place = self.queue.locate(std::slice::from_ref(&row.0)).await.unwrap().remove(0);
            all.push(format!("at {}: {row:?} is {place:?}", wall_ms()));
        }
        all
    }

    /// A fault begins now.
    fn begins(&self, fault: &'static str) -> Episode<'_> {
        let row = self.rows.get(fault).unwrap_or_else(|| panic!("{fault:?} is not in the table")).clone();
        Episode { system: self, fault, row, began: Stopwatch::start(), seen: None, named: None, last: None }
    }

    /// Standings of its posts.
    /// Waits until the next seconds have due posts. Missing posts show in answers alone, and after an outage minutes may have none.
    async fn posts_fall_due(&self, pace: Pace) {
        let soon = i64::try_from(pace.until_a_call.as_millis()).unwrap();
        until("posts fall due", pace.interval, async || {
            let lanes = self.queue.due_counts_by(&[soon]).await.unwrap();
            (lanes.iter().flat_map(|lane| &lane.counts).sum::<u64>() >= MANY_DUE).then_some(())
        })
        .await;
    }

    async fn standings(&self) -> Vec<Stored> {
        let all = self.store.standing(&self.namespace, &self.ids).await.unwrap();
        all.into_iter().map(|standing| standing.expect("every post is in the store")).collect()
    }
}

/// Between two looks.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// One fault of a system, from its beginning to its end.
struct Episode<'a> {
    system: &'a System,
    fault: &'static str,
    row: Row,
    began: Stopwatch,
    /// When it was not green first, and when colour and cause were there.
    seen: Option<Duration>,
    named: Option<Duration>,
    last: Option<Headline>,
}

impl Episode<'_> {
    async fn look(&mut self) {
        let asked = self.began.elapsed();
        let seen = self.system.look().await;
        let fault = self.fault;
        if seen.is_green() {
            assert!(self.seen.is_none(), "{fault}: green again at {asked:?}, not green at {:?}", self.seen);
        } else {
            self.seen.get_or_insert_with(|| self.began.elapsed());
        }
        let names_it = self.row.causes.iter().all(|cause| seen.sentence.contains(cause));
        if self.last.as_ref().is_none_or(|last| !last.is_like(&seen)) {
            println!("{fault}: {:.1} s: {}", self.began.elapsed().as_secs_f64(), seen.sentence);
        }
        self.last = Some(seen.clone());
        if seen.state == self.row.state() && names_it {
            self.named.get_or_insert_with(|| self.began.elapsed());
        }
        let state = self.row.state();
        let bound = self.bound();
        assert!(
            self.named.is_some() || self.began.elapsed() <= bound,
            "{fault}: not {state} with {:?} within {bound:?}: {seen:?}",
            self.row.causes
        );
    }

    /// From the beginning of the fault.
    fn bound(&self) -> Duration {
        let pace = self.system.pace;
        if pace.interval > BOUND { BOUND + pace.until_a_call } else { BOUND }
    }

    /// Until colour and cause are there.
    async fn is_named(&mut self) {
        while self.named.is_none() {
            self.look().await;
            pause().await;
        }
    }

    /// The same, and until it has lasted so long.
    async fn lasts(&mut self, span: Duration) {
        while self.began.elapsed() < span {
            self.look().await;
            pause().await;
        }
        self.is_named().await;
    }

    /// It ended at this moment: green in time, and truly so.
    async fn ended(self) {
        let within = BOUND + self.system.pace.until_a_call;
        self.ended_within(within).await;
    }

    /// The same of missing posts: each is missing until it is looked up again, and the mass-miss alert lasts for another minute.
    async fn misses_ended(self) {
        let one_interval = self.system.pace.interval_at_first;
        self.ended_within(BOUND + one_interval).await;
    }

    async fn ended_within(self, within: Duration) {
        let System { pace, since, .. } = *self.system;
        let took = self.system.is_green(within).await;
        let oldest = (BUFFER_TTL + pace.interval + Duration::from_secs(2)).as_millis() as Millis;
        let (now, all) = (wall_ms(), self.system.standings().await);
        let old = all.iter().filter(|post| now - post.checked_at.unwrap_or(since) > oldest).count();
        assert!(old <= all.len() / 100, "{}: green, and {old} of {} are not up to date", self.fault, all.len());
        let named = self.named.expect("it was named before its end");
        let line = format!(
            "{:7} | {:38} | {:5} after {:4.1} s | not green after {:4.1} s | green {:4.1} s after its end",
            pace.name,
            self.fault,
            self.row.colour,
            named.as_secs_f64(),
            self.seen.unwrap_or(named).as_secs_f64(),
            took.as_secs_f64()
        );
        println!("{line}");
        self.system.done.lock().unwrap().push((self.fault, line));
    }
}

/// What a system is made of.
struct Parts {
    folder: TempDir,
    redis: TestRedis,
    postgres: OwnPostgres,
    api: Running,
    settings: Variables,
    pace: Pace,
}

/// An API without a quota.
fn unlimited() -> SimulatorOptions {
    SimulatorOptions { calls_per_window: 0, ..SimulatorOptions::default() }
}

fn with(settings: &Variables, more: &[(&str, &str)]) -> Variables {
    settings.iter().cloned().chain(variables(more)).collect()
}

impl Parts {
    async fn new(redis: TestRedis, options: SimulatorOptions, pace: Pace) -> Self {
        let (folder, postgres) = (tempfile::tempdir().unwrap(), postgres::own());
        let options = SimulatorOptions {
            latency: Duration::from_millis(30),
            missing_share: 0.0,
            posts_per_second: 0.2,
            ..options
        };
        let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
        let settings = variables(&[
            ("queue.backend", "redis"),
            ("queue.redis.url", &redis.url),
            ("store.backend", "postgres"),
            ("store.postgres.url", &postgres.url("postgres")),
            ("twitter.api", &api.base_url()),
            ("tweet_age", pace.tweet_age),
        ]);
        let migrated = run(&["migrate"], &settings);
        assert!(migrated.status.success(), "{}", text(&migrated.stderr));
        Self { folder, redis, postgres, api, settings, pace }
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn updater(&self, settings: &Variables) -> Process {
        Process::start(&["updater"], settings, &self.log("updater.log"))
    }

    /// Puts posts of that provider in.
    fn put_in(&self, provider: &Provider, settings: &Variables) -> Vec<String> {
        let at = wall_ms() - self.pace.age;
        let ids: Vec<String> = (0..self.pace.posts).map(|n| id_of(provider, at - Millis::from(n), n)).collect();
        let name = provider.to_string();
        let output = run_with_input(
            &["--provider", &name, "enqueue", "--first", "interval"],
            &with(settings, &[("tweet_age", self.pace.tweet_age_before)]),
            ids.join("\n").as_bytes(),
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        ids
    }

    async fn system(&self, name: &'static str, ops: &Variables, ids: Vec<String>) -> System {
        let database = self.postgres.url("postgres");
        let url = SecretString::from(database.clone());
        System {
            name,
            ops: Role::start("ops", ops, &self.log(&format!("ops-{name}.log"))).await,
            page: "/".to_owned(),
            status: "/status".to_owned(),
            namespace: NAMESPACE.to_owned(),
            store: PostgresStore::connect(&url, 2, Duration::from_secs(10)).await.unwrap(),
            database,
            queue: RedisQueue::new(self.redis.pool(), NAMESPACE),
            ids,
            pace: self.pace,
            since: wall_ms(),
            rows: documented(),
            done: Mutex::default(),
        }
    }
}

/// An answer in these words.
fn answer(body: &str) -> Fault {
    let headers = [("content-type".to_owned(), "application/json".to_owned())].into();
    Fault::Answer { status: 200, headers, body: body.to_owned() }
}

async fn faults_of_the_api(pace: Pace) -> Done {
    const SECRETS: [&str; 4] = ["consumer_key", "consumer_secret", "token", "token_secret"];
    let [consumer_key, consumer_secret, token, token_secret] = SECRETS.map(SecretString::from);
    let keys = SimulatedKeys::User { consumer_key, consumer_secret, token, token_secret };
    let credentials = Some(vec![SimulatedCredential { name: "main".to_owned(), keys }]);
    let options = SimulatorOptions { credentials, ..unlimited() };
    let mut parts = Parts::new(TestRedis::start(&["--appendonly", "yes"]), options.clone(), pace).await;
    let own = SECRETS.map(|part| (format!("twitter.credentials.main.{part}"), part));
    let own = own.iter().map(|(key, value)| (key.as_str(), *value)).chain([("twitter.credentials.main.kind", "user")]);
    let settings = with(&parts.settings, &own.collect::<Vec<_>>());
    let ids = parts.put_in(&Provider::Twitter, &settings);
    let _updater = parts.updater(&settings);
    let system = parts.system("api", &settings, ids).await;
    system.is_in_full_swing().await;

    let address = parts.api.addr();
    let mut fault = system.begins("the API is down");
    parts.api.stop().await;
    fault.lasts(BOUND).await;
    let options =
        SimulatorOptions { latency: Duration::from_millis(30), calls_per_window: 0, missing_share: 0.0, ..options };
    parts.api = simulator::start(address, options).await.unwrap();
    fault.ended().await;
    let api = &parts.api;

    // No interval of the default table is so short that a post is late because of it: green is right.
    if pace.interval < BOUND {
        let mut fault = system.begins("the API is slow");
        api.faults().add(Fault::Slow { ms: 4_000 });
        fault.lasts(BOUND).await;
        api.faults().clear();
        fault.ended().await;
    }

    // One window that is used up: its end is the end.
    let mut fault = system.begins("the API throttles");
    api.faults().add(Fault::RateLimited { reset_s: 15 });
    fault.is_named().await;
    api.faults().clear();
    let parked = || async {
        let status: Value = serde_json::from_str(&system.ops.get("/status").await.1).unwrap();
        status["parked"][0]["parked_for_ms"].as_u64()
    };
    // Figures may be a second old, so in its last seconds the credential may be free already.
    while parked().await.is_some_and(|left_ms| left_ms > 2_000) {
        fault.look().await;
        pause().await;
    }
    fault.ended().await;

    for body in ["", "{}"] {
        let mut fault = system.begins("answers are empty");
        api.faults().add(answer(body));
        fault.lasts(Duration::from_secs(10)).await;
        api.faults().clear();
        fault.ended().await;
    }

    let mut fault = system.begins("answers mention no post");
    api.faults().add(answer(r#"{"id":{}}"#));
    fault.lasts(BOUND).await;
    api.faults().clear();
    fault.ended().await;

    // A person fixes it, and says so.
    let mut fault = system.begins("the credential is revoked");
    assert!(api.set_standing("main", Standing::Revoked));
    fault.lasts(Duration::from_secs(10)).await;
    assert!(api.set_standing("main", Standing::Good));
    let check = run(&["credentials", "--check"], &settings);
    assert!(check.status.success(), "{}{}", text(&check.stdout), text(&check.stderr));
    fault.ended().await;

    // An updater rebuilds it by itself only an hour after its start.
    let mut fault = system.begins("the queue was wiped");
    redis::cmd("FLUSHALL").exec_async(&mut parts.redis.connection().await).await.unwrap();
    fault.lasts(Duration::from_secs(10)).await;
    let rebuilt = run(&["rebuild"], &settings);
    assert!(rebuilt.status.success(), "{}", text(&rebuilt.stderr));
    fault.ended().await;

    // A post that was never found may not exist.
    until("every post was found", pace.interval.max(PATIENCE), async || {
        system.standings().await.iter().all(|post| post.checked_at.is_some()).then_some(())
    })
    .await;
    system.posts_fall_due(pace).await;
    let mut fault = system.begins("half of the posts are missing");
    api.faults().add(Fault::SomeMissing { share: 0.5 });
    fault.lasts(BOUND).await;
    api.faults().clear();
    fault.misses_ended().await;

    let wave = Alert::named("TwitterUpdaterWave");
    // With the default table most posts would be missing for one interval of 3 minutes after that: as after 5 s, for longer.
    let for_a_minute = (pace.interval < BOUND).then_some(("all posts are missing for 60 s", 60));
    for (name, span) in [("all posts are missing for 5 s", 5)].into_iter().chain(for_a_minute) {
        system.posts_fall_due(pace).await;
        let mut fault = system.begins(name);
        api.faults().add(Fault::AllMissing);
        fault.lasts(Duration::from_secs(span)).await;
        if span == 60 {
            let exposed = system.ops.get("/metrics").await.1;
            assert!(wave.rings(&exposed).contains(NAMESPACE), "{exposed}");
        }
        api.faults().clear();
        let (ended, watch) = (wall_ms(), Stopwatch::start());
        fault.misses_ended().await;
        // A post of the default table is looked up again minutes later; until then a miss may be noted, and ends nothing.
        if pace.interval > BOUND {
            let all = system.standings().await;
            assert!(all.iter().all(|post| !matches!(post.state, ItemState::Ended | ItemState::Dead)), "{name}");
            continue;
        }
        // Every one was looked up and found since, and none was given up.
        let left = (BOUND + pace.until_a_call).saturating_sub(watch.elapsed());
        let all = until("every post is updated", left, async || {
            let all = system.standings().await;
            all.iter().all(|post| post.checked_at.is_some_and(|at| at > ended) && post.misses == 0).then_some(all)
        })
        .await;
        assert!(all.iter().all(|post| post.state == ItemState::Live), "none has ended, none is unavailable");
        let stats = RedisQueue::new(parts.redis.pool(), NAMESPACE).stats().await.unwrap();
        let slow = stats.lanes.iter().find(|lane| lane.lane == "unavailable").map_or(0, |lane| lane.delayed);
        assert_eq!((slow, stats.dead), (0, 0));
        assert_eq!(stats.delayed + stats.leased, u64::from(pace.posts));
    }

    system.done.into_inner().unwrap()
}

async fn faults_of_processes_and_services(pace: Pace) -> Done {
    let mut parts = Parts::new(TestRedis::start(&["--appendonly", "yes"]), unlimited(), pace).await;
    let source =
        [("kind", "user"), ("screen_name", "one")].map(|(key, value)| (format!("poll.sources.one.{key}"), value));
    let mut more: Vec<_> = source.iter().map(|(key, value)| (key.as_str(), *value)).collect();
    more.extend([("poll.shortest", "1s"), ("poll.longest", "2s")]);
    // The posts of a killed worker come back when its lease runs out: before the fault ends, which lasts for 15 s.
    more.extend([("lookup.timeout", "5s"), ("updater.save_timeout", "8s"), ("updater.lease", "14s")]);
    let settings = with(&parts.settings, &more);
    let ids = parts.put_in(&Provider::Twitter, &settings);
    let poller = |parts: &Parts| Process::start(&["poll"], &settings, &parts.log("poll.log"));
    let (updater, poll) = (parts.updater(&settings), poller(&parts));
    let system = parts.system("services", &settings, ids).await;
    system.is_in_full_swing().await;

    let mut fault = system.begins("no worker runs");
    updater.kill();
    fault.lasts(BOUND).await;
    let updater = parts.updater(&settings);
    fault.ended().await;

    let mut fault = system.begins("updates are paused");
    let queue = RedisQueue::new(parts.redis.pool(), NAMESPACE);
    queue.pause(Some("the database moves")).await.unwrap();
    fault.lasts(BOUND).await;
    queue.pause(None).await.unwrap();
    fault.ended().await;

    let mut fault = system.begins("the store is out");
    parts.postgres.stop();
    fault.lasts(BOUND).await;
    parts.postgres.start();
    fault.ended().await;

    // It takes connections and says nothing.
    let mut fault = system.begins("the store is out");
    parts.postgres.signal("STOP");
    fault.lasts(BOUND).await;
    parts.postgres.signal("CONT");
    fault.ended().await;

    let mut fault = system.begins("the queue is out");
    parts.redis.kill();
    fault.lasts(BOUND).await;
    parts.redis.start_again();
    fault.ended().await;

    let mut fault = system.begins("the queue is out");
    parts.redis.signal("STOP");
    fault.lasts(BOUND).await;
    parts.redis.signal("CONT");
    fault.ended().await;

    let mut fault = system.begins("the poller is missing");
    poll.kill();
    fault.lasts(BOUND).await;
    let poll = poller(&parts);
    fault.ended().await;

    assert_eq!((updater.terminate().code(), poll.terminate().code()), (Some(0), Some(0)));
    system.done.into_inner().unwrap()
}

async fn faults_of_a_disk_a_clock_and_a_provider(pace: Pace) -> Done {
    let clock = SteppingClock::new();
    let disk = TinyDisk::new(Command::new("env"), 64);
    let files = disk.as_ref().map(|disk| disk.path().display().to_string());
    let files: Vec<&str> = files.iter().flat_map(|files| ["--dir", files]).collect();
    let redis = TestRedis::start_by(&clock.program(), &[&["--appendonly", "yes"], &*files].concat());
    let parts = Parts::new(redis, unlimited(), pace).await;
    let settings = parts.settings.clone();
    let ids = parts.put_in(&Provider::Twitter, &settings);
    let updater = parts.updater(&settings);
    let system = parts.system("clock", &settings, ids.clone()).await;
    system.is_in_full_swing().await;

    let full = "the disk is full";
    if let Some(disk) = &disk {
        let mut fault = system.begins(full);
        disk.fill();
        fault.lasts(BOUND).await;
        disk.clear();
        fault.ended().await;
    } else {
        system
            .done
            .lock()
            .unwrap()
            .push((full, format!("{full:38} | not made: no disk of our own (user namespaces are off)")));
    }

    let mut fault = system.begins("the queue's clock is back by an hour");
    clock.step(-3_600);
    fault.lasts(BOUND).await;
    clock.step(0);
    fault.ended().await;

    let mut fault = system.begins("the queue's clock is ahead by two hours");
    clock.step(7_200);
    fault.lasts(BOUND).await;
    clock.step(0);
    fault.ended().await;
    assert_eq!(updater.terminate().code(), Some(0));
    let mut done = system.done.into_inner().unwrap();

    // An instance whose host does not answer, from the start on.
    let port = Port::take();
    let settings = with(
        &settings,
        &[("providers", "twitter, mastodon"), ("mastodon.instances.out.api", &format!("http://{}", port.address()))],
    );
    let provider: Provider = "mastodon:out".parse().unwrap();
    let posts = parts.put_in(&provider, &settings);
    let system = parts.system("provider", &settings, posts).await;
    let namespace = provider.namespace();
    let overview = system.ops.get("/").await.1;
    let link = overview.split_once(&format!("\">{namespace}</a>")).expect("its card").0;
    let system = System {
        page: link.rsplit_once("href=\"").unwrap().1.to_owned(),
        status: format!("/status?namespace={namespace}"),
        namespace: namespace.clone(),
        queue: RedisQueue::new(parts.redis.pool(), &namespace),
        ..system
    };
    let mut fault = system.begins("a provider is unreachable");
    let _updater = parts.updater(&settings);
    let overview = async || Headline::of_page(&system.ops.get("/").await.1).expect("an overview");
    fault.lasts(BOUND).await;
    let seen = overview().await;
    assert_eq!(seen.state, "stopped", "{seen:?}");
    assert_eq!(seen.sentence, format!("Stopped: {namespace}; fresh: {NAMESPACE}"));
    let options = SimulatorOptions { missing_share: 0.0, mastodon_calls_per_window: 0, ..SimulatorOptions::default() };
    let _there = simulator::start(port.address(), options).await.unwrap();
    fault.ended().await;
    let seen = until("the overview is green", Duration::from_secs(5), async || {
        Some(overview().await).filter(Headline::is_green)
    })
    .await;
    assert_eq!(seen.sentence, "Fresh: all 2 namespaces");
    done.extend(system.done.into_inner().unwrap());
    done
}

async fn faults_of_lists() -> Done {
    // Five calls per second for lists: their first reads take half a minute.
    let options = SimulatorOptions { window: SHORT.interval, most_followers: 50, ..SimulatorOptions::default() };
    let parts = Parts::new(TestRedis::start(&["--appendonly", "yes"]), options, SHORT).await;
    let settings = with(
        &parts.settings,
        &[("relations.collect", "followers"), ("relations.from_posts", "false"), ("relations.revisit", "3s")],
    );
    let _updater = parts.updater(&settings);
    let system = System {
        page: format!("/n/{LISTS}/"),
        status: format!("/status?namespace={LISTS}"),
        namespace: LISTS.to_owned(),
        queue: RedisQueue::new(parts.redis.pool(), LISTS),
        ..parts.system("lists", &settings, Vec::new()).await
    };
    system.is_green(PATIENCE).await;
    let owners: Vec<String> = (0..OWNERS).map(|owner| parts.api.people().id(&Provider::Twitter, owner)).collect();
    let output = run_with_input(&["enqueue", "--pipeline", LISTS, "-"], &settings, owners.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    until("a list waits for longer than its interval", BOUND, async || {
        let status: Value = serde_json::from_str(&system.ops.get(&system.status).await.1).ok()?;
        (status["lists"]["unread_overdue"].as_u64() > Some(0)).then_some(())
    })
    .await;
    let mut fault = system.begins("lists wait for their first read");
    fault.lasts(BOUND).await;
    until("each list was read once", PATIENCE, async || {
        let status: Value = serde_json::from_str(&system.ops.get(&system.status).await.1).ok()?;
        (status["lists"]["unread"] == 0).then_some(())
    })
    .await;
    fault.ended().await;
    system.done.into_inner().unwrap()
}

/// Runs one on a runtime of its own; `None` where it failed.
fn on_its_own(system: impl Future<Output = Done>) -> Option<Done> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(system))).ok()
}

#[test]
fn every_row_of_the_operations_table_holds() {
    let watch = Stopwatch::start();
    let systems: Vec<_> = std::thread::scope(|scope| {
        let started: Vec<_> = [SHORT, DEFAULT]
            .into_iter()
            .flat_map(|pace| {
                [
                    scope.spawn(move || on_its_own(faults_of_the_api(pace))),
                    scope.spawn(move || on_its_own(faults_of_processes_and_services(pace))),
                    scope.spawn(move || on_its_own(faults_of_a_disk_a_clock_and_a_provider(pace))),
                ]
            })
            .chain([scope.spawn(|| on_its_own(faults_of_lists()))])
            .collect();
        started.into_iter().map(|system| system.join().unwrap()).collect()
    });
    println!();
    let done: Vec<_> = systems.iter().flatten().flatten().collect();
    for (_, line) in &done {
        println!("{line}");
    }
    println!("{} s", watch.elapsed().as_secs());
    assert!(systems.iter().all(Option::is_some), "a system failed, see above");
    let made: BTreeSet<_> = done.iter().map(|(fault, _)| *fault).collect();
    assert_eq!(made, documented().keys().copied().collect(), "a row that no test makes");
}
