//! Lists of which the network says odd things: each is left for a while, so that none is read instead of all others.

use twitter_updater::base::clock::wall_ms;
use twitter_updater::config::Settings;
use twitter_updater::engine::queue::{Due, Verdict};
use twitter_updater::store::{CrawlRecord, Edges};

use super::gone::{LISTS, Says, World};

/// Reads the list of 9 until it is not due again at once. Answers its crawls, newest first, and the pages that were read.
async fn read_out(says: Says) -> (Vec<CrawlRecord>, u32) {
    let world = World::new().await;
    *world.network.says.lock().unwrap() = says;
    for reads in 1..200 {
        let Verdict::Reschedule { due: Due::At(due), .. } = world.read("9").await else { panic!() };
        if due > wall_ms() {
            return (world.store.crawls(LISTS, "9", 9).await.unwrap(), reads);
        }
    }
    panic!("it is read without an end");
}

#[tokio::test]
async fn a_cursor_that_is_stale_each_time_ends_the_visit() {
    let (crawls, reads) = read_out(Says::Stale).await;
    let ends: Vec<_> = crawls.iter().map(|crawl| crawl.ended.as_deref()).collect();
    assert_eq!((ends, reads), (vec![Some("stale"); 3], 6));
}

#[tokio::test]
async fn empty_pages_without_an_end_end_the_visit() {
    let (crawls, reads) = read_out(Says::Nothing).await;
    assert_eq!((crawls[0].ended.as_deref(), crawls[0].pages, reads), (Some("looped"), 100, 100));
}

#[tokio::test]
async fn a_list_without_an_end_is_cut_by_default_and_says_so() {
    const LONGEST: u64 = 30;
    let by_default = Settings::load_with(&[], None, &[]).unwrap().relations.longest;
    assert!((1..=1_000_000).contains(&by_default), "{by_default}");
    let mut world = World::new().await;
    world.reader.0.bounds.longest = LONGEST;
    *world.network.says.lock().unwrap() = Says::Endless;
    for _ in 0..10 {
        world.read("9").await;
    }
    let crawl = &world.store.crawls(LISTS, "9", 9).await.unwrap()[0];
    assert_eq!((crawl.ended.as_deref(), crawl.found, crawl.pages), (Some("capped"), 30, 10));
}

#[tokio::test]
async fn one_without_an_answer_is_tried_again_behind_the_others() {
    for says in [Says::Out, Says::TooMany] {
        let world = World::new().await;
        *world.network.says.lock().unwrap() = says;
        for after in [5_000, 10_000, 20_000] {
            assert_eq!(world.read("9").await, Verdict::Retry { after, counted: false }, "{says:?}");
        }
        *world.network.says.lock().unwrap() = Says::Pages;
        for _ in 0..2 {
            world.read("9").await;
        }
        *world.network.says.lock().unwrap() = Says::Out;
        assert_eq!(world.read("9").await, Verdict::Retry { after: 5_000, counted: false }, "it had answered");
        let crawls = world.store.crawls(LISTS, "9", 9).await.unwrap();
        let whole = crawls.last().unwrap();
        assert_eq!((whole.ended.as_deref(), whole.found), (Some("complete"), 5), "{says:?}");
    }
}

#[tokio::test]
async fn a_full_page_without_a_word_of_the_next_one_closes_nothing() {
    let world = World::new().await;
    for _ in 0..2 {
        world.read("9").await;
    }
    *world.network.says.lock().unwrap() = Says::Unlinked;
    world.read("9").await;
    let crawls = world.store.crawls(LISTS, "9", 9).await.unwrap();
    let told: Vec<_> = crawls.iter().map(|crawl| (crawl.ended.as_deref(), crawl.found, crawl.vanished)).collect();
    assert_eq!(told, [(Some("partial"), 3, 0), (Some("complete"), 5, 0)]);
}

/// Also where the ids of the last page can be read.
#[tokio::test]
async fn an_id_that_cannot_be_read_on_any_page_closes_nothing() {
    let world = World::new().await;
    for says in [Says::Pages, Says::Unreadable] {
        *world.network.says.lock().unwrap() = says;
        for _ in 0..2 {
            world.read("9").await;
        }
    }
    let crawls = world.store.crawls(LISTS, "9", 9).await.unwrap();
    let told: Vec<_> = crawls.iter().map(|crawl| (crawl.ended.as_deref(), crawl.found, crawl.vanished)).collect();
    assert_eq!(told, [(Some("partial"), 4, 0), (Some("complete"), 5, 0)]);
}
