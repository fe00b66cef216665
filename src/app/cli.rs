//! The command line: a subcommand per role, and the exit codes.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use serde::Serialize;

use crate::app::demo::{self, DemoOptions};
use crate::app::{self, Follower, Needed, Unavailable};
use crate::base::shutdown::Stop;
use crate::config::{BadConfig, BadConfigs, DEMO, Examined, Files, Settings};
use crate::engine::queue::QueueError;
use crate::ingest::{EnqueueError, Living, Moment, Refreshed, StarterError, Which};
use crate::model::provider::Provider;
use crate::ops;
use crate::ops::dead::{Act, Tally};
use crate::ops::report::plan::{BadTweetsPerDay, Credentials, Plan, X_CALLS};
use crate::store::StoreError;

/// The environment's name for --config.
const CONFIG_VARIABLE: &str = "TWITTER_UPDATER_CONFIG";

/// What the process ends with, as in `sysexits.h` where it has a word for it.
pub mod exit {
    /// Something else went wrong; the message says what.
    pub const FAILED: u8 = 1;
    /// The configuration or the command line cannot be.
    pub const USAGE: u8 = 64;
    /// Some of the input was refused; the rest is done.
    pub const INPUT: u8 = 65;
    /// A service that is needed is out or unfit, or a credential that was checked does not work.
    pub const UNAVAILABLE: u8 = 69;
}

