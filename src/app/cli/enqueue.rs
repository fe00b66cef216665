//! `enqueue`: puts a file, or standard input, into the queue.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::refusals::Refusals;
use super::{Options, PipelineChoice, accounts, exit, write_answer};
use crate::app::{self, Service};
use collect::config::Settings;
use collect::ingest::{EnqueueOptions, FirstLookup, Input, LookupPace, ProgressDisplay, Summary, enqueue};
use collect::pipelines::kind::RegisteredPipeline;
use engine::base::clock;
use engine::base::reload::Reloadable;
use engine::base::shutdown::Stop;
use engine::queue::Queue;
use store::Way;

/// Put posts into the queue: ids, one per line, or posts as the API sends them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater enqueue ids.txt\n  twitter-updater enqueue --once ids.txt\n  twitter-updater enqueue --accounts handles.txt\n  zcat tweets.ndjson.gz | twitter-updater enqueue -\n\nReads ids, objects on one line or several, lists of these, and X API v2 answers and stream lines (also from twarc2), of which it takes the posts in `data`.\n\nExits with 65 if some of the input was refused; the rest is scheduled."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    choice: PipelineChoice,
    /// File to read; - for standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Time of the first lookup: `now`, as fast as the quota allows, or after the `interval` of each post's age. By
    /// default bare ids are due now, and complete posts after their interval.
    #[arg(long, value_name = "now|interval")]
    first: Option<When>,
    /// Look up each id once, now, at any age, and never again.
    #[arg(long, conflicts_with_all = ["first", "no_store"])]
    once: bool,
    /// Schedule only, without recording the posts in the store first.
    #[arg(long)]
    no_store: bool,
    /// Read accounts instead of posts, and collect their profiles: ids, handles or addresses, one per line. Resolving
    /// handles needs API calls.
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
        let start = options.with_choice(&self.choice).start(&[])?;
        start.stop_on_signals()?;
        if self.accounts {
            return accounts::enqueue(&start, &self.file, self.json).await;
        }
        let summary = self.enqueue(&start.settings, &start.pipeline()?, &start.stop).await?;
        write_answer(self.json, &summary, &summary.to_string())?;
        Ok(if summary.is_clean() { 0 } else { exit::INPUT })
    }

    /// Puts the posts into the queue, with a progress bar on a terminal. An error names the last handled line.
    async fn enqueue(&self, settings: &Settings, pipeline: &RegisteredPipeline, stop: &Stop) -> Result<Summary> {
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
        let way = Way { source: input.name.clone(), ..Way::new("enqueue") };
        let starter = app::starter(settings, pipeline, queue, store, Reloadable::new(pipeline.schedule(settings)));
        let starter = starter.with_way(way).with_first_lookup(first);
        let display = ProgressDisplay::new(&input.name, input.bytes);
        let mut refusals = Refusals::new(&display);
        let refused = |line, reason: &str| refusals.print(line, reason);
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
        pipeline: &RegisteredPipeline,
        queue: &dyn Queue,
    ) -> Result<FirstLookup> {
        if matches!(self.first, Some(When::Interval)) {
            return Ok(FirstLookup::Interval);
        }
        let left = app::ids_per_second_left(settings, service, pipeline, queue).await?;
        let pace = LookupPace::new(clock::wall_ms(), left);
        Ok(match self.first {
            _ if self.once => FirstLookup::Once(pace),
            Some(_) => FirstLookup::Now(pace),
            None => FirstLookup::Bare(pace),
        })
    }
}
