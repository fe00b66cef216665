//! Decisions for the caller: the table from statuses to decisions, and the quota. A refusal is `{"error": "…"}`, in words that differ by
//! version and language, so the status decides (docs.joinmastodon.org/entities/Error; the server's api/base_controller.rb).
//!
//! Error texts are ours and never quote the body: it may repeat the request.

use serde_json::Value;

use crate::providers::http::Reply;
use crate::providers::limits::{MAX_PAUSE_5_MIN, if_plausible, outage_error, read_window, throttle_error};
use crate::providers::lookup::{LookupError, Quota};

/// Quota window from the `x-ratelimit-*` headers. Their reset is a date, or seconds since the epoch (GoToSocial). If an instance
/// has several limits, the headers state the tightest.
#[must_use]
pub fn quota(reply: &Reply) -> Option<Quota> {
    if_plausible(stated_window(reply))
}

fn stated_window(reply: &Reply) -> Option<Quota> {
    let names = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
    read_window(reply, names)
}

/// Returns true if the single requested object does not exist: a 404 of the instance, not of a proxy in front of it. Only
/// Mastodon's own software is certain to put an error into it.
#[must_use]
pub fn is_not_found(reply: &Reply) -> bool {
    reply.status == 404 && says_error(reply)
}

/// Returns true if the single requested account is suspended: a 410 of servers before 3.3 (their api/v1/accounts_controller.rb).
/// Newer servers return the account.
#[must_use]
pub fn is_account_suspended(reply: &Reply) -> bool {
    reply.status == 410 && says_error(reply)
}

#[must_use]
pub fn decide(reply: &Reply) -> LookupError {
    use LookupError::{BadAnswer, BadRequest, BatchTooLarge, Credential, Outage, Unready};

    let status = reply.status;
    let said = format!("HTTP {status}, {}", reply.describe());
    match status {
        500.. => outage_error(reply, said, MAX_PAUSE_5_MIN),
        300..400 => reply.redirect_error(),
        429 => throttle_error(reply, stated_window(reply), MAX_PAUSE_5_MIN),
        401 => Credential(format!("the instance rejects the token ({said})")),
        // The token lacks the scope, or its account is locked out.
        403 if says_error(reply) => Credential(format!("the instance denies it access ({said})")),
        403 => Unready(format!("forbidden without a known reason ({said})")),
        // Missing objects are left out of a list.
        404 => Outage(format!(
            "the instance does not know this address ({said}): it is down, or lacks calls for many ids, which \
             came with Mastodon 4.3"
        )),
        // An instance that is gone for good must not stop the others.
        410 => Outage(said),
        // "Too many statuses", or accounts: each instance sets its own limit.
        413 | 414 | 422 | 431 => BatchTooLarge(said),
        400 => BadRequest(said),
        ..300 => BadAnswer(said),
        _ => Outage(said),
    }
}

#[must_use]
pub fn says_error(reply: &Reply) -> bool {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    body["error"].is_string()
}
