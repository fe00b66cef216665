//! Edited posts of X, followed through their versions by the real program, which is killed at each point on the way.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::post::{Tweet, TweetId};
use twitter_updater::model::provider::Provider;
use twitter_updater::providers::lookup::{Lookup, Outcome};
use twitter_updater::providers::x_v2::{XV2, XV2Options};
use twitter_updater::simulator::{self, SimulatorOptions};

use crate::support::http::anonymous;
use crate::support::process::{Process, run_with_input, text, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const WITHIN: Duration = Duration::from_secs(60);
const SIGABRT: i32 = 6;
/// Where a lookup can end.
const POINTS: [&str; 7] =
    ["after_claim", "during_lookup", "after_answer", "before_commit", "after_commit", "before_settle", "after_settle"];

fn found(outcome: &Outcome) -> &Tweet {
    match outcome {
        Outcome::Found(tweet) => tweet,
        other => panic!("{other:?}"),
    }
}

/// Every version is in the history, in order, and the newest is what is stored, though a worker ends at `point`.
async fn followed(backends: Backends, point: &str) {
    let folder = tempfile::tempdir().unwrap();
    let options = SimulatorOptions {
        latency: Duration::from_millis(30),
        jitter: Duration::from_millis(10),
        calls_per_window: 0,
        missing_share: 0.0,
        withheld_share: 0.0,
        retweet_share: 0.0,
        edited_share: 1.0,
        growth: Duration::from_secs(1), // over by now: counts stay as they are
        ..SimulatorOptions::default()
    };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let mut world = World::new(backends, folder.path(), &api.base_url()).await;
    world.settings.extend(variables(&[("providers", "x"), ("x.api", &api.base_url())]));
    // All edits are over; three at the least.
    let day_ago = wall_ms() - 86_400_000;
    let history = |id: TweetId| api.world().history(id, wall_ms());
    let posts: Vec<TweetId> =
        (0..200).map(|n| TweetId::at(day_ago - i64::from(n), n)).filter(|id| history(*id).len() > 3).take(20).collect();
    assert_eq!(posts.len(), 20);
    let ids: Vec<String> = posts.iter().map(ToString::to_string).collect();
    let output = run_with_input(&["enqueue", "-"], &world.settings, ids.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));

    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    // The second time it comes by: the first version is stored, or was answered.
    let mut doomed = Process::start(&["updater"], &world.with("TWITTER_UPDATER_CRASH_AT", &format!("{point}:2")), &log);
    let status = doomed.ended(WITHIN).await;
    assert_eq!(status.signal(), Some(SIGABRT), "{point}: {status}\n{}", logged());
    let mut heir = Process::start(&["updater"], &world.settings, &log);
    let namespace = Provider::X.namespace();
    let options = XV2Options { base_url: api.base_url(), ..XV2Options::default() };
    let lookup = XV2::new(options).unwrap();
    let newest = |id: TweetId| history(id).pop().unwrap().to_string();
    until_true(&format!("{point}: every post is followed to its newest version"), WITHIN, async || {
        assert!(heir.runs(), "{point}:\n{}", logged());
        let mut all = true;
        for id in &posts {
            let stored = world.store.tweet(&namespace, &id.to_string()).await.unwrap();
            let is_newest = |raw: &str| raw.contains(&format!("\"id\":\"{}\"", newest(*id)));
            all &= stored.is_some_and(|stored| stored.raw.is_some_and(|raw| is_newest(&raw)));
        }
        all
    })
    .await;
    assert!(heir.terminate().success(), "{point}:\n{}", logged());

    for id in &posts {
        let stored = world.store.tweet(&namespace, &id.to_string()).await.unwrap().unwrap();
        let versions: Vec<String> = history(*id).iter().map(ToString::to_string).collect();
        let answer = lookup.look_up(&versions, &anonymous()).await.unwrap();
        let versions: Vec<&Tweet> = answer.outcomes.iter().map(found).collect();
        let (first, last) = (versions[0], versions[versions.len() - 1]);
        assert_eq!(stored.text, last.text, "{point}");
        assert_eq!(stored.metrics, last.metrics, "{point}: counts are the newest version's");
        assert_eq!(stored.current_id, Some(newest(*id)), "{point}");
        assert_eq!(stored.created_at, first.created_at, "{point}: an edit makes it no younger");
        let changes = world.store.changes(&namespace, &id.to_string()).await.unwrap();
        let texts: Vec<_> = changes.iter().filter(|change| change.field == "text").collect();
        let told: Vec<_> = texts.iter().map(|change| change.old.as_deref()).chain([stored.text.as_deref()]).collect();
        let expected: Vec<_> = versions.iter().map(|version| version.text.as_deref()).collect();
        assert_eq!(told, expected, "{point}: each version, in order");
    }
    api.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_are_followed_though_workers_are_killed() {
    for (at, point) in POINTS.into_iter().enumerate() {
        // Each half of the backends at every other point.
        followed(Backends { redis: at % 2 == 0, postgres: at % 2 == 0 }, point).await;
    }
    println!("versions were followed past a crash at each of {POINTS:?}");
}
