//! Applies shorter intervals to waiting jobs, within seconds of the change or of a start.
//!
//! The jobs of a lane are moved page by page; each pause is as long as the page took. So a claim waits for one page at
//! most. Every updater does this; concurrent updaters move different pages.

use std::sync::Arc;
use std::time::Duration;

use super::heartbeat::HEARTBEAT_INTERVAL;
use engine::base::clock::Stopwatch;
use engine::base::reload::Reloadable;
use engine::base::shutdown::Stop;
use engine::base::task;
use engine::lane::Lane;
use engine::queue::{PAGE_LIMIT, Queue, QueueError};
use engine::schedule::Schedule;

/// Applies the intervals of one pipeline to its queue, in one of its workers.
#[derive(Debug)]
pub struct IntervalApplier {
    pub queue: Arc<dyn Queue>,
    pub schedule: Reloadable<Arc<dyn Schedule>>,
    /// Longer than any lease, as for [`repair_due_times`](engine::queue::Administration::repair_due_times).
    pub slack: Duration,
}

impl IntervalApplier {
    /// Applies the intervals now and after each change, until the process stops. Retries while the queue is down.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        let mut changes = self.schedule.changes();
        while !stop.is_draining() {
            let lanes = self.schedule.load().lanes();
            match self.apply(&lanes, &stop).await {
                Ok(()) => {
                    task::waits("waits for a change", None);
                    stop.token().run_until_cancelled(changes.next()).await;
                    task::step("applies intervals");
                }
                Err(error) => {
                    tracing::debug!(error = %error, "changed intervals are not applied yet: the queue does not answer");
                    stop.sleep(HEARTBEAT_INTERVAL).await;
                }
            }
        }
    }

    async fn apply(&self, lanes: &[Lane], stop: &Stop) -> Result<(), QueueError> {
        for lane in lanes {
            let mut moved = 0;
            while !stop.is_draining() {
                let watch = Stopwatch::start();
                let page = self.queue.apply_lane(lane, self.slack, PAGE_LIMIT).await?;
                moved += page;
                if page < PAGE_LIMIT as u64 {
                    break;
                }
                stop.sleep(watch.elapsed()).await;
            }
            if moved > 0 {
                let (name, interval_ms) = (&*lane.name, lane.patience);
                tracing::info!(
                    lane = name,
                    interval_ms,
                    moved,
                    "a lane's interval is shorter: its waiting items are brought forward"
                );
            }
        }
        Ok(())
    }
}
