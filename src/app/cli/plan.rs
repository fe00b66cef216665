//! `plan`: the credentials and the storage for a number of posts per day, of accounts, or of follower lists.

use std::time::Duration;

use anyhow::Result;
use clap::ArgGroup;

use super::{BadUsage, Options, write_answer};
use crate::app;
use crate::ops::report::plan::{
    ACCOUNT_CALLS, AccountsPlan, AdaptivePlan, BadTweetsPerDay, ChecksPlan, CredentialCounts, LIST_CALLS,
    ListPopulation, ListsPlan, Network, Plan, Population, TWITTER_CALLS, X_CALLS, X_LIST_CALLS,
};
use collect::config::{AccountSchedule, AccountSettings, BadConfig, RelationSettings, ScheduleKind, Settings};
use collect::pipelines::relations::pages;
use engine::base::clock;
use engine::schedule::adaptive::Adaptive;
use engine::schedule::adaptive::budget::Normaliser;
use engine::schedule::age::AgeTable;
use engine::schedule::budgeted::Spend;
use networks::model::provider::Provider;
use networks::model::relation::ListKind;
use networks::providers::registry::{accounts, capabilities};

/// Calculate the credentials and the storage for a number of posts per day, of accounts, or of follower lists.
#[derive(Debug, clap::Args)]
#[command(
    group = ArgGroup::new("of").required(true).args(["tweets_per_day", "accounts", "followers"]),
    after_help = "Examples:\n  twitter-updater plan --tweets-per-day 100000\n  twitter-updater plan --tweets-per-day 100000 --user-credentials 1 --app-credentials 2\n  twitter-updater plan --tweets-per-day 100000 --json | jq .app_credentials\n  twitter-updater plan --provider x --tweets-per-day 1000\n  twitter-updater plan --accounts 100000 --active 0.5 --idle 0.3\n  twitter-updater plan --followers 10000 --list-sizes 150,700,20000\n\nUses the settings in effect: tweet_age, store.longest_unchecked, updater.lookahead, updater.buffer_ttl, the intervals of [accounts] and of [relations], and for X the price of reads. Connects to nothing."
)]
pub(super) struct Arguments {
    /// New posts per day.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number)]
    tweets_per_day: Option<f64>,
    /// Plan for this number of accounts instead, whose profiles are collected, for each configured network.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number)]
    accounts: Option<f64>,
    /// Plan for the follower lists, or the friend lists, of this number of accounts instead. Each of the two kinds has its
    /// own quota.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number, requires = "list_sizes")]
    followers: Option<f64>,
    /// Sizes of these lists in members, comma separated. Each size stands for the same share of the lists:
    /// 100,300,1000,20000 for a quarter each.
    #[arg(
        long,
        value_name = "SIZES",
        allow_negative_numbers = true,
        value_delimiter = ',',
        value_parser = number,
        requires = "followers",
        conflicts_with_all = ["tweets_per_day", "accounts"]
    )]
    list_sizes: Vec<f64>,
    /// Share of accounts, 0 to 1, that posted within accounts.idle_after. The default is an assumption; `status` shows your
    /// share.
    #[arg(
        long,
        value_name = "SHARE",
        allow_negative_numbers = true,
        default_value_t = 0.2,
        conflicts_with_all = ["tweets_per_day", "followers"]
    )]
    active: f64,
    /// Share of accounts, 0 to 1, that are silent for longer, but not for accounts.freeze_after; the rest is frozen.
    #[arg(
        long,
        value_name = "SHARE",
        allow_negative_numbers = true,
        default_value_t = 0.2,
        conflicts_with_all = ["tweets_per_day", "followers"]
    )]
    idle: f64,
    /// Also calculate the capacity of this number of user tokens (900 calls per 15 minutes each): posts per day, or the
    /// time to look up all accounts, or to read all lists, once.
    #[arg(long, value_name = "U", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    user_credentials: Option<u32>,
    /// Also calculate the capacity of this number of app-only tokens (300 calls per 15 minutes each). Both kinds add up.
    #[arg(long, value_name = "A", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    app_credentials: Option<u32>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn number(text: &str) -> Result<f64, &'static str> {
    text.trim().parse().map_err(|_| "write a number, like 100000")
}

const ADAPTIVE: &str =
    "\nThe adaptive schedule makes as many updates after some days, and between half and twice as many on the first.";
const ADAPTIVE_ACCOUNTS: &str = "\nThe adaptive schedule makes about as many lookups after some days, and \
    between half and twice as many on the first.";
const ADAPTIVE_QUOTA: &str = "\nThis is the minimum: adaptive.spend = \"quota\" uses all of the quota.";

const ADAPTIVE_UNKNOWN: &str = "\nThe updates and charged reads per tweet of the adaptive schedule are \
    unknown: train adaptive.model_file again, or lengthen the intervals.";

const ADAPTIVE_CHECKS: &str = "\nThe figures for store.longest_unchecked are those of quiet tweets only. The adaptive \
     schedule takes these calls from busy tweets.";

/// Longest intervals without `store.longest_unchecked`: those of quiet posts.
fn quiet_intervals(settings: &Settings) -> AgeTable {
    match settings.schedule {
        ScheduleKind::Age => settings.tweet_age.clone(),
        ScheduleKind::Adaptive => settings.tweet_age.with_scaled_intervals(settings.adaptive.slower),
    }
}

