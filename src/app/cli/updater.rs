//! `updater`: the role that keeps posts up to date.

use anyhow::Result;

use super::{Listen, Needed, Options};
use crate::app;

/// Keep tweets fresh: any number of these may run, on any number of machines.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater updater --config updater.toml\n  twitter-updater updater --config /etc/twitter-updater --listen 0.0.0.0:8080\n\nStops at SIGTERM or SIGINT: finishes what is in flight, gives back the rest, exits with 0."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    listen: Listen,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let role = self.listen.role(options, Some(Needed::Everything)).await?;
        // Wrong settings are reported before anything is connected.
        let pipelines = app::updaters(&role)?;
        role.work(pipelines, app::open_updater).await?;
        Ok(0)
    }
}
