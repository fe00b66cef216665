//! Edges: what every backend keeps of lists, rule by rule; a random comparison with the truth; a recorded pair of lists.

mod graph;
pub(super) mod plans;
mod recorded;
mod totals;
mod truth;

use futures::TryStreamExt;
use twitter_updater::base::clock::Millis;
use twitter_updater::model::account::{Absence, Account, AccountCounts, AccountState};
use twitter_updater::model::post::{ItemState, Tweet};
use twitter_updater::store::export::{Cell, EDGES, ExportFilter, ExportTables};
use twitter_updater::store::{
    ClosingLimit, CrawlEnd, CrawlKind, CrawlOutcome, CrawlUnderWay, Edge, EdgeChange, EdgePage, Edges, End, Expiry,
    Finding, Follow, Graphs, Lifecycle, ListedMember, NewCrawl, Next, Observation, SavedEdges, Store,
};

use super::{T, new_tweet, open_postgres, way};
use crate::support::postgres;

const NS: &str = "followers:twitter";
const FRIENDS: &str = "friends:twitter";

/// No limit.
const FREE: ClosingLimit = ClosingLimit { share: 1.0, least: 0 };

trait EdgeStore: Store + Edges + ExportTables + Graphs {}
impl<S: Store + Edges + ExportTables + Graphs> EdgeStore for S {}

macro_rules! on_both {
    ($($case:ident)*) => {
        mod postgres_store {
            $(
                #[tokio::test]
                async fn $case() {
                    let store = super::open_postgres(&super::postgres::database().await).await;
                    super::Lifecycle::migrate(&store).await.unwrap();
                    super::$case(&store).await;
                }
            )*
        }
        mod sqlite_store {
            $(
                #[tokio::test]
                async fn $case() {
                    let folder = tempfile::tempdir().unwrap();
                    let store = super::super::SqliteStore::open(&folder.path().join("s.db"), super::super::PATIENCE).await;
                    let store = store.unwrap();
                    super::Lifecycle::migrate(&store).await.unwrap();
                    super::$case(&store).await;
                }
            )*
        }
    };
}

on_both! {
    edges_are_intervals_between_complete_crawls
    a_late_page_and_one_that_was_saved_change_nothing
    two_that_save_the_same_page_save_it_once
    pages_that_overlap_count_each_member_once
    a_prefix_crawl_stops_at_known_members_and_proves_that_they_were_there
    a_prefix_crawl_that_reaches_the_end_is_complete
    a_stale_cursor_restarts_the_crawl_and_opens_no_gap
    a_cursor_that_comes_again_ends_the_crawl
    ids_that_cannot_be_read_are_counted_over_a_crawl
    only_complete_crawls_close
    a_wave_closes_nothing_until_the_next_crawl_misses_the_same
    a_wave_that_was_none_closes_nothing
    many_that_are_missing_behind_an_empty_last_page_are_confirmed_first
    a_clock_that_steps_back_turns_no_interval_round
    told_times_are_kept_inside_their_intervals
    a_follow_that_is_told_anew_is_another_one
    members_at_a_moment_are_sure_or_not
    changes_are_listed_by_time_page_by_page
    follows_among_accounts_come_from_lists_of_both_kinds
    an_edge_that_ends_has_a_cause
    what_is_forgotten_leaves_no_edge
    a_removed_list_leaves_nothing
    what_is_to_be_forgotten_is_found
    crawls_under_way_are_listed
    lists_are_counted_by_tier_and_read
    lists_that_were_never_read_are_counted_with_their_pages
    edges_and_crawls_are_exported
    a_graph_has_each_account_and_each_pair_once
    a_graph_knows_profiles_and_ends_when_it_is_told
    any_list_is_told_as_it_was
    a_recorded_pair_of_lists
}

use self::graph::{a_graph_has_each_account_and_each_pair_once, a_graph_knows_profiles_and_ends_when_it_is_told};
use self::recorded::a_recorded_pair_of_lists;
use self::totals::{lists_are_counted_by_tier_and_read, lists_that_were_never_read_are_counted_with_their_pages};
use self::truth::any_list_is_told_as_it_was;

fn member(id: &str) -> ListedMember {
    ListedMember { id: id.into(), followed_at: None }
}

/// Members of one letter each.
fn members(ids: &str) -> Vec<ListedMember> {
    ids.chars().map(|id| member(&id.to_string())).collect()
}

async fn record(store: &dyn EdgeStore, namespace: &str, owners: &[&str]) {
    let owners: Vec<_> = owners.iter().map(|owner| new_tweet(owner, T, Some(T))).collect();
    store.record(namespace, T, &way(), &owners).await.unwrap();
}

async fn begin(store: &dyn EdgeStore, owner: &str, at: Millis, kind: CrawlKind) -> CrawlUnderWay {
    record(store, NS, &[owner]).await;
    store.begin_crawl(NS, owner, &NewCrawl { kind, at: T + at, stated_total: None }).await.unwrap().unwrap()
}

/// A page of the crawl that is under way, asked for 2 ms before its answer.
async fn page(store: &dyn EdgeStore, owner: &str, at: Millis, ids: &str, next: Next) -> SavedEdges {
    let crawl = store.crawl(NS, owner).await.unwrap().unwrap();
    let page = page_of(&crawl, at, members(ids), next);
    store.save_edges(NS, owner, &page).await.unwrap().unwrap()
}

fn page_of(crawl: &CrawlUnderWay, at: Millis, members: Vec<ListedMember>, next: Next) -> EdgePage {
    let cursor = crawl.cursor.clone();
    EdgePage { crawl: crawl.number, cursor, members, unreadable: 0, next, asked_at: T + at - 2, answered_at: T + at }
}

fn to(cursor: &str) -> Next {
    Next::Page(cursor.into())
}

const END: Next = Next::End(End::Complete(FREE));

/// A complete crawl of one page, that begins 5 ms before its answer.
async fn crawl(store: &dyn EdgeStore, owner: &str, at: Millis, ids: &str) -> CrawlOutcome {
    begin(store, owner, at - 5, CrawlKind::Complete).await;
    page(store, owner, at, ids, END).await.ended.unwrap()
}

