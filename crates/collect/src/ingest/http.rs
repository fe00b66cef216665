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
use super::body::{Body, Entry, Unreadable};
use super::{AdmittedBatch, MOST_HANDLES, Queued, RoundingDetector, Starter, StarterError};
use engine::base::clock::{self, Stopwatch};
use engine::base::token::{AccessToken, Denied, RETRY_AFTER_S};
use engine::health::Health;
use engine::queue::QueueError;
use networks::model::post::Ingested;
use networks::providers::named::ReadAccountRef;

pub const OPENAPI: &str = include_str!("openapi.json");

/// Limit of bodies held at once, as a multiple of the largest body; of smaller bodies more fit.
const LARGEST_AT_ONCE: usize = 8;
/// Limit of bodies processed at once, likewise: parsing a body takes several times its memory.
const LARGEST_IN_WORK: usize = 2;
/// Minimum charge for a body, in bytes: the memory of its connection and request.
const LEAST_BYTES: usize = 4 << 10;
/// Time limit for receiving a body, since a slow sender holds memory.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
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
struct IngestMetrics {
    tweets: Family<[(&'static str, String); 2], Counter>,
    accounts: Family<[(&'static str, String); 2], Counter>,
    requests: Family<[(&'static str, u16); 1], Counter>,
    seconds: Histogram,
}

impl Default for IngestMetrics {
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
pub struct AccountEndpoint {
    pub provider: String,
    pub starter: Starter,
    pub read: ReadAccountRef,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tweets,
    Accounts,
}

#[derive(Debug)]
pub struct IngestApi {
    starters: Vec<(String, Starter)>,
    /// Empty if accounts are not collected.
    accounts: Vec<AccountEndpoint>,
    token: Option<AccessToken>,
    max_body_bytes: usize,
    memory: Arc<Semaphore>,
    work: Arc<Semaphore>,
    health: Arc<Health>,
    metrics: IngestMetrics,
}

impl IngestApi {
    /// Creates the API. Each starter comes with its provider's name; the first is the default, and `?provider=`
    /// selects another. With a token, requests without it are rejected. `health` records the state of the services.
    #[must_use]
    pub fn new(
        starters: Vec<(String, Starter)>,
        token: Option<AccessToken>,
        max_body_bytes: usize,
        health: Arc<Health>,
    ) -> Self {
        let of_largest = |count| max_body_bytes.max(LEAST_BYTES).saturating_mul(count).min(Semaphore::MAX_PERMITS);
        let [memory, work] =
            [LARGEST_AT_ONCE, LARGEST_IN_WORK].map(|count| Arc::new(Semaphore::new(of_largest(count))));
        let (accounts, metrics) = (Vec::new(), IngestMetrics::default());
        Self { starters, accounts, token, max_body_bytes, memory, work, health, metrics }
    }

    #[must_use]
    pub fn with_accounts(self, accounts: Vec<AccountEndpoint>) -> Self {
        Self { accounts, ..self }
    }

    pub fn register(&self, registry: &mut Registry) {
        let IngestMetrics { tweets, accounts, requests, seconds } = &self.metrics;
        registry.register("starter_tweets", "Tweets received by HTTP, by provider and outcome", tweets.clone());
        if !self.accounts.is_empty() {
            let what = "Accounts received by HTTP, by provider and outcome";
            registry.register("starter_accounts", what, accounts.clone());
        }
        // Starts at 0: Prometheus would not see the first increase of a counter that appears with it.
        drop(requests.get_or_create(&[("status", StatusCode::SERVICE_UNAVAILABLE.as_u16())]));
        let what = "Responses to POST /tweets and POST /accounts, by status";
        registry.register("starter_requests", what, requests.clone());
        registry.register("starter_request_seconds", "Seconds from a request's head to its response", seconds.clone());
    }

    pub fn router(self: &Arc<Self>) -> Router {
        let tweets = async |State(api): State<Arc<Self>>, request: Request| api.answer(Kind::Tweets, request).await;
        let accounts = async |State(api): State<Arc<Self>>, request: Request| api.answer(Kind::Accounts, request).await;
        let openapi = async || ([(CONTENT_TYPE, "application/json")], OPENAPI);
        let router = Router::new().route("/tweets", post(tweets)).route("/accounts", post(accounts));
        router.route("/openapi.json", get(openapi)).with_state(self.clone())
    }

    async fn answer(&self, kind: Kind, request: Request) -> Response {
        let watch = Stopwatch::start();
        let (head, body) = request.into_parts();
        let mut body = body.into_data_stream();
        let response = match self.accept(kind, &head.uri, &head.headers, &mut body).await {
            Ok(receipt) => (StatusCode::ACCEPTED, Json(receipt)).into_response(),
            Err(refusal) => {
                self.discard_rest(&mut body).await;
                refusal.into_response()
            }
        };
        let status = response.status().as_u16();
        self.metrics.requests.get_or_create(&[("status", status)]).inc();
        self.metrics.seconds.observe(watch.elapsed().as_secs_f64());
        tracing::debug!(status, ?kind, took_ms = watch.elapsed_ms(), "answered over HTTP");
        response
    }

    async fn accept(
        &self,
        kind: Kind,
        uri: &Uri,
        headers: &HeaderMap,
        body: &mut BodyDataStream,
    ) -> Result<Receipt, Refusal> {
        self.check_token(headers)?;
        let (provider, starter, read) = match kind {
            Kind::Tweets => {
                let (provider, starter) = select_provider(uri, &self.starters, |(provider, _)| provider)?;
                (provider, starter, None)
            }
            Kind::Accounts if self.accounts.is_empty() => {
                let reason = "accounts are not collected: set accounts.collect = true, also for the updater";
                return Err(Refusal::new(StatusCode::NOT_FOUND, reason));
            }
            Kind::Accounts => {
                let AccountEndpoint { provider, starter, read } =
                    select_provider(uri, &self.accounts, |endpoint| &endpoint.provider)?;
                (provider, starter, Some(*read))
            }
        };
        check_type(headers, self.token.is_some())?;
        let declared = declared_length(headers);
        let _room = self.reserve_memory(declared)?;
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
            Some(read) => Body::accounts(&bytes, read),
        };
        let unreadable = |Unreadable { index, reason }| Refusal::new(StatusCode::BAD_REQUEST, reason).at_index(index);
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
        count_outcomes(counter, provider, &receipt);
        match receipt.refused.first() {
            // Nothing was accepted: the sender should check the request.
            Some(first) if receipt.accepted() == 0 => {
                let refusal = Refusal::new(StatusCode::BAD_REQUEST, first.reason.clone()).at_index(first.index);
                Err(refusal.with_refused(receipt.refused))
            }
            _ => Ok(receipt),
        }
    }

    /// Checks the token. A request without one does not count as a guess.
    fn check_token(&self, headers: &HeaderMap) -> Result<(), Refusal> {
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
                Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, reason).with(RETRY_AFTER, RETRY_AFTER_S))
            }
        }
    }

    /// Reserves memory for a body: its declared size, or the maximum.
    fn reserve_memory(&self, declared: Option<usize>) -> Result<OwnedSemaphorePermit, Refusal> {
        if declared.is_some_and(|bytes| bytes > self.max_body_bytes) {
            return Err(self.too_large());
        }
        let bytes = declared.unwrap_or(self.max_body_bytes).max(LEAST_BYTES);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.memory
            .clone()
            .try_acquire_many_owned(bytes)
            .map_err(|_| Refusal::retry_later("too many bodies are in progress: send it again later", BUSY_S))
    }

    async fn read(&self, declared: Option<usize>, body: &mut BodyDataStream) -> Result<Vec<u8>, Refusal> {
        // Reserves the declared size at once: a growing buffer would need twice that for a moment.
        let mut bytes = Vec::with_capacity(declared.unwrap_or(0).min(self.max_body_bytes));
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|_| {
                Refusal::new(
                    StatusCode::BAD_REQUEST,
                    "the connection ended before the whole body arrived: send it again",
                )
            })?;
            if bytes.len() + chunk.len() > self.max_body_bytes {
                return Err(self.too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Reads and discards the rest of a rejected body. Closing a connection with unread bytes resets it, and the sender
    /// would not see the response.
    async fn discard_rest(&self, body: &mut BodyDataStream) {
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
        let (mut receipt, mut rounding) = (Receipt::default(), RoundingDetector::default());
        let mut is_over = false;
        while !is_over {
            let (mut admitted, mut places, mut handles, mut size) =
                (AdmittedBatch::default(), Vec::new(), Vec::new(), 0);
            while places.len() + handles.len() < BATCH && size < BATCH_BYTES {
                // Nothing else may wait here, and a body may have millions of elements: let other tasks run.
                tokio::task::coop::consume_budget().await;
                let Some(item) = body.next().await else {
                    is_over = true;
                    break;
                };
                let mut admit = |item: Ingested| starter.admit(item, clock::wall_ms(), &mut admitted);
                let taken = match item.entry {
                    Ok(Entry::Id(post)) => {
                        rounding.add_id(item.index, &post.id);
                        admit(*post).map(|()| None)
                    }
                    Ok(Entry::Handle(handle)) => Ok(Some(handle)),
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
                match starter.store_handles(&handles).await {
                    Ok(true) => receipt.handles += handles.len() as u64,
                    Ok(false) => return Err(Refusal::retry_later(TOO_MANY_HANDLES, FULL_S)),
                    Err(error) => return Err(self.service_down(&error)),
                }
            }
            let answers = starter.hand_over(&admitted).await.map_err(|error| self.service_down(&error))?;
            places.into_iter().zip(answers).for_each(|(index, queued)| receipt.count(index, queued));
            if self.health.record_success() {
                tracing::info!("store and queue work again");
            }
        }
        receipt.warning = rounding.warning("index");
        Ok(receipt)
    }

    /// Builds the response while a service is down. The service's own error goes to the log.
    fn service_down(&self, error: &StarterError) -> Refusal {
        if self.health.record_outage(&error.to_string()) {
            tracing::warn!(%error, "starter: posts cannot be accepted, answered with 503");
        }
        match error {
            StarterError::Queue(QueueError::Full(_)) => Refusal::retry_later("the queue is full", FULL_S),
            StarterError::Queue(_) => Refusal::retry_later("the queue is down: send the whole body again", OUT_S),
            StarterError::Store(_) => Refusal::retry_later("the store is down: send the whole body again", OUT_S),
        }
    }
}

/// Returns the entry of the provider that the request names; the first by default.
fn select_provider<'a, T>(uri: &Uri, all: &'a [T], name: impl Fn(&T) -> &String) -> Result<&'a T, Refusal> {
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
        Refusal::new(StatusCode::BAD_REQUEST, format!("unknown provider; known here: {}", names.join(", ")))
    })
}

fn count_outcomes(counter: &Family<[(&'static str, String); 2], Counter>, provider: &str, receipt: &Receipt) {
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

fn declared_length(headers: &HeaderMap) -> Option<usize> {
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
