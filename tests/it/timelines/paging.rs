//! Back through a timeline: where a round ends, what it keeps for a restart, and what it cannot have.

use std::collections::HashSet;

use proptest::prelude::*;
use twitter_updater::base::clock::Millis;
use twitter_updater::pipelines::timelines::paging::{Gap, GapReason, PageResult, Position, apply_page, next_request};
use twitter_updater::providers::since::IdLayout;
use twitter_updater::providers::timeline::{NextPage, Rules};

use super::timeline::{DAY, Lots, Post, T, Timeline, page, reading, rules};

const K: Millis = 1_000;

fn minutely(posts: i64) -> Timeline {
    Timeline::new(IdLayout::TWITTER, K, (0..posts).map(|n| T + n * 60_000), &mut Lots::new(7))
}

fn few(timeline: &Timeline, count: u32) -> Rules {
    Rules { count, ..rules(timeline) }
}

/// Pages until the round is whole; what was handed over, and the gaps.
fn round(
    timeline: &mut Timeline,
    position: &mut Option<Position>,
    rules: &Rules,
    at: Millis,
) -> (HashSet<u64>, Vec<Gap>) {
    let (mut got, mut gaps) = (HashSet::new(), Vec::new());
    for step in 0.. {
        assert!(step < 10_000, "no end: {position:?}");
        let (taken, next) = page(timeline, position, rules, at + step, &reading(at + step, 0, true));
        // As it is saved: through JSON.
        *position = serde_json::from_str(&serde_json::to_string(&next).unwrap()).unwrap();
        got.extend(taken.hand_over);
        gaps.extend(taken.gaps);
        if taken.finished_round.is_some() {
            break;
        }
    }
    (got, gaps)
}

fn ids(timeline: &Timeline, from: usize, to: usize) -> HashSet<u64> {
    timeline.posts[from..to].iter().map(|post| post.id).collect()
}

const fn after(minutes: i64) -> Millis {
    T + minutes * 60_000 - 30_000
}

#[test]
fn it_begins_with_the_newest_page_and_then_has_everything() {
    let mut timeline = minutely(1_000);
    let rules = few(&timeline, 20);
    let mut position = None;
    let (got, gaps) = round(&mut timeline, &mut position, &rules, after(100));
    assert_eq!((got, gaps.len(), timeline.calls), (ids(&timeline, 80, 100), 0, 1));
    // Five pages came meanwhile; the sixth call meets the anchor.
    let (got, gaps) = round(&mut timeline, &mut position, &rules, after(200));
    assert_eq!((got, gaps.len(), timeline.calls), (ids(&timeline, 100, 200), 0, 1 + 6));
    // Nothing new: one call, and the anchor alone is fetched again.
    let before = timeline.fetched;
    let (got, _) = round(&mut timeline, &mut position, &rules, after(200) + 10_000);
    assert_eq!((got.len(), timeline.calls, timeline.fetched - before), (0, 8, 1));
}

#[test]
fn a_post_of_the_future_is_had_and_hides_none_that_come_after_it() {
    let mut timeline = minutely(300);
    let rules = few(&timeline, 20);
    let (mut position, now) = (None, after(100));
    let asked = next_request(None, &rules, now);
    let (mut page, more) = timeline.page(&asked, now);
    let future = rules.layout.first_at(now + 50 * 365 * 86_400_000);
    page.insert(0, future);
    let taken = apply_page(&mut position, &rules, &asked, &page, more, &reading(now, 0, true)).unwrap();
    assert!(taken.hand_over.contains(&future));
    // Five pages came meanwhile.
    let (got, gaps) = round(&mut timeline, &mut position, &rules, after(200));
    assert_eq!((got, gaps.len()), (ids(&timeline, 100, 200), 0));
}

