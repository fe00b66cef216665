//! Visits: one account per claim, with all of its new posts.
//!
//! ```text
//!   claim ─▶ followed here? ─▶ position and rhythm ─▶ pages ─▶ save posts, position and rhythm ─▶ save its life ─▶ due again
//!              (store)             (store)                          page by page                  (store)
//! ```
//!
//! The rhythm (the times at which the account posts) is saved with the position in one step, so each post counts in it once. A process
//! that dies repeats at most a page.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::evidence_sender::{EvidenceSender, PageReport};
use super::summary::VisitSummary;
use crate::pipelines::item_handler::{ItemOutcome, ItemWork, MeteredWork};
use crate::pipelines::refresh::UnavailableSettings;
use crate::pipelines::store_call::PipelineStore;
use crate::pipelines::timelines::paging::{PageResult, Position};
use crate::pipelines::timelines::reader::{PageObserver, ReadFailure, Reader};
use crate::pipelines::timelines::trouble::retry_pause;
use engine::base::clock::{self, Millis};
use engine::lane::Lane;
use engine::queue::{Batch, Due, Job, Verdict};
use engine::quota::{Credentials, Permit};
use engine::schedule::visits::classes::Rules;
use engine::schedule::visits::rhythm::Rhythm;
use engine::schedule::{ScheduledItem, Schedules};
use engine::worker::Outlook;
use networks::model::post::ItemState;
use networks::model::provider::Provider;
use networks::providers::registry::{BuildSource, account_timelines};
use networks::providers::source::Source;
use networks::providers::timeline::Post;
use store::{Finding, FollowList, Part};

/// Failures in a row, while others are read, until an account counts as gone. A single one may be the end of an outage.
const CONFIRMING_FAILURES: u32 = 2;

pub struct AccountTimelineBuilder {
    pub provider: Provider,
    pub build: BuildSource,
    /// Span over which ids may be out of order.
    pub k: Duration,
}

impl AccountTimelineBuilder {
    /// The error is the reason that the id is invalid.
    pub fn timeline(&self, id: &str) -> Result<Source, String> {
        let keys = account_timelines(&self.provider).source_keys(id);
        let source = (self.build)(&self.provider, &keys, self.k).map_err(|why| why.to_string())?;
        Ok(Source { query: Some(id.to_owned()), ..source })
    }
}

pub struct VisitWork {
    pub items: PipelineStore,
    pub part: Part,
    /// Its namespace is the pipeline without the part.
    pub reader: Reader,
    pub accounts: AccountTimelineBuilder,
    pub followed: Arc<dyn FollowList>,
    pub schedule: Arc<dyn Schedules>,
    pub rules: Rules,
    pub unavailable: UnavailableSettings,
    pub shortest: Duration,
    pub evidence_sender: Option<EvidenceSender>,
}

/// Learns the rhythm of an account from the pages of a visit.
struct VisitObserver<'a> {
    before: Rhythm,
    rhythm: Rhythm,
    rules: Rules,
    now: Millis,
    /// Posts of its round that earlier claims brought; `None`: the round starts with this one.
    earlier: Option<u64>,
    /// Dates of the posts that are new since the last visit, ms since the epoch.
    posts: Vec<Millis>,
    report: Option<(&'a EvidenceSender, PageReport)>,
}

#[async_trait]
impl PageObserver for VisitObserver<'_> {
    fn resume_from(&mut self, position: &Position) {
        // While an empty page is doubted, its round stays open. Each poll of that round counted as a visit.
        let cut_short = position.open.as_ref().filter(|_| position.doubted_since.is_none());
        self.earlier = cut_short.map(|round| round.fresh);
    }

    fn observe_page(
        &mut self,
        _: &mut Option<Position>,
        taken: &PageResult,
        fresh: &[Millis],
        _: u32,
    ) -> Option<Millis> {
        self.posts.extend_from_slice(fresh);
        // All pages and claims of a round are one visit.
        self.rhythm = self.before.clone();
        match self.earlier {
            None => self.rhythm.record_visit(&self.posts, self.now, &self.rules),
            Some(_) => self.rhythm.extend_visit(&self.posts, self.now),
        }
        taken.finished_round.map(|_| 0)
    }

    async fn observe_posts(&mut self, posts: &[Post], made_at: &[Millis]) -> Result<(), Outlook> {
        match &mut self.report {
            Some((evidence_sender, report)) => evidence_sender.record_posts(report, posts, made_at).await,
            None => Ok(()),
        }
    }

    async fn after_hand_over(&mut self) -> Result<(), Outlook> {
        match &mut self.report {
            Some((evidence_sender, report)) => evidence_sender.send(report).await,
            None => Ok(()),
        }
    }

    fn notes(&self) -> Option<String> {
        Some(self.rhythm.clone().into())
    }
}

#[async_trait]
impl ItemWork for VisitWork {
    type Row = ();

    const CRASH_OUTLOOK: Outlook = Outlook::Unchanged;

    fn items(&self) -> &PipelineStore {
        &self.items
    }
}

