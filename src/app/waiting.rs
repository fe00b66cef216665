//! Waiting for services that are not there yet: at the first start of a whole system, or of a machine.

use std::time::Duration;

use anyhow::Result;

use super::{Service, connect_store, open_store};
use crate::base::clock::Stopwatch;
use crate::base::shutdown::Stop;
use crate::config::{BadConfig, Settings};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The services that a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// The database.
    Database,
    /// The queues, and the store with its tables.
    Everything,
}

/// Waits until it is there, so long at the most. Asked to stop, it waits no longer.
///
/// # Errors
/// A service is still missing after that time, or the settings are wrong: waiting does not mend those.
pub async fn wait_for_services(settings: &Settings, needed: Needed, patience: Duration, stop: &Stop) -> Result<()> {
    let watch = Stopwatch::start();
    let mut said = String::new();
    loop {
        let looked = tokio::select! {
            looked = look(settings, needed) => looked,
            () = stop.draining() => return Ok(()),
        };
        let Err(error) = looked else { return Ok(()) };
        let hopeless = error.chain().any(|cause| cause.is::<BadConfig>());
        if hopeless || watch.elapsed() + LOOK_EVERY > patience {
            return Err(error);
        }
        let why = format!("{error:#}");
        if why != said {
            tracing::info!(why, patience_s = patience.as_secs(), "waits for a service");
            said = why;
        }
        stop.sleep(LOOK_EVERY).await;
    }
}

async fn look(settings: &Settings, needed: Needed) -> Result<()> {
    if needed == Needed::Database {
        return connect_store(settings).await.map(drop);
    }
    Service::new(settings)?.queues(&settings.providers()?).await?;
    open_store(settings).await.map(drop)
}
