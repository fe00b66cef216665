//! Reading of the pause and the quota window from answers: every form that servers use, every network, and every kind of call (posts,
//! accounts, lists and timelines).

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::json;
use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::model::relation::ListKind;
use twitter_updater::providers::bluesky::timeline::{self as bluesky, BlueskyApi};
use twitter_updater::providers::http::{HttpClient, HttpOptions};
use twitter_updater::providers::lookup::{LookupError, Quota};
use twitter_updater::providers::mastodon::timeline::{self as mastodon, MastodonApi};
use twitter_updater::providers::relations::PageRequest;
use twitter_updater::providers::source::SourceKind;
use twitter_updater::providers::timeline::{Timeline, TimelineRequest};
use twitter_updater::providers::twitter_v1::timeline::{self as twitter_v1, TwitterApi};
use twitter_updater::providers::x_v2::Fields;
use twitter_updater::providers::x_v2::timeline::{self as x_v2, XApi};

use super::all::{ALL, Bounds, Provider};
use super::decision;
use crate::support::http::{CANARY, Canned, CannedServer, bearer};

const CALLS: [&str; 4] = ["posts", "accounts", "lists", "timelines"];

/// The post that is looked up.
fn post_id(provider: Provider) -> String {
    static MADE_AT: LazyLock<Millis> = LazyLock::new(|| wall_ms() - 86_400_000);
    provider.id(*MADE_AT, 1)
}

fn timeline(provider: Provider, base_url: &str) -> Box<dyn Timeline> {
    let http = HttpClient::new(&HttpOptions::default()).unwrap();
    match provider {
        Provider::TwitterV1 => {
            let kind = twitter_v1::Kind::User { screen_name: Some("ann".to_owned()), user_id: None };
            Box::new(kind.build(&TwitterApi::new(http, base_url).unwrap(), Duration::ZERO))
        }
        Provider::XV2 => {
            let kind = x_v2::Kind::Search { query: "rust".to_owned() };
            Box::new(kind.build(&XApi::new(http, base_url, Fields::default()).unwrap(), Duration::ZERO))
        }
        Provider::Mastodon | Provider::MastodonStatus => {
            let kind = mastodon::Kind::Public { local: false };
            Box::new(kind.build(&MastodonApi::new(http, base_url).unwrap(), Duration::ZERO))
        }
        Provider::Bluesky => {
            let kind = bluesky::Kind::Author { actor: "ann.example.org".to_owned() };
            Box::new(kind.build(&BlueskyApi::new(http, base_url).unwrap(), Duration::ZERO))
        }
    }
}

/// Makes a call and returns the quota that the answer states, or the error.
async fn ask(provider: Provider, call: &str, answer: &Canned) -> Result<Option<Quota>, LookupError> {
    let server = CannedServer::start(answer.clone()).await;
    let (base_url, who, bounds) = (server.base_url(), bearer(CANARY), Bounds::default());
    let account = provider.account_id(1);
    match call {
        "posts" => {
            let ids = [post_id(provider)];
            provider.at(&base_url, bounds).look_up(&ids, &who).await.map(|answer| answer.quota)
        }
        "accounts" => {
            provider.accounts_at(&base_url, bounds).look_up(&[account], &who).await.map(|answer| answer.quota)
        }
        "lists" => {
            let request = PageRequest { side: ListKind::Followers, owner: &account, cursor: None, limit: 3 };
            provider.relations_at(&base_url, bounds).page(request, &who).await.map(|page| page.quota)
        }
        _ => {
            let timeline = timeline(provider, &base_url);
            let ask = TimelineRequest { since: None, below: None, cursor: None, count: timeline.rules().count };
            timeline.page(&ask, &who).await.map(|page| page.quota)
        }
    }
}

/// A successful answer without objects.
fn empty(provider: Provider, call: &str) -> Canned {
    let body = match (provider, call) {
        (Provider::TwitterV1, "posts") => json!({ "id": {} }),
        (Provider::TwitterV1, "lists") => json!({ "ids": [], "next_cursor_str": "0" }),
        (Provider::XV2, "posts") => json!({ "data": [{ "id": post_id(provider), "text": "x" }] }),
        (Provider::XV2, "accounts") => json!({ "data": [provider.account(&provider.account_id(1), "ann")] }),
        (Provider::XV2, _) => json!({ "meta": { "result_count": 0 } }),
        (Provider::Bluesky, "posts") => json!({ "posts": [] }),
        (Provider::Bluesky, "accounts") => json!({ "profiles": [] }),
        (Provider::Bluesky, "lists") => json!({ "subject": { "did": provider.account_id(1) }, "followers": [] }),
        (Provider::Bluesky, _) => json!({ "feed": [] }),
        (Provider::Mastodon, "accounts") => json!([provider.account(&provider.account_id(1), "ann")]),
        (Provider::MastodonStatus, "accounts") => provider.account(&provider.account_id(1), "ann"),
        (Provider::MastodonStatus, "posts") => {
            let id = post_id(provider);
            json!({ "id": id, "created_at": "2026-01-01T00:00:00.000Z", "content": "x", "account": { "id": "1" } })
        }
        _ => json!([]),
    };
    Canned::new(200, body.to_string())
}

