//! A visit: one account per claim, with all of its new posts.
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

use super::report::{PageReport, Telling};
use super::summary::VisitSummary;
use crate::base::clock::{self, Millis};
use crate::base::failpoint;
use crate::engine::lane::Lane;
use crate::engine::queue::{Batch, Due, Job, Verdict};
use crate::engine::schedule::adaptive::budget::Spending;
use crate::engine::schedule::visits::classes::Rules;
use crate::engine::schedule::visits::rhythm::Rhythm;
use crate::engine::schedule::{Known, Schedules};
use crate::engine::worker::{Handled, Handler, Outlook};
use crate::model::post::{ItemState, Tweet};
use crate::model::provider::Provider;
use crate::pipelines::refresh::UnavailableSettings;
use crate::pipelines::store_call;
use crate::pipelines::timelines::paging::{Position, Taken};
use crate::pipelines::timelines::reader::{Ended, Learning, Reader, Trouble};
use crate::pipelines::timelines::trouble::pause;
use crate::providers::registry::{Build, account_timelines};
use crate::providers::source::Source;
use crate::providers::timeline::Post;
use crate::quota::Permit;
use crate::store::{FollowList, Observation, Part, SavedSource, Seen, Store};

/// Failures in a row, while others are read, after which an account counts as gone. A single one may be the end of an outage.
const CONFIRMING_FAILURES: u32 = 2;

pub struct Accounts {
    pub provider: Provider,
    pub build: Build,
    /// Span over which ids may be out of order.
    pub k: Duration,
}

impl Accounts {
    /// The timeline of an account. The error is the reason why the id is invalid.
    pub fn timeline(&self, id: &str) -> Result<Source, String> {
        let written = account_timelines(&self.provider).written(id);
        let source = (self.build)(&self.provider, &written, self.k)?;
        Ok(Source { query: Some(id.to_owned()), ..source })
    }
}

pub struct Visitor {
    pub namespace: String,
    pub part: Part,
    /// Its namespace is the pipeline without the part.
    pub reader: Reader,
    pub accounts: Accounts,
    pub store: Arc<dyn Store>,
    pub followed: Arc<dyn FollowList>,
    pub schedule: Arc<dyn Schedules>,
    pub rules: Rules,
    pub unavailable: UnavailableSettings,
    /// Shortest interval between two visits.
    pub shortest: Duration,
    /// Failures after which an account is dead.
    pub max_deliveries: u32,
    /// `None`: there are no communities.
    pub telling: Option<Telling>,
}

/// Results of a visit: the dates of its posts.
struct Learnt<'a> {
    before: Rhythm,
    rhythm: Rhythm,
    rules: Rules,
    now: Millis,
    /// Posts of its round that earlier claims brought; `None`: the round starts with this one.
    earlier: Option<u64>,
    /// Dates of the posts that are new since the last visit, ms since the epoch.
    posts: Vec<Millis>,
    /// Data for communities; `None`: there are none.
    report: Option<(&'a Telling, PageReport)>,
}

#[async_trait]
impl Learning for Learnt<'_> {
    fn goes_on_from(&mut self, position: &Position) {
        // While an empty page is doubted, its round stays open. Each poll of that round counted as a visit.
        let cut_short = position.open.as_ref().filter(|_| position.doubted_since.is_none());
        self.earlier = cut_short.map(|round| round.fresh);
    }

    fn page(&mut self, _: &mut Option<Position>, taken: &Taken, fresh: &[Millis], _: u32) -> Option<Millis> {
        self.posts.extend_from_slice(fresh);
        // All pages and claims of a round are one visit.
        self.rhythm = self.before.clone();
        match self.earlier {
            None => self.rhythm.see(&self.posts, self.now, &self.rules),
            Some(_) => self.rhythm.see_more(&self.posts, self.now),
        }
        taken.whole.map(|_| 0)
    }

    async fn posts(&mut self, posts: &[Post], made_at: &[Millis]) -> Result<(), Outlook> {
        match &mut self.report {
            Some((telling, report)) => telling.posts(report, posts, made_at).await,
            None => Ok(()),
        }
    }

    async fn handed_over(&mut self) -> Result<(), Outlook> {
        match &mut self.report {
            Some((telling, report)) => telling.tell(report).await,
            None => Ok(()),
        }
    }

    fn notes(&self) -> Option<String> {
        Some(self.rhythm.clone().into())
    }
}

struct After {
    seen: Seen,
    state: ItemState,
    lane: Lane,
    delay: Millis,
    spent: Option<Spending>,
    outlook: Outlook,
}

#[async_trait]
impl Handler for Visitor {
    fn endpoint(&self) -> &'static str {
        self.reader.endpoint
    }

    async fn handle(&self, batch: &Batch, permit: Permit) -> Handled {
        let mut permit = Some(permit);
        // A claim takes one account.
        let handled = match &batch.jobs[..] {
            [job] => self.visit(job, batch, &mut permit).await,
            _ => Err(Outlook::Unchanged),
        };
        if let Some(permit) = permit {
            self.reader.credentials.give_back(permit).await;
        }
        handled.unwrap_or_else(|outlook| Handled::released(batch, outlook))
    }
}

