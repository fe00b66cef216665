//! The simulated Twitter: tweets that can be foretold, Twitter's limits, and every fault on demand.

mod accounts;
mod addresses;
mod callers;
mod communities;
mod people;
mod timelines;
mod x_v2;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::post::TweetId;
use twitter_updater::providers::lookup::{Answer, Lookup, LookupError, Outcome};
use twitter_updater::providers::twitter_v1::{LookupMethod, TwitterV1, TwitterV1Options};
use twitter_updater::simulator::{self, Fault, Rule, Running, SimulatorError, SimulatorOptions};

use crate::support::http::{anonymous, bearer, ids, options, twitter};

const DAY: i64 = 86_400_000;

/// Every tweet there, whole and its own.
fn plain() -> SimulatorOptions {
    SimulatorOptions { missing_share: 0.0, withheld_share: 0.0, retweet_share: 0.0, ..SimulatorOptions::default() }
}

async fn start(options: SimulatorOptions) -> Running {
    simulator::start(SocketAddr::from(([127, 0, 0, 1], 0)), options).await.unwrap()
}

fn aged(age_ms: i64, count: u32) -> Vec<String> {
    (0..count).map(|n| TweetId::at(wall_ms() - age_ms, n).to_string()).collect()
}

async fn look_up(running: &Running, ids: &[String]) -> Result<Answer, LookupError> {
    twitter(&running.base_url()).look_up(ids, &anonymous()).await
}

/// One plain request: status, headers in lower case, body.
async fn raw(
    running: &Running,
    method: &str,
    target: &str,
    token: Option<&str>,
    body: &str,
) -> (u16, HashMap<String, String>, String) {
    let mut stream = TcpStream::connect(running.addr()).await.unwrap();
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let kind = if body.starts_with(['[', '{']) { "application/json" } else { "application/x-www-form-urlencoded" };
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: simulator\r\nConnection: close\r\n{authorization}Content-Type: {kind}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers =
        lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    (status, headers.collect(), body.to_owned())
}

