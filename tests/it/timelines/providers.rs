//! `poll` with sources of several providers in one process: each with its namespace, and none stopped by another.

use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{EmbeddedQueue, Inspection};
use twitter_updater::model::pipeline_id::PipelineId;
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, Running, SimulatorOptions};
use twitter_updater::store::{Positions, SqliteStore, Store};

use super::process::POINTS;
use crate::support::http::{Canned, CannedServer};
use crate::support::process::{Process, Variables, run, text, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const WITHIN: Duration = Duration::from_secs(60);

fn social() -> Provider {
    Provider::Mastodon("social".to_owned())
}

async fn simulated() -> Running {
    let options = SimulatorOptions {
        posts_per_second: 20.0,
        missing_share: 0.1,
        x_search_behind: Duration::from_secs(1),
        mastodon_kept: Duration::from_millis(500),
        ..SimulatorOptions::default()
    };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

/// A source of each provider, with short terms.
fn sources(x_api: &str, api: &str) -> Variables {
    variables(&[
        ("x.api", x_api),
        ("mastodon.instances.social.api", api),
        ("bluesky.api", api),
        ("providers", "twitter, x, mastodon:social, bluesky"),
        ("poll.shortest", "1s"),
        ("poll.longest", "2s"),
        ("poll.pages", "3"),
        ("lookup.timeout", "500ms"),
        ("updater.save_timeout", "400ms"),
        ("poll.sources.one.kind", "user"),
        ("poll.sources.one.screen_name", "one"),
        ("poll.sources.two.provider", "x"),
        ("poll.sources.two.kind", "search"),
        ("poll.sources.two.query", "two"),
        ("poll.sources.three.provider", "mastodon:social"),
        ("poll.sources.three.kind", "hashtag"),
        ("poll.sources.three.hashtag", "three"),
        ("poll.sources.three.local", "true"),
        ("poll.sources.four.provider", "bluesky"),
        ("poll.sources.four.kind", "author"),
        ("poll.sources.four.actor", "four.example.org"),
        ("poll.sources.four.out_of_order", "1s"),
    ])
}

/// Until all of them are in the provider's queue, once, and recorded before that.
async fn are_there(folder: &std::path::Path, store: &dyn Store, provider: &Provider, due: &[String]) {
    let namespace = provider.namespace();
    let queue = EmbeddedQueue::open(&folder.join("jobs.db"), &namespace, WITHIN).await.unwrap();
    let all_are_there = async || queue.locate(due).await.unwrap().iter().all(|of| of.len() == 1);
    until_true(&format!("every post is in {namespace}, once"), WITHIN, all_are_there).await;
    let recorded = store.standing(&namespace, due).await.unwrap();
    assert!(due.len() > 20 && recorded.iter().all(Option::is_some), "{namespace}: {}", due.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_every_point_none_of_four_networks_loses_a_post() {
    let folder = tempfile::tempdir().unwrap();
    let api = simulated().await;
    let mut world = World::new(Backends { redis: false, postgres: false }, folder.path(), &api.base_url()).await;
    world.settings.extend(sources(&api.base_url(), &api.base_url()));
    let log = folder.path().join("poll.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    let store = SqliteStore::open(&folder.path().join("tweets.db"), WITHIN).await.unwrap();
    let endpoints = ["statuses/user_timeline", "tweets/search/recent", "statuses", "getAuthorFeed"];
    let places = [Provider::Twitter, Provider::X, social(), Provider::Bluesky];
    let places =
        places.iter().zip(endpoints).map(|(provider, endpoint)| PipelineId::timelines(provider, endpoint).to_string());
    let places: Vec<_> = places.zip(["one", "two", "three", "four"]).collect();
    // A source begins with its newest page, and from then on misses nothing.
    let poller = Process::start(&["poll"], &world.settings, &log);
    for (namespace, name) in &places {
        let has_begun = async || store.saved_source(namespace, name).await.unwrap().position.is_some();
        until_true("it has a position", WITHIN, has_begun).await;
    }
    assert!(poller.terminate().success(), "{}", logged());
    let begun = wall_ms();
    for point in POINTS {
        let mut poller = Process::start(&["poll"], &world.with("TWITTER_UPDATER_CRASH_AT", point), &log);
        let ended = poller.ended(WITHIN).await;
        assert!(std::os::unix::process::ExitStatusExt::signal(&ended).is_some(), "{point}: {}", logged());
    }
    let poller = Process::start(&["poll"], &world.settings, &log);
    let until = wall_ms();
    let tweets = |target| api.timeline(target, begun, until).iter().map(|post| post.id.to_string()).collect::<Vec<_>>();
    let of_each = [
        (Provider::Twitter, tweets("@one")),
        (Provider::X, tweets("two")),
        (social(), api.statuses("#three", begun, until)),
        (Provider::Bluesky, api.bluesky_posts("@four.example.org", begun, until)),
    ];
    for (provider, due) in &of_each {
        are_there(folder.path(), &*world.store, provider, due).await;
        println!("{provider}: {} posts, killed {} times, none lost", due.len(), POINTS.len());
    }
    assert_eq!(poller.terminate().code(), Some(0), "{}", logged());
    // Each has its position where no other has one.
    for (namespace, own) in &places {
        for (_, name) in &places {
            assert_eq!(
                store.saved_source(namespace, name).await.unwrap().position.is_some(),
                name == own,
                "{namespace} {name}"
            );
        }
        assert_eq!(store.gaps(namespace, own).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_can_never_work_stops_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let api = simulated().await;
    let gone = CannedServer::start(Canned::new(410, r#"{"title":"Gone","type":"about:blank","status":410}"#)).await;
    let mut world = World::new(Backends { redis: false, postgres: false }, folder.path(), &api.base_url()).await;
    world.settings.extend(sources(&gone.base_url(), &api.base_url()));
    let log = folder.path().join("poll.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    let mut poller = Process::start(&["poll"], &world.settings, &log);
    until_true("it says that X is over", WITHIN, async || logged().contains("stopped for good")).await;
    let begun = wall_ms();
    until_true("time passes", WITHIN, async || wall_ms() > begun + 2_500).await;
    let until = wall_ms();
    are_there(folder.path(), &*world.store, &social(), &api.statuses("#three", begun, until)).await;
    let tweets: Vec<String> = api.timeline("@one", begun, until).iter().map(|post| post.id.to_string()).collect();
    are_there(folder.path(), &*world.store, &Provider::Twitter, &tweets).await;
    assert!(poller.runs());
    assert_eq!(poller.terminate().code(), Some(69), "what was wrong is said at the end, too: {}", logged());
    assert!(logged().contains("no longer has this endpoint"), "{}", logged());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_none_can_ever_work_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let gone = CannedServer::start(Canned::new(410, r#"{"errors":[{"code":453,"message":"no"}]}"#)).await;
    let mut world = World::new(Backends { redis: false, postgres: false }, folder.path(), &gone.base_url()).await;
    world.settings.extend(variables(&[
        ("x.api", &gone.base_url()),
        ("providers", "twitter, x"),
        ("poll.sources.one.kind", "home"),
        ("poll.sources.two.provider", "x"),
        ("poll.sources.two.kind", "search"),
        ("poll.sources.two.query", "two"),
    ]));
    let log = folder.path().join("poll.log");
    let mut poller = Process::start(&["poll"], &world.settings, &log);
    assert_eq!(poller.ended(WITHIN).await.code(), Some(69), "{}", std::fs::read_to_string(&log).unwrap());
}

/// Its posts would fill a queue that no updater empties and no page shows.
#[test]
fn a_source_of_a_provider_that_is_not_looked_up_is_one_line() {
    for (provider, kind, key, value) in [
        ("x", "user", "user_id", "12"),
        ("bluesky", "author", "actor", "bsky.app"),
        ("mastodon:a", "hashtag", "hashtag", "b"),
    ] {
        let settings = variables(&[
            ("mastodon.instances.a.api", "https://a.example"),
            ("poll.sources.one.provider", provider),
            ("poll.sources.one.kind", kind),
            (&format!("poll.sources.one.{key}"), value),
        ]);
        for role in ["poll", "ops", "updater"] {
            let refused = run(&[role, "--listen", "127.0.0.1:0"], &settings);
            let said = text(&refused.stderr);
            assert_eq!(refused.status.code(), Some(64), "{said}");
            let why = format!("poll.sources.one.provider: {provider} is not in providers");
            assert!(said.contains(&why) && said.lines().count() == 1, "{said}");
        }
    }
}

#[test]
fn a_source_of_an_instance_without_a_section_is_one_line() {
    let output = run(
        &["poll"],
        &variables(&[("poll.sources.a.provider", "mastodon:social"), ("poll.sources.a.kind", "public")]),
    );
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("add [mastodon.instances.social]"), "{}", text(&output.stderr));
}
