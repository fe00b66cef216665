//! Reads a list: one page per claim.
//!
//! ```text
//!   claim ─▶ crawl ─▶ page ─▶ save its edges and the next cursor ─┬─▶ due again at once
//!            (store)                 (one transaction)            └─▶ the crawl ended: save its life ─▶ due at the next visit
//! ```
//!
//! The progress of a list is in the store alone. A late or repeated page changes nothing: the store knows the expected cursor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;

use super::counters::ListCounters;
use super::member_collector::MemberCollector;
use super::schedule::VisitSchedule;
use crate::pipelines::blame::{Blame, Evidence, Refusal, Testimony, acquire_witness_permit, park_after_witness};
use crate::pipelines::page_call::{self, FailureCause, Reservation};
use crate::pipelines::refresh::UnavailableSettings;
use crate::pipelines::refresh::misses::MissState;
use crate::pipelines::store_call;
use engine::base::call_error::ErrorKind;
use engine::base::clock::{self, Millis, Stopwatch};
use engine::base::failpoint;
use engine::error_log::ErrorPlace;
use engine::metrics::Metrics;
use engine::queue::{Batch, Due, Job, Lane, Verdict};
use engine::quota::{Credential, Credentials, Park, Permit};
use engine::worker::{BatchOutcome, Handler, Outlook};
use networks::model::account::Absence;
use networks::model::post::{ItemState, Tweet};
use networks::model::relation::{ListKind, PartialReason};
use networks::providers::lookup::LookupError;
use networks::providers::metered::{CallReport, make_metered_call};
use networks::providers::relations::{Listing, Member, Members, PageRequest, RelationPage, Relations};
use store::{
    ClosingLimit, CrawlEnd, CrawlKind, CrawlRecord, CrawlUnderWay, EdgePage, Edges, End, Finding, ListedMember,
    NewCrawl, NewItem, Next, Observation, Store, StoreError, StoredAccount, Way,
};

/// Delay before a list that the API refuses is requested again, ms.
const REFUSED_PAUSE_MS: Millis = 60_000;
/// Delay of a deferred list, ms: lists that become due in this time are read before it.
const DEFERRAL_MS: Millis = 5_000;
/// First and longest delay of a list without an answer, ms; it doubles each time. The fault may be the API's or the list's own.
const UNANSWERED_PAUSE_MS: (Millis, Millis) = (5_000, 3_600_000);
/// Delay before a crawl that missed far too many members is repeated, ms: the cause at the network may last.
const WITHHELD_PAUSE_MS: Millis = 3_600_000;
/// Crawls that decide the kind and the date of the next one.
const RECENT_CRAWLS: u32 = 32;
/// Crawls in a row that may end with a stale cursor; each is restarted at once.
const MAX_RESTARTS: u32 = 3;
/// Members that a crawl may always miss: a few are a large share of a short list.
const MISSES_ALWAYS_ALLOWED: u64 = 20;

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

pub struct ListReader {
    pub namespace: String,
    /// Namespace of the provider's accounts, which know the number of members of a list.
    pub accounts: String,
    pub side: ListKind,
    pub relations: Arc<dyn Relations>,
    pub store: Arc<dyn Store>,
    pub edges: Arc<dyn Edges>,
    pub credentials: Arc<Credentials>,
    pub visits: VisitSchedule,
    pub bounds: CrawlBounds,
    pub unavailable: UnavailableSettings,
    pub call_timeout: Duration,
    pub save_timeout: Duration,
    pub max_deliveries: u32,
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

enum ReadResult {
    /// Due again at once, with its next page or from the top.
    NextPage,
    Visited(CrawlEnd),
    /// The store blocks the owner, who asked to be forgotten.
    Blocked,
    Absent(Option<Absence>),
    Refused(String),
    /// No answer, for this reason: the fault may be the API's or this list's.
    Unanswered(String),
}

#[async_trait]
impl Handler for ListReader {
    fn endpoint(&self) -> &'static str {
        self.relations.capabilities(self.side).endpoint
    }

