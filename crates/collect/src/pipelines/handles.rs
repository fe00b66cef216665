//! Resolves a file of accounts to ids, by metered calls for as many handles as a call takes. Holds the accounts of one call at a time.
//!
//! A faulty API may leave out handles without a reason, so a handle that is left out is requested a second time.

mod results;

use std::collections::HashSet;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

pub use self::results::ResolvedAccount;
use self::results::{HandleLine, HandleResults};
use crate::ingest::{AccountLine, AccountReader};
use crate::pipelines::blame::{Blame, Evidence, Refusal, Testimony, acquire_witness_permit, park_after_witness};
use engine::base::clock::{self, Stopwatch};
use engine::base::retry::{Retry, RetryPolicy};
use engine::base::shutdown::Stop;
use engine::quota::{AcquireOutcome, ChargedReads, Credential, Credentials, LedgerError, Permit};
use futures::FutureExt;
use networks::model::account::{Absence, Account};
use networks::providers::handles::Handles;
use networks::providers::lookup::{Answer, LookupError, Outcome, UnsolicitedObjects};
use networks::providers::metered::{CallReport, make_metered_call};
use networks::providers::named::AccountRef;
use serde::Serialize;
use tokio::io::AsyncBufRead;

const HANDOVER_LIMIT: usize = 1_000;
/// Handles refused one by one, with no answer in between, that show an API that refuses all.
const REFUSED_IN_A_ROW: usize = 8;
/// Longest sleep until the ledger is asked again: another process may free a credential.
const MAX_LEDGER_WAIT: Duration = Duration::from_secs(10);
/// Wait before the second request for unexplained handles at the end of a file. Short: a person waits for it.
const SECOND_REQUEST_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ResolveCounts {
    pub ids: u64,
    pub handles: u64,
    /// Lines with no account, or with a missing one.
    pub refused: u64,
}

impl ResolveCounts {
    /// Returns true if no line named an account or was refused: most likely the wrong file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids + self.handles + self.refused == 0
    }

    /// Returns true if the file named accounts and no line was refused. Otherwise a command should exit with an error.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        !self.is_empty() && self.refused == 0
    }
}

/// Reason for an early end. All lines up to `line` are done; later ones may be.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError<E> {
    #[error("the file cannot be read after line {line}: {why}; everything up to there is done")]
    Read { line: u64, why: io::Error },
    #[error("the file is done up to line {line}, then: {why}")]
    Api { line: u64, why: String },
    #[error("the file is done up to line {line}, then: {why}")]
    HandOver { line: u64, why: E },
    #[error("stopped; the file is done up to line {line}")]
    Stopped { line: u64 },
}

#[derive(Debug)]
pub struct Resolver<'a> {
    pub handles: &'a dyn Handles,
    pub credentials: &'a Credentials,
    pub call_timeout: Duration,
    pub retry: RetryPolicy,
    /// Ends the work; accounts resolved before are handed over first.
    pub stop: Stop,
}

/// Lines that were read but not handed over.
#[derive(Default)]
struct PendingLines {
    ready: Vec<ResolvedAccount>,
    handles: Vec<HandleLine>,
    last: u64,
}

impl PendingLines {
    fn last_done_line(&self, results: &HandleResults) -> u64 {
        let asked = self.handles.iter().chain(results.refused_in_a_row.iter().map(|(one, _)| one)).map(|one| one.line);
        let first = self.ready.iter().map(|one| one.line).chain(asked).min();
        first.map_or(self.last, |first| first.saturating_sub(1))
    }
}

enum EarlyEnd {
    Stopped,
    Failed(String),
}

struct PendingRequests {
    /// A stack: the last part is requested first.
    parts: Vec<Vec<HandleLine>>,
    retry: Retry,
    useless_credentials: HashSet<String>,
}

