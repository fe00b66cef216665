//! Reads a list: one page per claim.
//!
//! ```text
//!   claim ─▶ crawl ─▶ page ─▶ save its edges and the next cursor ─┬─▶ due again at once
//!            (store)                 (one transaction)            └─▶ the crawl ended: save its life ─▶ due at the next visit
//! ```
//!
//! The progress of a list is in the store alone. A late or repeated page changes nothing: the store knows the expected cursor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::counters::ListCounters;
use super::member_collector::MemberCollector;
use super::schedule::VisitSchedule;
use crate::pipelines::blame::Evidence;
use crate::pipelines::item_handler::{ItemOutcome, ItemWork, MeteredWork};
use crate::pipelines::page_call::FailureCause;
use crate::pipelines::refresh::UnavailableSettings;
use crate::pipelines::refresh::misses::MissState;
use crate::pipelines::store_call::PipelineStore;
use engine::base::clock::Millis;
use engine::base::failpoint;
use engine::metrics::Metrics;
use engine::queue::{Batch, Due, Job, Lane, Verdict};
use engine::quota::{Credentials, Permit};
use engine::worker::Outlook;
use networks::model::account::Absence;
use networks::model::post::ItemState;
use networks::model::relation::ListKind;
use networks::providers::lookup::LookupError;
use networks::providers::relations::{Listing, Relations};
use store::{CrawlEnd, Edges, End, Finding, Life};

/// Delay before a list that the API refuses is requested again, ms.
const REFUSED_PAUSE_MS: Millis = 60_000;
/// Delay of a deferred list, ms: lists that become due in this time are read before it.
const DEFERRAL_MS: Millis = 5_000;
/// First and longest delay of a list without an answer, ms; it doubles each time. The fault may be the API's or the list's own.
const UNANSWERED_PAUSE_MS: (Millis, Millis) = (5_000, 3_600_000);
/// Crawls that decide the kind and the date of the next one.
pub(super) const RECENT_CRAWLS: u32 = 32;
/// Longest delay before a crawl that withheld missing members is repeated, ms.
const WITHHELD_PAUSE_MS: Millis = 3_600_000;

#[derive(Debug, Clone, Copy)]
pub struct CrawlBounds {
    /// Known members in a row that end a prefix crawl.
    pub known_tail: u32,
    /// Time after a complete crawl until the next one, ms; prefix crawls lie between them.
    pub complete_every: Millis,
    /// Members after which a crawl is cut; 0: never.
    pub longest: u64,
    /// Share of a list that one complete crawl may remove, 0 to 1.
    pub shrink: f64,
    /// Ids per page; 0: as many as the API gives.
    pub page: u32,
}

pub struct ListWork {
    pub items: PipelineStore,
    pub side: ListKind,
    pub relations: Arc<dyn Relations>,
    pub edges: Arc<dyn Edges>,
    pub credentials: Arc<Credentials>,
    pub visits: VisitSchedule,
    pub bounds: CrawlBounds,
    pub unavailable: UnavailableSettings,
    pub call_timeout: Duration,
    pub metrics: Arc<Metrics>,
    pub counters: Arc<ListCounters>,
    pub member_collector: MemberCollector,
    pub unanswered: UnansweredLists,
    pub evidence: Evidence,
}

#[derive(Debug, Default)]
pub struct UnansweredLists(Mutex<HashMap<String, u32>>);

impl UnansweredLists {
    /// Maximum remembered lists: an outage leaves one for each step of the back-off.
    const MOST: usize = 10_000;

    /// Counts one more time without an answer. Returns the wait of the list, ms.
    fn next_pause(&self, owner: &str) -> Millis {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= Self::MOST {
            known.clear();
        }
        let times = known.entry(owner.to_owned()).or_default();
        *times += 1;
        let (first, most) = UNANSWERED_PAUSE_MS;
        first.saturating_mul(1 << (*times - 1).min(20)).min(most)
    }

    fn clear(&self, owner: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(owner);
    }
}

#[async_trait]
impl ItemWork for ListWork {
    type Row = ();

    fn items(&self) -> &PipelineStore {
        &self.items
    }
}

#[async_trait]
impl MeteredWork for ListWork {
    fn endpoint(&self) -> &'static str {
        self.relations.capabilities(self.side).endpoint
    }

    fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    async fn handle(&self, job: &Job, batch: &Batch, permit: &mut Option<Permit>) -> Result<ItemOutcome, Outlook> {
        if self.evidence.defer_once(&job.id) {
            let behind_others = Verdict::Retry { after: DEFERRAL_MS, counted: false };
            return Ok(ItemOutcome::new(behind_others, Outlook::Unchanged));
        }
        let asked_at = batch.now.now();
        if job.deliveries > 0
            && let Some(end) = self.unsettled_end(job).await?
        {
            drop(permit.take()); // it returns to the ledger
            return self.judge_visit(job, batch, end).await;
        }
        let Some((crawl, profile)) = self.items.run_with_timeout(self.open_crawl(&job.id, asked_at)).await? else {
            // The store blocks the owner, who asked to be forgotten.
            return Ok(ItemOutcome::new(Verdict::Finish, Outlook::Unchanged));
        };
        let Some(permit) = permit.take() else { return Err(Outlook::Unchanged) };
        let page = match self.request_page((batch, &job.id), &crawl, permit).await? {
            Ok(page) => page,
            Err(error) => return self.judge_failure(job, error),
        };
        self.unanswered.clear(&job.id);
        failpoint::point("after_answer");
        match page.listing {
            Listing::Members(members) => {
                // Events in a page are older than `latest`, which the queue's clock has not passed. Events that a next crawl finds are
                // newer than `asked_at`, which it had passed.
                let moments = (asked_at, batch.now.latest());
                match self.save_page(&job.id, (&crawl, profile), members, moments).await? {
                    Some(end) => self.judge_visit(job, batch, end).await,
                    None => Ok(self.continue_at_once(job)),
                }
            }
            Listing::OwnerAbsent(reason) => {
                self.end_crawl(&job.id, &crawl, batch, End::Aborted).await?;
                self.judge_absence(job, batch, reason).await
            }
            Listing::Refused => {
                self.end_crawl(&job.id, &crawl, batch, End::Hidden).await?;
                self.judge_visit(job, batch, CrawlEnd::Hidden).await
            }
            Listing::StaleCursor if crawl.cursor.is_none() => {
                let why = "the API refuses the first page as one with a stale cursor";
                Ok(self.retry_or_mark_dead(job, why.to_owned()))
            }
            Listing::StaleCursor => {
                self.end_crawl(&job.id, &crawl, batch, End::Stale).await?;
                match self.may_restart(&job.id).await? {
                    true => Ok(self.continue_at_once(job)),
                    false => self.judge_visit(job, batch, CrawlEnd::Stale).await,
                }
            }
        }
    }
}

