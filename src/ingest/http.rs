//! HTTP API for an existing ingest: `POST /tweets` and `POST /accounts`. The response comes after the store and the
//! queue have the items.
//!
//! A request without a 202 may be sent again as a whole: ids already in the queue are only counted. `openapi.json`
//! describes the API, and a test compares it with the responses.

mod answer;

use std::sync::Arc;
use std::time::Duration;

use axum::body::BodyDataStream;
use axum::extract::{Query, Request, State};
use axum::http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::StreamExt;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::answer::{Receipt, Refusal};
use super::body::{Body, Brings, Unreadable};
use super::{Admitted, MOST_HANDLES, Queued, Rounding, Starter, StarterError};
use crate::base::clock::{self, Stopwatch};
use crate::base::token::{AccessToken, Denied, GUESS_AGAIN_S};
use crate::engine::health::Health;
use crate::engine::queue::QueueError;
use crate::model::post::Ingested;
use crate::providers::named::AccountOf;

pub const OPENAPI: &str = include_str!("openapi.json");

/// Limit of bodies held at once, as a multiple of the largest body; of smaller bodies more fit.
const LARGEST_AT_ONCE: usize = 8;
/// Limit of bodies processed at once, likewise: parsing a body takes several times its memory.
const LARGEST_IN_WORK: usize = 2;
/// Minimum charge for a body, in bytes: the memory of its connection and request.
const LEAST_BYTES: usize = 4 << 10;
/// Time limit for receiving a body, since a slow sender holds memory.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
/// Time limit for reading the rest of a rejected body.
const REST_PATIENCE: Duration = Duration::from_secs(2);
const BATCH: usize = 1_000;
const BATCH_BYTES: usize = 1 << 20;
/// `Retry-After` in seconds: too many bodies are being processed.
const BUSY_S: &str = "1";
/// `Retry-After` in seconds: a service is down.
const OUT_S: &str = "2";
/// `Retry-After` in seconds: the queue, or the list of waiting handles, is full and drains slowly.
const FULL_S: &str = "15";

const TOO_MANY_HANDLES: &str = "too many handles wait to be resolved: send them again later, or send ids";

