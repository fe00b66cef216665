//! The calls, the time and the money that a number of accounts needs, for each network. Pure.
//!
//! **Demand.** An account is looked up once per interval of its lane: active, idle or frozen. The shares of the lanes depend on the
//! accounts, so the user states them. The formula of `status` turns them into calls ([`RequestFill::calls_per_window`]).
//!
//! **One round.** All accounts are looked up once with all calls of the quota. Its time is that of the first lookups, and the greatest
//! age of the data if the quota is too small for the intervals.
//!
//! **Money.** X charges for an account once per UTC day, as much as for two posts.

use std::fmt;

use serde::Serialize;

use crate::ops::report::plan::{
    CallLimits, ChecksPlan, Costs, CredentialCounts, Flow, MONTH_DAYS, REDIS_BYTES_PER_ID, ReadTerms, RequestFill,
    WINDOW_S, credentials_needed, format_dollars,
};
use engine::base::clock::Millis;
use engine::base::humanize::{format_number, span};

/// Charged reads per account.
pub const READS_PER_ACCOUNT: f64 = 2.0;
const MAX_ACCOUNTS: f64 = 1e12;
const DAY_S: f64 = 86_400.0;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LanePlan {
    pub lane: &'static str,
    pub interval_ms: Millis,
    /// Share of the accounts, 0 to 1.
    pub share: f64,
    pub accounts: f64,
    pub lookups_per_day: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Population {
    pub accounts: f64,
    pub lanes: Vec<LanePlan>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    pub name: String,
    pub fill: RequestFill,
    /// Calls per 15 minutes and credential; `None`: not published.
    pub calls: Option<CallLimits>,
    pub reads: Option<ReadTerms>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkPlan {
    pub network: String,
    pub ids_per_call: usize,
    pub calls_per_15_min: f64,
    pub calls_per_day: f64,
    /// Number of user credentials needed without app-only ones; `None`: their calls are not published.
    pub user_credentials: Option<u64>,
    pub app_credentials: Option<u64>,
    pub calls_per_round: f64,
    /// The time of one round for different credentials; empty if their calls are not published.
    pub rounds: Vec<Round>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<AccountReads>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<ChecksPlan>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Round {
    #[serde(flatten)]
    pub credentials: CredentialCounts,
    pub calls_per_15_min: f64,
    pub seconds: f64,
    pub enough: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AccountReads {
    pub reads_per_month: f64,
    pub dollars_per_month: f64,
    pub dollars_per_round: f64,
    /// Allowed reads per month; `None`: no limit.
    pub reads_allowed_per_month: Option<f64>,
    pub share_of_budget: Option<f64>,
    pub price_per_read: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccountsPlan {
    #[serde(flatten)]
    pub population: Population,
    /// Redis memory for the accounts of one network, in bytes.
    pub redis_bytes: f64,
    /// Each network, as if it had all accounts.
    pub networks: Vec<NetworkPlan>,
}

impl Population {
    /// `lanes` has name, interval in ms and share of each lane. Fails if a number is out of range, or the sum of the shares is not 1.
    pub fn new(accounts: f64, lanes: [(&'static str, Millis, f64); 3]) -> Result<Self, String> {
        if !(accounts > 0.0 && accounts <= MAX_ACCOUNTS) {
            return Err(format!("--accounts ({accounts}) must be above 0 and at most 1,000,000,000,000"));
        }
        let lane = |(lane, interval_ms, share): (&'static str, Millis, f64)| {
            let lookups_per_day = accounts * share * DAY_S * 1e3 / interval_ms.max(1) as f64;
            LanePlan { lane, interval_ms, share, accounts: accounts * share, lookups_per_day }
        };
        let lanes: Vec<LanePlan> = lanes.into_iter().map(lane).collect();
        let sum: f64 = lanes.iter().map(|lane| lane.share).sum();
        // Rejects NaN, too.
        if !(lanes.iter().all(|lane| lane.share >= 0.0) && (sum - 1.0).abs() < 1e-9) {
            return Err("--active and --idle must be shares from 0 to 1, and at most 1 together".to_owned());
        }
        Ok(Self { accounts, lanes })
    }

    fn flows(&self) -> Vec<Flow> {
        let flow = |lane: &LanePlan| Flow {
            rate: lane.lookups_per_day / DAY_S,
            interval_s: lane.interval_ms.max(1) as f64 / 1e3,
            visits: 1.0,
        };
        self.lanes.iter().map(flow).collect()
    }

    /// Returns the charged reads per day. An account is charged at most once per UTC day.
    fn reads_per_day(&self) -> f64 {
        let charged = self.lanes.iter().map(|lane| lane.lookups_per_day.min(lane.accounts));
        charged.sum::<f64>() * READS_PER_ACCOUNT
    }
}

impl AccountsPlan {
    /// Plans each network, as if it had all accounts; with `given` also for these credentials.
    #[must_use]
    pub fn new(population: Population, networks: &[Network], given: Option<CredentialCounts>) -> Self {
        let one = |network| NetworkPlan::new(&population, network, given);
        let networks = networks.iter().map(one).collect();
        Self { redis_bytes: population.accounts * f64::from(REDIS_BYTES_PER_ID), networks, population }
    }

    /// Adds the cost of the limit `longest`, in ms, on the time without a check, compared with the plan `without` it.
    #[must_use]
    pub fn with_checks(mut self, longest: Millis, without: &Self) -> Self {
        for (network, without) in self.networks.iter_mut().zip(&without.networks) {
            network.checks = Some(ChecksPlan::new(longest, network.costs(), without.costs()));
        }
        self
    }
}

impl NetworkPlan {
    fn new(population: &Population, network: &Network, given: Option<CredentialCounts>) -> Self {
        let Network { name, fill, calls, reads } = network;
        let flows = population.flows();
        let calls_per_15_min = fill.calls_per_window(&flows, None);
        let calls_per_round = (population.accounts / fill.limit.max(1) as f64).ceil();
        let round = |limits: CallLimits, credentials: CredentialCounts| {
            let supply = credentials.calls(limits);
            Round {
                credentials,
                calls_per_15_min: supply,
                seconds: calls_per_round / supply * WINDOW_S,
                enough: fill.calls_per_window(&flows, Some(supply)) <= supply * (1.0 + 1e-12),
            }
        };
        let each = [CredentialCounts { user: 1, app: 0 }, CredentialCounts { user: 0, app: 1 }];
        let rounds = |limits: CallLimits| {
            let mut all: Vec<CredentialCounts> = each.into_iter().chain(given).collect();
            if limits.user == limits.app {
                all.remove(1); // the network makes no difference
            }
            all.into_iter().map(|credentials| round(limits, credentials)).collect()
        };
        // Requests that wait for a permit are full.
        let full = flows.iter().map(|flow| flow.rate).sum::<f64>() * WINDOW_S / fill.limit.max(1) as f64;
        Self {
            network: name.clone(),
            ids_per_call: fill.limit,
            calls_per_15_min,
            calls_per_day: calls_per_15_min * DAY_S / WINDOW_S,
            user_credentials: calls.map(|limits| credentials_needed(full, limits.user)),
            app_credentials: calls.map(|limits| credentials_needed(full, limits.app)),
            calls_per_round,
            rounds: calls.map(rounds).unwrap_or_default(),
            reads: reads.as_ref().map(|terms| AccountReads::new(population, terms)),
            checks: None,
        }
    }

    fn costs(&self) -> Costs {
        let reads = self.reads.as_ref().map(|reads| (reads.reads_per_month, reads.dollars_per_month));
        Costs { calls_per_15_min: self.calls_per_15_min, reads }
    }
}

impl AccountReads {
    fn new(population: &Population, terms: &ReadTerms) -> Self {
        let ReadTerms { price_per_read, reads_per_month: allowed, .. } = *terms;
        let reads_per_month = population.reads_per_day() * MONTH_DAYS;
        Self {
            reads_per_month,
            dollars_per_month: reads_per_month * price_per_read,
            dollars_per_round: population.accounts * READS_PER_ACCOUNT * price_per_read,
            reads_allowed_per_month: allowed,
            share_of_budget: allowed.map(|allowed| reads_per_month / allowed),
            price_per_read,
        }
    }
}

impl fmt::Display for AccountsPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |a: &str, b: &str, c: &str, d: &str, e: &str| writeln!(f, "{a:<14}{b:>10}{c:>10}{d:>18}{e:>20}");
        row("lane", "every", "share", "accounts", "lookups per day")?;
        for lane in &self.population.lanes {
            let share = format!("{} %", format_number((lane.share * 1e3).round() / 10.0));
            let [accounts, lookups] = [lane.accounts, lane.lookups_per_day].map(format_number);
            row(lane.lane, &span(lane.interval_ms), &share, &accounts, &lookups)?;
        }
        let lookups = self.population.lanes.iter().map(|lane| lane.lookups_per_day).sum();
        row("all", "", "", &format_number(self.population.accounts), &format_number(lookups))?;
        for network in &self.networks {
            write!(f, "\n{network}")?;
        }
        let memory = format_number(self.redis_bytes / 1e6);
        write!(f, "\n{:<24}{memory:>14}  {REDIS_BYTES_PER_ID} bytes per id", "Redis memory, MB")
    }
}

impl fmt::Display for NetworkPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {} ids per call", self.network, self.ids_per_call)?;
        if let Some(checks) = &self.checks {
            writeln!(f, "{checks}")?;
        }
        let mut line = |name: &str, value: String, note: String| {
            writeln!(f, "{}", format!("{name:<24}{value:>14}  {note}").trim_end())
        };
        line("calls per 15 min", format_number(self.calls_per_15_min), String::new())?;
        line("calls per day", format_number(self.calls_per_day), String::new())?;
        line("calls of one round", format_number(self.calls_per_round), "each account once, in full calls".to_owned())?;
        if self.rounds.is_empty() {
            line("one round", "unknown".to_owned(), "the network does not publish its quota".to_owned())?;
        }
        for round in &self.rounds {
            let CredentialCounts { user, app } = round.credentials;
            let enough = if round.enough { "enough for the intervals" } else { "NOT ENOUGH for the intervals" };
            let calls = format_number(round.calls_per_15_min);
            let note = format!("{user} user and {app} app-only credentials, {calls} calls per 15 min: {enough}");
            line("one round", span((round.seconds * 1e3) as Millis / 1_000 * 1_000), note)?;
        }
        if let (Some(user), Some(app)) = (self.user_credentials, self.app_credentials) {
            line("user credentials", format_number(user as f64), "or".to_owned())?;
            line("app-only credentials", format_number(app as f64), String::new())?;
        }
        let Some(reads) = &self.reads else { return Ok(()) };
        let month = "30.4 days, each account at most once per UTC day".to_owned();
        let price = format!("at ${} per read (x.price_per_read), two reads per account", reads.price_per_read);
        line("reads per month", format_number(reads.reads_per_month.round()), month)?;
        line("cost per month, $", format_dollars(reads.dollars_per_month), price)?;
        line("cost of one round, $", format_dollars(reads.dollars_per_round), String::new())?;
        if let Some((allowed, share)) = reads.reads_allowed_per_month.zip(reads.share_of_budget) {
            let enough = if share <= 1.0 { "enough" } else { "NOT ENOUGH" };
            let note =
                format!("of {} reads per month (x.reads, shared with posts): {enough}", format_number(allowed.round()));
            line("share of the budget", format!("{:.1} %", share * 100.0), note)?;
        }
        Ok(())
    }
}
