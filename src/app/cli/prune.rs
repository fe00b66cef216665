//! `prune`: removes expired posts from the store.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::ArgGroup;

use super::{Options, PipelineChoice, write_answer};
use crate::app::{self, Service};
use crate::data::prune::{PruneReport, expiry_rules, prune};
use collect::config::Settings;
use collect::ingest::ProgressDisplay;
use engine::base::clock::{self, Millis};
use engine::base::humanize::group_digits;

/// Remove old or deleted posts, whose tracking has ended, from the store, with their history.
#[derive(Debug, clap::Args)]
#[command(
    group = ArgGroup::new("which").required(true).multiple(true).args(["older_than", "deleted"]),
    after_help = "Examples:\n  twitter-updater prune --older-than 180d\n  twitter-updater prune --deleted\n\nPosts that are still looked up stay, and so do dead ones. Other processes may run meanwhile. To do the same once a day, set store.retention and store.on_deleted."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    choice: PipelineChoice,
    /// Remove posts whose last answer is older than this, for example 180d.
    #[arg(long, value_name = "SPAN", value_parser = humantime::parse_duration)]
    older_than: Option<Duration>,
    /// Remove posts that their authors have deleted, and whose content is already erased (store.on_deleted).
    #[arg(long)]
    deleted: bool,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.with_choice(&self.choice).start(&[])?;
        start.stop_on_signals()?;
        let namespace = start.pipeline()?.namespace();
        let store = app::connect_existing_store(&start.settings).await?.store;
        let display = ProgressDisplay::rows("prune");
        let show =
            |done: &PruneReport| display.show_rows(done.ended, &format!("{} removed", group_digits(done.removed)));
        let before = match self.older_than {
            Some(span) => Some(queue_clock(&start.settings, &namespace).await?.saturating_sub(clock::millis(span))),
            None => None,
        };
        let done = prune(&*store, &namespace, &expiry_rules(before, self.deleted), &start.stop, show).await?;
        display.finish();
        if start.stop.is_draining() {
            bail!(
                "prune was stopped after it removed {} posts; the same command continues",
                group_digits(done.removed)
            );
        }
        let (removed, ended) = (group_digits(done.removed), group_digits(done.ended));
        let text = format!("removed {removed} of {ended} posts whose lookups have ended");
        write_answer(self.json, &done, &text)?;
        Ok(0)
    }
}

/// Returns the queue's clock, ms since the epoch. That of this machine may be wrong; an embedded queue uses it.
async fn queue_clock(settings: &Settings, namespace: &str) -> Result<Millis> {
    match Service::new(settings)? {
        service @ Service::Redis { .. } => Ok(service.queue(namespace).await?.brief_stats().await?.now_ms),
        Service::Embedded(_) => Ok(clock::wall_ms()),
    }
}