/// All edges: `owner member (after by] (after by]`, in ms after [`T`], sorted.
async fn edges(store: &dyn EdgeStore) -> Vec<String> {
    let all = store.edge_changes(NS, EdgeChange::Appeared, (0, Millis::MAX), None, 1000).await.unwrap();
    let ms = |at: Option<Millis>| at.map_or("-".to_owned(), |at| (at - T).to_string());
    let told = |edge: &Edge| {
        let gone = edge.vanished_by.map(|by| format!(" gone ({} {}]", ms(edge.vanished_after), by - T));
        let (member, after, by) = (&edge.member, ms(edge.appeared_after), edge.appeared_by - T);
        format!("{} {member} ({after} {by}]{}", edge.owner, gone.unwrap_or_default())
    };
    let mut all: Vec<String> = all.iter().map(|(_, edge)| told(edge)).collect();
    all.sort();
    all
}

fn ended(end: CrawlEnd, vanished: u64, withheld: u64) -> CrawlOutcome {
    CrawlOutcome { end, vanished, withheld }
}

async fn edges_are_intervals_between_complete_crawls(store: &dyn EdgeStore) {
    let new = NewCrawl { kind: CrawlKind::Complete, at: T, stated_total: Some(3) };
    assert_eq!(store.begin_crawl(NS, "9", &new).await.unwrap(), None, "no such item");
    record(store, NS, &["9"]).await;
    let crawl = store.begin_crawl(NS, "9", &new).await.unwrap().unwrap();
    let expected = CrawlUnderWay {
        number: crawl.number,
        kind: CrawlKind::Complete,
        cursor: None,
        started_at: T,
        newest_at: T,
        pages: 0,
        found: 0,
        unreadable: 0,
        stated_total: Some(3),
    };
    assert_eq!(crawl, expected);
    let other = NewCrawl { kind: CrawlKind::Prefix { known_tail: 1 }, at: T + 9, stated_total: None };
    assert_eq!(store.begin_crawl(NS, "9", &other).await.unwrap(), Some(expected), "it is under way");

    assert_eq!(
        page(store, "9", 10, "cb", to("2")).await,
        SavedEdges { new: 2, repeated: 0, known_tail: 0, ended: None }
    );
    let now = store.crawl(NS, "9").await.unwrap().unwrap();
    assert_eq!((now.cursor.as_deref(), now.pages, now.found, now.newest_at), (Some("2"), 1, 2, T + 10));
    let saved = page(store, "9", 20, "a", END).await;
    assert_eq!(saved.ended, Some(ended(CrawlEnd::Complete, 0, 0)));
    assert_eq!(store.crawl(NS, "9").await.unwrap(), None);

    // d is new, b is gone, and c is on the first page only.
    begin(store, "9", 100, CrawlKind::Complete).await;
    page(store, "9", 110, "dc", to("2")).await;
    let saved = page(store, "9", 120, "a", END).await;
    assert_eq!(saved.ended, Some(ended(CrawlEnd::Complete, 1, 0)));
    assert_eq!(edges(store).await, ["9 a (- 20]", "9 b (- 10] gone (8 120]", "9 c (- 10]", "9 d (0 110]"]);

    // b is back, and c goes.
    begin(store, "9", 200, CrawlKind::Complete).await;
    page(store, "9", 210, "bd", to("2")).await;
    page(store, "9", 220, "a", END).await;
    let expected =
        ["9 a (- 20]", "9 b (- 10] gone (8 120]", "9 b (100 210]", "9 c (- 10] gone (108 220]", "9 d (0 110]"];
    assert_eq!(edges(store).await, expected);

    let crawls = store.crawls(NS, "9", 2).await.unwrap();
    let told: Vec<_> = crawls.iter().map(|of| (of.pages, of.found, of.appeared, of.vanished)).collect();
    assert_eq!(told, [(2, 3, 1, 1), (2, 3, 1, 1)]);
    assert_eq!((crawls[0].ended.as_deref(), crawls[0].ended_at), (Some("complete"), Some(T + 220)));
    assert_eq!(store.crawls(NS, "9", 9).await.unwrap()[2].stated_total, Some(3));
}

async fn a_late_page_and_one_that_was_saved_change_nothing(store: &dyn EdgeStore) {
    let first = begin(store, "9", 0, CrawlKind::Complete).await;
    let page_1 = page_of(&first, 10, members("ab"), to("2"));
    assert_eq!(store.save_edges(NS, "8", &page_1).await.unwrap(), None, "another list");
    store.save_edges(NS, "9", &page_1).await.unwrap().unwrap();
    let before = (edges(store).await, store.crawls(NS, "9", 9).await.unwrap());
    let late = EdgePage { members: members("xyz"), ..page_1.clone() };
    let behind = EdgePage { cursor: Some("3".into()), ..late.clone() };
    let whole = EdgePage { next: END, ..late.clone() };
    for late in [&page_1, &late, &behind, &whole] {
        assert_eq!(store.save_edges(NS, "9", late).await.unwrap(), None);
    }
    for end in [End::Stale, End::Complete(FREE)] {
        assert_eq!(store.end_crawl(NS, "9", (first.number, None), T + 50, end).await.unwrap(), None);
        assert_eq!(store.end_crawl(NS, "9", (first.number + 1, Some("2")), T + 50, end).await.unwrap(), None);
    }
    assert_eq!((edges(store).await, store.crawls(NS, "9", 9).await.unwrap()), before);
    // Of a crawl that ended, also when the next one waits for the same cursor.
    store.end_crawl(NS, "9", (first.number, Some("2")), T + 50, End::Stale).await.unwrap().unwrap();
    let second = begin(store, "9", 60, CrawlKind::Complete).await;
    assert!(second.number > first.number);
    assert_eq!(store.save_edges(NS, "9", &page_1).await.unwrap(), None);
    assert_eq!(edges(store).await, before.0);
}

async fn two_that_save_the_same_page_save_it_once(store: &dyn EdgeStore) {
    for (owner, next) in [("8", to("2")), ("9", END)] {
        let crawl = begin(store, owner, 0, CrawlKind::Complete).await;
        let page = page_of(&crawl, 10, members("abc"), next);
        let saves = (0..6).map(|_| store.save_edges(NS, owner, &page));
        let saved = futures::future::join_all(saves).await;
        assert_eq!(saved.iter().filter(|saved| saved.as_ref().unwrap().is_some()).count(), 1);
        assert_eq!(store.crawls(NS, owner, 9).await.unwrap()[0].appeared, 3);
    }
    assert_eq!(edges(store).await.len(), 6);
}

