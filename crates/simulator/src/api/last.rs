//! Final changes to every response, and the responses at unknown addresses.

use std::io::Write;
use std::sync::Arc;

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, DATE, SERVER, VARY,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::Api;
use crate::bluesky::dialect::invalid_request;
use crate::dialect::Dialect;
use crate::reply::{failure, http_date};
use networks::providers::http::SIMULATOR_SERVER;

/// Adds the simulated date and, at Twitter, the credential's access level; compresses if the client accepts gzip.
pub async fn finish(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let takes_gzip = api.options.gzip && has_word(&request, ACCEPT_ENCODING, "gzip");
    let is_signed = is_signed(&request);
    let mut response = next.run(request).await;
    response.headers_mut().insert(SERVER, HeaderValue::from_static(SIMULATOR_SERVER));
    if api.options.clock_skew != 0 {
        response.headers_mut().insert(DATE, http_date(api.now()));
    }
    if is_signed && response.status().is_success() {
        response.headers_mut().insert("x-access-level", HeaderValue::from_static("read"));
    }
    if takes_gzip { compress(response).await } else { response }
}

fn is_signed(request: &Request) -> bool {
    let among_parameters = request.uri().query().is_some_and(|query| query.contains("oauth_signature="));
    let is_twitters = matches!(dialect(request), Dialect::TwitterV1 | Dialect::XV2);
    is_twitters && (among_parameters || has_word(request, AUTHORIZATION, "OAuth "))
}

fn has_word(request: &Request, name: HeaderName, word: &str) -> bool {
    request.headers().get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains(word))
}

/// The response, compressed. Streamed and deliberately broken responses stay as they are.
async fn compress(response: Response) -> Response {
    let known = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let (Some(bytes), false) = (known.filter(|bytes| *bytes > 0), response.headers().contains_key(CONTENT_LENGTH))
    else {
        return response;
    };
    let (mut parts, body) = response.into_parts();
    let Ok(whole) = to_bytes(body, bytes).await else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    match encoder.write_all(&whole).and_then(|()| encoder.finish()) {
        Ok(packed) => {
            parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            parts.headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
            Response::from_parts(parts, Body::from(packed))
        }
        Err(_) => Response::from_parts(parts, Body::from(whole)),
    }
}

/// An unknown address, answered in the form of the network whose prefix it has.
pub async fn answer_unknown_address(request: Request) -> Response {
    match dialect(&request) {
        Dialect::Mastodon => not_found_page(&request),
        dialect => dialect.refusal(404, 34),
    }
}

pub async fn answer_wrong_method(request: Request) -> Response {
    match dialect(&request) {
        Dialect::Mastodon => not_found_page(&request),
        Dialect::Bluesky => invalid_request(&format!("Incorrect HTTP method ({}) expected GET", request.method())),
        Dialect::XV2 => Dialect::XV2.refusal(405, 0),
        dialect => dialect.refusal(404, 34),
    }
}

/// A page, unless the client accepts JSON: Mastodon does this at unknown addresses.
fn not_found_page(request: &Request) -> Response {
    if has_word(request, ACCEPT, "json") {
        return failure(404, &json!({ "error": "Not Found" }));
    }
    let page =
        "<!DOCTYPE html><html lang=\"en\"><head><title>The page you are looking for isn't here.</title></head></html>";
    (StatusCode::NOT_FOUND, Html(page)).into_response()
}

fn dialect(request: &Request) -> Dialect {
    Dialect::of_path(request.uri().path().trim_start_matches('/'))
}
