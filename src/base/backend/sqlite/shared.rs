//! One writer to a file for all of a process, with group commit.
//!
//! SQLite has one writer at a time, and each commit waits for the disk. The calls of a process therefore write through one
//! connection, in turn, and those that wait while others write are committed together. The first of a group begins the
//! transaction; each further one writes behind a savepoint, to which its own failure goes back. Nobody is told of success
//! before the commit, so a failure of the commit, or of SQLite itself amid the group, is everybody's: as repeatable as a lost
//! connection.
//!
//! A commit only writes to the WAL (`synchronous = NORMAL`), which outlives the process. What has to outlive the machine's
//! power, too, ends when the WAL was flushed after its commit: one flush serves all that was committed before it began, and
//! the next group writes meanwhile. [`Tx::commit`] waits for that, [`Tx::commit_unflushed`] does not: it is for what comes
//! back by itself, a lease or a permit.

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

use super::backlog::{Backlog, Kept};
use super::{
    BUSY, INPUT_OUTPUT, Missing, Opened, check_disk, check_ours, code, connect, make_private, options, pool,
    read_only_options,
};
use crate::base::clock::Stopwatch;
use crate::base::private_file::{check_planted, with_end};

/// Connections of a process that only read. WAL lets them read while one writes.
const READERS: u32 = 4;
/// Page caches, KB: SQLite's 2 MB hold not even the upper pages of the indexes.
const WRITERS_CACHE_KB: u32 = 64 * 1024;
const READERS_CACHE_KB: u32 = 8 * 1024;
/// Pages of the WAL after which it is copied into the file (32 MB): each page once, however often it was written.
const WAL_PAGES: u32 = 2_048;
/// Pages that wait to be copied only where a reader keeps them: a writer copies earlier.
const KEPT_PAGES: u32 = 4 * WAL_PAGES;
/// Statements that a connection keeps prepared: all that queue, ledger and store have.
const STATEMENTS: usize = 400;
/// A call waits this much longer for its turn in its own process than for the file's lock.
const TURN_TIMEOUT: Duration = Duration::from_secs(5);

// Between processes there is only the file's lock, which has neither a queue nor an event. Whoever waits for it asks this
// often, and who has held it for that long without a pause leaves a gap in which one that waits must have asked.
pub(super) const ASK: Duration = Duration::from_millis(2);
const HELD: Duration = Duration::from_millis(100);
const GAP: Duration = Duration::from_millis(4);

/// A file as a part of this process uses it.
#[derive(Debug, Clone)]
pub struct SharedFile {
    connections: Arc<Connections>,
    file: Opened,
}

/// State shared by the users of one file in this process.
#[derive(Debug)]
struct Connections {
    turn: Arc<Turn<Group>>,
    /// Calls that wait for their turn.
    waiting: Arc<AtomicUsize>,
    ended: mpsc::UnboundedSender<()>,
    /// A flush failed: the kernel may have dropped what it could not write, and a later one says nothing of that.
    is_lost: Arc<AtomicBool>,
    readers: SqlitePool,
    patience: Duration,
    backlog: Backlog,
}

/// Device and inode of a file, how long its lock is waited for, and the runtime on which its groups are committed.
type Key = (u64, u64, Duration, runtime::Id);

static OPEN: LazyLock<Mutex<HashMap<Key, Weak<Connections>>>> = LazyLock::new(Mutex::default);

/// Tells a call how its commit went.
type Told = oneshot::Sender<Result<(), Failed>>;

/// A call that is done, and whether it waits for the flush, too.
#[derive(Debug)]
struct Done {
    told: Told,
    flushed: bool,
}