async fn pages_that_overlap_count_each_member_once(store: &dyn EdgeStore) {
    begin(store, "9", 0, CrawlKind::Complete).await;
    let saved = page(store, "9", 10, "abca\0\u{fffd}", to("2")).await;
    assert_eq!((saved.new, saved.repeated), (4, 2), "NUL is stored as another character");
    let saved = page(store, "9", 20, "cde", to("3")).await;
    assert_eq!((saved.new, saved.repeated), (2, 1));
    assert_eq!(page(store, "9", 25, "", to("4")).await, SavedEdges { new: 0, repeated: 0, known_tail: 0, ended: None });
    let saved = page(store, "9", 30, "aef", END).await;
    assert_eq!((saved.new, saved.repeated), (1, 2));
    let crawl = &store.crawls(NS, "9", 1).await.unwrap()[0];
    assert_eq!((crawl.found, crawl.appeared, crawl.pages), (7, 7, 4));
}

async fn a_prefix_crawl_stops_at_known_members_and_proves_that_they_were_there(store: &dyn EdgeStore) {
    crawl(store, "9", 10, "abcdefgh").await;
    begin(store, "9", 100, CrawlKind::Prefix { known_tail: 4 }).await;
    // New ones amid known ones; three known ones at the end are not enough.
    let saved = page(store, "9", 110, "xayabc", to("2")).await;
    assert_eq!(saved, SavedEdges { new: 2, repeated: 1, known_tail: 3, ended: None });
    // Those at the seam are known as well, so the row goes on.
    let saved = page(store, "9", 120, "de", to("3")).await;
    assert_eq!((saved.known_tail, saved.ended), (5, Some(ended(CrawlEnd::KnownTail, 0, 0))));
    assert_eq!(store.crawl(NS, "9").await.unwrap(), None);
    assert_eq!(store.crawls(NS, "9", 1).await.unwrap()[0].found, 7);
    // x and d go: the pages of the prefix showed them last. The bound of what is new is the complete crawl.
    begin(store, "9", 200, CrawlKind::Complete).await;
    page(store, "9", 210, "zyabcefgh", END).await;
    let now = edges(store).await;
    let of =
        |member: &str| now.iter().filter(|edge| edge.contains(&format!(" {member} "))).cloned().collect::<Vec<_>>();
    assert_eq!(of("x"), ["9 x (5 110] gone (108 210]"]);
    assert_eq!(of("d"), ["9 d (- 10] gone (118 210]"]);
    assert_eq!((of("z"), of("y")), (vec!["9 z (5 210]".into()], vec!["9 y (5 110]".into()]));
    // One that is new on a page of this crawl is not known: a crawl does not stop at what it has just read.
    begin(store, "9", 300, CrawlKind::Prefix { known_tail: 1 }).await;
    assert_eq!(page(store, "9", 310, "123", to("2")).await.known_tail, 0);
    assert_eq!(page(store, "9", 320, "23", to("3")).await.known_tail, 0);
    assert!(page(store, "9", 330, "3z", to("4")).await.ended.is_some());
}

async fn a_prefix_crawl_that_reaches_the_end_is_complete(store: &dyn EdgeStore) {
    crawl(store, "9", 10, "ab").await;
    begin(store, "9", 100, CrawlKind::Prefix { known_tail: 9 }).await;
    assert_eq!(page(store, "9", 110, "cb", END).await.ended, Some(ended(CrawlEnd::Complete, 1, 0)));
    assert_eq!(edges(store).await, ["9 a (- 10] gone (8 110]", "9 b (- 10]", "9 c (5 110]"]);
}

async fn a_stale_cursor_restarts_the_crawl_and_opens_no_gap(store: &dyn EdgeStore) {
    crawl(store, "9", 10, "abc").await;
    let stale = begin(store, "9", 100, CrawlKind::Complete).await;
    page(store, "9", 110, "xa", to("2")).await;
    let end = store.end_crawl(NS, "9", (stale.number, Some("2")), T + 120, End::Stale).await.unwrap();
    assert_eq!(end, Some(ended(CrawlEnd::Stale, 0, 0)));
    // Its page proves that x was there, though the next crawl misses it.
    begin(store, "9", 130, CrawlKind::Complete).await;
    page(store, "9", 140, "ya", to("2")).await;
    assert_eq!(page(store, "9", 150, "b", END).await.ended, Some(ended(CrawlEnd::Complete, 2, 0)));
    let expected = ["9 a (- 10]", "9 b (- 10]", "9 c (- 10] gone (8 150]", "9 x (5 110] gone (108 150]", "9 y (5 140]"];
    assert_eq!(edges(store).await, expected);
    let ends: Vec<_> = store.crawls(NS, "9", 9).await.unwrap().into_iter().filter_map(|crawl| crawl.ended).collect();
    assert_eq!(ends, ["complete", "stale", "complete"]);
}

async fn a_cursor_that_comes_again_ends_the_crawl(store: &dyn EdgeStore) {
    crawl(store, "9", 10, "z").await;
    begin(store, "9", 100, CrawlKind::Complete).await;
    for (at, next) in [(110, "2"), (120, "3")] {
        assert_eq!(page(store, "9", at, "ab", to(next)).await.ended, None);
    }
    let saved = page(store, "9", 130, "ab", to("2")).await;
    assert_eq!(saved.ended, Some(ended(CrawlEnd::Looped, 0, 0)));
    assert_eq!((store.crawl(NS, "9").await.unwrap(), edges(store).await.len()), (None, 3));
    // Its own cursor again; and a new crawl may use the same ones.
    begin(store, "9", 200, CrawlKind::Complete).await;
    assert_eq!(page(store, "9", 210, "ab", to("2")).await.ended, None);
    assert_eq!(page(store, "9", 220, "ab", to("2")).await.ended, Some(ended(CrawlEnd::Looped, 0, 0)));
}

