//! The documents name the metrics there are, and their examples work.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use twitter_updater::engine::queue::{Jobs, Lane, NewJob, RedisQueue};
use twitter_updater::pipelines::posts::NAMESPACE;

use super::*;

const METRICS: &str = include_str!("../../../docs/metrics.md");
const STARTER: &str = include_str!("../../../docs/starter.md");

/// Name → type and labels, of what a role shows.
pub fn shown(text: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut metrics = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            metrics.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
        } else if let (false, Some((name, labels))) = (line.starts_with('#'), line.split_once('{')) {
            let of = metrics
                .keys()
                .filter(|known| name.starts_with(*known))
                .max_by_key(|known| known.len())
                .unwrap()
                .clone();
            let names = labels.split("=\"").filter_map(|part| part.rsplit(['{', ',', '"']).next());
            let names = names.filter(|name| !name.is_empty() && !name.contains('}') && *name != "le");
            metrics.get_mut(&of).unwrap().1.extend(names.map(str::to_owned));
        }
    }
    metrics
}

/// The same of the document's tables.
pub fn documented(heading: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let section = METRICS.split_once(heading).unwrap_or_else(|| panic!("no {heading}")).1;
    let rows = section.lines().skip_while(|line| !line.starts_with("|--")).skip(1);
    rows.take_while(|line| line.starts_with('|'))
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let name = cells[0].trim_matches('`');
            // A counter's lines end in _total, which is no part of its name; an info's in _info.
            let name = name.strip_suffix("_total").or(name.strip_suffix("_info")).unwrap_or(name);
            let labels = cells[2].split(", ").map(|label| label.trim_matches('`')).filter(|label| *label != "-");
            (format!("twitter_updater_{name}"), (cells[1].to_owned(), labels.map(str::to_owned).collect()))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_are_those_that_the_roles_show() {
    let home = Home::new().await;
    let redis = TestRedis::start(&[]);
    let settings = home.on(&redis, &[("tweet_age", "1h: 1m")]);
    // Something of each kind, for the labels to show: an id, a worker, counters, a credential's window.
    let queue = RedisQueue::new(redis.pool(), NAMESPACE);
    let job = NewJob { id: young(1).remove(0), lane: Lane::new("1h", Duration::from_secs(60)), due: 0.into() };
    queue.schedule(&[job]).await.unwrap();
    let starter = home.role("starter", &settings).await;
    assert_eq!(post(&starter, &young(3)).await.0, 202);
    let updater = home.role("updater", &settings).await;
    let ops = home.role("ops", &settings).await;
    until_true("the worker has beaten, and called the API", Duration::from_secs(20), async || {
        let text = ops.get("/metrics").await.1;
        ["workers{", "queue_events_total{", "quota_remaining{"].iter().all(|name| text.contains(name))
    })
    .await;
    let source = [("poll.sources.one.kind", "user"), ("poll.sources.one.screen_name", "one")];
    let poller = home.role("poll", &home.on(&redis, &source)).await;
    let every = documented("## Every role");
    for (role, heading) in [(&updater, "## `updater`"), (&starter, "## `starter`"), (&ops, "## `ops`")] {
        let text = role.get("/metrics").await.1;
        let mut expected: BTreeMap<_, _> = every.clone().into_iter().chain(documented(heading)).collect();
        without_restarts(&mut expected);
        assert_eq!(shown(&text), expected, "{heading}: {text}");
    }
    let text = poller.get("/metrics").await.1;
    let of_updater = documented("## `updater`").into_iter().chain(documented("## `poll`"));
    let mut expected = every.into_iter().chain(of_updater).collect();
    without_restarts(&mut expected);
    assert_eq!(shown(&text), expected, "poll: {text}");
}

/// No task was begun anew here, so nothing shows its labels.
fn without_restarts(expected: &mut BTreeMap<String, (String, BTreeSet<String>)>) {
    if let Some((_, labels)) = expected.get_mut("twitter_updater_task_restarts") {
        labels.clear();
    }
}

/// The fenced block that follows this line.
fn example(after: &str, language: &str) -> String {
    let rest = STARTER.split_once(after).unwrap_or_else(|| panic!("no {after:?}")).1;
    let rest = rest.split_once(&format!("```{language}\n")).unwrap().1;
    rest.split_once("```").unwrap().0.to_owned()
}

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: no {program}");
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ways_to_send_tweets_work() {
    let home = Home::new().await;
    let settings = home.settings(&[("starter.bearer_token", "a-token-of-the-ingest"), ("tweet_age", "36500d: 1h")]);
    let starter = home.role("starter", &settings).await;
    let here = |text: &str| text.replace("http://127.0.0.1:8080", &starter.url);
    let mut sent = 0;
    if is_there("curl") {
        let tweets = home.path("tweets.ndjson");
        std::fs::write(&tweets, r#"{"id_str":"1460323737035677699","text":"hello"}"#).unwrap();
        let script = here(&example("With curl", "sh"));
        let output = Command::new("sh")
            .args(["-euc", &script])
            .current_dir(home.folder.path())
            .env("TOKEN", "a-token-of-the-ingest")
            .output()
            .unwrap();
        let answers = text(&output.stdout);
        assert!(output.status.success(), "{answers}{}", text(&output.stderr));
        assert_eq!(answers.matches("\"scheduled\":").count(), script.matches("curl ").count(), "{answers}");
        assert!(!answers.contains("reason"), "{answers}");
        sent += 1;
    }
    if is_there("python3") {
        let script = here(&example("From Python", "python"));
        let file = home.path("ingest.py");
        std::fs::write(
            &file,
            format!("{script}\n\nprint(send([{{\"id_str\": \"1460323737035677700\", \"text\": \"from Python\"}}]))\n"),
        )
        .unwrap();
        let output = Command::new("python3").arg(&file).env("TOKEN", "a-token-of-the-ingest").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("'scheduled': 1"), "{}", text(&output.stdout));
        sent += 1;
    }
    let status: Value = serde_json::from_slice(&run(&["status", "--json"], &settings).stdout).unwrap();
    assert!(status["delayed"].as_u64().unwrap() >= sent, "{status}");
}

/// A starter that answers 503 twice, then takes it: what the document's client does about it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_waits_and_sends_again() {
    if !is_there("python3") {
        return;
    }
    use crate::support::http::{Canned, CannedServer};
    use std::sync::atomic::{AtomicU32, Ordering};
    let asked = AtomicU32::new(0);
    let server = CannedServer::start_with(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Canned::new(503, r#"{"reason":"out"}"#).header("retry-after", "0"),
        _ => Canned::new(202, r#"{"scheduled":1}"#),
    })
    .await;
    let home = tempfile::tempdir().unwrap();
    let script = example("From Python", "python").replace("http://127.0.0.1:8080", &server.base_url());
    let file = home.path().join("ingest.py");
    std::fs::write(&file, format!("{script}\n\nprint(send([\"20\"]))\n")).unwrap();
    let run = tokio::task::spawn_blocking(move || Command::new("python3").arg(&file).output().unwrap());
    let output = tokio::time::timeout(Duration::from_secs(60), run).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let bodies: BTreeSet<String> = server.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!((server.asked().len(), bodies.len()), (3, 1));
}
