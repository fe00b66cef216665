//! A source: a timeline that is polled as a job of a delayed queue, by the [worker](crate::worker)'s loop.
//!
//! ```text
//!   claim ─▶ position ─▶ page ─▶ queue_tweets ─▶ save position ─┬─▶ settle: due again after the interval
//!             (store)     ▲       (store, queue)     (store)     │
//!                         └────── not at the end yet ────────────┘
//! ```
//!
//! A crash anywhere has the last page read again: its posts are known then. Nothing is kept in the process
//! between two polls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::pace::{Pace, lane};
use super::paging::{self, NotHeeded, Position, Taken};
use super::places::Places;
use super::timeline::{Page, Timeline};
use crate::clock::{self, Millis};
use crate::crash;
use crate::credential::{Credentials, Leave, Permit, Used, Window};
use crate::lookup::LookupError;
use crate::metrics::Polls;
use crate::provider::Provider;
use crate::queue::{Batch, Job, NewJob, Queue, QueueError, Verdict};
use crate::starter::{Ingested, Queued, Starter, StarterError};
use crate::store::{Positions, SavedPage, SourceGap, StoreError, Way};
use crate::worker::{Handled, Handler, Outlook};

/// The pipeline's name. Sources share calls with nobody but those of their endpoint, so each endpoint has a namespace:
/// its permits are for that endpoint.
pub const PIPELINE: &str = "source:poll";

/// The namespace of an endpoint's sources on Twitter.
#[must_use]
pub fn namespace(endpoint: &str) -> String {
    format!("{PIPELINE}:{endpoint}")
}

/// The namespace of an endpoint's sources; each provider's endpoints are its own.
///
/// ```
/// # use twitter_updater::poll::source::namespace_of;
/// # use twitter_updater::provider::Provider;
/// assert_eq!(namespace_of(&Provider::Twitter, "search/tweets"), "source:poll:search/tweets");
/// let instance = Provider::Mastodon("social".to_owned());
/// assert_eq!(namespace_of(&instance, "statuses"), "source:poll:mastodon:social:statuses");
/// ```
#[must_use]
pub fn namespace_of(provider: &Provider, endpoint: &str) -> String {
    match provider {
        Provider::Twitter => namespace(endpoint),
        other => namespace(&format!("{other}:{endpoint}")),
    }
}

/// The sources of one endpoint, and what is done with their posts.
pub struct SourcePoll {
    /// Its namespace, as in the queue.
    pub namespace: String,
    /// The endpoint of all of them.
    pub endpoint: &'static str,
    /// By name.
    pub sources: BTreeMap<String, Arc<dyn Timeline>>,
    /// The query or account that each asks for, of those that ask for one.
    pub queries: BTreeMap<String, String>,
    /// How often they are polled.
    pub pace: Pace,
    /// Pages in one poll, at the most.
    pub pages: u32,
    /// Takes the posts.
    pub starter: Starter,
    /// Where positions are.
    pub positions: Arc<dyn Positions>,
    /// Where each further page gets leave to call.
    pub credentials: Arc<Credentials>,
    /// How long a call may take.
    pub call_timeout: Duration,
    /// How long the store and the queue may take for a page.
    pub save_timeout: Duration,
    /// What is counted.
    pub polls: Arc<Polls>,
}

/// Why a poll ended early.
#[derive(Debug)]
enum Ended {
    /// The services are out, or nobody may call: later, as it was.
    Later(Outlook),
    /// It is about this source alone.
    Source(String),
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Self::Later(Outlook::Outage(error.to_string()))
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
    /// Puts the sources into their queue; those that are there stay as they are.
    ///
    /// # Errors
    /// The queue is out.
    pub async fn schedule(&self, queue: &dyn Queue) -> Result<(), QueueError> {
        let lane = lane(self.pace.first());
        let jobs: Vec<_> =
            self.sources.keys().map(|name| NewJob { id: name.clone(), lane: lane.clone(), delay: 0 }).collect();
        queue.schedule(&jobs).await.map(drop)
    }

