//! Reads a file or a pipe into the queue: any number of posts in constant memory.
//!
//! The reader fills a window, sorts it by id and cuts it into batches. A batch of neighbouring ids changes few pages of
//! an index; one of random ids changes nearly all. At most `max_in_flight` batches are in flight, each in its own task,
//! to hide the latency of store and queue. The next window is filled meanwhile; no more than these two windows are
//! held. For a repeated id the first line decides: a batch waits for earlier batches that may hold one of its ids.
//! Results are taken in the order of the batches, so every window before the first failed batch is done.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use tokio::io::{AsyncRead, BufReader};
use tokio_util::task::AbortOnDropHandle;

use super::named::HEADER_SKIPPED;
use super::pasted;
use super::tweets::{Item, PostReader};
use super::{AdmittedBatch, InvalidEntry, Queued, Starter, StarterError, Summary};
use engine::base::clock::{self, Stopwatch};
use engine::base::retry::RetryPolicy;
use engine::base::shutdown::Stop;
use networks::model::post::Ingested;
use networks::providers::named::is_digits;

/// Bytes per read. Large, because tokio hands each read of a file to another thread.
const READ_BYTES: usize = 256 * 1024;
/// Maximum bytes of lines in a window, because 64,000 lines of 1 MiB do not fit in memory.
const WINDOW_BYTES: usize = 4 << 20;
const PROGRESS_LINES: u64 = 1_000;

#[derive(Debug, Clone)]
pub struct EnqueueOptions {
    /// Posts sorted together before they are cut into batches, at least 1.
    pub window: usize,
    pub batch_size: usize,
    /// Batches in flight, at least 1.
    pub max_in_flight: usize,
    /// Maximum wait of a window's first post for others, if the source pauses, as a live pipe does.
    pub linger: Duration,
    pub retry: RetryPolicy,
    /// Stops the command; posts already read are handed over first.
    pub stop: Stop,
}

impl Default for EnqueueOptions {
    fn default() -> Self {
        Self {
            window: 64_000,
            batch_size: 2_000,
            max_in_flight: 4,
            linger: Duration::from_millis(200),
            retry: RetryPolicy::default(),
            stop: Stop::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    pub bytes: u64,
    /// Entries read: ids, posts and rejected entries; one per line in most files.
    pub lines: u64,
    pub done: u64,
}

/// Reasons why a file was not enqueued to its end. It may be enqueued again from its beginning: ids already in the
/// queue are only counted.
#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    #[error("{name} cannot be read after line {line}: {why}; everything up to there is done")]
    Read {
        name: String,
        /// Last line that was read; it and all before it are done.
        line: u64,
        why: io::Error,
    },
    /// The store or the queue stayed down, or rejected the posts.
    #[error(
        "{name} is done up to line {line}, then: {why}; when that is fixed, enqueue the whole file again: ids that \
         are in the queue already are skipped"
    )]
    HandOver {
        name: String,
        /// All lines up to this one are done; later ones may be.
        line: u64,
        why: StarterError,
    },
    #[error(
        "{name} was stopped and is done up to line {line}: {scheduled} scheduled, {known} in the queue already, {refused} \
         refused; for the rest enqueue the whole file again: ids that are in the queue already are skipped"
    )]
    Stopped {
        name: String,
        /// All lines up to this one are done; later ones may be.
        line: u64,
        scheduled: u64,
        known: u64,
        refused: u64,
    },
}

pub struct Input {
    pub name: String,
    /// Size in bytes, if it is a regular file.
    pub bytes: Option<u64>,
    pub source: Box<dyn AsyncRead + Send + Unpin>,
}

impl Input {
    /// Opens a file, or standard input for `-`.
    pub async fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            let source = Box::new(tokio::io::stdin());
            return Ok(Self { name: "standard input".to_owned(), bytes: None, source });
        }
        let name = path.display().to_string();
        let named = |why: io::Error| {
            // An id instead of a file name.
            let advice = match why.kind() {
                io::ErrorKind::NotFound if is_digits(&name) => {
                    format!("; if it is an id, send it through a pipe to the file -: echo {name} | twitter-updater … -")
                }
                _ => String::new(),
            };
            io::Error::new(why.kind(), format!("{name} cannot be opened: {why}{advice}"))
        };
        let file = tokio::fs::File::open(path).await.map_err(named)?;
        let about = file.metadata().await.map_err(named)?;
        if about.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, format!("{name} is a folder: name a file in it")));
        }
        let bytes = about.is_file().then_some(about.len());
        Ok(Self { name, bytes, source: Box::new(file) })
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("name", &self.name).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Window {
    admitted: AdmittedBatch,
    bytes: usize,
    since: Option<Stopwatch>,
}

