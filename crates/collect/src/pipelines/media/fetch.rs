//! Fetches one file without a credential, within limits. Hashes it as it arrives, and resumes it after an interruption.
//!
//! ```text
//!   check the address ─▶ permit of its host ─▶ request ─▶ (redirect: check again) ─▶ first bytes: type ─▶ … ─▶ store
//! ```
//!
//! The fetcher trusts no host about type or length. A resumed file repeats some bytes of the partial file, which must be the same.

mod answer;
mod outcome;

use std::error::Error as _;
use std::io::SeekFrom;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, IF_RANGE, RANGE};
use reqwest::{Client, Response, Url, redirect};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use self::answer::{OVERLAP, StatedRange, check_status, validator};
pub use self::outcome::{FetchOutcome, StoredFile};
use self::outcome::{LoadError, PartialFile, file_failure, host_failure, storage_failure};
use super::addresses::{PrivateHosts, PublicAddresses, RefusedAddress, redirect_target};
use super::file_type::{HEAD_BYTES, file_type};
use super::files::CompleteFile;
use super::hash::{hex, sha256_context};
use super::hosts::HostLimiter;
use super::partial_files::{LockedPart, ReservedBytes};
use super::storage::{MediaStorage, StorageError};
use engine::base::clock::{Stopwatch, millis};
use networks::model::media::MediaState;
use networks::providers::proxy::{BadProxy, ProxyAddress};

const MAX_REDIRECTS: usize = 4;
/// Minimum bytes per attempt: with fewer, the attempt has failed.
const MIN_PROGRESS: u64 = 64 * 1_024;
const BUSY_WAIT: Duration = Duration::from_secs(30);
const NO_PERMIT_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct Limits {
    pub max_bytes: u64,
    /// Longest wait for an answer, or for its next bytes.
    pub stall: Duration,
    pub connect: Duration,
    /// The proxy. It resolves host names itself, so only IP addresses in URLs are checked: the proxy must block private networks.
    pub proxy: Option<ProxyAddress>,
}

#[derive(Debug, Clone, Copy)]
pub struct FileRequest<'a> {
    pub namespace: &'a str,
    pub id: &'a str,
    pub url: &'a str,
    /// Addresses of smaller sizes of the picture, largest first, for a host without the file at `url`.
    pub smaller: &'a [String],
}

#[async_trait]
pub trait Fetch: Send + Sync {
    /// Fetches and stores a file within that time; a repeated call changes nothing.
    async fn fetch(&self, wanted: FileRequest<'_>, within: Duration) -> FetchOutcome;

    /// Removes the partial file of a medium that is no longer fetched.
    fn discard(&self, _namespace: &str, _id: &str) {}
}

/// The HTTP client of media cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum UnusableClient {
    #[error(transparent)]
    Proxy(BadProxy),
    #[error("cannot set up the HTTP client of media: {0}")]
    Client(reqwest::Error),
}

#[derive(Debug)]
pub struct Fetcher {
    client: Client,
    private: Arc<PrivateHosts>,
    limits: Limits,
    hosts: HostLimiter,
    storage: Arc<MediaStorage>,
}

struct Incoming<'a> {
    file: tokio::fs::File,
    hash: ring::digest::Context,
    head: Vec<u8>,
    bytes: u64,
    reserved: ReservedBytes<'a>,
    kind: Option<&'static str>,
}

