//! How the simulated v1.1 words its answers, and what all of them have in common.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

use crate::base::clock::Millis;

const HTTP_DATE: StaticFormatDescription =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");

/// The tweets of one answer, before they are written.
pub struct Found<'a> {
    /// The asked ids, each once, in the order asked.
    pub ids: Vec<&'a str>,
    /// The object of each, or `None` where it is missing.
    pub objects: Vec<Option<String>>,
    /// Whether the map form was asked for.
    pub map: bool,
    /// What comes beside posts of X: an object.
    pub includes: Option<String>,
}

impl Found<'_> {
    /// The objects that are there, with commas between.
    pub fn present(&self) -> String {
        let objects: Vec<&str> = self.objects.iter().flatten().map(String::as_str).collect();
        objects.join(",")
    }

    /// The body of `statuses/lookup`.
    pub fn write_twitter(&self) -> String {
        let bytes: usize = self.objects.iter().flatten().map(|object| object.len() + 32).sum();
        let mut body = String::with_capacity(bytes + 64);
        body.push_str(if self.map { "{\"id\":{" } else { "[" });
        let mut first = true;
        for (id, object) in self.ids.iter().zip(&self.objects) {
            if object.is_none() && !self.map {
                continue;
            }
            if !std::mem::take(&mut first) {
                body.push(',');
            }
            if self.map {
                // A name is whatever was asked for, so it is escaped.
                body.push_str(&Value::from(*id).to_string());
                body.push(':');
            }
            body.push_str(object.as_deref().unwrap_or("null"));
        }
        body.push_str(if self.map { "}}" } else { "]" });
        body
    }
}

/// A success with a JSON body, as Twitter labels it.
pub fn success(body: String) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json;charset=utf-8"))], body).into_response()
}

/// An error with Twitter's code and words for it.
pub fn twitter_refusal(status: u16, code: u32) -> Response {
    let message = match code {
        18 => "Too many terms specified in query.",
        32 => "Could not authenticate you.",
        34 => "Sorry, that page does not exist.",
        17 => "No user matches for specified terms.",
        38 => "id parameter is missing.",
        50 => "User not found.",
        64 => "Your account is suspended and is not permitted to access this feature.",
        88 => "Rate limit exceeded",
        89 => "Invalid or expired token.",
        99 => "Unable to verify your credentials",
        130 => "Over capacity",
        131 => "Internal error",
        112 => "You must specify either a list ID or a slug and owner.",
        144 => "No status found with that ID.",
        179 => "Sorry, you are not authorized to see this status.",
        220 => "Your credentials do not allow access to this resource.",
        135 => "Timestamp out of bounds.",
        170 => "Missing required parameter: grant_type",
        215 => "Bad Authentication data.",
        326 => "To protect our users from spam and other malicious activity, this account is temporarily locked.",
        453 => "You currently have access to a subset of Twitter API v2 endpoints and limited v1.1 endpoints only.",
        _ => "Something is not right.",
    };
    let mut response = success(json!({ "errors": [{ "code": code, "message": message }] }).to_string());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

/// A `Date` header.
pub fn http_date(at: Millis) -> HeaderValue {
    let date = OffsetDateTime::from_unix_timestamp(at.div_euclid(1000)).ok().and_then(|at| at.format(HTTP_DATE).ok());
    // A date is ASCII; one out of the calendar is a bad skew, whose clock is then the epoch.
    let header = date.and_then(|date| HeaderValue::from_str(&date).ok());
    header.unwrap_or(HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"))
}

/// A tweet of somebody else's.
pub fn stranger(id: &str) -> String {
    format!(
        "{{\"created_at\":\"Tue Mar 21 20:50:14 +0000 2006\",\"id\":{id},\"id_str\":\"{id}\",\
         \"text\":\"just setting up my twttr\",\"full_text\":\"just setting up my twttr\",\
         \"user\":{{\"id\":12,\"id_str\":\"12\",\"screen_name\":\"jack\"}},\"retweet_count\":1,\"favorite_count\":1}}"
    )
}
