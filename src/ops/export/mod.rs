//! Export of a table of the store to a file or to standard output.
//!
//! ```text
//!   FILE.part       what is written so far
//!   FILE.part.json  how much of it is certain, and behind which row to go on
//!   FILE            when all is there
//! ```
//!
//! The part is flushed to the disk before the note says so. After a kill, the next run cuts off the bytes that the note does not cover
//! and goes on behind its last row. No row is lost and none comes twice. A Parquet file is one piece with an index at its end, so it is
//! started again.

mod format;
mod graph;
mod graph_markup;
mod network;
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
pub use self::format::{CsvStyle, Format, NoSuchFormat};
pub use self::graph::{Drawn, GraphExport};
pub use self::graph_markup::GraphFormat;
pub use self::network::{Network, NetworkExport};
use crate::base::clock::{Millis, Stopwatch};
use crate::base::humanize::{counted, grouped};
use crate::base::private_file::{self, with_end};
use crate::base::shutdown::Stop;
use crate::store::StoreError;
use crate::store::export::{Cell, Table, Tables, Wanted};

/// Bytes between two flushes with a note: the work that a killed export repeats.
const NOTED_BYTES: usize = 4 << 20;
const WRITTEN_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub struct Export {
    pub tables: Arc<dyn Tables>,
    pub table: &'static Table,
    pub wanted: Wanted,
    /// The selection in the caller's words: "since 30 days ago" is another moment when it is asked again.
    pub request: String,
    pub format: Format,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Done {
    pub table: &'static str,
    pub rows: u64,
    /// Rows written before the interruption.
    pub rows_before: u64,
    pub bytes: u64,
    /// Duration of this run.
    pub seconds: f64,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, rows, rows_before, bytes, seconds } = self;
        let (rows, bytes) = (counted(*rows, "row", "rows"), grouped(*bytes));
        write!(f, "{table}: {rows}, {bytes} bytes, in {seconds:.1} s")?;
        if *rows_before > 0 {
            write!(f, " ({} were there already)", grouped(*rows_before))?;
        }
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("{0} is there already: name another file, or delete it")]
    IsThere(PathBuf),
    #[error("{0} is no plain file: name one, or write to standard output (--to -)")]
    NoPlainFile(PathBuf),
    /// The existing part belongs to another export.
    #[error("{0} is a part of another export: finish that one with its own command, or delete it and {0}.json")]
    Other(PathBuf),
    /// The existing part does not match its note, or has none.
    #[error("{0} cannot be continued: {1}; delete it and {0}.json to start over")]
    Broken(PathBuf, String),
    /// Writing failed. The last field states the effect of the same command.
    #[error("{0} cannot be written: {1}{2}")]
    Write(PathBuf, io::Error, &'static str),
    /// The command was stopped after this number of rows. The last field states the effect of the same command.
    #[error("stopped after {}{}", counted(*.0, "row", "rows"), .1)]
    Stopped(u64, &'static str),
    #[error(transparent)]
    Store(#[from] StoreError),
}

const GOES_ON: &str = "; the same command goes on from there";
const STARTS_OVER: &str = "; the same command starts over";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note {
    request: String,
    since: Option<Millis>,
    until: Option<Millis>,
    bytes: u64,
    rows: u64,
    after: Option<Vec<Cell>>,
}

impl Export {
    /// Writes it to standard output. `None`: the reader stopped reading, which is no error.
    pub async fn to_output(&self, stop: &Stop, progress: impl Fn(u64)) -> Result<Option<Done>, ExportError> {
        into_output(async |to| self.write(to, self.note(), stop, progress).await).await
    }

    /// Writes it to a file, and goes on where an earlier export ended.
    pub async fn to_file(&self, path: &Path, stop: &Stop, progress: impl Fn(u64)) -> Result<Done, ExportError> {
        let write = async |to: &mut PartFile, note| self.write(to, note, stop, progress).await;
        into_file(path, self.note(), self.format.goes_on(), write).await
    }

    fn note(&self) -> Note {
        let Wanted { since, until, .. } = self.wanted;
        Note { since, until, ..Note::of(&self.request) }
    }

    async fn write(
        &self,
        to: &mut impl Sink,
        mut note: Note,
        stop: &Stop,
        progress: impl Fn(u64),
    ) -> Result<Done, ExportError> {
        let (name, again) = (to.name().to_owned(), to.again());
        let failed = |why| ExportError::Write(name.clone(), why, again);
        let (watch, rows_before) = (Stopwatch::start(), note.rows);
        let Note { since, until, .. } = note;
        let wanted = Wanted { after: note.after.clone(), since, until, ..self.wanted.clone() };
        let mut encoder = Encoder::new(self.format, self.table.columns, note.bytes == 0);
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
                let ready = encoder.take().map_err(failed)?;
                to.write(&ready).map_err(failed)?;
                note.bytes += ready.len() as u64;
                progress(note.rows);
                if note.bytes - noted >= NOTED_BYTES as u64 {
                    to.note(&note).map_err(failed)?;
                    noted = note.bytes;
                }
            }
        };
        let last = if stopped { encoder.take() } else { encoder.finish() }.map_err(failed)?;
        to.write(&last).map_err(failed)?;
        note.bytes += last.len() as u64;
        to.note(&note).map_err(failed)?;
        if stopped {
            return Err(ExportError::Stopped(note.rows, again));
        }
        progress(note.rows);
        let Note { bytes, rows, .. } = note;
        Ok(Done { table: self.table.name, rows, rows_before, bytes, seconds: watch.elapsed().as_secs_f64() })
    }
}

