//! The reference of settings: what config/default.toml says of each, with what the code knows of it.

use std::fmt::Write;

use twitter_updater::config::{DEFAULT, DEMO, LIVE_SETTINGS, Settings, allowed_values};
use twitter_updater::model::provider::Provider;

use super::*;

const DOCUMENT: &str = "docs/settings.md";
/// What follows this line is written by the test.
const MARK: &str = "<!-- Made from config/default.toml and the code: UPDATE_DOCS=1 cargo test --test it agree -->\n";

/// A setting as config/default.toml has it.
struct Setting {
    key: String,
    default: toml::Value,
    /// The comment before it.
    says: String,
}

/// The section's name and its comment; then its settings.
type Section = (String, String, Vec<Setting>);

/// config/default.toml without what stands before the first setting's comment.
fn sections() -> Vec<Section> {
    let body = DEFAULT.split_once("\n\n").unwrap().1;
    let mut sections: Vec<Section> = vec![("All".to_owned(), String::new(), Vec::new())];
    let mut comment = String::new();
    for line in body.lines() {
        if let Some(text) = line.strip_prefix('#') {
            let text = text.strip_prefix(' ').unwrap_or(text);
            if text != "Live." {
                writeln!(comment, "{text}").unwrap();
            }
        } else if let Some(name) = line.strip_prefix('[') {
            sections.push((name.trim_end_matches(']').to_owned(), std::mem::take(&mut comment), Vec::new()));
        } else if line.is_empty() {
            // What explains no setting (the credential's example) is said elsewhere, by hand.
            comment.clear();
        } else {
            let (section, _, settings) = sections.last_mut().unwrap();
            let (name, value) = line.parse::<toml::Table>().unwrap().into_iter().next().unwrap();
            let key = if section == "All" { name } else { format!("{section}.{name}") };
            settings.push(Setting { key, default: value, says: std::mem::take(&mut comment) });
        }
    }
    sections
}

/// The words that it may be, where it is one of a few: as the error says for another.
fn words(key: &str) -> Option<String> {
    let error = Settings::load_with(&[], None, &[(&variable(key), "?")]).err()?.to_string();
    let (_, words) = error.split_once("unknown variant `?`, expected ")?;
    let words: Vec<&str> = quoted(words).filter(|word| *word != key).collect();
    Some(format!("`{}`", words.join("`, `")))
}

/// What kind of value a setting has, and which of them it may be.
fn kind(Setting { key, default, .. }: &Setting) -> String {
    let kind = match default {
        toml::Value::Integer(_) if key.ends_with("_bytes") => "bytes".to_owned(),
        toml::Value::Integer(_) => "a whole number".to_owned(),
        toml::Value::Boolean(_) => "`true` or `false`".to_owned(),
        toml::Value::Float(_) => return allowed_values(key).unwrap(),
        toml::Value::String(text) if humantime::parse_duration(text).is_ok() => "a duration".to_owned(),
        toml::Value::String(_) if key.ends_with("_file") || key.ends_with("path") => "a file".to_owned(),
        toml::Value::String(_) => words(key).unwrap_or("a text".to_owned()),
        other => panic!("{key} = {other:?}: of which kind?"),
    };
    allowed_values(key).map_or(kind.clone(), |allowed_values| format!("{kind}, {allowed_values}"))
}

/// Its name in the environment.
fn variable(key: &str) -> String {
    format!("TWITTER_UPDATER__{}", key.to_uppercase().replace('.', "__"))
}

/// Section by section: each setting with its comment, what it may be, its default, and how it is given.
fn reference() -> String {
    let mut text = String::new();
    for (section, comment, settings) in sections().into_iter().filter(|(.., settings)| !settings.is_empty()) {
        let name = if section == "All" { "Above all sections".to_owned() } else { format!("`[{section}]`") };
        writeln!(text, "\n### {name}\n").unwrap();
        if !comment.is_empty() {
            writeln!(text, "{comment}").unwrap();
        }
        for setting in &settings {
            let Setting { key, default, says } = setting;
            let live = if LIVE_SETTINGS.contains(&key.as_str()) { "live" } else { "restart" };
            writeln!(text, "#### `{key}`\n").unwrap();
            writeln!(text, "{}", says.replace('<', "&lt;")).unwrap();
            writeln!(text, "- {}; default `{default}`; {live}; `{}`\n", kind(setting), variable(key)).unwrap();
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

#[test]
fn the_reference_is_what_the_code_makes_of_it() {
    let document = read(DOCUMENT);
    let (by_hand, made) = document.split_once(MARK).unwrap();
    let reference = reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(root().join(DOCUMENT), format!("{by_hand}{MARK}{reference}")).unwrap();
    } else {
        assert!(made == reference, "{DOCUMENT} is not what the code says: UPDATE_DOCS=1 cargo test --test it agree");
    }
    let described: BTreeSet<_> = sections().into_iter().flat_map(|(.., settings)| settings).map(|of| of.key).collect();
    assert_eq!(described, flat(DEFAULT).into_keys().collect());
}

#[test]
fn what_the_document_says_is_refused_is_refused() {
    let document = read(DOCUMENT);
    let rows = table(&document, "## What is refused");
    assert!(rows.len() > 10);
    for row in rows {
        let loaded = Settings::load_text(Path::new("a.toml"), row[0], &[]);
        let error =
            loaded.and_then(|settings| settings.credentials(&Provider::Twitter).map(drop)).unwrap_err().to_string();
        assert!(error.contains(row[1]), "{}: {error}", row[0]);
    }
}

/// `section.key` → value as text, of a TOML text.
fn flat(text: &str) -> BTreeMap<String, String> {
    fn walk(at: &str, value: &toml::Value, into: &mut BTreeMap<String, String>) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    walk(&if at.is_empty() { key.clone() } else { format!("{at}.{key}") }, value, into);
                }
            }
            toml::Value::String(text) => drop(into.insert(at.to_owned(), text.clone())),
            other => drop(into.insert(at.to_owned(), other.to_string())),
        }
    }
    let mut into = BTreeMap::new();
    walk("", &toml::Value::Table(text.parse().unwrap()), &mut into);
    into
}

