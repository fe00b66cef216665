//! The configured store.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use secrecy::ExposeSecret;

use super::check_store_file;
use collect::config::{Settings, StoreBackend, masked};
use store::export::ExportTables;
use store::{
    Communities, Database, Edges, FollowList, Forgetting, Graphs, Positions, PostgresStore, SqliteStore, Store,
    StoreError,
};

trait FullStore: Store + Positions + Edges + FollowList + Communities + Forgetting + ExportTables + Graphs {}

impl<T: Store + Positions + Edges + FollowList + Communities + Forgetting + ExportTables + Graphs> FullStore for T {}

/// Opens the store, and fails if its tables are not those of this version. The embedded one creates its tables
/// automatically; `twitter-updater migrate` creates those of PostgreSQL.
pub async fn open_store(settings: &Settings) -> Result<Database> {
    let database = connect_store(settings).await?;
    let store = &database.store;
    let ready = async {
        if settings.store.backend == StoreBackend::Sqlite {
            store.migrate().await?;
        }
        store.check().await?;
        database.forgetting.check_key().await
    };
    ready.await.with_context(|| unusable_store_message(settings))?;
    Ok(database)
}

/// Opens the store for a command that reads whole tables: statements have no time limit.
pub async fn open_store_without_timeout(settings: &Settings) -> Result<Database> {
    let mut settings = settings.clone();
    settings.store.postgres.statement_timeout = Duration::ZERO;
    open_store(&settings).await
}

/// Connects to the store without a check of its tables.
pub async fn connect_store(settings: &Settings) -> Result<Database> {
    let whole = connect(settings, settings.store.postgres.statement_timeout, false).await?;
    Ok(Database {
        store: whole.clone(),
        positions: whole.clone(),
        edges: whole.clone(),
        followed: whole.clone(),
        communities: whole.clone(),
        forgetting: whole,
    })
}

/// Opens the store for exports, which may take long. Creates no file and no table.
pub async fn open_tables(settings: &Settings) -> Result<Arc<dyn ExportTables>> {
    let whole = open_read_only(settings).await?;
    Ok(whole)
}

/// Opens the store read-only for an export, and the list of forgotten people.
pub async fn open_tables_and_forgetting(settings: &Settings) -> Result<(Arc<dyn ExportTables>, Arc<dyn Forgetting>)> {
    let whole = open_read_only(settings).await?;
    Ok((whole.clone(), whole))
}

/// Opens the store read-only. Both results are the same store.
pub async fn open_graphs(settings: &Settings) -> Result<(Arc<dyn Graphs>, Arc<dyn Store>)> {
    let whole = open_read_only(settings).await?;
    Ok((whole.clone(), whole))
}

async fn open_read_only(settings: &Settings) -> Result<Arc<dyn FullStore>> {
    check_store_file(settings).with_context(|| unusable_store_message(settings))?;
    let whole = connect(settings, Duration::ZERO, true).await?;
    whole.check().await.with_context(|| unusable_store_message(settings))?;
    Ok(whole)
}

/// `statement_timeout` limits a statement of PostgreSQL; zero means no limit.
async fn connect(settings: &Settings, statement_timeout: Duration, reads_only: bool) -> Result<Arc<dyn FullStore>> {
    let key_file = settings.forget.key_file.as_os_str();
    let connected: Result<Arc<dyn FullStore>, StoreError> = match settings.store.backend {
        StoreBackend::Postgres => {
            let postgres = &settings.store.postgres;
            let store = PostgresStore::connect(&postgres.url, postgres.connections, statement_timeout).await;
            store.map(|store| {
                Arc::new(if key_file.is_empty() { store } else { store.with_key_file(&settings.forget.key_file) }) as _
            })
        }
        StoreBackend::Sqlite => {
            let file = &settings.store.sqlite;
            let (path, patience) = (&file.path, file.busy_timeout);
            let store = match reads_only {
                true => SqliteStore::open_to_read(path, patience).await,
                false => SqliteStore::open(path, patience).await,
            };
            store.map(|store| {
                Arc::new(if key_file.is_empty() { store } else { store.with_key_file(&settings.forget.key_file) }) as _
            })
        }
    };
    connected.with_context(|| unusable_store_message(settings))
}

/// Connects to the store for a read-only command: creates no file and no table. A missing file is an error.
pub async fn connect_existing_store(settings: &Settings) -> Result<Database> {
    check_store_file(settings).with_context(|| unusable_store_message(settings))?;
    connect_store(settings).await
}

fn unusable_store_message(settings: &Settings) -> String {
    format!("the store cannot be used ({})", store_address(settings))
}

/// Address of the store with the name of its setting, without secrets.
#[must_use]
pub fn store_address(settings: &Settings) -> String {
    let (setting, is) = match settings.store.backend {
        StoreBackend::Postgres => ("store.postgres.url", masked(settings.store.postgres.url.expose_secret())),
        StoreBackend::Sqlite => ("store.sqlite.path", settings.store.sqlite.path.display().to_string()),
    };
    format!("{setting} is {is}")
}
