//! Data out: a table of the store into a file, or onto standard output.
//!
//! ```text
//!   FILE.part       what is written so far
//!   FILE.part.json  how much of it is certain, and behind which row to go on
//!   FILE            when all is there
//! ```
//!
//! The part is flushed to the disk before the note says so. Whoever was killed therefore cuts off what the note does not
//! know of, and goes on behind its last row: nothing is lost, nothing comes twice. A Parquet file is one piece with an index
//! at its end, so it is begun anew.

mod format;
#[cfg(feature = "parquet")]
mod parquet;

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::StreamExt;
use serde::{Deserialize, Serialize};

use self::format::Encoder;
pub use self::format::{Format, NoSuchFormat};
use crate::base::clock::{Millis, Stopwatch};
use crate::base::humanize::grouped;
use crate::base::shutdown::Stop;
use crate::store::StoreError;
use crate::store::export::{Cell, Table, Tables, Wanted};

/// Bytes after which what is written is flushed and noted: what a killed export does again.
const NOTED_BYTES: usize = 4 << 20;
/// Bytes that are written at once.
const WRITTEN_BYTES: usize = 256 << 10;

/// A table on its way out.
#[derive(Debug)]
pub struct Export {
    /// What the store holds.
    pub tables: Arc<dyn Tables>,
    /// Of which table.
    pub table: &'static Table,
    /// Which rows.
    pub wanted: Wanted,
    /// The same in the words of who asked: "since 30 days ago" is another moment when it is asked again.
    pub request: String,
    /// As what.
    pub format: Format,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Done {
    /// The table.
    pub table: &'static str,
    /// Rows that are in the file.
    pub rows: u64,
    /// Those of them that were there when it went on.
    pub rows_before: u64,
    /// Bytes.
    pub bytes: u64,
    /// How long it took, this time.
    pub seconds: f64,
}

impl fmt::Display for Done {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, rows, rows_before, bytes, seconds } = self;
        write!(f, "{table}: {} rows, {} bytes, in {seconds:.1} s", grouped(*rows), grouped(*bytes))?;
        if *rows_before > 0 {
            write!(f, " ({} were there already)", grouped(*rows_before))?;
        }
        Ok(())
    }
}

/// Why a table is not out.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is something of that name.
    #[error("{0} is there already: name another file, or delete it")]
    IsThere(PathBuf),
    /// The part that is there is one of another export.
    #[error("{0} is a part of another export: finish that one with its own command, or delete it and {0}.json")]
    Other(PathBuf),
    /// Writing failed.
    #[error("{0} cannot be written: {1}; the same command goes on where it was")]
    Write(PathBuf, io::Error),
    /// It was told to stop.
    #[error("stopped after {} rows; the same command goes on behind them", grouped(*.0))]
    Stopped(u64),
    /// The store is down.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What of a part is certain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note {
    /// What is exported.
    request: String,
    since: Option<Millis>,
    until: Option<Millis>,
    bytes: u64,
    rows: u64,
    after: Option<Vec<Cell>>,
}

impl Export {
    /// Writes it to standard output; `None` where its reader stopped reading, which is no error.
    ///
    /// # Errors
    /// The store is down, or writing failed.
    pub async fn to_output(&self, stop: &Stop, progress: impl Fn(u64)) -> Result<Option<Done>, ExportError> {
        match self.write(&mut Output(io::stdout().lock()), self.note(), stop, progress).await {
            Err(ExportError::Write(_, why)) if why.kind() == ErrorKind::BrokenPipe => Ok(None),
            written => written.map(Some),
        }
    }

    /// Writes it to a file, and goes on where an earlier one ended.
    ///
    /// # Errors
    /// See [`ExportError`].
    pub async fn to_file(&self, path: &Path, stop: &Stop, progress: impl Fn(u64)) -> Result<Done, ExportError> {
        if path.exists() {
            return Err(ExportError::IsThere(path.to_owned()));
        }
        let failed = |why| ExportError::Write(path.to_owned(), why);
        let mut part = Part { path: with(path, ".part"), note: with(path, ".part.json"), file: None };
        let note = part.open(self.note(), self.format.goes_on()).map_err(failed)?;
        if note.request != self.request {
            return Err(ExportError::Other(part.path));
        }
        let done = self.write(&mut part, note, stop, progress).await?;
        part.finish(path).map_err(failed)?;
        Ok(done)
    }