async fn ids_that_cannot_be_read_are_counted_over_a_crawl(store: &dyn EdgeStore) {
    begin(store, "9", 0, CrawlKind::Complete).await;
    for (at, ids, unreadable, all) in [(10, "ab", 1, 1), (20, "cd", 0, 1), (30, "ef", 2, 3)] {
        let crawl = store.crawl(NS, "9").await.unwrap().unwrap();
        let page = EdgePage { unreadable, ..page_of(&crawl, at, members(ids), to(ids)) };
        store.save_edges(NS, "9", &page).await.unwrap().unwrap();
        assert_eq!(store.crawl(NS, "9").await.unwrap().unwrap().unreadable, all);
    }
    page(store, "9", 40, "g", Next::End(End::Partial)).await;
    assert_eq!(begin(store, "9", 50, CrawlKind::Complete).await.unreadable, 0, "another crawl");
}

async fn only_complete_crawls_close(store: &dyn EdgeStore) {
    crawl(store, "9", 10, "abc").await;
    let ends = [End::Capped, End::Hidden, End::Partial, End::Stale, End::Aborted];
    for (at, end) in (100..).step_by(100).zip(ends) {
        begin(store, "9", at, CrawlKind::Complete).await;
        let saved = page(store, "9", at + 10, "", Next::End(end)).await;
        assert_eq!((saved.ended.unwrap().vanished, edges(store).await.len()), (0, 3), "{end:?}");
    }
    assert_eq!(edges(store).await, ["9 a (- 10]", "9 b (- 10]", "9 c (- 10]"]);
    // Nor does such a crawl give a lower bound.
    crawl(store, "9", 1000, "abcd").await;
    assert_eq!(edges(store).await[3], "9 d (5 1000]");
    // Without a page of its own.
    let last = begin(store, "9", 2000, CrawlKind::Complete).await;
    let end = End::Complete(FREE);
    let end = store.end_crawl(NS, "9", (last.number, None), T + 2010, end).await.unwrap();
    assert_eq!(end, Some(ended(CrawlEnd::Complete, 4, 0)));
}

async fn a_wave_closes_nothing_until_the_next_crawl_misses_the_same(store: &dyn EdgeStore) {
    let guard = ClosingLimit { share: 0.3, least: 2 };
    let end = || Next::End(End::Complete(guard));
    crawl(store, "9", 10, "abcdefghij").await;
    // Three of ten are no wave, four are one.
    begin(store, "9", 100, CrawlKind::Complete).await;
    assert_eq!(page(store, "9", 110, "abcdefg", end()).await.ended, Some(ended(CrawlEnd::Complete, 3, 0)));
    begin(store, "9", 200, CrawlKind::Complete).await;
    assert_eq!(page(store, "9", 210, "abcdx", end()).await.ended, Some(ended(CrawlEnd::Withheld, 0, 3)));
    let record = &store.crawls(NS, "9", 1).await.unwrap()[0];
    assert_eq!((record.ended.as_deref(), record.withheld, record.vanished), (Some("withheld"), 3, 0));
    // It proves no absence: the bound of what is new is the crawl before. e, f and g were missed twice; d is one alone.
    begin(store, "9", 300, CrawlKind::Complete).await;
    assert_eq!(page(store, "9", 310, "abcxy", end()).await.ended, Some(ended(CrawlEnd::Complete, 4, 0)));
    let now = edges(store).await;
    assert!(now.contains(&"9 y (100 310]".to_owned()) && now.contains(&"9 x (100 210]".to_owned()), "{now:?}");
    assert!(now.contains(&"9 e (- 10] gone (108 310]".to_owned()), "{now:?}");
    assert!(now.contains(&"9 d (- 10] gone (208 310]".to_owned()), "{now:?}");
    // A second wave, of others than the first: what both miss is closed.
    begin(store, "9", 400, CrawlKind::Complete).await;
    assert_eq!(page(store, "9", 410, "ab", end()).await.ended, Some(ended(CrawlEnd::Withheld, 0, 3)));
    begin(store, "9", 500, CrawlKind::Complete).await;
    page(store, "9", 510, "abklm", Next::End(End::Aborted)).await;
    begin(store, "9", 600, CrawlKind::Complete).await;
    assert_eq!(page(store, "9", 610, "", end()).await.ended, Some(ended(CrawlEnd::Withheld, 3, 5)));
    // A page between the two that shows them takes the confirmation away.
    begin(store, "9", 700, CrawlKind::Complete).await;
    page(store, "9", 710, "abklm", Next::End(End::Aborted)).await;
    begin(store, "9", 800, CrawlKind::Complete).await;
    assert_eq!(page(store, "9", 810, "", end()).await.ended, Some(ended(CrawlEnd::Withheld, 0, 5)));
    begin(store, "9", 900, CrawlKind::Complete).await;
    assert_eq!(page(store, "9", 910, "", end()).await.ended, Some(ended(CrawlEnd::Complete, 5, 0)));
    // Few are no wave, however large their share.
    crawl(store, "8", 10, "ab").await;
    begin(store, "8", 100, CrawlKind::Complete).await;
    assert_eq!(page(store, "8", 110, "b", end()).await.ended, Some(ended(CrawlEnd::Complete, 1, 0)));
    // All are, even if all is one.
    begin(store, "8", 200, CrawlKind::Complete).await;
    assert_eq!(page(store, "8", 210, "", end()).await.ended, Some(ended(CrawlEnd::Withheld, 0, 1)));
    begin(store, "8", 300, CrawlKind::Complete).await;
    assert_eq!(page(store, "8", 310, "", end()).await.ended, Some(ended(CrawlEnd::Complete, 1, 0)));
}

async fn a_wave_that_was_none_closes_nothing(store: &dyn EdgeStore) {
    let end = || Next::End(End::Complete(ClosingLimit { share: 0.3, least: 0 }));
    crawl(store, "9", 10, "abcd").await;
    for (at, ids, expected) in
        [(100, "a", ended(CrawlEnd::Withheld, 0, 3)), (200, "abcd", ended(CrawlEnd::Complete, 0, 0))]
    {
        begin(store, "9", at, CrawlKind::Complete).await;
        assert_eq!(page(store, "9", at + 10, ids, end()).await.ended, Some(expected));
    }
    assert_eq!(edges(store).await, ["9 a (- 10]", "9 b (- 10]", "9 c (- 10]", "9 d (- 10]"]);
    // The doubt is over: the next wave is a first one.
    begin(store, "9", 300, CrawlKind::Complete).await;
    assert_eq!(page(store, "9", 310, "a", end()).await.ended, Some(ended(CrawlEnd::Withheld, 0, 3)));
}

