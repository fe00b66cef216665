//! The log: its output, its format and its level.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

use collect::config::{BadConfig, LogFormat, Settings};
use engine::base::failpoint;
use engine::base::humanize::strip_direction_marks;

#[derive(Clone)]
pub struct LogLevel(reload::Handle<EnvFilter, Registry>);

impl LogLevel {
    #[cfg(test)]
    pub fn none() -> Self {
        Self(reload::Layer::new(EnvFilter::default()).1)
    }

    /// Applies `log.level` of these settings. An invalid filter changes nothing.
    pub fn set(&self, settings: &Settings) {
        let set = log_filter(settings).map_err(|error| error.to_string());
        // Fails only if the process had already started another log.
        if let Err(error) = set.and_then(|filter| self.0.reload(filter).map_err(|error| error.to_string())) {
            tracing::warn!(error, "log.level cannot be changed: the former level stays");
        }
    }
}

pub fn start_logging(settings: &Settings) -> Result<LogLevel, BadConfig> {
    let (filter, handle) = reload::Layer::new(log_filter(settings)?);
    let colours = has_colours(std::io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(move || LogWriter { colours })
        .with_ansi(colours)
        // A closed log must not end the process: the error would go to the same place.
        .log_internal_errors(false);
    let lines = match settings.log.format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => lines.boxed(),
    };
    // A process starts it once; a second start (tests) keeps the first.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    for (variable, value) in failpoint::list_variables() {
        tracing::warn!(variable, value, "this variable makes the process fail, for tests: unset it otherwise");
    }
    Ok(LogLevel(handle))
}

/// Writes each entry as one line to standard error, even if quoted texts contain line ends.
struct LogWriter {
    colours: bool,
}

impl Write for LogWriter {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(entry);
        let line = strip_direction_marks(text.trim_end_matches('\n'));
        let steers = |c: char| c.is_control() && !(self.colours && c == '\u{1b}');
        io::stderr().write_all((line.replace(steers, " ") + "\n").as_bytes())?;
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Only a terminal has colours, unless the user disables them (<https://no-color.org>).
fn has_colours(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

/// Returns true if `settings` log more than `other`.
#[must_use]
pub fn is_more_verbose(settings: &Settings, other: &Settings) -> bool {
    let max_level = |settings| log_filter(settings).ok().and_then(|filter| filter.max_level_hint());
    max_level(settings) > max_level(other)
}

/// Parses `log.level`. Rejects a word that is not a level, such as `warning`: it would pass as a module name and log
/// nothing.
pub fn log_filter(settings: &Settings) -> Result<EnvFilter, BadConfig> {
    let level = &settings.log.level;
    let is_known = |word: &str| word.contains(['=', ':', '[', ']']) || word.parse::<LevelFilter>().is_ok();
    let words: Vec<&str> = level.split(',').map(str::trim).collect();
    let filter = match words.iter().find(|word| !is_known(word)) {
        Some(word) => Err(format!("{word:?} is not a level: write error, warn, info, debug or trace")),
        None => EnvFilter::try_new(words.join(",")).map_err(|error| error.to_string()),
    };
    filter.map_err(|why| BadConfig(format!("log.level ({level:?}) is not a filter: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_whose_owners_want_them() {
        assert!(has_colours(true, None) && has_colours(true, Some("".as_ref())));
        assert!(!has_colours(true, Some("1".as_ref())) && !has_colours(false, None));
    }
}
