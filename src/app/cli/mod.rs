//! The command line: one file per subcommand, and the exit codes.
//!
//! Each file holds the arguments of its subcommand, the help texts, and a `run` that does the work. Code shared by
//! several subcommands is here and in `start.rs`, such as the argument of the roles (`Listen`).

mod accounts;
mod check;
mod community;
mod completions;
mod credentials;
mod dead;
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

use self::start::{Listen, Needed, Options, duration, warn_of_settings};
use crate::app::{self, Unavailable};
use crate::base::humanize::printable;
use crate::config::{BadConfig, BadConfigs};
use crate::engine::queue::QueueError;
use crate::ingest::{EnqueueError, StarterError};
use crate::ops::export::NoSuchFormat;
use crate::ops::report::plan::BadTweetsPerDay;
use crate::pipelines::registry::Registry;
use crate::store::StoreError;

/// Exit codes of the process, those of `sysexits.h` where it has one that fits.
pub mod exit {
    /// Another failure; the message says which.
    pub const FAILED: u8 = 1;
    /// The configuration or the command line is invalid.
    pub const USAGE: u8 = 64;
    /// Some of the input was rejected; the rest is done.
    pub const INPUT: u8 = 65;
    /// A required service is down or unusable, or a checked credential does not work.
    pub const UNAVAILABLE: u8 = 69;
}

/// The command line asks for what there is not: exit code 64.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct BadUsage(String);

impl BadUsage {
    fn because<T>(why: impl Into<String>) -> Result<T> {
        Err(Self(why.into()).into())
    }
}

const NOT_ONE_LINE: &str = "must be a text of one line";

/// A text that is kept and shown again, so it has no control characters.
fn of_one_line(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.contains(char::is_control) { Err(NOT_ONE_LINE.to_owned()) } else { Ok(text.to_owned()) }
}

/// Re-fetches the counts and text of the posts you store, each as often as its age deserves, within your API quota.
#[derive(Debug, Parser)]
#[command(
    name = "twitter-updater",
    version,
    arg_required_else_help = true,
    after_help = "Begin with:\n  twitter-updater demo\n\nSettings come from --config or from the environment: updater.buffer_ttl is TWITTER_UPDATER__UPDATER__BUFFER_TTL. `check` prints all of them.\nExit codes: 0 done; 1 another error, see the message; 64 the configuration or the command line is invalid; 65 some of the input was refused; 69 a service is down, or a credential does not work."
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
    Demo(demo::Arguments),
    Enqueue(enqueue::Arguments),
    #[command(subcommand)]
    Accounts(follow::Command),
    #[command(subcommand)]
    Community(community::Command),
    #[command(subcommand)]
    Forget(forget::Command),
    Export(export::Arguments),
    /// Keep posts fresh. Run as many updaters as you like, on any number of machines.
    #[command(after_help = updater::EXAMPLES)]
    Updater(Listen),
    /// Accept posts (POST /tweets) and accounts (POST /accounts) over HTTP from an existing ingest; the answer is 202
    /// when store and queue have them.
    #[command(after_help = starter::EXAMPLES)]
    Starter(Listen),
    /// Poll timelines for new posts and put them into the queue: searches, users, lists, home.
    #[command(after_help = poll::EXAMPLES)]
    Poll(Listen),
    /// Serve the page and the metrics of the whole queue: /metrics for Prometheus, /status as JSON. One is enough.
    #[command(after_help = ops::EXAMPLES)]
    Ops(Listen),
    Health(health::Arguments),
    Status(status::Arguments),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Rebuild(rebuild::Arguments),
    Refresh(refresh::Arguments),
    Prune(prune::Arguments),
    #[command(subcommand)]
    Dead(dead::Command),
    Credentials(credentials::Arguments),
    Plan(plan::Arguments),
    #[command(subcommand)]
    Schedule(schedule::Command),
    #[command(subcommand)]
    Language(language::Command),
    Check(check::Arguments),
    Migrate(migrate::Arguments),
    Simulator(simulator::Arguments),
    Completions(completions::Arguments),
}

