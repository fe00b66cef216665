//! X API v2 against canned answers: both documents' names, problems, edits, and the table of decisions.

use serde_json::{Value, json};
use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::account::Absence;
use twitter_updater::model::post::TweetId;
use twitter_updater::providers::lookup::{Answer, Api, Charge, Lookup, LookupError, Outcome};
use twitter_updater::providers::x_v2::{FieldNames, Fields, XV2, XV2Options};
use twitter_updater::quota::{AppToken, Credential, CredentialKind, UserKeys};
use twitter_updater::simulator::{self, SimulatedCredential, SimulatedKeys, SimulatorOptions, Standing};

use super::{A, B, C, decision, found, silent};
use crate::support::http::{CANARY, Canned, CannedServer, anonymous, bearer, ids};

fn x(base_url: &str) -> XV2 {
    XV2::new(XV2Options { base_url: base_url.to_owned(), ..XV2Options::default() }).unwrap()
}

async fn ask(answer: Canned, asked: &[&str]) -> Result<Answer, LookupError> {
    let server = CannedServer::start(answer).await;
    let result = x(&server.base_url()).look_up(&ids(asked), &bearer(CANARY)).await;
    if let Err(error) = &result {
        silent(error);
    }
    result
}

async fn answer(body: Value, asked: &[&str]) -> Answer {
    ask(Canned::new(200, body.to_string()), asked).await.unwrap()
}

fn problem(parameter: &str, id: &str, kind: &str) -> Value {
    let kind = format!("https://api.x.com/2/problems/{kind}");
    json!({ "parameter": parameter, "resource_id": id, "value": id, "resource_type": "tweet", "type": kind })
}

#[tokio::test]
async fn a_call_is_what_the_documentation_says() {
    for (fields, expected) in [
        (
            Fields::default(),
            "tweet.fields=article,attachments,author_id,card_uri,community_id,context_annotations,conversation_id,\
             created_at,display_text_range,edit_controls,edit_history_tweet_ids,entities,geo,in_reply_to_user_id,lang,\
             media_metadata,note_tweet,paid_partnership,possibly_sensitive,public_metrics,referenced_tweets,\
             reply_settings,scopes,source,withheld",
        ),
        (
            Fields::new(FieldNames::Post, "source", "author_id, geo.place_id").unwrap(),
            "post.fields=author_id,conversation_id,created_at,edit_history_post_ids,in_reply_to_user_id,lang,note_post,\
             public_metrics,referenced_posts,reply_settings,source,withheld&expansions=author_id,geo.place_id",
        ),
    ] {
        let server = CannedServer::start(Canned::new(200, json!({"data": [{"id": A, "text": "x"}]}).to_string())).await;
        let base_url = format!("{}/proxy/", server.base_url());
        let x = XV2::new(XV2Options { base_url, fields, ..XV2Options::default() }).unwrap();
        x.look_up(&ids(&[A, B]), &bearer("t0ken")).await.unwrap();
        x.check(&bearer("t0ken")).await.unwrap();
        let asked = server.asked();
        assert_eq!(asked[0].method, "GET");
        let expected = expected.replace(',', "%2C");
        assert_eq!(asked[0].target, format!("/proxy/2/tweets?ids={A}%2C{B}&{expected}"));
        assert_eq!(asked[0].header("authorization"), Some("Bearer t0ken"));
        assert_eq!(asked[1].target, "/proxy/2/usage/tweets");
    }
}

#[test]
fn it_states_what_it_takes() {
    let x = x("https://api.example.org");
    let capabilities = x.capabilities();
    assert_eq!((capabilities.batch_limit, capabilities.charge), (100, Charge::PerIdPerUtcDay));
    assert_eq!(x.created_at("1168343686863892480").unwrap(), Some(1_567_389_816_381));
    assert_eq!(x.created_at("20").unwrap(), None);
    assert!(XV2::new(XV2Options { base_url: "api.x.com".to_owned(), ..XV2Options::default() }).is_err());
}

