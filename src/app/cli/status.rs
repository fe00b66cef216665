//! `status`: current state of the queue, its quota, and the polled sources; or the recorded errors.

use anyhow::Result;

use super::{Options, exit, write_answer};
use crate::app;

/// Print the current state of the queue: scheduled, due and late posts, the use of the quota, and the workers.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater status\n  twitter-updater status --json | jq .due\n  twitter-updater status --json | jq .sources\n  twitter-updater status --errors\n  twitter-updater status --errors 503 --json\n\nPrints all providers in turn; --provider selects one. Polled sources follow, if there are any.\nExits with 69 if no queue answers."
)]
pub(super) struct Arguments {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Print the workers' errors of the last 7 days instead, or those that contain TEXT: kind, number, times, place, last
    /// message and an example.
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "")]
    errors: Option<String>,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        if let Some(words) = &self.errors {
            let report = app::errors(&start.settings, &start.registry, words).await?;
            write_answer(self.json, &report, &report.to_string())?;
            return Ok(if report.has_answer() { 0 } else { exit::UNAVAILABLE });
        }
        let report = app::status(&start.settings, &start.registry).await?;
        write_answer(self.json, &report, &report.to_string())?;
        Ok(if report.has_answer() { 0 } else { exit::UNAVAILABLE })
    }
}
