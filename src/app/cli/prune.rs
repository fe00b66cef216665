//! `prune`: removes expired posts from the store.

use std::time::Duration;

use anyhow::{Result, bail};

use super::{Options, write_answer};
use crate::app;
use crate::base::clock;
use crate::base::humanize::grouped;
use crate::ingest::ProgressDisplay;
use crate::ops::prune::{Pruned, prune};
use crate::store::Expired;

/// Remove old or deleted posts whose lookups have ended from the store, with their history.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater prune --older-than 180d\n  twitter-updater prune --deleted\n\nPosts that are still looked up stay, and so do dead ones. May run while all else runs. To do the same once a day, set store.retention and store.on_deleted."
)]
pub(super) struct Arguments {
    /// Those whose last answer is older than this: 180d.
    #[arg(long, value_name = "SPAN", value_parser = humantime::parse_duration, required_unless_present = "deleted")]
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
        app::store_is_there(&start.settings)?;
        let (store, _) = app::store_as_it_is(&start.settings).await?;
        let moment = |span| Expired::Before(clock::wall_ms().saturating_sub(clock::millis(span)));
        let which = [self.older_than.map(moment), self.deleted.then_some(Expired::Deleted)];
        let display = ProgressDisplay::rows("prune");
        let show = |done: &Pruned| display.show_rows(done.ended, &format!("{} removed", grouped(done.removed)));
        let mut all = Pruned::default();
        for which in which.into_iter().flatten() {
            let done = prune(&store, &namespace, which, &start.stop, show).await?;
            all = Pruned { ended: all.ended.max(done.ended), removed: all.removed + done.removed };
        }
        display.finish();
        if start.stop.is_draining() {
            bail!("stopped after {} posts were removed; the same command goes on", grouped(all.removed));
        }
        let (removed, ended) = (grouped(all.removed), grouped(all.ended));
        let text = format!("removed {removed} of {ended} posts whose lookups have ended");
        write_answer(self.json, &all, &text)?;
        Ok(0)
    }
}
