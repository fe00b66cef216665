//! Reads a timeline page by page and misses no post, for polls of sources and visits of accounts.
//!
//! ```text
//!   position ─▶ page ─▶ queue_tweets ─▶ notify ─▶ save position and notes ─▶ the round is at its end
//!    (store)     ▲       (store, queue)                   (store)          │
//!                └──────────────────── not at the end yet ─────────────────┘
//! ```
//!
//! After a crash the last page is read again. The very first page has no earlier position: the start of its posts is saved before them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use super::counters::PollCounters;
use super::dates::choose_date;
use super::hand_over::{LogLimits, PageHandOver};
use super::paging::{self, PageResult, Position, RequestIgnored};
use super::trouble::{JudgedTrouble, Refusals, evidence_period, judge_and_save};
use crate::ingest::{Starter, StarterError};
use crate::pipelines::blame::{Testimony, acquire_witness_permit, park_after_witness};
use crate::pipelines::page_call::{self, FailureCause, Reservation};
use crate::pipelines::store_call;
use engine::base::call_error::ErrorKind;
use engine::base::clock::{self, Millis};
use engine::base::failpoint;
use engine::error_log::ErrorPlace;
use engine::metrics::Metrics;
use engine::queue::Batch;
use engine::quota::{AcquireOutcome, Credential, Credentials, Permit};
use engine::worker::Outlook;
use networks::providers::lookup::LookupError;
use networks::providers::metered::{CallReport, make_metered_call};
use networks::providers::source::Source;
use networks::providers::timeline::{Page, Post, Rules, Timeline, TimelineRequest};
use store::{Positions, SavedPage, SavedSource, SourceGap, SourceTrouble, StoreError, Way};

/// Posts requested from a witness. No API rejects a page of this size.
const WITNESS_POSTS: u32 = 10;

pub struct Reader {
    pub namespace: String,
    pub endpoint: &'static str,
    /// Maximum pages per poll.
    pub pages: u32,
    pub starter: Starter,
    pub way: &'static str,
    /// True: stores posts that are too old to be looked up.
    pub stores_old: bool,
    pub positions: Arc<dyn Positions>,
    pub credentials: Arc<Credentials>,
    pub call_timeout: Duration,
    /// Time limit of store and queue for a page.
    pub save_timeout: Duration,
    /// Longest interval of any source: one that was read within it shows that the provider works.
    pub longest: Duration,
    pub metrics: Arc<Metrics>,
    pub polls: Arc<PollCounters>,
    pub shared_state: SharedState,
}

/// Observes the pages of a timeline, before each is saved.
#[async_trait]
pub(crate) trait PageObserver: Send {
    /// Called with the position after the last poll.
    fn resume_from(&mut self, _position: &Position) {}

    /// Called with each page. `fresh`: creation dates of the posts that are new in this round, ms since the epoch; `full`: number of
    /// posts of a full page. Returns the interval until the next round, ms, at the end of a round, else `None`.
    fn observe_page(
        &mut self,
        position: &mut Option<Position>,
        taken: &PageResult,
        fresh: &[Millis],
        full: u32,
    ) -> Option<Millis>;

    /// Called with the posts of a page before they are handed over to the starter; `made_at`: their creation dates, ms since the
    /// epoch. An error ends the read, and the page is read again.
    async fn observe_posts(&mut self, _posts: &[Post], _made_at: &[Millis]) -> Result<(), Outlook> {
        Ok(())
    }

    /// Called after the hand-over and before the position is saved: a page whose reader dies here is read again.
    async fn after_hand_over(&mut self) -> Result<(), Outlook> {
        Ok(())
    }

    fn notes(&self) -> Option<String> {
        None
    }
}

/// State shared by all sources of a provider, in one process.
#[derive(Debug, Clone)]
pub struct SharedState {
    /// Namespaces of all its endpoints: any of them can show that it answers.
    pub namespaces: Arc<[String]>,
    pub refusals: Refusals,
    log_limits: Arc<LogLimits>,
}

impl SharedState {
    pub fn new(namespaces: impl IntoIterator<Item = String>) -> Self {
        let namespaces = namespaces.into_iter().collect();
        Self { namespaces, refusals: Refusals::default(), log_limits: Arc::default() }
    }
}

#[derive(Debug)]
pub(crate) enum ReadError {
    /// Our own services are down, or no call is allowed: later, unchanged.
    Later(Outlook),
    /// The API gave no page: the fault is the provider's or the source's.
    Failed { why: String, is_out: bool },
    /// The failure concerns only this source.
    Source(String),
}

