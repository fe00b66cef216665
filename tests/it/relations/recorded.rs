//! A list of 24,548 followers and the same one half a year later, as they were recorded (`ropensci+rtweet`), read by the real
//! process. What is expected comes from a plain reading of the recordings.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use twitter_updater::store::{CrawlRecord, Edge};

use crate::providers::recorded::Exchange;
use crate::providers::relations::recorded::{exchanges, serve};
use crate::support::lists::{self, LISTS};
use crate::support::process::{Process, run, text, variables};
use crate::support::wait::until;
use crate::support::world::{Backends, World};

const OWNER: &str = "9";
const WITHIN: Duration = Duration::from_secs(120);

/// The pages of a recorded list. Its windows are over.
fn pages(file: &str) -> Vec<Exchange> {
    let mut pages = exchanges(file, "followers/ids");
    for page in &mut pages {
        page.headers.retain(|(name, _)| !name.to_lowercase().starts_with("x-rate-limit"));
    }
    pages
}

/// The ids on the pages, in their order.
fn ids(pages: &[Exchange]) -> Vec<&str> {
    pages.iter().flat_map(|page| page.body["ids"].as_array().unwrap()).map(|id| id.as_str().unwrap()).collect()
}

/// Lets a process visit the list, as recorded, until a crawl has ended in that way.
async fn read(world: &World, folder: &Path, pages: &[Exchange], settings: &[(&str, &str)], end: &str) -> CrawlRecord {
    let server = serve(pages, "cursor", "-1").await;
    let mut of_process = world.settings.clone();
    of_process.extend(variables(&[("twitter.api", &server.base_url())]));
    of_process.extend(variables(settings));
    let before = world.edges.crawls(LISTS, OWNER, 1).await.unwrap().first().map_or(0, |crawl| crawl.number);
    let output = run(&["refresh", "--pipeline", LISTS, OWNER], &of_process);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = folder.join("updater.log");
    let updater = Process::start(&["updater"], &of_process, &log);
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    let ended = until(&format!("a crawl ends with {end}"), WITHIN, async || {
        let crawls = world.edges.crawls(LISTS, OWNER, 9).await.unwrap();
        crawls.into_iter().rfind(|crawl| crawl.number > before && crawl.ended_at.is_some())
    })
    .await;
    assert_eq!(ended.ended.as_deref(), Some(end), "{ended:?}\n{}", logged());
    let status = updater.terminate();
    assert!(status.success(), "{status}\n{}", logged());
    ended
}

async fn replays(backends: Backends) {
    let [first, second] = ["get_followers2.2022-04-30.yml", "get_followers2.json"].map(pages);
    if first.is_empty() || second.is_empty() {
        return;
    }
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) =
        (ids(&first).into_iter().collect(), ids(&second).into_iter().collect());
    let newest: BTreeSet<&str> = ids(&second[..1]).into_iter().collect();
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(backends, folder.path(), "http://127.0.0.1:9").await;
    world.settings.extend(lists::settings());
    world.settings.extend(variables(&[
        ("relations.revisit", "1h"),
        ("relations.shrink", "0.3"),
        ("lookup.timeout", "10s"),
        ("updater.save_timeout", "10s"),
        ("updater.lease", "30s"),
    ]));
    lists::enqueue(&world, &[OWNER.to_owned()]);

    let whole = read(&world, folder.path(), &first, &[], "complete").await;
    assert_eq!((whole.found, whole.appeared, whole.vanished, whole.pages), (24_548, 24_548, 0, 5));
    let prefix = read(&world, folder.path(), &second, &[("relations.complete_every", "30d")], "known_tail").await;
    assert_eq!((prefix.found, prefix.appeared, prefix.vanished, prefix.pages), (5_000, 2_497, 0, 1));
    let last = read(&world, folder.path(), &second, &[], "complete").await;
    // Two seams of its pages repeat an id.
    assert_eq!(ids(&second).len(), 26_380);
    assert_eq!((last.found, last.appeared, last.vanished, last.pages), (26_378, 2_512 - 2_497, 682, 6));
    assert_eq!(world.edges.crawls(LISTS, OWNER, 9).await.unwrap().len(), 3);

    let mut all: Vec<Edge> = Vec::new();
    lists::edges(&world, |edge| all.push(edge)).await;
    assert_eq!(all.len(), 24_548 + 2_512);
    let members =
        |is: &dyn Fn(&&Edge) -> bool| all.iter().filter(is).map(|edge| &*edge.member).collect::<BTreeSet<_>>();
    let vanished = members(&|edge| edge.vanished_by == last.ended_at);
    assert!(vanished.iter().copied().eq(before.difference(&after).copied()));
    assert!(members(&|edge| edge.vanished_by.is_none()).into_iter().eq(after.iter().copied()));
    // Known since the first crawl, whose members may have followed for years; or since the page that showed them.
    assert!(members(&|edge| edge.appeared_after.is_none()).into_iter().eq(before.iter().copied()));
    let new = |crawl: &CrawlRecord| {
        let (from, to) = (crawl.started_at, crawl.ended_at.unwrap());
        let is_new =
            |edge: &&Edge| edge.appeared_after == Some(whole.started_at) && (from..=to).contains(&edge.appeared_by);
        members(&is_new)
    };
    let by_prefix: BTreeSet<&str> = newest.difference(&before).copied().collect();
    assert!(by_prefix.len() == 2_497 && new(&prefix) == by_prefix);
    assert_eq!(new(&last), after.difference(&before).filter(|id| !newest.contains(**id)).copied().collect());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_recorded_pair_embedded() {
    replays(Backends { redis: false, postgres: false }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_recorded_pair_on_redis_and_postgres() {
    replays(Backends { redis: true, postgres: true }).await;
}
