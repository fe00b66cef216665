//! Every recorded account through the reader of its network, and recorded exchanges through the lookup. What is expected
//! comes from a plain reading with `serde_json::Value`, not from our readers; run with `--nocapture` for the counts.

use std::path::Path;

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use twitter_updater::model::account::{Absence, Account, AccountCounts, AccountState};
use twitter_updater::model::provider;
use twitter_updater::providers::lookup::{Answer, LookupError, Outcome};
use twitter_updater::providers::registry;

use super::super::all::Provider;
use super::super::recorded::{Exchange, canned, cassette};
use super::{ask, found, named, read};
use crate::recordings::{files, json as json_of, plain_date, plain_id};
use crate::support::http::recordings;

/// Tells the accounts of a network from other objects.
type Is = fn(&Value) -> bool;

/// Every object of that kind, wherever it stands, also in bodies that were recorded as texts.
fn objects(value: &Value, is: Is, all: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| objects(item, is, all)),
        Value::Object(fields) => {
            if is(value) {
                all.push(value.clone());
            }
            fields.values().for_each(|field| objects(field, is, all));
        }
        Value::String(text) if text.starts_with(['{', '[']) => {
            if let Ok(inner) = serde_json::from_str(text) {
                objects(&inner, is, all);
            }
        }
        _ => {}
    }
}

/// Those of all recordings.
fn recorded(dir: &Path, is: Is) -> Vec<Value> {
    let mut all = Vec::new();
    for file in files(dir) {
        match json_of(&file) {
            Some(value) => objects(&value, is, &mut all),
            None => cassette(&file).iter().for_each(|exchange| objects(&exchange.body, is, &mut all)),
        }
    }
    println!("{} accounts", all.len());
    all
}

