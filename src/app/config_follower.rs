//! Applies changes of the live settings in the configuration files to a running process.
//!
//! The files are polled every two seconds: file watchers do not see the rename of `..data` that replaces a mounted
//! ConfigMap. SIGHUP reads at once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::logging::{self, LogLevel};
use collect::config::{BadConfig, Change, Files, Settings};
use collect::pipelines::kind::RegisteredPipeline;
use collect::pipelines::registry::Registry;
use engine::base::clock::{self, Stopwatch};
use engine::base::reload::Reloadable;
use engine::base::shutdown::Stop;
use engine::base::task;
use engine::metrics::Metrics;
use engine::schedule::Schedule;

pub(super) const FILE_READ_INTERVAL: Duration = Duration::from_secs(2);
/// Delay of the second read, which must have the same content: then the writer has finished.
pub(super) const REREAD_DELAY: Duration = Duration::from_millis(250);
/// Maximum number of such reads; then the next round reads again.
const MAX_REREADS: usize = 8;
/// Time after which unreadable files are reported; before, they may be about to be replaced.
const REPORT_UNREADABLE_AFTER: Duration = Duration::from_secs(10);
/// Maximum length of a reason in a worker's heartbeat, in characters.
const REASON_CHARS: usize = 300;

/// Configuration in force, and the state of the files since.
#[derive(Debug, Clone)]
pub struct ActiveConfig {
    pub settings: Arc<Settings>,
    pub revision: String,
    /// Reason why the current files were rejected.
    pub refused: Option<String>,
    /// Changed settings that need a restart.
    pub waiting: Vec<Change>,
}

impl ActiveConfig {
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { revision: settings.revision(), settings: Arc::new(settings), refused: None, waiting: Vec::new() }
    }

    #[must_use]
    pub fn needs_restart(&self) -> String {
        self.waiting.iter().map(|change| change.setting.as_str()).collect::<Vec<_>>().join(", ")
    }
}

pub(super) fn to_bad_config(error: anyhow::Error) -> BadConfig {
    error.downcast().unwrap_or_else(|error| BadConfig(format!("{error:#}")))
}

pub(super) fn schedule_setter(
    all: Vec<(RegisteredPipeline, Reloadable<Arc<dyn Schedule>>)>,
) -> impl Fn(&Settings) + Send + 'static {
    move |settings| all.iter().for_each(|(pipeline, schedule)| schedule.set(pipeline.schedule(settings)))
}

pub struct ConfigFollower {
    layers: Vec<&'static str>,
    path: Option<PathBuf>,
    providers: Option<String>,
    /// Contents of the files that were handled last.
    known: Files,
    log: LogLevel,
    registry: Registry,
    hangups: Signal,
    /// Start of the unreadable time, and true if it was reported.
    missing: Option<(Stopwatch, bool)>,
}

impl ConfigFollower {
    /// Follows the file or folder `path`, whose content is `known`. After this call SIGHUP no longer ends the process.
    pub fn new(
        layers: &[&'static str],
        path: Option<PathBuf>,
        known: Files,
        providers: Option<String>,
        log: LogLevel,
        registry: Registry,
    ) -> Result<Self> {
        let hangups = signal(SignalKind::hangup())?;
        Ok(Self { layers: layers.to_vec(), path, providers, known, log, registry, hangups, missing: None })
    }

    /// Follows the files in a process that does not report its configuration to a queue.
    pub fn spawn(mut self, settings: &Settings, apply_settings: impl Fn(&Settings) + Send + 'static, stop: Stop) {
        let in_force = Reloadable::new(ActiveConfig::new(settings.clone()));
        tokio::spawn(async move { self.run(in_force, apply_settings, Vec::new(), stop).await });
    }

    /// Follows the files until a stop. Passes changed live settings to `apply_settings`, and records current and rejected
    /// configurations in `in_force` and `metrics`.
    pub async fn run(
        &mut self,
        in_force: Reloadable<ActiveConfig>,
        apply_settings: impl Fn(&Settings) + Send,
        metrics: Vec<Arc<Metrics>>,
        stop: Stop,
    ) {
        while !stop.is_draining() {
            let is_requested = tokio::select! {
                () = stop.sleep(FILE_READ_INTERVAL) => false,
                _ = self.hangups.recv() => true,
            };
            task::step("reads the configuration");
            if is_requested {
                let path = self.path.as_ref().map(|path| path.display().to_string());
                tracing::info!(path, "SIGHUP: reading the configuration");
            }
            let Some(files) = self.changed_files(is_requested).await else { continue };
            let outcome = self.load(&files);
            self.known = files;
            match outcome {
                Ok(settings) => self.accept(&settings, is_requested, &in_force, &apply_settings, &metrics),
                Err(BadConfig(why)) => reject(why, &in_force, &metrics),
            }
        }
    }

    /// Returns the files if they have changed (or `is_requested`) and stay the same for a moment.
    async fn changed_files(&mut self, is_requested: bool) -> Option<Files> {
        let mut files = self.read(is_requested).await?;
        if files == self.known && !is_requested {
            return None;
        }
        for _ in 0..MAX_REREADS {
            tokio::time::sleep(REREAD_DELAY).await;
            let again = self.read(is_requested).await?;
            if again == files {
                // The change may have been undone meanwhile.
                return (is_requested || files != self.known).then_some(files);
            }
            files = again;
        }
        None
    }

    /// Reads the files. An unreadable file may be about to be replaced, so the configuration in force stays.
    async fn read(&mut self, is_requested: bool) -> Option<Files> {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || Files::read(path.as_deref())).await;
        match read.unwrap_or_else(|error| Err(BadConfig(error.to_string()))) {
            Ok(files) => {
                if self.missing.take().is_some_and(|(_, reported)| reported) {
                    tracing::info!("the configuration can be read again");
                }
                Some(files)
            }
            Err(BadConfig(error)) => {
                let (since, reported) = self.missing.get_or_insert_with(|| (Stopwatch::start(), false));
                if is_requested || (!*reported && since.elapsed() >= REPORT_UNREADABLE_AFTER) {
                    *reported = true;
                    let missing_ms = clock::millis(since.elapsed());
                    tracing::warn!(
                        error,
                        missing_ms,
                        "the configuration cannot be read: the former one stays in force"
                    );
                }
                None
            }
        }
    }