/// Keeps every tweet of a system fresh, by its age, within an API quota, and loses none.
#[derive(Debug, Parser)]
#[command(
    name = "twitter-updater",
    version,
    arg_required_else_help = true,
    after_help = "Begin with:\n  twitter-updater demo\n\nA setting comes from --config or from the environment: updater.buffer_ttl is TWITTER_UPDATER__UPDATER__BUFFER_TTL. `check` prints all of them.\nExit codes: 0 done; 1 the message says what went wrong; 64 the configuration or the command line cannot be; 65 some of the input was refused; 69 a service is out, or a credential does not work."
)]
pub struct Cli {
    /// A configuration file, or a folder of them: every *.toml in it, in the order of the names. It goes over
    /// the defaults, and the environment over both. Without it, the one that TWITTER_UPDATER_CONFIG names.
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Whose posts: twitter, x, mastodon:NAME or bluesky; over the setting providers.
    #[arg(long, global = true, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Wait so long for services that are not there yet, instead of ending with 69 at once: updater, starter, poll,
    /// rebuild and migrate.
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration)]
    wait: Option<Duration>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the whole job at work: simulated API, starter, updater and the ops page in one process, nothing needed.
    #[command(
        after_help = "Examples:\n  twitter-updater demo\n  twitter-updater demo --provider mastodon\n  twitter-updater demo --ops 127.0.0.1:9000\n  twitter-updater demo --for 20s --tweets 5000 --ops off --json\n\nThe first line on standard output says where the page is (with --json, on standard error)."
    )]
    Demo {
        /// End after this long; otherwise at Ctrl-C or when every tweet's life has ended.
        #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
        run_for: Option<Duration>,
        /// Tweets to keep fresh.
        #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        tweets: u32,
        /// Keep the queue's and the store's file in this folder; otherwise in a temporary one.
        #[arg(long, value_name = "FOLDER")]
        dir: Option<PathBuf>,
        /// Serve the page at this address; port 0 takes a free one, `off` goes without.
        #[arg(long, value_name = "ADDR|off", default_value = "127.0.0.1:8080", value_parser = page)]
        ops: Page,
        /// Print one summary object, and nothing else, on standard output.
        #[arg(long)]
        json: bool,
    },
    /// Put tweets into the queue: bare ids, one a line, or tweets as the API sends them.
    #[command(
        after_help = "Examples:\n  twitter-updater enqueue ids.txt\n  zcat tweets.ndjson.gz | twitter-updater enqueue -\n\nReads ids, objects on one line or over many, lists of them, and answers and stream lines of X API v2 (also of twarc2),\nwhose posts stand in data.\n\nExits with 65 when something was refused; the rest is scheduled all the same."
    )]
    Enqueue {
        /// The file; - for standard input.
        #[arg(default_value = "-")]
        file: PathBuf,
        /// Only schedule: do not record the tweets in the store first.
        #[arg(long)]
        no_store: bool,
        /// Print the summary as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Keep tweets fresh: any number of these may run, on any number of machines.
    #[command(
        after_help = "Examples:\n  twitter-updater updater --config updater.toml\n  twitter-updater updater --config /etc/twitter-updater --listen 0.0.0.0:8080\n\nStops at SIGTERM or SIGINT: finishes what is in flight, gives back the rest, exits with 0."
    )]
    Updater {
        /// Serve /live, /ready and /metrics at this address; over http.listen.
        #[arg(long, value_name = "ADDR")]
        listen: Option<SocketAddr>,
    },
    /// Take tweets over HTTP (POST /tweets), beside an existing ingest: answers 202 when store and queue have them.
    #[command(
        after_help = "Example:\n  twitter-updater starter --listen 127.0.0.1:8080\n  curl --json '[\"1460323737035677698\"]' http://127.0.0.1:8080/tweets\n\nGET /openapi.json describes it. Stops at SIGTERM or SIGINT: finishes what is in work, exits with 0."
    )]
    Starter {
        /// The address; over http.listen. Port 0 takes a free one.
        #[arg(long, value_name = "ADDR")]
        listen: Option<SocketAddr>,
    },
    /// Ask the API for what is new in timelines, and put it into the queue: searches, users, lists, home.
    #[command(
        after_help = "Example:\n  twitter-updater poll --config poll.toml\n\nThe sources are those of [poll.sources.NAME]. Any number of these may run. Stops at SIGTERM or SIGINT: finishes what is in flight, exits with 0."
    )]
    Poll {
        /// Serve /live, /ready and /metrics at this address; over http.listen.
        #[arg(long, value_name = "ADDR")]
        listen: Option<SocketAddr>,
    },
    /// Serve the page of the whole queue, and its figures: /metrics for Prometheus, /status as JSON. One is enough.
    #[command(
        after_help = "Example:\n  twitter-updater ops --listen 127.0.0.1:8082\n  curl http://127.0.0.1:8082/status\n\nThe page is at / there. Needs the queue, the store and the credentials' names, and no secret of theirs. Goes on while\nqueue or store are out."
    )]
    Ops {
        /// The address; over http.listen. Port 0 takes a free one.
        #[arg(long, value_name = "ADDR")]
        listen: Option<SocketAddr>,
    },
    /// Ask a role whether it can work: a container's health check. Exits with 69 when it cannot.
    #[command(after_help = "Example:\n  twitter-updater health --url http://127.0.0.1:8082/live")]
    Health {
        /// What to ask; any success will do.
        #[arg(long, default_value = "http://127.0.0.1:8080/ready")]
        url: String,
    },
    /// Print the queue at this moment: what is scheduled, due and late, whether the quota suffices, who works.
    #[command(
        after_help = "Examples:\n  twitter-updater status\n  twitter-updater status --json | jq .due\n  twitter-updater status --json | jq .sources\n\nOf several providers one after the other; --provider names one. Polled sources follow, where there are any.\nExits with 69 when no queue answers."
    )]
    Status {
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Put back from the store what the queue has lost: after a wipe, or now and then.
    #[command(
        after_help = "Examples:\n  twitter-updater rebuild\n  twitter-updater rebuild --every 10m --rate 1000\n\nMay run while updaters work, and twice. What is in the queue stays as it is; dead and ended tweets stay so."
    )]
    Rebuild {
        /// Again and again, with this pause; otherwise once.
        #[arg(long, value_name = "DURATION", value_parser = pause)]
        every: Option<Duration>,
        /// Tweets a second at the most, in place of rebuild.rate.
        #[arg(long, value_name = "IDS_PER_S", value_parser = clap::value_parser!(u32).range(1..))]
        rate: Option<u32>,
        /// Print what was done as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Make posts due at once: these ids, or all of a kind; after a spell of bad answers, say.
    #[command(
        after_help = "Examples:\n  twitter-updater refresh 1460323737035677698\n  twitter-updater refresh --state unavailable\n  twitter-updater refresh --since 2h\n  twitter-updater refresh --state unavailable --since 2026-01-31T08:00:00Z --json\n\nStore and queue agree about it. May run while updaters work, and twice. Exits with 65 when an id was refused."
    )]
    Refresh {
        /// The ids.
        #[arg(value_name = "ID", required_unless_present_any = ["state", "since"], conflicts_with_all = ["state", "since"])]
        ids: Vec<String>,
        /// All posts in this state.
        #[arg(long, value_name = "live|unavailable")]
        state: Option<Living>,
        /// All posts whose last answer was given at this time or later: 2h (ago), or 2026-01-31T08:00:00Z.
        #[arg(long, value_name = "TIME")]
        since: Option<Moment>,
        /// Spread the look-ups over the interval of each post, instead of making all of them due now.
        #[arg(long)]
        spread: bool,
        /// Print what was done as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Look after the dead: tweets that were set aside because their requests kept failing.
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Print what is left of each credential's quota, and which of them are parked and why.
    #[command(
        after_help = "Examples:\n  twitter-updater credentials\n  twitter-updater credentials --check\n  twitter-updater credentials --json | jq '.credentials[] | select(.parked_why)'\n\nWithout --check nobody is called and no secret is needed. With it, exits with 69 when one does not work."
    )]
    Credentials {
        /// Ask the API about each, which spends none of the lookup's quota: one that is refused is parked,
        /// one that works again is free again.
        #[arg(long)]
        check: bool,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Say how many credentials, and how much room, so many tweets a day need.
    #[command(
        after_help = "Examples:\n  twitter-updater plan --tweets-per-day 100000\n  twitter-updater plan --tweets-per-day 100000 --user-credentials 1 --app-credentials 2\n  twitter-updater plan --tweets-per-day 100000 --json | jq .app_credentials\n  twitter-updater plan --provider x --tweets-per-day 1000\n\nPlans for the settings in effect: tweet_age, updater.lookahead, updater.buffer_ttl, and of X what the reads cost. Connects to nothing."
    )]
    Plan {
        /// Tweets that come in each day.
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        tweets_per_day: f64,
        /// Say how many tweets a day so many users' tokens carry (900 calls per 15 minutes each).
        #[arg(long, value_name = "U", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        user_credentials: Option<u32>,
        /// The same for app-only tokens (300 calls per 15 minutes each); the two kinds add up.
        #[arg(long, value_name = "A", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        app_credentials: Option<u32>,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print the configuration in effect, without secrets; exits with 64 when it cannot be, and says everything that is wrong.
    #[command(
        after_help = "Examples:\n  twitter-updater check\n  twitter-updater check --config updater.toml --offline\n  twitter-updater check --config updater.toml | grep lookahead\n  twitter-updater check --json | jq .settings.updater\n\nConnects to nothing. The first line is the revision that workers show in `status`."
    )]
    Check {
        /// Go by the settings alone: no secret is asked for, and no file that a setting names.
        #[arg(long)]
        offline: bool,
        /// One JSON object: the revision and the settings.
        #[arg(long)]
        json: bool,
    },
    /// Create or update the store's tables.
    #[command(
        after_help = "Example:\n  twitter-updater migrate --config updater.toml\n\nA second time it changes nothing."
    )]
    Migrate,
    /// Serve a simulated Twitter API: put the address it prints into twitter.api.
    #[command(
        after_help = "Examples:\n  twitter-updater simulator\n  twitter-updater simulator --listen 127.0.0.1:8081 --replay recordings/"
    )]
    Simulator {
        /// The address; port 0 takes a free one.
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
        listen: SocketAddr,
        /// Serve the recorded tweets in this folder's JSON files, and no others.
        #[arg(long, value_name = "FOLDER")]
        replay: Option<PathBuf>,
    },
    /// Print a script that completes commands and options in a shell.
    #[command(
        after_help = "Examples:\n  twitter-updater completions bash > /etc/bash_completion.d/twitter-updater\n  source <(twitter-updater completions zsh)"
    )]
    Completions {
        /// Which.
        shell: Shell,
    },
}

