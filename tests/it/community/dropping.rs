//! Posts of candidates that were decided against are dropped, through kills; whoever follows such an account has them all again.

use std::collections::HashSet;
use std::time::Duration;

use twitter_updater::app::demo::community::{seeds, simulated};
use twitter_updater::base::clock::wall_ms;
use twitter_updater::config::COMMUNITY_DEMO;
use twitter_updater::model::community::Belonging;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, SimulatorOptions};
use twitter_updater::store::{CommunityAccount, Listing, Mark, Unwanted};

use crate::support::accounts_of_posts::PROFILES;
use crate::support::process::{Process, run_with_input, text, variables};
use crate::support::visits::{VISITS, all_visited, change, posts_are_stored};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const COMMUNITY: &str = "community:twitter:pt-pt";
const PEOPLE: u64 = 400;
/// Posts that a person reads of an account, at the least: its posts of that time, ms.
const BACK: i64 = 60_000;
const WITHIN: Duration = Duration::from_secs(90);

/// Accounts that were decided against and never were members.
async fn refused(world: &World) -> Vec<CommunityAccount> {
    let mut refused = Vec::new();
    for of in world.communities.page_community(COMMUNITY, Belonging::Outside, "", 10_000).await.unwrap() {
        let changes = world.communities.belonging_changes(COMMUNITY, &of.account).await.unwrap();
        if changes.iter().all(|change| change.new_state != Belonging::Member.as_str()) {
            refused.push(of);
        }
    }
    refused
}

/// All ids of stored posts of these authors.
async fn posts_of(world: &World, authors: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for of in [Listing::Living, Listing::Ended] {
        let mut below = None::<String>;
        loop {
            let page = world.store.page(NAMESPACE, of, below.as_deref(), 1_000).await.unwrap();
            let Some(last) = page.last() else { break };
            below = Some(last.id.clone());
            for row in &page {
                let post = world.store.tweet(NAMESPACE, &row.id).await.unwrap();
                if post.and_then(|post| post.author_id).is_some_and(|author| authors.contains(&author)) {
                    found.push(row.id.clone());
                }
            }
        }
    }
    found
}

async fn dropped(backends: Backends) {
    let folder = tempfile::tempdir().unwrap();
    let options = SimulatorOptions { calls_per_window: 0, app_calls_per_window: 0, ..SimulatorOptions::default() };
    let options = SimulatorOptions { accounts: PEOPLE, missing_share: 0.0, ..simulated(options) };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let mut world = World::new(backends, folder.path(), &api.base_url()).await;
    let file = folder.path().join("community.toml");
    std::fs::write(&file, COMMUNITY_DEMO).unwrap();
    world.settings.push(("TWITTER_UPDATER_CONFIG".to_owned(), file.display().to_string()));
    // Its posts are looked up now and then, and leave the queue with their rows.
    world.settings.retain(|(name, _)| !name.ends_with("TWEET_AGE"));
    world.settings.extend(variables(&[
        ("tweet_age", "1h: 5m"),
        // By their language alone: the posts of all candidates are read.
        ("communities.pt-pt.country", ""),
        ("communities.pt-pt.grow_every", "200ms"),
        ("communities.pt-pt.judge_again", "2s"),
        ("communities.pt-pt.appearances", "1"),
        ("visits.shortest", "1s"),
        ("visits.every", "2s"),
        ("visits.longest", "5s"),
    ]));
    let provider = Provider::Twitter;
    let seeds = seeds(api.people(), &provider);
    let output = run_with_input(&["community", "seed", "pt-pt", "-"], &world.settings, seeds.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));

    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    // A process that ends in the middle of a decision or a removal, and others that are killed.
    let mut settings = world.with("TWITTER_UPDATER_CRASH_AT", "before_commit:40");
    settings.push(("TWITTER_UPDATER_FAIL_IN".to_owned(), COMMUNITY.to_owned()));
    // Release builds do not end where they are asked to.
    if cfg!(debug_assertions) {
        let status = Process::start(&["updater"], &settings, &log).ended(WITHIN).await;
        assert!(!status.success(), "{status}\n{}", logged());
    }
    for more in [10, 25] {
        let killed = Process::start(&["updater"], &world.settings, &log);
        until_true(&format!("{more} are decided against"), WITHIN, async || refused(&world).await.len() >= more).await;
        killed.kill();
    }
    let heir = Process::start(&["updater"], &world.settings, &log);
    let own = [COMMUNITY.to_owned()];
    let unwanted = Unwanted { namespace: COMMUNITY, posts: NAMESPACE, profiles: PROFILES, visits: VISITS, others: &[] };
    until_true("the posts of all that were decided against are dropped", WITHIN, async || {
        let refused = refused(&world).await;
        let ids: Vec<String> = refused.iter().map(|of| of.account.clone()).collect();
        refused.len() >= 40
            && world.communities.marked(&own, &ids, Mark::Left).await.unwrap().is_empty()
            && world.communities.marked(&own, &ids, Mark::Follows).await.unwrap().is_empty()
            && world.communities.unwanted(&unwanted, &ids, 1).await.unwrap().is_empty()
    })
    .await;
    let status = heir.terminate();
    assert!(status.success(), "{status}\n{}", logged());

    // Those that are decided against at the very end have their second look still to come.
    let refused = refused(&world).await;
    let ids: Vec<String> = refused.iter().map(|of| of.account.clone()).collect();
    let left: HashSet<String> = world.communities.marked(&own, &ids, Mark::Left).await.unwrap().into_iter().collect();
    let (done, _): (Vec<String>, Vec<String>) = ids.into_iter().partition(|id| !left.contains(id));
    let posts = posts_of(&world, &done).await;
    for post in &posts {
        let ways = world.store.ways(NAMESPACE, post).await.unwrap();
        assert!(ways.iter().any(|(_, way)| way.pipeline != "visit"), "{post} came by {ways:?}");
    }
    // Each was decided by so many posts.
    let read = 30 * done.len();
    println!("{backends:?}: {} decided against by {read} posts at the least, {} posts kept", done.len(), posts.len());
    assert!(read > 10 * posts.len(), "{read} were read, and {} are kept", posts.len());
    assert_eq!(world.followed.followed(VISITS, &done).await.unwrap(), vec![None; done.len()]);
    // The queue has what the store has.
    let counts = world.store.counts(NAMESPACE).await.unwrap();
    let stats = world.queue.stats().await.unwrap();
    let (stored, queued) = (counts.live + counts.unavailable, stats.delayed + stats.leased);
    assert_eq!(queued, stored, "{counts:?} {stats:?}");

    // A person follows one of them.
    let again = refused.iter().filter(|of| done.contains(&of.account)).next().unwrap();
    let (account, began) = ([again.account.clone()], wall_ms());
    change("follow", &world.settings, &account);
    let mut process = Process::start(&["updater"], &world.settings, &log);
    all_visited(WITHIN, "followed by a person", &world, &[VISITS], &account, began).await;
    let all = posts_are_stored(&api, &world, &account, began - BACK, began).await;
    assert!(all > 0, "{} has no posts", again.account);
    // It is judged meanwhile, and stays followed.
    until_true("it is judged again", WITHIN, async || {
        assert!(process.runs(), "{}", logged());
        let known = world.communities.community_account(COMMUNITY, &again.account).await.unwrap().unwrap();
        known.judged_at.is_some_and(|at| at > began + 2_000)
    })
    .await;
    assert!(world.followed.followed(VISITS, &account).await.unwrap()[0].is_some(), "a person follows it");
    assert_eq!(posts_are_stored(&api, &world, &account, began - BACK, began).await, all);
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
