//! The HTTP client that all providers share: bounded in time and size, and silent about secrets.
//!
//! Error texts end up in logs and on pages: they never contain the `Authorization` header, the query or a body.

use std::error::Error as _;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, AGE, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, SERVER};
use reqwest::{Client, Request, Response, StatusCode, Url, redirect};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::scalar;
use crate::providers::lookup::{Answer, LookupError, Outcome, Quota, UnsolicitedObjects};
use crate::providers::proxy::{BadProxy, ProxyAddress, with_proxy};
use engine::base::backend::loopback::is_loopback;
use engine::base::clock::{self, FURTHEST_AHEAD_MS, Millis, Stopwatch};
use engine::base::humanize;
use engine::base::log_throttle::LogThrottle;
use engine::quota::{Stamp, UserKeys, authorization};

/// Bytes read of an error's body. Twitter's error bodies are under 300 bytes; a proxy's error page of any size must not keep a worker.
/// The `Server` header of the simulator. A client finds by it that it does not call the network itself.
pub const SIMULATOR_SERVER: &str = "twitter-updater-simulator";
const ERROR_BODY_BYTES: usize = 64 * 1024;

/// Largest answer in bytes that needs no permit of `LARGE`: parsing an answer takes several times its memory.
const SMALL_BODY_BYTES: usize = 1 << 20;

/// Maximum number of larger answers that the whole process handles at once.
const LARGE_AT_ONCE: usize = 4;
static LARGE: Semaphore = Semaphore::const_new(LARGE_AT_ONCE);
/// Maximum number of them per client: a network with large or slow answers cannot block the others.
const LARGE_PER_CLIENT: usize = 1;

/// Maximum number of values in an answer: 100 tweets have about 40,000. A value of two bytes may take 100 bytes in memory.
const MOST_VALUES: usize = 200_000;

/// Timeout of an endless body, longer than any process runs: a request can override the client's timeout but not remove it.
const LONGEST_BODY: Duration = Duration::from_secs(10 * 365 * 86_400);

#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Time limit from connecting to the last byte of the body.
    pub timeout: Duration,
    /// Time limit of the connection alone, TLS included.
    pub connect_timeout: Duration,
    /// Maximum size of an answer, in bytes after decompression.
    pub max_body_bytes: usize,
    pub user_agent: String,
    pub proxy: Option<ProxyAddress>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(20),
            connect_timeout: Duration::from_secs(5),
            // 100 tweets of v1.1 have about 1 MB, and so has a page of 1,000 followers.
            max_body_bytes: 8 * 1024 * 1024,
            user_agent: concat!("twitter-updater/", env!("CARGO_PKG_VERSION")).to_owned(),
            proxy: None,
        }
    }
}

/// Settings with which no client can be built. No text repeats a whole address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("the API's base_url {0}")]
    BaseUrl(String),
    #[error(transparent)]
    Proxy(#[from] BadProxy),
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
}

impl ClientError {
    fn inextensible(error: impl Display) -> Self {
        Self::BaseUrl(format!("cannot be extended: {error}"))
    }
}

/// Cheap to clone; clones share the connections.
#[derive(Debug, Clone)]
pub struct HttpClient {
    client: Client,
    timeout: Duration,
    max_body_bytes: usize,
    /// Permits for this client's large answers.
    large: Arc<Semaphore>,
    /// Limits the log lines about clocks.
    clock_warnings: Arc<LogThrottle>,
}

#[derive(Debug)]
pub enum StreamReply {
    Open(StreamBody),
    Refused(Reply),
}

#[derive(Debug)]
pub struct StreamBody(Response);

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    /// Decompressed body; cut to its first 64 KB unless the status is a success.
    pub body: Vec<u8>,
    /// Held while a large body is processed.
    _large: Option<LargePermits>,
}

#[derive(Debug)]
pub struct LargePermits {
    _own: OwnedSemaphorePermit,
    _shared: SemaphorePermit<'static>,
}