impl From<Outlook> for ReadError {
    fn from(outlook: Outlook) -> Self {
        Self::Later(outlook)
    }
}

impl From<StarterError> for ReadError {
    fn from(error: StarterError) -> Self {
        Self::Later(Outlook::Outage(error.to_string()))
    }
}

impl From<RequestIgnored> for ReadError {
    fn from(error: RequestIgnored) -> Self {
        Self::Source(error.to_string())
    }
}

impl Reader {
    /// Reads a source until nothing is left, or its turn ends. Returns the interval until the next round, ms, at the end of a round.
    pub(crate) async fn read(
        &self,
        name: &str,
        Source { timeline, query }: Source,
        saved: &SavedSource,
        (batch, permit): (&Batch, &mut Option<Permit>),
        observer: &mut dyn PageObserver,
    ) -> Result<Option<Millis>, ReadError> {
        let mut position: Option<Position> = match &saved.position {
            None => None,
            Some(text) => Some(serde_json::from_str(text).map_err(|error| {
                let (line, column) = (error.line(), error.column());
                ReadError::Source(format!(
                    "its position in the store cannot be read (line {line}, column {column}): fix it, or delete its \
                     row in source_position, and the source starts again with its newest page"
                ))
            })?),
        };
        if let Some(position) = &position {
            observer.resume_from(position);
        }
        for _ in 0..self.pages {
            let Some(page_permit) = self.acquire_permit(permit, batch).await else { break };
            let now = clock::wall_ms();
            let rules = timeline.rules();
            let request = paging::next_request(position.as_ref(), &rules, now);
            // The start of the request dates the page, on the queue's clock, like the answer of a lookup.
            let read_at = batch.answer_time();
            let page =
                self.request_page((name, &timeline), saved.trouble.as_ref(), (&request, page_permit), batch).await?;
            failpoint::point("after_answer");
            let promised = position.as_ref().map_or(0, |position| position.since);
            let known = position.as_ref().and_then(newest_known);
            let ids: Vec<u64> = page.posts.iter().map(|post| post.id).collect();
            let made_at: Vec<Millis> = page.posts.iter().map(|post| creation_date(post, &rules, now)).collect();
            let fresh = new_post_dates(&page.posts, &made_at, known);
            let is_first = position.is_none();
            let taken = paging::apply_page(&mut position, &rules, &request, &ids, page.more.clone(), &page.reading)?;
            if let (true, Some(whole), Some(least)) = (is_first, &position, ids.iter().min()) {
                let start = Position { since: whole.since.min(least.saturating_sub(1)), ..Position::default() };
                if !self.save_start(name, &start, now, saved.followed_at).await? {
                    return Ok(None);
                }
            }
            observer.observe_posts(&page.posts, &made_at).await?;
            let handed =
                self.page_hand_over(name, query.clone(), read_at).hand_over(&rules, page, &taken, promised).await?;
            observer.after_hand_over().await?;
            let interval = observer.observe_page(&mut position, &taken, &fresh, rules.count);
            let notes = observer.notes();
            let gaps: Vec<SourceGap> = taken.gaps.iter().map(|missing| gap_row(missing, now)).collect();
            let text = position_json(&position)?;
            failpoint::point("before_commit");
            let has_new_posts = handed > 0;
            let (notes, followed_at) = (notes.as_deref(), saved.followed_at);
            // An empty first page replaces no start of another process.
            let is_start = is_first && ids.is_empty();
            let read = SavedPage { at: now, position: &text, is_start, gaps: &gaps, has_new_posts, notes, followed_at };
            if !self.run_with_timeout(self.positions.save_page(&self.namespace, name, &read)).await? {
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
                whole = taken.finished_round.is_some(),
                "read a page"
            );
            if interval.is_some() {
                return Ok(interval);
            }
        }
        Ok(None)
    }

    /// Saves the start of the very first page, before the hand-over: a later process reads back to it. Returns false if nothing was
    /// saved because another process has saved a start, or because the account is no longer followed, or was followed again.
    async fn save_start(
        &self,
        name: &str,
        position: &Position,
        at: Millis,
        followed_at: Option<Millis>,
    ) -> Result<bool, Outlook> {
        let text = position_json(&position)?;
        let read = SavedPage {
            at,
            position: &text,
            is_start: true,
            gaps: &[],
            has_new_posts: false,
            notes: None,
            followed_at,
        };
        self.run_with_timeout(self.positions.save_page(&self.namespace, name, &read)).await
    }