async fn many_that_are_missing_behind_an_empty_last_page_are_confirmed_first(store: &dyn EdgeStore) {
    // Far below the share.
    let end = |share| Next::End(End::Complete(ClosingLimit { share, least: 2 }));
    let read = async |at: Millis, last: &str, share: f64| {
        begin(store, "9", at, CrawlKind::Complete).await;
        page(store, "9", at + 10, "abcdefghijklmnopqrst", to("1")).await;
        page(store, "9", at + 20, last, end(share)).await.ended.unwrap()
    };
    assert_eq!(read(100, "uvwxyz", 0.9).await, ended(CrawlEnd::Complete, 0, 0));
    assert_eq!(read(200, "", 0.9).await, ended(CrawlEnd::Withheld, 0, 6));
    assert_eq!(read(300, "uvwxyz", 0.9).await, ended(CrawlEnd::Complete, 0, 0));
    // Twice in a row it is the truth.
    assert_eq!(read(400, "", 0.9).await, ended(CrawlEnd::Withheld, 0, 6));
    assert_eq!(read(500, "", 0.9).await, ended(CrawlEnd::Complete, 6, 0));
    // A few may leave at any time; and a page with a member has come.
    assert_eq!(read(600, "uvwxyz", 0.9).await, ended(CrawlEnd::Complete, 0, 0));
    assert_eq!(read(700, "u", 0.9).await, ended(CrawlEnd::Complete, 5, 0));
    assert_eq!(read(800, "uv", 0.9).await, ended(CrawlEnd::Complete, 0, 0));
    assert_eq!(read(900, "", 0.9).await, ended(CrawlEnd::Complete, 2, 0));
    assert_eq!(read(1_000, "uvwxyz", 0.9).await, ended(CrawlEnd::Complete, 0, 0));
    assert_eq!(read(1_100, "", 1.0).await, ended(CrawlEnd::Complete, 6, 0), "all that is missing goes at once");
}

async fn a_clock_that_steps_back_turns_no_interval_round(store: &dyn EdgeStore) {
    crawl(store, "9", 1000, "ab").await;
    let crawl = begin(store, "9", 500, CrawlKind::Complete).await;
    assert_eq!((crawl.started_at, crawl.newest_at), (T + 995, T + 1000));
    page(store, "9", 510, "cb", to("2")).await;
    let late = EdgePage {
        asked_at: T + 2000,
        ..page_of(&store.crawl(NS, "9").await.unwrap().unwrap(), 400, members("d"), END)
    };
    store.save_edges(NS, "9", &late).await.unwrap().unwrap();
    begin(store, "9", 100, CrawlKind::Complete).await;
    page(store, "9", 110, "", END).await;
    let expected = [
        "9 a (- 1000] gone (998 1000]",
        "9 b (- 1000] gone (995 1000]",
        "9 c (995 1000] gone (995 1000]",
        "9 d (995 1000] gone (1000 1000]",
    ];
    assert_eq!(edges(store).await, expected);
}

async fn told_times_are_kept_inside_their_intervals(store: &dyn EdgeStore) {
    let told = |id: &str, at: Millis| ListedMember { id: id.into(), followed_at: Some(T + at) };
    let first = begin(store, "9", 100, CrawlKind::Complete).await;
    // Before the first crawl any time may be; none is after the answer.
    let seen = vec![told("a", 50), told("b", 111), told("c", 110), member("d")];
    store.save_edges(NS, "9", &page_of(&first, 110, seen, END)).await.unwrap().unwrap();
    let second = begin(store, "9", 200, CrawlKind::Complete).await;
    let seen = vec![told("e", 150), told("f", 100), told("g", 101), told("a", 105)];
    store.save_edges(NS, "9", &page_of(&second, 210, seen, END)).await.unwrap().unwrap();
    let all = store.edge_changes(NS, EdgeChange::Appeared, (0, Millis::MAX), None, 99).await.unwrap();
    let mut all: Vec<_> = all.into_iter().map(|(_, of)| (of.member, of.followed_at.map(|at| at - T))).collect();
    all.sort();
    let all: Vec<_> = all.iter().map(|(member, at)| (member.as_str(), *at)).collect();
    let times = [Some(50), None, Some(110), None, Some(150), None, Some(101)];
    assert_eq!(all, ["a", "b", "c", "d", "e", "f", "g"].into_iter().zip(times).collect::<Vec<_>>());
    // Such an edge is sure from that moment on.
    let at = |at| async move {
        let members = store.members_at(NS, "9", T + at, None, 99).await.unwrap();
        members
            .into_iter()
            .map(|of| format!("{}{}", of.edge.member, if of.surely { "" } else { "?" }))
            .collect::<Vec<_>>()
    };
    assert!(at(49).await.iter().all(|member| member != "a?" && member != "a"));
    assert!(at(50).await.contains(&"a".to_owned()));
    assert!(at(149).await.iter().all(|member| !member.starts_with('e')));
    assert!(at(150).await.contains(&"e".to_owned()));
}

