//! Follows the configuration files: reads changed files, checks them, and applies the live settings while the process
//! runs.
//!
//! The files are polled every two seconds: a mounted ConfigMap is swapped by one rename of `..data`, which file
//! watchers do not see. SIGHUP reads at once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::logging::{self, LogLevel};
use crate::base::clock::{self, Stopwatch};
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::base::task;
use crate::config::{BadConfig, Change, Files, Settings};
use crate::engine::metrics::Metrics;
use crate::engine::schedule::Schedule;
use crate::pipelines::kind::Registered;
use crate::pipelines::registry::Registry;

pub(super) const READ_EVERY: Duration = Duration::from_secs(2);
/// A change counts if it reads the same after this time: then the writer has finished.
pub(super) const READ_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Maximum number of tries; then the next round reads again.
const READ_AGAIN: usize = 8;
/// Unreadable files may be about to be replaced; after this time the process reports them.
const MISSING_FOR: Duration = Duration::from_secs(10);
/// Maximum length of a reason in a worker's heartbeat, in characters.
const REASON_CHARS: usize = 300;

/// Configuration in force, and the state of the files since.
#[derive(Debug, Clone)]
pub struct InForce {
    pub settings: Arc<Settings>,
    pub revision: String,
    /// Reason why the current files were rejected.
    pub refused: Option<String>,
    /// Changed settings that need a restart.
    pub waiting: Vec<Change>,
}

impl InForce {
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { revision: settings.revision(), settings: Arc::new(settings), refused: None, waiting: Vec::new() }
    }

    #[must_use]
    pub fn needs_restart(&self) -> String {
        self.waiting.iter().map(|change| change.setting.as_str()).collect::<Vec<_>>().join(", ")
    }
}

pub(super) fn as_bad_config(error: anyhow::Error) -> BadConfig {
    error.downcast().unwrap_or_else(|error| BadConfig(format!("{error:#}")))
}

pub(super) fn schedules_in_force(
    all: Vec<(Registered, Reloadable<Arc<dyn Schedule>>)>,
) -> impl Fn(&Settings) + Send + 'static {
    move |settings| all.iter().for_each(|(pipeline, schedule)| schedule.set(pipeline.schedule(settings)))
}

pub struct Follower {
    layers: Vec<&'static str>,
    path: Option<PathBuf>,
    providers: Option<String>,
    /// Contents of the files that were handled last.
    known: Files,
    log: LogLevel,
    registry: Registry,
    hangups: Signal,
    /// Start of unreadability, and true if it was reported.
    missing: Option<(Stopwatch, bool)>,
}

impl Follower {
    /// Follows the file or folder `path`, whose content is `known`. Files override `layers`, and `providers` overrides
    /// files. After this call SIGHUP no longer ends the process.
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

    /// Follows in a process that reports its configuration to no queue: changes the log level, and calls `take_over`.
    pub fn spawn(mut self, settings: &Settings, take_over: impl Fn(&Settings) + Send + 'static, stop: Stop) {
        let in_force = Reloadable::new(InForce::new(settings.clone()));
        tokio::spawn(async move { self.run(in_force, take_over, Vec::new(), stop).await });
    }

    /// Follows the files until it is stopped. Passes changed live settings to `take_over`, and records current and
    /// rejected configurations in `in_force` and `metrics`.
    pub async fn run(
        &mut self,
        in_force: Reloadable<InForce>,
        take_over: impl Fn(&Settings) + Send,
        metrics: Vec<Arc<Metrics>>,
        stop: Stop,
    ) {
        while !stop.is_draining() {
            let asked = tokio::select! {
                () = stop.sleep(READ_EVERY) => false,
                _ = self.hangups.recv() => true,
            };
            task::step("reads the configuration");
            if asked {
                let path = self.path.as_ref().map(|path| path.display().to_string());
                tracing::info!(path, "SIGHUP: reading the configuration");
            }
            let Some(files) = self.changed_files(asked).await else { continue };
            let outcome = self.load(&files);
            self.known = files;
            match outcome {
                Ok(settings) => self.accept(&settings, asked, &in_force, &take_over, &metrics),
                Err(BadConfig(why)) => refuse(why, &in_force, &metrics),
            }
        }
    }

