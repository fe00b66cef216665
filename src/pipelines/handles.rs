//! A file of accounts to ids: handles are resolved by metered calls, as many at once as a call takes, and ids go through as
//! they are. One call's accounts are held at a time.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use serde::Serialize;
use tokio::io::AsyncBufRead;

use crate::base::clock;
use crate::base::retry::{Retry, RetryPolicy};
use crate::base::shutdown::Stop;
use crate::ingest::{NamedLine, NamedLines};
use crate::model::account::{Absence, Account};
use crate::providers::handles::Handles;
use crate::providers::lookup::{Answer, LookupError, Outcome};
use crate::providers::metered::{Told, metered};
use crate::providers::named::Named;
use crate::quota::{Acquired, ChargedReads, Credential, Credentials, LedgerError, Permit};

/// Ids that are handed over together, at the most.
const TOGETHER: usize = 1_000;
/// Handles refused one by one with no answer between: the API refuses them all.
const REFUSED_IN_A_ROW: u32 = 8;
/// The longest sleep before the ledger is asked again: another process may free a credential.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// An account of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// Its line, from 1.
    pub line: u64,
    /// Its id.
    pub id: String,
    /// The account, where a handle was resolved: a whole answer, as a lookup by id gives it.
    pub account: Option<Box<Account>>,
}

/// The counts of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Resolution {
    /// Lines with an id.
    pub ids: u64,
    /// Lines with a handle that was resolved.
    pub handles: u64,
    /// Lines that name no account, or one that is not there.
    pub refused: u64,
}

impl Resolution {
    /// The file named no account and nothing else: most likely not what was meant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids + self.handles + self.refused == 0
    }

    /// The file named accounts, and no line was refused. Otherwise a command should exit with an error.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        !self.is_empty() && self.refused == 0
    }
}

/// Why a file was not resolved to its end. All up to that line is done; later lines may be.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError<E> {
    /// The source failed.
    #[error("the file cannot be read after line {line}: {why}; everything up to there is done")]
    Read {
        /// The last line that is done.
        line: u64,
        /// The cause.
        why: io::Error,
    },
    /// The API or the ledger stayed away, or refuses.
    #[error("the file is done up to line {line}, then: {why}")]
    Api {
        /// The last line that is done.
        line: u64,
        /// The error.
        why: String,
    },
    /// The accounts could not be handed over.
    #[error("the file is done up to line {line}, then: {why}")]
    HandOver {
        /// The last line that is done.
        line: u64,
        /// The error.
        why: E,
    },
    /// The command was stopped.
    #[error("stopped; the file is done up to line {line}")]
    Stopped {
        /// The last line that is done.
        line: u64,
    },
}

/// The accounts of a network by their handles, asked for within its quota.
#[derive(Debug)]
pub struct Resolver<'a> {
    /// The lookup.
    pub handles: &'a dyn Handles,
    /// Grants a permit for each call, and keeps the budget of reads.
    pub credentials: &'a Credentials,
    /// The time limit for a call.
    pub call_timeout: Duration,
    /// The behaviour while the API or the ledger is down.
    pub retry: RetryPolicy,
    /// Ends it: what was resolved is handed over first.
    pub stop: Stop,
}

/// A handle of a line.
#[derive(Debug, Clone)]
struct Asked {
    line: u64,
    handle: String,
}

/// Lines that were read and are not handed over.
#[derive(Default)]
struct Open {
    ready: Vec<Resolved>,
    asked: Vec<Asked>,
    /// The last line that was read.
    last: u64,
}

impl Open {
    /// The last line before which nothing is open.
    fn done(&self) -> u64 {
        let first = self.ready.iter().map(|one| one.line).chain(self.asked.iter().map(|one| one.line)).min();
        first.map_or(self.last, |first| first.saturating_sub(1))
    }
}

/// Why calls ended early.
enum Ended {
    Stopped,
    Failed(String),
}

/// Handles to be asked for, and what came of the calls since the last answer.
struct Tries {
    /// The last one first.
    parts: Vec<Vec<Asked>>,
    retry: Retry,
    /// Credentials that were refused.
    useless: HashSet<String>,
    /// First lines of what an answer had none of.
    has_none: HashSet<u64>,
}

/// What calls have said of handles.
#[derive(Default)]
struct Said {
    found: Vec<Resolved>,
    refused: Vec<(u64, String)>,
    /// Handles refused one by one, since the last answer.
    in_a_row: u32,
}