impl HttpClient {
    /// Fails if TLS cannot be set up (no root certificates on the machine), or the user agent cannot be sent.
    pub fn new(options: &HttpOptions) -> Result<Self, ClientError> {
        // A process has only one TLS provider. A second install fails and changes nothing: the store or the queue may have
        // installed it first, and theirs is ring, too.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = Client::builder()
            .user_agent(options.user_agent.as_str())
            .timeout(options.timeout)
            .connect_timeout(options.connect_timeout)
            // A redirect would carry the credential to an unconfigured host.
            .redirect(redirect::Policy::none())
            .gzip(true)
            .tcp_nodelay(true);
        // Only the configured proxy: HTTP_PROXY would send credentials to an unconfigured host.
        let client = with_proxy(client, options.proxy.as_ref())?
            .build()
            .map_err(|error| ClientError::Setup(join_causes(error)))?;
        let (timeout, max_body_bytes) = (options.timeout, options.max_body_bytes);
        let large = Arc::new(Semaphore::new(LARGE_PER_CLIENT));
        Ok(Self { client, timeout, max_body_bytes, large, clock_warnings: Arc::default() })
    }

    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a request and reads the answer. The body of a refusal may be incomplete: the status alone decides.
    ///
    /// # Errors
    /// [`LookupError::Outage`] if no whole answer came; [`LookupError::QueueClock`]; [`LookupError::BadAnswer`] if a success is
    /// too large.
    pub async fn send(&self, request: Request) -> Result<Reply, LookupError> {
        let watch = Stopwatch::start();
        let mut response = self.client.execute(request).await.map_err(|error| self.call_error(error))?;
        let status = response.status();
        if status != StatusCode::TOO_MANY_REQUESTS
            && let Some(queue) = clock::queue_ms()
        {
            self.check_queue_clock(queue, response.headers())?;
        }
        let (body, large) = match status.is_success() {
            true => self.read_body(&mut response, &watch).await?,
            false => (error_body(&mut response).await, None),
        };
        Ok(Reply { status: status.as_u16(), headers: std::mem::take(response.headers_mut()), body, _large: large })
    }

    /// Compares the queue's clock, ms since the epoch, with the API's and with this machine's.
    fn check_queue_clock(&self, queue: Millis, headers: &HeaderMap) -> Result<(), LookupError> {
        let Some(ahead) = clock_lead(headers, queue).map(humanize::span) else { return Ok(()) };
        if queue.saturating_sub(clock::wall_ms()) > FURTHEST_AHEAD_MS {
            return Err(LookupError::QueueClock(format!(
                "the queue's clock is {ahead} ahead of the API's and of this machine's: no answer is saved until it is corrected"
            )));
        }
        // Only the API's clock is behind, or a cache returned an old answer.
        if self.clock_warnings.count_if_due(1).is_some() {
            tracing::warn!(
                "this machine's clock is {ahead} ahead of the API's: if it is wrong, posts end before their time"
            );
        }
        Ok(())
    }

    /// Sends a request with an endless answer. The head must arrive within the timeout; the body may take any time and have any
    /// size. It is requested uncompressed: a decoder would hold back data. [`LookupError::Outage`] if no answer came.
    pub async fn open_stream(&self, mut request: Request) -> Result<StreamReply, LookupError> {
        *request.timeout_mut() = Some(LONGEST_BODY);
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let opening = async {
            let mut response = self.client.execute(request).await.map_err(|error| self.call_error(error))?;
            if response.status().is_success() {
                return Ok(StreamReply::Open(StreamBody(response)));
            }
            let body = error_body(&mut response).await;
            let status = response.status().as_u16();
            Ok(StreamReply::Refused(Reply {
                status,
                headers: std::mem::take(response.headers_mut()),
                body,
                _large: None,
            }))
        };
        Self::with_timeout(self.timeout, opening).await
    }

    /// `Server` header of the answer at `address`, if any. The request carries no credential.
    pub async fn server_header(&self, mut address: Url) -> Option<String> {
        // A login in the address would be sent.
        address.set_username("").ok()?;
        address.set_password(None).ok()?;
        let answer = self.client.get(address).send().await.ok()?;
        Some(answer.headers().get(SERVER)?.to_str().ok()?.to_owned())
    }

    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Runs `exchanges` for at most `span`; then it fails with [`LookupError::Outage`].
    pub async fn with_timeout<T>(
        span: Duration,
        exchanges: impl Future<Output = Result<T, LookupError>>,
    ) -> Result<T, LookupError> {
        tokio::time::timeout(span, exchanges).await.unwrap_or_else(|_| Err(LookupError::Outage(timeout_text(span))))
    }

