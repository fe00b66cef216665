//! `rebuild`: restores the queue's lost items from the store.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::{Needed, Options, duration, write_answer};
use crate::app::follow::schedules_in_force;
use crate::app::{self, Shared};
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::config::Settings;
use crate::engine::schedule::Schedule;
use crate::ingest::{ProgressDisplay, Rebuild, Rebuilt};
use crate::pipelines::kind::Registered;
use crate::store::Database;

/// Restore from the store what the queue has lost: after a wipe, or regularly.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater rebuild\n  twitter-updater rebuild --every 10m --rate 1000\n\nUpdaters may run meanwhile, and you may repeat it. Tweets in the queue stay unchanged; dead and ended tweets stay so. The queue's list of the dead is restored, too."
)]
pub(super) struct Arguments {
    /// Repeat for ever, with this pause; by default once.
    #[arg(long, value_name = "DURATION", value_parser = pause)]
    every: Option<Duration>,
    /// The maximum number of tweets a second; overrides rebuild.rate.
    #[arg(long, value_name = "IDS_PER_S", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Print what was done as JSON, an object for each pipeline.
    #[arg(long)]
    json: bool,
}

/// A pause between two rounds, so that rebuilds do not use all capacity of the services.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = duration(text)?;
    if pause < Duration::from_secs(1) { Err("it is at least 1s".to_owned()) } else { Ok(pause) }
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        start.stop_on_signals()?;
        start.wait_for(Needed::Everything).await?;
        app::store_is_there(&start.settings)?; // the store's content is the source
        let (settings, stop) = (start.settings.clone(), start.stop.clone());
        let scheduled = |one: Registered| {
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
            start.follower()?.spawn(&settings, schedules_in_force(schedules), stop.clone());
        }
        tokio::select! {
            done = self.rebuild(&rebuilds, &stop) => done?,
            // A service no longer responds: leases expire.
            () = stop.abandoning() => tracing::warn!("rebuild was cut off in the middle of a page: run it again"),
        }
        Ok(0)
    }

    /// One rebuild per pipeline.
    ///
    /// # Errors
    /// A service is down.
    async fn open(
        &self,
        settings: &Settings,
        schedules: &[(Registered, Reloadable<Arc<dyn Schedule>>)],
    ) -> Result<Vec<Rebuild>> {
        let (Shared { database: Database { store, .. }, .. }, queues) =
            Shared::open(settings, schedules.iter().map(|(pipeline, _)| pipeline)).await?;
        let rebuild = |((pipeline, schedule), queue): (&(Registered, Reloadable<_>), _)| {
            let rebuild = app::rebuild_of(settings, pipeline, queue, store.clone(), schedule.clone());
            Rebuild { rate: self.rate.unwrap_or(rebuild.rate), ..rebuild }
        };
        Ok(schedules.iter().zip(queues).map(rebuild).collect())
    }

    /// Rebuilds one queue after the other, once or with a pause between the rounds until it is stopped.
    ///
    /// # Errors
    /// A service is down, in a single round.
    async fn rebuild(&self, all: &[Rebuild], stop: &Stop) -> Result<()> {
        while !stop.is_draining() {
            for rebuild in all {
                match self.round(rebuild, all.len() > 1, stop).await {
                    Err(error) if self.every.is_some() => {
                        tracing::warn!(
                            error = format!("{error:#}"),
                            "this round is given up, the next one tries again"
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

    /// Rebuilds one queue and prints what was done.
    async fn round(&self, rebuild: &Rebuild, is_one_of_several: bool, stop: &Stop) -> Result<()> {
        let display = ProgressDisplay::rows("rebuild");
        if display.is_shown() {
            // A large store may need longer than its timeout: then the count is unknown.
            if let Ok(counts) = rebuild.store.counts(rebuild.queue.namespace()).await {
                display.expect(counts.live + counts.unavailable + counts.dead);
            }
            show(&display, &Rebuilt::default());
        }
        let done = rebuild.run(stop, |done| show(&display, done)).await;
        display.finish();
        let done = done?;
        let namespace = rebuild.queue.namespace();
        let text = if is_one_of_several { format!("{namespace}: {done}") } else { done.to_string() };
        write_answer(self.json, &Of { namespace, done: &done }, &text)
    }
}

/// The answer for one queue.
#[derive(Serialize)]
struct Of<'a> {
    namespace: &'a str,
    #[serde(flatten)]
    done: &'a Rebuilt,
}

fn show(display: &ProgressDisplay, done: &Rebuilt) {
    display.show_rows(done.rows, &format!("{} put back", done.put_back));
}
