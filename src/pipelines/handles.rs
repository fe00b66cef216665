//! Resolves a file of accounts to ids, by metered calls for as many handles as a call takes. Holds the accounts of one call at a time.
//!
//! A faulty API leaves out handles just as it leaves out missing accounts. So an answer without a reason rejects none: the handle is
//! requested a second time.

use std::collections::HashSet;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use crate::base::clock::{self, Stopwatch};
use crate::base::retry::{Retry, RetryPolicy};
use crate::base::shutdown::Stop;
use crate::ingest::{NamedLine, NamedLines};
use crate::model::account::{Absence, Account};
use crate::pipelines::blame::{Blame, Evidence, Refused, Testimony, park_of_witness, permit_for};
use crate::providers::handles::Handles;
use crate::providers::lookup::{Answer, LookupError, Outcome, Strangers};
use crate::providers::metered::{CallReport, metered};
use crate::providers::named::Named;
use crate::quota::{Acquired, ChargedReads, Credential, Credentials, LedgerError, Permit};
use futures::FutureExt;
use serde::Serialize;
use tokio::io::AsyncBufRead;

/// Maximum ids per handover.
const TOGETHER: usize = 1_000;
/// Handles refused one by one, with no answer in between, that show an API that refuses all.
const REFUSED_IN_A_ROW: usize = 8;
/// Longest sleep until the ledger is asked again: another process may free a credential.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// Wait before the second request for unexplained handles at the end of a file. Short: a person waits for it.
const SECOND_LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// Line number, from 1.
    pub line: u64,
    pub id: String,
    /// The account of a resolved handle, as complete as from a lookup by id; `None` for an id.
    pub account: Option<Box<Account>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Resolution {
    pub ids: u64,
    pub handles: u64,
    /// Lines with no account, or with a missing one.
    pub refused: u64,
}

impl Resolution {
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
    Read {
        /// Last line that is done.
        line: u64,
        why: io::Error,
    },
    #[error("the file is done up to line {line}, then: {why}")]
    Api {
        /// Last line that is done.
        line: u64,
        why: String,
    },
    #[error("the file is done up to line {line}, then: {why}")]
    HandOver {
        /// Last line that is done.
        line: u64,
        why: E,
    },
    #[error("stopped; the file is done up to line {line}")]
    Stopped {
        /// Last line that is done.
        line: u64,
    },
}

#[derive(Debug)]
pub struct Resolver<'a> {
    pub handles: &'a dyn Handles,
    /// Grants a permit per call, and keeps the budget of reads.
    pub credentials: &'a Credentials,
    pub call_timeout: Duration,
    pub retry: RetryPolicy,
    /// Ends the work; accounts resolved before are handed over first.
    pub stop: Stop,
}

#[derive(Debug, Clone)]
struct HandleLine {
    line: u64,
    handle: String,
}

/// Lines that were read but not handed over.
#[derive(Default)]
struct Open {
    ready: Vec<Resolved>,
    asked: Vec<HandleLine>,
    last: u64,
}

impl Open {
    /// Last line up to which nothing is open.
    fn done(&self, said: &Said) -> u64 {
        let asked = self.asked.iter().chain(said.in_a_row.iter().map(|(one, _)| one)).map(|one| one.line);
        let first = self.ready.iter().map(|one| one.line).chain(asked).min();
        first.map_or(self.last, |first| first.saturating_sub(1))
    }
}

enum Ended {
    Stopped,
    Failed(String),
}

struct Tries {
    /// A stack: the last part is requested first.
    parts: Vec<Vec<HandleLine>>,
    retry: Retry,
    useless: HashSet<String>,
}

#[derive(Default)]
struct Said {
    found: Vec<Resolved>,
    refused: Vec<(u64, String)>,
    /// Handles refused one by one since the last answer. Only another answer shows that they are to blame.
    in_a_row: Vec<(HandleLine, String)>,
    /// Handles without an account, for which no answer gave a reason.
    doubted: Vec<(HandleLine, String)>,
    /// The second request for them has started.
    is_again: bool,
    /// The caller keeps them for a later request.
    is_kept: bool,
    evidence: Evidence,
}

