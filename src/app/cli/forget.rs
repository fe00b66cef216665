//! `forget`: removes what is stored of a person, and keeps it away.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Result, bail};
use async_trait::async_trait;
use clap::Subcommand;
use serde::Serialize;

use super::{BadUsage, Options, exit, say, write_answer};
use crate::app::{self, Service};
use crate::base::clock;
use crate::base::humanize::grouped;
use crate::engine::queue::{Queue, QueueError};
use crate::ingest::FORGOTTEN;
use crate::model::pipeline_id::PipelineId;
use crate::model::provider::Provider;
use crate::ops::forget::{Forget, Forgotten, QueuesOf};
use crate::pipelines::handles::Resolved;
use crate::pipelines::profiles::PROFILES;
use crate::providers::named::Named;
use crate::providers::registry::account_of;
use crate::store::{Database, Forgetting, RemovedRows, network, providers};

/// Remove what is stored of a person, and store nothing of it again.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  twitter-updater forget account 2244994945")]
pub(super) enum Command {
    /// Forget an account: its profile with all former ones, its posts with their objects and histories, who follows it and whom
    /// it follows, its visits, the media that none but its posts show, and its jobs. A salted hash of its id stays, so that
    /// nothing of it is stored again. Interrupted, the same command does the rest.
    #[command(
        after_help = "Examples:\n  twitter-updater forget account 2244994945 --yes\n  twitter-updater forget account @TwitterDev\n  twitter-updater forget account 2244994945 --undo\n\nRuns beside all else. Without --yes it says what it would remove. What stays: rows of others whose objects name the account (they are counted), backups, exports, logs, and the settings. See docs/accounts.md."
    )]
    Account(Account),
}

#[derive(Debug, clap::Args)]
pub(super) struct Account {
    /// Its id, or its handle with @ where its profile is stored.
    #[arg(value_name = "ID|@HANDLE")]
    account: String,
    /// Remove it.
    #[arg(long)]
    yes: bool,
    /// Let it be stored again, after a mistake: removes the hash. What was removed stays removed.
    #[arg(long, conflicts_with = "yes")]
    undo: bool,
    /// Print what was done as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Command {
    pub async fn run(self, options: Options) -> Result<u8> {
        let Self::Account(Account { account, yes, undo, json }) = self;
        let start = options.start(&[])?;
        let provider = start.settings.provider()?;
        app::store_is_there(&start.settings)?;
        let database = app::open_patient_store(&start.settings).await?;
        let Some(account) = id_of(&database, &provider, &account).await? else {
            bail!(
                "no stored profile has the handle {account}. Its posts may still be stored: find author_id in \"export posts\", \
                 then run forget account ID"
            );
        };
        if undo {
            let back = database.forgetting.let_back(&network(&provider), &account).await?;
            let text =
                if back { "it may be stored again; what was removed stays removed" } else { "it was not kept away" };
            write_answer(json, &Undone { back }, text)?;
            return Ok(0);
        }
        let forget = Forget { database, provider, account };
        if !yes {
            let mut known = RemovedRows::default();
            forget.known().await?.into_iter().for_each(|of| known.add(&of.namespace, of.ids.len() as u64));
            let text = match known.0.is_empty() {
                true => format!(
                    "nothing of {} is stored under its id; its places on lists of others and in communities are found only when they \
                     are removed",
                    forget.account
                ),
                false => format!("items that would be removed, with all that belongs to them\n{}", table(&known)),
            };
            write_answer(json, &known, &text)?;
            say("nothing is removed; add --yes to remove what there is for good, and to keep it away");
            return Ok(exit::USAGE);
        }
        let done = forget.run(&Queues(Service::new(&start.settings)?), clock::wall_ms()).await?;
        write_answer(json, &done, &shown(&done, start.settings.media.collect))?;
        Ok(0)
    }
}

#[derive(Debug, Serialize)]
struct Undone {
    back: bool,
}

/// Refuses those of a file's accounts that are kept away, a line each; returns those that are kept, and those that are refused.
///
/// # Errors
/// The store's.
pub(super) async fn refuse_kept_away(
    forgetting: &dyn Forgetting,
    provider: &Provider,
    resolved: Vec<Resolved>,
) -> Result<(Vec<Resolved>, Vec<Resolved>)> {
    let ids: Vec<String> = resolved.iter().map(|account| account.id.clone()).collect();
    let away = forgetting.are_kept_away(&network(provider), &ids).await?;
    let (refused, kept): (Vec<_>, Vec<_>) = resolved.into_iter().zip(away).partition(|(_, away)| *away);
    refused.iter().for_each(|(account, _)| say(&format!("line {}: {FORGOTTEN}", account.line)));
    let accounts = |of: Vec<(Resolved, bool)>| of.into_iter().map(|(account, _)| account).collect();
    Ok((accounts(kept), accounts(refused)))
}

/// The id of an account that is given by its id, or by a handle that a stored profile has or had; `None` where none has it.
///
/// # Errors
/// What is given is neither; several profiles have the handle; or the store is out.
pub(super) async fn id_of(database: &Database, provider: &Provider, given: &str) -> Result<Option<String>> {
    let handle = match account_of(provider)(given) {
        Ok(Named::Id(id)) => return Ok(Some(id)),
        Ok(Named::Handle(handle)) => handle,
        Err(why) => return BadUsage::because(format!("the account {given:?}: {why}")),
    };
    let mut ids = BTreeSet::new();
    for provider in providers(provider) {
        let profiles = PipelineId::items(&provider, PROFILES).to_string();
        ids.extend(database.store.bearers(&profiles, &handle).await?.into_iter().map(|bearer| bearer.id));
    }
    let mut all = ids.into_iter();
    match (all.next(), all.next()) {
        (one, None) => Ok(one),
        (None, Some(_)) => Ok(None),
        (Some(one), Some(other)) => {
            bail!("several accounts have or had the handle {given} ({one}, {other}): give the id")
        }
    }
}

fn table(rows: &RemovedRows) -> String {
    rows.0.iter().fold(String::new(), |mut text, (table, rows)| {
        let _ = writeln!(text, "  {table:<24}{:>12}", grouped(*rows)); // into a String nothing fails
        text
    })
}

fn shown(done: &Forgotten, has_media: bool) -> String {
    let of = |rows: &RemovedRows| if rows.0.is_empty() { "  nothing\n".to_owned() } else { table(rows) };
    let already = if done.is_new { "" } else { " (it was kept away before)" };
    let media = if has_media { "an updater removes the media files within two hours" } else { "" };
    format!(
        "kept away from now on{already}\nremoved rows\n{}rows of others whose objects name it, which stay\n{}{media}",
        of(&done.removed),
        of(&done.stays)
    )
}

/// The queues of the settings, also of pipelines that are turned off now.
struct Queues(Service);

#[async_trait]
impl QueuesOf for Queues {
    async fn queue_of(&self, namespace: &str) -> Result<Arc<dyn Queue>, QueueError> {
        self.0.unchecked_queue(namespace).await.map_err(|error| QueueError::Unavailable(format!("{error:#}")))
    }
}