fn plain_time(value: &Value) -> Option<i64> {
    let date = OffsetDateTime::parse(value.as_str()?, &Rfc3339).ok()?;
    i64::try_from(date.unix_timestamp_nanos().div_euclid(1_000_000)).ok()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn text_or_empty(value: &Value) -> Option<String> {
    Some(value.as_str().unwrap_or_default().to_owned())
}

fn count(value: &Value) -> Option<i64> {
    value.as_i64().filter(|count| *count >= 0)
}

fn parse(of: Provider, plain: &Value) -> Account {
    (registry::accounts(&named(of)).parse)(&plain.to_string()).unwrap_or_else(|why| panic!("{why}: {plain}"))
}

/// Compares without the raw object, which is what went in.
fn same(account: &Account, plain: &Value, expected: Account) {
    assert_eq!(serde_json::from_str::<Value>(&account.raw).unwrap(), *plain);
    assert_eq!(*account, Account { raw: account.raw.clone(), ..expected });
}

fn quota_of(exchange: &Exchange, names: [&str; 2]) -> Option<(u32, u32)> {
    let header =
        |name: &str| exchange.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?.1.parse().ok();
    Some((header(names[0])?, header(names[1])?))
}

/// The start of an address, for a line of output.
fn start_of(address: &str) -> String {
    address.chars().take(60).collect()
}

/// Asks for these in front of the recorded answer.
async fn replay(of: Provider, exchange: &Exchange, ids: &[String]) -> Result<Answer<Account>, LookupError> {
    let mut canned = canned(&exchange.headers, &exchange.body.to_string());
    canned.status = u16::try_from(exchange.status).unwrap();
    ask(of, canned, ids).await
}

// Twitter API v1.1

fn is_of_twitter(value: &Value) -> bool {
    value["screen_name"].is_string() && value["followers_count"].is_u64() && value["favourites_count"].is_u64()
}

/// The address behind the short link in a profile.
fn expanded(plain: &Value) -> Option<String> {
    let links = plain["entities"]["url"]["urls"].as_array()?;
    links.iter().find_map(|link| link["expanded_url"].as_str()).filter(|at| !at.is_empty()).map(str::to_owned)
}

fn same_as_twitter(account: &Account, plain: &Value) {
    let pictures = [&plain["profile_image_url_https"], &plain["profile_image_url"]];
    let countries = plain["withheld_in_countries"].as_array();
    let expected = Account {
        id: plain_id(plain).unwrap(),
        handle: text(&plain["screen_name"]),
        display_name: text_or_empty(&plain["name"]),
        description: text_or_empty(&plain["description"]),
        location: text_or_empty(&plain["location"]),
        url: expanded(plain).or_else(|| text_or_empty(&plain["url"])),
        picture: pictures.into_iter().find_map(text).or(Some(String::new())),
        banner: text_or_empty(&plain["profile_banner_url"]),
        protected: plain["protected"].as_bool(),
        verified: plain["verified"].as_bool(),
        created_at: plain["created_at"].as_str().and_then(plain_date),
        counts: AccountCounts {
            followers: count(&plain["followers_count"]),
            following: count(&plain["friends_count"]),
            posts: count(&plain["statuses_count"]),
            listed: count(&plain["listed_count"]),
            likes: count(&plain["favourites_count"]),
        },
        last_post_at: plain["status"]["created_at"].as_str().and_then(plain_date),
        state: if plain["protected"] == true { AccountState::Protected } else { AccountState::Live },
        withheld_in: countries
            .map(|countries| countries.iter().map(|country| country.as_str().unwrap()).collect::<Vec<_>>().join(",")),
        moved_to: None,
        raw: String::new(),
        activity: Default::default(),
    };
    same(account, plain, expected);
}

#[test]
fn every_recorded_account_of_twitter_reads_as_it_plainly_does() {
    let Some(dir) = recordings() else { return };
    for plain in recorded(&dir, is_of_twitter) {
        same_as_twitter(&parse(Provider::TwitterV1, &plain), &plain);
    }
}

#[tokio::test]
async fn recorded_lookups_of_twitter_replay() {
    let Some(dir) = recordings() else { return };
    for exchange in files(&dir)
        .iter()
        .filter(|file| file.extension().is_some_and(|end| end == "json"))
        .flat_map(|file| cassette(file))
    {
        if !exchange.address.contains("1.1/users/lookup") || exchange.status != 200 {
            continue;
        }
        let accounts = exchange.body.as_array().unwrap();
        // One that is not there, in front of those that are, which come in another order.
        let there = accounts.iter().rev().map(|plain| plain_id(plain).unwrap());
        let ids: Vec<String> = std::iter::once("1".to_owned()).chain(there).collect();
        let answer = replay(Provider::TwitterV1, &exchange, &ids).await.unwrap();
        assert_eq!((&answer.outcomes[0], answer.unsolicited), (&Outcome::Unavailable, 0));
        for (plain, outcome) in accounts.iter().rev().zip(&answer.outcomes[1..]) {
            same_as_twitter(found(outcome), plain);
            if plain["screen_name"] == "CNN" && exchange.address.ends_with("cnn%2Cpotus%2Ctwitter%2Ckearneymw") {
                let cnn = found(outcome);
                assert_eq!((cnn.created_at, cnn.last_post_at), (Some(1_170_981_302_000), Some(1_668_330_905_000)));
                assert_eq!((cnn.counts.followers, cnn.counts.posts), (Some(60_499_587), Some(389_563)));
                assert_eq!((cnn.location.as_deref(), cnn.url.as_deref()), (Some(""), Some("http://www.cnn.com")));
            }
        }
        let told = answer.quota.map(|quota| (quota.limit, quota.remaining));
        assert_eq!(told, quota_of(&exchange, ["x-rate-limit-limit", "x-rate-limit-remaining"]));
        println!("{}: {} of {}", start_of(&exchange.address), accounts.len(), ids.len());
    }
}

// X API v2

fn is_of_x(value: &Value) -> bool {
    value["username"].is_string() && value["name"].is_string() && value["public_metrics"]["followers_count"].is_u64()
}

/// `missing` is what stands for a text that is left out.
fn same_as_x(account: &Account, plain: &Value, missing: Option<&str>) {
    let text = |name: &str| text(&plain[name]).or_else(|| missing.map(str::to_owned));
    let counts = &plain["public_metrics"];
    let newest = [&plain["most_recent_tweet_id"], &plain["most_recent_post_id"]];
    let newest: Option<i64> = newest.into_iter().find_map(|id| id.as_str()?.parse().ok());
    let expected = Account {
        id: plain["id"].as_str().unwrap().to_owned(),
        handle: text("username"),
        display_name: text("name"),
        description: text("description"),
        location: text("location"),
        url: expanded(plain).or_else(|| text("url")),
        picture: text("profile_image_url"),
        banner: text("profile_banner_url"),
        protected: plain["protected"].as_bool(),
        verified: plain["verified"].as_bool(),
        created_at: plain_time(&plain["created_at"]),
        counts: AccountCounts {
            followers: count(&counts["followers_count"]),
            following: count(&counts["following_count"]),
            posts: count(&counts["tweet_count"]).or(count(&counts["post_count"])),
            listed: count(&counts["listed_count"]),
            likes: count(&counts["like_count"]),
        },
        last_post_at: newest.filter(|id| *id > 30_000_000_000).map(|id| (id >> 22) + 1_288_834_974_657),
        state: if plain["protected"] == true { AccountState::Protected } else { AccountState::Live },
        withheld_in: match plain["withheld"]["country_codes"].as_array() {
            Some(countries) => Some(countries.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")),
            None => missing.map(str::to_owned),
        },
        moved_to: None,
        raw: String::new(),
        activity: Default::default(),
    };
    same(account, plain, expected);
}

#[test]
fn every_recorded_account_of_x_reads_as_it_plainly_does() {
    let Some(dir) = recordings() else { return };
    let all = recorded(&dir, is_of_x);
    for plain in &all {
        same_as_x(&parse(Provider::XV2, plain), plain, None);
    }
    // As answers to lookups, which ask for every field.
    for some in all.chunks(100) {
        let ids: Vec<String> = some.iter().map(|plain| plain["id"].as_str().unwrap().to_owned()).collect();
        let (outcomes, strangers) = read(Provider::XV2, &json!({ "data": some }).to_string(), &ids).unwrap();
        assert_eq!(strangers.count, 0);
        for (place, outcome) in outcomes.iter().enumerate() {
            // The same account may stand in it twice: the first is taken.
            let plain = some.iter().find(|plain| plain["id"] == ids[place].as_str()).unwrap();
            same_as_x(found(outcome), plain, Some(""));
        }
    }
}

/// The values of a parameter in a recorded address.
fn asked(exchange: &Exchange, parameter: &str) -> Vec<String> {
    let query = exchange.address.split_once('?').map_or("", |(_, query)| query);
    let values = query.split('&').find_map(|pair| pair.strip_prefix(parameter)?.strip_prefix('='));
    values.unwrap_or_default().replace("%2C", ",").split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

#[tokio::test]
async fn recorded_lookups_of_x_replay() {
    let Some(dir) = recordings() else { return };
    for exchange in files(&dir).iter().flat_map(|file| cassette(file)) {
        if !exchange.address.contains("/2/users?") {
            continue;
        }
        let ids = asked(&exchange, "ids");
        println!("{}: HTTP {}", start_of(&exchange.address), exchange.status);
        let result = replay(Provider::XV2, &exchange, &ids).await;
        if exchange.status == 400 {
            let error = result.unwrap_err();
            assert!(matches!(error, LookupError::BadRequest(_)), "{error:?}");
            assert!(
                error.to_string().contains("HTTP 400, invalid-request") && !error.to_string().contains("NA"),
                "{error}"
            );
            continue;
        }
        let answer = result.unwrap();
        let data = exchange.body["data"].as_array().cloned().unwrap_or_default();
        assert_eq!((answer.outcomes.len(), answer.unsolicited), (ids.len(), 0));
        for (id, outcome) in ids.iter().zip(&answer.outcomes) {
            match data.iter().find(|plain| plain["id"] == id.as_str()) {
                Some(plain) => same_as_x(found(outcome), plain, Some("")),
                None => assert!(matches!(outcome, Outcome::Absent(_)), "{id}: {outcome:?}"),
            }
        }
        let told = answer.quota.map(|quota| (quota.limit, quota.remaining));
        assert_eq!(told, quota_of(&exchange, ["x-rate-limit-limit", "x-rate-limit-remaining"]));
    }
}

#[tokio::test]
async fn a_recorded_error_of_x_names_who_is_not_found() {
    let Some(dir) = recordings() else { return };
    let Some(file) = files(&dir).into_iter().find(|file| file.ends_with("users-by-ed3b03.json")) else { return };
    let mut exchange = cassette(&file).remove(0);
    let data = exchange.body["data"].as_array().unwrap().clone();
    let mut ids: Vec<String> = data.iter().map(|plain| plain["id"].as_str().unwrap().to_owned()).collect();
    ids.push("7".to_owned());
    // The recorded error is about a name: it says nothing of the id.
    let by_name = replay(Provider::XV2, &exchange, &ids).await.unwrap();
    assert!(matches!(by_name.outcomes[4], Outcome::Broken(_)), "{by_name:?}");
    let error = &mut exchange.body["errors"][0];
    for (field, value) in [("parameter", "ids"), ("value", "7"), ("resource_id", "7")] {
        error[field] = json!(value);
    }
    let by_id = replay(Provider::XV2, &exchange, &ids).await.unwrap();
    assert_eq!(by_id.outcomes[4], Outcome::Absent(Absence::NotFound));
    for (plain, outcome) in data.iter().zip(&by_id.outcomes) {
        let account = found(outcome);
        assert_eq!((&account.handle, &account.display_name), (&text(&plain["username"]), &text(&plain["name"])));
    }
}

// Mastodon

fn is_of_mastodon(value: &Value) -> bool {
    value["acct"].is_string()
        && value["note"].is_string()
        && value["statuses_count"].is_u64()
        && value["suspended"] != true
}

fn same_as_mastodon(account: &Account, plain: &Value) {
    let picture = |value: &Value| text(value).map(|at| if at.ends_with("/missing.png") { String::new() } else { at });
    let day = match plain["last_status_at"].as_str() {
        Some(day) if day.len() == 10 => json!(format!("{day}T00:00:00Z")),
        _ => plain["last_status_at"].clone(),
    };
    let expected = Account {
        id: plain["id"].as_str().unwrap().to_owned(),
        handle: text(&plain["acct"]),
        display_name: text(&plain["display_name"]),
        description: text(&plain["note"]),
        url: text(&plain["url"]),
        picture: picture(&plain["avatar"]),
        banner: picture(&plain["header"]),
        protected: plain["locked"].as_bool(),
        created_at: plain_time(&plain["created_at"]),
        counts: AccountCounts {
            followers: count(&plain["followers_count"]),
            following: count(&plain["following_count"]),
            posts: count(&plain["statuses_count"]),
            ..AccountCounts::default()
        },
        last_post_at: plain_time(&day),
        state: if plain["suspended"] == true { AccountState::Suspended } else { AccountState::Live },
        moved_to: text_or_empty(&plain["moved"]["id"]),
        ..Account::default()
    };
    same(account, plain, expected);
}

#[test]
fn every_recorded_account_of_mastodon_reads_as_it_plainly_does() {
    let Some(dir) = recordings() else { return };
    for plain in recorded(&dir, is_of_mastodon) {
        same_as_mastodon(&parse(Provider::Mastodon, &plain), &plain);
    }
}

#[tokio::test]
async fn recorded_lists_of_mastodon_replay() {
    let Some(dir) = recordings() else { return };
    for exchange in files(&dir).iter().flat_map(|file| cassette(file)) {
        let accounts = exchange.body.as_array().cloned().unwrap_or_default();
        if accounts.is_empty() || !accounts.iter().all(is_of_mastodon) {
            continue;
        }
        let some = &accounts[..accounts.len().min(39)];
        let there = some.iter().map(|plain| plain["id"].as_str().unwrap().to_owned());
        let ids: Vec<String> = there.chain(["1".to_owned()]).collect();
        let exchange = Exchange { body: json!(some), ..exchange };
        let answer = replay(Provider::Mastodon, &exchange, &ids).await.unwrap();
        for (plain, outcome) in some.iter().zip(&answer.outcomes) {
            same_as_mastodon(found(outcome), plain);
            let one = Exchange {
                body: plain.clone(),
                headers: exchange.headers.clone(),
                address: String::new(),
                status: 200,
            };
            let alone = replay(Provider::MastodonStatus, &one, &[found(outcome).id.clone()]).await.unwrap();
            assert_eq!(found(&alone.outcomes[0]), found(outcome));
        }
        assert_eq!((&answer.outcomes[some.len()], answer.unsolicited), (&Outcome::Unavailable, 0));
        let told = answer.quota.map(|quota| (quota.limit, quota.remaining));
        assert_eq!(told, quota_of(&exchange, ["x-ratelimit-limit", "x-ratelimit-remaining"]));
        if ids[0] == "109314659264330175" {
            let account = found(&answer.outcomes[0]);
            assert_eq!((account.created_at, account.last_post_at), (Some(1_667_952_000_000), Some(1_752_364_800_000)));
            assert_eq!((account.counts.followers, account.banner.as_deref()), (Some(27), Some("")));
        }
        println!("{}: {} accounts", exchange.address, some.len());
    }
}

// Bluesky

fn is_of_bluesky(value: &Value) -> bool {
    value["did"].as_str().is_some_and(|did| did.starts_with("did:")) && value["handle"].is_string()
}

fn same_as_bluesky(account: &Account, plain: &Value) {
    let text = |name: &str| match text(&plain[name]) {
        None if plain["postsCount"].is_u64() => Some(String::new()),
        text => text,
    };
    let verification = &plain["verification"];
    let is_valid = |name: &str| verification[name] == "valid";
    let expected = Account {
        id: plain["did"].as_str().unwrap().to_owned(),
        handle: text("handle").filter(|handle| handle != "handle.invalid"),
        display_name: text("displayName"),
        description: text("description"),
        url: text("website"),
        picture: text("avatar"),
        banner: text("banner"),
        // A whole view leaves it out where nobody vouches for the account.
        verified: match verification {
            Value::Null => plain["postsCount"].is_u64().then_some(false),
            verification => {
                verification.is_object().then(|| is_valid("verifiedStatus") || is_valid("trustedVerifierStatus"))
            }
        },
        created_at: plain_time(&plain["createdAt"]).filter(|at| *at >= 0),
        counts: AccountCounts {
            followers: count(&plain["followersCount"]),
            following: count(&plain["followsCount"]),
            posts: count(&plain["postsCount"]),
            ..AccountCounts::default()
        },
        state: AccountState::Live,
        ..Account::default()
    };
    same(account, plain, expected);
}

#[test]
fn every_recorded_account_of_bluesky_reads_as_it_plainly_does() {
    let Some(dir) = recordings() else { return };
    let all = recorded(&dir, is_of_bluesky);
    for plain in &all {
        same_as_bluesky(&parse(Provider::Bluesky, plain), plain);
    }
    for some in all.chunks(25) {
        let ids: Vec<String> = some.iter().map(|plain| plain["did"].as_str().unwrap().to_owned()).collect();
        let (outcomes, strangers) = read(Provider::Bluesky, &json!({ "profiles": some }).to_string(), &ids).unwrap();
        assert_eq!(strangers.count, 0);
        for (place, outcome) in outcomes.iter().enumerate() {
            let plain = some.iter().find(|plain| plain["did"] == ids[place].as_str()).unwrap();
            same_as_bluesky(found(outcome), plain);
        }
    }
}

#[test]
fn each_recorded_account_has_an_id_of_its_network() {
    let Some(dir) = recordings() else { return };
    let kinds: [(provider::Provider, Is, &str); 3] = [
        (provider::Provider::X, is_of_x, "id"),
        (provider::Provider::Mastodon(String::new()), is_of_mastodon, "id"),
        (provider::Provider::Bluesky, is_of_bluesky, "did"),
    ];
    for (of, is, id) in kinds {
        for plain in recorded(&dir, is) {
            let told = (registry::accounts(&of).date_of)(plain[id].as_str().unwrap()).unwrap();
            // An id is given when the form is opened, and the account made when it is sent.
            if let (Some(at), Some(made)) = (told, plain_time(&plain["created_at"])) {
                assert!((-60_000..86_400_000).contains(&(made - at)), "{plain}");
            }
        }
    }
}
