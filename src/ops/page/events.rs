//! Live updates of a page: for each new reading, the parts whose HTML has changed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, HeaderName, RETRY_AFTER};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, BoxStream, Stream, StreamExt};
use serde::{Deserialize, Serialize};

use super::assets::VERSION;
use super::ids::PostId;
use super::pages::{Page, Part, now};
use super::past::{Range, unknown_range};
use super::watchers::{Place, Watchers};
use super::words::without_times;
use crate::base::clock::Millis;
use crate::engine::health::Health;
use crate::ops::server::Client;

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
pub(super) async fn stream(
    State(page): State<Arc<Page>>,
    Extension(client): Extension<Client>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Response {
    let Ok(Query(asked)) = asked else {
        return (StatusCode::BAD_REQUEST, format!("{}, or ?tweet=ID\n", unknown_range())).into_response();
    };
    let tweet = match asked.tweet.as_deref().map(PostId::parse).transpose() {
        Ok(tweet) => tweet,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    };
    let (health, watchers) = (page.whole.health.clone(), page.in_common.watchers.clone());
    answer(&health, &watchers, &client, |place| match tweet {
        Some(id) => tweet_events(page, id, place).boxed(),
        None => front_events(page, asked.range, place).boxed(),
    })
}

/// The stream for a client, until the process is to stop or the stream has to give way.
pub(super) fn answer(
    health: &Arc<Health>,
    watchers: &Arc<Watchers>,
    client: &Client,
    events: impl FnOnce(Place) -> BoxStream<'static, Sent>,
) -> Response {
    if health.is_stopping() {
        return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "2")], "it is stopping\n").into_response();
    }
    let until = health.clone();
    let events = events(watchers.admit(client)).take_until(async move { until.stopping().await });
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no"), (CACHE_CONTROL, "no-store")];
    (unbuffered, Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))).into_response()
}

/// A viewer: the watched page, and the parts already sent.
pub(super) struct Watcher<Of, Source> {
    pub(super) of: Arc<Of>,
    pub(super) source: Source,
    sent: HashMap<Part, String>,
    /// Held while it watches.
    _place: Place,
}

impl<Of, Source> Watcher<Of, Source> {
    pub(super) fn new(of: Arc<Of>, source: Source, place: Place) -> Self {
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

fn front_events(page: Arc<Page>, range: Range, place: Place) -> impl Stream<Item = Sent> {
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

fn tweet_events(page: Arc<Page>, id: PostId, place: Place) -> impl Stream<Item = Sent> {
    let every = tokio::time::interval(TWEET_EVERY);
    stream::unfold((Watcher::new(page, every, place), id), async |(mut watcher, id)| {
        watcher.source.tick().await;
        // While a service is out there is nothing to send: the page tries again, and says so.
        let seen = watcher.of.tweet(&id).await.ok().flatten()?;
        let parts = [("tweet".into(), seen.section().into_string())];
        Some((watcher.event(seen.at(), seen.at(), &parts), (watcher, id)))
    })
}
