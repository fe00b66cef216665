//! Tasks report their steps: a watchdog finds a silent task, and an operator can list the steps (`SIGQUIT`).
//!
//! [`step`] and [`waits`] need no handle: the running task is a task-local value. A step costs one short lock.

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
    current: Mutex<CurrentStep>,
}

#[derive(Debug, Clone)]
struct CurrentStep {
    step: &'static str,
    items: Option<Arc<str>>,
    since: Stopwatch,
    /// Time that it may take, beyond [`silent_after`]; `None`: no limit.
    allowed: Option<Duration>,
}

impl Task {
    /// A task that starts now. The list of tasks shows it until it is dropped.
    #[must_use]
    pub fn new(pipeline: impl Into<String>, name: impl Into<String>) -> Arc<Self> {
        let current =
            CurrentStep { step: "begins", items: None, since: Stopwatch::start(), allowed: Some(Duration::ZERO) };
        let task = Arc::new(Self { pipeline: pipeline.into(), name: name.into(), current: Mutex::new(current) });
        let mut tasks = TASKS.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| task.strong_count() > 0);
        tasks.push(Arc::downgrade(&task));
        task
    }

    pub(super) fn set_step(&self, step: &'static str, items: Option<Option<Arc<str>>>, allowed: Option<Duration>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let items = items.unwrap_or_else(|| current.items.take());
        *current = CurrentStep { step, items, since: Stopwatch::start(), allowed };
    }

    fn current_step(&self) -> CurrentStep {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it has been silent for longer than allowed. Returns the length of the silence.
    pub(super) async fn wait_until_silent(&self) -> Duration {
        loop {
            let (CurrentStep { since, allowed, .. }, patience) = (self.current_step(), silent_after());
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
        let CurrentStep { step, items, since, .. } = self.current_step();
        write!(f, "{} {}: {step}", self.pipeline, self.name)?;
        if let Some(items) = items {
            write!(f, ", {items}")?;
        }
        write!(f, ", for {:.1} s", since.elapsed().as_secs_f64())
    }
}

/// Reports a step of the running task, with its current items.
pub fn step(step: &'static str) {
    let _ = TASK.try_with(|task| task.set_step(step, None, Some(Duration::ZERO)));
}

/// Reports a step of the running task with these items: a claim, its first id and their number.
pub fn step_with(step: &'static str, items: impl FnOnce() -> String) {
    let _ = TASK.try_with(|task| task.set_step(step, Some(Some(items().into())), Some(Duration::ZERO)));
}

/// Reports that the running task has no items and waits for `most` at the longest; `None`: no limit.
pub fn waits(step: &'static str, most: Option<Duration>) {
    let _ = TASK.try_with(|task| task.set_step(step, Some(None), most));
}

/// Namespace of the pipeline that the current task works for; `None` outside a supervised task.
#[must_use]
pub fn current_pipeline() -> Option<String> {
    TASK.try_with(|task| task.pipeline.clone()).ok()
}

/// The current supervised task, if any.
#[must_use]
pub fn current() -> Option<Arc<Task>> {
    TASK.try_with(Clone::clone).ok()
}

/// Runs a future as a part of a task, on any thread.
pub async fn run_in_task<F: Future>(task: Option<Arc<Task>>, future: F) -> F::Output {
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
pub fn list_steps() -> Vec<String> {
    let tasks = TASKS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut lines: Vec<String> = tasks.iter().filter_map(Weak::upgrade).map(|task| task.to_string()).collect();
    lines.sort();
    lines
}