    /// Reads the body, with a permit if it is large. `watch` started with the exchange.
    async fn read_body(
        &self,
        response: &mut Response,
        watch: &Stopwatch,
    ) -> Result<(Vec<u8>, Option<LargePermits>), LookupError> {
        let declared = response.content_length();
        if let Some(bytes) = declared.filter(|bytes| *bytes > self.max_body_bytes as u64) {
            let limit = self.max_body_bytes;
            return Err(LookupError::BadAnswer(format!("it declares {bytes} bytes, over the limit of {limit}")));
        }
        // The server may declare any length, so it reserves at most 1 MB ahead.
        let mut body = Vec::with_capacity(declared.map_or(0, |bytes| bytes.min(1 << 20) as usize));
        let mut large = None;
        while let Some(chunk) = response.chunk().await.map_err(|error| self.call_error(error))? {
            body.extend_from_slice(&chunk);
            // Chunks are decompressed and small (the decoder's buffer): a body that unpacks to gigabytes is dropped one chunk
            // after the limit.
            if body.len() > self.max_body_bytes {
                let limit = self.max_body_bytes;
                return Err(LookupError::BadAnswer(format!("it is larger than the limit of {limit} bytes")));
            }
            if body.len() > SMALL_BODY_BYTES && large.is_none() {
                large = Some(self.acquire_large_permits(watch).await?);
            }
        }
        if has_more_values(&body, MOST_VALUES) {
            return Err(LookupError::BadAnswer(format!("it has more than {MOST_VALUES} values")));
        }
        Ok((body, large))
    }

    /// Waits for the permits, for the rest of the exchange's timeout.
    async fn acquire_large_permits(&self, watch: &Stopwatch) -> Result<LargePermits, LookupError> {
        let permits = async {
            let own = self.large.clone().acquire_owned().await;
            let shared = LARGE.acquire().await;
            // Neither semaphore is ever closed.
            Some(LargePermits { _own: own.ok()?, _shared: shared.ok()? })
        };
        let left = self.timeout.saturating_sub(watch.elapsed());
        let permits = tokio::time::timeout(left, permits).await.ok().flatten();
        permits.ok_or_else(|| LookupError::Outage("other large answers used up its timeout".to_owned()))
    }

    fn call_error(&self, error: reqwest::Error) -> LookupError {
        LookupError::Outage(if error.is_timeout() && !error.is_connect() {
            timeout_text(self.timeout)
        } else if error.is_connect() {
            format!("cannot connect: {}", join_causes(error))
        } else if error.is_body() || error.is_decode() {
            format!("the answer broke off: {}", join_causes(error))
        } else {
            join_causes(error)
        })
    }
}

/// Lead of the queue's clock over the server's, ms, if above [`FURTHEST_AHEAD_MS`]. The age of a cached answer counts.
fn clock_lead(headers: &HeaderMap, queue: Millis) -> Option<Millis> {
    let text = |name| headers.get(name)?.to_str().ok();
    let kept_s = text(AGE).and_then(|age| age.trim().parse::<u32>().ok()).unwrap_or(0);
    let theirs = scalar::http_date(text(DATE)?)?.saturating_add(i64::from(kept_s) * 1_000);
    Some(queue.saturating_sub(theirs)).filter(|ahead| *ahead > FURTHEST_AHEAD_MS)
}

impl StreamBody {
    /// Next piece of at least one byte; `None` at the end. [`LookupError::Outage`] if the connection broke.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, LookupError> {
        let broken = |error| LookupError::Outage(format!("the connection broke: {}", join_causes(error)));
        Ok(self.0.chunk().await.map_err(broken)?.map(Vec::from))
    }
}

