//! SIGQUIT: prints the current step of each task of the process.

use std::io::Write;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use engine::base::task;

/// Makes SIGQUIT print a line for each task on standard error, instead of ending the process.
pub fn print_tasks_on_quit() -> Result<()> {
    let mut quits = signal(SignalKind::quit())?;
    tokio::spawn(async move {
        while quits.recv().await.is_some() {
            let doings = task::list_steps();
            let mut text = format!("SIGQUIT: {} tasks\n", doings.len());
            doings.iter().for_each(|doing| text.extend([doing.as_str(), "\n"]));
            // In one write. Errors do not matter: standard error may have no reader.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    });
    Ok(())
}
