//! One writer to a file for a whole process, with group commit.
//!
//! SQLite has one writer at a time, and each commit waits for the disk. The calls of a process therefore write through one
//! connection, in turn. Calls that wait meanwhile are one group, committed together. The first call starts the transaction.
//! Each further call writes after a savepoint, and its failure rolls back to that savepoint. A failure of the commit, or of
//! SQLite amid the group, fails all its calls; they may be repeated, as after a lost connection.
//!
//! A commit only writes to the WAL (`synchronous = NORMAL`), which survives the process. A flush of the WAL, one for all commits
//! before it, makes it survive a power loss. [`Tx::commit`] waits for the flush. [`Tx::commit_unflushed`] does not: it is for
//! data that is restored automatically, such as a lease or a permit.

use std::borrow::Cow;
use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use sqlx::error::{DatabaseError, ErrorKind};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::runtime;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, mpsc, oneshot};

use super::backlog::{Backlog, BlockedLog};
use super::{
    BUSY, FileFault, FileIdentity, INPUT_OUTPUT, check_disk, check_not_foreign, code, connect, create_private, options,
    pool, read_only_options,
};
use crate::base::backend::RefusedWrites;
use crate::base::clock::Stopwatch;
use crate::base::private_file::{check_planted, with_suffix};

/// Read-only connections of a process. WAL lets them read while one writes.
const READERS: u32 = 4;
/// Page caches, KB: SQLite's default of 2 MB is too small even for the upper pages of the indexes.
const WRITERS_CACHE_KB: u32 = 64 * 1024;
const READERS_CACHE_KB: u32 = 8 * 1024;
/// Pages of the WAL after which it is copied into the file (32 MB): each page once, even if it was written often.
const WAL_PAGES: u32 = 2_048;
/// Limit of waiting pages, above which a reader must block the copy: a writer copies earlier.
const MAX_WAITING_PAGES: u32 = 4 * WAL_PAGES;
/// Prepared statements that a connection keeps: all of queue, ledger and store.
const STATEMENTS: usize = 400;
/// Extra wait of a call for its turn in its own process, beyond the wait for the file's lock.
const TURN_TIMEOUT: Duration = Duration::from_secs(5);

// Between processes there is only the file's lock, which has neither a queue nor an event. A process that waits for it
// tries at the interval ASK. A process that has held it for HELD leaves a GAP in which a waiting process must have tried.
pub(super) const LOCK_POLL: Duration = Duration::from_millis(2);
const MAX_HOLD: Duration = Duration::from_millis(100);
const HOLD_GAP: Duration = Duration::from_millis(4);

#[derive(Debug, Clone)]
pub struct SharedFile {
    connections: Arc<Connections>,
    file: FileIdentity,
}

#[derive(Debug)]
struct Connections {
    turn: Arc<Turn<Group>>,
    waiting: Arc<AtomicUsize>,
    ended: mpsc::UnboundedSender<()>,
    /// A flush failed. The kernel may have dropped unwritten data, and a later flush does not report that.
    is_lost: Arc<AtomicBool>,
    readers: SqlitePool,
    patience: Duration,
    backlog: Backlog,
}

/// Device and inode of a file, wait for its lock, and the runtime that commits its groups.
type Key = (u64, u64, Duration, runtime::Id);

static OPEN: LazyLock<Mutex<HashMap<Key, Weak<Connections>>>> = LazyLock::new(Mutex::default);

type Caller = oneshot::Sender<Result<(), CommitError>>;

/// A finished call. `flushed`: it also waits for the flush.
#[derive(Debug)]
struct FinishedCall {
    caller: Caller,
    flushed: bool,
}

#[derive(Debug)]
struct Group {
    connection: SqliteConnection,
    options: SqliteConnectOptions,
    /// Calls of this group until now; the first one started the transaction.
    calls: usize,
    /// A call is about to join it. If that call was dropped, its progress is unknown.
    is_joining: bool,
    /// The last call has not finished: its writes will be rolled back.
    is_unfinished: bool,
    done: Vec<FinishedCall>,
    flushes: mpsc::UnboundedSender<Caller>,
    /// Time since the file's lock was last free for others.
    free_since: Stopwatch,
}

/// A call's turn to write. If it is dropped before its commit, nothing of it is written.
#[derive(Debug)]
pub struct Tx {
    group: OwnedMutexGuard<Group>,
    ended: mpsc::UnboundedSender<()>,
}

