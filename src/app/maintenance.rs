//! Maintenance by every updater. Every few seconds it checks for a mass miss, corrects due times out of bounds, and
//! repeats the lookups after a mass miss. Each minute it updates the hourly sums. Once a day it removes expired posts
//! and restores the queue's lost ids.

use std::sync::Arc;
use std::time::Duration;

use super::heartbeat::HEARTBEAT_INTERVAL;
use crate::data::prune::{PruneReport, expiry_rules, prune};
use collect::ingest::{LivingState, Moment, Rebuild, Refresh, RefreshFilter};
use collect::pipelines::refresh::mass_miss_alert::{self, MassMissAlert, last_alert};
use engine::base::clock::{self, Millis};
use engine::base::reload::Reloadable;
use engine::base::shutdown::Stop;
use engine::lateness::Lateness;
use engine::queue::{HOUR_MS, MINUTES_KEPT, Minute, PAGE_LIMIT, Queue, QueueError, append_minutes};
use store::Store;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// Maintenance of one pipeline, in one of its workers.
#[derive(Debug)]
pub struct Maintenance {
    pub queue: Arc<dyn Queue>,
    pub name: String,
    /// Current mass miss, for the handler.
    pub wave: Reloadable<Option<MassMissAlert>>,
    pub refresh: Refresh,
    /// Tolerance for due times later than the lane allows: longer than any lease.
    pub slack: Duration,
}

impl Maintenance {
    /// Works until the process stops. Retries a queue or a store that is down in the next round.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        let mut minutes = Vec::new();
        // Last minute in the hourly sums.
        let mut summed: Option<Millis> = None;
        // End of the last handled mass miss. The start would not identify it: of a mass miss longer than the queue's
        // minutes, the first kept minute is later each minute.
        let mut cleared: Option<Millis> = None;
        while !stop.is_draining() {
            match self.check_minutes_and_due_times(&mut minutes).await {
                Ok(Some(ended)) if cleared < ended.until_ms => {
                    if self.repeat_missed_lookups(ended, &stop).await {
                        cleared = ended.until_ms;
                    }
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(error = %error, "no maintenance: the queue does not answer"),
            }
            let minute = minutes.last().map(|minute: &Minute| minute.at_ms);
            if minute != summed && needs_sum(&minutes, summed) {
                match self.queue.sum_hours().await {
                    Ok(()) => summed = minute,
                    Err(error) => {
                        tracing::debug!(error = %error, "the hours are not summed: the queue does not answer")
                    }
                }
            }
            stop.sleep(HEARTBEAT_INTERVAL).await;
        }
    }

    /// Updates the mass-miss alert from the minutes, and corrects due times. Returns a mass miss that ended recently.
    async fn check_minutes_and_due_times(
        &self,
        minutes: &mut Vec<Minute>,
    ) -> Result<Option<MassMissAlert>, QueueError> {
        let known = std::mem::take(minutes);
        *minutes = match append_minutes(&known, self.queue.minutes(2).await?, MINUTES_KEPT) {
            Some(minutes) => minutes,
            None => self.queue.minutes(MINUTES_KEPT).await?,
        };
        let wave = last_alert(minutes);
        let before = self.wave.load().as_ref().is_some_and(|wave| wave.lasts());
        match &wave {
            Some(wave) if wave.lasts() && !before => tracing::warn!(
                missed = wave.missed,
                found = wave.found,
                "mass-miss alert: far more posts are missing than usual, so misses are confirmed later"
            ),
            wave if before && !wave.as_ref().is_some_and(MassMissAlert::lasts) => {
                tracing::info!("the mass-miss alert is over")
            }
            _ => {}
        }
        self.wave.set(wave);
        let corrected = self.queue.repair_due_times(self.slack, PAGE_LIMIT).await?;
        if corrected > 0 {
            tracing::warn!(corrected, "due times later than their lane allows: spread over the lane's next interval");
        }
        let now = minutes.last().map_or(0, |minute| minute.at_ms);
        Ok(wave.filter(|wave| mass_miss_alert::is_recent(wave, now)))
    }

