//! Maintenance by every updater. Every few seconds it checks for a mass miss, corrects due times out of bounds, and
//! repeats the lookups of posts that a mass miss made unavailable. Each minute it adds the last one to its hour. Once a
//! day it removes expired posts and restores the queue's lost ids.

use std::sync::Arc;
use std::time::Duration;

use super::heartbeat::BEAT_EVERY;
use crate::base::clock::{self, Millis};
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::engine::lateness::Lateness;
use crate::engine::queue::{HOUR_MS, MINUTES_KEPT, Minute, PAGE_LIMIT, Queue, QueueError, joined};
use crate::ingest::{Living, Moment, Rebuild, Refresh, Which};
use crate::ops::prune::{Pruned, expired, prune};
use crate::pipelines::refresh::wave::{self, Wave, last_wave};
use crate::store::Store;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// Maintenance of one pipeline, in one of its workers.
#[derive(Debug)]
pub struct Maintenance {
    pub queue: Arc<dyn Queue>,
    pub name: String,
    /// Current mass miss, for the handler.
    pub wave: Reloadable<Option<Wave>>,
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
            match self.look(&mut minutes).await {
                Ok(Some(over)) if cleared < over.until_ms => {
                    if self.clear(over, &stop).await {
                        cleared = over.until_ms;
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
            stop.sleep(BEAT_EVERY).await;
        }
    }

    /// Updates the mass-miss state from the minutes, and corrects due times. Returns a mass miss that ended recently.
    async fn look(&self, minutes: &mut Vec<Minute>) -> Result<Option<Wave>, QueueError> {
        let known = std::mem::take(minutes);
        *minutes = match joined(&known, self.queue.minutes(2).await?, MINUTES_KEPT) {
            Some(minutes) => minutes,
            None => self.queue.minutes(MINUTES_KEPT).await?,
        };
        let wave = last_wave(minutes);
        let before = self.wave.load().as_ref().is_some_and(|wave| wave.lasts());
        match &wave {
            Some(wave) if wave.lasts() && !before => tracing::warn!(
                missed = wave.missed,
                found = wave.found,
                "a wave of misses: far more posts are missing than usual; a miss takes longer to be confirmed"
            ),
            wave if before && !wave.as_ref().is_some_and(Wave::lasts) => tracing::info!("the wave of misses is over"),
            _ => {}
        }
        self.wave.set(wave);
        let corrected = self.queue.repair_due_times(self.slack, PAGE_LIMIT).await?;
        if corrected > 0 {
            tracing::warn!(corrected, "due times later than their lane allows: spread over the lane's next interval");
        }
        let now = minutes.last().map_or(0, |minute| minute.at_ms);
        Ok(wave.filter(|wave| wave::is_recent(wave, now)))
    }

    /// Repeats the lookups of unavailable posts whose last response came since the mass miss began. The leading worker
    /// does it for all. The others stand by, since the leader may end early; doing it twice changes nothing. Returns
    /// true if this worker did it.
    async fn clear(&self, over: Wave, stop: &Stop) -> bool {
        if !leads(&*self.queue, &self.name).await {
            return false;
        }
        let since = Some(Moment(over.since_ms));
        let which = Which { state: Some(Living::Unavailable), since, spread: true };
        match self.refresh.all(which, stop, |_, _| {}).await {
            Ok(done) => {
                let posts = done.posts();
                tracing::info!(posts, "the posts that became unavailable during the wave are looked up again");
                !stop.is_draining()
            }
            Err(error) => {
                tracing::warn!(error = %error, "the posts of the wave cannot be looked up again yet");
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

/// Removes expired posts once a day. The leading worker does it for all; doing it twice changes nothing.
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
        let which = expired(before, self.deleted);
        match prune(&*self.store, self.queue.namespace(), &which, stop, |_| {}).await {
            Ok(Pruned { removed: 0, .. }) => true,
            Ok(Pruned { removed, .. }) => {
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

/// Restores the queue's lost ids from time to time, like `rebuild`. An id is lost if a process died between record and
/// schedule, or if the queue was wiped. The leading worker does it for all.
#[derive(Debug)]
pub struct Audit {
    pub rebuild: Rebuild,
    pub name: String,
    /// Time between two walks of the store.
    pub every: Duration,
}

impl Audit {
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
            if !leads(&*self.rebuild.queue, &self.name).await {
                continue;
            }
            let namespace = self.rebuild.queue.namespace();
            match self.rebuild.run(&stop, |_| {}).await {
                Ok(done) if done.put_back + done.buried > 0 => {
                    let ids = done.put_back + done.buried;
                    tracing::warn!(namespace, ids, "in the store and not in the queue: put back");
                }
                Ok(done) => tracing::debug!(namespace, rows = done.rows, "the queue has all that the store has"),
                Err(error) => tracing::warn!(namespace, %error, "queue and store could not be compared to the end"),
            }
        }
    }
}

/// Returns true if this worker leads; false if the queue does not respond.
async fn leads(queue: &dyn Queue, name: &str) -> bool {
    leader_clock(queue, name).await.is_some()
}

/// Returns the queue's clock, ms since the epoch, if this worker leads and the queue responds.
async fn leader_clock(queue: &dyn Queue, name: &str) -> Option<Millis> {
    let stats = queue.brief().await.ok().filter(|stats| stats.is_first(name))?;
    Some(stats.now_ms)
}
