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

use crate::ops::report::accounts_plan::READS_PER_ACCOUNT;
use crate::ops::report::plan::{CallLimits, CredentialCounts, MONTH_DAYS, ReadTerms, WINDOW_S, format_dollars};
use collect::pipelines::kind::{ListPages, VisitIntervals};
use engine::base::clock::Millis;
use engine::base::humanize::{format_number, span};

const MAX_LISTS: f64 = 1e12;
const DAY_S: f64 = 86_400.0;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListPopulation {
    /// Owners, each with one list.
    pub lists: f64,
    /// Sizes of the lists, in members; each size has the same share of them.
    pub list_sizes: Vec<f64>,
    #[serde(flatten)]
    pub every: VisitIntervals,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ListNetwork {
    pub name: String,
    pub pages: ListPages,
    /// Calls per 15 minutes and credential for one of the two lists; `None`: not published.
    pub calls: Option<CallLimits>,
    pub reads: Option<ReadTerms>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkListsPlan {
    pub network: String,
    pub members_per_page: u32,
    pub pages_per_list: f64,
    pub calls_per_round: f64,
    pub calls_per_day: f64,
    /// The time of one round for different credentials; empty if their calls are not published.
    pub rounds: Vec<ListRound>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<ListReads>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ListRound {
    #[serde(flatten)]
    pub credentials: CredentialCounts,
    pub calls_per_15_min: f64,
    pub days: f64,
    pub enough: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ListReads {
    pub dollars_per_round: f64,
    /// US dollars for a visit of all lists that finds nothing new.
    pub dollars_per_short_visit: f64,
    pub reads_per_month: f64,
    pub dollars_per_month: f64,
    /// Allowed reads per month; `None`: no limit.
    pub reads_allowed_per_month: Option<f64>,
    pub share_of_budget: Option<f64>,
    pub price_per_read: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListsPlan {
    #[serde(flatten)]
    pub population: ListPopulation,
    /// Each network, as if it had all lists.
    pub networks: Vec<NetworkListsPlan>,
}

impl ListPopulation {
    /// `revisit` and `complete_every` are in ms. `known_tail` is that of the settings. Fails if a number is out of range.
    pub fn new(
        lists: f64,
        list_sizes: Vec<f64>,
        (revisit, complete_every): (Millis, Millis),
        known_tail: u32,
    ) -> Result<Self, String> {
        if !(lists > 0.0 && lists <= MAX_LISTS) {
            return Err(format!("--followers ({lists}) must be above 0 and at most 1,000,000,000,000"));
        }
        // Rejects NaN, too.
        if let Some(wrong) = list_sizes.iter().find(|size| !(**size >= 0.0 && **size <= MAX_LISTS)) {
            return Err(format!("--list-sizes ({wrong}) must be from 0 to 1,000,000,000,000"));
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
    pub fn new(population: ListPopulation, networks: &[ListNetwork], given: Option<CredentialCounts>) -> Self {
        let networks = networks.iter().map(|network| NetworkListsPlan::new(&population, network, given)).collect();
        Self { population, networks }
    }
}

impl NetworkListsPlan {
    fn new(population: &ListPopulation, network: &ListNetwork, given: Option<CredentialCounts>) -> Self {
        let ListNetwork { name, pages, calls, reads } = network;
        let ListPages { page, longest } = *pages;
        let page_members = f64::from(page.max(1));
        let read = |size: f64| if longest > 0 { size.min(longest as f64) } else { size };
        let pages_per_list = population.mean(|size| pages.count_for(size.ceil() as u64) as f64);
        let calls_per_round = population.lists * pages_per_list;
        let calls_per_day = population.per_day(pages_per_list, 1.0);
        let each = [CredentialCounts { user: 1, app: 0 }, CredentialCounts { user: 0, app: 1 }];
        let round = |limits: CallLimits, credentials: CredentialCounts| {
            let calls_per_15_min = credentials.calls(limits);
            let a_day = calls_per_15_min * DAY_S / WINDOW_S;
            let enough = calls_per_day <= a_day * (1.0 + 1e-12);
            ListRound { credentials, calls_per_15_min, days: calls_per_round / a_day, enough }
        };
        let rounds = |limits| each.into_iter().chain(given).map(|credentials| round(limits, credentials)).collect();
        let money = |terms: &ReadTerms| {
            let members = (population.mean(read), population.mean(|size| read(size).min(page_members)));
            ListReads::new(population, members, terms)
        };
        Self {
            network: name.clone(),
            members_per_page: page,
            pages_per_list,
            calls_per_round,
            calls_per_day,
            rounds: calls.map(rounds).unwrap_or_default(),
            reads: reads.as_ref().map(money),
        }
    }
}

impl ListReads {
    fn new(population: &ListPopulation, (members, first): (f64, f64), terms: &ReadTerms) -> Self {
        let ReadTerms { price_per_read, reads_per_month: allowed, .. } = *terms;
        let dollars = |members: f64| population.lists * members * READS_PER_ACCOUNT * price_per_read;
        let reads_per_month = population.per_day(members, first) * READS_PER_ACCOUNT * MONTH_DAYS;
        Self {
            dollars_per_round: dollars(members),
            dollars_per_short_visit: dollars(first),
            reads_per_month,
            dollars_per_month: reads_per_month * price_per_read,
            reads_allowed_per_month: allowed,
            share_of_budget: allowed.map(|allowed| reads_per_month / allowed),
            price_per_read,
        }
    }
}

impl fmt::Display for ListsPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListPopulation { lists, list_sizes, every: VisitIntervals { revisit_ms, complete_every_ms } } =
            &self.population;
        let sizes: Vec<String> = list_sizes.iter().map(|size| format_number(*size)).collect();
        let of = if sizes.len() == 1 { "" } else { ", each size with the same share" };
        writeln!(f, "{:<24}{:>14}  of {} members{of}", "lists", format_number(*lists), sizes.join(" / "))?;
        writeln!(f, "{:<24}{:>14}  (relations.revisit)", "visited every", span(*revisit_ms))?;
        write!(f, "{:<24}{:>14}  (relations.complete_every)", "read whole every", span(*complete_every_ms))?;
        for network in &self.networks {
            write!(f, "\n\n{network}")?;
        }
        Ok(())
    }
}

impl fmt::Display for NetworkListsPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} members per page", self.network, format_number(f64::from(self.members_per_page)))?;
        let mut line = |name: &str, value: String, note: String| {
            write!(f, "\n{}", format!("{name:<24}{value:>14}  {note}").trim_end())
        };
        line("pages per list", format_number(self.pages_per_list), "on average".to_owned())?;
        line("calls of one round", format_number(self.calls_per_round), "each list as a whole, once".to_owned())?;
        line("calls per day", format_number(self.calls_per_day), "to keep them up to date".to_owned())?;
        if self.rounds.is_empty() {
            line("one round", "unknown".to_owned(), "the network does not publish its quota".to_owned())?;
        }
        for round in &self.rounds {
            let CredentialCounts { user, app } = round.credentials;
            let enough =
                if round.enough { "enough to keep them up to date" } else { "NOT ENOUGH to keep them up to date" };
            let calls = format_number(round.calls_per_15_min);
            let note = format!("{user} user and {app} app-only credentials, {calls} calls per 15 min: {enough}");
            line("one round, days", format_number(round.days), note)?;
        }
        let Some(reads) = &self.reads else { return Ok(()) };
        let price = format!("at ${} per read (x.price_per_read), two reads per member", reads.price_per_read);
        line("cost of one round, $", format_dollars(reads.dollars_per_round), price)?;
        let short = "a first page of each list; lower relations.page to reduce it".to_owned();
        line("cost of short visits, $", format_dollars(reads.dollars_per_short_visit), short)?;
        line("cost per month, $", format_dollars(reads.dollars_per_month), "to keep them up to date".to_owned())?;
        if let Some((allowed, share)) = reads.reads_allowed_per_month.zip(reads.share_of_budget) {
            let enough = if share <= 1.0 { "enough" } else { "NOT ENOUGH" };
            let note =
                format!("of {} reads per month (x.reads, shared with posts): {enough}", format_number(allowed.round()));
            line("share of the budget", format!("{:.1} %", share * 100.0), note)?;
        }
        Ok(())
    }
}
