//! Errors that workers recorded, readable by every process: aggregates, not a log.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Result;
use crate::base::clock::Millis;

/// Number of errors that a namespace keeps, the newest ones.
pub const ERRORS_KEPT: usize = 200;
/// Time for which a namespace keeps an error after its last occurrence.
pub const ERRORS_KEPT_FOR: Duration = Duration::from_secs(7 * 86_400);
/// Time after [`ErrorRecords::forget_errors`] without examples: a worker may still hold a job or an error of the forgotten person.
pub const NO_EXAMPLES_FOR: Duration = Duration::from_secs(3_600);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedError {
    pub pipeline: String,
    pub kind: String,
    /// Empty if no host was called.
    pub host: String,
    pub endpoint: String,
    pub count: u64,
    /// First occurrence by the queue's clock, ms since the epoch.
    pub first_ms: Millis,
    /// Last occurrence, likewise.
    pub last_ms: Millis,
    /// One of the ids that the last error is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// Message of the last error, in one line; empty if it named a forgotten person.
    pub message: String,
}

impl RecordedError {
    /// Errors with the same key are one entry.
    #[must_use]
    pub fn key(&self) -> String {
        [&*self.pipeline, &*self.kind, &*self.host, &*self.endpoint].join(" ")
    }

    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.first_ms = self.first_ms.min(other.first_ms);
        if other.last_ms >= self.last_ms {
            self.last_ms = other.last_ms;
            self.message.clone_from(&other.message);
            if other.example.is_some() {
                self.example.clone_from(&other.example);
            }
        }
    }

    /// The entry to store at `now`; `None` if it is too old. Later times become `now`. Errors up to `no_examples_until` lose their
    /// example. Both times are ms since the epoch.
    #[must_use]
    pub fn prepare_for_storage(&self, now: Millis, no_examples_until: Millis) -> Option<Self> {
        let mut stored = self.clone();
        stored.last_ms = self.last_ms.min(now);
        stored.first_ms = self.first_ms.min(now);
        if stored.last_ms <= no_examples_until {
            stored.example = None;
        }
        stored.is_kept(now).then_some(stored)
    }

    /// Returns true if it is not too old at `now`, ms since the epoch.
    #[must_use]
    pub fn is_kept(&self, now: Millis) -> bool {
        self.last_ms > now - crate::base::clock::millis(ERRORS_KEPT_FOR)
    }

    /// Removes the example and the message if they contain one of these lower-case names. Returns true if anything was removed.
    pub fn forget(&mut self, names: &HashSet<String>) -> bool {
        let is_named = |text: &str| names.contains(&text.to_lowercase());
        let by_example = self.example.take_if(|example| is_named(example)).is_some();
        let between = |c: char| c.is_whitespace() || "\"'`,;()<>".contains(c);
        let parts = self.message.split(between).map(|part| part.trim_matches(|c: char| ".:@".contains(c)));
        let words = self.message.split(|c: char| !c.is_alphanumeric() && c != '_');
        let by_message = parts.chain(words).any(is_named);
        if by_message {
            self.message.clear();
        }
        by_example || by_message
    }

    /// Returns true if any text contains these words, ignoring case.
    #[must_use]
    pub fn contains_text(&self, words: &str) -> bool {
        let words = words.to_lowercase();
        let Self { pipeline, kind, host, endpoint, message, .. } = self;
        let example = self.example.as_deref().unwrap_or_default();
        [pipeline, kind, host, endpoint, message, example].iter().any(|text| text.to_lowercase().contains(&words))
    }
}

pub(super) fn lowercase_names(names: &[String]) -> HashSet<String> {
    names.iter().map(|name| name.to_lowercase()).collect()
}

/// Recorded errors of a namespace. [`Jobs::forget`](super::Jobs::forget) removes the examples and messages that name its ids.
#[async_trait]
pub trait ErrorRecords: Send + Sync + std::fmt::Debug {
    /// Merges errors: counts add up, and the newest texts stay. Keeps [`ERRORS_KEPT`] entries for [`ERRORS_KEPT_FOR`]. Not idempotent:
    /// a call that is repeated after a lost reply counts twice.
    async fn record_errors(&self, errors: &[RecordedError]) -> Result<()>;

    async fn errors(&self, most: usize) -> Result<Vec<RecordedError>>;

    /// Removes the examples and messages that name one of these ids or handles. Errors that occur until [`NO_EXAMPLES_FOR`] from now
    /// are recorded without an example.
    async fn forget_errors(&self, names: &[String]) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(last_ms: Millis, message: &str, example: Option<&str>) -> RecordedError {
        let (message, example) = (message.to_owned(), example.map(str::to_owned));
        RecordedError { count: 2, first_ms: last_ms - 5, last_ms, message, example, ..RecordedError::default() }
    }

    #[test]
    fn counts_add_up_and_the_newest_texts_stay() {
        let mut known = error(100, "HTTP 500", Some("1"));
        known.merge(&error(90, "HTTP 502", Some("2")));
        assert_eq!((known.count, known.first_ms, known.last_ms), (4, 85, 100));
        assert_eq!((&*known.message, known.example.as_deref()), ("HTTP 500", Some("1")));
        known.merge(&error(110, "HTTP 503", None));
        assert_eq!((known.count, &*known.message, known.example.as_deref()), (6, "HTTP 503", Some("1")));
    }

    #[test]
    fn texts_that_name_a_forgotten_id_are_removed_and_others_stay() {
        let names = lowercase_names(&["20".to_owned(), "at://did:plc:a/thing/3k".to_owned(), "SomeName".to_owned()]);
        let forgotten = |message: &str, example: Option<&str>| {
            let mut error = error(9, message, example);
            let changed = error.forget(&names);
            (changed, error.message, error.example)
        };
        let kept = |message: &str| (true, message.to_owned(), None);
        assert_eq!(forgotten("HTTP 500", Some("20")), kept("HTTP 500"));
        assert_eq!(forgotten("HTTP 200 of 120", Some("120")), (false, "HTTP 200 of 120".into(), Some("120".into())));
        for naming in
            ["no item 20", "refused: /2/things/20?x", "\"at://did:plc:a/thing/3k\" is gone", "@somename, hidden"]
        {
            assert_eq!(forgotten(naming, None), kept(""), "{naming}");
        }
    }

    #[test]
    fn an_entry_is_dated_by_the_queue_and_kept_for_a_week() {
        let (now, week) = (1_760_000_000_000, 7 * 86_400_000);
        let ahead = error(now + 60_000, "HTTP 500", Some("1")).prepare_for_storage(now, 0).unwrap();
        assert_eq!((ahead.first_ms, ahead.last_ms, ahead.example.as_deref()), (now, now, Some("1")));
        assert_eq!(error(now, "", Some("1")).prepare_for_storage(now, now).unwrap().example, None);
        assert!(
            error(now - week, "", None).prepare_for_storage(now, 0).is_none()
                && error(now - week + 1, "", None).prepare_for_storage(now, 0).is_some()
        );
    }
}
