//! `pause` and `resume`: stops and continues the calls to the API.

use anyhow::Result;

use super::{BadUsage, Options, PipelineChoice, write_line};
use crate::app::{self, Service};
use engine::base::humanize::one_line;

/// Stop calls to the API until `resume`. New posts are still accepted.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater pause migration\n  twitter-updater pause --pipeline tweet:update maintenance\n\nApplies to all configured pipelines and polled timelines, or to --pipeline. Calls in flight finish, and streams stay connected. The page and `status` show the reason."
)]
pub(super) struct Pause {
    /// Reason, which the page and `status` show.
    #[arg(value_parser = reason)]
    reason: String,
    #[command(flatten)]
    choice: PipelineChoice,
}

/// Continue after a `pause`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater resume\n  twitter-updater resume --pipeline tweet:update\n\nApplies to all configured pipelines and polled timelines, or to --pipeline."
)]
pub(super) struct Resume {
    #[command(flatten)]
    choice: PipelineChoice,
}

impl Pause {
    pub async fn run(self, options: Options) -> Result<u8> {
        set(options.with_choice(&self.choice), Some(&self.reason)).await
    }
}

impl Resume {
    pub async fn run(self, options: Options) -> Result<u8> {
        set(options.with_choice(&self.choice), None).await
    }
}

fn reason(words: &str) -> Result<String, BadUsage> {
    let reason = Some(one_line(words)).filter(|reason| !reason.is_empty());
    reason.ok_or_else(|| BadUsage("the reason is empty: give one".to_owned()))
}

async fn set(options: Options, reason: Option<&str>) -> Result<u8> {
    let start = options.start(&[])?;
    app::check_queue_file(&start.settings)?;
    let service = Service::new(&start.settings)?;
    for namespace in start.namespaces()? {
        service.queue(&namespace).await?.pause(reason).await?;
        tracing::debug!(namespace, reason, "{}", if reason.is_some() { "paused" } else { "resumed" });
        let is_now = reason.map_or_else(|| "goes on".to_owned(), |reason| format!("is paused: {reason}"));
        write_line(&format!("{namespace} {is_now}"))?;
    }
    Ok(0)
}