#[test]
fn a_page_that_is_not_full_is_not_the_last_one() {
    let mut timeline = minutely(300);
    let rules = few(&timeline, 20);
    let mut position = None;
    round(&mut timeline, &mut position, &rules, after(100));
    // Most of what came is hidden after the count was applied, the newest among it.
    for (n, post) in timeline.posts.iter_mut().enumerate().skip(101) {
        if n % 7 != 0 {
            post.deleted_at = 0;
        }
    }
    let (got, gaps) = round(&mut timeline, &mut position, &rules, after(300));
    let living: HashSet<u64> =
        timeline.posts[100..].iter().filter(|post| post.deleted_at > 0).map(|post| post.id).collect();
    assert_eq!((got, gaps.len()), (living, 0));
}

#[test]
fn an_anchor_that_was_deleted_costs_one_empty_page_and_hides_nothing() {
    let mut timeline = minutely(300);
    let rules = few(&timeline, 20);
    let mut position = None;
    round(&mut timeline, &mut position, &rules, after(100));
    timeline.posts[99].deleted_at = 0; // the newest, too
    let newest = timeline.posts[99].id;
    let calls = timeline.calls;
    let (got, _) = round(&mut timeline, &mut position, &rules, after(100) + 10_000);
    assert_eq!((got.len(), timeline.calls - calls), (0, 1));
    assert_eq!(position.as_ref().unwrap().latest, Some(newest), "it stays the newest that was seen");
    // Ten posts, the empty page, and the one from the fallback anchor, which is there.
    let (got, gaps) = round(&mut timeline, &mut position, &rules, after(110));
    let new = ids(&timeline, 100, 110);
    assert!(got.is_superset(&new) && got.len() < new.len() + 8, "{}", got.len());
    assert_eq!((gaps.len(), timeline.calls - calls), (0, 1 + 3));
    let (got, _) = round(&mut timeline, &mut position, &rules, after(120));
    assert_eq!((got, timeline.calls - calls), (ids(&timeline, 110, 120), 1 + 3 + 1), "it has an anchor again");
}

#[test]
fn a_page_whose_posts_are_all_deleted_is_not_taken_for_the_last() {
    let mut timeline = minutely(300);
    let rules = few(&timeline, 20);
    let mut position = None;
    round(&mut timeline, &mut position, &rules, after(100));
    // Sixty posts came, then half of them went, more than a page in one piece.
    for post in &mut timeline.posts[120..150] {
        post.deleted_at = 0;
    }
    let (got, gaps) = round(&mut timeline, &mut position, &rules, after(160));
    // What is below the piece is had, and of the piece it is noted that it may hide something.
    let [gap] = &gaps[..] else { panic!("{gaps:?}") };
    assert_eq!(gap.reason, GapReason::Hidden);
    let stays = |post: &&Post| post.deleted_at > 0;
    assert!(timeline.posts[100..160].iter().filter(stays).all(|post| got.contains(&post.id)));
    let piece = timeline.posts[120].id..=timeline.posts[150].id;
    assert!(piece.contains(&gap.from) && piece.contains(&gap.to), "{gap:?}");
    let (_, gaps) = round(&mut timeline, &mut position, &rules, after(170));
    assert_eq!(gaps, vec![], "it is told once");
}

#[test]
fn a_hole_hides_nothing_of_a_source_that_was_empty_at_first() {
    for (from, to) in [(100, 200), (50, 290), (1, 299), (200, 300)] {
        let mut timeline = minutely(300);
        let rules = few(&timeline, 20);
        let mut position = None;
        round(&mut timeline, &mut position, &rules, T - 60_000);
        for post in &mut timeline.posts[from..to] {
            post.deleted_at = 0;
        }
        let calls = timeline.calls;
        let (mut got, mut gaps) = round(&mut timeline, &mut position, &rules, after(300));
        // With the newest among the deleted there is no page at all: more has to come first.
        let mut later = round(&mut timeline, &mut position, &rules, after(300) + 3_600_000);
        got.extend(later.0);
        gaps.append(&mut later.1);
        let lost: Vec<_> = (timeline.posts.iter().enumerate())
            .filter(|(_, post)| post.deleted_at > 0 && !got.contains(&post.id))
            .filter(|(_, post)| !gaps.iter().any(|gap| (gap.from..=gap.to).contains(&post.id)))
            .collect();
        assert!(lost.is_empty() || to == 300, "{from} {to}: {lost:?} {gaps:?}");
        assert!(timeline.calls - calls < 50, "{from} {to}: {}", timeline.calls - calls);
    }
}

