//! Checks of the SQLite files. A read-only command requires them, and a working role stops if one is deleted or
//! replaced.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Unavailable;
use crate::base::backend::sqlite::{Missing, Opened};
use crate::config::{QueueBackend, Settings, StoreBackend};

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Checks that the file of the embedded queue exists: a read-only command creates none.
pub fn queue_is_there(settings: &Settings) -> Result<(), Unavailable> {
    match settings.queue.backend {
        QueueBackend::Embedded => is_there("queue.embedded.path", &settings.queue.embedded.path),
        QueueBackend::Redis => Ok(()),
    }
}

pub fn store_is_there(settings: &Settings) -> Result<(), Unavailable> {
    match settings.store.backend {
        StoreBackend::Sqlite => is_there("store.sqlite.path", &settings.store.sqlite.path),
        StoreBackend::Postgres => Ok(()),
    }
}

fn is_there(setting: &str, file: &Path) -> Result<(), Unavailable> {
    std::fs::metadata(file).map(drop).map_err(|error| {
        Unavailable(format!(
            "there is no file {} ({setting}): {error}; nothing was put in yet, or the configuration is another: name it \
             with --config or TWITTER_UPDATER_CONFIG",
            file.display()
        ))
    })
}

/// Waits until a SQLite file of queue or store is deleted or replaced, and returns the reason to stop. Also waits for a
/// file that does not exist yet.
pub async fn file_is_missing(settings: &Settings) -> Missing {
    let mut paths: Vec<&PathBuf> = Vec::new();
    if settings.queue.backend == QueueBackend::Embedded {
        paths.push(&settings.queue.embedded.path);
    }
    if settings.store.backend == StoreBackend::Sqlite {
        paths.push(&settings.store.sqlite.path);
    }
    let mut opened: Vec<Option<Opened>> = vec![None; paths.len()];
    loop {
        for (path, opened) in paths.iter().zip(&mut opened) {
            match opened {
                None => *opened = Opened::now(path).ok(),
                // A temporarily unreadable folder proves nothing.
                Some(file) => {
                    if let Err(missing @ Missing::Gone(..)) = file.is_there() {
                        return missing;
                    }
                }
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
