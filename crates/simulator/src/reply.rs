//! The common parts of all providers' responses.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

use engine::base::clock::Millis;

const HTTP_DATE: StaticFormatDescription =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");

pub struct Found<'a> {
    /// The requested ids, each once, in the requested order.
    pub ids: Vec<&'a str>,
    pub objects: Vec<Option<String>>,
    pub map: bool,
    /// The additional object beside posts of X.
    pub includes: Option<String>,
}

impl Found<'_> {
    pub fn present(&self) -> String {
        let objects: Vec<&str> = self.objects.iter().flatten().map(String::as_str).collect();
        objects.join(",")
    }
}

pub fn success(body: String) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json;charset=utf-8"))], body).into_response()
}

pub fn failure(status: u16, body: &Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, success(body.to_string())).into_response()
}

pub fn http_date(at: Millis) -> HeaderValue {
    let date = OffsetDateTime::from_unix_timestamp(at.div_euclid(1000)).ok().and_then(|at| at.format(HTTP_DATE).ok());
    // A date is ASCII. A date out of the calendar comes from a bad skew: the header is then the epoch.
    let header = date.and_then(|date| HeaderValue::from_str(&date).ok());
    header.unwrap_or(HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"))
}
