//! One file: it is there once and whole, or it is said why not.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tempfile::TempDir;
use twitter_updater::model::media::MediaState;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::media::fetch::{Fetch, FetchOutcome, Fetcher, FileRequest, Limits, StoredFile};
use twitter_updater::pipelines::media::files::{CompleteFile, Folder};
use twitter_updater::pipelines::media::hash::{hex, sha256_context};
use twitter_updater::pipelines::media::hosts::{HostLimiter, Politeness};
use twitter_updater::pipelines::media::partial_files::PartialFiles;
use twitter_updater::pipelines::media::storage::MediaStorage;
use twitter_updater::providers::proxy::ProxyAddress;
use twitter_updater::providers::registry::smaller_pictures;

use super::server::{SAME, Server, content};
use crate::support::memory_store::MemoryStore;

const SECOND: Duration = Duration::from_secs(1);
pub const MINUTE: Duration = Duration::from_secs(60);

/// A fetcher that may ask one server, and its folder.
pub struct World {
    pub server: Server,
    pub fetcher: Fetcher,
    pub folder: Folder,
    pub storage: Arc<MediaStorage>,
    pub root: TempDir,
}

impl World {
    pub async fn new() -> Self {
        Self::with(0, SECOND).await
    }

    pub async fn with(cap: u64, stall: Duration) -> Self {
        Self::around(Server::start().await, cap, stall, None)
    }

    /// The server is the proxy, at a private address.
    async fn behind_proxy() -> Self {
        let server = Server::start().await;
        let address = server.address.replace("127.0.0.1", "http://localhost");
        let proxy = ProxyAddress::read(&SecretString::from(address)).unwrap();
        Self::around(server, 0, SECOND, proxy)
    }

    fn around(server: Server, cap: u64, stall: Duration, proxy: Option<ProxyAddress>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let (folder, parts) = (Folder::new(root.path()), PartialFiles::open(root.path(), cap, 0).unwrap());
        let store = Arc::<MemoryStore>::default();
        let storage = Arc::new(MediaStorage { parts, files: Arc::new(folder.clone()), store });
        let limits = Limits { max_bytes: 700_000, stall, connect: SECOND, proxy };
        // So short that a test may go on at once.
        let pause = Duration::from_micros(1);
        let hosts = HostLimiter::new(Politeness { per_host: 4, first_pause: pause, longest_pause: pause });
        let fetcher = Fetcher::new(server.address.parse().unwrap(), limits, hosts, storage.clone()).unwrap();
        Self { server, fetcher, folder, storage, root }
    }

    pub async fn fetch(&self, path: &str) -> FetchOutcome {
        self.within(path, MINUTE).await
    }

    pub async fn within(&self, path: &str, within: Duration) -> FetchOutcome {
        let url = self.server.url(path);
        self.fetcher.fetch(FileRequest { namespace: "media:twitter", id: path, url: &url, smaller: &[] }, within).await
    }

    /// Fetches a picture in its original size, or else in a smaller one.
    async fn sized(&self, path: &str) -> FetchOutcome {
        let url = self.server.url(&format!("{path}?name=orig"));
        let smaller = smaller_pictures(&Provider::Twitter)(&url);
        self.fetcher
            .fetch(FileRequest { namespace: "media:twitter", id: path, url: &url, smaller: &smaller }, MINUTE)
            .await
    }

    /// The sizes of a picture that were requested, with the number of requests.
    fn sizes(&self, path: &str) -> [usize; 3] {
        ["orig", "4096x4096", "large"].map(|size| self.server.asked(&format!("{path}?name={size}")).len())
    }

    async fn fetch_url(&self, url: &str) -> FetchOutcome {
        self.fetcher.fetch(FileRequest { namespace: "media:twitter", id: url, url, smaller: &[] }, MINUTE).await
    }

