//! Visits and polls on all networks at once: the API refuses the timelines of some accounts, and the others are still read.

use std::path::Path;
use std::time::Duration;

use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, Endpoint, Fault, Rule, Running, SimulatorOptions};
use twitter_updater::store::{Lifecycle, Positions, SqliteStore};

use crate::support::process::{Process, parked, run_with_input, text, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const WITHIN: Duration = Duration::from_secs(60);
/// Accounts of each network, and how many of them are refused.
const ACCOUNTS: u64 = 5;
const REFUSED: usize = 3;

fn networks() -> [Provider; 4] {
    [Provider::Twitter, Provider::X, Provider::Mastodon("social".to_owned()), Provider::Bluesky]
}

async fn simulated() -> Running {
    let options = SimulatorOptions {
        calls_per_window: 0,
        x_calls_per_window: 0,
        mastodon_calls_per_window: 0,
        bluesky_calls_per_window: 0,
        accounts: 100,
        posts_per_second: 2.0,
        mastodon_kept: Duration::from_millis(300),
        ..SimulatorOptions::default()
    };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

async fn world(folder: &Path, api: &Running, more: &[(&str, &str)]) -> World {
    let base = api.base_url();
    let mut world = World::new(Backends { redis: false, postgres: false }, folder, &base).await;
    world.settings.extend(variables(&[
        ("providers", "twitter, x, mastodon:social, bluesky"),
        ("x.api", &base),
        ("mastodon.instances.social.api", &base),
        ("mastodon.instances.social.bearer_token", "token"),
        ("bluesky.api", &base),
        ("tweet_age", "1h: 30m"),
    ]));
    world.settings.extend(variables(more));
    world
}

fn accounts(api: &Running, of: &Provider) -> Vec<String> {
    (0..ACCOUNTS).map(|number| api.people().id(of, number)).collect()
}

/// Refuses the timelines of the first accounts of each network, with the same error as for a refused credential.
fn refuse(api: &Running, status: u16) {
    let asked = networks().iter().flat_map(|network| accounts(api, network).into_iter().take(REFUSED)).collect();
    let fault = Fault::Status { status, code: None };
    api.faults().replace(vec![Rule { at: Endpoint::Timelines, asked, ..Rule::from(fault) }]);
}

async fn refused_accounts_delay_no_visit(status: u16) {
    let (folder, api) = (tempfile::tempdir().unwrap(), simulated().await);
    let every =
        [("visits.collect", "true"), ("visits.every", "1s"), ("visits.shortest", "1s"), ("visits.longest", "1s")];
    let world = world(folder.path(), &api, &every).await;
    for provider in &networks() {
        let (name, ids) = (provider.to_string(), accounts(&api, provider).join("\n"));
        let arguments = ["--provider", &name, "accounts", "follow", "-"];
        let output = run_with_input(&arguments, &world.settings, ids.as_bytes());
        assert!(output.status.success(), "{provider}: {}", text(&output.stderr));
    }
    let store = SqliteStore::open(&folder.path().join("tweets.db"), WITHIN).await.unwrap();
    let log = folder.path().join("log");
    let updater = Process::start(&["updater"], &world.settings, &log);
    let visited = async |but: usize, since: Millis, what: &str| {
        for provider in &networks() {
            for account in accounts(&api, provider).drain(but..) {
                let namespace = format!("visits:{provider}");
                until_true(&format!("{what}: {account} of {provider}"), WITHIN, async || {
                    let known = store.standing(&namespace, std::slice::from_ref(&account)).await.unwrap();
                    known[0].as_ref().is_some_and(|known| known.checked_at.is_some_and(|at| at > since))
                })
                .await;
            }
        }
    };
    visited(0, 0, "all are visited").await;
    refuse(&api, status);
    for _ in 0..3 {
        visited(REFUSED, wall_ms(), "the others are visited").await;
    }
    assert!(api.counters().faulted > 2 * REFUSED as u64 * 4, "{:?}", api.counters());
    assert!(parked(&world.settings).is_empty(), "{:?}", parked(&world.settings));
    api.faults().clear();
    assert!(updater.terminate().success(), "{}", std::fs::read_to_string(&log).unwrap_or_default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_that_are_refused_with_401_delay_no_visit() {
    refused_accounts_delay_no_visit(401).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_that_are_refused_with_403_delay_no_visit() {
    refused_accounts_delay_no_visit(403).await;
}

async fn refused_sources_delay_no_poll(status: u16) {
    let (folder, api) = (tempfile::tempdir().unwrap(), simulated().await);
    let mut sources: Vec<(String, String)> = Vec::new();
    for (network, (kind, key)) in networks().iter().zip([
        ("user", "user_id"),
        ("user", "user_id"),
        ("account", "account_id"),
        ("author", "actor"),
    ]) {
        for (number, account) in accounts(&api, network).into_iter().enumerate() {
            let name = network.to_string().split(':').next().unwrap_or_default().to_owned();
            let setting = |key: &str| format!("poll.sources.{name}{number}.{key}");
            sources.push((setting("provider"), network.to_string()));
            sources.push((setting("kind"), kind.to_owned()));
            sources.push((setting(key), account));
        }
    }
    let mut settings: Vec<(&str, &str)> = sources.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    settings.extend([("poll.shortest", "1s"), ("poll.longest", "2s")]);
    let world = world(folder.path(), &api, &settings).await;
    let store = SqliteStore::open(&folder.path().join("tweets.db"), WITHIN).await.unwrap();
    let log = folder.path().join("log");
    let mut poll = Process::start(&["poll"], &world.settings, &log);
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    until_true("it is ready", WITHIN, async || {
        assert!(poll.runs(), "{}", logged());
        logged().contains("ready") || !store.sources(0).await.unwrap().is_empty()
    })
    .await;
    let polled = async |but: usize, since: Millis, what: &str| {
        for network in ["twitter", "x", "mastodon", "bluesky"] {
            for number in but..ACCOUNTS as usize {
                let name = format!("{network}{number}");
                until_true(&format!("{what}: {name}"), WITHIN, async || {
                    let row = store.sources(0).await.unwrap().into_iter().find(|row| row.source == name);
                    row.is_some_and(|row| row.saved_at.is_some_and(|at| at > since))
                })
                .await;
            }
        }
    };
    polled(0, 0, "all are polled").await;
    refuse(&api, status);
    for _ in 0..3 {
        polled(REFUSED, wall_ms(), "the others are polled").await;
    }
    assert!(api.counters().faulted > REFUSED as u64 * 4, "{:?}", api.counters());
    assert!(parked(&world.settings).is_empty(), "{:?}", parked(&world.settings));
    // The API refuses all sources: now the refusal is blamed on the credential.
    let fault = Fault::Status { status, code: None };
    api.faults().replace(vec![Rule { at: Endpoint::Timelines, ..Rule::from(fault) }]);
    until_true("a credential is parked", WITHIN, async || !parked(&world.settings).is_empty()).await;
    api.faults().clear();
    assert!(poll.terminate().success(), "{}", logged());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sources_that_are_refused_with_401_delay_no_poll() {
    refused_sources_delay_no_poll(401).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sources_that_are_refused_with_403_delay_no_poll() {
    refused_sources_delay_no_poll(403).await;
}
