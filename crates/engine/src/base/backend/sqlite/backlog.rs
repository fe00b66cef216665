//! Pages of the write-ahead log that wait to be copied into the file. A long read transaction blocks the copy, and the log grows.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::PAGE_BYTES;
use crate::base::clock::Stopwatch;
use crate::base::private_file::with_suffix;

/// Offsets in the `-shm` file (<https://www.sqlite.org/walformat.html>): the number of pages in the log, the size of a page, and
/// the number of copied pages.
const PAGES_OFFSET: usize = 16;
const PAGE_SIZE_OFFSET: usize = 14;
const COPIED_OFFSET: usize = 96;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogState {
    pages: u32,
    copied: u32,
    page_bytes: u64,
}

/// A log that grows because a reader blocks its copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockedLog {
    /// Time without a copied page, as far as this process has checked.
    pub since: Duration,
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Backlog(Mutex<Option<(u32, Stopwatch)>>);

impl Backlog {
    /// Checks the log of that file. `None` if at most `most` pages wait.
    pub(super) fn check(&self, path: &Path, most: u32) -> Option<BlockedLog> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(LogState { pages, copied, page_bytes }) =
            read(path).filter(|of| of.pages.saturating_sub(of.copied) > most)
        else {
            *last = None;
            return None;
        };
        let since = match &*last {
            Some((before, since)) if *before == copied => since.elapsed(),
            _ => {
                *last = Some((copied, Stopwatch::start()));
                Duration::ZERO
            }
        };
        Some(BlockedLog { since, bytes: u64::from(pages - copied) * page_bytes })
    }
}

fn read(path: &Path) -> Option<LogState> {
    let mut bytes = [0; COPIED_OFFSET + 4];
    File::open(with_suffix(path, "-shm")).ok()?.read_exact(&mut bytes).ok()?;
    let number = |at: usize| Some(u32::from_ne_bytes(bytes[at..at + 4].try_into().ok()?));
    let page_bytes = u64::from(u16::from_ne_bytes(bytes[PAGE_SIZE_OFFSET..PAGE_SIZE_OFFSET + 2].try_into().ok()?));
    // A size of 1 stands for 65,536.
    let page_bytes = if page_bytes < 512 { u64::from(PAGE_BYTES) } else { page_bytes };
    Some(LogState { pages: number(PAGES_OFFSET)?, copied: number(COPIED_OFFSET)?, page_bytes })
}

#[cfg(test)]
mod tests {
    use sqlx::sqlite::SqliteConnectOptions;
    use sqlx::{ConnectOptions, Connection, Executor};

    use super::*;

    #[tokio::test]
    async fn a_reader_in_a_transaction_keeps_the_log_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true).page_size(4_096);
        let options = options.pragma("journal_mode", "WAL").pragma("wal_autocheckpoint", "20");
        let (mut writer, mut reader) = (options.connect().await.unwrap(), options.connect().await.unwrap());
        writer.execute("CREATE TABLE t (x)").await.unwrap();
        let backlog = Backlog::default();
        let mut write = async |times: u32| {
            for _ in 0..times {
                writer.execute("INSERT INTO t VALUES (zeroblob(9000))").await.unwrap();
            }
        };
        write(60).await;
        assert_eq!(backlog.check(&path, 40), None, "each checkpoint copies all");
        let mut pinned = reader.begin().await.unwrap();
        pinned.fetch_all("SELECT count(*) FROM t").await.unwrap();
        write(60).await;
        let first = backlog.check(&path, 40).unwrap();
        assert!(first.since.is_zero() && first.bytes > 40 * 4_096, "{first:?}");
        write(60).await;
        let later = backlog.check(&path, 40).unwrap();
        assert!(!later.since.is_zero() && later.bytes > first.bytes, "{later:?}");
        pinned.rollback().await.unwrap();
        write(20).await;
        assert_eq!(backlog.check(&path, 40), None);
    }
}
