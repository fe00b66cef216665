//! Posts of candidates that were decided against are dropped, through kills; whoever follows such an account has them all again.

use std::collections::HashSet;
use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::community::Belonging;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::{FollowMark, Listing, UnwantedQuery};

use crate::support::accounts_of_posts::PROFILES;
use crate::support::planted::{COMMUNITY, Planted, planted};
use crate::support::process::{Process, variables};
use crate::support::visits::{VISITS, all_visited, change, posts_are_stored, schedule_posts_of_cut_visits};
use crate::support::wait::{until, until_true};
use crate::support::world::{Backends, World};

const PEOPLE: u64 = 400;
/// Posts that a person reads of an account, at the least: its posts of that time, ms.
const BACK: i64 = 60_000;
const WITHIN: Duration = Duration::from_secs(240);

/// Accounts that were decided against and never were members.
async fn refused(world: &World) -> Vec<String> {
    let mut refused = Vec::new();
    for of in world.communities.page_community(COMMUNITY, Belonging::Outside, "", 10_000).await.unwrap() {
        let changes = world.communities.belonging_changes(COMMUNITY, &of.account).await.unwrap();
        if changes.iter().all(|change| change.new_state != Belonging::Member.as_str()) {
            refused.push(of.account);
        }
    }
    refused
}

/// The ids of stored posts.
async fn stored(world: &World, of: Listing) -> Vec<String> {
    let mut ids = Vec::<String>::new();
    loop {
        let page = world.store.page(NAMESPACE, of, ids.last().map(String::as_str), 1_000).await.unwrap();
        if page.is_empty() {
            return ids;
        }
        ids.extend(page.into_iter().map(|row| row.id));
    }
}

/// All ids of stored posts of these authors.
async fn posts_of(world: &World, authors: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for of in [Listing::Tracked, Listing::Ended] {
        for id in stored(world, of).await {
            let post = world.store.tweet(NAMESPACE, &id).await.unwrap();
            if post.and_then(|post| post.author_id).is_some_and(|author| authors.contains(&author)) {
                found.push(id);
            }
        }
    }
    found
}

/// Living posts that are in no place of the queue.
async fn unscheduled(world: &World) -> HashSet<String> {
    let living = stored(world, Listing::Tracked).await;
    let places = world.queue.locate(&living).await.unwrap();
    living.into_iter().zip(places).filter(|(_, places)| places.is_empty()).map(|(id, _)| id).collect()
}

/// Waits until each post that is in the store and not in the queue was seen in the queue, or left the store: a visit stores its posts
/// first, and one that was killed or cut short in between is repeated.
async fn all_are_scheduled(world: &World) {
    let mut lost = unscheduled(world).await;
    until_true("the queue has what the store has", WITHIN, async || {
        let now = unscheduled(world).await;
        lost.retain(|id| now.contains(id));
        lost.is_empty()
    })
    .await;
}

