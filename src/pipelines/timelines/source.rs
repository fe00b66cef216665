//! A source: a timeline that is polled as a job of a delayed queue, by the [worker](crate::engine::worker)'s loop.
//!
//! ```text
//!   claim ─▶ position ─▶ page ─▶ queue_tweets ─▶ save position ─┬─▶ settle: due again after the interval
//!             (store)     ▲       (store, queue)     (store)     │
//!                         └────── not at the end yet ────────────┘
//! ```
//!
//! After a crash anywhere the last page is read again, and its posts are already known. What is kept between two polls
//! is in the store; a process remembers no more than which sources are slow ([`Share`]) and who was refused
//! ([`Refusals`]).

mod hand_over;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::hand_over::{HandOver, Lines};
use super::counters::Polls;
use super::pace::{Pace, lane};
use super::paging::{self, NotHeeded, Position, Taken};
use super::share::Share;
use super::trouble::{Judged, Refusals, counts_from, judge, pause};
use crate::base::clock::{self, Millis};
use crate::base::failpoint;
use crate::engine::lane::Lane;
use crate::engine::queue::{Batch, Job, Jobs, NewJob, QueueError, Verdict};
use crate::engine::worker::{Handled, Handler, Outlook};
use crate::ingest::{Starter, StarterError};
use crate::pipelines::page_call::{self, Failed, Reservation};
use crate::providers::lookup::LookupError;
use crate::providers::metered::{Told, metered};
use crate::providers::source::Source;
use crate::providers::timeline::{Ask, Page, Timeline};
use crate::quota::{Acquired, Credential, Credentials, Permit};
use crate::store::{Positions, SavedPage, SavedSource, SourceGap, SourceTrouble, StoreError, Way};

/// Where a poll finds the timeline of an id. How far it was read is no matter of this seam: the store keeps that, also of an
/// id that is gone.
#[async_trait]
pub trait Timelines: Send + Sync {
    /// The source of that id; `None` where it is not to be polled any more: its job ends.
    ///
    /// # Errors
    /// Our own services are out: the job stays due.
    async fn get(&self, id: &str) -> Result<Option<Source>, StoreError>;

    /// The ids that every poller puts into the queue, again with each heartbeat. None where whoever adds an id schedules
    /// it.
    fn listed(&self) -> Vec<String> {
        Vec::new()
    }
}

/// As the settings name them.
#[async_trait]
impl Timelines for BTreeMap<String, Source> {
    async fn get(&self, id: &str) -> Result<Option<Source>, StoreError> {
        Ok(self.get(id).cloned())
    }

    fn listed(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }
}

/// The sources of one endpoint, and what is done with their posts.
pub struct SourcePoll {
    /// Its namespace, as in the queue.
    pub namespace: String,
    /// The endpoint of all of them.
    pub endpoint: &'static str,
    /// The timelines, by id.
    pub timelines: Arc<dyn Timelines>,
    /// The intervals of polls.
    pub pace: Pace,
    /// Pages in one poll, at the most.
    pub pages: u32,
    /// Takes the posts.
    pub starter: Starter,
    /// The store of positions.
    pub positions: Arc<dyn Positions>,
    /// Grants a permit for each further page.
    pub credentials: Arc<Credentials>,
    /// The time limit for a call.
    pub call_timeout: Duration,
    /// The time limit of store and queue for a page.
    pub save_timeout: Duration,
    /// The counters.
    pub polls: Arc<Polls>,
    /// The places for polls, shared by the sources.
    pub share: Share,
    /// State shared with the provider's other endpoints.
    pub in_common: InCommon,
}

/// State shared by all sources of a provider, in one process.
#[derive(Debug, Clone)]
pub struct InCommon {
    /// The namespaces of all its endpoints: whether it answers shows in any of them.
    pub namespaces: Arc<[String]>,
    /// The latest refusals, by source.
    pub refusals: Refusals,
    lines: Arc<Lines>,
}

impl InCommon {
    /// Of these endpoints' namespaces.
    pub fn new(namespaces: impl IntoIterator<Item = String>) -> Self {
        let namespaces = namespaces.into_iter().collect();
        Self { namespaces, refusals: Refusals::default(), lines: Arc::default() }
    }
}

