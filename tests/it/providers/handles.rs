//! Accounts by their handles, against canned and recorded answers and against the simulator.

use serde_json::{Value, json};
use twitter_updater::model::account::{Absence, Account};
use twitter_updater::providers::lookup::{Answer, Charge, LookupError, Outcome};
use twitter_updater::simulator::{self, SimulatorOptions};

use super::all::{ALL, Bounds, Provider};
use super::decision;
use super::recorded::{Exchange, canned, cassette};
use crate::recordings::files;
use crate::support::http::{CANARY, Canned, CannedServer, anonymous, bearer, ids, recordings};

async fn ask(provider: Provider, answer: Canned, handles: &[&str]) -> Result<Answer<Account>, LookupError> {
    let server = CannedServer::start(answer).await;
    let lookup = provider.handles_at(&server.base_url(), Bounds { max_body_bytes: 16 << 20, ..Bounds::default() });
    let result = lookup.resolve(&ids(handles), &bearer(CANARY)).await;
    if let Err(error) = &result {
        assert!(!format!("{error} {error:?}").contains(CANARY), "{error:?}");
    }
    result
}

async fn answer(provider: Provider, body: String, handles: &[&str]) -> Answer<Account> {
    ask(provider, Canned::new(200, body), handles).await.unwrap()
}

/// The ids of what was found.
fn found(answer: &Answer<Account>) -> Vec<Option<&str>> {
    let mut ids = Vec::new();
    for outcome in &answer.outcomes {
        ids.push(if let Outcome::Found(account) = outcome { Some(account.id.as_str()) } else { None });
    }
    ids
}