/// Calls whose writes are committed together.
#[derive(Debug)]
struct Group {
    connection: SqliteConnection,
    options: SqliteConnectOptions,
    /// Calls of this group so far; the first one began the transaction.
    calls: usize,
    /// A call is about to join it. If that call was dropped, its progress is unknown.
    joining: bool,
    /// The last call has not said that it is done: what it wrote goes.
    spoiled: bool,
    /// Calls that are done and wait for the commit.
    done: Vec<Done>,
    /// Committed calls that wait for the flush.
    flushes: mpsc::UnboundedSender<Told>,
    /// Since when the file's lock was not left to others.
    held: Stopwatch,
}

/// A call's turn to write. Dropped before its commit, nothing of it is written.
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
    /// Commits, together with the calls that wait for their turn now: what was written outlives the machine's power.
    ///
    /// # Errors
    /// The commit failed, or its result is unknown.
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        self.done(true).await
    }

    /// The same for what need outlive the process alone.
    ///
    /// # Errors
    /// As of [`Tx::commit`].
    pub async fn commit_unflushed(self) -> Result<(), sqlx::Error> {
        self.done(false).await
    }

    async fn done(mut self, flushed: bool) -> Result<(), sqlx::Error> {
        let (tell, told) = oneshot::channel();
        self.group.done.push(Done { told: tell, flushed });
        self.group.spoiled = false;
        drop(self);
        match told.await {
            Ok(committed) => committed.map_err(Failed::error),
            Err(_) => Err(sqlx::Error::WorkerCrashed),
        }
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        let _ = self.ended.send(()); // there is nobody only when the runtime ends
    }
}

impl SharedFile {
    /// Opens the file, making it where it is missing. A call waits `patience` for other processes' writes.
    ///
    /// # Errors
    /// It cannot be opened or made, or it stays locked.
    pub async fn open<E>(path: &Path, patience: Duration) -> Result<Self, E>
    where
        E: From<Missing> + From<sqlx::Error>,
    {
        if let Ok(file) = Opened::now(path)
            && let Some(connections) = open_already(&file, patience)
        {
            return Ok(Self { connections, file });
        }
        for end in ["", "-wal", "-shm", "-journal"] {
            let file = with_end(path, end);
            check_planted(&file).map_err(|why| Missing::Planted(file, why.to_string()))?;
        }
        check_ours(path).await?;
        make_private(path);
        let options = options(path, patience);
        let writers = options
            .clone()
            .synchronous(SqliteSynchronous::Normal) // and flushes
            .pragma("cache_size", format!("-{WRITERS_CACHE_KB}"))
            .pragma("wal_autocheckpoint", WAL_PAGES.to_string())
            .pragma("temp_store", "memory"); // of what a statement or a savepoint may have to take back
        Self::connect(path, patience, options, writers).await
    }

    /// Opens a file to read it. A file that this process may not write is opened read-only, and no file is made beside it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub async fn open_to_read<E>(path: &Path, patience: Duration) -> Result<Self, E>
    where
        E: From<Missing> + From<sqlx::Error>,
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
        E: From<Missing> + From<sqlx::Error>,
    {
        let prepared = |options: SqliteConnectOptions| {
            options
                .thread_name(|number| format!("sqlite-{number}"))
                .statement_cache_capacity(STATEMENTS)
                .disable_statement_logging()
        };
        let options = prepared(options);
        let writers = prepared(writers).busy_timeout(Duration::ZERO); // whoever waits for the file's lock does it here, in turn
        let connection = connect(&writers, patience).await?;
        let file = Opened::now(path)?;
        // A later connection makes no file in place of one that is gone.
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
            joining: false,
            spoiled: false,
            done: Vec::new(),
            held: Stopwatch::start(),
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
        let connections = first_to_open(&file, Arc::new(connections));
        tokio::spawn(commit_groups(turn, waiting, ends));
        tokio::spawn(flush(wal_of(path), is_lost, committed));
        Ok(Self { connections, file })
    }

