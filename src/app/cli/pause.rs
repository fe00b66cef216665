//! `pause` and `resume`: nothing is asked of the API, until somebody says so.

use anyhow::Result;

use super::{Options, write_line};
use crate::app::{self, Service};
use crate::base::humanize::one_line;
use crate::pipelines::kind::Registered;

/// Ask nothing more of the API, until `resume`; what comes in is taken all the same.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater pause migration\n  twitter-updater pause --pipeline tweet:update maintenance\n\nAll pipelines of the settings, or the one that --pipeline names. What a worker has in work it finishes. The page and `status` say the reason."
)]
pub(super) struct Pause {
    /// Why: others will ask.
    reason: String,
}

/// Go on after a `pause`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater resume\n  twitter-updater resume --pipeline tweet:update\n\nAll pipelines of the settings, or the one that --pipeline names."
)]
pub(super) struct Resume {}

impl Pause {
    pub async fn run(self, options: Options) -> Result<u8> {
        set(options, Some(&one_line(&self.reason))).await
    }
}

impl Resume {
    pub async fn run(self, options: Options) -> Result<u8> {
        set(options, None).await
    }
}

async fn set(options: Options, reason: Option<&str>) -> Result<u8> {
    let start = options.start(&[])?;
    let settings = &start.settings;
    app::queue_is_there(settings)?;
    let service = Service::new(settings)?;
    for pipeline in start.pipelines()? {
        let Registered { id, .. } = &pipeline;
        let namespace = id.to_string();
        service.queue(&namespace).await?.pause(reason).await?;
        tracing::debug!(namespace, reason, "{}", if reason.is_some() { "paused" } else { "resumed" });
        let is_now = reason.map_or_else(|| "goes on".to_owned(), |reason| format!("is paused: {reason}"));
        write_line(&format!("{namespace} {is_now}"))?;
    }
    Ok(0)
}