impl Window {
    fn is_full(&self, options: &EnqueueOptions) -> bool {
        self.admitted.len() >= options.window.max(1) || self.bytes >= WINDOW_BYTES
    }

    /// Returns the batches, at least one, sorted by id. `last_line` is the last line that was read.
    fn cut(self, batch_size: usize, last_line: u64) -> Vec<Batch> {
        let batches = self.admitted.into_batches(batch_size.max(1));
        let mut batches: Vec<Batch> = batches.map(|admitted| Batch { admitted, last_line: None }).collect();
        if batches.is_empty() {
            batches.push(Batch { admitted: AdmittedBatch::default(), last_line: None });
        }
        if let Some(last) = batches.last_mut() {
            last.last_line = Some(last_line);
        }
        batches
    }
}

/// Posts handed over together. When the last batch of a window and all before it are done, so are the lines up to
/// `last_line`.
struct Batch {
    admitted: AdmittedBatch,
    last_line: Option<u64>,
}

type Ids = Option<(String, String)>;

impl Batch {
    fn ids(&self) -> Ids {
        self.admitted.id_range().map(|(first, last)| (first.to_owned(), last.to_owned()))
    }

    fn overlaps(&self, others: &VecDeque<Ids>) -> bool {
        let Some((first, last)) = self.admitted.id_range() else { return false };
        others.iter().flatten().any(|(least, greatest)| first <= greatest.as_str() && least.as_str() <= last)
    }
}

/// Hands over every post in `source`: a bare or quoted id or a JSON object per line, or objects and lists over many
/// lines. X's responses and stream lines have their posts in `data`. Other entries are rejected with line number and
/// reason, and reading goes on.
///
/// `name` stands in the summary and in errors. `on_refused` gets the line and the reason of each rejection.
pub async fn enqueue(
    source: impl AsyncRead + Unpin,
    name: &str,
    starter: &Starter,
    options: &EnqueueOptions,
    progress: impl Fn(Progress),
    mut on_refused: impl FnMut(u64, &str),
) -> Result<Summary, EnqueueError> {
    let watch = Stopwatch::start();
    let mut tweets = PostReader::new(BufReader::with_capacity(READ_BYTES, source), starter.parse);
    let mut summary = Summary::new(name);
    let mut window = Window::default();
    let mut batches: VecDeque<Batch> = VecDeque::new();
    let mut in_flight: FuturesOrdered<AbortOnDropHandle<BatchResult>> = FuturesOrdered::new();
    let mut ids_in_flight: VecDeque<Ids> = VecDeque::new(); // of those in flight, in their order
    let begin = |batch| AbortOnDropHandle::new(tokio::spawn(hand_over(starter.clone(), options.retry, batch)));
    let (mut done_line, mut forgotten) = (0, 0);
    let mut read_error = None;
    let (mut at_end, mut stopped, mut all_cut) = (false, false, false);
    let was_stopped = |line, summary: &Summary| {
        let Summary { scheduled, known, refused, .. } = *summary;
        Err(EnqueueError::Stopped { name: name.to_owned(), line, scheduled, known, refused })
    };
    while !all_cut || !batches.is_empty() || !in_flight.is_empty() {
        while in_flight.len() < options.max_in_flight.max(1)
            && let Some(batch) = batches.pop_front_if(|batch| !batch.overlaps(&ids_in_flight))
        {
            ids_in_flight.push_back(batch.ids());
            in_flight.push_back(begin(batch));
        }
        let waited = window.since.map_or(Duration::ZERO, |since| since.elapsed());
        let mut lingered = false;
        tokio::select! {
            biased; // the first two conditions stop a source that never pauses; such a source delays no batch
            () = options.stop.wait_for_drain(), if !stopped => (stopped, at_end) = (true, true),
            // The store or the queue is down for longer than allowed.
            () = options.stop.wait_for_abandon() => return was_stopped(done_line, &summary),
            Some(handed) = in_flight.next() => {
                ids_in_flight.pop_front();
                // These tasks are cancelled only with their handles, which are held here, so a failed one has panicked.
                let (last_line, answers) = handed.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()));
                let failed = |why| EnqueueError::HandOver { name: name.to_owned(), line: done_line, why };
                let answers = answers.map_err(failed)?;
                answers.iter().for_each(|queued| summary.count(queued));
                forgotten += answers.iter().filter(|queued| **queued == Queued::Forgotten).count();
                if let Some(line) = last_line {
                    if forgotten > 0 {
                        on_refused(line, &forgotten_message(forgotten));
                    }
                    (done_line, forgotten) = (line, 0);
                }
                progress(current_progress(&tweets, &summary));
            }
            item = tweets.next(), if !at_end && !window.is_full(options) => match item {
                Ok(Some(item)) => {
                    add_item(item, starter, &mut window, &mut summary, &mut on_refused);
                    if summary.lines.is_multiple_of(PROGRESS_LINES) {
                        progress(current_progress(&tweets, &summary));
                    }
                }
                Ok(None) => at_end = true,
                Err(why) => {
                    read_error = Some(why);
                    at_end = true;
                }
            },
            () = tokio::time::sleep(options.linger.saturating_sub(waited)), if window.since.is_some() && batches.is_empty() => {
                lingered = true;
            }
        }
        if batches.is_empty() && !all_cut && (at_end || lingered || window.is_full(options)) {
            batches.extend(std::mem::take(&mut window).cut(options.batch_size, tweets.done_line()));
            all_cut = at_end;
        }
    }
    if let Some(why) = read_error {
        return Err(EnqueueError::Read { name: name.to_owned(), line: tweets.done_line(), why });
    }
    if stopped {
        return was_stopped(done_line, &summary);
    }
    summary.finish(watch.elapsed().as_secs_f64());
    progress(current_progress(&tweets, &summary));
    Ok(summary)
}

