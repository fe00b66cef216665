//! Fetches one file without any credential, within limits. Hashes it as it arrives, and resumes it after an interruption.
//!
//! ```text
//!   check the address ─▶ a place at its host ─▶ ask ─▶ (redirect: check again) ─▶ first bytes: type ─▶ … ─▶ rename
//! ```
//!
//! The fetcher trusts no host about type or length. A resumed file repeats some bytes of the partial file, which must be the same.

use std::error::Error as _;
use std::io::{self, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, IF_RANGE, LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER,
};
use reqwest::{Client, Response, Url, redirect};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use super::addresses::{NotPublic, PrivateHosts, PublicAddresses};
use super::file_type::{HEAD, file_type};
use super::files::Whole;
use super::hash::{hash, hex};
use super::hosts::Hosts;
use super::keeper::{Keeper, NotKept};
use super::parts::{LockedPart, Reserved, unusable};
use crate::base::clock::{Stopwatch, millis, span, wall_ms};
use crate::model::media::MediaState;
use crate::providers::proxy::ProxyAddress;
use crate::providers::scalar::http_date;

const HOPS: usize = 4;
/// Bytes that are requested again when a file is resumed.
const OVERLAP: u64 = 1_024;
/// Minimum progress of a file in all of its time, in bytes: with less, the attempt has failed.
const LEAST_PROGRESS: u64 = 64 * 1_024;
/// Wait while another process works on a file.
const BUSY: Duration = Duration::from_secs(30);
/// Wait if all places at a host were taken.
const NO_PLACE: Duration = Duration::from_secs(1);

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
pub struct Wanted<'a> {
    pub namespace: &'a str,
    pub id: &'a str,
    pub url: &'a str,
    /// Addresses of smaller sizes of the picture, largest first: for a host that lacks the file at `url`, or fails at it.
    pub smaller: &'a [String],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    Stored(Stored),
    /// The file no longer exists, or the host denies it; the reason.
    Gone(String),
    /// The file is unwanted; the reason.
    Refused(String),
    /// An answer that a faulty host also gives: retried, and accepted once it has lasted.
    Doubted {
        /// Final state of the medium once the answer is accepted.
        state: MediaState,
        why: String,
    },
    Failed {
        why: String,
        /// True if the host is down: its other files wait, too.
        is_of_host: bool,
        /// Pause that the host requests.
        after: Option<Duration>,
    },
    /// The time ended during the download: the rest follows.
    Partly,
    /// Not tried, through no fault of the file; the wait until the next attempt.
    Later(Duration),
    /// There is no room, or the storage is down: no file can be fetched. The reason, and the fix.
    Disk(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub file: Whole,
    /// False if the file was stored already.
    pub is_new: bool,
    pub is_continued: bool,
    /// Address of the smaller size that was stored; `None`: the medium's own.
    pub smaller: Option<String>,
}

#[async_trait]
pub trait Fetch: Send + Sync {
    /// Fetches a file within that time. The file is stored before this returns; a repeated call changes nothing.
    async fn fetch(&self, wanted: Wanted<'_>, within: Duration) -> Fetched;

    /// Removes the partial file of a medium that is no longer fetched.
    fn discard(&self, _namespace: &str, _id: &str) {}
}

#[derive(Debug)]
pub struct Fetcher {
    client: Client,
    private: Arc<PrivateHosts>,
    limits: Limits,
    hosts: Hosts,
    keeper: Arc<Keeper>,
}

#[derive(Debug, Default)]
struct PartialFile {
    bytes: u64,
    validator: String,
    /// Size of the whole file, as stated by the first answer.
    total: Option<u64>,
}

struct Incoming<'a> {
    file: tokio::fs::File,
    hash: ring::digest::Context,
    head: Vec<u8>,
    bytes: u64,
    reserved: Reserved<'a>,
    kind: Option<&'static str>,
}

enum Stop {
    Ended(Fetched),
    /// The host lacks the file at this address, or fails at it; another size may exist.
    Lacking(Fetched),
    /// The partial file does not fit the host's current file.
    Again,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Ended(disk(&error))
    }
}

