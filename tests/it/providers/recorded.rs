//! Every recorded answer of X API v2, Mastodon and Bluesky through its provider. What is expected comes from a plain
//! reading with `serde_json::Value`, not from our readers; run with `--nocapture` for the table.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use twitter_updater::model::account::Absence;
use twitter_updater::model::post::Tweet;
use twitter_updater::providers::lookup::{Answer, Outcome};

use super::all::{Bounds, Provider};
use super::found;
use crate::recordings::{files, json};
use crate::support::http::{Canned, CannedServer, anonymous, recordings};

/// One row of the table.
fn row(file: &Path, provider: Provider, asked: usize, answer: &Answer) {
    let count = |kind: fn(&Outcome) -> bool| answer.outcomes.iter().filter(|outcome| kind(outcome)).count();
    println!(
        "{:<42} {:<15} {asked:>5} asked {:>4} found {:>3} withheld {:>3} unavailable {:>3} broken {:>3} unsolicited",
        file.file_name().unwrap().to_string_lossy(),
        format!("{provider:?}"),
        count(|outcome| matches!(outcome, Outcome::Found(tweet) if tweet.withheld_in.is_none())),
        count(|outcome| matches!(outcome, Outcome::Found(tweet) if tweet.withheld_in.is_some())),
        count(|outcome| matches!(outcome, Outcome::Unavailable | Outcome::Absent(_))),
        count(|outcome| matches!(outcome, Outcome::Broken(_))),
        answer.unsolicited,
    );
}

/// A recorded answer, as it goes out again.
pub fn canned(headers: &[(String, String)], body: &str) -> Canned {
    let transport = ["content-length", "content-encoding", "transfer-encoding", "connection", "set-cookie"];
    let mut canned = Canned::new(200, body);
    for (name, value) in headers.iter().filter(|(name, _)| !transport.contains(&name.to_lowercase().as_str())) {
        canned = canned.header(name, value);
    }
    canned
}

async fn ask(provider: Provider, headers: &[(String, String)], body: &str, asked: &[String]) -> Answer {
    let server = CannedServer::start(canned(headers, body)).await;
    let bounds = Bounds { max_body_bytes: 16 << 20, ..Bounds::default() };
    provider.at(&server.base_url(), bounds).look_up(asked, &anonymous()).await.unwrap()
}

fn plain_date(text: &str) -> Option<i64> {
    let date = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    i64::try_from(date.unix_timestamp_nanos().div_euclid(1_000_000)).ok()
}

/// A recorded exchange: address, status, headers, body.
pub struct Exchange {
    pub address: String,
    pub status: u64,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

/// Every object with a request and a response, wherever it stands.
fn exchanges(value: &Value, all: &mut Vec<Exchange>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| exchanges(item, all)),
        Value::Object(fields) => match (fields.get("request"), fields.get("response")) {
            (Some(request), Some(response)) => all.push(Exchange {
                address: ["uri", "url"].iter().find_map(|name| request[name].as_str()).unwrap_or_default().to_owned(),
                status: response["status"].as_u64().or(response["status"]["status_code"].as_u64()).unwrap_or(200),
                headers: response["headers"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                    .collect(),
                body: match (response["body"].as_str(), response["body"]["string"].as_str()) {
                    (Some(text), _) | (None, Some(text)) => serde_json::from_str(text).unwrap_or_default(),
                    (None, None) => response["body"].clone(),
                },
            }),
            _ => fields.values().for_each(|field| exchanges(field, all)),
        },
        _ => {}
    }
}

pub fn cassette(file: &Path) -> Vec<Exchange> {
    let yaml = || {
        let is_yaml = file.extension().is_some_and(|end| end == "yml" || end == "yaml");
        serde_saphyr::from_str::<Value>(&std::fs::read_to_string(file).ok().filter(|_| is_yaml)?).ok()
    };
    let mut all = Vec::new();
    if let Some(value) = json(file).or_else(yaml) {
        exchanges(&value, &mut all);
    }
    all
}

fn number(header: &str, headers: &[(String, String)]) -> Option<u32> {
    headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(header))?.1.parse().ok()
}

// X API v2

