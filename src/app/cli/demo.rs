//! `demo`: the whole system in one process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::{BadUsage, Options, duration, eprint_message, exit, write_answer, write_line};
use crate::app;
use crate::app::demo::{self, DemoOptions};
use collect::config::{COMMUNITY_DEMO, DEMO};

/// Run everything in one process, with nothing installed: simulated API, starter, updater and the page of ops.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater demo\n  twitter-updater demo --provider mastodon\n  twitter-updater demo --ops 127.0.0.1:9000\n  twitter-updater demo --for 20s --tweets 5000 --ops off --json\n  twitter-updater demo --accounts\n  twitter-updater demo --community --for 4m\n\nThe first line on standard output is the address of the page; with --json, it is on standard error."
)]
pub(super) struct Arguments {
    /// Stop after this time; the default is to run until Ctrl-C.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    run_for: Option<Duration>,
    /// Number of posts at the start; the same number arrives every 17 minutes.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tweets: u32,
    /// Folder for the files of queue and store; the default is a temporary one.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Serve the page at this address; port 0 takes a free port, `off` serves no page.
    #[arg(long, value_name = "ADDR|off", default_value = "127.0.0.1:8080", value_parser = page)]
    ops: Page,
    /// Also collect the authors of the posts: simulated accounts that change, vanish and come back. At the end, the demo
    /// compares the stored data with the simulator's script.
    #[arg(long)]
    accounts: bool,
    /// Find a community instead: start from 20 accounts, and find the writers of European Portuguese among 20,000
    /// simulated accounts. A simulated day takes four minutes. At the end, the demo compares the members with the planted
    /// group.
    #[arg(long, conflicts_with_all = ["accounts", "tweets"])]
    community: bool,
    /// Print the summary as one JSON object, and nothing else on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy)]
struct Page(Option<SocketAddr>);

fn page(text: &str) -> Result<Page, BadUsage> {
    if text == "off" {
        return Ok(Page(None));
    }
    text.parse().map(|addr| Page(Some(addr))).map_err(|_| BadUsage("write it like 127.0.0.1:8080, or off".to_owned()))
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let Self { run_for, tweets, dir, ops: Page(ops), accounts, community, json } = self;
        let start = options.start(if community { &[DEMO, COMMUNITY_DEMO] } else { &[DEMO] })?;
        start.stop_on_signals()?;
        app::print_tasks_on_quit()?;
        // With --json, standard output holds one JSON object and nothing else.
        let announce = |line: &str| {
            if !json {
                return write_line(line);
            }
            eprint_message(line);
            Ok(())
        };
        let options = DemoOptions { run_for, tweets, dir, ops, accounts };
        if community {
            let summary = demo::run_community(start.settings, options, &start.registry, announce, start.stop).await?;
            write_answer(json, &summary, &summary.to_string())?;
            return Ok(0);
        }
        let summary = demo::run(start.settings, options, announce, start.stop).await?;
        write_answer(json, &summary, &summary.to_string())?;
        Ok(if summary.is_consistent() { 0 } else { exit::FAILED })
    }
}
