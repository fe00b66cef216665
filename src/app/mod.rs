//! The only wiring: settings → backends → roles.

mod checking;
pub mod cli;
pub mod demo;
mod files;
mod follow;
mod heartbeat;
mod logging;
mod maintenance;
mod poll;
mod polled;
mod provider;
mod roles;
mod service;
mod simulated;
mod sources;
mod tuning;
mod updater;
mod upkeep;
mod waiting;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures::future::join_all;
use secrecy::ExposeSecret;
use serde::Serialize;

pub use self::checking::check;
pub use self::files::enough_files_may_be_open;
pub use self::follow::{Follower, InForce, follow};
pub use self::logging::{LogLevel, start_logging};
pub use self::maintenance::Maintenance;
pub use self::poll::run_poll;
pub use self::provider::{callers, credentials, live_budget, open_credentials, open_lookup};
pub use self::roles::{Overseen, Watched, open_site, run_ops, run_starter, run_updater, terms};
pub use self::service::Service;
pub use self::simulated::{run_simulator, simulator_options};
pub use self::tuning::read_terms;
pub use self::updater::Updater;
pub use self::upkeep::{open_dead, open_rebuilds, open_refresh, run_rebuilds, run_refresh};
pub use self::waiting::{Needed, wait_for_services};
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::config::{Settings, StoreBackend, masked};
use crate::engine::queue::Queue;
use crate::engine::schedule::age::AgeTable;
use crate::ingest::{EnqueueOptions, Input, ProgressDisplay, Starter, Summary, enqueue};
use crate::model::provider::Provider;
use crate::ops::report::credentials::{self, CredentialsReport};
use crate::ops::report::plan::Fill;
use crate::ops::report::status::{Report, Status};
use crate::ops::{Answer, Reader, StoreAtHand, WholeQueue};
use crate::providers::registry::{capabilities, date_of, details_of, parse};
use crate::quota::{Ledger, LedgerError, Reads};
use crate::store::{Positions, PostgresStore, SqliteStore, Store, StoreError, Way};

/// Refused lines told one by one; the summary counts them all by reason.
const REFUSALS_TOLD: u64 = 50;

/// The store that the settings name. The embedded one makes its tables by itself; PostgreSQL's are
/// made by `twitter-updater migrate`.
///
/// # Errors
/// It is not there, or its tables are not as this version needs them.
pub async fn open_store(settings: &Settings) -> Result<Arc<dyn Store>> {
    open_store_and_positions(settings).await.map(|(store, _)| store)
}

/// The same, and where positions of sources are: in the same tables' place.
///
/// # Errors
/// As [`open_store`].
pub async fn open_store_and_positions(settings: &Settings) -> Result<(Arc<dyn Store>, Arc<dyn Positions>)> {
    let (store, positions) = connect_store(settings).await?;
    if settings.store.backend == StoreBackend::Sqlite {
        store.migrate().await.with_context(|| unusable_store(settings))?;
        fill_details(&*store).await.with_context(|| unusable_store(settings))?;
    }
    store.check().await.with_context(|| unusable_store(settings))?;
    Ok((store, positions))
}

/// That it cannot be used, and the setting that says where it is.
fn unusable_store(settings: &Settings) -> String {
    let (setting, is) = match settings.store.backend {
        StoreBackend::Postgres => ("store.postgres.url", masked(settings.store.postgres.url.expose_secret())),
        StoreBackend::Sqlite => ("store.sqlite.path", settings.store.sqlite.path.display().to_string()),
    };
    format!("the store cannot be used ({setting} is {is})")
}

async fn connect_store(settings: &Settings) -> Result<(Arc<dyn Store>, Arc<dyn Positions>)> {
    Ok(match settings.store.backend {
        StoreBackend::Postgres => {
            let postgres = &settings.store.postgres;
            let store = PostgresStore::connect(&postgres.url, postgres.connections, postgres.statement_timeout).await;
            let store = Arc::new(store.with_context(|| unusable_store(settings))?);
            (store.clone(), store)
        }
        StoreBackend::Sqlite => {
            let file = &settings.store.sqlite;
            let store = SqliteStore::open(&file.path, file.busy_timeout).await;
            let store = Arc::new(store.with_context(|| unusable_store(settings))?);
            (store.clone(), store)
        }
    })
}

