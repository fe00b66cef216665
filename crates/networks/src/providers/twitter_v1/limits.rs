//! Quota that the API states: in the headers of each answer, and in the answer of `application/rate_limit_status`.
//!
//! Source: developer.twitter.com/en/docs/twitter-api/v1/developer-utilities/rate-limit-status.

use std::collections::HashMap;

use serde::Deserialize;

use crate::providers::http::Reply;
use crate::providers::limits::{if_plausible, read_window, server_time};
use crate::providers::lookup::{LookupError, Quota};
use engine::base::clock::Millis;

/// Quota window from the `x-rate-limit-*` headers; `None` unless all three are readable and form a plausible window.
pub fn quota(reply: &Reply) -> Option<Quota> {
    if_plausible(stated_window(reply))
}

/// Quota window of the headers, perhaps implausible; `None` if they are missing.
pub fn stated_window(reply: &Reply) -> Option<Quota> {
    let names = ["x-rate-limit-limit", "x-rate-limit-remaining", "x-rate-limit-reset"];
    read_window(reply, names)
}

/// Window of the lookup in the answer of `rate_limit_status`, if any. A window that has not started is stated as if it started now.
pub fn status_quota(reply: &Reply) -> Result<Option<Quota>, LookupError> {
    let status: Status = serde_json::from_slice(&reply.body)
        .map_err(|_| LookupError::BadAnswer(format!("it is no list of rate limits: {}", reply.describe())))?;
    Ok(if_plausible(status.resources.statuses.get("/statuses/lookup").map(|stated| stated.quota(reply))))
}

#[derive(Deserialize)]
struct Status {
    resources: Resources,
}

#[derive(Deserialize)]
struct Resources {
    #[serde(default)]
    statuses: HashMap<String, StatedWindow>,
}

#[derive(Deserialize)]
struct StatedWindow {
    limit: u32,
    remaining: u32,
    /// Seconds since the epoch.
    reset: u32,
}

impl StatedWindow {
    fn quota(&self, reply: &Reply) -> Quota {
        let reset_at = Millis::from(self.reset) * 1000;
        let reset_in = reset_at - server_time(reply);
        Quota { limit: self.limit, remaining: self.remaining, reset_at, reset_in, length: None }
    }
}
