//! `status`: the queue at this moment, its quota, and the polled sources.

use anyhow::Result;

use super::{Options, exit, write_answer};
use crate::app;

/// Print the current state of the queue: what is scheduled, due and late, whether the quota is enough, and the workers.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater status\n  twitter-updater status --json | jq .due\n  twitter-updater status --json | jq .sources\n\nPrints all providers in turn; --provider selects one. Polled sources follow, if there are any.\nExits with 69 if no queue answers."
)]
pub(super) struct Arguments {
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        let report = app::status(&start.settings, &start.registry).await?;
        write_answer(self.json, &report, &report.to_string())?;
        Ok(if report.answers() { 0 } else { exit::UNAVAILABLE })
    }
}
