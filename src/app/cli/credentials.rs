//! `credentials`: the remaining quota of each credential, and the parked ones.

use anyhow::{Context, Result};

use super::{Options, exit, warn_of_settings, write_answer};
use crate::app::{self, Service};
use crate::config::Settings;
use crate::model::provider::Provider;
use crate::ops::report::credentials::{self, CredentialsReport};
use crate::pipelines::apis::open_to_check;
use crate::quota::Credential;

/// Print each credential's remaining quota, and which credentials are parked and why.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater credentials\n  twitter-updater credentials --check\n  twitter-updater credentials --pipeline visits:twitter\n  twitter-updater credentials --json | jq '.credentials[] | select(.parked_why)'\n\nEach endpoint has limits of its own; --pipeline names another one than that of lookups of posts. Without --check it makes no calls and needs no secrets. With --check it exits with 69 if a credential does not work."
)]
pub(super) struct Arguments {
    /// Ask the API about each, and try one lookup with it. Parks refused credentials and frees those that work again.
    #[arg(long)]
    check: bool,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        // Each endpoint has its own limits: those of the named pipeline, else those of post lookups.
        let pipeline = start.pipeline()?;
        if self.check {
            warn_of_settings(&start.settings);
        }
        let report = self.report(&start.settings, &pipeline.id.provider, pipeline.capabilities().endpoint).await?;
        write_answer(self.json, &report, &report.to_string())?;
        Ok(if report.all_work() { 0 } else { exit::UNAVAILABLE })
    }

    /// Reads the ledger's record of each credential. With `--check`, asks the API about each first, which needs their
    /// secrets.
    ///
    /// # Errors
    /// The ledger is down, or a secret is missing.
    async fn report(
        &self,
        settings: &Settings,
        provider: &Provider,
        endpoint: &'static str,
    ) -> Result<CredentialsReport> {
        let callers = app::callers(settings, provider)?;
        let service = Service::new(settings)?;
        let unusable = || service.unusable("quota ledger");
        if !self.check {
            app::queue_is_there(settings)?;
            let names: Vec<String> = callers.iter().map(|(name, _)| name.clone()).collect();
            let ledger = service.ledger(provider).await?;
            let known = ledger.statuses(endpoint, &names, &[]).await.with_context(unusable)?;
            let reads = match app::live_budget(settings, provider).map(|budget| *budget.load()) {
                Some(budget) => Some(budget.reads(&ledger.counted(budget.per).await.with_context(unusable)?)),
                None => None,
            };
            return Ok(CredentialsReport::new(endpoint, callers, known).with_reads(reads));
        }
        let (api, lookup) = open_to_check(settings, provider, endpoint).await?;
        let credentials = app::open_credentials(settings, &service, provider).await?;
        let lookup = async |credential: &Credential| match &lookup {
            Some(lookup) => Some(lookup.call(provider, credential).await),
            None => None,
        };
        let checks = credentials::check(&credentials, &*api, lookup, endpoint).await.with_context(unusable)?;
        let known = credentials.statuses(endpoint).await.with_context(unusable)?;
        let reads = credentials.reads().await.with_context(unusable)?;
        let usage = credentials::usage(&credentials, &*api).await;
        Ok(CredentialsReport::new(endpoint, callers, known).with_checks(checks).with_reads(reads).with_usage(usage))
    }
}
