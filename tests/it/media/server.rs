//! A host of files that misbehaves as its paths say: `/cut/17` breaks off, and gives the rest when it is asked for.
//!
//! The file of a number is the same under every path, so a test knows what must be there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Numbers whose files have the same bytes: this many apart.
pub const SAME: u32 = 7_000;

/// The bytes of a file: a PNG by its first bytes, of 2 to 34 KB; every hundredth has 600 KB.
pub fn content(number: u32) -> Vec<u8> {
    let number = number % SAME;
    let size = if number % 100 == 99 { 600_000 } else { 2_000 + (number as usize * 7_919) % 32_000 };
    let mut state = u64::from(number) + 1;
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    while bytes.len() < size {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}

/// A running one.
pub struct Server {
    /// `127.0.0.1:PORT`.
    pub address: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Requests by path, each with its `Range`.
    asked: Mutex<BTreeMap<String, Vec<Option<String>>>>,
    /// Header lines that tell who asks.
    told: Mutex<Vec<String>>,
}

/// A request.
struct Request {
    path: String,
    range: Option<u64>,
    /// How often that path was asked for before.
    before: usize,
}

impl Server {
    /// Starts it at a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::<State>::default();
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = shared.clone();
                tokio::spawn(async move { serve(stream, &state).await });
            }
        });
        Self { address, state }
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The `Range` of each request for that path.
    pub fn asked(&self, path: &str) -> Vec<Option<String>> {
        self.state.asked.lock().unwrap().get(path).cloned().unwrap_or_default()
    }

    /// Header lines that tell who asks: there must be none.
    pub fn told(&self) -> Vec<String> {
        self.state.told.lock().unwrap().clone()
    }
}

async fn serve(stream: TcpStream, state: &State) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream, state).await {
        if answer(&mut stream, &request).await.is_none() {
            return; // the connection is cut
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>, state: &State) -> Option<Request> {
    let (mut path, mut range) = (None, None);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        match line.split_once(':') {
            None => path = line.split(' ').nth(1).map(str::to_owned),
            Some((name, value)) => match &*name.to_ascii_lowercase() {
                "range" => range = Some(value.trim().to_owned()),
                "authorization" | "cookie" | "referer" => state.told.lock().unwrap().push(line.to_owned()),
                _ => {
                    path = path.or_else(|| line.split(' ').nth(1).map(str::to_owned));
                }
            },
        }
    }
    // A proxy is asked for the whole address.
    let path = path?.trim_start_matches("http://media.example.test").to_owned();
    let mut asked = state.asked.lock().unwrap();
    let times = asked.entry(path.clone()).or_default();
    let before = times.len();
    times.push(range.clone());
    let range = range.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    Some(Request { path, range, before })
}