#[test]
fn an_empty_page_is_not_believed_where_a_known_post_should_be_on_it() {
    for says_last in [false, true] {
        // A post a second, the last ones visible late: an empty page shows none of them.
        let mut timeline = Timeline::new(IdLayout::TWITTER, K, (0..600).map(|n| T + n * 1_000), &mut Lots::new(3));
        timeline.says_last = says_last;
        let rules = rules(&timeline);
        let mut position = None;
        round(&mut timeline, &mut position, &rules, T + 60_200);
        let before = position.clone();
        let blank = |position: &mut Option<Position>, at: Millis| {
            let asked = next_request(position.as_ref(), &rules, at);
            let more = if says_last { NextPage::No } else { NextPage::Unstated };
            apply_page(position, &rules, &asked, &[], more, &reading(at, 0, true)).unwrap()
        };
        for at in [61, 120, 600] {
            let taken = blank(&mut position, T + at * 1_000);
            // Its pace stays, too: nothing was learnt.
            assert_eq!(taken.finished_round.map(|whole| (whole.fresh, whole.elapsed)), Some((0, None)));
            let (was, is) = (before.as_ref().unwrap(), position.as_ref().unwrap());
            assert_eq!((is.since, is.anchor, is.swept_at), (was.since, was.anchor, was.swept_at));
        }
        let mut told = position.clone();
        let (got, _) = round(&mut timeline, &mut told, &rules, T + 600_000);
        assert!(ids(&timeline, 61, 590).is_subset(&got));
        assert_eq!(told.unwrap().doubted_since, None);
        // After ten minutes it is the truth.
        let taken = blank(&mut position, T + 662_000);
        assert!(taken.finished_round.unwrap().elapsed.is_some());
        assert_eq!(position.unwrap().doubted_since, None);
    }
}

#[test]
fn what_comes_twice_at_a_seam_stops_nothing() {
    for says_last in [false, true] {
        let mut timeline = minutely(300);
        (timeline.repeats, timeline.says_last) = (3, says_last);
        let rules = few(&timeline, 20);
        let mut position = None;
        round(&mut timeline, &mut position, &rules, after(100));
        for minutes in [101, 102, 200, 260, 300] {
            let known = position.as_ref().unwrap().latest;
            let (got, gaps) = round(&mut timeline, &mut position, &rules, after(minutes));
            let new = |post: &&Post| Some(post.id) > known && post.visible_at <= after(minutes);
            assert!(timeline.posts.iter().filter(new).all(|post| got.contains(&post.id)), "{minutes}");
            assert_eq!(gaps, vec![]);
        }
    }
}

#[test]
fn words_for_the_next_page_that_lead_in_a_circle_are_no_endless_round() {
    let timeline = minutely(10);
    let rules = few(&timeline, 2);
    let read = reading(after(10), 0, true);
    let mut position = None;
    let mut page = |ids: &[u64], word: &str| {
        let asked = next_request(position.as_ref(), &rules, T);
        apply_page(&mut position, &rules, &asked, ids, NextPage::Cursor(word.to_owned()), &read)
    };
    page(&[50 << 40], "a").unwrap();
    page(&[80 << 40, 90 << 40], "b").unwrap();
    page(&[], "c").unwrap();
    assert_eq!(page(&[], "c").unwrap(), PageResult::default(), "the same word: it is asked for by ids");
    page(&[], "c").unwrap();
    page(&[], "c").unwrap();
    page(&[], "c").unwrap();
    assert!(page(&[], "c").unwrap_err().to_string().contains("in a circle"));
    page(&[70 << 40], "d").unwrap();
    for word in ["e", "f"] {
        page(&[80 << 40, 90 << 40], word).unwrap();
    }
    assert!(page(&[80 << 40, 90 << 40], "g").unwrap_err().to_string().contains("in a circle"));
    page(&[60 << 40], "g").unwrap();
}