async fn a_follow_that_is_told_anew_is_another_one(store: &dyn EdgeStore) {
    let told = |id: &str, at: Millis| ListedMember { id: id.into(), followed_at: Some(T + at) };
    let first = begin(store, "9", 100, CrawlKind::Complete).await;
    let seen = vec![told("a", 50), member("b"), told("c", 60), member("d")];
    store.save_edges(NS, "9", &page_of(&first, 110, seen, END)).await.unwrap().unwrap();
    let second = begin(store, "9", 200, CrawlKind::Complete).await;
    // The page that showed c was asked for at 108, and nothing says that the follow of d is not the first one.
    let seen = vec![told("a", 150), told("b", 60), told("c", 108), told("d", 150)];
    let saved = store.save_edges(NS, "9", &page_of(&second, 210, seen, to("2"))).await.unwrap().unwrap();
    assert_eq!((saved.new, saved.known_tail), (1, 3));
    let expected = |end: Millis| {
        let gone = format!("9 a (- 110] gone (108 {end}]");
        [&gone, "9 a (100 210]", "9 b (- 110]", "9 c (- 110]", "9 d (- 110]"].map(str::to_owned).to_vec()
    };
    assert_eq!(edges(store).await, expected(210), "the end of a crawl under way is its newest page");
    let members = store.members_at(NS, "9", T + 105, None, 9).await.unwrap();
    assert_eq!(members.first().map(|of| (&*of.edge.member, of.surely)), Some(("a", true)));
    let ended = page(store, "9", 220, "", END).await.ended.unwrap();
    assert_eq!((ended.end, ended.vanished), (CrawlEnd::Complete, 0));
    assert_eq!(edges(store).await, expected(220));
    let crawls = store.crawls(NS, "9", 1).await.unwrap();
    assert_eq!((crawls[0].appeared, crawls[0].vanished), (1, 1));
    // The same again is nothing new.
    let third = begin(store, "9", 300, CrawlKind::Complete).await;
    let seen = vec![told("a", 150), told("b", 60), told("c", 60), member("d")];
    let saved = store.save_edges(NS, "9", &page_of(&third, 310, seen, END)).await.unwrap().unwrap();
    assert_eq!((saved.new, edges(store).await), (0, expected(220)));
    let all = store.edge_changes(NS, EdgeChange::Appeared, (0, Millis::MAX), None, 99).await.unwrap();
    let mut all: Vec<_> = all.into_iter().map(|(_, of)| (of.member, of.followed_at.map(|at| at - T))).collect();
    all.sort();
    let all: Vec<_> = all.iter().map(|(member, at)| (member.as_str(), *at)).collect();
    assert_eq!(all, [("a", Some(50)), ("a", Some(150)), ("b", Some(60)), ("c", Some(60)), ("d", None)]);
}

async fn members_at_a_moment_are_sure_or_not(store: &dyn EdgeStore) {
    crawl(store, "8", 10, "a").await;
    crawl(store, "9", 10, "abc").await; // from 5 to 10
    crawl(store, "9", 110, "bcd").await; // from 105
    crawl(store, "9", 210, "acd").await;
    let at = |at: Millis| async move {
        let mut told = Vec::new();
        let mut after = None;
        // Page by page.
        loop {
            let page = store.members_at(NS, "9", T + at, after, 2).await.unwrap();
            told.extend(page.iter().map(|of| format!("{}{}", of.edge.member, if of.surely { "" } else { "?" })));
            match page.last() {
                Some(last) => after = Some(last.place),
                None => break,
            }
        }
        told.sort();
        told.join(" ")
    };
    assert_eq!(at(0).await, "a? b? c?");
    assert_eq!(at(10).await, "a? b c d?", "a was last asked for at 8");
    assert_eq!(at(5).await, "a? b? c?");
    assert_eq!(at(6).await, "a? b? c? d?");
    assert_eq!(at(108).await, "a? a? b c d?", "a is about to go, or back already");
    assert_eq!(at(110).await, "a? b? c d", "a may have come back, and b may be gone");
    assert_eq!(at(210).await, "a? c? d?", "the newest crawl proves them up to its start");
    assert_eq!(at(204).await, "a? b? c d");
    assert_eq!(at(9999).await, "a? c? d?");
    assert_eq!(store.members_at(NS, "7", T, None, 9).await.unwrap(), []);
}

async fn changes_are_listed_by_time_page_by_page(store: &dyn EdgeStore) {
    for (owner, at, ids) in [("8", 10, "ab"), ("9", 20, "ab"), ("8", 110, "bc"), ("9", 120, "c"), ("8", 210, "")] {
        crawl(store, owner, at, ids).await;
    }
    let changes = |change, from, until| async move {
        let (mut told, mut after) = (Vec::new(), None);
        loop {
            let page = store.edge_changes(NS, change, (T + from, T + until), after, 1).await.unwrap();
            let Some((place, edge)) = page.into_iter().next() else { break told };
            let at = if change == EdgeChange::Appeared { edge.appeared_by } else { edge.vanished_by.unwrap() };
            told.push(format!("{} {} {}", at - T, edge.owner, edge.member));
            assert!(after < Some(place));
            after = Some(place);
        }
    };
    assert_eq!(changes(EdgeChange::Appeared, 10, 110).await, ["10 8 a", "10 8 b", "20 9 a", "20 9 b"]);
    assert_eq!(changes(EdgeChange::Appeared, 11, 9999).await, ["20 9 a", "20 9 b", "110 8 c", "120 9 c"]);
    assert_eq!(changes(EdgeChange::Vanished, 0, 210).await, ["110 8 a", "120 9 a", "120 9 b"]);
    assert_eq!(changes(EdgeChange::Vanished, 200, 211).await, ["210 8 b", "210 8 c"]);
    let none = store.edge_changes(FRIENDS, EdgeChange::Appeared, (0, Millis::MAX), None, 9).await.unwrap();
    assert_eq!(none, []);
}

async fn follows_among_accounts_come_from_lists_of_both_kinds(store: &dyn EdgeStore) {
    // b and x follow a; a follows b and y; c follows a until 110.
    crawl(store, "a", 10, "bxc").await;
    record(store, FRIENDS, &["a", "c"]).await;
    for (owner, ids) in [("a", "byc"), ("c", "a")] {
        let new = NewCrawl { kind: CrawlKind::Complete, at: T, stated_total: None };
        let crawl = store.begin_crawl(FRIENDS, owner, &new).await.unwrap().unwrap();
        store.save_edges(FRIENDS, owner, &page_of(&crawl, 10, members(ids), END)).await.unwrap().unwrap();
    }
    let ids: Vec<String> = ["a", "b", "c", "q"].map(str::to_owned).to_vec();
    let told = |follows: Vec<Follow>| -> Vec<String> {
        follows.into_iter().map(|of| format!("{}>{}", of.follower, of.followed)).collect()
    };
    assert_eq!(told(store.follows_among("twitter", &ids, None).await.unwrap()), ["a>b", "a>c", "b>a", "c>a"]);
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    assert_eq!(store.mutual_among("twitter", &ids, None).await.unwrap(), [pair("a", "b"), pair("a", "c")]);
    crawl(store, "a", 110, "bx").await;
    record(store, FRIENDS, &["a"]).await;
    let new = NewCrawl { kind: CrawlKind::Complete, at: T + 100, stated_total: None };
    let crawl = store.begin_crawl(FRIENDS, "a", &new).await.unwrap().unwrap();
    store.save_edges(FRIENDS, "a", &page_of(&crawl, 110, members("c"), END)).await.unwrap().unwrap();
    // The list of c's friends, older, still has a.
    assert_eq!(told(store.follows_among("twitter", &ids, None).await.unwrap()), ["a>c", "b>a", "c>a"]);
    assert_eq!(told(store.follows_among("twitter", &ids, Some(T + 50)).await.unwrap()), ["a>b", "a>c", "b>a", "c>a"]);
    assert_eq!(told(store.follows_among("twitter", &ids, Some(T + 110)).await.unwrap()), ["a>c", "b>a", "c>a"]);
    assert_eq!(told(store.follows_among("x", &ids, None).await.unwrap()), [""; 0]);
}