/// Answers; `None` if the connection is to be cut.
async fn answer(stream: &mut BufReader<TcpStream>, request: &Request) -> Option<()> {
    let Request { path, range, before } = request;
    let (path, size) = path.split_once("?name=").unwrap_or((path, ""));
    let (kind, number) = path.trim_start_matches('/').split_once('/')?;
    let number: u32 = number.parse().ok()?;
    let file = content(number);
    let half = file.len() / 2;
    let tag = format!("\"{}\"", number % SAME);
    let from = range.map(|from| usize::try_from(from).unwrap());
    match kind {
        "orig-504" if size == "orig" => status(stream, "504 Gateway Timeout", "", b"").await,
        "orig-404" if size == "orig" => status(stream, "404 Not Found", "", b"").await,
        "only-large" | "cut-large" if size != "large" => status(stream, "404 Not Found", "", b"").await,
        "out" if size == "orig" => status(stream, "404 Not Found", "", b"").await,
        "out" => status(stream, "503 Service Unavailable", "", b"").await,
        "cut-large" if *before == 0 => {
            head(stream, &file, from, &tag).await?;
            stream.write_all(&file[..half]).await.ok()?;
            stream.flush().await.ok();
            None
        }
        "orig-504" | "orig-404" | "only-large" | "cut-large" => whole(stream, &file, from, &tag).await,
        "ok" => whole(stream, &file, from, &tag).await,
        "slow" => {
            head(stream, &file, from, &tag).await?;
            for piece in file[from.unwrap_or(0)..].chunks(4_000) {
                stream.write_all(piece).await.ok()?;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Some(())
        }
        // Once in the middle of the file, then at a time that a continued one has passed.
        "cut" if *before < 2 => {
            head(stream, &file, from, &tag).await?;
            let to = if *before == 0 { half } else { half + half / 2 };
            stream.write_all(&file[from.unwrap_or(0)..to]).await.ok()?;
            stream.flush().await.ok();
            None
        }
        "cut" => whole(stream, &file, from, &tag).await,
        // What it has sent already is all there is, says the second answer.
        "open" | "shrunk" if *before == 0 => {
            head(stream, &file, None, &tag).await?;
            stream.write_all(&file[..half]).await.ok()?;
            stream.flush().await.ok();
            None
        }
        "open" | "shrunk" if *before == 1 => {
            let from = from?;
            let size = if kind == "open" { "*".to_owned() } else { half.to_string() };
            let range = format!("content-range: bytes {from}-{}/{size}\r\netag: {tag}\r\n", half - 1);
            status(stream, "206 Partial Content", &range, &file[from..half]).await
        }
        "open" | "shrunk" => whole(stream, &file, from, &tag).await,
        // It knows no ranges.
        "whole" | "liar" | "changed" | "shifted" if *before == 0 => {
            head(stream, &file, None, &tag).await?;
            stream.write_all(&file[..half]).await.ok()?;
            stream.flush().await.ok();
            None
        }
        "whole" => whole(stream, &file, None, &tag).await,
        // It promises the rest, and sends something else.
        "liar" if from.is_some() => {
            let other = vec![7; file.len()];
            whole(stream, &other, from, &tag).await
        }
        "shifted" if from.is_some() => whole(stream, &file, from.map(|from| from + 1), &tag).await,
        // The file is another one since.
        "changed" if from.is_some() => whole(stream, &content(number + 1), from, "\"other\"").await,
        "liar" | "shifted" | "changed" => whole(stream, &file, None, &tag).await,
        "page" => {
            status(stream, "200 OK", "content-type: image/png\r\n", b"<!DOCTYPE html><title>Sign in</title>").await
        }
        "large" => {
            status_head(stream, "200 OK", "content-length: 99999999999\r\n").await?;
            stream.write_all(&file).await.ok()?;
            Some(())
        }
        "endless" => {
            status_head(stream, "200 OK", "transfer-encoding: chunked\r\n").await?;
            loop {
                stream.write_all(format!("{:x}\r\n", file.len()).as_bytes()).await.ok()?;
                stream.write_all(&file).await.ok()?;
                stream.write_all(b"\r\n").await.ok()?;
            }
        }
        "silent" => {
            head(stream, &file, None, &tag).await?;
            stream.write_all(&file[..100]).await.ok()?;
            stream.flush().await.ok()?;
            std::future::pending().await
        }
        // Half of it, and then nothing for longer than anybody waits.
        "half" if *before == 0 => {
            head(stream, &file, None, &tag).await?;
            stream.write_all(&file[..half]).await.ok()?;
            stream.flush().await.ok()?;
            std::future::pending().await
        }
        "half" => whole(stream, &file, from, &tag).await,
        "empty" => status(stream, "200 OK", "", b"").await,
        "storm" if *before < 2 => status(stream, "503 Service Unavailable", "", b"").await,
        "storm" => whole(stream, &file, from, &tag).await,
        "wait" => status(stream, "429 Too Many Requests", "retry-after: 120\r\n", b"").await,
        "gone" => status(stream, ["404 Not Found", "403 Forbidden", "410 Gone"][number as usize % 3], "", b"").await,
        "moved" => redirect(stream, &format!("/ok/{number}")).await,
        "around" => redirect(stream, path).await,
        "inside" => redirect(stream, "http://127.0.0.1:1/secret").await,
        "metadata" => redirect(stream, "http://169.254.169.254/latest/meta-data/").await,
        "named" => redirect(stream, "http://localhost/secret").await,
        "scheme" => redirect(stream, "file:///etc/passwd").await,
        _ => status(stream, "400 Bad Request", "", b"").await,
    }
}

/// A file, or the rest of it.
async fn whole(stream: &mut BufReader<TcpStream>, file: &[u8], from: Option<usize>, tag: &str) -> Option<()> {
    if from.is_some_and(|from| from >= file.len()) {
        return status(stream, "416 Range Not Satisfiable", &format!("content-range: bytes */{}\r\n", file.len()), b"")
            .await;
    }
    head(stream, file, from, tag).await?;
    stream.write_all(&file[from.unwrap_or(0)..]).await.ok()?;
    stream.flush().await.ok()
}

async fn head(stream: &mut BufReader<TcpStream>, file: &[u8], from: Option<usize>, tag: &str) -> Option<()> {
    let (size, start) = (file.len(), from.unwrap_or(0));
    let range = from.map(|from| format!("content-range: bytes {from}-{}/{size}\r\n", size - 1)).unwrap_or_default();
    let word = if from.is_some() { "206 Partial Content" } else { "200 OK" };
    status_head(stream, word, &format!("content-length: {}\r\netag: {tag}\r\n{range}", size - start)).await
}

async fn redirect(stream: &mut BufReader<TcpStream>, to: &str) -> Option<()> {
    status(stream, "302 Found", &format!("location: {to}\r\n"), b"").await
}

async fn status(stream: &mut BufReader<TcpStream>, word: &str, headers: &str, body: &[u8]) -> Option<()> {
    status_head(stream, word, &format!("{headers}content-length: {}\r\n", body.len())).await?;
    stream.write_all(body).await.ok()?;
    stream.flush().await.ok()
}

async fn status_head(stream: &mut BufReader<TcpStream>, word: &str, headers: &str) -> Option<()> {
    stream.write_all(format!("HTTP/1.1 {word}\r\n{headers}\r\n").as_bytes()).await.ok()
}