    fn load(&self, files: &Files) -> Result<Settings, BadConfig> {
        let settings = Settings::load(&self.layers, files, self.providers.as_deref())?;
        logging::log_filter(&settings)?;
        settings.adaptive.model()?;
        for RegisteredPipeline { id, kind } in self.registry.pipelines(&settings)? {
            kind.check(&id, &settings).map_err(to_bad_config)?;
        }
        Ok(settings)
    }

    fn accept(
        &self,
        settings: &Settings,
        is_requested: bool,
        in_force: &Reloadable<ActiveConfig>,
        apply_settings: &impl Fn(&Settings),
        metrics: &[Arc<Metrics>],
    ) {
        let before = in_force.load();
        let changes = before.settings.changes_to(settings);
        if changes.live.is_empty() && changes.waiting.is_empty() {
            let config_revision = &before.revision;
            if before.refused.is_some() || !before.waiting.is_empty() {
                tracing::info!(config_revision, "the files again have the configuration in force");
            } else {
                tracing::info!(config_revision, "no setting has changed: the environment overrides the files");
            }
        }
        for change in changes.waiting.iter().filter(|change| is_requested || !before.waiting.contains(change)) {
            tracing::warn!(setting = change.setting, "needs a restart: {change}");
        }
        let now = ActiveConfig {
            waiting: changes.waiting,
            ..ActiveConfig::new(before.settings.with_live_settings(settings))
        };
        if !changes.live.is_empty() {
            // Logged at the more verbose of the two levels.
            let is_more_verbose = logging::is_more_verbose(&now.settings, &before.settings);
            if is_more_verbose {
                self.log.set(&now.settings);
            }
            for change in &changes.live {
                tracing::info!(setting = change.setting, "changed: {change}");
            }
            let (config_revision, before) = (&now.revision, &before.revision);
            tracing::info!(config_revision, before, "a changed configuration is in force");
            if !is_more_verbose {
                self.log.set(&now.settings);
            }
            apply_settings(&now.settings);
            metrics.iter().for_each(|metrics| metrics.counters.config_reloads.add(1));
        }
        in_force.set(now);
    }
}