    async fn handle(&self, batch: &Batch, permit: Permit) -> BatchOutcome {
        // A claim takes one list.
        let [job] = &batch.jobs[..] else { return BatchOutcome::released(batch, Outlook::Unchanged) };
        if job.failures >= self.max_deliveries {
            self.credentials.return_permit(permit).await;
            return match self.mark_dead(job, batch.now.now(), store_call::repeated_crash_reason(job)).await {
                Ok(verdict) => BatchOutcome { verdicts: vec![(job.clone(), verdict)], ..BatchOutcome::default() },
                Err(outlook) => BatchOutcome::released(batch, outlook),
            };
        }
        failpoint::abort_on_poison(std::slice::from_ref(&job.id));
        if self.evidence.defer_once(&job.id) {
            self.credentials.return_permit(permit).await;
            let behind_others = Verdict::Retry { after: DEFERRAL_MS, counted: false };
            let verdicts = vec![(job.clone(), behind_others)];
            return BatchOutcome { verdicts, outlook: Outlook::Unchanged, ..BatchOutcome::default() };
        }
        let read = match self.read_page(job, batch, permit).await {
            Ok(after) => self.settle(job, batch, after).await,
            Err(outlook) => Err(outlook),
        };
        match read {
            Ok((verdict, outlook)) => {
                BatchOutcome { verdicts: vec![(job.clone(), verdict)], outlook, ..BatchOutcome::default() }
            }
            Err(outlook) => BatchOutcome::released(batch, outlook),
        }
    }
}

impl ListReader {
    async fn run_with_timeout<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, Outlook> {
        store_call::run_with_timeout(self.save_timeout, work).await
    }

    /// Returns the crawl in progress, or a new one with the owner's profile; `None` if the store blocks the owner.
    async fn open_crawl(
        &self,
        owner: &str,
        now: Millis,
    ) -> Result<Option<(CrawlUnderWay, Option<StoredAccount>)>, StoreError> {
        if let Some(crawl) = self.edges.crawl(&self.namespace, owner).await? {
            return Ok(Some((crawl, None)));
        }
        let crawls = self.edges.crawls(&self.namespace, owner, RECENT_CRAWLS).await?;
        let whole = crawls.iter().find(|crawl| crawl.ended.as_deref() == Some("complete"));
        let is_recent = |started: Millis| now.saturating_sub(started) < self.bounds.complete_every;
        let kind = match whole {
            Some(whole) if is_recent(whole.started_at) && self.bounds.known_tail > 0 => {
                CrawlKind::Prefix { known_tail: self.bounds.known_tail }
            }
            _ => CrawlKind::Complete,
        };
        let profile = self.store.account(&self.accounts, owner).await?;
        let stated_total = profile.as_ref().and_then(|profile| match self.side {
            ListKind::Followers => profile.counts.followers,
            ListKind::Friends => profile.counts.following,
        });
        let new = NewCrawl { kind, at: now, stated_total };
        let mut crawl = self.edges.begin_crawl(&self.namespace, owner, &new).await?;
        if crawl.is_none() {
            // The queue has a list that the store does not know. The store records it, unless its owner asked to be forgotten.
            let row =
                NewItem { id: owner.to_owned(), created_at: None, next_due: Some(now), content: None, read_at: None };
            self.store.record(&self.namespace, now, &Way::new("queue"), &[row]).await?;
            crawl = self.edges.begin_crawl(&self.namespace, owner, &new).await?;
        }
        Ok(crawl.map(|crawl| (crawl, profile)))
    }

    /// End of a crawl that a process reached but did not settle, because it died. A new crawl would cost all its calls again.
    async fn unsettled_end(&self, job: &Job) -> Result<Option<CrawlEnd>, Outlook> {
        let crawls = self.run_with_timeout(self.edges.crawls(&self.namespace, &job.id, 1)).await?;
        let last = crawls.first().filter(|last| last.ended_at.is_some_and(|at| at >= job.due));
        let end = last.and_then(|last| last.ended.as_deref()).and_then(CrawlEnd::from_word);
        // After an aborted or stale crawl, the list is requested again at once.
        Ok(end.filter(|end| !matches!(end, CrawlEnd::Aborted | CrawlEnd::Stale)))
    }