/// Why a poll ended early.
#[derive(Debug)]
enum Ended {
    /// Our own services are out, or nobody may call: later, as it was.
    Later(Outlook),
    /// The API gave no page: it is its provider's trouble, or the source's own.
    Failed { why: String, is_out: bool },
    /// The failure concerns only this source.
    Source(String),
}

impl From<Outlook> for Ended {
    fn from(outlook: Outlook) -> Self {
        Self::Later(outlook)
    }
}

impl From<StarterError> for Ended {
    fn from(error: StarterError) -> Self {
        Self::Later(Outlook::Outage(error.to_string()))
    }
}

impl From<NotHeeded> for Ended {
    fn from(error: NotHeeded) -> Self {
        Self::Source(error.to_string())
    }
}

impl SourcePoll {
    /// Puts the listed sources into their queue; those that are there stay as they are.
    ///
    /// # Errors
    /// The queue is out.
    pub async fn schedule(&self, queue: &dyn Jobs) -> Result<(), QueueError> {
        let lane = lane(self.pace.first());
        let ids = self.timelines.listed().into_iter();
        let jobs: Vec<_> = ids.map(|id| NewJob { id, lane: lane.clone(), due: 0.into() }).collect();
        queue.schedule(&jobs).await.map(drop)
    }

    /// Reads a source until nothing is left, or it is somebody else's turn; answers how long until the next time.
    async fn poll(
        &self,
        name: &str,
        Source { timeline, query }: Source,
        saved: &SavedSource,
        batch: &Batch,
        permit: &mut Option<Permit>,
    ) -> Result<Millis, Ended> {
        let mut position: Option<Position> = match &saved.position {
            None => None,
            Some(text) => Some(serde_json::from_str(text).map_err(|error| {
                let (line, column) = (error.line(), error.column());
                Ended::Source(format!(
                    "its position in the store cannot be read (line {line}, column {column}): mend it, or delete its \
                     row in source_position, and the source begins anew with its newest page"
                ))
            })?),
        };
        for _ in 0..self.pages {
            let Some(leave) = self.leave(permit, batch).await else { break };
            let now = clock::wall_ms();
            let rules = timeline.rules();
            let ask = paging::ask(position.as_ref(), &rules, now);
            let page = self.read(name, &*timeline, saved.trouble.as_ref(), &ask, leave).await?;
            failpoint::point("after_answer");
            let promised = position.as_ref().map_or(0, |position| position.since);
            let ids: Vec<u64> = page.posts.iter().map(|post| post.id).collect();
            let taken = paging::take(&mut position, &rules, &ask, &ids, page.more.clone(), &page.reading)?;
            let handed = self.hand_over(name, query.clone()).page(&rules, page, &taken, promised).await?;
            let interval = self.paced(&mut position, &taken, rules.count);
            let gaps: Vec<SourceGap> = taken.gaps.iter().map(|missing| gap(missing, now)).collect();
            let text = serde_json::to_string(&position)
                .map_err(|error| Ended::Later(Outlook::Stop(format!("cannot write a position: {error}"))))?;
            failpoint::point("before_commit");
            let read = SavedPage { at: now, position: &text, gaps: &gaps, brought: handed > 0 };
            self.in_time(self.positions.save_page(&self.namespace, name, &read)).await?;
            failpoint::point("after_commit");
            self.polls.pages.add(1);
            self.polls.posts_seen.add(ids.len());
            self.polls.posts_new.add(handed);
            self.polls.gaps.add(gaps.len());
            for gap in &gaps {
                tracing::warn!(
                    source = name,
                    from = gap.from,
                    to = gap.to,
                    reason = gap.reason,
                    "posts may be missing"
                );
            }
            tracing::debug!(
                source = name,
                posts = ids.len(),
                scheduled = handed,
                whole = taken.whole.is_some(),
                "page"
            );
            if let Some(interval) = interval {
                return Ok(interval);
            }
        }
        Ok(self.pace.first())
    }

    /// The way of a source's posts to the starter.
    fn hand_over<'a>(&'a self, source: &'a str, query: Option<String>) -> HandOver<'a> {
        let way = Way { source: source.to_owned(), query, ..Way::of("poll") };
        let starter = self.starter.clone().by(way).within(self.save_timeout);
        HandOver { source, starter, polls: &self.polls, lines: &self.in_common.lines }
    }

