//! The report of `credentials`: the quota ledger's record of each credential, and the result of its check.

use std::fmt;
use std::sync::Arc;

use futures::future::join_all;
use serde::{Serialize, Serializer};

use crate::ops::report::plan::format_dollars;
use crate::table::Table;
use engine::base::clock::{self, Millis};
use engine::base::humanize::{format_time, group_digits, span};
use engine::quota::{BudgetStatus, CallRecord, Caller, Credential, CredentialStatus, Credentials, LedgerError, Window};
use networks::providers::lookup::{Api, LookupError, Usage};

#[derive(Debug, Clone, Serialize)]
pub struct CredentialsReport {
    /// The ledger's name of the endpoint.
    pub endpoint: String,
    /// One per credential, in the order of the settings.
    pub credentials: Vec<CredentialRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageAnswer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum UsageAnswer {
    Counted(Usage),
    Unknown {
        /// The error of the last credential.
        why: String,
    },
}

#[derive(Debug, Clone, Serialize)]
pub struct CredentialRow {
    #[serde(flatten)]
    pub account: CredentialStatus,
    pub kind: Caller,
    /// The result of the check; `None` if the API was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckOutcome>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum CheckOutcome {
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
    /// The API did not judge the credential.
    NoAnswer {
        why: String,
    },
}

impl CredentialsReport {
    /// Joins the callers with the ledger's state of each, in the same order.
    #[must_use]
    pub fn new(endpoint: &str, callers: Vec<(String, Caller)>, accounts: Vec<CredentialStatus>) -> Self {
        let row = |((_, kind), account)| CredentialRow { kind, account, check: None };
        let credentials = callers.into_iter().zip(accounts).map(row).collect();
        Self { endpoint: endpoint.to_owned(), credentials, budget: None, usage: None }
    }

    /// Adds the API's answers, one per credential in the same order.
    #[must_use]
    pub fn with_checks(mut self, checks: Vec<CheckOutcome>) -> Self {
        for (row, check) in self.credentials.iter_mut().zip(checks) {
            row.check = Some(check);
        }
        self
    }

