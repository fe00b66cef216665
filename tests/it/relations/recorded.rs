//! Recorded lists, read by the real process: one of 24,548 followers and the same one half a year later (`ropensci+rtweet`), a
//! chain of X, pages of Mastodon and Bluesky. What is expected comes from a plain reading of the recordings.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use twitter_updater::store::{CrawlRecord, Edge};

use crate::providers::recorded::Exchange;
use crate::providers::relations::recorded::{exchanges, page_of_bluesky, serve};
use crate::support::http::CannedServer;
use crate::support::lists::{self, LISTS};
use crate::support::process::{Process, Variables, run, text, variables};
use crate::support::wait::until;
use crate::support::world::{Backends, World};

const OWNER: &str = "9";
const WITHIN: Duration = Duration::from_secs(120);

/// The pages of a recorded list, at addresses with that in them. Their windows are over.
fn pages(file: &str, address: &str) -> Vec<Exchange> {
    let mut pages = exchanges(file, address);
    for page in &mut pages {
        page.headers.retain(|(name, _)| !name.to_lowercase().replace('-', "").starts_with("xratelimit"));
    }
    pages
}

/// The ids on the pages, in their order.
fn ids(pages: &[Exchange]) -> Vec<&str> {
    pages.iter().flat_map(|page| page.body["ids"].as_array().unwrap()).map(|id| id.as_str().unwrap()).collect()
}

/// A list that processes read as it was recorded.
struct Replay<'a> {
    world: &'a World,
    folder: &'a Path,
    pipeline: &'a str,
    owner: &'a str,
    /// The setting of the network's address.
    api: &'a str,
}

impl Replay<'_> {
    /// Lets a process visit the list, with these settings, until a crawl has ended in that way. `None`: until it has its first
    /// page, and waits for one that was not recorded.
    async fn read(&self, server: &CannedServer, settings: &[(&str, &str)], end: Option<&str>) -> CrawlRecord {
        let mut of_process = self.world.settings.clone();
        of_process.extend(variables(&[(self.api, &server.base_url())]));
        of_process.extend(variables(settings));
        let crawls = async || self.world.edges.crawls(self.pipeline, self.owner, 9).await.unwrap();
        let before = crawls().await.first().map_or(0, |crawl| crawl.number);
        let output = run(&["refresh", "--pipeline", self.pipeline, self.owner], &of_process);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let log = self.folder.join("updater.log");
        let updater = Process::start(&["updater"], &of_process, &log);
        let logged = || std::fs::read_to_string(&log).unwrap_or_default();
        let is_read = |crawl: &CrawlRecord| match end {
            Some(_) => crawl.ended_at.is_some(),
            None => crawl.pages > 0,
        };
        let read = until(&format!("a crawl ends with {end:?}"), WITHIN, async || {
            crawls().await.into_iter().rfind(|crawl| crawl.number > before && is_read(crawl))
        })
        .await;
        assert_eq!(read.ended.as_deref(), end, "{read:?}\n{}", logged());
        let status = updater.terminate();
        assert!(status.success(), "{status}\n{}", logged());
        read
    }
}

/// Lists are read once, however long that takes.
fn patient() -> Variables {
    let mut settings = lists::settings();
    settings.extend(variables(&[
        ("relations.revisit", "1h"),
        ("lookup.timeout", "10s"),
        ("updater.save_timeout", "10s"),
        ("updater.lease", "30s"),
    ]));
    settings
}

async fn replays(backends: Backends) {
    let [first, second] =
        ["get_followers2.2022-04-30.yml", "get_followers2.json"].map(|file| pages(file, "followers/ids"));
    if first.is_empty() || second.is_empty() {
        return;
    }
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) =
        (ids(&first).into_iter().collect(), ids(&second).into_iter().collect());
    let newest: BTreeSet<&str> = ids(&second[..1]).into_iter().collect();
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(backends, folder.path(), "http://127.0.0.1:9").await;
    world.settings.extend(patient());
    world.settings.extend(variables(&[("relations.shrink", "0.3")]));
    lists::enqueue(&world, LISTS, &[OWNER.to_owned()]);
    let list = Replay { world: &world, folder: folder.path(), pipeline: LISTS, owner: OWNER, api: "twitter.api" };
    let [server, later] = [serve(&first, "cursor", "-1").await, serve(&second, "cursor", "-1").await];

    let whole = list.read(&server, &[], Some("complete")).await;
    assert_eq!((whole.found, whole.appeared, whole.vanished, whole.pages), (24_548, 24_548, 0, 5));
    let prefix = list.read(&later, &[("relations.complete_every", "30d")], Some("known_tail")).await;
    assert_eq!((prefix.found, prefix.appeared, prefix.vanished, prefix.pages), (5_000, 2_497, 0, 1));
    let last = list.read(&later, &[], Some("complete")).await;
    // Two seams of its pages repeat an id.
    assert_eq!(ids(&second).len(), 26_380);
    assert_eq!((last.found, last.appeared, last.vanished, last.pages), (26_378, 2_512 - 2_497, 682, 6));
    assert_eq!(world.edges.crawls(LISTS, OWNER, 9).await.unwrap().len(), 3);

    let mut all: Vec<Edge> = Vec::new();
    lists::edges(&world, LISTS, |edge| all.push(edge)).await;
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