#[derive(Debug, Clone)]
struct HookMetrics {
    tweets: Family<[(&'static str, String); 2], Counter>,
    accounts: Family<[(&'static str, String); 2], Counter>,
    requests: Family<[(&'static str, u16); 1], Counter>,
    seconds: Histogram,
}

impl Default for HookMetrics {
    fn default() -> Self {
        let seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
        Self {
            tweets: Family::default(),
            accounts: Family::default(),
            requests: Family::default(),
            seconds: Histogram::new(seconds),
        }
    }
}

#[derive(Debug, Clone)]
pub struct AccountDoor {
    pub provider: String,
    pub starter: Starter,
    pub read: AccountOf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tweets,
    Accounts,
}

#[derive(Debug)]
pub struct Hook {
    starters: Vec<(String, Starter)>,
    /// Empty if accounts are not collected.
    accounts: Vec<AccountDoor>,
    token: Option<AccessToken>,
    max_body_bytes: usize,
    room: Arc<Semaphore>,
    work: Arc<Semaphore>,
    health: Arc<Health>,
    metrics: HookMetrics,
}

impl Hook {
    /// Creates the hook. Each starter comes with its provider's name; the first is the default, and `?provider=`
    /// selects another. With a token, requests without it are rejected. `health` records the state of the services.
    #[must_use]
    pub fn new(
        starters: Vec<(String, Starter)>,
        token: Option<AccessToken>,
        max_body_bytes: usize,
        health: Arc<Health>,
    ) -> Self {
        let of_largest = |count| max_body_bytes.max(LEAST_BYTES).saturating_mul(count).min(Semaphore::MAX_PERMITS);
        let [room, work] = [LARGEST_AT_ONCE, LARGEST_IN_WORK].map(|count| Arc::new(Semaphore::new(of_largest(count))));
        let (accounts, metrics) = (Vec::new(), HookMetrics::default());
        Self { starters, accounts, token, max_body_bytes, room, work, health, metrics }
    }

    /// Also receives accounts: the first provider is the default, and `?provider=` selects another.
    #[must_use]
    pub fn with_accounts(self, accounts: Vec<AccountDoor>) -> Self {
        Self { accounts, ..self }
    }

    pub fn register(&self, registry: &mut Registry) {
        let HookMetrics { tweets, accounts, requests, seconds } = &self.metrics;
        registry.register(
            "starter_tweets",
            "Tweets that came by HTTP, by provider and what became of them",
            tweets.clone(),
        );
        if !self.accounts.is_empty() {
            let what = "Accounts that came by HTTP, by provider and what became of them";
            registry.register("starter_accounts", what, accounts.clone());
        }
        // Starts at 0: Prometheus would not see the first increase of a counter that appears with it.
        drop(requests.get_or_create(&[("status", StatusCode::SERVICE_UNAVAILABLE.as_u16())]));
        let what = "Answers to POST /tweets and POST /accounts, by status";
        registry.register("starter_requests", what, requests.clone());
        registry.register("starter_request_seconds", "From a request's head to its answer", seconds.clone());
    }

    pub fn router(self: &Arc<Self>) -> Router {
        let tweets = async |State(hook): State<Arc<Self>>, request: Request| hook.answer(Kind::Tweets, request).await;
        let accounts =
            async |State(hook): State<Arc<Self>>, request: Request| hook.answer(Kind::Accounts, request).await;
        let openapi = async || ([(CONTENT_TYPE, "application/json")], OPENAPI);
        let router = Router::new().route("/tweets", post(tweets)).route("/accounts", post(accounts));
        router.route("/openapi.json", get(openapi)).with_state(self.clone())
    }

    async fn answer(&self, kind: Kind, request: Request) -> Response {
        let watch = Stopwatch::start();
        let (head, body) = request.into_parts();
        let mut body = body.into_data_stream();
        let response = match self.take(kind, &head.uri, &head.headers, &mut body).await {
            Ok(receipt) => (StatusCode::ACCEPTED, Json(receipt)).into_response(),
            Err(refusal) => {
                self.pass_over(&mut body).await;
                refusal.into_response()
            }
        };
        let status = response.status().as_u16();
        self.metrics.requests.get_or_create(&[("status", status)]).inc();
        self.metrics.seconds.observe(watch.elapsed().as_secs_f64());
        tracing::debug!(status, ?kind, took_ms = watch.elapsed_ms(), "answered over HTTP");
        response
    }

    async fn take(
        &self,
        kind: Kind,
        uri: &Uri,
        headers: &HeaderMap,
        body: &mut BodyDataStream,
    ) -> Result<Receipt, Refusal> {
        self.let_in(headers)?;
        let (provider, starter, read) = match kind {
            Kind::Tweets => {
                let (provider, starter) = asked_for(uri, &self.starters, |(provider, _)| provider)?;
                (provider, starter, None)
            }
            Kind::Accounts if self.accounts.is_empty() => {
                let reason = "accounts are not collected: set accounts.collect = true, also for the updater";
                return Err(Refusal::new(StatusCode::NOT_FOUND, reason));
            }
            Kind::Accounts => {
                let AccountDoor { provider, starter, read } = asked_for(uri, &self.accounts, |door| &door.provider)?;
                (provider, starter, Some(*read))
            }
        };
        check_type(headers, self.token.is_some())?;
        let declared = declared(headers);
        let _room = self.room_for(declared)?;
        let bytes = tokio::time::timeout(BODY_PATIENCE, self.read(declared, body)).await.map_err(|_| {
            Refusal::new(
                StatusCode::REQUEST_TIMEOUT,
                format!("the body did not arrive within {} s", BODY_PATIENCE.as_secs()),
            )
        })??;
        let share = u32::try_from(bytes.len().max(LEAST_BYTES)).unwrap_or(u32::MAX);
        let _work = self.work.acquire_many(share).await;
        let body = || match read {
            None => Body::new(&bytes, starter.parse),
            Some(read) => Body::of_accounts(&bytes, read),
        };
        let unreadable = |Unreadable { index, reason }| Refusal::new(StatusCode::BAD_REQUEST, reason).at(index);
        // Checked before anything is stored: the limit never has room for such a body. Each repetition after a 503
        // would resolve, and pay for, the first handles again. A handle and its separator take at least two bytes, so
        // most bodies need no count.
        let may_be_more = kind == Kind::Accounts && bytes.len() > 2 * MOST_HANDLES as usize;
        if may_be_more && body().map_err(unreadable)?.has_more_handles(MOST_HANDLES).await {
            let most = format!("{MOST_HANDLES} handles");
            let reason = format!("the body has more than {most}: send it in parts of at most {most}");
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, reason));
        }
        let counter = if kind == Kind::Accounts { &self.metrics.accounts } else { &self.metrics.tweets };
        let receipt = self.hand_over(starter, body().map_err(unreadable)?).await?;
        count(counter, provider, &receipt);
        match receipt.refused.first() {
            // Nothing was accepted: the sender should check the request.
            Some(first) if receipt.accepted() == 0 => {
                let refusal = Refusal::new(StatusCode::BAD_REQUEST, first.reason.clone()).at(first.index);
                Err(refusal.naming(receipt.refused))
            }
            _ => Ok(receipt),
        }
    }

    /// Checks the token. A request without one does not count as a guess.
    fn let_in(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(token) = &self.token else { return Ok(()) };
        let sent = headers.get(AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
        let denied = match sent.split_at_checked("Bearer ".len()) {
            Some((scheme, sent)) if scheme.eq_ignore_ascii_case(b"bearer ") => token.check(sent).err(),
            _ => Some(Denied::Wrong),
        };
        match denied {
            None => Ok(()),
            Some(Denied::Wrong) => {
                Err(Refusal::new(StatusCode::UNAUTHORIZED, "send the token: Authorization: Bearer ...")
                    .with(WWW_AUTHENTICATE, "Bearer"))
            }
            Some(Denied::TooManyGuesses) => {
                let reason = "this token is wrong, and too many wrong ones come in: send the right one";
                Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, reason).with(RETRY_AFTER, GUESS_AGAIN_S))
            }
        }
    }

    /// Reserves memory for a body: its declared size, or the maximum.
    fn room_for(&self, declared: Option<usize>) -> Result<OwnedSemaphorePermit, Refusal> {
        if declared.is_some_and(|bytes| bytes > self.max_body_bytes) {
            return Err(self.too_large());
        }
        let bytes = declared.unwrap_or(self.max_body_bytes).max(LEAST_BYTES);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.room.clone().try_acquire_many_owned(bytes).map_err(|_| Refusal::later("too much in work at once", BUSY_S))
    }

    async fn read(&self, declared: Option<usize>, body: &mut BodyDataStream) -> Result<Vec<u8>, Refusal> {
        // Reserves the declared size at once: a growing buffer would need twice that for a moment.
        let mut bytes = Vec::with_capacity(declared.unwrap_or(0).min(self.max_body_bytes));
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "the body broke off"))?;
            if bytes.len() + chunk.len() > self.max_body_bytes {
                return Err(self.too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Reads and discards the rest of a rejected body. Closing a connection with unread bytes resets it, and the sender
    /// would not see the response.
    async fn pass_over(&self, body: &mut BodyDataStream) {
        let mut left = self.max_body_bytes;
        let rest = async {
            while let Some(Ok(chunk)) = body.next().await {
                left = left.saturating_sub(chunk.len());
                if left == 0 {
                    break;
                }
            }
        };
        drop(tokio::time::timeout(REST_PATIENCE, rest).await);
    }

    fn too_large(&self) -> Refusal {
        let reason = format!("the body has more than {} bytes: send it in parts", self.max_body_bytes);
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, reason)
    }

    async fn hand_over(&self, starter: &Starter, mut body: Body<'_>) -> Result<Receipt, Refusal> {
        let (mut receipt, mut rounding) = (Receipt::default(), Rounding::default());
        let mut is_over = false;
        while !is_over {
            let (mut admitted, mut places, mut handles, mut size) = (Admitted::default(), Vec::new(), Vec::new(), 0);
            while places.len() + handles.len() < BATCH && size < BATCH_BYTES {
                // Nothing else may wait here, and a body may have millions of elements: let other tasks run.
                tokio::task::coop::consume_budget().await;
                let Some(item) = body.next().await else {
                    is_over = true;
                    break;
                };
                let mut admit = |item: Ingested| starter.admit(item, clock::wall_ms(), &mut admitted);
                let taken = match item.brings {
                    Ok(Brings::Id(post)) => {
                        rounding.look_at(item.index, &post.id);
                        admit(*post).map(|()| None)
                    }
                    Ok(Brings::Handle(handle)) => Ok(Some(handle)),
                    Err(why) => Err(Queued::Refused(why)),
                };
                size += item.bytes;
                match taken {
                    Ok(None) => places.push(item.index),
                    Ok(Some(handle)) => handles.push(handle),
                    Err(queued) => receipt.count(item.index, queued),
                }
            }
            // A batch may have no admitted item although more items follow.
            if places.is_empty() && handles.is_empty() {
                continue;
            }
            if !handles.is_empty() {
                match starter.keep_handles(&handles).await {
                    Ok(true) => receipt.handles += handles.len() as u64,
                    Ok(false) => return Err(Refusal::later(TOO_MANY_HANDLES, FULL_S)),
                    Err(error) => return Err(self.is_out(&error)),
                }
            }
            let answers = starter.hand_over(&admitted).await.map_err(|error| self.is_out(&error))?;
            places.into_iter().zip(answers).for_each(|(index, queued)| receipt.count(index, queued));
            if self.health.works() {
                tracing::info!("store and queue work again");
            }
        }
        receipt.warning = rounding.warning("index");
        Ok(receipt)
    }

    /// Builds the response while a service is down. The service's own error goes to the log.
    fn is_out(&self, error: &StarterError) -> Refusal {
        if self.health.is_out(&error.to_string()) {
            tracing::warn!(%error, "tweets cannot be taken: answered with 503");
        }
        match error {
            StarterError::Queue(QueueError::Full(_)) => Refusal::later("the queue is full", FULL_S),
            StarterError::Queue(_) => Refusal::later("the queue is out: send the whole body again", OUT_S),
            StarterError::Store(_) => Refusal::later("the store is out: send the whole body again", OUT_S),
        }
    }
}

/// Returns the entry of the provider that the request names; the first by default.
fn asked_for<'a, T>(uri: &Uri, all: &'a [T], name: impl Fn(&T) -> &String) -> Result<&'a T, Refusal> {
    let asked: Option<String> = Query::<Vec<(String, String)>>::try_from_uri(uri)
        .ok()
        .and_then(|Query(pairs)| pairs.into_iter().find(|(name, _)| name == "provider"))
        .map(|(_, provider)| provider);
    let found = match &asked {
        None => all.first(),
        Some(asked) => all.iter().find(|one| name(one) == asked),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| name(one).as_str()).collect();
        Refusal::new(StatusCode::BAD_REQUEST, format!("no such provider here: there is {}", names.join(", ")))
    })
}

