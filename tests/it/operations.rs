//! Every line of redis-cli in the documents, run against a loaded queue by the users that are deployed.

mod library;
mod loaded;
mod page;
mod users;

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use twitter_updater::engine::queue::EmbeddedQueue;
use twitter_updater::quota::EmbeddedLedger;

use self::loaded::Loaded;
use crate::support::process::text;

/// The lines of the documents in their order, who gives them, and what they say, with single spaces.
const LINES: &[(&str, &str, &[&str])] = &[
    ("redis-cli ZCARD '{tweet:update}:leased'", "watcher", &["3"]),
    ("redis-cli ZCOUNT '{tweet:update}:delayed:18m' -inf $(date +%s%3N)", "watcher", &["1"]),
    (
        "kubectl exec -it statefulset/redis -- redis-cli --user watcher --raw -r -1 -i 2 FCALL_RO twitter_updater_status 1 '{tweet:update}'",
        "watcher",
        &["tweet:update at 20", "web-1-77"],
    ),
    (
        "redis-cli FCALL_RO twitter_updater_status 1 '{tweet:update}'",
        "watcher",
        &[
            "1 due now, the oldest is 1h 30m late (18m)",
            "scheduled interval all overdue in 1m to 5m to 1h to 1d later",
            "18m 3m 3 1 0 1 0 1 0",
            "1d 1h 1 0 0 0 1 0 0",
            "all lanes 4 1 0 1 1 1 0",
            "leased 3 1 of them expired, the next claim takes them over",
            "incoming 1 1 refused",
            "dead 3",
            "why 2 refused (HTTP 400)",
            "why 1 its worker died with it",
            "minute ids per request requests requests failed looked up scheduled rescheduled finished expired buried",
            "97.0 10 0 970",
            "worker beat version config concurrency requests late p99",
            "0.1.0 8f2c1a 4 12,345 812ms",
            "main statuses/lookup 640 900",
            "second statuses/lookup - - -",
            "its account is locked (HTTP 403, code 326)",
        ],
    ),
    (
        "redis-cli --raw -r -1 -i 2 FCALL_RO twitter_updater_status 1 '{tweet:update}'",
        "watcher",
        &["tweet:update at 20", "web-1-77"],
    ),
    (
        "redis-cli FCALL_RO twitter_updater_ids 1 '{tweet:update}' 20 21 22 23",
        "watcher",
        &[
            "20 leased by web-1-77, for 9m ",
            "21 delayed due in 5h 29m, at 20",
            ", in 18m",
            "22 leased its lease ran out ",
            "ago: the next claim takes it over; a suspect: deliveries 2, failures of its own 0",
            "23 dead since 20",
            "UTC: refused (HTTP 400)",
        ],
    ),
    (
        "redis-cli FCALL_RO twitter_updater_late 1 '{tweet:update}' 10",
        "watcher",
        &["id late lane interval", "26 1h 30m 18m 3m"],
    ),
    (
        "redis-cli FCALL_RO twitter_updater_due 1 '{tweet:update}' 1h",
        "watcher",
        &["until in all 18m 1d", "overdue 1 1 0", "5m 1 1 0", "50m 1 0 1", "all 3 2 1"],
    ),
    (
        "redis-cli FCALL_RO twitter_updater_claims 1 '{tweet:update}'",
        "watcher",
        &[
            "worker ids taken lease ends",
            "web-1-77 2 ",
            "ago in 9m ",
            "2 ids are held, 1 more by leases that have run out: the next claim takes them over",
        ],
    ),
    (
        "redis-cli FCALL_RO twitter_updater_workers 1 '{tweet:update}'",
        "watcher",
        &["worker beat version config", "web-1-77", "0.1.0 8f2c1a 4 12,345 812ms"],
    ),
    (
        "redis-cli FCALL_RO twitter_updater_rates 1 '{tweet:update}' 15",
        "watcher",
        &["minute ids per request", "97.0 10 0 970"],
    ),
    (
        "redis-cli FCALL_RO twitter_updater_credentials 1 '{twitter}'",
        "watcher",
        &["main statuses/lookup 640 900 9m ", "second statuses/lookup - - -", "326)"],
    ),
    (
        "redis-cli FCALL_RO twitter_updater_dead 1 '{tweet:update}' 20",
        "watcher",
        &["id since why", "UTC refused (HTTP 400)", "UTC its worker died with it"],
    ),
    ("twitter-updater dead retry 23", "app", &["1 retried, 0 were not dead, 0 refused"]),
    ("redis-cli SET '{tweet:update}:paused' 'database moves'", "operator", &["OK"]),
    ("redis-cli DEL '{tweet:update}:paused'", "operator", &["1"]),
    (
        "redis-cli ZADD '{tweet:update}:incoming' 0 $(( ($(date +%s) * 1000 - 1288834974657) << 22 ))",
        "operator",
        &["1"],
    ),
    ("redis-cli HGETALL '{tweet:update}:incoming:refused'", "watcher", &["x1", "not a digit"]),
    ("redis-cli FUNCTION LIST LIBRARYNAME twitter_updater", "watcher", &["twitter_updater_status", "no-writes"]),
    ("redis-cli --scan --pattern '{*}:leased' | xargs -r -n 1 redis-cli DEL", "app", &["1"]),
    ("redis-cli --scan --pattern '{*}:fence' | xargs -r -n 1 redis-cli DEL", "app", &["1"]),
    ("redis-cli --scan --pattern '{*}:window:*' | xargs -r -n 1 redis-cli DEL", "app", &["1"]),
    ("redis-cli --scan --pattern '{*}:permits:*' | xargs -r -n 1 redis-cli DEL", "app", &[]),
];