impl Resolver<'_> {
    /// Hands over the accounts of a file, about in its order: those whose line has an id, and those whose handle is
    /// resolved, as soon as they are. `on_refused` gets each line that names no account or one that is not there, with the
    /// reason. An account may come twice, as its lines do.
    ///
    /// # Errors
    /// [`ResolveError`], which says up to which line everything is done. What was resolved before is handed over.
    pub async fn resolve<R, E>(
        &self,
        lines: &mut NamedLines<R>,
        mut hand_over: impl AsyncFnMut(Vec<Resolved>) -> Result<(), E>,
        mut on_refused: impl FnMut(u64, &str),
    ) -> Result<Resolution, ResolveError<E>>
    where
        R: AsyncBufRead + Unpin,
    {
        let (mut open, mut said, mut sum) = (Open::default(), Said::default(), Resolution::default());
        let mut refuse = |sum: &mut Resolution, line, why: &str| {
            sum.refused += 1;
            on_refused(line, why);
        };
        let limit = self.handles.capabilities().batch_limit.max(1);
        loop {
            let next = self.stop.token().run_until_cancelled(lines.next()).await;
            let (line, mut ended) = match next {
                None => (None, Some(Ended::Stopped)),
                Some(Err(why)) => return Err(ResolveError::Read { line: open.done(), why }),
                Some(Ok(line)) => (line, None),
            };
            let is_last = line.is_none();
            if let Some(NamedLine { line, named }) = line {
                open.last = open.last.max(line);
                match named {
                    Ok(Named::Id(id)) => {
                        sum.ids += 1;
                        open.ready.push(Resolved { line, id, account: None });
                    }
                    Ok(Named::Handle(handle)) => open.asked.push(Asked { line, handle }),
                    Err(why) => refuse(&mut sum, line, &why),
                }
            }
            let is_full = open.asked.len() >= limit;
            if ended.is_none() && (is_full || is_last) && !open.asked.is_empty() {
                let unsaid;
                (unsaid, ended) = self.ask(std::mem::take(&mut open.asked), &mut said).await;
                sum.handles += said.found.len() as u64;
                said.refused.drain(..).for_each(|(line, why)| refuse(&mut sum, line, &why));
                open.ready.append(&mut said.found);
                open.asked = unsaid;
            }
            if !open.ready.is_empty() && (is_full || is_last || ended.is_some() || open.ready.len() >= TOGETHER) {
                let (line, ready) = (open.done(), std::mem::take(&mut open.ready));
                hand_over(ready).await.map_err(|why| ResolveError::HandOver { line, why })?;
            }
            match ended {
                Some(Ended::Stopped) => return Err(ResolveError::Stopped { line: open.done() }),
                Some(Ended::Failed(why)) => return Err(ResolveError::Api { line: open.done(), why }),
                None if is_last => return Ok(sum),
                None => {}
            }
        }
    }

    /// Asks for these handles, in as many calls as that takes. Answers those of which nothing was said, and why.
    async fn ask(&self, asked: Vec<Asked>, said: &mut Said) -> (Vec<Asked>, Option<Ended>) {
        let mut tries =
            Tries { parts: vec![asked], retry: self.retry.start(), useless: HashSet::new(), has_none: HashSet::new() };
        while let Some(part) = tries.parts.pop() {
            if let Err((part, ended)) = self.ask_once(part, &mut tries, said).await {
                return (part.into_iter().chain(tries.parts.into_iter().flatten()).collect(), Some(ended));
            }
        }
        (Vec::new(), None)
    }

    async fn ask_once(&self, part: Vec<Asked>, tries: &mut Tries, said: &mut Said) -> Result<(), (Vec<Asked>, Ended)> {
        let (permit, places) = match self.permit(&part, &mut tries.retry).await {
            Ok(granted) => granted,
            Err(ended) => return Err((part, ended)),
        };
        let (part, later) = split(part, &places);
        if !later.is_empty() {
            tries.parts.push(later);
        }
        let credential = permit.credential.clone();
        match self.call(&part, permit).await {
            // An answer that has none of many may be a slip: it is believed when it comes twice.
            Ok(answer) if part.len() > 1 && answer.has_none() && tries.has_none.insert(part[0].line) => {
                if let Err(ended) = self.sleep(tries.retry.next_delay()).await {
                    return Err((part, ended));
                }
                tries.parts.push(part);
                Ok(())
            }
            Ok(answer) => {
                tries.retry.succeeded();
                tries.useless.clear();
                said.in_a_row = 0;
                said.hear(part, answer);
                Ok(())
            }
            Err(error) => self.after(error, &credential.name, part, tries, said).await,
        }
    }

    /// Handles a call without an answer: the handles are tried again, in halves, or refused.
    async fn after(
        &self,
        error: LookupError,
        credential: &str,
        mut part: Vec<Asked>,
        tries: &mut Tries,
        said: &mut Said,
    ) -> Result<(), (Vec<Asked>, Ended)> {
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
            LookupError::BadRequest(_) if said.in_a_row < REFUSED_IN_A_ROW => {
                said.in_a_row += 1;
                said.refused.extend(part.into_iter().map(|one| (one.line, why.clone())));
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
            LookupError::Outage(_) | LookupError::BadAnswer(_) | LookupError::Unready(_) | LookupError::Clock(_) => {
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

    /// Waits before another try, if there is one left.
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

    /// Acquired for a call, as soon as there is one, with which of the handles the budget of reads has room for: at least
    /// one.
    async fn permit(&self, part: &[Asked], retry: &mut Retry) -> Result<(Permit, Vec<bool>), Ended> {
        let names = self.names(part);
        let endpoint = self.handles.capabilities().endpoint;
        let mut is_told = false;
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
            if !std::mem::replace(&mut is_told, true) {
                tracing::info!(endpoint, wait_ms = clock::millis(wait), "handles wait for the quota");
            }
            self.sleep(wait.min(ASK_AGAIN)).await?;
        }
    }

    /// Which of the handles the budget has room for; `None` where it has for none, and the permit is back.
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
                // Not counted is not asked for.
                self.credentials.give_back(permit).await;
                Err(error)
            }
        }
    }

    /// The names under which each handle is counted as read until its id is known: no id has such a name.
    fn names(&self, part: &[Asked]) -> Vec<Vec<String>> {
        let name = |one: &Asked| self.handles.reads(&format!("@{}", one.handle.to_ascii_lowercase()));
        part.iter().map(name).collect()
    }

    /// The accounts that came are charged by their ids, and those that did not are not. An answer that was lost stays
    /// counted.
    fn charged(&self, part: &[Asked], answer: &Result<Answer<Account>, LookupError>) -> ChargedReads {
        let mut charged = ChargedReads::default();
        match answer {
            Ok(answer) => {
                for (names, outcome) in self.names(part).into_iter().zip(&answer.outcomes) {
                    match outcome {
                        Outcome::Found(account) => {
                            charged.edited.extend(names.into_iter().zip(self.handles.reads(&account.id)));
                        }
                        Outcome::Unavailable | Outcome::Absent(_) => charged.unread.extend(names),
                        Outcome::Broken(_) => {}
                    }
                }
            }
            Err(error) if error.is_refusal() => charged.unread = self.names(part).concat(),
            Err(_) => {}
        }
        charged
    }

    /// One call, accounted for.
    async fn call(&self, part: &[Asked], permit: Permit) -> Result<Answer<Account>, LookupError> {
        let handles: Vec<String> = part.iter().map(|one| one.handle.clone()).collect();
        let call = async |credential: &Credential| {
            let answer = tokio::time::timeout(self.call_timeout, self.handles.resolve(&handles, credential)).await;
            let silent = || format!("no whole answer within {} ms", self.call_timeout.as_millis());
            answer.unwrap_or_else(|_| Err(LookupError::Outage(silent())))
        };
        let told = async |credential: &Credential, answer: &Result<Answer<Account>, LookupError>| {
            let park = answer.as_ref().err().and_then(LookupError::park);
            if let (Some(park), Err(error)) = (&park, answer) {
                let pause_ms = clock::millis(park.pause);
                tracing::warn!(credential = credential.name, %error, pause_ms, "the credential is parked");
            }
            let quota = answer.as_ref().ok().and_then(|answer| answer.quota);
            Told { quota, park, charged: self.charged(part, answer) }
        };
        metered(self.credentials, permit, call, told).await
    }
}

