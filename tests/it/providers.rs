//! The v1.1 lookup against canned answers: forms, damage, limits, and the table of decisions; the other providers,
//! what all have in common, and what was recorded of them, in modules.

mod accounts;
pub mod all;
mod archived;
mod batches;
mod bluesky;
mod contract;
mod handles;
mod mastodon;
mod pauses;
mod pipelines;
pub mod recorded;
pub mod relations;
mod x_v2;

use std::time::Duration;

use serde_json::json;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::providers::http::HttpOptions;
use twitter_updater::providers::lookup::{Answer, Api, Charge, Lookup, LookupError, Outcome, Quota};
use twitter_updater::providers::twitter_v1::{LookupMethod, TwitterV1, TwitterV1Options, parse_ingested, parse_tweet};

use crate::support::http::{CANARY, Canned, CannedServer, anonymous, bearer, ids, options, twitter};
use crate::support::port::Port;

const A: &str = "505874924095815681";
const B: &str = "505874847260352513";
const C: &str = "505874840000000003";

fn tweet(id: &str, text: &str) -> serde_json::Value {
    json!({
        "created_at": "Sun Aug 31 00:29:15 +0000 2014", "id": id.parse::<u64>().unwrap(), "id_str": id, "full_text": text,
        "user": {"id": 7, "id_str": "7", "screen_name": "ann"}, "retweet_count": 3, "favorite_count": 5,
    })
}

async fn ask(answer: Canned, asked: &[&str]) -> Result<Answer, LookupError> {
    let server = CannedServer::start(answer).await;
    let result = twitter(&server.base_url()).look_up(&ids(asked), &bearer(CANARY)).await;
    if let Err(error) = &result {
        silent(error);
    }
    result
}

/// No error tells the token or an id, neither in its text nor in its Debug form.
fn silent(error: &LookupError) {
    let told = format!("{error} {error:?}");
    assert!(!told.contains(CANARY), "{told}");
    assert!(!told.contains(A), "{told}");
}

fn found(outcome: &Outcome) -> &twitter_updater::model::post::Tweet {
    match outcome {
        Outcome::Found(tweet) => tweet,
        other => panic!("not found: {other:?}"),
    }
}

#[tokio::test]
async fn a_call_is_what_the_documentation_says() {
    for method in [LookupMethod::Get, LookupMethod::Post] {
        let server = CannedServer::start(Canned::new(200, json!({"id": {A: null}}).to_string())).await;
        let base_url = format!("{}/proxy/", server.base_url());
        let twitter = TwitterV1::new(TwitterV1Options { method, ..options(&base_url) }).unwrap();
        twitter.look_up(&ids(&[A, B]), &bearer("t0ken")).await.unwrap();
        twitter.look_up(&ids(&[A]), &anonymous()).await.unwrap();
        let asked = server.asked();
        let expected = format!("id={A}%2C{B}&map=true&tweet_mode=extended&trim_user=false");
        match method {
            LookupMethod::Get => {
                assert_eq!(asked[0].method, "GET");
                assert_eq!(asked[0].target, format!("/proxy/1.1/statuses/lookup.json?{expected}"));
            }
            LookupMethod::Post => {
                assert_eq!(asked[0].method, "POST");
                assert_eq!(asked[0].target, "/proxy/1.1/statuses/lookup.json");
                assert_eq!(asked[0].body, expected);
            }
        }
        assert_eq!(asked[0].header("authorization"), Some("Bearer t0ken"));
        assert_eq!(asked[1].header("authorization"), None);
        assert!(asked[0].header("accept-encoding").unwrap().contains("gzip"));
        assert!(asked[0].header("user-agent").unwrap().starts_with("twitter-updater/"));
    }
}

#[test]
fn it_states_what_it_takes() {
    let twitter = twitter("https://api.example.org");
    let capabilities = twitter.capabilities();
    assert_eq!((capabilities.batch_limit, capabilities.charge), (100, Charge::PerCall));
    assert_eq!(capabilities.endpoint, "statuses/lookup");
    assert_eq!(twitter.created_at("1168343686863892480").unwrap(), Some(1_567_389_816_381));
    assert_eq!(twitter.created_at("20").unwrap(), None);
    assert!(twitter.created_at("5.05e17").unwrap_err().to_string().contains("scientific"));
}

