//! `poll`: the role that asks timelines for new posts.

use anyhow::Result;

use super::{Listen, Needed, Options};
use crate::app;

/// The end of its help.
pub(super) const EXAMPLES: &str = "Example:\n  twitter-updater poll --config poll.toml\n\nThe sources are those of [poll.sources.NAME]. Any number of these may run. Stops at SIGTERM or SIGINT: finishes what is in flight, exits with 0.";

pub(super) async fn run(listen: Listen, options: Options) -> Result<u8> {
    let role = listen.role(options, Some(Needed::Everything)).await?;
    // Wrong settings are reported before anything is connected.
    let pipelines = app::pollers(&role)?;
    role.work(pipelines, app::open_poller).await?;
    Ok(0)
}
