//! Options of every subcommand, and the start of a command: settings, log, signals, services.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::bad_usage::BadUsage;
use crate::app::{self, ConfigFollower, LogLevel, Role, SharedServices};
use collect::config::{BadConfig, ExaminedSettings, Files, Settings};
use collect::pipelines::kind::RegisteredPipeline;
use collect::pipelines::posts::posts_pipeline;
use collect::pipelines::registry::Registry;
use engine::base::clock::Stopwatch;
use engine::base::shutdown::{Hangup, Stop};
use engine::base::supervise;
use networks::model::pipeline_id::PipelineId;
use networks::providers::proxy::ignored_variable;

/// Environment variable for --config.
const CONFIG_VARIABLE: &str = "TWITTER_UPDATER_CONFIG";

/// Pause between two checks of the services.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NeededServices {
    Database,
    /// The queues, and the store with its tables.
    Everything,
}

// A doc comment here would replace the first line of the help.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Configuration file, or a folder whose *.toml files are read in the order of their names. It overrides the defaults,
    /// and the environment overrides both. The default is TWITTER_UPDATER_CONFIG.
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Network: twitter, x, mastodon:NAME or bluesky. Overrides the setting providers.
    #[arg(long, global = true, value_name = "PROVIDER")]
    provider: Option<String>,
    #[arg(skip)]
    patience: Patience,
    #[arg(skip)]
    choice: PipelineChoice,
    #[arg(skip)]
    pub registry: Registry,
}

// Option of the commands that need services. A doc comment here would replace the first line of their help.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct Patience {
    /// Wait up to this time for services that are not up yet, instead of exiting with 69 at once.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    wait: Option<Duration>,
}

// Option of the commands that work on a pipeline. A doc comment here would replace the first line of their help.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct PipelineChoice {
    /// Work only on this pipeline, named as in `status`. The default is all pipelines for pause, rebuild and resume, and
    /// that of the posts for other commands.
    #[arg(long, global = true, value_name = "NAME")]
    pipeline: Option<String>,
}

// Address of a role. A doc comment here would replace the first line of the help.
#[derive(Debug, clap::Args)]
pub(super) struct Listen {
    /// Serve /live, /ready, /metrics and the role's other endpoints at this address. Overrides http.listen. Port 0
    /// takes a free port.
    #[arg(long, value_name = "ADDR", value_parser = address)]
    listen: Option<SocketAddr>,
}

// Options of a role that needs its services. A doc comment here would replace the first line of the help.
#[derive(Debug, clap::Args)]
pub(super) struct RoleArguments {
    #[command(flatten)]
    listen: Listen,
    #[command(flatten)]
    patience: Patience,
}

impl RoleArguments {
    /// Starts a role that needs queues and store. A service that is still down after `--wait` is an error.
    pub async fn role(self, options: Options) -> Result<Role> {
        self.listen.role(options.with_patience(self.patience), Some(NeededServices::Everything)).await
    }
}

impl Listen {
    /// Starts a role: a process that runs until it is stopped.
    pub async fn role(self, options: Options, needed: Option<NeededServices>) -> Result<Role> {
        let start = options.start(&[])?;
        warn_of_settings(&start.settings);
        start.stop.listen_for_signals(start.settings.updater.drain_deadline, Hangup::Reads)?;
        supervise::end_at_other_panics();
        app::print_tasks_on_quit()?;
        if let Some(needed) = needed {
            start.wait_for(needed).await?;
        }
        let (settings, stop, registry) = (start.settings.clone(), start.stop.clone(), start.registry.clone());
        Ok(Role { settings, listen: self.listen, stop, registry, follower: start.follower()? })
    }
}

impl Options {
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    pub fn with_choice(self, choice: &PipelineChoice) -> Self {
        Self { choice: choice.clone(), ..self }
    }

    /// Reads the configuration files, and finds all errors of the settings. `layers` override the defaults; files override
    /// `layers`. Only an unreadable file is an error.
    pub fn examine(&mut self, layers: &[&'static str]) -> Result<(ExaminedSettings, Files), BadConfig> {
        self.config = config_path(self.config.take())?;
        let files = Files::read(self.config.as_deref())?;
        Ok((Settings::examine(layers, &files, self.provider.as_deref()), files))
    }

    /// Starts a command. `layers` as in [`Options::examine`]. Invalid settings, and a too low limit of open files, are
    /// errors.
    pub fn start(mut self, layers: &'static [&'static str]) -> Result<StartedCommand> {
        let (examined, files) = self.examine(layers)?;
        let settings = examined.into_valid()?;
        app::check_open_files_limit(Some(&settings))?;
        let log = app::start_logging(&settings)?;
        let registry = self.registry.clone();
        Ok(StartedCommand { settings, stop: Stop::new(), registry, options: self, layers, files, log })
    }
}

/// Command with its settings read and its log started.
pub(super) struct StartedCommand {
    pub settings: Settings,
    pub stop: Stop,
    pub registry: Registry,
    options: Options,
    layers: &'static [&'static str],
    files: Files,
    log: LogLevel,
}

