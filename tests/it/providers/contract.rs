//! What every provider keeps, on the simulated API of each and against canned answers.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use twitter_updater::base::clock::{self, QueueTime, wall_ms};
use twitter_updater::model::post::TweetId;
use twitter_updater::providers::lookup::{Answer, LookupError, Outcome};
use twitter_updater::quota::Credential;
use twitter_updater::simulator::{self, Fault, Running, SimulatorOptions};

use super::all::{ALL, Bounds, Provider};
use super::{decision, found};
use crate::support::http::{CANARY, Canned, CannedServer, anonymous, bearer};

const DAY: i64 = 86_400_000;

async fn start(options: SimulatorOptions) -> Running {
    simulator::start(SocketAddr::from(([127, 0, 0, 1], 0)), options).await.unwrap()
}

/// All of them are there.
fn plain() -> SimulatorOptions {
    SimulatorOptions { missing_share: 0.0, withheld_share: 0.0, retweet_share: 0.0, ..SimulatorOptions::default() }
}

/// As many ids as a call takes, of posts that have grown up.
fn batch(provider: Provider, at: i64) -> Vec<String> {
    let limit = provider.at("http://127.0.0.1:9", Bounds::default()).capabilities().batch_limit;
    (0..limit as u32).map(|n| provider.id(at, n)).collect()
}

async fn ask(provider: Provider, base_url: &str, ids: &[String]) -> Result<Answer, LookupError> {
    ask_as(provider, base_url, ids, &bearer(CANARY)).await
}

async fn ask_as(provider: Provider, base_url: &str, ids: &[String], who: &Credential) -> Result<Answer, LookupError> {
    let result = provider.at(base_url, Bounds::default()).look_up(ids, who).await;
    if let Err(error) = &result {
        silent(error, ids);
    }
    result
}

/// No error tells the token or an id, neither in its text nor in its Debug form.
fn silent(error: &LookupError, ids: &[String]) {
    let told = format!("{error} {error:?}");
    assert!(!told.contains(CANARY), "{told}");
    assert!(!ids.iter().any(|id| told.contains(id.as_str())), "{told}");
}

#[tokio::test]
async fn each_asked_id_gets_the_one_outcome_that_is_true() {
    let options = SimulatorOptions { missing_share: 0.4, withheld_share: 0.1, ..SimulatorOptions::default() };
    let running = start(options).await;
    let at = wall_ms() - 20 * DAY;
    for provider in ALL {
        let ids = batch(provider, at);
        let (mut here, mut gone) = (0, 0);
        // One by one where a call takes no more, and until there were both kinds: of a dozen all may be there.
        for n in 0..if ids.len() == 1 { 60 } else { 1 } {
            if n >= 12 && here > 0 && gone > 0 {
                break;
            }
            let ids: Vec<String> = if ids.len() == 1 { vec![provider.id(at, n)] } else { ids.clone() };
            let answer = ask(provider, &running.base_url(), &ids).await.unwrap();
            assert_eq!((answer.outcomes.len(), answer.unsolicited), (ids.len(), 0), "{provider:?}");
            for (sequence, (id, outcome)) in (n..).zip(ids.iter().zip(&answer.outcomes)) {
                let truth = running.world().tweet(TweetId::at(at, sequence), wall_ms());
                match (outcome, truth) {
                    (Outcome::Found(tweet), Some(truth)) if truth.withheld => {
                        // Mastodon and Bluesky withhold nothing by country.
                        let told = matches!(provider, Provider::TwitterV1 | Provider::XV2).then_some("XY");
                        assert_eq!(tweet.withheld_in.as_deref(), told, "{provider:?}");
                    }
                    (Outcome::Found(tweet), Some(truth)) => {
                        here += 1;
                        assert_eq!(&tweet.id, id);
                        assert_eq!(tweet.created_at.map(|at| at / 1000), Some(at / 1000));
                        assert_eq!(tweet.metrics.retweet_count, Some(truth.retweet_count), "{provider:?}");
                        assert_eq!(tweet.metrics.favorite_count, Some(truth.favorite_count), "{provider:?}");
                        assert!(tweet.text.is_some() && tweet.author_id.is_some() && !tweet.raw.is_empty());
                    }
                    (Outcome::Unavailable | Outcome::Absent(_), None) => gone += 1,
                    (outcome, truth) => panic!("{provider:?}: {outcome:?} of {truth:?}"),
                }
            }
        }
        assert!(here > 0 && gone > 0, "{provider:?}: {here} here, {gone} gone");
    }
}