#[async_trait]
impl Fetch for Fetcher {
    async fn fetch(&self, wanted: Wanted<'_>, within: Duration) -> Fetched {
        let watch = Stopwatch::start();
        let url = match self.private.check(wanted.url) {
            Ok(url) => url,
            Err(why) => return Fetched::Refused(why),
        };
        let host = host_of(&url);
        // A short wait: media of other hosts wait behind this one.
        let _place = match tokio::time::timeout(within.min(NO_PLACE), self.hosts.enter(&host)).await {
            Ok(Ok(place)) => place,
            Ok(Err(rest)) => return Fetched::Later(rest),
            Err(_) => return Fetched::Later(NO_PLACE),
        };
        // Earlier downloads from this host may have found that there is no room.
        if let Some(why) = self.keeper.parts.blocked_reason() {
            return Fetched::Disk(why);
        }
        let part = match self.keeper.parts.part(wanted.namespace, wanted.id) {
            Ok(Some(part)) => part,
            Ok(None) => return Fetched::Later(BUSY),
            Err(error) => return disk(&error),
        };
        let loaded = self.load_largest(&part, &url, wanted.smaller, within.saturating_sub(watch.elapsed())).await;
        let size = part.size();
        let fetched = match loaded {
            // A quarter more than the time of the host: the lease has room for that.
            Ok((whole, smaller)) => {
                match self.keep(part, whole, (within + within / 4).saturating_sub(watch.elapsed())).await {
                    Fetched::Stored(stored) => Fetched::Stored(Stored { smaller, ..stored }),
                    not_kept => not_kept,
                }
            }
            Err(fetched) => {
                let keeps = match &fetched {
                    Fetched::Failed { .. } | Fetched::Partly | Fetched::Later(_) => true,
                    // The partial file is still valid if the host has the file again.
                    Fetched::Doubted { state, .. } => *state == MediaState::Gone,
                    Fetched::Stored(_) | Fetched::Gone(_) | Fetched::Refused(_) | Fetched::Disk(_) => false,
                };
                let mut addresses = wanted.smaller.iter().map(String::as_str).chain([url.as_str()]);
                if !keeps || addresses.all(|address| part.validator(address).is_none()) {
                    part.discard();
                }
                fetched
            }
        };
        match &fetched {
            Fetched::Disk(why) => self.keeper.parts.pause(size, why),
            Fetched::Stored(_) => self.keeper.parts.end_pause(),
            _ => {}
        }
        match &fetched {
            Fetched::Failed { is_of_host: true, after, .. } => self.hosts.failed(&host, *after),
            // A host that refuses everything has not recovered: a doubted answer shortens no pause.
            Fetched::Later(_) | Fetched::Disk(_) | Fetched::Failed { .. } | Fetched::Doubted { .. } => {}
            _ => self.hosts.answers(&host),
        }
        fetched
    }

    fn discard(&self, namespace: &str, id: &str) {
        // If another process works on it, the part ends there.
        if let Ok(Some(part)) = self.keeper.parts.part(namespace, id) {
            part.discard();
        }
    }
}

