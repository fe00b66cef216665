//! `dead`: lists, shows, retries and drops dead posts.

use anyhow::Result;
use clap::{ArgGroup, Subcommand};

use super::{Answer, Options, distinct, eprint_message, exit, note_refused, write_answer};
use crate::app::{self, Service};
use crate::config::Settings;
use crate::ops::dead::{Act, Dead};
use crate::pipelines::kind::Registered;

/// List, retry or drop what is dead: posts that failed repeatedly in requests of their own.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  twitter-updater dead list")]
pub(super) enum Command {
    /// List dead tweets, with the reasons.
    #[command(
        after_help = "Examples:\n  twitter-updater dead list\n  twitter-updater dead list --limit 1000 --json | jq '.dead[].reason'"
    )]
    List {
        /// The maximum number.
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show the state of a tweet in queue and store, dead or not.
    #[command(
        after_help = "Examples:\n  twitter-updater dead show 1460323737035677698\n  twitter-updater dead show 1460323737035677698 --json | jq .stored.metrics"
    )]
    Show {
        /// Its id.
        id: String,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Look dead tweets up again, due now. Exits with 65 if an id was refused.
    #[command(
        after_help = "Examples:\n  twitter-updater dead retry 1460323737035677698\n  twitter-updater dead retry --all\n  twitter-updater dead retry --reason 403"
    )]
    Retry(Whom),
    /// End the life of dead tweets. Exits with 65 if an id was refused.
    #[command(
        after_help = "Examples:\n  twitter-updater dead drop 1460323737035677698\n  twitter-updater dead drop --all\n  twitter-updater dead drop --reason process"
    )]
    Drop(Whom),
}

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("whom").required(true).args(["ids", "all", "reason"]))]
pub(super) struct Whom {
    /// Their ids.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// All that are dead now.
    #[arg(long)]
    all: bool,
    /// All whose reason contains this text.
    #[arg(long, value_name = "WORDS", value_parser = words)]
    reason: Option<String>,
    /// Print what was done as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Words to look for: each reason holds the empty text, as of a variable that is not set.
fn words(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        Err("is empty: name words of the reason, or use --all".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

impl Command {
    pub async fn run(self, options: Options) -> Result<u8> {
        let only_looks = matches!(self, Self::List { .. } | Self::Show { .. });
        let start = options.start(&[])?;
        let dead = open(&start.settings, &start.pipeline()?, only_looks).await?;
        match self {
            Self::List { limit, json } => {
                let list = dead.list(limit).await?;
                write_answer(json, &list, &list.to_string())?;
                Ok(0)
            }
            Self::Show { id, json } => {
                let Some(known) = dead.show(&id).await? else {
                    eprint_message(&format!("{id}: neither the queue nor the store knows it"));
                    return Ok(exit::INPUT);
                };
                write_answer(json, &known, &known.to_string())?;
                Ok(0)
            }
            Self::Retry(whom) => whom.act(&dead, Act::Retry).await,
            Self::Drop(whom) => whom.act(&dead, Act::Drop).await,
        }
    }
}

impl Whom {
    async fn act(self, dead: &Dead, act: Act) -> Result<u8> {
        let mut refusals = Vec::new();
        let refused = note_refused(self.json, &mut refusals);
        let tally = match self.ids.is_empty() {
            true => dead.act_on_all(act, self.reason.as_deref(), refused).await?,
            false => dead.act(act, &distinct(&self.ids), refused).await?,
        };
        write_answer(self.json, &Answer { done: tally, refusals }, &tally.line(act))?;
        Ok(if tally.refused == 0 { 0 } else { exit::INPUT })
    }
}

/// The dead of that pipeline. Creates no file, except that of a lost queue, whose dead the store knows, for a command that does
/// more than `only_looks`.
///
/// # Errors
/// A service is down.
async fn open(settings: &Settings, pipeline: &Registered, only_looks: bool) -> Result<Dead> {
    match only_looks {
        true => app::queue_is_there(settings)?,
        false => app::store_is_there(settings)?,
    }
    let queue = Service::new(settings)?.queue(&pipeline.namespace()).await?;
    app::store_is_there(settings)?;
    Ok(app::dead_of(settings, pipeline, queue, app::open_store(settings).await?.store))
}