#[test]
fn a_page_without_a_word_for_the_next_one_is_followed_by_ids() {
    let timeline = minutely(10);
    let rules = few(&timeline, 2);
    let read = reading(after(10), 0, true);
    let mut position = None;
    let mut page = |ids: &[u64], more: NextPage| {
        let asked = next_request(position.as_ref(), &rules, T);
        apply_page(&mut position, &rules, &asked, ids, more, &read).unwrap();
        next_request(position.as_ref(), &rules, T)
    };
    page(&[50 << 40], NextPage::Unstated);
    assert_eq!(page(&[90 << 40], NextPage::Cursor("a".to_owned())).cursor.as_deref(), Some("a"));
    let next = page(&[80 << 40], NextPage::Unstated);
    assert_eq!((next.cursor, next.below), (None, Some(80 << 40)));
}

#[test]
fn an_empty_page_that_calls_itself_the_last_is_asked_twice_again() {
    let mut timeline = minutely(300);
    timeline.says_last = true;
    let rules = few(&timeline, 20);
    let mut position = None;
    round(&mut timeline, &mut position, &rules, after(100));
    let (_, mut next) = page(&mut timeline, &position, &rules, after(200), &reading(after(200), 0, true));
    let mut got = HashSet::new();
    for _ in 0..2 {
        let asked = next_request(next.as_ref(), &rules, after(200));
        let taken = apply_page(&mut next, &rules, &asked, &[], NextPage::No, &reading(after(200), 0, true)).unwrap();
        assert_eq!(
            (taken.finished_round, next_request(next.as_ref(), &rules, after(200))),
            (None, asked),
            "by the same cursor"
        );
    }
    got.extend(round(&mut timeline, &mut next, &rules, after(200)).0);
    assert!(ids(&timeline, 100, 180).is_subset(&got));
}

#[test]
fn an_empty_page_that_calls_itself_the_last_ends_a_round_after_ten_minutes_and_with_a_gap() {
    // Whether a known post is asked for, or only what is above it.
    for anchored in [false, true] {
        let mut timeline = minutely(300);
        timeline.says_last = true;
        let rules = Rules { anchored, ..few(&timeline, 20) };
        let mut position = None;
        round(&mut timeline, &mut position, &rules, after(100));
        let since = position.as_ref().unwrap().since;
        let (_, mut open) = page(&mut timeline, &position, &rules, after(200), &reading(after(200), 0, true));
        let blank = |position: &mut Option<Position>, at: Millis| {
            let asked = next_request(position.as_ref(), &rules, at);
            apply_page(position, &rules, &asked, &[], NextPage::No, &reading(at, 0, true)).unwrap()
        };
        // The third ends the poll, and later ones do so at once.
        for (at, ends) in [(200, false), (200, false), (200, true), (201, true), (209, true)] {
            let asked = next_request(open.as_ref(), &rules, after(at));
            let taken = blank(&mut open, after(at));
            let expected = ends.then_some((0, None));
            assert_eq!(taken.finished_round.map(|whole| (whole.fresh, whole.elapsed)), expected, "{anchored} {at}");
            assert_eq!((taken.gaps, open.as_ref().unwrap().since), (vec![], since), "{anchored} {at}");
            assert_eq!(next_request(open.as_ref(), &rules, after(at)), asked, "{anchored} {at}: the same page again");
        }
        // Either it comes back,
        let mut back = open.clone();
        let (got, gaps) = round(&mut timeline, &mut back, &rules, after(209));
        assert!(ids(&timeline, 100, 180).is_subset(&got) && gaps.is_empty(), "{anchored}: {gaps:?}");
        assert_eq!(back.unwrap().doubted_since, None);
        // or it is the truth.
        let taken = blank(&mut open, after(210));
        let gap = Gap { from: since + 1, to: timeline.posts[180].id - 1, reason: GapReason::Hidden };
        assert_eq!((taken.gaps, taken.finished_round.unwrap().fresh), (vec![gap], 20), "{anchored}");
        let (got, gaps) = round(&mut timeline, &mut open, &rules, after(220));
        assert!(ids(&timeline, 200, 220).is_subset(&got) && gaps.is_empty(), "{anchored}: {gaps:?}");
        assert_eq!(open.unwrap().doubted_since, None);
    }
}