impl Fetcher {
    /// Makes its own client: no credential, no cookie, no automatic redirects. Fails if TLS cannot be set up.
    pub fn new(private: PrivateHosts, limits: Limits, hosts: Hosts, keeper: Arc<Keeper>) -> Result<Self, String> {
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
            Some(proxy) => client.proxy(proxy.for_all()?),
            None => client.no_proxy().dns_resolver(PublicAddresses(private.clone())),
        };
        let client = client.build().map_err(|error| format!("cannot set up the HTTP client of media: {error}"))?;
        Ok(Self { client, private, limits, hosts, keeper })
    }

    async fn keep(&self, part: LockedPart, (file, is_continued): (Whole, bool), within: Duration) -> Fetched {
        match tokio::time::timeout(within, self.keeper.keep(part, &file)).await {
            Ok(Ok(is_new)) => Fetched::Stored(Stored { file, is_new, is_continued, smaller: None }),
            Ok(Err(NotKept::Busy)) => Fetched::Later(BUSY),
            Ok(Err(NotKept::Full(why) | NotKept::Out(why))) => Fetched::Disk(why),
            Err(_) => Fetched::Disk(format!("the place of media took no file within {} ms", within.as_millis())),
        }
    }

    /// Loads the largest size that the host has into the part. Returns true if it was resumed, and its address if it is one of `smaller`.
    async fn load_largest(
        &self,
        part: &LockedPart,
        url: &Url,
        smaller: &[String],
        within: Duration,
    ) -> Result<((Whole, bool), Option<String>), Fetched> {
        let watch = Stopwatch::start();
        let mut lacking = match self.load(part, url, within).await {
            Ok(whole) => return Ok((whole, None)),
            Err(Stop::Lacking(lacking)) => lacking,
            Err(Stop::Ended(fetched)) => return Err(fetched),
            Err(Stop::Again) => return Err(changes()),
        };
        for address in smaller {
            let url = self.private.check(address).map_err(Fetched::Refused)?;
            match self.load(part, &url, within.saturating_sub(watch.elapsed())).await {
                Ok(whole) => return Ok((whole, Some(address.clone()))),
                // While the host fails at one size, its other answers prove nothing.
                Err(Stop::Lacking(failed @ Fetched::Failed { .. })) => lacking = failed,
                Err(Stop::Lacking(_)) => {}
                Err(Stop::Ended(fetched)) => return Err(fetched),
                Err(Stop::Again) => return Err(changes()),
            }
        }
        Err(lacking)
    }

    /// Loads all bytes into the part. Returns true if it resumed a partial file.
    async fn load(&self, part: &LockedPart, url: &Url, within: Duration) -> Result<(Whole, bool), Stop> {
        let watch = Stopwatch::start();
        let there = part.file.metadata()?.len();
        let noted = part.validator(url.as_str());
        let mut partial = noted.map(|(validator, total)| PartialFile { bytes: there, validator, total });
        partial = partial.filter(|partial| partial.bytes > 0);
        for _ in 0..2 {
            match self.try_once(part, url, partial.take(), (watch, within)).await {
                Err(Stop::Again) => {
                    tracing::debug!(%url, "the file has changed since its download started: it is fetched again")
                }
                ended => return ended,
            }
        }
        Err(Stop::Again)
    }

    async fn try_once(
        &self,
        part: &LockedPart,
        url: &Url,
        partial: Option<PartialFile>,
        (watch, within): (Stopwatch, Duration),
    ) -> Result<(Whole, bool), Stop> {
        let mut response = self.ask(url, partial.as_ref(), (watch, within)).await?;
        let rest = Rest::of(&response, partial.as_ref())?;
        if let Some(total) = rest.total.filter(|total| *total > self.limits.max_bytes) {
            return Err(Stop::Ended(self.too_large(total)));
        }
        let mut reserved = self.keeper.parts.reserve();
        if let Some(total) = rest.total {
            part.note_size(total);
            let is_there = partial.as_ref().map_or(0, |partial| partial.bytes);
            if let Some(why) = reserved.expect(total, total.saturating_sub(is_there)) {
                return Err(Stop::Ended(Fetched::Disk(why)));
            }
        }
        let file = tokio::fs::File::from_std(part.begin_writing()?);
        let mut incoming = Incoming { file, hash: hash(), head: Vec::new(), bytes: 0, reserved, kind: None };
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
            return Err(Stop::Ended(failed("the file broke off")));
        }
        if bytes == 0 {
            return Err(Stop::Ended(failed("the file is empty")));
        }
        let kind = incoming.kind.or_else(|| file_type(&incoming.head));
        let Some(kind) = kind else { return Err(Stop::Ended(wrong_type(&incoming.head))) };
        let sha256 = hex(incoming.hash.finish().as_ref());
        Ok((Whole { sha256, bytes, kind }, is_continued))
    }

    async fn ask(
        &self,
        url: &Url,
        partial: Option<&PartialFile>,
        (watch, within): (Stopwatch, Duration),
    ) -> Result<Response, Stop> {
        let mut url = url.clone();
        let ended = |fetched| Err(Stop::Ended(fetched));
        for _ in 0..=HOPS {
            if let Some(rest) = self.hosts.rest(&host_of(&url)) {
                return ended(Fetched::Later(rest));
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
                Ok(Err(error)) => return ended(not_answered(&error)),
                Err(_) => return ended(host_failed(format!("no answer within {} ms", left.as_millis()), None)),
            };
            if self.limits.proxy.is_none()
                && let Err(why) = self.private.check_peer(&url, response.remote_addr())
            {
                return ended(Fetched::Refused(why));
            }
            match redirected(&url, &response) {
                None => return judged(response, partial.is_some()),
                Some(Err(why)) => return ended(failed(why)),
                Some(Ok(next)) => match self.private.check_url(&next) {
                    Ok(()) => url = next,
                    Err(why) => return ended(Fetched::Refused(format!("redirected: {why}"))),
                },
            }
        }
        ended(Fetched::Refused(format!("redirected more than {HOPS} times")))
    }

    /// Reads the body into the part. `tail` has bytes on disk that arrive again first.
    async fn receive(
        &self,
        response: &mut Response,
        incoming: &mut Incoming<'_>,
        mut tail: Vec<u8>,
        (watch, within): (Stopwatch, Duration),
    ) -> Result<(), Stop> {
        let at_first = incoming.bytes;
        loop {
            let left = within.saturating_sub(watch.elapsed());
            let chunk = match tokio::time::timeout(left.min(self.limits.stall), response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) if tail.is_empty() => return Ok(()),
                Ok(Ok(None)) => return Err(Stop::Again),
                Ok(Err(_)) => return Err(Stop::Ended(failed(format!("it broke off after {} bytes", incoming.bytes)))),
                Err(_) if left > self.limits.stall => {
                    let stall = self.limits.stall.as_millis();
                    return Err(Stop::Ended(host_failed(
                        format!("no byte for {stall} ms after {}", incoming.bytes),
                        None,
                    )));
                }
                Err(_) if incoming.bytes - at_first >= LEAST_PROGRESS => return Err(Stop::Ended(Fetched::Partly)),
                Err(_) => return Err(Stop::Ended(host_failed("it comes too slowly".to_owned(), None))),
            };
            let again = chunk.len().min(tail.len());
            if chunk[..again] != tail[..again] {
                return Err(Stop::Again);
            }
            tail.drain(..again);
            incoming.take(&chunk[again..]).await?;
            if incoming.bytes > self.limits.max_bytes {
                return Err(Stop::Ended(self.too_large(incoming.bytes)));
            }
            if let Some(why) = self.keeper.parts.is_full(0) {
                return Err(Stop::Ended(Fetched::Disk(why)));
            }
        }
    }

    fn too_large(&self, bytes: u64) -> Fetched {
        Fetched::Refused(format!("larger than media.max_bytes: {bytes} > {}", self.limits.max_bytes))
    }
}