#[tokio::test]
async fn what_is_asked_twice_is_asked_once_and_answered_twice() {
    let running = start(SimulatorOptions { count_ids: true, ..plain() }).await;
    for provider in ALL {
        let id = provider.id(wall_ms() - DAY, 7);
        let answer = ask(provider, &running.base_url(), &[id.clone(), id.clone()]).await.unwrap();
        assert_eq!(answer.outcomes.len(), 2);
        assert_eq!(found(&answer.outcomes[0]).id, id);
        assert_eq!(answer.outcomes[0], answer.outcomes[1]);
        let ids = batch(provider, wall_ms() - DAY);
        let twice: Vec<String> = ids.iter().chain(&ids).cloned().collect();
        assert_eq!(ask(provider, &running.base_url(), &twice).await.unwrap().outcomes.len(), 2 * ids.len());
    }
}

#[tokio::test]
async fn nothing_and_too_much_are_answered_without_a_call() {
    let running = start(plain()).await;
    for provider in ALL {
        let answer = ask(provider, &running.base_url(), &[]).await.unwrap();
        assert_eq!((answer.outcomes.len(), answer.unsolicited, answer.quota), (0, 0, None));
        let mut ids = batch(provider, wall_ms() - DAY);
        ids.push(provider.id(wall_ms() - DAY, 60_000));
        let error = ask(provider, &running.base_url(), &ids).await.unwrap_err();
        assert_eq!(decision(&error), "too large", "{provider:?}");
    }
    assert_eq!(running.counters().requests, 0);
}

#[tokio::test]
async fn an_answer_that_is_odd_in_its_posts_costs_no_more_than_those() {
    let running = start(plain()).await;
    for provider in ALL {
        let ids = batch(provider, wall_ms() - DAY);
        let mut faults =
            vec![(Fault::BrokenTweet, (ids.len() - 1, 1, 0, 0)), (Fault::AllMissing, (0, 0, ids.len(), 0))];
        if provider.lists() {
            faults.push((Fault::Duplicates, (ids.len(), 0, 0, 0)));
            faults.push((Fault::Unasked, (ids.len(), 0, 0, 1)));
        }
        for (fault, expected) in faults {
            running.inject(fault.clone(), 1);
            let answer = ask(provider, &running.base_url(), &ids).await.unwrap();
            let count = |kind: fn(&Outcome) -> bool| answer.outcomes.iter().filter(|outcome| kind(outcome)).count();
            let found = count(|outcome| matches!(outcome, Outcome::Found(_)));
            let broken = count(|outcome| matches!(outcome, Outcome::Broken(_)));
            let missing = count(|outcome| matches!(outcome, Outcome::Unavailable | Outcome::Absent(_)));
            assert_eq!((found, broken, missing, answer.unsolicited), expected, "{provider:?}, {fault:?}");
        }
    }
}