async fn run(Cli { options, command }: Cli) -> Result<u8> {
    if options.names_pipeline() && !command.takes_pipeline() {
        return BadUsage::because(match command {
            Command::Status(_) => "status takes no --pipeline: it prints all pipelines; --provider selects a network",
            _ => {
                "this command takes no --pipeline: credentials, dead, enqueue, export, pause, prune, rebuild, refresh, resume and \
                 schedule do"
            }
        });
    }
    match command {
        Command::Demo(demo) => demo.run(options).await,
        Command::Enqueue(enqueue) => enqueue.run(options).await,
        Command::Accounts(accounts) => accounts.run(options).await,
        Command::Community(community) => community.run(options).await,
        Command::Forget(forget) => forget.run(options).await,
        Command::Export(export) => export.run(options).await,
        Command::Updater(listen) => updater::run(listen, options).await,
        Command::Starter(listen) => starter::run(listen, options).await,
        Command::Poll(listen) => poll::run(listen, options).await,
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
        Command::Simulator(simulator) => simulator.run(options).await,
        Command::Completions(completions) => completions.run(),
    }
}

impl Command {
    /// Returns true if it works on one pipeline that can be named.
    fn takes_pipeline(&self) -> bool {
        matches!(
            self,
            Self::Credentials(_)
                | Self::Dead(_)
                | Self::Enqueue(_)
                | Self::Export(_)
                | Self::Pause(_)
                | Self::Prune(_)
                | Self::Rebuild(_)
                | Self::Refresh(_)
                | Self::Resume(_)
                | Self::Schedule(_)
        )
    }
}

/// Parses the command line, runs the command, and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    main_with(Registry::default(), std::env::args_os())
}

/// The same with these kinds of pipelines; the first argument is the program's name.
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
    match run_to_the_end(cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => failed(&error),
    }
}

fn run_to_the_end(mut cli: Cli) -> Result<u8> {
    app::raise_open_files_limit();
    app::forbid_core_dumps();
    app::enough_files_may_be_open(None)?;
    // Before a second thread exists: a thread inherits the cores of its parent. The role reports errors of the
    // settings.
    if matches!(cli.command, Command::Updater(_))
        && let Ok((examined, _)) = cli.options.examine(&[])
        && let Ok(settings) = examined.sound()
    {
        app::keep_to_one_core(&settings);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(run(cli));
    // Not dropped: that would wait for a read of standard input that may never return (`tail -f | … enqueue`).
    runtime.shutdown_background();
    code
}

/// Prints one line on standard error (one per error in the configuration); returns the exit code for that kind of
/// failure.
fn failed(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref() {
        Some(BadConfigs(all)) => all.iter().for_each(|wrong| eprint_message(&wrong.to_string())),
        None => eprint_message(&format!("{error:#}")),
    }
    ExitCode::from(code_of(error))
}

fn code_of(error: &anyhow::Error) -> u8 {
    let is_usage = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<BadUsage>()
            || cause.is::<BadConfig>()
            || cause.is::<BadConfigs>()
            || cause.is::<BadTweetsPerDay>()
            || cause.is::<NoSuchFormat>()
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

/// The answer as JSON of a command that may reject ids.
#[derive(Debug, Serialize)]
struct Answer<T: Serialize> {
    #[serde(flatten)]
    done: T,
    refusals: Vec<Refused>,
}

/// An id that was rejected, and the reason.
#[derive(Debug, Serialize)]
struct Refused {
    id: String,
    reason: String,
}

/// Each of these ids once, in their order.
fn distinct(ids: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    ids.iter().filter(|id| seen.insert(*id)).cloned().collect()
}

/// Prints each rejected id on standard error; with `json`, keeps it for the answer.
fn note_refused(json: bool, refusals: &mut Vec<Refused>) -> impl FnMut(&str, &str) {
    move |id, why| {
        eprint_message(&format!("{id}: {why}"));
        if json {
            refusals.push(Refused { id: id.to_owned(), reason: why.to_owned() });
        }
    }
}

/// Writes a line to standard output. A reader that stopped reading (`| head`) is no error.
///
/// # Errors
/// Writing to standard output fails for another reason.
fn write_line(line: &str) -> Result<()> {
    write_line_as_it_is(&printable(line))
}

/// The same of JSON, which keeps every character.
///
/// # Errors
/// As [`write_line`].
fn write_line_as_it_is(line: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error)
                .context("the command did its work, but standard output does not take its answer"))
        }
        _ => Ok(()),
    }
}

/// Writes the answer of a command: one JSON object, or the text for people.
///
/// # Errors
/// As [`write_line`].
fn write_answer(json: bool, answer: &impl Serialize, text: &str) -> Result<()> {
    if json { write_line_as_it_is(&serde_json::to_string(answer)?) } else { write_line(text.trim_end()) }
}

/// Writes a line to standard error. A reader that stopped reading is no error: the exit code tells the same.
fn eprint_message(line: &str) {
    eprint_line(&printable(&format!("twitter-updater: {line}")));
}

/// The same without the program's name.
fn eprint_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