    async fn read_page(&self, job: &Job, batch: &Batch, permit: Permit) -> Result<ReadResult, Outlook> {
        let asked_at = batch.now.now();
        if job.deliveries > 0
            && let Some(end) = self.unsettled_end(job).await?
        {
            self.credentials.return_permit(permit).await;
            return Ok(ReadResult::Visited(end));
        }
        let (crawl, profile) = match self.run_with_timeout(self.open_crawl(&job.id, asked_at)).await {
            Ok(Some(known)) => known,
            none => {
                self.credentials.return_permit(permit).await;
                return none.map(|_| ReadResult::Blocked);
            }
        };
        let answer = match self.call((batch, &job.id), &crawl, permit).await? {
            Ok(answer) => answer,
            Err(error) => return self.classify_failure(error),
        };
        self.unanswered.clear(&job.id);
        failpoint::point("after_answer");
        let of_crawl = (crawl.number, crawl.cursor.as_deref());
        let end = async |end| {
            let ended = self.edges.end_crawl(&self.namespace, &job.id, of_crawl, batch.now.now(), end);
            self.run_with_timeout(ended).await
        };
        match answer.listing {
            // Events in a page are older than `latest`, which the queue's clock has not passed. Events that a next crawl finds are newer
            // than `asked_at`, which it had passed.
            Listing::Members(members) => {
                let moments = (asked_at, batch.now.latest());
                self.save(&job.id, (&crawl, profile), members, moments).await
            }
            Listing::OwnerAbsent(reason) => {
                end(End::Aborted).await?;
                Ok(ReadResult::Absent(reason))
            }
            Listing::Refused => {
                end(End::Hidden).await?;
                Ok(ReadResult::Visited(CrawlEnd::Hidden))
            }
            Listing::StaleCursor if crawl.cursor.is_none() => {
                Ok(ReadResult::Refused("the API refuses the first page as one with a stale cursor".to_owned()))
            }
            Listing::StaleCursor => {
                end(End::Stale).await?;
                let (list, owner) = (&self.namespace, &job.id);
                tracing::info!(
                    list,
                    owner,
                    "the API no longer accepts the cursor of a list: the list is read again from its first page"
                );
                self.counters.lists_restarted.add(1);
                let crawls = self.run_with_timeout(self.edges.crawls(&self.namespace, &job.id, MAX_RESTARTS)).await?;
                let is_stale = |crawl: &CrawlRecord| crawl.ended.as_deref() == Some("stale");
                // A cursor grows stale without requests. If it does each time, this list is at fault.
                if crawls.len() < MAX_RESTARTS as usize || !crawls.iter().all(is_stale) {
                    return Ok(ReadResult::NextPage);
                }
                tracing::warn!(
                    list,
                    owner,
                    "several crawls in a row ended with a stale cursor: the list waits for its next visit"
                );
                Ok(ReadResult::Visited(CrawlEnd::Stale))
            }
        }
    }

    /// Reserves the reads of a page and requests it; `Err` if no call is allowed now.
    async fn call(
        &self,
        (batch, owner): (&Batch, &str),
        crawl: &CrawlUnderWay,
        permit: Permit,
    ) -> Result<Result<RelationPage, LookupError>, Outlook> {
        let most = self.relations.capabilities(self.side).page_limit;
        let limit = if self.bounds.page == 0 { most } else { self.bounds.page.min(most) };
        let request = PageRequest { side: self.side, owner, cursor: crawl.cursor.as_deref(), limit };
        let (reservation, permit) = self.reserve(permit, limit).await?;
        let (blame, started, is_trial) = (OnceLock::new(), Stopwatch::start(), permit.is_trial());
        let call = async |credential: &Credential| {
            let place = (self.endpoint(), owner);
            page_call::run_with_timeout(
                &self.metrics,
                place,
                self.call_timeout,
                self.relations.page(request, credential),
            )
            .await
        };
        let accounting = async |credential: &Credential, answer: &Result<RelationPage, LookupError>| {
            let mut park = answer.as_ref().err().and_then(LookupError::park);
            match answer {
                Ok(_) => self.evidence.record_answer(&credential.name, [owner]),
                Err(error) if error.is_about_credential() => {
                    let items = [owner.to_owned()];
                    let refused = Refusal { credential: &credential.name, items: &items, started, is_trial };
                    let judged = self
                        .evidence
                        .judge(refused, |witness| self.request_witness(batch, witness, credential).boxed())
                        .await;
                    match blame.get_or_init(|| judged) {
                        Blame::Credential { .. } => self.log_refusal(credential, error),
                        Blame::Items | Blame::Unclear(_) => park = None,
                    }
                }
                Err(_) => {}
            }
            // A credential that may not read lists may still look up posts: it is parked at this endpoint only. The pipeline of
            // posts parks it everywhere if the API refuses it there, too.
            let park = park.map(|park| Park { everywhere: false, ..park });
            let quota = answer.as_ref().ok().and_then(|answer| answer.quota);
            CallReport { quota, park, charged: reservation.into_charges(answer, |page| self.charged_ids(page)) }
        };
        let answer = make_metered_call(&self.credentials, permit, call, accounting).await;
        Ok(match (answer, blame.into_inner()) {
            (Err(error), Some(Blame::Items)) => {
                let (list, why) = (&self.namespace, error.to_string());
                tracing::info!(
                    list,
                    owner,
                    why,
                    "the API refuses a list but shows others to the same credential: the list counts as hidden"
                );
                Ok(RelationPage { listing: Listing::Refused, quota: None })
            }
            (Err(error), Some(Blame::Unclear(why))) => {
                Err(LookupError::Outage(format!("{error}; no other list shows whether the credential works: {why}")))
            }
            (Ok(RelationPage { listing: Listing::Members(Members { members, .. }), .. }), _)
                if members.len() > most as usize =>
            {
                let count = members.len();
                Err(LookupError::BadAnswer(format!("a page has {count} members; its limit is {most}")))
            }
            (answer, _) => answer,
        })
    }

