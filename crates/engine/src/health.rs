//! Health of a process: whether its loops run, and whether it can work.
//!
//! Health makes no calls: loops and callers record their results. So an outage of Redis restarts no process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::base::clock::{Millis, Stopwatch, millis, wall_ms};
use crate::base::shutdown::Stop;

/// State of one loop and of the services it needs. A process has one, or one per pipeline.
#[derive(Debug)]
pub struct Health {
    started: Stopwatch,
    /// Start time by this machine's clock, ms since the epoch.
    started_ms: Millis,
    /// Last turn of the loop, ms since the start.
    beat: AtomicI64,
    patience: Duration,
    contact: Mutex<LastContact>,
    /// Tasks that failed and have not run well for long enough since, each with its failure.
    failing: Mutex<BTreeMap<String, Trouble>>,
    changed: Notify,
    stop: Stop,
}

#[derive(Debug, PartialEq, Eq)]
enum LastContact {
    None,
    Works,
    Out(Trouble),
    /// The loop has ended for good, so no other contact will follow.
    Ended(Trouble),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub why: String,
    /// Start of the trouble by this machine's clock, ms since the epoch.
    pub since_ms: Millis,
}

/// Reason why a pipeline or a whole process is not live or not ready, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FailedCheck {
    #[error("the loop has not run for {0} ms")]
    Hanging(Millis),
    #[error("it is stopping")]
    Stopping,
    #[error("its services are not open yet")]
    Opening,
    #[error("a service is unavailable: {0}")]
    Outage(String),
    /// The loop has ended for good.
    #[error("it has stopped for good: {0}")]
    Ended(String),
    #[error("it has nothing to work on")]
    Idle,
    /// Reasons of all pipelines of a process.
    #[error("{}", .0.join("; "))]
    Pipelines(Vec<String>),
}

impl Health {
    /// Creates the health of a process that starts now and whose loop runs at least once per `patience`.
    #[must_use]
    pub fn new(patience: Duration, stop: Stop) -> Self {
        Self {
            started: Stopwatch::start(),
            started_ms: wall_ms(),
            beat: AtomicI64::new(0),
            patience,
            contact: Mutex::new(LastContact::None),
            failing: Mutex::default(),
            changed: Notify::new(),
            stop,
        }
    }

    pub fn record_turn(&self) {
        self.beat.store(self.started.elapsed_ms(), Ordering::Relaxed);
    }

    /// Records that the services responded. Returns true if that is new.
    pub fn record_success(&self) -> bool {
        self.set_contact(LastContact::Works)
    }

    /// Records that a service is down. Returns true if that is new; another reason alone is not.
    pub fn record_outage(&self, why: &str) -> bool {
        let since_ms = self.trouble().map_or_else(wall_ms, |known| known.since_ms);
        self.set_contact(LastContact::Out(Trouble { why: why.to_owned(), since_ms }))
    }

    /// Records that the loop has ended for good while the process continues. `check_live` ignores it from then on.
    pub fn record_end(&self, why: &str) {
        self.set_contact(LastContact::Ended(Trouble { why: why.to_owned(), since_ms: wall_ms() }));
    }

