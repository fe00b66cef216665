//! Recorded answers of timelines of X API v2 and Mastodon through their readers. What is expected comes from a plain
//! reading; run with `--nocapture` for the table.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use twitter_updater::providers::http::{HttpClient, HttpOptions};
use twitter_updater::providers::lookup::LookupError;
use twitter_updater::providers::mastodon::timeline::{Kind, MastodonApi};
use twitter_updater::providers::since::IdLayout;
use twitter_updater::providers::source::SourceKind;
use twitter_updater::providers::timeline::Timeline;
use twitter_updater::providers::timeline::TimelineRequest;
use twitter_updater::providers::x_v2::timeline as x_v2;

use crate::providers::recorded::{canned, cassette};
use crate::recordings::files;
use crate::support::http::{CannedServer, anonymous, recordings};

fn row(file: &Path, what: &str, posts: usize, broken: usize, more: &str) {
    let name = file.file_name().unwrap().to_string_lossy();
    println!("{name:<42} {what:<28} {posts:>4} posts {broken:>3} broken {more}");
}

fn plain_ids(posts: &Value) -> Vec<u64> {
    posts.as_array().into_iter().flatten().map(|post| post["id"].as_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn every_recorded_page_of_x_gives_its_posts() {
    let Some(dir) = recordings() else { return };
    let mut pages = 0;
    for file in files(&dir) {
        for exchange in cassette(&file).iter().filter(|exchange| exchange.status == 200) {
            let path = exchange.address.split('?').next().unwrap_or_default();
            let is_page = path.contains("/2/tweets/search/") || path.contains("/2/users/") && path.ends_with("/tweets");
            // A lookup's posts are no other than a page's, which has a meta beside them.
            let is_lookup = path.ends_with("/2/tweets") && exchange.body["data"].is_array();
            if !is_page && !is_lookup {
                continue;
            }
            let mut body = exchange.body.clone();
            if is_lookup {
                body["meta"] = json!({ "result_count": plain_ids(&body["data"]).len(), "next_token": "next" });
            }
            if body["data"].is_null() && body["meta"].is_null() {
                assert!(matches!(x_v2::read(body.to_string().as_bytes()), Err(LookupError::BadRequest(_))));
                continue;
            }
            let page = x_v2::read(body.to_string().as_bytes()).unwrap();
            let ids: Vec<u64> = page.posts.iter().map(|post| post.id).collect();
            assert_eq!(ids, plain_ids(&body["data"]));
            assert_eq!(page.next_token.as_deref(), body["meta"]["next_token"].as_str());
            assert_eq!(page.broken, 0);
            let what = if is_lookup { "a lookup's posts" } else { path.rsplit("/2/").next().unwrap_or_default() };
            row(&file, what, ids.len(), page.broken, page.next_token.as_deref().unwrap_or("the last"));
            pages += 1;
        }
    }
    println!("{pages} pages");
}

#[tokio::test]
async fn every_recorded_page_of_mastodon_gives_its_statuses() {
    let Some(dir) = recordings() else { return };
    let mut pages = 0;
    for file in files(&dir) {
        for exchange in cassette(&file).iter().filter(|exchange| exchange.status == 200) {
            let path = exchange.address.split('?').next().unwrap_or_default();
            let is_account = path.contains("/api/v1/accounts/") && path.ends_with("/statuses");
            if !(path.contains("/api/v1/timelines/") || is_account) || !exchange.body.is_array() {
                continue;
            }
            let server = CannedServer::start(canned(&exchange.headers, &exchange.body.to_string())).await;
            let http = HttpClient::new(&HttpOptions::default()).unwrap();
            let api = MastodonApi::new(http, &server.base_url()).unwrap();
            let timeline = Kind::Public { local: true }.build(&api, Duration::from_secs(1));
            let asked = TimelineRequest { since: Some(7), below: Some(1 << 60), cursor: None, count: 40 };
            let page = timeline.page(&asked, &anonymous()).await.unwrap();
            let target = server.asked()[0].target.clone();
            assert_eq!(
                target,
                format!("/api/v1/timelines/public?limit=40&local=true&since_id=7&max_id={}", 1u64 << 60)
            );
            let ids: Vec<u64> = page.posts.iter().map(|post| post.id).collect();
            assert_eq!((&ids, page.broken), (&plain_ids(&exchange.body), 0));
            // Its own Date is believed only where nobody on the way may have kept it.
            let header = |name: &str| {
                let all = &mut exchange.headers.iter();
                all.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
            };
            let is_ours = header("cache-control").is_some_and(|control| control.contains("private"));
            assert_eq!(page.reading.date.is_some(), is_ours);
            let layout = IdLayout::MASTODON;
            let (from, to) = (layout.made_at(ids[ids.len() - 1]), layout.made_at(ids[0]));
            let age = header("age").unwrap_or("no");
            row(
                &file,
                path.rsplit("/api/v1/").next().unwrap(),
                ids.len(),
                page.broken,
                &format!("{} s, {age} Age", (to - from) / 1_000),
            );
            pages += 1;
        }
    }
    println!("{pages} pages");
}
