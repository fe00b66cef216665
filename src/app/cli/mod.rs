//! The command line: one file per subcommand, and the exit codes.
//!
//! Each file has the arguments of its subcommand, the help texts, and a `run` that does the work. Shared code is here
//! and in `start.rs`.

mod accounts;
mod bad_usage;
mod check;
mod community;
mod completions;
mod credentials;
mod dead;
#[cfg(feature = "demo")]
mod demo;
mod enqueue;
mod export;
mod follow;
mod forget;
mod health;
mod language;
mod migrate;
mod new_file;
mod ops;
mod pause;
mod plan;
mod poll;
mod prune;
mod rebuild;
mod refresh;
mod refusals;
mod schedule;
#[cfg(feature = "demo")]
mod simulator;
mod start;
mod starter;
mod status;
mod updater;

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde::Serialize;

use self::bad_usage::BadUsage;
use self::start::{
    Listen, NeededServices, Options, Patience, PipelineChoice, RoleArguments, duration, warn_of_settings,
};
use crate::app::{self, Unavailable};
use crate::data::export::FormatError;
use crate::ops::report::plan::BadTweetsPerDay;
use collect::config::{BadConfig, BadConfigs};
use collect::ingest::{EnqueueError, StarterError};
use collect::pipelines::registry::Registry;
use engine::base::humanize::printable;
use engine::queue::QueueError;
use store::StoreError;

/// Exit codes of the process, from `sysexits.h` if possible.
pub mod exit {
    /// Another failure; the message explains it.
    pub const FAILED: u8 = 1;
    /// The configuration or the command line is invalid.
    pub const USAGE: u8 = 64;
    /// Some of the input was rejected; the rest is done.
    pub const INPUT: u8 = 65;
    /// A required service is down or unusable, or a checked credential does not work.
    pub const UNAVAILABLE: u8 = 69;
}

const NOT_ONE_LINE: &str = "must be a text of one line";

/// Accepts a text without control characters, because it is stored and shown again.
fn single_line(text: &str) -> Result<String, BadUsage> {
    let text = text.trim();
    if text.contains(char::is_control) { Err(BadUsage(NOT_ONE_LINE.to_owned())) } else { Ok(text.to_owned()) }
}

/// Fetches the counts and text of your stored posts again, each as often as its age requires, within your API quota.
#[derive(Debug, Parser)]
#[command(
    name = "twitter-updater",
    version,
    arg_required_else_help = true,
    after_help = "Start with:\n  twitter-updater demo\n\nSettings come from --config or from the environment: updater.buffer_ttl is TWITTER_UPDATER__UPDATER__BUFFER_TTL. `check` prints all of them.\nExit codes: 0 done; 1 another error, see the message; 64 the configuration or the command line is invalid; 65 some of the input was refused; 69 a service is down, or a credential does not work."
)]
pub struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

// In the order of the help.
#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "demo")]
    Demo(demo::Arguments),
    Enqueue(enqueue::Arguments),
    #[command(subcommand)]
    Accounts(follow::Command),
    #[command(subcommand)]
    Community(community::Command),
    #[command(subcommand)]
    Forget(forget::Command),
    Export(export::Arguments),
    /// Look up posts again and again, to keep them up to date. You may run any number of updaters, on several machines.
    #[command(after_help = updater::EXAMPLES)]
    Updater(RoleArguments),
    /// Accept posts (POST /tweets) and accounts (POST /accounts) over HTTP from an existing ingest. It answers 202 when
    /// store and queue have them.
    #[command(after_help = starter::EXAMPLES)]
    Starter(RoleArguments),
    /// Poll sources (searches, users, lists, home) for new posts, and put them into the queue.
    #[command(after_help = poll::EXAMPLES)]
    Poll(RoleArguments),
    /// Serve the page and the metrics of the whole queue: /metrics for Prometheus, /status as JSON. One process is enough.
    #[command(after_help = ops::EXAMPLES)]
    Ops(Listen),
    Health(health::Arguments),
    Status(status::Arguments),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Rebuild(rebuild::Arguments),
    Refresh(refresh::Arguments),
    Prune(prune::Arguments),
    Dead(dead::Arguments),
    Credentials(credentials::Arguments),
    Plan(plan::Arguments),
    Schedule(schedule::Arguments),
    #[command(subcommand)]
    Language(language::Command),
    Check(check::Arguments),
    Migrate(migrate::Arguments),
    #[cfg(feature = "demo")]
    Simulator(simulator::Arguments),
    Completions(completions::Arguments),
}

