//! Turns texts and variables into settings. Records errors and removes their causes, to check the rest, too.

use std::ffi::OsString;
use std::path::Path;

use config::{Config, ConfigError, File, FileFormat, Value, ValueKind};

use super::findings::{BadConfigs, Findings, remove_control_chars};
use super::{BadConfig, DEFAULT, Files, Settings, credentials, variables};

#[derive(Debug)]
pub struct ExaminedSettings {
    /// Settings with defaults in place of invalid values; `None` if that is impossible.
    pub settings: Option<Settings>,
    found: Findings,
}

impl ExaminedSettings {
    pub fn into_valid(self) -> Result<Settings, BadConfigs> {
        self.found.into_result()?;
        // Missing settings always have an error.
        self.settings.ok_or_else(|| BadConfigs(Vec::new()))
    }

    #[must_use]
    pub fn has_error_in(&self, section: &str) -> bool {
        self.found.has_error_in(section)
    }

    #[must_use]
    pub fn errors(&self) -> Vec<BadConfig> {
        self.found.all().cloned().collect()
    }
}

struct Layer {
    origin: String,
    given: Config,
}

/// Examines the settings. Later layers override earlier ones: defaults, `layers` (compiled-in texts), files, variables,
/// `providers`.
pub(super) fn examine(
    layers: &[&str],
    files: &Files,
    variables: Vec<(String, OsString)>,
    providers: Option<&str>,
) -> ExaminedSettings {
    let mut found = Findings::default();
    let settings = load_layers(layers, files, variables, providers, &mut found);
    if let Some(settings) = &settings {
        settings.check_blank_secrets(&mut found);
        settings.find_contradictions(&mut found);
    }
    ExaminedSettings { settings, found }
}

fn load_layers(
    layers: &[&str],
    files: &Files,
    variables: Vec<(String, OsString)>,
    providers: Option<&str>,
    found: &mut Findings,
) -> Option<Settings> {
    let mut defaults = Config::builder();
    for layer in std::iter::once(&DEFAULT).chain(layers) {
        defaults = defaults.add_source(File::from_str(layer, FileFormat::Toml));
    }
    let compiled_in = defaults.build();
    let defaults = found.record_error("", compiled_in.map_err(|error| BadConfig(one_line(&error))))?;
    let mut given = Vec::new();
    for (file, text) in files.texts() {
        match file_layer(file, text) {
            Ok(mut layer) => {
                for secret in credentials::find_secrets_in_file(&layer.origin, &layer.given, found) {
                    remove_from(&mut layer.given.cache, &secret);
                }
                given.push(layer);
            }
            // The contents of this file are unknown, so a missing setting need not be an error.
            Err(BadConfig(why)) => found.add("", why),
        }
    }
    let environment = Config::builder().add_source(variables::read(variables, found)).build();
    let environment = found.record_error("", environment.map_err(|error| BadConfig(one_line(&error))))?;
    given.push(Layer { origin: "environment".to_owned(), given: environment });
    for layer in &mut given {
        check_numbers(&defaults.cache, "", layer, found);
    }
    deserialize_layers(&defaults, &mut given, providers, found)
}

fn file_layer(file: &Path, text: &str) -> Result<Layer, BadConfig> {
    // Parsed here first for an error without a quotation of the line: it may contain a password.
    toml::from_str::<toml::Table>(text).map_err(|error| not_toml(file, text, &error))?;
    let origin = file.display().to_string();
    let given = Config::builder().add_source(File::from_str(text, FileFormat::Toml)).build();
    let given = given.map_err(|error| BadConfig(format!("{origin}: {}", one_line(&error))))?;
    Ok(Layer { origin, given })
}

