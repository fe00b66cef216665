//! A community finds its own in a simulated network: real processes on Redis and PostgreSQL, killed and begun anew, and the
//! commands that people use.

use std::time::Duration;

use serde_json::Value;
use twitter_updater::app::demo::community::compare_with_planted;
use twitter_updater::base::clock::{self, Stopwatch};
use twitter_updater::model::community::Belonging;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::{Appearance, Reason};

use crate::support::census::{Census, census};
use crate::support::planted::{COMMUNITY, Planted, planted};
use crate::support::process::{Process, Variables, run, run_with_input, text, variables};
use crate::support::wait::until_true;
use crate::support::world::Backends;

/// A number that a variable may change.
fn size(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Accounts of the network; `COMMUNITY_ACCOUNTS=20000` makes it as large as the demo's.
fn accounts() -> u64 {
    size("COMMUNITY_ACCOUNTS", 3_000)
}

/// How long it goes on at least; `COMMUNITY_SECONDS=240` is the demo's simulated day.
fn lasts() -> Duration {
    Duration::from_secs(size("COMMUNITY_SECONDS", 0))
}

fn answer(arguments: &[&str], settings: &Variables) -> Value {
    let output = run(arguments, settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_community_finds_its_own_through_kills_and_a_wiped_queue() {
    let folder = tempfile::tempdir().unwrap();
    let planted = planted(Backends { redis: true, postgres: true }, folder.path(), accounts()).await;
    let Planted { api, world, seeds } = planted;
    let provider = Provider::Twitter;

    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    let updater = || Process::start(&["updater"], &world.settings, &log);
    let (watch, mut processes) = (Stopwatch::start(), vec![updater(), updater(), updater(), updater()]);
    let communities = world.communities.clone();
    let found = async || compare_with_planted(&*communities, COMMUNITY, api.people(), &provider, &seeds).await.unwrap();
    let within = Duration::from_secs(120 + accounts() / 50);
    let planted = api.people().members(&provider, "pt-PT").len() as f64;
    for (kill, share) in [0.2, 0.3, 0.4, 0.45, 0.5, 0.55].into_iter().enumerate() {
        let members = (share * planted) as u64;
        until_true(&format!("{members} members"), within, async || found().await.members >= members).await;
        processes.remove(0).kill();
        processes.push(updater());
        if let (3, Some(redis)) = (kill, &world.redis) {
            let mut raw = redis.connection().await;
            redis::cmd("FLUSHALL").query_async::<()>(&mut raw).await.unwrap();
            let output = run(&["rebuild"], &world.settings);
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
    }
    tokio::time::sleep(lasts().saturating_sub(watch.elapsed())).await;
    // A person decides: it stays, and is told.
    let outsider = api.people().members(&provider, "en")[3].clone();
    answer(
        &["community", "decide", "pt-pt", &outsider, "member", "--why", "a friend", "--who", "ann", "--json"],
        &world.settings,
    );
    let why = || answer(&["community", "why", "pt-pt", &outsider, "--json"], &world.settings);
    until_true("the decision is carried out", within, async || why()["judged_at"].is_number()).await;
    let why = why();
    assert_eq!((&why["state"], &why["by_hand"], &why["why"]), (&"member".into(), &"ann".into(), &"a friend".into()));
    let sizes = answer(&["community", "list", "--json"], &world.settings);
    let members = sizes["communities"][0]["members"].as_u64().unwrap();
    assert!(members as f64 > planted / 2.0, "{sizes}");
    // Whoever was killed had perhaps recorded an account that the queue does not have.
    let output = run(&["rebuild"], &world.settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for process in processes {
        let status = process.terminate();
        assert!(status.success(), "{status}\n{}", logged());
    }
    let summary = found().await;
    println!("{} accounts, 6 kills and a wiped queue, {:?}:\n{summary}", accounts(), watch.elapsed());
    assert!(summary.precision > Some(0.9), "{summary}");
    // Each account that is judged is in one place of the queue.
    let all: Vec<String> = {
        let mut all = Vec::new();
        for state in Belonging::ALL.into_iter().skip(1) {
            let page = communities.page_community(COMMUNITY, state, "", 10_000).await.unwrap();
            all.extend(page.into_iter().map(|of| of.account));
        }
        all
    };
    let queue = world.queue_of(folder.path(), COMMUNITY).await;
    let census = census(&*queue, &*world.store, &all).await;
    assert_eq!(census.delayed + census.leased, all.len(), "{census:?}");
    api.stop().await;
}

/// A process was killed after it had recorded an account that it was about to admit, and a rebuild put that into the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_in_the_queue_that_is_not_yet_admitted_stays_there_until_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let Planted { api, world, seeds } = planted(Backends { redis: false, postgres: false }, folder.path(), 400).await;
    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    let account =
        api.people().members(&Provider::Twitter, "pt-PT").iter().find(|id| !seeds.contains(id)).unwrap().clone();
    let appearance =
        Appearance { account: account.clone(), source: seeds[0].clone(), reason: Reason::Mentioned, post: None };
    world.communities.record_arrivals(COMMUNITY, clock::wall_ms(), &[], &[appearance], (NAMESPACE, &[])).await.unwrap();
    let output = run_with_input(&["enqueue", "--pipeline", COMMUNITY, "-"], &world.settings, account.as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));

    let within = Duration::from_secs(60);
    let admits_from =
        |appearances| [&world.settings[..], &variables(&[("communities.pt-pt.appearances", appearances)])].concat();
    let updater = Process::start(&["updater"], &admits_from("1000000"), &log);
    let looked_at = async || world.store.tweet(COMMUNITY, &account).await.unwrap().unwrap().checked_at.is_some();
    until_true("it is looked at", within, looked_at).await;
    let status = updater.terminate();
    assert!(status.success(), "{status}\n{}", logged());
    let all = std::slice::from_ref(&account);
    let belonging = || world.communities.belonging(COMMUNITY, all);
    assert_eq!(belonging().await.unwrap(), [Some(Belonging::Seen)]);
    let queue = world.queue_of(folder.path(), COMMUNITY).await;
    assert_eq!(census(&*queue, &*world.store, all).await, Census { delayed: 1, ..Census::default() });

    let updater = Process::start(&["updater"], &admits_from("1"), &log);
    until_true("it is judged", within, async || belonging().await.unwrap() == [Some(Belonging::Member)]).await;
    let status = updater.terminate();
    assert!(status.success(), "{status}\n{}", logged());
    api.stop().await;
}
