//! A server that speaks like S3, for a bucket, with faults; and files that are put into it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use twitter_updater::config::BucketSettings;
use twitter_updater::pipelines::media::bucket::Bucket;
use twitter_updater::pipelines::media::files::{CompleteFile, FileStorage};
use twitter_updater::pipelines::media::partial_files::{LockedPart, PartialFiles};

use super::fetch::sha256;
use crate::support::process::{Variables, variables};

const NAME: &str = "my-media";
const SECRET: &str = "canary-of-the-secret-key";

/// A running server with one bucket.
pub struct S3 {
    address: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    objects: Mutex<BTreeMap<String, Object>>,
    /// Pieces of uploads that are not over, by the upload.
    uploads: Mutex<BTreeMap<String, BTreeMap<u32, Vec<u8>>>>,
    requests: AtomicU64,
    faults: bool,
    /// Replies that were lost after the deed.
    lost: AtomicU64,
}

struct Object {
    bytes: Vec<u8>,
    kind: String,
    /// How often it was put.
    puts: u32,
}

struct Request {
    method: String,
    path: String,
    query: String,
    kind: String,
    body: Vec<u8>,
}

impl S3 {
    /// Starts it at a free port; one with faults fails, is slow, or loses its reply at some of its requests.
    pub async fn start(faults: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(State { faults, ..State::default() });
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = shared.clone();
                tokio::spawn(async move { state.serve(stream).await });
            }
        });
        Self { address, state }
    }

    /// The settings of media that are kept there.
    pub fn settings(&self) -> Variables {
        variables(&[
            ("media.store", "s3://my-media/pictures"),
            ("media.s3.endpoint", &format!("http://{}", self.address)),
            ("media.s3.access_key", "key"),
            ("media.s3.secret_key", SECRET),
        ])
    }

    /// The hashes of all files; each has the bytes that its name says.
    pub fn files(&self) -> BTreeSet<String> {
        let objects = self.state.objects.lock().unwrap();
        let file = |(path, object): (&String, &Object)| {
            let name = path.strip_prefix("/my-media/pictures/").unwrap().replace('/', "");
            assert_eq!(sha256(&object.bytes), name);
            assert_eq!(object.kind, "image/png");
            name
        };
        objects.iter().map(file).collect()
    }

    /// Replies that were lost after the deed.
    pub fn lost(&self) -> u64 {
        self.state.lost.load(Ordering::Relaxed)
    }

    fn bucket(&self, name: &str) -> Bucket {
        let settings = BucketSettings {
            bucket: name.to_owned(),
            prefix: "pictures".to_owned(),
            endpoint: format!("http://{}", self.address),
            region: String::new(),
            keys: Some(("key".into(), SECRET.into())),
        };
        Bucket::new(&settings, Duration::from_millis(500)).unwrap()
    }
}

impl State {
    async fn serve(&self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        while let Some(request) = read(&mut stream).await {
            let number = self.requests.fetch_add(1, Ordering::Relaxed);
            let fault = if self.faults { number % 17 } else { 0 };
            let (status, headers, body) = match fault {
                3 => ("500 Internal Server Error", String::new(), "<Error>InternalError</Error>".to_owned()),
                5 => ("503 Slow Down", String::new(), "<Error>SlowDown</Error>".to_owned()),
                11 => return, // it was not heard
                _ => self.answer(&request),
            };
            match fault {
                7 => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                // Longer than anybody waits.
                13 => tokio::time::sleep(Duration::from_millis(800)).await,
                _ => {}
            }
            let size =
                if request.method == "HEAD" { String::new() } else { format!("content-length: {}\r\n", body.len()) };
            let answer = format!("HTTP/1.1 {status}\r\n{headers}{size}\r\n{body}");
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn answer(&self, request: &Request) -> (&'static str, String, String) {
        let Request { method, path, query, .. } = request;
        let nothing = |status| (status, String::new(), String::new());
        if !path.starts_with("/my-media/") {
            let page = format!("<Error><Code>NoSuchBucket</Code><StringToSign>{SECRET}</StringToSign></Error>");
            return ("404 Not Found", String::new(), page);
        }
        let word = |name: &str| query.split('&').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let (mut objects, mut uploads) = (self.objects.lock().unwrap(), self.uploads.lock().unwrap());
        match (&**method, word("uploadId")) {
            ("HEAD", _) => match objects.get(path) {
                Some(object) => {
                    let about = "last-modified: Wed, 21 Oct 2015 07:28:00 GMT\r\netag: \"e\"\r\n";
                    ("200 OK", format!("{about}content-length: {}\r\n", object.bytes.len()), String::new())
                }
                None => ("404 Not Found", "content-length: 0\r\n".to_owned(), String::new()),
            },
            ("POST", None) => {
                let id = format!("u{}", self.requests.load(Ordering::Relaxed));
                uploads.insert(id.clone(), BTreeMap::new());
                let page =
                    format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>");
                ("200 OK", String::new(), page)
            }
            ("PUT", Some(id)) => match uploads.get_mut(id) {
                Some(pieces) => {
                    pieces.insert(word("partNumber").unwrap().parse().unwrap(), request.body.clone());
                    ("200 OK", "etag: \"p\"\r\n".to_owned(), String::new())
                }
                None => nothing("404 Not Found"),
            },
            ("POST", Some(id)) => match uploads.remove(id) {
                Some(pieces) => {
                    put(&mut objects, path, pieces.into_values().flatten().collect(), "image/png");
                    let page = "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>";
                    ("200 OK", String::new(), page.to_owned())
                }
                None => ("404 Not Found", String::new(), "<Error><Code>NoSuchUpload</Code></Error>".to_owned()),
            },
            ("PUT", None) => {
                put(&mut objects, path, request.body.clone(), &request.kind);
                ("200 OK", "etag: \"e\"\r\n".to_owned(), String::new())
            }
            ("DELETE", Some(id)) => {
                uploads.remove(id);
                nothing("204 No Content")
            }
            ("DELETE", None) => {
                objects.remove(path);
                nothing("204 No Content")
            }
            _ => nothing("400 Bad Request"),
        }
    }
}

fn put(objects: &mut BTreeMap<String, Object>, path: &str, bytes: Vec<u8>, kind: &str) {
    let puts = objects.get(path).map_or(0, |known| known.puts) + 1;
    objects.insert(path.to_owned(), Object { bytes, kind: kind.to_owned(), puts });
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let (mut first, mut size, mut kind, mut is_signed) = (String::new(), 0, String::new(), false);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            _ if line.trim_end().is_empty() => break,
            None => first = line,
            Some((name, value)) => match &*name.to_ascii_lowercase() {
                "content-length" => size = value.parse().unwrap(),
                "content-type" => value.clone_into(&mut kind),
                "authorization" => is_signed = value.starts_with("AWS4-HMAC-SHA256 Credential=key/"),
                _ => {}
            },
        }
    }
    assert!(is_signed, "{first}");
    let mut body = vec![0; size];
    stream.read_exact(&mut body).await.ok()?;
    let mut words = first.split(' ');
    let (method, address) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    Some(Request { method, path: path.to_owned(), query: query.to_owned(), kind, body })
}