#[tokio::test]
async fn a_call_is_what_the_documentation_says() {
    for (provider, body, asked, expected) in [
        (
            Provider::TwitterV1,
            "[]",
            &["Ann", "bea", "ANN"][..],
            "/1.1/users/lookup.json?screen_name=ann%2Cbea&tweet_mode=extended",
        ),
        (
            Provider::XV2,
            r#"{"data":[{"id":"7","username":"Ann"}]}"#,
            &["Ann", "bea", "ANN"],
            "/2/users/by?usernames=ann%2Cbea&user.fields=",
        ),
        (Provider::Mastodon, r#"{"id":"7","acct":"ann"}"#, &["Ann"], "/api/v1/accounts/lookup?acct=ann"),
        (
            Provider::MastodonStatus,
            r#"{"id":"7","acct":"ann"}"#,
            &["ann@social.example", "Ann@social.example"],
            "/api/v1/accounts/lookup?acct=ann%40social.example",
        ),
        (
            Provider::Bluesky,
            r#"{"profiles":[]}"#,
            &["Ann.test", "bea.test", "ann.test"],
            "/xrpc/app.bsky.actor.getProfiles?actors=ann.test&actors=bea.test",
        ),
    ] {
        let server = CannedServer::start(Canned::new(200, body)).await;
        let lookup = provider.handles_at(&format!("{}/proxy", server.base_url()), Bounds::default());
        let answer = lookup.resolve(&ids(asked), &bearer("t0ken")).await.unwrap();
        assert_eq!(answer.outcomes.len(), asked.len());
        let call = &server.asked()[0];
        assert!(call.target.starts_with(&format!("/proxy{expected}")), "{}", call.target);
        assert_eq!((call.method.as_str(), call.header("authorization")), ("GET", Some("Bearer t0ken")));
        assert!(lookup.resolve(&[], &anonymous()).await.unwrap().outcomes.is_empty());
        assert_eq!(server.asked().len(), 1, "nothing asked, no call");
    }
}

#[tokio::test]
async fn a_lookup_states_what_it_takes() {
    for (provider, batch_limit, charge, endpoint) in [
        (Provider::TwitterV1, 100, Charge::PerCall, "users/lookup"),
        (Provider::XV2, 100, Charge::PerIdPerUtcDay, "users/by"),
        (Provider::Mastodon, 1, Charge::PerCall, "accounts"),
        (Provider::MastodonStatus, 1, Charge::PerCall, "accounts"),
        (Provider::Bluesky, 25, Charge::PerCall, "getProfiles"),
    ] {
        let lookup = provider.handles_at("http://127.0.0.1:9", Bounds::default());
        let stated = lookup.capabilities();
        assert_eq!((stated.batch_limit, stated.charge, stated.endpoint), (batch_limit, charge, endpoint));
        // Without a call: nothing listens there.
        let too_many: Vec<String> = (0..=batch_limit).map(|number| format!("a{number}.test")).collect();
        let error = lookup.resolve(&too_many, &anonymous()).await.unwrap_err();
        assert_eq!(decision(&error), "too large", "{provider:?}");
    }
}

#[tokio::test]
async fn each_handle_gets_its_account_whatever_its_capitals() {
    for provider in ALL.into_iter().filter(|provider| provider.lists()) {
        let one = |number, handle: &str| provider.account(&provider.account_id(number), handle);
        let (first, third) = (provider.account_id(1), provider.account_id(3));
        let asked = ["ANN", "bea", "Cat", "ann"];
        // Of several accounts, a call of Mastodon takes none.
        if provider == Provider::Mastodon {
            let answer = answer(provider, one(1, "Ann").to_string(), &["ANN", "ann"]).await;
            assert_eq!(found(&answer), [Some(&*first), Some(&*first)]);
            continue;
        }
        let body = provider.body_of_accounts(&[one(3, "cAT"), one(1, "Ann")]);
        let some = answer(provider, body, &asked).await;
        assert_eq!(found(&some), [Some(&*first), None, Some(&*third), Some(&*first)], "{provider:?}");
        let is_silent = provider != Provider::XV2;
        assert_eq!(some.outcomes[1] == Outcome::Unavailable, is_silent, "{provider:?}: {:?}", some.outcomes[1]);

        // One that nobody asked for may be the missing one under a new handle.
        let body = provider.body_of_accounts(&[one(3, "Cat"), one(9, "dora")]);
        let other = answer(provider, body, &asked).await;
        assert_eq!((found(&other), other.unsolicited), (vec![None, None, Some(&*third), None], 1), "{provider:?}");
        assert!(matches!(&other.outcomes[0], Outcome::Broken(why) if why.contains("does not mention it")));
    }
}

#[tokio::test]
async fn where_twitter_finds_no_handle_it_says_404_with_code_17() {
    let coded = |code: u32| json!({ "errors": [{ "code": code, "message": "x" }] }).to_string();
    let none = ask(Provider::TwitterV1, Canned::new(404, coded(17)), &["ann", "bea"]).await.unwrap();
    assert_eq!(none.outcomes, [Outcome::Unavailable, Outcome::Unavailable]);
    let alone = ask(Provider::TwitterV1, Canned::new(403, coded(63)), &["ann", "Ann"]).await.unwrap();
    assert_eq!(alone.outcomes, [Outcome::Absent(Absence::Suspended), Outcome::Absent(Absence::Suspended)]);
    let error = ask(Provider::TwitterV1, Canned::new(403, coded(63)), &["ann", "bea"]).await.unwrap_err();
    assert_eq!(decision(&error), "bad request");
}

#[tokio::test]
async fn x_says_why_a_handle_has_no_account() {
    let problem = |handle: &str, title: &str, detail: &str| {
        json!({
            "parameter": "usernames", "value": handle, "resource_id": handle, "resource_type": "user", "title": title,
            "detail": format!("{detail}: [{handle}]."), "type": "https://api.twitter.com/2/problems/resource-not-found",
        })
    };
    let mut by_id = problem("dora", "Not Found Error", "x");
    by_id["parameter"] = json!("ids");
    let errors = [
        problem("Ann", "Not Found Error", "Could not find user with usernames"),
        problem("bea", "Forbidden", "User has been suspended"),
        by_id,
    ];
    let id = Provider::XV2.account_id(3);
    let body = json!({ "data": [Provider::XV2.account(&id, "Cat")], "errors": errors });
    let some = answer(Provider::XV2, body.to_string(), &["ann", "Bea", "cat", "dora"]).await;
    assert_eq!(some.outcomes[0], Outcome::Absent(Absence::NotFound));
    assert_eq!(some.outcomes[1], Outcome::Absent(Absence::Suspended));
    assert_eq!(found(&some)[2], Some(&*id));
    assert!(matches!(&some.outcomes[3], Outcome::Broken(why) if why.contains("does not mention it")));

    // The form of X's own documentation, which names no parameter.
    let bare = json!({ "errors": [{ "resource_id": "Ann", "resource_type": "user", "title": "Not Found Error" }] });
    let none = answer(Provider::XV2, bare.to_string(), &["ann"]).await;
    assert_eq!(none.outcomes, [Outcome::Absent(Absence::NotFound)]);
}

#[tokio::test]
async fn an_instance_answers_with_the_account_or_a_404_or_a_410() {
    let said = r#"{"error":"Record not found"}"#;
    let of = async |answer: Canned, handle: &str| ask(Provider::Mastodon, answer, &[handle]).await;
    assert_eq!(of(Canned::new(404, said), "ann").await.unwrap().outcomes, [Outcome::Unavailable]);
    let gone = of(Canned::new(410, r#"{"error":"Gone"}"#), "ann").await.unwrap();
    assert_eq!(gone.outcomes, [Outcome::Absent(Absence::Suspended)]);
    for status in [404, 410] {
        assert_eq!(decision(&of(Canned::new(status, "<html>"), "ann").await.unwrap_err()), "outage");
    }
    let account = |acct: &str| Canned::new(200, json!({ "id": "7", "acct": acct }).to_string());
    // It leaves out its own name, and may have learned another of a server's names.
    for (asked, acct) in [("Ann@social.example", "ann"), ("ann", "Ann"), ("ann@a.example", "Ann@www.a.example")] {
        assert_eq!(found(&of(account(acct), asked).await.unwrap()), [Some("7")], "{asked} {acct}");
    }
    let other = of(account("bea"), "ann").await.unwrap();
    assert!(matches!(other.outcomes[..], [Outcome::Broken(_)]) && other.unsolicited == 1);
    assert_eq!(decision(&of(Canned::new(200, said), "ann").await.unwrap_err()), "bad answer");
}

/// The values of a parameter in a recorded address.
fn asked(exchange: &Exchange, parameter: &str) -> Vec<String> {
    let query = exchange.address.split_once('?').map_or("", |(_, query)| query);
    let values = query.split('&').find_map(|pair| pair.strip_prefix(parameter)?.strip_prefix('='));
    values.unwrap_or_default().replace("%2C", ",").split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect()
}

#[tokio::test]
async fn recorded_lookups_by_handle_replay() {
    let Some(dir) = recordings() else { return };
    let (mut handles, mut missing) = (0, 0);
    for exchange in files(&dir).iter().flat_map(|file| cassette(file)) {
        let (provider, parameter, name, list) = if exchange.address.contains("1.1/users/lookup") {
            (Provider::TwitterV1, "screen_name", "screen_name", &exchange.body)
        } else if exchange.address.contains("/2/users/by?") {
            (Provider::XV2, "usernames", "username", &exchange.body["data"])
        } else {
            continue;
        };
        let asked = asked(&exchange, parameter);
        let Some(accounts) = list.as_array().filter(|_| exchange.status == 200 && !asked.is_empty()) else { continue };
        // In other capitals, and the other way round.
        let swapped: Vec<String> = asked.iter().rev().map(|handle| handle.to_uppercase()).collect();
        let swapped: Vec<&str> = swapped.iter().map(String::as_str).collect();
        let answer = ask(provider, canned(&exchange.headers, &exchange.body.to_string()), &swapped).await.unwrap();
        assert_eq!((answer.outcomes.len(), answer.unsolicited), (asked.len(), 0));
        for (handle, id) in asked.iter().rev().zip(found(&answer)) {
            let is_it = |plain: &&Value| plain[name].as_str().is_some_and(|known| known.eq_ignore_ascii_case(handle));
            let plain = accounts.iter().find(is_it);
            let expected = plain.map(|plain| plain["id_str"].as_str().or(plain["id"].as_str()).unwrap());
            assert_eq!(id, expected, "{handle}");
            handles += 1;
            missing += usize::from(plain.is_none());
        }
        let header = |name: &str| exchange.headers.iter().find(|(known, _)| known == name)?.1.parse().ok();
        let told = answer.quota.map(|quota| (quota.limit, quota.remaining));
        assert_eq!(told, header("x-rate-limit-limit").zip(header("x-rate-limit-remaining")));
        println!("{}: {} of {}", exchange.address, accounts.len(), asked.len());
    }
    assert!(handles > 8 && missing > 0, "{handles} handles, {missing} without an account");
}

/// The provider as the rest of the program names it.
fn named(provider: Provider) -> twitter_updater::model::provider::Provider {
    use twitter_updater::model::provider::Provider as Named;
    match provider {
        Provider::TwitterV1 => Named::Twitter,
        Provider::XV2 => Named::X,
        Provider::Mastodon | Provider::MastodonStatus => Named::Mastodon("social".to_owned()),
        Provider::Bluesky => Named::Bluesky,
    }
}

#[tokio::test]
async fn the_simulator_answers_by_handle_as_by_id() {
    let running = simulator::start(([127, 0, 0, 1], 0).into(), SimulatorOptions::default()).await.unwrap();
    for provider in ALL {
        let domain = if provider == Provider::Bluesky { ".bsky.example.org" } else { "" };
        let lookup = provider.handles_at(&running.base_url(), Bounds::default());
        let handles = ["quiet_heron0", "Blue_Sparrow99", "missing"].map(|name| format!("{name}{domain}"));
        for some in handles.chunks(lookup.capabilities().batch_limit) {
            let answer = lookup.resolve(some, &anonymous()).await.unwrap();
            assert!(answer.quota.is_some_and(|quota| quota.is_metered()), "{provider:?}");
            for (handle, outcome) in some.iter().zip(&answer.outcomes) {
                match outcome {
                    Outcome::Found(account) => {
                        assert!(account.handle.as_ref().is_some_and(|known| known.eq_ignore_ascii_case(handle)));
                        assert!(account.counts.followers.is_some() && account.description.is_some(), "{account:?}");
                        let author = if handle.starts_with('q') { 0 } else { 9_999 };
                        assert_eq!(account.id, running.people().id(&named(provider), author), "{provider:?}");
                    }
                    Outcome::Unavailable | Outcome::Absent(Absence::NotFound) => assert!(handle.starts_with("missing")),
                    other => panic!("{provider:?}: {handle}: {other:?}"),
                }
            }
        }
    }
}
