//! Recorded answers of the real API, end to end through the real processes: the simulator replays
//! them, tweets and ids are enqueued from files, two updaters look them up, and PostgreSQL then holds
//! what was recorded. Every expectation comes from a plain reading of the recordings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::postgres::{PgPool, PgRow};
use sqlx::{FromRow, Row};

use crate::recordings::{
    exchanges, files, is_tweet, json as read_json, plain_date, plain_id, tweets, whole_text, withheld_in,
};
use crate::support::http::recordings;
use crate::support::postgres;
use crate::support::process::{Process, Variables, run, text, variables};
use crate::support::redis::TestRedis;
use crate::support::wait::until_true;

/// The text an ingest had of a tweet before it was withheld.
const BEFORE: &str = "what it said before it was withheld";

/// What the recordings show.
#[derive(Default)]
struct Recorded {
    /// Tweets that `statuses/lookup` answered, or that stand in a list of their own; by id, each as often as
    /// it was recorded.
    tweets: BTreeMap<String, Vec<Value>>,
    /// The same, of lookups whose request was recorded.
    looked_up: BTreeSet<String>,
    /// Ids that were asked for and are nowhere.
    missing: BTreeSet<String>,
}

impl Recorded {
    fn read(dir: &Path) -> Self {
        let (mut recorded, mut asked, mut anywhere) = (Self::default(), BTreeSet::new(), Vec::new());
        for file in files(dir) {
            let Some(value) = read_json(&file) else { continue };
            tweets(&value, &mut anywhere);
            let mut found = Vec::new();
            exchanges(&file, &value, &mut found);
            if found.is_empty() {
                recorded.list(&value);
            }
            for exchange in found.iter().filter(|it| it.status == 200 && it.address.contains("statuses/lookup")) {
                let body: Value = serde_json::from_str(&exchange.body).unwrap();
                let listed = recorded.list(&body);
                recorded.looked_up.extend(listed);
                asked.extend(exchange.asked());
            }
        }
        let somewhere: BTreeSet<String> = anywhere.iter().filter_map(plain_id).collect();
        asked.retain(|id| id.bytes().all(|byte| byte.is_ascii_digit()) && !somewhere.contains(id));
        recorded.missing = asked;
        // What no lookup answered, the simulator may serve as it stands inside another tweet.
        for tweet in anywhere {
            let id = plain_id(&tweet).filter(|id| !recorded.looked_up.contains(id));
            if let Some(copies) = id.and_then(|id| recorded.tweets.get_mut(&id)) {
                copies.push(tweet);
            }
        }
        recorded
    }

    /// Takes the tweets of an array, or of a map by id; answers their ids.
    fn list(&mut self, answer: &Value) -> Vec<String> {
        let array = answer.as_array().into_iter().flatten();
        let map = answer["id"].as_object().into_iter().flat_map(|map| map.values());
        let listed: Vec<&Value> = array.chain(map).filter(|item| is_tweet(item)).collect();
        let ids: Vec<String> = listed.iter().filter_map(|tweet| plain_id(tweet)).collect();
        for (id, tweet) in ids.iter().zip(listed) {
            self.tweets.entry(id.clone()).or_default().push(tweet.clone());
        }
        ids
    }
}

/// Ids from before Snowflake were handed out in sequence, up to about 29.7 billion.
fn is_sequential(id: &str) -> bool {
    id.parse::<u64>().unwrap() < 30_000_000_000
}

/// The lines of a file in that folder.
fn write(folder: &Path, name: &str, lines: impl IntoIterator<Item = String>) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, lines.into_iter().map(|line| line + "\n").collect::<String>()).unwrap();
    file
}

/// Enqueues a file: the exit code, the summary, and what was said on standard error.
fn enqueue(file: &Path, settings: &Variables) -> (Option<i32>, Value, String) {
    let output = run(&["enqueue", "--json", file.to_str().unwrap()], settings);
    let said = text(&output.stderr);
    let summary = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    (output.status.code(), summary, said)
}