impl Deref for Tx {
    type Target = SqliteConnection;
    fn deref(&self) -> &SqliteConnection {
        &self.group.connection
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.group.connection
    }
}

impl Tx {
    /// Commits, together with the calls that wait for their turn now. The writes survive a power loss.
    ///
    /// # Errors
    /// The commit failed, or its result is unknown.
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        self.finish(true).await
    }

    /// Commits without a flush: the writes survive the end of the process, perhaps not a power loss.
    pub async fn commit_unflushed(self) -> Result<(), sqlx::Error> {
        self.finish(false).await
    }

    async fn finish(mut self, flushed: bool) -> Result<(), sqlx::Error> {
        let (tell, result) = oneshot::channel();
        self.group.done.push(FinishedCall { caller: tell, flushed });
        self.group.is_unfinished = false;
        drop(self);
        match result.await {
            Ok(committed) => committed.map_err(CommitError::into_sqlx),
            Err(_) => Err(sqlx::Error::WorkerCrashed),
        }
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        let _ = self.ended.send(()); // fails only when the runtime ends
    }
}

impl SharedFile {
    /// Opens the file; creates it if it is missing. A call waits `patience` for other processes' writes.
    pub async fn open<E>(path: &Path, patience: Duration) -> Result<Self, E>
    where
        E: From<FileFault> + From<sqlx::Error>,
    {
        if let Ok(file) = FileIdentity::current(path)
            && let Some(connections) = find_open(&file, patience)
        {
            return Ok(Self { connections, file });
        }
        for end in ["", "-wal", "-shm", "-journal"] {
            let file = with_suffix(path, end);
            check_planted(&file).map_err(|why| FileFault::Planted(file, why.to_string()))?;
        }
        check_not_foreign(path).await?;
        create_private(path);
        let options = options(path, patience);
        let writers = options
            .clone()
            .synchronous(SqliteSynchronous::Normal) // and flushes
            .pragma("cache_size", format!("-{WRITERS_CACHE_KB}"))
            .pragma("wal_autocheckpoint", WAL_PAGES.to_string())
            .pragma("temp_store", "memory"); // for the undo data of a statement or a savepoint
        Self::connect(path, patience, options, writers).await
    }

    /// Opens a file to read it. A file that this process may not write is opened read-only, and no file is created beside it.
    pub async fn open_to_read<E>(path: &Path, patience: Duration) -> Result<Self, E>
    where
        E: From<FileFault> + From<sqlx::Error>,
    {
        match read_only_options(path, patience) {
            Some(options) => Self::connect(path, patience, options.clone(), options).await,
            None => Self::open(path, patience).await,
        }
    }

    async fn connect<E>(
        path: &Path,
        patience: Duration,
        options: SqliteConnectOptions,
        writers: SqliteConnectOptions,
    ) -> Result<Self, E>
    where
        E: From<FileFault> + From<sqlx::Error>,
    {
        let prepared = |options: SqliteConnectOptions| {
            options
                .thread_name(|number| format!("sqlite-{number}"))
                .statement_cache_capacity(STATEMENTS)
                .disable_statement_logging()
        };
        let options = prepared(options);
        let writers = prepared(writers).busy_timeout(Duration::ZERO); // calls wait for the file's lock here, in turn
        let connection = connect(&writers, patience).await?;
        let file = FileIdentity::current(path)?;
        // A later connection must not create a file in place of one that is gone.
        let readers = pool(READERS)
            .acquire_timeout(patience + TURN_TIMEOUT)
            .connect_lazy_with(options.create_if_missing(false).pragma("cache_size", format!("-{READERS_CACHE_KB}")));
        let (flushes, committed) = mpsc::unbounded_channel();
        let is_lost = Arc::new(AtomicBool::new(false));
        let group = Group {
            connection,
            flushes,
            options: writers.create_if_missing(false),
            calls: 0,
            is_joining: false,
            is_unfinished: false,
            done: Vec::new(),
            free_since: Stopwatch::start(),
        };
        let (turn, waiting) = (Arc::new(Turn::new(group)), Arc::new(AtomicUsize::new(0)));
        let (ended, ends) = mpsc::unbounded_channel();
        let connections = Connections {
            turn: turn.clone(),
            waiting: waiting.clone(),
            ended,
            is_lost: is_lost.clone(),
            readers,
            patience,
            backlog: Backlog::default(),
        };
        let connections = insert_or_get(&file, Arc::new(connections));
        tokio::spawn(commit_groups(turn, waiting, ends));
        tokio::spawn(flush(wal_path(path), is_lost, committed));
        Ok(Self { connections, file })
    }

