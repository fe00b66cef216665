//! `forget`: removes all stored data of a person, and blocks new data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Result, bail};
use async_trait::async_trait;
use clap::Subcommand;
use serde::Serialize;

use super::{BadUsage, Options, eprint_message, exit, write_answer};
use crate::app::{self, Service};
use crate::base::clock;
use crate::base::humanize::{grouped, when};
use crate::config::{Settings, StoreBackend};
use crate::engine::queue::{Queue, QueueError};
use crate::ingest::FORGOTTEN;
use crate::model::provider::Provider;
use crate::ops::forget::{Forget, Forgotten, QueuesOf, bearers};
use crate::pipelines::handles::Resolved;
use crate::providers::named::Named;
use crate::providers::registry::account_of;
use crate::quota::Ledger;
use crate::store::{Database, Forgetting, RemovedRows, network};

/// Remove what is stored of a person, and store nothing of it again.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  twitter-updater forget account 2244994945")]
pub(super) enum Command {
    /// Forget an account: its profile with all former ones, its posts with their objects and histories, who follows it and whom
    /// it follows, its visits, the media that none but its posts show, and its jobs. A pseudonym of its id stays, so that
    /// nothing of it is stored again. Interrupted, the same command does the rest.
    #[command(
        after_help = "Examples:\n  twitter-updater forget account 2244994945 --yes\n  twitter-updater forget account @TwitterDev\n  twitter-updater forget account 2244994945 --undo\n\nRuns beside all else. Without --yes it says what it would remove. What stays: rows of others whose objects name the account (they are counted), backups, exports, logs, and the settings. See docs/accounts.md."
    )]
    Account(Account),
}

#[derive(Debug, clap::Args)]
pub(super) struct Account {
    /// Its id (id:ID on an instance whose ids are not digits), or with @ the handle that its stored profile has now.
    #[arg(value_name = "ID|@HANDLE")]
    account: String,
    /// Remove it.
    #[arg(long)]
    yes: bool,
    /// Let it be stored again, after a mistake: removes the pseudonym. What was removed stays removed.
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
            // An instance's ids may have letters, and a word with letters is read as a handle.
            let id = if matches!(provider, Provider::Mastodon(_)) { "id:ID" } else { "ID" };
            bail!(
                "no stored profile has the handle {account}. Its posts may still be stored: find author_id in \"export posts\", \
                 then run forget account {id}"
            );
        };
        if undo {
            let back = database.forgetting.let_back(&network(&provider), &account).await?;
            let text =
                if back { "it may be stored again; what was removed stays removed" } else { "it was not blocked" };
            write_answer(json, &Undone { back }, text)?;
            return Ok(0);
        }
        let forget = Forget { database, provider, account };
        // Before any removal: a handle may belong to another person than intended.
        let handles = forget.handles().await?;
        let who = named(&forget.account, &handles);
        if !yes {
            let mut stored_items = RemovedRows::default();
            forget
                .stored_items()
                .await?
                .into_iter()
                .for_each(|of| stored_items.add(&of.namespace, of.ids.len() as u64));
            let text = match stored_items.0.is_empty() {
                true => format!(
                    "nothing of {who} is stored under its id; its places on lists of others and in communities are found only when \
                     they are removed"
                ),
                false => {
                    format!(
                        "items of {who} that would be removed, with all that belongs to them\n{}",
                        table(&stored_items)
                    )
                }
            };
            write_answer(json, &Answer { account: &forget.account, handles: &handles, rest: &stored_items }, &text)?;
            eprint_message(&format!(
                "nothing is removed; add --yes to remove what there is for good, and to keep it away{}",
                rewriting(&start.settings)
            ));
            return Ok(exit::USAGE);
        }
        let collects = start.settings.media.collect;
        let leaves_files = !collects && forget.database.store.media_bytes().await? > 0;
        let file = rewriting(&start.settings);
        if !file.is_empty() {
            eprint_message(&format!("removing{file}"));
        }
        let done = forget.run(&Queues(Service::new(&start.settings)?), clock::wall_ms()).await?;
        let text = format!("{who}\n{}", describe_removal(&done, collects));
        write_answer(json, &Answer { account: &forget.account, handles: &handles, rest: &done }, &text)?;
        if leaves_files {
            eprint_message(
                "files of media that were collected before stay, and those of this person may be among them, since media.collect is \
                 off: run an updater with media.collect = true, which removes the files that no stored post shows within two hours",
            );
        }
        if let Some(why) = &done.bytes_left {
            eprint_message(&format!(
                "the rows are removed, but bytes of them may still be in the SQLite file or its -wal, since the file could not be \
                 rewritten ({why}): run the same command again when fewer processes use the file and the disk has room for two copies"
            ));
            return Ok(exit::UNAVAILABLE);
        }
        Ok(0)
    }
}