    async fn reserve(&self, permit: Permit, limit: u32) -> Result<(Reservation, Permit), Outlook> {
        let reads = u32::try_from(self.relations.cost(self.side, limit)).unwrap_or(u32::MAX);
        Reservation::reserve(&self.credentials, permit, reads).await
    }

    /// Requests one member of a list that the API showed to this credential before. The answer only shows that the credential works.
    async fn request_witness(&self, batch: &Batch, witness: String, credential: &Credential) -> Testimony {
        let needed = clock::millis(self.call_timeout + 2 * self.save_timeout);
        if batch.fence.deadline - batch.now.now() <= needed {
            return Testimony::None("the lease has no time left for another call".to_owned());
        }
        let permit = match acquire_witness_permit(&self.credentials, credential, self.endpoint()).await {
            Ok(permit) => permit,
            Err(why) => return Testimony::None(why),
        };
        let Ok((reservation, permit)) = self.reserve(permit, 1).await else {
            return Testimony::None("the budget of reads has no room".to_owned());
        };
        let request = PageRequest { side: self.side, owner: &witness, cursor: None, limit: 1 };
        let call = async |credential: &Credential| {
            let place = (self.endpoint(), &*witness);
            page_call::run_with_timeout(
                &self.metrics,
                place,
                self.call_timeout,
                self.relations.page(request, credential),
            )
            .await
        };
        let accounting = async |_: &Credential, answer: &Result<RelationPage, LookupError>| CallReport {
            quota: answer.as_ref().ok().and_then(|answer| answer.quota),
            park: park_after_witness(answer),
            charged: reservation.into_charges(answer, |page| self.charged_ids(page)),
        };
        make_metered_call(&self.credentials, permit, call, accounting).await.into()
    }

    fn log_refusal(&self, credential: &Credential, error: &LookupError) {
        let (list, credential) = (&self.namespace, &credential.name);
        let pause_ms = error.park().map_or(0, |park| clock::millis(park.pause));
        let place = ErrorPlace { endpoint: self.endpoint(), ..ErrorPlace::default() };
        self.metrics.errors.record(ErrorKind::Credential, &error.to_string(), place);
        tracing::warn!(
            list,
            credential,
            %error,
            pause_ms,
            "the API refuses all lists: list reads with this credential pause"
        );
    }