#[test]
fn a_timeline_that_ends_below_what_was_known_ends_its_round_at_once() {
    let timeline = minutely(10);
    let rules = Rules { anchored: true, k: 120_000, ..few(&timeline, 20) };
    let post = |n: usize| timeline.posts[n].id;
    // It was empty at first, or had one post, which may not be the last of its time that appears.
    for (known, came) in [(vec![], vec![post(0)]), (vec![post(0)], vec![post(1), post(0)])] {
        let mut position = None;
        let mut page = |ids: &[u64], more: NextPage| {
            let asked = next_request(position.as_ref(), &rules, after(5));
            apply_page(&mut position, &rules, &asked, ids, more, &reading(after(5), 0, false)).unwrap()
        };
        assert!(page(&known, NextPage::No).finished_round.is_some());
        assert_eq!(page(&came, NextPage::Cursor("next".to_owned())).finished_round, None);
        assert_eq!((page(&[], NextPage::No).finished_round, page(&[], NextPage::No).finished_round), (None, None));
        let taken = page(&[], NextPage::No);
        assert_eq!((taken.gaps, taken.finished_round.unwrap().fresh), (vec![], 1));
        assert_eq!((position.as_ref().unwrap().open.as_ref(), position.as_ref().unwrap().doubted_since), (None, None));
    }
}

#[test]
fn a_gap_at_the_limit_of_depth_says_so_also_where_posts_came_meanwhile() {
    let mut timeline = minutely(10_000);
    timeline.depth = 3_200;
    let rules = rules(&timeline);
    let mut position = None;
    round(&mut timeline, &mut position, &rules, after(100));
    // A page in five minutes: the limit rises under the poller's feet.
    let mut gaps = Vec::new();
    for step in 0.. {
        let at = after(9_000) + step * 300_000;
        let (taken, next) = page(&mut timeline, &position, &rules, at, &reading(at, 0, true));
        gaps.extend(taken.gaps);
        position = next;
        if taken.finished_round.is_some() {
            break;
        }
    }
    assert_eq!(gaps.iter().map(|gap| gap.reason).collect::<Vec<_>>(), [GapReason::Depth(3_200)]);
    assert!(gaps[0].from <= timeline.posts[101].id && gaps[0].to >= timeline.posts[5_799].id, "{gaps:?}");
}

#[test]
fn a_token_that_is_refused_is_dropped_and_the_round_goes_on_by_ids() {
    let mut timeline = minutely(300);
    (timeline.says_last, timeline.refuses) = (true, 2);
    let rules = few(&timeline, 20);
    let mut position = None;
    round(&mut timeline, &mut position, &rules, after(100));
    let calls = timeline.calls;
    let (got, gaps) = round(&mut timeline, &mut position, &rules, after(200));
    assert_eq!((got, gaps.len()), (ids(&timeline, 100, 200), 0));
    assert_eq!(timeline.calls - calls, 5 + 2, "four tokens, of which two are refused");
    // Also where nothing but empty pages came so far: then from the newest on.
    let mut open = position.clone();
    let read = reading(after(250), 0, true);
    let asked = next_request(position.as_ref(), &rules, T);
    apply_page(&mut open, &rules, &asked, &[], NextPage::Cursor("next".into()), &read).unwrap();
    let again = next_request(open.as_ref(), &rules, T);
    let taken = apply_page(&mut open, &rules, &again, &[], NextPage::CursorExpired, &read).unwrap();
    assert_eq!((taken, next_request(open.as_ref(), &rules, T)), (PageResult::default(), asked));
}

