//! Two pollers with one stream, as their users run them: it breaks, it is refused, one of them is killed, and no post is
//! lost, though the polled source comes by itself only after an hour.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{EmbeddedQueue, Queue, RedisQueue};
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, Endpoint, Fault, Rule, Running, SimulatorOptions};

use crate::support::process::{Process, run, text, variables};
use crate::support::redis::pool;
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const WITHIN: Duration = Duration::from_secs(60);
/// What is searched for, or whose posts they are.
const TARGET: &str = "2244994945";

fn logged(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}

/// Posts since then are all in the queue, each once, and in the store; answers how many.
async fn all_are_there(api: &Running, world: &World, queue: &dyn Queue, since: i64) -> usize {
    let due: Vec<String> = api.timeline(TARGET, since, wall_ms()).iter().map(|post| post.id.to_string()).collect();
    let are_there = async || queue.locate(&due).await.unwrap().iter().all(|of| of.len() == 1);
    until_true("every post is in the queue, once", WITHIN, are_there).await;
    let recorded = world.store.standing(queue.namespace(), &due).await.unwrap();
    assert!(recorded.iter().all(Option::is_some), "and in the store, before that");
    for id in &due {
        let history = world.store.history(queue.namespace(), id).await.unwrap();
        let times = since - 1_000..=wall_ms();
        assert!(history.first().is_some_and(|row| times.contains(&row.checked_at)), "{id}: {history:?}");
    }
    due.len()
}

async fn survives(backends: Backends) {
    let folder = tempfile::tempdir().unwrap();
    let options = SimulatorOptions {
        posts_per_second: 20.0,
        missing_share: 0.1,
        stream_rules: vec![TARGET.to_owned()],
        ..SimulatorOptions::default()
    };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let mut world = World::new(backends, folder.path(), &api.base_url()).await;
    world.settings.extend(variables(&[
        ("x.api", &api.base_url()),
        ("providers", "x"),
        ("poll.shortest", "1h"),
        ("poll.longest", "1h"),
        // A source is nobody's for lookup.timeout + 5 × updater.save_timeout when its poller was killed.
        ("lookup.timeout", "1s"),
        ("updater.save_timeout", "500ms"),
        // A stream is nobody's for so long.
        ("updater.lease", "9s"),
        ("poll.sources.rust.provider", "x"),
        // A search of X is 30 s behind; what a user writes is not.
        ("poll.sources.rust.kind", "user"),
        ("poll.sources.rust.user_id", TARGET),
        ("poll.streams.rust.provider", "x"),
        ("poll.streams.rust.fills", "rust"),
    ]));
    let namespace = Provider::X.namespace();
    let queue: Arc<dyn Queue> = match &world.redis {
        Some(redis) => Arc::new(RedisQueue::new(pool(&redis.url), &namespace)),
        None => Arc::new(EmbeddedQueue::open(&folder.path().join("jobs.db"), &namespace, WITHIN).await.unwrap()),
    };
    // One fault a connection, in this order.
    for fault in [
        Fault::Drops { after: 40 },
        Fault::HalfLine { after: 20 },
        Fault::Status { status: 503, code: None },
        Fault::Close,
        Fault::Line { after: 10, line: "{\"id\":".to_owned() },
    ] {
        api.faults().add(Rule { times: Some(1), at: Endpoint::Stream, ..Rule::from(fault) });
    }
    let logs = [folder.path().join("one.log"), folder.path().join("other.log")];
    let start = |log: &Path| Process::start(&["poll"], &world.settings, log);
    let begun = wall_ms();
    let mut pollers = [Some(start(&logs[0])), Some(start(&logs[1]))];
    until_true("it got over all of them", WITHIN, async || {
        api.faults().rules().is_empty()
            && logs.iter().any(|log| logged(log).contains("the poller skips a line of a stream"))
    })
    .await;
    let before = all_are_there(&api, &world, &*queue, begun).await;
    assert!(before > 100, "{before}");

    // The one that is connected dies; the other has to wait for its lease, and posts are made meanwhile.
    let has_it = |log: &Path| logged(log).contains("this poller holds the stream");
    assert!(
        has_it(&logs[0]) != has_it(&logs[1]),
        "one of them is connected:\n{}\n{}",
        logged(&logs[0]),
        logged(&logs[1])
    );
    let first = usize::from(has_it(&logs[1]));
    let (connects, killed) = (api.streams().connects, wall_ms());
    pollers[first].take().unwrap().kill();
    until_true("the other has it", WITHIN, async || api.streams().connects > connects).await;
    let away = wall_ms() - killed;
    assert!(has_it(&logs[1 - first]) && away < 12_000, "it was away for {away} ms, with a lease of 9 s");
    let in_the_gap = all_are_there(&api, &world, &*queue, killed).await;
    assert!(in_the_gap > 40, "{in_the_gap}");

    // One that is stopped lets go at once, to one that was started again.
    let again = start(&logs[first]);
    until_true("it runs again", WITHIN, async || logged(&logs[first]).matches("poller runs").count() == 2).await;
    let (connects, stopped) = (api.streams().connects, wall_ms());
    let status = pollers[1 - first].take().unwrap().terminate();
    assert_eq!(status.code(), Some(0), "{}", logged(&logs[1 - first]));
    until_true("the next has it", WITHIN, async || api.streams().connects > connects).await;
    let away = wall_ms() - stopped;
    let whole = all_are_there(&api, &world, &*queue, begun).await;
    assert_eq!(again.terminate().code(), Some(0), "{}", logged(&logs[first]));
    let streams = api.streams();
    assert_eq!(streams.collisions, 0, "no two were ever connected: {streams:?}");
    println!(
        "{backends:?}: {whole} posts, {} of them by the stream in {} connections, away for {away} ms when \
         stopped; none lost",
        streams.posts, streams.connects
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_over_files() {
    survives(Backends { redis: false, postgres: false }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_over_servers() {
    survives(Backends { redis: true, postgres: true }).await;
}

#[test]
fn a_stream_whose_credential_cannot_be_told_is_refused() {
    let settings = variables(&[
        ("providers", "x"),
        ("x.api", "http://127.0.0.1:9"),
        ("log.level", "error"),
        ("poll.sources.rust.provider", "x"),
        ("poll.sources.rust.kind", "search"),
        ("poll.sources.rust.query", "rust"),
        ("poll.streams.rust.provider", "x"),
        ("poll.streams.rust.fills", "rust"),
        ("poll.streams.rust.credential", "other"),
    ]);
    let output = run(&["poll"], &settings);
    assert_eq!(output.status.code(), Some(64));
    let said = text(&output.stderr);
    assert!(said.contains("poll.streams.rust.credential (\"other\") must be one of anonymous"), "{said}");
}

#[test]
fn a_stream_of_api_v1_is_refused_by_every_source_of_settings() {
    for (key, value, says) in [
        ("poll.streams.rust.provider", "twitter", "twitter has no streams any more"),
        ("poll.streams.rust.track", "rust", "track, follow and locations were removed"),
    ] {
        let settings = variables(&[
            ("twitter.api", "http://127.0.0.1:9"),
            ("poll.sources.rust.kind", "search"),
            ("poll.sources.rust.query", "rust"),
            ("poll.streams.rust.fills", "rust"),
            ("poll.streams.rust.provider", "x"),
            (key, value),
        ]);
        let output = run(&["poll"], &settings);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains(says) && said.contains("poll.streams.rust"), "{said}");
    }
}
