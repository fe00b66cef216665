//! Timelines of Bluesky: against the simulated ones, and against a server that pages as the reference does.

mod feed;

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use twitter_updater::base::clock::wall_ms;
use twitter_updater::pipelines::timelines::paging::{Position, apply_page, next_request};
use twitter_updater::providers::bluesky::timeline::{BlueskyApi, Kind, LAYOUT, feed_position};
use twitter_updater::providers::http::{HttpClient, HttpOptions};
use twitter_updater::providers::lookup::LookupError;
use twitter_updater::providers::source::{NetworkTimeline, SourceKind};
use twitter_updater::providers::timeline::Timeline;
use twitter_updater::providers::timeline::{NextPage, TimelineRequest};
use twitter_updater::quota::Credential;
use twitter_updater::simulator::{self, Running, SimulatorOptions};

use self::feed::{Cursors, Feed, iso, refused, view};
use crate::support::http::{Canned, CannedServer, anonymous};
use crate::support::wait::until_true;

/// How late a post is visible.
const LATE: Duration = Duration::from_millis(300);

fn timeline(address: &str, kind: Kind) -> NetworkTimeline<Kind> {
    let http = HttpClient::new(&HttpOptions::default()).unwrap();
    kind.build(&BlueskyApi::new(http, address).unwrap(), LATE)
}

fn author(actor: &str) -> Kind {
    Kind::Author { actor: actor.to_owned() }
}

fn search(query: &str) -> Kind {
    Kind::Search { query: query.to_owned() }
}

fn newest() -> TimelineRequest {
    TimelineRequest { since: None, below: None, cursor: None, count: 100 }
}

/// What a poller had.
#[derive(Default)]
struct Had {
    uris: HashSet<String>,
    pages: u32,
    refused_cursors: u32,
    empty: u32,
}

/// One round; the position is what is kept between two pages.
async fn round(timeline: &dyn Timeline, who: &Credential, kept: &mut Option<Position>, had: &mut Had) {
    let rules = timeline.rules();
    for _ in 0..60 {
        let asked = next_request(kept.as_ref(), &rules, wall_ms());
        let page = timeline.page(&asked, who).await.unwrap();
        had.pages += 1;
        had.refused_cursors += u32::from(page.more == NextPage::CursorExpired);
        had.empty += u32::from(page.posts.is_empty() && page.more != NextPage::CursorExpired);
        let ids: Vec<u64> = page.posts.iter().map(|post| post.id).collect();
        let taken = apply_page(kept, &rules, &asked, &ids, page.more, &page.reading).unwrap();
        assert_eq!(taken.gaps, []);
        let is_handed = |id: u64| taken.hand_over.contains(&id);
        had.uris.extend(page.posts.into_iter().filter(|post| is_handed(post.id)).map(|post| post.tweet.id));
        if taken.finished_round.is_some() {
            return;
        }
    }
    panic!("a round has no end: {kept:?}");
}

