//! Supervised tasks: a task that panics or falls silent is restarted, alone.
//!
//! The supervisor restarts a task after a panic, or if it reports no step for longer than `supervision.silent_after` plus its
//! announced wait (see [`task`](super::task)).
//!
//! A panic drops the task's future at an await, as a stop does, so every task must bear it. [`catch_panic`] turns the panic of a
//! request into an error, without a restart. Any other panic (a thread of a driver, the writer of a file) ends the process
//! after [`end_at_other_panics`].

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::clock::{Millis, Stopwatch, millis};
use super::retry::Retry;
use super::shutdown::Stop;
use super::task::{Task, is_supervised, scope};

/// The first and the longest delay before a restart.
const DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// A restarted task that has run for this time runs well.
pub const STEADY: Duration = Duration::from_secs(300);
/// Length limit of a panic's message, in characters.
const MESSAGE_CHARS: usize = 300;

static INSTALL_HOOK: Once = Once::new();
static ENDS_AT_OTHER_PANICS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Message and place of the last panic of a supervised task on this thread.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RestartCause {
    Panic,
    Silence,
}

impl RestartCause {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Silence => "silence",
        }
    }
}

pub trait TaskObserver: Send + Sync {
    fn on_restart(&self, task: &str, cause: RestartCause, why: &str);

    fn on_recovery(&self, task: &str);
}

/// Makes every later panic outside supervised tasks end the process, after its message.
pub fn end_at_other_panics() {
    install_panic_hook();
    ENDS_AT_OTHER_PANICS.store(true, Ordering::Relaxed);
}

fn install_panic_hook() {
    INSTALL_HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if is_supervised() {
                let place = panic.location().map_or_else(String::new, |at| format!(" at {}:{}", at.file(), at.line()));
                let message: String = message(panic.payload()).chars().take(MESSAGE_CHARS).collect();
                LAST_PANIC.set(Some(format!("it panicked{place}: {message}")));
                return;
            }
            before(panic);
            if ENDS_AT_OTHER_PANICS.load(Ordering::Relaxed) {
                std::process::abort();
            }
        }));
    });
}

/// Message and place of a panic, as one clause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Panic(String);

/// Runs a future as a part of that task. A panic drops the future and becomes the error.
pub async fn catch_panic<F: Future>(task: &Arc<Task>, future: F) -> Result<F::Output, Panic> {
    install_panic_hook();
    AssertUnwindSafe(scope(task.clone(), future)).catch_unwind().await.map_err(|payload| Panic(panic_text(&*payload)))
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    LAST_PANIC.take().unwrap_or_else(|| format!("it panicked: {}", message(payload)))
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let of_format = payload.downcast_ref::<String>().map(String::as_str);
    of_format.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Runs a task to its end. Restarts it after a panic or a long silence, with a delay that grows with each failure. Once the
/// process stops there is no restart.
pub async fn supervise<F>(task: &Arc<Task>, observer: &dyn TaskObserver, stop: &Stop, mut begin: impl FnMut() -> F)
where
    F: Future<Output = ()>,
{
    install_panic_hook();
    let mut retry = Retry::new(DELAYS.0, DELAYS.1);
    loop {
        task.set_step("begins", Some(None), Some(Duration::ZERO));
        let began = Stopwatch::start();
        // The closure itself may panic, too.
        let running = AssertUnwindSafe(scope(task.clone(), async { begin().await })).catch_unwind();
        let steady = async {
            if retry.attempts() > 0 {
                tokio::time::sleep(STEADY).await;
                observer.on_recovery(&task.name);
            }
            std::future::pending::<()>().await;
        };
        let (cause, why) = tokio::select! {
            biased;
            ended = running => match ended {
                Ok(()) => return,
                Err(payload) => (RestartCause::Panic, panic_text(&*payload)),
            },
            silent = task.wait_until_silent() => {
                (RestartCause::Silence, format!("it gave no sign of life for {} ms: {task}", millis(silent)))
            }
            () = steady => continue,
        };
        if began.elapsed() >= STEADY {
            retry.reset();
        }
        let delay = retry.next_delay();
        let delay_ms: Millis = millis(delay);
        let (pipeline, name) = (&task.pipeline, &task.name);
        tracing::error!(
            pipeline,
            task = name,
            error = why,
            delay_ms,
            "a task is restarted, alone: the leases that it held will expire"
        );
        observer.on_restart(name, cause, &why);
        task.set_step("waits after a failure", Some(None), Some(delay));
        stop.sleep(delay).await;
        if stop.is_draining() {
            return;
        }
    }
}

pub struct BackgroundTask {
    pub name: &'static str,
    begin: Box<dyn FnMut() -> BoxFuture<'static, ()> + Send>,
}

impl BackgroundTask {
    #[must_use]
    pub fn new<F>(name: &'static str, mut begin: impl FnMut() -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self { name, begin: Box::new(move || begin().boxed()) }
    }

    /// The task that runs `run` with `of` until it is stopped.
    #[must_use]
    pub fn with_state<T, F>(name: &'static str, of: T, run: fn(Arc<T>, Stop) -> F, stop: &Stop) -> Self
    where
        T: Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (of, stop) = (Arc::new(of), stop.clone());
        Self::new(name, move || run(of.clone(), stop.clone()))
    }

    pub async fn run(mut self, pipeline: String, observer: Arc<dyn TaskObserver>, stop: Stop) {
        let task = Task::new(pipeline, self.name);
        supervise(&task, &*observer, &stop, || (self.begin)()).await;
    }
}

impl fmt::Debug for BackgroundTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BackgroundTask").field(&self.name).finish()
    }
}

