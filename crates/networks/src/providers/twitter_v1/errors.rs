//! Decisions for the caller: the table from statuses and codes to decisions.
//!
//! Sources: Twitter's "Response codes" page (developer.twitter.com/en/docs/basics/response-codes), recorded answers, and reports of
//! other clients; each row names its own source if it is not that page.
//!
//! Error texts are ours and never quote the body: it may repeat the request.

use serde_json::Value;

use crate::model::account::Absence;
use crate::providers::http::Reply;
use crate::providers::limits::{MAX_PAUSE_15_MIN, outage_error, throttle_error};
use crate::providers::lookup::LookupError;
use engine::base::clock;

use super::limits;

/// Decision about an answer that is not a success. X's later APIs word some refusals the same way, so `endpoint` names the endpoint.
pub fn decide(reply: &Reply, endpoint: &str) -> LookupError {
    use LookupError::{BadAnswer, BadRequest, BatchTooLarge, Credential, Outage, Stop, Unready};

    let status = reply.status;
    let fault = Fault::parse(&reply.body);
    let said = match fault.code {
        Some(code) => format!("HTTP {status}, code {code}"),
        None => format!("HTTP {status}, {}", reply.describe()),
    };
    let credential = |why: &str| Credential(format!("{why} ({said})"));
    match (status, fault.code) {
        // Under overload, no request is at fault. 130 over capacity, 131 internal error.
        (500.., _) | (_, Some(130 | 131)) => outage_error(reply, said, MAX_PAUSE_15_MIN),
        (300..400, _) => reply.redirect_error(),
        // 420 is the search API's older 429; 88 is the code of both (recorded: extwitter).
        (420 | 429, _) | (_, Some(88)) => throttle_error(reply, limits::stated_window(reply), MAX_PAUSE_15_MIN),
        // Stated by the API (by version 1 with code 64, which is a suspended account elsewhere). The page of a proxy in front of it may
        // not mean it.
        (410, _) if fault.text.is_some() => Stop(format!("the API no longer has this endpoint ({said})")),
        // The request's timestamp is out of range; Date says by how much.
        (_, Some(135)) => match reply.date() {
            Some(theirs) => LookupError::Clock(theirs - clock::wall_ms()),
            None => credential("the API says our clock is off, and its answer has no date to correct it by"),
        },
        (_, Some(32)) => credential("it could not be authenticated"),
        (_, Some(89)) => credential("the token is invalid or expired"),
        (_, Some(215)) => credential("no or bad authentication data"),
        (_, Some(99)) => credential("the application's credentials could not be verified"),
        (_, Some(220)) => credential("this kind of credential may not use this endpoint"),
        (_, Some(64)) => credential("its account is suspended"),
        // The account must log in on the web first (codl/forget parks it the same way).
        (_, Some(326)) => credential("its account is locked until its owner logs in on the web"),
        // Every self-serve tier gets this since v1.1's retirement (dogsheep/twitter-to-sqlite#73).
        (_, Some(453)) => Stop(format!("the API plan of this credential does not include {endpoint} ({said})")),
        // "Too many terms specified in query" (twitter-to-sqlite met it and asks for fewer).
        (_, Some(18)) | (413 | 414 | 431, _) => BatchTooLarge(said),
        // One of the requested tweets, its author or the author's relation to us: 63 suspended, 136 blocked, 144 no such status, 179
        // protected, 421 and 422 taken down (zulip/zulip#15989).
        (_, Some(63 | 136 | 144 | 179 | 421 | 422)) => BadRequest(said),
        // The same without a code (recorded: rtweet get_favorites3): the target is protected. The credential is fine, and other calls
        // with it go on.
        (401, None) if fault.is_not_authorized() => BadRequest(said),
        // Every other 401, JSON or not (recorded: twitteroauth, spring-social-twitter).
        (401, _) => credential("it is not accepted"),
        // A transient one was seen (twarc#700). It concerns this credential, so others may work: as an outage of all, one forbidden
        // application would stop the rest.
        (403, _) => Unready(format!("forbidden without a known reason ({said})")),
        // Transient ones were seen (DocNow/twarc#75). Code 34, "that page does not exist", is here too: a wrong base_url or a removed
        // endpoint gives it, and bisecting would blame every single id for it.
        (404, _) => Outage(said),
        // Malformed (400), not processable (422): one of the ids may be the cause. Not acceptable (406) concerns the form of the
        // answer, not an id: that falls through.
        (400 | 422, _) => BadRequest(said),
        // A success without a body, which this endpoint does not have.
        (..300, _) => BadAnswer(said),
        _ => Outage(said),
    }
}

/// The first error code in the body, if any.
#[must_use]
pub fn error_code(reply: &Reply) -> Option<u64> {
    Fault::parse(&reply.body).code
}

/// Returns true for an empty result: `users/lookup` answers "no match" (17) with a 404 if none of the requested accounts exists.
pub fn is_none_found(reply: &Reply) -> bool {
    reply.status == 404 && error_code(reply) == Some(17)
}

/// Reason why the account of a refusal is not returned. 50 and 63 come from `users/show` (minet's `attrition`), 179 from posts. The 401
/// without a code concerns the items of a protected account (recorded: rtweet get_favorites3).
pub fn absence(reply: &Reply) -> Option<Absence> {
    let fault = Fault::parse(&reply.body);
    match (reply.status, fault.code) {
        (404, Some(50)) => Some(Absence::NotFound),
        (403, Some(63)) => Some(Absence::Suspended),
        (403, Some(179)) => Some(Absence::Protected),
        (401, None) if fault.is_not_authorized() => Some(Absence::Protected),
        _ => None,
    }
}

/// Returns true if the sent token is no longer valid: an application's token can be fetched again.
pub fn means_bad_token(reply: &Reply) -> bool {
    reply.status == 401 && error_code(reply) == Some(89)
}

/// Content of an error body: `{"errors": [{"code", "message"}]}`, `{"errors": "text"}` (recorded: twitter-ruby), `{"error": "text"}`
/// (recorded: rtweet), or nothing readable.
#[derive(Default)]
struct Fault {
    code: Option<u64>,
    text: Option<String>,
}

impl Fault {
    /// Returns true if the refusal concerns the target, not the credential.
    fn is_not_authorized(&self) -> bool {
        self.text.as_deref().is_some_and(|text| text.starts_with("Not authorized"))
    }

    fn parse(body: &[u8]) -> Self {
        let Ok(Value::Object(body)) = serde_json::from_slice(body) else { return Self::default() };
        let error = match body.get("errors").or_else(|| body.get("error")) {
            Some(Value::Array(errors)) => errors.first(),
            other => other,
        };
        match error {
            Some(Value::String(text)) => Self { code: None, text: Some(text.clone()) },
            Some(Value::Object(error)) => Self {
                code: error.get("code").and_then(Value::as_u64),
                text: error.get("message").and_then(Value::as_str).map(str::to_owned),
            },
            _ => Self::default(),
        }
    }
}