    fn page_hand_over<'a>(&'a self, source: &'a str, query: Option<String>, read_at: Millis) -> PageHandOver<'a> {
        let way = Way { source: source.to_owned(), query, ..Way::new(self.way) };
        let starter = self.starter.clone().with_way(way).with_timeout(self.save_timeout);
        let (polls, log_limits, stores_old) = (&self.polls, &self.shared_state.log_limits, self.stores_old);
        PageHandOver { source, starter, polls, log_limits, stores_old, read_at }
    }

    /// Acquires a permit for one more page: first the claim's own, then one that is free at once while the lease has time.
    async fn acquire_permit(&self, permit: &mut Option<Permit>, batch: &Batch) -> Option<Permit> {
        if let Some(permit) = permit.take() {
            return Some(permit);
        }
        if !self.has_time(batch) {
            return None;
        }
        match self.credentials.acquire(self.endpoint, 0).await {
            Ok(AcquireOutcome::Granted(permit)) => Some(permit),
            Ok(AcquireOutcome::Wait(_)) => None,
            Err(error) => {
                tracing::warn!(error = %error, "no permit for another page: the quota ledger does not answer");
                None
            }
        }
    }

    /// Returns true if the lease has time for a page (call, hand-over, position) and the settle: less than `timeline_lease`.
    fn has_time(&self, batch: &Batch) -> bool {
        batch.fence.deadline - batch.now.now() >= clock::millis(self.call_timeout + 4 * self.save_timeout)
    }

    async fn request_page(
        &self,
        (name, timeline): (&str, &Arc<dyn Timeline>),
        trouble: Option<&SourceTrouble>,
        (request, permit): (&TimelineRequest, Permit),
        batch: &Batch,
    ) -> Result<Page, ReadError> {
        let (reservation, permit) = Reservation::reserve(&self.credentials, permit, request.count).await?;
        let is_trial = permit.is_trial();
        let call = async |credential: &Credential| self.fetch_page((name, &**timeline), request, credential).await;
        let accounting = async |credential: &Credential, answer: &Result<Page, LookupError>| {
            let blames_credential =
                self.shared_state.refusals.record_answer(&credential.name, (name, timeline), answer);
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
            CallReport { quota, park, charged: reservation.into_charges(answer, post_ids) }
        };
        let answer = make_metered_call(&self.credentials, permit, call, accounting).await;
        answer.map_err(|error| match FailureCause::from(error) {
            FailureCause::Api(why) => ReadError::Failed { why, is_out: true },
            FailureCause::Credential(why) => ReadError::Failed { why, is_out: false },
            FailureCause::Item(why) => ReadError::Source(why),
            FailureCause::Clock(why) => ReadError::Later(Outlook::Outage(why)),
            FailureCause::Process(why) => ReadError::Later(Outlook::Stop(why)),
        })
    }

    async fn fetch_page(
        &self,
        (name, timeline): (&str, &dyn Timeline),
        request: &TimelineRequest,
        credential: &Credential,
    ) -> Result<Page, LookupError> {
        page_call::run_with_timeout(
            &self.metrics,
            (self.endpoint, name),
            self.call_timeout,
            timeline.page(request, credential),
        )
        .await
    }