/// Observer of tasks without a pipeline: only the log reports them.
#[derive(Debug, Clone, Copy)]
pub struct LogOnly;

impl TaskObserver for LogOnly {
    fn on_restart(&self, _: &str, _: RestartCause, _: &str) {}
    fn on_recovery(&self, _: &str) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::base::task::{list_steps, silent_after, step, step_with, waits};

    #[derive(Default)]
    struct RecordingObserver(Mutex<Vec<String>>);

    impl TaskObserver for RecordingObserver {
        fn on_restart(&self, task: &str, cause: RestartCause, why: &str) {
            self.0.lock().unwrap().push(format!("{task} {}: {why}", cause.word()));
        }
        fn on_recovery(&self, task: &str) {
            self.0.lock().unwrap().push(format!("{task} steady"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_panicking_task_is_restarted_until_it_ends_and_is_steady_after_a_while() {
        let (heard, stop, began) = (RecordingObserver::default(), Stop::new(), AtomicU32::new(0));
        let task = Task::new("thing:update", "counts");
        supervise(&task, &heard, &stop, || async {
            match began.fetch_add(1, Ordering::Relaxed) {
                0 => panic!("of the first kind"),
                1 => panic!("number {}", 2),
                2 => stop.sleep(2 * STEADY).await,
                _ => unreachable!(),
            }
        })
        .await;
        let heard = heard.0.into_inner().unwrap();
        assert_eq!(heard.len(), 3, "{heard:?}");
        assert!(heard[0].starts_with("counts panic: it panicked at crates/engine/src/base/supervise.rs:"), "{heard:?}");
        assert!(heard[0].ends_with(": of the first kind") && heard[1].ends_with(": number 2"), "{heard:?}");
        assert_eq!((began.into_inner(), heard[2].as_str()), (3, "counts steady"));
    }

    #[tokio::test]
    async fn a_contained_panic_is_an_error_with_its_place() {
        let task = Task::new("process", "contains");
        assert_eq!(catch_panic(&task, async { 7 }).await, Ok(7));
        let panics = async {
            tokio::task::yield_now().await;
            panic!("of a request");
        };
        let why = catch_panic::<_>(&task, panics).await.map(|(): ()| ()).unwrap_err().to_string();
        assert!(
            why.starts_with("it panicked at crates/engine/src/base/supervise.rs:") && why.ends_with(": of a request"),
            "{why}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_beyond_what_a_task_waits_for_and_another_one_goes_on() {
        let (heard, stop) = (RecordingObserver::default(), Stop::new());
        let (task, clock) = (Task::new("thing:update", "hangs"), Stopwatch::start());
        let began = AtomicU32::new(0);
        supervise(&task, &heard, &stop, || async {
            if began.fetch_add(1, Ordering::Relaxed) > 0 {
                return;
            }
            waits("waits", Some(10 * silent_after()));
            tokio::time::sleep(10 * silent_after()).await;
            step_with("looks up", || "claim a: 1 and 99 more".to_owned());
            step("saves");
            std::future::pending::<()>().await;
        })
        .await;
        let heard = heard.0.into_inner().unwrap();
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert!(heard[0].contains("thing:update hangs: saves, claim a: 1 and 99 more, for 3600.0 s"), "{heard:?}");
        assert!(
            clock.elapsed() >= 11 * silent_after() && clock.elapsed() < 11 * silent_after() + Duration::from_secs(2)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_what_may_never_come_is_never_silent_and_is_listed() {
        let (heard, stop) = (RecordingObserver::default(), Stop::new());
        let task = Task::new("thing:update", "listens");
        let listens = supervise(&task, &heard, &stop, || async {
            waits("waits for a change", None);
            std::future::pending::<()>().await;
        });
        assert!(tokio::time::timeout(100 * silent_after(), listens).await.is_err());
        assert!(heard.0.into_inner().unwrap().is_empty());
        assert!(list_steps().iter().any(|line| line.starts_with("thing:update listens: waits for a change, for 36")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_is_not_restarted_while_the_process_stops() {
        let (heard, stop) = (RecordingObserver::default(), Stop::new());
        let task = Task::new("thing:update", "ends");
        supervise(&task, &heard, &stop, || async {
            stop.drain();
            panic!("late");
        })
        .await;
        assert_eq!(heard.0.into_inner().unwrap().len(), 1);
    }
}
