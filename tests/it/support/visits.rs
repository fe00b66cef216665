//! Followed accounts of the simulated network, whose posts are known.

use std::collections::BTreeSet;
use std::time::Duration;

use twitter_updater::base::clock::Millis;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::Running;

use super::process::{Variables, run, run_with_input, text};
use super::wait::until_true;
use super::world::World;

/// The first part of the followed accounts.
pub const VISITS: &str = "visits:twitter";

/// Follows accounts, or follows them no more; what the program says of it.
pub fn change(word: &str, settings: &Variables, accounts: &[String]) -> serde_json::Value {
    let output = run_with_input(&["accounts", word, "--json", "-"], settings, accounts.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Waits until each account was visited since then, in any of the pipelines.
pub async fn all_visited(
    within: Duration,
    what: &str,
    world: &World,
    pipelines: &[&str],
    accounts: &[String],
    since: Millis,
) {
    until_true(&format!("{what}: each account is visited"), within, async || {
        let mut visited = 0;
        for pipeline in pipelines {
            let known = world.store.standing(pipeline, accounts).await.unwrap();
            visited += known.iter().flatten().filter(|known| known.checked_at.is_some_and(|at| at > since)).count();
        }
        visited >= accounts.len()
    })
    .await;
}

/// Fails where a post of that time is not stored; returns how many there are.
pub async fn posts_are_stored(api: &Running, world: &World, accounts: &[String], from: Millis, to: Millis) -> usize {
    let mut all = 0;
    for account in accounts {
        let posts: BTreeSet<String> = api.timeline(account, from, to).iter().map(|post| post.id.to_string()).collect();
        let ids: Vec<String> = posts.into_iter().collect();
        let known = world.store.standing(NAMESPACE, &ids).await.unwrap();
        let lost: Vec<_> = ids.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(id, _)| id).collect();
        assert!(lost.is_empty(), "{account}: {} of {} posts are not stored: {lost:?}", lost.len(), ids.len());
        all += ids.len();
    }
    all
}

/// Schedules the posts that a cut visit has stored and not scheduled, as the daily audit does: the next visit repeats it, unless the page
/// of a first visit has moved on. Every other post must be in the queue already.
pub async fn schedule_posts_of_cut_visits(world: &World, posts: &[String]) {
    for (id, places) in posts.iter().zip(world.queue.locate(posts).await.unwrap()) {
        let ways = world.store.ways(NAMESPACE, id).await.unwrap();
        let is_of_a_visit = ways.iter().all(|(_, way)| way.pipeline == "visit");
        assert!(!places.is_empty() || is_of_a_visit, "{id} is not in the queue: {ways:?}");
    }
    let output = run(&["rebuild"], &world.settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
}
