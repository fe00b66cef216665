//! Posts and the accounts that follow from them, by eight processes with two credentials and too few calls for either: both
//! endpoints are used up, the never seen accounts go first, and the posts are no later for it. An hour takes twelve seconds.

use std::collections::HashMap;
use std::time::Duration;

use secrecy::SecretString;
use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::model::post::TweetId;
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, ClosedWindow, Running, SimulatedCredential, SimulatedKeys, SimulatorOptions};
use twitter_updater::store::Listing;

use crate::support::accounts_of_posts::PROFILES;
use crate::support::process::{Process, Variables, run_with_input, text, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const PROCESSES: usize = 8;
const NAMES: [&str; 2] = ["alice", "bob"];
const CALLS_PER_WINDOW: u32 = 12;
const WINDOW: Duration = Duration::from_secs(3);
/// Accounts known from the start: a round takes 20,000 ÷ (12 × 2 × 100) windows.
const ACCOUNTS: u64 = 20_000;
/// Posts, due every three seconds: more than twice what the quota carries.
const POSTS: u32 = 6_000;
const INTERVAL: Millis = 3_000;
/// Closed windows of each credential and endpoint that are looked at, after the first.
const WINDOWS: usize = 6;
/// New posts that come with each closed window of the storm: ten times the usual.
const STORM: u32 = 250;

/// What a run came to.
struct Came {
    /// Mean time between two lookups of a post that was there from the start, ms.
    between: f64,
    /// Share of the calls of closed windows that were used, by endpoint.
    used: Vec<(&'static str, f64)>,
    /// Share of the calls that were refused.
    refused: f64,
}

async fn api() -> Running {
    let credential = |name: &str| {
        let secret = |part| SecretString::from(format!("{part}-of-{name}"));
        let keys = SimulatedKeys::User {
            consumer_key: secret("consumer_key"),
            consumer_secret: secret("consumer_secret"),
            token: secret("token"),
            token_secret: secret("token_secret"),
        };
        SimulatedCredential { name: name.to_owned(), keys }
    };
    let options = SimulatorOptions {
        credentials: Some(NAMES.map(credential).into()),
        calls_per_window: CALLS_PER_WINDOW,
        window: WINDOW,
        latency: Duration::from_millis(40),
        jitter: Duration::from_millis(40),
        body_padding: 0,
        missing_share: 0.0,
        count_ids: true,
        ..SimulatorOptions::default()
    };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

fn enqueue(arguments: &[&str], settings: &Variables, ids: &[String]) {
    let output = run_with_input(&[&["enqueue"], arguments, &["-"]].concat(), settings, ids.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn posts(before: u32, count: u32) -> Vec<String> {
    let made = wall_ms() - 86_400_000;
    (before..before + count).map(|n| TweetId::at(made - i64::from(n), n).to_string()).collect()
}

/// Windows that began at `since` or later and are closed, without the first of each credential.
fn closed(api: &Running, endpoint: &str, since: Millis) -> Vec<ClosedWindow> {
    let of = |name: &str| {
        let closed = api.closed_windows().into_iter();
        let its = closed.filter(|window| {
            let is_its = window.who.split_once(' ').is_some_and(|(_, who)| who == name);
            is_its && window.endpoint.contains(endpoint) && window.span.0 >= since
        });
        its.skip(1).take(WINDOWS).collect::<Vec<_>>()
    };
    NAMES.iter().flat_map(|name| of(name)).collect()
}

/// Eight processes, for a storm of posts and a little more.
async fn run(with_accounts: bool) -> Came {
    let folder = tempfile::tempdir().unwrap();
    let api = api().await;
    let mut world = World::new(Backends { redis: true, postgres: true }, folder.path(), &api.base_url()).await;
    world.settings.extend(variables(&[
        ("tweet_age", "30d: 3s"),
        ("updater.lease", "20s"),
        ("updater.save_timeout", "5s"),
        ("lookup.timeout", "5s"),
        ("store.postgres.connections", "4"),
        ("accounts.collect", if with_accounts { "true" } else { "false" }),
        ("accounts.active", "3s"),
        ("accounts.idle", "3s"),
        ("accounts.frozen", "3s"),
    ]));
    for name in NAMES {
        let of = |part: &str| format!("twitter.credentials.{name}.{part}");
        world.settings.extend(variables(&[(&of("kind"), "user")]));
        for part in ["consumer_key", "consumer_secret", "token", "token_secret"] {
            world.settings.extend(variables(&[(&of(part), &format!("{part}-of-{name}"))]));
        }
    }
    let known = posts(0, POSTS);
    enqueue(&["--first", "interval"], &world.settings, &known);
    let accounts: Vec<String> = (0..ACCOUNTS).map(|n| api.people().id(&Provider::Twitter, n)).collect();
    if with_accounts {
        enqueue(&["--accounts"], &world.settings, &accounts);
    }
    let log = folder.path().join("updaters.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    let mut updaters: Vec<Process> = (0..PROCESSES)
        .map(|number| {
            Process::start(&["updater"], &world.with("TWITTER_UPDATER__UPDATER__NAME", &format!("u{number}")), &log)
        })
        .collect();
    let lookups_of = |lookups: &HashMap<String, u64>, ids: &[String]| -> u64 {
        ids.iter().map(|id| lookups.get(id).copied().unwrap_or(0)).sum()
    };
    until_true("all posts were looked up", Duration::from_secs(60), async || {
        let lookups = api.lookups();
        known.iter().all(|id| lookups.contains_key(id))
    })
    .await;

    // The storm: new posts, by accounts of which most were never seen, come while others are waited for.
    let since = wall_ms();
    let before = lookups_of(&api.lookups(), &known);
    let endpoints: &[&str] = if with_accounts { &["statuses/lookup", "users/lookup"] } else { &["statuses/lookup"] };
    let queue = world.queue_of(folder.path(), PROFILES).await;
    let (mut came, mut too_soon, mut some_wait) = (0, 0, true);
    until_true("enough windows are closed", WINDOW * (4 * WINDOWS as u32), async || {
        let windows = closed(&api, "statuses/lookup", since).len();
        if came <= windows && windows < 2 * WINDOWS {
            enqueue(&["--first", "interval"], &world.settings, &posts(POSTS + came as u32 * STORM, STORM));
            came += 1;
        }
        let asked = api.lookups();
        let never_seen = queue.stats().await.unwrap().lanes.into_iter().find(|lane| lane.lane == "first");
        // Once all were asked for, others come first until the next posts bring new accounts.
        some_wait &= never_seen.is_some_and(|lane| lane.due > 0);
        if some_wait {
            too_soon = accounts.iter().filter(|id| asked.get(*id).is_some_and(|times| *times > 1)).count();
        }
        endpoints.iter().all(|endpoint| closed(&api, endpoint, since).len() == 2 * WINDOWS)
    })
    .await;
    let span = (wall_ms() - since) as f64;
    let made = lookups_of(&api.lookups(), &known) - before;
    let of = |endpoint: &'static str| {
        let windows = closed(&api, endpoint, since);
        let sum = |figure: fn(&ClosedWindow) -> u32| windows.iter().map(|of| f64::from(figure(of))).sum::<f64>();
        (endpoint, sum(|of| of.used) / sum(|of| of.limit), sum(|of| of.refused), sum(|of| of.used))
    };
    let all: Vec<_> = endpoints.iter().map(|endpoint| of(endpoint)).collect();
    println!("{all:?} in {span} ms, {made} lookups");
    if with_accounts {
        until_true("all accounts were looked up", Duration::from_secs(120), async || {
            // By a call, or as the author of a post.
            world.all_fresh_in(PROFILES, &accounts, 0).await
        })
        .await;
        println!("{too_soon} accounts were asked for again while others were never asked for");
        assert!(too_soon <= ACCOUNTS as usize / 50, "{too_soon}");
        let page = world.store.page(PROFILES, Listing::Tracked, None, 50_000).await.unwrap();
        println!("{} accounts, {} of them by posts of the storm", page.len(), page.len() as u64 - ACCOUNTS);
        assert!(page.len() as u64 > ACCOUNTS, "posts bring accounts");
    }
    for updater in &mut updaters {
        assert!(updater.runs(), "{}", logged());
    }
    for updater in updaters {
        assert!(updater.terminate().success(), "{}", logged());
    }
    api.stop().await;
    let (refused, used) = all.iter().fold((0.0, 0.0), |sum, of| (sum.0 + of.2, sum.1 + of.3));
    Came {
        between: span * f64::from(POSTS) / made as f64,
        used: all.iter().map(|of| (of.0, of.1)).collect(),
        refused: refused / (refused + used),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posts_are_no_later_for_the_accounts_beside_them() {
    let [alone, beside] = [run(false).await, run(true).await];
    let late = |of: &Came| of.between - INTERVAL as f64;
    println!(
        "posts are {:.2} s late alone, {:.2} s with accounts beside them; used {:?}, then {:?}; refused {:.4}",
        late(&alone) / 1_000.0,
        late(&beside) / 1_000.0,
        alone.used,
        beside.used,
        beside.refused
    );
    assert!(late(&alone) > 1_000.0, "more is due than the quota carries");
    assert!(late(&beside) <= 1.05 * late(&alone), "{} against {}", late(&beside), late(&alone));
    assert!(beside.used.iter().all(|(_, share)| *share >= 0.97), "{:?}", beside.used);
    assert!(beside.refused <= 0.02, "{}", beside.refused);
}
