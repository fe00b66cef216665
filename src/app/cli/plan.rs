//! `plan`: the credentials and the storage that a number of posts per day needs.

use anyhow::Result;

use super::{Options, write_answer};
use crate::app;
use crate::config::{BadConfig, ScheduleKind, Settings};
use crate::engine::schedule::adaptive::Spend;
use crate::model::provider::Provider;
use crate::ops::report::plan::{CredentialCounts, Plan, X_CALLS};
use crate::providers::registry::capabilities;

/// Calculate the credentials and storage that a number of tweets a day needs.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater plan --tweets-per-day 100000\n  twitter-updater plan --tweets-per-day 100000 --user-credentials 1 --app-credentials 2\n  twitter-updater plan --tweets-per-day 100000 --json | jq .app_credentials\n  twitter-updater plan --provider x --tweets-per-day 1000\n\nUses the settings in effect: tweet_age, updater.lookahead, updater.buffer_ttl, and for X the price of reads. Connects to nothing."
)]
pub(super) struct Arguments {
    /// New tweets per day.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    tweets_per_day: f64,
    /// Also calculate how many tweets a day this number of user tokens supports (900 calls per 15 minutes each).
    #[arg(long, value_name = "U", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    user_credentials: Option<u32>,
    /// The same for app-only tokens (300 calls per 15 minutes each); the two kinds add up.
    #[arg(long, value_name = "A", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    app_credentials: Option<u32>,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// The calls of the adaptive schedule.
const ADAPTIVE: &str =
    "\nThe adaptive schedule makes as many updates: after some days, and between half and twice as many on the first.";
const ADAPTIVE_QUOTA: &str = "\nThis is the least: adaptive.spend = \"quota\" uses all of the quota.";

impl Arguments {
    pub fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        let plan = self.plan(&start.settings)?;
        let adaptive = match (start.settings.schedule, start.settings.adaptive.spend) {
            (ScheduleKind::Age, _) => "",
            (ScheduleKind::Adaptive, Spend::Demand) => ADAPTIVE,
            (ScheduleKind::Adaptive, Spend::Quota) => ADAPTIVE_QUOTA,
        };
        write_answer(self.json, &plan, &format!("{plan}{adaptive}"))?;
        Ok(0)
    }

    fn plan(&self, settings: &Settings) -> Result<Plan> {
        let ages = &settings.tweet_age;
        let is_x = settings.providers()? == [Provider::X];
        let provider = if is_x { Provider::X } else { Provider::Twitter };
        let mut plan = Plan::new(ages, self.tweets_per_day, app::fill(settings, capabilities(&provider)))?;
        if is_x {
            let terms = app::read_terms(settings);
            plan = plan.with_calls(X_CALLS).with_reads(ages, &terms).map_err(|why| BadConfig(why.to_string()))?;
        }
        if self.user_credentials.is_some() || self.app_credentials.is_some() {
            let (user, app) = (self.user_credentials.unwrap_or(0), self.app_credentials.unwrap_or(0));
            plan = plan.with_credentials(ages, CredentialCounts { user, app });
        }
        Ok(plan)
    }
}
