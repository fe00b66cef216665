//! `prune`: removes expired posts from the store.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::ArgGroup;

use super::{Options, write_answer};
use crate::app::{self, Service};
use crate::base::clock::{self, Millis};
use crate::base::humanize::grouped;
use crate::config::Settings;
use crate::ingest::ProgressDisplay;
use crate::ops::prune::{Pruned, expired, prune};

/// Remove old or deleted posts whose lookups have ended from the store, with their history.
#[derive(Debug, clap::Args)]
#[command(
    group = ArgGroup::new("which").required(true).multiple(true).args(["older_than", "deleted"]),
    after_help = "Examples:\n  twitter-updater prune --older-than 180d\n  twitter-updater prune --deleted\n\nPosts that are still looked up stay, and so do dead ones. May run while all else runs. To do the same once a day, set store.retention and store.on_deleted."
)]
pub(super) struct Arguments {
    /// Those whose last answer is older than this: 180d.
    #[arg(long, value_name = "SPAN", value_parser = humantime::parse_duration)]
    older_than: Option<Duration>,
    /// Those that their authors have deleted and whose content is erased already (store.on_deleted).
    #[arg(long)]
    deleted: bool,
    /// Print what was done as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        start.stop_on_signals()?;
        let namespace = start.pipeline()?.namespace();
        let store = app::store_as_it_is(&start.settings).await?.store;
        let display = ProgressDisplay::rows("prune");
        let show = |done: &Pruned| display.show_rows(done.ended, &format!("{} removed", grouped(done.removed)));
        let before = match self.older_than {
            Some(span) => Some(queue_clock(&start.settings, &namespace).await?.saturating_sub(clock::millis(span))),
            None => None,
        };
        let done = prune(&*store, &namespace, &expired(before, self.deleted), &start.stop, show).await?;
        display.finish();
        if start.stop.is_draining() {
            bail!("stopped after {} posts were removed; the same command goes on", grouped(done.removed));
        }
        let (removed, ended) = (grouped(done.removed), grouped(done.ended));
        let text = format!("removed {removed} of {ended} posts whose lookups have ended");
        write_answer(self.json, &done, &text)?;
        Ok(0)
    }
}

/// The queue's clock, ms since the epoch: this machine's may be wrong, and is that of an embedded queue.
async fn queue_clock(settings: &Settings, namespace: &str) -> Result<Millis> {
    match Service::new(settings)? {
        service @ Service::Redis { .. } => Ok(service.queue(namespace).await?.brief().await?.now_ms),
        Service::Embedded(_) => Ok(clock::wall_ms()),
    }
}
