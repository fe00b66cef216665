//! The faults on the wire.

use std::collections::BTreeMap;
use std::io;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use futures::{StreamExt, stream};

use super::api::Api;
use super::dialect::{Dialect, INVALID};
use super::faults::Fault;
use super::random::{mix, to_unit};
use super::reply::{Found, success};
use super::windows::Window;
use engine::base::clock::Millis;

/// Faulty response in place of the usual `body`; `None` if the fault concerns single posts, or only delays.
pub async fn faulty_response(
    api: &Api,
    dialect: Dialect,
    fault: &Fault,
    window: Option<Window>,
    body: impl FnOnce() -> String,
) -> Option<Response> {
    let refusal = |status, code| dialect.refusal(status, code);
    let with = |window, response| dialect.with_window(window, response);
    let response = match fault {
        Fault::Status { status, code: Some(code) } => with(window, refusal(*status, *code)),
        Fault::Status { status, code: None } => html_page(*status),
        Fault::Answer { status, headers, body } => literal_response(*status, headers, body),
        Fault::Poison { .. } => with(window, refusal(400, INVALID)),
        Fault::RateLimited { reset_s } => {
            let reset = api.now().div_euclid(1000) + i64::from(*reset_s);
            with(Some(Window { remaining: 0, reset, ..any_window(window, api.now()) }), refusal(429, 88))
        }
        Fault::TooFast => {
            let window = any_window(window, api.now());
            with(Some(Window { remaining: window.remaining.max(1), ..window }), refusal(429, 88))
        }
        Fault::Calm => html_page(420),
        Fault::Timeout => {
            api.stop.cancelled().await;
            closed_connection()
        }
        Fault::Close => closed_connection(),
        Fault::CutBody => with(window, cut_body(body())),
        Fault::Html => html_page(200),
        Fault::NotJson => with(window, success("%PDF-1.7 this is no JSON".to_owned())),
        Fault::TruncatedJson => {
            let mut body = body();
            // The simulated bodies are ASCII; recorded ones may not be.
            let half = (0..=body.len() / 2).rev().find(|at| body.is_char_boundary(*at)).unwrap_or(0);
            body.truncate(half);
            with(window, success(body))
        }
        Fault::Oversized { bytes } => with(window, oversized(*bytes)),
        Fault::WrongShape => with(window, success("{\"things\":7}".to_owned())),
        Fault::ErrorsInSuccess => {
            let mut response = refusal(200, 130);
            *response.status_mut() = StatusCode::OK;
            with(window, response)
        }
        // Slowness only takes time: it is drawn beside other faults and never alone.
        Fault::Slow { .. }
        | Fault::BrokenTweet
        | Fault::AllMissing
        | Fault::SomeMissing { .. }
        | Fault::Duplicates
        | Fault::EmptyLastPage
        | Fault::Unasked => return None,
        // A stream begins like any other.
        Fault::Drops { .. } | Fault::Stalls { .. } | Fault::HalfLine { .. } | Fault::Line { .. } => return None,
    };
    Some(response)
}

pub fn spoil_posts(dialect: Dialect, fault: &Fault, mut found: Found<'_>) -> String {
    match fault {
        Fault::BrokenTweet => {
            let first = found.ids.iter().zip(&mut found.objects).find(|(_, object)| object.is_some());
            if let Some((id, object)) = first {
                *object = Some(dialect.broken_post(id));
            }
        }
        Fault::AllMissing => found.objects.fill(None),
        Fault::SomeMissing { share } => {
            for (id, object) in found.ids.iter().zip(&mut found.objects) {
                if id_share(id) < *share {
                    *object = None;
                }
            }
        }
        Fault::Duplicates => {
            let twice =
                |list: Vec<Option<String>>| list.into_iter().flat_map(|object| [object.clone(), object]).collect();
            found.ids = found.ids.into_iter().flat_map(|id| [id, id]).collect();
            found.objects = twice(found.objects);
        }
        Fault::Unasked => {
            // Adds one of three fixed ids that the call did not request; none if it requested all three.
            if let Some((id, object)) = dialect.unrequested_post(&found.ids) {
                found.ids.push(id);
                found.objects.push(Some(object));
            }
        }
        _ => {}
    }
    dialect.write_body(&found)
}

fn id_share(id: &str) -> f64 {
    to_unit(id.bytes().fold(1, |hash, byte| mix(hash ^ u64::from(byte).rotate_left(32))))
}

fn literal_response(status: u16, headers: &BTreeMap<String, String>, body: &str) -> Response {
    let mut response = Response::new(Body::from(body.to_owned()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// A window for faults that need one, also if the simulator itself has none.
fn any_window(window: Option<Window>, now: Millis) -> Window {
    window.unwrap_or(Window { limit: 900, remaining: 899, reset: now.div_euclid(1000) + 900, length_s: 900 })
}

fn html_page(status: u16) -> Response {
    let mut response =
        Html("<html><head><title>Twitter</title></head><body>Something is technically wrong.</body></html>")
            .into_response();
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    if (300..400).contains(&status) {
        response.headers_mut().insert("location", HeaderValue::from_static("https://login.example.net/?next=api"));
    }
    response
}

/// No response: a body that fails before its first byte makes the server drop the connection with the headers still unsent.
fn closed_connection() -> Response {
    Body::from_stream(stream::once(async { Err::<Bytes, _>(connection_error()) })).into_response()
}

/// Announces the whole body, sends half of it and drops the connection.
fn cut_body(body: String) -> Response {
    let length = HeaderValue::from(body.len());
    let mut half = Bytes::from(body);
    half.truncate(half.len() / 2);
    // Lets the server send its buffer between the half and the failure.
    let parts = stream::once(async { Ok(half) }).chain(stream::once(async {
        tokio::task::yield_now().await;
        Err(connection_error())
    }));
    let mut response = Body::from_stream(parts).into_response();
    response.headers_mut().insert(CONTENT_LENGTH, length);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json;charset=utf-8"));
    response
}

/// An array of `bytes` bytes, most of them spaces, made while it is sent.
fn oversized(bytes: u64) -> Response {
    const PIECE: u64 = 64 * 1024;
    let spaces = Bytes::from(vec![b' '; PIECE as usize]);
    let body = stream::unfold((0, spaces), move |(sent, spaces)| async move {
        let piece = if sent == 0 {
            Bytes::from_static(b"[")
        } else if sent + 1 >= bytes {
            Bytes::from_static(b"]")
        } else {
            spaces.slice(..PIECE.min(bytes - 1 - sent) as usize)
        };
        let next = sent + piece.len() as u64;
        (sent < bytes.max(2)).then_some((Ok::<_, io::Error>(piece), (next, spaces)))
    });
    let mut response = success(String::new());
    *response.body_mut() = Body::from_stream(body);
    response
}

pub fn connection_error() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "a simulated fault")
}