    /// Begins to write, when the calls before it have written.
    ///
    /// # Errors
    /// The file was deleted or replaced, its lock was not to be had in time, or the connection broke.
    pub async fn begin<E>(&self) -> Result<Tx, E>
    where
        E: From<Missing> + From<sqlx::Error>,
    {
        self.file.is_there()?;
        let turn = self.turn().await;
        // While it waited; and first, since without its file SQLite may fail in ways of its own.
        self.check()?;
        Ok(turn?)
    }

    /// Checks that the path still leads to the open file, and that no flush failed.
    ///
    /// # Errors
    /// The file was deleted or replaced, or the disk may have dropped some of it.
    pub fn check(&self) -> Result<(), Missing> {
        self.file.is_there()?;
        if self.connections.is_lost.load(Ordering::Relaxed) {
            return Err(Missing::Lost(self.file.path.clone()));
        }
        Ok(())
    }

    async fn turn(&self) -> Result<Tx, sqlx::Error> {
        let Connections { turn, waiting, ended, patience, .. } = &*self.connections;
        waiting.fetch_add(1, Ordering::Relaxed);
        let waits = Waits(waiting);
        let group = tokio::time::timeout(*patience + TURN_TIMEOUT, turn.clone().lock_owned()).await;
        drop(waits);
        let mut tx = Tx { group: group.map_err(|_| sqlx::Error::PoolTimedOut)?, ended: ended.clone() };
        tx.group.join(*patience).await?;
        Ok(tx)
    }

    /// The time that a call waits for other processes' writes.
    pub(super) fn patience(&self) -> Duration {
        self.connections.patience
    }

    /// Checks that the disk takes more of it.
    ///
    /// # Errors
    /// As of [`check_disk`].
    pub async fn check_disk(&self) -> Result<(), String> {
        check_disk(&self.file.path).await
    }

    /// Returns how long a reader has kept the write-ahead log from being copied into the file, if it does.
    #[must_use]
    pub fn kept_log(&self) -> Option<Kept> {
        self.connections.backlog.look(&self.file.path, KEPT_PAGES)
    }

    /// Connections that only read.
    #[must_use]
    pub fn readers(&self) -> &SqlitePool {
        &self.connections.readers
    }
}

/// One that waits, also when its call is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn key(file: &Opened, patience: Duration) -> Key {
    (file.device, file.inode, patience, runtime::Handle::current().id())
}

fn open_already(file: &Opened, patience: Duration) -> Option<Arc<Connections>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).get(&key(file, patience)).and_then(Weak::upgrade)
}

/// Returns these connections, or those that another caller opened first.
fn first_to_open(file: &Opened, connections: Arc<Connections>) -> Arc<Connections> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|_, others| others.strong_count() > 0);
    let key = key(file, connections.patience);
    if let Some(others) = open.get(&key).and_then(Weak::upgrade) {
        return others;
    }
    open.insert(key, Arc::downgrade(&connections));
    connections
}

// Everything but `end` may be dropped at any await, and is done again by whoever has the next turn.
impl Group {
    /// Lets a call in: begins the transaction, or a savepoint in it.
    async fn join(&mut self, patience: Duration) -> Result<(), sqlx::Error> {
        self.clean_up().await;
        let was_joining = std::mem::replace(&mut self.joining, true);
        if self.calls == 0 {
            if was_joining {
                let _ = self.say("ROLLBACK").await; // unless it had not begun
            }
            self.begin(patience).await?;
        } else {
            // The savepoint of the call before goes: what it wrote stays. Where nobody knows whether there is one, another
            // of its name stands before it.
            let is_there = self.calls > 1 && !was_joining;
            self.say(if is_there { "RELEASE call; SAVEPOINT call" } else { "SAVEPOINT call" }).await?;
        }
        (self.joining, self.spoiled) = (false, true);
        self.calls += 1;
        Ok(())
    }