    /// Returns the files if they have changed (or `asked`) and stay the same for a moment.
    async fn changed_files(&mut self, asked: bool) -> Option<Files> {
        let mut files = self.read(asked).await?;
        if files == self.known && !asked {
            return None;
        }
        for _ in 0..READ_AGAIN {
            tokio::time::sleep(READ_AGAIN_AFTER).await;
            let again = self.read(asked).await?;
            if again == files {
                // The change may have been undone meanwhile.
                return (asked || files != self.known).then_some(files);
            }
            files = again;
        }
        None
    }

    /// Reads the files. An unreadable file may be about to be replaced, so the configuration in force stays.
    async fn read(&mut self, asked: bool) -> Option<Files> {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || Files::read(path.as_deref())).await;
        match read.unwrap_or_else(|error| Err(BadConfig(error.to_string()))) {
            Ok(files) => {
                if self.missing.take().is_some_and(|(_, said)| said) {
                    tracing::info!("the configuration can be read again");
                }
                Some(files)
            }
            Err(BadConfig(error)) => {
                let (since, said) = self.missing.get_or_insert_with(|| (Stopwatch::start(), false));
                if asked || (!*said && since.elapsed() >= MISSING_FOR) {
                    *said = true;
                    let missing_ms = clock::millis(since.elapsed());
                    tracing::warn!(error, missing_ms, "the configuration cannot be read: the one in force stays");
                }
                None
            }
        }
    }

    fn load(&self, files: &Files) -> Result<Settings, BadConfig> {
        let settings = Settings::load(&self.layers, files, self.providers.as_deref())?;
        logging::filter(&settings)?;
        settings.adaptive.model()?;
        for Registered { id, kind } in self.registry.pipelines(&settings)? {
            kind.check(&id, &settings).map_err(as_bad_config)?;
        }
        Ok(settings)
    }

    fn accept(
        &self,
        settings: &Settings,
        asked: bool,
        in_force: &Reloadable<InForce>,
        take_over: &impl Fn(&Settings),
        metrics: &[Arc<Metrics>],
    ) {
        let before = in_force.load();
        let changed = before.settings.changed(settings);
        if changed.live.is_empty() && changed.waiting.is_empty() {
            let config_revision = &before.revision;
            if before.refused.is_some() || !before.waiting.is_empty() {
                tracing::info!(config_revision, "the configuration is again the one in force");
            } else {
                tracing::info!(
                    config_revision,
                    "no setting has changed: what the environment sets goes over the files"
                );
            }
        }
        for change in changed.waiting.iter().filter(|change| asked || !before.waiting.contains(change)) {
            tracing::warn!(setting = change.setting, "needs a restart: {change}");
        }
        let now = InForce { waiting: changed.waiting, ..InForce::new(before.settings.tuned(settings)) };
        if !changed.live.is_empty() {
            // Logged at the more verbose of the two levels.
            let louder = logging::shows_more(&now.settings, &before.settings);
            if louder {
                self.log.set(&now.settings);
            }
            for change in &changed.live {
                tracing::info!(setting = change.setting, "changed: {change}");
            }
            let (config_revision, before) = (&now.revision, &before.revision);
            tracing::info!(config_revision, before, "another configuration is in force");
            if !louder {
                self.log.set(&now.settings);
            }
            take_over(&now.settings);
            metrics.iter().for_each(|metrics| metrics.counters.config_reloads.add(1));
        }
        in_force.set(now);
    }
}

