//! Mastodon against canned answers: lists and single statuses, versions, and the table of decisions.

use serde_json::json;
use twitter_updater::providers::lookup::{Answer, Api, Charge, Lookup, LookupError, Outcome};
use twitter_updater::providers::mastodon::account::Accounts;
use twitter_updater::providers::mastodon::{Calls, Mastodon, MastodonOptions};
use twitter_updater::simulator::{self, SimulatorOptions};

use super::{decision, found};
use crate::support::http::{CANARY, Canned, CannedServer, anonymous, bearer, ids};

const A: &str = "114620457512351116";
const B: &str = "114870361973436726";
/// Of other software: nobody's to take apart.
const FLAKE: &str = "9vQkzXyNcPGmqsMAnE";

fn instance(base_url: &str, calls: Calls) -> Mastodon {
    Mastodon::new(MastodonOptions { calls, ..MastodonOptions::new(base_url) }).unwrap()
}

async fn ask(answer: Canned, calls: Calls, asked: &[&str]) -> Result<Answer, LookupError> {
    let server = CannedServer::start(answer).await;
    let result = instance(&server.base_url(), calls).look_up(&ids(asked), &bearer(CANARY)).await;
    if let Err(error) = &result {
        assert!(!format!("{error:?}").contains(CANARY) && !format!("{error:?}").contains(A), "{error:?}");
    }
    result
}

#[tokio::test]
async fn a_call_is_what_the_documentation_says() {
    let server = CannedServer::start(Canned::new(200, "[]")).await;
    let batch = instance(&format!("{}/proxy", server.base_url()), Calls::Batch);
    batch.look_up(&ids(&[A, FLAKE]), &bearer("t0ken")).await.unwrap();
    batch.check(&bearer("t0ken")).await.unwrap();
    batch.check(&anonymous()).await.unwrap();
    let single = instance(&format!("{}/proxy", server.base_url()), Calls::Single);
    single.look_up(&ids(&[A]), &anonymous()).await.unwrap_err();
    let asked = server.asked();
    assert_eq!(asked[0].target, format!("/proxy/api/v1/statuses?id%5B%5D={A}&id%5B%5D={FLAKE}"));
    assert_eq!((asked[0].method.as_str(), asked[0].header("authorization")), ("GET", Some("Bearer t0ken")));
    assert_eq!(asked[1].target, "/proxy/api/v1/apps/verify_credentials");
    assert_eq!(asked[2].target, "/proxy/api/v2/instance");
    assert_eq!(asked[3].target, format!("/proxy/api/v1/statuses/{A}"));
    assert_eq!(asked[3].header("authorization"), None);
}