#[test]
fn an_address_that_cannot_work_is_refused_without_repeating_its_password() {
    for bad in ["api.twitter.com", "ftp://api.twitter.com", "https://me:hunter2@api.example.org", "http://h/?a=b", ""] {
        let error = TwitterV1::new(options(bad)).unwrap_err().to_string();
        assert!(error.contains("base_url") && !error.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn the_map_form_and_the_array_form_give_the_same() {
    let (a, b) = (tweet(A, "eins &amp; zwei"), tweet(B, "drei"));
    let map = json!({"id": {A: a, B: b, C: null}}).to_string();
    let array = json!([b, a]).to_string();
    for body in [map, array] {
        let answer = ask(Canned::new(200, body), &[A, B, C]).await.unwrap();
        let first = found(&answer.outcomes[0]);
        assert_eq!((first.id.as_str(), first.text.as_deref()), (A, Some("eins &amp; zwei")));
        assert_eq!(first.created_at, Some(1_409_444_955_000));
        assert_eq!((first.author_id.as_deref(), first.author_name.as_deref()), (Some("7"), Some("ann")));
        assert_eq!((first.metrics.retweet_count, first.metrics.favorite_count), (Some(3), Some(5)));
        assert_eq!((first.metrics.reply_count, first.metrics.quote_count), (None, None));
        assert_eq!(first.raw, a.to_string());
        assert_eq!(found(&answer.outcomes[1]).id, B);
        assert_eq!(answer.outcomes[2], Outcome::Unavailable);
        assert_eq!((answer.outcomes.len(), answer.unsolicited, answer.quota), (3, 0, None));
    }
}

#[tokio::test]
async fn nothing_found_is_an_answer() {
    let nulls = json!({"id": {A: null, B: null}}).to_string();
    for body in ["[]", &nulls, " \n[ ]"] {
        let answer = ask(Canned::new(200, body), &[A, B]).await.unwrap();
        assert_eq!(answer.outcomes, [Outcome::Unavailable, Outcome::Unavailable]);
    }
    // The map names what it does not return; a list with something that is no tweet may hold any of them.
    let nested = "[".repeat(1_000) + &"]".repeat(1_000);
    let stranger = json!([tweet(C, "x")]).to_string();
    for body in ["{\"id\":{}}", &json!({"id": {C: null}}).to_string(), &nested, "[null]", "[{}]", &stranger] {
        let several = ask(Canned::new(200, body), &[A, B]).await;
        assert!(matches!(&several, Err(LookupError::BadAnswer(why)) if why.contains("none of the 2")), "{several:?}");
        let alone = ask(Canned::new(200, body), &[A]).await.unwrap();
        assert!(matches!(alone.outcomes[..], [Outcome::Broken(_)]), "it may be the reason itself: {body}");
    }
    let none = json!({"errors": [{"code": 17, "message": "No user matches for specified terms."}]}).to_string();
    assert_eq!(ask(Canned::new(404, none), &[A]).await.unwrap().outcomes, [Outcome::Unavailable]);
}

#[tokio::test]
async fn a_broken_tweet_costs_none_of_the_others() {
    let all: Vec<String> = (0..100).map(|n| (505_874_924_095_815_000_u64 + n).to_string()).collect();
    let objects: Vec<_> = all.iter().map(|id| tweet(id, "fine")).collect();
    let broken = [
        (10, json!({"id_str": all[10], "text": {"no": "string"}}), "the text is not a string"),
        (20, json!({"id_str": all[20]}), "neither full_text nor text"),
        (30, json!({"id_str": all[30], "text": "x", "created_at": "once"}), "created_at \"once\" is not a date"),
        (40, json!({"id_str": all[40], "text": "x", "user": [1]}), "the user is not an object"),
        (41, json!({"id_str": all[41], "text": "x", "user": "ann"}), "the user is not an object"),
        (42, json!({"id_str": all[42], "text": "x", "user": 7}), "the user is not an object"),
        (43, json!({"id_str": all[43], "text": "x", "user": -7}), "the user is not an object"),
        (44, json!({"id_str": all[44], "text": "x", "user": 0.5}), "the user is not an object"),
        (45, json!({"id_str": all[45], "text": "x", "user": true}), "the user is not an object"),
    ];
    let mut array = objects.clone();
    for (place, object, _) in &broken {
        array[*place] = object.clone();
    }
    let mut map: serde_json::Map<_, _> = all.iter().cloned().zip(array.clone()).collect();
    // Only the map form can say whose place this is.
    map[&all[50]] = json!("gone fishing");
    let array = serde_json::Value::from(array).to_string();
    let map = json!({ "id": map }).to_string();
    for (body, also) in [(array, None), (map, Some(50))] {
        let server = CannedServer::start(Canned::new(200, body)).await;
        let answer = twitter(&server.base_url()).look_up(&all, &anonymous()).await.unwrap();
        for (place, outcome) in answer.outcomes.iter().enumerate() {
            let expected = broken.iter().find(|(bad, ..)| *bad == place).map(|(_, _, why)| *why);
            match (expected, also == Some(place)) {
                (Some(why), _) => assert_eq!(outcome, &Outcome::Broken(why.to_owned())),
                (None, true) => assert_eq!(outcome, &Outcome::Broken("not a JSON object".to_owned())),
                (None, false) => assert_eq!(found(outcome).id, all[place]),
            }
        }
    }
}

#[tokio::test]
async fn half_a_surrogate_pair_and_bad_bytes_cost_one_character() {
    let body = format!(r#"[{{"id_str":"{A}","text":"cut \ud83d","user":{{"screen_name":"ann\udc00"}}}}]"#);
    let answer = ask(Canned::new(200, body), &[A]).await.unwrap();
    assert_eq!(found(&answer.outcomes[0]).text.as_deref(), Some("cut \u{fffd}"));
    assert_eq!(found(&answer.outcomes[0]).author_name.as_deref(), Some("ann\u{fffd}"));

    let mut body = format!(r#"[{{"id_str":"{A}","text":"latin ?"}},{{"id_str":"{B}","text":"fine"}}]"#).into_bytes();
    let place = body.iter().position(|byte| *byte == b'?').unwrap();
    body[place] = 0xe9;
    let answer = ask(Canned::new(200, body), &[A, B]).await.unwrap();
    assert_eq!(found(&answer.outcomes[0]).text.as_deref(), Some("latin \u{fffd}"));
    assert_eq!(found(&answer.outcomes[1]).text.as_deref(), Some("fine"));
}

#[tokio::test]
async fn the_id_is_id_str_and_in_a_map_the_key() {
    let rounded = json!({"id": 505_874_924_095_815_700_u64, "id_str": A, "text": "x"});
    let answer = ask(Canned::new(200, json!([rounded]).to_string()), &[A]).await.unwrap();
    assert_eq!(found(&answer.outcomes[0]).id, A);

    let only_rounded = json!({"id": 505_874_924_095_815_700_u64, "text": "x"});
    let answer = ask(Canned::new(200, json!({"id": {A: only_rounded}}).to_string()), &[A]).await.unwrap();
    assert_eq!(found(&answer.outcomes[0]).id, A, "no edit is made up from a rounded number");

    let edited = json!({"id_str": B, "text": "x"});
    let answer = ask(Canned::new(200, json!({"id": {A: edited}}).to_string()), &[A]).await.unwrap();
    assert_eq!(found(&answer.outcomes[0]).id, B, "an edit's own id stays with the asked one");

    let number = json!([{"id": 20, "text": "x"}, {"id": 21, "id_str": null, "text": "y"}]).to_string();
    let answer = ask(Canned::new(200, number), &["20", "21"]).await.unwrap();
    assert_eq!((found(&answer.outcomes[0]).id.as_str(), found(&answer.outcomes[1]).id.as_str()), ("20", "21"));
}

#[tokio::test]
async fn strangers_are_counted_and_the_first_of_two_wins() {
    let body = json!([tweet(A, "first"), tweet(B, "stranger"), tweet(A, "second"), null, 7, {"text": "nobody's"}]);
    let answer = ask(Canned::new(200, body.to_string()), &[A, C]).await.unwrap();
    assert_eq!(found(&answer.outcomes[0]).text.as_deref(), Some("first"));
    assert!(matches!(answer.outcomes[1], Outcome::Broken(_)), "one of the strangers may be it");
    assert_eq!(answer.unsolicited, 4);

    let body = json!({"id": {A: tweet(A, "mine"), B: tweet(B, "stranger")}}).to_string();
    assert_eq!(ask(Canned::new(200, body), &[A]).await.unwrap().unsolicited, 1);
}

#[tokio::test]
async fn a_withheld_tweet_has_counts_and_the_text_that_is_no_notice() {
    let mut listed = tweet(A, "This Tweet from @ann has been withheld in: Spain.");
    listed["withheld_in_countries"] = json!(["DE", "ES"]);
    let mut copyright = tweet(B, "anything");
    copyright["withheld_copyright"] = json!(true);
    let sentence = tweet(C, "This Tweet from @ann has been withheld in response to a report.");
    let mut quoting = tweet("20", "This Tweet from @bob has been withheld in: Spain.");
    quoting["withheld_in_countries"] = json!([]);
    let answer = ask(Canned::new(200, json!([listed, copyright, sentence, quoting]).to_string()), &[A, B, C, "20"])
        .await
        .unwrap();
    for (outcome, expected) in answer.outcomes.iter().zip([("DE,ES", None), ("XY", Some("anything")), ("ZZ", None)]) {
        let tweet = found(outcome);
        assert_eq!((tweet.withheld_in.as_deref().unwrap(), tweet.text.as_deref()), expected);
        assert_eq!(tweet.metrics.favorite_count, Some(5));
    }
    assert_eq!(found(&answer.outcomes[3]).withheld_in, None);
    assert_eq!(found(&answer.outcomes[3]).text.as_deref(), Some("This Tweet from @bob has been withheld in: Spain."));
}

async fn check(answer: Canned) -> Result<Option<Quota>, LookupError> {
    let server = CannedServer::start(answer).await;
    let result = twitter(&server.base_url()).check(&bearer(CANARY)).await;
    if let Err(error) = &result {
        silent(error);
    }
    result
}

#[tokio::test]
async fn a_check_is_one_cheap_call() {
    let reset = wall_ms() / 1_000 + 600;
    let window = |limit: u32| json!({"limit": limit, "remaining": 412, "reset": reset});
    let body = json!({
        "rate_limit_context": {"access_token": "7-t"},
        "resources": {"statuses": {"/statuses/show/:id": window(180), "/statuses/lookup": window(900)}},
    });
    let server = CannedServer::start(Canned::new(200, body.to_string())).await;
    let base_url = format!("{}/proxy/", server.base_url());
    let quota = TwitterV1::new(options(&base_url)).unwrap().check(&bearer("t0ken")).await.unwrap().unwrap();
    assert_eq!(told(quota), (900, 412, reset * 1_000));
    assert!((595_000..=600_000).contains(&quota.reset_in), "{quota:?}");
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(
        (asked[0].method.as_str(), asked[0].target.as_str()),
        ("GET", "/proxy/1.1/application/rate_limit_status.json?resources=statuses")
    );
    assert_eq!(asked[0].header("authorization"), Some("Bearer t0ken"));
}

#[tokio::test]
async fn a_check_says_what_a_lookup_would() {
    // It works, and nothing is said of the lookup: an emulator may know no limits.
    for body in [json!({"resources": {}}), json!({"resources": {"statuses": {}}})] {
        assert_eq!(check(Canned::new(200, body.to_string())).await.unwrap(), None);
    }
    let refusal = |status, code: u32| Canned::new(status, json!({"errors": [{"code": code}]}).to_string());
    assert!(matches!(check(refusal(401, 89)).await, Err(LookupError::Credential(why)) if why.contains("code 89")));
    assert!(matches!(check(refusal(403, 453)).await, Err(LookupError::Stop(_))));
    assert!(matches!(check(refusal(429, 88)).await, Err(LookupError::Throttled { .. })));
    assert!(matches!(check(refusal(503, 130)).await, Err(LookupError::Outage(_))));
    for body in ["[]", "{}", "<html>", r#"{"resources":{"statuses":{"/statuses/lookup":{"limit":-1}}}}"#] {
        assert!(matches!(check(Canned::new(200, body)).await, Err(LookupError::BadAnswer(_))), "{body}");
    }
    let page = Canned::new(200, r#"{"resources":{}}"#).header("content-type", "text/html");
    assert!(matches!(check(page).await, Err(LookupError::BadAnswer(_))));
}

/// What the headers said, without when that was.
fn told(quota: Quota) -> (u32, u32, i64) {
    (quota.limit, quota.remaining, quota.reset_at)
}

#[tokio::test]
async fn the_quota_is_read_from_the_headers_or_not_at_all() {
    let answer = Canned::new(200, "[]")
        .header("x-rate-limit-limit", "900")
        .header("x-rate-limit-remaining", "881")
        .header("x-rate-limit-reset", "1667943001");
    let quota = ask(answer.clone(), &[A]).await.unwrap().quota;
    assert_eq!(quota.map(told), Some((900, 881, 1_667_943_001_000)));
    for (name, bad) in [
        ("x-rate-limit-limit", "many"),
        ("x-rate-limit-remaining", "some"),
        ("x-rate-limit-reset", "99999999999999999999"),
        ("x-rate-limit-reset", ""),
        // With no call left in it, nobody would call for decades.
        ("x-rate-limit-reset", "4294967295"),
        ("date", "Thu, 01 Jan 2004 00:00:00 GMT"),
    ] {
        assert_eq!(ask(answer.clone().header(name, bad), &[A]).await.unwrap().quota, None, "{name}: {bad}");
    }
    let overdrawn = ask(answer.clone().header("x-rate-limit-remaining", "-1"), &[A]).await.unwrap().quota;
    assert_eq!(
        overdrawn.map(told),
        Some((900, 0, 1_667_943_001_000)),
        "a negative number of remaining calls counts as 0"
    );
    // Where the date alone is wrong, the window ends by our clock.
    let soon = (wall_ms() / 1000 + 600).to_string();
    let dated = |date| answer.clone().header("x-rate-limit-reset", &soon).header("date", date);
    let quota = ask(dated("Thu, 01 Jan 2004 00:00:00 GMT"), &[A]).await.unwrap().quota.unwrap();
    assert!((590_000..=600_000).contains(&quota.reset_in), "{quota:?}");
}

/// The decision's name: what the caller does.
fn decision(error: &LookupError) -> &'static str {
    match error {
        LookupError::Outage(_) => "outage",
        LookupError::Overloaded { .. } => "overloaded",
        LookupError::Throttled { .. } => "throttled",
        LookupError::Credential(_) => "credential",
        LookupError::Unready(_) => "unready",
        LookupError::Clock(_) => "clock",
        LookupError::QueueClock(_) => "queue's clock",
        LookupError::BatchTooLarge(_) => "too large",
        LookupError::BadRequest(_) => "bad request",
        LookupError::BadAnswer(_) => "bad answer",
        LookupError::Stop(_) => "stop",
    }
}

/// Statuses and bodies that nobody has seen from this API; the others are in `refresh::error_table`.
#[tokio::test]
async fn a_refusal_of_no_known_form_is_decided_by_its_status() {
    let refusals = [
        (401, "", "credential"),
        (402, "<html>error</html>", "outage"),
        (403, r#"{"errors":[]}"#, "unready"),
        (408, "<html>error</html>", "outage"),
        (504, "", "outage"),
        (599, r#"{"errors":[{"code":"89"}]}"#, "outage"),
    ];
    for (status, body, expected) in refusals {
        let error = ask(Canned::new(status, body).header("content-type", "text/html"), &[A]).await.unwrap_err();
        assert_eq!(decision(&error), expected, "{status} {body}: {error}");
    }
}

#[tokio::test]
async fn a_throttled_credential_rests_until_the_reset_of_the_servers_clock() {
    let base = Canned::new(429, r#"{"errors":[{"code":88,"message":"Rate limit exceeded"}]}"#)
        .header("date", "Fri, 23 Jan 2015 13:38:32 GMT")
        .header("x-rate-limit-limit", "300")
        .header("x-rate-limit-remaining", "0")
        .header("x-rate-limit-reset", "1422020412");
    let pause = async |answer: Canned| match ask(answer, &[A]).await.unwrap_err() {
        LookupError::Throttled { pause, .. } => pause,
        other => panic!("{other:?}"),
    };
    let secs = Duration::from_secs;
    assert_eq!(pause(base.clone()).await, secs(100));
    assert_eq!(pause(base.clone().header("x-rate-limit-remaining", "7")).await, secs(5), "a daily cap");
    assert_eq!(pause(base.clone().header("retry-after", "30")).await, secs(30));
    assert_eq!(pause(base.clone().header("retry-after", "Fri, 23 Jan 2015 13:38:52 GMT")).await, secs(20));
    assert_eq!(pause(base.clone().header("x-rate-limit-reset", "1422020300")).await, secs(1), "just passed");
    assert_eq!(pause(base.clone().header("x-rate-limit-reset", "4000000000")).await, secs(960), "garbage");
    assert_eq!(pause(base.clone().header("x-rate-limit-reset", "soon")).await, secs(60), "not told");
    let LookupError::Throttled { status, quota, .. } = ask(base, &[A]).await.unwrap_err() else { panic!() };
    assert_eq!((status, quota.map(told)), (429, Some((300, 0, 1_422_020_412_000))));
    // By their own Date, cut off to the second it tells: ours is years later.
    assert_eq!(quota.unwrap().reset_in, 100_000 - 999);

    // Without a Date the machine's clock has to do.
    let reset = (wall_ms() / 1000 + 50).to_string();
    let undated = Canned::new(420, "")
        .header("x-rate-limit-limit", "300")
        .header("x-rate-limit-remaining", "0")
        .header("x-rate-limit-reset", &reset);
    let pause = pause(undated).await;
    assert!(pause > secs(40) && pause <= secs(50), "{pause:?}");
}

#[tokio::test]
async fn a_wrong_clock_is_measured_by_the_answers_date() {
    let body = r#"{"errors":[{"code":135,"message":"Timestamp out of bounds."}]}"#;
    let dated = Canned::new(401, body).header("date", "Fri, 23 Jan 2015 13:38:32 GMT");
    let LookupError::Clock(offset) = ask(dated, &[A]).await.unwrap_err() else { panic!() };
    let expected = 1_422_020_312_000 - wall_ms();
    assert!((offset - expected).abs() < 10_000, "{offset} is not about {expected}");
    assert_eq!(decision(&ask(Canned::new(401, body), &[A]).await.unwrap_err()), "credential");
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_only_its_host_is_named() {
    let answer = Canned::new(302, "").header("location", &format!("https://login.example.net/x?id={A}&t={CANARY}"));
    let error = ask(answer, &[A]).await.unwrap_err();
    assert!(error.to_string().contains("login.example.net"), "{error}");
    let relative = ask(Canned::new(301, "").header("location", "/elsewhere"), &[A]).await.unwrap_err();
    assert_eq!(decision(&relative), "bad answer");
}

#[tokio::test]
async fn a_success_that_is_no_answer_says_what_it_is() {
    let page = Canned::new(200, "<html>Sign in</html>").header("content-type", "text/html; charset=utf-8");
    let error = ask(page, &[A]).await.unwrap_err();
    assert_eq!(error.to_string(), "the API's answer cannot be read: it is not JSON: text/html, 20 bytes");
    for (body, why) in [
        ("", "it is empty"),
        ("<html>", "neither an object nor an array"),
        ("[{\"id_str\":\"505874924095815681\",", "it ends in the middle"),
        ("{\"id\": {]", "it is not JSON"),
        ("[1,2,]", "it is not JSON"),
        ("\"text\"", "neither an object nor an array"),
        ("{\"data\":[]}", "without a map of tweets"),
        ("{\"id\":7,\"id_str\":\"7\"}", "without a map of tweets"),
        ("{\"id\":[{}],\"id\":{}}", "without a map of tweets"),
        ("{\"id\":null}", "without a map of tweets"),
        ("{\"id\":\"7\",\"error\":null}", "a success that says error"),
        (r#"{"errors":[{"code":130,"message":"Over capacity"}]}"#, "a success that says error"),
        (r#"{"error":"Over capacity"}"#, "a success that says error"),
    ] {
        let error = ask(Canned::new(200, body), &[A]).await.unwrap_err();
        assert_eq!(decision(&error), "bad answer");
        assert!(error.to_string().contains(why), "{body}: {error}");
        assert!(error.to_string().contains(&format!("{} bytes", body.len())), "{body}: {error}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_left_unread() {
    let small = |base_url: &str| {
        TwitterV1::new(TwitterV1Options {
            http: HttpOptions { max_body_bytes: 10_000, ..HttpOptions::default() },
            ..options(base_url)
        })
        .unwrap()
    };
    let padded = |bytes: usize| format!("[{}]", " ".repeat(bytes - 2));

    let server = CannedServer::start(Canned::new(200, padded(10_000))).await;
    small(&server.base_url()).look_up(&ids(&[A]), &anonymous()).await.unwrap();

    let server = CannedServer::start(Canned::new(200, padded(10_001))).await;
    let error = small(&server.base_url()).look_up(&ids(&[A]), &anonymous()).await.unwrap_err();
    assert_eq!(error.to_string(), "the API's answer cannot be read: it declares 10001 bytes, over the limit of 10000");

    // 1 MB sent in 7 KB, below the limit: what counts is what it unpacks to.
    let bomb = Canned::new(200, gzip_of_zeros(1 << 20)).header("content-encoding", "gzip");
    assert!(bomb.body.len() < 10_000);
    let server = CannedServer::start(bomb).await;
    let error = small(&server.base_url()).look_up(&ids(&[A]), &anonymous()).await.unwrap_err();
    assert_eq!(error.to_string(), "the API's answer cannot be read: it is larger than the limit of 10000 bytes");

    // Of a refusal the status is enough, however much follows.
    let huge = Canned::new(401, padded(1 << 20));
    assert_eq!(decision(&ask(huge, &[A]).await.unwrap_err()), "credential");
}

#[tokio::test]
async fn a_gzipped_answer_is_unpacked() {
    let body = json!({"id": {A: tweet(A, "packed")}}).to_string();
    let answer = Canned::new(200, gzip_stored(body.as_bytes())).header("content-encoding", "gzip");
    let answer = ask(answer, &[A]).await.unwrap();
    assert_eq!(found(&answer.outcomes[0]).text.as_deref(), Some("packed"));

    let mut cut = gzip_stored(body.as_bytes());
    cut.truncate(cut.len() / 2);
    let error = ask(Canned::new(200, cut).header("content-encoding", "gzip"), &[A]).await.unwrap_err();
    assert_eq!(decision(&error), "outage");
}

#[tokio::test]
async fn a_broken_exchange_is_an_outage() {
    let cut = Canned::new(200, "[{\"id\":").header("content-length", "5000");
    let error = ask(cut, &[A]).await.unwrap_err();
    assert_eq!(decision(&error), "outage");
    assert!(error.to_string().contains("broke off"), "{error}");

    // A refusal is one even when its body breaks off.
    let cut = Canned::new(429, "{").header("content-length", "5000");
    assert_eq!(decision(&ask(cut, &[A]).await.unwrap_err()), "throttled");

    let closed = Port::take();
    let error =
        twitter(&format!("http://{}", closed.address())).look_up(&ids(&[A]), &bearer(CANARY)).await.unwrap_err();
    silent(&error);
    assert!(error.to_string().contains("cannot connect"), "{error}");

    // Takes connections and never answers.
    let silent_server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", silent_server.local_addr().unwrap());
    let options = TwitterV1Options {
        http: HttpOptions { timeout: Duration::from_millis(150), ..HttpOptions::default() },
        ..options(&base_url)
    };
    let error = TwitterV1::new(options).unwrap().look_up(&ids(&[A]), &bearer(CANARY)).await.unwrap_err();
    silent(&error);
    assert_eq!(error.to_string(), "the API is not available: no whole answer within 150 ms");
}

#[tokio::test]
async fn a_token_that_no_header_can_carry_is_the_credentials_fault() {
    let twitter = twitter("http://127.0.0.1:9");
    let error = twitter.look_up(&ids(&[A]), &bearer("two\nlines")).await.unwrap_err();
    assert_eq!(decision(&error), "credential");
    assert!(!format!("{error:?}").contains("lines"), "{error:?}");
}

#[test]
fn a_starter_reads_more_forms_than_the_api_sends() {
    let read = |json: serde_json::Value| parse_ingested(&json.to_string());
    let first = Some(1_142_974_214_000);
    for json in [
        json!({"id_str": "20", "id": 20, "created_at": "Tue Mar 21 20:50:14 +0000 2006", "text": "x"}),
        json!({"id": "20", "created_at": "2006-03-21T20:50:14.000Z"}),
        json!({"id": 20, "created_at": 1_142_974_214}),
        json!({"id": "20", "created_at": 1_142_974_214_000_i64}),
        json!({"id": "20", "created_at": "1142974214"}),
    ] {
        let tweet = read(json.clone()).unwrap();
        assert_eq!((tweet.id.as_str(), tweet.created_at), ("20", first), "{json}");
    }
    assert_eq!(read(json!({"id": "20"})).unwrap().created_at, None);
    assert_eq!(read(json!({"id": "20", "created_at": null})).unwrap().created_at, None);

    // An object of X API v2 says in other fields who wrote it.
    let counts = json!({"like_count": 3, "retweet_count": 1});
    let tweet = read(json!({"id": "20", "text": "x", "author_id": "12", "public_metrics": counts})).unwrap();
    assert_eq!(tweet.author_id.as_deref(), Some("12"));
    assert_eq!((tweet.metrics.favorite_count, tweet.metrics.retweet_count), (Some(3), Some(1)));
    let tweet = read(json!({"id": "20", "author_id": "12", "favorite_count": 4, "user": {"id": 13}})).unwrap();
    assert_eq!((tweet.author_id.as_deref(), tweet.metrics.favorite_count), (Some("13"), Some(4)));

    assert_eq!(read(json!({"text": "x"})).unwrap_err().to_string(), "no id_str or id");
    assert_eq!(
        read(json!({"id": "20", "created_at": "soon"})).unwrap_err().to_string(),
        "created_at \"soon\" is not a date"
    );
    assert_eq!(read(json!(["20"])).unwrap_err().to_string(), "not a JSON object");
    assert_eq!(parse_ingested("{\"id\": 20").unwrap_err().to_string(), "not JSON, at column 9");
    assert!(parse_ingested("{\"id\": 5.05e17}").unwrap_err().to_string().contains("scientific"));
    assert!(read(json!({"id": "20x"})).unwrap_err().to_string().contains("not a digit"));

    assert_eq!(parse_tweet("{\"id\":20}").unwrap_err().to_string(), "neither full_text nor text");
    assert!(parse_tweet(r#"{"id":20,"text":"x","created_at":"2006-03-21T20:50:14Z"}"#).is_err());
}

/// Data in a gzip file without compression (stored blocks).
fn gzip_stored(data: &[u8]) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let blocks: Vec<&[u8]> = data.chunks(0xffff).collect();
    for (place, block) in blocks.iter().enumerate() {
        let length = block.len() as u16;
        file.push(u8::from(place + 1 == blocks.len()));
        file.extend_from_slice(&length.to_le_bytes());
        file.extend_from_slice(&(!length).to_le_bytes());
        file.extend_from_slice(block);
    }
    let mut crc = !0u32;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    file.extend_from_slice(&(!crc).to_le_bytes());
    file.extend_from_slice(&(data.len() as u32).to_le_bytes());
    file
}

/// A gzip file that unpacks to about `bytes` zeros: one block with fixed codes, a zero and then
/// "repeat the last byte 258 times" (code 285, 11000101, and distance code 0, 00000: 13 bits each).
/// Its checksum is missing; nobody may read that far.
fn gzip_of_zeros(bytes: usize) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut bits: Vec<bool> = Vec::new();
    // Last block, type 01 (low bit first), then the literal 0 (00110000).
    bits.extend([true, true, false]);
    bits.extend([false, false, true, true, false, false, false, false]);
    for _ in 0..bytes / 258 {
        bits.extend([true, true, false, false, false, true, false, true, false, false, false, false, false]);
    }
    for eight in bits.chunks(8) {
        file.push(eight.iter().enumerate().fold(0, |byte, (place, bit)| byte | u8::from(*bit) << place));
    }
    file
}
