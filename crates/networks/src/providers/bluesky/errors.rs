//! Decisions for the caller: the table from statuses and names to decisions, and the quota. A refusal is
//! `{"error": "Name", "message": "…"}` (atproto.com/specs/xrpc).
//!
//! Error texts are ours and never quote the body: it may repeat the request.

use serde_json::Value;

use crate::providers::http::Reply;
use crate::providers::limits::{MAX_PAUSE_5_MIN, if_plausible, outage_error, read_window, throttle_error};
use crate::providers::lookup::{LookupError, Quota};

/// Errors about a session, with any status: a data server answers them with a 400, too.
const SESSION_ERRORS: &[&str] = &[
    "AccountDeactivated",
    "AccountSuspended",
    "AccountTakedown",
    "AuthMissing",
    "AuthenticationRequired",
    "ExpiredToken",
    "InvalidToken",
];

/// Quota window of the headers; `None` if they are missing or implausible.
pub fn quota(reply: &Reply) -> Option<Quota> {
    if_plausible(stated_window(reply))
}

fn stated_window(reply: &Reply) -> Option<Quota> {
    read_window(reply, ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"])
}

pub fn decide(reply: &Reply) -> LookupError {
    use LookupError::{BadAnswer, BadRequest, BatchTooLarge, Credential, Outage, Unready};

    let status = reply.status;
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let name = body["error"].as_str().unwrap_or_default();
    let known = SESSION_ERRORS.iter().find(|known| **known == name);
    let said = match known {
        Some(known) => format!("HTTP {status}, {known}"),
        None => format!("HTTP {status}, {}", reply.describe()),
    };
    match (status, name) {
        (500.., _) => outage_error(reply, said, MAX_PAUSE_5_MIN),
        (300..400, _) => reply.redirect_error(),
        (429, _) | (_, "RateLimitExceeded") => throttle_error(reply, stated_window(reply), MAX_PAUSE_5_MIN),
        _ if known.is_some() || status == 401 => Credential(format!("its session is not accepted ({said})")),
        (403, _) => Unready(format!("forbidden without a known reason ({said})")),
        // Missing posts are left out, so this address lacks the method.
        (404, _) => Outage(said),
        (413 | 414 | 431, _) => BatchTooLarge(said),
        (400, _) if body["message"].as_str().is_some_and(|text| text.contains("must not have more than")) => {
            BatchTooLarge(said)
        }
        // One invalid uri fails the whole call.
        (400 | 422, _) => BadRequest(said),
        (..300, _) => BadAnswer(said),
        _ => Outage(said),
    }
}
