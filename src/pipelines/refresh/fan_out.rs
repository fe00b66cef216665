//! Fan-out: ids of other kinds that follow from found items go into the pipelines of those kinds.
//!
//! ```text
//!   judge names ids ─▶ record them (store) ─▶ save the items ─▶ schedule the ids (queue) ─▶ settle
//! ```
//!
//! A judge may name ids only at an item's first answer, and not again once that answer is stored. So ids are recorded before the items
//! are saved, and each id that follows from a stored item is in the store.
//!
//! An item that names an id for the first time is not settled before the queue has taken the id. If the store's answer is lost or late,
//! or the queue does not answer, the item is given back. A delivery is counted, as if its worker had died, so that it names the same ids
//! again; no failure, because its worker lives. Only a *full* queue is not waited for, because that lasts: `rebuild` schedules the rest.
//!
//! Data that comes with an id (its object, the time at which it acted) goes to the [`Receiver`] of its kind before the items are saved,
//! too.
//!
//! An answer that the store will refuse (its item is dead, or a newer answer is stored) names nothing: the refresher reads the store
//! before. Only a worker whose lease ends between that and the save may name one id too many.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::try_join_all;

use crate::base::clock::Millis;
use crate::engine::metrics::Counters;
use crate::engine::queue::{NewJob, QueueError};
use crate::engine::worker::Outlook;
use crate::ingest::{Admitted, Queued, Starter, StarterError};
use crate::model::pipeline_id::{Kind, PipelineId};
use crate::store::StoreError;

#[derive(Debug)]
pub struct Target {
    id: PipelineId,
    starter: Starter,
    receiver: Option<Arc<dyn Receiver>>,
    is_out: AtomicBool,
}

/// An id of another kind that follows from a found item, with its data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mention {
    /// Kind of the id, as a word of [`PipelineId::items`].
    pub kind: &'static str,
    pub id: String,
    /// Id of the item that names it. Empty: the requested id, which `Named` fills in.
    pub from: String,
    /// True if the item names it for the first time. False: only the data is news.
    pub is_first: bool,
    /// Time of that item's answer, on the queue's clock, ms since the epoch. `Named` fills it in.
    pub answered_at: Millis,
    /// Time at which the named account acted, ms since the epoch, if the item states it.
    pub acted_at: Option<Millis>,
    /// Object of the id, as it stands in the item: JSON.
    pub object: Option<String>,
    /// Author of the item, if the id must be forgotten with the author.
    pub author: Option<String>,
}

#[derive(Debug, Default)]
pub struct Named {
    mentions: Vec<Mention>,
    /// Items that name an id for the first time, by requested id.
    pub(super) naming: HashSet<String>,
    /// Time of the answer that names ids now, ms since the epoch.
    pub(super) answered_at: Millis,
    /// Requested id: differs from the item's own if that is a newer version.
    pub(super) asked: String,
}

/// Receives ids of its kind from other pipelines, with their data.
#[async_trait]
pub trait Receiver: Send + Sync + Debug {
    /// Records the mentions in the store, before the items that name them are saved. Returns the changes for the queue. The starter
    /// records the ids themselves. Mentions are in the order of their ids, and an id may be mentioned several times. After an error the
    /// items are given back, and the same mentions come again.
    async fn receive(&self, starter: &Starter, mentions: &[&Mention]) -> Result<Received, StoreError>;
}

#[derive(Debug, Default)]
pub struct Received {
    /// Recorded ids to schedule, unless the queue knows them.
    pub(crate) schedule: Admitted,
    /// Jobs that are due sooner, or change their lane.
    pub promote: Vec<NewJob>,
    pub postpone: Vec<NewJob>,
}

impl Named {
    /// Starts without names, for a requested id that was answered at `answered_at`, ms since the epoch.
    #[must_use]
    pub fn at(item: &str, answered_at: Millis) -> Self {
        Self { answered_at, asked: item.to_owned(), ..Self::default() }
    }

    /// Names an id of that kind, unless its pipeline knows it. A kind that the settings do not have is ignored.
    pub fn add(&mut self, kind: &'static str, id: impl Into<String>) {
        self.mention(Mention { kind, id: id.into(), is_first: true, ..Mention::default() });
    }