async fn lookup(running: &Running, query: &str) -> Value {
    let (status, _, body) = raw(running, "GET", &format!("/1.1/statuses/lookup.json?{query}"), None, "").await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

#[tokio::test]
async fn the_same_seed_makes_the_same_tweets() {
    let (one, two) = (start(SimulatorOptions::default()).await, start(SimulatorOptions::default()).await);
    let other = start(SimulatorOptions { seed: 2, ..SimulatorOptions::default() }).await;
    // Months old: a few milliseconds between the answers add no retweet.
    let asked = aged(200 * DAY, 100);
    let first = look_up(&one, &asked).await.unwrap().outcomes;
    assert_eq!(first, look_up(&two, &asked).await.unwrap().outcomes);
    assert_ne!(first, look_up(&other, &asked).await.unwrap().outcomes);
}

#[tokio::test]
async fn the_truth_can_be_asked_for() {
    let options = SimulatorOptions { missing_share: 0.3, withheld_share: 0.2, retweet_share: 0.4, ..plain() };
    let running = start(options).await;
    let asked = aged(200 * DAY, 100);
    let answer = look_up(&running, &asked).await.unwrap();
    let mut kinds = [0; 4];
    for (id, outcome) in asked.iter().zip(&answer.outcomes) {
        let truth = running.world().tweet(TweetId::parse(id).unwrap(), wall_ms());
        match (outcome, truth) {
            (Outcome::Unavailable, None) => kinds[0] += 1,
            (Outcome::Found(tweet), Some(truth)) if truth.withheld => {
                assert_eq!((tweet.withheld_in.as_deref(), &tweet.id), (Some("XY"), id));
                kinds[1] += 1;
            }
            (Outcome::Found(tweet), Some(truth)) => {
                assert_eq!(tweet.id, *id);
                assert_eq!(tweet.created_at, Some(truth.created_at / 1000 * 1000), "v1.1 dates have whole seconds");
                assert_eq!(tweet.metrics.retweet_count, Some(truth.retweet_count));
                assert_eq!(tweet.metrics.favorite_count, Some(truth.favorite_count));
                let text = tweet.text.as_deref().unwrap();
                assert_eq!(text.starts_with("RT @"), truth.original.is_some());
                if let Some(original) = truth.original {
                    assert_eq!((truth.retweet_count, truth.favorite_count), (original.retweet_count, 0));
                    kinds[2] += 1;
                } else {
                    kinds[3] += 1;
                }
            }
            (outcome, truth) => panic!("{outcome:?} is not {truth:?}"),
        }
    }
    assert!(kinds.iter().all(|kind| *kind > 2), "every kind occurs: {kinds:?}");
}

#[tokio::test]
async fn counts_grow_and_never_shrink() {
    let running = start(SimulatorOptions { retweet_share: 0.3, ..plain() }).await;
    let made = wall_ms() - 100 * DAY;
    let (mut early, mut late) = (0, 0);
    for sequence in 0..200 {
        let id = TweetId::at(made, sequence);
        let mut before = (0, 0);
        for age in [0, 60_000, 180_000, 1_080_000, 3_600_000, DAY, 30 * DAY] {
            let tweet = running.world().tweet(id, made + age).unwrap();
            let now = (tweet.retweet_count, tweet.favorite_count);
            assert!(now.0 >= before.0 && now.1 >= before.1, "{id} went from {before:?} to {now:?}");
            if tweet.original.is_none() {
                early += if age == 3_600_000 { now.0 + now.1 } else { 0 };
                late += if age == 30 * DAY { now.0 + now.1 } else { 0 };
            }
            before = now;
        }
    }
    // 83 % of a tweet's life is over after an hour; rounding down takes a little off small counts.
    let share = early as f64 / late as f64;
    assert!((0.75..0.86).contains(&share), "{share}");
}

#[tokio::test]
async fn a_tweet_is_there_from_its_own_time_to_its_deletion() {
    let running = start(plain()).await;
    let future = TweetId::at(wall_ms() + 60_000, 1).to_string();
    let answer = look_up(&running, &[future, "20".to_owned()]).await.unwrap();
    assert_eq!(answer.outcomes[0], Outcome::Unavailable);
    let Outcome::Found(first) = &answer.outcomes[1] else { panic!() };
    // Before Snowflake, between the first tweet (2006-03-21) and 2010.
    assert!((1_142_974_214_000..1_288_834_974_657).contains(&first.created_at.unwrap()));

    let running = start(SimulatorOptions { missing_share: 1.0, ..plain() }).await;
    let made = wall_ms() - 100 * DAY;
    let there = |age| (0..400).filter(|n| running.world().tweet(TweetId::at(made, *n), made + age).is_some()).count();
    let (at_once, later, at_last) = (there(0), there(6 * 3_600_000), there(100 * DAY));
    assert!((150..250).contains(&at_once), "half were never there: {at_once}");
    assert!(later < at_once && later > 30, "some are deleted after a while: {later}");
    assert_eq!(at_last, 0);
}

#[tokio::test]
async fn an_object_has_the_fields_of_a_recorded_one() {
    let running = start(SimulatorOptions { retweet_share: 1.0, ..plain() }).await;
    let id = &aged(DAY, 1)[0];
    let extended = &lookup(&running, &format!("id={id}&tweet_mode=extended")).await[0];
    let fields = [
        "created_at",
        "id",
        "id_str",
        "full_text",
        "truncated",
        "display_text_range",
        "entities",
        "source",
        "in_reply_to_status_id",
        "in_reply_to_status_id_str",
        "in_reply_to_user_id",
        "in_reply_to_user_id_str",
        "in_reply_to_screen_name",
        "user",
        "geo",
        "coordinates",
        "place",
        "contributors",
        "retweeted_status",
        "is_quote_status",
        "retweet_count",
        "favorite_count",
        "favorited",
        "retweeted",
        "lang",
    ];
    for field in fields {
        assert!(extended.get(field).is_some(), "{field} is missing");
    }
    assert!(extended.get("text").is_none());
    let text: Vec<char> = extended["full_text"].as_str().unwrap().chars().collect();
    assert_eq!(extended["display_text_range"], json!([0, text.len()]));
    // The mention stands where the entities say.
    let mention = &extended["entities"]["user_mentions"][0];
    let (from, to) =
        (mention["indices"][0].as_u64().unwrap() as usize, mention["indices"][1].as_u64().unwrap() as usize);
    let named: String = text[from..to].iter().collect();
    assert_eq!(named, format!("@{}", mention["screen_name"].as_str().unwrap()));
    let bytes = extended.to_string().len();
    assert!((3_000..8_000).contains(&bytes), "{bytes} bytes");

    let short = &lookup(&running, &format!("id={id}&trim_user=true&include_entities=false")).await[0];
    assert!(short.get("full_text").is_none() && short.get("entities").is_none());
    assert!(short["text"].as_str().unwrap().chars().count() <= 140);
    assert_eq!(short["user"].as_object().unwrap().len(), 2);
}

#[tokio::test]
async fn map_and_array_follow_twitters_rules() {
    let running = start(plain()).await;
    let asked = aged(DAY, 30);
    let future = TweetId::at(wall_ms() + DAY, 1).to_string();
    let list = asked.join(",");

    let map = lookup(&running, &format!("id={list},{future},X&map=true")).await;
    let map = map["id"].as_object().unwrap();
    assert_eq!(map.len(), 32);
    assert_eq!((&map[&future], &map["X"]), (&Value::Null, &Value::Null));
    assert_eq!(map[&asked[3]]["id_str"], asked[3].as_str());

    // Twice asked, once answered; the missing left out; an order of its own, the same every time.
    let query = format!("id={list},{list},{future},X");
    let array = lookup(&running, &query).await;
    let order = |array: &Value| -> Vec<String> {
        array.as_array().unwrap().iter().map(|tweet| tweet["id_str"].as_str().unwrap().to_owned()).collect()
    };
    let answered = order(&array);
    assert_ne!(answered, asked);
    assert_eq!(answered, order(&lookup(&running, &query).await));
    let (mut sorted, mut expected) = (answered, asked);
    sorted.sort();
    expected.sort();
    assert_eq!(sorted, expected);

    assert_eq!(lookup(&running, &format!("id={future}")).await, json!([]), "nothing found is a success");
    let (status, headers, _) = raw(&running, "POST", "/1.1/statuses/lookup.json", None, "id=20&map=true").await;
    assert_eq!((status, headers["content-type"].as_str()), (200, "application/json;charset=utf-8"));
    assert!(headers.contains_key("date"));
}

#[tokio::test]
async fn more_than_a_hundred_ids_or_none_are_refused() {
    let running = start(plain()).await;
    let twitter =
        TwitterV1::new(TwitterV1Options { method: LookupMethod::Post, ..options(&running.base_url()) }).unwrap();
    let asked = aged(DAY, 101);
    assert_eq!(twitter.look_up(&asked[..100], &anonymous()).await.unwrap().outcomes.len(), 100);
    let form = format!("id={}", asked.join(","));
    let (status, _, body) = raw(&running, "POST", "/1.1/statuses/lookup.json", None, &form).await;
    assert_eq!((status, body.contains("\"code\":18")), (403, true));
    let (status, _, body) = raw(&running, "GET", "/1.1/statuses/lookup.json?map=true", None, "").await;
    assert_eq!((status, body.contains("\"code\":38")), (403, true));
    let (status, _, body) = raw(&running, "GET", "/1.1/statuses/nowhere.json", None, "").await;
    assert_eq!((status, body.contains("\"code\":34")), (404, true));
}

#[tokio::test]
async fn a_window_is_per_credential_and_starts_with_its_first_call() {
    let window = Duration::from_secs(900);
    let running = start(SimulatorOptions { calls_per_window: 2, app_calls_per_window: 2, window, ..plain() }).await;
    let twitter = twitter(&running.base_url());
    let asked = ids(&["20"]);
    let before = wall_ms();
    let first = twitter.look_up(&asked, &bearer("one")).await.unwrap().quota.unwrap();
    assert_eq!((first.limit, first.remaining), (2, 1));
    assert!((before + 900_000..wall_ms() + 902_000).contains(&first.reset_at));
    assert_eq!(twitter.look_up(&asked, &bearer("one")).await.unwrap().quota.unwrap().remaining, 0);
    let LookupError::Throttled { status: 429, pause, quota: Some(quota) } =
        twitter.look_up(&asked, &bearer("one")).await.unwrap_err()
    else {
        panic!()
    };
    assert_eq!((quota.remaining, quota.reset_at), (0, first.reset_at));
    assert!(pause > Duration::from_secs(890) && pause <= Duration::from_secs(902), "{pause:?}");
    assert_eq!(twitter.look_up(&asked, &bearer("two")).await.unwrap().quota.unwrap().remaining, 1);
    assert_eq!(twitter.look_up(&asked, &anonymous()).await.unwrap().quota.unwrap().remaining, 1);
    assert_eq!(running.counters().throttled, 1);

    let (status, headers, body) =
        raw(&running, "GET", "/1.1/application/rate_limit_status.json", Some("two"), "").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, headers["x-rate-limit-remaining"].as_str()), (200, "179"));
    assert_eq!(body["resources"]["statuses"]["/statuses/lookup"]["remaining"], 1);
    assert_eq!(body["resources"]["application"]["/application/rate_limit_status"]["limit"], 180);
    let some = "/1.1/application/rate_limit_status.json?resources=statuses,users";
    let body: Value = serde_json::from_str(&raw(&running, "GET", some, Some("two"), "").await.2).unwrap();
    assert_eq!(body["resources"].as_object().unwrap().keys().collect::<Vec<_>>(), ["statuses"]);
}

