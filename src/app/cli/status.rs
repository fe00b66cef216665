//! `status`: the queue at this moment, its quota, and the polled sources.

use anyhow::Result;

use super::{Options, exit, write_answer};
use crate::app;

/// Print the queue at this moment: what is scheduled, due and late, whether the quota suffices, who works.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater status\n  twitter-updater status --json | jq .due\n  twitter-updater status --json | jq .sources\n\nOf several providers one after the other; --provider names one. Polled sources follow, where there are any.\nExits with 69 when no queue answers."
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
