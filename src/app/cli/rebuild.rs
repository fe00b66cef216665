//! `rebuild`: restores the queue's lost items from the store.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::{BadUsage, NeededServices, Options, Patience, PipelineChoice, duration, write_answer};
use crate::app::config_follower::schedule_setter;
use crate::app::{self, SharedServices};
use collect::config::Settings;
use collect::ingest::{ProgressDisplay, Rebuild, RebuildCounts};
use collect::pipelines::kind::RegisteredPipeline;
use engine::base::reload::Reloadable;
use engine::base::shutdown::Stop;
use engine::schedule::Schedule;
use store::Database;

/// Restore the queue's lost items from the store: after a wipe, or regularly.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater rebuild\n  twitter-updater rebuild --every 10m --rate 1000\n\nUpdaters may run meanwhile, and you may repeat it. Posts in the queue stay unchanged; dead and ended posts keep their states. It also restores the queue's list of dead posts."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    choice: PipelineChoice,
    #[command(flatten)]
    patience: Patience,
    /// Repeat until it is stopped, with this pause; the default is one run.
    #[arg(long, value_name = "DURATION", value_parser = pause)]
    every: Option<Duration>,
    /// Maximum rate in posts per second; overrides rebuild.rate.
    #[arg(long, value_name = "IDS_PER_S", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Print the result as JSON, one object per pipeline.
    #[arg(long)]
    json: bool,
}

/// Parses the pause between two rounds. It has a minimum, so that rebuilds do not use all capacity of the services.
fn pause(text: &str) -> Result<Duration, BadUsage> {
    let pause = duration(text)?;
    if pause < Duration::from_secs(1) { Err(BadUsage("must be at least 1s".to_owned())) } else { Ok(pause) }
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.with_choice(&self.choice).with_patience(self.patience).start(&[])?;
        start.stop_on_signals()?;
        start.wait_for(NeededServices::Everything).await?;
        app::check_store_file(&start.settings)?; // the store's content is the source
        let (settings, stop) = (start.settings.clone(), start.stop.clone());
        let scheduled = |one: RegisteredPipeline| {
            let schedule = Reloadable::new(one.schedule(&settings));
            (one, schedule)
        };
        let pipelines = match start.names_pipeline() {
            true => vec![start.pipeline()?],
            false => start.registry.pipelines(&settings)?,
        };
        let schedules: Vec<_> = pipelines.into_iter().map(scheduled).collect();
        let opening = self.open(&settings, &schedules);
        let Some(rebuilds) = stop.token().run_until_cancelled(opening).await else {
            return Ok(0); // stopped while a service did not respond yet
        };
        let rebuilds = rebuilds?;
        if self.every.is_some() {
            // Each round uses the schedules that are current then.
            start.follower()?.spawn(&settings, schedule_setter(schedules), stop.clone());
        }
        tokio::select! {
            done = self.rebuild(&rebuilds, &stop) => done?,
            // A service no longer responds: leases expire.
            () = stop.wait_for_abandon() => tracing::warn!("rebuild was cut off in the middle of a page: run it again"),
        }
        Ok(0)
    }

    /// Opens one rebuild per pipeline.
    async fn open(
        &self,
        settings: &Settings,
        schedules: &[(RegisteredPipeline, Reloadable<Arc<dyn Schedule>>)],
    ) -> Result<Vec<Rebuild>> {
        let (SharedServices { database: Database { store, .. }, .. }, queues) =
            SharedServices::open(settings, schedules.iter().map(|(pipeline, _)| pipeline)).await?;
        let rebuild = |((pipeline, schedule), queue): (&(RegisteredPipeline, Reloadable<_>), _)| {
            let rebuild = app::new_rebuild(settings, pipeline, queue, store.clone(), schedule.clone());
            Rebuild { rate: self.rate.unwrap_or(rebuild.rate), ..rebuild }
        };
        Ok(schedules.iter().zip(queues).map(rebuild).collect())
    }

    /// Rebuilds one queue after the other, once or with a pause between the rounds until it is stopped. A service that is
    /// down is an error only in a single round.
    async fn rebuild(&self, all: &[Rebuild], stop: &Stop) -> Result<()> {
        while !stop.is_draining() {
            for rebuild in all {
                match self.round(rebuild, all.len() > 1, stop).await {
                    Err(error) if self.every.is_some() => {
                        tracing::warn!(
                            error = format!("{error:#}"),
                            "rebuild: a round failed, and the next round tries again"
                        );
                    }
                    done => done?,
                }
            }
            let Some(every) = self.every else { break };
            stop.sleep(every).await;
        }
        Ok(())
    }

    async fn round(&self, rebuild: &Rebuild, is_one_of_several: bool, stop: &Stop) -> Result<()> {
        let display = ProgressDisplay::rows("rebuild");
        if display.is_shown() {
            // A large store may need longer than its timeout: then the count is unknown.
            if let Ok(counts) = rebuild.store.counts(rebuild.queue.namespace()).await {
                display.set_total_rows(counts.live + counts.unavailable + counts.dead);
            }
            show(&display, &RebuildCounts::default());
        }
        let done = rebuild.run(stop, |done| show(&display, done)).await;
        display.finish();
        let done = done?;
        let namespace = rebuild.queue.namespace();
        let text = if is_one_of_several { format!("{namespace}: {done}") } else { done.to_string() };
        write_answer(self.json, &QueueAnswer { namespace, done: &done }, &text)
    }
}

#[derive(Serialize)]
struct QueueAnswer<'a> {
    namespace: &'a str,
    #[serde(flatten)]
    done: &'a RebuildCounts,
}

fn show(display: &ProgressDisplay, done: &RebuildCounts) {
    display.show_rows(done.rows, &format!("{} put back", done.put_back));
}
