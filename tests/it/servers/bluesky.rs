//! Bluesky's own AppView and data server: cursors of other forms, a repository that is not there, a search that ignores `until`, posts of 1965.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use reqwest::Url;
use serde_json::{Value, json};
use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::model::post::ItemState;
use twitter_updater::model::relation::ListKind;
use twitter_updater::pipelines::timelines::paging::{Position, apply_page, next_request};
use twitter_updater::providers::bluesky::relations::Follows;
use twitter_updater::providers::bluesky::timeline::{BlueskyApi, Kind};
use twitter_updater::providers::bluesky::{self, Bluesky, BlueskyOptions};
use twitter_updater::providers::http::{HttpClient, HttpOptions};
use twitter_updater::providers::lookup::LookupError;
use twitter_updater::providers::relations::{Listing, PageRequest, Relations};
use twitter_updater::providers::source::{NetworkTimeline, SourceKind};
use twitter_updater::providers::timeline::{NextPage, Timeline, TimelineRequest};
use twitter_updater::store::{self, Edges, Lifecycle, SqliteStore};

use super::Recorded;
use crate::support::http::{Asked, Canned, CannedServer, anonymous};
use crate::support::process::{Process, Variables, run_with_input, text, variables};
use crate::support::role::Role;
use crate::support::wait::until_true;

const WITHIN: Duration = Duration::from_secs(60);
/// The recorded cursor of another form, which the AppView answers with 500.
const FOREIGN: &str = "2026-11-29T02%3A51%3A45.001Z";

/// Posts of the AppView, in the order of their times, ms since the epoch; its cursors are `time__cid`.
#[derive(Clone, Default)]
struct Posts(Arc<Mutex<Vec<(Millis, String)>>>);

impl Posts {
    fn add(&self, times: impl IntoIterator<Item = Millis>) {
        let mut posts = self.0.lock().unwrap();
        for at in times {
            let key = format!("key{}", posts.len());
            posts.push((at, format!("at://did:plc:ex6jmm7d4yw3i6mhlbourzal/app.bsky.feed.post/{key}")));
        }
        posts.sort();
    }

    fn uris(&self) -> HashSet<String> {
        self.0.lock().unwrap().iter().map(|(_, uri)| uri.clone()).collect()
    }

    /// A page as the AppView makes it: its cursor is left out of the last one, and `until` is ignored.
    fn page(&self, asked: &Asked, recorded: &Recorded) -> Canned {
        let url = Url::parse(&format!("http://any.invalid{}", asked.target)).unwrap();
        let parameter = |of: &str| url.query_pairs().find(|(name, _)| name == of).map(|(_, value)| value.into_owned());
        let below = match parameter("cursor").map(|cursor| cursor.split_once("__").and_then(|(at, _)| at.parse().ok()))
        {
            None => Millis::MAX,
            Some(Some(at)) => at,
            Some(None) => {
                let feed = "/xrpc/app.bsky.feed.getAuthorFeed?actor=did%3Aplc%3Ade37v5hwyx4kcfjd372ly5aa&cursor=";
                return recorded.get(&format!("{feed}{FOREIGN}")).unwrap();
            }
        };
        let limit: usize = parameter("limit").map_or(50, |limit| limit.parse().unwrap());
        let posts = self.0.lock().unwrap();
        let older: Vec<&(Millis, String)> = posts.iter().rev().filter(|(at, _)| *at < below).collect();
        let page = &older[..limit.min(older.len())];
        let cursor = page.last().filter(|_| older.len() > page.len()).map(|(at, _)| format!("{at}__bafyrei"));
        let view = |(at, uri): &&(Millis, String)| json!({ "uri": uri, "record": { "text": "zebra", "createdAt": iso(*at) }, "indexedAt": iso(*at + 40) });
        let mut body = match url.path().ends_with("getAuthorFeed") {
            true => json!({ "feed": page.iter().map(|post| json!({ "post": view(post) })).collect::<Vec<Value>>() }),
            false => json!({ "posts": page.iter().map(view).collect::<Vec<Value>>() }),
        };
        if let Some(cursor) = cursor {
            body["cursor"] = cursor.into();
        }
        Canned::new(200, body.to_string())
    }

    async fn serve(&self) -> CannedServer {
        let (posts, recorded) = (self.clone(), Recorded::of("appview"));
        CannedServer::start_with(move |asked| posts.page(asked, &recorded)).await
    }
}