    /// Starts a write, after the earlier calls have written.
    ///
    /// # Errors
    /// The file was deleted or replaced, its lock was not free in time, or the connection broke.
    pub async fn begin<E>(&self) -> Result<Tx, E>
    where
        E: From<FileFault> + From<sqlx::Error>,
    {
        self.file.check_unchanged()?;
        let turn = self.take_turn().await;
        // The file may have been deleted while this call waited for its turn. This check comes first: without its file SQLite may fail in
        // other ways.
        self.check()?;
        Ok(turn?)
    }

    /// Checks that the path still leads to the open file, and that no flush failed.
    pub fn check(&self) -> Result<(), FileFault> {
        self.file.check_unchanged()?;
        if self.connections.is_lost.load(Ordering::Relaxed) {
            return Err(FileFault::Lost(self.file.path.clone()));
        }
        Ok(())
    }

    async fn take_turn(&self) -> Result<Tx, sqlx::Error> {
        let Connections { turn, waiting, ended, patience, .. } = &*self.connections;
        waiting.fetch_add(1, Ordering::Relaxed);
        let waiting_call = WaitingCall(waiting);
        let group = tokio::time::timeout(*patience + TURN_TIMEOUT, turn.clone().lock_owned()).await;
        drop(waiting_call);
        let mut tx = Tx { group: group.map_err(|_| sqlx::Error::PoolTimedOut)?, ended: ended.clone() };
        tx.group.join(*patience).await?;
        Ok(tx)
    }

    pub(super) fn patience(&self) -> Duration {
        self.connections.patience
    }

    pub async fn check_disk(&self) -> Result<(), RefusedWrites> {
        check_disk(&self.file.path).await
    }

    /// The write-ahead log, if a reader blocks its copy into the file.
    #[must_use]
    pub fn blocked_log(&self) -> Option<BlockedLog> {
        self.connections.backlog.check(&self.file.path, MAX_WAITING_PAGES)
    }

    #[must_use]
    pub fn readers(&self) -> &SqlitePool {
        &self.connections.readers
    }
}

/// Counts a waiting call; dropping it ends the count, also if the call is dropped.
struct WaitingCall<'a>(&'a AtomicUsize);

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn key(file: &FileIdentity, patience: Duration) -> Key {
    (file.device, file.inode, patience, runtime::Handle::current().id())
}

fn find_open(file: &FileIdentity, patience: Duration) -> Option<Arc<Connections>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).get(&key(file, patience)).and_then(Weak::upgrade)
}

/// Returns these connections, or those that another caller opened first.
fn insert_or_get(file: &FileIdentity, connections: Arc<Connections>) -> Arc<Connections> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|_, others| others.strong_count() > 0);
    let key = key(file, connections.patience);
    if let Some(others) = open.get(&key).and_then(Weak::upgrade) {
        return others;
    }
    open.insert(key, Arc::downgrade(&connections));
    connections
}

// Everything but `end` may be dropped at any await; the next turn then repeats it.
impl Group {
    /// Lets a call in: starts the transaction, or a savepoint in it.
    async fn join(&mut self, patience: Duration) -> Result<(), sqlx::Error> {
        self.clean_up().await;
        let was_joining = std::mem::replace(&mut self.is_joining, true);
        if self.calls == 0 {
            if was_joining {
                let _ = self.run_sql("ROLLBACK").await; // fails if there was no BEGIN
            }
            self.begin(patience).await?;
        } else {
            // Releases the savepoint of the previous call: its writes stay. If it is unknown whether there is one, a second
            // savepoint of the same name is added.
            let is_there = self.calls > 1 && !was_joining;
            self.run_sql(if is_there { "RELEASE call; SAVEPOINT call" } else { "SAVEPOINT call" }).await?;
        }
        (self.is_joining, self.is_unfinished) = (false, true);
        self.calls += 1;
        Ok(())
    }

    async fn begin(&mut self, patience: Duration) -> Result<(), sqlx::Error> {
        let since = Stopwatch::start();
        loop {
            match self.run_sql("BEGIN IMMEDIATE").await {
                Err(error) if code(&error) == BUSY && since.elapsed() < patience => {
                    tokio::time::sleep(LOCK_POLL).await;
                    self.free_since = Stopwatch::start();
                }
                Err(sqlx::Error::WorkerCrashed) if since.elapsed() < patience => {
                    self.connection = connect(&self.options, patience).await?;
                }
                result => return result,
            }
        }
    }