impl Note {
    fn of(request: &str) -> Self {
        Self { request: request.to_owned(), since: None, until: None, bytes: 0, rows: 0, after: None }
    }
}

async fn into_output<T>(
    write: impl AsyncFnOnce(&mut Output<io::Stdout>) -> Result<T, ExportError>,
) -> Result<Option<T>, ExportError> {
    match write(&mut Output(io::stdout())).await {
        Err(ExportError::Write(_, why, _)) if why.kind() == ErrorKind::BrokenPipe => Ok(None),
        written => written.map(Some),
    }
}

/// Writes the part of a file and renames it at the end. `goes_on`: behind the rows of an earlier export.
async fn into_file<T>(
    path: &Path,
    new: Note,
    goes_on: bool,
    write: impl AsyncFnOnce(&mut PartFile, Note) -> Result<T, ExportError>,
) -> Result<T, ExportError> {
    match std::fs::metadata(path) {
        Ok(there) if there.is_file() => return Err(ExportError::IsThere(path.to_owned())),
        Ok(_) => return Err(ExportError::NoPlainFile(path.to_owned())),
        Err(_) => {}
    }
    let (mut part, note) = PartFile::open(path, new, goes_on)?;
    let written = write(&mut part, note).await;
    if !goes_on && matches!(written, Err(ExportError::Stopped(..))) {
        part.discard();
    }
    let done = written?;
    part.finish(path).map_err(|why| ExportError::Write(path.to_owned(), why, ""))?;
    Ok(done)
}

trait Sink {
    fn name(&self) -> &Path;

    /// Effect of the same command after an error.
    fn again(&self) -> &'static str;

    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Flushes everything written so far.
    fn note(&mut self, note: &Note) -> io::Result<()>;
}

struct Output<W>(W);

impl<W: Write> Sink for Output<W> {
    fn name(&self) -> &Path {
        Path::new("standard output")
    }

    fn again(&self) -> &'static str {
        STARTS_OVER
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }

    fn note(&mut self, _: &Note) -> io::Result<()> {
        Ok(())
    }
}

struct PartFile {
    path: PathBuf,
    note: PathBuf,
    file: File,
    goes_on: bool,
}

