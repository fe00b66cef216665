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

use super::BadPopulation;
use super::checks::{ChecksPlan, Costs};
use super::fill::{DAY_S, Flow, RequestFill, WINDOW_S};
use super::network::{Amount, CredentialCounts, Demand, Network, NetworkPlan, credential_choices, figures};
use super::posts::REDIS_BYTES_PER_ID;
use super::reads::{READS_PER_ACCOUNT, format_dollars};
use crate::table::Table;
use engine::base::clock::Millis;
use engine::base::humanize::{format_number, span};

const MAX_ACCOUNTS: f64 = 1e12;

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

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccountNetworkPlan {
    pub ids_per_call: usize,
    pub calls_per_15_min: f64,
    /// Number of user credentials needed without app-only ones; `None`: their calls are not published.
    pub user_credentials: Option<u64>,
    pub app_credentials: Option<u64>,
    #[serde(flatten)]
    pub plan: NetworkPlan,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<ChecksPlan>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccountsPlan {
    #[serde(flatten)]
    pub population: Population,
    /// Redis memory for the accounts of one network, in bytes.
    pub redis_bytes: f64,
    /// Each network, as if it had all accounts.
    pub networks: Vec<AccountNetworkPlan>,
}

impl Population {
    /// `lanes` has name, interval in ms and share of each lane. Fails if a number is out of range, or the sum of the shares is not 1.
    pub fn new(accounts: f64, lanes: [(&'static str, Millis, f64); 3]) -> Result<Self, BadPopulation> {
        if !(accounts > 0.0 && accounts <= MAX_ACCOUNTS) {
            return Err(BadPopulation::Accounts(accounts));
        }
        let lane = |(lane, interval_ms, share): (&'static str, Millis, f64)| {
            let lookups_per_day = accounts * share * DAY_S * 1e3 / interval_ms.max(1) as f64;
            LanePlan { lane, interval_ms, share, accounts: accounts * share, lookups_per_day }
        };
        let lanes: Vec<LanePlan> = lanes.into_iter().map(lane).collect();
        let sum: f64 = lanes.iter().map(|lane| lane.share).sum();
        // Rejects NaN, too.
        if !(lanes.iter().all(|lane| lane.share >= 0.0) && (sum - 1.0).abs() < 1e-9) {
            return Err(BadPopulation::Shares);
        }
        Ok(Self { accounts, lanes })
    }

    fn flows(&self) -> Vec<Flow> {
        let flow = |lane: &LanePlan| Flow::new(lane.lookups_per_day / DAY_S, lane.interval_ms, 1.0);
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
    pub fn new(population: Population, networks: &[(Network, RequestFill)], given: Option<CredentialCounts>) -> Self {
        let one = |(network, fill): &_| AccountNetworkPlan::new(&population, network, *fill, given);
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

impl AccountNetworkPlan {
    fn new(population: &Population, network: &Network, fill: RequestFill, given: Option<CredentialCounts>) -> Self {
        let flows = population.flows();
        let calls_per_15_min = fill.calls_per_window(&flows, None);
        let ids_per_call = fill.limit.max(1) as f64;
        let demand = Demand {
            calls_per_round: (population.accounts / ids_per_call).ceil(),
            calls_per_day: calls_per_15_min * DAY_S / WINDOW_S,
            min_calls_per_15_min: flows.iter().map(|flow| flow.rate).sum::<f64>() * WINDOW_S / ids_per_call,
            round_time: |calls, calls_per_15_min| Amount::Seconds(calls / calls_per_15_min * WINDOW_S),
            reads_per_day: population.reads_per_day(),
            reads_per_round: population.accounts * READS_PER_ACCOUNT,
            reads_per_short_visit: None,
        };
        let mut credentials = credential_choices(given);
        if network.calls.is_some_and(|limits| limits.user == limits.app) {
            credentials.remove(1); // the network makes no difference
        }
        let needed = network.calls.map(|limits| limits.credentials_for(demand.min_calls_per_15_min));
        Self {
            ids_per_call: fill.limit,
            calls_per_15_min,
            user_credentials: needed.map(|[user, _]| user),
            app_credentials: needed.map(|[_, app]| app),
            plan: NetworkPlan::new(&demand, network, &credentials),
            checks: None,
        }
    }

    fn costs(&self) -> Costs {
        Costs { calls_per_15_min: self.calls_per_15_min, reads: self.plan.reads.map(|reads| reads.cost) }
    }

    fn add_to(&self, lines: &mut Table) {
        let Self { plan, .. } = self;
        lines.line(format!("{}, {} ids per call", plan.network, self.ids_per_call));
        if let Some(checks) = &self.checks {
            checks.add_to(lines);
        }
        lines.figure("calls per 15 min", format_number(self.calls_per_15_min), "");
        lines.figure("calls per day", format_number(plan.calls_per_day), "");
        lines.figure("calls of one round", format_number(plan.calls_per_round), "each account once, in full calls");
        plan.add_rounds(lines, "one round", "for the intervals");
        if let (Some(user), Some(app)) = (self.user_credentials, self.app_credentials) {
            lines.figure("user credentials", format_number(user as f64), "or");
            lines.figure("app-only credentials", format_number(app as f64), "");
        }
        let Some(reads) = &plan.reads else { return };
        let month = format_number(reads.cost.reads_per_month.round());
        lines.figure("reads per month", month, "30.4 days, each account at most once per UTC day");
        let price = format!("{}, two reads per account", reads.cost.price_text());
        lines.figure("cost per month, $", format_dollars(reads.cost.dollars_per_month), price);
        lines.figure("cost of one round, $", format_dollars(reads.dollars_per_round), "");
        reads.cost.add_share(lines, "x.reads, shared with posts");
    }
}

impl fmt::Display for AccountsPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["lane", "every", "share", "accounts", "lookups per day"];
        let mut lanes = Table::new("<14>10>10>18>20", &header);
        for lane in &self.population.lanes {
            let share = format!("{} %", format_number((lane.share * 1e3).round() / 10.0));
            let [accounts, lookups] = [lane.accounts, lane.lookups_per_day].map(format_number);
            lanes.row(&[&lane.lane, &span(lane.interval_ms), &share, &accounts, &lookups]);
        }
        let lookups = self.population.lanes.iter().map(|lane| lane.lookups_per_day).sum();
        lanes.row(&[&"all", &"", &"", &format_number(self.population.accounts), &format_number(lookups)]);
        let mut lines = figures();
        for network in &self.networks {
            lines.line("");
            network.add_to(&mut lines);
        }
        lines.line("");
        let memory = format_number(self.redis_bytes / 1e6);
        lines.figure("Redis memory, MB", memory, format!("{REDIS_BYTES_PER_ID} bytes per id"));
        write!(f, "{lanes}\n{lines}")
    }
}