async fn simulated(calls: u32) -> Running {
    let options = SimulatorOptions {
        posts_per_second: 100.0,
        posts_late: LATE,
        missing_share: 0.1,
        body_padding: 0,
        bluesky_calls_per_window: calls,
        ..SimulatorOptions::default()
    };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

/// Polls for some seconds, in the first of which nobody looks, and on until all that was made by then is visible.
async fn misses_none(running: &Running, kind: Kind, target: &str) -> Had {
    let timeline = timeline(&running.base_url(), kind);
    let (mut kept, mut had, begun) = (None, Had::default(), wall_ms());
    round(&timeline, &anonymous(), &mut kept, &mut had).await;
    let due = |until| running.bluesky_posts(target, begun, until);
    until_true("more than two pages come", LATE * 20, async || due(wall_ms()).len() > 210).await;
    let end = wall_ms() + 1_000;
    while wall_ms() < end + 1_000 {
        round(&timeline, &anonymous(), &mut kept, &mut had).await;
    }
    let due = due(end);
    let missed: Vec<&String> = due.iter().filter(|uri| !had.uris.contains(*uri)).collect();
    assert!(due.len() > 250 && missed.is_empty(), "{} of {}: {missed:?}", missed.len(), due.len());
    println!("{}: {} due, {} had, {} pages", timeline.rules().endpoint, due.len(), had.uris.len(), had.pages);
    had
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_are_read_whole_without_a_login() {
    let running = simulated(0).await;
    let (feed, found) = tokio::join!(
        misses_none(&running, author("tiny_heron0.bsky.example.org"), "@tiny_heron0"),
        misses_none(&running, search("rust lang"), "rust lang"),
    );
    assert_eq!((feed.refused_cursors, found.refused_cursors), (0, 0));
}

#[tokio::test]
async fn what_is_not_ours_to_see_is_the_sources_own_matter() {
    let running = simulated(3_000).await;
    for (kind, says) in [
        (author("missing.example.org"), "does not exist"),
        (author("did:plc:missing"), "does not exist"),
        (author("alice"), "does not exist"),
        (search(""), "does not exist"),
        (search("members"), "refuses a search without a login (HTTP 403): set bluesky.api to a server"),
    ] {
        let error = timeline(&running.base_url(), kind.clone()).page(&newest(), &anonymous()).await.unwrap_err();
        assert!(matches!(&error, LookupError::BadRequest(why) if why.contains(says)), "{kind:?}: {error:?}");
    }
    let page = timeline(&running.base_url(), author("a.example.org")).page(&newest(), &anonymous()).await.unwrap();
    assert_eq!(page.quota.map(|quota| (quota.limit, quota.remaining)), Some((3_000, 2_994)), "one for all calls");
    assert_eq!(page.reading.asked_at(), None);
    assert!(page.broken == 0 && (80..=100).contains(&page.posts.len()));
}

/// A feed of a few posts, all of them young, ends its rounds, and shows what comes.
#[tokio::test]
async fn a_feed_of_few_posts_is_read_to_its_end() {
    for cursors in [Cursors::Times, Cursors::Keysets, Cursors::Opaque] {
        for (first, then) in [(1, 1), (0, 3), (3, 2)] {
            let feed = Feed::new(cursors, 0);
            let answering = feed.clone();
            let server = CannedServer::start_with(move |asked| answering.answer(asked)).await;
            let timeline = timeline(&server.base_url(), author("alice.example.org"));
            let (mut kept, mut had) = (None, Had::default());
            let mut due: Vec<String> = Vec::new();
            for (at, count) in [(-60_000, first), (-30_000, then), (-20_000, 0), (-10_000, 1)] {
                due.extend(feed.fill(wall_ms() + at, count));
                let pages = had.pages;
                round(&timeline, &anonymous(), &mut kept, &mut had).await;
                assert!(had.pages - pages < 20, "{cursors:?} {first} {then}: {} pages", had.pages - pages);
                let missed: Vec<&String> = due.iter().filter(|uri| !had.uris.contains(*uri)).collect();
                assert!(missed.is_empty(), "{cursors:?} {first} {then}: {missed:?}");
            }
        }
    }
}

/// A feed is read at its first page, and then whole, however the server makes its cursors.
async fn read_whole(cursors: Cursors, refuses: usize) {
    let feed = Feed::new(cursors, refuses);
    let begun = wall_ms() - 10_000_000;
    feed.fill(begun, 150);
    let answering = feed.clone();
    let server = CannedServer::start_with(move |asked| answering.answer(asked)).await;
    let timeline = timeline(&server.base_url(), author("alice.example.org"));
    let (mut kept, mut had) = (None, Had::default());
    round(&timeline, &anonymous(), &mut kept, &mut had).await;
    let mut due = feed.fill(begun + 100_000, 730);
    // Pages with nothing to show.
    for n in 0..250 {
        feed.put(begun + 150_500 + n, &format!("gone{n}"), Value::Null);
    }
    for step in 0..3 {
        round(&timeline, &anonymous(), &mut kept, &mut had).await;
        let missed: Vec<&String> = due.iter().filter(|uri| !had.uris.contains(*uri)).collect();
        assert!(missed.is_empty(), "{cursors:?} {refuses} {step}: {} of {}: {missed:?}", missed.len(), due.len());
        due.extend(feed.fill(begun + 1_000_000 * (step + 1), 5));
    }
    println!("{cursors:?}, refusing 1 in {refuses}: {} pages, {} empty", had.pages, had.empty);
    assert_eq!(had.refused_cursors > 0, refuses > 0);
    assert!(had.pages > 8 && had.empty > 0);
}

#[tokio::test]
async fn a_feed_is_read_whole_whatever_its_cursors_are() {
    for cursors in [Cursors::Times, Cursors::Keysets, Cursors::Opaque] {
        read_whole(cursors, 0).await;
    }
    for cursors in [Cursors::Times, Cursors::Keysets] {
        read_whole(cursors, 4).await;
    }
}

#[tokio::test]
async fn a_cursor_is_made_of_the_time_in_a_form_that_the_server_takes() {
    let feed = Feed::new(Cursors::Keysets, 0);
    let begun = wall_ms() - 10_000_000;
    feed.fill(begun, 300);
    let answering = feed.clone();
    let server = CannedServer::start_with(move |asked| answering.answer(asked)).await;
    let timeline = timeline(&server.base_url(), author("alice.example.org"));
    let below = TimelineRequest { below: Some(feed_position(begun + 50_000, "x")), ..newest() };
    let page = timeline.page(&below, &anonymous()).await.unwrap();
    assert_eq!((page.posts.len(), page.more), (0, NextPage::CursorExpired), "the first is of Bluesky's form");
    let page = timeline.page(&below, &anonymous()).await.unwrap();
    assert!(page.posts.len() > 80 && page.posts.iter().all(|post| LAYOUT.made_at(post.id) <= begun + 50_000));
    // A server that takes neither: the source's own matter, after both were tried.
    let server = CannedServer::start(refused("Malformed cursor")).await;
    let none = self::timeline(&server.base_url(), author("alice.example.org"));
    assert_eq!(none.page(&below, &anonymous()).await.unwrap().more, NextPage::CursorExpired);
    assert!(matches!(none.page(&below, &anonymous()).await, Err(LookupError::BadRequest(_))));
}

#[tokio::test]
async fn it_asks_as_the_lexicons_say() {
    let server = CannedServer::start(Canned::new(200, r#"{"posts":[],"feed":[]}"#)).await;
    let at = 1_719_543_547_446;
    let ask = TimelineRequest {
        since: Some(LAYOUT.first_at(at) - 1),
        below: Some(feed_position(at + 5, "x")),
        cursor: None,
        count: 100,
    };
    for kind in [author("a.example.org"), search("rust lang")] {
        timeline(&server.base_url(), kind.clone()).page(&newest(), &anonymous()).await.unwrap();
        timeline(&server.base_url(), kind).page(&ask, &anonymous()).await.unwrap();
    }
    let asked: Vec<String> = server.asked().iter().map(|asked| asked.target.clone()).collect();
    let feed =
        "/xrpc/app.bsky.feed.getAuthorFeed?actor=a.example.org&filter=posts_with_replies&includePins=false&limit=100";
    let posts = "/xrpc/app.bsky.feed.searchPosts?q=rust+lang&sort=latest";
    let time = |ms: &str| format!("2024-06-28T02%3A59%3A07.{ms}Z");
    assert_eq!(asked[0], feed);
    assert_eq!(asked[1], format!("{feed}&cursor={}", time("452")), "what is of the last millisecond may be left");
    assert_eq!(asked[2], format!("{posts}&limit=100"));
    assert_eq!(asked[3], format!("{posts}&since={}&until={}&limit=100", time("446"), time("452")));
}

#[tokio::test]
async fn no_answer_makes_it_pass_over_a_post_or_go_round_for_ever() {
    let at = wall_ms() - 60_000;
    let of = async |kind: Kind, asked: &TimelineRequest, status: u16, body: Value| {
        let server = CannedServer::start(Canned::new(status, body.to_string())).await;
        timeline(&server.base_url(), kind).page(asked, &anonymous()).await.map(|page| (page.posts.len(), page.more))
    };
    let token = |token: &str| TimelineRequest { cursor: Some(token.to_owned()), ..newest() };
    let feed = author("a.example.org");
    for body in [json!({}), json!({"feed": null}), json!({"feed": [null]}), json!([]), json!({"error": "x"})] {
        let answer = of(feed.clone(), &newest(), 200, body.clone()).await;
        assert!(matches!(answer, Err(LookupError::BadAnswer(_))), "{body}: {answer:?}");
    }
    let empty = json!({"feed": [], "cursor": "next"});
    assert_eq!(
        of(feed.clone(), &newest(), 200, empty.clone()).await.unwrap(),
        (0, NextPage::Cursor("next".to_owned()))
    );
    assert_eq!(
        of(feed.clone(), &token("next"), 200, empty).await.unwrap(),
        (0, NextPage::No),
        "its own cursor: the end"
    );
    let full = json!({"feed": [{"post": view("a", at, at)}], "cursor": "next"});
    let round = of(feed.clone(), &token("next"), 200, full).await;
    assert!(matches!(&round, Err(LookupError::BadRequest(why)) if why.contains("round in circles")), "{round:?}");
    assert_eq!(of(feed.clone(), &newest(), 200, json!({"feed": []})).await.unwrap(), (0, NextPage::No));
    // A page without a cursor is the last one, unless it ends above what is known and the server has shown how its cursors are made.
    let one = json!({"feed": [{"post": view("a", at, at)}]});
    assert_eq!(of(feed.clone(), &token("next"), 200, one.clone()).await.unwrap(), (1, NextPage::No));
    let known = |since: i64| TimelineRequest { since: Some(feed_position(since, "x")), ..newest() };
    assert_eq!(of(feed.clone(), &known(at - 9_000), 200, one.clone()).await.unwrap(), (1, NextPage::No));
    let next = Mutex::new(Some(iso(at - 1)));
    let server = CannedServer::start_with(move |_| {
        let page = json!({"feed": [{"post": view("a", at, at)}], "cursor": next.lock().unwrap().take()});
        Canned::new(200, page.to_string())
    })
    .await;
    let shown = timeline(&server.base_url(), feed.clone());
    for (since, more) in [(at - 9_000, None), (at - 9_000, Some(NextPage::Unstated)), (at + 1, Some(NextPage::No))] {
        let page = shown.page(&known(since), &anonymous()).await.unwrap();
        assert!(more.is_none_or(|more| page.more == more), "{since}: {:?}", page.more);
    }
    let below = TimelineRequest { below: Some(feed_position(at, "z")), ..newest() };
    assert_eq!(of(feed.clone(), &below, 200, one).await.unwrap(), (1, NextPage::No), "it was asked for by time");
    // The same page under another cursor is below nothing.
    let again = json!({"feed": [{"post": view("b", at + 9, at + 9)}, {"post": view("a", at, at)}], "cursor": "other"});
    let server = CannedServer::start(Canned::new(200, again.to_string())).await;
    let asked = TimelineRequest { cursor: Some("c".to_owned()), ..below.clone() };
    let page = timeline(&server.base_url(), feed.clone()).page(&asked, &anonymous()).await.unwrap();
    assert!(page.posts.iter().any(|post| Some(post.id) >= below.below), "so that paging refuses it");
    // Of a search, whose cursor counts.
    let found = json!({"posts": [view("a", at, at)], "cursor": "100"});
    assert_eq!(
        of(search("a"), &newest(), 200, found.clone()).await.unwrap(),
        (1, NextPage::Unstated),
        "it goes on by time"
    );
    // Not each server refuses the cursor of a search to callers without a login; where one has, it is not sent again.
    let filtered = json!({"posts": [], "cursor": "100"});
    let pages = Mutex::new(vec![filtered.clone(), found.clone(), json!(null), filtered, found]);
    let server = CannedServer::start_with(move |_| match pages.lock().unwrap().pop().unwrap() {
        Value::Null => Canned::new(403, "{}"),
        page => Canned::new(200, page.to_string()),
    })
    .await;
    let searched = timeline(&server.base_url(), search("a"));
    let by_cursor = NextPage::Cursor("100".to_owned());
    for (asked, expected) in [
        (&below, Some((1, by_cursor.clone()))),
        (&below, Some((0, by_cursor))),
        (&token("100"), Some((0, NextPage::CursorExpired))),
        (&below, None),
        (&below, Some((0, NextPage::Unstated))),
    ] {
        let page = searched.page(asked, &anonymous()).await.map(|page| (page.posts.len(), page.more));
        match expected {
            Some(expected) => assert_eq!(page.unwrap(), expected),
            None => {
                let is_told = matches!(&page, Err(LookupError::BadRequest(why)) if why.contains("needs a login"));
                assert!(is_told, "{page:?}");
            }
        }
    }
    assert_eq!(
        of(search("a"), &token("100"), 403, json!({})).await.unwrap(),
        (0, NextPage::CursorExpired),
        "one that is kept"
    );
    assert_eq!(
        of(search("a"), &token("100"), 400, json!({"error": "InvalidRequest"})).await.unwrap(),
        (0, NextPage::CursorExpired)
    );
    // Whose fault a refusal is.
    for (status, error) in [(400, "InvalidRequest"), (400, "AccountTakedown"), (400, "BlockedByActor")] {
        let answer = of(feed.clone(), &newest(), status, json!({"error": error})).await;
        assert!(matches!(answer, Err(LookupError::BadRequest(_))), "{error}: {answer:?}");
    }
    let answer = of(feed.clone(), &newest(), 401, json!({"error": "AuthMissing"})).await;
    assert!(matches!(answer, Err(LookupError::Credential(_))), "{answer:?}");
    let answer = of(search("a"), &newest(), 401, json!({"error": "AuthMissing"})).await;
    assert!(matches!(answer, Err(LookupError::BadRequest(_))), "{answer:?}");
    let answer = of(feed, &newest(), 502, json!({})).await;
    assert!(matches!(answer, Err(LookupError::Outage(_))), "{answer:?}");
}
