//! Recorded chains of pages through the reader of each network, served again page by page. What is expected comes from a plain
//! reading with `serde_json::Value`, not from our readers.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use serde_json::Value;
use twitter_updater::model::account::Absence;
use twitter_updater::model::relation::ListKind;
use twitter_updater::providers::lookup::LookupError;
use twitter_updater::providers::relations::{Listing, PageRequest, RelationPage, Relations};

use super::super::all::{Bounds, Provider};
use super::super::recorded::{Exchange, canned, cassette};
use super::{ids, members};
use crate::recordings::{files, json as json_of};
use crate::support::http::{Asked, Canned, CannedServer, anonymous, bearer, recordings};

/// The exchanges of the files whose names begin like this, at addresses with that in them.
pub fn exchanges(name: &str, address: &str) -> Vec<Exchange> {
    let Some(dir) = recordings() else { return Vec::new() };
    let is_it = |file: &PathBuf| file.file_name().is_some_and(|own| own.to_string_lossy().starts_with(name));
    let all = files(&dir).into_iter().filter(is_it).flat_map(|file| cassette(&file));
    let found: Vec<Exchange> = all.filter(|exchange| exchange.address.contains(address)).collect();
    if found.is_empty() {
        println!("skipped: {name} is not among the recordings");
    }
    found
}

/// The value of a parameter in an address.
fn parameter<'a>(address: &'a str, name: &str) -> Option<&'a str> {
    let query = address.split_once('?')?.1;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// The page of Bluesky, which was recorded without its call.
pub fn page_of_bluesky() -> Option<Exchange> {
    let file = files(&recordings()?).into_iter().find(|file| file.ends_with("get_follows.json"))?;
    let address = "https://public.api.bsky.app/xrpc/app.bsky.graph.getFollows".to_owned();
    Some(Exchange { address, status: 200, headers: Vec::new(), body: json_of(&file)? })
}

/// The last part of an address's path.
fn endpoint(address: &str) -> &str {
    address.split('?').next().unwrap().rsplit('/').next().unwrap()
}

/// A server that gives each recorded answer for the cursor that it was recorded for, and has no other endpoint.
pub async fn serve(exchanges: &[Exchange], cursor: &'static str, first: &'static str) -> CannedServer {
    let mut answers: HashMap<String, Canned> = HashMap::new();
    let endpoints: HashSet<String> = exchanges.iter().map(|it| endpoint(&it.address).to_owned()).collect();
    for exchange in exchanges {
        let at = parameter(&exchange.address, cursor).unwrap_or(first).to_owned();
        let answer = canned(&exchange.headers, &exchange.body.to_string());
        assert!(answers.insert(at, answer).is_none(), "one answer for a cursor");
    }
    CannedServer::start_with(move |asked: &Asked| {
        if !endpoints.contains(endpoint(&asked.target)) {
            return Canned::new(501, r#"{"error":"MethodNotImplemented","message":"Method Not Implemented"}"#);
        }
        let at = parameter(&asked.target, cursor).unwrap_or(first);
        answers.get(at).cloned().unwrap_or_else(|| Canned::new(500, "nothing is recorded for this cursor"))
    })
    .await
}

/// The whole list, page by page.
async fn crawl(lists: &dyn Relations, side: ListKind) -> Vec<RelationPage> {
    let (mut pages, mut cursor): (Vec<RelationPage>, Option<String>) = (Vec::new(), None);
    loop {
        let limit = lists.capabilities(side).page_limit;
        let request = PageRequest { side, owner: "7", cursor: cursor.as_deref(), limit };
        let page = lists.page(request, &bearer("token")).await.unwrap();
        cursor = members(&page).next.clone();
        pages.push(page);
        if cursor.is_none() {
            return pages;
        }
    }
}

fn all_ids(pages: &[RelationPage]) -> Vec<&str> {
    pages.iter().flat_map(|page| ids(page)).collect()
}

fn distinct<'a>(ids: &[&'a str]) -> HashSet<&'a str> {
    ids.iter().copied().collect()
}

