//! Named points at which a process ends as by kill -9, stops as by SIGSTOP, panics or hangs: for `tests/it/faults`.
//!
//! `TWITTER_UPDATER_CRASH_AT=after_claim` ends the process the first time it passes that point, `after_claim:3` the third
//! time. `TWITTER_UPDATER_STOP_AT` stops it there. Every build has the points; without a variable each only reads a static.
//!
//! `TWITTER_UPDATER_PANIC_AT=after_claim:3` makes the task panic that passes that point, the first three times.
//! `TWITTER_UPDATER_HANG_AT` makes it hang there (at `after_claim` and `before_accept`). `TWITTER_UPDATER_PANIC_POISON`
//! works as `TWITTER_UPDATER_POISON`, with a panic.
//!
//! `TWITTER_UPDATER_PANIC_AT_PATH=/status` panics in each request for that path, before its response, and
//! `TWITTER_UPDATER_PANIC_IN_BODY_OF` in the body. `TWITTER_UPDATER_FAIL_IN` limits the points to the tasks of a pipeline.

use std::process::{Command, abort, id};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::base::task;

/// The points, in the order in which an id passes them.
pub const POINTS: &[&str] = &[
    "after_record",
    "before_accept",
    "after_permit",
    "after_claim",
    "during_lookup",
    "after_answer",
    "before_commit",
    "after_commit",
    "after_lives",
    "before_settle",
    "after_settle",
    "before_release",
    "after_release",
];

const CRASH_AT: &str = "TWITTER_UPDATER_CRASH_AT";
const STOP_AT: &str = "TWITTER_UPDATER_STOP_AT";
const PANIC_AT: &str = "TWITTER_UPDATER_PANIC_AT";
const HANG_AT: &str = "TWITTER_UPDATER_HANG_AT";
const POISON_ID: &str = "TWITTER_UPDATER_POISON";
const PANIC_POISON_ID: &str = "TWITTER_UPDATER_PANIC_POISON";
const PANIC_AT_PATH: &str = "TWITTER_UPDATER_PANIC_AT_PATH";
const PANIC_IN_BODY_OF: &str = "TWITTER_UPDATER_PANIC_IN_BODY_OF";

static CRASH: LazyLock<Option<FailRequest>> = LazyLock::new(|| FailRequest::from_env(CRASH_AT));
static STOP: LazyLock<Option<FailRequest>> = LazyLock::new(|| FailRequest::from_env(STOP_AT));
static PANIC: LazyLock<Option<FailRequest>> = LazyLock::new(|| FailRequest::from_env(PANIC_AT));
static HANG: LazyLock<Option<FailRequest>> = LazyLock::new(|| FailRequest::from_env(HANG_AT));
static FAIL_IN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("TWITTER_UPDATER_FAIL_IN").ok());
static POISON: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(POISON_ID).ok());
static BAD_PATH: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(PANIC_AT_PATH).ok());
static BAD_BODY: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(PANIC_IN_BODY_OF).ok());
static PANIC_POISON: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(PANIC_POISON_ID).ok());

const STOP_AND_SEE: &str = "kill -STOP $0; until grep -q '^State:[[:space:]]*T' /proc/$0/status; do :; done";

struct FailRequest {
    point: String,
    left: AtomicI64,
}

impl FailRequest {
    fn from_env(variable: &str) -> Option<Self> {
        let asked = std::env::var(variable).ok()?;
        let (point, times) = asked.split_once(':').unwrap_or((&asked, "1"));
        Some(Self { point: point.to_owned(), left: AtomicI64::new(times.parse().unwrap_or(1)) })
    }

    /// Counts a pass of that point. Returns the passes left, including this one; 0 at other points and in other pipelines.
    fn take_pass(&self, name: &str) -> i64 {
        assert!(POINTS.contains(&name), "{name} is no crash point");
        let is_meant = || FAIL_IN.as_ref().is_none_or(|meant| task::current_pipeline().as_ref() == Some(meant));
        if self.point == name && is_meant() { self.left.fetch_sub(1, Ordering::Relaxed) } else { 0 }
    }

    fn is_last_pass(&self, name: &str) -> bool {
        self.take_pass(name) == 1
    }

    fn has_pass_left(&self, name: &str) -> bool {
        self.take_pass(name) > 0
    }
}

/// The variables that make this process fail, with their values. They are logged, in case one was forgotten.
pub fn list_variables() -> impl Iterator<Item = (&'static str, String)> {
    let variables = [CRASH_AT, STOP_AT, PANIC_AT, HANG_AT, POISON_ID, PANIC_POISON_ID, PANIC_AT_PATH, PANIC_IN_BODY_OF];
    variables.into_iter().filter_map(|variable| Some((variable, std::env::var(variable).ok()?)))
}

/// Ends or stops the process here, or panics, if a variable requests it.
pub fn point(name: &'static str) {
    assert!(!PANIC.as_ref().is_some_and(|request| request.has_pass_left(name)), "asked to panic at {name}");
    if CRASH.as_ref().is_some_and(|request| request.is_last_pass(name)) {
        abort();
    }
    if STOP.as_ref().is_some_and(|request| request.is_last_pass(name)) {
        // A signal to a process stops its threads one after the other. This thread waits for a child, which ends once the
        // first thread has stopped. So this thread goes on only after SIGCONT.
        let _ = Command::new("sh").args(["-c", STOP_AND_SEE, &id().to_string()]).status();
    }
}

/// Ends the process a moment later, if a variable requests it: in the middle of the next await.
pub fn abort_soon(name: &'static str) {
    if CRASH.as_ref().is_some_and(|request| request.is_last_pass(name)) {
        tokio::spawn(async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            abort();
        });
    }
}

/// Ends the process if `ids` contains the id in `TWITTER_UPDATER_POISON`, like an id that makes the process abort.
pub fn abort_on_poison<'a>(ids: impl Iterator<Item = &'a str> + Clone) {
    let contains = |poison: &Option<String>| poison.as_ref().is_some_and(|poison| ids.clone().any(|id| id == poison));
    if contains(&POISON) {
        abort();
    }
    assert!(!contains(&PANIC_POISON), "asked to panic at an id");
}

pub fn panic_at_path(path: &str) {
    assert!(BAD_PATH.as_ref().is_none_or(|bad| bad != path), "asked to panic at a path");
}

/// Returns true if a variable requests a panic while a response to this path is written.
#[must_use]
pub fn panics_in_body(path: &str) -> bool {
    BAD_BODY.as_ref().is_some_and(|bad| bad == path)
}

/// Hangs here for ever, if a variable requests it.
pub async fn hang(name: &'static str) {
    if HANG.as_ref().is_some_and(|request| request.has_pass_left(name)) {
        std::future::pending::<()>().await;
    }
}
