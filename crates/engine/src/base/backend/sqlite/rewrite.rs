//! Rewriting a whole file, so that no trace of removed rows is left in it.
//!
//! `secure_delete` overwrites removed rows, but not the copies in gaps of a page that SQLite leaves when it moves rows. `VACUUM`
//! writes all pages from the existing rows. A checkpoint that truncates the WAL then removes the old pages.

use std::time::Duration;

use sqlx::SqliteConnection;

use super::shared::{LOCK_POLL, SharedFile};
use super::{BUSY, code, connect};
use crate::base::clock::Stopwatch;

/// A rewrite waits this many times as long as a write: others write in portions, and an export may read for a while.
const PATIENCE_FACTOR: u32 = 6;

impl SharedFile {
    /// Rewrites the file from its rows, and empties the WAL. It blocks writers and needs free disk space for two copies of the rows.
    ///
    /// # Errors
    /// Others used the file all the time, or the disk is full: the same call may be repeated.
    pub async fn rewrite(&self) -> Result<(), sqlx::Error> {
        let patience = self.patience() * PATIENCE_FACTOR;
        // No busy timeout: SQLite would try every 100 ms, but others leave gaps of a few ms.
        let options = (*self.readers().connect_options()).clone().busy_timeout(Duration::ZERO);
        let mut file = connect(&options, patience).await?;
        let since = Stopwatch::start();
        loop {
            match sqlx::raw_sql("VACUUM").execute(&mut file).await {
                Err(error) if code(&error) == BUSY && since.elapsed() < patience => tokio::time::sleep(LOCK_POLL).await,
                done => break done.map(drop)?,
            };
        }
        let since = Stopwatch::start();
        while !truncate(&mut file).await? {
            if since.elapsed() >= patience {
                return Err(sqlx::Error::PoolTimedOut);
            }
            tokio::time::sleep(LOCK_POLL).await;
        }
        Ok(())
    }
}

/// Copies the WAL into the file and empties it. Returns false if another connection still reads from it.
async fn truncate(file: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    let checkpoint = sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(file);
    let done: Result<(i64, i64, i64), sqlx::Error> = checkpoint.await;
    match done {
        Ok((busy, ..)) => Ok(busy == 0),
        Err(error) if code(&error) == BUSY => Ok(false),
        Err(error) => Err(error),
    }
}
