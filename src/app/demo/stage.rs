//! The base of every demo: its options, its files, and its page.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::app::{self, SharedServices};
use crate::ops::{Server, Site};
use collect::config::{QueueBackend, Settings, StoreBackend};
use collect::pipelines::kind::RegisteredPipeline;
use engine::base::reload::Reloadable;
use engine::base::shutdown::Stop;
use engine::health::Health;
use engine::queue::Queue;

const REMEDY: &str = "--ops 127.0.0.1:0 (any free port), or go without the page: --ops off";

#[derive(Debug)]
pub struct DemoOptions {
    /// Duration of the demo; `None` means until a stop.
    pub run_for: Option<Duration>,
    pub tweets: u32,
    pub dir: Option<PathBuf>,
    /// Address of the page; port 0 selects a free port.
    pub ops: Option<SocketAddr>,
    /// True if the demo also collects the posts' accounts, which change, vanish and come back.
    pub accounts: bool,
}

/// Creates the folder of queue and store. A temporary one is removed when the returned value is dropped.
pub(super) fn create_files(settings: &mut Settings, dir: Option<&std::path::Path>) -> Result<tempfile::TempDir> {
    let private = Permissions::from_mode(0o700);
    let temporary =
        tempfile::Builder::new().permissions(private).tempdir().context("a temporary folder cannot be created")?;
    let dir = dir.unwrap_or(temporary.path());
    std::fs::create_dir_all(dir).with_context(|| format!("{} cannot be created", dir.display()))?;
    let file = dir.join("demo.db");
    settings.queue.backend = QueueBackend::Embedded;
    settings.store.backend = StoreBackend::Sqlite;
    settings.queue.embedded.path.clone_from(&file);
    settings.store.sqlite.path = file;
    Ok(temporary)
}

/// Listens for the page at `ops`; `None` if the demo has no page.
pub(super) async fn bind_page(ops: Option<SocketAddr>) -> Result<Option<Server>> {
    Ok(match ops {
        Some(addr) => Some(Server::bind(addr).await.map_err(|error| error.with_remedy(REMEDY))?),
        None => None,
    })
}

pub(super) async fn open_page(
    settings: &Settings,
    shared: &SharedServices,
    pipelines: &[(&RegisteredPipeline, &Arc<dyn Queue>)],
    stop: &Stop,
) -> Result<Arc<Site>> {
    let mut shown = Vec::new();
    for (pipeline, queue) in pipelines {
        // Separate health: reads by the page must not make the workers appear healthy.
        let health = Arc::new(Health::new(Duration::MAX, stop.clone()));
        let terms = Reloadable::new(app::figure_settings(settings, pipeline));
        let queue = Arc::clone(queue);
        let whole = app::open_whole_queue(settings, &shared.service, pipeline, queue, terms, health).await?;
        shown.push(((*pipeline).clone(), Arc::new(whole)));
    }
    app::open_site(settings, &shared.service, &shown, stop).await
}
