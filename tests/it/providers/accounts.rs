//! Lookups of accounts against canned answers: calls, absences, damage, and the decisions; what was recorded, and each field
//! of each network, in modules.

mod fields;
mod recorded;

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use twitter_updater::model::account::{Absence, Account};
use twitter_updater::model::provider;
use twitter_updater::providers::lookup::{Answer, Charge, Lookup, LookupError, Outcome, UnsolicitedObjects};
use twitter_updater::providers::mastodon::Calls;
use twitter_updater::providers::twitter_v1::{LookupMethod, TwitterV1, TwitterV1Options};
use twitter_updater::providers::x_v2::{FieldNames, Fields, XV2, XV2Options};
use twitter_updater::providers::{bluesky, mastodon, registry, twitter_v1, x_v2};

use super::all::{ALL, Bounds, Provider};
use super::decision;
use crate::support::http::{CANARY, Canned, CannedServer, anonymous, bearer, ids, options};

async fn ask(provider: Provider, answer: Canned, ids: &[String]) -> Result<Answer<Account>, LookupError> {
    let server = CannedServer::start(answer).await;
    let result = provider.accounts_at(&server.base_url(), Bounds::default()).look_up(ids, &bearer(CANARY)).await;
    if let Err(error) = &result {
        let told = format!("{error} {error:?}");
        assert!(!told.contains(CANARY) && !ids.iter().any(|id| told.contains(id.as_str())), "{told}");
    }
    result
}

async fn answer(provider: Provider, body: String, ids: &[String]) -> Answer<Account> {
    ask(provider, Canned::new(200, body), ids).await.unwrap()
}

fn found(outcome: &Outcome<Account>) -> &Account {
    match outcome {
        Outcome::Found(account) => account,
        other => panic!("not found: {other:?}"),
    }
}

fn batch(provider: Provider, count: u32) -> Vec<String> {
    (0..count).map(|number| provider.account_id(number)).collect()
}

/// Reads a body without a call.
fn read(
    provider: Provider,
    body: &str,
    ids: &[String],
) -> Result<(Vec<Outcome<Account>>, UnsolicitedObjects), LookupError> {
    let body = body.as_bytes();
    match provider {
        Provider::TwitterV1 => twitter_v1::account::read(body, ids),
        Provider::XV2 => x_v2::account::read(body, ids),
        Provider::Mastodon => mastodon::account::read(body, ids, Calls::Batch),
        Provider::MastodonStatus => mastodon::account::read(body, ids, Calls::Single),
        Provider::Bluesky => bluesky::account::read(body, ids),
    }
}

/// The registry's name of it.
fn named(provider: Provider) -> provider::Provider {
    match provider {
        Provider::TwitterV1 => provider::Provider::Twitter,
        Provider::XV2 => provider::Provider::X,
        Provider::Mastodon | Provider::MastodonStatus => provider::Provider::Mastodon("social".to_owned()),
        Provider::Bluesky => provider::Provider::Bluesky,
    }
}

