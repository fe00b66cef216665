//! The polled sources, read now and then for all who watch.

use std::time::Duration;

use tokio::sync::Mutex;

use crate::clock::Stopwatch;
use crate::sources::{SourceBook, Sources};

/// How often they are read, while somebody watches,
const EVERY: Duration = Duration::from_secs(2);
/// unless that takes more than so large a part of the time: all gaps are counted.
const SHARE_OF_THE_TIME: u32 = 10;
/// How often it is tried where the store did not answer.
const AGAIN: Duration = Duration::from_secs(5);
/// How long the store may take, and the queues as long again: all else on the page waits for it.
const PATIENCE: Duration = Duration::from_millis(500);

/// What was read last, for all who watch.
#[derive(Debug, Default)]
struct Read {
    sources: Sources,
    /// Since when, and for how long it will do.
    at: Option<(Stopwatch, Duration)>,
}

/// What reads them for the page.
#[derive(Debug)]
pub(crate) struct Polled {
    book: SourceBook,
    read: Mutex<Read>,
}

impl Polled {
    pub(crate) fn new(book: SourceBook) -> Self {
        Self { book, read: Mutex::default() }
    }

    /// As read a moment ago. A store that does not answer is told of where there are sources, as far as anybody knows, and
    /// keeps nobody waiting again for a moment.
    pub(crate) async fn sources(&self) -> Sources {
        let mut read = self.read.lock().await;
        if read.at.as_ref().is_none_or(|(watch, for_so_long)| watch.elapsed() >= *for_so_long) {
            let watch = Stopwatch::start();
            let answer = self.book.read(PATIENCE).await;
            let took = watch.elapsed();
            let for_so_long = if answer.is_ok() { EVERY.max(took * SHARE_OF_THE_TIME) } else { AGAIN };
            read.sources = match answer {
                Ok(all) => Sources { all, error: None },
                Err(why) if self.book.names_any() || !read.sources.is_empty() => {
                    Sources { error: Some(why), ..Sources::default() }
                }
                Err(_) => Sources::default(),
            };
            read.at = Some((Stopwatch::start(), for_so_long));
        }
        read.sources.clone()
    }
}