impl Visitor {
    async fn visit(&self, job: &Job, batch: &Batch, permit: &mut Option<Permit>) -> Result<Handled, Outlook> {
        let (id, of) = (std::slice::from_ref(&job.id), &self.reader.namespace);
        // Verdicts without a call.
        let verdict = |verdict| Handled {
            verdicts: vec![(job.clone(), verdict)],
            outlook: Outlook::Unchanged,
            ..Handled::default()
        };
        if self.reader.in_time(self.followed.followed(of, id)).await? != [Some(self.part)] {
            self.reader.in_time(self.followed.end_visits(of, self.part, &job.id)).await?;
            return Ok(verdict(Verdict::Finish));
        }
        if job.failures >= self.max_deliveries {
            return Ok(verdict(self.bury(job, batch.now.now(), store_call::ended_its_process(job)).await?));
        }
        failpoint::poison(id);
        let timeline = match self.accounts.timeline(&job.id) {
            Ok(timeline) => timeline,
            Err(why) => {
                return Ok(verdict(self.bury(job, batch.now.now(), format!("no id of an account: {why}")).await?));
            }
        };
        let saved = self.reader.in_time(self.reader.positions.saved(of, &job.id)).await?;
        let now = batch.now.now();
        let rhythm = saved.notes.clone().map_or_else(|| Rhythm::new(now), Rhythm::from);
        let report = self.telling.as_ref().map(|telling| (telling, telling.of(&job.id, now)));
        let (before, rules, posts) = (rhythm.clone(), self.rules, Vec::new());
        let mut learnt = Learnt { before, rhythm, rules, now, earlier: None, posts, report };
        let read = self.reader.read(&job.id, timeline, &saved, (batch, permit), &mut learnt).await;
        self.reader.polls.polls.add(1);
        self.reader.polls.polls_failed.add(usize::from(read.is_err()));
        let after = match read {
            Ok(Some(_)) => self.next(job, &learnt),
            // The rest of the visit is read at its next turn.
            Ok(None) => return Ok(verdict(Verdict::Reschedule { lane: self.soon(), due: Due::At(job.due) })),
            Err(ended) => self.failed(job, now, ended, &saved).await?,
        };
        self.settle(job, now, after).await
    }

    /// Lane of accounts that are visited again soon, not that of first visits: a timeline without end takes no more than its share.
    fn soon(&self) -> Lane {
        self.waiting(clock::millis(self.shortest))
    }

    /// Lane of accounts that wait for `delay`. A shorter lane would look like a wrong clock.
    fn waiting(&self, delay: Millis) -> Lane {
        self.schedule.in_force().lane_of(delay).unwrap_or_else(Lane::first)
    }

    fn next(&self, job: &Job, learnt: &Learnt<'_>) -> After {
        let schedule = self.schedule.in_force();
        let Learnt { rhythm, now, earlier, posts, .. } = learnt;
        let known = Known { rhythm: Some(rhythm), ..Known::answered(&job.id, None, Some(*now)) };
        let (lane, delay) = schedule.next(&known, *now).unwrap_or_else(|| (Lane::first(), 0));
        let spent = schedule.spending(&known, job.due);
        let posts = earlier.unwrap_or(0) + posts.len() as u64;
        let summary = VisitSummary::new(&*schedule, &known, posts, *now, delay);
        let raw = serde_json::to_string(&summary).unwrap_or_default();
        let item = Tweet { id: job.id.clone(), raw, ..Tweet::default() };
        After { seen: Seen::Found(item), state: ItemState::Live, lane, delay, spent, outlook: Outlook::Fine }
    }

    /// Next visit of an account whose timeline could not be read. A refusal may affect all accounts, for example if the instance now
    /// wants a token. So an account counts as gone only while others are read, as the store knows for all processes.
    async fn failed(&self, job: &Job, at: Millis, ended: Ended, saved: &SavedSource) -> Result<After, Outlook> {
        let Trouble { why, is_own, is_alone, failures, since, outlook } =
            self.reader.trouble(&job.id, ended, saved.trouble.as_ref()).await?;
        let lasts = is_own && clock::wall_ms().saturating_sub(since) >= self.unavailable.confirmed_after;
        let is_gone = lasts && is_alone && failures >= CONFIRMING_FAILURES;
        let outlook = match lasts && !is_alone {
            true => Outlook::Outage(format!("no account is read: {why}")),
            false => outlook,
        };
        let seen = Seen::Broken(why);
        let (state, lane, delay) = match (is_gone, is_own || is_alone) {
            (true, _) => (ItemState::Unavailable, self.unavailable.lane.clone(), self.unavailable.lane.patience),
            (false, true) => {
                let longest = clock::span(self.unavailable.confirmed_after.max(1));
                let delay = pause(self.shortest.min(longest), longest, failures);
                (ItemState::Live, self.waiting(delay), delay)
            }
            (false, false) => (ItemState::Live, self.soon(), clock::millis(self.shortest)),
        };
        tracing::debug!(account = job.id, at, tried_again_in_ms = delay, "a timeline cannot be read");
        Ok(After { seen, state, lane, delay, spent: None, outlook })
    }

    async fn settle(&self, job: &Job, at: Millis, after: After) -> Result<Handled, Outlook> {
        let After { seen, state, lane, delay, spent, outlook } = after;
        let next_due = at.saturating_add(delay);
        let observation = Observation::new(&job.id, at, seen, state, Some(next_due));
        self.reader.in_time(self.store.save(&self.namespace, &[observation])).await?;
        failpoint::point("before_settle");
        let verdict = Verdict::Reschedule { lane, due: Due::At(next_due) };
        let tally = spent.map(|spent| spent.counted().to_vec()).unwrap_or_default();
        Ok(Handled { verdicts: vec![(job.clone(), verdict)], tally, outlook, ..Handled::default() })
    }

    async fn bury(&self, job: &Job, at: Millis, reason: String) -> Result<Verdict, Outlook> {
        self.reader.in_time(store_call::bury(&*self.store, &self.namespace, at, job, reason)).await
    }
}
