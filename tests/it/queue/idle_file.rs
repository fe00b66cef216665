//! Idle roles on one SQLite file write only heartbeats into it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Executor, SqliteConnection};
use twitter_updater::base::clock::{Stopwatch, wall_ms};

use crate::support::process::{run, text, variables};
use crate::support::role::Role;
use crate::support::wait::until_true;
use crate::support::world::World;

const WITHIN: Duration = Duration::from_secs(90);
/// Heartbeats per worker in the measured span.
const BEATS: i64 = 5;
const HOUR_MS: i64 = 3_600_000;
/// Bytes of the header of each frame in a WAL, and of the WAL itself.
const FRAME_HEADER: usize = 24;
const WAL_HEADER: usize = 32;

/// Returns a position in the WAL of a file: the salt of its header, which changes when the WAL restarts, and the number of frames.
fn place(path: &Path) -> (Vec<u8>, usize) {
    let (wal, index) =
        (fs::read(path.with_extension("db-wal")).unwrap(), fs::read(path.with_extension("db-shm")).unwrap());
    (wal[16..24].to_vec(), u32::from_ne_bytes(index[16..20].try_into().unwrap()) as usize)
}

/// Returns the pages written after that position with their numbers of writes, and the bytes of all writes.
fn written(path: &Path, (salt, frames): (Vec<u8>, usize)) -> (BTreeMap<u32, usize>, usize) {
    let (now, wal) = (place(path), fs::read(path.with_extension("db-wal")).unwrap());
    let size = u32::from_be_bytes(wal[8..12].try_into().unwrap()) as usize + FRAME_HEADER;
    // The pinned reader lets the WAL restart at most once, and only if all of it was in the file when that reader began.
    let behind = if now.0 == salt { frames } else { 0 };
    let mut pages = BTreeMap::new();
    for frame in wal[WAL_HEADER..].chunks_exact(size).take(now.1).skip(behind) {
        *pages.entry(u32::from_be_bytes(frame[..4].try_into().unwrap())).or_default() += 1;
    }
    let bytes = pages.values().sum::<usize>() * size;
    (pages, bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_roles_write_nothing_but_heartbeats() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.db");
    let mut settings = World::over(None, None, folder.path(), "http://127.0.0.1:9").await.settings;
    settings.extend(variables(&[
        ("queue.embedded.path", path.to_str().unwrap()),
        ("store.sqlite.path", path.to_str().unwrap()),
        ("accounts.collect", "true"),
        ("relations.collect", "followers, friends"),
        ("visits.collect", "true"),
        ("media.collect", "true"),
        ("media.folder", folder.path().join("media").to_str().unwrap()),
        ("communities.lisboa.country", "PT"),
        ("communities.lisboa.grow_every", "1s"),
    ]));
    let output = run(&["migrate"], &settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut roles = Vec::new();
    for role in ["updater", "starter", "ops"] {
        roles.push(Role::start_ready(role, &settings, &folder.path().join(format!("{role}.log"))).await);
    }
    let open = async || SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(&path)).await.unwrap();
    let (mut pinned, mut looking) = (open().await, open().await);
    let mut oldest_beat = async || {
        let beat: Option<i64> =
            sqlx::query_scalar("SELECT min(beat) FROM queue_worker").fetch_one(&mut looking).await.unwrap();
        beat.unwrap_or(0)
    };
    let began = wall_ms();
    until_true("each worker beats", WITHIN, async || oldest_beat().await > began + 5_000).await;

    // This transaction reads an old state, so SQLite keeps all later writes in the WAL.
    pinned.execute("BEGIN; SELECT count(*) FROM sqlite_master").await.unwrap();
    let (first, since, watch) = (place(&path), wall_ms(), Stopwatch::start());
    until_true("each worker beats again", WITHIN, async || oldest_beat().await > since + BEATS * 5_000).await;
    let (pages, bytes) = written(&path, first);
    let seconds = watch.elapsed().as_secs_f64();
    println!("{:.0} bytes of WAL per minute of idle roles", bytes as f64 * 60.0 / seconds);

    let roots: Vec<(u32, String)> = sqlx::query_as("SELECT rootpage, name FROM sqlite_master WHERE rootpage > 0")
        .fetch_all(&mut looking)
        .await
        .unwrap();
    let roots: BTreeMap<u32, String> = roots.into_iter().collect();
    let mut tables: BTreeMap<&str, usize> = BTreeMap::new();
    for (page, times) in pages {
        *tables.entry(roots.get(&page).map_or("other", String::as_str)).or_default() += times;
    }
    // Roles write the sums of an idle hour at its end.
    let is_of_an_hour = |name: &str| ["queue_hour", "queue_namespace"].contains(&name);
    if since / HOUR_MS != wall_ms() / HOUR_MS {
        tables.retain(|name, _| !is_of_an_hour(name));
    }
    assert_eq!(tables.keys().copied().collect::<Vec<_>>(), ["queue_worker"], "{tables:?}");
    pinned.close().await.unwrap();
    for role in roles {
        assert_eq!(role.stopped().await, Some(0));
    }
}
