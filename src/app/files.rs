//! Checks of the SQLite files. A read-only command requires them, and a working role stops if one is deleted or
//! replaced.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Unavailable;
use collect::config::{QueueBackend, Settings, StoreBackend};
use engine::base::backend::sqlite::{FileFault, FileIdentity};

const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Checks that the file of the embedded queue exists: a read-only command creates none.
pub fn check_queue_file(settings: &Settings) -> Result<(), Unavailable> {
    match settings.queue.backend {
        QueueBackend::Embedded => check_file("queue.embedded.path", &settings.queue.embedded.path),
        QueueBackend::Redis => Ok(()),
    }
}

pub fn check_store_file(settings: &Settings) -> Result<(), Unavailable> {
    match settings.store.backend {
        StoreBackend::Sqlite => check_file("store.sqlite.path", &settings.store.sqlite.path),
        StoreBackend::Postgres => Ok(()),
    }
}

fn check_file(setting: &str, file: &Path) -> Result<(), Unavailable> {
    std::fs::metadata(file).map(drop).map_err(|error| {
        Unavailable(format!(
            "there is no file {} ({setting}): {error}; enqueue something first, or name your configuration with --config or \
             TWITTER_UPDATER_CONFIG",
            file.display()
        ))
    })
}

/// Waits until a SQLite file of queue or store is deleted or replaced, and returns the reason to stop. A file may be
/// created later.
pub async fn wait_for_missing_file(settings: &Settings) -> FileFault {
    let mut paths: Vec<&PathBuf> = Vec::new();
    if settings.queue.backend == QueueBackend::Embedded {
        paths.push(&settings.queue.embedded.path);
    }
    if settings.store.backend == StoreBackend::Sqlite {
        paths.push(&settings.store.sqlite.path);
    }
    let mut opened: Vec<Option<FileIdentity>> = vec![None; paths.len()];
    loop {
        for (path, opened) in paths.iter().zip(&mut opened) {
            match opened {
                None => *opened = FileIdentity::current(path).ok(),
                // A temporarily unreadable folder proves nothing.
                Some(file) => {
                    if let Err(missing @ FileFault::Gone(..)) = file.check_unchanged() {
                        return missing;
                    }
                }
            }
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}
