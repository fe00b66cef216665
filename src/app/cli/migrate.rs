//! `migrate`: creates or updates the store's tables.

use anyhow::{Context, Result, bail};

use super::{NeededServices, Options, Patience, write_line};
use crate::app;
use collect::config::Settings;

/// Create or update the store's tables.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  twitter-updater migrate --config updater.toml\n\nRunning it again changes nothing."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    patience: Patience,
}

impl Arguments {
    /// A stop leaves each migration either done or undone.
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.with_patience(self.patience).start(&[])?;
        start.stop_on_signals()?;
        start.wait_for(NeededServices::Database).await?;
        match start.stop.token().run_until_cancelled(migrate(&start.settings)).await {
            Some(migrated) => migrated?,
            None => bail!("migrate was stopped: run it again to continue"),
        }
        write_line("the store's tables are up to date")?;
        Ok(0)
    }
}

async fn migrate(settings: &Settings) -> Result<()> {
    let store = app::connect_store(settings).await?.store;
    store.migrate().await.context("the store's tables cannot be created")
}
