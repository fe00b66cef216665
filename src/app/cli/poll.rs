//! `poll`: the role that polls timelines for new posts.

use anyhow::Result;

use super::{Options, RoleArguments};
use crate::app;

pub(super) const EXAMPLES: &str = "Example:\n  twitter-updater poll --config poll.toml\n\nIt polls the sources of [poll.sources.NAME]. You may run any number of pollers. At SIGTERM or SIGINT it finishes the polls in flight and exits with 0.";

pub(super) async fn run(arguments: RoleArguments, options: Options) -> Result<u8> {
    let role = arguments.role(options).await?;
    // Wrong settings are reported before any connection.
    let pipelines = app::pollers(&role)?;
    role.work(pipelines, app::open_poller).await?;
    Ok(0)
}
