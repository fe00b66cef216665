//! The updaters put back by themselves what their queue has lost.

use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::post::TweetId;
use twitter_updater::simulator::{self, SimulatorOptions};

use crate::support::process::{Process, run_with_input, text, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const WITHIN: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_updater_puts_back_what_its_queue_has_lost() {
    let folder = tempfile::tempdir().unwrap();
    let options = SimulatorOptions { missing_share: 0.0, calls_per_window: 0, ..SimulatorOptions::default() };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let mut world = World::new(Backends { redis: false, postgres: false }, folder.path(), &api.base_url()).await;
    world.settings.extend(variables(&[("rebuild.every", "500ms"), ("tweet_age", "30d: 1s")]));
    let ids: Vec<String> = (0..250).map(|n| TweetId::at(wall_ms() - i64::from(n), n).to_string()).collect();
    let output = run_with_input(&["enqueue", "-"], &world.settings, ids.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = folder.path().join("updater.log");
    let updater = Process::start(&["updater"], &world.settings, &log);
    until_true("all are updated", WITHIN, async || world.all_fresh(&ids, 0).await).await;
    // Those whose leases are taken away are in no lane either.
    let lost = wall_ms();
    world.queue.forget(&ids).await.unwrap();
    until_true("all are updated again", WITHIN, async || world.all_fresh(&ids, lost + 1_500).await).await;
    let status = updater.terminate();
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(status.success(), "{status}\n{logged}");
    assert!(logged.contains("ids were in the store and not in the queue: they are put back"), "{logged}");
    let places = world.queue.locate(&ids).await.unwrap();
    assert!(places.iter().all(|places| places.len() == 1), "{places:?}");
    api.stop().await;
}
