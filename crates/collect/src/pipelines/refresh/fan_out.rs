//! Fan-out: ids of other kinds that follow from found items go into the pipelines of those kinds.
//!
//! ```text
//!   judge names ids ─▶ record them (store) ─▶ save the items ─▶ schedule the ids (queue) ─▶ settle
//! ```
//!
//! A judge may name ids only at an item's first answer. So ids, and the data that comes with them, are recorded before the items are
//! saved.
//!
//! An item that names an id for the first time is not settled before the queue has taken the id. If store or queue do not answer, the
//! item is given back with a counted delivery, so that it names the same ids again. A *full* queue is not waited for, because that
//! lasts: `rebuild` schedules the rest.
//!
//! An answer that the store will refuse (its item is dead, or a newer answer is stored) names nothing.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::try_join_all;

use super::arrival::Arrival;
use crate::ingest::{AdmittedBatch, Queued, Starter, StarterError};
use engine::base::clock::Millis;
use engine::metrics::Counters;
use engine::queue::{NewJob, QueueError};
use engine::worker::Outlook;
use networks::model::pipeline_id::{Kind, PipelineId};
use store::StoreError;

/// Pipeline that receives ids from found items of another one.
#[derive(Debug)]
pub struct FanOutTarget {
    id: PipelineId,
    starter: Starter,
    receiver: Option<Arc<dyn Receiver>>,
    is_down: AtomicBool,
}

/// An id that follows from a found item, with what the item shows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    pub id: String,
    pub arrival: Arrival,
    /// Id of the item that names it. Empty: the requested id, which `Mentions` fills in.
    pub from: String,
    /// True if the item names it for the first time. False: only the data is news.
    pub is_first: bool,
    /// Time of that item's answer, on the queue's clock, ms since the epoch. `Mentions` fills it in.
    pub answered_at: Millis,
}

impl Mention {
    /// A mention that is not the first; `Mentions` fills in the item and the time.
    pub fn new(id: impl Into<String>, arrival: Arrival) -> Self {
        Self { id: id.into(), arrival, from: String::new(), is_first: false, answered_at: 0 }
    }

    /// A mention at an item's first answer.
    pub fn first(id: impl Into<String>, arrival: Arrival) -> Self {
        Self { is_first: true, ..Self::new(id, arrival) }
    }
}

#[derive(Debug, Default)]
pub struct Mentions {
    mentions: Vec<Mention>,
    /// Items that name an id for the first time, by requested id.
    pub(super) naming_items: HashSet<String>,
    /// Time of the answer that names ids now, ms since the epoch.
    pub(super) answered_at: Millis,
    /// Requested id: differs from the item's own if that is a newer version.
    pub(super) requested_id: String,
}

/// Receives ids of its kind from other pipelines, with their data.
#[async_trait]
pub trait Receiver: Send + Sync + Debug {
    /// Returns true for arrivals that are for this kind, besides bare ids of the kind, which it always takes.
    fn takes(&self, arrival: &Arrival) -> bool;

    /// Records the mentions in the store, before the items that name them are saved. Returns the changes for the queue. Mentions are in
    /// the order of their ids; an id may be mentioned several times. After an error the same mentions come again.
    async fn receive(&self, starter: &Starter, mentions: &[&Mention]) -> Result<QueueChanges, StoreError>;
}

#[derive(Debug, Default)]
pub struct QueueChanges {
    /// Recorded ids to schedule, unless the queue knows them.
    pub(crate) schedule: AdmittedBatch,
    /// Jobs that are due sooner, or change their lane.
    pub promote: Vec<NewJob>,
    pub postpone: Vec<NewJob>,
}

impl Mentions {
    /// Creates an empty list for a requested id that was answered at `answered_at`, ms since the epoch.
    #[must_use]
    pub fn for_item(item: &str, answered_at: Millis) -> Self {
        Self { answered_at, requested_id: item.to_owned(), ..Self::default() }
    }

    /// Names an id of that kind, unless its pipeline knows it. A kind that the settings do not have is ignored.
    pub fn add_id(&mut self, kind: &'static str, id: impl Into<String>) {
        self.add(Mention::first(id, Arrival::Id(kind)));
    }

    /// Names an id with its data. Sets the mention's `answered_at` to that of the item.
    pub fn add(&mut self, mention: Mention) {
        if mention.is_first && !self.naming_items.contains(&self.requested_id) {
            self.naming_items.insert(self.requested_id.clone());
        }
        let from = if mention.from.is_empty() { self.requested_id.clone() } else { mention.from };
        self.mentions.push(Mention { answered_at: self.answered_at, from, ..mention });
    }

