//! Who is let in, by which form of credential, and how often.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ring::hmac;
use twitter_updater::simulator::{SimulatedCredential, SimulatedKeys};

use super::*;

/// RFC 5849, 3.6.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

fn known() -> SimulatorOptions {
    let (consumer_key, consumer_secret) = ("ck".into(), "c s".into());
    let keys = SimulatedKeys::User { consumer_key, consumer_secret, token: "7-t".into(), token_secret: "t&s".into() };
    SimulatorOptions {
        credentials: Some(vec![SimulatedCredential { name: "main".to_owned(), keys }]),
        bearer_tokens: Some(vec!["good".into()]),
        public: true,
        ..plain()
    }
}

/// The parameters of a call, signed among themselves (RFC 5849, 3.5.2 and 3.5.3).
fn signed(method: &str, target: &str, own: &[(&str, &str)], token_secret: &str, nonce: &str) -> String {
    let now = (wall_ms() / 1000).to_string();
    let mut all: Vec<(String, String)> = own.iter().map(|(name, value)| (encode(name), encode(value))).collect();
    for (name, value) in [
        ("oauth_consumer_key", "ck"),
        ("oauth_nonce", nonce),
        ("oauth_signature_method", "HMAC-SHA1"),
        ("oauth_timestamp", &now),
        ("oauth_token", "7-t"),
        ("oauth_version", "1.0"),
    ] {
        all.push((encode(name), encode(value)));
    }
    all.sort();
    let all: Vec<String> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let base = format!("{method}&{}&{}", encode(&format!("http://simulator{target}")), encode(&all.join("&")));
    let key = format!("{}&{}", encode("c s"), encode(token_secret));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes()), base.as_bytes());
    let tag = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, tag.as_ref());
    format!("{}&oauth_signature={}", all.join("&"), encode(&tag))
}

#[tokio::test]
async fn a_signature_may_be_in_the_query_or_in_the_form() {
    let running = start(known()).await;
    let target = "/1.1/statuses/lookup.json";
    let asked = async |method: &str, parameters: &str| {
        let (query, form) = if method == "GET" { (format!("?{parameters}"), "") } else { (String::new(), parameters) };
        let (status, _, body) = raw(&running, method, &format!("{target}{query}"), None, form).await;
        (status, serde_json::from_str::<Value>(&body).unwrap()["errors"][0]["code"].as_u64())
    };
    for (n, method) in ["GET", "POST"].into_iter().enumerate() {
        let own = [("id", "20,21"), ("trim_user", "true")];
        let good = signed(method, target, &own, "t&s", &format!("a{n}"));
        assert_eq!(asked(method, &good).await, (200, None), "{good}");
        assert_eq!(asked(method, &good).await, (401, Some(32)), "no nonce is good twice");
        let wrong = signed(method, target, &own, "other", &format!("b{n}"));
        assert_eq!(asked(method, &wrong).await, (401, Some(32)));
        let changed = signed(method, target, &own, "t&s", &format!("c{n}")).replace("trim_user=true", "trim_user=t");
        assert_eq!(asked(method, &changed).await, (401, Some(32)));
        let stranger = signed(method, target, &own, "t&s", &format!("d{n}")).replace("7-t", "8-t");
        assert_eq!(asked(method, &stranger).await, (401, Some(89)));
        assert_eq!(asked(method, "id=20").await, (400, Some(215)));
    }
    // X's parameters are checked without those of the signature.
    let x = signed("GET", "/2/tweets", &[("ids", "20")], "t&s", "x");
    assert_eq!(raw(&running, "GET", &format!("/2/tweets?{x}"), None, "").await.0, 200);
}

#[tokio::test]
async fn a_public_network_answers_whoever_shows_nothing_and_nobody_with_a_wrong_token() {
    let running = start(known()).await;
    let status = format!("/api/v1/statuses/{}", simulator::mastodon_id(wall_ms() - DAY, 1));
    let post = format!("/xrpc/app.bsky.feed.getPosts?uris={}", simulator::bluesky_uri(wall_ms() - DAY, 1));
    for target in [&status, &post] {
        assert_eq!(raw(&running, "GET", target, None, "").await.0, 200, "{target}");
        assert_eq!(raw(&running, "GET", target, Some("good"), "").await.0, 200, "{target}");
        assert_eq!(raw(&running, "GET", target, Some("bad"), "").await.0, 401, "{target}");
    }
    // A Mastodon client may give its token in the query, or in a form.
    assert_eq!(raw(&running, "GET", &format!("{status}?access_token=good"), None, "").await.0, 200);
    assert_eq!(raw(&running, "GET", &format!("{status}?access_token=bad"), None, "").await.0, 401);
    assert_eq!(raw(&running, "GET", &status, None, "access_token=bad").await.0, 401);
    for target in ["/2/tweets?ids=20", "/1.1/statuses/lookup.json?id=20&access_token=good"] {
        assert_ne!(raw(&running, "GET", target, None, "").await.0, 200, "{target}");
    }
}

#[tokio::test]
async fn each_network_has_the_limits_it_is_given() {
    let limits = SimulatorOptions {
        calls_per_window: 0,
        x_calls_per_window: 3,
        x_app_calls_per_window: 2,
        mastodon_calls_per_window: 4,
        bluesky_calls_per_window: 0,
        ..plain()
    };
    let running = start(limits).await;
    let granted = async |target: &str, token: Option<&str>| {
        for call in 0..20 {
            match raw(&running, "GET", target, token, "").await.0 {
                429 => return Some(call),
                status => assert_eq!(status, 200, "{target}"),
            }
        }
        None
    };
    assert_eq!(granted("/1.1/statuses/lookup.json?id=20", None).await, None);
    assert_eq!(granted("/1.1/statuses/user_timeline.json?screen_name=one", None).await, None);
    for target in
        ["/2/tweets?ids=20", "/2/tweets/20", "/2/users/12/tweets", "/2/users?ids=12", "/2/tweets/search/recent?query=a"]
    {
        assert_eq!(granted(target, None).await, Some(3), "{target}");
        assert_eq!(granted(target, Some("app")).await, Some(2), "{target}");
    }
    // One window for all of an instance.
    assert_eq!(granted("/api/v1/timelines/public", None).await, Some(4));
    assert_eq!(granted("/api/v1/statuses?id[]=1", None).await, Some(0));
    let post = format!("/xrpc/app.bsky.feed.getPosts?uris={}", simulator::bluesky_uri(wall_ms() - DAY, 1));
    assert_eq!(granted(&post, None).await, None);

    // Where nothing lower is set, an endpoint has its own.
    let usual = start(plain()).await;
    let limit = async |target: &str, token| raw(&usual, "GET", target, token, "").await.1["x-rate-limit-limit"].clone();
    assert_eq!(limit("/1.1/search/tweets.json?q=a", None).await, "180");
    assert_eq!(limit("/1.1/search/tweets.json?q=a", Some("app")).await, "450");
    assert_eq!(limit("/2/users/12/tweets", Some("app")).await, "10000");
    assert_eq!(limit("/2/users?ids=12", None).await, "900");
    let (_, _, body) = raw(&usual, "GET", "/1.1/application/rate_limit_status.json?resources=search", None, "").await;
    let told: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(told["resources"]["search"]["/search/tweets"]["remaining"], 179);
}