    async fn run_sql(&mut self, words: &'static str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(words).execute(&mut self.connection).await.map(drop)
    }

    async fn clean_up(&mut self) {
        if !self.is_unfinished {
            return;
        }
        // A full disk or a failed write ends the whole transaction, and SQLite reports it only to that call.
        let is_over = self.calls == 1 || self.run_sql("ROLLBACK TO call").await.is_err();
        if is_over {
            self.fail(&CommitError::busy("a failure of another call ended the transaction of both")).await;
        }
        self.is_unfinished = false;
    }

    /// Ends the group: commits its finished calls.
    async fn end(&mut self) {
        self.clean_up().await;
        if self.calls == 0 && !self.is_joining {
            return;
        }
        match self.run_sql("COMMIT").await {
            Ok(()) => self.send_results(&Ok(())),
            Err(error) => self.fail(&CommitError::from_error(&error)).await,
        }
        self.is_joining = false;
    }

    async fn fail(&mut self, failed: &CommitError) {
        let _ = self.run_sql("ROLLBACK").await; // fails if SQLite has done it
        self.send_results(&Err(failed.clone()));
    }

    fn send_results(&mut self, ended: &Result<(), CommitError>) {
        self.calls = 0;
        for FinishedCall { caller, flushed } in self.done.drain(..) {
            // A call that no longer waits gets no result.
            let _ = match ended {
                Ok(()) if flushed => self.flushes.send(caller).map_err(drop),
                _ => caller.send(ended.clone()).map_err(drop),
            };
        }
    }

    /// Leaves the file to other processes for a moment, if it was held for long and will be held again at once.
    async fn leave_a_gap(&mut self, others_wait: bool) {
        if self.free_since.elapsed() < MAX_HOLD {
            return;
        }
        if others_wait {
            tokio::time::sleep(HOLD_GAP).await;
        }
        self.free_since = Stopwatch::start();
    }
}

/// Commits a group once each call that waited for its turn has had it.
async fn commit_groups(turn: Arc<Turn<Group>>, waiting: Arc<AtomicUsize>, mut ended: mpsc::UnboundedReceiver<()>) {
    while ended.recv().await.is_some() {
        while ended.try_recv().is_ok() {}
        // The turn is fair: calls that wait now come first.
        let mut group = turn.lock().await;
        group.end().await;
        group.leave_a_gap(waiting.load(Ordering::Relaxed) > 0).await;
    }
}

/// Flushes the WAL once for all calls that wait.
async fn flush(wal: PathBuf, is_lost: Arc<AtomicBool>, mut committed: mpsc::UnboundedReceiver<Caller>) {
    let mut calls = Vec::new();
    while committed.recv_many(&mut calls, usize::MAX).await > 0 {
        let wal = wal.clone();
        // A separate handle is enough: the flush covers the whole file. SQLite's locks are not on this handle.
        let flushed = tokio::task::spawn_blocking(move || match std::fs::File::open(wal) {
            Ok(wal) => wal.sync_data().map_err(|error| (true, error)),
            // For example no free descriptor. Nothing was dropped: the next flush covers these writes.
            Err(error) => Err((false, error)),
        });
        let flushed = flushed.await.unwrap_or_else(|error| Err((true, std::io::Error::other(error))));
        let flushed = flushed.map_err(|(may_have_dropped, error)| {
            if may_have_dropped {
                is_lost.store(true, Ordering::Relaxed);
                tracing::error!(%error, "the disk does not accept writes");
            }
            CommitError::flush(&error.to_string())
        });
        for caller in calls.drain(..) {
            let _ = caller.send(flushed.clone());
        }
    }
}

/// A file's WAL: <https://www.sqlite.org/wal.html>.
fn wal_path(path: &Path) -> PathBuf {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    wal.into()
}

/// Reason of a failed commit, for each call that it fails.
#[derive(Debug, Clone)]
struct CommitError {
    code: Option<String>,
    message: String,
}

impl CommitError {
    fn from_error(error: &sqlx::Error) -> Self {
        let of_sqlite = error.as_database_error();
        Self {
            code: of_sqlite.and_then(DatabaseError::code).map(Cow::into_owned),
            message: of_sqlite.map_or_else(|| error.to_string(), |error| error.message().to_owned()),
        }
    }

