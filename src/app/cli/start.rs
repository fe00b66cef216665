//! Options of every subcommand, and the start of a command: settings, log, signals, services.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::app::{self, Follower, LogLevel, Role, Shared};
use crate::base::clock::Stopwatch;
use crate::base::shutdown::{Hangup, Stop};
use crate::base::supervise;
use crate::config::{BadConfig, Examined, Files, Settings};
use crate::model::pipeline_id::PipelineId;
use crate::pipelines::kind::Registered;
use crate::pipelines::posts::posts_of;
use crate::pipelines::registry::Registry;
use crate::providers::proxy::ignored_variable;

/// The environment's name for --config.
const CONFIG_VARIABLE: &str = "TWITTER_UPDATER_CONFIG";

/// Pause between two checks of the services.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The services that a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needed {
    /// The database.
    Database,
    /// The queues, and the store with its tables.
    Everything,
}

// A doc comment here would replace the first line of the help.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// A configuration file, or a folder, whose *.toml files are read in the order of their names. It overrides the
    /// defaults, and the environment overrides both. The default is TWITTER_UPDATER_CONFIG.
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,
    /// The network: twitter, x, mastodon:NAME or bluesky. Overrides the setting providers.
    #[arg(long, global = true, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Wait this long for services that are not up yet, instead of exiting with 69 at once: updater, starter, poll,
    /// rebuild and migrate.
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration)]
    wait: Option<Duration>,
    /// Only this pipeline, named as in `status`. Default: all, for pause, rebuild and resume; that of the posts, for
    /// credentials, dead, enqueue, export, prune, refresh and schedule. Other commands refuse it.
    #[arg(long, global = true, value_name = "NAME")]
    pipeline: Option<String>,
    /// All kinds of pipelines.
    #[arg(skip)]
    pub registry: Registry,
}

// Address of a role. A doc comment here would replace the first line of the help.
#[derive(Debug, clap::Args)]
pub(super) struct Listen {
    /// Serve /live, /ready, /metrics and the role's other endpoints at this address. Overrides http.listen. Port 0
    /// takes a free port.
    #[arg(long, value_name = "ADDR", value_parser = address)]
    listen: Option<SocketAddr>,
}

impl Listen {
    /// The start of a role: of a process that runs until it is stopped.
    ///
    /// # Errors
    /// As [`Options::start`]; a signal handler cannot be installed, or a service is still down after the time of `--wait`.
    pub async fn role(self, options: Options, needed: Option<Needed>) -> Result<Role> {
        let start = options.start(&[])?;
        warn_of_settings(&start.settings);
        start.stop.on_signals(start.settings.updater.drain_deadline, Hangup::Reads)?;
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
    /// Returns true if `--pipeline` names one.
    pub fn names_pipeline(&self) -> bool {
        self.pipeline.is_some()
    }

    /// Reads the configuration files and finds everything that is wrong with the settings. `layers` go over the
    /// defaults and below the files.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn examine(&mut self, layers: &[&'static str]) -> Result<(Examined, Files), BadConfig> {
        self.config = configuration(self.config.take())?;
        let files = Files::read(self.config.as_deref())?;
        Ok((Settings::examine(layers, &files, self.provider.as_deref()), files))
    }

    /// The start of a command. `layers` as for [`Options::examine`].
    ///
    /// # Errors
    /// The settings are invalid, or the process may open too few files.
    pub fn start(mut self, layers: &'static [&'static str]) -> Result<Start> {
        let (examined, files) = self.examine(layers)?;
        let settings = examined.sound()?;
        app::enough_files_may_be_open(Some(&settings))?;
        let log = app::start_logging(&settings)?;
        let registry = self.registry.clone();
        Ok(Start { settings, stop: Stop::new(), registry, options: self, layers, files, log })
    }
}

/// A command with its settings read and its log started.
pub(super) struct Start {
    pub settings: Settings,
    pub stop: Stop,
    pub registry: Registry,
    options: Options,
    layers: &'static [&'static str],
    files: Files,
    log: LogLevel,
}

impl Start {
    /// The pipeline given by `--pipeline`; by default the posts of the only provider.
    ///
    /// # Errors
    /// No pipeline has that name, or there are several providers.
    pub fn pipeline(&self) -> Result<Registered, BadConfig> {
        match &self.options.pipeline {
            Some(name) => self.registry.named(&self.settings, name),
            None => Ok(posts_of(&self.settings.provider()?)),
        }
    }

