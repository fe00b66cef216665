//! The report of `credentials`: the quota ledger's record of each credential, and the API's answer if it was asked.

use std::fmt;
use std::sync::Arc;

use futures::future::join_all;
use serde::{Serialize, Serializer};

use crate::base::clock::{self, Millis};
use crate::base::humanize::{grouped, span, when};
use crate::ops::report::plan::money;
use crate::providers::lookup::{Api, LookupError, Usage};
use crate::quota::{Caller, Credential, CredentialStatus, Credentials, LedgerError, Reads, Used, Window};

#[derive(Debug, Clone, Serialize)]
pub struct CredentialsReport {
    /// The endpoint, as the ledger names it.
    pub endpoint: String,
    /// One per credential, in the order of the settings.
    pub credentials: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Reads>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageAnswer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum UsageAnswer {
    Told(Usage),
    NotTold {
        /// The error of the last credential.
        why: String,
    },
}

#[derive(Debug, Clone, Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub account: CredentialStatus,
    pub kind: Caller,
    /// The API's answer about it, if it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Check {
    Works {
        /// The lookup's window, if the API stated it.
        #[serde(serialize_with = "serialize_window")]
        window: Option<Window>,
        /// True if it was parked for every endpoint until now.
        freed: bool,
        looked_up: bool,
    },
    Refused {
        why: String,
        parked: bool,
    },
    /// The API gave no verdict on it.
    NoAnswer {
        why: String,
    },
}

impl CredentialsReport {
    /// Joins the callers with the ledger's state of each, in the same order.
    #[must_use]
    pub fn new(endpoint: &str, callers: Vec<(String, Caller)>, accounts: Vec<CredentialStatus>) -> Self {
        let row = |((_, kind), account)| Row { kind, account, check: None };
        let credentials = callers.into_iter().zip(accounts).map(row).collect();
        Self { endpoint: endpoint.to_owned(), credentials, budget: None, usage: None }
    }

    #[must_use]
    pub fn with_reads(self, budget: Option<Reads>) -> Self {
        Self { budget, ..self }
    }

    #[must_use]
    pub fn with_usage(self, usage: Option<UsageAnswer>) -> Self {
        Self { usage, ..self }
    }

    /// Adds the API's answers, one per credential in the same order.
    #[must_use]
    pub fn with_checks(mut self, checks: Vec<Check>) -> Self {
        for (row, check) in self.credentials.iter_mut().zip(checks) {
            row.check = Some(check);
        }
        self
    }

    #[must_use]
    pub fn all_work(&self) -> bool {
        self.credentials.iter().all(|row| matches!(row.check, None | Some(Check::Works { .. })))
    }
}

/// Asks the API about all credentials at the same time, once each, and updates the ledger. A refused credential is parked as a worker
/// parks it. A working one that was parked for every endpoint is free again. `endpoint` is the one whose window an answer may state.
/// `look_up` makes a call to it, if there is a way to try it.
pub async fn check(
    credentials: &Credentials,
    api: &dyn Api,
    look_up: impl AsyncFn(&Credential) -> Option<Result<Option<Window>, LookupError>>,
    endpoint: &'static str,
) -> Result<Vec<Check>, LedgerError> {
    let answers = join_all(credentials.all().iter().map(|credential| ask(api, &look_up, credential, endpoint))).await;
    let mut checks = Vec::with_capacity(answers.len());
    for (credential, answer) in credentials.all().iter().zip(answers) {
        let name = &credential.name;
        checks.push(match answer {
            Ok(Answered { window, looked_up }) => {
                if window.is_some() {
                    credentials.learnt(name, endpoint, Used { window, ..Used::default() }).await?;
                }
                Check::Works { window, freed: credentials.free(name).await?, looked_up }
            }
            Err(error) => {
                // A throttled call says nothing about other endpoints: it has a window of its own.
                let park = error.park().filter(|park| park.everywhere);
                let parked = park.is_some();
                if parked {
                    credentials.learnt(name, endpoint, Used { park, ..Used::default() }).await?;
                }
                match error {
                    LookupError::Credential(why) | LookupError::Stop(why) => Check::Refused { why, parked },
                    error => Check::NoAnswer { why: error.to_string() },
                }
            }
        });
    }
    Ok(checks)
}

/// Asks the API for its count of charged reads, with each credential until one gets an answer; `None` if it charges for nothing.
pub async fn usage(credentials: &Credentials, api: &dyn Api) -> Option<UsageAnswer> {
    let mut failure = None;
    for credential in credentials.all() {
        match api.usage(credential).await {
            Ok(usage) => return usage.map(UsageAnswer::Told),
            Err(error) => failure = Some(UsageAnswer::NotTold { why: error.to_string() }),
        }
    }
    failure
}

struct Answered {
    window: Option<Window>,
    looked_up: bool,
}