    fn into_sqlx(self) -> sqlx::Error {
        // Without a code the error is not from SQLite: the connection broke.
        if self.code.is_none() { sqlx::Error::WorkerCrashed } else { self.into() }
    }

    fn flush(why: &str) -> Self {
        Self { code: Some(INPUT_OUTPUT.to_string()), message: format!("the file's WAL cannot be flushed: {why}") }
    }

    fn busy(message: &str) -> Self {
        Self { code: Some(BUSY.to_string()), message: message.to_owned() }
    }
}

impl fmt::Display for CommitError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "(code: {}) {}", self.code.as_deref().unwrap_or_default(), self.message)
    }
}

impl StdError for CommitError {}

impl DatabaseError for CommitError {
    fn message(&self) -> &str {
        &self.message
    }
    fn code(&self) -> Option<Cow<'_, str>> {
        self.code.as_deref().map(Cow::Borrowed)
    }
    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self
    }
    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self
    }
    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self
    }
    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use tempfile::TempDir;
    use tokio::task::JoinSet;

    use super::*;
    use crate::base::backend::BackendError;

    const PATIENCE: Duration = Duration::from_secs(20);

    async fn file() -> (TempDir, PathBuf, SharedFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.db");
        let file = SharedFile::open::<BackendError>(&path, PATIENCE).await.unwrap();
        let mut tx = begin(&file).await;
        sqlx::raw_sql("CREATE TABLE queue_job (number INTEGER PRIMARY KEY, half INTEGER)")
            .execute(&mut *tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        (folder, path, file)
    }

    async fn begin(file: &SharedFile) -> Tx {
        file.begin::<BackendError>().await.unwrap()
    }

    async fn write(tx: &mut Tx, number: i64) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO queue_job VALUES (?, 1)").bind(number).execute(&mut **tx).await?;
        sqlx::query("UPDATE queue_job SET half = 2 WHERE number = ?").bind(number).execute(&mut **tx).await.map(drop)
    }

    /// Numbers of the calls that wrote both halves; no call wrote one.
    async fn written(file: &SharedFile) -> Vec<i64> {
        let rows: Vec<(i64, i64)> =
            sqlx::query_as("SELECT * FROM queue_job ORDER BY number").fetch_all(file.readers()).await.unwrap();
        assert!(rows.iter().all(|(_, half)| *half == 2), "{rows:?}");
        rows.into_iter().map(|(number, _)| number).collect()
    }

    /// Starts a call that waits for its turn, which another call has, and writes. Odd numbers fail before their end.
    async fn queued(file: &SharedFile, number: i64) -> tokio::task::JoinHandle<Result<(), sqlx::Error>> {
        let (file, before) = (file.clone(), file.connections.waiting.load(Ordering::Relaxed));
        let waiting = file.connections.waiting.clone();
        let call = tokio::spawn(async move {
            let mut tx = begin(&file).await;
            write(&mut tx, number).await?;
            if number % 2 == 1 {
                return Err(sqlx::Error::RowNotFound);
            }
            tx.commit().await
        });
        while waiting.load(Ordering::Relaxed) == before {
            tokio::task::yield_now().await;
        }
        call
    }

    #[tokio::test]
    async fn a_failed_call_takes_back_its_own_writes_alone() {
        let (_folder, _, file) = file().await;
        for first_fails in [false, true] {
            let mut first = begin(&file).await;
            write(&mut first, 100 + i64::from(first_fails)).await.unwrap();
            let mut calls = Vec::new();
            for number in 1..=6 {
                calls.push(queued(&file, number + 10 * i64::from(first_fails)).await);
            }
            if first_fails {
                drop(first);
            } else {
                first.commit().await.unwrap();
            }
            for (call, number) in calls.into_iter().zip(1..) {
                assert_eq!(call.await.unwrap().is_ok(), number % 2 == 0);
            }
        }
        assert_eq!(written(&file).await, [2, 4, 6, 12, 14, 16, 100]);
    }

    #[tokio::test]
    async fn a_transaction_that_sqlite_ended_itself_fails_its_calls_and_no_other() {
        let (_folder, _, file) = file().await;
        let mut first = begin(&file).await;
        write(&mut first, 1).await.unwrap();
        let waiting = file.connections.waiting.clone();
        let second = tokio::spawn({
            let file = file.clone();
            async move {
                let mut tx = begin(&file).await;
                // SQLite does this if a write finds no room, without an error to other calls.
                sqlx::raw_sql("ROLLBACK").execute(&mut *tx).await.unwrap();
            }
        });
        while waiting.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        let again = BackendError::from(first.commit().await.unwrap_err());
        assert!(matches!(again, BackendError::Unavailable(_)), "{again:?}");
        second.await.unwrap();
        let mut tx = begin(&file).await;
        write(&mut tx, 2).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(written(&file).await, [2]);
    }

    /// Calls are dropped at any await. Reported writes are there, nothing is there by half, and the lock is free for others.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn calls_may_be_dropped_anywhere() {
        let (_folder, path, file) = file().await;
        let (mut reported, mut next) = (Vec::new(), 0_i64);
        for _ in 0..300 {
            let mut calls = JoinSet::new();
            for _ in 0..8 {
                next += 1;
                let (file, number) = (file.clone(), next);
                calls.spawn(async move {
                    let patience = Duration::from_micros(rand::rng().random_range(0..4_000));
                    let call = async {
                        let mut tx = begin(&file).await;
                        write(&mut tx, number).await.unwrap();
                        tx.commit().await.unwrap();
                    };
                    tokio::time::timeout(patience, call).await.is_ok().then_some(number)
                });
            }
            reported.extend(calls.join_all().await.into_iter().flatten());
        }
        // Stands for another process: its connections are its own.
        let other = SharedFile::open::<BackendError>(&path, PATIENCE / 2).await.unwrap();
        begin(&other).await.commit().await.unwrap();
        let written = written(&other).await;
        assert!(reported.iter().all(|number| written.contains(number)), "{reported:?} of {written:?}");
    }

    /// After a failed flush a disk is never trusted again.
    #[tokio::test]
    async fn what_was_not_flushed_was_not_committed() {
        let (_folder, path, file) = file().await;
        begin(&file).await.commit().await.unwrap();
        let (wal, aside) = (wal_path(&path), path.with_extension("aside"));
        std::fs::rename(&wal, &aside).unwrap();
        // A WAL that cannot be opened now has lost nothing.
        let again = BackendError::from(begin(&file).await.commit().await.unwrap_err());
        assert!(matches!(&again, BackendError::Unavailable(why) if why.contains("flushed")), "{again:?}");
        std::fs::rename(&aside, &wal).unwrap();
        begin(&file).await.commit().await.unwrap();
        std::fs::rename(&wal, &aside).unwrap();
        std::os::unix::fs::symlink("/dev/null", &wal).unwrap(); // which cannot be flushed
        begin(&file).await.commit_unflushed().await.unwrap();
        let again = BackendError::from(begin(&file).await.commit().await.unwrap_err());
        assert!(matches!(&again, BackendError::Unavailable(why) if why.contains("flushed")), "{again:?}");
        assert!(
            matches!(file.begin().await, Err(BackendError::Gone(why)) if why.contains("the disk did not accept writes"))
        );
    }

    /// A process that always has more to write does not block others.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn processes_take_turns() {
        let (_folder, path, file) = file().await;
        let mut busy = JoinSet::new();
        let (wrote, mut writes) = mpsc::unbounded_channel();
        for caller in 1..=4 {
            let (file, wrote) = (file.clone(), wrote.clone());
            busy.spawn(async move {
                for number in 0.. {
                    let mut tx = begin(&file).await;
                    write(&mut tx, caller * 1_000_000 + number).await.unwrap();
                    tx.commit().await.unwrap();
                    wrote.send(()).unwrap();
                }
            });
        }
        let other = SharedFile::open::<BackendError>(&path, PATIENCE / 2).await.unwrap();
        for _ in 0..20 {
            writes.recv().await.unwrap(); // it is busy before the other comes
        }
        let mut longest = Duration::ZERO;
        for number in 1..=10 {
            let since = Stopwatch::start();
            let mut tx = begin(&other).await;
            longest = longest.max(since.elapsed());
            write(&mut tx, number).await.unwrap();
            tx.commit().await.unwrap();
        }
        let before = written(&other).await;
        while writes.try_recv().is_ok() {}
        for _ in 0..5 {
            writes.recv().await.unwrap(); // four of them may have been written before and reported now
        }
        busy.shutdown().await;
        assert!(longest < PATIENCE / 4, "{longest:?}");
        assert_eq!(before[..10], (1..=10).collect::<Vec<_>>());
        assert!(before.len() >= 30, "the others had written: {before:?}");
        assert!(written(&other).await.len() > before.len(), "and go on");
    }
}