/// The settings that come from the environment alone, or from a file that another names.
fn secrets() -> BTreeSet<String> {
    let masked_toml = flat(&Settings::load_with(&[], None, &[]).unwrap().masked_toml());
    masked_toml.into_iter().filter(|(_, value)| value == "(not set)").map(|(key, _)| key).collect()
}

#[test]
fn default_toml_names_every_setting_there_is() {
    let settings = Settings::load_with(&[], None, &[]).unwrap();
    let known: BTreeSet<_> = flat(&settings.masked_toml()).into_keys().filter(|key| !secrets().contains(key)).collect();
    assert_eq!(flat(DEFAULT).into_keys().collect::<BTreeSet<_>>(), known);
    for key in flat(DEMO).keys().filter(|key| !key.starts_with("mastodon.instances.")) {
        assert!(known.contains(key), "demo.toml: {key}");
    }
}

#[test]
fn the_credential_in_default_toml_is_one() {
    let example = DEFAULT.split_once("# [twitter.credentials.main]").unwrap().1;
    let lines = example.lines().skip(1).map_while(|line| line.strip_prefix("# "));
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = lines.fold("[twitter.credentials.main]".to_owned(), |text, line| format!("{text}\n{line}"));
    std::fs::write(file.path(), text).unwrap();
    let settings = Settings::load_with(&[], Some(file.path()), &[]).unwrap();
    // Complete but for the files.
    let error = settings.credentials(&Provider::Twitter).unwrap_err().to_string();
    assert!(error.contains("main.consumer_key_file /run/secrets/consumer_key cannot be read"), "{error}");
}

#[test]
fn every_setting_has_a_comment_of_its_own() {
    let settings = sections().into_iter().flat_map(|(.., settings)| settings);
    let bare: Vec<String> = settings.filter(|setting| setting.says.is_empty()).map(|setting| setting.key).collect();
    assert!(bare.is_empty(), "{bare:?}");
}

#[test]
fn what_may_change_live_is_marked() {
    let (mut section, mut marked, mut live) = (String::new(), false, Vec::new());
    for line in DEFAULT.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = format!("{}.", name.trim_end_matches(']'));
        } else if let Some((key, _)) = line.split_once(" = ").filter(|_| marked) {
            live.push(format!("{section}{key}"));
        }
        marked = line == "# Live.";
    }
    assert_eq!(live.into_iter().collect::<BTreeSet<_>>(), LIVE_SETTINGS.map(str::to_owned).into());
    let document = read(DOCUMENT);
    let listed: BTreeSet<_> = table(&document, "## Live tuning").iter().map(|row| row[0]).collect();
    assert_eq!(listed, LIVE_SETTINGS.into());
}

#[test]
fn settings_in_the_documents_are_settings() {
    let defaults = flat(DEFAULT);
    let sections: BTreeSet<_> =
        defaults.keys().filter_map(|key| Some(format!("{}.", key.split_once('.')?.0))).collect();
    let secrets_of_tables =
        ["twitter.credentials", "x.credentials", "mastodon.instances", "poll.sources", "poll.streams", "communities"]
            .map(str::to_owned)
            .to_vec();
    let secrets: Vec<String> = [secrets().into_iter().collect(), secrets_of_tables].concat();
    let mut named = 0;
    for (page, document) in documents() {
        for word in quoted(&document).filter(|word| sections.iter().any(|section| word.starts_with(section))) {
            let key = word.split([' ', ':', '=']).next().unwrap();
            let is_file = [".rs", ".md", ".lua"].iter().any(|end| key.ends_with(end));
            let known = defaults.contains_key(key) || secrets.iter().any(|secret| key.starts_with(secret));
            assert!(is_file || known, "{page}: {key} is no setting");
            named += 1;
        }
    }
    assert!(named > 40, "{named}");
}

#[test]
fn environment_variables_in_the_documents_are_settings() {
    // With a credential and an instance, as the documents name them.
    let named = [
        ("TWITTER_UPDATER__TWITTER__CREDENTIALS__MAIN__KIND", "both"),
        ("TWITTER_UPDATER__MASTODON__INSTANCES__NAME__API", "https://mastodon.social"),
    ];
    let known: BTreeSet<_> = flat(&Settings::load_with(&[], None, &named).unwrap().masked_toml()).into_keys().collect();
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    for document in documents().values().map(String::as_str).chain([DEFAULT]) {
        for (at, prefix) in document.match_indices("TWITTER_UPDATER__") {
            let name: String = document[at + prefix.len()..].chars().take_while(|c| is_part(*c)).collect();
            let key = name.to_lowercase().replace("__", ".");
            assert!(known.contains(&key), "{prefix}{name}");
        }
    }
}