#[derive(Debug, Subcommand)]
enum DeadCommand {
    /// List them, with the reasons.
    #[command(
        after_help = "Examples:\n  twitter-updater dead list\n  twitter-updater dead list --limit 1000 --json | jq '.dead[].reason'"
    )]
    List {
        /// This many at the most.
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Say where a tweet is, dead or not, and what the store has of it.
    #[command(
        after_help = "Examples:\n  twitter-updater dead show 1460323737035677698\n  twitter-updater dead show 1460323737035677698 --json | jq .stored.metrics"
    )]
    Show {
        /// Its id.
        id: String,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Bring them back to life, due now. Exits with 65 when an id was refused.
    #[command(
        after_help = "Examples:\n  twitter-updater dead retry 1460323737035677698\n  twitter-updater dead retry --all"
    )]
    Retry(Whom),
    /// End their life. Exits with 65 when an id was refused.
    #[command(
        after_help = "Examples:\n  twitter-updater dead drop 1460323737035677698\n  twitter-updater dead drop --all"
    )]
    Drop(Whom),
}

#[derive(Debug, clap::Args)]
struct Whom {
    /// Their ids.
    #[arg(value_name = "ID", required_unless_present = "all")]
    ids: Vec<String>,
    /// All who are dead now.
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Print what was done as one JSON object.
    #[arg(long)]
    json: bool,
}