#[tokio::test]
async fn the_fields_of_both_documents_read_the_same() {
    let old = json!({
        "id": A, "text": "short &amp; sweet", "author_id": "7", "created_at": "2014-08-31T00:29:15.000Z",
        "edit_history_tweet_ids": [A], "note_tweet": { "text": "the whole long text" },
        "public_metrics": {
            "retweet_count": 3, "like_count": 5, "reply_count": 1, "quote_count": 2, "bookmark_count": 4,
            "impression_count": 99,
        },
    });
    let new = json!({
        "id": A, "text": "short &amp; sweet", "author_id": "7", "created_at": "2014-08-31T00:29:15.000Z",
        "edit_history_post_ids": [A], "note_post": { "text": "the whole long text" },
        "public_metrics": {
            "repost_count": 3, "like_count": 5, "reply_count": 1, "quote_count": 2, "bookmark_count": 4,
            "impression_count": 99,
        },
    });
    // While they change over, both names may come.
    let mut both = old.clone();
    both["public_metrics"]["repost_count"] = json!(3);
    both["edit_history_post_ids"] = json!([A]);
    for post in [old, new, both] {
        let answer = answer(json!({ "data": [post] }), &[A]).await;
        let tweet = found(&answer.outcomes[0]);
        assert_eq!((tweet.created_at, tweet.text.as_deref()), (Some(1_409_444_955_000), Some("the whole long text")));
        assert_eq!((tweet.author_id.as_deref(), tweet.author_name.as_ref()), (Some("7"), None));
        let m = tweet.metrics;
        assert_eq!((m.retweet_count, m.favorite_count, m.reply_count), (Some(3), Some(5), Some(1)), "{post}");
        assert_eq!((m.quote_count, m.bookmark_count, m.impression_count), (Some(2), Some(4), Some(99)), "{post}");
        assert_eq!(tweet.raw, post.to_string());
    }
    // What is not known is left as it is stored: the first recordings have four counts, others none.
    let bare = answer(json!({ "data": [{ "id": A, "text": "x", "public_metrics": { "like_count": null } }] }), &[A]);
    let bare = bare.await;
    assert_eq!(found(&bare.outcomes[0]).metrics, twitter_updater::model::post::Metrics::default());
}

#[tokio::test]
async fn the_missing_are_those_that_problems_name_by_ids() {
    let body = json!({
        "data": [{ "id": A, "text": "here" }],
        "includes": { "tweets": [{ "id": B, "text": "referred to" }] },
        "errors": [
            problem("ids", B, "resource-not-found"),
            problem("ids", B, "resource-not-found"),
            problem("ids", C, "not-authorized-for-resource"),
            problem("referenced_tweets.id", A, "resource-not-found"),
            problem("in_reply_to_user_id", "7", "resource-not-found"),
            problem("ids", "999", "resource-not-found"),
        ],
    });
    let some = answer(body, &[C, A, B]).await;
    assert_eq!(some.outcomes[0], Outcome::Absent(Absence::Protected));
    assert_eq!(found(&some.outcomes[1]).text.as_deref(), Some("here"));
    assert_eq!((&some.outcomes[2], some.unsolicited), (&Outcome::Absent(Absence::NotFound), 0));

    // All are missing: no data at all. By the old host and title, too.
    let mut old = problem("ids", A, "resource-not-found");
    old["type"] = json!("https://api.twitter.com/2/problems/resource-not-found");
    let titled = json!({ "parameter": "ids", "value": B, "title": "Authorization Error" });
    let none = answer(json!({ "errors": [old, titled] }), &[A, B]).await;
    assert_eq!(none.outcomes, [Absence::NotFound, Absence::Protected].map(Outcome::Absent));
    // Taken down: none of the three.
    let taken_down = answer(json!({ "errors": [problem("ids", A, "disallowed-resource")] }), &[A]).await;
    assert_eq!(taken_down.outcomes, [Outcome::Unavailable]);
    // X names what it does not return: an id that is not mentioned is not known to be missing.
    assert!(matches!(answer(json!({ "data": [] }), &[A]).await.outcomes[..], [Outcome::Broken(_)]));
}

