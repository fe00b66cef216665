//! Updaters without room for files: they download no file that they must discard, report the reason, and continue automatically.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use twitter_updater::engine::queue::Queue;

use super::process::media_settings;
use super::server::{Server, content};
use super::whole::{NS, files_in, put_in};
use crate::support::disk::TinyDisk;
use crate::support::process::{Variables, run, text, variables};
use crate::support::role::{Role, value};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const PATIENCE: Duration = Duration::from_secs(90);
/// Number of large files in a batch, 600 KB each.
const LARGE_FILES: u32 = 16;

/// Waiting media, and the server with their files.
struct Scene {
    server: Server,
    world: World,
    queue: Arc<dyn Queue>,
    settings: Variables,
    folder: TempDir,
}

impl Scene {
    async fn new(on_servers: bool, of_media: Option<PathBuf>) -> Self {
        let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
        let backends = Backends { redis: on_servers, postgres: on_servers };
        let world = World::new(backends, folder.path(), "http://127.0.0.1:1").await;
        let queue = world.queue_of(folder.path(), NS).await;
        let mut settings: Variables = [world.settings.clone(), media_settings(&server, folder.path())].concat();
        settings.extend(variables(&[("media.per_host", "16")]));
        if let Some(path) = of_media {
            settings.extend(variables(&[("media.folder", path.to_str().unwrap())]));
        }
        Self { server, world, queue, settings, folder }
    }

    async fn put_in(&self, numbers: impl IntoIterator<Item = u32>) {
        put_in(&*self.world.store, &*self.queue, &self.server, numbers).await;
    }

    async fn updater(&self) -> Role {
        Role::start("updater", &self.settings, &self.folder.path().join("updater.log")).await
    }

    /// Requests for the large files.
    fn asked(&self) -> usize {
        large().map(|number| self.server.asked(&format!("/ok/{number}")).len()).sum()
    }

    async fn wait_until_stored(&self, count: u64) {
        until_true("all are stored", PATIENCE, async || self.world.store.counts(NS).await.unwrap().ended == count)
            .await;
    }
}

fn large() -> impl Iterator<Item = u32> {
    (1..=LARGE_FILES).map(|n| 100 * n + 99)
}

/// Waits until the large files were claimed `times` times each without room for them.
async fn wait_until_claimed_without_room(updater: &Role, times: u32) {
    until_true("they are claimed again and again", PATIENCE, async || {
        let metrics = updater.get("/metrics").await.1;
        let no_room = value(&metrics, &format!("twitter_updater_media_no_room_total{{namespace=\"{NS}\"}}"));
        no_room >= Some(f64::from(times * LARGE_FILES))
    })
    .await;
}

async fn wait_until_ready_reports(updater: &Role, words: &str) {
    until_true(words, PATIENCE, async || updater.get("/ready").await.1.contains(words)).await;
}

/// `media.max_disk_bytes` is nearly used: its rest is smaller than each file, which shows only when the host states the size.
async fn nearly_full(on_servers: bool) {
    let mut scene = Scene::new(on_servers, None).await;
    scene.settings.extend(variables(&[("media.max_disk_bytes", "700000")]));
    scene.put_in([99]).await;
    let updater = scene.updater().await;
    scene.wait_until_stored(1).await;
    scene.put_in(large()).await;
    wait_until_claimed_without_room(&updater, 5).await;
    wait_until_ready_reports(
        &updater,
        "there is no room for media: 0.6 of 0.7 MB are used; raise media.max_disk_bytes",
    )
    .await;
    // The first batch may request every file before the first answer states a size. Then only one file is tried after each pause.
    let asked = scene.asked();
    assert!(asked <= LARGE_FILES as usize + 4, "{asked} requests");
    assert_eq!(updater.stopped().await, Some(0));
    scene.settings.extend(variables(&[("media.max_disk_bytes", "0")]));
    let updater = scene.updater().await;
    scene.wait_until_stored(1 + u64::from(LARGE_FILES)).await;
    assert_eq!(updater.stopped().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nearly_full_it_does_not_download_the_same_files_again_embedded() {
    nearly_full(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nearly_full_it_does_not_download_the_same_files_again_on_redis_and_postgres() {
    nearly_full(true).await;
}

/// The disk has room for one file, and then for none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_it_does_not_download_the_same_files_again() {
    let Some(disk) = TinyDisk::new(Command::new("env"), 20) else { return };
    let scene = Scene::new(false, Some(disk.path().join("media"))).await;
    scene.put_in([99]).await;
    let updater = scene.updater().await;
    scene.wait_until_stored(1).await;
    disk.fill();
    scene.put_in(large()).await;
    wait_until_claimed_without_room(&updater, 5).await;
    let asked = scene.asked();
    assert!(asked <= LARGE_FILES as usize + 4, "{asked} requests");
    disk.clear();
    scene.wait_until_stored(1 + u64::from(LARGE_FILES)).await;
    assert_eq!(updater.stopped().await, Some(0));
    assert_eq!(files_in(&disk.path().join("media")).len(), 1 + LARGE_FILES as usize);
}

/// The folder cannot be created when the updater starts, but can be later.
async fn unwritable_at_first(on_servers: bool) {
    let scene = Scene::new(on_servers, None).await;
    let folder: &Path = scene.folder.path();
    std::fs::write(folder.join("media"), "a file in its place").unwrap();
    scene.put_in(large()).await;
    let updater = scene.updater().await;
    wait_until_ready_reports(&updater, "the folder of media cannot be written: ").await;
    until_true("status reports the folder, and lists the worker", PATIENCE, async || {
        let status = text(&run(&["status"], &scene.settings).stdout);
        assert!(!status.contains("no worker is running"), "{status}");
        status.contains("the folder of media cannot be written: ")
    })
    .await;
    assert_eq!(scene.asked(), 0);
    std::fs::remove_file(folder.join("media")).unwrap();
    scene.wait_until_stored(u64::from(LARGE_FILES)).await;
    assert_eq!(files_in(&folder.join("media")).len(), LARGE_FILES as usize);
    assert!(large().all(|number| content(number).len() == 600_000));
    assert_eq!(updater.stopped().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_cannot_be_written_at_the_start_is_used_as_soon_as_it_can_embedded() {
    unwritable_at_first(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_cannot_be_written_at_the_start_is_used_as_soon_as_it_can_on_redis_and_postgres() {
    unwritable_at_first(true).await;
}