    /// Records that a task failed and was restarted: a task beside the loop, or a part of the loop.
    pub fn record_task_failure(&self, task: &str, why: &str) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let since_ms = failing.get(task).map_or_else(wall_ms, |known| known.since_ms);
        let why = format!("the task {task} failed and was restarted: {why}");
        failing.insert(task.to_owned(), Trouble { why, since_ms });
        self.changed.notify_one();
    }

    pub fn clear_task_failure(&self, task: &str) {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
        self.changed.notify_one();
    }

    /// The task that has been failing for the longest time; `None` if all run well. The rest of the pipeline works.
    #[must_use]
    pub fn longest_failing_task(&self) -> Option<Trouble> {
        let failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.values().min_by_key(|trouble| trouble.since_ms).cloned()
    }

    /// The reason why the pipeline cannot work: the last contact failed, or there was none yet.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        match &*self.contact.lock().unwrap_or_else(PoisonError::into_inner) {
            LastContact::Out(trouble) | LastContact::Ended(trouble) => Some(trouble.clone()),
            LastContact::None => Some(Trouble { why: FailedCheck::Opening.to_string(), since_ms: self.started_ms }),
            LastContact::Works => None,
        }
    }

    fn has_ended(&self) -> bool {
        matches!(*self.contact.lock().unwrap_or_else(PoisonError::into_inner), LastContact::Ended(_))
    }

    fn set_contact(&self, contact: LastContact) -> bool {
        let mut last = self.contact.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *last, contact);
        let is_news = std::mem::discriminant(&before) != std::mem::discriminant(&*last);
        if is_news {
            self.changed.notify_one();
        }
        is_news
    }

    /// Waits until the services go down or come back. Returns at once if they did since the last call. For one caller at a time.
    pub async fn wait_for_change(&self) {
        self.changed.notified().await;
    }

    /// Checks that the loop runs.
    pub fn check_live(&self) -> Result<(), FailedCheck> {
        let still = self.started.elapsed_ms() - self.beat.load(Ordering::Relaxed);
        if still <= millis(self.patience) || self.has_ended() { Ok(()) } else { Err(FailedCheck::Hanging(still)) }
    }

    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.is_draining()
    }

    pub async fn wait_for_stop(&self) {
        self.stop.wait_for_drain().await;
    }

    /// Checks that the services are open, the last contact succeeded, and the process is not stopping.
    pub fn check_ready(&self) -> Result<(), FailedCheck> {
        match &*self.contact.lock().unwrap_or_else(PoisonError::into_inner) {
            LastContact::Ended(trouble) => Err(FailedCheck::Ended(trouble.why.clone())),
            _ if self.stop.is_draining() => Err(FailedCheck::Stopping),
            LastContact::Works => Ok(()),
            LastContact::None => Err(FailedCheck::Opening),
            LastContact::Out(trouble) => Err(FailedCheck::Outage(trouble.why.clone())),
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new(Duration::MAX, Stop::new())
    }
}

/// Health of a process: its pipelines, each with its own loop and services.
#[derive(Debug, Clone)]
pub struct ProcessHealth {
    pipelines: Arc<[(String, Arc<Health>)]>,
}

impl ProcessHealth {
    #[must_use]
    pub fn new(pipelines: impl IntoIterator<Item = (String, Arc<Health>)>) -> Self {
        Self { pipelines: pipelines.into_iter().collect() }
    }

    /// Checks that every loop runs. The error names each hanging loop; only a restart of the process repairs it.
    pub fn check_live(&self) -> Result<(), FailedCheck> {
        let (_, hung) = self.check_each(Health::check_live);
        if hung.is_empty() { Ok(()) } else { Err(FailedCheck::Pipelines(hung)) }
    }

    /// Checks that at least one pipeline can work. Returns a line for each pipeline that cannot. The error has the reasons of all.
    pub fn check_ready(&self) -> Result<Vec<String>, FailedCheck> {
        let (fine, out) = self.check_each(Health::check_ready);
        if fine > 0 {
            return Ok(out);
        }
        // A stop applies to every pipeline that has not ended.
        if self.pipelines.iter().any(|(_, health)| health.is_stopping() && !health.has_ended()) {
            return Err(FailedCheck::Stopping);
        }
        Err(if out.is_empty() { FailedCheck::Idle } else { FailedCheck::Pipelines(out) })
    }

    /// Number of healthy pipelines, and the reasons of the others. Names are added if there are several pipelines.
    fn check_each(&self, ask: impl Fn(&Health) -> Result<(), FailedCheck>) -> (usize, Vec<String>) {
        let asked = |(name, health): &(String, Arc<Health>)| {
            let why = ask(health).err()?;
            Some(if self.pipelines.len() == 1 { why.to_string() } else { format!("{name}: {why}") })
        };
        let wrong: Vec<String> = self.pipelines.iter().filter_map(asked).collect();
        (self.pipelines.len() - wrong.len(), wrong)
    }
}