impl Resolver<'_> {
    /// Hands over the accounts of a file, about in its order, each as soon as it is known; twice if it has two lines. `on_refused` gets
    /// each line without an account, and the reason. An unexplained handle is requested once more at the end.
    /// An error states the line up to which everything is done; accounts resolved before are handed over.
    pub async fn resolve<R, E>(
        &self,
        lines: &mut AccountReader<R>,
        hand_over: impl AsyncFnMut(Vec<ResolvedAccount>) -> Result<(), E>,
        mut on_refused: impl FnMut(u64, &str),
    ) -> Result<ResolveCounts, ResolveError<E>>
    where
        R: AsyncBufRead + Unpin,
    {
        let mut results = HandleResults::default();
        let mut resolved = self.read_and_resolve(lines, &mut results, hand_over, &mut on_refused).await;
        let left = match &mut resolved {
            // Refused twice, with no answer since.
            Ok(sum) => {
                sum.refused += results.refused_in_a_row.len() as u64;
                results.refused_in_a_row
            }
            // These are not requested again.
            Err(_) => results.unconfirmed,
        };
        left.iter().for_each(|(one, why)| on_refused(one.line, why));
        resolved
    }

    /// Resolves handles that the caller stores. An unexplained handle goes into `unconfirmed`; if it is there already, it is refused.
    pub async fn resolve_stored<R, E>(
        &self,
        lines: &mut AccountReader<R>,
        unconfirmed: &mut HashSet<String>,
        hand_over: impl AsyncFnMut(Vec<ResolvedAccount>) -> Result<(), E>,
        mut on_refused: impl FnMut(u64, &str),
    ) -> Result<ResolveCounts, ResolveError<E>>
    where
        R: AsyncBufRead + Unpin,
    {
        let mut results = HandleResults { is_stored: true, ..HandleResults::default() };
        let mut sum = self.read_and_resolve(lines, &mut results, hand_over, &mut on_refused).await?;
        for (HandleLine { line, handle }, why) in results.unconfirmed.into_iter().chain(results.refused_in_a_row) {
            if unconfirmed.remove(&handle) {
                sum.refused += 1;
                on_refused(line, &why);
            } else {
                unconfirmed.insert(handle);
            }
        }
        Ok(sum)
    }

    /// Reads the file, and requests unexplained handles again unless the caller stores them; `results` has the rest afterwards.
    async fn read_and_resolve<R, E>(
        &self,
        lines: &mut AccountReader<R>,
        results: &mut HandleResults,
        mut hand_over: impl AsyncFnMut(Vec<ResolvedAccount>) -> Result<(), E>,
        mut on_refused: impl FnMut(u64, &str),
    ) -> Result<ResolveCounts, ResolveError<E>>
    where
        R: AsyncBufRead + Unpin,
    {
        let (mut open, mut sum, mut is_last) = (PendingLines::default(), ResolveCounts::default(), false);
        let mut refuse = |sum: &mut ResolveCounts, line, why: &str| {
            sum.refused += 1;
            on_refused(line, why);
        };
        let limit = self.handles.capabilities().batch_limit.max(1);
        loop {
            // A terminal could be read on after its end.
            let line = async { if is_last { Ok(None) } else { lines.next().await } };
            let next = self.stop.token().run_until_cancelled(line).await;
            let (line, mut ended) = match next {
                None => (None, Some(EarlyEnd::Stopped)),
                Some(Err(why)) => return Err(ResolveError::Read { line: open.last_done_line(results), why }),
                Some(Ok(line)) => (line, None),
            };
            if is_last && ended.is_none() {
                (open.handles, ended) = self.take_unconfirmed(results, limit).await;
            }
            is_last = line.is_none();
            if let Some(AccountLine { line, named }) = line {
                open.last = open.last.max(line);
                match named {
                    Ok(AccountRef::Id(id)) => {
                        sum.ids += 1;
                        open.ready.push(ResolvedAccount { line, id, account: None });
                    }
                    Ok(AccountRef::Handle(handle)) => open.handles.push(HandleLine { line, handle }),
                    Err(why) => refuse(&mut sum, line, &why.to_string()),
                }
            }
            let is_full = open.handles.len() >= limit;
            if ended.is_none() && (is_full || is_last) && !open.handles.is_empty() {
                let unresolved;
                (unresolved, ended) = self.request_handles(std::mem::take(&mut open.handles), results).await;
                sum.handles += results.found.len() as u64;
                results.refused.drain(..).for_each(|(line, why)| refuse(&mut sum, line, &why));
                open.ready.append(&mut results.found);
                open.handles = unresolved;
            }
            if !open.ready.is_empty() && (is_full || is_last || ended.is_some() || open.ready.len() >= HANDOVER_LIMIT) {
                let (line, ready) = (open.last_done_line(results), std::mem::take(&mut open.ready));
                hand_over(ready).await.map_err(|why| ResolveError::HandOver { line, why })?;
            }
            match ended {
                Some(EarlyEnd::Stopped) => return Err(ResolveError::Stopped { line: open.last_done_line(results) }),
                Some(EarlyEnd::Failed(why)) => {
                    return Err(ResolveError::Api { line: open.last_done_line(results), why });
                }
                None if is_last && results.is_complete() => return Ok(sum),
                None => {}
            }
        }
    }

    async fn take_unconfirmed(&self, results: &mut HandleResults, limit: usize) -> (Vec<HandleLine>, Option<EarlyEnd>) {
        if !std::mem::replace(&mut results.is_second_request, true) {
            results.unconfirmed.append(&mut results.refused_in_a_row);
            if let Err(ended) = self.sleep(SECOND_REQUEST_DELAY).await {
                return (Vec::new(), Some(ended));
            }
        }
        let count = results.unconfirmed.len().min(limit);
        (results.unconfirmed.drain(..count).map(|(one, _)| one).collect(), None)
    }

    /// Requests these handles in as many calls as needed. Returns the handles without a result, and the reason.
    async fn request_handles(
        &self,
        asked: Vec<HandleLine>,
        results: &mut HandleResults,
    ) -> (Vec<HandleLine>, Option<EarlyEnd>) {
        let mut requests =
            PendingRequests { parts: vec![asked], retry: self.retry.start(), useless_credentials: HashSet::new() };
        while let Some(part) = requests.parts.pop() {
            if let Err((part, ended)) = self.request_part(part, &mut requests, results).await {
                return (part.into_iter().chain(requests.parts.into_iter().flatten()).collect(), Some(ended));
            }
        }
        (Vec::new(), None)
    }

    async fn request_part(
        &self,
        part: Vec<HandleLine>,
        requests: &mut PendingRequests,
        results: &mut HandleResults,
    ) -> Result<(), (Vec<HandleLine>, EarlyEnd)> {
        let (permit, is_in_budget) = match self.acquire_permit(&part, &mut requests.retry).await {
            Ok(granted) => granted,
            Err(ended) => return Err((part, ended)),
        };
        let (part, later) = split_by_budget(part, &is_in_budget);
        if !later.is_empty() {
            requests.parts.push(later);
        }
        let credential = permit.credential.clone();
        match self.call(&part, permit, &results.evidence).await {
            Ok(answer) => {
                requests.retry.reset();
                requests.useless_credentials.clear();
                results.record_answer(part, answer);
                Ok(())
            }
            Err(error) => self.handle_failure(error, &credential.name, part, requests, results).await,
        }
    }

    /// Handles a failed call: its handles are retried, split in halves, or refused.
    async fn handle_failure(
        &self,
        error: LookupError,
        credential: &str,
        mut part: Vec<HandleLine>,
        requests: &mut PendingRequests,
        results: &mut HandleResults,
    ) -> Result<(), (Vec<HandleLine>, EarlyEnd)> {
        let why = error.to_string();
        match error {
            LookupError::BadRequest(_) | LookupError::BatchTooLarge(_) if part.len() > 1 => {
                tracing::warn!(
                    handles = part.len(),
                    error = why,
                    "the request is refused: its handles are tried in halves"
                );
                let second = part.split_off(part.len() / 2);
                requests.parts.extend([second, part]);
                return Ok(());
            }
            LookupError::BadRequest(_) if results.refused_in_a_row.len() < REFUSED_IN_A_ROW => {
                results.refused_in_a_row.extend(part.into_iter().map(|one| (one, why.clone())));
                return Ok(());
            }
            // The credential is left alone: the next one, or later.
            LookupError::Throttled { .. } => {}
            LookupError::Credential(_) => {
                requests.useless_credentials.insert(credential.to_owned());
                if requests.useless_credentials.len() >= self.credentials.all().len() {
                    return Err((part, EarlyEnd::Failed(why)));
                }
            }
            LookupError::Outage(_)
            | LookupError::Overloaded { .. }
            | LookupError::BadAnswer(_)
            | LookupError::Unready(_)
            | LookupError::Clock(_)
            | LookupError::QueueClock(_) => {
                if let Err(ended) = self.wait_before_retry(&mut requests.retry, why).await {
                    return Err((part, ended));
                }
            }
            LookupError::Stop(_) | LookupError::BadRequest(_) | LookupError::BatchTooLarge(_) => {
                return Err((part, EarlyEnd::Failed(why)));
            }
        }
        requests.parts.push(part);
        Ok(())
    }

    async fn wait_before_retry(&self, retry: &mut Retry, why: String) -> Result<(), EarlyEnd> {
        if retry.attempts() + 1 >= self.retry.tries {
            return Err(EarlyEnd::Failed(why));
        }
        tracing::warn!(error = why, "handles are not resolved: retrying");
        self.sleep(retry.next_delay()).await
    }

    async fn sleep(&self, span: Duration) -> Result<(), EarlyEnd> {
        let slept = self.stop.token().run_until_cancelled(tokio::time::sleep(span)).await;
        slept.ok_or(EarlyEnd::Stopped)
    }

    /// Acquires a permit as soon as there is one. Also returns which handles fit into the read budget: at least one.
    async fn acquire_permit(&self, part: &[HandleLine], retry: &mut Retry) -> Result<(Permit, Vec<bool>), EarlyEnd> {
        let names = self.reservation_names(part);
        let endpoint = self.handles.capabilities().endpoint;
        let mut is_logged = false;
        loop {
            let wait = match self.credentials.acquire(endpoint, 1).await {
                Ok(AcquireOutcome::Granted(permit)) => match self.reserve(permit, names.clone()).await {
                    Ok(Some(granted)) => return Ok(granted),
                    Ok(None) => continue, // the next permit is refused for a while
                    Err(error) => {
                        self.wait_before_retry(retry, error.to_string()).await?;
                        continue;
                    }
                },
                Ok(AcquireOutcome::Wait(wait)) => wait,
                Err(error) => {
                    self.wait_before_retry(retry, error.to_string()).await?;
                    continue;
                }
            };
            if !std::mem::replace(&mut is_logged, true) {
                tracing::info!(endpoint, wait_ms = clock::millis(wait), "handles wait for the quota");
            }
            self.sleep(wait.min(MAX_LEDGER_WAIT)).await?;
        }
    }

    /// Reserves reads in the budget. Returns the permit, and true for each handle that fits. `None` if none fits: the permit is then
    /// returned.
    async fn reserve(
        &self,
        permit: Permit,
        names: Vec<Vec<String>>,
    ) -> Result<Option<(Permit, Vec<bool>)>, LedgerError> {
        match self.credentials.reserve_items(&permit, &names).await {
            Ok(None) => Ok(Some((permit, vec![true; names.len()]))),
            Ok(Some(is_in_budget)) if is_in_budget.contains(&true) => Ok(Some((permit, is_in_budget))),
            Ok(Some(_)) => {
                self.credentials.return_permit(permit).await;
                Ok(None)
            }
            Err(error) => {
                // A read that was not counted must not be made.
                self.credentials.return_permit(permit).await;
                Err(error)
            }
        }
    }

    /// Names that count each handle as read until its id is known. No id has such a name.
    fn reservation_names(&self, part: &[HandleLine]) -> Vec<Vec<String>> {
        let name = |one: &HandleLine| self.handles.read_keys(&format!("@{}", one.handle.to_ascii_lowercase()));
        part.iter().map(name).collect()
    }

    /// Charges found accounts by their ids, and does not charge missing ones. A lost answer stays counted.
    fn charged_reads(&self, part: &[HandleLine], answer: &Result<Answer<Account>, LookupError>) -> ChargedReads {
        let mut charged = ChargedReads::default();
        match answer {
            Ok(answer) => {
                for (names, outcome) in self.reservation_names(part).into_iter().zip(&answer.outcomes) {
                    match outcome {
                        Outcome::Found(account) => {
                            charged.edited.extend(names.into_iter().zip(self.handles.read_keys(&account.id)));
                        }
                        Outcome::Unavailable | Outcome::Absent(_) | Outcome::Emptied(..) => {
                            charged.unread.extend(names)
                        }
                        Outcome::Broken(_) => {}
                    }
                }
            }
            Err(error) if error.is_refusal() => charged.unread = self.reservation_names(part).concat(),
            Err(_) => {}
        }
        charged
    }

    async fn call(
        &self,
        part: &[HandleLine],
        permit: Permit,
        evidence: &Evidence,
    ) -> Result<Answer<Account>, LookupError> {
        let (blame, started, is_trial) = (OnceLock::new(), Stopwatch::start(), permit.is_trial());
        let handles = handles(part);
        let accounting = async |credential: &Credential, answer: &Result<Answer<Account>, LookupError>| {
            let mut park = answer.as_ref().err().and_then(LookupError::park);
            match answer {
                Ok(answer) => evidence.record_answer(&credential.name, found_handles(&handles, answer)),
                Err(error) if error.is_about_credential() => {
                    let refused = Refusal { credential: &credential.name, items: &handles, started, is_trial };
                    let judged =
                        evidence.judge(refused, |witness| self.request_witness(witness, credential).boxed()).await;
                    if !matches!(blame.get_or_init(|| judged), Blame::Credential { .. }) {
                        park = None;
                    }
                }
                Err(_) => {}
            }
            if let (Some(park), Err(error)) = (&park, answer) {
                let pause_ms = clock::millis(park.pause);
                tracing::warn!(credential = credential.name, %error, pause_ms, "the credential is parked");
            }
            let quota = answer.as_ref().ok().and_then(|answer| answer.quota);
            CallReport { quota, park, charged: self.charged_reads(part, answer) }
        };
        let call = async |credential: &Credential| self.resolve_with_timeout(&handles, credential).await;
        let answer = make_metered_call(self.credentials, permit, call, accounting).await;
        match (answer, blame.into_inner()) {
            (Err(error), Some(Blame::Items)) if part.len() > 1 => Err(LookupError::BadRequest(error.to_string())),
            (Err(_), Some(Blame::Items)) => {
                Ok(Answer::new(vec![Outcome::Absent(Absence::Protected)], None, UnsolicitedObjects::default()))
            }
            (Err(error), Some(Blame::Unclear(why))) => {
                Err(LookupError::Outage(format!("{error}; no other handle shows whether the credential works: {why}")))
            }
            (answer, _) => answer,
        }
    }

    /// Requests a handle that the API resolved with this credential before. The answer only shows that the credential works.
    async fn request_witness(&self, handle: String, credential: &Credential) -> Testimony {
        let permit =
            match acquire_witness_permit(self.credentials, credential, self.handles.capabilities().endpoint).await {
                Ok(permit) => permit,
                Err(none) => return none,
            };
        let part = [HandleLine { line: 0, handle }];
        let permit = match self.reserve(permit, self.reservation_names(&part)).await {
            Ok(Some((permit, _))) => permit,
            Ok(None) => return Testimony::None("the budget of reads has no room".to_owned()),
            Err(error) => return Testimony::None(error.to_string()),
        };
        let call = async |credential: &Credential| self.resolve_with_timeout(&handles(&part), credential).await;
        let accounting = async |_: &Credential, answer: &Result<Answer<Account>, LookupError>| CallReport {
            quota: answer.as_ref().ok().and_then(|answer| answer.quota),
            park: park_after_witness(answer),
            charged: self.charged_reads(&part, answer),
        };
        make_metered_call(self.credentials, permit, call, accounting).await.into()
    }

    async fn resolve_with_timeout(
        &self,
        handles: &[String],
        credential: &Credential,
    ) -> Result<Answer<Account>, LookupError> {
        let answer = tokio::time::timeout(self.call_timeout, self.handles.resolve(handles, credential)).await;
        let silent = || format!("no whole answer within {} ms", self.call_timeout.as_millis());
        answer.unwrap_or_else(|_| Err(LookupError::Outage(silent())))
    }
}

fn handles(part: &[HandleLine]) -> Vec<String> {
    part.iter().map(|one| one.handle.clone()).collect()
}

fn found_handles<'a>(handles: &'a [String], answer: &'a Answer<Account>) -> impl Iterator<Item = &'a str> {
    let is_found = |(_, outcome): &(&String, &Outcome<Account>)| matches!(outcome, Outcome::Found(_));
    handles.iter().zip(&answer.outcomes).filter(is_found).map(|(handle, _)| handle.as_str())
}

/// Splits handles into those that `is_in_budget` has true for, and the others.
fn split_by_budget(part: Vec<HandleLine>, is_in_budget: &[bool]) -> (Vec<HandleLine>, Vec<HandleLine>) {
    let (now, later): (Vec<_>, Vec<_>) = part.into_iter().zip(is_in_budget).partition(|(_, fits)| **fits);
    let alone = |part: Vec<(HandleLine, &bool)>| part.into_iter().map(|(one, _)| one).collect();
    (alone(now), alone(later))
}