impl Reply {
    /// Text of a header; `None` if it is missing or not ASCII.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Lines of a header, joined by commas; `None` if it is missing. A line that is not ASCII is a [`LookupError::BadAnswer`].
    pub fn header_lines(&self, name: &str) -> Result<Option<String>, LookupError> {
        let lines: Result<Vec<&str>, _> = self.headers.get_all(name).iter().map(HeaderValue::to_str).collect();
        let lines = lines.map_err(|_| LookupError::BadAnswer(format!("its header {name} is not ASCII")))?;
        Ok((!lines.is_empty()).then(|| lines.join(", ")))
    }

    /// Time of sending by the server's clock, ms since the epoch, in whole seconds.
    #[must_use]
    pub fn date(&self) -> Option<Millis> {
        self.header("date").and_then(scalar::http_date)
    }

    /// Describes the answer in an error's text: `text/html, 512 bytes`.
    #[must_use]
    pub fn describe(&self) -> String {
        // Only the media type without parameters, up to 40 characters: the header comes from the server and may hold anything.
        let kind: String = self
            .header(CONTENT_TYPE.as_str())
            .unwrap_or_default()
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || "/+-.".contains(*c))
            .take(40)
            .collect();
        let kind = if kind.is_empty() { "no content type" } else { &kind };
        format!("{kind}, {} bytes", self.body.len())
    }

    /// Checks the content type: a captive portal's login page has status 200, too. Old answers and emulators state
    /// text/javascript or nothing.
    fn check_content_type(&self) -> Result<(), LookupError> {
        let kind = self.header(CONTENT_TYPE.as_str()).unwrap_or("json");
        if ["json", "javascript"].iter().any(|known| kind.contains(known)) {
            return Ok(());
        }
        Err(LookupError::BadAnswer(format!("it is not JSON: {}", self.describe())))
    }

    /// Returns the reply if it is a 200 with JSON; else the error of `refused`, or [`LookupError::BadAnswer`].
    pub fn require_json(self, refused: impl FnOnce(&Self) -> LookupError) -> Result<Self, LookupError> {
        self.check_json(refused).map(|()| self)
    }

    pub fn check_json(&self, refused: impl FnOnce(&Self) -> LookupError) -> Result<(), LookupError> {
        if self.status != 200 {
            return Err(refused(self));
        }
        self.check_content_type()
    }

    /// Parses the body with `read`. An error about the body's shape also states the content type.
    pub fn read<T>(&self, read: impl FnOnce(&[u8]) -> Result<T, LookupError>) -> Result<T, LookupError> {
        read(&self.body).map_err(|error| match error {
            LookupError::BadAnswer(why) => LookupError::BadAnswer(format!("{why}: {}", self.describe())),
            other => other,
        })
    }

    pub fn parse_outcomes<T>(
        &self,
        quota: Option<Quota>,
        read: impl FnOnce(&[u8]) -> Result<(Vec<Outcome<T>>, UnsolicitedObjects), LookupError>,
    ) -> Result<Answer<T>, LookupError> {
        let (outcomes, unsolicited) = self.read(read)?;
        Ok(Answer::new(outcomes, quota, unsolicited))
    }

    /// Error for a redirect (a captive portal, or a moved address). It names only the host: the rest may repeat the query.
    #[must_use]
    pub fn redirect_error(&self) -> LookupError {
        let target = self.header("location").and_then(|location| Url::parse(location).ok());
        let host = target.as_ref().and_then(Url::host_str).unwrap_or("the same host or nowhere");
        LookupError::BadAnswer(format!("HTTP {}, a redirect to {host}", self.status))
    }
}