/// Message about posts of forgotten people; their exact lines are unknown by then.
fn forgotten_message(posts: usize) -> String {
    match posts {
        1 => "up to here 1 line belongs to a person who asked to be forgotten; it was not stored".to_owned(),
        _ => format!("up to here {posts} lines belong to people who asked to be forgotten; they were not stored"),
    }
}

fn add_item(
    item: Item,
    starter: &Starter,
    window: &mut Window,
    summary: &mut Summary,
    on_refused: &mut impl FnMut(u64, &str),
) {
    let Item { line, bytes, tweet, hint } = item;
    if matches!(tweet, Err(InvalidEntry::HeaderLine(_))) {
        return on_refused(line, HEADER_SKIPPED);
    }
    let now = clock::wall_ms();
    summary.lines += 1;
    let namespace = starter.queue.namespace();
    let (tweet, hint) = match tweet {
        Ok(tweet) if tweet.content.is_none() => match pasted::id_from_pasted(&tweet.id, namespace) {
            None => (Ok(tweet), hint),
            Some(id) => (id.map(|id| Ingested { id, ..tweet }), None),
        },
        tweet => (tweet, hint),
    };
    let admitted = tweet.map_err(Queued::Refused).and_then(|tweet| {
        summary.check_rounding(line, &tweet.id);
        starter.admit(tweet, now, &mut window.admitted)
    });
    match admitted {
        Ok(()) => {
            summary.count_due(window.admitted.last_due(now), now);
            window.bytes += bytes;
            window.since.get_or_insert_with(Stopwatch::start);
        }
        Err(Queued::Refused(why)) => {
            let remedy = || pasted::missing_date_reason(namespace).filter(|_| why == InvalidEntry::NoDate);
            let why = match hint {
                Some(hint) => format!("{why}; {hint}"),
                None => remedy().map_or_else(|| why.to_string(), str::to_owned),
            };
            summary.refuse(line, &why);
            on_refused(line, &why);
        }
        Err(queued) => summary.count(&queued),
    }
}

fn current_progress<R: tokio::io::AsyncBufRead + Unpin>(tweets: &PostReader<R>, summary: &Summary) -> Progress {
    let done = summary.scheduled + summary.known + summary.too_old + summary.dead + summary.refused;
    Progress { bytes: tweets.bytes(), lines: summary.lines, done }
}

/// Last line that the batch completes, if it ends a window, and the results of its posts.
type BatchResult = (Option<u64>, Result<Vec<Queued>, StarterError>);

async fn hand_over(starter: Starter, retry: RetryPolicy, batch: Batch) -> BatchResult {
    let mut delays = retry.start();
    loop {
        let error = match starter.hand_over(&batch.admitted).await {
            Ok(answers) => return (batch.last_line, Ok(answers)),
            Err(error) => error,
        };
        let Some(delay) = retry.next_retry(&mut delays, error.is_temporary()) else {
            return (batch.last_line, Err(error));
        };
        tracing::warn!(
            %error,
            failures = delays.attempts(),
            delay_ms = clock::millis(delay),
            "enqueue: a batch could not be handed over yet"
        );
        tokio::time::sleep(delay).await;
    }
}