/// Creates or updates the store's tables. Stopped on the way, it leaves each migration done or undone.
///
/// # Errors
/// The store is not there, or it was stopped.
pub async fn migrate(settings: &Settings, stop: &Stop) -> Result<()> {
    tokio::select! {
        migrated = make_tables(settings) => migrated,
        () = stop.draining() => bail!("migrate was stopped: run it again, it goes on where it was"),
    }
}

async fn make_tables(settings: &Settings) -> Result<()> {
    let store = connect_store(settings).await?.0;
    store.migrate().await.context("the store's tables cannot be made")?;
    fill_details(&*store).await.context("what was stored before cannot be filled in; run it again")
}

/// Reads the details of posts that an earlier version stored out of their raw objects. Ended on the way it goes on where it was.
async fn fill_details(store: &dyn Store) -> Result<(), StoreError> {
    const TOLD_EVERY: u64 = 100_000;
    let mut filled = 0;
    loop {
        let rows = store.fill_details(details_of).await?;
        if rows == 0 {
            return Ok(());
        }
        if filled / TOLD_EVERY < (filled + rows) / TOLD_EVERY {
            tracing::info!(tweets = filled + rows, "details are read out of stored objects");
        }
        filled += rows;
    }
}

/// The queue, its quota and who is parked, of each provider at this moment; and the polled sources. Needs the names of the
/// credentials, and no secret.
///
/// # Errors
/// A setting makes no sense; or the queue of the only provider is not there. Of several, one that is out is a part of the
/// report.
pub async fn status(settings: &Settings) -> Result<Report> {
    let mut asked = Vec::new();
    for provider in settings.providers()? {
        let names: Vec<String> = callers(settings, &provider)?.into_iter().map(|(name, _)| name).collect();
        asked.push((provider, names));
    }
    files::queue_is_there(settings)?;
    let service = Service::new(settings)?;
    let store = polled::store_as_it_is(settings).await.map(|(store, _)| store).map_err(|error| format!("{error:#}"));
    let store = StoreAtHand::new(store);
    let reading = asked.iter().map(|(provider, names)| status_of(settings, &service, provider, names, &store));
    let (mut read, sources) = tokio::join!(join_all(reading), polled::read(settings, &service));
    if asked.len() == 1 && read.first().is_some_and(Result::is_err) {
        read.swap_remove(0)?;
    }
    let read = asked.iter().zip(read).map(|((provider, _), read)| {
        let pollers = sources.trouble_of(&provider.to_string());
        let with_pollers = |status: Status| Status {
            answer: status.answer.map(|answer| answer.unless_pollers(pollers.as_deref())),
            ..status
        };
        // One line, as every error of a command.
        (provider.namespace(), read.map(with_pollers).map_err(|error| format!("{error:#}")))
    });
    let read: Vec<_> = read.collect();
    Ok(Report::new(read, sources))
}

async fn status_of(
    settings: &Settings,
    service: &Service,
    provider: &Provider,
    names: &[String],
    store: &StoreAtHand,
) -> Result<Status> {
    let (queue, ledger) = (service.queue(&provider.namespace()).await?, service.ledger(provider).await?);
    let terms = Reloadable::new(terms(settings));
    let whole = WholeQueue {
        queue: queue.clone(),
        provider: provider.ledger(),
        ledger: ledger.clone(),
        names: names.to_vec(),
        capabilities: capabilities(provider),
        terms: terms.clone(),
        budget: live_budget(settings, provider),
        health: Arc::default(),
    };
    let seen = Reader::new(Arc::new(whole), store.clone(), terms).look_once().await;
    let status = match &seen.snapshot {
        Some(figures) => figures.status.clone(),
        // Why they do not answer is said in their own words; a large file may only need more time.
        None => {
            let stats = queue.stats().await?;
            let accounts = ledger.statuses(capabilities(provider).endpoint, names).await?;
            let reads = reads(settings, provider, &*ledger).await?;
            Status::new(stats, accounts, fill(settings, provider)).with_reads(reads)
        }
    };
    Ok(Status { answer: Some(Answer::of(&seen)), ..status })
}

/// How requests to that provider are filled with these settings.
#[must_use]
pub fn fill(settings: &Settings, provider: &Provider) -> Fill {
    Fill::of(capabilities(provider), settings.updater.buffer_ttl, settings.updater.lookahead)
}

