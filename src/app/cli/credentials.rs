//! `credentials`: the remaining quota of each credential, and the parked ones.

use anyhow::{Context, Result};

use super::{Options, PipelineChoice, exit, warn_of_settings, write_answer};
use crate::app::{self, Service};
use crate::ops::report::credentials::{self, CredentialsReport};
use collect::config::Settings;
use collect::pipelines::apis::open_for_check;
use engine::quota::Credential;
use networks::model::provider::Provider;

/// Print each credential's remaining quota, and which credentials are parked and why.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater credentials\n  twitter-updater credentials --check\n  twitter-updater credentials --pipeline visits:twitter\n  twitter-updater credentials --json | jq '.credentials[] | select(.parked_why)'\n\nEach endpoint has its own limits. The default is the endpoint for lookups of posts; --pipeline selects that of another pipeline. Without --check it makes no calls and needs no secrets. With --check it exits with 69 if a credential does not work."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    choice: PipelineChoice,
    /// Ask the API about each credential, and try one lookup with it. Parks refused credentials and frees those that
    /// work again.
    #[arg(long)]
    check: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.with_choice(&self.choice).start(&[])?;
        // Each endpoint has its own limits: those of the named pipeline, else those of post lookups.
        let pipeline = start.pipeline()?;
        if self.check {
            warn_of_settings(&start.settings);
        }
        let report = self.report(&start.settings, &pipeline.id.provider, pipeline.capabilities().endpoint).await?;
        write_answer(self.json, &report, &report.to_string())?;
        Ok(if report.all_work() { 0 } else { exit::UNAVAILABLE })
    }

    /// Reads the ledger's record of each credential. With `--check`, asks the API about each first, which needs the
    /// secrets.
    async fn report(
        &self,
        settings: &Settings,
        provider: &Provider,
        endpoint: &'static str,
    ) -> Result<CredentialsReport> {
        let callers = app::callers(settings, provider)?;
        let service = Service::new(settings)?;
        let unusable_message = || service.unusable_message("quota ledger");
        if !self.check {
            app::check_queue_file(settings)?;
            let names: Vec<String> = callers.iter().map(|(name, _)| name.clone()).collect();
            let ledger = service.ledger(provider).await?;
            let known = ledger.statuses(endpoint, &names, &[]).await.with_context(unusable_message)?;
            let budget = match app::live_budget(settings, provider).map(|budget| *budget.load()) {
                Some(budget) => {
                    Some(budget.status(&ledger.counted_reads(budget.per).await.with_context(unusable_message)?))
                }
                None => None,
            };
            return Ok(CredentialsReport { budget, ..CredentialsReport::new(endpoint, callers, known) });
        }
        let (api, lookup) = open_for_check(settings, provider, endpoint).await?;
        let credentials = app::open_credentials(settings, &service, provider).await?;
        let lookup = async |credential: &Credential| match &lookup {
            Some(lookup) => Some(lookup.call(provider, credential).await),
            None => None,
        };
        let checks = credentials::check_credentials(&credentials, &*api, lookup, endpoint)
            .await
            .with_context(unusable_message)?;
        let known = credentials.statuses(endpoint).await.with_context(unusable_message)?;
        let budget = credentials.budget_status().await.with_context(unusable_message)?;
        let usage = credentials::fetch_usage(&credentials, &*api).await;
        let report = CredentialsReport::new(endpoint, callers, known).with_checks(checks);
        Ok(CredentialsReport { budget, usage, ..report })
    }
}
