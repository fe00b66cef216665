//! Reads a timeline page by page, and misses no post: the common part of the polls of sources and the visits of accounts.
//!
//! ```text
//!   position ─▶ page ─▶ queue_tweets ─▶ tell ─▶ save position and notes ─▶ the round is at its end
//!    (store)     ▲       (store, queue)                 (store)          │
//!                └─────────────────── not at the end yet ────────────────┘
//! ```
//!
//! After a crash the last page is read again. The very first page has no earlier position: the start of its posts is saved before them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use super::counters::Polls;
use super::dates::dated;
use super::hand_over::{HandOver, Lines};
use super::paging::{self, NotHeeded, Position, Taken};
use super::trouble::{Judged, Refusals, counted, judge};
use crate::base::clock::{self, Millis};
use crate::base::failpoint;
use crate::engine::error_log::{ErrorKind, ErrorPlace};
use crate::engine::metrics::Metrics;
use crate::engine::queue::Batch;
use crate::engine::worker::Outlook;
use crate::ingest::{Starter, StarterError};
use crate::pipelines::blame::{Testimony, park_of_witness, permit_for};
use crate::pipelines::page_call::{self, Failed, Reservation};
use crate::pipelines::store_call;
use crate::providers::lookup::LookupError;
use crate::providers::metered::{CallReport, metered};
use crate::providers::source::Source;
use crate::providers::timeline::{Ask, Page, Post, Rules, Timeline};
use crate::quota::{Acquired, Credential, Credentials, Permit};
use crate::store::{Positions, SavedPage, SavedSource, SourceGap, SourceTrouble, StoreError, Way};

/// Posts requested from a witness. No API rejects a page of this size.
const WITNESS_POSTS: u32 = 10;

pub struct Reader {
    pub namespace: String,
    pub endpoint: &'static str,
    /// Maximum pages per poll.
    pub pages: u32,
    pub starter: Starter,
    pub way: &'static str,
    /// Stores posts that are too old to be looked up.
    pub keeps_old: bool,
    pub positions: Arc<dyn Positions>,
    pub credentials: Arc<Credentials>,
    pub call_timeout: Duration,
    /// Time limit of store and queue for a page.
    pub save_timeout: Duration,
    /// Longest interval of any source: one that was read within it shows that the provider works.
    pub longest: Duration,
    pub metrics: Arc<Metrics>,
    pub polls: Arc<Polls>,
    pub in_common: InCommon,
}

/// Learns from the pages of a timeline, before each is saved.
#[async_trait]
pub(crate) trait Learning: Send {
    /// Starts from the position after the last poll.
    fn goes_on_from(&mut self, _position: &Position) {}

    /// Learns from a page. `fresh`: dates of the posts that are new in its round, ms since the epoch; `full`: posts of a full page.
    /// Returns the interval until the next round, ms, at the end of a round.
    fn page(&mut self, position: &mut Option<Position>, taken: &Taken, fresh: &[Millis], full: u32) -> Option<Millis>;

    /// Gets the posts of a page before they are handed over; `made_at`: their dates, ms since the epoch.
    async fn posts(&mut self, _posts: &[Post], _made_at: &[Millis]) -> Result<(), Outlook> {
        Ok(())
    }

    /// Called after the hand-over and before the position is saved: a page whose reader dies here is read again.
    async fn handed_over(&mut self) -> Result<(), Outlook> {
        Ok(())
    }

    fn notes(&self) -> Option<String> {
        None
    }
}

/// State shared by all sources of a provider, in one process.
#[derive(Debug, Clone)]
pub struct InCommon {
    /// Namespaces of all its endpoints: any of them can show that it answers.
    pub namespaces: Arc<[String]>,
    pub refusals: Refusals,
    lines: Arc<Lines>,
}

impl InCommon {
    pub fn new(namespaces: impl IntoIterator<Item = String>) -> Self {
        let namespaces = namespaces.into_iter().collect();
        Self { namespaces, refusals: Refusals::default(), lines: Arc::default() }
    }
}

