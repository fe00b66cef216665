//! Tasks report their steps: a watchdog finds a silent task, and an operator can list the steps (`SIGQUIT`).
//!
//! A task calls [`step`] and [`waits`] without a handle: the running task is known. That costs one short lock per step,
//! nothing per item.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::clock::Stopwatch;

/// Allowed silence of a task, ms: one setting for the process.
static SILENT_AFTER_MS: AtomicU64 = AtomicU64::new(3_600_000);
static TASKS: Mutex<Vec<Weak<Task>>> = Mutex::new(Vec::new());

tokio::task_local! {
    static TASK: Arc<Task>;
}

#[derive(Debug)]
pub struct Task {
    pub pipeline: String,
    /// Unique in its pipeline.
    pub name: String,
    doing: Mutex<Doing>,
}

#[derive(Debug, Clone)]
struct Doing {
    step: &'static str,
    of: Option<Arc<str>>,
    since: Stopwatch,
    /// Time that it may take, beyond [`silent_after`]; `None`: no limit.
    allowed: Option<Duration>,
}

impl Task {
    /// A task that starts now. The list of tasks shows it until it is dropped.
    #[must_use]
    pub fn new(pipeline: impl Into<String>, name: impl Into<String>) -> Arc<Self> {
        let doing = Doing { step: "begins", of: None, since: Stopwatch::start(), allowed: Some(Duration::ZERO) };
        let task = Arc::new(Self { pipeline: pipeline.into(), name: name.into(), doing: Mutex::new(doing) });
        let mut tasks = TASKS.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| task.strong_count() > 0);
        tasks.push(Arc::downgrade(&task));
        task
    }

    pub(super) fn set_step(&self, step: &'static str, of: Option<Option<Arc<str>>>, allowed: Option<Duration>) {
        let mut doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
        let of = of.unwrap_or_else(|| doing.of.take());
        *doing = Doing { step, of, since: Stopwatch::start(), allowed };
    }

    fn now(&self) -> Doing {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns once it has been silent for longer than it may.
    pub(super) async fn silent(&self) -> Duration {
        loop {
            let (Doing { since, allowed, .. }, patience) = (self.now(), silent_after());
            let (silent, most) =
                (since.elapsed(), allowed.map_or(Duration::MAX, |allowed| allowed.saturating_add(patience)));
            if silent >= most {
                return silent;
            }
            tokio::time::sleep((most - silent).min(patience.max(Duration::from_millis(1)))).await;
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Doing { step, of, since, .. } = self.now();
        write!(f, "{} {}: {step}", self.pipeline, self.name)?;
        if let Some(of) = of {
            write!(f, ", {of}")?;
        }
        write!(f, ", for {:.1} s", since.elapsed().as_secs_f64())
    }
}

/// Reports a step of the running task, with its current items.
pub fn step(step: &'static str) {
    let _ = TASK.try_with(|task| task.set_step(step, None, Some(Duration::ZERO)));
}

/// Reports a step of the running task with these items: a claim, its first id and their number.
pub fn step_with(step: &'static str, of: impl FnOnce() -> String) {
    let _ = TASK.try_with(|task| task.set_step(step, Some(Some(of().into())), Some(Duration::ZERO)));
}

/// Reports that the running task has no items and waits for `most` at the longest; `None`: no limit.
pub fn waits(step: &'static str, most: Option<Duration>) {
    let _ = TASK.try_with(|task| task.set_step(step, Some(None), most));
}

#[must_use]
pub fn pipeline() -> Option<String> {
    TASK.try_with(|task| task.pipeline.clone()).ok()
}

#[must_use]
pub fn current() -> Option<Arc<Task>> {
    TASK.try_with(Clone::clone).ok()
}

/// Runs a future as a part of a task, on any thread.
pub async fn within<F: Future>(task: Option<Arc<Task>>, future: F) -> F::Output {
    match task {
        Some(task) => TASK.scope(task, future).await,
        None => future.await,
    }
}

#[must_use]
pub fn silent_after() -> Duration {
    Duration::from_millis(SILENT_AFTER_MS.load(Ordering::Relaxed))
}

pub fn set_silent_after(span: Duration) {
    SILENT_AFTER_MS.store(u64::try_from(span.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

#[must_use]
pub(super) fn is_supervised() -> bool {
    TASK.try_with(|_| ()).is_ok()
}

pub(super) fn scope<F: Future>(task: Arc<Task>, future: F) -> impl Future<Output = F::Output> {
    TASK.scope(task, future)
}

/// One line per task: its step, and the time since.
#[must_use]
pub fn doings() -> Vec<String> {
    let tasks = TASKS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut lines: Vec<String> = tasks.iter().filter_map(Weak::upgrade).map(|task| task.to_string()).collect();
    lines.sort();
    lines
}