fn iso(at: Millis) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(at.unsigned_abs())).to_string()
}

fn timeline(address: &str, kind: Kind) -> NetworkTimeline<Kind> {
    let http = HttpClient::new(&HttpOptions::default()).unwrap();
    kind.build(&BlueskyApi::new(http, address).unwrap(), Duration::from_millis(300))
}

/// Reads one round without a login. Returns the posts that it handed over and its number of pages.
async fn round(timeline: &dyn Timeline, kept: &mut Option<Position>) -> (HashSet<String>, u32) {
    let (rules, mut had) = (timeline.rules(), HashSet::new());
    for pages in 1..=30 {
        let asked = next_request(kept.as_ref(), &rules, wall_ms());
        let page = timeline.page(&asked, &anonymous()).await.unwrap();
        let ids: Vec<u64> = page.posts.iter().map(|post| post.id).collect();
        let taken = apply_page(kept, &rules, &asked, &ids, page.more, &page.reading).unwrap();
        assert_eq!(taken.gaps, []);
        let is_handed = |id: u64| taken.hand_over.contains(&id);
        had.extend(page.posts.into_iter().filter(|post| is_handed(post.id)).map(|post| post.tweet.id));
        if taken.finished_round.is_some() {
            return (had, pages);
        }
    }
    panic!("a round has no end: {kept:?}");
}

#[tokio::test]
async fn an_author_feed_of_one_post_goes_on() {
    let posts = Posts::default();
    let server = posts.serve().await;
    let timeline = timeline(&server.base_url(), Kind::Author { actor: "a00.test".to_owned() });
    let (mut kept, mut had) = (None, HashSet::new());
    // One post; then one more at a time; then more than a page.
    for (ago, count) in [(900_000, 1), (800_000, 1), (700_000, 0), (600_000, 3), (500_000, 250), (400_000, 1)] {
        posts.add((0..count).map(|n| wall_ms() - ago + 10 * n));
        let (handed, pages) = round(&timeline, &mut kept).await;
        had.extend(handed);
        assert!(pages <= 1 + count as u32 / 100, "{pages} pages for {count} posts");
        assert_eq!(posts.uris().difference(&had).count(), 0);
    }
}