#[derive(Debug)]
pub(crate) enum Ended {
    /// Our own services are down, or no call is allowed: later, unchanged.
    Later(Outlook),
    /// The API gave no page: the fault is the provider's or the source's.
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

impl Reader {
    /// Reads a source until nothing is left, or its turn ends. Returns the time until the next round, ms, at the end of a round.
    pub(crate) async fn read(
        &self,
        name: &str,
        Source { timeline, query }: Source,
        saved: &SavedSource,
        (batch, permit): (&Batch, &mut Option<Permit>),
        learning: &mut dyn Learning,
    ) -> Result<Option<Millis>, Ended> {
        let mut position: Option<Position> = match &saved.position {
            None => None,
            Some(text) => Some(serde_json::from_str(text).map_err(|error| {
                let (line, column) = (error.line(), error.column());
                Ended::Source(format!(
                    "its position in the store cannot be read (line {line}, column {column}): fix it, or delete its \
                     row in source_position, and the source starts again with its newest page"
                ))
            })?),
        };
        if let Some(position) = &position {
            learning.goes_on_from(position);
        }
        for _ in 0..self.pages {
            let Some(leave) = self.leave(permit, batch).await else { break };
            let now = clock::wall_ms();
            let rules = timeline.rules();
            let ask = paging::ask(position.as_ref(), &rules, now);
            // The start of the request dates the page, on the queue's clock, like the answer of a lookup.
            let read_at = batch.now.now().min(batch.fence.deadline - 1);
            let page = self.call((name, &timeline), saved.trouble.as_ref(), (&ask, leave), batch).await?;
            failpoint::point("after_answer");
            let promised = position.as_ref().map_or(0, |position| position.since);
            let known = position.as_ref().and_then(newest_known);
            let ids: Vec<u64> = page.posts.iter().map(|post| post.id).collect();
            let made_at: Vec<Millis> = page.posts.iter().map(|post| made_at(post, &rules, now)).collect();
            let fresh = fresh(&page.posts, &made_at, known);
            let is_first = position.is_none();
            let taken = paging::take(&mut position, &rules, &ask, &ids, page.more.clone(), &page.reading)?;
            if let (true, Some(whole), Some(least)) = (is_first, &position, ids.iter().min()) {
                let start = Position { since: whole.since.min(least.saturating_sub(1)), ..Position::default() };
                if !self.begin(name, &start, now, saved.followed_at).await? {
                    return Ok(None);
                }
            }
            learning.posts(&page.posts, &made_at).await?;
            let handed = self.hand_over(name, query.clone(), read_at).page(&rules, page, &taken, promised).await?;
            learning.handed_over().await?;
            let interval = learning.page(&mut position, &taken, &fresh, rules.count);
            let notes = learning.notes();
            let gaps: Vec<SourceGap> = taken.gaps.iter().map(|missing| gap(missing, now)).collect();
            let text = text_of(&position)?;
            failpoint::point("before_commit");
            let brought = handed > 0;
            let (notes, followed_at) = (notes.as_deref(), saved.followed_at);
            let read = SavedPage { at: now, position: &text, gaps: &gaps, brought, notes, followed_at };
            if !self.in_time(self.positions.save_page(&self.namespace, name, &read)).await? {
                return Ok(None);
            }
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
            if interval.is_some() {
                return Ok(interval);
            }
        }
        Ok(None)
    }

    /// Saves the start of the very first page, before its posts are handed over: a later process goes back to there, over any number of
    /// posts. Returns false like [`Positions::save_page`].
    async fn begin(
        &self,
        name: &str,
        position: &Position,
        at: Millis,
        followed_at: Option<Millis>,
    ) -> Result<bool, Outlook> {
        let text = text_of(&position)?;
        let read = SavedPage { at, position: &text, gaps: &[], brought: false, notes: None, followed_at };
        self.in_time(self.positions.save_page(&self.namespace, name, &read)).await
    }

    fn hand_over<'a>(&'a self, source: &'a str, query: Option<String>, read_at: Millis) -> HandOver<'a> {
        let way = Way { source: source.to_owned(), query, ..Way::of(self.way) };
        let starter = self.starter.clone().by(way).within(self.save_timeout);
        let (polls, lines, keeps_old) = (&self.polls, &self.in_common.lines, self.keeps_old);
        HandOver { source, starter, polls, lines, keeps_old, read_at }
    }

