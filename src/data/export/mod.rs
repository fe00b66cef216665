//! Export of a table of the store to a file or to standard output.
//!
//! ```text
//!   FILE.part       the rows written so far
//!   FILE.part.json  the note: the bytes that are on the disk, and their last row
//!   FILE            the complete export
//! ```
//!
//! The part is flushed before the note. After a kill, the next run cuts off the bytes that the note does not cover and continues after
//! its last row. No row is lost or repeated. A Parquet file has its index at the end, so its export starts over.

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
pub use self::format::{CsvStyle, Format, FormatError};
pub use self::graph::GraphExport;
pub use self::graph_markup::{GraphFormat, GraphReport};
pub use self::network::{Network, NetworkExport};
use engine::base::clock::{Millis, Stopwatch};
use engine::base::humanize::{count_with_noun, group_digits};
use engine::base::private_file::{self, with_suffix};
use engine::base::shutdown::Stop;
use store::StoreError;
use store::export::{Cell, ExportFilter, ExportTables, Table};

/// Bytes between two notes: the work that a killed export repeats.
const NOTE_INTERVAL_BYTES: usize = 4 << 20;
const WRITE_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub struct Export {
    pub tables: Arc<dyn ExportTables>,
    pub table: &'static Table,
    pub wanted: ExportFilter,
    /// The selection in the caller's words, since "since 30 days ago" is another moment at the next run.
    pub request: String,
    pub format: Format,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExportReport {
    pub table: &'static str,
    pub rows: u64,
    pub rows_before: u64,
    pub bytes: u64,
    pub seconds: f64,
}

impl fmt::Display for ExportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, rows, rows_before, bytes, seconds } = self;
        let (rows, bytes) = (count_with_noun(*rows, "row", "rows"), group_digits(*bytes));
        write!(f, "{table}: {rows}, {bytes} bytes, in {seconds:.1} s")?;
        if *rows_before > 0 {
            write!(f, " ({} were there already)", group_digits(*rows_before))?;
        }
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("{0} is there already; choose another file, or delete it")]
    AlreadyExists(PathBuf),
    #[error("{0} is no plain file; choose one, or write to standard output (--to -)")]
    NoPlainFile(PathBuf),
    #[error("{0} is a part of another export; finish that export by its own command, or delete {0} and {0}.json")]
    OtherExport(PathBuf),
    /// The existing part does not match its note, or has none.
    #[error("{0} cannot be continued: {1}; to start over, delete {0} and {0}.json")]
    Broken(PathBuf, String),
    /// The last field states the effect of the same command.
    #[error("{0} cannot be written: {1}{2}")]
    Write(PathBuf, io::Error, &'static str),
    /// Number of rows, and the effect of the same command.
    #[error("stopped after {}{}", count_with_noun(*.0, "row", "rows"), .1)]
    Stopped(u64, &'static str),
    #[error(transparent)]
    Store(#[from] StoreError),
}

const CONTINUES: &str = "; the same command continues from there";
const STARTS_OVER: &str = "; the same command starts over";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ExportNote {
    request: String,
    since: Option<Millis>,
    until: Option<Millis>,
    bytes: u64,
    rows: u64,
    after: Option<Vec<Cell>>,
}

impl Export {
    /// Writes to a file, after the last row of an interrupted export, or to standard output. `None`: the reader of standard
    /// output stopped reading, which is no error.
    pub async fn write_to(
        &self,
        file: Option<&Path>,
        stop: &Stop,
        progress: impl Fn(u64),
    ) -> Result<Option<ExportReport>, ExportError> {
        let write = async |to: &mut Sink, note| self.write(to, note, stop, progress).await;
        write_to(file, self.new_note(), self.format.can_continue(), write).await
    }

    fn new_note(&self) -> ExportNote {
        let ExportFilter { since, until, .. } = self.wanted;
        ExportNote { since, until, ..ExportNote::new(&self.request) }
    }

    async fn write(
        &self,
        to: &mut Sink,
        mut note: ExportNote,
        stop: &Stop,
        progress: impl Fn(u64),
    ) -> Result<ExportReport, ExportError> {
        let (name, rerun_effect) = (to.name().to_owned(), to.rerun_effect());
        let failed = |why| ExportError::Write(name.clone(), why, rerun_effect);
        let (watch, rows_before) = (Stopwatch::start(), note.rows);
        let ExportNote { since, until, .. } = note;
        let wanted = ExportFilter { after: note.after.clone(), since, until, ..self.wanted.clone() };
        let mut encoder = Encoder::new(self.format, self.table.columns, note.bytes == 0);
        let mut rows = self.tables.rows(self.table, &wanted);
        let mut noted = note.bytes;
        let stopped = loop {
            let row = tokio::select! {
                biased;
                () = stop.wait_for_drain() => break true,
                row = rows.next() => row,
            };
            let Some(row) = row.transpose()? else { break false };
            encoder.write_row(&row.cells).map_err(failed)?;
            note.rows += 1;
            note.after = Some(row.key);
            if encoder.ready_bytes() >= WRITE_BYTES {
                let ready = encoder.take_bytes().map_err(failed)?;
                to.write(&ready).map_err(failed)?;
                note.bytes += ready.len() as u64;
                progress(note.rows);
                if note.bytes - noted >= NOTE_INTERVAL_BYTES as u64 {
                    to.save_note(&note).map_err(failed)?;
                    noted = note.bytes;
                }
            }
        };
        let last = if stopped { encoder.take_bytes() } else { encoder.finish() }.map_err(failed)?;
        to.write(&last).map_err(failed)?;
        note.bytes += last.len() as u64;
        to.save_note(&note).map_err(failed)?;
        if stopped {
            return Err(ExportError::Stopped(note.rows, rerun_effect));
        }
        progress(note.rows);
        let ExportNote { bytes, rows, .. } = note;
        Ok(ExportReport { table: self.table.name, rows, rows_before, bytes, seconds: watch.elapsed().as_secs_f64() })
    }
}

impl ExportNote {
    fn new(request: &str) -> Self {
        Self { request: request.to_owned(), since: None, until: None, bytes: 0, rows: 0, after: None }
    }
}

/// Writes to standard output, or the part of a file, and renames it at the end. `can_continue` allows to append to the rows of
/// an interrupted export.
async fn write_to<T>(
    file: Option<&Path>,
    new: ExportNote,
    can_continue: bool,
    write: impl AsyncFnOnce(&mut Sink, ExportNote) -> Result<T, ExportError>,
) -> Result<Option<T>, ExportError> {
    let Some(path) = file else {
        return match write(&mut StandardOutput(io::stdout()), new).await {
            Err(ExportError::Write(_, why, _)) if why.kind() == ErrorKind::BrokenPipe => Ok(None),
            written => written.map(Some),
        };
    };
    match std::fs::metadata(path) {
        Ok(there) if there.is_file() => return Err(ExportError::AlreadyExists(path.to_owned())),
        Ok(_) => return Err(ExportError::NoPlainFile(path.to_owned())),
        Err(_) => {}
    }
    let (mut part, note) = PartFile::open(path, new, can_continue)?;
    let written = write(&mut part, note).await;
    if !can_continue && matches!(written, Err(ExportError::Stopped(..))) {
        part.discard();
    }
    let done = written?;
    part.finish(path).map_err(|why| ExportError::Write(path.to_owned(), why, ""))?;
    Ok(Some(done))
}

/// Receiver of the bytes of an export.
type Sink = dyn ExportSink + Send;

trait ExportSink {
    fn name(&self) -> &Path;

    /// Returns the effect of the same command after an error.
    fn rerun_effect(&self) -> &'static str;

    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Flushes the written bytes, then stores the note.
    fn save_note(&mut self, note: &ExportNote) -> io::Result<()>;
}

struct StandardOutput<W>(W);

impl<W: Write> ExportSink for StandardOutput<W> {
    fn name(&self) -> &Path {
        Path::new("standard output")
    }

    fn rerun_effect(&self) -> &'static str {
        STARTS_OVER
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }

    fn save_note(&mut self, _: &ExportNote) -> io::Result<()> {
        Ok(())
    }
}

struct PartFile {
    path: PathBuf,
    note: PathBuf,
    file: File,
    can_continue: bool,
}

impl PartFile {
    /// Opens the part of that file, truncated to the bytes of its note, or a new one. Rejects the part of another export, and a part that
    /// does not match its note.
    fn open(path: &Path, new: ExportNote, can_continue: bool) -> Result<(Self, ExportNote), ExportError> {
        let (path, note) = (with_suffix(path, ".part"), with_suffix(path, ".part.json"));
        let failed = |why| ExportError::Write(path.clone(), why, "");
        let broken = |why: &str| ExportError::Broken(path.clone(), why.to_owned());
        // Readable by its owner only, since it holds data of people.
        let file = private_file::open(&path).map_err(failed)?;
        // Two exports at once would write over each other.
        let is_ours =
            file.try_lock().map_err(|_| io::Error::new(ErrorKind::WouldBlock, "another export is writing it"));
        is_ours.map_err(failed)?;
        let there = file.metadata().map_err(failed)?.len();
        let known = match private_file::read(&note) {
            Ok(known) => match serde_json::from_slice::<ExportNote>(&known) {
                Ok(known) if known.request != new.request => return Err(ExportError::OtherExport(path)),
                Ok(known) if known.bytes > there => return Err(broken("it is shorter than its note states")),
                Ok(known) => Some(known),
                Err(error) => return Err(broken(&format!("{} is not the note of an export: {error}", note.display()))),
            },
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(ExportError::Write(note, error, "")),
            Err(_) if there > 0 => return Err(broken("it has no note")),
            Err(_) => None,
        };
        let known = known.filter(|_| can_continue).unwrap_or(new);
        let mut part = Self { path: path.clone(), note, file, can_continue };
        // From here on, the bytes in the file are ours.
        part.save_note(&known).and_then(|()| part.truncate(known.bytes)).map_err(failed)?;
        Ok((part, known))
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
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

impl ExportSink for PartFile {
    fn name(&self) -> &Path {
        &self.path
    }

    fn rerun_effect(&self) -> &'static str {
        if self.can_continue { CONTINUES } else { STARTS_OVER }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn save_note(&mut self, note: &ExportNote) -> io::Result<()> {
        self.file.sync_data()?;
        // Atomic: in one piece, or not at all.
        let mut fresh = tempfile::NamedTempFile::new_in(private_file::parent_folder(&self.note))?;
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
    use store::export::{POSTS, RowStream};

    #[derive(Debug)]
    struct Empty;

    #[async_trait::async_trait]
    impl ExportTables for Empty {
        fn rows<'a>(&'a self, _: &'a Table, _: &ExportFilter) -> RowStream<'a> {
            futures::stream::empty().boxed()
        }

        async fn count(&self, _: &Table, _: &ExportFilter) -> Result<u64, StoreError> {
            Ok(0)
        }
    }

    #[test]
    fn one_row_is_one_row() {
        let done = ExportReport { table: "posts", rows: 1, rows_before: 0, bytes: 1_024, seconds: 0.0 };
        assert_eq!(done.to_string(), "posts: 1 row, 1,024 bytes, in 0.0 s");
        let graph = GraphReport { nodes: 1, edges: 0, bytes: 1_024, seconds: 0.0 };
        assert_eq!(graph.to_string(), "graph: 1 account, 0 edges, 1,024 bytes, in 0.0 s");
    }

    #[tokio::test]
    async fn a_file_that_was_stopped_before_its_first_row_has_one_header() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("posts.csv");
        let table = &POSTS[0];
        let (tables, wanted, format) = (Arc::new(Empty), ExportFilter::default(), Format::Csv(CsvStyle::default()));
        let export = Export { tables, table, wanted, request: "posts".to_owned(), format };
        let stopped = Stop::new();
        stopped.drain();
        let end = export.write_to(Some(&file), &stopped, |_| {}).await;
        assert!(matches!(end, Err(ExportError::Stopped(0, _))), "{end:?}");
        export.write_to(Some(&file), &Stop::new(), |_| {}).await.unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let written = std::fs::read_to_string(&file).unwrap();
        let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        assert_eq!(written, columns.join(",") + "\n");
    }
}
