//! The handler of lists, visits, media and the accounts of communities: dismisses, guards, saves. The kind decides the outcome of each item.
//!
//! ```text
//!   batch ─▶ dismissed? ─▶ crashed too often? ─▶ call and judge ─▶ save rows, deaths and lives ─▶ verdicts, to the worker
//!              finish          mark dead          then an unused       in one time limit
//!                                                 permit returns
//! ```
//!
//! A [`MeteredWork`] calls an API with a permit, for one item per claim. An [`UnmeteredWork`] handles a batch without a quota. If a step
//! fails, or its reply is lost, the batch is released and all steps are repeated.

use async_trait::async_trait;

use super::store_call::PipelineStore;
use engine::base::clock::Millis;
use engine::base::failpoint;
use engine::lane::Lane;
use engine::queue::{Batch, Due, Job, Verdict};
use engine::quota::{Credentials, Permit};
use engine::worker::{BatchOutcome, Handler, Outlook, UnmeteredHandler};
use networks::model::post::ItemState;
use store::{Finding, Life, Observation, StoreError};

#[derive(Debug, Default)]
pub struct ItemOutcome<R = ()> {
    /// `None`: the item is released, uncounted. A dead item is marked dead in the store first.
    pub verdict: Option<Verdict>,
    /// Row of the kind's own table.
    pub row: Option<R>,
    /// Saved before the verdict. `None`: the stored life stays as it is.
    pub life: Option<Life>,
    /// See [`BatchOutcome::tally`].
    pub tally: Vec<(&'static str, i64)>,
    pub outlook: Outlook,
}

impl<R: Default> ItemOutcome<R> {
    /// An outcome that saves no life.
    #[must_use]
    pub fn new(verdict: Verdict, outlook: Outlook) -> Self {
        Self { verdict: Some(verdict), outlook, ..Self::default() }
    }

    /// A life with its next lane and date; without one it ends.
    #[must_use]
    pub fn with_life(
        job: &Job,
        at: Millis,
        finding: Finding<Option<String>>,
        state: ItemState,
        next: Option<(Lane, Millis)>,
    ) -> Self {
        let life = Observation::new(&job.id, at, finding, state, next.as_ref().map(|(_, due)| *due));
        let verdict = next.map_or(Verdict::Finish, |(lane, due)| Verdict::Reschedule { lane, due: Due::At(due) });
        Self { verdict: Some(verdict), life: Some(life), ..Self::default() }
    }
}

#[async_trait]
pub trait ItemWork: Send + Sync {
    type Row: Default + Send;

    /// Outlook after an item was marked dead without a call, since it failed too often while it was alone.
    const CRASH_OUTLOOK: Outlook = Outlook::Fine;

    fn items(&self) -> &PipelineStore;

    /// Saves the rows of the kind's own table. May change outcomes: their lives are saved next, in the same time limit.
    async fn save_rows(&self, _: &[Job], _: &mut [ItemOutcome<Self::Row>]) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
pub trait MeteredWork: ItemWork {
    fn endpoint(&self) -> &'static str;

    fn credentials(&self) -> &Credentials;

    /// Returns true if the item is no longer wanted: it finishes without a call.
    async fn dismiss(&self, _: &Job) -> Result<bool, Outlook> {
        Ok(false)
    }

    /// Calls and judges. A permit that is left in `permit` returns to the ledger.
    async fn handle(
        &self,
        job: &Job,
        batch: &Batch,
        permit: &mut Option<Permit>,
    ) -> Result<ItemOutcome<Self::Row>, Outlook>;
}

#[async_trait]
pub trait UnmeteredWork: ItemWork {
    /// Returns an outcome per job, in the order of the batch.
    async fn handle(&self, batch: &Batch) -> Result<Vec<ItemOutcome<Self::Row>>, Outlook>;
}

pub struct ItemHandler<W>(pub W);

#[async_trait]
impl<W: MeteredWork> Handler for ItemHandler<W> {
    fn endpoint(&self) -> &'static str {
        self.0.endpoint()
    }

