//! Networks that empty the last page of a list: it looks as if the oldest members had left.

use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::provider::Provider;
use twitter_updater::model::relation::ListKind;
use twitter_updater::simulator::{self, Fault, Running, SimulatorOptions};
use twitter_updater::store::CrawlRecord;

use crate::support::process::{Process, run, run_with_input, text, variables};
use crate::support::wait::until;
use crate::support::world::{Backends, World};

const WITHIN: Duration = Duration::from_secs(60);
/// Members of a page.
const PAGE: usize = 60;

async fn simulated() -> Running {
    let options = SimulatorOptions {
        calls_per_window: 0,
        x_calls_per_window: 0,
        mastodon_calls_per_window: 0,
        bluesky_calls_per_window: 0,
        accounts: 2_000,
        accounts_since: wall_ms() - 3_600_000,
        // No follow begins or ends during the test.
        follow_changes: Duration::from_secs(365 * 86_400),
        most_followers: 200,
        ..SimulatorOptions::default()
    };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

/// A list whose last page holds more members than one crawl may remove.
fn list(api: &Running, provider: &Provider) -> (String, usize) {
    let people = api.people();
    let size = |owner| people.list(provider, ListKind::Followers, owner, wall_ms()).len();
    let long = |(_, size): &(u64, usize)| *size > 2 * PAGE && (30..PAGE).contains(&(size % PAGE));
    let (owner, size) = (0..2_000).map(|owner| (owner, size(owner))).find(long).expect("a long list");
    (people.id(provider, owner), size)
}

async fn is_confirmed(backends: Backends, provider: Provider) {
    let folder = tempfile::tempdir().unwrap();
    let api = simulated().await;
    let base = api.base_url();
    let mut world = World::new(backends, folder.path(), &base).await;
    world.settings.extend(variables(&[
        ("providers", &provider.to_string()),
        ("x.api", &base),
        ("mastodon.instances.social.api", &base),
        ("bluesky.api", &base),
        ("relations.collect", "followers"),
        ("relations.revisit", "1h"),
        ("relations.complete_every", "0s"),
        ("relations.page", &PAGE.to_string()),
        // The share of a list that may leave at once is not what decides here.
        ("relations.shrink", "0.9"),
    ]));
    let (owner, size) = list(&api, &provider);
    let pipeline = format!("followers:{provider}");
    let put_in = run_with_input(&["enqueue", "--pipeline", &pipeline, "-"], &world.settings, owner.as_bytes());
    assert!(put_in.status.success(), "{}", text(&put_in.stderr));
    let log = folder.path().join("updater.log");
    let updater = Process::start(&["updater"], &world.settings, &log);
    let mut last = 0;
    let mut next = async || {
        let output = run(&["refresh", "--pipeline", &pipeline, &owner], &world.settings);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let crawl = until("the list is read", WITHIN, async || {
            let crawls = world.edges.crawls(&pipeline, &owner, 9).await.unwrap();
            crawls.into_iter().find(|crawl| crawl.number > last && crawl.ended_at.is_some())
        })
        .await;
        last = crawl.number;
        let CrawlRecord { ended, found, vanished, withheld, .. } = crawl;
        (ended.unwrap(), found as usize, vanished as usize, withheld as usize)
    };
    let whole = || ("complete".to_owned(), size, 0, 0);
    assert_eq!(next().await, whole(), "{provider}");
    for times in [1, 2] {
        api.faults().add(Fault::EmptyLastPage);
        let (ended, found, vanished, withheld) = next().await;
        assert_eq!((&*ended, found + withheld, vanished), ("withheld", size, 0), "{provider}: {found}");
        assert!((21..=PAGE).contains(&withheld), "{provider}: {withheld}");
        if times == 1 {
            // The fault ends: the members are back.
            api.faults().clear();
            assert_eq!(next().await, whole(), "{provider}");
        } else {
            let cut_short = ("complete".to_owned(), found, withheld, 0);
            assert_eq!(next().await, cut_short, "{provider}: the second crawl agrees");
        }
    }
    assert!(updater.terminate().success(), "{}", std::fs::read_to_string(&log).unwrap_or_default());
    api.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_last_page_ends_many_follows_only_when_a_second_crawl_agrees_on_redis_and_postgres() {
    is_confirmed(Backends { redis: true, postgres: true }, Provider::Twitter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_last_page_ends_many_follows_only_when_a_second_crawl_agrees_embedded() {
    for provider in ["twitter", "x", "mastodon:social", "bluesky"] {
        is_confirmed(Backends { redis: false, postgres: false }, provider.parse().unwrap()).await;
    }
}