fn profile(id: &str, at: Millis, absence: Option<Absence>) -> Observation<Account> {
    let (seen, state) = match absence {
        None => (
            Finding::Found(Account { id: id.into(), state: AccountState::Live, ..Account::default() }),
            ItemState::Live,
        ),
        Some(reason) => {
            (Finding::Missing { misses: 2, since: T + at, reason: Some(reason), handle: None }, ItemState::Unavailable)
        }
    };
    let next_due = Some(T + at);
    let id = id.to_owned();
    Observation { id, answered_at: T + at, finding: seen, state, next_due, follow: None, forget: false, recent: None }
}

async fn an_edge_that_ends_has_a_cause(store: &dyn EdgeStore) {
    const WEEK: Millis = 7 * 24 * 3_600_000;
    let suspended = Some(Absence::Suspended);
    let missing = |id: &str, at: Millis, since: Millis, reason: Option<Absence>| Observation {
        finding: Finding::Missing { misses: 3, since: T + since, reason, handle: None },
        ..profile(id, at, suspended)
    };
    let counted = |id: &str, at: Millis, followers: i64| {
        let counts = AccountCounts { followers: Some(followers), ..AccountCounts::default() };
        let account = Account { id: id.into(), state: AccountState::Live, counts, ..Account::default() };
        Observation { finding: Finding::Found(account), ..profile(id, at, None) }
    };
    crawl(store, "9", 10, "abcdefghijklmnopq").await;
    // The edges vanish between 8 and 110.
    let answers = [
        profile("a", 1, None),
        profile("a", 200, None),
        profile("b", 1, None),
        profile("b", 50, suspended),
        profile("b", 90, None),
        profile("c", 1, None),
        profile("c", 110 + WEEK, Some(Absence::NotFound)),
        profile("d", 1, None),
        profile("d", 111 + WEEK, suspended),
        profile("e", 1, None),
        profile("e", 5, suspended),
        profile("e", 300, None),
        profile("f", 300, suspended),
        missing("f", 111 + WEEK, 300, suspended),
        profile("g", 1, None),
        profile("h", 1, None),
        profile("h", 109, None),
        profile("j", 1, None),
        missing("j", 50, 50, None),
        profile("j", 300, None),
        profile("k", 1, None),
        missing("k", 200, 200, None),
        profile("k", 300, None),
        profile("l", 1, None),
        profile("l", 5, suspended),
        profile("l", 20, None),
        profile("l", 300, None),
        profile("m", 1, None),
        profile("m", 50, suspended),
        profile("m", 90, None),
        profile("m", 300, None),
        profile("n", 111 + WEEK, suspended),
        profile("o", 1, None),
        Observation { state: ItemState::Live, ..profile("o", 200, suspended) },
        counted("p", 1, 1),
        counted("p", 200, 2),
        profile("p", 111 + WEEK, suspended),
        profile("q", 5, suspended),
        profile("q", 300, None),
    ];
    for answer in answers {
        store.save_accounts("profiles:twitter", &[answer]).await.unwrap();
    }
    crawl(store, "9", 110, "").await;
    let gone = store.edge_changes(NS, EdgeChange::Vanished, (0, Millis::MAX), None, 99).await.unwrap();
    let mut causes: Vec<_> = gone.into_iter().map(|(_, edge)| (edge.member, edge.cause.unwrap())).collect();
    causes.sort();
    let causes: Vec<String> = causes.into_iter().map(|(member, cause)| format!("{member} {cause}")).collect();
    let expected = [
        "a unfollowed",
        "b unknown",     // suspended and back before the crawl; not looked up since
        "c deactivated", // shown within a week
        "d unknown",     // the first answer since does not find it
        "e suspended",   // before, and back later
        "f suspended",   // the first answer about it, and later ones
        "g unknown",     // not looked up since
        "h unknown",
        "i unknown",    // no profile
        "j unknown",    // it was missing then, without a reason
        "k unknown",    // the first answer since did not find it
        "l unfollowed", // it was suspended before, and listed again
        "m unfollowed", // the same by the crawl
        "n unknown",    // the first answer about it, long after
        "o unknown",    // a miss that is not believed yet
        "p unfollowed", // found after it, and suspended later
        "q unknown",    // the first answer about it, and found again
    ];
    assert_eq!(causes, expected);
}

async fn what_is_forgotten_leaves_no_edge(store: &dyn EdgeStore) {
    crawl(store, "a", 10, "bc").await;
    crawl(store, "b", 10, "ac").await;
    crawl(store, "b", 110, "c").await;
    let under_way = begin(store, "a", 100, CrawlKind::Complete).await;
    assert_eq!(store.forget_edges("x", "a").await.unwrap(), 0);
    assert_eq!(store.forget_edges("twitter", "a").await.unwrap(), 3);
    assert_eq!(edges(store).await, ["b c (- 10]"]);
    assert_eq!((store.crawls(NS, "a", 9).await.unwrap().len(), store.crawl(NS, "a").await.unwrap()), (0, None));
    let late = page_of(&under_way, 110, members("bc"), to("2"));
    assert_eq!(store.save_edges(NS, "a", &late).await.unwrap(), None);
    // Kept pages of b's list name a number: a that follows anew is another one.
    crawl(store, "b", 210, "ca").await;
    crawl(store, "b", 310, "c").await;
    assert_eq!(edges(store).await, ["b a (105 210] gone (208 310]", "b c (- 10]"]);
}