    /// Records the ids. Returns the changes for the queue, by target. May be repeated after an error.
    pub async fn record(&self, targets: &[FanOutTarget]) -> Result<Vec<QueueChanges>, StoreError> {
        try_join_all(targets.iter().map(|target| target.record(self))).await
    }
}

impl QueueChanges {
    /// Records the ids that are mentioned for the first time, to be scheduled.
    pub async fn record_first(starter: &Starter, mentions: &[&Mention]) -> Result<Self, StoreError> {
        let first = mentions.iter().filter(|mention| mention.is_first);
        let ids: BTreeSet<&str> = first.map(|mention| mention.id.as_str()).collect();
        Ok(Self { schedule: starter.record_ids(ids).await?, ..Self::default() })
    }

    /// Applies the changes to the starter's queue. Returns the answers for the scheduled ids. May be repeated after an error.
    pub async fn apply(&self, starter: &Starter) -> Result<Vec<Queued>, StarterError> {
        let answers = starter.hand_over(&self.schedule).await?;
        starter.move_jobs(&self.promote, &self.postpone).await?;
        Ok(answers)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.schedule.len() == 0 && self.promote.is_empty() && self.postpone.is_empty()
    }
}

impl FanOutTarget {
    /// `starter` and `receiver` must be those of the pipeline `id`.
    #[must_use]
    pub fn new(id: PipelineId, starter: Starter, receiver: Option<Arc<dyn Receiver>>) -> Self {
        Self { id, starter, receiver, is_down: AtomicBool::default() }
    }

    #[must_use]
    pub fn starter(&self) -> &Starter {
        &self.starter
    }

    #[must_use]
    pub fn id(&self) -> &PipelineId {
        &self.id
    }

    async fn record(&self, named: &Mentions) -> Result<QueueChanges, StoreError> {
        let takes = |arrival: &Arrival| match (arrival, &self.id.kind, &self.receiver) {
            (Arrival::Id(kind), Kind::Items(word), _) => word == kind,
            (_, _, Some(receiver)) => receiver.takes(arrival),
            (_, _, None) => false,
        };
        let mut mentions: Vec<&Mention> = named.mentions.iter().filter(|mention| takes(&mention.arrival)).collect();
        mentions.sort_by(|one, other| one.id.cmp(&other.id));
        match &self.receiver {
            _ if mentions.is_empty() => Ok(QueueChanges::default()),
            Some(receiver) => receiver.receive(&self.starter, &mentions).await,
            None => QueueChanges::record_first(&self.starter, &mentions).await,
        }
    }

    /// Returns true if the queue took the changes, or is full: `rebuild` schedules those. Returns false if the caller must hand over again.
    pub async fn apply_changes(&self, changes: &QueueChanges, within: Duration, counters: &Counters) -> bool {
        match tokio::time::timeout(within, changes.apply(&self.starter))
            .await
            .unwrap_or_else(|_| Err(timeout_error(within)))
        {
            Ok(answers) => {
                counters.fanned_out.add(answers.iter().filter(|answer| **answer == Queued::Scheduled).count());
                self.is_down.store(false, Ordering::Relaxed);
                true
            }
            Err(error) => {
                counters.fan_out_failed.add(changes.schedule.len() + changes.promote.len() + changes.postpone.len());
                let is_full = matches!(error, StarterError::Queue(QueueError::Full(_)));
                if !self.is_down.swap(true, Ordering::Relaxed) {
                    let then = if is_full { "`rebuild` schedules them" } else { "they are handed over again" };
                    tracing::warn!(namespace = %self.id, %error, then, "the queue takes no ids from other pipelines: they are recorded");
                }
                is_full
            }
        }
    }
}

/// Applies the recorded changes of each target, each within that time. After an error, record and schedule again.
pub async fn apply_to_targets(
    targets: &[FanOutTarget],
    changes: Vec<QueueChanges>,
    within: Duration,
    counters: &Counters,
) -> Result<(), Outlook> {
    for (target, changes) in targets.iter().zip(changes).filter(|(_, changes)| !changes.is_empty()) {
        if !target.apply_changes(&changes, within, counters).await {
            return Err(Outlook::Outage(format!("the queue of {} takes no ids", target.id())));
        }
    }
    Ok(())
}

fn timeout_error(waited: Duration) -> StarterError {
    QueueError::Unavailable(format!("no answer within {} ms", waited.as_millis())).into()
}