    async fn begin(&mut self, patience: Duration) -> Result<(), sqlx::Error> {
        let since = Stopwatch::start();
        loop {
            match self.say("BEGIN IMMEDIATE").await {
                Err(error) if code(&error) == BUSY && since.elapsed() < patience => {
                    tokio::time::sleep(ASK).await;
                    self.held = Stopwatch::start();
                }
                Err(sqlx::Error::WorkerCrashed) if since.elapsed() < patience => {
                    self.connection = connect(&self.options, patience).await?;
                }
                begun => return begun,
            }
        }
    }

    async fn say(&mut self, words: &'static str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(words).execute(&mut self.connection).await.map(drop)
    }

    /// Takes back what a call wrote that was not done.
    async fn clean_up(&mut self) {
        if !self.spoiled {
            return;
        }
        // A full disk or a failed write ends the whole transaction, and SQLite says so to that call alone.
        let is_over = self.calls == 1 || self.say("ROLLBACK TO call").await.is_err();
        if is_over {
            self.fail(&Failed::busy("a failure of another call ended the transaction of both")).await;
        }
        self.spoiled = false;
    }

    /// Ends the group: what was done is committed.
    async fn end(&mut self) {
        self.clean_up().await;
        if self.calls == 0 && !self.joining {
            return;
        }
        match self.say("COMMIT").await {
            Ok(()) => self.tell(&Ok(())),
            Err(error) => self.fail(&Failed::of(&error)).await,
        }
        self.joining = false;
    }

    async fn fail(&mut self, failed: &Failed) {
        let _ = self.say("ROLLBACK").await; // unless SQLite has done it
        self.tell(&Err(failed.clone()));
    }

    fn tell(&mut self, ended: &Result<(), Failed>) {
        self.calls = 0;
        for Done { told, flushed } in self.done.drain(..) {
            // A call that no longer waits does not hear it.
            let _ = match ended {
                Ok(()) if flushed => self.flushes.send(told).map_err(drop),
                _ => told.send(ended.clone()).map_err(drop),
            };
        }
    }

    /// Leaves the file to other processes for a moment, where it has been held for long and will be again at once.
    async fn leave_a_gap(&mut self, others_wait: bool) {
        if self.held.elapsed() < HELD {
            return;
        }
        if others_wait {
            tokio::time::sleep(GAP).await;
        }
        self.held = Stopwatch::start();
    }
}

/// Commits a group when each call that waited for its turn has had it.
async fn commit_groups(turn: Arc<Turn<Group>>, waiting: Arc<AtomicUsize>, mut ended: mpsc::UnboundedReceiver<()>) {
    while ended.recv().await.is_some() {
        while ended.try_recv().is_ok() {}
        // The turn is a fair one: who waits now comes first.
        let mut group = turn.lock().await;
        group.end().await;
        group.leave_a_gap(waiting.load(Ordering::Relaxed) > 0).await;
    }
}

/// Flushes the WAL for those who wait, as many as there are.
async fn flush(wal: PathBuf, is_lost: Arc<AtomicBool>, mut committed: mpsc::UnboundedReceiver<Told>) {
    let mut calls = Vec::new();
    while committed.recv_many(&mut calls, usize::MAX).await > 0 {
        let wal = wal.clone();
        // Another handle does: what is flushed is the file. SQLite's locks are not on this one.
        let flushed = tokio::task::spawn_blocking(move || match std::fs::File::open(wal) {
            Ok(wal) => wal.sync_data().map_err(|error| (true, error)),
            // For want of a descriptor, say. Nothing was dropped: whoever asks again is flushed with what is here now.
            Err(error) => Err((false, error)),
        });
        let flushed = flushed.await.unwrap_or_else(|error| Err((true, std::io::Error::other(error))));
        let flushed = flushed.map_err(|(may_have_dropped, error)| {
            if may_have_dropped {
                is_lost.store(true, Ordering::Relaxed);
                tracing::error!(%error, "the disk does not take what is written to it");
            }
            Failed::flush(&error.to_string())
        });
        for told in calls.drain(..) {
            let _ = told.send(flushed.clone());
        }
    }
}

