//! The id to ask from: the paper's pseudocode, and what it is for.

use proptest::prelude::*;
use twitter_updater::base::clock::Millis;
use twitter_updater::providers::since::{IdLayout, Reading};

const LAYOUTS: [IdLayout; 2] = [IdLayout::TWITTER, IdLayout::MASTODON];
const SECOND: Millis = 1_000;
/// 2026-11-20, about.
const NOW: Millis = 1_795_000_000_000;

/// The paper's pseudocode, in numbers that do not overflow, as its formulas stand.
fn by_the_paper(layout: IdLayout, latest_id: u64, retrieved_at: Millis, k: Millis) -> i128 {
    let (latest_id, retrieved_at, k) = (i128::from(latest_id), i128::from(retrieved_at), i128::from(k));
    let clamp = |x: i128, lower: i128, upper: i128| lower.max(upper.min(x));
    let time2sf = |unix_time_ms: i128| 0.max(unix_time_ms - i128::from(layout.epoch)) << layout.shift;
    let timestamp = latest_id >> layout.shift;
    let lower = if timestamp <= k { latest_id } else { ((timestamp - k) << layout.shift) - 1 };
    clamp(time2sf(retrieved_at - k) - 1, lower, latest_id)
}

#[test]
fn the_papers_example() {
    // Two posts sent at 0: A (timestamp 42) is visible at 30, B (24) at 40. A poll at 35 sees A alone.
    let layout = IdLayout::TWITTER;
    let (a, b) = (layout.first_at(NOW + 42), layout.first_at(NOW + 24) + 7);
    let since = layout.since(a, Some(NOW + 35), SECOND);
    assert!(since < b && since == layout.first_at(NOW + 42 - SECOND) - 1, "{since}");
    // A little later, what is within k of the reading is enough.
    assert_eq!(layout.since(a, Some(NOW + 900), SECOND), layout.first_at(NOW - 100) - 1);
    // Long after A, nothing below it can appear any more: it is not fetched again.
    assert_eq!(layout.since(a, Some(NOW + 42 + 2 * SECOND), SECOND), a);
    // A clock that is behind costs at most what is within k of the newest.
    assert_eq!(layout.since(a, Some(NOW - 3_600 * SECOND), SECOND), layout.first_at(NOW + 42 - SECOND) - 1);
    assert_eq!(layout.since(a, None, SECOND), layout.first_at(NOW + 42 - SECOND) - 1);
}

#[test]
fn ids_of_both_networks_tell_their_time() {
    // 2022-06-28T16:07:40.105Z, and 2023-02-07.
    assert_eq!(IdLayout::TWITTER.made_at(1_541_815_603_606_036_480), 1_656_432_460_105);
    assert_eq!(IdLayout::MASTODON.made_at(109_823_200_000_000_000) / 86_400_000, 19_395);
    for layout in LAYOUTS {
        assert_eq!(layout.made_at(layout.first_at(NOW)), NOW);
        assert_eq!(layout.made_at(layout.first_at(NOW) - 1), NOW - 1);
        assert_eq!(layout.first_at(layout.epoch - 1), 0);
        assert_eq!(layout.first_at(Millis::MIN), 0);
        assert_eq!(layout.first_at(Millis::MAX), u64::MAX);
    }
}

#[test]
fn ids_from_before_snowflake_and_the_edges_of_numbers() {
    let layout = IdLayout::TWITTER;
    // A sequential id of 34 bits, the paper's example: more is fetched than needed where no clock is known, never less.
    let sequential = 15_214_161_783;
    assert_eq!(layout.since(sequential, Some(NOW), SECOND), sequential);
    assert!(layout.since(sequential, None, SECOND) < sequential);
    for latest in [0, 20, 1 << 22] {
        assert_eq!(layout.since(latest, Some(NOW), SECOND), latest, "its timestamp is within k of the epoch");
    }
    for layout in LAYOUTS {
        for latest in [u64::MAX, u64::MAX >> 1, 0] {
            for at in [None, Some(Millis::MAX), Some(Millis::MIN), Some(0)] {
                for k in [0, 1, SECOND, Millis::MAX, -1] {
                    assert!(layout.since(latest, at, k) <= latest);
                }
            }
        }
    }
}