/// Parses the common address of a provider's endpoints. A password in it would end up in logs: it is rejected and not repeated.
pub fn parse_base_url(base_url: &str) -> Result<Url, ClientError> {
    let url = Url::parse(base_url).map_err(|error| ClientError::BaseUrl(format!("is not an address: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(ClientError::BaseUrl("must start with http:// or https:// and name a host".to_owned()));
    }
    if has_login(&url) || url.query().is_some() || url.fragment().is_some() {
        return Err(ClientError::BaseUrl("must have no user, password, query or fragment".to_owned()));
    }
    // `join` replaces what follows the last slash, so there must be one at the end.
    Url::parse(&format!("{}/", url.as_str().trim_end_matches('/'))).map_err(ClientError::inextensible)
}

/// Returns true if requests to this address cross a network in clear text.
#[must_use]
pub fn is_plain_http(url: &Url) -> bool {
    url.scheme() == "http" && !url.host_str().is_some_and(is_loopback)
}

#[must_use]
pub fn has_login(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Address of an endpoint; `path` has no leading slash.
pub fn endpoint_url(base: &Url, path: &str) -> Result<Url, ClientError> {
    base.join(path).map_err(ClientError::inextensible)
}

/// Fatal: a retry would build the same request.
#[allow(clippy::needless_pass_by_value)] // stands in `map_err`
pub fn request_build_error(error: reqwest::Error) -> LookupError {
    LookupError::Stop(format!("cannot build a request: {}", error.without_url()))
}

pub fn set_bearer(request: &mut Request, token: &SecretString) -> Result<(), LookupError> {
    set_authorization(request, &format!("Bearer {}", token.expose_secret()).into())
}

/// Signs an otherwise complete request for a user (OAuth 1.0a): the signature covers method, address, query and form body. `now`
/// is the provider's clock, ms since the epoch.
pub fn sign_request(request: &mut Request, keys: &UserKeys, now: Millis) -> Result<(), LookupError> {
    let mut address = request.url().clone();
    let mut parameters: Vec<(String, String)> = address.query_pairs().into_owned().collect();
    if let Some(form) = form_body(request) {
        // A form is encoded like a query, so the address parses it.
        address.set_query(Some(form));
        parameters.extend(address.query_pairs().into_owned());
    }
    address.set_query(None);
    address.set_fragment(None);
    let stamp = Stamp::at(now);
    let header = authorization(keys, &stamp, request.method().as_str(), address.as_str(), parameters);
    set_authorization(request, &header)
}

/// Sets the `Authorization` header; [`LookupError::Credential`] if no header can carry a character of it.
pub fn set_authorization(request: &mut Request, header: &SecretString) -> Result<(), LookupError> {
    let mut value = HeaderValue::from_str(header.expose_secret())
        .map_err(|_| LookupError::Credential("it holds a character that no header can carry".to_owned()))?;
    // Keeps it out of Debug output and of HTTP/2's compression tables.
    value.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, value);
    Ok(())
}

fn form_body(request: &Request) -> Option<&str> {
    let kind = request.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    let body = std::str::from_utf8(request.body()?.as_bytes()?).ok()?;
    kind.starts_with("application/x-www-form-urlencoded").then_some(body)
}

/// Returns true if a JSON text has more than `than` values. Each value but the first of a list or an object follows a comma.
fn has_more_values(body: &[u8], than: usize) -> bool {
    // Most texts have fewer commas than that, even with those inside strings.
    if body.iter().filter(|byte| **byte == b',').count() <= than {
        return false;
    }
    let (mut values, mut in_string, mut escaped) = (0, false, false);
    for byte in body {
        match byte {
            _ if std::mem::take(&mut escaped) => {}
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b',' if !in_string => values += 1,
            _ => {}
        }
    }
    values > than
}

fn timeout_text(span: Duration) -> String {
    format!("no whole answer within {} ms", span.as_millis())
}

async fn error_body(response: &mut Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() >= ERROR_BODY_BYTES {
            body.truncate(ERROR_BODY_BYTES);
            break;
        }
    }
    body
}

/// Joins an error and its causes in one line, without the address: its query lists the ids.
fn join_causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
impl Reply {
    pub(crate) fn for_test(status: u16, headers: &[(&'static str, &str)], body: &str) -> Self {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Self { status, headers, body: body.as_bytes().to_vec(), _large: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (body, values) in
            [("[1,2,3]", 2), (r#"{"a":"1,2,3","b":[4,5],"c\",":6}"#, 3), (r#"["\\",1,2]"#, 2), (r#"["\\\",1,2]"#, 0)]
        {
            assert!(!has_more_values(body.as_bytes(), values), "{body}");
            assert!(values == 0 || has_more_values(body.as_bytes(), values - 1), "{body}");
        }
    }
}
