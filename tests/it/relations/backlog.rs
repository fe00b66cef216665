//! Lists that wait for their first read, by real processes: the figures of the backlog, and the headline that they turn amber until
//! each list has been read once.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, SimulatorOptions};

use crate::http::documents::{documented, shown};
use crate::support::lists::{self, LISTS};
use crate::support::process::{Process, run, text, variables};
use crate::support::role::{Role, value};
use crate::support::wait::{until, until_true};
use crate::support::world::{Backends, World};

const PATIENCE: Duration = Duration::from_secs(150);
/// Lists, each of one page.
const OWNERS: u64 = 297;
/// Calls per window at Twitter, and the window: five calls per second read all lists once in a minute.
const CALLS: f64 = 15.0;
const WINDOW: Duration = Duration::from_secs(3);
/// The interval within which a list should be read first.
const REVISIT_S: f64 = 20.0;

async fn status(ops: &Role) -> Value {
    serde_json::from_str(&ops.get(&format!("/status?namespace={LISTS}")).await.1).unwrap_or_default()
}

fn is(status: &Value, state: &str) -> bool {
    status["answer"]["state"] == state
}

async fn lists_wait_for_their_first_read(backends: Backends) {
    let folder = tempfile::tempdir().unwrap();
    let options =
        SimulatorOptions { window: WINDOW, most_followers: 50, missing_share: 0.0, ..SimulatorOptions::default() };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let mut world = World::new(backends, folder.path(), &api.base_url()).await;
    world.settings.extend(variables(&[
        ("relations.collect", "followers"),
        ("relations.revisit", &format!("{REVISIT_S}s")),
        ("relations.known_tail", "0"),
    ]));
    let owners: Vec<String> = (0..OWNERS).map(|number| api.people().id(&Provider::Twitter, number)).collect();
    let ops = Role::start("ops", &world.settings, &folder.path().join("ops.log")).await;
    lists::enqueue(&world, LISTS, &owners);
    let mut seen = Value::Null;
    until_true("the lists are counted", PATIENCE, async || {
        seen = status(&ops).await;
        seen["lists"]["unread"] == OWNERS
    })
    .await;
    // Before the first answer the quota is unknown, and so is the time; without a worker nothing is fresh.
    assert!(seen["lists"]["read_once_ms"].is_null() && !is(&seen, "fresh"), "{seen}");
    assert_eq!(seen["lists"]["first_calls"], OWNERS, "{seen}");

    let updater = Process::start(&["updater"], &world.settings, &folder.path().join("updater.log"));
    let early = until("the updater works, and the quota is known", PATIENCE, async || {
        let seen = status(&ops).await;
        let works = is(&seen, "fresh") || is(&seen, "late");
        (works && seen["lists"]["read_once_ms"].as_u64().is_some_and(|ms| ms > 0)).then_some(seen)
    })
    .await;
    assert!(is(&early, "fresh"), "not at once after an import: {early}");
    let unread = early["lists"]["unread"].as_f64().unwrap();
    let supply = early["quota"]["supply_calls_per_15_min"].as_f64().unwrap();
    assert!((supply - CALLS * 900.0 / WINDOW.as_secs_f64()).abs() < supply / 2.0, "{early}");
    let estimate = early["lists"]["read_once_ms"].as_f64().unwrap();
    assert!((estimate - unread / supply * 900_000.0).abs() < 1.0, "{early}");
    // All lists, read and unread, are to be read in each interval.
    let demand = OWNERS as f64 / REVISIT_S * 900.0;
    let near = |value: &Value, expected: f64| (value.as_f64().unwrap() - expected).abs() < expected / 100.0;
    assert!(near(&early["quota"]["demand_calls_per_15_min"], demand), "{early}");
    assert!(early["quota"]["demand_by_quota"].as_f64().unwrap() > 1.0, "{early}");

    let late = until("the headline is amber", PATIENCE, async || {
        let seen = status(&ops).await;
        assert!(seen["lists"]["unread"] != 0, "each list was read before: {seen}");
        is(&seen, "late").then_some(seen)
    })
    .await;
    let sentence = late["answer"]["sentence"].as_str().unwrap();
    for says in [
        "lists were never read, although each is due within 20s",
        "by the quota; to fix it: ",
        "(relations.revisit), or fewer lists",
    ] {
        assert!(sentence.contains(says), "{says}: {sentence}");
    }
    assert!(late["lists"]["unread_overdue"].as_u64() > Some(2), "{late}");
    let metrics = ops.get("/metrics").await;
    let page = ops.get(&format!("/n/{LISTS}/")).await;
    let metric = |name: &str| value(&metrics.1, &format!("twitter_updater_{name}{{namespace=\"{LISTS}\"}}"));
    for name in ["lists_unread", "lists_unread_overdue", "lists_unread_calls", "lists_unread_seconds", "posts_late"] {
        assert!(metric(name) > Some(0.0), "{name}: {}", metrics.1);
    }
    assert_eq!(metric("fresh"), Some(0.0));
    for says in ["id=\"lists\"", "lists were never read", "Time until each has been read once", ">visited<"] {
        assert!(page.1.contains(says), "{says}: {}", page.1);
    }
    let table = text(&run(&["status"], &world.settings).stdout);
    for says in ["never read", "calls for them", "each read once in", "read whole every"] {
        assert!(table.contains(says), "{says}: {table}");
    }

    let all = until("each list was read once, and the headline is green", PATIENCE, async || {
        let seen = status(&ops).await;
        // A list and a hundredth of all may wait. The queue's own figure, since that of the store may be 5 s old.
        let first = seen["lanes"].as_array().and_then(|lanes| lanes.iter().find(|lane| lane["lane"] == "first"));
        let waiting = first.and_then(|lane| lane["delayed"].as_u64()).unwrap_or(0);
        assert!(waiting <= OWNERS / 100 || !is(&seen, "fresh"), "green, and {waiting} wait: {seen}");
        (seen["lists"]["unread"] == 0 && is(&seen, "fresh")).then_some(seen)
    })
    .await;
    assert!(all["answer"]["sentence"].as_str().unwrap().contains("but that will not last"), "{all}");
    assert_eq!((&all["lists"]["read_once_ms"], &all["lists"]["lists"]), (&0.into(), &OWNERS.into()));
    let visited = &all["lists"]["tiers"][1];
    assert!(visited["complete"].as_u64() > Some(OWNERS / 2) && visited["oldest_age_ms"].as_u64() > Some(0), "{all}");
    assert!(visited["too_old"].as_u64() > Some(0), "the first ones wait for their next read: {all}");
    let metrics = ops.get("/metrics").await.1;
    let own = shown(&metrics).into_iter().filter(|(name, _)| name.starts_with("twitter_updater_lists"));
    assert_eq!(own.collect::<BTreeMap<_, _>>(), documented("### Reads of lists"), "{metrics}");
    assert_eq!(updater.terminate().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_that_wait_for_their_first_read_turn_the_headline_amber_in_files() {
    lists_wait_for_their_first_read(Backends { redis: false, postgres: false }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_that_wait_for_their_first_read_turn_the_headline_amber_on_servers() {
    lists_wait_for_their_first_read(Backends { redis: true, postgres: true }).await;
}