/// Logged as an error, and once: the files are not checked again before they change.
fn refuse(why: String, in_force: &Reloadable<InForce>, metrics: &[Arc<Metrics>]) {
    let before = in_force.load();
    let config_revision = &before.revision;
    tracing::error!(error = why, config_revision, "the changed configuration is refused: the one in force stays");
    metrics.iter().for_each(|metrics| metrics.counters.config_reloads_refused.add(1));
    in_force.set(InForce { refused: Some(why.chars().take(REASON_CHARS).collect()), ..(*before).clone() });
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[updater]\nbuffer_ttl = \"7s\"\n";

    fn followed() -> (Follower, PathBuf, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        std::fs::write(&file, GOOD).unwrap();
        let files = Files::read(Some(folder.path())).unwrap();
        let log = LogLevel::none();
        let follower =
            Follower::new(&[], Some(folder.path().to_owned()), files, None, log, Registry::default()).unwrap();
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
                tokio::time::sleep(READ_AGAIN_AFTER * 3 / 4).await;
            }
        });
        tokio::task::yield_now().await;
        assert_eq!(text(follower.changed_files(false).await).as_deref(), Some("####"));
        writing.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_missing_for_a_while_is_no_change() {
        let (mut follower, file, _folder) = followed();
        let said = |follower: &Follower| follower.missing.map(|(_, said)| said);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(text(follower.changed_files(false).await), None);
        assert_eq!(said(&follower), Some(false), "it may be in the middle of a swap");
        tokio::time::sleep(MISSING_FOR).await;
        assert_eq!(text(follower.changed_files(false).await), None);
        assert_eq!(said(&follower), Some(true));
        // Restored.
        std::fs::write(&file, GOOD).unwrap();
        assert_eq!(text(follower.changed_files(false).await), None);
        assert_eq!(said(&follower), None);
    }

    #[tokio::test]
    async fn what_is_refused_changes_nothing_and_what_waits_is_said_once() {
        let (follower, file, _folder) = followed();
        let settings = follower.load(&follower.known).unwrap();
        let (in_force, metrics) = (Reloadable::new(InForce::new(settings)), [Arc::new(Metrics::new())]);
        let before = in_force.load();
        let taken_over = std::cell::Cell::new(0);
        let take_over = |_: &Settings| taken_over.set(taken_over.get() + 1);

        refuse("it cannot be. ".repeat(100), &in_force, &metrics);
        let now = in_force.load();
        assert_eq!(now.refused.as_ref().map(|why| why.chars().count()), Some(REASON_CHARS));
        assert_eq!(now.settings.changed(&before.settings), Default::default());

        for (bad, says) in
            [("[log]\nlevel = \"loud\"", "log.level"), ("[twitter]\napi = \"http://me:canary@h\"", "twitter.api")]
        {
            let BadConfig(error) = follower.load(&Files::of(&file, bad)).unwrap_err();
            assert!(error.contains(says) && !error.contains("canary"), "{error}");
        }

        let other = "lookahead = 0.2\nlease = \"70s\"\n";
        let other = follower.load(&Files::of(&file, &(GOOD.to_owned() + other))).unwrap();
        follower.accept(&other, false, &in_force, &take_over, &metrics);
        let now = in_force.load();
        assert_eq!((now.refused.as_ref(), now.needs_restart()), (None, "updater.lease".to_owned()));
        assert_eq!((now.settings.updater.lookahead, now.settings.updater.lease), (0.2, before.settings.updater.lease));
        assert_eq!((now.revision.as_str(), taken_over.get()), (&*now.settings.revision(), 1));
        assert_ne!(now.revision, before.revision);

        // Read again, or only a new comment: nothing to apply.
        follower.accept(&other, false, &in_force, &take_over, &metrics);
        assert_eq!((in_force.load().needs_restart(), taken_over.get()), ("updater.lease".to_owned(), 1));
        follower.accept(&before.settings, false, &in_force, &take_over, &metrics);
        let now = in_force.load();
        assert_eq!((&now.revision, now.needs_restart(), taken_over.get()), (&before.revision, String::new(), 2));
        let counters = &metrics[0].counters;
        assert_eq!((counters.config_reloads.get(), counters.config_reloads_refused.get()), (2, 1));
    }
}