fn enqueue_clean(file: &Path, settings: &Variables) -> Value {
    let (code, summary, said) = enqueue(file, settings);
    assert_eq!(code, Some(0), "{summary}\n{said}");
    summary
}

fn status(settings: &Variables) -> Value {
    serde_json::from_slice(&run(&["status", "--json"], settings).stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_recorded_is_what_is_stored() {
    let Some(dir) = recordings() else { return };
    let recorded = Recorded::read(&dir);
    assert!(!recorded.tweets.is_empty(), "no lookup is recorded in {}", dir.display());
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");

    let quiet =
        variables(&[("simulator.calls_per_window", "0"), ("simulator.latency", "0s"), ("simulator.jitter", "0s")]);
    let arguments = ["simulator", "--listen", "127.0.0.1:0", "--replay", dir.to_str().unwrap()];
    let (mut simulator, announced) = Process::start_announced(&arguments, &quiet, &log);
    let api = announced.trim_end().strip_prefix("simulated API at ").unwrap_or_else(|| panic!("{announced:?}"));
    let redis = TestRedis::start(&["--appendonly", "yes"]);
    let database = postgres::database().await;
    let settings = variables(&[
        ("tweet_age", "1h: 1s, 10950d: 2s"),
        ("queue.backend", "redis"),
        ("queue.redis.url", &redis.url),
        ("store.backend", "postgres"),
        ("store.postgres.url", &database),
        ("twitter.api", api),
        ("updater.buffer_ttl", "300ms"),
        ("updater.unavailable_every", "2s"),
    ]);
    let migrated = run(&["migrate"], &settings);
    assert!(migrated.status.success(), "{}", text(&migrated.stderr));

    let mut scheduled = BTreeSet::new();
    withheld_tweets_as_they_were_before(folder.path(), &settings, &recorded, &mut scheduled);
    bare_ids_from_before_snowflake(&dir, folder.path(), &settings, &recorded, &mut scheduled);
    tweets_as_twitter_sends_them(folder.path(), &settings, &recorded, &mut scheduled);
    bare_ids(folder.path(), &settings, &recorded, &mut scheduled);
    assert_eq!(status(&settings)["delayed"], scheduled.len());

    let mut updaters: Vec<Process> = ["one", "two"]
        .map(|name| [settings.clone(), variables(&[("updater.name", name)])].concat())
        .map(|settings| Process::start(&["updater"], &settings, &log))
        .into();
    let pool = PgPool::connect(&database).await.unwrap();
    let all = i64::try_from(scheduled.len()).unwrap();
    until_true("every tweet is looked up", Duration::from_secs(40), async || {
        let sql = "SELECT count(*) FROM tweet WHERE lookups >= 1";
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&pool).await.unwrap() == all
    })
    .await;
    for updater in &mut updaters {
        assert!(updater.runs(), "{}", std::fs::read_to_string(&log).unwrap());
        updater.signal("TERM");
        assert_eq!(updater.ended(Duration::from_secs(20)).await.code(), Some(0));
    }
    simulator.signal("TERM");
    assert_eq!(simulator.ended(Duration::from_secs(10)).await.code(), Some(0));

    let rows: Vec<StoredRow> = sqlx::query_as("SELECT * FROM tweet").fetch_all(&pool).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.id.clone()).collect::<BTreeSet<_>>(), scheduled);
    let mut withheld = 0;
    for row in &rows {
        assert_eq!(row.namespace, "tweet:update");
        match recorded.tweets.get(&row.id) {
            Some(recordings) => withheld += u32::from(row.is_as_recorded(recordings)),
            None => row.is_unavailable(),
        }
    }
    let histories = "SELECT count(*) FROM tweet_metrics GROUP BY id HAVING count(*) > 1";
    assert!(sqlx::query(histories).fetch_all(&pool).await.unwrap().is_empty(), "no recorded count ever changed");
    let left = status(&settings);
    assert_eq!((&left["delayed"], &left["leased"], &left["dead"]), (&json!(all), &json!(0), &json!(0)));
    println!("{all} tweets, {withheld} withheld, {} missing", recorded.missing.len());
}