/// Logs the error once: the files are not checked again before they change.
fn reject(why: String, in_force: &Reloadable<ActiveConfig>, metrics: &[Arc<Metrics>]) {
    let before = in_force.load();
    let config_revision = &before.revision;
    tracing::error!(
        error = why,
        config_revision,
        "the changed configuration is refused: the former one stays in force"
    );
    metrics.iter().for_each(|metrics| metrics.counters.config_reloads_refused.add(1));
    in_force.set(ActiveConfig { refused: Some(why.chars().take(REASON_CHARS).collect()), ..(*before).clone() });
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[updater]\nbuffer_ttl = \"7s\"\n";

    fn followed() -> (ConfigFollower, PathBuf, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        std::fs::write(&file, GOOD).unwrap();
        let files = Files::read(Some(folder.path())).unwrap();
        let log = LogLevel::none();
        let follower =
            ConfigFollower::new(&[], Some(folder.path().to_owned()), files, None, log, Registry::default()).unwrap();
        (follower, file, folder)
    }

    fn text(files: Option<Files>) -> Option<String> {
        files.map(|files| files.texts().map(|(_, text)| text.to_owned()).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn only_another_content_is_a_change() {
        let (mut follower, file, _folder) = followed();
        assert_eq!(text(follower.changed_files(false).await), None);
        assert_eq!(text(follower.changed_files(true).await).as_deref(), Some(GOOD), "a requested reload");
        std::fs::write(&file, "#").unwrap();
        assert_eq!(text(follower.changed_files(false).await).as_deref(), Some("#"));
    }

    /// Time stands still while files are read, so each step is visible at its time.
    #[tokio::test(start_paused = true)]
    async fn what_is_being_written_is_read_when_it_is_whole() {
        let (mut follower, file, _folder) = followed();
        let writing = tokio::spawn(async move {
            for length in 1..=4 {
                std::fs::write(&file, "#".repeat(length)).unwrap();
                tokio::time::sleep(REREAD_DELAY * 3 / 4).await;
            }
        });
        tokio::task::yield_now().await;
        assert_eq!(text(follower.changed_files(false).await).as_deref(), Some("####"));
        writing.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_missing_for_a_while_is_no_change() {
        let (mut follower, file, _folder) = followed();
        let reported = |follower: &ConfigFollower| follower.missing.map(|(_, reported)| reported);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(text(follower.changed_files(false).await), None);
        assert_eq!(reported(&follower), Some(false), "it may be in the middle of a swap");
        tokio::time::sleep(REPORT_UNREADABLE_AFTER).await;
        assert_eq!(text(follower.changed_files(false).await), None);
        assert_eq!(reported(&follower), Some(true));
        // Restored.
        std::fs::write(&file, GOOD).unwrap();
        assert_eq!(text(follower.changed_files(false).await), None);
        assert_eq!(reported(&follower), None);
    }

    #[tokio::test]
    async fn what_is_refused_changes_nothing_and_what_waits_is_said_once() {
        let (follower, file, _folder) = followed();
        let settings = follower.load(&follower.known).unwrap();
        let (in_force, metrics) = (Reloadable::new(ActiveConfig::new(settings)), [Arc::new(Metrics::new())]);
        let before = in_force.load();
        let taken_over = std::cell::Cell::new(0);
        let apply_settings = |_: &Settings| taken_over.set(taken_over.get() + 1);

        reject("it cannot be. ".repeat(100), &in_force, &metrics);
        let now = in_force.load();
        assert_eq!(now.refused.as_ref().map(|why| why.chars().count()), Some(REASON_CHARS));
        assert_eq!(now.settings.changes_to(&before.settings), Default::default());

        for (bad, says) in
            [("[log]\nlevel = \"loud\"", "log.level"), ("[twitter]\napi = \"http://me:canary@h\"", "twitter.api")]
        {
            let BadConfig(error) = follower.load(&Files::from_text(&file, bad)).unwrap_err();
            assert!(error.contains(says) && !error.contains("canary"), "{error}");
        }

        let other = "lookahead = 0.2\nlease = \"70s\"\n";
        let other = follower.load(&Files::from_text(&file, &(GOOD.to_owned() + other))).unwrap();
        follower.accept(&other, false, &in_force, &apply_settings, &metrics);
        let now = in_force.load();
        assert_eq!((now.refused.as_ref(), now.needs_restart()), (None, "updater.lease".to_owned()));
        assert_eq!((now.settings.updater.lookahead, now.settings.updater.lease), (0.2, before.settings.updater.lease));
        assert_eq!((now.revision.as_str(), taken_over.get()), (&*now.settings.revision(), 1));
        assert_ne!(now.revision, before.revision);

        // Read again, or only a new comment: nothing to apply.
        follower.accept(&other, false, &in_force, &apply_settings, &metrics);
        assert_eq!((in_force.load().needs_restart(), taken_over.get()), ("updater.lease".to_owned(), 1));
        follower.accept(&before.settings, false, &in_force, &apply_settings, &metrics);
        let now = in_force.load();
        assert_eq!((&now.revision, now.needs_restart(), taken_over.get()), (&before.revision, String::new(), 2));
        let counters = &metrics[0].counters;
        assert_eq!((counters.config_reloads.get(), counters.config_reloads_refused.get()), (2, 1));
    }
}
