//! The only wiring: settings → backends → roles.

mod follow;
mod logging;
mod poll;
mod roles;
mod service;
mod tuning;
mod updater;
mod upkeep;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use secrecy::ExposeSecret;
use serde::Serialize;

pub use self::follow::{Follower, InForce, follow};
pub use self::logging::{LogLevel, start_logging};
pub use self::poll::run_poll;
pub use self::roles::{Watched, open_page, run_ops, run_starter, run_updater, terms};
pub use self::service::Service;
pub use self::updater::Updater;
pub use self::upkeep::{open_dead, open_rebuild, run_rebuild};
use crate::accounts::{self, Accounts};
use crate::config::{BEARER, BadConfig, Secrets, Settings, SimulatorSettings, StoreBackend, masked};
use crate::credential::{AppToken, Caller, Credential, CredentialKind, Credentials, UserKeys};
use crate::live::Live;
use crate::lookup::Lookup;
use crate::lookup::twitter_v1::{CAPABILITIES, TwitterV1, TwitterV1Options, parse_ingested};
use crate::queue::Queue;
use crate::shutdown::Stop;
use crate::simulator::{self, SimulatorOptions};
use crate::starter::{EnqueueOptions, Input, ProgressDisplay, Starter, Summary, enqueue, twitter_id_date};
use crate::status::Status;
use crate::store::{Positions, PostgresStore, SqliteStore, Store};
use crate::tweet_age::AgeTable;
use crate::updater::NAMESPACE;

/// The name of the credential that is none.
const ANONYMOUS: &str = "anonymous";
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

/// Creates or updates the store's tables.
///
/// # Errors
/// The store is not there.
pub async fn migrate(settings: &Settings) -> Result<()> {
    connect_store(settings).await?.0.migrate().await.context("the store's tables cannot be made")
}

/// The lookup of Twitter's v1.1 API.
///
/// # Errors
/// The settings make no sense.
pub fn open_lookup(settings: &Settings) -> Result<Arc<dyn Lookup>> {
    let lookup = TwitterV1::new(TwitterV1Options {
        base_url: settings.twitter.api.clone(),
        timeout: settings.twitter.timeout,
        connect_timeout: settings.twitter.connect_timeout,
        max_body_bytes: settings.twitter.max_body_bytes,
        ..TwitterV1Options::default()
    });
    Ok(Arc::new(lookup.map_err(|why| BadConfig(format!("twitter.api: {why}")))?))
}

/// The credentials that the settings name; the anonymous one where they name none.
///
/// # Errors
/// A secret is missing or unfit, or none is given for an API that needs one.
pub fn credentials(settings: &Settings) -> Result<Vec<Credential>> {
    let named = settings.credentials()?;
    if !named.is_empty() {
        let credential = |(name, secrets)| Credential { name, kind: kind(secrets) };
        return Ok(named.into_iter().map(credential).collect());
    }
    if is_twitter(&settings.twitter.api) {
        return Err(BadConfig(format!(
            "{} needs a credential: set TWITTER_UPDATER__TWITTER__BEARER_TOKEN or twitter.bearer_token_file, or \
             name one in [twitter.credentials.NAME]",
            settings.twitter.api
        ))
        .into());
    }
    Ok(vec![Credential { name: ANONYMOUS.to_owned(), kind: CredentialKind::Anonymous }])
}

/// What the secrets make.
fn kind(secrets: Secrets) -> CredentialKind {
    match secrets {
        Secrets::User { consumer_key, consumer_secret, token, token_secret } => {
            CredentialKind::User(UserKeys { consumer_key, consumer_secret, token, token_secret })
        }
        Secrets::App { consumer_key, consumer_secret } => {
            CredentialKind::App(AppToken::new(consumer_key, consumer_secret))
        }
        Secrets::Bearer(token) => CredentialKind::Bearer(token),
    }
}

/// The names of the credentials and as whom each calls, as [`credentials`] has them. No secret is read for
/// it; a bearer token that the environment alone gives is known by its name.
///
/// # Errors
/// A name or a kind cannot be.
pub fn callers(settings: &Settings) -> Result<Vec<(String, Caller)>> {
    let named = settings.callers()?;
    Ok(match named.is_empty() {
        false => named,
        true if is_twitter(&settings.twitter.api) => vec![(BEARER.to_owned(), Caller::AppOnly)],
        true => vec![(ANONYMOUS.to_owned(), Caller::Anonymous)],
    })
}

/// The credentials with the ledger they share with all other processes.
///
/// # Errors
/// No credential, or the ledger is not there.
pub async fn open_credentials(settings: &Settings, service: &Service) -> Result<Arc<Credentials>> {
    let credentials = credentials(settings)?;
    let ledger = service.ledger().await?;
    // A permit lives as long as the lease of the batch it was taken for.
    Ok(Arc::new(Credentials::new(credentials, ledger, settings.updater.pacing, settings.updater.lease)))
}