    /// Reads a source until nothing is left, or it is somebody else's turn; answers how long until the next time.
    async fn poll(
        &self,
        name: &str,
        timeline: &dyn Timeline,
        batch: &Batch,
        permit: &mut Option<Permit>,
    ) -> Result<Millis, Ended> {
        let saved = self.in_time(self.positions.saved(&self.namespace, name)).await?.position;
        let mut position: Option<Position> = match saved {
            None => None,
            Some(text) => Some(serde_json::from_str(&text).map_err(|error| {
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
            let page = self.read(timeline, &ask, leave).await?;
            crash::point("after_answer");
            let ids: Vec<u64> = page.posts.iter().map(|post| post.id).collect();
            let taken = paging::take(&mut position, &rules, &ask, &ids, page.more.clone(), &page.reading)?;
            let handed = self.hand_over(name, page, &taken).await?;
            let interval = self.paced(&mut position, &taken, rules.count);
            let gaps: Vec<SourceGap> = taken.gaps.iter().map(|missing| gap(missing, now)).collect();
            let text = serde_json::to_string(&position)
                .map_err(|error| Ended::Later(Outlook::Stop(format!("cannot write a position: {error}"))))?;
            crash::point("before_commit");
            let saved = SavedPage { at: now, position: &text, gaps: &gaps, brought: handed > 0 };
            self.in_time(self.positions.save_page(&self.namespace, name, &saved)).await?;
            crash::point("after_commit");
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

    /// The next interval, kept with the position, where a round is at its end.
    fn paced(&self, position: &mut Option<Position>, taken: &Taken, page: u32) -> Option<Millis> {
        let (whole, position) = (taken.whole?, position.as_mut()?);
        let before = position.interval.unwrap_or(self.pace.first());
        // What the first page holds may have come in a year.
        let next = whole.elapsed.map_or(before, |elapsed| self.pace.next(before, whole.fresh, elapsed, page));
        position.interval = Some(next);
        Some(next)
    }

    /// Leave for one more page: the claim's own, then one that is to be had at once, while there is time for it.
    async fn leave(&self, permit: &mut Option<Permit>, batch: &Batch) -> Option<Permit> {
        if let Some(permit) = permit.take() {
            return Some(permit);
        }
        // A page needs a call, the hand-over and the position, and so does the settling.
        let needed = clock::millis(self.call_timeout + 3 * self.save_timeout);
        if batch.fence.deadline - batch.now.now() < needed {
            return None;
        }
        match self.credentials.acquire(self.endpoint, 0).await {
            Ok(Leave::Granted(permit)) => Some(permit),
            Ok(Leave::Wait(_)) => None,
            Err(error) => {
                tracing::warn!(error = %error, "no leave for another page: the ledger is out");
                None
            }
        }
    }

    /// One call, accounted for.
    async fn read(&self, timeline: &dyn Timeline, ask: &paging::Ask, permit: Permit) -> Result<Page, Ended> {
        let places = Places::of(ask.count);
        match self.credentials.reserve_all(&permit, places.names()).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::debug!(posts = ask.count, "the budget of reads has no room for a page");
                self.credentials.give_back(permit).await;
                return Err(Ended::Later(Outlook::Unchanged));
            }
            Err(error) => {
                self.credentials.give_back(permit).await;
                return Err(Ended::Later(Outlook::Outage(error.to_string())));
            }
        }
        let answer = tokio::time::timeout(self.call_timeout, timeline.page(ask, &permit.credential)).await;
        let answer = answer.unwrap_or_else(|_| {
            Err(LookupError::Outage(format!("no whole answer within {} ms", self.call_timeout.as_millis())))
        });
        let window = match &answer {
            Ok(page) => Some(page.quota.unwrap_or_else(Window::unmetered)),
            Err(LookupError::Throttled { quota, .. }) => *quota,
            Err(_) => None,
        };
        let park = answer.as_ref().err().and_then(LookupError::park);
        self.credentials.settle(&permit, &places.settled(&answer)).await;
        self.credentials.used(permit, Used { window, park }).await;
        answer.map_err(|error| match error {
            LookupError::Outage(_) | LookupError::BadAnswer(_) => Ended::Later(Outlook::Outage(error.to_string())),
            LookupError::Throttled { .. }
            | LookupError::Credential(_)
            | LookupError::Unready(_)
            | LookupError::Clock(_) => {
                tracing::warn!(error = %error, "a poll gave nothing");
                Ended::Later(Outlook::Unchanged)
            }
            LookupError::BatchTooLarge(_) | LookupError::BadRequest(_) => Ended::Source(error.to_string()),
            LookupError::Stop(why) => Ended::Later(Outlook::Stop(why)),
        })
    }

    /// Records and schedules the posts of a source's page. Answers how many were not known.
    async fn hand_over(&self, name: &str, page: Page, taken: &Taken) -> Result<usize, Ended> {
        let posts =
            page.posts.into_iter().filter(|post| taken.hand_over.binary_search_by(|id| post.id.cmp(id)).is_ok());
        let posts: Vec<Ingested> = posts.map(|post| Ingested::from(post.tweet)).collect();
        if posts.is_empty() {
            return Ok(0);
        }
        let query = self.queries.get(name).cloned();
        let way = Way { source: name.to_owned(), query, ..Way::of("poll") };
        let starter = self.starter.clone().by(way);
        let answers = self.in_time(starter.queue_tweets(posts)).await?;
        // It was there to be read, so it is no bad post: most likely our clock is far behind, and dates are
        // in its future. Passed over it would be lost.
        if let Some(why) = answers.iter().find_map(|answer| match answer {
            Queued::Refused(why) => Some(why),
            _ => None,
        }) {
            let why = format!("a post that was read cannot be scheduled: {why}; is this machine's clock right?");
            return Err(Ended::Later(Outlook::Outage(why)));
        }
        Ok(answers.iter().filter(|answer| **answer == Queued::Scheduled).count())
    }

    /// What takes longer than the store and the queue may.
    async fn in_time<T, E>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, Ended>
    where
        Ended: From<E>,
    {
        match tokio::time::timeout(self.save_timeout, work).await {
            Ok(answer) => answer.map_err(Ended::from),
            Err(_) => {
                let why = format!("the store or the queue did not answer within {} ms", self.save_timeout.as_millis());
                Err(Ended::Later(Outlook::Outage(why)))
            }
        }
    }

    async fn handle_one(&self, job: &Job, batch: &Batch, permit: &mut Option<Permit>, handled: &mut Handled) {
        let due_in = |delay| Verdict::Reschedule { lane: lane(delay), delay };
        let Some(timeline) = self.sources.get(&job.id) else {
            // Whoever has it in its settings schedules it again; its position stays.
            tracing::info!(source = job.id, "no longer in the settings: not polled any more");
            handled.verdicts.push((job.clone(), Verdict::Finish));
            return;
        };
        let polled = self.poll(&job.id, &**timeline, batch, permit).await;
        self.polls.polls.add(1);
        self.polls.polls_failed.add(usize::from(polled.is_err()));
        match polled {
            Ok(interval) => handled.verdicts.push((job.clone(), due_in(interval))),
            Err(Ended::Source(why)) => {
                tracing::warn!(
                    source = job.id,
                    error = why,
                    "a source cannot be polled: tried again at the longest interval"
                );
                handled.verdicts.push((job.clone(), due_in(clock::millis(self.pace.longest))));
            }
            Err(Ended::Later(outlook)) => {
                handled.release.push(job.clone());
                handled.outlook = outlook;
            }
        }
    }
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