    #[must_use]
    pub fn all_work(&self) -> bool {
        self.credentials.iter().all(|row| matches!(row.check, None | Some(CheckOutcome::Works { .. })))
    }
}

/// Checks all credentials at the API at the same time, and updates the ledger. A rejected credential is parked as a worker parks it. A
/// working one that was parked for every endpoint is usable again. `endpoint` is the one whose window an answer may state. `look_up` makes
/// a call to it; `None` if it cannot be tried.
pub async fn check_credentials(
    credentials: &Credentials,
    api: &dyn Api,
    look_up: impl AsyncFn(&Credential) -> Option<Result<Option<Window>, LookupError>>,
    endpoint: &'static str,
) -> Result<Vec<CheckOutcome>, LedgerError> {
    let answers =
        join_all(credentials.all().iter().map(|credential| check_one(api, &look_up, credential, endpoint))).await;
    let mut checks = Vec::with_capacity(answers.len());
    for (credential, answer) in credentials.all().iter().zip(answers) {
        let name = &credential.name;
        checks.push(match answer {
            Ok(CheckAnswer { window, looked_up }) => {
                if window.is_some() {
                    credentials
                        .record_call_elsewhere(name, endpoint, CallRecord { window, ..CallRecord::default() })
                        .await?;
                }
                CheckOutcome::Works { window, freed: credentials.unpark(name).await?, looked_up }
            }
            Err(error) => {
                // A throttled call has a window of its own, and does not concern other endpoints.
                let park = error.park().filter(|park| park.everywhere);
                let parked = park.is_some();
                if parked {
                    credentials
                        .record_call_elsewhere(name, endpoint, CallRecord { park, ..CallRecord::default() })
                        .await?;
                }
                match error {
                    LookupError::Credential(why) | LookupError::Stop(why) => CheckOutcome::Refused { why, parked },
                    error => CheckOutcome::NoAnswer { why: error.to_string() },
                }
            }
        });
    }
    Ok(checks)
}

/// Fetches the API's count of charged reads with the first credential that gets an answer; `None` if the API does not charge.
pub async fn fetch_usage(credentials: &Credentials, api: &dyn Api) -> Option<UsageAnswer> {
    let mut failure = None;
    for credential in credentials.all() {
        match api.usage(credential).await {
            Ok(usage) => return usage.map(UsageAnswer::Counted),
            Err(error) => failure = Some(UsageAnswer::Unknown { why: error.to_string() }),
        }
    }
    failure
}

struct CheckAnswer {
    window: Option<Window>,
    looked_up: bool,
}

/// Checks the credential, and tries a lookup if a call is left: a server may accept a token and reject its lookups.
async fn check_one(
    api: &dyn Api,
    look_up: &impl AsyncFn(&Credential) -> Option<Result<Option<Window>, LookupError>>,
    credential: &Arc<Credential>,
    endpoint: &str,
) -> Result<CheckAnswer, LookupError> {
    let window = match api.check(credential).await {
        // The failed check has corrected the credential's clock.
        Err(LookupError::Clock(_)) => api.check(credential).await,
        answer => answer,
    }?
    .filter(|_| api.states_window_of(endpoint));
    if window.is_some_and(|window| window.remaining == 0) {
        return Ok(CheckAnswer { window, looked_up: false });
    }
    match look_up(credential).await {
        None => Ok(CheckAnswer { window, looked_up: false }),
        Some(Ok(stated)) => Ok(CheckAnswer { window: stated.or(window), looked_up: true }),
        // The credential is valid, but has no call left.
        Some(Err(LookupError::Throttled { quota, .. })) => {
            Ok(CheckAnswer { window: quota.or(window), looked_up: false })
        }
        Some(Err(error)) => Err(error),
    }
}

impl fmt::Display for CredentialsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.credentials.iter().map(|row| row.account.name.len());
        let width = names.max().unwrap_or(0).max("credential".len());
        writeln!(f, "{}\n", self.endpoint)?;
        let header = ["credential", "kind", "limit", "remaining", "reset in", "in flight", "calls today", "parked"];
        let mut table = Table::new(format!("<{width}  <9>10>11>11>13>13  <"), &header);
        for CredentialRow { kind, account, .. } in &self.credentials {
            table.row(&[
                &account.name,
                kind,
                &if account.unmetered { "no limit".to_owned() } else { count_or_dash(account.limit) },
                &count_or_dash(account.remaining),
                &account.reset_in_ms.map_or_else(dash, whole_seconds),
                &group_digits(account.outstanding.into()),
                &group_digits(account.calls_today),
                &parked_text(account).unwrap_or_else(dash),
            ]);
        }
        writeln!(f, "{table}")?;
        if let Some(reads) = &self.budget {
            writeln!(f, "\nbudget of reads\n{}", budget_line(reads))?;
        }
        match &self.usage {
            Some(UsageAnswer::Counted(Usage { posts, cap, reset_day })) => {
                let of = cap.map_or_else(String::new, |cap| format!(" of {}", group_digits(cap)));
                let reset = reset_day.map_or_else(String::new, |day| format!(", its month begins on day {day}"));
                writeln!(f, "the API itself has counted {}{of}{reset}", group_digits(*posts))?;
            }
            Some(UsageAnswer::Unknown { why }) => writeln!(f, "the API's own count is unknown: {why}")?,
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

impl fmt::Display for CheckOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works { window, freed, looked_up } => {
                f.write_str("works: ")?;
                match window {
                    None => f.write_str("the API did not state a limit")?,
                    Some(window) if !window.is_metered() => f.write_str("no limit")?,
                    Some(window) => write!(
                        f,
                        "{} of {} calls left, reset in {}",
                        group_digits(window.remaining.into()),
                        group_digits(window.limit.into()),
                        whole_seconds(window.reset_in)
                    )?,
                }
                f.write_str(if *looked_up { "" } else { "; no lookup was made, or it was throttled" })?;
                f.write_str(if *freed { "; parked before, usable again" } else { "" })
            }
            Self::Refused { why, parked } => write!(f, "REFUSED: {why}{}", if *parked { "; parked" } else { "" }),
            Self::NoAnswer { why } => write!(f, "NO ANSWER: {why}"),
        }
    }
}

#[must_use]
pub fn budget_line(reads: &BudgetStatus) -> String {
    let BudgetStatus { reads, limit, spent, since_ms, reset_in_ms, today, dollars, .. } = reads;
    let of = limit.map_or_else(String::new, |limit| format!(" of {}", group_digits(limit)));
    let bound = if limit.is_none() { "; no limit (x.reads is 0)" } else { "" };
    let stop = if *spent { "SPENT, nothing is read until the reset: " } else { "" };
    format!(
        "{stop}{}{of} posts read since {}, ${} at the most, {} today (UTC); reset in {}{bound}",
        group_digits(*reads),
        format_time(*since_ms),
        format_dollars(*dollars),
        group_digits(*today),
        whole_seconds(*reset_in_ms)
    )
}

/// Remaining time, end and reason of the pause of a credential; `None` if it is not parked.
#[must_use]
pub fn parked_text(account: &CredentialStatus) -> Option<String> {
    let why = account.parked_why.as_deref().unwrap_or("no reason is given");
    let until = || format_time(clock::wall_ms() + account.parked_for_ms);
    (account.parked_for_ms > 0).then(|| format!("{}, until {}: {why}", whole_seconds(account.parked_for_ms), until()))
}

fn count_or_dash(figure: Option<u32>) -> String {
    figure.map_or_else(dash, |figure| group_digits(figure.into()))
}

fn dash() -> String {
    "-".to_owned()
}

/// Formats a span, rounded up to the second: a remaining moment is not zero.
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