impl Said {
    fn hear(&mut self, asked: Vec<Asked>, answer: Answer<Account>) {
        for (Asked { line, .. }, outcome) in asked.into_iter().zip(answer.outcomes) {
            match outcome {
                Outcome::Found(account) => {
                    let id = account.id.clone();
                    self.found.push(Resolved { line, id, account: Some(Box::new(account)) });
                }
                Outcome::Unavailable => self.refuse(
                    line,
                    "no account is returned for the handle: there is none, it is suspended or deactivated, or this server \
                     does not know it",
                ),
                Outcome::Absent(Absence::NotFound) => self.refuse(line, "there is no account with this handle"),
                Outcome::Absent(Absence::Suspended) => self.refuse(line, "the account is suspended"),
                Outcome::Absent(Absence::Protected) => self.refuse(line, "the account may not be seen by this credential"),
                Outcome::Broken(why) => self.refuse(line, &format!("the account cannot be read: {why}")),
            }
        }
    }

    fn refuse(&mut self, line: u64, why: &str) {
        self.refused.push((line, why.to_owned()));
    }
}

/// Those that have a place in the budget, and the others.
fn split(part: Vec<Asked>, places: &[bool]) -> (Vec<Asked>, Vec<Asked>) {
    let (now, later): (Vec<_>, Vec<_>) = part.into_iter().zip(places).partition(|(_, has_place)| **has_place);
    let alone = |part: Vec<(Asked, &bool)>| part.into_iter().map(|(one, _)| one).collect();
    (alone(now), alone(later))
}