/// A recorded list of another network than Twitter's v1.1.
struct Other {
    provider: &'static str,
    pipeline: &'static str,
    owner: &'static str,
    api: &'static str,
    pages: Vec<Exchange>,
    /// The parameter of the cursor.
    cursor: &'static str,
    /// Where a page has its members, and these their ids.
    members: (&'static str, &'static str),
    /// The end of the crawl; `None`: the recording ends before the list does.
    end: Option<&'static str>,
}

impl Other {
    async fn replays(&self) {
        let Self { provider, pipeline, owner, api, pages, cursor, members: (place, id), end } = self;
        let plain = |page: &Exchange| page.body.pointer(place).unwrap().as_array().unwrap().clone();
        let told: Vec<String> =
            pages.iter().flat_map(plain).map(|member| member[id].as_str().unwrap().to_owned()).collect();
        let expected: BTreeSet<&str> = told.iter().map(String::as_str).collect();
        let folder = tempfile::tempdir().unwrap();
        let server = serve(pages, cursor, "").await;
        let backends = Backends { redis: false, postgres: false };
        let mut world = World::new(backends, folder.path(), "http://127.0.0.1:9").await;
        let collect = pipeline.split(':').next().unwrap();
        world.settings.extend(patient());
        let of_network = [("providers", *provider), (*api, &*server.base_url()), ("relations.collect", collect)];
        world.settings.extend(variables(&of_network));
        lists::enqueue(&world, pipeline, &[(*owner).to_owned()]);
        let list = Replay { world: &world, folder: folder.path(), pipeline, owner, api };
        let crawl = list.read(&server, &[], *end).await;
        println!("{pipeline} of {owner}: {} members, {crawl:?}", expected.len());
        assert!(!expected.is_empty() && crawl.found == expected.len() as i64, "{crawl:?}");
        assert_eq!((crawl.appeared, crawl.vanished), (crawl.found, 0));
        let mut stored = Vec::new();
        lists::edges(&world, pipeline, |edge| stored.push(edge)).await;
        let is_of_it =
            |edge: &Edge| edge.owner == *owner && edge.vanished_by.is_none() && edge.appeared_after.is_none();
        assert!(stored.len() == expected.len() && stored.iter().all(is_of_it));
        assert!(stored.iter().map(|edge| &*edge.member).collect::<BTreeSet<_>>() == expected);
        // Where the recording ends, the next page is what the last recorded answer names.
        let waits_for = world.edges.crawl(pipeline, owner).await.unwrap().and_then(|crawl| crawl.cursor);
        let link = pages.iter().flat_map(|page| &page.headers).find(|(name, _)| name == "link");
        let told = link.map(|(_, link)| link.split_once("max_id=").unwrap().1.split('>').next().unwrap());
        assert_eq!(waits_for.as_deref(), told);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_lists_of_other_networks() {
    let x = |pipeline, owner, file, address| Other {
        provider: "x",
        pipeline,
        owner,
        api: "x.api",
        pages: pages(file, address),
        cursor: "pagination_token",
        members: ("/data", "id"),
        end: Some("complete"),
    };
    let mastodon = |pipeline, file| Other {
        provider: "mastodon:social",
        pipeline,
        owner: "109302436954721982",
        api: "mastodon.instances.social.api",
        pages: pages(file, "/api/v1/accounts/"),
        cursor: "max_id",
        members: ("", "id"),
        end: None,
    };
    let bluesky = Other {
        provider: "bluesky",
        pipeline: "friends:bluesky",
        owner: "did:plc:kvwvcn5iqfooopmyzvb4qzba",
        api: "bluesky.api",
        pages: page_of_bluesky().into_iter().collect(),
        cursor: "cursor",
        members: ("/follows", "did"),
        end: Some("complete"),
    };
    let all = [
        x("followers:x", "34739420", "followers-34739420-", "/followers?"),
        x("friends:x", "1085578910853746688", "following-1085578910853746688", "/following?"),
        mastodon("followers:mastodon:social", "get_account_followers_default"),
        mastodon("friends:mastodon:social", "get_account_following_default"),
        bluesky,
    ];
    for list in all.iter().filter(|list| !list.pages.is_empty()) {
        list.replays().await;
    }
}
