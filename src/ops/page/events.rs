//! Live updates of a page: for each new reading, the parts whose HTML has changed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::{HeaderName, RETRY_AFTER};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, BoxStream, Stream, StreamExt};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::assets::VERSION;
use super::ids::PostId;
use super::pages::{Page, Part, now};
use super::past::{Range, unknown_range};
use super::words::without_times;
use crate::base::clock::Millis;
use crate::engine::health::Health;

/// The maximum number of open pages. One more gets an answer to retry later.
pub(super) const WATCHERS: usize = 100;
/// The delay after which a browser reconnects a broken stream.
const RETRY: Duration = Duration::from_secs(1);
/// The interval of comments, so that proxies do not close the stream.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The interval between readings of a tweet's page.
const TWEET_EVERY: Duration = Duration::from_secs(3);

/// What is sent.
pub(super) type Sent = Result<Event, axum::Error>;

/// What is watched: a tweet, or the front page with so much of the past.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    tweet: Option<String>,
    #[serde(default)]
    range: Range,
}

/// What a page puts into place.
#[derive(Debug, Serialize)]
struct Snapshot<'a> {
    /// The moment of the figures,
    at: Millis,
    /// and that at which they are sent, by the same clock: the figures may be old. Both ms since the epoch.
    now: Millis,
    version: &'a str,
    parts: HashMap<&'a str, &'a str>,
}

/// `GET /events`
pub(super) async fn stream(State(page): State<Arc<Page>>, asked: Result<Query<Asked>, QueryRejection>) -> Response {
    let Ok(Query(asked)) = asked else {
        return (StatusCode::BAD_REQUEST, format!("{}, or ?tweet=ID\n", unknown_range())).into_response();
    };
    let tweet = match asked.tweet.as_deref().map(PostId::parse).transpose() {
        Ok(tweet) => tweet,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    };
    let (health, places) = (page.whole.health.clone(), page.in_common.places.clone());
    answer(&health, &places, |place| match tweet {
        Some(id) => tweet_events(page, id, place).boxed(),
        None => front_events(page, asked.range, place).boxed(),
    })
}

/// The stream, for who has a place, until the process is to stop.
pub(super) fn answer(
    health: &Arc<Health>,
    places: &Arc<Semaphore>,
    events: impl FnOnce(OwnedSemaphorePermit) -> BoxStream<'static, Sent>,
) -> Response {
    let later = |why: &'static str| (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "2")], why).into_response();
    if health.is_stopping() {
        return later("it is stopping\n");
    }
    let Ok(place) = places.clone().try_acquire_owned() else { return later("too many watch already\n") };
    let until = health.clone();
    let events = events(place).take_until(async move { until.stopping().await });
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    (unbuffered, Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))).into_response()
}

/// A viewer: the watched page, and the parts already sent.
pub(super) struct Watcher<Of, Source> {
    pub(super) of: Arc<Of>,
    pub(super) source: Source,
    sent: HashMap<Part, String>,
    /// Held while it watches.
    _place: OwnedSemaphorePermit,
}

impl<Of, Source> Watcher<Of, Source> {
    pub(super) fn new(of: Arc<Of>, source: Source, place: OwnedSemaphorePermit) -> Self {
        Self { of, source, sent: HashMap::new(), _place: place }
    }

    /// The event that tells what is another now. One is sent for each moment, also where nothing is: it says that
    /// the figures are of now.
    pub(super) fn event(&mut self, at: Millis, now: Millis, parts: &[(Part, String)]) -> Sent {
        let mut changed = HashMap::new();
        for (id, html) in parts {
            let shown = without_times(html);
            if self.sent.get(id) != Some(&shown) {
                self.sent.insert(id.clone(), shown);
                changed.insert(&**id, &**html);
            }
        }
        let snapshot = Snapshot { at, now, version: &VERSION, parts: changed };
        Event::default().event("figures").retry(RETRY).json_data(snapshot)
    }
}

fn front_events(page: Arc<Page>, range: Range, place: OwnedSemaphorePermit) -> impl Stream<Item = Sent> {
    let mut seen = page.reader.watch();
    // What was read already is sent at once.
    seen.mark_changed();
    stream::unfold((Watcher::new(page, seen, place), range), async |(mut watcher, range)| {
        let seen = loop {
            watcher.source.changed().await.ok()?;
            let seen = watcher.source.borrow_and_update().clone();
            if seen.is_read() {
                break seen;
            }
        };
        let front = watcher.of.with_range(&seen, range).await;
        let event = watcher.event(front.at, now(&seen), &front.parts);
        Some((event, (watcher, range)))
    })
}

fn tweet_events(page: Arc<Page>, id: PostId, place: OwnedSemaphorePermit) -> impl Stream<Item = Sent> {
    let every = tokio::time::interval(TWEET_EVERY);
    stream::unfold((Watcher::new(page, every, place), id), async |(mut watcher, id)| {
        watcher.source.tick().await;
        // While a service is out there is nothing to send: the page tries again, and says so.
        let seen = watcher.of.tweet(&id).await.ok().flatten()?;
        let parts = [("tweet".into(), seen.section().into_string())];
        Some((watcher.event(seen.at(), seen.at(), &parts), (watcher, id)))
    })
}
