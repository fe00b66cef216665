//! X API v2: found posts in `data`, the others as problems in `errors`.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::{INVALID, MoreCounts, NONE, Shown, TOO_MANY};
use crate::simulator::render::{iso, said};
use crate::simulator::reply::{Found, success, twitter_refusal};
use crate::simulator::text::user_id;
use crate::simulator::world::{SimulatedTweet, mix};

/// The fields that recorded answers have, as far as they were asked for.
pub fn object(shown: &Shown<'_>, tweet: &SimulatedTweet) -> String {
    let more = MoreCounts::of(tweet.retweet_count, tweet.favorite_count);
    let mut object = json!({
        "id": tweet.id.to_string(),
        "text": said(shown.world, tweet).text,
        "author_id": user_id(tweet.author).to_string(),
        "created_at": iso(tweet.created_at),
        "edit_history_tweet_ids": [tweet.id.to_string()],
        "public_metrics": {
            "retweet_count": tweet.retweet_count,
            "reply_count": more.replies,
            "like_count": tweet.favorite_count,
            "quote_count": more.quotes,
            "bookmark_count": more.bookmarks,
            "impression_count": more.impressions,
        },
    });
    if tweet.withheld {
        object["withheld"] = json!({ "copyright": true, "country_codes": ["XY"], "scope": "tweet" });
    }
    if !shown.padding.is_empty() {
        object["padding"] = shown.padding.replace('\\', "").into();
    }
    object.to_string()
}

pub fn write(found: &Found<'_>) -> String {
    let missing = found.ids.iter().zip(&found.objects).filter(|(_, object)| object.is_none());
    let errors: Vec<String> = missing.map(|(id, _)| problem(id).to_string()).collect();
    let data = found.present();
    match (data.is_empty(), errors.is_empty()) {
        (true, _) => format!("{{\"errors\":[{}]}}", errors.join(",")),
        (false, true) => format!("{{\"data\":[{data}]}}"),
        (false, false) => format!("{{\"data\":[{data}],\"errors\":[{}]}}", errors.join(",")),
    }
}

/// Of those that are not there, one in four is protected or suspended.
fn problem(id: &str) -> Value {
    let (title, detail, kind) = if id.parse::<u64>().is_ok_and(|id| mix(id).is_multiple_of(4)) {
        ("Authorization Error", "Sorry, you are not authorized to see the Tweet with", "not-authorized-for-resource")
    } else {
        ("Not Found Error", "Could not find tweet with", "resource-not-found")
    };
    json!({
        "value": id,
        "detail": format!("{detail} ids: [{id}]."),
        "title": title,
        "resource_type": "tweet",
        "parameter": "ids",
        "resource_id": id,
        "type": format!("https://api.twitter.com/2/problems/{kind}"),
    })
}

/// A success without what was asked for: a user, say.
pub fn not_there(id: &str, kind: &str) -> String {
    let problem = json!({
        "value": id,
        "detail": format!("Could not find user with id: [{id}]."),
        "title": "Not Found Error",
        "resource_type": "user",
        "parameter": "id",
        "resource_id": id,
        "type": format!("https://api.twitter.com/2/problems/{kind}"),
    });
    json!({ "errors": [problem] }).to_string()
}

/// A parameter that is refused.
pub fn refusal_of(parameter: &str, why: &str) -> Response {
    let body = json!({
        "errors": [{ "parameters": { parameter: [] }, "message": format!("The `{parameter}` query parameter {why}") }],
        "title": "Invalid Request",
        "detail": "One or more parameters to your request was invalid.",
        "type": "https://api.twitter.com/2/problems/invalid-request",
    });
    let mut response = success(body.to_string());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

/// Problems; v1.1's form for what stands in front of the API.
pub fn refusal(status: u16, code: u32) -> Response {
    let about_ids = |message: &str| {
        json!({
            "errors": [{ "parameters": { "ids": [] }, "message": message }],
            "title": "Invalid Request",
            "detail": "One or more parameters to your request was invalid.",
            "type": "https://api.twitter.com/2/problems/invalid-request",
        })
    };
    let plain = |title: &str| json!({ "title": title, "detail": title, "type": "about:blank", "status": status });
    let body = match (status, code) {
        (_, INVALID) => about_ids("The `ids` query parameter value is not valid"),
        (_, NONE) => about_ids("The `ids` query parameter can not be empty"),
        (_, TOO_MANY) => about_ids("The number of values in the `ids` query parameter list is not between 1 and 100"),
        (401, 135) | (403, 64 | 326 | 453) => return twitter_refusal(status, code),
        (400 | 401, _) => plain("Unauthorized"),
        (403, _) => plain("Forbidden"),
        (429, _) => plain("Too Many Requests"),
        (503, _) => plain("Service Unavailable"),
        _ => plain("Something is not right"),
    };
    // Without any credential, too, it is a 401.
    let status = if code == 215 { 401 } else { status };
    let mut response = success(body.to_string());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}