impl Incoming<'_> {
    /// Reads the partial file up to `to`, for its hash and first bytes. Returns the bytes from `from` on, which arrive again.
    async fn read_back(&mut self, from: u64, to: u64) -> Result<Vec<u8>, Stop> {
        let (mut buffer, mut tail) = (vec![0; 64 * 1_024], Vec::new());
        self.file.seek(SeekFrom::Start(0)).await?;
        while self.bytes < to {
            let most = usize::try_from(to - self.bytes).map_or(buffer.len(), |left| left.min(buffer.len()));
            let read = self.file.read(&mut buffer[..most]).await?;
            if read == 0 {
                return Err(Stop::Again);
            }
            // Within the buffer: at most `read`.
            let skipped = from.saturating_sub(self.bytes).min(read as u64) as usize;
            tail.extend_from_slice(&buffer[skipped..read]);
            self.note(&buffer[..read])?;
        }
        self.file.seek(SeekFrom::Start(to)).await?;
        Ok(tail)
    }

    async fn take(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.note(bytes)?;
        Ok(self.file.write_all(bytes).await?)
    }

    /// Counts and hashes bytes. Ends a file of the wrong type at its first bytes.
    fn note(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.reserved.add(bytes.len() as u64);
        if self.kind.is_none() {
            let more = HEAD.saturating_sub(self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..more]);
            if self.head.len() == HEAD {
                self.kind = file_type(&self.head);
                return if self.kind.is_some() { Ok(()) } else { Err(Stop::Ended(wrong_type(&self.head))) };
            }
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Rest {
    from: u64,
    /// Size of the whole file, if the answer states it.
    total: Option<u64>,
}

impl Rest {
    fn of(response: &Response, partial: Option<&PartialFile>) -> Result<Self, Stop> {
        if response.status().as_u16() != 206 {
            return Ok(Self { from: 0, total: response.content_length() });
        }
        let Some(partial) = partial else {
            return Err(Stop::Ended(failed("a part came, and the whole was asked for")));
        };
        let asked = partial.bytes.saturating_sub(OVERLAP);
        let stated = response.headers().get(CONTENT_RANGE).and_then(|range| content_range(range.to_str().ok()?));
        let is_same = validator(response.headers()).is_none_or(|now| now == partial.validator);
        match stated {
            // From the first byte on it is the whole file, so the download restarts anyway.
            Some((from, total)) if from == asked && is_same && from > 0 => match (total, partial.total) {
                // Without a stated size, a file may be cut anywhere. With another size, it is another file.
                (Some(now), Some(before)) if now != before => Err(Stop::Again),
                (None, None) => Err(Stop::Again),
                (now, before) => Ok(Self { from, total: now.or(before) }),
            },
            _ => Err(Stop::Again),
        }
    }
}

/// The first byte and the size of the whole file: `bytes 100-199/200`.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let from = range.split_once('-')?.0.trim().parse().ok()?;
    Some((from, total.trim().parse().ok()))
}

/// Validator of an unchanged file: a strong entity tag, or else its date.
fn validator(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    text(ETAG).filter(|tag| tag.starts_with('"')).or_else(|| text(LAST_MODIFIED))
}

fn redirected(from: &Url, response: &Response) -> Option<Result<Url, String>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
    let Some(to) = to else { return Some(Err("a redirect without an address".to_owned())) };
    Some(from.join(to).map_err(|error| format!("a redirect to an address that cannot be read: {error}")))
}

