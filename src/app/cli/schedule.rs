//! `schedule`: trains the adaptive schedule from the collected data.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Subcommand;

use super::new_file::NewFile;
use super::{Options, PipelineChoice, write_answer};
use crate::app;
use crate::data::train::Sample;
use collect::ingest::ProgressDisplay;
use engine::schedule::adaptive::train::Training;
use store::export::ExportFilter;

/// Train the adaptive schedule from your own data.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  twitter-updater schedule train --to my-model.toml")]
pub(super) struct Arguments {
    #[command(flatten)]
    choice: PipelineChoice,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a model for schedule = "adaptive" from the stored counts of your posts, and compare it with the model in use.
    #[command(
        after_help = "Examples:\n  twitter-updater schedule train --to my-model.toml\n  twitter-updater schedule train --to my-model.toml --json\n\nUses posts that were first looked up within an hour of their creation, and then for the whole time of tweet_age, or for less if there are too few. Other processes may run meanwhile. Training needs some minutes of one processor. docs/freshness.md explains the model."
    )]
    Train(Train),
}

#[derive(Debug, clap::Args)]
struct Train {
    /// Write the model to this file, for adaptive.model_file. An existing file is replaced.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let Command::Train(train) = self.command;
        train.run(options.with_choice(&self.choice)).await
    }
}

impl Train {
    async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        let (settings, pipeline) = (&start.settings, start.pipeline()?);
        let Some(histories) = pipeline.kind.histories(settings) else {
            bail!("{}: the pipeline keeps no counts to train from", pipeline.id);
        };
        let in_use = settings.adaptive.model()?;
        let file = NewFile::begin(&self.to)?;
        let tables = app::open_tables(settings).await?;
        let wanted = ExportFilter { namespace: pipeline.namespace(), ..ExportFilter::default() };
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
        file.write(&trained.model.to_toml())?;
        let to = self.to.display();
        let text = format!(
            "{trained}\nWritten to {to}. To use it: schedule = \"adaptive\" and adaptive.model_file = \"{to}\""
        );
        write_answer(self.json, &trained, &text)?;
        Ok(0)
    }
}