/// Withheld tweets, as an ingest would have stored them before.
fn withheld_tweets_as_they_were_before(
    folder: &Path,
    settings: &Variables,
    recorded: &Recorded,
    scheduled: &mut BTreeSet<String>,
) {
    let withheld = recorded.tweets.iter().filter(|(_, copies)| copies.iter().any(|copy| withheld_in(copy).is_some()));
    let before: Vec<(String, String)> = withheld
        .map(|(id, copies)| {
            let mut tweet = copies[0].clone();
            let fields = tweet.as_object_mut().unwrap();
            fields.retain(|name, _| !name.starts_with("withheld") && name != "text");
            fields.insert("full_text".to_owned(), json!(BEFORE));
            (id.clone(), tweet.to_string())
        })
        .collect();
    let summary_of = |lines: Vec<String>| enqueue_clean(&write(folder, "before.ndjson", lines), settings);
    if !before.is_empty() {
        assert_eq!(summary_of(before.iter().map(|(_, line)| line.clone()).collect())["scheduled"], before.len());
    }
    scheduled.extend(before.into_iter().map(|(id, _)| id));
}

/// A list of ids from before Snowflake: as it is, each is refused; with the recorded dates, scheduled.
fn bare_ids_from_before_snowflake(
    dir: &Path,
    folder: &Path,
    settings: &Variables,
    recorded: &Recorded,
    scheduled: &mut BTreeSet<String>,
) {
    for list in files(dir).into_iter().filter(|file| file.to_string_lossy().ends_with("ids.txt")) {
        let ids: Vec<String> = std::fs::read_to_string(&list).unwrap().lines().map(str::to_owned).collect();
        let refused: Vec<u64> = (1..).zip(&ids).filter(|(_, id)| is_sequential(id)).map(|(line, _)| line).collect();
        let before = status(settings)["delayed"].clone();
        let (code, summary, said) = enqueue(&list, settings);
        if refused.len() == ids.len() {
            assert_eq!(status(settings)["delayed"], before, "nothing is scheduled");
        }
        if !refused.is_empty() {
            assert_eq!(code, Some(65));
        }
        assert_eq!(summary["refused"], refused.len());
        let told: Vec<u64> = said
            .lines()
            .filter_map(|line| line.strip_prefix("line ")?.split_once(": "))
            .inspect(|(_, reason)| assert!(reason.contains("too short to contain its date"), "{reason}"))
            .map(|(line, _)| line.parse().unwrap())
            .collect();
        assert_eq!(told, refused[..refused.len().min(3)], "three lines of one reason are printed");
        let reasons = summary["refused_by_reason"].as_object().unwrap();
        assert_eq!(reasons.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), refused.len() as u64);

        let dated = ids.iter().filter_map(|id| {
            Some((id.clone(), json!({ "id": id, "created_at": recorded.tweets.get(id)?[0]["created_at"] }).to_string()))
        });
        let dated: BTreeMap<String, String> = dated.collect();
        if dated.is_empty() {
            continue;
        }
        let summary = enqueue_clean(&write(folder, "dated.ndjson", dated.values().cloned()), settings);
        let fresh = dated.keys().filter(|id| !scheduled.contains(*id)).count();
        assert_eq!((&summary["scheduled"], &summary["refused"]), (&json!(fresh), &json!(0)));
        scheduled.extend(dated.into_keys());
    }
}

/// Every recorded tweet, also those that came several times.
fn tweets_as_twitter_sends_them(
    folder: &Path,
    settings: &Variables,
    recorded: &Recorded,
    scheduled: &mut BTreeSet<String>,
) {
    let lines: Vec<String> = recorded.tweets.values().flatten().map(Value::to_string).collect();
    let summary = enqueue_clean(&write(folder, "tweets.ndjson", lines.clone()), settings);
    let fresh = recorded.tweets.keys().filter(|id| !scheduled.contains(*id)).count();
    assert_eq!(summary["lines"], lines.len());
    assert_eq!((&summary["scheduled"], &summary["known"]), (&json!(fresh), &json!(lines.len() - fresh)));
    scheduled.extend(recorded.tweets.keys().cloned());
}

