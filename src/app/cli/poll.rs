//! `poll`: the role that polls timelines for new posts.

use anyhow::Result;

use super::{Listen, Needed, Options};
use crate::app;

pub(super) const EXAMPLES: &str = "Example:\n  twitter-updater poll --config poll.toml\n\nThe sources are those of [poll.sources.NAME]. Run as many pollers as you like. At SIGTERM or SIGINT it finishes the polls in flight and exits with 0.";

pub(super) async fn run(listen: Listen, options: Options) -> Result<u8> {
    let role = listen.role(options, Some(Needed::Everything)).await?;
    // Wrong settings are reported before any connection.
    let pipelines = app::pollers(&role)?;
    role.work(pipelines, app::open_poller).await?;
    Ok(0)
}
