//! A list of 24,548 followers and the same one half a year later, as they were recorded (`ropensci+rtweet`).

use std::collections::HashSet;

use serde_json::Value;
use twitter_updater::store::{CrawlEnd, CrawlKind, EdgeChange, Next};

use super::{END, EdgeStore, begin, member, page_of};
use crate::recordings::{exchanges, json};
use crate::support::http::recordings;

/// The pages of a recorded list, newest first.
fn pages(file: &str) -> Option<Vec<Vec<String>>> {
    let file = recordings()?.join("ropensci+rtweet/tests/fixtures").join(file);
    let whole = match json(&file) {
        Some(whole) => whole,
        None => serde_saphyr::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap(),
    };
    let mut answers = Vec::new();
    exchanges(&file, &whole, &mut answers);
    let ids = |body: &str| {
        let body: Value = serde_json::from_str(body).unwrap();
        body["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    Some(answers.iter().map(|answer| ids(&answer.body)).collect())
}

/// Saves a crawl's pages; returns new ones, and repeated ones.
async fn read(store: &dyn EdgeStore, at: i64, pages: &[Vec<String>]) -> (u64, u64, u64) {
    let mut sums = (0, 0, 0);
    for (n, ids) in pages.iter().enumerate() {
        let crawl = store.crawl(super::NS, "9").await.unwrap().unwrap();
        let next = if n + 1 == pages.len() { END } else { Next::Page(format!("page {n}")) };
        let ids = ids.iter().map(|id| member(id)).collect();
        let page = page_of(&crawl, at + 10 * n as i64, ids, next);
        let saved = store.save_edges(super::NS, "9", &page).await.unwrap().unwrap();
        sums = (sums.0 + saved.new, sums.1 + saved.repeated, sums.2 + saved.ended.map_or(0, |end| end.vanished));
        if saved.ended.is_some_and(|end| end.end == CrawlEnd::KnownTail) {
            break;
        }
    }
    sums
}

pub(super) async fn a_recorded_pair_of_lists(store: &dyn EdgeStore) {
    let files = ["get_followers2.2022-04-30.yml", "get_followers2.json"];
    let (Some(first), Some(second)) = (pages(files[0]), pages(files[1])) else { return };
    let distinct = |pages: &[Vec<String>]| pages.iter().flatten().cloned().collect::<HashSet<String>>();
    let (before, after) = (distinct(&first), distinct(&second));
    assert_eq!((before.len(), after.len()), (24_548, 26_378));
    let seams = |pages: &[Vec<String>], distinct: usize| (pages.iter().map(Vec::len).sum::<usize>() - distinct) as u64;

    begin(store, "9", 0, CrawlKind::Complete).await;
    assert_eq!(read(store, 10, &first).await, (24_548, seams(&first, before.len()), 0));
    // Of the newest page alone.
    begin(store, "9", 1_000, CrawlKind::Prefix { known_tail: 100 }).await;
    assert_eq!(read(store, 1_010, &second).await.0, 2_497);
    assert_eq!(store.crawls(super::NS, "9", 1).await.unwrap()[0].pages, 1);
    // The rest by the whole list.
    begin(store, "9", 2_000, CrawlKind::Complete).await;
    assert_eq!(read(store, 2_010, &second).await, (2_512 - 2_497, seams(&second, after.len()), 682));
    let crawls = store.crawls(super::NS, "9", 9).await.unwrap();
    let told: Vec<_> = crawls.iter().map(|of| (of.found, of.appeared, of.vanished, of.pages)).collect();
    assert_eq!(told, [(26_378, 15, 682, 6), (5_000, 2_497, 0, 1), (24_548, 24_548, 0, 5)]);
    let gone = store.edge_changes(super::NS, EdgeChange::Vanished, (0, i64::MAX), None, 100_000).await.unwrap();
    let gone: HashSet<String> = gone.into_iter().map(|(_, edge)| edge.member).collect();
    assert_eq!(gone, before.difference(&after).cloned().collect());
    let new = store.edge_changes(super::NS, EdgeChange::Appeared, (super::T + 1_000, i64::MAX), None, 100_000).await;
    let new: HashSet<String> = new.unwrap().into_iter().map(|(_, edge)| edge.member).collect();
    assert_eq!(new, after.difference(&before).cloned().collect());
}