impl ListWork {
    /// The next page, or the first one again. The list keeps its due time, and so its position among the other lists.
    fn continue_at_once(&self, job: &Job) -> ItemOutcome {
        let verdict = Verdict::Reschedule { lane: self.lane_of(job), due: Due::At(job.due) };
        ItemOutcome::new(verdict, Outlook::Fine)
    }

    async fn judge_visit(&self, job: &Job, batch: &Batch, end: CrawlEnd) -> Result<ItemOutcome, Outlook> {
        let at = batch.now.now();
        let crawls = self.crawls(&job.id, RECENT_CRAWLS).await?;
        let (lane, delay) = self.visits.next_visit(&crawls);
        // The next crawl must confirm the missing members, so it comes early.
        let delay = if end == CrawlEnd::Withheld { delay.min(WITHHELD_PAUSE_MS) } else { delay };
        let summary = crawls.first().and_then(|crawl| serde_json::to_string(crawl).ok());
        let next = Some((lane, at.saturating_add(delay)));
        Ok(ItemOutcome::with_life(job, at, Finding::Found(summary), ItemState::Live, next))
    }

    fn judge_failure(&self, job: &Job, error: LookupError) -> Result<ItemOutcome, Outlook> {
        match FailureCause::from(error) {
            FailureCause::Api(why) => {
                // The fault may be the API's or this list's. The next list shows if others are answered: this one must not be in front
                // of it.
                let later = Verdict::Retry { after: self.unanswered.next_pause(&job.id), counted: false };
                Ok(ItemOutcome::new(later, Outlook::Outage(why)))
            }
            FailureCause::Credential(_) => Err(Outlook::Unchanged),
            FailureCause::Item(why) => Ok(self.retry_or_mark_dead(job, why)),
            FailureCause::Clock(why) => Err(Outlook::Outage(why)),
            FailureCause::Process(why) => Err(Outlook::Stop(why)),
        }
    }

    /// Handles a list that the API refuses: retried later, and dead after some failures.
    fn retry_or_mark_dead(&self, job: &Job, why: String) -> ItemOutcome {
        if job.failures + 1 >= self.items.max_deliveries {
            return ItemOutcome::new(Verdict::MarkDead { reason: why }, Outlook::Unchanged);
        }
        let (list, owner) = (&self.items.namespace, &job.id);
        tracing::warn!(list, owner, why, "the API refuses a list");
        ItemOutcome::new(Verdict::Retry { after: REFUSED_PAUSE_MS, counted: true }, Outlook::Unchanged)
    }

    /// Judges a list whose owner is missing. If the settings say so, the list ends after some time.
    async fn judge_absence(&self, job: &Job, batch: &Batch, reason: Option<Absence>) -> Result<ItemOutcome, Outlook> {
        let at = batch.now.now();
        let known = self.items.store.standing(&self.items.namespace, std::slice::from_ref(&job.id));
        let known = self.items.run_with_timeout(known).await?;
        let before = known.into_iter().flatten().next();
        let (misses, since) = before.map_or((1, at), |known| (known.misses + 1, known.missing_since.unwrap_or(at)));
        let settings = &self.unavailable;
        let (state, next) = match settings.judge(misses, since, at, false) {
            MissState::Suspected => (ItemState::Live, Some((self.lane_of(job), settings.confirmed_after))),
            MissState::Unavailable => (ItemState::Unavailable, Some((settings.lane.clone(), settings.lane.patience))),
            MissState::Ended => (ItemState::Ended, None),
        };
        let next = next.map(|(lane, delay)| (lane, at.saturating_add(delay)));
        // The data of an owner that is certainly gone is forgotten. A faulty API gives the same answer for a while.
        let is_gone = reason.is_some() && at - since >= settings.after;
        let forget = settings.forget && is_gone;
        let finding = Finding::Missing { misses, since, reason, handle: None };
        let outcome = ItemOutcome::with_life(job, at, finding, state, next);
        Ok(ItemOutcome { life: outcome.life.map(|life| Life { forget, ..life }), ..outcome })
    }

    fn lane_of(&self, job: &Job) -> Lane {
        match *job.lane == *self.unavailable.lane.name {
            true => self.unavailable.lane.clone(),
            false => self.visits.lane_named(&job.lane),
        }
    }
}