#[test]
fn a_round_that_was_saved_with_its_token_goes_on_by_it() {
    let mut timeline = minutely(300);
    (timeline.says_last, timeline.refuses) = (true, 0);
    let rules = few(&timeline, 20);
    let mut position = None;
    round(&mut timeline, &mut position, &rules, after(100));
    let (_, open) = page(&mut timeline, &position, &rules, after(200), &reading(after(200), 0, true));
    let saved = serde_json::to_string(&open).unwrap();
    let earlier = saved.replace("\"cursor\":", "\"token\":");
    assert!(earlier != saved && open.as_ref().unwrap().open.as_ref().unwrap().cursor.is_some(), "{saved}");
    assert_eq!(serde_json::from_str::<Option<Position>>(&earlier).unwrap(), open);
}

#[test]
fn a_timeline_that_was_empty_at_first_is_read_to_its_beginning() {
    let mut timeline = minutely(100);
    let rules = few(&timeline, 20);
    let mut position = None;
    round(&mut timeline, &mut position, &rules, T - 60_000);
    assert_eq!(position.as_ref().map(|position| (position.latest, position.since)), Some((None, 0)));
    let (got, gaps) = round(&mut timeline, &mut position, &rules, after(100));
    assert_eq!((got, gaps.len()), (ids(&timeline, 0, 100), 0));
}

#[test]
fn an_api_that_says_which_page_is_the_last_is_believed() {
    let mut timeline = minutely(300);
    timeline.says_last = true;
    let rules = few(&timeline, 20);
    let mut position = None;
    round(&mut timeline, &mut position, &rules, after(100));
    let calls = timeline.calls;
    let (got, _) = round(&mut timeline, &mut position, &rules, after(200));
    assert_eq!((got, timeline.calls - calls), (ids(&timeline, 100, 200), 5));
    let fetched = timeline.fetched;
    round(&mut timeline, &mut position, &rules, after(200) + 10_000);
    assert_eq!((timeline.calls - calls, timeline.fetched - fetched), (6, 0), "and no anchor is paid for");
    // An empty page with another behind it (X filters after it paged) is not the end.
    let mut open = position.clone();
    let read = reading(after(250), 0, true);
    let taken = apply_page(
        &mut open,
        &rules,
        &next_request(position.as_ref(), &rules, T),
        &[],
        NextPage::Cursor("next".into()),
        &read,
    )
    .unwrap();
    assert_eq!((taken.finished_round, open.as_ref().unwrap().open.as_ref().unwrap().below), (None, None));
    assert_eq!(next_request(open.as_ref(), &rules, T).cursor.as_deref(), Some("next"));
}

#[test]
fn what_lies_deeper_than_the_api_gives_is_a_gap() {
    let mut timeline = minutely(10_000);
    timeline.depth = 3_200;
    let rules = rules(&timeline);
    let mut position = None;
    round(&mut timeline, &mut position, &rules, after(100));
    // Just as many as can be had: none is missing, and none is said to be.
    let (got, gaps) = round(&mut timeline, &mut position, &rules, after(3_200));
    assert_eq!((got.len(), gaps), (3_100, vec![]));
    let (got, gaps) = round(&mut timeline, &mut position, &rules, after(9_000));
    assert_eq!(got, ids(&timeline, 5_800, 9_000));
    let [gap] = &gaps[..] else { panic!("{gaps:?}") };
    assert_eq!((gap.to, gap.reason), (timeline.posts[5_800].id - 1, GapReason::Depth(3_200)));
    assert!(gap.from <= timeline.posts[3_200].id, "it holds all that is missing: {gap:?}");
    // It is told once.
    let (_, gaps) = round(&mut timeline, &mut position, &rules, after(9_100));
    assert_eq!(gaps, vec![]);
}

/// Reads pages, `pause` apart, until the round is complete; returns the gaps.
fn slow_round(
    timeline: &mut Timeline,
    position: &mut Option<Position>,
    rules: &Rules,
    (at, pause): (Millis, Millis),
) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for step in 0..1_000 {
        let at = at + step * pause;
        let (taken, next) = page(timeline, position, rules, at, &reading(at, 0, true));
        *position = next;
        gaps.extend(taken.gaps);
        if taken.finished_round.is_some() {
            return gaps;
        }
    }
    panic!("no end: {position:?}");
}