    fn note(&self) -> Note {
        let Wanted { since, until, .. } = self.wanted;
        Note { request: self.request.clone(), since, until, bytes: 0, rows: 0, after: None }
    }

    async fn write(
        &self,
        to: &mut impl Sink,
        mut note: Note,
        stop: &Stop,
        progress: impl Fn(u64),
    ) -> Result<Done, ExportError> {
        let failed = |why| ExportError::Write(PathBuf::from(self.table.name), why);
        let (watch, rows_before) = (Stopwatch::start(), note.rows);
        let Note { since, until, .. } = note;
        let wanted = Wanted { after: note.after.clone(), since, until, ..self.wanted.clone() };
        let mut encoder = Encoder::new(self.format, self.table.columns, note.rows == 0);
        let mut rows = self.tables.rows(self.table, &wanted);
        let mut noted = note.bytes;
        let stopped = loop {
            let row = tokio::select! {
                biased;
                () = stop.draining() => break true,
                row = rows.next() => row,
            };
            let Some(row) = row.transpose()? else { break false };
            encoder.row(&row.cells).map_err(failed)?;
            note.rows += 1;
            note.after = Some(row.key);
            if encoder.ready() >= WRITTEN_BYTES {
                note.bytes += to.write(&encoder.take().map_err(failed)?).map_err(failed)?;
                progress(note.rows);
                if note.bytes - noted >= NOTED_BYTES as u64 {
                    to.note(&note).map_err(failed)?;
                    noted = note.bytes;
                }
            }
        };
        let last = if stopped { encoder.take() } else { encoder.finish() };
        note.bytes += to.write(&last.map_err(failed)?).map_err(failed)?;
        to.note(&note).map_err(failed)?;
        if stopped {
            return Err(ExportError::Stopped(note.rows));
        }
        progress(note.rows);
        let Note { bytes, rows, .. } = note;
        Ok(Done { table: self.table.name, rows, rows_before, bytes, seconds: watch.elapsed().as_secs_f64() })
    }
}

/// Where bytes go.
trait Sink {
    /// Writes these; says how many they are.
    fn write(&mut self, bytes: &[u8]) -> io::Result<u64>;

    /// What is written so far is certain.
    fn note(&mut self, note: &Note) -> io::Result<()>;
}

struct Output<W>(W);

impl<W: Write> Sink for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<u64> {
        self.0.write_all(bytes)?;
        self.0.flush()?;
        Ok(bytes.len() as u64)
    }

    fn note(&mut self, _: &Note) -> io::Result<()> {
        Ok(())
    }
}

struct Part {
    path: PathBuf,
    note: PathBuf,
    file: Option<File>,
}

impl Part {
    /// Opens the part that is there, cut off behind what is certain, or a new one.
    fn open(&mut self, new: Note, goes_on: bool) -> io::Result<Note> {
        let known = match std::fs::read(&self.note) {
            Ok(note) => Some(serde_json::from_slice::<Note>(&note)?),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if known.as_ref().is_some_and(|known| known.request != new.request) {
            return Ok(known.unwrap_or(new)); // the caller refuses it; nothing is touched
        }
        let note = known.filter(|_| goes_on && self.path.exists()).unwrap_or(new);
        let mut file = File::options().create(true).truncate(false).write(true).open(&self.path)?;
        // Two at once would write over each other.
        file.try_lock().map_err(|_| io::Error::new(ErrorKind::WouldBlock, "another export writes it"))?;
        file.set_len(note.bytes)?;
        file.seek(SeekFrom::End(0))?;
        self.file = Some(file);
        Ok(note)
    }

    /// Gives it its name.
    fn finish(self, path: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, path)?;
        std::fs::remove_file(&self.note)
    }
}

impl Sink for Part {
    fn write(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let Some(file) = &mut self.file else { return Err(ErrorKind::NotFound.into()) };
        file.write_all(bytes)?;
        Ok(bytes.len() as u64)
    }

    fn note(&mut self, note: &Note) -> io::Result<()> {
        if let Some(file) = &self.file {
            file.sync_data()?;
        }
        // In one piece, or not at all.
        let folder = self.note.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut fresh = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        fresh.write_all(&serde_json::to_vec(note)?)?;
        fresh.as_file().sync_data()?;
        fresh.persist(&self.note)?;
        Ok(())
    }
}

fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
