//! Accounts of all four networks in one process; and the cheapest sign of life.

use std::time::Duration;

use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::model::post::ItemState;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, Running, SimulatorOptions};

use crate::support::process::{Process, run_with_input, text, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const WITHIN: Duration = Duration::from_secs(60);
const ACCOUNTS: u64 = 8;

async fn simulated(posting_day: Duration) -> Running {
    let options = SimulatorOptions {
        calls_per_window: 0,
        x_calls_per_window: 0,
        mastodon_calls_per_window: 0,
        bluesky_calls_per_window: 0,
        accounts: 1_000,
        account_changes: Duration::from_secs(3_600),
        accounts_since: wall_ms() - 60_000,
        posts_per_second: 2.0,
        posting_day,
        posts_late: Duration::from_millis(300),
        mastodon_kept: Duration::from_millis(300),
        missing_share: 0.0,
        ..SimulatorOptions::default()
    };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

/// Ids of the posts of an account that were made in that time.
fn posts(api: &Running, of: &Provider, account: &str, from: Millis, to: Millis) -> Vec<String> {
    match of {
        Provider::Mastodon(_) => api.statuses(account, from, to),
        Provider::Bluesky => api.bluesky_posts(&format!("@{account}"), from, to),
        Provider::Twitter | Provider::X => {
            api.timeline(account, from, to).iter().map(|post| post.id.to_string()).collect()
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_of_all_four_networks_are_visited() {
    let folder = tempfile::tempdir().unwrap();
    let api = simulated(Duration::ZERO).await;
    let mut world = World::new(Backends { redis: false, postgres: false }, folder.path(), &api.base_url()).await;
    let base = api.base_url();
    world.settings.extend(variables(&[
        ("providers", "twitter, x, mastodon:social, bluesky"),
        ("x.api", &base),
        ("mastodon.instances.social.api", &base),
        ("bluesky.api", &base),
        ("visits.collect", "true"),
        ("visits.every", "2s"),
        ("visits.shortest", "1s"),
        ("visits.longest", "4s"),
        ("tweet_age", "1h: 30m"),
    ]));
    let networks = [Provider::Twitter, Provider::X, Provider::Mastodon("social".to_owned()), Provider::Bluesky];
    let accounts = |of: &Provider| (0..ACCOUNTS).map(|number| api.people().id(of, number)).collect::<Vec<_>>();
    for provider in &networks {
        let (name, ids) = (provider.to_string(), accounts(provider).join("\n"));
        let arguments = ["--provider", &name, "accounts", "follow", "-"];
        let output = run_with_input(&arguments, &world.settings, ids.as_bytes());
        assert!(output.status.success(), "{provider}: {}", text(&output.stderr));
    }
    let log = folder.path().join("updater.log");
    let updater = Process::start(&["updater"], &world.settings, &log);
    let visited_since = async |since: Millis| {
        let mut visited = 0;
        for provider in &networks {
            let known = world.store.standing(&format!("visits:{provider}"), &accounts(provider)).await.unwrap();
            visited += known.iter().flatten().filter(|known| known.checked_at.is_some_and(|at| at > since)).count();
        }
        visited == networks.len() * ACCOUNTS as usize
    };
    until_true("each account was visited", WITHIN, async || visited_since(0).await).await;
    let from = wall_ms();
    until_true("each account was visited again", WITHIN, async || visited_since(from + 3_000).await).await;
    let to = wall_ms();
    until_true("and once more", WITHIN, async || visited_since(to + 1_000).await).await;
    assert!(updater.terminate().success(), "{}", std::fs::read_to_string(&log).unwrap_or_default());
    for provider in &networks {
        let all = accounts(provider);
        let ids: Vec<String> = all.iter().flat_map(|account| posts(&api, provider, account, from, to)).collect();
        let known = world.store.standing(&provider.namespace(), &ids).await.unwrap();
        let stored = known.iter().flatten().count();
        println!("{provider}: {stored} of {} posts", ids.len());
        assert!(ids.len() > 20 && stored == ids.len(), "{provider}: {stored} of {}", ids.len());
        // None was looked up yet, and each has the counts of a visit, with its time.
        for (id, known) in ids.iter().zip(known.iter().flatten()) {
            let history = world.store.history(&provider.namespace(), id).await.unwrap();
            let first = history.first().unwrap_or_else(|| panic!("{provider}: {id} has no counts"));
            assert!((from - 1_000..=wall_ms()).contains(&first.checked_at), "{provider}: {first:?}");
            assert_eq!((known.lookups, known.checked_at.is_some()), (0, true), "{provider}: {id}");
        }
    }
    api.stop().await;
}

/// A round of visits would take an hour; a lookup of all profiles takes one call, and tells who has posted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_is_visited_as_soon_as_a_lookup_shows_that_it_has_posted() {
    let folder = tempfile::tempdir().unwrap();
    let api = simulated(Duration::from_secs(300)).await;
    let mut world = World::new(Backends { redis: false, postgres: false }, folder.path(), &api.base_url()).await;
    world.settings.extend(variables(&[
        ("visits.collect", "true"),
        ("visits.every", "1h"),
        ("visits.shortest", "1h"),
        ("visits.longest", "2h"),
        ("accounts.collect", "true"),
        ("accounts.active", "1s"),
        ("accounts.idle", "1s"),
        ("accounts.frozen", "1s"),
        ("tweet_age", "1h: 30m"),
    ]));
    let accounts: Vec<String> = (0..40).map(|number| api.people().id(&Provider::Twitter, number)).collect();
    let ids = accounts.join("\n");
    for arguments in [["accounts", "follow", "-"], ["enqueue", "--accounts", "-"]] {
        let output = run_with_input(&arguments, &world.settings, ids.as_bytes());
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let log = folder.path().join("updater.log");
    let updater = Process::start(&["updater"], &world.settings, &log);
    let lookups = async || {
        let known = world.store.standing("visits:twitter", &accounts).await.unwrap();
        known.iter().map(|known| known.as_ref().map_or(0, |known| known.lookups)).collect::<Vec<_>>()
    };
    until_true("each account was visited", WITHIN, async || lookups().await.iter().all(|visits| *visits > 0)).await;
    let from = wall_ms();
    // Some post, and are visited for it; their posts are there within seconds.
    until_true("posts of this time are stored", WITHIN, async || {
        let to = wall_ms() - 3_000;
        let ids: Vec<String> =
            accounts.iter().flat_map(|account| posts(&api, &Provider::Twitter, account, from, to)).collect();
        let known = world.store.standing(NAMESPACE, &ids).await.unwrap();
        ids.len() >= 15 && known.iter().all(Option::is_some)
    })
    .await;
    let visits = lookups().await;
    let all: i64 = visits.iter().sum();
    println!("{all} visits of {} accounts: {visits:?}", accounts.len());
    // Who did not post is left alone; only the first lookup of a profile cannot tell.
    assert!(visits.iter().filter(|visits| **visits <= 2).count() >= 10, "{visits:?}");
    assert!(updater.terminate().success(), "{}", std::fs::read_to_string(&log).unwrap_or_default());
    let known = world.store.standing("visits:twitter", &accounts).await.unwrap();
    assert!(known.iter().flatten().all(|known| known.state == ItemState::Live));
    api.stop().await;
}