async fn what_is_to_be_forgotten_is_found(store: &dyn EdgeStore) {
    let forgotten = async || {
        let mut all = store.accounts_to_forget("twitter", 9).await.unwrap();
        all.sort();
        all
    };
    crawl(store, "a", 10, "bc").await;
    crawl(store, "d", 10, "e").await;
    record(store, "profiles:twitter", &["b", "e", "q"]).await;
    for (id, forget) in [("b", true), ("e", false), ("q", true)] {
        store.save_accounts("profiles:twitter", &[profile(id, 1, None)]).await.unwrap();
        let gone = Observation { forget, ..profile(id, 50, Some(Absence::NotFound)) };
        store.save_accounts("profiles:twitter", &[gone]).await.unwrap();
    }
    // What the record of a list says of its owner.
    let list = |at, seen, state, forget| Observation {
        id: "d".to_owned(),
        answered_at: T + at,
        finding: seen,
        state,
        next_due: Some(T + 99),
        follow: None,
        forget,
        recent: None,
    };
    let found = Finding::Found(Tweet { id: "d".to_owned(), raw: "{}".to_owned(), ..Tweet::default() });
    store.save(NS, &[list(10, found, ItemState::Live, false)]).await.unwrap();
    assert_eq!(forgotten().await, ["b"], "q is on no list");
    let missing = || Finding::Missing { misses: 1, since: T, reason: Some(Absence::NotFound), handle: None };
    store.save(NS, &[list(50, missing(), ItemState::Unavailable, false)]).await.unwrap();
    assert_eq!(forgotten().await, ["b"]);
    store.save(NS, &[list(60, missing(), ItemState::Unavailable, true)]).await.unwrap();
    assert_eq!(forgotten().await, ["b", "d"]);
    assert_eq!(store.accounts_to_forget("x", 9).await.unwrap(), [""; 0]);
    for account in forgotten().await {
        assert_eq!(store.forget_edges("twitter", &account).await.unwrap(), 1);
    }
    assert_eq!((forgotten().await, edges(store).await), (vec![], vec!["a c (- 10]".to_owned()]));
    // One that another list shows again goes again.
    crawl(store, "a", 110, "bc").await;
    assert_eq!(forgotten().await, ["b"]);
}

async fn a_removed_list_leaves_nothing(store: &dyn EdgeStore) {
    crawl(store, "8", 10, "ab").await;
    crawl(store, "9", 10, "ab").await;
    store.mark_dead(NS, T, &[("9".into(), "odd".into())]).await.unwrap();
    let ended = twitter_updater::store::DeadResolution { id: "9".into(), created_at: None, next_due: None };
    store.resolve_dead(NS, T, &[ended]).await.unwrap();
    assert_eq!(store.remove(NS, Expiry::Before(T + 1), &["9".into()]).await.unwrap(), 1);
    assert_eq!(edges(store).await, ["8 a (- 10]", "8 b (- 10]"]);
    // Recorded anew, it has no past.
    crawl(store, "9", 110, "a").await;
    assert_eq!(store.crawls(NS, "9", 9).await.unwrap().len(), 1);
    assert_eq!(edges(store).await[2], "9 a (- 110]");
}

async fn crawls_under_way_are_listed(store: &dyn EdgeStore) {
    crawl(store, "7", 10, "a").await;
    let kinds = [CrawlKind::Complete, CrawlKind::Prefix { known_tail: 100 }];
    let mut numbers = Vec::new();
    for (owner, kind) in ["8", "9"].into_iter().zip(kinds) {
        numbers.push(begin(store, owner, 20, kind).await.number);
    }
    page(store, "9", 30, "abc", to("2")).await;
    let all = store.crawls_under_way(NS, 0, 9).await.unwrap();
    let told: Vec<_> =
        all.iter().map(|of| (of.owner.as_str(), of.crawl.number, of.crawl.kind, of.crawl.found)).collect();
    assert_eq!(told, [("8", numbers[0], kinds[0], 0), ("9", numbers[1], kinds[1], 3)]);
    assert_eq!(store.crawls_under_way(NS, numbers[0], 9).await.unwrap(), all[1..]);
    assert_eq!(store.crawls_under_way(FRIENDS, 0, 9).await.unwrap(), []);
}

async fn edges_and_crawls_are_exported(store: &dyn EdgeStore) {
    crawl(store, "9", 10, "ab").await;
    crawl(store, "8", 20, "b").await;
    crawl(store, "9", 110, "b").await;
    let text = |of: &str| Cell::Text(of.into());
    let time = |at: Millis| Cell::Number(T + at);
    let (follower, none) = (text("follower"), Cell::None);
    let mut expected = vec![
        vec![
            text("9"),
            text("a"),
            follower.clone(),
            none.clone(),
            time(10),
            none.clone(),
            time(8),
            time(110),
            text("unknown"),
            time(8),
        ],
        vec![
            text("9"),
            text("b"),
            follower.clone(),
            none.clone(),
            time(10),
            none.clone(),
            none.clone(),
            none.clone(),
            none.clone(),
            time(105),
        ],
        vec![
            text("8"),
            text("b"),
            follower.clone(),
            none.clone(),
            time(20),
            none.clone(),
            none.clone(),
            none.clone(),
            none.clone(),
            time(18),
        ],
    ];
    let wanted = ExportFilter { namespace: NS.into(), ..ExportFilter::default() };
    let rows: Vec<_> = store.rows(&EDGES[0], &wanted).try_collect().await.unwrap();
    let mut cells: Vec<_> = rows.iter().map(|row| row.cells.clone()).collect();
    let sorted = |rows: &mut Vec<Vec<Cell>>| rows.sort_by_key(|row| format!("{row:?}"));
    sorted(&mut cells);
    sorted(&mut expected);
    assert_eq!(cells, expected);
    // Behind each row come the others.
    for (at, row) in rows.iter().enumerate() {
        let wanted = ExportFilter { after: Some(row.key.clone()), ..wanted.clone() };
        let rest: Vec<_> = store.rows(&EDGES[0], &wanted).try_collect().await.unwrap();
        assert_eq!(rest, rows[at + 1..]);
    }
    let crawls: Vec<_> = store.rows(&EDGES[1], &wanted).try_collect().await.unwrap();
    assert_eq!((crawls.len(), crawls[0].cells.len()), (3, EDGES[1].columns.len()));
}