/// What was made due, for a script.
#[derive(Debug, Serialize)]
struct MadeDue {
    #[serde(flatten)]
    done: Refreshed,
    refusals: Vec<Refused>,
}

/// What was done about the dead, for a script.
#[derive(Debug, Serialize)]
struct Acted {
    #[serde(flatten)]
    tally: Tally,
    refusals: Vec<Refused>,
}

/// An id that was refused, and why.
#[derive(Debug, Serialize)]
struct Refused {
    id: String,
    reason: String,
}

/// The configuration in effect, for a script.
#[derive(Debug, Serialize)]
struct Checked {
    config_revision: String,
    settings: Settings,
}

/// Where the demo's page is served, if at all.
#[derive(Debug, Clone, Copy)]
struct Page(Option<SocketAddr>);

fn page(text: &str) -> Result<Page, String> {
    if text == "off" {
        return Ok(Page(None));
    }
    text.parse().map(|addr| Page(Some(addr))).map_err(|_| "write it like 127.0.0.1:8080, or off".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 20s or 5m"))
}

/// A pause between two rounds: without one, the services would see nothing else.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = duration(text)?;
    if pause < Duration::from_secs(1) { Err("it is at least 1s".to_owned()) } else { Ok(pause) }
}

/// Parses the command line, does what it says, and answers the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let wrong = error.use_stderr();
            // Help and version go to standard output, everything else to standard error.
            let _ = error.print();
            return if wrong { ExitCode::from(exit::USAGE) } else { ExitCode::SUCCESS };
        }
    };
    if let Err(error) = app::enough_files_may_be_open(None) {
        return failed(&error);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let ended = runtime.block_on(run(cli));
    // Not dropped: that would wait for a read of standard input which may never return (`tail -f | … enqueue`).
    runtime.shutdown_background();
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => failed(&error),
    }
}