    async fn handle(&self, batch: &Batch, permit: Permit) -> BatchOutcome {
        let mut permit = Some(permit);
        let outcome = self.handle_item(batch, &mut permit).await;
        if let Some(unused) = permit {
            self.0.credentials().return_permit(unused).await;
        }
        self.finish(batch, outcome.map(|outcome| vec![outcome])).await
    }
}

#[async_trait]
impl<W: UnmeteredWork> UnmeteredHandler for ItemHandler<W> {
    async fn handle(&self, batch: &Batch) -> BatchOutcome {
        let outcomes = match self.guard(batch) {
            Some(crashed) => Ok(vec![crashed]),
            None => self.0.handle(batch).await,
        };
        self.finish(batch, outcomes).await
    }
}

impl<W: MeteredWork> ItemHandler<W> {
    async fn handle_item(&self, batch: &Batch, permit: &mut Option<Permit>) -> Result<ItemOutcome<W::Row>, Outlook> {
        // A claim takes one item.
        let [job] = &batch.jobs[..] else { return Err(Outlook::Unchanged) };
        if self.0.dismiss(job).await? {
            return Ok(ItemOutcome::new(Verdict::Finish, Outlook::Unchanged));
        }
        match self.guard(batch) {
            Some(crashed) => Ok(crashed),
            None => self.0.handle(job, batch, permit).await,
        }
    }
}

impl<W: ItemWork> ItemHandler<W> {
    /// Outcome of an item that failed too often while it was alone; `None`: the batch is handled.
    fn guard(&self, batch: &Batch) -> Option<ItemOutcome<W::Row>> {
        if let Some((_, reason)) = self.0.items().repeated_crash(batch) {
            return Some(ItemOutcome::new(Verdict::MarkDead { reason }, W::CRASH_OUTLOOK));
        }
        failpoint::abort_on_poison(batch.jobs.iter().map(|job| &*job.id));
        None
    }

    async fn finish(&self, batch: &Batch, outcomes: Result<Vec<ItemOutcome<W::Row>>, Outlook>) -> BatchOutcome {
        let handled = match outcomes {
            Ok(outcomes) => self.0.items().run_with_timeout(self.save(batch, outcomes)).await,
            Err(outlook) => Err(outlook),
        };
        handled.unwrap_or_else(|outlook| BatchOutcome::released(batch, outlook))
    }

    /// Saves rows, deaths and lives, before the worker settles.
    async fn save(&self, batch: &Batch, mut outcomes: Vec<ItemOutcome<W::Row>>) -> Result<BatchOutcome, StoreError> {
        let items = self.0.items();
        self.0.save_rows(&batch.jobs, &mut outcomes).await?;
        let mut handled = BatchOutcome { outlook: Outlook::Unchanged, ..BatchOutcome::default() };
        let mut lives = Vec::new();
        for (job, outcome) in batch.jobs.iter().cloned().zip(outcomes) {
            match outcome.verdict {
                Some(Verdict::MarkDead { reason }) => {
                    let dead = items.mark_dead(batch.now.now(), &job, reason).await?;
                    handled.verdicts.push((job, dead));
                }
                Some(verdict) => handled.verdicts.push((job, verdict)),
                None => handled.release.push(job),
            }
            lives.extend(outcome.life);
            handled.tally.extend(outcome.tally);
            // An item without a service is an outage, even if others have an answer.
            let is_worse = matches!(
                (&handled.outlook, &outcome.outlook),
                (Outlook::Stop(_), _) | (Outlook::Outage(_), Outlook::Fine | Outlook::Unchanged)
            );
            if !is_worse {
                handled.outlook = outcome.outlook;
            }
        }
        if !lives.is_empty() {
            items.store.save_lives(&items.namespace, &lives).await?;
            failpoint::point("after_lives");
        }
        Ok(handled)
    }
}
