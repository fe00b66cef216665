//! `enqueue`: puts a file, or standard input, into the queue.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::refusals::Refusals;
use super::{Options, accounts, exit, write_answer};
use crate::app::{self, Service};
use crate::base::clock;
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::config::Settings;
use crate::engine::queue::Queue;
use crate::ingest::{EnqueueOptions, First, Input, Pace, ProgressDisplay, Summary, enqueue};
use crate::pipelines::kind::Registered;
use crate::store::Way;

/// Put posts into the queue: ids, one a line, or posts as the API sends them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater enqueue ids.txt\n  twitter-updater enqueue --once ids.txt\n  twitter-updater enqueue --accounts handles.txt\n  zcat tweets.ndjson.gz | twitter-updater enqueue -\n\nReads ids; objects on one line or several; lists of these; and X API v2 answers and stream lines, also from twarc2, taking the posts in `data`.\n\nExits with 65 if some of the input was refused; the rest is scheduled."
)]
pub(super) struct Arguments {
    /// The file; - for standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// When the first lookup is due: `now`, as fast as the quota allows, or after the `interval` of each post's age. By
    /// default bare ids are due now, and complete posts after their interval.
    #[arg(long, value_name = "now|interval")]
    first: Option<When>,
    /// Look each id up once, now, whatever its age, and never again.
    #[arg(long, conflicts_with_all = ["first", "no_store"])]
    once: bool,
    /// Only schedule: do not record the tweets in the store first.
    #[arg(long)]
    no_store: bool,
    /// The file names accounts, whose profiles are collected: ids, handles or addresses, one a line. Handles are resolved
    /// by calls.
    #[arg(long, conflicts_with_all = ["first", "once", "no_store"])]
    accounts: bool,
    /// Print the summary as one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum When {
    Now,
    Interval,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        start.stop_on_signals()?;
        if self.accounts {
            return accounts::enqueue(&start, &self.file, self.json).await;
        }
        let summary = self.enqueue(&start.settings, &start.pipeline()?, &start.stop).await?;
        write_answer(self.json, &summary, &summary.to_string())?;
        Ok(if summary.is_clean() { 0 } else { exit::INPUT })
    }

    /// Puts the posts into the queue, with a progress bar on a terminal.
    ///
    /// # Errors
    /// A service is down, or the command was stopped; the message names the last line up to which all is done.
    async fn enqueue(&self, settings: &Settings, pipeline: &Registered, stop: &Stop) -> Result<Summary> {
        let opened = async {
            // The input first: if it is missing, no file of an embedded queue is created.
            let input = Input::open(&self.file).await?;
            let service = Service::new(settings)?;
            let queue = service.queue(&pipeline.namespace()).await?;
            let store = if self.no_store { None } else { Some(app::open_store(settings).await?.store) };
            let first = self.first(settings, &service, pipeline, &*queue).await?;
            Ok::<_, anyhow::Error>((input, queue, store, first))
        };
        let Some(opened) = stop.token().run_until_cancelled(opened).await else {
            bail!("enqueue was stopped before it read anything");
        };
        let (input, queue, store, first) = opened?;
        let way = Way { source: input.name.clone(), ..Way::of("enqueue") };
        let starter = app::starter(settings, pipeline, queue, store, Reloadable::new(pipeline.schedule(settings)));
        let starter = starter.by(way).first(first);
        let display = ProgressDisplay::new(&input.name, input.bytes);
        let mut refusals = Refusals::beside(&display);
        let refused = |line, reason: &str| refusals.tell(line, reason);
        let options = EnqueueOptions { stop: stop.clone(), ..EnqueueOptions::default() };
        let show = |progress| display.show(progress);
        let summary = enqueue(input.source, &input.name, &starter, &options, show, refused).await;
        display.finish();
        Ok(summary?)
    }

    async fn first(
        &self,
        settings: &Settings,
        service: &Service,
        pipeline: &Registered,
        queue: &dyn Queue,
    ) -> Result<First> {
        if matches!(self.first, Some(When::Interval)) {
            return Ok(First::Interval);
        }
        let left = app::ids_per_second_left(settings, service, pipeline, queue).await?;
        let pace = Pace::new(clock::wall_ms(), left);
        Ok(match self.first {
            _ if self.once => First::Once(pace),
            Some(_) => First::Now(pace),
            None => First::Bare(pace),
        })
    }
}