    fn charged_ids(&self, page: &RelationPage) -> Vec<String> {
        match &page.listing {
            Listing::Members(members) => {
                members.members.iter().flat_map(|member| self.relations.read_keys(&member.id)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn classify_failure(&self, error: LookupError) -> Result<ReadResult, Outlook> {
        match FailureCause::from(error) {
            FailureCause::Api(why) => Ok(ReadResult::Unanswered(why)),
            FailureCause::Credential(_) => Err(Outlook::Unchanged),
            FailureCause::Item(why) => Ok(ReadResult::Refused(why)),
            FailureCause::Clock(why) => Err(Outlook::Outage(why)),
            FailureCause::Process(why) => Err(Outlook::Stop(why)),
        }
    }

    async fn save(
        &self,
        owner: &str,
        (crawl, profile): (&CrawlUnderWay, Option<StoredAccount>),
        page: Members,
        (asked_at, answered_at): (Millis, Millis),
    ) -> Result<ReadResult, Outlook> {
        if let Some(why) = &page.unreadable.first {
            let (count, list) = (page.unreadable.count, &self.namespace);
            tracing::warn!(list, owner, count, why, "ids of a page cannot be read: the crawl is not complete");
        }
        let partial = match (page.partial, &page.next) {
            // The handle shows if the owner is on another server.
            (None, None) if self.relations.is_partial_by_handle() => {
                let profile = match profile {
                    Some(profile) => Some(profile),
                    None => self.run_with_timeout(self.store.account(&self.accounts, owner)).await?,
                };
                profile.and_then(|profile| self.relations.partial_reason(&profile.handle?))
            }
            (partial, _) => partial,
        };
        let before = crawl.found.unsigned_abs();
        let changes = self.run_with_timeout(self.member_collector.record(owner, before, &page, answered_at)).await?;
        let found = before + page.members.len() as u64;
        let unreadable = i64::try_from(page.unreadable.count).unwrap_or(i64::MAX);
        let next = match page.next {
            _ if self.bounds.longest > 0 && found >= self.bounds.longest && page.next.is_some() => {
                Next::End(End::Capped)
            }
            Some(cursor) => Next::Page(cursor),
            // Empty or hidden: unknown. An owner that hides a list may hide its number as well, and the network then states 0.
            None if partial == Some(PartialReason::Hidden) => Next::End(End::Hidden),
            // An unreadable id on any page may be a known member that was never missing.
            None if partial.is_some() || crawl.unreadable > 0 || unreadable > 0 => Next::End(End::Partial),
            None => Next::End(End::Complete(ClosingLimit { share: self.bounds.shrink, least: MISSES_ALWAYS_ALLOWED })),
        };
        let member = |Member { id, followed_at }| ListedMember { id, followed_at };
        let page = EdgePage {
            crawl: crawl.number,
            cursor: crawl.cursor.clone(),
            members: page.members.into_iter().map(member).collect(),
            unreadable,
            next,
            asked_at,
            answered_at,
        };
        failpoint::point("before_commit");
        let saved = self.run_with_timeout(self.edges.save_edges(&self.namespace, owner, &page)).await?;
        failpoint::point("after_commit");
        self.member_collector.apply_changes(&changes).await;
        // A late page: the worker that saved this page continues.
        let Some(saved) = saved else { return Ok(ReadResult::NextPage) };
        self.counters.list_pages.add(1);
        self.counters.edges_appeared.add(saved.new as usize);
        let Some(ended) = saved.ended else { return Ok(ReadResult::NextPage) };
        self.counters.edges_vanished.add(ended.vanished as usize);
        self.counters.lists_complete.add(usize::from(ended.end == CrawlEnd::Complete));
        self.counters.lists_withheld.add(usize::from(ended.end == CrawlEnd::Withheld));
        match ended.end {
            CrawlEnd::Withheld => tracing::warn!(
                list = self.namespace,
                owner,
                missing = ended.withheld,
                "far more members are missing than usual: none is removed until the next complete crawl confirms it"
            ),
            CrawlEnd::Looped => {
                tracing::warn!(
                    list = self.namespace,
                    owner,
                    "pages bring no new members, or a cursor repeats: the crawl ends early"
                );
            }
            _ => {}
        }
        Ok(ReadResult::Visited(ended.end))
    }

    async fn settle(&self, job: &Job, batch: &Batch, after: ReadResult) -> Result<(Verdict, Outlook), Outlook> {
        let at = batch.now.now();
        let (seen, state, next) = match after {
            ReadResult::NextPage => {
                // The list keeps its due time, and so its position among the other lists.
                let lane = self.lane_of(job);
                return Ok((Verdict::Reschedule { lane, due: Due::At(job.due) }, Outlook::Fine));
            }
            ReadResult::Blocked => return Ok((Verdict::Finish, Outlook::Unchanged)),
            ReadResult::Refused(why) => return self.retry_or_mark_dead(job, at, why).await,
            // The next list shows if others are answered: this one must not be in front of it.
            ReadResult::Unanswered(why) => {
                let later = Verdict::Retry { after: self.unanswered.next_pause(&job.id), counted: false };
                return Ok((later, Outlook::Outage(why)));
            }
            ReadResult::Visited(end) => {
                let crawls = self.run_with_timeout(self.edges.crawls(&self.namespace, &job.id, RECENT_CRAWLS)).await?;
                let next = match end {
                    // The next crawl must confirm the missing members, so it comes early.
                    CrawlEnd::Withheld => {
                        let (lane, delay) = self.visits.next_visit(&crawls);
                        (lane, delay.min(WITHHELD_PAUSE_MS))
                    }
                    _ => self.visits.next_visit(&crawls),
                };
                let summary = crawls.first().and_then(|crawl| serde_json::to_string(crawl).ok()).unwrap_or_default();
                let item = Tweet { id: job.id.clone(), raw: summary, ..Tweet::default() };
                (Finding::Found(item), ItemState::Live, Some(next))
            }
            ReadResult::Absent(reason) => self.judge_absence(job, at, reason).await?,
        };
        let next = next.map(|(lane, delay)| (lane, at.saturating_add(delay)));
        // The data of an owner that is certainly gone is forgotten. A faulty API gives the same answer for a while.
        let is_gone =
            matches!(seen, Finding::Missing { since, reason: Some(_), .. } if at - since >= self.unavailable.after);
        let next_due = next.as_ref().map(|(_, due)| *due);
        let forget = self.unavailable.forget && is_gone;
        let observation = Observation { forget, ..Observation::new(&job.id, at, seen, state, next_due) };
        self.run_with_timeout(self.store.save(&self.namespace, &[observation])).await?;
        failpoint::point("before_settle");
        let reschedule = |(lane, due)| Verdict::Reschedule { lane, due: Due::At(due) };
        Ok((next.map_or(Verdict::Finish, reschedule), Outlook::Fine))
    }

    fn lane_of(&self, job: &Job) -> Lane {
        match *job.lane == *self.unavailable.lane.name {
            true => self.unavailable.lane.clone(),
            false => self.visits.lane_named(&job.lane),
        }
    }

    /// Returns the state and the next lookup of a list whose owner is missing. If the settings say so, the list ends after some time.
    async fn judge_absence(
        &self,
        job: &Job,
        at: Millis,
        reason: Option<Absence>,
    ) -> Result<(Finding, ItemState, Option<(Lane, Millis)>), Outlook> {
        let known = self.run_with_timeout(self.store.standing(&self.namespace, std::slice::from_ref(&job.id))).await?;
        let before = known.into_iter().flatten().next();
        let (misses, since) = before.map_or((1, at), |known| (known.misses + 1, known.missing_since.unwrap_or(at)));
        let seen = Finding::Missing { misses, since, reason, handle: None };
        let UnavailableSettings { lane, confirmed_after, .. } = &self.unavailable;
        Ok(match self.unavailable.judge(misses, since, at, false) {
            MissState::Suspected => (seen, ItemState::Live, Some((self.lane_of(job), *confirmed_after))),
            MissState::Unavailable => (seen, ItemState::Unavailable, Some((lane.clone(), lane.patience))),
            MissState::Ended => (seen, ItemState::Ended, None),
        })
    }

    /// Handles a list that the API refuses: retried later, and dead after some failures.
    async fn retry_or_mark_dead(&self, job: &Job, at: Millis, why: String) -> Result<(Verdict, Outlook), Outlook> {
        if job.failures + 1 < self.max_deliveries {
            let (list, owner) = (&self.namespace, &job.id);
            tracing::warn!(list, owner, why, "the API refuses a list");
            return Ok((Verdict::Retry { after: REFUSED_PAUSE_MS, counted: true }, Outlook::Unchanged));
        }
        Ok((self.mark_dead(job, at, why).await?, Outlook::Unchanged))
    }

    async fn mark_dead(&self, job: &Job, at: Millis, reason: String) -> Result<Verdict, Outlook> {
        self.run_with_timeout(store_call::mark_dead(&*self.store, &self.namespace, at, job, reason)).await
    }
}
