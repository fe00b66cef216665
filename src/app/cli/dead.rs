//! `dead`: lists, shows, retries and drops dead posts.

use anyhow::Result;
use clap::{ArgGroup, Subcommand};

use super::{Answer, BadUsage, Options, PipelineChoice, distinct, eprint_message, exit, report_refused, write_answer};
use crate::app::{self, Service};
use crate::data::dead::{DeadAction, DeadItems};
use collect::config::Settings;
use collect::pipelines::kind::RegisteredPipeline;

/// List, retry or drop dead posts: posts that failed repeatedly in requests of their own.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  twitter-updater dead list")]
pub(super) struct Arguments {
    #[command(flatten)]
    choice: PipelineChoice,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List dead posts, with the reasons.
    #[command(
        after_help = "Examples:\n  twitter-updater dead list\n  twitter-updater dead list --limit 1000 --json | jq '.dead[].reason'"
    )]
    List {
        /// Maximum number of posts.
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show the state of a post in queue and store, dead or not.
    #[command(
        after_help = "Examples:\n  twitter-updater dead show 1460323737035677698\n  twitter-updater dead show 1460323737035677698 --json | jq .stored.metrics"
    )]
    Show {
        /// Id of the post.
        id: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Make dead posts due now, so that an updater looks them up again. Exits with 65 if an id was refused.
    #[command(
        after_help = "Examples:\n  twitter-updater dead retry 1460323737035677698\n  twitter-updater dead retry --all\n  twitter-updater dead retry --reason 403"
    )]
    Retry(DeadSelection),
    /// End the tracking of dead posts. Exits with 65 if an id was refused.
    #[command(
        after_help = "Examples:\n  twitter-updater dead drop 1460323737035677698\n  twitter-updater dead drop --all\n  twitter-updater dead drop --reason process"
    )]
    Drop(DeadSelection),
}

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("whom").required(true).args(["ids", "all", "reason"]))]
struct DeadSelection {
    /// Ids of the posts.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// All posts that are dead now.
    #[arg(long)]
    all: bool,
    /// All dead posts whose reason contains this text.
    #[arg(long, value_name = "WORDS", value_parser = nonempty_words)]
    reason: Option<String>,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Rejects an empty text, such as that of an unset variable: it would match every reason.
fn nonempty_words(text: &str) -> Result<String, BadUsage> {
    if text.trim().is_empty() {
        Err(BadUsage("is empty: name words of the reason, or use --all".to_owned()))
    } else {
        Ok(text.to_owned())
    }
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let is_read_only = matches!(self.command, Command::List { .. } | Command::Show { .. });
        let start = options.with_choice(&self.choice).start(&[])?;
        let dead = open(&start.settings, &start.pipeline()?, is_read_only).await?;
        match self.command {
            Command::List { limit, json } => {
                let list = dead.list(limit).await?;
                write_answer(json, &list, &list.to_string())?;
                Ok(0)
            }
            Command::Show { id, json } => {
                let Some(known) = dead.find(&id).await? else {
                    eprint_message(&format!("{id}: neither the queue nor the store has it"));
                    return Ok(exit::INPUT);
                };
                write_answer(json, &known, &known.to_string())?;
                Ok(0)
            }
            Command::Retry(selection) => selection.act(&dead, DeadAction::Retry).await,
            Command::Drop(selection) => selection.act(&dead, DeadAction::Drop).await,
        }
    }
}

impl DeadSelection {
    async fn act(self, dead: &DeadItems, act: DeadAction) -> Result<u8> {
        let mut refusals = Vec::new();
        let refused = report_refused(self.json, &mut refusals);
        let tally = match self.ids.is_empty() {
            true => dead.act_on_all(act, self.reason.as_deref(), refused).await?,
            false => dead.act(act, &distinct(&self.ids), refused).await?,
        };
        write_answer(self.json, &Answer { done: tally, refusals }, &tally.summary(act))?;
        Ok(if tally.refused == 0 { 0 } else { exit::INPUT })
    }
}

/// Opens the dead posts of that pipeline. Creates no file, with one exception: unless `is_read_only`, a lost queue,
/// because the store knows its dead posts.
async fn open(settings: &Settings, pipeline: &RegisteredPipeline, is_read_only: bool) -> Result<DeadItems> {
    match is_read_only {
        true => app::check_queue_file(settings)?,
        false => app::check_store_file(settings)?,
    }
    let queue = Service::new(settings)?.queue(&pipeline.namespace()).await?;
    app::check_store_file(settings)?;
    Ok(app::new_dead_posts(settings, pipeline, queue, app::open_store(settings).await?.store))
}
