//! Bluesky against canned answers: uris, dates, limits, and the table of decisions.

use serde_json::{Value, json};
use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::account::Absence;
use twitter_updater::providers::bluesky::{Bluesky, BlueskyOptions};
use twitter_updater::providers::lookup::{Answer, Api, Charge, Lookup, LookupError, Outcome};

use super::{decision, found};
use crate::support::http::{CANARY, Canned, CannedServer, anonymous, bearer, ids};
use crate::support::process::{run, text, variables};

/// Made at 2024-10-17T07:06:51.642Z, says its key.
const A: &str = "at://did:plc:ewvi7nxzyoun6zhxrhs64oiz/app.bsky.feed.post/3l6oveex3ii2l";
const MADE: i64 = 1_729_148_811_642;

fn bluesky(base_url: &str) -> Bluesky {
    Bluesky::new(BlueskyOptions { base_url: base_url.to_owned(), ..BlueskyOptions::default() }).unwrap()
}

async fn ask(answer: Canned, asked: &[&str]) -> Result<Answer, LookupError> {
    let server = CannedServer::start(answer).await;
    let result = bluesky(&server.base_url()).look_up(&ids(asked), &bearer(CANARY)).await;
    if let Err(error) = &result {
        assert!(!format!("{error:?}").contains(CANARY) && !format!("{error:?}").contains(A), "{error:?}");
    }
    result
}