/// Long pauses between two pages (killed processes), and a few posts of one moment, whose times give no rate.
#[test]
fn a_few_posts_after_a_quiet_time_meet_no_limit() {
    for says_last in [false, true] {
        for (posts, before) in [(1, 0), (5, 0), (1, 3), (5, 3)] {
            for pause in [80, 1_000, 60_000, 3_600_000] {
                // Some of long ago, and then a thread within a second.
                let made = (0..before).map(|n| T - 30 * DAY + n * DAY).chain((0..posts).map(|n| T + n * 200));
                let mut timeline = Timeline::new(IdLayout::TWITTER, K, made, &mut Lots::new(5));
                (timeline.depth, timeline.says_last) = (3_200, says_last);
                let rules = rules(&timeline);
                let mut position = None;
                round(&mut timeline, &mut position, &rules, T - 6 * 3_600_000);
                let began = T + 2_000;
                let gaps = slow_round(&mut timeline, &mut position, &rules, (began, pause));
                assert_eq!(gaps, vec![], "{says_last} {posts} {before} {pause}");
                let newest = timeline.posts.last().unwrap().id;
                assert_eq!(position.unwrap().latest, Some(newest));
            }
        }
    }
}

/// An API fills a page before it leaves out deleted posts. So a page that is not full hides no post.
#[test]
fn an_empty_page_behind_a_few_posts_hides_none_also_where_the_known_posts_are_deleted() {
    for says_last in [false, true] {
        for known in [1, 2, 20] {
            let made = (0..known).map(|n| T + n * 60_000).chain([T + DAY]);
            let mut timeline = Timeline::new(IdLayout::TWITTER, K, made, &mut Lots::new(5));
            timeline.says_last = says_last;
            let rules = few(&timeline, 40);
            let mut position = None;
            round(&mut timeline, &mut position, &rules, T + 3_600_000);
            timeline.posts[..known as usize].iter_mut().for_each(|post| post.deleted_at = 0);
            // If a known post is missing on the page that the API marks as the last, the round stays open for ten minutes.
            let mut gaps = Vec::new();
            for minutes in 1..=12 {
                let (_, of_round) = round(&mut timeline, &mut position, &rules, T + DAY + minutes * 60_000);
                gaps.extend(of_round);
            }
            assert_eq!(gaps, vec![], "{says_last} {known}");
            assert_eq!(position.unwrap().open, None, "{says_last} {known}");
        }
    }
}

#[test]
fn what_is_older_than_the_api_gives_is_a_gap_unless_all_was_there() {
    let mut timeline = minutely(30_000);
    timeline.window = 7 * DAY;
    let rules = rules(&timeline);
    let mut position = None;
    round(&mut timeline, &mut position, &rules, after(100));
    let (got, gaps) = round(&mut timeline, &mut position, &rules, after(20_000));
    let [gap] = &gaps[..] else { panic!("{gaps:?}") };
    assert_eq!(gap.reason, GapReason::Window(7 * DAY));
    let missing: Vec<u64> =
        timeline.posts[100..20_000].iter().map(|post| post.id).filter(|id| !got.contains(id)).collect();
    assert!(missing.len() > 9_000 && missing.iter().all(|id| (gap.from..=gap.to).contains(id)), "{gap:?}");
    assert!(timeline.posts[..100].iter().all(|post| post.id < gap.from), "and no more than that");
    // Without a word for a year, but looked at each day.
    let mut quiet = minutely(1);
    quiet.window = 7 * DAY;
    let mut position = None;
    for day in 0..400 {
        let (_, gaps) = round(&mut quiet, &mut position, &rules, after(1) + day * DAY);
        assert_eq!(gaps, vec![], "day {day}");
    }
    // And not looked at for ten days: nobody knows.
    let (_, gaps) = round(&mut quiet, &mut position, &rules, after(1) + 410 * DAY);
    assert_eq!(gaps.len(), 1);
}