impl StartedCommand {
    /// Pipeline given by `--pipeline`; by default the posts of the only provider.
    pub fn pipeline(&self) -> Result<RegisteredPipeline, BadConfig> {
        match &self.options.choice.pipeline {
            Some(name) => self.registry.find(&self.settings, name),
            None => Ok(posts_pipeline(&self.settings.provider()?)),
        }
    }

    /// Returns the pipeline of [`StartedCommand::pipeline`] if its items have that table, or if `--pipeline` names it.
    /// Otherwise returns the first pipeline of that provider with the table, and the names of the others.
    pub fn pipelines_with(&self, table: &str) -> Result<(RegisteredPipeline, Vec<String>), BadConfig> {
        let named = self.pipeline()?;
        if self.names_pipeline() || named.table(table).is_some() {
            return Ok((named, Vec::new()));
        }
        let (provider, all) = (named.id.provider.clone(), self.registry.pipelines(&self.settings)?.into_iter());
        let mut with = all.filter(|of| of.id.provider == provider && of.table(table).is_some());
        let first = with.next().unwrap_or(named);
        Ok((first, with.map(|of| of.namespace()).collect()))
    }

    /// Returns true if the command line selects one pipeline by name.
    pub fn names_pipeline(&self) -> bool {
        self.options.choice.pipeline.is_some()
    }

    /// Namespace of the pipeline given by `--pipeline`; by default those of all pipelines that call an API: the configured
    /// ones, and the polled timelines.
    pub fn namespaces(&self) -> Result<Vec<String>> {
        let Self { settings, registry, .. } = self;
        if let Some(name) = &self.options.choice.pipeline {
            return Ok(vec![registry.find(settings, name)?.namespace()]);
        }
        let mut all: Vec<String> = registry.pipelines(settings)?.iter().map(RegisteredPipeline::namespace).collect();
        if !settings.poll.sources.is_empty() {
            for (provider, endpoints) in app::sources(settings)? {
                all.extend(endpoints.keys().map(|endpoint| PipelineId::timelines(&provider, endpoint).to_string()));
            }
        }
        Ok(all)
    }

    /// Stops in two steps at SIGTERM, SIGINT or SIGHUP. Without this call a signal ends the process at once.
    pub fn stop_on_signals(&self) -> Result<()> {
        Ok(self.stop.listen_for_signals(self.settings.updater.drain_deadline, Hangup::Stops)?)
    }

    /// Waits for the services as long as `--wait` allows, or until a stop; without that option it returns at once. Wrong
    /// settings are an error at once: waiting does not correct them.
    pub async fn wait_for(&self, needed: NeededServices) -> Result<()> {
        let Some(patience) = self.options.patience.wait else { return Ok(()) };
        let Self { settings, stop, registry, .. } = self;
        let watch = Stopwatch::start();
        let mut last_reason = String::new();
        loop {
            let checked = stop.token().run_until_cancelled(check_services(settings, registry, needed)).await;
            let Some(Err(error)) = checked else { return Ok(()) };
            let is_permanent = error.chain().any(|cause| cause.is::<BadConfig>());
            if is_permanent || watch.elapsed() + CHECK_INTERVAL > patience {
                return Err(error);
            }
            let why = format!("{error:#}");
            if why != last_reason {
                tracing::info!(why, patience_s = patience.as_secs(), "the command waits for a service");
                last_reason = why;
            }
            stop.sleep(CHECK_INTERVAL).await;
        }
    }

    /// Follows the configuration files from now on.
    pub fn follower(self) -> Result<ConfigFollower> {
        ConfigFollower::new(
            self.layers,
            self.options.config,
            self.files,
            self.options.provider,
            self.log,
            self.registry,
        )
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, BadUsage> {
    humantime::parse_duration(text).map_err(|error| BadUsage(format!("{error}; write it like 20s or 5m")))
}

pub(super) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "write an IP address and a port, like 127.0.0.1:8082")
}

/// Configuration file or folder from the command line, else from the environment.
fn config_path(named: Option<PathBuf>) -> Result<Option<PathBuf>, BadConfig> {
    match named.or_else(|| std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from)) {
        Some(path) if path.as_os_str().is_empty() => {
            Err(BadConfig(format!("--config or {CONFIG_VARIABLE} is empty: name a file or a folder, or leave it out")))
        }
        named => Ok(named),
    }
}

/// Warns about probable mistakes: secrets that every user of this machine can read, and a proxy variable that calls
/// ignore.
pub(super) fn warn_of_settings(settings: &Settings) {
    for (setting, file) in settings.exposed_secrets() {
        tracing::warn!(
            setting,
            file = %file.display(),
            "every user of this machine can read this secret: chmod o-r, or mount it with the mode 0440"
        );
    }
    if let (Ok(None), Some(variable)) = (settings.lookup.proxy(), ignored_variable()) {
        tracing::warn!(
            variable,
            "calls ignore the proxy in this environment variable: set lookup.proxy (TWITTER_UPDATER__LOOKUP__PROXY) to use a proxy"
        );
    }
}

async fn check_services(settings: &Settings, registry: &Registry, needed: NeededServices) -> Result<()> {
    if needed == NeededServices::Database {
        return app::connect_store(settings).await.map(drop);
    }
    SharedServices::open(settings, &registry.pipelines(settings)?).await.map(drop)
}