/// A file of the repository.
fn read(path: &str) -> String {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines with redis-cli, and those that stand with them among the questions of the page of operations, in the
/// documents' blocks of shell.
fn documented() -> BTreeSet<String> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec![root.join("README.md")];
    pages.extend(std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    let mut lines = BTreeSet::new();
    for page in pages.iter().filter(|page| page.extension().is_some_and(|end| end == "md")) {
        let text = std::fs::read_to_string(page).unwrap();
        let questions = text.find("## Questions at three in the morning").unwrap_or(text.len());
        for (at, _) in text.match_indices("```sh\n") {
            let block = text[at + "```sh\n".len()..].split("```").next().unwrap();
            for line in block.lines().map(|line| line.split(" #").next().unwrap().trim()) {
                if line.contains("redis-cli") || (at > questions && !line.is_empty()) {
                    lines.insert(line.to_owned());
                }
            }
        }
    }
    lines
}

/// With single spaces, as it is read.
fn plain(output: &str) -> String {
    output.split([' ', '\t']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_in_the_documents_says_what_they_say() {
    let known: BTreeSet<_> = LINES.iter().map(|(line, ..)| (*line).to_owned()).collect();
    assert_eq!(documented(), known, "each line of redis-cli in the documents is run here, and no other");
    let loaded = Loaded::new().await;
    for (line, user, says) in LINES {
        let said = if line.contains("-r -1") {
            loaded.run_until_it_said_twice(line, user, "tweet:update at")
        } else {
            let output = loaded.run(line, user);
            assert!(output.status.success(), "{line}: {}{}", text(&output.stdout), text(&output.stderr));
            text(&output.stdout)
        };
        let said = plain(&said);
        for part in *says {
            assert!(said.contains(part), "{line}\n{part:?} is not in:\n{said}");
        }
        assert!(!said.contains("ERR") && !said.contains("NOPERM"), "{line}: {said}");
    }
    assert_eq!(loaded.guarded.refusals().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_person_sees_has_no_quotes_and_lines_up() {
    let loaded = Loaded::new().await;
    let line = "FCALL_RO twitter_updater_status 1 '{tweet:update}'";
    // As on a terminal: numbered, and otherwise as it is.
    let terminal = text(&loaded.run(&format!("redis-cli --no-raw {line}"), "watcher").stdout);
    for (at, line) in terminal.lines().enumerate() {
        let (number, rest) = line.split_once(") ").unwrap_or_else(|| panic!("{line}"));
        assert_eq!(number.trim(), (at + 1).to_string());
        assert!(!rest.starts_with('"') && !rest.contains('\\'), "{line}");
    }
    let piped = text(&loaded.run(&format!("redis-cli {line}"), "watcher").stdout);
    let lanes: Vec<_> = piped.lines().skip_while(|line| !line.starts_with("scheduled")).take(4).collect();
    assert!(lanes[3].starts_with("  all lanes"), "{piped}");
    assert!(lanes.iter().all(|line| line.chars().count() == lanes[0].chars().count()), "{piped}");
    // What would steer a terminal is in none of it.
    let mut admin = loaded.guarded.admin().await;
    let () = redis::cmd("SET")
        .arg("{tweet:update}:paused")
        .arg("a\x1b[31m\u{9b}b\r\nc")
        .query_async(&mut admin)
        .await
        .unwrap();
    let piped = text(&loaded.run(&format!("redis-cli {line}"), "watcher").stdout);
    assert!(piped.contains("PAUSED, nothing is claimed: a [31m b  c\n"), "{piped:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_line_says_what_is_wrong() {
    let loaded = Loaded::new().await;
    for (call, says) in [
        ("status 1 tweet:update", "ERR one key is needed, a tag in braces and quotes: 1 '{tweet:update}'"),
        ("status 2 '{tweet:update}' '{tweet:update}x'", "ERR one key is needed"),
        ("ids 1 '{tweet:update}'", "ERR 1 to 100 ids are needed"),
        ("dead 1 '{tweet:update}' many", "ERR many is no number from 1 to 1000"),
        ("rates 1 '{tweet:update}' 120", "ERR 120 is no number from 1 to 119"),
        ("due 1 '{tweet:update}' 11s", "ERR a span is needed, of 12s or more"),
        ("due 1 '{tweet:update}' soon", "ERR a span is needed"),
    ] {
        let said = text(&loaded.run(&format!("redis-cli FCALL_RO twitter_updater_{call}"), "watcher").stdout);
        assert!(said.starts_with(says), "{call}: {said}");
    }
    let elsewhere = loaded.run("redis-cli FCALL_RO twitter_updater_status 1 '{no:body}'", "watcher");
    let said = text(&elsewhere.stdout);
    assert!(said.contains("nothing was ever scheduled here") && said.contains("NO WORKER has beaten"), "{said}");
}

/// What the shell makes of a line, with these programs first.
fn shell(line: &str, programs: &std::path::Path) -> Command {
    let mut shell = Command::new("sh");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    shell.args(["-c", line]).env("PATH", path);
    shell
}

impl Loaded {
    /// Gives a line as that user.
    fn run(&self, line: &str, user: &str) -> Output {
        self.command(line, user).output().unwrap()
    }
}

/// The statements that remove what a clock has left in a SQLite file.
#[tokio::test]
async fn the_statements_for_a_clock_that_jumped_run_in_sqlite() {
    let document = read("docs/operations.md");
    let statements = document.split_once("In SQLite:\n`").unwrap().1.split_once('`').unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    let (file, patience) = (folder.path().join("all.db"), Duration::from_secs(10));
    EmbeddedQueue::open(&file, "tweet:update", patience).await.unwrap();
    EmbeddedLedger::open(&file, "twitter", patience).await.unwrap();
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    for statement in statements.split(';') {
        sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&mut connection).await.unwrap();
    }
    assert!(statements.contains("quota_permit"), "{statements}");
}