impl PartFile {
    /// Opens the part of that file, cut off behind its certain bytes, or a new one. A part of another export, or one that does not match
    /// its note, is rejected and stays as it is.
    fn open(path: &Path, new: Note, goes_on: bool) -> Result<(Self, Note), ExportError> {
        let (path, note) = (with_end(path, ".part"), with_end(path, ".part.json"));
        let failed = |why| ExportError::Write(path.clone(), why, "");
        let broken = |why: &str| ExportError::Broken(path.clone(), why.to_owned());
        // Readable by its owner only, since it holds data of people.
        let file = private_file::open(&path).map_err(failed)?;
        // Two exports at once would write over each other.
        let is_ours = file.try_lock().map_err(|_| io::Error::new(ErrorKind::WouldBlock, "another export writes it"));
        is_ours.map_err(failed)?;
        let there = file.metadata().map_err(failed)?.len();
        let known = match private_file::read(&note) {
            Ok(known) => match serde_json::from_slice::<Note>(&known) {
                Ok(known) if known.request != new.request => return Err(ExportError::Other(path)),
                Ok(known) if known.bytes > there => return Err(broken("it is shorter than what was written")),
                Ok(known) => Some(known),
                Err(error) => return Err(broken(&format!("{} is no note of an export: {error}", note.display()))),
            },
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(ExportError::Write(note, error, "")),
            Err(_) if there > 0 => return Err(broken("no export began it")),
            Err(_) => None,
        };
        let known = known.filter(|_| goes_on).unwrap_or(new);
        let mut part = Self { path: path.clone(), note, file, goes_on };
        // From here on, the bytes in the file are known to be ours.
        part.note(&known).and_then(|()| part.cut(known.bytes)).map_err(failed)?;
        Ok((part, known))
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)?;
        self.file.seek(SeekFrom::End(0)).map(drop)
    }

    fn finish(self, path: &Path) -> io::Result<()> {
        private_file::check_name(&self.path, &self.file)?;
        std::fs::rename(&self.path, path)?;
        std::fs::remove_file(&self.note)
    }

    fn discard(&self) {
        // The next export of that name overwrites leftovers.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(&self.note);
    }
}

impl Sink for PartFile {
    fn name(&self) -> &Path {
        &self.path
    }

    fn again(&self) -> &'static str {
        if self.goes_on { GOES_ON } else { STARTS_OVER }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn note(&mut self, note: &Note) -> io::Result<()> {
        self.file.sync_data()?;
        // Atomic: in one piece, or not at all.
        let mut fresh = tempfile::NamedTempFile::new_in(private_file::folder_of(&self.note))?;
        fresh.write_all(&serde_json::to_vec(note)?)?;
        fresh.as_file().sync_data()?;
        fresh.persist(&self.note)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::store::export::{POSTS, Rows};

    #[derive(Debug)]
    struct Empty;

    #[async_trait::async_trait]
    impl Tables for Empty {
        fn rows<'a>(&'a self, _: &'a Table, _: &Wanted) -> Rows<'a> {
            futures::stream::empty().boxed()
        }

        async fn count(&self, _: &Table, _: &Wanted) -> Result<u64, StoreError> {
            Ok(0)
        }
    }

    #[test]
    fn one_row_is_one_row() {
        let done = Done { table: "posts", rows: 1, rows_before: 0, bytes: 1_024, seconds: 0.0 };
        assert_eq!(done.to_string(), "posts: 1 row, 1,024 bytes, in 0.0 s");
        let graph = Drawn { nodes: 1, edges: 0, bytes: 1_024, seconds: 0.0 };
        assert_eq!(graph.to_string(), "graph: 1 account, 0 edges, 1,024 bytes, in 0.0 s");
    }

    #[tokio::test]
    async fn a_file_that_was_stopped_before_its_first_row_has_one_header() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("posts.csv");
        let table = &POSTS[0];
        let (tables, wanted, format) = (Arc::new(Empty), Wanted::default(), Format::Csv(CsvStyle::default()));
        let export = Export { tables, table, wanted, request: "posts".to_owned(), format };
        let stopped = Stop::new();
        stopped.drain();
        let end = export.to_file(&file, &stopped, |_| {}).await;
        assert!(matches!(end, Err(ExportError::Stopped(0, _))), "{end:?}");
        export.to_file(&file, &Stop::new(), |_| {}).await.unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let written = std::fs::read_to_string(&file).unwrap();
        let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        assert_eq!(written, columns.join(",") + "\n");
    }
}
