//! `migrate`: creates or updates the store's tables.

use anyhow::{Context, Result, bail};

use super::{Needed, Options, write_line};
use crate::app;
use crate::config::Settings;

/// Create or update the store's tables.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  twitter-updater migrate --config updater.toml\n\nA second time it changes nothing."
)]
pub(super) struct Arguments {}

impl Arguments {
    /// When it is stopped, each migration is either done or undone.
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        start.stop_on_signals()?;
        start.wait_for(Needed::Database).await?;
        match start.stop.token().run_until_cancelled(migrate(&start.settings)).await {
            Some(migrated) => migrated?,
            None => bail!("migrate was stopped: run it again, it goes on where it was"),
        }
        write_line("the store's tables are up to date")?;
        Ok(0)
    }
}

async fn migrate(settings: &Settings) -> Result<()> {
    let store = app::connect_store(settings).await?.store;
    store.migrate().await.context("the store's tables cannot be created")?;
    app::fill_details(&*store).await.context("columns of stored rows cannot be filled; run it again")
}
