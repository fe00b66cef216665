//! `forget`: removes all stored data of a person, and blocks new data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, bail};
use async_trait::async_trait;
use clap::Subcommand;
use serde::Serialize;

use super::{BadUsage, Options, eprint_message, exit, write_answer};
use crate::app::{self, Service};
use crate::data::forget::{Forget, ForgetReport, ForgetServices, bearers};
use crate::table::Table;
use collect::config::{Settings, StoreBackend};
use collect::ingest::FORGOTTEN;
use collect::pipelines::handles::ResolvedAccount;
use engine::base::clock;
use engine::base::humanize::{format_time, group_digits};
use engine::queue::{Queue, QueueError};
use engine::quota::Ledger;
use networks::model::provider::Provider;
use networks::providers::named::AccountRef;
use networks::providers::registry::read_account_ref;
use store::{Database, Forgetting, RemovedRows, person_network};

/// Remove all stored data of a person, and block new data.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  twitter-updater forget account 2244994945")]
pub(super) enum Command {
    /// Forget an account: remove its profile and former profiles, its posts with their objects and histories, its
    /// followers and friends, its visits, the media that only its posts show, and its jobs. A pseudonym of its id stays,
    /// so that new data of it is blocked. After an interruption, the same command continues.
    #[command(
        after_help = "Examples:\n  twitter-updater forget account 2244994945 --yes\n  twitter-updater forget account @TwitterDev\n  twitter-updater forget account 2244994945 --undo\n\nOther processes may run meanwhile. Without --yes it lists the items that it would remove. It keeps rows of others whose objects name the account (and counts them), backups, exports, logs and settings. See docs/accounts.md."
    )]
    Account(Account),
}

#[derive(Debug, clap::Args)]
pub(super) struct Account {
    /// Id of the account (id:ID on an instance whose ids are not digits), or @ and the current handle of its stored
    /// profile.
    #[arg(value_name = "ID|@HANDLE")]
    account: String,
    /// Remove the data; without this option, the command only lists it.
    #[arg(long)]
    yes: bool,
    /// Allow new data of the account again, after a mistake: removes the pseudonym. Removed data stays removed.
    #[arg(long, conflicts_with = "yes")]
    undo: bool,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Command {
    pub async fn run(self, options: Options) -> Result<u8> {
        let Self::Account(Account { account, yes, undo, json }) = self;
        let start = options.start(&[])?;
        let provider = start.settings.provider()?;
        app::check_store_file(&start.settings)?;
        let database = app::open_store_without_timeout(&start.settings).await?;
        let Some(account) = find_account_id(&database, &provider, &account).await? else {
            // An instance's ids may have letters, and a word with letters is read as a handle.
            let id = if matches!(provider, Provider::Mastodon(_)) { "id:ID" } else { "ID" };
            bail!(
                "no stored profile has the handle {account}. Its posts may still be stored: find author_id in \"export posts\", \
                 then run forget account {id}"
            );
        };
        if undo {
            let back = database.forgetting.unblock_account(&person_network(&provider), &account).await?;
            let text = if back { "it may be stored again; removed data stays removed" } else { "it was not blocked" };
            write_answer(json, &Undone { back }, text)?;
            return Ok(0);
        }
        let forget = Forget { database, provider, account };
        // Before any removal: a handle may belong to another person than intended.
        let handles = forget.current_handles().await?;
        let who = name_with_handles(&forget.account, &handles);
        if !yes {
            let mut stored_items = RemovedRows::default();
            forget
                .stored_items()
                .await?
                .into_iter()
                .for_each(|of| stored_items.add(&of.namespace, of.ids.len() as u64));
            let text = match stored_items.0.is_empty() {
                true => format!(
                    "nothing of {who} is stored under its id; its entries in lists of others and in communities are found only \
                     during the removal"
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
                "nothing is removed; add --yes to remove the data for good, and to block the account{}",
                rewrite_notice(&start.settings)
            ));
            return Ok(exit::USAGE);
        }
        let collects = start.settings.media.collect;
        let leaves_files = !collects && forget.database.store.media_bytes().await? > 0;
        let file = rewrite_notice(&start.settings);
        if !file.is_empty() {
            eprint_message(&format!("removing{file}"));
        }
        let done = forget.run(&Queues(Service::new(&start.settings)?), clock::wall_ms()).await?;
        let text = format!("{who}\n{}", describe_removal(&done, collects));
        write_answer(json, &Answer { account: &forget.account, handles: &handles, rest: &done }, &text)?;
        if leaves_files {
            eprint_message(
                "collected media files stay, because media.collect is off, and files of this person may be among them: run an \
                 updater with media.collect = true; within two hours it removes the files that no stored post shows",
            );
        }
        if let Some(why) = &done.bytes_left {
            eprint_message(&format!(
                "the rows are removed, but the SQLite file or its -wal may still contain their bytes, because the file could not \
                 be rewritten ({why}): run the same command again when fewer processes use the file and the disk has room for two copies"
            ));
            return Ok(exit::UNAVAILABLE);
        }
        Ok(0)
    }
}

/// Notice of the rewrite of a SQLite file; empty for PostgreSQL.
fn rewrite_notice(settings: &Settings) -> String {
    if settings.store.backend != StoreBackend::Sqlite {
        return String::new();
    }
    let bytes = std::fs::metadata(&settings.store.sqlite.path).map_or(0, |file| file.len());
    format!(
        "; at the end the SQLite file is rewritten ({} MB): other processes cannot write meanwhile",
        bytes.div_ceil(1_000_000)
    )
}

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

/// Prints a line for each blocked account of a file. Returns the accepted and the blocked accounts.
pub(super) async fn refuse_blocked(
    forgetting: &dyn Forgetting,
    provider: &Provider,
    resolved: Vec<ResolvedAccount>,
) -> Result<(Vec<ResolvedAccount>, Vec<ResolvedAccount>)> {
    let ids: Vec<String> = resolved.iter().map(|account| account.id.clone()).collect();
    let away = forgetting.are_blocked(&person_network(provider), &ids).await?;
    let (refused, kept): (Vec<_>, Vec<_>) = resolved.into_iter().zip(away).partition(|(_, away)| *away);
    refused.iter().for_each(|(account, _)| eprint_message(&format!("line {}: {FORGOTTEN}", account.line)));
    let accounts = |of: Vec<(ResolvedAccount, bool)>| of.into_iter().map(|(account, _)| account).collect();
    Ok((accounts(kept), accounts(refused)))
}

/// Returns the id of an account; `given` is its id, or the handle of a stored profile. `None` if no profile has or had
/// the handle. A handle of several profiles, or only of former ones, is an error.
pub(super) async fn find_account_id(database: &Database, provider: &Provider, given: &str) -> Result<Option<String>> {
    let handle = match read_account_ref(provider)(given) {
        Ok(AccountRef::Id(id)) => return Ok(Some(id)),
        Ok(AccountRef::Handle(handle)) => handle,
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
                former.iter().map(|(id, until)| format!("{id} had it until {}", format_time(*until))).collect();
            bail!("no stored profile has the handle {given} now ({}): give the id", had.join(", "))
        }
    }
}

