//! The hook beside an existing ingest: `POST /tweets` and `POST /accounts`, answered when the store and the queue have them.
//!
//! Whatever is answered other than 202 may be sent again as a whole: what is in the queue already is only
//! counted. `openapi.json` describes it, and a test holds it to the answers.

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

/// The description of the API, in OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("openapi.json");

/// Bodies of the largest size that are taken at once, or as many more smaller ones,
const LARGEST_AT_ONCE: usize = 8;
/// and of these so many are in work: what is made of a body takes several times its memory.
const LARGEST_IN_WORK: usize = 2;
/// What a body is counted for at the least, in bytes: what a connection and a request take by themselves.
const LEAST_BYTES: usize = 4 << 10;
/// The time limit for a body, since a slow sender occupies a place.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
/// The rest of one that is refused may take so long.
const REST_PATIENCE: Duration = Duration::from_secs(2);
/// Tweets handed over at once,
const BATCH: usize = 1_000;
/// and bytes of them.
const BATCH_BYTES: usize = 1 << 20;
/// After how many seconds to try again, when all places are taken,
const BUSY_S: &str = "1";
/// when a service is out,
const OUT_S: &str = "2";
/// and when the queue is full: it drains in its own time.
const FULL_S: &str = "15";

const TOO_MANY_HANDLES: &str = "too many handles wait to be resolved: send them again later, or send ids";

/// The counters of the hook.
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

/// A way in for the accounts of a provider.
#[derive(Debug, Clone)]
pub struct AccountDoor {
    /// The provider's name.
    pub provider: String,
    /// Puts them into the pipeline of accounts.
    pub starter: Starter,
    /// Reads an account as people write it down.
    pub read: AccountOf,
}

/// What a request brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tweets,
    Accounts,
}

/// Takes tweets and accounts over HTTP.
#[derive(Debug)]
pub struct Hook {
    /// By their providers' names.
    starters: Vec<(String, Starter)>,
    /// None where accounts are not collected.
    accounts: Vec<AccountDoor>,
    token: Option<AccessToken>,
    max_body_bytes: usize,
    room: Arc<Semaphore>,
    work: Arc<Semaphore>,
    health: Arc<Health>,
    metrics: HookMetrics,
}

impl Hook {
    /// A hook in front of those starters, each with its provider's name: posts are the first one's, unless
    /// `?provider=` says otherwise. With a token, requests without it are refused; a body has so many bytes at the
    /// most. `health` hears how the services are.
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

    /// The same, which also takes accounts: the first one's, unless `?provider=` says otherwise.
    #[must_use]
    pub fn with_accounts(self, accounts: Vec<AccountDoor>) -> Self {
        Self { accounts, ..self }
    }

    /// Shows what it counts.
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
        // A counter that begins with its first refusal never rises by it, and Prometheus sees none.
        drop(requests.get_or_create(&[("status", StatusCode::SERVICE_UNAVAILABLE.as_u16())]));
        let what = "Answers to POST /tweets and POST /accounts, by status";
        registry.register("starter_requests", what, requests.clone());
        registry.register("starter_request_seconds", "From a request's head to its answer", seconds.clone());
    }

    /// Its routes.
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
        // Before anything of it is kept: there is never room for all of it, and whoever sent it again after each 503 would
        // have those of its beginning that were resolved meanwhile resolved, and paid for, again and again.
        // A handle and what parts it from the next take two bytes at least, so most bodies need not be counted.
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
            // Nothing was done: the sender should check the request.
            Some(first) if receipt.accepted() == 0 => {
                let refusal = Refusal::new(StatusCode::BAD_REQUEST, first.reason.clone()).at(first.index);
                Err(refusal.naming(receipt.refused))
            }
            _ => Ok(receipt),
        }
    }

    /// Checks the token. A request without one is no guess.
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

    /// Room for a body: as much as it says that it has, or as the largest takes.
    fn room_for(&self, declared: Option<usize>) -> Result<OwnedSemaphorePermit, Refusal> {
        if declared.is_some_and(|bytes| bytes > self.max_body_bytes) {
            return Err(self.too_large());
        }
        let bytes = declared.unwrap_or(self.max_body_bytes).max(LEAST_BYTES);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.room.clone().try_acquire_many_owned(bytes).map_err(|_| Refusal::later("too much in work at once", BUSY_S))
    }

    async fn read(&self, declared: Option<usize>, body: &mut BodyDataStream) -> Result<Vec<u8>, Refusal> {
        // What was declared at once: grown piece by piece it would have been twice that in between.
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

    /// Reads what is left of a refused body and keeps nothing of it: a connection that is closed with bytes
    /// unread is reset, and whoever still sends would never see why.
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

    /// Hands the items of a body over, a batch after the other.
    async fn hand_over(&self, starter: &Starter, mut body: Body<'_>) -> Result<Receipt, Refusal> {
        let (mut receipt, mut rounding) = (Receipt::default(), Rounding::default());
        let mut is_over = false;
        while !is_over {
            let (mut admitted, mut places, mut handles, mut size) = (Admitted::default(), Vec::new(), Vec::new(), 0);
            while places.len() + handles.len() < BATCH && size < BATCH_BYTES {
                // Nothing else may wait here, and a body may have millions of elements: other tasks have their turn.
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
            // Of a batch none may be admitted, and yet there may be more.
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

    /// The answer to the sender while a service is down. The service's own error goes to the log.
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

/// Those of the provider that the request asks for; the first where it asks for none.
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

/// The declared length of a body in bytes.
fn declared(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// JSON, lines of JSON, or lines of text; not packed. Text, or what is not named at all, a browser sends for any page
/// without asking: it needs a token.
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
