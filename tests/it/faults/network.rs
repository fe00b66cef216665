//! The network between two updaters and their services cuts, half-closes, delays and trickles, at random:
//! replies of claims, settles, permits, saves and lookups are lost, or their requests. Nothing else is.

mod media;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::lane::Lane;
use twitter_updater::engine::queue::{NewJob, Place, RedisQueue};
use twitter_updater::model::post::TweetId;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, SimulatorOptions};
use twitter_updater::store::{NewItem, Way};

use crate::support::accounts_of_posts::{PROFILES, accounts, accounts_in, assert_accounts_of};
use crate::support::census::{assert_answers_are_in_order, census};
use crate::support::community;
use crate::support::lists::{self, LISTS, compare};
use crate::support::process::{Process, Variables, run_with_input, text, variables};
use crate::support::promoter::Promoter;
use crate::support::proxy::{Line, Upstream};
use crate::support::redis::pool_of;
use crate::support::visits::{self, VISITS, posts_are_stored};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

/// Tweets that are due every second.
const YOUNG: u32 = 1_000;
/// Tweets that become due after every third fault, and again in an hour.
const OLD: u32 = 100;
const PROCESSES: usize = 2;
/// Accounts whose lists of followers are read, and the first members of a community.
const OWNERS: u64 = 24;
/// Accounts of the network of that community.
const PEOPLE: u64 = 400;
/// The most followers of an account.
const LONGEST: u64 = 500;
/// An id whose call failed alone has a minute's rest, and a back-off ends within one.
const WITHIN: Duration = Duration::from_secs(150);

/// The services that a process talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    Redis,
    Postgres,
    Api,
}

use Service::{Api, Postgres, Redis};

/// The pipelines of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pipelines {
    Posts,
    /// And the accounts that follow from them.
    PostsAndAccounts,
    /// And some lists of followers.
    PostsAndLists,
    /// And some timelines of followed accounts.
    PostsAndVisits,
    /// And a community that grows by the posts.
    PostsAndCommunity,
}