    /// The next interval, kept with the position, where a round is at its end.
    fn paced(&self, position: &mut Option<Position>, taken: &Taken, page: u32) -> Option<Millis> {
        let (whole, position) = (taken.whole?, position.as_mut()?);
        let before = position.interval.unwrap_or(self.pace.first());
        // What the first page holds may have come in a year.
        let next = whole.elapsed.map_or(before, |elapsed| self.pace.next(before, whole.fresh, elapsed, page));
        position.interval = Some(next);
        Some(next)
    }

    /// Acquired for one more page: the claim's own, then one that is to be had at once, while there is time for it.
    async fn leave(&self, permit: &mut Option<Permit>, batch: &Batch) -> Option<Permit> {
        if let Some(permit) = permit.take() {
            return Some(permit);
        }
        // A page needs a call, the hand-over and the position, and so does the settling.
        let needed = clock::millis(self.call_timeout + 4 * self.save_timeout);
        if batch.fence.deadline - batch.now.now() < needed {
            return None;
        }
        match self.credentials.acquire(self.endpoint, 0).await {
            Ok(Acquired::Granted(permit)) => Some(permit),
            Ok(Acquired::Wait(_)) => None,
            Err(error) => {
                tracing::warn!(error = %error, "no permit for another page: the ledger is out");
                None
            }
        }
    }

    /// One call, accounted for.
    async fn read(
        &self,
        name: &str,
        timeline: &dyn Timeline,
        trouble: Option<&SourceTrouble>,
        ask: &Ask,
        permit: Permit,
    ) -> Result<Page, Ended> {
        let (reservation, permit) = Reservation::make(&self.credentials, permit, ask.count).await?;
        let call =
            async |credential: &Credential| page_call::in_time(self.call_timeout, timeline.page(ask, credential)).await;
        let told = async |credential: &Credential, answer: &Result<Page, LookupError>| {
            let believed = self.in_common.refusals.are_believed(&credential.name, name, answer);
            let mut park = answer.as_ref().err().and_then(LookupError::park).filter(|_| believed);
            if park.is_some() && self.fails_alone(name, trouble).await {
                park = None;
            }
            let quota = answer.as_ref().ok().and_then(|page| page.quota);
            let came = |page: &Page| page.posts.iter().map(|post| post.id.to_string()).collect();
            Told { quota, park, charged: reservation.charged(answer, came) }
        };
        let answer = metered(&self.credentials, permit, call, told).await;
        answer.map_err(|error| match Failed::from(error) {
            Failed::Api(why) => Ended::Failed { why, is_out: true },
            Failed::Credential(why) => Ended::Failed { why, is_out: false },
            Failed::Item(why) => Ended::Source(why),
            Failed::Process(why) => Ended::Later(Outlook::Stop(why)),
        })
    }

    /// Returns true if others are read since a source began to fail: what is refused to it says nothing about the
    /// credential.
    async fn fails_alone(&self, name: &str, trouble: Option<&SourceTrouble>) -> bool {
        let Some(trouble) = trouble else { return false };
        let since = counts_from(trouble.since, self.pace.longest, clock::wall_ms());
        let (namespaces, source) = (&self.in_common.namespaces, (self.namespace.as_str(), name));
        let asked = self.in_time(self.positions.is_another_read(namespaces, source, since)).await;
        asked.unwrap_or(false) // the credential is left alone where nobody knows
    }

    /// What the store answers within its time.
    async fn in_time<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, Outlook> {
        let answer = tokio::time::timeout(self.save_timeout, work).await;
        let late = || Outlook::Outage(format!("the store did not answer within {} ms", self.save_timeout.as_millis()));
        answer.map_err(|_| late())?.map_err(|error| Outlook::Outage(error.to_string()))
    }

