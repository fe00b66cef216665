//! SIGQUIT: what each task of the process is doing.

use std::io::Write;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use crate::base::task;

/// From here on SIGQUIT does not end the process: it prints a line for each task on standard error.
///
/// # Errors
/// The signal's handler cannot be installed.
pub fn print_tasks_on_quit() -> Result<()> {
    let mut quits = signal(SignalKind::quit())?;
    tokio::spawn(async move {
        while quits.recv().await.is_some() {
            let doings = task::doings();
            let mut text = format!("SIGQUIT: {} tasks\n", doings.len());
            doings.iter().for_each(|doing| text.extend([doing.as_str(), "\n"]));
            // In one piece. Nobody may be reading.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    });
    Ok(())
}