/// So many faults on the lines to these services. The seed gives the faults, their order and the pauses
/// between them; what they meet is the machine's choice.
async fn survives(services: &[Service], faults: usize, pipelines: Pipelines) {
    let seed = std::env::var("NETWORK_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("{services:?}: again with NETWORK_SEED={seed}");
    let mut lots = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let defaults = match pipelines {
        // Followed accounts post by hours of their own, in days of half a minute.
        Pipelines::PostsAndVisits => SimulatorOptions {
            accounts: 1_000,
            posts_per_second: 15.0,
            posting_day: Duration::from_secs(30),
            posts_late: Duration::from_millis(300),
            ..SimulatorOptions::default()
        },
        Pipelines::PostsAndCommunity => {
            SimulatorOptions { communities: true, accounts: PEOPLE, ..SimulatorOptions::default() }
        }
        _ => SimulatorOptions::default(),
    };
    let options = SimulatorOptions {
        latency: Duration::from_millis(40),
        jitter: Duration::from_millis(30),
        calls_per_window: 0,
        missing_share: 0.0,
        body_padding: 0,
        growth: Duration::from_secs(60), // of tweets made just now: every answer is another
        accounts_since: wall_ms() - 3_600_000,
        follow_changes: Duration::from_secs(1),
        most_followers: LONGEST,
        ..defaults
    };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let mut world = World::new(Backends { redis: true, postgres: true }, folder.path(), &api.base_url()).await;
    world.settings.extend(variables(&[
        ("tweet_age", "1h: 1s, 30d: 1h"),
        ("queue.redis.response_timeout", "800ms"),
        ("queue.redis.connect_timeout", "800ms"),
        ("store.postgres.statement_timeout", "800ms"),
    ]));
    let has_accounts = pipelines == Pipelines::PostsAndAccounts;
    if has_accounts {
        world.settings.extend(variables(&[
            ("accounts.collect", "true"),
            ("accounts.from_posts", "author, mentioned"),
            ("accounts.active", "1s"),
            ("accounts.idle", "1s"),
            ("accounts.frozen", "1s"),
        ]));
    }
    let has_lists = pipelines == Pipelines::PostsAndLists;
    if has_lists {
        world.settings.extend(lists::settings());
        world.settings.extend(variables(&[("relations.page", "100"), ("relations.from_posts", "false")]));
    }
    let has_visits = pipelines == Pipelines::PostsAndVisits;
    if has_visits {
        world.settings.extend(variables(&[
            ("visits.collect", "true"),
            ("visits.every", "2s"),
            ("visits.shortest", "1s"),
            ("visits.longest", "6s"),
        ]));
    }
    let owners: Vec<String> = (0..OWNERS).map(|number| api.people().id(&Provider::Twitter, number)).collect();
    let has_community = pipelines == Pipelines::PostsAndCommunity;
    if has_community {
        world.settings.extend(community::settings());
        community::seed(&world, community::NAME, &owners);
    }
    let ids: Vec<String> = (0..YOUNG).map(|n| TweetId::at(wall_ms() - i64::from(n), n).to_string()).collect();
    let output = run_with_input(&["enqueue", "-"], &world.settings, ids.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));

    if has_lists {
        lists::enqueue(&world, LISTS, &owners);
    }
    let began = wall_ms();
    if has_visits {
        visits::change("follow", &world.settings, &owners);
    }

    let mut lines = Vec::new();
    for service in services {
        lines.push(line(*service, &mut world.settings).await);
    }
    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap();
    let mut processes: Vec<Process> =
        (0..PROCESSES).map(|_| Process::start(&["updater"], &world.settings, &log)).collect();
    until_true("all is well at first", WITHIN, async || world.all_fresh(&ids, 0).await).await;

    let promoter = services.contains(&Redis).then(|| promoter(&world.settings, &ids));
    let mut old = Vec::new();
    for fault in 0..faults {
        if fault % 3 == 0 {
            old.extend(feed(&world, old.len() as u32).await);
        }
        let pause = Duration::from_millis(lots.random_range(5..120));
        lines[lots.random_range(0..services.len())].befall(&mut lots);
        tokio::time::sleep(pause).await;
    }
    if let Some(promoter) = promoter {
        let answers = promoter.stop().await;
        println!("{answers:?}");
        assert!(answers.moved + answers.noted > 0 && answers.others == 0, "{answers:?}");
    }
    let quiet = wall_ms();
    for (service, line) in services.iter().zip(&lines) {
        let happened = line.happened();
        println!("{service:?}: {happened:?}");
        assert!(happened["in flight"] > 0, "{service:?}: no fault met a request");
    }
    let mut in_the_quiet = Quiet { processes: &mut processes, log: &log };
    in_the_quiet.until("every young tweet is updated", async || world.all_fresh(&ids, quiet).await).await;
    in_the_quiet.until("every old tweet waits for an hour", async || in_an_hour(&world, &old).await).await;
    if has_accounts {
        let known = async || world.all_fresh_in(PROFILES, &accounts(&world).await, quiet).await;
        in_the_quiet.until("every account is looked up", known).await;
    }
    if has_lists {
        lists::all_read("in the quiet after it", WITHIN, &world, &owners, quiet).await;
    }
    if has_visits {
        visits::all_visited(WITHIN, "in the quiet after it", &world, &[VISITS], &owners, quiet).await;
    }
    if has_community {
        let judged = async || community::is_all_judged(&world, quiet).await;
        in_the_quiet.until("every account of the community is judged", judged).await;
    }
    println!("all is fresh {} ms after the last fault", wall_ms() - quiet);
    for process in processes {
        let status = process.terminate();
        assert!(status.success(), "{status}\n{}", logged());
    }
    let log = logged();
    assert!(!log.contains("panicked"), "{log}");

    for standing in world.store.standing(NAMESPACE, &old).await.unwrap() {
        assert!(standing.unwrap().checked_at.is_some(), "settled and not saved");
    }
    assert_answers_are_in_order(&*world.store, &ids).await;
    let mut ids = [ids, old].concat();
    if has_visits {
        println!(
            "{} posts of followed accounts, none lost",
            posts_are_stored(&api, &world, &owners, began, quiet).await
        );
        let queue = world.queue_of(folder.path(), VISITS).await;
        let found = census(&*queue, &*world.store, &owners).await;
        assert_eq!(found.delayed + found.leased, owners.len(), "{found:?}");
        let stored = accounts_in(NAMESPACE, &world).await;
        assert!(stored.len() > ids.len() && ids.iter().all(|id| stored.contains(id)), "{}", stored.len());
        ids = stored;
        visits::schedule_posts_of_cut_visits(&world, &ids).await;
    }
    if has_accounts {
        assert_accounts_of(PROFILES, &ids, &world, folder.path(), ids.len(), "the network").await;
    }
    if has_community {
        community::assert_grown(&world, folder.path(), &owners, &ids, "the network").await;
    }
    if has_lists {
        println!("lists as they were: {:?}", compare(&api, &world, &owners).await);
        let queue = world.queue_of(folder.path(), LISTS).await;
        let found = census(&*queue, &*world.store, &owners).await;
        assert_eq!(found.delayed + found.leased, owners.len(), "{found:?}");
    }
    let all = ids.len();
    let found = census(&*world.queue, &*world.store, &ids).await;
    // What a cut left leased is claimable when its lease has run out.
    assert_eq!((found.delayed + found.leased, found.dead, found.ended), (all, 0, 0), "{found:?}");
    let stats = world.queue.stats().await.unwrap();
    assert_eq!((stats.delayed + stats.leased) as usize, all, "nothing but what was put in");
    println!("{:?}", stats.counters);
    api.stop().await;
}