    /// The file is in the folder, with the bytes of that number.
    pub fn has(&self, fetched: &FetchOutcome, number: u32) -> StoredFile {
        let FetchOutcome::Stored(stored) = fetched else { panic!("{fetched:?}") };
        let bytes = std::fs::read(self.folder.path(&stored.file.sha256)).unwrap();
        assert!(bytes == content(number), "other bytes than those of {number}");
        let file = CompleteFile { sha256: sha256(&bytes), bytes: bytes.len() as u64, kind: "image/png" };
        assert_eq!(stored.file, file);
        stored.clone()
    }

    /// Files below the folder, parts included.
    pub fn files(&self) -> usize {
        let folders = std::fs::read_dir(self.root.path()).unwrap().map(|of| of.unwrap().path());
        folders.map(|folder| std::fs::read_dir(folder).unwrap().count()).sum()
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    let mut hash = sha256_context();
    hash.update(bytes);
    hex(hash.finish().as_ref())
}

#[tokio::test]
async fn files_come_through_the_proxy_and_private_addresses_do_not() {
    let world = World::behind_proxy().await;
    world.has(&world.fetch_url("http://media.example.test/ok/1").await, 1);
    assert_eq!(world.server.asked("/ok/1").len(), 1);
    for url in ["http://10.1.2.3/ok/2", "http://169.254.169.254/ok/3"] {
        assert!(matches!(world.fetch_url(url).await, FetchOutcome::Refused(_)), "{url}");
    }
}

#[tokio::test]
async fn a_file_is_kept_by_its_hash_once() {
    let world = World::new().await;
    let first = world.has(&world.fetch("/ok/1").await, 1);
    assert!(first.is_new && !first.is_continued);
    let same = world.has(&world.fetch(&format!("/ok/{}", 1 + SAME)).await, 1);
    assert!(!same.is_new && same.file == first.file);
    world.has(&world.fetch("/slow/2").await, 2);
    world.has(&world.fetch("/moved/3").await, 3);
    assert_eq!(world.files(), 3);
    assert_eq!(world.server.told(), [""; 0], "nobody is told who asks");
}

#[tokio::test]
async fn a_file_that_breaks_off_is_continued() {
    let world = World::new().await;
    for _ in 0..2 {
        let FetchOutcome::Failed { why, is_of_host: false, .. } = world.fetch("/cut/99").await else { panic!() };
        assert!(why.contains("broke off"), "{why}");
    }
    let stored = world.has(&world.fetch("/cut/99").await, 99);
    assert!(stored.is_continued);
    let half = content(99).len() / 2;
    let asked: Vec<Option<String>> = [None, Some(half - 1_024), Some(half + half / 2 - 1_024)]
        .map(|from: Option<usize>| from.map(|from| format!("bytes={from}-")))
        .into();
    assert_eq!(world.server.asked("/cut/99"), asked);
    assert_eq!(world.files(), 1, "no part is left");
}

#[tokio::test]
async fn a_host_that_lies_about_ranges_gives_the_whole_file_anew() {
    let world = World::new().await;
    for (kind, requests) in [("whole", 2), ("liar", 3), ("shifted", 3), ("changed", 3)] {
        let path = format!("/{kind}/99");
        assert!(matches!(world.fetch(&path).await, FetchOutcome::Failed { .. }), "{kind}");
        let stored = world.has(&world.fetch(&path).await, 99);
        assert!(!stored.is_continued, "{kind}");
        assert_eq!(world.server.asked(&path).len(), requests, "{kind}");
        assert!(world.server.asked(&path)[1].is_some(), "{kind}");
    }
    assert_eq!(world.files(), 1);
}

#[tokio::test]
async fn a_file_whose_end_is_told_differently_is_not_whole() {
    let world = World::new().await;
    // The rest comes without the size of the whole: that of the first answer holds.
    for _ in 0..2 {
        let FetchOutcome::Failed { why, .. } = world.fetch("/open/99").await else { panic!() };
        assert!(why.contains("broke off"), "{why}");
    }
    assert!(world.has(&world.fetch("/open/99").await, 99).is_continued);
    // With another size it is another file.
    assert!(matches!(world.fetch("/shrunk/99").await, FetchOutcome::Failed { .. }));
    assert!(!world.has(&world.fetch("/shrunk/99").await, 99).is_continued);
    assert_eq!(world.server.asked("/shrunk/99").len(), 3);
}

#[tokio::test]
async fn a_process_that_died_leaves_a_part_that_is_continued() {
    let world = World::new().await;
    let path = "/ok/99";
    // As a kill leaves it: bytes, a validator, and no end.
    let (part, url) = (world.storage.parts.lock_part("media:twitter", path).unwrap().unwrap(), world.server.url(path));
    std::fs::write(&part.path, &content(99)[..200_000]).unwrap();
    part.note_validator(&url, Some("\"99\""), None).unwrap();
    assert_eq!(world.fetch(path).await, FetchOutcome::Later(Duration::from_secs(30)), "another process has it in work");
    drop(part);
    assert!(world.has(&world.fetch(path).await, 99).is_continued);
    // Whole already, but not renamed: only its end is asked for.
    let path = "/ok/98";
    let part = world.storage.parts.lock_part("media:twitter", path).unwrap().unwrap();
    std::fs::write(&part.path, content(98)).unwrap();
    part.note_validator(&world.server.url(path), Some("\"98\""), None).unwrap();
    drop(part);
    assert!(world.has(&world.fetch(path).await, 98).is_continued);
}

#[tokio::test]
async fn what_comes_too_slowly_for_its_time_is_continued_later() {
    // Its host is not called silent: it has more time than the file.
    let world = World::with(0, MINUTE).await;
    assert_eq!(world.within("/half/99", SECOND).await, FetchOutcome::Interrupted);
    assert!(world.has(&world.fetch("/half/99").await, 99).is_continued);
    assert_eq!(world.server.asked("/half/99").len(), 2);
}

#[tokio::test]
async fn a_picture_that_its_host_lacks_in_one_size_comes_in_the_next() {
    let world = World::new().await;
    for (path, size, asked) in [
        ("/orig-504/1", "4096x4096", [1, 1, 0]),
        ("/orig-404/2", "4096x4096", [1, 1, 0]),
        ("/only-large/3", "large", [1, 1, 1]),
    ] {
        let number = path.rsplit('/').next().unwrap().parse().unwrap();
        let stored = world.has(&world.sized(path).await, number);
        assert_eq!(stored.smaller, Some(world.server.url(&format!("{path}?name={size}"))), "{path}");
        assert_eq!(world.sizes(path), asked, "{path}");
    }
    let largest = world.has(&world.sized("/ok/4").await, 4);
    assert_eq!((largest.smaller, world.sizes("/ok/4")), (None, [1, 0, 0]));
}

#[tokio::test]
async fn a_picture_without_any_size_ends_as_its_original_and_a_smaller_one_is_continued() {
    let world = World::new().await;
    let gone = FetchOutcome::Unconfirmed { state: MediaState::Gone, why: "HTTP 404".to_owned() };
    assert_eq!(world.sized("/gone/3").await, gone);
    assert_eq!(world.sizes("/gone/3"), [1, 1, 1]);
    // The host is out: no other size is there, either, and a refusal of one is no word on the picture.
    match world.sized("/out/5").await {
        FetchOutcome::Failed { why, is_of_host, .. } => assert!(why == "HTTP 503" && is_of_host, "{why}"),
        fetched => panic!("{fetched:?}"),
    }
    tokio::time::sleep(Duration::from_millis(1)).await; // its pause is shorter
    let cut = world.sized("/cut-large/99").await;
    assert!(matches!(&cut, FetchOutcome::Failed { why, .. } if why.contains("broke off")), "{cut:?}");
    let stored = world.has(&world.sized("/cut-large/99").await, 99);
    assert!(stored.is_continued && stored.smaller.unwrap().ends_with("name=large"));
    assert_eq!(world.files(), 1, "no part is left");
    // What is wrong with the file itself is not asked for in another size.
    assert!(matches!(world.sized("/large/6").await, FetchOutcome::Refused(_)));
    assert_eq!(world.sizes("/large/6"), [1, 0, 0]);
}