/// Announces the rewrite of a SQLite file; empty for PostgreSQL.
fn rewriting(settings: &Settings) -> String {
    if settings.store.backend != StoreBackend::Sqlite {
        return String::new();
    }
    let bytes = std::fs::metadata(&settings.store.sqlite.path).map_or(0, |file| file.len());
    format!(
        "; at the end the SQLite file is rewritten ({} MB): other processes cannot write meanwhile",
        bytes.div_ceil(1_000_000)
    )
}

/// An answer, and whom it is about.
#[derive(Debug, Serialize)]
struct Answer<'a, T> {
    account: &'a str,
    handles: &'a BTreeSet<String>,
    #[serde(flatten)]
    rest: &'a T,
}

#[derive(Debug, Serialize)]
struct Undone {
    back: bool,
}

/// Refuses the blocked accounts of a file, one line each. Returns the accepted and the refused accounts.
///
/// # Errors
/// The store's.
pub(super) async fn refuse_blocked(
    forgetting: &dyn Forgetting,
    provider: &Provider,
    resolved: Vec<Resolved>,
) -> Result<(Vec<Resolved>, Vec<Resolved>)> {
    let ids: Vec<String> = resolved.iter().map(|account| account.id.clone()).collect();
    let away = forgetting.are_blocked(&network(provider), &ids).await?;
    let (refused, kept): (Vec<_>, Vec<_>) = resolved.into_iter().zip(away).partition(|(_, away)| *away);
    refused.iter().for_each(|(account, _)| eprint_message(&format!("line {}: {FORGOTTEN}", account.line)));
    let accounts = |of: Vec<(Resolved, bool)>| of.into_iter().map(|(account, _)| account).collect();
    Ok((accounts(kept), accounts(refused)))
}

/// The id of an account that is given by its id, or by the handle that a stored profile has; `None` where none has or had it.
///
/// # Errors
/// `given` is neither; several profiles have the handle; only profiles that had it are stored; or the store is out.
pub(super) async fn id_of(database: &Database, provider: &Provider, given: &str) -> Result<Option<String>> {
    let handle = match account_of(provider)(given) {
        Ok(Named::Id(id)) => return Ok(Some(id)),
        Ok(Named::Handle(handle)) => handle,
        Err(why) => return BadUsage::because(format!("the account {given:?}: {why}")),
    };
    let (mut present, mut former) = (BTreeSet::new(), BTreeMap::new());
    for bearer in bearers(database, provider, &handle).await? {
        match bearer.until {
            Some(until) => former.extend([(bearer.id, until)]),
            None => present.extend([bearer.id]),
        }
    }
    // Twitter's APIs may give two profiles of one account; the older may have a handle that the account no longer has.
    let mut present = present.into_iter().filter(|id| !former.contains_key(id));
    match (present.next(), present.next()) {
        (Some(one), Some(other)) => bail!("several accounts have the handle {given} ({one}, {other}): give the id"),
        (Some(one), None) => Ok(Some(one)),
        (None, _) if former.is_empty() => Ok(None),
        (None, _) => {
            let had: Vec<String> =
                former.iter().map(|(id, until)| format!("{id} had it until {}", when(*until))).collect();
            bail!("no stored profile has the handle {given} now ({}): give the id", had.join(", "))
        }
    }
}

/// An account by its id, with the handles by which a person knows it.
fn named(account: &str, handles: &BTreeSet<String>) -> String {
    let all: Vec<String> = handles.iter().map(|handle| format!("@{handle}")).collect();
    if all.is_empty() { account.to_owned() } else { format!("{account} ({})", all.join(", ")) }
}

fn table(rows: &RemovedRows) -> String {
    rows.0.iter().fold(String::new(), |mut text, (table, rows)| {
        let _ = writeln!(text, "  {table:<24}{:>12}", grouped(*rows)); // writing to a String cannot fail
        text
    })
}

fn describe_removal(done: &Forgotten, has_media: bool) -> String {
    let of = |rows: &RemovedRows| if rows.0.is_empty() { "  nothing\n".to_owned() } else { table(rows) };
    let already = if done.is_new { "" } else { " (it was blocked before)" };
    let media = if has_media { "an updater removes the media files within two hours" } else { "" };
    format!(
        "blocked from now on{already}\nremoved rows\n{}rows of others whose objects name it, which stay\n{}{media}",
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

    async fn ledger_of(&self, provider: &Provider) -> Result<Arc<dyn Ledger>, QueueError> {
        self.0.ledger(provider).await.map_err(|error| QueueError::Unavailable(format!("{error:#}")))
    }
}
