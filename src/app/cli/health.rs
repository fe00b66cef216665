//! `health`: asks a running role if it can work.

use anyhow::Result;

use crate::app::Unavailable;
use crate::ops;

/// Check whether a role can work, for a container's health check. Exits with 69 if it cannot.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  twitter-updater health --url http://127.0.0.1:8082/live")]
pub(super) struct Arguments {
    /// Address to request; any success status means healthy.
    #[arg(long, default_value = "http://127.0.0.1:8080/ready")]
    url: String,
}

impl Arguments {
    /// Reads no settings: it runs every few seconds, beside a process that has read them.
    pub async fn run(self) -> Result<u8> {
        match ops::probe(&self.url).await {
            Ok(()) => Ok(0),
            Err(why) => Err(Unavailable(why.to_string()).into()),
        }
    }
}
