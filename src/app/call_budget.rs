//! Budget of an adaptive schedule: once a day the calls that it demanded are compared with those of the age table, and the
//! price of a call is corrected. Queue and store keep all of it.

use std::sync::Arc;
use std::time::Duration;

use super::maintenance::is_first;
use crate::base::clock::Millis;
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::engine::queue::Queue;
use crate::engine::schedule::adaptive::budget::{Normaliser, Spending};
use crate::engine::schedule::{Corrected, Schedule};
use crate::store::{Learnt, Store};

/// Pause between two readings of the corrections.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Pause between two corrections, ms.
const DAY_MS: Millis = 86_400_000;
/// Calls to spend, as a multiple of the table's.
const SHARE: f64 = 1.0;

/// The budget of one pipeline, as one of its workers maintains it.
#[derive(Debug)]
pub struct CallBudget {
    /// The pipeline's queue, which counts.
    pub queue: Arc<dyn Queue>,
    /// Keeps the corrections.
    pub store: Arc<dyn Store>,
    /// The worker's name.
    pub name: String,
    /// The schedule that is corrected.
    pub schedule: Corrected,
}

/// The corrections as the schedule takes them.
fn normaliser(learnt: &Learnt) -> Normaliser {
    Normaliser { price: learnt.price, level: learnt.level }
}

/// The corrections as the store keeps them.
fn learnt(at: Millis, by: Normaliser, total: Spending) -> Learnt {
    let Spending { calls, table_calls, events, average_events } = total;
    Learnt { at, price: by.price, level: by.level, calls, table_calls, events, average_events }
}

/// The counts from which a day is counted.
fn counted(learnt: &Learnt) -> Spending {
    let Learnt { calls, table_calls, events, average_events, .. } = *learnt;
    Spending { calls, table_calls, events, average_events }
}

impl CallBudget {
    /// The budget of that schedule, without corrections yet.
    #[must_use]
    pub fn new(
        queue: Arc<dyn Queue>,
        store: Arc<dyn Store>,
        name: String,
        schedule: Reloadable<Arc<dyn Schedule>>,
    ) -> Self {
        Self { queue, store, name, schedule: Corrected { schedule, by: Normaliser::default().into() } }
    }

    /// Works until the process is to stop. A queue or a store that is out is asked again the next time.
    pub async fn run(self, stop: Stop) {
        while !stop.is_draining() {
            if self.schedule.schedule.load().needs_history()
                && let Err(error) = self.look().await
            {
                tracing::debug!(error, "the budget of the schedule cannot be looked at");
            }
            stop.sleep(LOOK_EVERY).await;
        }
    }

    /// Takes over the stored corrections. The worker that leads makes new ones when a day is over.
    ///
    /// # Errors
    /// Queue or store do not answer.
    pub async fn look(&self) -> Result<(), String> {
        let namespace = self.queue.namespace();
        let known = self.store.learnt(namespace).await.map_err(|error| error.to_string())?;
        if let Some(known) = &known {
            self.take_over(normaliser(known));
        }
        let stats = self.queue.stats().await.map_err(|error| error.to_string())?;
        if !is_first(&stats, &self.name) {
            return Ok(());
        }
        let total = Spending::of_counters(&stats.counters);
        let (by, day) = match &known {
            Some(known) if stats.now_ms - known.at < DAY_MS => return Ok(()),
            // A queue that was lost counts from nothing: the next day is counted again.
            Some(known) => {
                let day = total.since(counted(known)).unwrap_or_default();
                (normaliser(known).after(&day, SHARE), day)
            }
            None => (Normaliser::default(), Spending::default()),
        };
        let next = learnt(stats.now_ms, by, total);
        let before = known.map(|known| known.at);
        if self.store.learn(namespace, before, &next).await.map_err(|error| error.to_string())? {
            let Normaliser { price, level } = by;
            let Spending { calls, table_calls, .. } = day;
            tracing::info!(namespace, price, level, calls, table_calls, "the budget of the schedule is corrected");
            self.take_over(by);
        }
        Ok(())
    }

    fn take_over(&self, by: Normaliser) {
        if *self.schedule.by.load() != by {
            self.schedule.by.set(by);
        }
    }
}