/// One line on standard error (for each thing that is wrong with the configuration one), and the code that says what
/// kind of failure it is.
fn failed(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref() {
        Some(BadConfigs(all)) => all.iter().for_each(|wrong| say(&wrong.to_string())),
        None => say(&format!("{error:#}")),
    }
    ExitCode::from(code_of(error))
}

fn code_of(error: &anyhow::Error) -> u8 {
    let service_out = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<QueueError>()
            || cause.is::<StoreError>()
            || cause.is::<StarterError>()
            || cause.is::<Unavailable>()
            || matches!(cause.downcast_ref(), Some(EnqueueError::HandOver { .. }))
    };
    let bad = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<BadConfig>() || cause.is::<BadConfigs>() || cause.is::<BadTweetsPerDay>()
    };
    if error.chain().any(bad) {
        exit::USAGE
    } else if error.chain().any(service_out) {
        exit::UNAVAILABLE
    } else {
        exit::FAILED
    }
}

async fn run(mut cli: Cli) -> Result<u8> {
    if let Command::Health { url } = &cli.command {
        // Every few seconds, beside a process that has read its settings already.
        return match ops::probe(url).await {
            Ok(()) => Ok(0),
            Err(why) => Err(Unavailable(why).into()),
        };
    }
    if let Command::Completions { shell } = &cli.command {
        // For whoever sets up a shell: the settings may be anything.
        let mut script = Vec::new();
        clap_complete::generate(*shell, &mut Cli::command(), "twitter-updater", &mut script);
        app::write_line(String::from_utf8_lossy(&script).trim_end())?;
        return Ok(0);
    }
    let layers: &[&'static str] = if matches!(cli.command, Command::Demo { .. }) { &[DEMO] } else { &[] };
    cli.config = configuration(cli.config)?;
    let files = Files::read(cli.config.as_deref())?;
    let examined = Settings::examine(layers, &files, cli.provider.as_deref());
    if let Command::Check { offline, json } = cli.command {
        return check(examined, offline, json);
    }
    let settings = examined.sound()?;
    app::enough_files_may_be_open(Some(&settings))?;
    let log = app::start_logging(&settings)?;
    if cli.command.reads_secrets() {
        warn_of_exposed(&settings);
    }
    let follower = || Follower::new(layers, cli.config, files, cli.provider, log);
    let stop = Stop::new();
    if cli.command.takes_its_time() {
        stop.on_signals(settings.updater.drain_deadline)?;
    }
    if let (Some(patience), Some(needed)) = (cli.wait, cli.command.needs()) {
        app::wait_for_services(&settings, needed, patience, &stop).await?;
    }
    match cli.command {
        Command::Demo { run_for, tweets, dir, ops: Page(ops), json } => {
            // Whoever parses JSON gets nothing else on standard output.
            let announce = |line: &str| {
                if !json {
                    return app::write_line(line);
                }
                say(line);
                Ok(())
            };
            let summary = demo::run(settings, DemoOptions { run_for, tweets, dir, ops }, announce, stop).await?;
            app::write_answer(json, &summary, &summary.to_string())?;
            Ok(if summary.lost == 0 && summary.doubled == 0 { 0 } else { exit::FAILED })
        }
        Command::Enqueue { file, no_store, json } => {
            let summary = app::enqueue_file(&settings, &file, !no_store, &stop).await?;
            app::write_answer(json, &summary, &summary.to_string())?;
            Ok(if summary.is_clean() { 0 } else { exit::INPUT })
        }
        Command::Updater { listen } => {
            app::run_updater(&settings, listen, follower()?, &stop).await?;
            Ok(0)
        }
        Command::Starter { listen } => {
            app::run_starter(&settings, listen, follower()?, &stop).await?;
            Ok(0)
        }
        Command::Poll { listen } => {
            app::run_poll(&settings, listen, follower()?, &stop).await?;
            Ok(0)
        }
        Command::Ops { listen } => {
            app::run_ops(&settings, listen, follower()?, &stop).await?;
            Ok(0)
        }
        Command::Health { .. } | Command::Completions { .. } | Command::Check { .. } => Ok(0), // above
        Command::Status { json } => {
            let report = app::status(&settings).await?;
            app::write_answer(json, &report, &report.to_string())?;
            Ok(if report.answers() { 0 } else { exit::UNAVAILABLE })
        }
        Command::Rebuild { every, rate, json } => {
            let rebuilds = tokio::select! {
                rebuilds = app::open_rebuilds(&settings, rate) => rebuilds?,
                () = stop.draining() => return Ok(0), // while a service did not answer yet
            };
            if let (Some(_), Some(first)) = (every, rebuilds.first()) {
                let ages = first.lanes.ages.clone();
                // Each round goes by the age table of its time.
                let take_over = move |settings: &Settings| ages.set(settings.tweet_age.clone());
                tokio::spawn(app::follow(follower()?, &settings, take_over, stop.clone()));
            }
            tokio::select! {
                done = app::run_rebuilds(&rebuilds, every, json, &stop) => done?,
                // A service does not answer any more: leases run out.
                () = stop.abandoning() => tracing::warn!("rebuild was cut off in the middle of a page: run it again"),
            }
            Ok(0)
        }
        Command::Refresh { ids, state, since, spread, json } => {
            refresh(&settings, &ids, Which { state, since, spread }, json, &stop).await
        }
        Command::Dead(command) => look_after_the_dead(command, &settings).await,
        Command::Credentials { check, json } => {
            let accounts = app::credentials_report(&settings, &settings.provider()?, check).await?;
            app::write_answer(json, &accounts, &accounts.to_string())?;
            Ok(if accounts.all_work() { 0 } else { exit::UNAVAILABLE })
        }
        Command::Plan { tweets_per_day, user_credentials, app_credentials, json } => {
            let ages = &settings.tweet_age;
            let is_x = settings.providers()? == [Provider::X];
            let provider = if is_x { Provider::X } else { Provider::Twitter };
            let mut plan = Plan::new(ages, tweets_per_day, app::fill(&settings, &provider))?;
            if is_x {
                let terms = app::read_terms(&settings);
                plan = plan.with_calls(X_CALLS).with_reads(ages, &terms).map_err(|why| BadConfig(why.to_string()))?;
            }
            if user_credentials.is_some() || app_credentials.is_some() {
                let (user, app) = (user_credentials.unwrap_or(0), app_credentials.unwrap_or(0));
                plan = plan.with_credentials(ages, Credentials { user, app });
            }
            app::write_answer(json, &plan, &plan.to_string())?;
            Ok(0)
        }
        Command::Migrate => {
            app::migrate(&settings, &stop).await?;
            app::write_line("the store's tables are up to date")?;
            Ok(0)
        }
        Command::Simulator { listen, replay } => {
            app::run_simulator(&settings, listen, replay, &stop).await?;
            Ok(0)
        }
    }
}

impl Command {
    /// Whether it ends in two steps when it is asked to; the others end at once.
    fn takes_its_time(&self) -> bool {
        !matches!(
            self,
            Self::Status { .. } | Self::Dead(_) | Self::Credentials { .. } | Self::Plan { .. } | Self::Check { .. }
        )
    }

    /// What has to be there before it begins.
    fn needs(&self) -> Option<Needed> {
        match self {
            Self::Updater { .. } | Self::Starter { .. } | Self::Poll { .. } | Self::Rebuild { .. } => {
                Some(Needed::Everything)
            }
            Self::Migrate => Some(Needed::Database),
            _ => None,
        }
    }

    /// Whether it reads the files with secrets.
    fn reads_secrets(&self) -> bool {
        matches!(
            self,
            Self::Updater { .. }
                | Self::Starter { .. }
                | Self::Poll { .. }
                | Self::Ops { .. }
                | Self::Credentials { check: true, .. }
        )
    }
}

/// The configuration file or folder: what the command line says, or else the environment.
fn configuration(named: Option<PathBuf>) -> Result<Option<PathBuf>, BadConfig> {
    match named.or_else(|| std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from)) {
        Some(path) if path.as_os_str().is_empty() => {
            Err(BadConfig(format!("--config or {CONFIG_VARIABLE} is empty: name a file or a folder, or leave it out")))
        }
        named => Ok(named),
    }
}

