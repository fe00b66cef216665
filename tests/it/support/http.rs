//! A server of canned answers, and the provider under test in front of it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use twitter_updater::providers::http::HttpOptions;
use twitter_updater::providers::twitter_v1::{TwitterV1, TwitterV1Options};
use twitter_updater::quota::{Credential, CredentialKind};

/// What came in.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What goes out: the bytes as they are, then the connection closes.
#[derive(Debug, Clone)]
pub struct Canned {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Canned {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json;charset=utf-8".to_owned())];
        Self { status, headers, body: body.into() }
    }

    /// Sets a header, in place of one of the same name.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn wire(&self) -> Vec<u8> {
        let mut wire = format!("HTTP/1.1 {} Canned\r\n", self.status);
        for (name, value) in &self.headers {
            wire.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            wire.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        wire.push_str("connection: close\r\n\r\n");
        let mut wire = wire.into_bytes();
        wire.extend_from_slice(&self.body);
        wire
    }
}

/// A running server; it ends when dropped.
pub struct CannedServer {
    pub addr: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl CannedServer {
    pub async fn start(answer: Canned) -> Self {
        Self::start_with(move |_| answer.clone()).await
    }

    pub async fn start_with(answer: impl Fn(&Asked) -> Canned + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                if let Some((request, mut stream)) = read(stream).await {
                    // A role asks at its start whether this is the simulator: that is no call of the API.
                    let wire = if request.target.starts_with("/simulator/") {
                        Canned::new(404, "").wire()
                    } else {
                        let wire = answer(&request).wire();
                        log.lock().unwrap().push(request);
                        wire
                    };
                    // A client that has seen enough may be gone already.
                    let _ = stream.write_all(&wire).await;
                    let _ = stream.shutdown().await;
                }
            }
        });
        Self { addr, asked, task }
    }

    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for CannedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(stream: TcpStream) -> Option<(Asked, TcpStream)> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).await.ok().filter(|bytes| *bytes > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await.ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None => break,
        }
    }
    let mut asked = Asked { method, target, headers, body: String::new() };
    let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.ok()?;
    asked.body = String::from_utf8(body).unwrap();
    Some((asked, reader.into_inner()))
}

/// The provider, pointed at `base_url`, with bounds short enough for tests.
pub fn twitter(base_url: &str) -> TwitterV1 {
    TwitterV1::new(options(base_url)).unwrap()
}

pub fn options(base_url: &str) -> TwitterV1Options {
    TwitterV1Options {
        base_url: base_url.to_owned(),
        http: HttpOptions { timeout: Duration::from_secs(30), ..HttpOptions::default() },
        ..TwitterV1Options::default()
    }
}

/// A token that must show nowhere.
pub const CANARY: &str = "AAAAcanary-7fd2-of-a-bearer-token";

pub fn bearer(token: &str) -> Credential {
    Credential { name: "test".to_owned(), kind: CredentialKind::Bearer(token.to_owned().into()) }
}

pub fn anonymous() -> Credential {
    Credential { name: "nobody".to_owned(), kind: CredentialKind::Anonymous }
}

pub fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

/// The folder of recorded answers; `None`, with a line that says so, where it is not there.
pub fn recordings() -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/fixtures");
    let dir = std::env::var_os("TWITTER_UPDATER_FIXTURES").map_or_else(|| PathBuf::from(default), PathBuf::from);
    if dir.is_dir() {
        return Some(dir);
    }
    println!("skipped: no recordings in {} (set TWITTER_UPDATER_FIXTURES)", dir.display());
    None
}