fn count(counter: &Family<[(&'static str, String); 2], Counter>, provider: &str, receipt: &Receipt) {
    let Receipt { scheduled, known, leased, dead, too_old, handles, .. } = receipt;
    for (outcome, count) in [
        ("scheduled", *scheduled),
        ("known", *known),
        ("leased", *leased),
        ("dead", *dead),
        ("too_old", *too_old),
        ("handle", *handles),
        ("refused", receipt.refused()),
    ] {
        let labels = [("provider", provider.to_owned()), ("outcome", outcome.to_owned())];
        counter.get_or_create(&labels).inc_by(count);
    }
}

fn declared(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Accepts JSON, lines of JSON, or text; not compressed. A browser sends text, or a body without a type, for any page
/// without asking. So these need a token.
fn check_type(headers: &HeaderMap, has_token: bool) -> Result<(), Refusal> {
    let word = |name: HeaderName| {
        let value = headers.get(name).map(|value| value.to_str().unwrap_or("?").to_ascii_lowercase());
        value.map(|value| value.split(';').next().unwrap_or_default().trim().to_owned())
    };
    let refuse = |reason: &str| Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
    if word(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return refuse("send the body as it is, without Content-Encoding");
    }
    match word(CONTENT_TYPE).as_deref() {
        Some("application/json" | "application/x-ndjson" | "application/ndjson" | "application/jsonl") => Ok(()),
        None | Some("text/plain") if has_token => Ok(()),
        None | Some("text/plain") => refuse(
            "text needs a token, since a page of any site could send it: send Content-Type: application/x-ndjson, or \
             give the starter a token (starter.bearer_token_file)",
        ),
        Some(_) => refuse("send Content-Type: application/json, application/x-ndjson or text/plain"),
    }
}