/// Prints the configuration in effect, or everything that is wrong with it.
fn check(examined: Examined, offline: bool, json: bool) -> Result<u8> {
    let wrong = app::check(&examined, offline);
    if !wrong.is_empty() {
        return Err(BadConfigs(wrong).into());
    }
    let settings = examined.sound()?;
    app::start_logging(&settings)?;
    if !offline {
        warn_of_exposed(&settings);
    }
    let text = format!("# config_revision: {}\n{}", settings.revision(), settings.shown());
    app::write_answer(json, &Checked { config_revision: settings.revision(), settings }, &text)?;
    Ok(0)
}

/// Secrets that everybody may read still work, so it is no error.
fn warn_of_exposed(settings: &Settings) {
    for (setting, file) in settings.exposed_secrets() {
        tracing::warn!(
            setting,
            file = %file.display(),
            "every user of this machine can read this secret: chmod o-r, or mount it with the mode 0440"
        );
    }
}

async fn refresh(settings: &Settings, ids: &[String], which: Which, json: bool, stop: &Stop) -> Result<u8> {
    let refresh = app::open_refresh(settings, &settings.provider()?).await?;
    let mut refusals = Vec::new();
    let refused = |id: &str, why: &str| {
        say(&format!("{id}: {why}"));
        refusals.push(Refused { id: id.to_owned(), reason: why.to_owned() });
    };
    let done = app::run_refresh(&refresh, ids, which, stop, refused).await?;
    let text = done.to_string();
    let code = if done.refused == 0 { 0 } else { exit::INPUT };
    app::write_answer(json, &MadeDue { done, refusals }, &text)?;
    Ok(code)
}