/// What the ledger knows of each credential; with `check`, the API is asked about each first, which needs
/// their secrets.
///
/// # Errors
/// The ledger is not there, or a secret is missing.
pub async fn credentials_report(settings: &Settings, provider: &Provider, check: bool) -> Result<CredentialsReport> {
    let callers = callers(settings, provider)?;
    let service = Service::new(settings)?;
    let unusable = || service.unusable("quota ledger");
    let endpoint = capabilities(provider).endpoint;
    if !check {
        files::queue_is_there(settings)?;
        let names: Vec<String> = callers.iter().map(|(name, _)| name.clone()).collect();
        let known = service.ledger(provider).await?.statuses(endpoint, &names).await.with_context(unusable)?;
        let reads = reads(settings, provider, &*service.ledger(provider).await?).await.with_context(unusable)?;
        return Ok(CredentialsReport::new(endpoint, callers, known).with_reads(reads));
    }
    let lookup = open_lookup(settings, provider)?;
    let credentials = open_credentials(settings, &service, provider).await?;
    let checks = credentials::check(&credentials, &*lookup).await.with_context(unusable)?;
    let known = credentials.statuses(endpoint).await.with_context(unusable)?;
    let reads = credentials.reads().await.with_context(unusable)?;
    let usage = credentials::usage(&credentials, &*lookup).await;
    Ok(CredentialsReport::new(endpoint, callers, known).with_checks(checks).with_reads(reads).with_usage(usage))
}

/// How the budget of reads is spent, where the provider charges for them.
async fn reads(
    settings: &Settings,
    provider: &Provider,
    ledger: &dyn Ledger,
) -> std::result::Result<Option<Reads>, LedgerError> {
    let Some(budget) = tuning::budget(settings, capabilities(provider)) else { return Ok(None) };
    Ok(Some(budget.reads(&ledger.counted(budget.per).await?)))
}

/// A starter of that provider's posts; the queue is that of its namespace.
#[must_use]
pub fn starter(
    provider: &Provider,
    queue: Arc<dyn Queue>,
    store: Option<Arc<dyn Store>>,
    ages: impl Into<Reloadable<AgeTable>>,
) -> Starter {
    Starter::new(queue, store, ages, Arc::new(date_of(provider)), parse(provider))
}

/// A service that is needed is out, or can never serve us: exit code 69.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Puts a file (or standard input, `-`) into the queue, with a progress bar on a terminal.
///
/// # Errors
/// A service is out, or it was stopped; the message says up to which line all is done.
pub async fn enqueue_file(settings: &Settings, file: &Path, with_store: bool, stop: &Stop) -> Result<Summary> {
    let provider = settings.provider()?;
    let opened = async {
        // A file that is not there leaves nothing behind, the embedded queue's file neither.
        let input = Input::open(file).await?;
        let queue = Service::new(settings)?.queue(&provider.namespace()).await?;
        let store = if with_store { Some(open_store(settings).await?) } else { None };
        Ok::<_, anyhow::Error>((input, queue, store))
    };
    let (input, queue, store) = tokio::select! {
        opened = opened => opened?,
        () = stop.draining() => bail!("enqueue was stopped before it read anything"),
    };
    let way = Way { source: input.name.clone(), ..Way::of("enqueue") };
    let starter = starter(&provider, queue, store, settings.tweet_age.clone()).by(way);
    let display = ProgressDisplay::new(&input.name, input.bytes);
    let mut told = 0;
    let refused = |line, reason: &str| {
        told += 1;
        if told <= REFUSALS_TOLD {
            display.say(&format!("line {line}: {reason}"));
        }
    };
    let summary = enqueue(
        input.source,
        &input.name,
        &starter,
        &EnqueueOptions { stop: stop.clone(), ..EnqueueOptions::default() },
        |progress| display.show(progress),
        refused,
    )
    .await;
    display.finish();
    Ok(summary?)
}

/// Writes a line to standard output; a reader that went away (`| head`) is no error.
///
/// # Errors
/// Standard output cannot be written for another reason.
pub fn write_line(line: &str) -> Result<()> {
    use std::io::Write;
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes what a command found out: one JSON object, or the text for people.
///
/// # Errors
/// As [`write_line`].
pub fn write_answer(json: bool, answer: &impl Serialize, text: &str) -> Result<()> {
    if json { write_line(&serde_json::to_string(answer)?) } else { write_line(text.trim_end()) }
}