/// Merges all layers. Records each invalid value, removes it from the uppermost layer that has it, and tries again.
fn deserialize_layers(
    defaults: &Config,
    layers: &mut [Layer],
    providers: Option<&str>,
    found: &mut Findings,
) -> Option<Settings> {
    loop {
        let mut all = Config::builder().add_source(defaults.clone());
        for layer in layers.iter() {
            all = all.add_source(layer.given.clone());
        }
        let all = all.set_override_option("providers", providers).and_then(|all| all.build());
        let read = all.and_then(|all| Ok((all.clone().try_deserialize::<Settings>()?, all)));
        let error = match read {
            Ok((mut settings, all)) => {
                settings.masked = settings.masked_values(&all);
                return Some(settings);
            }
            Err(error) => error,
        };
        let place = error_place(&error);
        let Some(origin) = remove_setting(layers, &place) else {
            found.add("", one_line(&error));
            return None;
        };
        // A field that is missing because it was removed is not a second error.
        if !found.has_error_at(&place) {
            found.add(place, format!("{origin}: {}", one_line(&error)));
        }
    }
}

/// Removes the setting, or else its section, from the uppermost layer that has it. Returns that layer.
fn remove_setting(layers: &mut [Layer], place: &str) -> Option<String> {
    let mut place = place.split('[').next()?;
    loop {
        let has = layers
            .iter_mut()
            .rev()
            .find_map(|layer| remove_from(&mut layer.given.cache, place).then_some(&layer.origin));
        if let Some(origin) = has {
            return Some(origin.clone());
        }
        place = place.rsplit_once('.')?.0;
    }
}

/// Removes the setting; returns true if it existed. A name within may contain dots.
fn remove_from(value: &mut Value, place: &str) -> bool {
    let ValueKind::Table(table) = &mut value.kind else { return false };
    if table.remove(place).is_some() {
        return true;
    }
    let mut parts = place.match_indices('.').map(|(at, _)| (&place[..at], &place[at + 1..]));
    parts.any(|(name, rest)| table.get_mut(name).is_some_and(|value| remove_from(value, rest)))
}

fn error_place(error: &ConfigError) -> String {
    let place = match error {
        ConfigError::Type { key, .. } | ConfigError::At { key, .. } => key.clone().unwrap_or_default(),
        ConfigError::NotFound(key) => key.clone(),
        _ => String::new(),
    };
    let said = error.to_string();
    match said.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next()) {
        Some(field) if place.is_empty() => field.to_owned(),
        Some(field) => format!("{place}.{field}"),
        None => place,
    }
}

/// Records and removes values that are not numbers but have a number as default. The `config` crate rounds fractions,
/// and accepts `true` for 1.
fn check_numbers(default: &Value, at: &str, layer: &mut Layer, found: &mut Findings) {
    let (kind, like) = match &default.kind {
        ValueKind::Table(table) => {
            for (name, value) in table {
                let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                check_numbers(value, &at, layer, found);
            }
            return;
        }
        ValueKind::I64(like) => ("a whole number", like.to_string()),
        ValueKind::Float(like) => ("a number", like.to_string()),
        _ => return,
    };
    let Some(value) = get(&layer.given.cache, at) else { return };
    let is_whole = kind == "a whole number";
    let (is_one, shown) = match &value.kind {
        ValueKind::Boolean(value) => (false, format!(" ({value})")),
        ValueKind::Float(value) => (!is_whole, format!(" ({value})")),
        // Not shown: it may be a misplaced secret.
        ValueKind::String(text) if is_whole => (text.parse::<i128>().is_ok(), String::new()),
        ValueKind::String(text) => (text.parse::<f64>().is_ok(), String::new()),
        _ => return,
    };
    if !is_one {
        found.add(at, format!("{}: {at}{shown} must be {kind}, like {like}", layer.origin));
        remove_from(&mut layer.given.cache, at);
    }
}

fn get<'a>(value: &'a Value, place: &str) -> Option<&'a Value> {
    place.split('.').try_fold(value, |value, name| match &value.kind {
        ValueKind::Table(table) => table.get(name),
        _ => None,
    })
}

/// Names the line without quoting it.
fn not_toml(file: &Path, text: &str, error: &toml::de::Error) -> BadConfig {
    let line = error.span().map_or(1, |span| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count());
    let why = remove_control_chars(error.message().lines().next().unwrap_or_default());
    BadConfig(format!("{} is not TOML, line {line}: {why}", file.display()))
}