/// A file's WAL: <https://www.sqlite.org/wal.html>.
fn wal_of(path: &Path) -> PathBuf {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    wal.into()
}

/// Why a commit failed, for each of those whom it fails.
#[derive(Debug, Clone)]
struct Failed {
    code: Option<String>,
    message: String,
}

impl Failed {
    fn of(error: &sqlx::Error) -> Self {
        let of_sqlite = error.as_database_error();
        Self {
            code: of_sqlite.and_then(DatabaseError::code).map(Cow::into_owned),
            message: of_sqlite.map_or_else(|| error.to_string(), |error| error.message().to_owned()),
        }
    }

    fn error(self) -> sqlx::Error {
        // Without a code it was no word of SQLite's: the connection broke.
        if self.code.is_none() { sqlx::Error::WorkerCrashed } else { self.into() }
    }

    fn flush(why: &str) -> Self {
        Self { code: Some(INPUT_OUTPUT.to_string()), message: format!("the file's WAL cannot be flushed: {why}") }
    }

    fn busy(message: &str) -> Self {
        Self { code: Some(BUSY.to_string()), message: message.to_owned() }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "(code: {}) {}", self.code.as_deref().unwrap_or_default(), self.message)
    }
}

impl StdError for Failed {}

impl DatabaseError for Failed {
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

    /// Starts a call that waits for its turn, which somebody has, and writes; what is odd fails before its end.
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
                // As SQLite does where a write finds no room, and tells nobody.
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

    /// Calls are dropped at any await: what was told is there, nothing is there by half, and the lock is left to others.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn calls_may_be_dropped_anywhere() {
        let (_folder, path, file) = file().await;
        let (mut told, mut next) = (Vec::new(), 0_i64);
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
            told.extend(calls.join_all().await.into_iter().flatten());
        }
        // Another process, as it were: its connections are its own.
        let other = SharedFile::open::<BackendError>(&path, PATIENCE / 2).await.unwrap();
        begin(&other).await.commit().await.unwrap();
        let written = written(&other).await;
        assert!(told.iter().all(|number| written.contains(number)), "{told:?} of {written:?}");
    }

    /// A disk that does not flush is not believed any more, whatever it says later.
    #[tokio::test]
    async fn what_was_not_flushed_was_not_committed() {
        let (_folder, path, file) = file().await;
        begin(&file).await.commit().await.unwrap();
        let (wal, aside) = (wal_of(&path), path.with_extension("aside"));
        std::fs::rename(&wal, &aside).unwrap();
        // One that cannot be opened now has lost nothing.
        let again = BackendError::from(begin(&file).await.commit().await.unwrap_err());
        assert!(matches!(&again, BackendError::Unavailable(why) if why.contains("flushed")), "{again:?}");
        std::fs::rename(&aside, &wal).unwrap();
        begin(&file).await.commit().await.unwrap();
        std::fs::rename(&wal, &aside).unwrap();
        std::os::unix::fs::symlink("/dev/null", &wal).unwrap(); // which cannot be flushed
        begin(&file).await.commit_unflushed().await.unwrap();
        let again = BackendError::from(begin(&file).await.commit().await.unwrap_err());
        assert!(matches!(&again, BackendError::Unavailable(why) if why.contains("flushed")), "{again:?}");
        assert!(matches!(file.begin().await, Err(BackendError::Gone(why)) if why.contains("the disk did not take")));
    }

    /// One process that always has more to write keeps no other from writing.
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
            writes.recv().await.unwrap(); // four of them may have been written before and told now
        }
        busy.shutdown().await;
        assert!(longest < PATIENCE / 4, "{longest:?}");
        assert_eq!(before[..10], (1..=10).collect::<Vec<_>>());
        assert!(before.len() >= 30, "the others had written: {before:?}");
        assert!(written(&other).await.len() > before.len(), "and go on");
    }
}
