//! The calls, the time and the money that lists of followers or of friends need, for each network. Pure.
//!
//! **One round.** Each list is read as a whole once. A list of *m* members takes *m* ÷ members of a page calls, rounded up, and at least
//! one; it is cut at `relations.longest`.
//!
//! **Upkeep.** A list is visited once per `relations.revisit`. Once per `relations.complete_every` a visit reads it as a whole. The
//! others end at known members, usually on the first page. Posts of the owners bring visits forward; these visits come in addition.
//!
//! **Money.** X charges for each account on a page, as much as for two posts, once per UTC day. Accounts on several lists are counted on
//! each, so the figure is an upper bound.

use std::fmt;

use serde::Serialize;

use super::BadPopulation;
use super::fill::{DAY_S, WINDOW_S};
use super::network::{Amount, CredentialCounts, Demand, Network, NetworkPlan, credential_choices, figures};
use super::reads::{READS_PER_ACCOUNT, format_dollars};
use crate::table::Table;
use collect::pipelines::kind::{ListPages, VisitIntervals};
use engine::base::clock::Millis;
use engine::base::humanize::{format_number, span};

const MAX_LISTS: f64 = 1e12;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListPopulation {
    /// Owners, each with one list.
    pub lists: f64,
    /// Sizes of the lists, in members; each size has the same share of them.
    pub list_sizes: Vec<f64>,
    #[serde(flatten)]
    pub every: VisitIntervals,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListNetworkPlan {
    pub members_per_page: u32,
    pub pages_per_list: f64,
    #[serde(flatten)]
    pub plan: NetworkPlan,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListsPlan {
    #[serde(flatten)]
    pub population: ListPopulation,
    /// Each network, as if it had all lists.
    pub networks: Vec<ListNetworkPlan>,
}

impl ListPopulation {
    /// `revisit` and `complete_every` are in ms. `known_tail` is that of the settings. Fails if a number is out of range.
    pub fn new(
        lists: f64,
        list_sizes: Vec<f64>,
        (revisit, complete_every): (Millis, Millis),
        known_tail: u32,
    ) -> Result<Self, BadPopulation> {
        if !(lists > 0.0 && lists <= MAX_LISTS) {
            return Err(BadPopulation::Lists(lists));
        }
        // Rejects NaN, too.
        if let Some(wrong) = list_sizes.iter().find(|size| !(**size >= 0.0 && **size <= MAX_LISTS)) {
            return Err(BadPopulation::ListSize(*wrong));
        }
        Ok(Self { lists, list_sizes, every: VisitIntervals::new(revisit, complete_every, known_tail) })
    }

    fn mean(&self, of: impl Fn(f64) -> f64) -> f64 {
        self.list_sizes.iter().map(|size| of(*size)).sum::<f64>() / self.list_sizes.len().max(1) as f64
    }

    /// Returns the daily sum over all visits: `whole` per visit that reads a whole list, `short` per visit that ends on its first page.
    fn per_day(&self, whole: f64, short: f64) -> f64 {
        self.lists * self.every.daily_total(whole, short)
    }
}

impl ListsPlan {
    /// Plans each network, as if it had all lists; with `given` also for these credentials.
    #[must_use]
    pub fn new(population: ListPopulation, networks: &[(Network, ListPages)], given: Option<CredentialCounts>) -> Self {
        let one = |(network, pages): &_| ListNetworkPlan::new(&population, network, *pages, given);
        let networks = networks.iter().map(one).collect();
        Self { population, networks }
    }
}

impl ListNetworkPlan {
    fn new(population: &ListPopulation, network: &Network, pages: ListPages, given: Option<CredentialCounts>) -> Self {
        let ListPages { page, longest } = pages;
        let page_members = f64::from(page.max(1));
        let read = |size: f64| if longest > 0 { size.min(longest as f64) } else { size };
        let (members, first) = (population.mean(read), population.mean(|size| read(size).min(page_members)));
        let pages_per_list = population.mean(|size| pages.count_for(size.ceil() as u64) as f64);
        let calls_per_day = population.per_day(pages_per_list, 1.0);
        let demand = Demand {
            calls_per_round: population.lists * pages_per_list,
            calls_per_day,
            min_calls_per_15_min: calls_per_day * WINDOW_S / DAY_S,
            round_time: |calls, calls_per_15_min| Amount::Days(calls / (calls_per_15_min * DAY_S / WINDOW_S)),
            reads_per_day: population.per_day(members, first) * READS_PER_ACCOUNT,
            reads_per_round: population.lists * members * READS_PER_ACCOUNT,
            reads_per_short_visit: Some(population.lists * first * READS_PER_ACCOUNT),
        };
        let plan = NetworkPlan::new(&demand, network, &credential_choices(given));
        Self { members_per_page: page, pages_per_list, plan }
    }

    fn add_to(&self, lines: &mut Table) {
        let Self { members_per_page, pages_per_list, plan } = self;
        lines.line(format!("{}, {} members per page", plan.network, format_number(f64::from(*members_per_page))));
        lines.figure("pages per list", format_number(*pages_per_list), "on average");
        lines.figure("calls of one round", format_number(plan.calls_per_round), "each list as a whole, once");
        lines.figure("calls per day", format_number(plan.calls_per_day), "to keep them up to date");
        plan.add_rounds(lines, "one round, days", "to keep them up to date");
        let Some(reads) = &plan.reads else { return };
        let price = format!("{}, two reads per member", reads.cost.price_text());
        lines.figure("cost of one round, $", format_dollars(reads.dollars_per_round), price);
        if let Some(dollars) = reads.dollars_per_short_visit {
            let note = "a first page of each list; lower relations.page to reduce it";
            lines.figure("cost of short visits, $", format_dollars(dollars), note);
        }
        lines.figure("cost per month, $", format_dollars(reads.cost.dollars_per_month), "to keep them up to date");
        reads.cost.add_share(lines, "x.reads, shared with posts");
    }
}

impl fmt::Display for ListsPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListPopulation { lists, list_sizes, every: VisitIntervals { revisit_ms, complete_every_ms } } =
            &self.population;
        let sizes: Vec<String> = list_sizes.iter().map(|size| format_number(*size)).collect();
        let of = if sizes.len() == 1 { "" } else { ", each size with the same share" };
        let mut lines = figures();
        lines.figure("lists", format_number(*lists), format!("of {} members{of}", sizes.join(" / ")));
        lines.figure("visited every", span(*revisit_ms), "(relations.revisit)");
        lines.figure("read whole every", span(*complete_every_ms), "(relations.complete_every)");
        for network in &self.networks {
            lines.line("");
            network.add_to(&mut lines);
        }
        lines.fmt(f)
    }
}