#[tokio::test]
async fn every_failure_of_a_call_is_the_same_decision_everywhere() {
    let status = |status, code| Fault::Status { status, code };
    let table = [
        (Fault::Timeout, "outage"),
        (Fault::Close, "outage"),
        (Fault::CutBody, "outage"),
        (status(500, None), "outage"),
        (status(503, Some(130)), "outage"),
        (status(504, None), "outage"),
        (status(404, None), "outage"),
        (status(302, None), "bad answer"),
        (Fault::Html, "bad answer"),
        (Fault::NotJson, "bad answer"),
        (Fault::TruncatedJson, "bad answer"),
        (Fault::Oversized { bytes: 2 << 20 }, "bad answer"),
        (Fault::WrongShape, "bad answer"),
        (Fault::ErrorsInSuccess, "bad answer"),
        (Fault::RateLimited { reset_s: 100 }, "throttled"),
        (Fault::TooFast, "throttled"),
        (status(429, None), "throttled"),
        (status(401, Some(89)), "credential"),
        (status(403, None), "unready"),
        (status(400, Some(214)), "bad request"),
        (status(413, None), "too large"),
    ];
    let running = start(plain()).await;
    for provider in ALL {
        let ids = batch(provider, wall_ms() - DAY);
        for (fault, expected) in &table {
            running.faults().clear();
            running.inject(fault.clone(), 1);
            let timeout = if *fault == Fault::Timeout { 300 } else { 30_000 };
            let bounds = Bounds { timeout: Duration::from_millis(timeout), ..Bounds::default() };
            let lookup = provider.at(&running.base_url(), bounds);
            let error = lookup.look_up(&ids, &bearer(CANARY)).await.unwrap_err();
            silent(&error, &ids);
            assert_eq!(decision(&error), *expected, "{provider:?}, {fault:?}: {error}");
            if let LookupError::Throttled { pause, quota, .. } = error {
                let seconds = pause.as_secs();
                match fault {
                    Fault::RateLimited { .. } => {
                        assert!((90..=100).contains(&seconds), "{provider:?}: {seconds} s");
                        assert_eq!(quota.unwrap().remaining, 0, "{provider:?}");
                    }
                    Fault::TooFast => assert_eq!(seconds, 5, "{provider:?}"),
                    _ => assert_eq!(seconds, 60, "{provider:?}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn limits_are_told_and_used_up() {
    let options = SimulatorOptions {
        calls_per_window: 2,
        x_calls_per_window: 2,
        mastodon_calls_per_window: 2,
        bluesky_calls_per_window: 2,
        // As long as is believed, so that two windows hardly meet while the test runs.
        window: Duration::from_secs(3_600),
        ..plain()
    };
    for provider in ALL {
        let running = start(options.clone()).await;
        let ids = batch(provider, wall_ms() - DAY);
        let ask = async || ask_as(provider, &running.base_url(), &ids, &anonymous()).await;
        let mut ends = Vec::new();
        for remaining in [1, 0] {
            let quota = ask().await.unwrap().quota.unwrap();
            assert_eq!((quota.limit, quota.remaining), (2, remaining), "{provider:?}");
            assert!(quota.reset_in > 0 && quota.reset_at > wall_ms(), "{provider:?}: {quota:?}");
            ends.push(quota.reset_at);
        }
        let LookupError::Throttled { quota, .. } = ask().await.unwrap_err() else { panic!("{provider:?}") };
        let quota = quota.unwrap();
        assert_eq!(quota.remaining, 0, "{provider:?}");
        assert_eq!(ends, [quota.reset_at; 2], "{provider:?}: each answer tells the same end");
    }
}

#[tokio::test]
async fn a_token_is_sent_and_one_that_is_not_good_is_refused() {
    let options = SimulatorOptions { bearer_tokens: Some(vec![CANARY.into()]), ..plain() };
    let running = start(options).await;
    for provider in ALL {
        let ids = batch(provider, wall_ms() - DAY);
        ask(provider, &running.base_url(), &ids).await.unwrap();
        for who in [bearer("zz-stranger"), anonymous(), bearer("two\nlines")] {
            let error = ask_as(provider, &running.base_url(), &ids, &who).await.unwrap_err();
            assert_eq!(decision(&error), "credential", "{provider:?}: {error}");
            assert!(!format!("{error:?}").contains("zz-stranger") && !format!("{error:?}").contains("lines"));
        }
        let lookup = provider.at(&running.base_url(), Bounds::default());
        let asked = running.counters().requests;
        lookup.check(&bearer(CANARY)).await.unwrap();
        let error = lookup.check(&bearer("zz-stranger")).await.unwrap_err();
        assert_eq!(decision(&error), "credential", "{provider:?}: {error}");
        assert_eq!(running.counters().requests, asked, "{provider:?}: a check is no lookup");
    }
}

#[tokio::test]
async fn a_server_that_refuses_anonymous_requests_is_told_as_that() {
    for provider in [Provider::Mastodon, Provider::MastodonStatus, Provider::Bluesky] {
        let ids = [provider.id(wall_ms() - DAY, 1)];
        for (status, body) in [(401, r#"{"error":"AuthMissing"}"#), (403, r#"{"error":"no"}"#), (403, "<html>")] {
            let server = CannedServer::start(Canned::new(status, body)).await;
            let said = async |who: &Credential| {
                let error = ask_as(provider, &server.base_url(), &ids, who).await.unwrap_err();
                assert!(matches!(decision(&error), "credential" | "unready"), "{provider:?}, {status}: {error}");
                error.to_string()
            };
            let nobody = said(&anonymous()).await;
            let remedy = if provider == Provider::Bluesky { "bluesky.api" } else { "add a token for this server" };
            assert!(nobody.contains("refuses anonymous requests") && nobody.contains(remedy), "{nobody}");
            assert!(!nobody.contains("rejects the token") && !nobody.contains("session"), "{nobody}");
            assert!(!said(&bearer("any")).await.contains("anonymous"), "{provider:?}, {status}");
            let lookup = provider.at(&server.base_url(), Bounds::default());
            assert_eq!(lookup.check(&anonymous()).await.unwrap_err().to_string(), nobody);
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_only_its_host_is_named() {
    for provider in ALL {
        let ids = batch(provider, wall_ms() - DAY);
        let elsewhere = CannedServer::start(Canned::new(200, provider.body(&[provider.post(&ids[0], "x")]))).await;
        let target = format!("http://localhost:{}/?ids={}&t={CANARY}", elsewhere.addr.port(), ids[0]);
        let server = CannedServer::start(Canned::new(302, "").header("location", &target)).await;
        let error = ask(provider, &server.base_url(), &ids).await.unwrap_err();
        assert_eq!(decision(&error), "bad answer");
        assert!(error.to_string().contains("a redirect to localhost"), "{error}");
        assert_eq!((server.asked().len(), elsewhere.asked().len()), (1, 0), "{provider:?}");
    }
}

/// Lives would end before their time, and answers dated ahead would keep out all others.
#[tokio::test]
async fn no_answer_is_believed_while_the_queue_s_clock_is_far_ahead_of_the_api_s_and_of_ours() {
    for provider in ALL {
        let ids = batch(provider, wall_ms() - DAY);
        let body = provider.body(&[provider.post(&ids[0], "x")]);
        let noon = ("date", "Sat, 28 Nov 2026 12:00:00 GMT");
        for (status, ahead_ms, kept_s, is_believed) in [
            (200, 7_200_000, 0, false),
            (404, 7_200_000, 0, false),
            (200, 1_800_000, 0, true),
            // A cache had it for as long.
            (200, 7_200_000, 7_000, true),
            // Behind, nothing ends; and a quota that is used up is one.
            (200, -7_200_000, 0, true),
            (429, 7_200_000, 0, true),
        ] {
            let wall = clock::simulate_clock(1_795_867_200_000);
            let canned = Canned::new(status, body.clone()).header(noon.0, noon.1).header("age", &format!("{kept_s}"));
            let server = CannedServer::start(canned).await;
            let clock = QueueTime::starting_at(clock::wall_ms() + ahead_ms);
            let answer = clock::with_queue_clock(clock, ask(provider, &server.base_url(), &ids[..1])).await;
            drop(wall);
            let is_doubted = matches!(&answer, Err(LookupError::QueueClock(why)) if why.contains("ahead of the API's"));
            assert_eq!(is_doubted, !is_believed, "{provider:?} {status} {ahead_ms} {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_left_unread() {
    for provider in ALL {
        let id = provider.id(wall_ms() - DAY, 1);
        let body = provider.body(&[provider.post(&id, &"x".repeat(20_000))]);
        for (max_body_bytes, fits) in [(body.len(), true), (body.len() - 1, false)] {
            let server = CannedServer::start(Canned::new(200, body.clone())).await;
            let lookup = provider.at(&server.base_url(), Bounds { max_body_bytes, ..Bounds::default() });
            match lookup.look_up(std::slice::from_ref(&id), &anonymous()).await {
                Ok(answer) => assert!(fits && found(&answer.outcomes[0]).id == id, "{provider:?}"),
                Err(error) => assert!(!fits && error.to_string().contains("over the limit"), "{provider:?}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn bad_bytes_cost_one_character_and_the_first_of_two_wins() {
    for provider in ALL.into_iter().filter(|provider| provider.lists()) {
        let ids = batch(provider, wall_ms() - DAY);
        let posts = [
            provider.post(&ids[0], "latin ?"),
            provider.post(&ids[1], "first"),
            provider.post(&ids[1], "second"),
            json!({ "nobody": "s" }),
            json!(7),
        ];
        let mut body = provider.body(&posts).into_bytes();
        let place = body.iter().position(|byte| *byte == b'?').unwrap();
        body[place] = 0xe9;
        let server = CannedServer::start(Canned::new(200, body)).await;
        let answer = ask(provider, &server.base_url(), &ids[..3]).await.unwrap();
        assert_eq!(found(&answer.outcomes[0]).text.as_deref(), Some("latin \u{fffd}"), "{provider:?}");
        assert_eq!(found(&answer.outcomes[1]).text.as_deref(), Some("first"), "{provider:?}");
        // Either of the two objects that fit no id may be the third's: it is not known to be missing.
        assert!(matches!(answer.outcomes[2], Outcome::Broken(_)) && answer.unsolicited == 2, "{provider:?}");
    }
}

#[test]
fn an_id_tells_when_its_post_was_made_or_that_it_is_none() {
    for provider in ALL {
        let lookup = provider.at("http://127.0.0.1:9", Bounds::default());
        let at = 1_730_000_000_123;
        assert_eq!(lookup.created_at(&provider.id(at, 1_000)), Ok(Some(at)), "{provider:?}");
        for bad in ["", " ", "two words", "a/b", "id\n", "ä"] {
            assert!(lookup.created_at(bad).is_err(), "{provider:?}: {bad:?}");
        }
        assert!(!lookup.capabilities().endpoint.is_empty());
    }
}