#[async_trait]
impl MeteredWork for VisitWork {
    fn endpoint(&self) -> &'static str {
        self.reader.endpoint
    }

    fn credentials(&self) -> &Credentials {
        &self.reader.credentials
    }

    /// Ends the visits of accounts that are no longer followed here.
    async fn dismiss(&self, job: &Job) -> Result<bool, Outlook> {
        let (id, of) = (std::slice::from_ref(&job.id), &self.reader.namespace);
        let is_followed = self.items.run_with_timeout(self.followed.followed(of, id)).await? == [Some(self.part)];
        if !is_followed {
            self.items.run_with_timeout(self.followed.end_visits(of, self.part, &job.id)).await?;
        }
        Ok(!is_followed)
    }

    async fn handle(&self, job: &Job, batch: &Batch, permit: &mut Option<Permit>) -> Result<ItemOutcome, Outlook> {
        let without_answer = |verdict| Ok(ItemOutcome::new(verdict, Outlook::Unchanged));
        let timeline = match self.accounts.timeline(&job.id) {
            Ok(timeline) => timeline,
            Err(why) => {
                return without_answer(Verdict::MarkDead { reason: format!("not the id of an account: {why}") });
            }
        };
        let reading = self.reader.positions.saved_source(&self.reader.namespace, &job.id);
        let saved = self.items.run_with_timeout(reading).await?;
        let now = batch.now.now();
        let rhythm = saved.notes.clone().map_or_else(|| Rhythm::new(now), Rhythm::from);
        let report = self.evidence_sender.as_ref().map(|sender| (sender, sender.start_report(&job.id, now)));
        let (before, rules, posts) = (rhythm.clone(), self.rules, Vec::new());
        let mut observer = VisitObserver { before, rhythm, rules, now, earlier: None, posts, report };
        let read = self.reader.read(&job.id, timeline, &saved, (batch, permit), &mut observer).await;
        self.reader.polls.polls.add(1);
        self.reader.polls.polls_failed.add(usize::from(read.is_err()));
        match read {
            Ok(Some(_)) => Ok(self.next_visit(job, &observer)),
            // The rest of the visit is read at its next turn.
            Ok(None) => without_answer(Verdict::Reschedule { lane: self.soon_lane(), due: Due::At(job.due) }),
            Err(ended) => {
                let failure = self.reader.judge_failure(&job.id, ended, saved.trouble.as_ref()).await?;
                Ok(self.retry(job, now, failure))
            }
        }
    }
}

impl VisitWork {
    /// Lane of accounts that are visited again soon. It differs from that of first visits: an endless timeline must not delay them.
    fn soon_lane(&self) -> Lane {
        self.lane_for_delay(clock::millis(self.shortest))
    }

    /// The patience of the lane covers the delay: a due time beyond it would be corrected as one of a wrong clock.
    fn lane_for_delay(&self, delay: Millis) -> Lane {
        self.schedule.current_schedule().lane_for_interval(delay).unwrap_or_else(Lane::first)
    }

    fn next_visit(&self, job: &Job, observer: &VisitObserver<'_>) -> ItemOutcome {
        let schedule = self.schedule.current_schedule();
        let VisitObserver { rhythm, now, earlier, posts, .. } = observer;
        let (now, posts) = (*now, earlier.unwrap_or(0) + posts.len() as u64);
        let known = ScheduledItem { rhythm: Some(rhythm), ..ScheduledItem::with_answer(&job.id, None, Some(now)) };
        let (lane, delay) = schedule.next(&known, now).unwrap_or_else(|| (Lane::first(), 0));
        let summary = serde_json::to_string(&VisitSummary::new(&*schedule, &known, posts, now, delay)).ok();
        let next = Some((lane, now.saturating_add(delay)));
        let spent = schedule.spending(&known, job.due);
        let tally = spent.map(|spent| spent.to_counters().to_vec()).unwrap_or_default();
        ItemOutcome { tally, ..ItemOutcome::with_life(job, now, Finding::Found(summary), ItemState::Live, next) }
    }

    /// Schedules the next visit after a failure. A refusal may affect all accounts, for example if the instance now requires a token. So
    /// an account counts as gone only while others are read, in any process.
    fn retry(&self, job: &Job, at: Millis, failure: ReadFailure) -> ItemOutcome {
        let ReadFailure { why, is_own, is_alone, failures, since, outlook } = failure;
        let lasts = is_own && clock::wall_ms().saturating_sub(since) >= self.unavailable.confirmed_after;
        let is_gone = lasts && is_alone && failures >= CONFIRMING_FAILURES;
        let outlook = match lasts && !is_alone {
            true => Outlook::Outage(format!("no account is read: {why}")),
            false => outlook,
        };
        let (state, lane, delay) = match (is_gone, is_own || is_alone) {
            (true, _) => (ItemState::Unavailable, self.unavailable.lane.clone(), self.unavailable.lane.patience),
            (false, true) => {
                let longest = clock::span(self.unavailable.confirmed_after.max(1));
                let delay = retry_pause(self.shortest.min(longest), longest, failures);
                (ItemState::Live, self.lane_for_delay(delay), delay)
            }
            (false, false) => (ItemState::Live, self.soon_lane(), clock::millis(self.shortest)),
        };
        tracing::debug!(account = job.id, at, tried_again_in_ms = delay, "a timeline cannot be read");
        let next = Some((lane, at.saturating_add(delay)));
        ItemOutcome { outlook, ..ItemOutcome::with_life(job, at, Finding::Broken(why), state, next) }
    }
}