#[async_trait]
impl Fetch for Fetcher {
    async fn fetch(&self, wanted: FileRequest<'_>, within: Duration) -> FetchOutcome {
        let watch = Stopwatch::start();
        let url = match self.private.check(wanted.url) {
            Ok(url) => url,
            Err(why) => return FetchOutcome::Refused(why.to_string()),
        };
        let host = host_and_port(&url);
        // A short wait: media of other hosts are in this batch.
        let _permit = match tokio::time::timeout(within.min(NO_PERMIT_WAIT), self.hosts.acquire(&host)).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(rest)) => return FetchOutcome::Later(rest),
            Err(_) => return FetchOutcome::Later(NO_PERMIT_WAIT),
        };
        // Earlier downloads from this host may have filled the disk.
        if let Some(why) = self.storage.parts.blocked_reason() {
            return FetchOutcome::StorageUnavailable(why);
        }
        let part = match self.storage.parts.lock_part(wanted.namespace, wanted.id) {
            Ok(Some(part)) => part,
            Ok(None) => return FetchOutcome::Later(BUSY_WAIT),
            Err(error) => return storage_failure(&error),
        };
        let loaded = self.load_largest(&part, &url, wanted.smaller, within.saturating_sub(watch.elapsed())).await;
        let size = part.size();
        let fetched = match loaded {
            // A quarter more than the time of the host: the lease has room for that.
            Ok((whole, smaller)) => {
                match self.store_loaded(part, whole, (within + within / 4).saturating_sub(watch.elapsed())).await {
                    FetchOutcome::Stored(stored) => FetchOutcome::Stored(StoredFile { smaller, ..stored }),
                    not_kept => not_kept,
                }
            }
            Err(fetched) => {
                let keeps = match &fetched {
                    FetchOutcome::Failed { .. } | FetchOutcome::Interrupted | FetchOutcome::Later(_) => true,
                    // The partial file is still valid if the host has the file again.
                    FetchOutcome::Unconfirmed { state, .. } => *state == MediaState::Gone,
                    FetchOutcome::Stored(_)
                    | FetchOutcome::Gone(_)
                    | FetchOutcome::Refused(_)
                    | FetchOutcome::StorageUnavailable(_) => false,
                };
                let mut addresses = wanted.smaller.iter().map(String::as_str).chain([url.as_str()]);
                if !keeps || addresses.all(|address| part.validator(address).is_none()) {
                    part.discard();
                }
                fetched
            }
        };
        match &fetched {
            FetchOutcome::StorageUnavailable(why) => self.storage.parts.pause(size, why),
            FetchOutcome::Stored(_) => self.storage.parts.end_pause(),
            _ => {}
        }
        match &fetched {
            FetchOutcome::Failed { is_of_host: true, after, .. } => self.hosts.record_failure(&host, *after),
            // A host that refuses everything has not recovered: an unconfirmed answer shortens no pause.
            FetchOutcome::Later(_)
            | FetchOutcome::StorageUnavailable(_)
            | FetchOutcome::Failed { .. }
            | FetchOutcome::Unconfirmed { .. } => {}
            _ => self.hosts.record_success(&host),
        }
        fetched
    }

    fn discard(&self, namespace: &str, id: &str) {
        // If another process works on it, the part ends there.
        if let Ok(Some(part)) = self.storage.parts.lock_part(namespace, id) {
            part.discard();
        }
    }
}