/// Waits for what processes do when there are no more faults; fails if one of them ends.
struct Quiet<'a> {
    processes: &'a mut [Process],
    log: &'a Path,
}

impl Quiet<'_> {
    async fn until(&mut self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        until_true(&format!("in the quiet after the faults, {what}"), WITHIN, async || {
            for process in &mut *self.processes {
                assert!(process.runs(), "{}", std::fs::read_to_string(self.log).unwrap());
            }
            holds().await
        })
        .await;
    }
}

/// New tweets of a day ago, due now.
async fn feed(world: &World, before: u32) -> Vec<String> {
    let now = wall_ms();
    let ids: Vec<String> = (0..OLD).map(|n| TweetId::at(now - 86_400_000, before + n).to_string()).collect();
    let new = |id: &String| NewItem {
        id: id.clone(),
        created_at: Some(now),
        next_due: Some(now),
        content: None,
        read_at: None,
    };
    world.store.record(NAMESPACE, now, &Way::new("enqueue"), &ids.iter().map(new).collect::<Vec<_>>()).await.unwrap();
    let lane = Lane::new("30d", Duration::from_secs(3_600));
    let jobs: Vec<NewJob> = ids.iter().map(|id| NewJob { id: id.clone(), lane: lane.clone(), due: 0.into() }).collect();
    world.queue.schedule(&jobs).await.unwrap();
    ids
}

/// Whether the queue has done with each of these: by a settle, since nothing else puts them so far off.
async fn in_an_hour(world: &World, ids: &[String]) -> bool {
    let later = wall_ms() + 3_000_000;
    let places = world.queue.locate(ids).await.unwrap();
    places.iter().all(|places| matches!(&places[..], [Place::Delayed { due, .. }] if *due > later))
}

/// One that promotes the young ones over the same line as the updaters have.
fn promoter(settings: &Variables, ids: &[String]) -> Promoter {
    let (name, _) = variables(&[("queue.redis.url", "")]).remove(0);
    let (_, url) = settings.iter().find(|(known, _)| *known == name).unwrap();
    Promoter::start(Arc::new(RedisQueue::new(pool_of(url, 1), NAMESPACE)), ids.to_vec())
}

/// A line to that service, which the settings lead through from now on.
async fn line(service: Service, settings: &mut Variables) -> Line {
    let key = match service {
        Redis => "queue.redis.url",
        Postgres => "store.postgres.url",
        Api => "twitter.api",
    };
    let (name, _) = variables(&[(key, "")]).remove(0);
    let (_, address) = settings.iter_mut().find(|(known, _)| *known == name).unwrap();
    let (upstream, through) = match service {
        Redis => {
            let socket = address.strip_prefix("redis+unix://").unwrap();
            (Upstream::Unix(socket.into()), "redis://ADDR/".to_owned())
        }
        Postgres => {
            let (database, rest) = address.strip_prefix("postgres:///").unwrap().split_once("?host=").unwrap();
            let socket = format!("{}/.s.PGSQL.5432", rest.split('&').next().unwrap());
            (Upstream::Unix(socket.into()), format!("postgres://postgres@ADDR/{database}?sslmode=disable"))
        }
        Api => {
            let addr = address.strip_prefix("http://").unwrap().trim_end_matches('/').parse().unwrap();
            (Upstream::Tcp(addr), "http://ADDR".to_owned())
        }
    };
    let line = Line::to(upstream).await;
    *address = through.replace("ADDR", &line.addr.to_string());
    line
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_them_and_redis() {
    survives(&[Redis], 80, Pipelines::Posts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_them_and_postgresql() {
    survives(&[Postgres], 80, Pipelines::Posts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_them_and_the_api() {
    survives(&[Api], 80, Pipelines::Posts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_them_and_everything() {
    survives(&[Redis, Postgres, Api], 300, Pipelines::Posts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_them_and_everything_with_the_accounts_of_the_posts() {
    survives(&[Redis, Postgres, Api], 200, Pipelines::PostsAndAccounts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_them_and_everything_with_visits() {
    survives(&[Redis, Postgres, Api], 120, Pipelines::PostsAndVisits).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_them_and_everything_with_lists() {
    survives(&[Redis, Postgres, Api], 120, Pipelines::PostsAndLists).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_them_and_everything_with_a_community() {
    survives(&[Redis, Postgres, Api], 120, Pipelines::PostsAndCommunity).await;
}
