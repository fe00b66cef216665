//! Fan-out: ids of other kinds that follow from found items go into the pipelines of those kinds.
//!
//! ```text
//!   judge names ids ─▶ record them (store) ─▶ save the items ─▶ schedule the ids (queue) ─▶ settle
//! ```
//!
//! The ids are recorded before the items are saved: a judge may name them at an item's first answer only, and once that
//! answer is stored, nobody would name them again. So each id that follows from a stored item is in the store.
//!
//! An item that names an id for the first time is not done with before the queue has taken the id. If the store's answer
//! is lost or late, or the queue does not answer, the item is given back with a delivery counted, as if its worker had died,
//! so that it names the same again, and no failure, since its worker lives. Only a *full* queue is not waited for, since that
//! lasts: `rebuild` schedules what it did not take.
//!
//! What comes along with an id (an object of it, the moment at which it acted) goes to the [`Receiver`] of its kind, which
//! records it before the items are saved, too.
//!
//! An answer that the store is going to refuse (its item is dead, or a newer answer is stored) names nothing: the machine
//! reads the store before. Only a worker whose lease runs out between that and the save may name one id too many.

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

/// A pipeline that a handler puts ids into.
#[derive(Debug)]
pub struct Target {
    id: PipelineId,
    starter: Starter,
    receiver: Option<Arc<dyn Receiver>>,
    /// The last call failed, and the log says so.
    is_out: AtomicBool,
}

/// An id of another kind that follows from a found item, with what came along.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mention {
    /// The kind of the id, by the word of [`PipelineId::items`].
    pub kind: &'static str,
    /// The id.
    pub id: String,
    /// The id of the item that names it. Empty: the one that was asked for, which the machine fills in.
    pub from: String,
    /// True if the item names it for the first time; false: it did so before, and only what came along is news.
    pub is_first: bool,
    /// When that item's answer was given, on the queue's clock, ms since the epoch. The machine fills it in.
    pub answered_at: Millis,
    /// When the named one acted, ms since the epoch, where the item says so.
    pub acted_at: Option<Millis>,
    /// An object of the named one, as it stands in the item: JSON.
    pub object: Option<String>,
    /// The author of the item, where the named one goes with it if the author is forgotten.
    pub author: Option<String>,
}

/// Ids of other kinds that follow from the answers of a batch.
#[derive(Debug, Default)]
pub struct Named {
    mentions: Vec<Mention>,
    /// The items that name an id for the first time, by the id that was asked for.
    pub(super) naming: HashSet<String>,
    /// When the answer was given from which ids are named now, ms since the epoch.
    pub(super) answered_at: Millis,
    /// The id that was asked for: not the item's own where that is a newer version.
    pub(super) asked: String,
}

/// Receives the ids of its kind that other pipelines name, with what came along with each.
#[async_trait]
pub trait Receiver: Send + Sync + Debug {
    /// Records the mentions in the store, before the items that name them are saved: what is to be done in the queue
    /// afterwards. The starter records the ids themselves. Every call may be repeated. Mentions are in
    /// the order of their ids, and an id may be mentioned several times.
    ///
    /// # Errors
    /// The store's; then the items are given back, and the same mentions come again.
    async fn receive(&self, starter: &Starter, mentions: &[&Mention]) -> Result<Received, StoreError>;
}

/// The changes in the queue that follow from recorded mentions.
#[derive(Debug, Default)]
pub struct Received {
    /// Recorded ids, to be scheduled unless the queue knows them.
    pub(crate) schedule: Admitted,
    /// Jobs that are due sooner, or are in another lane.
    pub promote: Vec<NewJob>,
    /// Jobs that are due later.
    pub postpone: Vec<NewJob>,
}

impl Named {
    /// Nothing yet, of an item with that id, which was answered at that time, ms since the epoch.
    #[must_use]
    pub fn at(item: &str, answered_at: Millis) -> Self {
        Self { answered_at, asked: item.to_owned(), ..Self::default() }
    }

    /// Names an id of that kind, which is looked up as soon as its schedule says, unless its pipeline knows it. An id of
    /// a kind that the settings do not have is ignored.
    pub fn add(&mut self, kind: &'static str, id: impl Into<String>) {
        self.mention(Mention { kind, id: id.into(), is_first: true, ..Mention::default() });
    }

    /// The same with what came along; the mention's `answered_at` is that of the item.
    pub fn mention(&mut self, mention: Mention) {
        if mention.is_first && !self.naming.contains(&self.asked) {
            self.naming.insert(self.asked.clone());
        }
        let from = if mention.from.is_empty() { self.asked.clone() } else { mention.from };
        self.mentions.push(Mention { answered_at: self.answered_at, from, ..mention });
    }

    /// Records what was named; what the queue is told then, by target.
    ///
    /// # Errors
    /// The store's; the same may be recorded again.
    pub async fn record(&self, targets: &[Target]) -> Result<Vec<Received>, StoreError> {
        try_join_all(targets.iter().map(|target| target.record(self))).await
    }
}

impl Received {
    /// Tells the queue of the starter's pipeline; the answers for those that are scheduled.
    ///
    /// # Errors
    /// The queue's. What it was told stays told, and the same may be told again.
    pub async fn tell(&self, starter: &Starter) -> Result<Vec<Queued>, StarterError> {
        let answers = starter.hand_over(&self.schedule).await?;
        starter.move_jobs(&self.promote, &self.postpone).await?;
        Ok(answers)
    }

    /// Returns true if the queue is told nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.schedule.len() == 0 && self.promote.is_empty() && self.postpone.is_empty()
    }
}

impl Target {
    /// That pipeline; the starter is its own, and so is the receiver, if its kind has one.
    #[must_use]
    pub fn new(id: PipelineId, starter: Starter, receiver: Option<Arc<dyn Receiver>>) -> Self {
        Self { id, starter, receiver, is_out: AtomicBool::default() }
    }

    /// Its starter, for whoever hands over more than ids.
    #[must_use]
    pub fn starter(&self) -> &Starter {
        &self.starter
    }

    /// The pipeline.
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

    /// Tells the queue what was recorded, within that time. Answers false if it may take it later; what a full queue does
    /// not take is left to `rebuild`. Both are counted.
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

/// Tells the queue of each target what was recorded for it, in order, each within that time.
///
/// # Errors
/// A queue takes nothing now; the same may be recorded and told again.
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
