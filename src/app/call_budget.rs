//! Budget of an adaptive schedule. Once a day it compares the schedule's calls with those of the age table and with the
//! quota, and corrects the price of a call. Queue and store keep all state.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::ops::normaliser;
use engine::base::clock::Millis;
use engine::base::reload::Reloadable;
use engine::base::shutdown::Stop;
use engine::queue::Queue;
use engine::quota::{CredentialStatus, Credentials, LedgerError};
use engine::schedule::adaptive::budget::{Normaliser, Spending};
use engine::schedule::{Budgeted, CorrectedSchedule, ScheduledItem};
use store::{BudgetCorrections, Store};

/// Pause between two reads of the corrections.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Interval of the corrections, ms.
const DAY_MS: Millis = 86_400_000;

#[derive(Debug, Clone)]
pub struct MeteredEndpoint {
    pub credentials: Arc<Credentials>,
    pub endpoint: &'static str,
    pub batch_limit: usize,
}

impl MeteredEndpoint {
    /// Ids per second of the quota; `None` if it has no limit, or is not fully known.
    async fn ids_per_s(&self) -> Result<Option<f64>, LedgerError> {
        let statuses = self.credentials.statuses(self.endpoint).await?;
        let usable = statuses.iter().filter(|status| !status.parked_everywhere);
        let calls: Option<f64> = usable.map(CredentialStatus::calls_per_s).sum();
        Ok(calls.map(|calls| calls * self.batch_limit as f64).filter(|ids| *ids > 0.0))
    }
}

/// Budget of one pipeline, maintained by one of its workers.
#[derive(Debug)]
pub struct CallBudget {
    /// Queue that counts the calls of the pipeline.
    pub queue: Arc<dyn Queue>,
    pub store: Arc<dyn Store>,
    pub name: String,
    pub schedule: CorrectedSchedule,
    pub metered: MeteredEndpoint,
    /// Largest earliness of the claims of this worker, which the budget changes.
    pub early: Reloadable<f64>,
}

fn new_record(at: Millis, by: Normaliser, total: Spending) -> BudgetCorrections {
    let Spending { calls, table_calls, events, average_events } = total;
    BudgetCorrections { at, price: by.price, level: by.level, calls, table_calls, events, average_events }
}

/// Counts at the start of the current day.
fn recorded_spending(record: &BudgetCorrections) -> Spending {
    let BudgetCorrections { calls, table_calls, events, average_events, .. } = *record;
    Spending { calls, table_calls, events, average_events }
}

impl CallBudget {
    /// Works until the process stops. Retries a queue or a store that is down in the next round.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        while !stop.is_draining() {
            if let Err(error) = self.update().await {
                tracing::debug!(
                    error = error.to_string(),
                    "the call budget of the schedule cannot be updated: the next round tries again"
                );
            }
            stop.sleep(CHECK_INTERVAL).await;
        }
    }

    /// Applies the stored corrections. The leading worker makes new ones when a day is over.
    pub async fn update(&self) -> Result<()> {
        let schedule = self.schedule.schedule.load();
        let corrected = schedule.budget().filter(|budget| budget.spending(&ScheduledItem::default(), 0).is_some());
        let Some(quota_use) = corrected.map(Budgeted::quota_use) else {
            self.set_early_share(0.0);
            return Ok(());
        };
        let quota = self.metered.ids_per_s().await?;
        // Without a known limit, nothing would hold early calls back.
        self.set_early_share(if quota.is_some() { quota_use.max_earliness } else { 0.0 });
        let namespace = self.queue.namespace();
        let known = self.store.corrections(namespace).await?;
        if let Some(known) = &known {
            self.set_normaliser(normaliser(known));
        }
        let stats = self.queue.brief_stats().await?;
        if !stats.is_first_worker(&self.name) {
            return Ok(());
        }
        let total = Spending::from_counters(&stats.counters);
        let (by, day) = match &known {
            // A future date comes from a wrong clock, and so do its counts: count the day again.
            Some(known) if known.at > stats.now_ms => (normaliser(known), Spending::default()),
            Some(known) if stats.now_ms - known.at < DAY_MS => return Ok(()),
            Some(known) => match total.since(recorded_spending(known)) {
                Some(day) => {
                    let table_per_s = day.table_calls * 1e3 / (stats.now_ms - known.at) as f64;
                    let share = quota_use.call_share(quota.map(|quota| quota / table_per_s));
                    if !Normaliser::has_enough_calls(&day, share) {
                        return Ok(()); // a small system counts for more than a day
                    }
                    (normaliser(known).after_day(&day, share), day)
                }
                // A lost queue counts from 0: count the next day again.
                None => (normaliser(known), Spending::default()),
            },
            None => (Normaliser::default(), Spending::default()),
        };
        let next = new_record(stats.now_ms, by, total);
        let before = known.map(|known| known.at);
        if self.store.replace_corrections(namespace, before, &next).await? {
            let Normaliser { price, level } = by;
            let Spending { calls, table_calls, .. } = day;
            tracing::info!(namespace, price, level, calls, table_calls, "the call budget of the schedule is corrected");
            self.set_normaliser(by);
        }
        Ok(())
    }

    fn set_early_share(&self, early: f64) {
        if *self.early.load() != early {
            let namespace = self.queue.namespace();
            tracing::info!(
                namespace,
                early,
                "idle quota is spent on ids that are due within this share of their interval"
            );
            self.early.set(early);
        }
    }

    fn set_normaliser(&self, by: Normaliser) {
        if *self.schedule.by.load() != by {
            self.schedule.by.set(by);
        }
    }
}