impl Resolver<'_> {
    /// Hands over the accounts of a file, about in its order, each as soon as it is known; twice if it has two lines. `on_refused` gets
    /// each line without an account, and the reason. An unexplained handle is requested once more at the end.
    ///
    /// # Errors
    /// [`ResolveError`] states the line up to which everything is done. Accounts resolved before are handed over.
    pub async fn resolve<R, E>(
        &self,
        lines: &mut NamedLines<R>,
        hand_over: impl AsyncFnMut(Vec<Resolved>) -> Result<(), E>,
        mut on_refused: impl FnMut(u64, &str),
    ) -> Result<Resolution, ResolveError<E>>
    where
        R: AsyncBufRead + Unpin,
    {
        let mut said = Said::default();
        let mut resolved = self.read(lines, &mut said, hand_over, &mut on_refused).await;
        let left = match &mut resolved {
            // Refused twice, with no answer since.
            Ok(sum) => {
                sum.refused += said.in_a_row.len() as u64;
                said.in_a_row
            }
            // These are not requested again.
            Err(_) => said.doubted,
        };
        left.iter().for_each(|(one, why)| on_refused(one.line, why));
        resolved
    }

    /// Resolves handles that the caller keeps. An unexplained handle goes into `doubted`; if it is there already, it is refused.
    pub async fn resolve_kept<R, E>(
        &self,
        lines: &mut NamedLines<R>,
        doubted: &mut HashSet<String>,
        hand_over: impl AsyncFnMut(Vec<Resolved>) -> Result<(), E>,
        mut on_refused: impl FnMut(u64, &str),
    ) -> Result<Resolution, ResolveError<E>>
    where
        R: AsyncBufRead + Unpin,
    {
        let mut said = Said { is_kept: true, ..Said::default() };
        let mut sum = self.read(lines, &mut said, hand_over, &mut on_refused).await?;
        for (HandleLine { line, handle }, why) in said.doubted.into_iter().chain(said.in_a_row) {
            if doubted.remove(&handle) {
                sum.refused += 1;
                on_refused(line, &why);
            } else {
                doubted.insert(handle);
            }
        }
        Ok(sum)
    }

    /// Reads the file, and requests unexplained handles again unless the caller keeps them; `said` has the rest afterwards.
    async fn read<R, E>(
        &self,
        lines: &mut NamedLines<R>,
        said: &mut Said,
        mut hand_over: impl AsyncFnMut(Vec<Resolved>) -> Result<(), E>,
        mut on_refused: impl FnMut(u64, &str),
    ) -> Result<Resolution, ResolveError<E>>
    where
        R: AsyncBufRead + Unpin,
    {
        let (mut open, mut sum, mut is_last) = (Open::default(), Resolution::default(), false);
        let mut refuse = |sum: &mut Resolution, line, why: &str| {
            sum.refused += 1;
            on_refused(line, why);
        };
        let limit = self.handles.capabilities().batch_limit.max(1);
        loop {
            // A terminal could be read on after its end.
            let line = async { if is_last { Ok(None) } else { lines.next().await } };
            let next = self.stop.token().run_until_cancelled(line).await;
            let (line, mut ended) = match next {
                None => (None, Some(Ended::Stopped)),
                Some(Err(why)) => return Err(ResolveError::Read { line: open.done(said), why }),
                Some(Ok(line)) => (line, None),
            };
            if is_last && ended.is_none() {
                (open.asked, ended) = self.again(said, limit).await;
            }
            is_last = line.is_none();
            if let Some(NamedLine { line, named }) = line {
                open.last = open.last.max(line);
                match named {
                    Ok(Named::Id(id)) => {
                        sum.ids += 1;
                        open.ready.push(Resolved { line, id, account: None });
                    }
                    Ok(Named::Handle(handle)) => open.asked.push(HandleLine { line, handle }),
                    Err(why) => refuse(&mut sum, line, &why),
                }
            }
            let is_full = open.asked.len() >= limit;
            if ended.is_none() && (is_full || is_last) && !open.asked.is_empty() {
                let unsaid;
                (unsaid, ended) = self.ask(std::mem::take(&mut open.asked), said).await;
                sum.handles += said.found.len() as u64;
                said.refused.drain(..).for_each(|(line, why)| refuse(&mut sum, line, &why));
                open.ready.append(&mut said.found);
                open.asked = unsaid;
            }
            if !open.ready.is_empty() && (is_full || is_last || ended.is_some() || open.ready.len() >= TOGETHER) {
                let (line, ready) = (open.done(said), std::mem::take(&mut open.ready));
                hand_over(ready).await.map_err(|why| ResolveError::HandOver { line, why })?;
            }
            match ended {
                Some(Ended::Stopped) => return Err(ResolveError::Stopped { line: open.done(said) }),
                Some(Ended::Failed(why)) => return Err(ResolveError::Api { line: open.done(said), why }),
                None if is_last && said.is_all() => return Ok(sum),
                None => {}
            }
        }
    }

    /// Handles for the second request: one call's worth.
    async fn again(&self, said: &mut Said, limit: usize) -> (Vec<HandleLine>, Option<Ended>) {
        if !std::mem::replace(&mut said.is_again, true) {
            said.doubted.append(&mut said.in_a_row);
            if let Err(ended) = self.sleep(SECOND_LOOK).await {
                return (Vec::new(), Some(ended));
            }
        }
        let count = said.doubted.len().min(limit);
        (said.doubted.drain(..count).map(|(one, _)| one).collect(), None)
    }

    /// Requests these handles in as many calls as needed. Returns the handles without a result, and the reason.
    async fn ask(&self, asked: Vec<HandleLine>, said: &mut Said) -> (Vec<HandleLine>, Option<Ended>) {
        let mut tries = Tries { parts: vec![asked], retry: self.retry.start(), useless: HashSet::new() };
        while let Some(part) = tries.parts.pop() {
            if let Err((part, ended)) = self.ask_once(part, &mut tries, said).await {
                return (part.into_iter().chain(tries.parts.into_iter().flatten()).collect(), Some(ended));
            }
        }
        (Vec::new(), None)
    }

    async fn ask_once(
        &self,
        part: Vec<HandleLine>,
        tries: &mut Tries,
        said: &mut Said,
    ) -> Result<(), (Vec<HandleLine>, Ended)> {
        let (permit, places) = match self.permit(&part, &mut tries.retry).await {
            Ok(granted) => granted,
            Err(ended) => return Err((part, ended)),
        };
        let (part, later) = split(part, &places);
        if !later.is_empty() {
            tries.parts.push(later);
        }
        let credential = permit.credential.clone();
        match self.call(&part, permit, &said.evidence).await {
            Ok(answer) => {
                tries.retry.succeeded();
                tries.useless.clear();
                said.hear(part, answer);
                Ok(())
            }
            Err(error) => self.after(error, &credential.name, part, tries, said).await,
        }
    }

    /// Handles a failed call: its handles are retried, split in halves, or refused.
    async fn after(
        &self,
        error: LookupError,
        credential: &str,
        mut part: Vec<HandleLine>,
        tries: &mut Tries,
        said: &mut Said,
    ) -> Result<(), (Vec<HandleLine>, Ended)> {
        let why = error.to_string();
        match error {
            LookupError::BadRequest(_) | LookupError::BatchTooLarge(_) if part.len() > 1 => {
                tracing::warn!(
                    handles = part.len(),
                    error = why,
                    "the request is refused: its handles are tried in halves"
                );
                let second = part.split_off(part.len() / 2);
                tries.parts.extend([second, part]);
                return Ok(());
            }
            LookupError::BadRequest(_) if said.in_a_row.len() < REFUSED_IN_A_ROW => {
                said.in_a_row.extend(part.into_iter().map(|one| (one, why.clone())));
                return Ok(());
            }
            // The credential is left alone: the next one, or later.
            LookupError::Throttled { .. } => {}
            LookupError::Credential(_) => {
                tries.useless.insert(credential.to_owned());
                if tries.useless.len() >= self.credentials.all().len() {
                    return Err((part, Ended::Failed(why)));
                }
            }
            LookupError::Outage(_)
            | LookupError::Overloaded { .. }
            | LookupError::BadAnswer(_)
            | LookupError::Unready(_)
            | LookupError::Clock(_)
            | LookupError::QueueClock(_) => {
                if let Err(ended) = self.wait(&mut tries.retry, why).await {
                    return Err((part, ended));
                }
            }
            LookupError::Stop(_) | LookupError::BadRequest(_) | LookupError::BatchTooLarge(_) => {
                return Err((part, Ended::Failed(why)));
            }
        }
        tries.parts.push(part);
        Ok(())
    }

    async fn wait(&self, retry: &mut Retry, why: String) -> Result<(), Ended> {
        if retry.attempts() + 1 >= self.retry.tries {
            return Err(Ended::Failed(why));
        }
        tracing::warn!(error = why, "handles are not resolved: retrying");
        self.sleep(retry.next_delay()).await
    }

    async fn sleep(&self, span: Duration) -> Result<(), Ended> {
        let slept = self.stop.token().run_until_cancelled(tokio::time::sleep(span)).await;
        slept.ok_or(Ended::Stopped)
    }

    /// Acquires a permit as soon as there is one. Also returns which handles fit into the read budget: at least one.
    async fn permit(&self, part: &[HandleLine], retry: &mut Retry) -> Result<(Permit, Vec<bool>), Ended> {
        let names = self.names(part);
        let endpoint = self.handles.capabilities().endpoint;
        let mut is_logged = false;
        loop {
            let wait = match self.credentials.acquire(endpoint, 1).await {
                Ok(Acquired::Granted(permit)) => match self.reserve(permit, names.clone()).await {
                    Ok(Some(granted)) => return Ok(granted),
                    Ok(None) => continue, // the next permit is refused for a while
                    Err(error) => {
                        self.wait(retry, error.to_string()).await?;
                        continue;
                    }
                },
                Ok(Acquired::Wait(wait)) => wait,
                Err(error) => {
                    self.wait(retry, error.to_string()).await?;
                    continue;
                }
            };
            if !std::mem::replace(&mut is_logged, true) {
                tracing::info!(endpoint, wait_ms = clock::millis(wait), "handles wait for the quota");
            }
            self.sleep(wait.min(ASK_AGAIN)).await?;
        }
    }

    /// Returns which handles fit into the budget. `None` if none fits: the permit is then given back.
    async fn reserve(
        &self,
        permit: Permit,
        names: Vec<Vec<String>>,
    ) -> Result<Option<(Permit, Vec<bool>)>, LedgerError> {
        match self.credentials.reserve_items(&permit, &names).await {
            Ok(None) => Ok(Some((permit, vec![true; names.len()]))),
            Ok(Some(places)) if places.contains(&true) => Ok(Some((permit, places))),
            Ok(Some(_)) => {
                self.credentials.give_back(permit).await;
                Ok(None)
            }
            Err(error) => {
                // A read that was not counted must not be made.
                self.credentials.give_back(permit).await;
                Err(error)
            }
        }
    }

    /// Names that count each handle as read until its id is known. No id has such a name.
    fn names(&self, part: &[HandleLine]) -> Vec<Vec<String>> {
        let name = |one: &HandleLine| self.handles.reads(&format!("@{}", one.handle.to_ascii_lowercase()));
        part.iter().map(name).collect()
    }

    /// Charges found accounts by their ids, and does not charge missing ones. A lost answer stays counted.
    fn charged(&self, part: &[HandleLine], answer: &Result<Answer<Account>, LookupError>) -> ChargedReads {
        let mut charged = ChargedReads::default();
        match answer {
            Ok(answer) => {
                for (names, outcome) in self.names(part).into_iter().zip(&answer.outcomes) {
                    match outcome {
                        Outcome::Found(account) => {
                            charged.edited.extend(names.into_iter().zip(self.handles.reads(&account.id)));
                        }
                        Outcome::Unavailable | Outcome::Absent(_) | Outcome::Emptied(..) => {
                            charged.unread.extend(names)
                        }
                        Outcome::Broken(_) => {}
                    }
                }
            }
            Err(error) if error.is_refusal() => charged.unread = self.names(part).concat(),
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
                Ok(answer) => evidence.answered(&credential.name, found(&handles, answer)),
                Err(error) if error.is_about_credential() => {
                    let refused = Refused { credential: &credential.name, items: &handles, started, is_trial };
                    let judged =
                        evidence.judge(refused, |witness| self.ask_for_witness(witness, credential).boxed()).await;
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
            CallReport { quota, park, charged: self.charged(part, answer) }
        };
        let call = async |credential: &Credential| self.in_time(&handles, credential).await;
        let answer = metered(self.credentials, permit, call, accounting).await;
        match (answer, blame.into_inner()) {
            (Err(error), Some(Blame::Items)) if part.len() > 1 => Err(LookupError::BadRequest(error.to_string())),
            (Err(_), Some(Blame::Items)) => {
                Ok(Answer::new(vec![Outcome::Absent(Absence::Protected)], None, Strangers::default()))
            }
            (Err(error), Some(Blame::Unclear(why))) => {
                Err(LookupError::Outage(format!("{error}; no other handle shows whether the credential works: {why}")))
            }
            (answer, _) => answer,
        }
    }

    /// Requests a handle that the API resolved with this credential before. The answer only shows that the credential works.
    async fn ask_for_witness(&self, handle: String, credential: &Credential) -> Testimony {
        let permit = match permit_for(self.credentials, credential, self.handles.capabilities().endpoint).await {
            Ok(permit) => permit,
            Err(why) => return Testimony::None(why),
        };
        let part = [HandleLine { line: 0, handle }];
        let permit = match self.reserve(permit, self.names(&part)).await {
            Ok(Some((permit, _))) => permit,
            Ok(None) => return Testimony::None("the budget of reads has no room".to_owned()),
            Err(error) => return Testimony::None(error.to_string()),
        };
        let call = async |credential: &Credential| self.in_time(&handles(&part), credential).await;
        let accounting = async |_: &Credential, answer: &Result<Answer<Account>, LookupError>| CallReport {
            quota: answer.as_ref().ok().and_then(|answer| answer.quota),
            park: park_of_witness(answer),
            charged: self.charged(&part, answer),
        };
        metered(self.credentials, permit, call, accounting).await.into()
    }

    async fn in_time(&self, handles: &[String], credential: &Credential) -> Result<Answer<Account>, LookupError> {
        let answer = tokio::time::timeout(self.call_timeout, self.handles.resolve(handles, credential)).await;
        let silent = || format!("no whole answer within {} ms", self.call_timeout.as_millis());
        answer.unwrap_or_else(|_| Err(LookupError::Outage(silent())))
    }
}