/// The ids in the address, or those that the body speaks of.
fn asked_of_x(exchange: &Exchange) -> Vec<String> {
    let query = exchange.address.split_once('?').map_or("", |(_, query)| query);
    let ids = query.split('&').find_map(|pair| pair.strip_prefix("ids=")).unwrap_or_default();
    ids.replace("%2C", ",").split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

fn is_x(exchange: &Exchange) -> bool {
    exchange.address.contains("/2/tweets?") && exchange.status == 200 && !asked_of_x(exchange).is_empty()
}

fn same_as_x(tweet: &Tweet, plain: &Value) {
    let id = plain["id"].as_str().unwrap();
    assert_eq!(tweet.id, id);
    assert_eq!(tweet.created_at, plain["created_at"].as_str().and_then(plain_date), "{id}");
    let text = plain["note_tweet"]["text"].as_str().or(plain["text"].as_str());
    assert_eq!(tweet.text.as_deref(), if plain["withheld"].is_object() { None } else { text }, "{id}");
    assert_eq!(tweet.author_id.as_deref(), plain["author_id"].as_str(), "{id}");
    let counts = &plain["public_metrics"];
    let count = |names: [&str; 2]| names.iter().find_map(|name| counts[name].as_i64());
    assert_eq!(tweet.metrics.retweet_count, count(["retweet_count", "repost_count"]), "{id}");
    assert_eq!(tweet.metrics.favorite_count, count(["like_count"; 2]), "{id}");
    assert_eq!(tweet.metrics.reply_count, count(["reply_count"; 2]), "{id}");
    assert_eq!(tweet.metrics.quote_count, count(["quote_count"; 2]), "{id}");
    assert_eq!(tweet.metrics.bookmark_count, count(["bookmark_count"; 2]), "{id}");
    assert_eq!(tweet.metrics.impression_count, count(["impression_count"; 2]), "{id}");
}

#[tokio::test]
async fn every_recorded_answer_of_x_gives_what_it_shows() {
    let Some(dir) = recordings() else { return };
    let mut all = 0;
    for file in files(&dir) {
        for exchange in cassette(&file).iter().filter(|exchange| is_x(exchange)) {
            let asked = asked_of_x(exchange);
            let answer = ask(Provider::XV2, &exchange.headers, &exchange.body.to_string(), &asked).await;
            row(&file, Provider::XV2, asked.len(), &answer);
            all += 1;
            let data: HashMap<&str, &Value> = exchange.body["data"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|post| (post["id"].as_str().unwrap(), post))
                .collect();
            assert_eq!(answer.outcomes.len(), asked.len());
            for (id, outcome) in asked.iter().zip(&answer.outcomes) {
                match (outcome, data.get(id.as_str())) {
                    (Outcome::Found(tweet), Some(plain)) => {
                        assert!(tweet.withheld_in.is_none() || plain["withheld"].is_object());
                        same_as_x(tweet, plain);
                    }
                    (Outcome::Absent(reason), None) => {
                        let errors = exchange.body["errors"].as_array().unwrap().iter();
                        let mut of_it =
                            errors.filter(|error| error["parameter"] == "ids" && error["value"] == id.as_str());
                        let title = match reason {
                            Absence::NotFound => "Not Found Error",
                            Absence::Protected => "Authorization Error",
                            other => panic!("{other:?} of {id}"),
                        };
                        assert_eq!(of_it.next().unwrap()["title"], title, "{id}");
                    }
                    (outcome, plain) => panic!("{outcome:?} is not what was recorded: {plain:?}"),
                }
            }
            let told = answer.quota.map(|quota| (quota.limit, quota.remaining, quota.reset_at / 1000));
            let header = |name| number(name, &exchange.headers);
            let limits = ["x-rate-limit-limit", "x-rate-limit-remaining", "x-rate-limit-reset"].map(header);
            assert_eq!(told, limits[0].map(|limit| (limit, limits[1].unwrap(), limits[2].unwrap().into())));
        }
    }
    println!("{all} answers");
}

#[tokio::test]
async fn the_recorded_traps_of_x_by_hand() {
    let Some(dir) = recordings() else { return };
    for (name, asked, here, gone) in [
        ("tweets-0b8bd2.json", 15, 0, vec!["1", "2", "14", "15"]),
        ("tweets-3396ba.json", 100, 97, vec!["1", "2", "3"]),
        ("tweets-80de3f.json", 99, 99, vec![]),
        ("tweets-f81159.json", 1, 1, vec![]),
    ] {
        let Some(file) = files(&dir).into_iter().find(|file| file.ends_with(name)) else { continue };
        let exchange = &cassette(&file)[0];
        let ids = asked_of_x(exchange);
        let answer = ask(Provider::XV2, &exchange.headers, &exchange.body.to_string(), &ids).await;
        assert_eq!(ids.len(), asked);
        assert_eq!(answer.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Found(_))).count(), here);
        for id in gone {
            let place = ids.iter().position(|known| known == id).unwrap();
            assert_eq!(answer.outcomes[place], Outcome::Absent(Absence::NotFound), "{name}: {id}");
        }
        assert_eq!(answer.unsolicited, 0, "{name}");
        if name == "tweets-f81159.json" {
            let tweet = found(&answer.outcomes[0]);
            assert_eq!((tweet.created_at, tweet.author_id.as_deref()), (Some(1_590_881_863_000), Some("282135623")));
            assert_eq!((tweet.metrics.retweet_count, tweet.metrics.favorite_count), (Some(2), Some(3)));
            assert_eq!((tweet.metrics.reply_count, tweet.metrics.impression_count), (Some(0), None));
        }
    }
}

