//! What every demo stands on: its options, its files, and its page.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::app::{self, Shared};
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::config::{QueueBackend, Settings, StoreBackend};
use crate::engine::health::Health;
use crate::engine::queue::Queue;
use crate::ops::{Server, Site};
use crate::pipelines::kind::Registered;

/// The remedy for an address in use.
const REMEDY: &str = "--ops 127.0.0.1:0 (any free port), or go without the page: --ops off";

/// The options of the command line.
#[derive(Debug)]
pub struct DemoOptions {
    /// End after this long.
    pub run_for: Option<Duration>,
    /// Tweets to begin with.
    pub tweets: u32,
    /// The folder of the file.
    pub dir: Option<PathBuf>,
    /// The address of the page; port 0 takes a free port.
    pub ops: Option<SocketAddr>,
    /// True: it also collects the accounts of the posts, which change, vanish and come back.
    pub accounts: bool,
}

/// A folder for the files of queue and store, and its settings; a temporary one ends with what is returned.
///
/// # Errors
/// It cannot be made.
pub(super) fn files(settings: &mut Settings, dir: Option<&std::path::Path>) -> Result<tempfile::TempDir> {
    let private = Permissions::from_mode(0o700);
    let temporary = tempfile::Builder::new().permissions(private).tempdir().context("no temporary folder")?;
    let dir = dir.unwrap_or(temporary.path());
    std::fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    let file = dir.join("demo.db");
    settings.queue.backend = QueueBackend::Embedded;
    settings.store.backend = StoreBackend::Sqlite;
    settings.queue.embedded.path.clone_from(&file);
    settings.store.sqlite.path = file;
    Ok(temporary)
}

/// Listens for the page, where there is to be one.
///
/// # Errors
/// Its address is taken.
pub(super) async fn listen(ops: Option<SocketAddr>) -> Result<Option<Server>> {
    Ok(match ops {
        Some(addr) => Some(Server::bind(addr).await.map_err(|error| error.remedied_by(REMEDY))?),
        None => None,
    })
}

/// The page that `ops` serves.
pub(super) async fn site(
    settings: &Settings,
    shared: &Shared,
    pipelines: &[(&Registered, &Arc<dyn Queue>)],
    stop: &Stop,
) -> Result<Arc<Site>> {
    let mut shown = Vec::new();
    for (pipeline, queue) in pipelines {
        // A health of its own: what the page reads must not tell the workers that all is well.
        let health = Arc::new(Health::new(Duration::MAX, stop.clone()));
        let terms = Reloadable::new(app::terms(settings, pipeline));
        let queue = Arc::clone(queue);
        let whole = app::whole_queue(settings, &shared.service, pipeline, queue, terms, health).await?;
        shown.push(((*pipeline).clone(), Arc::new(whole)));
    }
    app::open_site(settings, &shared.service, &shown, stop).await
}
