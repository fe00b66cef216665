//! Live updates of a page: for each new reading, the parts whose HTML has changed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream, StreamExt};
use serde::Deserialize;

use super::broadcast::{Receiver, Shot};
use super::ids::PostId;
use super::pages::{Page, now};
use super::past::{Range, unknown_range};
use super::watchers::{Place, Watchers};
use crate::engine::health::Health;
use crate::ops::server::Client;

/// Interval of comments, so that proxies do not close the stream.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const COMMENT: Bytes = Bytes::from_static(b":\n\n");
const TWEET_EVERY: Duration = Duration::from_secs(3);

pub(super) type Sent = Result<Bytes, Infallible>;

/// The watched page: a tweet, or the front page with this range of the past.
#[derive(Debug, Deserialize)]
pub(super) struct EventsQuery {
    tweet: Option<String>,
    #[serde(default)]
    range: Range,
}

/// `GET /events`
pub(super) async fn stream(
    State(page): State<Arc<Page>>,
    Extension(client): Extension<Client>,
    asked: Result<Query<EventsQuery>, QueryRejection>,
) -> Response {
    let Ok(Query(asked)) = asked else {
        return (StatusCode::BAD_REQUEST, format!("{}, or ?tweet=ID\n", unknown_range())).into_response();
    };
    let tweet = match asked.tweet.as_deref().map(PostId::parse).transpose() {
        Ok(tweet) => tweet,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    };
    let (health, watchers) = (page.whole.health.clone(), page.in_common.watchers.clone());
    answer(&health, &watchers, &client, || {
        let namespace = page.whole.queue.namespace();
        let broadcasts = page.in_common.broadcasts.clone();
        match tweet {
            Some(id) => broadcasts.watch(format!("{namespace} tweet {id}"), || tweet_shots(page, id)),
            None => broadcasts.watch(format!("{namespace} {}", asked.range.word()), || front_shots(page, asked.range)),
        }
    })
}

/// The stream for a client. It ends when the process stops or the stream has to give way.
pub(super) fn answer(
    health: &Arc<Health>,
    watchers: &Arc<Watchers>,
    client: &Client,
    watch: impl FnOnce() -> Receiver,
) -> Response {
    if health.is_stopping() {
        return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "2")], "it is stopping\n").into_response();
    }
    let until = health.clone();
    let events = events(watch(), watchers.admit(client)).take_until(async move { until.stopping().await });
    let head = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (head, Body::from_stream(events)).into_response()
}

fn events(receiver: Receiver, place: Place) -> impl Stream<Item = Sent> {
    stream::unfold((receiver, None, place), async |(mut receiver, mut sent, place)| {
        loop {
            match tokio::time::timeout(KEEP_ALIVE, receiver.changed()).await {
                Err(_) => return Some((Ok(COMMENT), (receiver, sent, place))),
                Ok(changed) => changed.ok()?,
            }
            let rendering = receiver.borrow_and_update().clone();
            if let Some(rendering) = rendering {
                let event = rendering.event_after(sent);
                sent = Some(rendering.number());
                return Some((Ok(event), (receiver, sent, place)));
            }
        }
    })
}

fn front_shots(page: Arc<Page>, range: Range) -> impl Stream<Item = Shot> {
    let mut seen = page.reader.watch();
    // The last reading is sent at once.
    seen.mark_changed();
    stream::unfold((page, seen, range), async |(page, mut source, range)| {
        let seen = loop {
            source.changed().await.ok()?;
            let seen = source.borrow_and_update().clone();
            if seen.is_read() {
                break seen;
            }
        };
        let front = page.with_range(&seen, range).await;
        let shot = Shot { at: front.at, now: now(&seen), parts: front.parts.clone() };
        Some((shot, (page, source, range)))
    })
}

fn tweet_shots(page: Arc<Page>, id: PostId) -> impl Stream<Item = Shot> {
    let every = tokio::time::interval(TWEET_EVERY);
    stream::unfold((page, every, id), async |(page, mut every, id)| {
        every.tick().await;
        // The stream ends while a service is out. The page tries again, and says so.
        let seen = page.tweet(&id).await.ok().flatten()?;
        let parts = vec![("tweet".into(), seen.section().into_string())];
        Some((Shot { at: seen.at(), now: seen.at(), parts }, (page, every, id)))
    })
}