/// Formats an error of the `config` crate in one line, without a misplaced text: it may be a password.
fn one_line(error: &ConfigError) -> String {
    let mut text = remove_control_chars(&error.to_string());
    if text.contains("expected a duration") {
        text += "; write it like 500ms, 5s or 18m";
    }
    match (text.find("string \""), text.rfind("\", expected")) {
        (Some(start), Some(end)) if start < end => format!("{}a text{}", &text[..start], &text[end + 1..]),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(file: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let examined = examine(&[], &Files::from_text(Path::new("a.toml"), file), variables, None);
        examined.errors().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn everything_that_is_wrong_is_found_at_once() {
        let file = "colour = 1\n[updater]\nlees = \"5s\"\nbuffer_ttl = \"soon\"\nconcurrency = 1.5\nlookahead = 2.0\n\
                    [twitter]\nbearer_token = \"canary\"\n\
                    [queue]\nbackend = \"rabbit\"\nredis = \"canary\"\n\
                    [poll.sources.a]\nkind = \"lists\"\n[poll.sources.b]\nkind = \"search\"\n\
                    [poll.streams.c]\nprovider = \"x\"\nfills = \"a\"\n";
        let variables =
            [("TWITTER_UPDATER__LOOKUP__TIMEOUT", "10"), ("TWITTER_UPDATER_OPS_TOKEN", "canary"), ("HOME", "/")];
        let all = all(file, &variables);
        for says in [
            "a.toml: unknown field `colour`",
            "a.toml: unknown field `lees`",
            "a.toml: invalid value: a text, expected a duration for key `updater.buffer_ttl`",
            "a.toml: updater.concurrency (1.5) must be a whole number, like 4",
            "updater.lookahead (2) must be",
            "a.toml: twitter.bearer_token has no place in a configuration file",
            "`rabbit`, expected `embedded` or `redis`",
            "for key `queue.redis`",
            "for key `poll.sources.a.kind`",
            "poll.sources.b.query is missing",
            "environment: invalid value: a text, expected a duration for key `lookup.timeout`",
            "environment: TWITTER_UPDATER_OPS_TOKEN is not read: write TWITTER_UPDATER__OPS__TOKEN",
        ] {
            assert_eq!(all.iter().filter(|line| line.contains(says)).count(), 1, "{says}: {all:#?}");
        }
        // No error follows from another, spans two lines or shows a secret.
        assert_eq!(all.len(), 12, "{all:#?}");
        assert!(all.iter().all(|line| !line.contains('\n') && !line.contains("canary")), "{all:#?}");
    }

    #[test]
    fn a_number_is_neither_a_fraction_nor_a_word() {
        for (file, says) in [
            ("[updater]\nconcurrency = 1.5", "a.toml: updater.concurrency (1.5) must be a whole number, like 4"),
            ("[updater]\nconcurrency = 2.0", "updater.concurrency (2) must be a whole number"),
            ("[updater]\nconcurrency = true", "updater.concurrency (true) must be a whole number"),
            ("[updater]\nconcurrency = \"on\"", "updater.concurrency must be a whole number"),
            ("[updater]\nlookahead = true", "updater.lookahead (true) must be a number, like 0.5"),
            ("[x]\nreads = 0.5", "x.reads (0.5) must be a whole number"),
        ] {
            let all = all(file, &[]);
            assert!(all.len() == 1 && all[0].contains(says), "{file}: {all:?}");
        }
        for value in ["1.5", "yes", "", "4 "] {
            let all = all("", &[("TWITTER_UPDATER__UPDATER__CONCURRENCY", value)]);
            let says = "environment: updater.concurrency must be a whole number, like 4";
            assert!(all.len() == 1 && all[0].contains(says), "{value:?}: {all:?}");
        }
        assert!(all("[updater]\nconcurrency = \"9\"\nlookahead = 0\n", &[]).is_empty());
    }

    #[test]
    fn a_file_that_is_not_toml_is_all_that_is_said_of_it() {
        let all = all("[updater\n", &[("TWITTER_UPDATER__UPDATER__LEES", "5s")]);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0].contains("a.toml is not TOML, line 1") && all[1].contains("environment: unknown field `lees`"));
    }
}