async fn dropped(backends: Backends) {
    let folder = tempfile::tempdir().unwrap();
    let Planted { api, mut world, .. } = planted(backends, folder.path(), PEOPLE).await;
    world.settings.extend(variables(&[
        ("updater.lease", "2500ms"),
        ("updater.save_timeout", "1s"),
        // A lookup tells the author of a post that a killed visit brought.
        ("tweet_age", "1h: 10s"),
        // By their language alone: the posts of all candidates are read.
        ("communities.pt-pt.country", ""),
        ("communities.pt-pt.grow_every", "200ms"),
        ("communities.pt-pt.judge_again", "2s"),
        ("communities.pt-pt.appearances", "1"),
        ("visits.shortest", "1s"),
        ("visits.every", "2s"),
        ("visits.longest", "5s"),
    ]));
    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    // A process that ends in the middle of a decision or a removal, and others that are killed.
    let mut settings = world.with("TWITTER_UPDATER_CRASH_AT", "before_commit:40");
    settings.push(("TWITTER_UPDATER_FAIL_IN".to_owned(), COMMUNITY.to_owned()));
    let status = Process::start(&["updater"], &settings, &log).ended(WITHIN).await;
    assert!(!status.success(), "{status}\n{}", logged());
    for more in [10, 25] {
        let killed = Process::start(&["updater"], &world.settings, &log);
        until_true(&format!("{more} are decided against"), WITHIN, async || refused(&world).await.len() >= more).await;
        killed.kill();
    }
    let heir = Process::start(&["updater"], &world.settings, &log);
    let unwanted =
        UnwantedQuery { namespace: COMMUNITY, posts: NAMESPACE, profiles: PROFILES, visits: VISITS, others: &[] };
    let own = [COMMUNITY.to_owned()];
    let what = "nobody who was decided against is followed, or has posts that visits alone brought";
    let (done, posts) = until(what, WITHIN, async || {
        let refused = refused(&world).await;
        let follows = world.communities.accounts_with_mark(&own, &refused, FollowMark::Follows).await.unwrap();
        let unwanted = world.communities.find_unwanted_posts(&unwanted, &refused, 1).await.unwrap();
        if refused.len() < 40 || !follows.is_empty() || !unwanted.is_empty() {
            return None;
        }
        let posts = posts_of(&world, &refused).await;
        for post in &posts {
            let ways = world.store.ways(NAMESPACE, post).await.unwrap();
            if ways.iter().all(|(_, way)| way.pipeline == "visit") {
                return None;
            }
        }
        Some((refused, posts))
    })
    .await;
    all_are_scheduled(&world).await;
    let status = heir.terminate();
    assert!(status.success(), "{status}\n{}", logged());
    let living = stored(&world, Listing::Tracked).await;
    schedule_posts_of_cut_visits(&world, &living).await;
    let lost = unscheduled(&world).await;
    assert!(lost.is_empty(), "not in the queue: {lost:?}");

    // Each was decided by so many posts.
    let read = 30 * done.len();
    println!("{backends:?}: {} decided against by {read} posts at the least, {} posts kept", done.len(), posts.len());
    assert!(read > 10 * posts.len(), "{read} were read, and {} are kept", posts.len());
    assert_eq!(world.followed.followed(VISITS, &done).await.unwrap(), vec![None; done.len()]);

    // A person follows one of them.
    let began = wall_ms();
    let posts = |account: &&String| !api.timeline(account, began - BACK, began).is_empty();
    let account = [done.iter().find(posts).unwrap().clone()];
    change("follow", &world.settings, &account);
    let mut process = Process::start(&["updater"], &world.settings, &log);
    all_visited(WITHIN, "followed by a person", &world, &[VISITS], &account, began).await;
    let all = posts_are_stored(&api, &world, &account, began - BACK, began).await;
    assert!(all > 0, "{account:?} has no posts");
    // It is judged meanwhile, and stays followed.
    until_true("it is judged again", WITHIN, async || {
        assert!(process.runs(), "{}", logged());
        let known = world.communities.community_account(COMMUNITY, &account[0]).await.unwrap().unwrap();
        known.judged_at.is_some_and(|at| at > began + 2_000)
    })
    .await;
    assert!(world.followed.followed(VISITS, &account).await.unwrap()[0].is_some(), "a person follows it");
    assert_eq!(posts_are_stored(&api, &world, &account, began - BACK, began).await, all);
    // And the store has what the queue has. A visit that was under way when its account was left may have put a post into the queue
    // after it was dropped: the next lookup stores that post again.
    until_true("the store has what the queue has", WITHIN, async || {
        let stats = world.queue.stats().await.unwrap();
        let counts = world.store.counts(NAMESPACE).await.unwrap();
        stats.delayed + stats.leased == counts.live + counts.unavailable
    })
    .await;
    assert!(process.terminate().success());
    api.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posts_of_those_decided_against_are_dropped_embedded() {
    dropped(Backends { redis: false, postgres: false }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posts_of_those_decided_against_are_dropped_on_redis_and_postgres() {
    dropped(Backends { redis: true, postgres: true }).await;
}