fn bounds() -> Bounds {
    Bounds { max_body_bytes: 16 << 20, ..Bounds::default() }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_whole_list_of_twitter_replays_twice() {
    let mut lists = Vec::new();
    for (name, pages, told, known) in
        [("get_followers2.json", 6, 26_380, 26_378), ("get_followers2.2022-04-30.yml", 5, 24_548, 24_548)]
    {
        let recorded = exchanges(name, "followers/ids");
        if recorded.is_empty() {
            return;
        }
        let server = serve(&recorded, "cursor", "-1").await;
        let read = crawl(&*Provider::TwitterV1.relations_at(&server.base_url(), bounds()), ListKind::Followers).await;
        assert_eq!(read.len(), pages, "{name}");
        let mut plain = Vec::new();
        for (exchange, page) in recorded.iter().zip(&read) {
            let expected: Vec<String> = exchange.body["ids"].as_array().unwrap().iter().map(text).collect();
            assert_eq!(ids(page), expected);
            let next = text(&exchange.body["next_cursor_str"]);
            assert_eq!(members(page).next, Some(next).filter(|next| next != "0"));
            assert_eq!((members(page).partial, members(page).unreadable.count), (None, 0));
            let header = |name: &str| {
                exchange.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).unwrap().1.parse().unwrap()
            };
            let quota = page.quota.unwrap();
            assert_eq!((quota.limit, quota.remaining), (15, header("x-rate-limit-remaining")));
            plain.extend(expected);
        }
        let all = all_ids(&read);
        assert_eq!(all, plain.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((all.len(), distinct(&all).len()), (told, known), "{name}");
        lists.push(plain);
    }
    let [now, before] = [0, 1].map(|at| lists[at].iter().map(String::as_str).collect::<HashSet<&str>>());
    assert_eq!((now.difference(&before).count(), before.difference(&now).count()), (2_512, 682));
}

#[tokio::test]
async fn other_recorded_lists_of_twitter_replay() {
    for (name, side, address) in [
        ("friends1", ListKind::Friends, "friends/ids"),
        ("friends4", ListKind::Friends, "friends/ids"),
        ("get_followers.json", ListKind::Followers, "followers/ids"),
    ] {
        for exchange in exchanges(name, address) {
            let answer = canned(&exchange.headers, &exchange.body.to_string());
            let server = CannedServer::start(answer).await;
            let lists = Provider::TwitterV1.relations_at(&server.base_url(), bounds());
            let request = PageRequest { side, owner: "7", cursor: None, limit: 5_000 };
            let page = lists.page(request, &anonymous()).await.unwrap();
            let plain: Vec<String> = exchange.body["ids"].as_array().unwrap().iter().map(text).collect();
            assert!(!plain.is_empty() && ids(&page) == plain, "{name}");
            let next = text(&exchange.body["next_cursor_str"]);
            assert_eq!(members(&page).next.as_deref(), Some(&*next).filter(|next| *next != "0"), "{name}");
            println!("{name}: {} ids", plain.len());
        }
    }
}

/// What X tells of an account, and what was read of it.
fn same_as_x(page: &RelationPage, body: &Value) {
    let data = body["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let expected: Vec<String> = data.iter().map(|user| text(&user["id"])).collect();
    assert_eq!(ids(page), expected);
    assert_eq!(members(page).accounts.len(), data.len());
    for (account, plain) in members(page).accounts.iter().zip(data) {
        assert_eq!(account.id, text(&plain["id"]));
        assert_eq!(account.handle, Some(text(&plain["username"])), "{plain}");
        assert_eq!(account.display_name, Some(text(&plain["name"])));
        assert_eq!(
            account.description.as_deref().unwrap_or_default(),
            plain["description"].as_str().unwrap_or_default()
        );
        assert_eq!(account.location.as_deref().unwrap_or_default(), plain["location"].as_str().unwrap_or_default());
        assert_eq!((account.protected, account.verified), (plain["protected"].as_bool(), plain["verified"].as_bool()));
        let counts = &plain["public_metrics"];
        assert_eq!(account.counts.followers, counts["followers_count"].as_i64());
        assert_eq!(account.counts.following, counts["following_count"].as_i64());
        assert_eq!(account.counts.posts, counts["tweet_count"].as_i64());
        assert_eq!(serde_json::from_str::<Value>(&account.raw).unwrap(), *plain);
    }
    assert_eq!(members(page).next.as_deref(), body["meta"]["next_token"].as_str());
    assert_eq!(members(page).unreadable.count, 0);
}

#[tokio::test]
async fn the_recorded_chain_of_x_replays() {
    let recorded = exchanges("followers-34739420-", "/followers?");
    if recorded.is_empty() {
        return;
    }
    let server = serve(&recorded, "pagination_token", "").await;
    let pages = crawl(&*Provider::XV2.relations_at(&server.base_url(), bounds()), ListKind::Followers).await;
    let sizes: Vec<usize> = pages.iter().map(|page| ids(page).len()).collect();
    assert_eq!(sizes, [1_000, 1_000, 1_000, 433]);
    let mut token: Option<String> = None;
    for page in &pages {
        let is_it = |exchange: &&Exchange| parameter(&exchange.address, "pagination_token") == token.as_deref();
        let exchange = recorded.iter().find(is_it).unwrap();
        same_as_x(page, &exchange.body);
        assert_eq!(page.quota.unwrap().limit, 15);
        token = members(page).next.clone();
    }
    assert_eq!(distinct(&all_ids(&pages)).len(), 3_433);
}

#[tokio::test]
async fn other_recorded_lists_of_x_replay() {
    let empty = ("followers-1145936974064177152", ListKind::Followers, 0);
    for (name, side, count) in [empty, ("following-1085578910853746688", ListKind::Friends, 499)] {
        for exchange in exchanges(name, "/2/users/") {
            let server = CannedServer::start(canned(&exchange.headers, &exchange.body.to_string())).await;
            let lists = Provider::XV2.relations_at(&server.base_url(), bounds());
            let request = PageRequest { side, owner: "7", cursor: None, limit: 1_000 };
            let page = lists.page(request, &anonymous()).await.unwrap();
            same_as_x(&page, &exchange.body);
            assert_eq!(ids(&page).len(), count, "{name}");
        }
    }
}

#[tokio::test]
async fn recorded_pages_of_mastodon_replay_with_their_links() {
    for (name, side, next) in [
        ("get_account_followers_default", ListKind::Followers, "5122703"),
        ("get_account_following_default", ListKind::Friends, "4797750"),
    ] {
        for exchange in exchanges(name, "/api/v1/accounts/") {
            let server = CannedServer::start(canned(&exchange.headers, &exchange.body.to_string())).await;
            let lists = Provider::Mastodon.relations_at(&server.base_url(), bounds());
            let request = PageRequest { side, owner: "109302436954721982", cursor: None, limit: 3 };
            let page = lists.page(request, &anonymous()).await.unwrap();
            let plain = exchange.body.as_array().unwrap();
            assert_eq!(ids(&page), plain.iter().map(|account| text(&account["id"])).collect::<Vec<_>>());
            assert_eq!((plain.len(), members(&page).accounts.len()), (3, 3));
            for (account, plain) in members(&page).accounts.iter().zip(plain) {
                assert_eq!(account.handle, Some(text(&plain["acct"])));
                assert_eq!(account.display_name, Some(text(&plain["display_name"])));
                assert_eq!(account.description, Some(text(&plain["note"])));
                assert_eq!(account.protected, plain["locked"].as_bool());
                assert_eq!(account.counts.followers, plain["followers_count"].as_i64());
                assert_eq!(account.counts.following, plain["following_count"].as_i64());
                assert_eq!(account.counts.posts, plain["statuses_count"].as_i64());
            }
            // It is no account's id.
            assert_eq!(members(&page).next.as_deref(), Some(next));
            assert!(!ids(&page).contains(&next) && members(&page).partial.is_none());
            assert_eq!(page.quota.unwrap().limit, 300);
        }
    }
}

#[tokio::test]
async fn a_404_without_an_error_is_about_the_owner_if_the_instance_describes_itself() {
    let of = async |status: u16, description: &'static str| {
        let server = CannedServer::start_with(move |asked| match asked.target.starts_with("/api/v2/instance") {
            true => Canned::new(status, description),
            false => Canned::new(404, "").header("content-type", "text/html"),
        })
        .await;
        let lists = Provider::Mastodon.relations_at(&server.base_url(), bounds());
        lists.page(PageRequest { side: ListKind::Followers, owner: "7", cursor: None, limit: 80 }, &anonymous()).await
    };
    let page = of(200, r#"{"version":"4.3.0 (compatible; Pixelfed 0.12)"}"#).await.unwrap();
    assert!(matches!(page.listing, Listing::OwnerAbsent(Some(Absence::NotFound))), "{:?}", page.listing);
    let error = of(502, "").await.unwrap_err();
    assert!(matches!(error, LookupError::Outage(_)), "{error:?}");
}

#[tokio::test]
async fn a_recorded_page_of_bluesky_replays() {
    let Some(Exchange { body, .. }) = page_of_bluesky() else { return };
    let owner = text(&body["subject"]["did"]);
    let server = CannedServer::start(Canned::new(200, body.to_string())).await;
    let lists = Provider::Bluesky.relations_at(&server.base_url(), bounds());
    let request = PageRequest { side: ListKind::Friends, owner: &owner, cursor: Some("views:"), limit: 100 };
    let page = lists.page(request, &anonymous()).await.unwrap();
    let plain = body["follows"].as_array().unwrap();
    assert!(plain.len() > 2);
    assert_eq!(ids(&page), plain.iter().map(|view| text(&view["did"])).collect::<Vec<_>>());
    assert_eq!(members(&page).accounts.len(), plain.len());
    for (account, plain) in members(&page).accounts.iter().zip(plain) {
        assert_eq!(account.handle, Some(text(&plain["handle"])));
        assert_eq!(account.display_name.as_deref(), plain["displayName"].as_str());
        assert_eq!(account.description.as_deref(), plain["description"].as_str());
        // A view in a list has no counts, which says nothing of them.
        assert_eq!(account.counts.followers, None);
    }
    assert_eq!(members(&page).next, body["cursor"].as_str().map(|cursor| format!("views:{cursor}")));
    assert_eq!(members(&page).unreadable.count, 0);
    // The followers of the same account are another list.
    let request = PageRequest { side: ListKind::Followers, cursor: None, ..request };
    assert!(lists.page(request, &anonymous()).await.is_err());
}
