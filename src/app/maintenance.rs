//! Maintenance by every updater. Every few seconds it checks for a wave of misses, corrects due times out of bounds, and after
//! a wave has the posts looked up again that it made unavailable. Each minute it adds the last one to its hour, and once a day
//! it removes expired posts, and puts back what the queue has lost.

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

/// The maintenance of one pipeline, as one of its workers does it.
#[derive(Debug)]
pub struct Maintenance {
    /// Its queue.
    pub queue: Arc<dyn Queue>,
    /// The worker's name.
    pub name: String,
    /// Where the handler reads whether there is a wave.
    pub wave: Reloadable<Option<Wave>>,
    /// Brings lookups forward after a wave.
    pub refresh: Refresh,
    /// The tolerance for due times later than the lane allows: longer than any lease.
    pub slack: Duration,
}

impl Maintenance {
    /// Works until the process is to stop. A queue or a store that is out is tried again the next time.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        let mut minutes = Vec::new();
        // The minute up to which the hours are summed.
        let mut summed: Option<Millis> = None;
        // When the last wave ended that is done with. Its beginning would not do: of a wave longer than the queue's
        // minutes the first one that is kept is later each minute.
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

    /// Takes over what the minutes say of waves, and mends due times. Answers a wave that ended lately.
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
                "a wave of misses: far more posts are missing than usual; a miss takes longer to be believed"
            ),
            wave if before && !wave.as_ref().is_some_and(Wave::lasts) => tracing::info!("the wave of misses is over"),
            _ => {}
        }
        self.wave.set(wave);
        let mended = self.queue.mend(self.slack, PAGE_LIMIT).await?;
        if mended > 0 {
            tracing::warn!(mended, "due times later than their lane allows: spread over the lane's next interval");
        }
        let now = minutes.last().map_or(0, |minute| minute.at_ms);
        Ok(wave.filter(|wave| wave::is_recent(wave, now)))
    }

    /// Has every unavailable post looked up again whose last answer came since the wave began. The worker that leads does
    /// it for all; the others stand by, since it may end before it is done, and to do it twice changes nothing. Answers
    /// whether it is done by this worker.
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

/// Returns true if the hourly sums lack counts of these minutes. `summed` is the last summed minute, ms since the epoch. Minutes
/// without counts are summed only at the end of their hour, so that an idle queue causes no writes.
fn needs_sum(minutes: &[Minute], summed: Option<Millis>) -> bool {
    let Some((summed, now)) = summed.zip(minutes.last().map(|minute| minute.at_ms)) else { return true };
    let is_busy = |minute: &Minute| !minute.counters.is_empty() || minute.lateness != Lateness::default();
    now / HOUR_MS != summed / HOUR_MS
        || minutes.iter().any(|minute| (summed..now).contains(&minute.at_ms) && is_busy(minute))
}

/// Removes expired posts once a day. The worker that leads does it for all; doing it twice changes nothing.
#[derive(Debug)]
pub struct Retention {
    /// The pipeline's queue.
    pub queue: Arc<dyn Queue>,
    /// Where its posts are.
    pub store: Arc<dyn Store>,
    /// The worker's name.
    pub name: String,
    /// How long a post stays after its last answer; `None`: for ever.
    pub kept_for: Option<Duration>,
    /// Whether those go, too, that their authors have deleted.
    pub deleted: bool,
}

impl Retention {
    /// Works until the process is to stop. After a failure it tries again an hour later.
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

/// Puts back what the queue has lost, as `rebuild` does, now and then: ids that a process had recorded and not yet scheduled
/// when it died, or all of them, after a queue was wiped. The worker that leads does it for all.
#[derive(Debug)]
pub struct Audit {
    /// Walks the store.
    pub rebuild: Rebuild,
    /// The worker's name.
    pub name: String,
    /// The time between two walks.
    pub every: Duration,
}

impl Audit {
    /// Works until the process is to stop. The first time is an hour after the start at the latest: processes that are
    /// replaced each day do it, too.
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

/// Returns true if this worker leads, as far as the queue answers.
async fn leads(queue: &dyn Queue, name: &str) -> bool {
    leader_clock(queue, name).await.is_some()
}

/// The queue's clock, ms since the epoch, if this worker leads, as far as the queue answers.
async fn leader_clock(queue: &dyn Queue, name: &str) -> Option<Millis> {
    let stats = queue.brief().await.ok().filter(|stats| stats.is_first(name))?;
    Some(stats.now_ms)
}