// Mastodon

/// The statuses of an answer that has nothing else, and whether it is one alone.
fn statuses(exchange: &Exchange) -> Option<(Vec<Value>, bool)> {
    let is_status =
        |value: &Value| value["id"].is_string() && value["content"].is_string() && value["reblogs_count"].is_u64();
    let api = exchange.status == 200 && exchange.address.contains("/api/v1/");
    match &exchange.body {
        Value::Array(items) if api && !items.is_empty() && items.iter().all(is_status) => Some((items.clone(), false)),
        one if api && is_status(one) => Some((vec![one.clone()], true)),
        _ => None,
    }
}

#[tokio::test]
async fn every_recorded_status_of_mastodon_reads_as_it_plainly_does() {
    let Some(dir) = recordings() else { return };
    let mut all = 0;
    for file in files(&dir) {
        for exchange in cassette(&file) {
            let Some((recorded, one)) = statuses(&exchange) else { continue };
            let provider = if one { Provider::MastodonStatus } else { Provider::Mastodon };
            for recorded in recorded.chunks(if one { 1 } else { 19 }) {
                let mut asked: Vec<String> =
                    recorded.iter().map(|status| status["id"].as_str().unwrap().to_owned()).collect();
                if !one {
                    asked.push("1".to_owned());
                }
                let body = if one { recorded[0].to_string() } else { Value::from(recorded.to_vec()).to_string() };
                let answer = ask(provider, &exchange.headers, &body, &asked).await;
                row(&file, provider, asked.len(), &answer);
                all += recorded.len();
                for (plain, outcome) in recorded.iter().zip(&answer.outcomes) {
                    let tweet = found(outcome);
                    assert_eq!(tweet.id, plain["id"].as_str().unwrap());
                    assert_eq!(tweet.created_at, plain["created_at"].as_str().and_then(plain_date));
                    assert_eq!(tweet.text.as_deref(), plain["content"].as_str());
                    assert_eq!(tweet.author_id.as_deref(), plain["account"]["id"].as_str());
                    assert_eq!(tweet.author_name.as_deref(), plain["account"]["acct"].as_str());
                    assert_eq!(tweet.metrics.retweet_count, plain["reblogs_count"].as_i64());
                    assert_eq!(tweet.metrics.favorite_count, plain["favourites_count"].as_i64());
                    assert_eq!(tweet.metrics.reply_count, plain["replies_count"].as_i64());
                }
                if !one {
                    assert_eq!(answer.outcomes[recorded.len()], Outcome::Unavailable);
                }
                let header = |name| exchange.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                let reset = header("x-ratelimit-reset").and_then(|(_, reset)| plain_date(reset));
                // The second in which the window ends.
                assert_eq!(answer.quota.map(|quota| quota.reset_at), reset.map(|reset| reset / 1000 * 1000));
                let told = answer.quota.map(|quota| (Some(quota.limit), Some(quota.remaining)));
                let limit = |name| number(name, &exchange.headers);
                assert_eq!(told.unwrap_or_default(), (limit("x-ratelimit-limit"), limit("x-ratelimit-remaining")));
                if asked[0] == "114620457512351116" && one {
                    let m = found(&answer.outcomes[0]).metrics;
                    assert_eq!((m.reply_count, m.retweet_count, m.favorite_count), (Some(1), Some(5), Some(12)));
                }
            }
        }
    }
    println!("{all} statuses");
}

