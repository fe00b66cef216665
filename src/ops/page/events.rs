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

use super::broadcast::{PageSnapshot, Receiver};
use super::ids::PostId;
use super::pages::{Page, reading_now};
use super::time_range::{Range, unknown_range};
use super::watchers::{WatcherGuard, Watchers};
use crate::ops::server::Client;
use engine::health::Health;

/// Interval of comments, so that proxies do not close the stream.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const COMMENT: Bytes = Bytes::from_static(b":\n\n");
const POST_INTERVAL: Duration = Duration::from_secs(3);

pub(super) type EventResult = Result<Bytes, Infallible>;

/// The page to watch: a post, or the front page with this range of the past.
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
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Response {
    let Ok(Query(query)) = query else {
        return (StatusCode::BAD_REQUEST, format!("{}, or ?tweet=ID\n", unknown_range())).into_response();
    };
    let tweet = match query.tweet.as_deref().map(PostId::parse).transpose() {
        Ok(tweet) => tweet,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    };
    let (health, watchers) = (page.whole.health.clone(), page.shared.watchers.clone());
    stream_response(&health, &watchers, &client, || {
        let namespace = page.whole.queue.namespace();
        let broadcasts = page.shared.broadcasts.clone();
        match tweet {
            Some(id) => broadcasts.watch(format!("{namespace} tweet {id}"), || post_snapshots(page, id)),
            None => broadcasts
                .watch(format!("{namespace} {}", query.range.query_value()), || front_snapshots(page, query.range)),
        }
    })
}

/// Answers with a stream. It ends when the process stops, or when another client replaces it.
pub(super) fn stream_response(
    health: &Arc<Health>,
    watchers: &Arc<Watchers>,
    client: &Client,
    watch: impl FnOnce() -> Receiver,
) -> Response {
    if health.is_stopping() {
        return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "2")], "ops is stopping: connect again\n")
            .into_response();
    }
    let until = health.clone();
    let events = event_stream(watch(), watchers.admit(client)).take_until(async move { until.wait_for_stop().await });
    let head = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (head, Body::from_stream(events)).into_response()
}

fn event_stream(receiver: Receiver, guard: WatcherGuard) -> impl Stream<Item = EventResult> {
    stream::unfold((receiver, None, guard), async |(mut receiver, mut sent, guard)| {
        loop {
            match tokio::time::timeout(KEEP_ALIVE, receiver.changed()).await {
                Err(_) => return Some((Ok(COMMENT), (receiver, sent, guard))),
                Ok(changed) => changed.ok()?,
            }
            let rendering = receiver.borrow_and_update().clone();
            if let Some(rendering) = rendering {
                let event = rendering.event_after(sent);
                sent = Some(rendering.number());
                return Some((Ok(event), (receiver, sent, guard)));
            }
        }
    })
}

fn front_snapshots(page: Arc<Page>, range: Range) -> impl Stream<Item = PageSnapshot> {
    let mut reading = page.reader.watch();
    // The last reading is sent at once.
    reading.mark_changed();
    stream::unfold((page, reading, range), async |(page, mut source, range)| {
        let reading = loop {
            source.changed().await.ok()?;
            let reading = source.borrow_and_update().clone();
            if reading.is_read() {
                break reading;
            }
        };
        let front = page.front_in_range(&reading, range).await;
        let snapshot = PageSnapshot { at: front.at, now: reading_now(&reading), parts: front.parts.clone() };
        Some((snapshot, (page, source, range)))
    })
}

fn post_snapshots(page: Arc<Page>, id: PostId) -> impl Stream<Item = PageSnapshot> {
    let every = tokio::time::interval(POST_INTERVAL);
    stream::unfold((page, every, id), async |(page, mut every, id)| {
        every.tick().await;
        // The stream ends while a service is unavailable. The page shows that, and connects again.
        let details = page.load_post(&id).await.ok().flatten()?;
        let parts = vec![("tweet".into(), details.section().into_string())];
        Some((PageSnapshot { at: details.at(), now: details.at(), parts }, (page, every, id)))
    })
}
