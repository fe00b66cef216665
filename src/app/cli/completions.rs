//! `completions`: scripts that complete commands and options in a shell.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, write_line};

/// Print a script that completes commands and options in a shell.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater completions bash > /etc/bash_completion.d/twitter-updater\n  source <(twitter-updater completions zsh)"
)]
pub(super) struct Arguments {
    /// Shell that runs the script.
    shell: Shell,
}

impl Arguments {
    /// Reads no settings, since a shell is often set up before them.
    pub fn run(self) -> Result<u8> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "twitter-updater", &mut script);
        write_line(String::from_utf8_lossy(&script).trim_end())?;
        Ok(0)
    }
}
