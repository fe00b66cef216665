//! Fan-out: ids of other kinds that follow from found items go into the pipelines of those kinds.
//!
//! ```text
//!   judge names ids ─▶ record them (store) ─▶ save the items ─▶ schedule the ids (queue) ─▶ settle
//! ```
//!
//! The ids are recorded before the items are saved: a judge may name them at an item's first answer only, and once that
//! answer is stored, nobody would name them again. So each id that follows from a stored item is in the store, and
//! `rebuild` schedules those that a full or absent queue did not take.
//!
//! An answer that the store is going to refuse (its item is dead, or a newer answer is stored) names nothing: the machine
//! reads the store before. Only a worker whose lease runs out between that and the save may name one id too many.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::try_join_all;

use crate::engine::metrics::Counters;
use crate::ingest::{Admitted, Queued, Starter};
use crate::model::pipeline_id::{Kind, PipelineId};
use crate::store::StoreError;

/// A pipeline that a handler puts ids into.
#[derive(Debug)]
pub struct Target {
    id: PipelineId,
    starter: Starter,
    /// The last call failed, and the log says so.
    is_out: AtomicBool,
}

/// Ids of other kinds that follow from the answers of a batch.
#[derive(Debug, Default)]
pub struct Named(Vec<(&'static str, String)>);

impl Named {
    /// Names an id of that kind, which is looked up as soon as its schedule says, unless its pipeline knows it. An id of
    /// a kind that the settings do not have is ignored.
    pub fn add(&mut self, kind: &'static str, id: impl Into<String>) {
        self.0.push((kind, id.into()));
    }

    /// Each once.
    fn of(&self, target: &Target) -> BTreeSet<&str> {
        let is_of = |kind: &str| matches!(&target.id.kind, Kind::Items(word) if word == kind);
        self.0.iter().filter(|(kind, _)| is_of(kind)).map(|(_, id)| id.as_str()).collect()
    }

    /// Records what was named; what is to be scheduled then, by target.
    pub(super) async fn record(&self, targets: &[Target]) -> Result<Vec<Admitted>, StoreError> {
        try_join_all(targets.iter().map(|target| target.starter.record_ids(self.of(target)))).await
    }
}

impl Target {
    /// That pipeline; the starter is its own.
    #[must_use]
    pub fn new(id: PipelineId, starter: Starter) -> Self {
        Self { id, starter, is_out: AtomicBool::default() }
    }

    /// Schedules what was recorded, in one call. What is not taken within that time is counted and left to `rebuild`.
    pub(super) async fn schedule(&self, ids: &Admitted, within: Duration, counters: &Counters) {
        match self.starter.clone().within(within).hand_over(ids).await {
            Ok(answers) => {
                counters.fanned_out.add(answers.iter().filter(|answer| **answer == Queued::Scheduled).count());
                self.is_out.store(false, Ordering::Relaxed);
            }
            Err(error) => {
                counters.fan_out_failed.add(ids.len());
                if !self.is_out.swap(true, Ordering::Relaxed) {
                    tracing::warn!(namespace = %self.id, %error, "the queue takes no ids from other pipelines: they are recorded, and `rebuild` schedules them");
                }
            }
        }
    }
}