    /// Acquires a permit for one more page: the claim's own, then one that is free at once, while there is time for it.
    async fn leave(&self, permit: &mut Option<Permit>, batch: &Batch) -> Option<Permit> {
        if let Some(permit) = permit.take() {
            return Some(permit);
        }
        if !self.has_time(batch) {
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

    /// Returns true if the lease has time for a page (call, hand-over, position) and the settle: less than `timeline_lease`.
    fn has_time(&self, batch: &Batch) -> bool {
        batch.fence.deadline - batch.now.now() >= clock::millis(self.call_timeout + 4 * self.save_timeout)
    }

    async fn call(
        &self,
        (name, timeline): (&str, &Arc<dyn Timeline>),
        trouble: Option<&SourceTrouble>,
        (ask, permit): (&Ask, Permit),
        batch: &Batch,
    ) -> Result<Page, Ended> {
        let (reservation, permit) = Reservation::make(&self.credentials, permit, ask.count).await?;
        let is_trial = permit.is_trial();
        let call = async |credential: &Credential| self.page((name, &**timeline), ask, credential).await;
        let accounting = async |credential: &Credential, answer: &Result<Page, LookupError>| {
            let blames_credential = self.in_common.refusals.record_answer(&credential.name, (name, timeline), answer);
            let mut park = answer.as_ref().err().and_then(LookupError::park).filter(|_| blames_credential);
            let is_refusal = answer.as_ref().is_err_and(LookupError::is_about_credential);
            if park.is_some()
                && (self.fails_alone(name, trouble).await
                    || is_refusal && !is_trial && self.credential_may_work(name, credential, batch).await)
            {
                park = None;
            }
            if let (Some(park), true) = (&park, is_refusal) {
                let place = ErrorPlace { endpoint: self.endpoint, ..ErrorPlace::default() };
                self.metrics.errors.record(ErrorKind::Credential, &park.why, place);
            }
            let quota = answer.as_ref().ok().and_then(|page| page.quota);
            CallReport { quota, park, charged: reservation.charged(answer, ids) }
        };
        let answer = metered(&self.credentials, permit, call, accounting).await;
        answer.map_err(|error| match Failed::from(error) {
            Failed::Api(why) => Ended::Failed { why, is_out: true },
            Failed::Credential(why) => Ended::Failed { why, is_out: false },
            Failed::Item(why) => Ended::Source(why),
            Failed::Clock(why) => Ended::Later(Outlook::Outage(why)),
            Failed::Process(why) => Ended::Later(Outlook::Stop(why)),
        })
    }

    async fn page(
        &self,
        (name, timeline): (&str, &dyn Timeline),
        ask: &Ask,
        credential: &Credential,
    ) -> Result<Page, LookupError> {
        page_call::in_time(&self.metrics, (self.endpoint, name), self.call_timeout, timeline.page(ask, credential))
            .await
    }

    /// Returns true if the API shows another source to this credential, or if that is unknown (no call left, an outage). Returns false if
    /// the API refuses all witnesses, or if there is no witness or no time for one.
    async fn credential_may_work(&self, name: &str, credential: &Credential, batch: &Batch) -> bool {
        let refusals = &self.in_common.refusals;
        for (witness, timeline) in refusals.witnesses(&credential.name, name) {
            if !self.has_time(batch) {
                return false;
            }
            match self.ask_for_witness((&witness, &timeline), credential).await {
                Testimony::Refused => refusals.remove_witness(&credential.name, &witness),
                Testimony::Answered => {
                    tracing::info!(
                        source = name,
                        credential = credential.name,
                        witness,
                        "the API refuses a source but shows another to the same credential"
                    );
                    return true;
                }
                Testimony::None(why) => {
                    tracing::info!(
                        source = name,
                        witness,
                        why,
                        "unknown whether a refused credential works: no other source could be read"
                    );
                    return true;
                }
            }
        }
        false
    }

    /// Requests a few posts of a source that the API showed to this credential before; they are dropped.
    async fn ask_for_witness(
        &self,
        (witness, timeline): (&str, &Arc<dyn Timeline>),
        credential: &Credential,
    ) -> Testimony {
        let rules = timeline.rules();
        let permit = match permit_for(&self.credentials, credential, rules.endpoint).await {
            Ok(permit) => permit,
            Err(why) => return Testimony::None(why),
        };
        let ask = Ask { since: None, below: None, cursor: None, count: rules.count.min(WITNESS_POSTS) };
        let Ok((reservation, permit)) = Reservation::make(&self.credentials, permit, ask.count).await else {
            return Testimony::None("the budget of reads has no room".to_owned());
        };
        let call = async |credential: &Credential| self.page((witness, &**timeline), &ask, credential).await;
        let accounting = async |credential: &Credential, answer: &Result<Page, LookupError>| {
            self.in_common.refusals.record_answer(&credential.name, (witness, timeline), answer);
            CallReport {
                quota: answer.as_ref().ok().and_then(|page| page.quota),
                park: park_of_witness(answer),
                charged: reservation.charged(answer, ids),
            }
        };
        metered(&self.credentials, permit, call, accounting).await.into()
    }

    /// Returns true if others are read since a source started to fail: its refusal says nothing about the credential.
    async fn fails_alone(&self, name: &str, trouble: Option<&SourceTrouble>) -> bool {
        let Some(trouble) = trouble else { return false };
        let within = counted(trouble.since, self.longest, clock::wall_ms());
        let (namespaces, source) = (&self.in_common.namespaces, (self.namespace.as_str(), name));
        let asked = self.in_time(self.positions.is_another_read(namespaces, source, within)).await;
        asked.unwrap_or(false) // unknown: the credential is left alone
    }

    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, Outlook> {
        store_call::in_time(self.save_timeout, work).await
    }

    /// Judges and saves why a source could not be read; `before` is the trouble of its last poll. An error affects all sources.
    pub(crate) async fn trouble(
        &self,
        name: &str,
        ended: Ended,
        before: Option<&SourceTrouble>,
    ) -> Result<Trouble, Outlook> {
        let (why, is_out, is_own) = match ended {
            Ended::Later(outlook) => return Err(outlook),
            Ended::Failed { why, is_out } => (why, is_out, false),
            Ended::Source(why) => (why, false, true),
        };
        let source = (self.namespace.as_str(), name);
        let (positions, namespaces) = (&*self.positions, &self.in_common.namespaces);
        let judging = judge(positions, namespaces, source, before, &why, self.longest, clock::wall_ms());
        let Judged { trouble, is_alone } = self.in_time(judging).await?;
        // Each source has one try before it is an outage: another one may be read.
        let is_outage = is_out && !is_alone && before.is_some();
        let outlook = if is_outage { Outlook::Outage(why.clone()) } else { Outlook::Unchanged };
        Ok(Trouble { why, is_own, is_alone, failures: trouble.failures, since: trouble.since, outlook })
    }
}

pub(crate) struct Trouble {
    pub why: String,
    /// True if it concerns only this source.
    pub is_own: bool,
    /// Others are read.
    pub is_alone: bool,
    /// Failures in a row, while others were read.
    pub failures: u32,
    /// Start of the failures, ms since the epoch.
    pub since: Millis,
    pub outlook: Outlook,
}

/// Ids of a page's posts. Each counts as a read.
fn ids(page: &Page) -> Vec<String> {
    page.posts.iter().map(|post| post.id.to_string()).collect()
}

fn text_of(position: &impl Serialize) -> Result<String, Outlook> {
    serde_json::to_string(position).map_err(|error| Outlook::Stop(format!("cannot write a position: {error}")))
}

/// The newest id that was known when the round began.
fn newest_known(position: &Position) -> Option<u64> {
    position.open.as_ref().map_or(position.latest, |round| round.known)
}

/// Dates of the posts that are newer than `known`, ms since the epoch.
fn fresh(posts: &[Post], made_at: &[Millis], known: Option<u64>) -> Vec<Millis> {
    let is_new = |post: &Post| known.is_none_or(|known| post.id > known);
    posts.iter().zip(made_at).filter(|(post, _)| is_new(post)).map(|(_, at)| *at).collect()
}

/// Date of a post that was read at `now`, ms since the epoch.
fn made_at(post: &Post, rules: &Rules, now: Millis) -> Millis {
    let by_place = rules.layout.made_at(post.id);
    dated(post.tweet.created_at, Some(by_place), now).at.unwrap_or(by_place)
}

fn gap(gap: &paging::Gap, noted_at: Millis) -> SourceGap {
    SourceGap { from: gap.from.to_string(), to: gap.to.to_string(), reason: gap.reason.to_string(), noted_at }
}