#[tokio::test]
async fn a_call_is_what_the_lexicon_says() {
    let server = CannedServer::start(Canned::new(200, r#"{"posts":[]}"#)).await;
    let bluesky = bluesky(&format!("{}/proxy/", server.base_url()));
    bluesky.look_up(&ids(&[A, "at://did:web:a.org/app.bsky.feed.post/k"]), &anonymous()).await.unwrap();
    bluesky.check(&anonymous()).await.unwrap();
    bluesky.check(&bearer("t0ken")).await.unwrap();
    let asked = server.asked();
    assert_eq!(
        asked[0].target,
        "/proxy/xrpc/app.bsky.feed.getPosts?uris=at%3A%2F%2Fdid%3Aplc%3Aewvi7nxzyoun6zhxrhs64oiz%2Fapp.bsky.feed.post\
         %2F3l6oveex3ii2l&uris=at%3A%2F%2Fdid%3Aweb%3Aa.org%2Fapp.bsky.feed.post%2Fk"
    );
    assert_eq!((asked[0].method.as_str(), asked[0].header("authorization")), ("GET", None));
    assert_eq!(asked[1].target, "/proxy/xrpc/_health");
    assert_eq!(asked[2].target, "/proxy/xrpc/com.atproto.server.getSession");
    assert_eq!(asked[2].header("authorization"), Some("Bearer t0ken"));
    let capabilities = bluesky.capabilities();
    assert_eq!((capabilities.batch_limit, capabilities.charge), (25, Charge::PerCall));
    assert_eq!(bluesky.created_at(A), Ok(Some(MADE)));
    assert_eq!(bluesky.created_at("at://did:web:a.org/app.bsky.feed.post/k"), Ok(None));
}

fn post(created_at: &str, indexed_at: &str) -> Value {
    json!({
        "uri": A, "cid": "x", "author": { "did": "did:plc:ewvi7nxzyoun6zhxrhs64oiz", "handle": "ann.example.org" },
        "record": { "$type": "app.bsky.feed.post", "createdAt": created_at, "text": "hello" },
        "repostCount": 8, "likeCount": 34, "replyCount": 2, "quoteCount": 1, "bookmarkCount": 3,
        "indexedAt": indexed_at,
    })
}

#[tokio::test]
async fn a_post_has_all_counts_but_views() {
    let post = post("2024-10-17T07:06:51.000Z", "2024-10-17T07:06:52.000Z");
    let answer = ask(Canned::new(200, json!({ "posts": [post] }).to_string()), &[A]).await.unwrap();
    let tweet = found(&answer.outcomes[0]);
    assert_eq!((tweet.id.as_str(), tweet.text.as_deref(), tweet.raw.clone()), (A, Some("hello"), post.to_string()));
    assert_eq!(tweet.author_id.as_deref(), Some("did:plc:ewvi7nxzyoun6zhxrhs64oiz"));
    assert_eq!(tweet.author_name.as_deref(), Some("ann.example.org"));
    let m = tweet.metrics;
    assert_eq!((m.retweet_count, m.favorite_count, m.reply_count), (Some(8), Some(34), Some(2)));
    assert_eq!((m.quote_count, m.bookmark_count, m.impression_count), (Some(1), Some(3), None));
    for (odd, why) in [
        (json!({ "uri": A }), "the record is not an object"),
        (json!({ "uri": A, "record": { "text": 7 } }), "the text is not a string"),
    ] {
        let answer = ask(Canned::new(200, json!({ "posts": [odd] }).to_string()), &[A]).await.unwrap();
        assert_eq!(answer.outcomes, [Outcome::Broken(why.to_owned())]);
    }
}

#[tokio::test]
async fn a_date_that_a_client_made_up_is_not_believed() {
    for (created_at, indexed_at, expected) in [
        ("2024-10-17T09:06:51.5+02:00", "2024-10-17T07:06:52.000Z", 1_729_148_811_500),
        // Local time that calls itself UTC: it was seen before.
        ("2024-10-17T11:06:51Z", "2024-10-17T07:06:52.000Z", 1_729_148_812_000),
        // What was imported is as old as it says.
        ("2019-01-01T00:00:00Z", "2024-10-17T07:06:52.000Z", 1_546_300_800_000),
        ("0000-10-14T15:06:10.730Z", "0000-10-14T15:06:10.730Z", MADE),
        // Without a zone: Bluesky takes it for UTC.
        ("2024-10-17T07:06:51.5", "2024-10-17T07:06:52.000Z", 1_729_148_811_500),
        // What cannot be read is none, and no reason to lose the post.
        ("2024-10-17T07:06Z", "2024-10-17T07:06:52.000Z", 1_729_148_812_000),
        ("2024-10-17T07:06:51+0000", "2024-10-17T07:06:52.000Z", 1_729_148_812_000),
        ("once", "then", MADE),
    ] {
        let body = json!({ "posts": [post(created_at, indexed_at)] }).to_string();
        let answer = ask(Canned::new(200, body), &[A]).await.unwrap();
        assert_eq!(found(&answer.outcomes[0]).created_at, Some(expected), "{created_at}");
    }
}

#[tokio::test]
async fn a_reset_is_a_date_or_a_span() {
    let answer = |reset: &str| {
        Canned::new(200, r#"{"posts":[]}"#)
            .header("ratelimit-limit", "3000")
            .header("ratelimit-remaining", "2999")
            .header("ratelimit-policy", "3000;w=300")
            .header("ratelimit-reset", reset)
    };
    let quota = ask(answer("1729148899"), &[A]).await.unwrap().quota.unwrap();
    assert_eq!((quota.limit, quota.remaining, quota.reset_at), (3_000, 2_999, 1_729_148_899_000));
    assert_eq!(quota.length, Some(300_000));
    let quota = ask(answer("120"), &[A]).await.unwrap().quota.unwrap();
    assert_eq!(quota.reset_in, 120_000);
    assert!((quota.reset_at - 120_000 - wall_ms()).abs() < 60_000, "{quota:?}");
    assert_eq!(ask(answer("soon"), &[A]).await.unwrap().quota, None);
}

#[tokio::test]
async fn a_refusal_is_decided_by_its_status_and_its_name() {
    let named = |name: &str, message: &str| json!({ "error": name, "message": message }).to_string();
    for (status, body, expected) in [
        (400, named("InvalidRequest", "Error: uris/0 must be a valid at-uri"), "bad request"),
        (400, named("InvalidRequest", "Error: uris must not have more than 25 elements"), "too large"),
        (400, named("ExpiredToken", "Token has expired"), "credential"),
        (400, named("InvalidToken", "x"), "credential"),
        (401, named("AuthMissing", "x"), "credential"),
        (401, String::new(), "credential"),
        (403, named("AccountTakedown", "x"), "credential"),
        (403, named("Forbidden", "x"), "unready"),
        (404, named("XRPCNotSupported", "x"), "outage"),
        (413, named("PayloadTooLarge", "x"), "too large"),
        (429, named("RateLimitExceeded", "x"), "throttled"),
        (500, named("InternalServerError", "x"), "outage"),
        (501, named("MethodNotImplemented", "x"), "outage"),
        (502, named("UpstreamFailure", "x"), "outage"),
    ] {
        let error = ask(Canned::new(status, body.clone()), &[A]).await.unwrap_err();
        assert_eq!(decision(&error), expected, "{status} {body}: {error}");
    }
    for (body, why) in [
        ("", "it is empty"),
        ("[]", "it is not an object"),
        ("{\"posts\":[", "it ends in the middle"),
        ("{\"posts\":]", "it is not JSON"),
        ("{\"posts\":7}", "an object without a list of posts"),
        (r#"{"error":"InternalServerError"}"#, "an object without a list of posts"),
    ] {
        let error = ask(Canned::new(200, body), &[A]).await.unwrap_err();
        assert!(decision(&error) == "bad answer" && error.to_string().contains(why), "{body}: {error}");
    }
}

#[tokio::test]
async fn labels_of_a_post_and_its_author_are_kept_and_hidden_posts_may_be_left_out() {
    let label = |value: &str| json!({ "src": "did:plc:l", "uri": A, "val": value, "cts": "2024-10-17T07:06:51.000Z" });
    let mut hidden = post("2024-10-17T07:06:51.000Z", "2024-10-17T07:06:52.000Z");
    hidden["author"]["labels"] = json!([label("!no-unauthenticated"), { "val": 7 }, "odd"]);
    hidden["labels"] = json!([label("porn"), label("porn"), { "val": "spam", "neg": true }]);
    let mut shown = post("2024-10-17T07:06:51.000Z", "2024-10-17T07:06:52.000Z");
    shown["author"]["labels"] = json!([{ "val": "!no-unauthenticated", "neg": true }]);
    for (view, labels, is_hidden) in [(hidden, Some("!no-unauthenticated,porn".to_owned()), true), (shown, None, false)]
    {
        let body = json!({ "posts": [view] }).to_string();
        let answer = ask(Canned::new(200, body.clone()), &[A]).await.unwrap();
        let details = &found(&answer.outcomes[0]).details;
        assert_eq!((&details.labels, details.is_for_members_only()), (&labels, is_hidden));
        let server = CannedServer::start(Canned::new(200, body)).await;
        let options =
            BlueskyOptions { base_url: server.base_url(), leaves_out_hidden: true, ..BlueskyOptions::default() };
        let answer = Bluesky::new(options).unwrap().look_up(&ids(&[A]), &anonymous()).await.unwrap();
        match is_hidden {
            true => assert_eq!(answer.outcomes, [Outcome::Absent(Absence::Protected)]),
            false => assert_eq!(found(&answer.outcomes[0]).id, A),
        }
    }
}

/// A personal data server knows the session, and answers no lookup.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_tries_the_lookup_it_reports_on() {
    let server = CannedServer::start_with(|asked| match asked.target.split('?').next() {
        Some("/xrpc/_health" | "/xrpc/com.atproto.server.getSession") => Canned::new(200, "{}"),
        Some("/xrpc/app.bsky.actor.getProfiles") => Canned::new(200, r#"{"profiles":[]}"#),
        _ => Canned::new(401, r#"{"error":"AuthMissing","message":"Authentication Required"}"#),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("home.db").to_str().unwrap().to_owned();
    let settings = variables(&[
        ("providers", "bluesky"),
        ("bluesky.api", &server.base_url()),
        ("accounts.collect", "true"),
        ("queue.embedded.path", &file),
        ("store.sqlite.path", &file),
    ]);
    let check = run(&["credentials", "--check"], &settings);
    let said = text(&check.stdout);
    assert_eq!(check.status.code(), Some(69), "{said}");
    assert!(said.contains("REFUSED: ") && !said.contains("works"), "{said}");
    // Another lookup is another question.
    let check = run(&["credentials", "--check", "--pipeline", "profiles:bluesky"], &settings);
    let said = text(&check.stdout);
    assert!(check.status.success() && said.contains("works") && !said.contains("no lookup"), "{said}");
    let looked_up: Vec<_> =
        server.asked().into_iter().map(|asked| asked.target).filter(|at| at.contains('?')).collect();
    assert_eq!(looked_up.len(), 2, "each check makes one lookup: {looked_up:?}");
}