impl Fetcher {
    /// Its client has no credential, no cookie and no automatic redirects. Fails if TLS cannot be set up.
    pub fn new(
        private: PrivateHosts,
        limits: Limits,
        hosts: HostLimiter,
        storage: Arc<MediaStorage>,
    ) -> Result<Self, UnusableClient> {
        // As in `providers::http`: the first caller has installed the same provider.
        drop(rustls::crypto::ring::default_provider().install_default());
        let private = Arc::new(private);
        let client = Client::builder()
            .user_agent(concat!("twitter-updater/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(limits.connect)
            .redirect(redirect::Policy::none())
            .referer(false)
            // Ranges refer to the unencoded bytes.
            .gzip(false)
            .pool_max_idle_per_host(4)
            .pool_idle_timeout(Duration::from_secs(30));
        // Behind a proxy, only the proxy's own name is resolved here, and no loopback address bypasses the proxy.
        let client = match &limits.proxy {
            Some(proxy) => client.proxy(proxy.for_all().map_err(UnusableClient::Proxy)?),
            None => client.no_proxy().dns_resolver(PublicAddresses(private.clone())),
        };
        let client = client.build().map_err(UnusableClient::Client)?;
        Ok(Self { client, private, limits, hosts, storage })
    }

    async fn store_loaded(
        &self,
        part: LockedPart,
        (file, is_continued): (CompleteFile, bool),
        within: Duration,
    ) -> FetchOutcome {
        match tokio::time::timeout(within, self.storage.store_file(part, &file)).await {
            Ok(Ok(is_new)) => FetchOutcome::Stored(StoredFile { file, is_new, is_continued, smaller: None }),
            Ok(Err(StorageError::Busy)) => FetchOutcome::Later(BUSY_WAIT),
            Ok(Err(StorageError::Full(why) | StorageError::Unavailable(why))) => FetchOutcome::StorageUnavailable(why),
            Err(_) => FetchOutcome::StorageUnavailable(format!(
                "the storage of media took no file within {} ms; check media.folder or media.store",
                within.as_millis()
            )),
        }
    }

    /// Loads the largest available size. Returns true if it was resumed, and its address if it is one of `smaller`.
    async fn load_largest(
        &self,
        part: &LockedPart,
        url: &Url,
        smaller: &[String],
        within: Duration,
    ) -> Result<((CompleteFile, bool), Option<String>), FetchOutcome> {
        let watch = Stopwatch::start();
        let mut lacking = match self.load(part, url, within).await {
            Ok(whole) => return Ok((whole, None)),
            Err(LoadError::NotAtAddress(lacking)) => lacking,
            Err(LoadError::Ended(fetched)) => return Err(fetched),
            Err(LoadError::Restart) => return Err(changing_file_failure()),
        };
        for address in smaller {
            let url = self.private.check(address).map_err(|why| FetchOutcome::Refused(why.to_string()))?;
            match self.load(part, &url, within.saturating_sub(watch.elapsed())).await {
                Ok(whole) => return Ok((whole, Some(address.clone()))),
                // While the host fails at one size, its other answers prove nothing.
                Err(LoadError::NotAtAddress(failed @ FetchOutcome::Failed { .. })) => lacking = failed,
                Err(LoadError::NotAtAddress(_)) => {}
                Err(LoadError::Ended(fetched)) => return Err(fetched),
                Err(LoadError::Restart) => return Err(changing_file_failure()),
            }
        }
        Err(lacking)
    }

    /// Returns true if it resumed a partial file.
    async fn load(&self, part: &LockedPart, url: &Url, within: Duration) -> Result<(CompleteFile, bool), LoadError> {
        let watch = Stopwatch::start();
        let there = part.file.metadata()?.len();
        let noted = part.validator(url.as_str());
        let mut partial = noted.map(|(validator, total)| PartialFile { bytes: there, validator, total });
        partial = partial.filter(|partial| partial.bytes > 0);
        for _ in 0..2 {
            match self.load_once(part, url, partial.take(), (watch, within)).await {
                Err(LoadError::Restart) => {
                    tracing::debug!(%url, "the file has changed since its download started: it is fetched again")
                }
                ended => return ended,
            }
        }
        Err(LoadError::Restart)
    }

    async fn load_once(
        &self,
        part: &LockedPart,
        url: &Url,
        partial: Option<PartialFile>,
        (watch, within): (Stopwatch, Duration),
    ) -> Result<(CompleteFile, bool), LoadError> {
        let mut response = self.send_request(url, partial.as_ref(), (watch, within)).await?;
        let rest = StatedRange::from_response(&response, partial.as_ref())?;
        if let Some(total) = rest.total.filter(|total| *total > self.limits.max_bytes) {
            return Err(LoadError::Ended(self.too_large(total)));
        }
        let mut reserved = self.storage.parts.new_reservation();
        if let Some(total) = rest.total {
            part.note_size(total);
            let is_there = partial.as_ref().map_or(0, |partial| partial.bytes);
            if let Some(why) = reserved.reserve_announced(total, total.saturating_sub(is_there)) {
                return Err(LoadError::Ended(FetchOutcome::StorageUnavailable(why)));
            }
        }
        let file = tokio::fs::File::from_std(part.begin_writing()?);
        let mut incoming = Incoming { file, hash: sha256_context(), head: Vec::new(), bytes: 0, reserved, kind: None };
        let tail = match rest.from {
            0 => {
                incoming.file.set_len(0).await?;
                incoming.file.seek(SeekFrom::Start(0)).await?;
                part.note_validator(url.as_str(), validator(response.headers()).as_deref(), rest.total)?;
                Vec::new()
            }
            from => incoming.read_back(from, partial.as_ref().map_or(from, |partial| partial.bytes)).await?,
        };
        let came = self.receive(&mut response, &mut incoming, tail, (watch, within)).await;
        // The next attempt must find the written bytes.
        incoming.file.flush().await?;
        part.end_writing();
        came?;
        let (bytes, is_continued) = (incoming.bytes, rest.from > 0);
        if rest.total.is_some_and(|total| total != bytes) {
            return Err(LoadError::Ended(file_failure("the file broke off")));
        }
        if bytes == 0 {
            return Err(LoadError::Ended(file_failure("the file is empty")));
        }
        let kind = incoming.kind.or_else(|| file_type(&incoming.head));
        let Some(kind) = kind else { return Err(LoadError::Ended(wrong_type(&incoming.head))) };
        let sha256 = hex(incoming.hash.finish().as_ref());
        Ok((CompleteFile { sha256, bytes, kind }, is_continued))
    }

    async fn send_request(
        &self,
        url: &Url,
        partial: Option<&PartialFile>,
        (watch, within): (Stopwatch, Duration),
    ) -> Result<Response, LoadError> {
        let mut url = url.clone();
        let ended = |fetched| Err(LoadError::Ended(fetched));
        for _ in 0..=MAX_REDIRECTS {
            if let Some(rest) = self.hosts.remaining_pause(&host_and_port(&url)) {
                return ended(FetchOutcome::Later(rest));
            }
            let mut request = self.client.get(url.clone()).header(ACCEPT, "image/*, video/*, audio/*, */*;q=0.1");
            request = request.header(ACCEPT_ENCODING, "identity");
            if let Some(PartialFile { bytes, validator, .. }) = partial {
                let from = bytes.saturating_sub(OVERLAP);
                request = request.header(RANGE, format!("bytes={from}-")).header(IF_RANGE, validator);
            }
            let left = within.saturating_sub(watch.elapsed()).min(self.limits.stall + self.limits.connect);
            let response = match tokio::time::timeout(left, request.send()).await {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => return ended(request_failure(&error)),
                Err(_) => return ended(host_failure(format!("no answer within {} ms", left.as_millis()), None)),
            };
            if self.limits.proxy.is_none()
                && let Err(why) = self.private.check_peer(&url, response.remote_addr())
            {
                return ended(FetchOutcome::Refused(why.to_string()));
            }
            match redirect_target(&url, &response) {
                None => return check_status(response, partial.is_some()),
                Some(Err(why)) => return ended(file_failure(why.to_string())),
                Some(Ok(next)) => match self.private.check_url(&next) {
                    Ok(()) => url = next,
                    Err(why) => return ended(FetchOutcome::Refused(format!("redirected: {why}"))),
                },
            }
        }
        ended(FetchOutcome::Refused(format!("redirected more than {MAX_REDIRECTS} times")))
    }

    /// Reads the body into the part. `tail`: bytes on disk that arrive again first.
    async fn receive(
        &self,
        response: &mut Response,
        incoming: &mut Incoming<'_>,
        mut tail: Vec<u8>,
        (watch, within): (Stopwatch, Duration),
    ) -> Result<(), LoadError> {
        let at_first = incoming.bytes;
        loop {
            let left = within.saturating_sub(watch.elapsed());
            let chunk = match tokio::time::timeout(left.min(self.limits.stall), response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) if tail.is_empty() => return Ok(()),
                Ok(Ok(None)) => return Err(LoadError::Restart),
                Ok(Err(_)) => {
                    return Err(LoadError::Ended(file_failure(format!(
                        "the file broke off after {} bytes",
                        incoming.bytes
                    ))));
                }
                Err(_) if left > self.limits.stall => {
                    let stall = self.limits.stall.as_millis();
                    return Err(LoadError::Ended(host_failure(
                        format!("no byte for {stall} ms after {} bytes", incoming.bytes),
                        None,
                    )));
                }
                Err(_) if incoming.bytes - at_first >= MIN_PROGRESS => {
                    return Err(LoadError::Ended(FetchOutcome::Interrupted));
                }
                Err(_) => return Err(LoadError::Ended(host_failure("the file arrives too slowly".to_owned(), None))),
            };
            let again = chunk.len().min(tail.len());
            if chunk[..again] != tail[..again] {
                return Err(LoadError::Restart);
            }
            tail.drain(..again);
            incoming.write(&chunk[again..]).await?;
            if incoming.bytes > self.limits.max_bytes {
                return Err(LoadError::Ended(self.too_large(incoming.bytes)));
            }
            if let Some(why) = self.storage.parts.no_room_message(0) {
                return Err(LoadError::Ended(FetchOutcome::StorageUnavailable(why)));
            }
        }
    }

    fn too_large(&self, bytes: u64) -> FetchOutcome {
        FetchOutcome::Refused(format!("larger than media.max_bytes: {bytes} > {}", self.limits.max_bytes))
    }
}

impl Incoming<'_> {
    /// Reads the partial file up to `to`, for its hash and first bytes. Returns the bytes from `from` on, which arrive again.
    async fn read_back(&mut self, from: u64, to: u64) -> Result<Vec<u8>, LoadError> {
        let (mut buffer, mut tail) = (vec![0; 64 * 1_024], Vec::new());
        self.file.seek(SeekFrom::Start(0)).await?;
        while self.bytes < to {
            let most = usize::try_from(to - self.bytes).map_or(buffer.len(), |left| left.min(buffer.len()));
            let read = self.file.read(&mut buffer[..most]).await?;
            if read == 0 {
                return Err(LoadError::Restart);
            }
            // Within the buffer: at most `read`.
            let skipped = from.saturating_sub(self.bytes).min(read as u64) as usize;
            tail.extend_from_slice(&buffer[skipped..read]);
            self.count_and_hash(&buffer[..read])?;
        }
        self.file.seek(SeekFrom::Start(to)).await?;
        Ok(tail)
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        self.count_and_hash(bytes)?;
        Ok(self.file.write_all(bytes).await?)
    }