/// The form of X's own documentation, which names no parameter.
#[tokio::test]
async fn the_missing_are_those_that_problems_name_by_their_resource() {
    let bare =
        |id: &str, resource: &str, title: &str| json!({ "resource_id": id, "resource_type": resource, "title": title });
    let body = json!({
        "data": [{ "id": A, "text": "here" }],
        "errors": [bare(B, "tweet", "Not Found Error"), bare(C, "tweet", "Authorization Error"), bare(A, "user", "Not Found Error")],
    });
    let some = answer(body, &[C, A, B]).await;
    let gone = [&some.outcomes[0], &some.outcomes[2]];
    assert_eq!(gone, [&Outcome::Absent(Absence::Protected), &Outcome::Absent(Absence::NotFound)]);
    assert!(matches!(some.outcomes[1], Outcome::Found(_)), "{some:?}");
    let none = answer(json!({ "errors": [bare(A, "tweet", "Not Found Error")] }), &[A]).await;
    assert_eq!(none.outcomes, [Outcome::Absent(Absence::NotFound)]);
    // A user may have the number of a post; an unknown problem is no miss; and another post's is not about these.
    let other = json!({
        "data": [{ "id": A, "text": "x" }],
        "errors": [bare(B, "user", "Not Found Error"), bare(C, "tweet", "Odd Error"), bare("999", "tweet", "Not Found Error")],
    });
    let other = answer(other, &[A, B, C]).await;
    assert!(matches!(other.outcomes[..], [Outcome::Found(_), Outcome::Broken(_), Outcome::Broken(_)]), "{other:?}");
    let of_another = answer(json!({ "errors": [bare("999", "tweet", "Not Found Error")] }), &[A]).await;
    assert!(matches!(of_another.outcomes[..], [Outcome::Broken(_)]), "{of_another:?}");
    let unnamed = json!({ "errors": [{ "resource_type": "tweet", "title": "Not Found Error" }] });
    let refused = ask(Canned::new(200, unnamed.to_string()), &[A]).await.unwrap_err();
    assert!(
        matches!(&refused, LookupError::BadAnswer(said) if said.starts_with("a success that says error")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn trouble_that_is_not_the_posts_ends_no_life() {
    let strange = answer(json!({ "errors": [problem("ids", A, "operational-disconnect")] }), &[A]).await;
    let Outcome::Broken(why) = &strange.outcomes[0] else { panic!("{strange:?}") };
    assert!(why.contains("operational-disconnect"), "{why}");
    // Half an answer: nobody knows what became of the other half.
    let half = json!({ "data": [{ "id": A, "text": "x" }], "errors": [{ "title": "Service Unavailable" }] });
    let half = answer(half, &[A, B]).await;
    assert!(matches!(half.outcomes[..], [Outcome::Found(_), Outcome::Broken(_)]), "{half:?}");
}

#[tokio::test]
async fn an_edited_post_stays_with_the_id_it_was_asked_by() {
    let edited = |names: &str| json!({ "id": C, "text": "third", names: [A, B, C] });
    for names in ["edit_history_tweet_ids", "edit_history_post_ids"] {
        let one = answer(json!({ "data": [edited(names)] }), &[A]).await;
        assert_eq!((found(&one.outcomes[0]).id.as_str(), one.unsolicited), (C, 0));
        // Asked by two of its versions, it comes once or twice.
        for data in [vec![edited(names)], vec![edited(names), edited(names)]] {
            let two = answer(json!({ "data": data }), &[B, C]).await;
            assert_eq!((found(&two.outcomes[0]).id.as_str(), found(&two.outcomes[1]).id.as_str()), (C, C));
            assert_eq!(two.unsolicited, 0);
        }
    }
    // An older version that came, too, is its own, and nobody else's: whoever is left gets the newest, which is A.
    let version = |id: &str, text: &str| json!({ "id": id, "text": text, "edit_history_tweet_ids": ["20", B, A] });
    let both = answer(json!({ "data": [version(B, "second"), version(A, "third")] }), &["20", B]).await;
    let texts: Vec<_> = both.outcomes.iter().map(|outcome| found(outcome).text.as_deref().unwrap()).collect();
    assert_eq!(texts, ["third", "second"]);
}

#[tokio::test]
async fn a_withheld_post_has_counts_and_the_text_that_came() {
    let withheld = |id: &str, withheld: Value| json!({ "id": id, "text": "x", "withheld": withheld, "public_metrics": { "like_count": 5 } });
    let data = [
        withheld(A, json!({ "copyright": false, "country_codes": ["DE", "FR"], "scope": "tweet" })),
        withheld(B, json!({ "copyright": true })),
        withheld(C, json!({ "copyright": false, "country_codes": [] })),
    ];
    let answer = answer(json!({ "data": data }), &[A, B, C]).await;
    for (outcome, expected) in answer.outcomes.iter().zip(["DE,FR", "XY"]) {
        let tweet = found(outcome);
        let told = (tweet.withheld_in.as_deref(), tweet.text.as_deref(), tweet.metrics.favorite_count);
        assert_eq!(told, (Some(expected), Some("x"), Some(5)));
    }
    assert_eq!(found(&answer.outcomes[2]).withheld_in, None);
}

#[tokio::test]
async fn a_success_that_is_no_answer_says_what_it_is() {
    for (body, why) in [
        ("", "it is empty"),
        ("[]", "it is not an object"),
        ("{\"data\":[{\"id\":", "it ends in the middle"),
        ("{\"data\":[}", "it is not JSON"),
        ("{}", "an object without data"),
        ("{\"meta\":{}}", "an object without data"),
        ("{\"data\":{\"id\":\"20\"}}", "its data is not a list"),
        (r#"{"errors":[{"code":130,"message":"Over capacity"}]}"#, "a success that says error"),
        (r#"{"errors":[{"parameter":"referenced_tweets.id","value":"20"}]}"#, "a success that says error"),
    ] {
        let error = ask(Canned::new(200, body), &[A]).await.unwrap_err();
        assert!(decision(&error) == "bad answer" && error.to_string().contains(why), "{body}: {error}");
    }
    for (post, why) in [
        (json!({ "id": A }), "no text"),
        (json!({ "id": A, "text": 7 }), "the text is not a string"),
        (json!({ "id": A, "text": "x", "created_at": "once" }), "created_at \"once\" is not a date"),
    ] {
        let answer = answer(json!({ "data": [post] }), &[A]).await;
        assert_eq!(answer.outcomes, [Outcome::Broken(why.to_owned())]);
    }
}

#[tokio::test]
async fn a_refusal_is_decided_by_its_status_and_its_problem() {
    let typed = |kind: &str| json!({ "title": "x", "type": format!("https://api.twitter.com/2/problems/{kind}") });
    let plain = json!({ "title": "x", "type": "about:blank", "detail": "x", "status": 401 });
    let invalid = |name: &str, message: &str| {
        let mut body = typed("invalid-request");
        body["errors"] = json!([{ "parameters": { name: [A] }, "message": message }]);
        body
    };
    let code = |code: u32| json!({ "errors": [{ "code": code, "message": "x" }] });
    let table = [
        (400, invalid("ids", "The `ids` query parameter value [x] is not valid"), "bad request"),
        (400, invalid("ids", "The number of values in the list [101] is not between 1 and 100"), "too large"),
        (400, invalid("post.fields", "[post.fields] is not one of […]"), "stop"),
        (400, invalid("expansions", "The `expansions` query parameter value [x] is not one of […]"), "stop"),
        (400, json!({}), "bad request"),
        (400, code(215), "credential"),
        (401, plain.clone(), "credential"),
        (401, code(89), "credential"),
        (401, code(32), "credential"),
        (402, json!({ "title": "CreditsDepleted" }), "credential"),
        (403, plain.clone(), "unready"),
        (403, typed("client-forbidden"), "credential"),
        (403, typed("unsupported-authentication"), "credential"),
        (403, typed("oauth1-permissions"), "credential"),
        (403, typed("not-authorized-for-resource"), "bad request"),
        (403, code(64), "credential"),
        (403, code(326), "credential"),
        (403, code(453), "stop"),
        (404, plain.clone(), "outage"),
        (410, plain.clone(), "stop"),
        (410, json!({}), "outage"),
        (413, plain.clone(), "too large"),
        (420, json!({}), "throttled"),
        (429, plain.clone(), "throttled"),
        (429, code(88), "throttled"),
        (429, typed("usage-capped"), "throttled"),
        (500, plain.clone(), "outage"),
        (503, plain.clone(), "outage"),
        (204, json!({}), "bad answer"),
    ];
    for (status, body, expected) in table {
        let error = ask(Canned::new(status, body.to_string()), &[A]).await.unwrap_err();
        assert_eq!(decision(&error), expected, "{status} {body}: {error}");
    }
    let error = ask(Canned::new(400, invalid("post.fields", "x").to_string()), &[A]).await.unwrap_err();
    assert!(error.to_string().contains("set field_names"), "{error}");
}

#[tokio::test]
async fn a_429_rests_for_the_window_that_is_used_up() {
    let base = Canned::new(429, "{\"title\":\"Too Many Requests\"}")
        .header("date", "Fri, 23 Jan 2015 13:38:32 GMT")
        .header("x-rate-limit-limit", "3500")
        .header("x-rate-limit-remaining", "0")
        .header("x-rate-limit-reset", "1422020412");
    let pause = async |answer: Canned| match ask(answer, &[A]).await.unwrap_err() {
        LookupError::Throttled { pause, quota, .. } => (pause.as_secs(), quota.map(|quota| quota.remaining)),
        other => panic!("{other:?}"),
    };
    assert_eq!(pause(base.clone()).await, (100, Some(0)));
    let left = base.header("x-rate-limit-remaining", "7");
    assert_eq!(pause(left.clone()).await, (5, Some(7)), "too fast");
    let day = |remaining: &str| {
        left.clone()
            .header("x-app-limit-24hour-limit", "500")
            .header("x-app-limit-24hour-remaining", remaining)
            .header("x-app-limit-24hour-reset", "1422056312")
    };
    let (seconds, remaining) = pause(day("0")).await;
    assert!((35_998..=36_000).contains(&seconds) && remaining == Some(7), "{seconds} s");
    assert_eq!(pause(day("3")).await, (5, Some(7)));
    let garbage = day("0").header("x-app-limit-24hour-reset", "4000000000");
    assert_eq!(pause(garbage).await.0, 25 * 3600);
    let capped = Canned::new(429, r#"{"type":"https://api.twitter.com/2/problems/usage-capped","period":"Monthly"}"#);
    assert_eq!(pause(capped).await, (900, None));
}

#[tokio::test]
async fn users_sign_and_applications_exchange_their_keys() {
    let secret = |text: &str| secrecy::SecretString::from(text);
    let app = SimulatedKeys::App { consumer_key: secret("ck"), consumer_secret: secret("cs") };
    let user = SimulatedKeys::User {
        consumer_key: secret("ck"),
        consumer_secret: secret("cs"),
        token: secret("t"),
        token_secret: secret("ts"),
    };
    let credentials = Some(vec![
        SimulatedCredential { name: "app".to_owned(), keys: app },
        SimulatedCredential { name: "user".to_owned(), keys: user },
    ]);
    let options = SimulatorOptions { credentials, missing_share: 0.0, ..SimulatorOptions::default() };
    let running = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let x = x(&running.base_url());
    let keys = UserKeys {
        consumer_key: secret("ck"),
        consumer_secret: secret("cs"),
        token: secret("t"),
        token_secret: secret("ts"),
    };
    let as_user = Credential { name: "user".to_owned(), kind: CredentialKind::User(keys) };
    let kind = CredentialKind::App(AppToken::new(secret("ck"), secret("cs")));
    let as_app = Credential { name: "app".to_owned(), kind };
    let asked = vec![TweetId::at(wall_ms() - 3_600_000, 1).to_string()];
    for (who, limit) in [(&as_user, 5_000), (&as_app, 3_500)] {
        let quota = x.look_up(&asked, who).await.unwrap().quota.unwrap();
        assert_eq!((quota.limit, quota.remaining), (limit, limit - 1));
        x.check(who).await.unwrap();
    }
    // A token that was invalidated is exchanged for another, without anybody being told.
    assert!(running.set_standing("app", Standing::Revoked) && running.set_standing("app", Standing::Good));
    x.look_up(&asked, &as_app).await.unwrap();
    assert_eq!(running.counters().exchanges, 2);
    assert!(running.set_standing("user", Standing::Revoked));
    assert_eq!(decision(&x.look_up(&asked, &as_user).await.unwrap_err()), "credential");
    assert_eq!(decision(&x.look_up(&asked, &anonymous()).await.unwrap_err()), "credential");
    running.stop().await;
}

#[tokio::test]
async fn a_wrong_clock_is_measured_and_corrected() {
    let keys = || UserKeys {
        consumer_key: "ck".into(),
        consumer_secret: "cs".into(),
        token: "t".into(),
        token_secret: "ts".into(),
    };
    let known = SimulatedKeys::User {
        consumer_key: "ck".into(),
        consumer_secret: "cs".into(),
        token: "t".into(),
        token_secret: "ts".into(),
    };
    let options = SimulatorOptions {
        credentials: Some(vec![SimulatedCredential { name: "user".to_owned(), keys: known }]),
        clock_skew: 3_600_000,
        ..SimulatorOptions::default()
    };
    let running = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let x = x(&running.base_url());
    let who = Credential { name: "user".to_owned(), kind: CredentialKind::User(keys()) };
    let asked = vec![TweetId::at(wall_ms() - 3_600_000, 1).to_string()];
    let LookupError::Clock(offset) = x.look_up(&asked, &who).await.unwrap_err() else { panic!() };
    assert!((3_540_000..3_660_000).contains(&offset), "{offset}");
    x.look_up(&asked, &who).await.unwrap();
}