/// A whole file of so many bytes on its way.
fn whole(size: usize) -> (TempDir, PartialFiles, CompleteFile) {
    let folder = tempfile::tempdir().unwrap();
    let parts = PartialFiles::open(folder.path(), 0, 0).unwrap();
    let bytes: Vec<u8> = (0..size).map(|at| (at / 7) as u8).collect();
    std::fs::write(&part(&parts).path, &bytes).unwrap();
    (folder, parts, CompleteFile { sha256: sha256(&bytes), bytes: size as u64, kind: "image/png" })
}

fn part(parts: &PartialFiles) -> LockedPart {
    parts.lock_part("media:twitter", "1").unwrap().unwrap()
}

#[tokio::test]
async fn a_file_is_in_the_bucket_once_small_or_in_pieces() {
    let server = S3::start(false).await;
    let bucket = server.bucket(NAME);
    // The second one is of three pieces.
    for size in [1_000, 12_000_000] {
        let (_folder, parts, file) = whole(size);
        assert_eq!(bucket.store(part(&parts), &file).await, Ok(true));
        assert_eq!(bucket.store(part(&parts), &file).await, Ok(false), "it is there");
        assert!(server.files().contains(&file.sha256));
        assert!(!part(&parts).path.metadata().is_ok_and(|of| of.len() > 0), "the part is gone");
        for _ in 0..2 {
            bucket.remove(&file.sha256).await.unwrap();
        }
        assert!(server.files().is_empty() && server.state.uploads.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn what_the_bucket_refuses_is_told_without_a_secret_and_the_part_stays() {
    let server = S3::start(false).await;
    let (_folder, parts, file) = whole(1_000);
    let why = server.bucket("other-bucket").store(part(&parts), &file).await.unwrap_err().to_string();
    assert!(why.contains("create the bucket") && !why.contains(SECRET) && !why.contains('<'), "{why}");
    assert_eq!(part(&parts).file.metadata().unwrap().len(), 1_000);
}

/// Each request is once the one that fails, is slow, or whose reply is lost.
#[tokio::test]
async fn whatever_the_server_does_each_file_comes_to_be_there_whole() {
    let server = S3::start(true).await;
    let bucket = server.bucket(NAME);
    let mut failures = 0;
    for size in (0..20).map(|n| if n % 4 == 3 { 5_300_000 + n } else { 1_000 + n }) {
        let (_folder, parts, file) = whole(size);
        while let Err(why) = bucket.store(part(&parts), &file).await {
            assert!(!why.to_string().contains(SECRET), "{why}");
            failures += 1;
        }
        assert!(server.files().contains(&file.sha256));
    }
    assert_eq!(server.files().len(), 20);
    let most = server.state.objects.lock().unwrap().values().map(|object| object.puts).max();
    println!("{failures} failures, {} lost replies, at most {most:?} puts of a file", server.lost());
    assert!(server.lost() > 2);
}