/// Adds the network's headers of a quota window to the answer.
fn with_window(provider: Provider, answer: Canned, remaining: &str, reset: &str) -> Canned {
    let prefix = match provider {
        Provider::TwitterV1 | Provider::XV2 => "x-rate-limit",
        Provider::Mastodon | Provider::MastodonStatus => "x-ratelimit",
        Provider::Bluesky => "ratelimit",
    };
    [("limit", "900"), ("remaining", remaining), ("reset", reset)]
        .into_iter()
        .fold(answer, |answer, (name, value)| answer.header(&format!("{prefix}-{name}"), value))
}

fn date(at: Millis) -> String {
    let date = std::time::UNIX_EPOCH + Duration::from_millis(at.unsigned_abs());
    httpdate(date)
}

/// `Sun, 29 Nov 2026 10:00:00 GMT`
fn httpdate(at: std::time::SystemTime) -> String {
    let format = time::macros::format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    time::OffsetDateTime::from(at).format(format).unwrap()
}

fn error(provider: Provider) -> serde_json::Value {
    match provider {
        Provider::TwitterV1 => json!({ "errors": [{ "code": 88, "message": "x" }] }),
        Provider::XV2 => json!({ "title": "Too Many Requests", "type": "about:blank", "status": 429 }),
        Provider::Mastodon | Provider::MastodonStatus => json!({ "error": "Too many requests" }),
        Provider::Bluesky => json!({ "error": "RateLimitExceeded", "message": "x" }),
    }
}

#[tokio::test]
async fn a_5xx_with_retry_after_parks_the_credential() {
    for provider in ALL {
        for call in CALLS {
            for status in [500, 502, 503, 504] {
                for (said, seconds) in
                    [("15".to_owned(), 14..=15), ("0".to_owned(), 0..=0), (date(wall_ms() + 20_500), 18..=21)]
                {
                    let answer = Canned::new(status, "over capacity").header("retry-after", &said);
                    let error = ask(provider, call, &answer).await.unwrap_err();
                    let what = format!("{provider:?}, {call}, {status}, {said}: {error}");
                    assert_eq!(decision(&error), "overloaded", "{what}");
                    let park = error.park().unwrap();
                    assert!(seconds.contains(&park.pause.as_secs()) && !park.everywhere, "{what}");
                }
            }
            for said in ["99999999999", "-5", "soon", ""] {
                let answer = Canned::new(503, "over capacity").header("retry-after", said);
                let error = ask(provider, call, &answer).await.unwrap_err();
                assert_eq!(decision(&error), "outage", "{provider:?}, {call}, {said:?}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn a_reset_is_read_in_each_form_that_servers_have() {
    for provider in ALL {
        for call in CALLS {
            let end = (wall_ms() / 1_000 + 25) * 1_000;
            let rfc3339 = |format: &str| {
                let end = time::OffsetDateTime::from_unix_timestamp(end / 1_000).unwrap();
                let text = end.format(&time::format_description::well_known::Rfc3339).unwrap();
                text.replace('Z', format)
            };
            let forms: BTreeMap<&str, String> = [
                ("seconds since the epoch", (end / 1_000).to_string()),
                ("milliseconds since the epoch", end.to_string()),
                ("seconds that are left", "25".to_owned()),
                ("a date as Mastodon has it", rfc3339(".123456Z")),
                ("a date with an offset", rfc3339("+00:00")),
                ("a date of HTTP", date(end)),
            ]
            .into();
            for (form, reset) in forms {
                let what = format!("{provider:?}, {call}, {form}: {reset}");
                let refusal = with_window(provider, Canned::new(429, error(provider).to_string()), "0", &reset);
                let refused = ask(provider, call, &refusal).await.unwrap_err();
                let LookupError::Throttled { pause, quota, .. } = refused else { panic!("{what}: {refused}") };
                assert!((20..=26).contains(&pause.as_secs()), "{what}: {pause:?}");
                assert_eq!(quota.unwrap().remaining, 0, "{what}");
                let success = with_window(provider, empty(provider, call), "7", &reset);
                let quota = ask(provider, call, &success).await.unwrap_or_else(|error| panic!("{what}: {error}"));
                let quota = quota.unwrap_or_else(|| panic!("{what}: no window"));
                assert_eq!((quota.limit, quota.remaining), (900, 7), "{what}");
                assert!((20_000..=26_000).contains(&quota.reset_in), "{what}: {quota:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_negative_remaining_counts_as_no_call_left() {
    for provider in ALL {
        for call in CALLS {
            let reset = (wall_ms() / 1_000 + 8).to_string();
            for remaining in ["-1", "-900", "-99999999999"] {
                let success = with_window(provider, empty(provider, call), remaining, &reset);
                let quota = ask(provider, call, &success).await.unwrap().unwrap();
                assert_eq!((quota.limit, quota.remaining), (900, 0), "{provider:?}, {call}, {remaining}");
                assert!(quota.reset_in > 0, "{provider:?}, {call}, {remaining}: {quota:?}");
            }
        }
    }
}
