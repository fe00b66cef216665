//! `updater`: the role that keeps posts up to date.

use anyhow::Result;

use super::{Listen, Needed, Options};
use crate::app;

pub(super) const EXAMPLES: &str = "Examples:\n  twitter-updater updater --config updater.toml\n  twitter-updater updater --config /etc/twitter-updater --listen 0.0.0.0:8080\n\nAt SIGTERM or SIGINT it finishes the calls in flight, releases the other tweets, and exits with 0.";

pub(super) async fn run(listen: Listen, options: Options) -> Result<u8> {
    let role = listen.role(options, Some(Needed::Everything)).await?;
    // Wrong settings are reported before any connection.
    let pipelines = app::updaters(&role)?;
    role.work(pipelines, app::open_updater).await?;
    Ok(0)
}