/// Id of an account with its handles, for people.
fn name_with_handles(account: &str, handles: &BTreeSet<String>) -> String {
    let all: Vec<String> = handles.iter().map(|handle| format!("@{handle}")).collect();
    if all.is_empty() { account.to_owned() } else { format!("{account} ({})", all.join(", ")) }
}

fn table(RemovedRows(rows): &RemovedRows) -> String {
    let mut table = Table::new("  <24>12", &[]);
    rows.iter().for_each(|(name, rows)| table.row(&[name, &group_digits(*rows)]));
    format!("{table}\n")
}

fn describe_removal(done: &ForgetReport, has_media: bool) -> String {
    let of = |rows: &RemovedRows| if rows.0.is_empty() { "  nothing\n".to_owned() } else { table(rows) };
    let already = if done.is_new { "" } else { " (it was blocked before)" };
    let media = if has_media { "an updater removes the media files within two hours" } else { "" };
    format!(
        "blocked from now on{already}\nremoved rows\n{}rows of others whose objects name it, which stay\n{}{media}",
        of(&done.removed),
        of(&done.stays)
    )
}

/// Queues of the settings, also of pipelines that are turned off now.
struct Queues(Service);

#[async_trait]
impl ForgetServices for Queues {
    async fn open_queue(&self, namespace: &str) -> Result<Arc<dyn Queue>, QueueError> {
        self.0.open_unchecked_queue(namespace).await.map_err(|error| QueueError::Unavailable(format!("{error:#}")))
    }

    async fn open_ledger(&self, provider: &Provider) -> Result<Arc<dyn Ledger>, QueueError> {
        self.0.ledger(provider).await.map_err(|error| QueueError::Unavailable(format!("{error:#}")))
    }
}
