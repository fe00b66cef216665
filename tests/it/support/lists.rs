//! Lists of followers as they are stored, against the simulated network whose truth is known.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{People, Running};
use twitter_updater::store::{CrawlRecord, Edge, EdgeChange};

use super::process::{Variables, run_with_input, text, variables};
use super::wait::until_true;
use super::world::World;

pub const LISTS: &str = "followers:twitter";
/// Clocks of processes and of the network are one, read at different moments, ms.
const SLACK: Millis = 5;
/// No call takes longer, ms.
const CALL: Millis = 30_000;
/// Crawls of a list that are looked at.
pub const CRAWLS: u32 = 1_000;
/// Edges that are read at a time.
const EDGES: u32 = 10_000;

/// Settings with which lists of followers are read again all the time, each as a whole.
pub fn settings() -> Variables {
    variables(&[
        ("relations.collect", "followers"),
        ("relations.revisit", "1s"),
        ("relations.complete_every", "0s"),
        ("relations.shrink", "1"),
    ])
}

/// Has these accounts' lists read, in that pipeline.
pub fn enqueue(world: &World, lists: &str, owners: &[String]) {
    let output = run_with_input(&["enqueue", "--pipeline", lists, "-"], &world.settings, owners.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// The newest complete crawl.
fn newest(crawls: &[CrawlRecord]) -> Option<&CrawlRecord> {
    crawls.iter().find(|crawl| crawl.ended.as_deref() == Some("complete"))
}

/// Waits until each list was read as a whole since then.
pub async fn all_read(what: &str, within: Duration, world: &World, owners: &[String], since: Millis) {
    until_true(&format!("{what}: each list is read"), within, async || is_all_read(world, owners, since).await).await;
}

/// Whether each list was read as a whole since then.
pub async fn is_all_read(world: &World, owners: &[String], since: Millis) -> bool {
    for owner in owners {
        let crawls = world.edges.crawls(LISTS, owner, 20).await.unwrap();
        if newest(&crawls).is_none_or(|crawl| crawl.started_at <= since) {
            return false;
        }
    }
    true
}

/// What was compared.
#[derive(Debug, Default)]
pub struct Compared {
    /// Edges,
    pub edges: usize,
    /// and those of them that ended.
    pub ended: usize,
    /// Crawls by the words of their ends.
    pub crawls: BTreeMap<String, usize>,
    /// Lists that were read as a whole, after they could not be read.
    pub returned: usize,
}

/// Edges of a pipeline in their order of appearance.
pub async fn edges(world: &World, lists: &str, mut take: impl FnMut(Edge)) {
    let mut after = None;
    loop {
        let all = (0, Millis::MAX);
        let page = world.edges.edge_changes(lists, EdgeChange::Appeared, all, after, EDGES).await.unwrap();
        let Some((place, _)) = page.last() else { return };
        after = Some(*place);
        page.into_iter().for_each(|(_, edge)| take(edge));
    }
}

/// Fails where an edge is not as it was, where one is open that ended before the list was last read as a whole, and where one
/// is not open that held through it.
pub async fn compare(api: &Running, world: &World, owners: &[String]) -> Compared {
    let people = api.people();
    // Lookups take one of the ids for nobody's, and lists have it all the same.
    let with_id = |id: &str| (0..people.count()).find(|number| people.id(&Provider::Twitter, *number) == id);
    let number = |id: &str| people.number(&Provider::Twitter, id).or_else(|| with_id(id)).unwrap();
    let (mut compared, mut read) = (Compared::default(), BTreeMap::new());
    for owner in owners {
        let crawls = world.edges.crawls(LISTS, owner, CRAWLS).await.unwrap();
        for ended in crawls.iter().filter_map(|crawl| crawl.ended.clone()) {
            *compared.crawls.entry(ended).or_default() += 1;
        }
        let is_out = |crawl: &CrawlRecord| matches!(crawl.ended.as_deref(), Some("hidden" | "aborted"));
        if let Some(newest) = newest(&crawls) {
            compared.returned += usize::from(crawls.iter().any(|crawl| is_out(crawl) && crawl.number < newest.number));
            read.insert(number(owner), newest.clone());
        }
    }
    let (until, mut open) = (wall_ms(), HashSet::new());
    edges(world, LISTS, |edge| {
        let (owner, member) = (number(&edge.owner), number(&edge.member));
        check(people, (owner, member), &edge, read.get(&owner), until);
        compared.edges += 1;
        compared.ended += usize::from(edge.vanished_by.is_some());
        let is_second = edge.vanished_by.is_none() && !open.insert((owner, member));
        assert!(!is_second, "two open edges of a pair: {edge:?}");
    })
    .await;
    // Nothing is closed that was there all the time.
    for (owner, crawl) in &read {
        let (began, ended) = (crawl.started_at - SLACK, crawl.ended_at.unwrap() + SLACK);
        for follow in people.follows().followers(*owner, began, began).filter(|follow| follow.holds(ended)) {
            let stays = people.times_on_list(follow.follower, *owner, began, until);
            let stayed = stays.iter().any(|(from, gone)| *from <= began && *gone > until);
            let is_told = !stayed || open.contains(&(*owner, follow.follower));
            assert!(is_told, "{follow:?} held through the last complete crawl {crawl:?}, and is not open: {stays:?}");
        }
    }
    compared
}

/// Compares an edge with what was; `read`: the newest complete crawl of its list.
fn check(people: &People, (owner, member): (u64, u64), edge: &Edge, read: Option<&CrawlRecord>, until: Millis) {
    // An absence that ended before counts as well: the follow began again with its end, and crawls may be far apart.
    let since = edge.appeared_after.unwrap_or(edge.appeared_by).min(edge.appeared_by - CALL) - SLACK;
    let stays = people.times_on_list(member, owner, since, until);
    let began =
        |from: Millis| edge.appeared_after.is_none_or(|after| from > after - SLACK) && from <= edge.appeared_by + SLACK;
    assert!(stays.iter().any(|(from, _)| began(*from)), "no follow began then: {edge:?} of {stays:?}");
    match (edge.vanished_after, edge.vanished_by) {
        (Some(after), Some(by)) => {
            let ended = |gone: Millis| gone > after - SLACK && gone <= by + SLACK;
            assert!(stays.iter().any(|(_, gone)| ended(*gone)), "no follow ended then: {edge:?} of {stays:?}");
        }
        (None, None) => {
            let since = read.map_or(edge.appeared_by - CALL, |crawl| crawl.started_at - SLACK);
            let is_there = stays.iter().any(|(_, gone)| *gone > since);
            assert!(is_there, "open, and it ended before the last complete crawl: {edge:?} of {stays:?}");
        }
        other => panic!("half an end: {other:?}"),
    }
}