    /// Counts and hashes bytes. Ends a file of the wrong type at its first bytes.
    fn count_and_hash(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.reserved.add_received(bytes.len() as u64);
        if self.kind.is_none() {
            let more = HEAD_BYTES.saturating_sub(self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..more]);
            if self.head.len() == HEAD_BYTES {
                self.kind = file_type(&self.head);
                return if self.kind.is_some() { Ok(()) } else { Err(LoadError::Ended(wrong_type(&self.head))) };
            }
        }
        Ok(())
    }
}

fn request_failure(error: &reqwest::Error) -> FetchOutcome {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(not_public) = inner.downcast_ref::<RefusedAddress>() {
            return FetchOutcome::Refused(not_public.to_string());
        }
        cause = inner.source();
    }
    host_failure(if error.is_connect() { "cannot connect".to_owned() } else { "no answer".to_owned() }, None)
}

fn changing_file_failure() -> FetchOutcome {
    file_failure("the file changes with each request")
}

/// Unconfirmed, because it may be the page of a host under repair.
fn wrong_type(head: &[u8]) -> FetchOutcome {
    let begins = String::from_utf8_lossy(&head[..head.len().min(16)]).into_owned();
    let why = format!("the file is no picture, video or sound: it begins with {begins:?}");
    FetchOutcome::Unconfirmed { state: MediaState::Refused, why }
}

/// Key of the request limit and the pause of a host.
fn host_and_port(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default())
}

/// Doubles from `first` up to `most`; the upper half is random (`share`, 0 to 1).
#[must_use]
pub fn retry_delay_ms(attempts: u32, first: Duration, most: Duration, share: f64) -> i64 {
    let step = first.saturating_mul(2u32.saturating_pow(attempts.saturating_sub(1))).min(most);
    millis(step.mul_f64(0.5 + share / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let delay = |attempts, share| retry_delay_ms(attempts, Duration::from_secs(10), Duration::from_secs(60), share);
        assert_eq!([1, 2, 3, 4, 400].map(|n| delay(n, 1.0)), [10_000, 20_000, 40_000, 60_000, 60_000]);
        assert_eq!((delay(1, 0.0), delay(0, 1.0)), (5_000, 10_000));
    }
}
