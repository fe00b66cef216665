//! `poll`: the role that asks timelines for new posts.

use std::net::SocketAddr;

use anyhow::Result;

use super::{Needed, Options};
use crate::app;

/// Ask the API for what is new in timelines, and put it into the queue: searches, users, lists, home.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  twitter-updater poll --config poll.toml\n\nThe sources are those of [poll.sources.NAME]. Any number of these may run. Stops at SIGTERM or SIGINT: finishes what is in flight, exits with 0."
)]
pub(super) struct Arguments {
    /// Serve /live, /ready and /metrics at this address; over http.listen.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let role = options.start(&[])?.role(self.listen, Some(Needed::Everything)).await?;
        // Wrong settings are reported before anything is connected.
        let pipelines = app::pollers(&role)?;
        role.work(pipelines, app::open_poller).await?;
        Ok(0)
    }
}
