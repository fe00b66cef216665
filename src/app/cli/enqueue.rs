//! `enqueue`: puts a file, or standard input, into the queue.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::{Options, exit, write_answer};
use crate::app::{self, Service};
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::config::Settings;
use crate::ingest::{EnqueueOptions, Input, ProgressDisplay, Summary, enqueue};
use crate::pipelines::kind::Registered;
use crate::store::Way;

/// Rejected lines that are printed one by one; the summary counts all of them by reason.
const REFUSALS_TOLD: u64 = 50;

/// Put tweets into the queue: bare ids, one a line, or tweets as the API sends them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater enqueue ids.txt\n  zcat tweets.ndjson.gz | twitter-updater enqueue -\n\nReads ids, objects on one line or over many, lists of them, and answers and stream lines of X API v2 (also of twarc2),\nwhose posts stand in data.\n\nExits with 65 when something was refused; the rest is scheduled all the same."
)]
pub(super) struct Arguments {
    /// The file; - for standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Only schedule: do not record the tweets in the store first.
    #[arg(long)]
    no_store: bool,
    /// Print the summary as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        start.stop_on_signals()?;
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
            // The input first: where it is missing, no file of an embedded queue is made.
            let input = Input::open(&self.file).await?;
            let queue = Service::new(settings)?.queue(&pipeline.namespace()).await?;
            let store = if self.no_store { None } else { Some(app::open_store(settings).await?.0) };
            Ok::<_, anyhow::Error>((input, queue, store))
        };
        let Some(opened) = stop.token().run_until_cancelled(opened).await else {
            bail!("enqueue was stopped before it read anything");
        };
        let (input, queue, store) = opened?;
        let way = Way { source: input.name.clone(), ..Way::of("enqueue") };
        let starter = app::starter(pipeline, queue, store, Reloadable::new(pipeline.schedule(settings))).by(way);
        let display = ProgressDisplay::new(&input.name, input.bytes);
        let mut told = 0;
        let refused = |line, reason: &str| {
            told += 1;
            if told <= REFUSALS_TOLD {
                display.say(&format!("line {line}: {reason}"));
            }
        };
        let options = EnqueueOptions { stop: stop.clone(), ..EnqueueOptions::default() };
        let show = |progress| display.show(progress);
        let summary = enqueue(input.source, &input.name, &starter, &options, show, refused).await;
        display.finish();
        Ok(summary?)
    }
}