#[test]
fn an_api_that_does_not_heed_what_it_is_asked_is_no_endless_round() {
    let timeline = minutely(10);
    let rules = few(&timeline, 2);
    let read = reading(after(10), 0, true);
    let mut position = None;
    let page = |position: &mut Option<Position>, ids: &[u64]| {
        let asked = next_request(position.as_ref(), &rules, T);
        apply_page(position, &rules, &asked, ids, NextPage::Unstated, &read)
    };
    page(&mut position, &[50 << 40, 60 << 40]).unwrap();
    page(&mut position, &[80 << 40, 90 << 40]).unwrap();
    let before = position.clone();
    let error = page(&mut position, &[80 << 40, 90 << 40]).unwrap_err().to_string();
    assert!(error.contains("ignores the parameters"), "{error}");
    assert_eq!(position, before);
}

#[test]
fn ids_stay_text_in_what_is_saved() {
    let mut position = None;
    let timeline = minutely(10);
    let id = rules(&timeline).layout.first_at(T);
    assert!(id > 1 << 53, "no double holds it");
    let asked = next_request(None, &rules(&timeline), T);
    apply_page(&mut position, &rules(&timeline), &asked, &[id], NextPage::Unstated, &reading(T, 0, true)).unwrap();
    let saved = serde_json::to_string(&position).unwrap();
    assert!(saved.contains(&format!("\"{id}\"")), "{saved}");
    assert!(serde_json::from_str::<Position>(&saved.replace("since", "sinse")).is_err());
    // One that was saved before there was a fallback anchor.
    let older = saved.replace("\"fallback_anchor\":null,", "");
    assert!(older != saved && serde_json::from_str::<Option<Position>>(&older).unwrap() == position, "{saved}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the pages' size, the pauses, what is deleted and how the clock is off: all that is there is had.
    #[test]
    fn nothing_is_missed(
        seed in any::<u64>(),
        gaps in prop::collection::vec(prop_oneof![0..20i64, 0..3_000i64], 50..300),
        pauses in prop::collection::vec(100..40_000i64, 3..30),
        // With fewer, a page may hold nothing but deleted posts: then some are in a gap.
        count in 10..40u32,
        ahead in prop_oneof![Just(0), -100_000..100_000i64],
        has_date in any::<bool>(),
        says_last in any::<bool>(),
        refuses in 0..4u64,
        mastodon in any::<bool>(),
    ) {
        let mut lots = Lots::new(seed);
        let layout = if mastodon { IdLayout::MASTODON } else { IdLayout::TWITTER };
        let made = gaps.iter().scan(T, |at, gap| { *at += gap; Some(*at) });
        let mut timeline = Timeline::new(layout, K, made, &mut lots);
        (timeline.says_last, timeline.refuses) = (says_last, refuses);
        for post in &mut timeline.posts {
            if lots.below(6) == 0 {
                post.deleted_at = post.visible_at + lots.below(30_000) as Millis;
            }
        }
        let rules = few(&timeline, count);
        let mut position = None;
        let mut got = HashSet::new();
        let mut at = T - 1_000;
        // The first look is at an empty timeline, so all is to come. A last page whose posts are all deleted is doubted for ten
        // minutes, and what came meanwhile is read after that.
        for pause in [0].iter().chain(&pauses).chain([&(timeline.end() - T + 100_000), &600_000, &600_000]) {
            at += pause;
            for _ in 0..10_000 {
                let read = reading(at, ahead, has_date);
                let (taken, next) = page(&mut timeline, &position, &rules, at, &read);
                got.extend(taken.hand_over);
                position = next;
                at += 1;
                if taken.finished_round.is_some() {
                    break;
                }
            }
        }
        let stays = |post: &&Post| post.deleted_at == Millis::MAX;
        let missed: Vec<_> = timeline.posts.iter().filter(stays).filter(|post| !got.contains(&post.id)).collect();
        prop_assert!(missed.is_empty(), "{missed:?}");
    }
}