#[test]
fn an_id_is_opaque_and_may_tell_the_time() {
    let batch = instance("https://social.example.org", Calls::Batch);
    let capabilities = batch.capabilities();
    assert_eq!((capabilities.batch_limit, capabilities.charge), (20, Charge::PerCall));
    assert_eq!(instance("https://social.example.org", Calls::Single).capabilities().batch_limit, 1);
    // Recorded: made at 2025-06-03T16:49:43.431Z, 3 ms after it got its id.
    assert_eq!(batch.created_at(A), Ok(Some(1_748_969_383_428)));
    // Sequential ones of before 2.0, a flake, a ULID; more than 64 bits; the same moment as Pixelfed and Takahē write it.
    for opaque in [
        "1",
        "99999999",
        FLAKE,
        "01HN3VWZ5QXG2V4Y8Y7Y9ZJ9T0",
        "99999999999999999999999",
        "835558135534977024",
        "452876549461377024",
    ] {
        assert_eq!(batch.created_at(opaque), Ok(None), "{opaque}");
    }
    for bad in ["1/2", "1,2", "?", "..", &"9".repeat(65)] {
        assert!(batch.created_at(bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn the_instance_says_how_it_is_asked() {
    for (version, calls) in [
        ("4.3.0", Calls::Batch),
        ("4.4.0-alpha.1+glitch", Calls::Batch),
        ("5.0.0", Calls::Batch),
        ("4.2.17", Calls::Single),
        ("3.5.3", Calls::Single),
        ("2.7.2 (compatible; Pleroma 2.5.0)", Calls::Single),
        ("", Calls::Single),
        ("nightly", Calls::Single),
    ] {
        assert_eq!(Calls::from_version(version), calls, "{version}");
        let options = SimulatorOptions { mastodon_version: version.to_owned(), ..SimulatorOptions::default() };
        let running = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
        let learned = instance(&running.base_url(), Calls::default()).learn_calls(&anonymous()).await.unwrap();
        assert_eq!(learned.capabilities().batch_limit, if calls == Calls::Batch { 20 } else { 1 }, "{version}");
    }
    let learn = async |answer: Canned| {
        let server = CannedServer::start(answer).await;
        instance(&server.base_url(), Calls::Batch).learn_calls(&anonymous()).await
    };
    // Before 4.0, and where a page of what stands in front of the instance is a 404.
    for (version, limit) in [("4.3.8", 20), ("3.5.0", 1)] {
        let server = CannedServer::start_with(move |asked| match asked.target.as_str() {
            "/api/v1/instance" => Canned::new(200, json!({ "version": version }).to_string()),
            _ => Canned::new(404, "<html>"),
        })
        .await;
        let learned = instance(&server.base_url(), Calls::Batch).learn_calls(&anonymous()).await.unwrap();
        assert_eq!(learned.capabilities().batch_limit, limit, "{version}");
    }
    let error = r#"{"error":"in any language"}"#;
    for (status, body, expected) in [
        (200, "{}", "bad answer"),
        (503, "", "outage"),
        (404, "{}", "outage"),
        (404, error, "outage"),
        (400, "<html>", "outage"),
        (401, "<html>", "outage"),
        (400, error, "bad request"),
        (401, error, "credential"),
    ] {
        assert_eq!(decision(&learn(Canned::new(status, body)).await.unwrap_err()), expected, "{status} {body}");
    }
}

#[tokio::test]
async fn a_status_has_counts_and_html() {
    let status = json!({
        "id": A, "created_at": "2025-06-03T16:49:43.431Z", "content": "<p>fish &amp; <a href=\"x\">chips</a></p>",
        "account": { "id": "7", "username": "ann", "acct": "ann@other.example.org" },
        "replies_count": 1, "reblogs_count": 5, "favourites_count": 12, "quotes_count": 2, "edited_at": null,
    });
    for (calls, body) in [(Calls::Batch, json!([status])), (Calls::Single, status.clone())] {
        let answer = ask(Canned::new(200, body.to_string()), calls, &[A]).await.unwrap();
        let tweet = found(&answer.outcomes[0]);
        assert_eq!((tweet.id.as_str(), tweet.created_at), (A, Some(1_748_969_383_431)));
        assert_eq!(tweet.text.as_deref(), Some("<p>fish &amp; <a href=\"x\">chips</a></p>"));
        assert_eq!(tweet.author_id.as_deref(), Some("7"));
        assert_eq!(tweet.author_name.as_deref(), Some("ann@other.example.org"));
        let m = tweet.metrics;
        assert_eq!((m.reply_count, m.retweet_count), (Some(1), Some(5)));
        assert_eq!((m.favorite_count, m.quote_count, m.bookmark_count), (Some(12), Some(2), None));
        assert_eq!(tweet.raw, status.to_string());
    }
    for (odd, why) in [
        (json!({ "id": A }), "the content is not a string"),
        (json!({ "id": A, "content": "x", "created_at": 7 }), "created_at \"7\" is not a date"),
    ] {
        let answer = ask(Canned::new(200, json!([odd]).to_string()), Calls::Batch, &[A]).await.unwrap();
        assert_eq!(answer.outcomes, [Outcome::Broken(why.to_owned())]);
    }
}

#[tokio::test]
async fn a_single_status_is_missing_where_the_instance_says_so() {
    let none = Canned::new(404, r#"{"error":"Record not found"}"#).header("x-ratelimit-limit", "300");
    assert_eq!(ask(none, Calls::Single, &[A]).await.unwrap().outcomes, [Outcome::Unavailable]);
    // Somebody else's 404, and a list's, are no word about a status.
    let page = Canned::new(404, "<html>").header("content-type", "text/html");
    assert_eq!(decision(&ask(page, Calls::Single, &[A]).await.unwrap_err()), "outage");
    let list = Canned::new(404, r#"{"error":"Record not found"}"#);
    assert_eq!(decision(&ask(list, Calls::Batch, &[A]).await.unwrap_err()), "outage");
    let stranger = Canned::new(200, json!({ "id": B, "content": "x" }).to_string());
    let answer = ask(stranger, Calls::Single, &[A]).await.unwrap();
    assert!(matches!(answer.outcomes[0], Outcome::Broken(_)) && answer.unsolicited == 1, "{answer:?}");
    for (calls, body) in [(Calls::Batch, "{}"), (Calls::Batch, "7"), (Calls::Single, "[]"), (Calls::Single, "{}")] {
        let error = ask(Canned::new(200, body), calls, &[A]).await.unwrap_err();
        assert_eq!(decision(&error), "bad answer", "{body}");
    }
}

#[tokio::test]
async fn a_404_without_an_error_is_about_one_of_many() {
    // As Pixelfed answers.
    let is_bare = CannedServer::start_with(|asked| match asked.target.ends_with(A) {
        true => Canned::new(200, json!({ "id": A, "content": "x", "acct": "ann" }).to_string()),
        false => Canned::new(404, "").header("content-type", "text/html"),
    })
    .await;
    let statuses = instance(&is_bare.base_url(), Calls::Single);
    let status = async |id: &str| statuses.look_up(&ids(&[id]), &bearer(CANARY)).await;
    assert_eq!(decision(&status(B).await.unwrap_err()), "outage", "it may answer so to everything");
    found(&status(A).await.unwrap().outcomes[0]);
    assert_eq!(status(B).await.unwrap().outcomes, [Outcome::Unavailable]);
    let accounts = Accounts(instance(&is_bare.base_url(), Calls::Single));
    let account = async |id: &str| accounts.look_up(&ids(&[id]), &bearer(CANARY)).await;
    assert_eq!(decision(&account(B).await.unwrap_err()), "outage", "it may answer so to everything");
    assert!(matches!(account(A).await.unwrap().outcomes[..], [Outcome::Found(_)]));
    assert_eq!(account(B).await.unwrap().outcomes, [Outcome::Unavailable]);
}

#[tokio::test]
async fn a_reset_is_a_date() {
    let answer = Canned::new(200, "[]")
        .header("date", "Thu, 17 Jul 2025 20:01:52 GMT")
        .header("x-ratelimit-limit", "300")
        .header("x-ratelimit-remaining", "293")
        .header("x-ratelimit-reset", "2025-07-17T20:05:00.615162Z");
    let quota = ask(answer.clone(), Calls::Batch, &[A]).await.unwrap().quota.unwrap();
    // Without the fraction, which is that of the request.
    assert_eq!((quota.limit, quota.remaining, quota.reset_at), (300, 293, 1_752_782_700_000));
    // By their own Date, cut off to the second it tells.
    assert!((187_001..=188_000).contains(&quota.reset_in), "{quota:?}");
    let later = answer.clone().header("x-ratelimit-reset", "2025-07-17T20:05:00.241610Z");
    assert_eq!(ask(later, Calls::Batch, &[A]).await.unwrap().quota.unwrap().reset_at, quota.reset_at);
    // GoToSocial has it in seconds since the epoch.
    let epoch = answer.clone().header("x-ratelimit-reset", "1752782700");
    assert_eq!(ask(epoch, Calls::Batch, &[A]).await.unwrap().quota, Some(quota));
    for bad in ["-1752782700", "soon", ""] {
        let answer = ask(answer.clone().header("x-ratelimit-reset", bad), Calls::Batch, &[A]).await.unwrap();
        assert_eq!(answer.quota, None, "{bad}");
    }
}

#[tokio::test]
async fn a_refusal_is_decided_by_its_status() {
    let error = r#"{"error":"in any language"}"#;
    for (status, body, expected) in [
        (400, error, "bad request"),
        (401, error, "credential"),
        (403, error, "credential"),
        (403, "<html>", "unready"),
        (404, error, "outage"),
        (410, error, "outage"),
        (413, error, "too large"),
        (422, error, "too large"),
        (429, error, "throttled"),
        (500, error, "outage"),
        (503, error, "outage"),
        (206, error, "bad answer"),
    ] {
        let error = ask(Canned::new(status, body), Calls::Batch, &[A, B]).await.unwrap_err();
        assert_eq!(decision(&error), expected, "{status} {body}: {error}");
    }
}