impl From<&Arc<Health>> for ProcessHealth {
    fn from(health: &Arc<Health>) -> Self {
        Self::new([(String::new(), health.clone())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_stands_still_is_not_live_whatever_the_services_do() {
        let health = Health::new(Duration::from_secs(30), Stop::new());
        assert!(health.check_live().is_ok());
        health.record_outage("no route");
        for _ in 0..10 {
            tokio::time::advance(Duration::from_secs(29)).await;
            assert!(health.check_live().is_ok());
            health.record_turn();
        }
        health.record_success();
        tokio::time::advance(Duration::from_millis(30_001)).await;
        assert_eq!(health.check_live().unwrap_err().to_string(), "the loop has not run for 30001 ms");
        health.record_turn();
        assert!(health.check_live().is_ok());
        assert!(Health::default().check_live().is_ok());
    }

    #[test]
    fn it_is_ready_after_a_good_contact_until_it_stops() {
        let stop = Stop::new();
        let health = Health::new(Duration::from_secs(30), stop.clone());
        assert!(health.check_ready().unwrap_err().to_string().contains("not open yet"));
        assert!(health.trouble().is_some_and(|trouble| trouble.why.contains("not open yet")), "it cannot work either");
        assert!(health.record_success());
        assert!(!health.record_success());
        assert!(health.check_ready().is_ok());
        assert!(health.record_outage("no route"));
        assert!(!health.record_outage("still no route"));
        assert_eq!(health.check_ready().unwrap_err().to_string(), "a service is unavailable: still no route");
        assert!(health.record_success());
        stop.drain();
        assert_eq!(health.check_ready().unwrap_err().to_string(), "it is stopping");
        assert!(health.check_live().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_lives_while_all_its_loops_turn_and_is_ready_while_one_can_work() {
        let stop = Stop::new();
        let health = || Arc::new(Health::new(Duration::from_secs(30), stop.clone()));
        let (one, other) = (health(), health());
        let both = ProcessHealth::new([("x:update".to_owned(), one.clone()), ("y:update".to_owned(), other.clone())]);
        assert_eq!(
            both.check_ready().unwrap_err().to_string(),
            "x:update: its services are not open yet; y:update: its services are not open yet"
        );
        one.record_success();
        assert_eq!(both.check_ready().unwrap(), ["y:update: its services are not open yet"]);
        other.record_success();
        assert!(both.check_ready().unwrap().is_empty());
        one.record_outage("no route");
        assert_eq!(both.check_ready().unwrap(), ["x:update: a service is unavailable: no route"]);
        other.record_outage("HTTP 502");
        let why = both.check_ready().unwrap_err().to_string();
        assert_eq!(why, "x:update: a service is unavailable: no route; y:update: a service is unavailable: HTTP 502");
        assert!(both.check_live().is_ok());
        tokio::time::advance(Duration::from_secs(31)).await;
        one.record_turn();
        assert_eq!(both.check_live().unwrap_err().to_string(), "y:update: the loop has not run for 31000 ms");
        other.record_turn();
        one.record_success();
        // A pipeline that can never work leaves the process alive, and ready for the other pipelines.
        other.record_end("its token was refused");
        tokio::time::advance(Duration::from_secs(29)).await;
        one.record_turn();
        tokio::time::advance(Duration::from_secs(29)).await;
        assert_eq!(both.check_ready().unwrap(), ["y:update: it has stopped for good: its token was refused"]);
        assert_eq!(both.check_live(), Ok(()));
        stop.drain();
        assert_eq!(
            (both.check_ready().unwrap_err().to_string(), both.check_live()),
            ("it is stopping".to_owned(), Ok(()))
        );
    }

    #[tokio::test]
    async fn only_a_change_of_the_contact_wakes_the_waiter() {
        use futures::FutureExt;
        let health = Health::default();
        assert_eq!(health.wait_for_change().now_or_never(), None);
        health.record_success();
        health.record_outage("no route");
        assert_eq!(health.wait_for_change().now_or_never(), Some(()), "also of what happened before");
        health.record_outage("still no route");
        assert_eq!(health.wait_for_change().now_or_never(), None);
        health.record_success();
        assert_eq!(health.wait_for_change().now_or_never(), Some(()));
    }

    #[test]
    fn a_process_with_one_loop_says_what_that_one_says() {
        let health = Arc::<Health>::default();
        let process = ProcessHealth::from(&health);
        assert_eq!(process.check_ready().unwrap_err().to_string(), "its services are not open yet");
        health.record_outage("no route");
        assert_eq!(process.check_ready().unwrap_err().to_string(), "a service is unavailable: no route");
        health.record_success();
        assert!(process.check_ready().unwrap().is_empty() && process.check_live().is_ok());
        assert_eq!(ProcessHealth::new([]).check_ready().unwrap_err().to_string(), "it has nothing to work on");
    }
}