    /// The same, and no further one; where its items have no table of that name and the command line names none, the first
    /// pipeline of that provider whose items have one, and the names of all further ones.
    ///
    /// # Errors
    /// As [`Start::pipeline`].
    pub fn pipelines_with(&self, table: &str) -> Result<(Registered, Vec<String>), BadConfig> {
        let named = self.pipeline()?;
        if self.names_pipeline() || named.table(table).is_some() {
            return Ok((named, Vec::new()));
        }
        let (provider, all) = (named.id.provider.clone(), self.registry.pipelines(&self.settings)?.into_iter());
        let mut with = all.filter(|of| of.id.provider == provider && of.table(table).is_some());
        let first = with.next().unwrap_or(named);
        Ok((first, with.map(|of| of.namespace()).collect()))
    }

    /// Returns true if `--pipeline` names one.
    pub fn names_pipeline(&self) -> bool {
        self.options.names_pipeline()
    }

    /// The pipeline given by `--pipeline`; by default all that call an API: those of the settings, and the polled
    /// timelines.
    ///
    /// # Errors
    /// No pipeline has that name, or a setting is invalid.
    pub fn namespaces(&self) -> Result<Vec<String>> {
        let Self { settings, registry, .. } = self;
        if let Some(name) = &self.options.pipeline {
            return Ok(vec![registry.named(settings, name)?.namespace()]);
        }
        let mut all: Vec<String> = registry.pipelines(settings)?.iter().map(Registered::namespace).collect();
        if !settings.poll.sources.is_empty() {
            for (provider, endpoints) in app::sources(settings)? {
                all.extend(endpoints.keys().map(|endpoint| PipelineId::timelines(&provider, endpoint).to_string()));
            }
        }
        Ok(all)
    }

    /// Stops in two steps at SIGTERM, SIGINT or SIGHUP. Without this call a signal ends the process at once.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
    pub fn stop_on_signals(&self) -> Result<()> {
        Ok(self.stop.on_signals(self.settings.updater.drain_deadline, Hangup::Stops)?)
    }

    /// Waits for the services as long as `--wait` allows, or until it is to stop; returns at once without that option.
    ///
    /// # Errors
    /// A service is still down after that time, or the settings are wrong: waiting does not correct those.
    pub async fn wait_for(&self, needed: Needed) -> Result<()> {
        let Some(patience) = self.options.wait else { return Ok(()) };
        let Self { settings, stop, registry, .. } = self;
        let watch = Stopwatch::start();
        let mut said = String::new();
        loop {
            let looked = stop.token().run_until_cancelled(look(settings, registry, needed)).await;
            let Some(Err(error)) = looked else { return Ok(()) };
            let hopeless = error.chain().any(|cause| cause.is::<BadConfig>());
            if hopeless || watch.elapsed() + LOOK_EVERY > patience {
                return Err(error);
            }
            let why = format!("{error:#}");
            if why != said {
                tracing::info!(why, patience_s = patience.as_secs(), "waits for a service");
                said = why;
            }
            stop.sleep(LOOK_EVERY).await;
        }
    }

    /// Follows the configuration files from now on.
    ///
    /// # Errors
    /// The handler of SIGHUP cannot be installed.
    pub fn follower(self) -> Result<Follower> {
        Follower::new(self.layers, self.options.config, self.files, self.options.provider, self.log, self.registry)
    }
}

/// Reads a duration of the command line.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 20s or 5m"))
}

/// Reads an address of the command line.
pub(super) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "write an IP address and a port, like 127.0.0.1:8082")
}

/// The configuration file or folder from the command line, else from the environment.
fn configuration(named: Option<PathBuf>) -> Result<Option<PathBuf>, BadConfig> {
    match named.or_else(|| std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from)) {
        Some(path) if path.as_os_str().is_empty() => {
            Err(BadConfig(format!("--config or {CONFIG_VARIABLE} is empty: name a file or a folder, or leave it out")))
        }
        named => Ok(named),
    }
}

/// Warns about settings that work but may be mistakes: secrets that every user of this machine can read, and a proxy variable that calls
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

async fn look(settings: &Settings, registry: &Registry, needed: Needed) -> Result<()> {
    if needed == Needed::Database {
        return app::connect_store(settings).await.map(drop);
    }
    Shared::open(settings, &registry.pipelines(settings)?).await.map(drop)
}