fn handles(part: &[HandleLine]) -> Vec<String> {
    part.iter().map(|one| one.handle.clone()).collect()
}

fn found<'a>(handles: &'a [String], answer: &'a Answer<Account>) -> impl Iterator<Item = &'a str> {
    let is_found = |(_, outcome): &(&String, &Outcome<Account>)| matches!(outcome, Outcome::Found(_));
    handles.iter().zip(&answer.outcomes).filter(is_found).map(|(handle, _)| handle.as_str())
}

impl Said {
    fn is_all(&self) -> bool {
        self.is_kept || self.doubted.is_empty() && (self.is_again || self.in_a_row.is_empty())
    }

    fn hear(&mut self, asked: Vec<HandleLine>, answer: Answer<Account>) {
        self.refused.extend(self.in_a_row.drain(..).map(|(one, why)| (one.line, why)));
        for (one, outcome) in asked.into_iter().zip(answer.outcomes) {
            let line = one.line;
            match outcome {
                Outcome::Found(account) | Outcome::Emptied(account, _) => {
                    let id = account.id.clone();
                    self.found.push(Resolved { line, id, account: Some(Box::new(account)) });
                }
                Outcome::Unavailable => self.doubt(
                    one,
                    "no account is returned for the handle: there is none, it is suspended or deactivated, or this server \
                     does not know it",
                ),
                Outcome::Absent(Absence::NotFound | Absence::Deleted) => {
                    self.refuse(line, "there is no account with this handle")
                }
                Outcome::Absent(Absence::Deactivated) => self.refuse(line, "the account is deactivated"),
                Outcome::Absent(Absence::Suspended) => self.refuse(line, "the account is suspended"),
                Outcome::Absent(Absence::Protected) => self.refuse(line, "the account may not be seen by this credential"),
                Outcome::Broken(why) => self.doubt(one, &format!("the account cannot be read: {why}")),
            }
        }
    }

    fn doubt(&mut self, one: HandleLine, why: &str) {
        if self.is_again { self.refuse(one.line, why) } else { self.doubted.push((one, why.to_owned())) }
    }

    fn refuse(&mut self, line: u64, why: &str) {
        self.refused.push((line, why.to_owned()));
    }
}

fn split(part: Vec<HandleLine>, places: &[bool]) -> (Vec<HandleLine>, Vec<HandleLine>) {
    let (now, later): (Vec<_>, Vec<_>) = part.into_iter().zip(places).partition(|(_, has_place)| **has_place);
    let alone = |part: Vec<(HandleLine, &bool)>| part.into_iter().map(|(one, _)| one).collect();
    (alone(now), alone(later))
}