fn layouts() -> impl Strategy<Value = IdLayout> {
    prop::sample::select(&LAYOUTS)
}

/// What happens around one reading. Times are the network's, from `NOW` on, in ms.
#[derive(Debug, Clone)]
struct Moment {
    layout: IdLayout,
    k: Millis,
    /// How early a post may be visible before its id's timestamp; how late is k less that.
    early: Millis,
    /// Posts: the id's timestamp, from −20 s to 20 s around the reading; how far into the span in which it may
    /// become visible (per mille); the bits below.
    posts: Vec<(Millis, Millis, u64)>,
    /// From sending to looking, from looking to writing `Date`, from that to the answer's arrival.
    legs: (Millis, Millis, Millis),
    /// Our wall clock less theirs.
    ahead: Millis,
    has_date: bool,
    /// The newest post seen was deleted before this reading.
    deleted: bool,
}

prop_compose! {
    fn moments()(
        layout in layouts(),
        k in 0..5_000i64,
        early in 0..1_000i64,
        posts in prop::collection::vec((-20_000..20_000i64, 0..=1_000i64, 0..65_536u64), 1..40),
        legs in (0..3_000i64, 0..3_000i64, 0..3_000i64),
        ahead in prop_oneof![Just(0), -10_000..10_000i64, -100_000_000_000..100_000_000_000i64],
        has_date in prop::bool::weighted(0.8),
        deleted in any::<bool>(),
    ) -> Moment {
        Moment { layout, k, early: k * early / 1_000, posts, legs, ahead, has_date, deleted }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_is_the_papers(
        layout in layouts(),
        latest in prop_oneof![any::<u64>(), 0..1u64 << 35, (NOW as u64) << 16..(NOW as u64 + 100_000) << 16],
        retrieved_at in prop_oneof![0..2 * NOW, NOW - 5_000..NOW + 5_000],
        k in 0..10_000i64,
    ) {
        let ours = i128::from(layout.since(latest, Some(retrieved_at), k));
        prop_assert_eq!(ours, by_the_paper(layout, latest, retrieved_at, k));
    }

    /// Whatever our clock says, however long anything takes: no post that is not visible yet is passed over.
    #[test]
    fn nothing_that_can_still_appear_is_passed_over(moment in moments()) {
        let Moment { layout, k, early, posts, legs, ahead, has_date, deleted } = moment;
        let looked = NOW;
        let sent = looked - legs.0;
        let dated = looked + legs.1;
        let reading = Reading {
            sent_at: sent + ahead,
            took: legs.0 + legs.1 + legs.2,
            date: has_date.then_some(dated.div_euclid(1_000) * 1_000),
        };
        let posts: Vec<(u64, Millis)> = posts
            .iter()
            .map(|(made, into, low)| {
                (layout.first_at(NOW + made) + low, NOW + made - early + k * into / 1_000)
            })
            .collect();
        let newest = posts.iter().filter(|(_, visible)| *visible <= looked).map(|(id, _)| *id).max();
        let Some(latest) = newest else { return Ok(()) };
        // Where the newest is deleted, it was seen before; the newest id ever seen stays what it was.
        let latest = if deleted { latest.max(layout.first_at(NOW - k)) } else { latest };
        let since = layout.since(latest, reading.asked_at(), k);
        for (id, visible) in posts {
            prop_assert!(visible <= looked || id > since, "{id} appears at {visible}, asked from {since}");
        }
        prop_assert!(since <= latest);
        // And it never costs more than what is within k of the newest.
        prop_assert!(since >= layout.first_at(layout.made_at(latest) - k) - 1);
    }
}