async fn look_after_the_dead(command: DeadCommand, settings: &Settings) -> Result<u8> {
    let only_looks = matches!(command, DeadCommand::List { .. } | DeadCommand::Show { .. });
    let dead = app::open_dead(settings, &settings.provider()?, only_looks).await?;
    let (act, Whom { ids, all, json }) = match command {
        DeadCommand::List { limit, json } => {
            let list = dead.list(limit).await?;
            app::write_answer(json, &list, &list.to_string())?;
            return Ok(0);
        }
        DeadCommand::Show { id, json } => {
            let Some(known) = dead.show(&id).await? else {
                say(&format!("{id}: neither the queue nor the store knows it"));
                return Ok(exit::INPUT);
            };
            app::write_answer(json, &known, &known.to_string())?;
            return Ok(0);
        }
        DeadCommand::Retry(whom) => (Act::Retry, whom),
        DeadCommand::Drop(whom) => (Act::Drop, whom),
    };
    let mut refusals = Vec::new();
    let refused = |id: &str, why: &str| {
        say(&format!("{id}: {why}"));
        if json {
            refusals.push(Refused { id: id.to_owned(), reason: why.to_owned() });
        }
    };
    let tally = if all { dead.act_on_all(act, refused).await? } else { dead.act(act, &ids, refused).await? };
    app::write_answer(json, &Acted { tally, refusals }, &tally.line(act))?;
    Ok(if tally.refused == 0 { 0 } else { exit::INPUT })
}

/// A line on standard error. Somebody may have stopped reading it: the exit code says it, too.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "twitter-updater: {line}");
}