fn judged(response: Response, is_continued: bool) -> Result<Response, Stop> {
    let status = response.status().as_u16();
    let ended = |fetched| Err(Stop::Ended(fetched));
    match status {
        200 | 206 => Ok(response),
        410 | 451 => ended(Fetched::Gone(format!("HTTP {status}"))),
        // A host with a lost key or an empty mount answers the same for an hour.
        401 | 403 | 404 => {
            Err(Stop::Lacking(Fetched::Doubted { state: MediaState::Gone, why: format!("HTTP {status}") }))
        }
        416 if is_continued => Err(Stop::Again),
        408 | 425 | 429 => ended(host_failed(format!("HTTP {status}"), retry_after(response.headers()))),
        500.. => Err(Stop::Lacking(host_failed(format!("HTTP {status}"), retry_after(response.headers())))),
        _ => ended(failed(format!("HTTP {status}"))),
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = text.parse().ok().map(Duration::from_secs);
    seconds.or_else(|| http_date(text).map(|at| span(at.saturating_sub(wall_ms()))))
}

fn not_answered(error: &reqwest::Error) -> Fetched {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(not_public) = inner.downcast_ref::<NotPublic>() {
            return Fetched::Refused(not_public.to_string());
        }
        cause = inner.source();
    }
    host_failed(if error.is_connect() { "cannot connect".to_owned() } else { "no answer".to_owned() }, None)
}

fn failed(why: impl Into<String>) -> Fetched {
    Fetched::Failed { why: why.into(), is_of_host: false, after: None }
}

fn changes() -> Fetched {
    failed("the file changes with each request")
}

fn host_failed(why: String, after: Option<Duration>) -> Fetched {
    Fetched::Failed { why, is_of_host: true, after }
}

/// Doubted, because it may be the page of a host under repair.
fn wrong_type(head: &[u8]) -> Fetched {
    let begins = String::from_utf8_lossy(&head[..head.len().min(16)]).into_owned();
    let why = format!("neither a picture nor a video nor a sound: it begins with {begins:?}");
    Fetched::Doubted { state: MediaState::Refused, why }
}

fn disk(error: &io::Error) -> Fetched {
    Fetched::Disk(unusable(error))
}

/// Host and port of a URL: the unit of politeness.
fn host_of(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default())
}

/// Delay before the next attempt, ms: it doubles from `first` up to `most`, and its upper half is random (`share`).
#[must_use]
pub fn delay_after(attempts: u32, first: Duration, most: Duration, share: f64) -> i64 {
    let step = first.saturating_mul(2u32.saturating_pow(attempts.saturating_sub(1))).min(most);
    millis(step.mul_f64(0.5 + share / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_which_part_it_brings() {
        assert_eq!(content_range("bytes 100-199/200"), Some((100, Some(200))));
        assert_eq!(content_range(" bytes 0-0/*"), Some((0, None)));
        for odd in ["", "bytes", "bytes */200", "items 0-1/2", "bytes x-1/2", "bytes 5"] {
            assert_eq!(content_range(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_weak_tag_is_no_validator() {
        let headers = |pairs: &[(reqwest::header::HeaderName, &str)]| {
            pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect::<HeaderMap>()
        };
        let date = "Wed, 21 Oct 2015 07:28:00 GMT";
        assert_eq!(validator(&headers(&[(ETAG, "\"a\""), (LAST_MODIFIED, date)])).as_deref(), Some("\"a\""));
        assert_eq!(validator(&headers(&[(ETAG, "W/\"a\""), (LAST_MODIFIED, date)])).as_deref(), Some(date));
        assert_eq!(validator(&headers(&[(ETAG, "W/\"a\"")])), None);
        assert_eq!(retry_after(&headers(&[(RETRY_AFTER, "120")])), Some(Duration::from_secs(120)));
        assert_eq!(retry_after(&headers(&[(RETRY_AFTER, date)])), Some(Duration::ZERO), "long past");
        assert_eq!(retry_after(&headers(&[(RETRY_AFTER, "soon")])), None);
    }

    #[test]
    fn delays_double_up_to_the_longest() {
        let delay = |attempts, share| delay_after(attempts, Duration::from_secs(10), Duration::from_secs(60), share);
        assert_eq!([1, 2, 3, 4, 400].map(|n| delay(n, 1.0)), [10_000, 20_000, 40_000, 60_000, 60_000]);
        assert_eq!((delay(1, 0.0), delay(0, 1.0)), (5_000, 10_000));
    }
}
