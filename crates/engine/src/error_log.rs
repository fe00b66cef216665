//! Errors of one pipeline of a process, kept until its heartbeat sends them to the queue.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::base::call_error::ErrorKind;
use crate::base::clock;
use crate::base::humanize::{one_line, truncate_chars};
use crate::queue::{ERRORS_KEPT, RecordedError};

const MAX_MESSAGE_CHARS: usize = 300;
/// Maximum length of a host and of an endpoint, characters.
const MAX_NAME_CHARS: usize = 100;
/// More than the calls that fail together.
const MAX_RECENT_MESSAGES: usize = 64;

#[derive(Debug, Clone, Copy, Default)]
pub struct ErrorPlace<'a> {
    /// The host that was called; `None` for the pipeline's API.
    pub host: Option<&'a str>,
    /// Empty if no host was called.
    pub endpoint: &'a str,
    /// One of the ids that the error is about.
    pub example: Option<&'a str>,
}

/// Errors that are not in the queue yet, at most [`ERRORS_KEPT`] entries.
#[derive(Debug, Default)]
pub struct ErrorLog {
    pipeline: String,
    host: String,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    entries: BTreeMap<String, RecordedError>,
    messages: VecDeque<String>,
}

impl ErrorLog {
    #[must_use]
    pub fn new(pipeline: &str, host: &str) -> Self {
        Self { pipeline: pipeline.to_owned(), host: truncate_chars(host, MAX_NAME_CHARS), log: Mutex::default() }
    }

    pub fn record(&self, kind: ErrorKind, message: &str, place: ErrorPlace<'_>) {
        let error = self.build_entry(kind, message, place);
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.messages.push_back(error.message.clone());
        if log.messages.len() > MAX_RECENT_MESSAGES {
            log.messages.pop_front();
        }
        log.add(error);
    }

    /// Records why a batch failed. Skips a message that [`record`](Self::record) recorded recently, mostly for the failed call.
    pub fn record_reason(&self, kind: ErrorKind, why: &str, place: ErrorPlace<'_>) {
        let error = self.build_entry(kind, why, place);
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if !log.messages.contains(&error.message) {
            log.add(error);
        }
    }

    fn build_entry(&self, kind: ErrorKind, message: &str, place: ErrorPlace<'_>) -> RecordedError {
        let ErrorPlace { host, endpoint, example } = place;
        // Outside a batch the queue's clock is unknown, so this machine's clock serves.
        let now = clock::queue_ms().unwrap_or_else(clock::wall_ms);
        let host = match host {
            Some(host) => truncate_chars(host, MAX_NAME_CHARS),
            None if endpoint.is_empty() => String::new(),
            None => self.host.clone(),
        };
        RecordedError {
            pipeline: self.pipeline.clone(),
            kind: kind.word().to_owned(),
            host,
            endpoint: truncate_chars(endpoint, MAX_NAME_CHARS),
            count: 1,
            first_ms: now,
            last_ms: now,
            example: example.map(str::to_owned),
            message: one_line(&truncate_chars(message, MAX_MESSAGE_CHARS)),
        }
    }

    #[must_use]
    pub fn pending(&self) -> Vec<RecordedError> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).entries.values().cloned().collect()
    }

    /// Subtracts errors that the queue has stored. Errors recorded since then stay.
    pub fn subtract_stored(&self, errors: &[RecordedError]) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        for merged in errors {
            let key = merged.key();
            let Some(known) = log.entries.get_mut(&key) else { continue };
            known.count = known.count.saturating_sub(merged.count);
            if known.count == 0 {
                log.entries.remove(&key);
            }
        }
    }
}

impl Log {
    fn add(&mut self, error: RecordedError) {
        match self.entries.get_mut(&error.key()) {
            Some(known) => known.merge(&error),
            None => drop(self.entries.insert(error.key(), error)),
        }
        if self.entries.len() > ERRORS_KEPT
            && let Some(oldest) = self.entries.values().min_by_key(|error| error.last_ms).map(RecordedError::key)
        {
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_of_call(endpoint: &str) -> ErrorPlace<'_> {
        ErrorPlace { endpoint, example: Some("20"), ..ErrorPlace::default() }
    }

    #[test]
    fn errors_of_one_kind_and_place_are_one_entry_until_the_queue_has_them() {
        let log = ErrorLog::new("thing:update", "api.example");
        log.record(ErrorKind::NoAnswer, "HTTP 500", place_of_call("lookup"));
        log.record(ErrorKind::NoAnswer, "HTTP\n502", place_of_call("lookup"));
        log.record(ErrorKind::NoAnswer, "HTTP 500", place_of_call("other"));
        let pending = log.pending();
        let shown = |error: &RecordedError| {
            let RecordedError { host, endpoint, count, message, .. } = error.clone();
            (host, endpoint, count, message)
        };
        let shown: Vec<_> = pending.iter().map(shown).collect();
        let of = |endpoint: &str, count, message: &str| ("api.example".into(), endpoint.into(), count, message.into());
        assert_eq!(shown, [of("lookup", 2, "HTTP 502"), of("other", 1, "HTTP 500")]);
        log.record(ErrorKind::NoAnswer, "HTTP 503", place_of_call("lookup"));
        log.subtract_stored(&pending);
        let left = log.pending();
        assert_eq!((left.len(), left[0].count, &*left[0].message), (1, 1, "HTTP 503"));
        log.subtract_stored(&left);
        assert!(log.pending().is_empty());
    }

    #[test]
    fn a_batch_that_failed_by_its_call_counts_once_and_every_other_batch_counts() {
        let log = ErrorLog::new("thing:update", "api.example");
        log.record(ErrorKind::NoAnswer, "HTTP 500", place_of_call("lookup"));
        for why in ["HTTP 500", "the store is out", "the store is out"] {
            log.record_reason(ErrorKind::Outage, why, ErrorPlace::default());
        }
        let pending = log.pending();
        let counts: Vec<_> = pending.iter().map(|error| (&*error.kind, &*error.host, error.count)).collect();
        assert_eq!(counts, [("no answer", "api.example", 1), ("outage", "", 2)]);
    }

    #[test]
    fn entries_and_their_texts_are_bounded() {
        let log = ErrorLog::new("thing:update", "");
        for n in 0..3 * ERRORS_KEPT {
            let host = format!("{n}.{}", "x".repeat(1_000));
            let place = ErrorPlace { host: Some(&host), endpoint: "file", example: None };
            log.record(ErrorKind::NoAnswer, &"long ".repeat(1_000), place);
        }
        let pending = log.pending();
        assert_eq!(pending.len(), ERRORS_KEPT);
        assert!(pending.iter().all(|error| error.key().len() < 300 && error.message.len() <= MAX_MESSAGE_CHARS + 3));
        assert!(log.log.lock().unwrap().messages.len() <= MAX_RECENT_MESSAGES);
    }
}
