//! `refresh`: makes posts due now.

use anyhow::Result;
use clap::ArgGroup;

use super::{Answer, Options, PipelineChoice, distinct, exit, report_refused, write_answer};
use crate::app::{self, SharedServices};
use collect::ingest::{LivingState, Moment, ProgressDisplay, Refresh, RefreshCounts, RefreshFilter};
use engine::base::reload::Reloadable;
use engine::base::shutdown::Stop;
use store::Database;

/// Make posts due now: these ids, or all posts that the options select, for example after a series of bad answers.
#[derive(Debug, clap::Args)]
#[command(
    group = ArgGroup::new("which").required(true).multiple(true).args(["ids", "state", "since"]),
    after_help = "Examples:\n  twitter-updater refresh 1460323737035677698\n  twitter-updater refresh --state unavailable\n  twitter-updater refresh --since 2h\n  twitter-updater refresh --state unavailable --since 2026-01-31T08:00:00Z --json\n\nChanges store and queue. Updaters may run meanwhile, and you may repeat it. Exits with 65 if an id was refused."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    choice: PipelineChoice,
    /// Ids of the posts.
    #[arg(value_name = "ID", conflicts_with_all = ["state", "since"])]
    ids: Vec<String>,
    /// All posts in this state.
    #[arg(long, value_name = "live|unavailable")]
    state: Option<LivingState>,
    /// All posts whose last answer came at this time or later: 2h (ago), or 2026-01-31T08:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<Moment>,
    /// Spread the lookups over the interval of each post, instead of making all due now.
    #[arg(long)]
    spread: bool,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.with_choice(&self.choice).start(&[])?;
        start.stop_on_signals()?;
        let settings = &start.settings;
        let pipeline = start.pipeline()?;
        app::check_store_file(settings)?; // only stored posts are refreshed: without a store file, the configuration is wrong
        let (SharedServices { database: Database { store, .. }, .. }, mut queues) =
            SharedServices::open(settings, [&pipeline]).await?;
        let queue = queues.swap_remove(0); // of the only pipeline
        let schedule = Reloadable::new(pipeline.schedule(settings));
        let refresh = Refresh { rebuild: app::new_rebuild(settings, &pipeline, queue, store, schedule) };
        let mut refusals = Vec::new();
        let done = self.refresh(&refresh, &start.stop, report_refused(self.json, &mut refusals)).await?;
        let text = done.to_string();
        let code = if done.refused == 0 { 0 } else { exit::INPUT };
        write_answer(self.json, &Answer { done, refusals }, &text)?;
        Ok(code)
    }

    /// Makes the selected posts due. Calls `refused` for each rejected id.
    async fn refresh(&self, refresh: &Refresh, stop: &Stop, refused: impl FnMut(&str, &str)) -> Result<RefreshCounts> {
        if !self.ids.is_empty() {
            return Ok(refresh.ids(&distinct(&self.ids), refused).await?);
        }
        let display = ProgressDisplay::rows("refresh");
        if display.is_shown() {
            // A large store may need longer than its timeout: then the count is unknown.
            if let Ok(counts) = refresh.rebuild.store.counts(refresh.rebuild.queue.namespace()).await {
                display.set_total_rows(counts.live + counts.unavailable);
            }
        }
        let which = RefreshFilter { state: self.state, since: self.since, spread: self.spread };
        let show = |read, done: &RefreshCounts| display.show_rows(read, &format!("{} due", done.posts()));
        let done = refresh.all(which, stop, show).await;
        display.finish();
        Ok(done?)
    }
}
