//! `updater`: the role that keeps posts up to date.

use anyhow::Result;

use super::{Options, RoleArguments};
use crate::app;

pub(super) const EXAMPLES: &str = "Examples:\n  twitter-updater updater --config updater.toml\n  twitter-updater updater --config /etc/twitter-updater --listen 0.0.0.0:8080\n\nAt SIGTERM or SIGINT it finishes the calls in flight, releases the other posts, and exits with 0.";

pub(super) async fn run(arguments: RoleArguments, options: Options) -> Result<u8> {
    let role = arguments.role(options).await?;
    // Wrong settings are reported before any connection.
    let pipelines = app::updaters(&role)?;
    role.work(pipelines, app::open_updater).await?;
    Ok(0)
}