    async fn handle_one(&self, job: &Job, batch: &Batch, permit: &mut Option<Permit>, handled: &mut Handled) {
        let due_in = |delay| Verdict::Reschedule { lane: lane(delay), due: delay.into() };
        let source = match self.in_time(self.timelines.get(&job.id)).await {
            Ok(Some(source)) => source,
            Ok(None) => {
                // Whoever has it schedules it again; its position stays.
                tracing::info!(source = job.id, "no longer a configured source: not polled any more");
                return handled.verdicts.push((job.clone(), Verdict::Finish));
            }
            Err(outlook) => {
                handled.outlook = outlook;
                return handled.release.push(job.clone());
            }
        };
        let mut saved = SavedSource::default();
        let poll = async {
            saved = self.in_time(self.positions.saved(&self.namespace, &job.id)).await?;
            self.poll(&job.id, source, &saved, batch, permit).await
        };
        let Some(polled) = self.share.poll(&self.namespace, &job.id, poll).await else {
            tracing::debug!(source = job.id, "its last poll was slow, and all places for slow polls are in use");
            handled.verdicts.push((job.clone(), due_in(clock::millis(self.call_timeout / 2).max(1))));
            handled.outlook = Outlook::Unchanged;
            return;
        };
        self.polls.polls.add(1);
        self.polls.polls_failed.add(usize::from(polled.is_err()));
        match self.judged(&job.id, polled, saved.trouble.as_ref()).await {
            Ok(Next { delay, lane, outlook }) => {
                handled.verdicts.push((job.clone(), Verdict::Reschedule { lane, due: delay.into() }));
                handled.outlook = outlook;
            }
            Err(outlook) => {
                handled.release.push(job.clone());
                handled.outlook = outlook;
            }
        }
    }

    /// When a source is polled next, or what keeps everybody from it: then it is released.
    async fn judged(
        &self,
        name: &str,
        polled: Result<Millis, Ended>,
        before: Option<&SourceTrouble>,
    ) -> Result<Next, Outlook> {
        let (why, is_out, is_own) = match polled {
            Ok(delay) => {
                if let Some(trouble) = before {
                    tracing::info!(source = name, failures = trouble.failures, "a source is read again");
                }
                return Ok(Next { delay, lane: lane(delay), outlook: Outlook::Fine });
            }
            Err(Ended::Later(outlook)) => return Err(outlook),
            Err(Ended::Failed { why, is_out }) => (why, is_out, false),
            Err(Ended::Source(why)) => (why, false, true),
        };
        let source = (self.namespace.as_str(), name);
        let Pace { shortest, longest, .. } = self.pace;
        let (positions, namespaces) = (&*self.positions, &self.in_common.namespaces);
        let judging = judge(positions, namespaces, source, before, &why, longest, clock::wall_ms());
        let Judged { trouble, is_alone } = self.in_time(judging).await?;
        let delay = match (is_own, is_alone) {
            (true, _) => clock::millis(longest),
            (false, true) => pause(shortest, longest, trouble.failures),
            (false, false) => self.pace.first(),
        };
        // Behind those that are read, where the quota is short.
        let lane = if is_own || is_alone { lane(clock::millis(longest)) } else { lane(delay) };
        tracing::warn!(
            source = name,
            error = why,
            tried_again_in_ms = delay,
            others_are_read = is_alone,
            "a source cannot be read"
        );
        // Each has one try before it is an outage: another may be read.
        let outlook = if is_out && !is_alone && before.is_some() { Outlook::Outage(why) } else { Outlook::Unchanged };
        Ok(Next { delay, lane, outlook })
    }
}

/// When a source is polled next.
struct Next {
    delay: Millis,
    lane: Lane,
    outlook: Outlook,
}

/// As the store keeps it.
fn gap(gap: &paging::Gap, noted_at: Millis) -> SourceGap {
    SourceGap { from: gap.from.to_string(), to: gap.to.to_string(), reason: gap.reason.to_string(), noted_at }
}

#[async_trait]
impl Handler for SourcePoll {
    fn endpoint(&self) -> &'static str {
        self.endpoint
    }

    async fn handle(&self, batch: &Batch, permit: Permit) -> Handled {
        let (mut permit, mut handled) = (Some(permit), Handled::default());
        for job in &batch.jobs {
            match handled.outlook {
                Outlook::Fine => self.handle_one(job, batch, &mut permit, &mut handled).await,
                _ => handled.release.push(job.clone()),
            }
        }
        if let Some(permit) = permit {
            self.credentials.give_back(permit).await;
        }
        handled
    }
}
