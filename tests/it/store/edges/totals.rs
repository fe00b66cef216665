//! Totals of lists: the age of complete reads by tier, and the pages that first reads need.

use twitter_updater::store::{ListBounds, ListTotals, TierTotal, UnreadTotal};

use super::*;

/// Lists that are due again within 0 ms, 100 ms, or later, and complete reads that are older than [`T`] plus these.
const BOUNDS: ListBounds = ListBounds {
    recorded_before: T + 50,
    intervals: [0, 100, Millis::MAX],
    complete_before: [T + 30, T + 30, T + 75],
    page: 100,
    longest: 500,
};

/// A visit of that list that ended, and its next due time, ms after [`T`].
async fn visited(store: &dyn EdgeStore, owner: &str, at: Millis, next_due: Millis) {
    let seen = Finding::Found(Tweet { id: owner.into(), raw: "{}".into(), ..Tweet::default() });
    let visit = Observation::new(owner, T + at, seen, ItemState::Live, Some(T + next_due));
    store.save(NS, &[visit]).await.unwrap();
}

/// Ends the crawl under way of that list without a further page.
async fn ends(store: &dyn EdgeStore, owner: &str, at: Millis, end: End) {
    let crawl = store.crawl(NS, owner).await.unwrap().unwrap();
    store.end_crawl(NS, owner, (crawl.number, crawl.cursor.as_deref()), T + at, end).await.unwrap().unwrap();
}

pub(super) async fn lists_are_counted_by_tier_and_read(store: &dyn EdgeStore) {
    assert_eq!(store.list_totals(NS, &BOUNDS).await.unwrap(), ListTotals::default());
    // Four of the second tier. The newest complete read of 1 is the second one, of two pages; a short visit followed.
    crawl(store, "1", 10, "ab").await;
    begin(store, "1", 55, CrawlKind::Complete).await;
    page(store, "1", 58, "ab", to("2")).await;
    page(store, "1", 60, "c", END).await;
    begin(store, "1", 70, CrawlKind::Prefix { known_tail: 1 }).await;
    page(store, "1", 80, "ab", to("2")).await;
    visited(store, "1", 80, 180).await;
    for (owner, at) in [("2", 20), ("3", 40)] {
        crawl(store, owner, at, "a").await;
        visited(store, owner, at, at + 100).await;
    }
    // A hidden list was read, and never as a whole.
    begin(store, "4", 20, CrawlKind::Complete).await;
    ends(store, "4", 21, End::Hidden).await;
    visited(store, "4", 21, 22).await;
    // One posted since: it is due as of its visit. One has a long interval.
    crawl(store, "5", 70, "a").await;
    visited(store, "5", 70, 170).await;
    store.promote(NS, &[("5".into(), T + 70)]).await.unwrap();
    crawl(store, "6", 74, "a").await;
    visited(store, "6", 74, 175).await;
    // An owner is away, a list is dead, and another pipeline has lists, too.
    for owner in ["7", "8"] {
        crawl(store, owner, 10, "a").await;
    }
    let seen = Finding::Missing { misses: 3, since: T, reason: Some(Absence::Suspended), handle: None };
    let away = Observation::new("7", T + 90, seen, ItemState::Unavailable, Some(T + 900));
    store.save(NS, &[away]).await.unwrap();
    store.mark_dead(NS, T + 90, &[("8".into(), "odd".into())]).await.unwrap();
    record(store, FRIENDS, &["9"]).await;

    let at = |at: Millis| Some(T + at);
    let total = |tier, lists, complete, (oldest_at, median_at), too_old, pages| TierTotal {
        tier,
        lists,
        complete,
        oldest_at,
        median_at,
        too_old,
        pages: Some(pages),
    };
    let tiers = vec![
        total(0, 1, 1, (at(70), at(70)), 0, 1.0),
        total(1, 4, 3, (at(20), at(40)), 1, 4.0 / 3.0),
        total(2, 1, 1, (at(74), at(74)), 1, 1.0),
    ];
    let totals = store.list_totals(NS, &BOUNDS).await.unwrap();
    assert_eq!((totals.tiers, totals.unread), (tiers, UnreadTotal::default()));
    let friends = store.list_totals(FRIENDS, &BOUNDS).await.unwrap();
    assert_eq!((friends.tiers.len(), friends.unread.lists), (0, 1));
}

pub(super) async fn lists_that_were_never_read_are_counted_with_their_pages(store: &dyn EdgeStore) {
    // Of unknown size, without a crawl; and with a page that was read.
    record(store, NS, &["1"]).await;
    begin(store, "2", 10, CrawlKind::Complete).await;
    page(store, "2", 20, "a", to("2")).await;
    // The crawl states 250 members, which are three pages; one page was read.
    record(store, NS, &["3"]).await;
    let new = NewCrawl { kind: CrawlKind::Complete, at: T + 10, stated_total: Some(250) };
    store.begin_crawl(NS, "3", &new).await.unwrap().unwrap();
    page(store, "3", 20, "a", to("2")).await;
    // Profiles state 200 members, none, and more than the cap of 500.
    let late: Vec<_> = ["4", "5", "6"].map(|owner| new_tweet(owner, T + 60, Some(T))).to_vec();
    store.record(NS, T + 60, &way(), &late).await.unwrap();
    let profiles = [("4", 200), ("5", 0), ("6", Millis::MAX)].map(|(id, followers)| {
        let counts = AccountCounts { followers: Some(followers), following: Some(7_000), ..AccountCounts::default() };
        let account = Account { id: id.into(), state: AccountState::Live, counts, ..Account::default() };
        Observation { finding: Finding::Found(account), ..profile(id, 1, None) }
    });
    store.save_accounts("profiles:twitter", &profiles).await.unwrap();

    let totals = store.list_totals(NS, &BOUNDS).await.unwrap();
    let expected = UnreadTotal {
        lists: 6,
        overdue: 3,
        oldest_at: Some(T),
        pages: 2.0 + 2.0 + 1.0 + 5.0,
        unknown: 2,
        unknown_read: 1.0,
    };
    assert_eq!((totals.tiers.len(), totals.unread), (0, expected));
    // A list of friends has the other number; and without a cap, no sum is too great.
    record(store, FRIENDS, &["4"]).await;
    let uncapped = ListBounds { longest: 0, ..BOUNDS };
    assert_eq!(store.list_totals(FRIENDS, &uncapped).await.unwrap().unread.pages, 70.0);
    assert!(store.list_totals(NS, &uncapped).await.unwrap().unread.pages > 9e16);
    // A visit ends the wait.
    visited(store, "1", 90, 190).await;
    assert_eq!(store.list_totals(NS, &BOUNDS).await.unwrap().unread.lists, 5);
}