#[tokio::test]
async fn without_a_limit_nothing_is_said_of_one() {
    let running = start(SimulatorOptions { calls_per_window: 0, ..plain() }).await;
    assert_eq!(look_up(&running, &ids(&["20"])).await.unwrap().quota, None);
}

#[tokio::test]
async fn only_known_tokens_are_let_in_when_some_are_named() {
    let tokens = Some(vec!["good".to_owned().into(), "fine".to_owned().into()]);
    let running = start(SimulatorOptions { bearer_tokens: tokens, ..plain() }).await;
    let twitter = twitter(&running.base_url());
    twitter.look_up(&ids(&["20"]), &bearer("fine")).await.unwrap();
    for (credential, code) in [(bearer("bad"), "code 89"), (anonymous(), "code 215")] {
        let error = twitter.look_up(&ids(&["20"]), &credential).await.unwrap_err();
        assert!(matches!(&error, LookupError::Credential(why) if why.contains(code)), "{error:?}");
    }
}

#[tokio::test]
async fn faults_inside_an_answer() {
    let running = start(plain()).await;
    let asked = aged(DAY, 5);
    let found = |answer: &Answer| answer.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Found(_))).count();

    running.inject(Fault::BrokenTweet, 1);
    let answer = look_up(&running, &asked).await.unwrap();
    assert_eq!(found(&answer), 4);
    assert!(matches!(answer.outcomes[0], Outcome::Broken(_)), "{:?}", answer.outcomes[0]);

    running.inject(Fault::AllMissing, 1);
    let answer = look_up(&running, &asked).await.unwrap();
    assert_eq!(answer.outcomes, vec![Outcome::Unavailable; 5]);

    running.inject(Fault::SomeMissing { share: 0.5 }, 2);
    let many = aged(DAY, 100);
    let some = look_up(&running, &many).await.unwrap();
    assert!((30..70).contains(&found(&some)), "about half: {}", found(&some));
    assert_eq!(some.outcomes, look_up(&running, &many).await.unwrap().outcomes, "the same ones");

    running.inject(Fault::Unasked, 1);
    let answer = look_up(&running, &asked).await.unwrap();
    assert_eq!((found(&answer), answer.unsolicited), (5, 1));

    running.inject(Fault::Duplicates, 2);
    let answer = look_up(&running, &asked).await.unwrap();
    assert_eq!((found(&answer), answer.unsolicited), (5, 0));
    let twice = lookup(&running, &format!("id={}", asked.join(","))).await;
    assert_eq!(twice.as_array().unwrap().len(), 10);

    running.faults().add(Fault::Poison { ids: vec![asked[2].clone()] });
    for _ in 0..2 {
        let error = look_up(&running, &asked).await.unwrap_err();
        assert!(matches!(error, LookupError::BadRequest(_)), "{error:?}");
        assert_eq!(found(&look_up(&running, &asked[..2]).await.unwrap()), 2);
    }
    running.faults().clear();
    assert_eq!(found(&look_up(&running, &asked).await.unwrap()), 5);

    running.inject(Fault::Slow { ms: 300 }, 1);
    running.inject(Fault::AllMissing, 1);
    let watch = std::time::Instant::now();
    let answer = look_up(&running, &asked).await.unwrap();
    assert!(watch.elapsed() >= Duration::from_millis(300));
    assert_eq!(found(&answer), 0, "slowness comes with other faults");
}