#[tokio::test]
async fn a_cursor_that_fails_while_the_feed_is_answered_is_stale_and_one_in_an_outage_is_not() {
    let posts = Posts::default();
    posts.add((0..150).map(|n| wall_ms() - 900_000 + n));
    let server = posts.serve().await;
    let feed = timeline(&server.base_url(), Kind::Author { actor: "a00.test".to_owned() });
    let stale =
        TimelineRequest { since: None, below: None, cursor: Some("2026-11-29T02:51:45.001Z".to_owned()), count: 100 };
    let page = feed.page(&stale, &anonymous()).await.unwrap();
    assert_eq!(page.more, NextPage::CursorExpired);
    let out = CannedServer::start(Canned::new(500, r#"{"error":"InternalServerError"}"#)).await;
    let feed = timeline(&out.base_url(), Kind::Author { actor: "a00.test".to_owned() });
    assert!(matches!(feed.page(&stale, &anonymous()).await, Err(LookupError::Outage(_))));
}

#[tokio::test]
async fn a_search_at_a_server_that_ignores_until_is_read_by_its_cursors_without_a_login() {
    let posts = Posts::default();
    let server = posts.serve().await;
    let search = timeline(&server.base_url(), Kind::Search { query: "zebra".to_owned() });
    let (mut kept, mut had) = (None, HashSet::new());
    for (ago, count) in [(900_000, 5), (600_000, 350), (500_000, 2), (300_000, 420)] {
        posts.add((0..count).map(|n| wall_ms() - ago + 10 * n));
        had.extend(round(&search, &mut kept).await.0);
        assert_eq!(posts.uris().difference(&had).count(), 0, "of {count}");
    }
}

#[tokio::test]
async fn a_stale_cursor_of_followers_begins_the_list_again_and_an_outage_does_not() {
    let recorded = Recorded::of("appview");
    let owner = "did:plc:de37v5hwyx4kcfjd372ly5aa";
    let list = |address: &str| {
        let options = BlueskyOptions { base_url: address.to_owned(), ..BlueskyOptions::default() };
        Follows::new(Bluesky::new(options).unwrap())
    };
    let request = |cursor| PageRequest { side: ListKind::Followers, owner, cursor, limit: 3 };
    // The owner's list as it was recorded, and the recorded answer to a foreign cursor.
    let answer = move |asked: &Asked| match asked.target.contains("cursor=") {
        true => {
            let of_another = "/xrpc/app.bsky.graph.getFollowers?actor=did%3Aplc%3Acjmwnflebvqtk3yahkhmmw5z&cursor=abc";
            recorded.get(of_another).unwrap()
        }
        false => recorded.answer(asked).unwrap(),
    };
    let server = CannedServer::start_with(answer.clone()).await;
    let stale = list(&server.base_url()).page(request(Some("abc")), &anonymous()).await.unwrap();
    assert_eq!(stale.listing, Listing::StaleCursor);
    let first = list(&server.base_url()).page(request(None), &anonymous()).await.unwrap();
    assert!(matches!(first.listing, Listing::Members(members) if members.members.len() == 2));
    let out = CannedServer::start(Canned::new(500, r#"{"error":"InternalServerError"}"#)).await;
    let lost = list(&out.base_url()).page(request(Some("abc")), &anonymous()).await;
    assert!(matches!(lost, Err(LookupError::Outage(_))), "{lost:?}");
    // One failure between two good answers does not make the cursor stale.
    let hiccup = Mutex::new(true);
    let server = CannedServer::start_with(move |asked| {
        let fails = asked.target.contains("cursor=") && std::mem::take(&mut *hiccup.lock().unwrap());
        if fails { answer(asked) } else { Canned::new(200, r#"{"followers":[]}"#) }
    })
    .await;
    let lost = list(&server.base_url()).page(request(Some("abc")), &anonymous()).await;
    assert!(matches!(lost, Err(LookupError::Outage(_))), "{lost:?}");
}

fn settings(api: &str, folder: &std::path::Path) -> Variables {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    variables(&[
        ("providers", "bluesky"),
        ("bluesky.api", api),
        ("updater.buffer_ttl", "50ms"),
        ("relations.collect", "friends"),
        ("relations.from_posts", "false"),
        ("relations.revisit", "1s"),
        ("relations.complete_every", "0s"),
        ("queue.embedded.path", &path("jobs.db")),
        ("store.sqlite.path", &path("tweets.db")),
    ])
}

/// `bluesky.api` is a data server, and one owner has an account on another server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_that_is_not_there_delays_no_other_list() {
    let recorded = Recorded::of("pds");
    let server = CannedServer::start_with(move |asked| {
        let missing = || Canned::new(404, r#"{"error":"NotFound"}"#);
        recorded.answer(asked).unwrap_or_else(missing)
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let (settings, log) = (settings(&server.base_url(), folder.path()), folder.path().join("log"));
    let lists = "friends:bluesky";
    // The absent owner is the first in line.
    let absent = "did:plc:zdtsxfisaycazwtxpncbfn37";
    let others = ["did:plc:4wmifggx7ogjokrqq74nhhvp", "did:plc:6c452omue32aafboyh7pgm2i"];
    for owner in [absent].into_iter().chain(others) {
        let output =
            run_with_input(&["enqueue", "--pipeline", lists, "--first", "now", "-"], &settings, owner.as_bytes());
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let updater = Process::start(&["updater"], &settings, &log);
    let store = SqliteStore::open(&folder.path().join("tweets.db"), WITHIN).await.unwrap();
    let ends = async |owner: &str| -> Vec<String> {
        store.crawls(lists, owner, 9).await.unwrap().into_iter().filter_map(|crawl| crawl.ended).collect()
    };
    for owner in others {
        until_true("it is read, and read again", WITHIN, async || {
            ends(owner).await.iter().filter(|end| *end == "complete").count() > 1
        })
        .await;
    }
    until_true("the absent one is hidden", WITHIN, async || ends(absent).await.iter().any(|end| end == "hidden")).await;
    let logged = std::fs::read_to_string(&log).unwrap();
    assert_eq!(updater.terminate().code(), Some(0), "{logged}");
    assert!(!logged.contains("list reads with this credential pause"), "{logged}");
}

/// Posts dated in the years 0, 1 and 1965, which the AppView repeats as the time at which it saw them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posts_dated_before_1970_are_scheduled_by_their_keys_and_counted() {
    let recorded = include_str!("../../fixtures/servers/appview-posts.jsonl").lines().filter_map(|line| {
        let exchange: Value = serde_json::from_str(line).unwrap();
        let body: Value = serde_json::from_str(exchange["body"].as_str().unwrap()).unwrap();
        let post = body["posts"][0].clone();
        (post["indexedAt"].as_str().unwrap() < "1971").then_some(post)
    });
    let recorded: Vec<Value> = recorded.collect();
    assert_eq!(recorded.len(), 3);
    let feed = |posts: &[Value]| {
        let items: Vec<Value> = posts.iter().map(|post| json!({ "post": post })).collect();
        Canned::new(200, json!({ "feed": items }).to_string())
    };
    // As recorded: each is as old as its key says, and no other date is left.
    let server = CannedServer::start(feed(&recorded)).await;
    let newest = TimelineRequest { since: None, below: None, cursor: None, count: 100 };
    let timeline = timeline(&server.base_url(), Kind::Author { actor: "a28.test".to_owned() });
    let page = timeline.page(&newest, &anonymous()).await.unwrap();
    assert_eq!((page.posts.len(), page.misdated, page.broken), (3, 3, 0));
    for post in &page.posts {
        let by_key = bluesky::date_of(&post.tweet.id).unwrap();
        assert!(by_key.is_some_and(|at| at > 1_795_000_000_000), "{post:?}");
        assert_eq!(post.tweet.created_at, by_key);
    }
    // Written just now; of the last one the key does not say when, and no other date does.
    let keyed: Vec<Value> = recorded
        .into_iter()
        .zip([Some(1), Some(2), None])
        .map(|(mut post, ago)| {
            let key = ago.map_or("by-hand".to_owned(), |ago| tid(wall_ms() - ago * 60_000));
            post["uri"] = format!("at://did:plc:v2qrcpgarzqjojobd5eioo7p/app.bsky.feed.post/{key}").into();
            post
        })
        .collect();
    let uris: Vec<String> = keyed.iter().map(|post| post["uri"].as_str().unwrap().to_owned()).collect();
    let server = CannedServer::start(feed(&keyed)).await;
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&server.base_url(), folder.path());
    let source = [("provider", "bluesky"), ("kind", "author"), ("actor", "a28.test")];
    let source = source.map(|(key, value)| (format!("poll.sources.one.{key}"), value));
    settings.extend(variables(&source.each_ref().map(|(key, value)| (&**key, *value))));
    let poller = Role::start("poll", &settings, &folder.path().join("log")).await;
    let store = SqliteStore::open(&folder.path().join("tweets.db"), WITHIN).await.unwrap();
    let mut rows = Vec::new();
    until_true("all are stored", WITHIN, async || {
        rows = store.standing("bluesky:update", &uris).await.unwrap_or_default();
        rows.len() == 3 && rows.iter().all(Option::is_some)
    })
    .await;
    let states: Vec<ItemState> = rows.iter().flatten().map(|row| row.state).collect();
    assert_eq!(states, [ItemState::Live, ItemState::Live, ItemState::Ended]);
    let made: Vec<Option<Millis>> = rows.iter().flatten().map(|row| row.created_at).collect();
    assert_eq!(made[..2], [bluesky::date_of(&uris[0]).unwrap(), bluesky::date_of(&uris[1]).unwrap()]);
    // Their counts are those of the moment at which they were read.
    for uri in &uris {
        let history = store::Posts::history(&store, "bluesky:update", uri).await.unwrap();
        let [counted] = &history[..] else { panic!("{uri}: {history:?}") };
        assert!(
            (wall_ms() - counted.checked_at).abs() < 60_000 && counted.metrics.favorite_count.is_some(),
            "{counted:?}"
        );
    }
    let metrics = poller.get("/metrics").await.1;
    let of = |name: &str| {
        let line = metrics.lines().find(|line| line.starts_with(&format!("twitter_updater_{name}_total{{")));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    assert!(of("posts_misdated") >= Some(3.0) && of("posts_refused") >= Some(1.0), "{metrics}");
    assert_eq!(poller.stopped().await, Some(0));
}

/// The key of a record that was made then.
fn tid(at: Millis) -> String {
    let tid = (at.unsigned_abs() * 1_000) << 10;
    let digit = |n: u32| char::from(b"234567abcdefghijklmnopqrstuvwxyz"[((tid >> (5 * n)) & 31) as usize]);
    (0..13).rev().map(digit).collect()
}