// Bluesky

/// Every post view in a value.
fn post_views(value: &Value, all: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| post_views(item, all)),
        Value::Object(fields) => {
            let uri = value["uri"].as_str().unwrap_or_default();
            if uri.contains("/app.bsky.feed.post/") && value["record"].is_object() && value["likeCount"].is_u64() {
                all.push(value.clone());
            } else {
                fields.values().for_each(|field| post_views(field, all));
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn every_recorded_post_of_bluesky_reads_as_it_plainly_does() {
    let Some(dir) = recordings() else { return };
    let mut all = 0;
    for file in files(&dir) {
        let mut views = Vec::new();
        if let Some(value) = json(&file) {
            post_views(&value, &mut views);
        }
        let mut posts: HashMap<String, Value> = HashMap::new();
        for view in views {
            posts.entry(view["uri"].as_str().unwrap().to_owned()).or_insert(view);
        }
        let posts: Vec<(String, Value)> = posts.into_iter().collect();
        for posts in posts.chunks(24) {
            let mut asked: Vec<String> = posts.iter().map(|(uri, _)| uri.clone()).collect();
            asked.push("at://did:plc:ewvi7nxzyoun6zhxrhs64oiz/app.bsky.feed.post/gone".to_owned());
            let body = serde_json::json!({ "posts": posts.iter().map(|(_, post)| post).collect::<Vec<_>>() });
            let answer = ask(Provider::Bluesky, &[], &body.to_string(), &asked).await;
            row(&file, Provider::Bluesky, asked.len(), &answer);
            all += posts.len();
            for ((uri, plain), outcome) in posts.iter().zip(&answer.outcomes) {
                let tweet = found(outcome);
                assert_eq!(&tweet.id, uri);
                assert_eq!(tweet.text.as_deref(), plain["record"]["text"].as_str());
                assert_eq!(tweet.author_id.as_deref(), plain["author"]["did"].as_str());
                // What a server says where it cannot verify a handle is none.
                let handle = plain["author"]["handle"].as_str().filter(|handle| *handle != "handle.invalid");
                assert_eq!(tweet.author_name.as_deref(), handle);
                assert_eq!(tweet.metrics.retweet_count, plain["repostCount"].as_i64());
                assert_eq!(tweet.metrics.favorite_count, plain["likeCount"].as_i64());
                assert_eq!(tweet.metrics.reply_count, plain["replyCount"].as_i64());
                assert_eq!(tweet.metrics.quote_count, plain["quoteCount"].as_i64());
                assert_eq!(tweet.metrics.bookmark_count, plain["bookmarkCount"].as_i64());
                let dates = [&plain["record"]["createdAt"], &plain["indexedAt"]];
                let earlier = dates.iter().filter_map(|date| plain_date(date.as_str()?)).min().unwrap();
                if earlier >= 0 {
                    assert_eq!(tweet.created_at, Some(earlier), "{uri}");
                }
                match uri.rsplit('/').next() {
                    // By hand: seen before it was written, dated in local time, dated in the year 0.
                    Some("3lkizm6uvhc2b") => {
                        assert_eq!(
                            (tweet.created_at, tweet.metrics.favorite_count),
                            (Some(1_742_141_347_569), Some(34))
                        );
                    }
                    Some("3lbca2nxy4f2a") => assert_eq!(tweet.created_at, Some(1_732_012_155_212)),
                    Some("3kbpuogc6fz2o") => assert_eq!(tweet.created_at, Some(1_697_296_597_389)),
                    _ => {}
                }
            }
            assert_eq!(answer.outcomes[posts.len()], Outcome::Unavailable);
        }
    }
    println!("{all} posts");
}
