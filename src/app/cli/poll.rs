//! `poll`: the role that asks timelines for new posts.

use anyhow::Result;

use super::{Listen, Needed, Options};
use crate::app;

/// Ask the API for what is new in timelines, and put it into the queue: searches, users, lists, home.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  twitter-updater poll --config poll.toml\n\nThe sources are those of [poll.sources.NAME]. Any number of these may run. Stops at SIGTERM or SIGINT: finishes what is in flight, exits with 0."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    listen: Listen,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let role = self.listen.role(options, Some(Needed::Everything)).await?;
        // Wrong settings are reported before anything is connected.
        let pipelines = app::pollers(&role)?;
        role.work(pipelines, app::open_poller).await?;
        Ok(0)
    }
}
