//! Lists as people see them: the progress of a crawl in `status`, on the page and in the metrics, the crawls of an account on
//! its page; their members as accounts; and the graph as a file.

use std::collections::BTreeMap;

use twitter_updater::model::provider::Provider;

use super::documents::{documented, shown};
use super::*;

const LISTS: &str = "followers:twitter";
const ACCOUNTS: &str = "profiles:twitter";
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest list, that of account 0, and its pages.
const MEMBERS: u64 = 5_000;
const PAGE: u64 = 100;
/// Members whose profiles are collected.
const RECRUITS: u64 = 7;

fn of(status: &str, namespace: &str) -> Value {
    let status: Value = serde_json::from_str(status).unwrap_or_else(|_| panic!("{status}"));
    let found = status["namespaces"].as_array().and_then(|all| all.iter().find(|one| one["namespace"] == namespace));
    found.cloned().unwrap_or_default()
}

/// A call a second, so that a crawl is under way for a minute.
async fn home() -> Home {
    let options = SimulatorOptions {
        calls_per_window: 30,
        app_calls_per_window: 30,
        window: Duration::from_secs(30),
        most_followers: MEMBERS,
        count_follows: true,
        missing_share: 0.0,
        ..SimulatorOptions::default()
    };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    Home { folder: tempfile::tempdir().unwrap(), api }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_seen_as_lists() {
    let home = home().await;
    let (page, recruits) = (PAGE.to_string(), RECRUITS.to_string());
    let settings = home.settings(&[
        ("accounts.collect", "true"),
        ("accounts.from_lists", &recruits),
        ("relations.collect", "followers"),
        ("relations.page", &page),
    ]);
    let owner = home.api.people().id(&Provider::Twitter, 0);
    let file = home.path("owner.txt");
    std::fs::write(&file, format!("{owner}\n")).unwrap();
    let file = file.to_str().unwrap();
    let enqueue = |arguments: &[&str]| {
        let output = run(&[&["enqueue"], arguments].concat(), &settings);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    };
    enqueue(&["--accounts", file]);
    let updater = home.role("updater", &settings).await;
    let ops = home.role("ops", &settings).await;
    // Its profile says how long the list is, before that is read.
    let account = format!("/n/{ACCOUNTS}/account?id={owner}");
    until_true("its profile is known", PATIENCE, async || {
        of(&ops.get("/status").await.1, ACCOUNTS)["known_accounts"]["states"]["live"] == 1
    })
    .await;
    assert!(!ops.get(&account).await.1.contains("Followers: crawls"), "no list of it was read");
    enqueue(&["--pipeline", LISTS, file]);

    let mut seen = Value::Null;
    until_true("its crawl is under way", PATIENCE, async || {
        seen = of(&ops.get("/status").await.1, LISTS);
        seen["crawls"]["listed"][0]["pages"].as_u64() >= Some(3)
    })
    .await;
    let crawl = &seen["crawls"]["listed"][0];
    assert_eq!(
        (&seen["crawls"]["under_way"], &crawl["owner"], &crawl["kind"]),
        (&1.into(), &owner.clone().into(), &"complete".into())
    );
    let (expected, pages) = (crawl["expected_pages"].as_u64().unwrap(), crawl["pages"].as_u64().unwrap());
    assert_eq!(expected, crawl["stated_total"].as_u64().unwrap().div_ceil(PAGE), "{crawl}");
    // All calls of the quota are its own.
    let (left, calls) =
        (crawl["left_ms"].as_f64().unwrap(), seen["quota"]["supply_calls_per_15_min"].as_f64().unwrap());
    assert!((left - (expected - pages) as f64 / calls * 900_000.0).abs() <= 1.0, "{left} ms: {seen}");
    assert!((pages - 1) * PAGE <= crawl["found"].as_u64().unwrap(), "{crawl}");

    let status = text(&run(&["status"], &settings).stdout);
    let own = status.split_once(&format!("{LISTS}\n")).unwrap_or_else(|| panic!("{status}")).1;
    let row = own.lines().find(|line| line.starts_with(&owner)).unwrap_or_else(|| panic!("{own}"));
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((cells[1], cells[3]), ("complete", &*expected.to_string()), "{own}");
    assert!(row.trim_end().ends_with('s') && own.contains("under way                      1"), "{own}");

    let front = ops.get(&format!("/n/{LISTS}/")).await.1;
    for says in ["id=\"crawls\"", "Crawls under way", &account, &format!("<td class=\"n\">{expected}</td>")] {
        assert!(front.contains(says), "{says}: {front}");
    }
    assert!(ops.get("/").await.1.contains("<dt>Crawls</dt><dd>1</dd>"));
    // On the account's page, and on the list's own.
    for address in [account, format!("/n/{LISTS}/tweet?id={owner}")] {
        let shown = ops.get(&address).await.1;
        for says in ["Followers: crawls", "under way (complete)"] {
            assert!(shown.contains(says), "{says}: {shown}");
        }
    }
    let metrics = ops.get("/metrics").await.1;
    let metric = |name: &str| value(&metrics, &format!("twitter_updater_{name}{{namespace=\"{LISTS}\"}}"));
    assert_eq!(metric("crawls_under_way"), Some(1.0), "{metrics}");
    assert!(metric("crawl_oldest_seconds") >= Some(1.0), "{metrics}");
    // Its first read has the pages that its profile states.
    let calls = metric("lists_unread_calls").unwrap();
    assert!(calls > 1.0 && calls <= expected as f64, "{calls}: {metrics}");
    assert_eq!(metric("lists_unread"), Some(1.0), "{metrics}");
    let own: BTreeMap<_, _> =
        shown(&metrics).into_iter().filter(|(name, _)| name.starts_with("twitter_updater_crawl")).collect();
    assert_eq!(own, documented("### Crawls of lists"));

    // Its newest members are accounts, too, and no more of them.
    until_true("its newest members are looked up", PATIENCE, async || {
        of(&ops.get("/status").await.1, ACCOUNTS)["known_accounts"]["states"]["live"] == RECRUITS + 1
    })
    .await;
    let known = run(&["export", "ids", "--pipeline", ACCOUNTS], &settings);
    assert_eq!(text(&known.stdout).lines().count() as u64, RECRUITS + 1);
    let ways = text(&run(&["export", "ways", "--pipeline", ACCOUNTS], &settings).stdout);
    assert_eq!(ways.matches(&format!(",fan_out,{LISTS},")).count() as u64, RECRUITS, "{ways}");

    draws(&home, &settings, &owner);
    assert_eq!(updater.stopped().await, Some(0));
}

/// The graph of what was read so far: of all, and of a few by ids and handles.
fn draws(home: &Home, settings: &Variables, owner: &str) {
    let file = home.path("follows.gexf");
    let output = run(&["export", "edges", "--to", file.to_str().unwrap()], settings);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let gexf = std::fs::read_to_string(&file).unwrap();
    let (nodes, edges) = (gexf.matches("<node ").count(), gexf.matches("<edge ").count());
    assert_eq!(gexf.matches(&format!("target=\"{owner}\"")).count(), edges);
    assert!(nodes == edges + 1 && edges >= 300, "{nodes} {edges}");
    assert!(!home.path("follows.gexf.part").exists());
    // Again is refused: it is there.
    assert_eq!(run(&["export", "edges", "--to", file.to_str().unwrap()], settings).status.code(), Some(1));

    let accounts = text(&run(&["export", "accounts"], settings).stdout);
    let handle_of = |row: &str| row.split(',').nth(2).map(str::to_owned);
    let member =
        accounts.lines().skip(1).find(|row| !row.starts_with(&format!("x{owner},"))).and_then(handle_of).unwrap();
    let few = home.path("few.txt");
    std::fs::write(&few, format!("{owner}\n@{member}\n@nobody_has_it\n")).unwrap();
    let few = few.to_str().unwrap();
    let among = run(&["export", "edges", "--format", "graphml", "--among", few], settings);
    let (graphml, why) = (text(&among.stdout), text(&among.stderr));
    assert_eq!(among.status.code(), Some(65), "{why}");
    assert!(why.contains("line 3: no stored profile has the handle nobody_has_it"), "{why}");
    assert_eq!((graphml.matches("<node ").count(), graphml.matches("<edge ").count()), (2, 1), "{graphml}");
    assert!(graphml.contains(&format!("<data key=\"label\">{member}</data>")), "{graphml}");
    let early = run(&["export", "edges", "--format", "gexf", "--at", "2020-01-01T00:00:00Z", "--ego", few], settings);
    let gexf = text(&early.stdout);
    // Before the first crawl nobody knows: perhaps all of them followed.
    assert!(gexf.contains("for=\"surely\" value=\"false\"") && !gexf.contains("value=\"true\"/></attvalues></edge>"));
    for (code, wrong) in [
        (64, &["posts", "--format", "gexf"][..]),
        (64, &["edges", "--at", "1d"]),
        (64, &["edges", "--format", "gexf", "--since", "1d"]),
        (1, &["edges", "--format", "gexf", "--among", "/nowhere/at/all"]),
    ] {
        let output = run(&[&["export"], wrong].concat(), settings);
        let why = text(&output.stderr);
        assert!(output.status.code() == Some(code) && why.lines().count() == 1, "{wrong:?}: {why}");
    }
}