impl Arguments {
    pub fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        if let Some(accounts) = self.accounts {
            let plan = self.plan_accounts(accounts, &start.settings)?;
            let adaptive = match start.settings.accounts.schedule {
                AccountSchedule::Silence => "",
                AccountSchedule::Adaptive => ADAPTIVE_ACCOUNTS,
            };
            write_answer(self.json, &plan, &format!("{plan}{adaptive}"))?;
            return Ok(0);
        }
        if let Some(lists) = self.followers {
            let plan = self.plan_lists(lists, &start.settings)?;
            write_answer(self.json, &plan, &plan.to_string())?;
            return Ok(0);
        }
        let plan = self.plan(&start.settings)?;
        let adaptive = match (start.settings.schedule, start.settings.adaptive.spend) {
            (ScheduleKind::Age, _) => "",
            (ScheduleKind::Adaptive, Spend::Demand) => ADAPTIVE,
            (ScheduleKind::Adaptive, Spend::Quota) => ADAPTIVE_QUOTA,
        };
        let is_adaptive = start.settings.schedule == ScheduleKind::Adaptive;
        let checks = if is_adaptive && plan.checks.is_some() { ADAPTIVE_CHECKS } else { "" };
        let unknown = if is_adaptive && plan.adaptive.is_none() { ADAPTIVE_UNKNOWN } else { "" };
        write_answer(self.json, &plan, &format!("{plan}{adaptive}{checks}{unknown}"))?;
        Ok(0)
    }

    fn plan(&self, settings: &Settings) -> Result<Plan> {
        let ages = &settings.ages();
        // Several networks have no common plan.
        let provider = match &settings.providers()?[..] {
            [one] => one.clone(),
            _ => Provider::Twitter,
        };
        let capabilities = capabilities(&provider);
        let terms = || app::read_terms(settings);
        let network = Network::new(&provider, TWITTER_CALLS, X_CALLS, terms);
        if network.calls.is_none() {
            return BadUsage::because(format!(
                "{provider} publishes no limit of calls and needs no credentials, so there is nothing to plan: a call takes up to {} \
                 posts",
                capabilities.batch_limit
            ));
        }
        // The arguments contain one or the other.
        let tweets_per_day = self.tweets_per_day.ok_or(BadTweetsPerDay(0.0))?;
        let plan_of = |ages: &AgeTable| -> Result<Plan> {
            let plan = Plan::new(ages, tweets_per_day, app::request_fill(settings, capabilities))?;
            Ok(plan.with_network(ages, &network).map_err(|why| BadConfig(why.to_string()))?)
        };
        let mut plan = plan_of(ages)?;
        if let Some(longest) = settings.store.longest_unchecked() {
            let without = quiet_intervals(settings);
            let costs = (plan_of(&without.with_max_interval(longest))?.costs(), plan_of(&without)?.costs());
            plan.checks = Some(ChecksPlan::new(longest, costs.0, costs.1));
        }
        if settings.schedule == ScheduleKind::Adaptive {
            let (model, options) = (settings.adaptive.model()?, settings.adaptive.options());
            let schedule = Adaptive::new(ages.clone(), model, options, Normaliser::default());
            let lives = schedule.simulate_lives(settings.store.longest_unchecked());
            plan.adaptive = lives.map(|lives| AdaptivePlan::new(lives, tweets_per_day, network.reads.as_ref()));
        }
        if let Some(credentials) = self.credentials() {
            plan = plan.with_credentials(ages, credentials);
        }
        Ok(plan)
    }

    fn credentials(&self) -> Option<CredentialCounts> {
        let (user, app) = (self.user_credentials, self.app_credentials);
        let counts = CredentialCounts { user: user.unwrap_or(0), app: app.unwrap_or(0) };
        (user.is_some() || app.is_some()).then_some(counts)
    }

    fn plan_accounts(&self, count: f64, settings: &Settings) -> Result<AccountsPlan> {
        let population = |intervals: [Duration; 3]| {
            let [active, idle, frozen] = intervals.map(clock::millis);
            let rest = (1.0 - self.active - self.idle).max(0.0);
            let lanes = [("active", active, self.active), ("idle", idle, self.idle), ("frozen", frozen, rest)];
            Population::new(count, lanes).map_err(|error| BadConfig(error.to_string()))
        };
        let network = |provider: &Provider| {
            let network = Network::new(provider, ACCOUNT_CALLS, ACCOUNT_CALLS, || app::read_terms(settings));
            (network, app::request_fill(settings, accounts(provider).capabilities))
        };
        let networks: Vec<_> = settings.providers()?.iter().map(network).collect();
        let plan = |population| AccountsPlan::new(population, &networks, self.credentials());
        let bounded = plan(population(settings.account_intervals())?);
        let Some(longest) = settings.store.longest_unchecked() else { return Ok(bounded) };
        let AccountSettings { active, idle, frozen, .. } = settings.accounts;
        Ok(bounded.with_checks(longest, &plan(population([active, idle, frozen])?)))
    }

    fn plan_lists(&self, count: f64, settings: &Settings) -> Result<ListsPlan> {
        let RelationSettings { revisit, complete_every, known_tail, .. } = settings.relations;
        let every = (clock::millis(revisit), clock::millis(complete_every));
        let population = ListPopulation::new(count, self.list_sizes.clone(), every, known_tail)
            .map_err(|error| BadConfig(error.to_string()))?;
        let network = |provider: &Provider| {
            let network = Network::new(provider, LIST_CALLS, X_LIST_CALLS, || app::read_terms(settings));
            (network, pages(provider, ListKind::Followers, settings))
        };
        let networks: Vec<_> = settings.providers()?.iter().map(network).collect();
        Ok(ListsPlan::new(population, &networks, self.credentials()))
    }
}