/// The queue, its quota and who is parked, at this moment. Needs the names of the credentials, and no
/// secret.
///
/// # Errors
/// The queue is not there.
pub async fn status(settings: &Settings) -> Result<Status> {
    let service = Service::new(settings)?;
    let stats = service.queue(NAMESPACE).await?.stats().await?;
    let names: Vec<String> = callers(settings)?.into_iter().map(|(name, _)| name).collect();
    let accounts = service.ledger().await?.accounts(CAPABILITIES.endpoint, &names).await?;
    Ok(Status::new(stats, accounts, CAPABILITIES))
}

/// What the ledger knows of each credential; with `check`, the API is asked about each first, which needs
/// their secrets.
///
/// # Errors
/// The ledger is not there, or a secret is missing.
pub async fn accounts(settings: &Settings, check: bool) -> Result<Accounts> {
    let callers = callers(settings)?;
    let service = Service::new(settings)?;
    let unusable = || service.unusable("quota ledger");
    if !check {
        let names: Vec<String> = callers.iter().map(|(name, _)| name.clone()).collect();
        let known = service.ledger().await?.accounts(CAPABILITIES.endpoint, &names).await.with_context(unusable)?;
        return Ok(Accounts::new(CAPABILITIES.endpoint, callers, known));
    }
    let lookup = open_lookup(settings)?;
    let credentials = open_credentials(settings, &service).await?;
    let checks = accounts::check(&credentials, &*lookup).await.with_context(unusable)?;
    let known = credentials.accounts(CAPABILITIES.endpoint).await.with_context(unusable)?;
    Ok(Accounts::new(CAPABILITIES.endpoint, callers, known).with_checks(checks))
}

/// Whether that is the API itself, which answers nobody without a credential.
fn is_twitter(api: &str) -> bool {
    let url = reqwest::Url::parse(api).ok();
    let host = url.as_ref().and_then(reqwest::Url::host_str).unwrap_or_default().trim_end_matches('.');
    ["twitter.com", "x.com"].iter().any(|domain| {
        host.strip_suffix(domain).is_some_and(|subdomain| subdomain.is_empty() || subdomain.ends_with('.'))
    })
}

/// A starter for `tweet:update`.
#[must_use]
pub fn starter(queue: Arc<dyn Queue>, store: Option<Arc<dyn Store>>, ages: impl Into<Live<AgeTable>>) -> Starter {
    Starter::new(queue, store, ages, Arc::new(twitter_id_date), parse_ingested)
}

/// A service that is needed is out, or can never serve us: exit code 69.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Puts a file (or standard input, `-`) into the queue, with a progress bar on a terminal.
///
/// # Errors
/// A service is out; the message says up to which line all is done.
pub async fn enqueue_file(settings: &Settings, file: &Path, with_store: bool) -> Result<Summary> {
    // A file that is not there leaves nothing behind, the embedded queue's file neither.
    let input = Input::open(file).await?;
    let queue = Service::new(settings)?.queue(NAMESPACE).await?;
    let store = if with_store { Some(open_store(settings).await?) } else { None };
    let starter = starter(queue, store, settings.tweet_age.clone());
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
        &EnqueueOptions::default(),
        |progress| display.show(progress),
        refused,
    )
    .await;
    display.finish();
    Ok(summary?)
}

/// The simulator's options in the settings.
#[must_use]
pub fn simulator_options(settings: &SimulatorSettings, replay: Option<PathBuf>) -> SimulatorOptions {
    SimulatorOptions {
        latency: settings.latency,
        jitter: settings.jitter,
        calls_per_window: settings.calls_per_window,
        app_calls_per_window: settings.app_calls_per_window,
        window: settings.window,
        missing_share: settings.missing_share,
        withheld_share: settings.withheld_share,
        retweet_share: settings.retweet_share,
        growth: settings.growth,
        seed: settings.seed,
        replay,
        ..SimulatorOptions::default()
    }
}

/// Runs the simulator until it is stopped.
///
/// # Errors
/// The address is taken, or there is nothing to replay.
pub async fn run_simulator(
    settings: &Settings,
    listen: SocketAddr,
    replay: Option<PathBuf>,
    stop: &Stop,
) -> Result<()> {
    let running = simulator::start(listen, simulator_options(&settings.simulator, replay)).await?;
    // The first line: what to put into twitter.api.
    write_line(&format!("simulated API at {}", running.base_url()))?;
    stop.draining().await;
    running.stop().await;
    Ok(())
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