/// Asks the API about the credential, and looks something up with it: a server may know a token and refuse its lookups. Without a call
/// left nothing is looked up.
async fn ask(
    api: &dyn Api,
    look_up: &impl AsyncFn(&Credential) -> Option<Result<Option<Window>, LookupError>>,
    credential: &Arc<Credential>,
    endpoint: &str,
) -> Result<Answered, LookupError> {
    let window = match api.check(credential).await {
        // The failed check has corrected the credential's clock: once more.
        Err(LookupError::Clock(_)) => api.check(credential).await,
        answer => answer,
    }?
    .filter(|_| api.states_window_of(endpoint));
    if window.is_some_and(|window| window.remaining == 0) {
        return Ok(Answered { window, looked_up: false });
    }
    match look_up(credential).await {
        None => Ok(Answered { window, looked_up: false }),
        Some(Ok(stated)) => Ok(Answered { window: stated.or(window), looked_up: true }),
        // It may call, and has no call left.
        Some(Err(LookupError::Throttled { quota, .. })) => Ok(Answered { window: quota.or(window), looked_up: false }),
        Some(Err(error)) => Err(error),
    }
}

impl fmt::Display for CredentialsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.credentials.iter().map(|row| row.account.name.len());
        let width = names.max().unwrap_or(0).max("credential".len());
        writeln!(f, "{}\n", self.endpoint)?;
        writeln!(
            f,
            "{:<width$}  {:<9}{:>10}{:>11}{:>11}{:>13}{:>13}  parked",
            "credential", "kind", "limit", "remaining", "reset in", "in flight", "calls today"
        )?;
        for Row { kind, account, .. } in &self.credentials {
            let limit = if account.unmetered { "no limit".to_owned() } else { calls(account.limit) };
            writeln!(
                f,
                "{:<width$}  {:<9}{limit:>10}{:>11}{:>11}{:>13}{:>13}  {}",
                account.name,
                kind.to_string(),
                calls(account.remaining),
                account.reset_in_ms.map_or_else(unknown, whole_seconds),
                grouped(account.outstanding.into()),
                grouped(account.calls_today),
                parked(account).unwrap_or_else(unknown),
            )?;
        }
        if let Some(reads) = &self.budget {
            writeln!(f, "\nbudget of reads\n{}", budget_line(reads))?;
        }
        match &self.usage {
            Some(UsageAnswer::Told(Usage { posts, cap, reset_day })) => {
                let of = cap.map_or_else(String::new, |cap| format!(" of {}", grouped(cap)));
                let reset = reset_day.map_or_else(String::new, |day| format!(", its month begins on day {day}"));
                writeln!(f, "the API itself has counted {}{of}{reset}", grouped(*posts))?;
            }
            Some(UsageAnswer::NotTold { why }) => writeln!(f, "the API does not tell its own count: {why}")?,
            None => {}
        }
        if self.credentials.iter().any(|row| row.check.is_some()) {
            writeln!(f, "\ncheck")?;
        }
        for row in &self.credentials {
            if let Some(check) = &row.check {
                writeln!(f, "{:<width$}  {check}", row.account.name)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works { window, freed, looked_up } => {
                f.write_str("works: ")?;
                match window {
                    None => f.write_str("nothing is said of its limit")?,
                    Some(window) if !window.is_metered() => f.write_str("no limit")?,
                    Some(window) => write!(
                        f,
                        "{} of {} calls left, reset in {}",
                        grouped(window.remaining.into()),
                        grouped(window.limit.into()),
                        whole_seconds(window.reset_in)
                    )?,
                }
                f.write_str(if *looked_up { "" } else { "; no lookup was tried, or it was throttled" })?;
                f.write_str(if *freed { "; was parked, is free again" } else { "" })
            }
            Self::Refused { why, parked } => write!(f, "REFUSED: {why}{}", if *parked { "; parked" } else { "" }),
            Self::NoAnswer { why } => write!(f, "NO ANSWER: {why}"),
        }
    }
}

#[must_use]
pub fn budget_line(reads: &Reads) -> String {
    let Reads { reads, limit, spent, since_ms, reset_in_ms, today, dollars, .. } = reads;
    let of = limit.map_or_else(String::new, |limit| format!(" of {}", grouped(limit)));
    let bound = if limit.is_none() { "; there is no bound (x.reads is 0)" } else { "" };
    let stop = if *spent { "SPENT, nothing is read until the reset: " } else { "" };
    format!(
        "{stop}{}{of} posts read since {}, ${} at the most, {} today (UTC); reset in {}{bound}",
        grouped(*reads),
        when(*since_ms),
        money(*dollars),
        grouped(*today),
        whole_seconds(*reset_in_ms)
    )
}

#[must_use]
pub fn parked(account: &CredentialStatus) -> Option<String> {
    let why = account.parked_why.as_deref().unwrap_or("no reason is given");
    let until = || when(clock::wall_ms() + account.parked_for_ms);
    (account.parked_for_ms > 0).then(|| format!("{}, until {}: {why}", whole_seconds(account.parked_for_ms), until()))
}

fn calls(figure: Option<u32>) -> String {
    figure.map_or_else(unknown, |figure| grouped(figure.into()))
}

fn unknown() -> String {
    "-".to_owned()
}

/// A span rounded up to the second: an event that is a moment away is not over.
fn whole_seconds(ms: Millis) -> String {
    span((ms.max(0) + 999) / 1_000 * 1_000)
}

fn serialize_window<S: Serializer>(window: &Option<Window>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct MeteredWindow {
        limit: u32,
        remaining: u32,
        reset_in_ms: Millis,
    }
    let metered = window.filter(Window::is_metered);
    let stated = metered.map(|Window { limit, remaining, reset_in, .. }| MeteredWindow {
        limit,
        remaining,
        reset_in_ms: reset_in,
    });
    stated.serialize(serializer)
}
