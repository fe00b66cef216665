//! Budget of an adaptive schedule. Once a day it compares the schedule's calls with those of the age table and with the
//! quota, and corrects the price of a call. Queue and store keep all state.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Millis;
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::engine::queue::Queue;
use crate::engine::schedule::adaptive::budget::{Normaliser, Spending};
use crate::engine::schedule::{Corrected, Known};
use crate::ops::normaliser;
use crate::quota::{CredentialStatus, Credentials};
use crate::store::{Learnt, Store};

/// Pause between two reads of the corrections.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Pause between two corrections, ms.
const DAY_MS: Millis = 86_400_000;

#[derive(Debug, Clone)]
pub struct Paid {
    pub credentials: Arc<Credentials>,
    pub endpoint: &'static str,
    pub batch_limit: usize,
}

impl Paid {
    /// Ids per second of the quota; `None` if it has no limit, or is not fully known.
    async fn ids_per_s(&self) -> Result<Option<f64>, String> {
        let statuses = self.credentials.statuses(self.endpoint).await.map_err(|error| error.to_string())?;
        let usable = statuses.iter().filter(|status| !status.parked_everywhere);
        let calls: Option<f64> = usable.map(CredentialStatus::calls_per_s).sum();
        Ok(calls.map(|calls| calls * self.batch_limit as f64).filter(|ids| *ids > 0.0))
    }
}

/// Budget of one pipeline, maintained by one of its workers.
#[derive(Debug)]
pub struct CallBudget {
    /// Queue of the pipeline; it counts the calls.
    pub queue: Arc<dyn Queue>,
    pub store: Arc<dyn Store>,
    pub name: String,
    pub schedule: Corrected,
    pub paid: Paid,
    /// [`Worker::early`](crate::engine::worker::Worker::early) of this worker.
    pub early: Reloadable<f64>,
}

fn learnt(at: Millis, by: Normaliser, total: Spending) -> Learnt {
    let Spending { calls, table_calls, events, average_events } = total;
    Learnt { at, price: by.price, level: by.level, calls, table_calls, events, average_events }
}

/// Returns the counts at the start of the current day.
fn counted(learnt: &Learnt) -> Spending {
    let Learnt { calls, table_calls, events, average_events, .. } = *learnt;
    Spending { calls, table_calls, events, average_events }
}

impl CallBudget {
    /// Works until the process stops. Retries a queue or a store that is down in the next round.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        while !stop.is_draining() {
            if let Err(error) = self.look().await {
                tracing::debug!(error, "the budget of the schedule cannot be looked at");
            }
            stop.sleep(LOOK_EVERY).await;
        }
    }

    /// Applies the stored corrections. The leading worker makes new ones when a day is over.
    pub async fn look(&self) -> Result<(), String> {
        let schedule = self.schedule.schedule.load();
        if schedule.spending(&Known::default(), 0).is_none() {
            self.spend_early(0.0);
            return Ok(());
        }
        let quota = self.paid.ids_per_s().await?;
        // Without a known limit, nothing would hold early calls back.
        self.spend_early(if quota.is_some() { schedule.early() } else { 0.0 });
        let namespace = self.queue.namespace();
        let known = self.store.learnt(namespace).await.map_err(|error| error.to_string())?;
        if let Some(known) = &known {
            self.take_over(normaliser(known));
        }
        let stats = self.queue.brief().await.map_err(|error| error.to_string())?;
        if !stats.is_first(&self.name) {
            return Ok(());
        }
        let total = Spending::of_counters(&stats.counters);
        let (by, day) = match &known {
            // A future date comes from a wrong clock, and so do its counts: count the day again.
            Some(known) if known.at > stats.now_ms => (normaliser(known), Spending::default()),
            Some(known) if stats.now_ms - known.at < DAY_MS => return Ok(()),
            Some(known) => match total.since(counted(known)) {
                Some(day) => {
                    let table_per_s = day.table_calls * 1e3 / (stats.now_ms - known.at) as f64;
                    let share = schedule.share(quota.map(|quota| quota / table_per_s));
                    if !Normaliser::is_enough(&day, share) {
                        return Ok(()); // a small system counts for more than a day
                    }
                    (normaliser(known).after(&day, share), day)
                }
                // A lost queue counts from 0: count the next day again.
                None => (normaliser(known), Spending::default()),
            },
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

    fn spend_early(&self, early: f64) {
        if *self.early.load() != early {
            let namespace = self.queue.namespace();
            tracing::info!(
                namespace,
                early,
                "idle quota is spent on ids that are due within this share of their patience"
            );
            self.early.set(early);
        }
    }

    fn take_over(&self, by: Normaliser) {
        if *self.schedule.by.load() != by {
            self.schedule.by.set(by);
        }
    }
}