async fn run(Cli { options, command }: Cli) -> Result<u8> {
    match command {
        #[cfg(feature = "demo")]
        Command::Demo(demo) => demo.run(options).await,
        Command::Enqueue(enqueue) => enqueue.run(options).await,
        Command::Accounts(accounts) => accounts.run(options).await,
        Command::Community(community) => community.run(options).await,
        Command::Forget(forget) => forget.run(options).await,
        Command::Export(export) => export.run(options).await,
        Command::Updater(arguments) => updater::run(arguments, options).await,
        Command::Starter(arguments) => starter::run(arguments, options).await,
        Command::Poll(arguments) => poll::run(arguments, options).await,
        Command::Ops(listen) => ops::run(listen, options).await,
        Command::Health(health) => health.run().await,
        Command::Status(status) => status.run(options).await,
        Command::Pause(pause) => pause.run(options).await,
        Command::Resume(resume) => resume.run(options).await,
        Command::Rebuild(rebuild) => rebuild.run(options).await,
        Command::Refresh(refresh) => refresh.run(options).await,
        Command::Prune(prune) => prune.run(options).await,
        Command::Dead(dead) => dead.run(options).await,
        Command::Credentials(credentials) => credentials.run(options).await,
        Command::Plan(plan) => plan.run(options),
        Command::Schedule(schedule) => schedule.run(options).await,
        Command::Language(language) => language.run(),
        Command::Check(check) => check.run(options),
        Command::Migrate(migrate) => migrate.run(options).await,
        #[cfg(feature = "demo")]
        Command::Simulator(simulator) => simulator.run(options).await,
        Command::Completions(completions) => completions.run(),
    }
}

/// Parses the command line, runs the command, and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    main_with(Registry::default(), std::env::args_os())
}

/// Runs the command line `arguments` with these kinds of pipelines; the first argument is the program's name.
#[must_use]
pub fn main_with(registry: Registry, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let wrong = error.use_stderr();
            // Help and version go to standard output, everything else to standard error.
            let _ = error.print();
            return if wrong { ExitCode::from(exit::USAGE) } else { ExitCode::SUCCESS };
        }
    };
    cli.options.registry = registry;
    match run_in_runtime(cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => report_failure(&error),
    }
}

fn run_in_runtime(mut cli: Cli) -> Result<u8> {
    app::raise_open_files_limit();
    app::forbid_core_dumps();
    app::check_open_files_limit(None)?;
    // Before a second thread exists: a thread inherits the cores of its parent. The role reports errors of the
    // settings.
    if matches!(cli.command, Command::Updater(_))
        && let Ok((examined, _)) = cli.options.examine(&[])
        && let Ok(settings) = examined.into_valid()
    {
        app::pin_to_one_core(&settings);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(run(cli));
    // Not dropped: that would wait for a read of standard input that may never return (`tail -f | … enqueue`).
    runtime.shutdown_background();
    code
}

/// Prints one line on standard error (one per error in the configuration), and returns the exit code.
fn report_failure(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref() {
        Some(BadConfigs(all)) => all.iter().for_each(|wrong| eprint_message(&wrong.to_string())),
        None => eprint_message(&format!("{error:#}")),
    }
    ExitCode::from(exit_code(error))
}

fn exit_code(error: &anyhow::Error) -> u8 {
    let is_usage = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<BadUsage>()
            || cause.is::<BadConfig>()
            || cause.is::<BadConfigs>()
            || cause.is::<BadTweetsPerDay>()
            || cause.is::<FormatError>()
    };
    if error.chain().any(is_usage) {
        return exit::USAGE;
    }
    let service_out = error.chain().any(|cause| {
        cause.is::<QueueError>()
            || cause.is::<StoreError>()
            || cause.is::<StarterError>()
            || cause.is::<Unavailable>()
            || matches!(cause.downcast_ref(), Some(EnqueueError::HandOver { .. }))
    });
    if service_out { exit::UNAVAILABLE } else { exit::FAILED }
}

/// JSON answer of a command that may reject ids.
#[derive(Debug, Serialize)]
struct Answer<T: Serialize> {
    #[serde(flatten)]
    done: T,
    refusals: Vec<Refused>,
}

#[derive(Debug, Serialize)]
struct Refused {
    id: String,
    reason: String,
}

/// Returns each id once, in the given order.
fn distinct(ids: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    ids.iter().filter(|id| seen.insert(*id)).cloned().collect()
}

/// Prints each rejected id on standard error; with `json`, keeps it for the answer.
fn report_refused(json: bool, refusals: &mut Vec<Refused>) -> impl FnMut(&str, &str) {
    move |id, why| {
        eprint_message(&format!("{id}: {why}"));
        if json {
            refusals.push(Refused { id: id.to_owned(), reason: why.to_owned() });
        }
    }
}

/// Writes a line to standard output. A reader that stopped reading (`| head`) is no error.
fn write_line(line: &str) -> Result<()> {
    write_raw_line(&printable(line))
}

/// Writes a line to standard output with its control characters, for JSON.
fn write_raw_line(line: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(anyhow::Error::new(error)
            .context("the command is done, but its answer cannot be written to standard output")),
        _ => Ok(()),
    }
}

/// Writes the answer of a command: one JSON object, or the text for people.
fn write_answer(json: bool, answer: &impl Serialize, text: &str) -> Result<()> {
    if json { write_raw_line(&serde_json::to_string(answer)?) } else { write_line(text.trim_end()) }
}

/// Writes a line to standard error, after the program's name. A failure to write is ignored: the exit code says the
/// same.
fn eprint_message(line: &str) {
    eprint_line(&printable(&format!("twitter-updater: {line}")));
}

/// Writes a line to standard error, without the program's name.
fn eprint_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