#[tokio::test]
async fn a_closed_connection_has_no_answer_and_a_cut_one_has_half() {
    let running = start(plain()).await;
    let wire = async || {
        let mut stream = TcpStream::connect(running.addr()).await.unwrap();
        stream.write_all(b"GET /1.1/statuses/lookup.json?id=20 HTTP/1.1\r\nHost: s\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    };
    running.inject(Fault::Close, 1);
    assert_eq!(wire().await, "");
    running.inject(Fault::CutBody, 1);
    let cut = wire().await;
    let (head, body) = cut.split_once("\r\n\r\n").unwrap();
    let announced = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    assert!(body.starts_with("[{\"created_at\""), "{body}");
    assert_eq!(body.len(), announced.parse::<usize>().unwrap() / 2);
}

#[tokio::test]
async fn faults_are_switched_over_http() {
    let running = start(SimulatorOptions { count_ids: true, ..plain() }).await;
    let rules = json!([
        {"fault": "status", "status": 503, "code": 130, "times": 1},
        {"fault": "all_missing", "probability": 0.5},
    ]);
    let (status, ..) = raw(&running, "PUT", "/simulator/faults", None, &rules.to_string()).await;
    assert_eq!(status, 204);
    let expected = [
        Rule { times: Some(1), ..Fault::Status { status: 503, code: Some(130) }.into() },
        Rule { probability: 0.5, ..Fault::AllMissing.into() },
    ];
    assert_eq!(running.faults().rules(), expected);
    assert!(matches!(look_up(&running, &ids(&["20"])).await, Err(LookupError::Outage(_))));
    let (_, _, body) = raw(&running, "GET", "/simulator/faults", None, "").await;
    let left: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(left, json!([{"fault": "all_missing", "at": "lookup", "probability": 0.5}]));

    let mut missing = 0;
    for _ in 0..100 {
        missing += u32::from(look_up(&running, &ids(&["20"])).await.unwrap().outcomes == [Outcome::Unavailable]);
    }
    assert!((25..75).contains(&missing), "about half: {missing}");

    raw(&running, "DELETE", "/simulator/faults", None, "").await;
    assert_eq!(running.faults().rules(), []);
    look_up(&running, &ids(&["20", "21"])).await.unwrap();
    let (_, _, body) = raw(&running, "GET", "/simulator/stats", None, "").await;
    let stats: Value = serde_json::from_str(&body).unwrap();
    let expected =
        json!({"requests": 102, "exchanges": 0, "ids": 102, "throttled": 0, "faulted": 1 + missing, "charged": 0});
    assert_eq!(stats, expected);
    assert_eq!((running.lookups()["20"], running.lookups()["21"]), (101, 1));

    let (status, ..) = raw(&running, "PUT", "/simulator/faults", None, "[{\"fault\":\"plague\"}]").await;
    assert_eq!(status, 422);
}

#[tokio::test]
async fn a_fault_strikes_where_it_is_told_to() {
    let running = start(plain()).await;
    let rules = json!([
        {"fault": "answer", "at": "token", "status": 503, "headers": {"retry-after": "7"}, "body": "later", "times": 1},
        {"fault": "not_json", "at": "token", "times": 1},
        {"fault": "all_missing", "at": "token"},
        {"fault": "some_missing", "share": 0.5, "at": "token"},
        {"fault": "status", "status": 403, "code": 179, "asked": ["21"]},
    ]);
    let (status, ..) = raw(&running, "PUT", "/simulator/faults", None, &rules.to_string()).await;
    assert_eq!(status, 204);
    let keys = "Authorization: Basic a2V5OnNlY3JldA==\r\n";
    let exchange = async || {
        let mut stream = TcpStream::connect(running.addr()).await.unwrap();
        let form = "grant_type=client_credentials";
        let request = format!(
            "POST /oauth2/token HTTP/1.1\r\nHost: s\r\nConnection: close\r\n{keys}\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    // A lookup is none of their business.
    assert!(matches!(look_up(&running, &ids(&["20"])).await.unwrap().outcomes[0], Outcome::Found(_)));
    let first = exchange().await;
    assert!(
        first.starts_with("HTTP/1.1 503") && first.contains("retry-after: 7") && first.ends_with("later"),
        "{first}"
    );
    assert!(exchange().await.contains("this is no JSON"));
    // There are no tweets in a token to be missing.
    assert!(exchange().await.contains("\"token_type\":\"bearer\""));
    assert!(matches!(look_up(&running, &ids(&["20", "21"])).await, Err(LookupError::BadRequest(_))));
    let counters = running.counters();
    assert_eq!((counters.requests, counters.exchanges, counters.faulted), (2, 3, 3));
}

#[tokio::test]
async fn it_is_as_slow_as_told() {
    let options =
        SimulatorOptions { latency: Duration::from_millis(120), jitter: Duration::from_millis(40), ..plain() };
    let running = start(options).await;
    let watch = std::time::Instant::now();
    look_up(&running, &ids(&["20"])).await.unwrap();
    assert!(watch.elapsed() >= Duration::from_millis(120));
}

#[tokio::test]
async fn it_stops_also_with_a_call_held_back() {
    let running = start(plain()).await;
    let addr = running.addr();
    running.inject(Fault::Timeout, 1);
    let twitter = twitter(&running.base_url());
    let held = tokio::spawn(async move { twitter.look_up(&ids(&["20"]), &anonymous()).await });
    while running.counters().faulted == 0 {
        tokio::task::yield_now().await;
    }
    let stopped = tokio::time::timeout(Duration::from_secs(4), running.stop()).await;
    stopped.expect("it does not wait for its own deadline");
    assert!(matches!(held.await.unwrap(), Err(LookupError::Outage(_))));
    assert!(TcpStream::connect(addr).await.is_err());

    // Dropped, it ends by itself: the address becomes free.
    let running = start(plain()).await;
    let addr = running.addr();
    drop(running);
    while TcpStream::connect(addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn recorded_tweets_are_served_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let tweet = |id: &str, text: &str, more: &str| {
        format!(
            r#"{{"id_str": "{id}",  "id":{id}, "created_at":"Tue Mar 21 20:50:14 +0000 2006","text":"{text}","user":{{"id":12}}{more}}}"#
        )
    };
    // A cassette of another endpoint, one of statuses/lookup, plain files, and what must be passed over.
    let nested = format!(r#","retweeted_status":{},"quoted_status":null"#, tweet("41", "inside", ""));
    let cassette = |uri: &str, body: String| {
        json!({"http_interactions": [{
            "request": {"uri": uri}, "response": {"status": {"status_code": 200}, "body": {"string": body}},
        }]})
        .to_string()
    };
    let timeline = format!("[{}]", tweet("40", "of a timeline", ""));
    write("a.json", &cassette("https://api.twitter.com/1.1/statuses/user_timeline.json", timeline));
    let looked_up = tweet("40", "of a lookup \\ud83d", &nested);
    write(
        "deep/er/z.json",
        &cassette("https://api.twitter.com/1.1/statuses/lookup.json?id=40", format!("[{looked_up}]")),
    );
    write(
        "b.json",
        &format!(r#"{{"statuses":[{}],"id":{{"42":{}}}}}"#, tweet("41", "own", ""), tweet("42", "mapped", "")),
    );
    write("lines.json", &format!("{}\n{}\n", tweet("43", "é", ""), tweet("44", "x", "")));
    write("v2.json", r#"{"data":[{"id":"45","text":"x","created_at":"2021-01-01T00:00:00.000Z","author_id":"1"}]}"#);
    write("bad.json", "{\"id\": ");
    write("other.txt", &tweet("46", "x", ""));

    let running = start(SimulatorOptions { replay: Some(dir.path().to_owned()), ..plain() }).await;
    let replay = running.replay().unwrap();
    let mut known: Vec<&str> = replay.ids().collect();
    known.sort_unstable();
    assert_eq!(known, ["40", "41", "42", "43", "44"]);
    assert_eq!(replay.skipped.len(), 1);
    assert!(replay.skipped[0].0.ends_with("bad.json"));
    assert_eq!(replay.get("40"), Some(looked_up.as_str()), "a lookup's answer before a timeline's, byte for byte");
    assert!(replay.get("41").unwrap().contains("inside"), "inside a lookup's answer before a search's own");

    let answer = look_up(&running, &ids(&["45", "44", "43", "40"])).await.unwrap();
    let texts: Vec<Option<&str>> = answer
        .outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Found(tweet) => tweet.text.as_deref(),
            _ => None,
        })
        .collect();
    assert_eq!(texts, [None, Some("x"), Some("é"), Some("of a lookup \u{fffd}")]);
    let Outcome::Found(served) = &answer.outcomes[3] else { panic!() };
    assert_eq!(served.raw, looked_up);

    for (place, expected) in [("nothing", "Recordings"), ("", "NothingRecorded")] {
        let empty = tempfile::tempdir().unwrap();
        let options = SimulatorOptions { replay: Some(empty.path().join(place)), ..plain() };
        let error = simulator::start(SocketAddr::from(([127, 0, 0, 1], 0)), options).await.unwrap_err();
        assert!(format!("{error:?}").starts_with(expected), "{error:?}");
    }
    let taken = simulator::start(running.addr(), plain()).await.unwrap_err();
    assert!(matches!(taken, SimulatorError::Listen { .. }));
}
