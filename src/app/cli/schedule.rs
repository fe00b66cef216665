//! `schedule`: trains the adaptive schedule from the collected data.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Subcommand;

use super::new_file::NewFile;
use super::{Options, write_answer};
use crate::app;
use crate::engine::schedule::adaptive::train::Training;
use crate::ingest::ProgressDisplay;
use crate::ops::train::Sample;
use crate::store::export::Wanted;

/// Train the adaptive schedule from your own data.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  twitter-updater schedule train --to my-model.toml")]
pub(super) enum Command {
    /// Train a model for schedule = "adaptive" from the stored counts of your posts, and compare it with the model in use.
    #[command(
        after_help = "Examples:\n  twitter-updater schedule train --to my-model.toml\n  twitter-updater schedule train --to my-model.toml --json\n\nUses posts that were looked up within an hour of their creation and as long as tweet_age says, or less if there are too few. May run while all else runs; needs some minutes of one processor. docs/freshness.md explains the model."
    )]
    Train(Train),
}

#[derive(Debug, clap::Args)]
pub(super) struct Train {
    /// Write the model to this file, for adaptive.model_file. An existing file is replaced.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Command {
    pub async fn run(self, options: Options) -> Result<u8> {
        let Self::Train(train) = self;
        train.run(options).await
    }
}

impl Train {
    async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        let (settings, pipeline) = (&start.settings, start.pipeline()?);
        let Some(histories) = pipeline.kind.histories(settings) else {
            bail!("{}: it keeps no counts to train from", pipeline.id);
        };
        let in_use = settings.adaptive.model()?;
        let file = NewFile::begin(&self.to)?;
        let tables = app::open_tables(settings).await?;
        let wanted = Wanted { namespace: pipeline.namespace(), ..Wanted::default() };
        let display = ProgressDisplay::new("histories", None);
        let progress = |rows| display.show_count(rows, "rows");
        let sample = Sample::read(&*tables, &histories, &wanted, progress).await?;
        display.finish();
        let table = settings.tweet_age.clone();
        let training = Training {
            options: settings.adaptive.options(),
            source: format!("the posts of {}", pipeline.id),
            command: format!("twitter-updater schedule train --to {}", self.to.display()),
            ..Training::new(table.clone(), table.lifetime())
        };
        let schedule = pipeline.schedule(settings);
        let trained = tokio::task::spawn_blocking(move || sample.train(training, &*schedule, &in_use)).await??;
        file.write(&trained.model.text())?;
        let to = self.to.display();
        let text = format!(
            "{trained}\nWritten to {to}. To use it: schedule = \"adaptive\" and adaptive.model_file = \"{to}\""
        );
        write_answer(self.json, &trained, &text)?;
        Ok(0)
    }
}