    /// Names an id with its data. Sets the mention's `answered_at` to that of the item.
    pub fn mention(&mut self, mention: Mention) {
        if mention.is_first && !self.naming.contains(&self.asked) {
            self.naming.insert(self.asked.clone());
        }
        let from = if mention.from.is_empty() { self.asked.clone() } else { mention.from };
        self.mentions.push(Mention { answered_at: self.answered_at, from, ..mention });
    }

    /// Records the names. Returns the changes for the queue, by target. May be repeated after an error.
    pub async fn record(&self, targets: &[Target]) -> Result<Vec<Received>, StoreError> {
        try_join_all(targets.iter().map(|target| target.record(self))).await
    }
}

impl Received {
    /// Applies the changes to the starter's queue. Returns the answers for the scheduled ids. May be repeated after an error.
    pub async fn tell(&self, starter: &Starter) -> Result<Vec<Queued>, StarterError> {
        let answers = starter.hand_over(&self.schedule).await?;
        starter.move_jobs(&self.promote, &self.postpone).await?;
        Ok(answers)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.schedule.len() == 0 && self.promote.is_empty() && self.postpone.is_empty()
    }
}

impl Target {
    /// `starter` and `receiver` must be those of the pipeline `id`.
    #[must_use]
    pub fn new(id: PipelineId, starter: Starter, receiver: Option<Arc<dyn Receiver>>) -> Self {
        Self { id, starter, receiver, is_out: AtomicBool::default() }
    }

    #[must_use]
    pub fn starter(&self) -> &Starter {
        &self.starter
    }

    #[must_use]
    pub fn id(&self) -> &PipelineId {
        &self.id
    }

    async fn record(&self, named: &Named) -> Result<Received, StoreError> {
        let is_ours = |kind: &str| matches!(&self.id.kind, Kind::Items(word) if word == kind);
        let mut mentions: Vec<&Mention> = named.mentions.iter().filter(|mention| is_ours(mention.kind)).collect();
        mentions.sort_by(|one, other| one.id.cmp(&other.id));
        match &self.receiver {
            _ if mentions.is_empty() => Ok(Received::default()),
            Some(receiver) => receiver.receive(&self.starter, &mentions).await,
            None => {
                let first = mentions.iter().filter(|mention| mention.is_first);
                let ids: BTreeSet<&str> = first.map(|mention| mention.id.as_str()).collect();
                Ok(Received { schedule: self.starter.record_ids(ids).await?, ..Received::default() })
            }
        }
    }

    /// Applies recorded changes within that time. Returns false if the queue may take them later; `rebuild` does what a full queue
    /// rejects.
    pub async fn schedule(&self, received: &Received, within: Duration, counters: &Counters) -> bool {
        match tokio::time::timeout(within, received.tell(&self.starter)).await.unwrap_or_else(|_| Err(silent(within))) {
            Ok(answers) => {
                counters.fanned_out.add(answers.iter().filter(|answer| **answer == Queued::Scheduled).count());
                self.is_out.store(false, Ordering::Relaxed);
                true
            }
            Err(error) => {
                counters.fan_out_failed.add(received.schedule.len() + received.promote.len() + received.postpone.len());
                let is_full = matches!(error, StarterError::Queue(QueueError::Full(_)));
                if !self.is_out.swap(true, Ordering::Relaxed) {
                    let then = if is_full { "`rebuild` schedules them" } else { "they are handed over again" };
                    tracing::warn!(namespace = %self.id, %error, then, "the queue takes no ids from other pipelines: they are recorded");
                }
                is_full
            }
        }
    }
}

/// Applies the recorded changes of each target, each within that time. After an error, record and schedule again.
pub async fn schedule_each(
    targets: &[Target],
    received: Vec<Received>,
    within: Duration,
    counters: &Counters,
) -> Result<(), Outlook> {
    for (target, received) in targets.iter().zip(received).filter(|(_, received)| !received.is_empty()) {
        if !target.schedule(&received, within, counters).await {
            return Err(Outlook::Outage(format!("the queue of {} takes no accounts", target.id())));
        }
    }
    Ok(())
}

fn silent(waited: Duration) -> StarterError {
    QueueError::Unavailable(format!("no answer within {} ms", waited.as_millis())).into()
}