#[tokio::test]
async fn a_call_is_what_the_documentation_says() {
    for (provider, body, expected) in [
        (Provider::TwitterV1, "[]", "/1.1/users/lookup.json?user_id=7%2C8&tweet_mode=extended"),
        (
            Provider::XV2,
            r#"{"data":[{"id":"7","username":"ann"}]}"#,
            "/2/users?ids=7%2C8&user.fields=created_at%2Cdescription%2Centities%2Clocation%2Cmost_recent_tweet_id%2Cname%2C\
             profile_banner_url%2Cprofile_image_url%2Cprotected%2Cpublic_metrics%2Curl%2Cusername%2Cverified%2C\
             verified_type%2Cwithheld",
        ),
        (Provider::Mastodon, "[]", "/api/v1/accounts?id%5B%5D=7&id%5B%5D=8"),
        (Provider::Bluesky, r#"{"profiles":[]}"#, "/xrpc/app.bsky.actor.getProfiles?actors=7&actors=8"),
    ] {
        let server = CannedServer::start(Canned::new(200, body)).await;
        let lookup = provider.accounts_at(&format!("{}/proxy", server.base_url()), Bounds::default());
        lookup.look_up(&ids(&["7", "8", "7"]), &bearer("t0ken")).await.unwrap();
        let asked = &server.asked()[0];
        assert_eq!((asked.method.as_str(), asked.target.clone()), ("GET", format!("/proxy{expected}")));
        assert_eq!(asked.header("authorization"), Some("Bearer t0ken"));
    }
    let server = CannedServer::start(Canned::new(200, r#"{"id":"7","acct":"ann"}"#)).await;
    let single = Provider::MastodonStatus.accounts_at(&server.base_url(), Bounds::default());
    single.look_up(&ids(&["7"]), &anonymous()).await.unwrap();
    assert_eq!(server.asked()[0].target, "/api/v1/accounts/7");
    assert_eq!(server.asked()[0].header("authorization"), None);
}

#[tokio::test]
async fn the_settings_of_a_provider_are_those_of_its_accounts() {
    let server = CannedServer::start(Canned::new(200, "[]")).await;
    let twitter =
        TwitterV1::new(TwitterV1Options { method: LookupMethod::Post, ..options(&server.base_url()) }).unwrap();
    twitter_v1::account::Accounts(twitter).look_up(&ids(&["7", "8"]), &anonymous()).await.unwrap();
    let asked = &server.asked()[0];
    assert_eq!((asked.method.as_str(), asked.target.as_str()), ("POST", "/1.1/users/lookup.json"));
    assert_eq!(asked.body, "user_id=7%2C8&tweet_mode=extended");

    let server = CannedServer::start(Canned::new(200, r#"{"data":[]}"#)).await;
    let fields = Fields::new(FieldNames::Post, "", "author_id").unwrap();
    let x = XV2::new(XV2Options { base_url: server.base_url(), fields, ..XV2Options::default() }).unwrap();
    x_v2::account::Accounts(x).look_up(&ids(&["7"]), &anonymous()).await.unwrap();
    let target = &server.asked()[0].target;
    assert!(target.contains("%2Cmost_recent_post_id%2C") && !target.contains("expansions"), "{target}");
}

#[tokio::test]
async fn the_registry_states_what_a_lookup_takes() {
    for (provider, batch_limit, charge, endpoint) in [
        (Provider::TwitterV1, 100, Charge::PerCall, "users/lookup"),
        (Provider::XV2, 100, Charge::PerIdPerUtcDay, "users"),
        (Provider::Mastodon, 40, Charge::PerCall, "accounts"),
        (Provider::MastodonStatus, 1, Charge::PerCall, "accounts"),
        (Provider::Bluesky, 25, Charge::PerCall, "getProfiles"),
    ] {
        let lookup = provider.accounts_at("http://127.0.0.1:9", Bounds::default());
        let stated = lookup.capabilities();
        assert_eq!((stated.batch_limit, stated.charge, stated.endpoint), (batch_limit, charge, endpoint));
        let known = registry::accounts(&named(provider));
        if provider != Provider::MastodonStatus {
            assert_eq!(known.capabilities, stated);
        }
        // Without a call: nothing listens there.
        assert!(lookup.look_up(&[], &anonymous()).await.unwrap().outcomes.is_empty());
        let too_many = batch(provider, batch_limit as u32 + 1);
        let error = lookup.look_up(&too_many, &anonymous()).await.unwrap_err();
        assert_eq!(decision(&error), "too large", "{provider:?}");

        let id = provider.account_id(1);
        assert_eq!((known.date_of)(&id), lookup.created_at(&id));
        for bad in ["", " ", "two words", "a/b", "id\n", "ä", "@ann"] {
            assert!(lookup.created_at(bad).is_err() && (known.date_of)(bad).is_err(), "{provider:?}: {bad:?}");
        }
        let account = provider.account(&id, "ann").to_string();
        assert_eq!((known.parse)(&account).map(|account| account.id), Ok(id));
    }
    let date_of = |provider: Provider| registry::accounts(&named(provider)).date_of;
    // Recorded: made at 2019-01-16T16:45:56.000Z.
    assert_eq!(date_of(Provider::XV2)("1085578910853746688"), Ok(Some(1_547_657_156_085)));
    assert_eq!(date_of(Provider::TwitterV1)("759251"), Ok(None), "handed out in sequence");
    // The instance heard of it then; it may be older.
    assert_eq!(date_of(Provider::Mastodon)("109314659264330175"), Ok(None));
    assert!(date_of(Provider::Bluesky)("bsky.app").unwrap_err().to_string().contains("write the DID"));
}

#[tokio::test]
async fn an_account_that_is_left_out_is_unavailable() {
    for provider in [Provider::TwitterV1, Provider::Mastodon, Provider::Bluesky] {
        let ids = batch(provider, 3);
        let body = provider.body_of_accounts(&[provider.account(&ids[2], "cat"), provider.account(&ids[0], "ann")]);
        let some = answer(provider, body, &ids).await;
        assert_eq!((found(&some.outcomes[0]).id.as_str(), found(&some.outcomes[2]).id.as_str()), (&*ids[0], &*ids[2]));
        assert_eq!((&some.outcomes[1], some.unsolicited), (&Outcome::Unavailable, 0), "{provider:?}");
        let none = answer(provider, provider.body_of_accounts(&[]), &ids).await;
        assert!(none.outcomes.iter().all(|outcome| *outcome == Outcome::Unavailable), "{provider:?}");
    }
}

#[tokio::test]
async fn where_twitter_finds_nobody_it_says_404_with_code_17() {
    let quota = |canned: Canned| {
        let headers =
            [("x-rate-limit-limit", "300"), ("x-rate-limit-remaining", "298"), ("x-rate-limit-reset", "1668330905")];
        headers.into_iter().fold(canned, |canned, (name, value)| canned.header(name, value))
    };
    let coded = |code: u32| json!({ "errors": [{ "code": code, "message": "x" }] }).to_string();
    let ids = batch(Provider::TwitterV1, 2);
    let none = ask(Provider::TwitterV1, quota(Canned::new(404, coded(17))), &ids).await.unwrap();
    assert_eq!(none.outcomes, [Outcome::Unavailable, Outcome::Unavailable]);
    assert_eq!(none.quota.map(|quota| (quota.limit, quota.remaining)), Some((300, 298)));
    // Any other 404 is an endpoint's.
    for body in [coded(34), "<html>".to_owned()] {
        let error = ask(Provider::TwitterV1, Canned::new(404, body), &ids).await.unwrap_err();
        assert_eq!(decision(&error), "outage");
    }
}

#[tokio::test]
async fn a_refusal_about_one_account_is_its_own_where_it_is_alone() {
    let coded = |code: u32| json!({ "errors": [{ "code": code, "message": "x" }] }).to_string();
    let protected = r#"{"request":"\/1.1\/users\/lookup.json","error":"Not authorized."}"#.to_owned();
    for (status, body, reason, together) in [
        (401, protected, Absence::Protected, "bad request"),
        (403, coded(179), Absence::Protected, "bad request"),
        (403, coded(63), Absence::Suspended, "bad request"),
        (404, coded(50), Absence::NotFound, "outage"),
    ] {
        let ids = batch(Provider::TwitterV1, 2);
        let canned = Canned::new(status, body);
        let twice = [ids[0].clone(), ids[0].clone()];
        let alone = ask(Provider::TwitterV1, canned.clone(), &twice).await.unwrap();
        assert_eq!(alone.outcomes, [Outcome::Absent(reason), Outcome::Absent(reason)]);
        // Of several it is halved until it is alone.
        let error = ask(Provider::TwitterV1, canned, &ids).await.unwrap_err();
        assert_eq!(decision(&error), together, "{status}: {error}");
    }
    // About the credential, whoever is asked for.
    for (status, body) in [(401, coded(89)), (401, r#"{"error":"no"}"#.to_owned()), (403, coded(64))] {
        let error =
            ask(Provider::TwitterV1, Canned::new(status, body), &batch(Provider::TwitterV1, 1)).await.unwrap_err();
        assert_eq!(decision(&error), "credential", "{status}: {error}");
    }
}

#[tokio::test]
async fn one_account_of_an_old_instance_may_be_a_404_or_a_410() {
    let ids = batch(Provider::MastodonStatus, 1);
    let ask_one = async |status, body: &str| ask(Provider::MastodonStatus, Canned::new(status, body), &ids).await;
    let said = r#"{"error":"Record not found"}"#;
    assert_eq!(ask_one(404, said).await.unwrap().outcomes, [Outcome::Unavailable]);
    assert_eq!(ask_one(410, r#"{"error":"Gone"}"#).await.unwrap().outcomes, [Outcome::Absent(Absence::Suspended)]);
    // Of something in front of the instance.
    for status in [404, 410] {
        assert_eq!(decision(&ask_one(status, "<html>").await.unwrap_err()), "outage");
        let error =
            ask(Provider::Mastodon, Canned::new(status, said), &batch(Provider::Mastodon, 1)).await.unwrap_err();
        assert_eq!(decision(&error), "outage", "a list leaves out: {error}");
    }
    let stranger = Provider::MastodonStatus.account("9", "bea").to_string();
    let other = ask_one(200, &stranger).await.unwrap();
    assert!(matches!(other.outcomes[..], [Outcome::Broken(_)]) && other.unsolicited == 1);
}

fn problem(id: &str, kind: &str, title: &str, detail: &str) -> Value {
    let kind = format!("https://api.x.com/2/problems/{kind}");
    json!({
        "parameter": "ids", "value": id, "resource_id": id, "resource_type": "user", "type": kind, "title": title,
        "detail": format!("{detail}: [{id}]."),
    })
}

/// The form of X's own documentation, which names no parameter.
#[tokio::test]
async fn x_names_an_account_that_is_away_by_its_resource() {
    let ids = batch(Provider::XV2, 4);
    let bare = |id: &str, resource: &str, title: &str, detail: &str| json!({ "resource_id": id, "resource_type": resource, "title": title, "detail": detail });
    let errors = [
        bare(&ids[0], "user", "Not Found Error", "Could not find user"),
        bare(&ids[1], "user", "Not Found Error", "User has been suspended: [1]."),
        bare(&ids[2], "user", "Authorization Error", "Sorry"),
        bare(&ids[3], "tweet", "Not Found Error", "Could not find tweet"),
    ];
    let some = answer(Provider::XV2, json!({ "errors": errors }).to_string(), &ids).await;
    let away = [Absence::NotFound, Absence::Suspended, Absence::Protected].map(Outcome::Absent);
    assert_eq!(some.outcomes[..3], away);
    assert!(matches!(&some.outcomes[3], Outcome::Broken(_)), "{some:?}");
}

#[tokio::test]
async fn x_says_why_an_account_is_away() {
    let ids = batch(Provider::XV2, 7);
    let mut by_title = problem(&ids[3], "", "Not Found Error", "Could not find user with ids");
    by_title.as_object_mut().unwrap().remove("type");
    let mut elsewhere = problem(&ids[5], "resource-not-found", "Not Found Error", "x");
    elsewhere["parameter"] = json!("pinned_tweet_id");
    let suspended = problem(&ids[1], "resource-not-found", "Forbidden", "User has been suspended");
    let errors = [
        problem(&ids[0], "resource-not-found", "Not Found Error", "Could not find user with ids"),
        suspended.clone(),
        suspended,
        problem(&ids[2], "not-authorized-for-resource", "Authorization Error", "Sorry, you are not authorized"),
        by_title,
        problem(&ids[4], "operational-disconnect", "Disconnected", "x"),
        elsewhere,
        // What is found is found.
        problem(&ids[6], "resource-not-found", "Not Found Error", "x"),
        problem("999", "resource-not-found", "Not Found Error", "x"),
    ];
    let body = json!({ "data": [Provider::XV2.account(&ids[6], "ann")], "errors": errors });
    let some = answer(Provider::XV2, body.to_string(), &ids).await;
    assert_eq!(some.outcomes[0], Outcome::Absent(Absence::NotFound));
    assert_eq!(some.outcomes[1], Outcome::Absent(Absence::Suspended));
    assert_eq!(some.outcomes[2], Outcome::Absent(Absence::Protected));
    assert_eq!(some.outcomes[3], Outcome::Absent(Absence::NotFound));
    assert!(matches!(&some.outcomes[4], Outcome::Broken(why) if why.contains("operational-disconnect")));
    // X names what it does not return: who is not mentioned is not known to be away.
    assert!(matches!(&some.outcomes[5], Outcome::Broken(why) if why.contains("does not mention it")));
    assert_eq!((found(&some.outcomes[6]).id.as_str(), some.unsolicited), (&*ids[6], 0));

    // All are away: no data at all. A suspension by its sentence alone.
    let errors = [problem(&ids[0], "resource-not-found", "", "User has been suspended")];
    let none = answer(Provider::XV2, json!({ "errors": errors }).to_string(), &ids[..1]).await;
    assert_eq!(none.outcomes, [Outcome::Absent(Absence::Suspended)]);
}

/// A list of profiles leaves out whatever is not there. The bodies are those of the reference server.
#[tokio::test]
async fn bluesky_says_why_an_account_is_away_in_a_call_for_it_alone() {
    let id = Provider::Bluesky.account_id(0);
    let ask = async |answer: Canned, credential| {
        let server = CannedServer::start(answer).await;
        let lookup = Provider::Bluesky.accounts_at(&server.base_url(), Bounds::default());
        assert!(lookup.explains_missing());
        let answer = lookup.look_up_missing(&id, &credential).await;
        let target = format!("/xrpc/app.bsky.actor.getProfile?actor={}", id.replace(':', "%3A"));
        assert_eq!(server.asked()[0].target, target);
        answer
    };
    let refused =
        |name: &str, message: &str| Canned::new(400, json!({ "error": name, "message": message }).to_string());
    for (name, message, reason) in [
        ("AccountDeactivated", "Account is deactivated", Absence::Deactivated),
        ("AccountTakedown", "Account has been suspended", Absence::Suspended),
        ("InvalidRequest", "Profile not found", Absence::Deleted),
    ] {
        let answer = ask(refused(name, message), anonymous()).await.unwrap();
        assert_eq!(answer.outcomes, [Outcome::Absent(reason)], "{name}");
    }
    // It is there again; the answer is not about the account; of a session these may be about its own.
    let there = Canned::new(200, json!({ "did": id, "handle": "ann.test", "postsCount": 1 }).to_string());
    assert_eq!(found(&ask(there, anonymous()).await.unwrap().outcomes[0]).handle.as_deref(), Some("ann.test"));
    for (answer, expected) in [
        (refused("InvalidRequest", "actor must be a valid did or a handle"), "bad request"),
        (Canned::new(502, ""), "outage"),
        (Canned::new(200, "{}"), "bad answer"),
    ] {
        let answer = ask(answer, anonymous()).await;
        match answer {
            Err(error) => assert_eq!(decision(&error), expected),
            Ok(answer) => assert!(matches!(answer.outcomes[..], [Outcome::Broken(_)]), "{answer:?}"),
        }
    }
    let own = ask(refused("AccountDeactivated", "Account is deactivated"), bearer("t0ken")).await.unwrap_err();
    assert!(own.is_about_credential(), "{own}");
    for provider in ALL.into_iter().filter(|provider| *provider != Provider::Bluesky) {
        assert!(!provider.accounts_at("http://127.0.0.1:9", Bounds::default()).explains_missing(), "{provider:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_odd_in_some_accounts_costs_no_more_than_those() {
    for provider in ALL.into_iter().filter(|provider| provider.lists()) {
        let ids = batch(provider, 6);
        let mut nameless = provider.account(&ids[2], "x");
        let name = nameless.as_object().unwrap().iter().find(|(_, value)| **value == "x").unwrap().0.clone();
        nameless[&name] = json!(7);
        let long = "x".repeat(300_000);
        let accounts = [
            provider.account(&ids[4], "latin ?"),
            provider.account(&ids[1], "first"),
            provider.account(&ids[0], &long),
            provider.account(&ids[1], "second"),
            nameless,
            provider.account(&provider.account_id(99), "stranger"),
            json!({ "nobody": "s" }),
            json!(7),
            serde_json::from_str(&("[".repeat(100) + &"]".repeat(100))).unwrap(),
        ];
        let mut body = provider.body_of_accounts(&accounts).into_bytes();
        let place = body.iter().position(|byte| *byte == b'?').unwrap();
        body[place] = 0xe9;
        let some = ask(provider, Canned::new(200, body), &ids).await.unwrap();
        let handle = |place: usize| found(&some.outcomes[place]).handle.as_deref();
        assert_eq!((handle(0), handle(1), handle(4)), (Some(&*long), Some("first"), Some("latin \u{fffd}")));
        assert!(matches!(&some.outcomes[2], Outcome::Broken(why) if why == &format!("the {name} is not a string")));
        // Either object that fits no id may be theirs.
        for place in [3, 5] {
            assert!(matches!(some.outcomes[place], Outcome::Broken(_)), "{provider:?}: {:?}", some.outcomes[place]);
        }
        assert_eq!((some.unsolicited, some.first_unsolicited), (4, Some(provider.account_id(99))), "{provider:?}");
    }
}

#[tokio::test]
async fn every_failure_of_a_call_is_a_decision() {
    let coded = |code: u32| json!({ "errors": [{ "code": code, "message": "x" }] }).to_string();
    let error = r#"{"error":"x"}"#.to_owned();
    let html = || Canned::new(200, "<html>").header("content-type", "text/html");
    for provider in ALL {
        let ids = batch(provider, 1);
        let cut = provider.body_of_accounts(&[provider.account(&ids[0], "ann")]);
        let cut = cut[..cut.len() - 2].to_owned();
        let mut table = vec![
            (Canned::new(500, ""), "outage"),
            (Canned::new(503, coded(130)), "outage"),
            (Canned::new(302, "").header("location", "http://elsewhere.example.org/"), "bad answer"),
            (html(), "bad answer"),
            (Canned::new(200, ""), "bad answer"),
            (Canned::new(200, "7"), "bad answer"),
            (Canned::new(200, error.clone()), "bad answer"),
            (Canned::new(200, cut), "bad answer"),
            (Canned::new(429, error.clone()), "throttled"),
            (Canned::new(401, coded(89)), "credential"),
            (Canned::new(403, "<html>"), "unready"),
            (Canned::new(400, coded(214)), "bad request"),
            (Canned::new(413, ""), "too large"),
            (Canned::new(200, "[]").header("content-length", "5000"), "outage"),
        ];
        match provider {
            Provider::TwitterV1 => table.push((Canned::new(403, coded(18)), "too large")),
            Provider::XV2 => {
                let parameters = |name: &str| {
                    let error = json!({ "parameters": { name: ["x"] }, "message": "x" });
                    json!({ "errors": [error], "type": "https://api.x.com/2/problems/invalid-request" }).to_string()
                };
                table.push((Canned::new(400, parameters("ids")), "bad request"));
                table.push((Canned::new(400, parameters("user.fields")), "stop"));
                table.push((Canned::new(402, error.clone()), "credential"));
            }
            // More ids than the instance takes.
            Provider::Mastodon | Provider::MastodonStatus => table.push((Canned::new(422, error.clone()), "too large")),
            Provider::Bluesky => {
                let said = |message: &str| json!({ "error": "InvalidRequest", "message": message }).to_string();
                table.push((Canned::new(400, said("Error: actors must not have more than 25 elements")), "too large"));
                table.push((Canned::new(400, said("Error: actors/0 must be a valid did or a handle")), "bad request"));
            }
        }
        for (canned, expected) in table {
            let said = format!("{provider:?}: {canned:?}");
            let error = ask(provider, canned, &ids).await.unwrap_err();
            assert_eq!(decision(&error), expected, "{said}: {error}");
        }
    }
    let unanswered = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", unanswered.local_addr().unwrap());
    let bounds = Bounds { timeout: Duration::from_millis(150), ..Bounds::default() };
    for provider in ALL {
        let lookup = provider.accounts_at(&base_url, bounds);
        let error = lookup.look_up(&batch(provider, 1), &bearer(CANARY)).await.unwrap_err();
        assert_eq!(decision(&error), "outage", "{provider:?}: {error}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_left_unread() {
    for provider in ALL {
        let ids = batch(provider, 1);
        let body = provider.body_of_accounts(&[provider.account(&ids[0], &"x".repeat(20_000))]);
        for (max_body_bytes, fits) in [(body.len(), true), (body.len() - 1, false)] {
            let server = CannedServer::start(Canned::new(200, body.clone())).await;
            let lookup = provider.accounts_at(&server.base_url(), Bounds { max_body_bytes, ..Bounds::default() });
            match lookup.look_up(&ids, &anonymous()).await {
                Ok(answer) => assert!(fits && found(&answer.outcomes[0]).id == ids[0], "{provider:?}"),
                Err(error) => assert!(!fits && error.to_string().contains("over the limit"), "{provider:?}: {error}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever is asked for and whatever comes, in any order: each asked id has its own account, the first that came.
    #[test]
    fn each_asked_id_gets_its_own_account(
        asked in proptest::collection::vec(0u32..12, 1..15),
        returned in proptest::collection::vec((0u32..16, "[a-z]{1,3}"), 0..20),
    ) {
        for provider in ALL.into_iter().filter(|provider| provider.lists()) {
            let ids: Vec<String> = asked.iter().map(|number| provider.account_id(*number)).collect();
            let accounts: Vec<Value> =
                returned.iter().map(|(number, handle)| provider.account(&provider.account_id(*number), handle)).collect();
            let read = read(provider, &provider.body_of_accounts(&accounts), &ids);
            let unasked = returned.iter().filter(|(number, _)| !asked.contains(number)).count();
            let has_one = returned.len() > unasked;
            if asked.iter().any(|number| *number != asked[0]) && !has_one && (unasked > 0 || provider == Provider::XV2) {
                prop_assert!(matches!(read, Err(LookupError::BadAnswer(_))), "of several none");
                continue;
            }
            let (outcomes, strangers) = read.unwrap();
            let mut first: HashMap<u32, &str> = HashMap::new();
            for (number, handle) in &returned {
                first.entry(*number).or_insert(handle);
            }
            prop_assert_eq!(outcomes.len(), ids.len());
            for ((number, id), outcome) in asked.iter().zip(&ids).zip(&outcomes) {
                match (first.get(number), outcome) {
                    (Some(handle), Outcome::Found(account)) => {
                        prop_assert_eq!((&account.id, account.handle.as_deref()), (id, Some(*handle)));
                    }
                    (None, Outcome::Unavailable) => prop_assert!(strangers.count == 0 && provider != Provider::XV2),
                    (None, Outcome::Broken(_)) => prop_assert!(strangers.count > 0 || provider == Provider::XV2),
                    (expected, outcome) => prop_assert!(false, "{expected:?}: {outcome:?}"),
                }
            }
            prop_assert_eq!(strangers.count, unasked);
        }
    }
}