    /// Repeats the lookups of unavailable posts whose last response came since the mass miss began. The leading worker
    /// does it for all; doing it twice changes nothing. Returns true if this worker did it.
    async fn repeat_missed_lookups(&self, ended: MassMissAlert, stop: &Stop) -> bool {
        if !is_leader(&*self.queue, &self.name).await {
            return false;
        }
        let since = Some(Moment(ended.since_ms));
        let which = RefreshFilter { state: Some(LivingState::Unavailable), since, spread: true };
        match self.refresh.all(which, stop, |_, _| {}).await {
            Ok(done) => {
                let posts = done.posts();
                tracing::info!(posts, "posts that became unavailable during the mass-miss alert are looked up again");
                !stop.is_draining()
            }
            Err(error) => {
                tracing::warn!(error = %error, "the posts of the mass-miss alert cannot be looked up again yet");
                false
            }
        }
    }
}

/// Returns true if the hourly sums lack counts of these minutes. `summed` is the last summed minute, ms since the
/// epoch. Minutes without counts are summed only at the end of their hour, so that an idle queue causes no writes.
fn needs_sum(minutes: &[Minute], summed: Option<Millis>) -> bool {
    let Some((summed, now)) = summed.zip(minutes.last().map(|minute| minute.at_ms)) else { return true };
    let is_busy = |minute: &Minute| !minute.counters.is_empty() || minute.lateness != Lateness::default();
    now / HOUR_MS != summed / HOUR_MS
        || minutes.iter().any(|minute| (summed..now).contains(&minute.at_ms) && is_busy(minute))
}

/// Daily removal of expired posts. The leading worker does it for all; doing it twice changes nothing.
#[derive(Debug)]
pub struct Retention {
    pub queue: Arc<dyn Queue>,
    pub store: Arc<dyn Store>,
    pub name: String,
    /// Time to keep a post after its last response; `None` means forever.
    pub kept_for: Option<Duration>,
    /// True if posts deleted by their authors are removed, too.
    pub deleted: bool,
}

impl Retention {
    /// Works until the process stops. Retries an hour after a failure.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        while !stop.is_draining() {
            let is_done = match leader_clock(&*self.queue, &self.name).await {
                // A removal cannot be undone, so the earlier of the two clocks counts.
                Some(now) => self.remove(now.min(clock::wall_ms()), &stop).await,
                None => false,
            };
            stop.sleep(if is_done { DAY } else { HOUR }).await;
        }
    }

    async fn remove(&self, now: Millis, stop: &Stop) -> bool {
        let before = self.kept_for.map(|span| now.saturating_sub(clock::millis(span)));
        let which = expiry_rules(before, self.deleted);
        match prune(&*self.store, self.queue.namespace(), &which, stop, |_| {}).await {
            Ok(PruneReport { removed: 0, .. }) => true,
            Ok(PruneReport { removed, .. }) => {
                tracing::info!(removed, "expired posts are removed");
                true
            }
            Err(error) => {
                tracing::warn!(error = %error, "expired posts cannot be removed yet");
                false
            }
        }
    }
}

/// Regular restoration of the queue's lost ids, like `rebuild`. An id is lost if a process died between record and
/// schedule, or if the queue was wiped. The leading worker does it for all.
#[derive(Debug)]
pub struct PeriodicRebuild {
    pub rebuild: Rebuild,
    pub name: String,
    /// Time between two walks of the store.
    pub every: Duration,
}

impl PeriodicRebuild {
    /// Works until the process stops. The first walk starts within an hour, because some processes are replaced each
    /// day.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        let mut pause = self.every.min(HOUR);
        loop {
            stop.sleep(pause).await;
            if stop.is_draining() {
                return;
            }
            pause = self.every;
            if !is_leader(&*self.rebuild.queue, &self.name).await {
                continue;
            }
            let namespace = self.rebuild.queue.namespace();
            match self.rebuild.run(&stop, |_| {}).await {
                Ok(done) if done.put_back + done.buried > 0 => {
                    let ids = done.put_back + done.buried;
                    tracing::warn!(namespace, ids, "ids were in the store and not in the queue: they are put back");
                }
                Ok(done) => tracing::debug!(namespace, rows = done.rows, "the queue has all ids of the store"),
                Err(error) => tracing::warn!(namespace, %error, "the comparison of queue and store was interrupted"),
            }
        }
    }
}

/// Returns true if this worker leads; false if the queue does not respond.
async fn is_leader(queue: &dyn Queue, name: &str) -> bool {
    leader_clock(queue, name).await.is_some()
}

/// Returns the queue's clock, ms since the epoch, if this worker leads and the queue responds.
async fn leader_clock(queue: &dyn Queue, name: &str) -> Option<Millis> {
    let stats = queue.brief_stats().await.ok().filter(|stats| stats.is_first_worker(name))?;
    Some(stats.now_ms)
}