    /// Returns true if the API shows another source to this credential, or if that is unknown (no call left, an outage). Returns false
    /// without a witness or time for one, or if the API refuses all witnesses.
    async fn credential_may_work(&self, name: &str, credential: &Credential, batch: &Batch) -> bool {
        let refusals = &self.shared_state.refusals;
        for (witness, timeline) in refusals.witnesses(&credential.name, name) {
            if !self.has_time(batch) {
                return false;
            }
            match self.query_witness((&witness, &timeline), credential).await {
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
                        "cannot confirm that the refused credential works: no other source could be read"
                    );
                    return true;
                }
            }
        }
        false
    }

    /// Requests and drops a few posts of a source that the API showed to this credential before.
    async fn query_witness(
        &self,
        (witness, timeline): (&str, &Arc<dyn Timeline>),
        credential: &Credential,
    ) -> Testimony {
        let rules = timeline.rules();
        let permit = match acquire_witness_permit(&self.credentials, credential, rules.endpoint).await {
            Ok(permit) => permit,
            Err(none) => return none,
        };
        let request = TimelineRequest { since: None, below: None, cursor: None, count: rules.count.min(WITNESS_POSTS) };
        let Ok((reservation, permit)) = Reservation::reserve(&self.credentials, permit, request.count).await else {
            return Testimony::None("the budget of reads has no room".to_owned());
        };
        let call = async |credential: &Credential| self.fetch_page((witness, &**timeline), &request, credential).await;
        let accounting = async |credential: &Credential, answer: &Result<Page, LookupError>| {
            self.shared_state.refusals.record_answer(&credential.name, (witness, timeline), answer);
            CallReport {
                quota: answer.as_ref().ok().and_then(|page| page.quota),
                park: park_after_witness(answer),
                charged: reservation.into_charges(answer, post_ids),
            }
        };
        make_metered_call(&self.credentials, permit, call, accounting).await.into()
    }

    /// Returns true if others are read since a source started to fail: its refusal says nothing about the credential.
    async fn fails_alone(&self, name: &str, trouble: Option<&SourceTrouble>) -> bool {
        let Some(trouble) = trouble else { return false };
        let within = evidence_period(trouble.since, self.longest, clock::wall_ms());
        let (namespaces, source) = (&self.shared_state.namespaces, (self.namespace.as_str(), name));
        let asked = self.run_with_timeout(self.positions.was_another_source_read(namespaces, source, within)).await;
        asked.unwrap_or(false) // unknown: the credential is left alone
    }

    pub(crate) async fn run_with_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Outlook> {
        store_call::run_with_timeout(self.save_timeout, work).await
    }

    /// Judges and saves a failure to read a source; `before`: trouble of its last poll. An error affects all sources.
    pub(crate) async fn judge_failure(
        &self,
        name: &str,
        ended: ReadError,
        before: Option<&SourceTrouble>,
    ) -> Result<ReadFailure, Outlook> {
        let (why, is_out, is_own) = match ended {
            ReadError::Later(outlook) => return Err(outlook),
            ReadError::Failed { why, is_out } => (why, is_out, false),
            ReadError::Source(why) => (why, false, true),
        };
        let source = (self.namespace.as_str(), name);
        let (positions, namespaces) = (&*self.positions, &self.shared_state.namespaces);
        let judging = judge_and_save(positions, namespaces, source, before, &why, self.longest, clock::wall_ms());
        let JudgedTrouble { trouble, is_alone } = self.run_with_timeout(judging).await?;
        // Each source has one try before it is an outage: another one may be read.
        let is_outage = is_out && !is_alone && before.is_some();
        let outlook = if is_outage { Outlook::Outage(why.clone()) } else { Outlook::Unchanged };
        Ok(ReadFailure { why, is_own, is_alone, failures: trouble.failures, since: trouble.since, outlook })
    }
}

pub(crate) struct ReadFailure {
    pub why: String,
    pub is_own: bool,
    /// True if others are read.
    pub is_alone: bool,
    /// Failures in a row while others were read.
    pub failures: u32,
    /// Start of the failures, ms since the epoch.
    pub since: Millis,
    pub outlook: Outlook,
}

/// Each id counts as a read.
fn post_ids(page: &Page) -> Vec<String> {
    page.posts.iter().map(|post| post.id.to_string()).collect()
}

fn position_json(position: &impl Serialize) -> Result<String, Outlook> {
    serde_json::to_string(position).map_err(|error| Outlook::Stop(format!("cannot write a position: {error}")))
}

/// Newest known id at the start of the round.
fn newest_known(position: &Position) -> Option<u64> {
    position.open.as_ref().map_or(position.latest, |round| round.known)
}

/// `known`: newest known id.
fn new_post_dates(posts: &[Post], made_at: &[Millis], known: Option<u64>) -> Vec<Millis> {
    let is_new = |post: &Post| known.is_none_or(|known| post.id > known);
    posts.iter().zip(made_at).filter(|(post, _)| is_new(post)).map(|(_, at)| *at).collect()
}

fn creation_date(post: &Post, rules: &Rules, now: Millis) -> Millis {
    let by_place = rules.layout.made_at(post.id);
    choose_date(post.tweet.created_at, Some(by_place), now).at.unwrap_or(by_place)
}

fn gap_row(gap: &paging::Gap, noted_at: Millis) -> SourceGap {
    SourceGap { from: gap.from.to_string(), to: gap.to.to_string(), reason: gap.reason.to_string(), noted_at }
}
