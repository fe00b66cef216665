//! Decisions for the caller: the table from statuses and problems to decisions, and the quota in the headers.
//!
//! A refusal is a problem (`{"title", "type", "detail", "status"}`), with or without a list of `errors`, or v1.1's `{"errors":
//! [{"code", "message"}]}`, which proxies in front of the API still use. Sources: docs.x.com
//! (x-api/fundamentals/response-codes-and-errors, rate-limits, post-cap); each row names its own source if it is not one of those.
//!
//! Error texts are ours and never quote the body: it may repeat the request.

use std::time::Duration;

use serde_json::Value;

use crate::providers::http::Reply;
use crate::providers::limits::{MAX_PAUSE_15_MIN, if_plausible, outage_error, read_window, throttle_error};
use crate::providers::lookup::{LookupError, Quota};
use crate::providers::twitter_v1;
use engine::base::clock;

/// Pause after a used-up plan. The plan comes back with a new month, or when its owner buys more; refused calls cost nothing.
const CAP_PAUSE: Duration = Duration::from_secs(15 * 60);

/// Longest pause for a day's window; one hour allows for clock differences. A later reset is garbage.
const LONGEST_DAY: Duration = Duration::from_secs(25 * 3600);

/// Problems that error texts name; the server chose any other name.
const KNOWN_PROBLEMS: &[&str] = &[
    "client-disconnected",
    "client-forbidden",
    "conflict",
    "credits-depleted",
    "disallowed-resource",
    "invalid-request",
    "not-authorized-for-resource",
    "oauth1-permissions",
    "resource-not-found",
    "resource-unavailable",
    "unsupported-authentication",
    "usage-capped",
];

/// Quota window of the headers; `None` if they are missing or implausible.
#[must_use]
pub fn quota(reply: &Reply) -> Option<Quota> {
    if_plausible(stated_window(reply))
}

fn stated_window(reply: &Reply) -> Option<Quota> {
    read_window(reply, ["x-rate-limit-limit", "x-rate-limit-remaining", "x-rate-limit-reset"])
}

#[must_use]
pub fn decide(reply: &Reply) -> LookupError {
    use LookupError::{BadAnswer, BadRequest, BatchTooLarge, Credential, Outage, Stop, Unready};

    let status = reply.status;
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    if body["errors"][0]["code"].is_u64() {
        return twitter_v1::errors::decide(reply, "this endpoint of API v2");
    }
    let kind = body["type"].as_str().and_then(|kind| kind.rsplit('/').next()).unwrap_or_default();
    let said = match KNOWN_PROBLEMS.iter().find(|known| **known == kind) {
        Some(known) => format!("HTTP {status}, {known}"),
        None => format!("HTTP {status}, {}", reply.describe()),
    };
    let credential = |why: &str| Credential(format!("{why} ({said})"));
    match (status, kind) {
        (500.., _) => outage_error(reply, said, MAX_PAUSE_15_MIN),
        (300..400, _) => reply.redirect_error(),
        // The plan's posts of this month are used up: the end of a window does not restore them.
        (_, "usage-capped") => LookupError::Throttled { status, pause: CAP_PAUSE, quota: quota(reply) },
        (420 | 429, _) => {
            day_limit_error(reply).unwrap_or_else(|| throttle_error(reply, stated_window(reply), MAX_PAUSE_15_MIN))
        }
        // Pay-per-use: the account has no money left (tryethernal/ethernal#1324).
        (402, _) | (_, "credits-depleted") => credential("its account has no credits left"),
        (401, _) => credential("it is not accepted"),
        // Keys of an application outside a project, or of a plan without this endpoint.
        (_, "client-forbidden") => credential("its application may not use this endpoint"),
        (_, "unsupported-authentication" | "oauth1-permissions") => {
            credential("this kind of credential may not use this endpoint")
        }
        // One of the requested ids (HunterLarco/twitter-v2#26 met it in a success).
        (_, "not-authorized-for-resource" | "resource-unavailable" | "disallowed-resource") => BadRequest(said),
        (403, _) => Unready(format!("forbidden without a known reason ({said})")),
        (404, _) => Outage(said),
        // Like v1.1: a proxy's page is not the API's own statement.
        (410, _) if body["title"].is_string() => Stop(format!("the API no longer has this endpoint ({said})")),
        (413 | 414 | 431, _) => BatchTooLarge(said),
        // One invalid id fails the whole call; so do unknown fields, whatever the posts.
        (400 | 422, _) => match complaint(&body) {
            Complaint::Fields => Stop(format!(
                "the API does not know the requested fields ({said}): set field_names to the other value, or narrow \
                 fields and expansions"
            )),
            Complaint::TooMany => BatchTooLarge(said),
            Complaint::Other => BadRequest(said),
        },
        (..300, _) => BadAnswer(said),
        _ => Outage(said),
    }
}

enum Complaint {
    Fields,
    TooMany,
    Other,
}

fn complaint(body: &Value) -> Complaint {
    let errors = body["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let parameters: Vec<&str> = errors
        .iter()
        .filter_map(|error| error["parameters"].as_object())
        .flat_map(|parameters| parameters.keys().map(String::as_str))
        .collect();
    // "The number of values in the `ids` query parameter list [101] is not between 1 and 100".
    let too_many = |error: &Value| error["message"].as_str().is_some_and(|text| text.contains("is not between"));
    if parameters.contains(&"ids") {
        if errors.iter().any(too_many) { Complaint::TooMany } else { Complaint::Other }
    } else if parameters.iter().any(|name| name.ends_with(".fields") || *name == "expansions") {
        Complaint::Fields
    } else {
        Complaint::Other
    }
}

/// Error for a 429 of a day's window, whose headers only some plans have. The 15-minute window still has calls left then
/// (plhery/node-twitter-api-v2#495, #553).
fn day_limit_error(reply: &Reply) -> Option<LookupError> {
    let used_up = ["app", "user"].into_iter().filter_map(|whose| {
        let names = ["limit", "remaining", "reset"].map(|what| format!("x-{whose}-limit-24hour-{what}"));
        read_window(reply, names.each_ref().map(String::as_str)).filter(|day| day.remaining == 0)
    });
    let pause = clock::span(used_up.map(|day| day.reset_in).max()?).clamp(Duration::from_secs(1), LONGEST_DAY);
    Some(LookupError::Throttled { status: reply.status, pause, quota: quota(reply) })
}