/// The ids of the recorded lookups, which are known by now; then those that were asked in vain.
fn bare_ids(folder: &Path, settings: &Variables, recorded: &Recorded, scheduled: &mut BTreeSet<String>) {
    let snowflakes = |ids: &BTreeSet<String>| ids.iter().filter(|id| !is_sequential(id)).cloned().collect::<Vec<_>>();
    let known = snowflakes(&recorded.looked_up);
    if !known.is_empty() {
        let summary = enqueue_clean(&write(folder, "known.txt", known.clone()), settings);
        assert_eq!((&summary["known"], &summary["lines"]), (&json!(known.len()), &json!(known.len())));
    }
    let missing = snowflakes(&recorded.missing);
    if !missing.is_empty() {
        let summary = enqueue_clean(&write(folder, "missing.txt", missing.clone()), settings);
        assert_eq!(summary["scheduled"], missing.len());
    }
    scheduled.extend(missing);
}

/// A row of `tweet`, as anybody with SQL reads it.
#[derive(Debug)]
struct StoredRow {
    namespace: String,
    id: String,
    state: String,
    created_at: Option<i64>,
    text: Option<String>,
    author_id: Option<String>,
    author_name: Option<String>,
    counts: Vec<Option<i64>>,
    withheld_in: Option<String>,
    raw: Option<Value>,
    misses: i64,
}

const COUNTS: [&str; 4] = ["retweet_count", "favorite_count", "reply_count", "quote_count"];

impl FromRow<'_, PgRow> for StoredRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            namespace: row.try_get("namespace")?,
            id: row.try_get("id")?,
            state: row.try_get("state")?,
            created_at: row.try_get("created_at")?,
            text: row.try_get("text")?,
            author_id: row.try_get("author_id")?,
            author_name: row.try_get("author_name")?,
            counts: COUNTS.iter().map(|name| row.try_get(*name)).collect::<sqlx::Result<_>>()?,
            withheld_in: row.try_get("withheld_in")?,
            raw: row.try_get::<Option<String>, _>("raw")?.map(|raw| serde_json::from_str(&raw).unwrap()),
            misses: row.try_get("misses")?,
        })
    }
}

impl StoredRow {
    /// Holds one of the recorded copies, whole and unmixed; says whether it is withheld.
    fn is_as_recorded(&self, copies: &[Value]) -> bool {
        let id = &self.id;
        assert_eq!((self.state.as_str(), self.misses), ("live", 0), "{id}");
        let copy = copies.iter().find(|copy| self.raw.as_ref() == Some(copy));
        let copy = copy.unwrap_or_else(|| panic!("not the recorded object: {self:?}"));
        assert_eq!(self.counts, counts(copy), "{id}");
        assert_eq!(self.created_at, copy["created_at"].as_str().and_then(plain_date), "{id}");
        // A notice in place of the text leaves what was stored before.
        let text = whole_text(copy).or_else(|| self.withheld_in.is_some().then(|| BEFORE.to_owned()));
        assert_eq!(self.text, text, "{id}");
        assert_eq!(self.author_id, plain_id(&copy["user"]), "{id}");
        assert_eq!(self.author_name.as_deref(), copy["user"]["screen_name"].as_str(), "{id}");
        assert_eq!(withheld_in(copy), self.withheld_in, "{id}");
        self.withheld_in.is_some()
    }

    fn is_unavailable(&self) {
        assert!(self.state == "live" && self.misses >= 1, "missing, which is not believed yet: {self:?}");
        assert_eq!((&self.text, &self.raw, &self.author_name), (&None, &None, &None), "{self:?}");
    }
}

/// Its counts. What is no number was not counted.
fn counts(tweet: &Value) -> Vec<Option<i64>> {
    COUNTS.iter().map(|name| tweet[name].as_i64().filter(|count| *count >= 0)).collect()
}
