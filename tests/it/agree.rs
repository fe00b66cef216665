//! What the documents state is what the code does.

use std::collections::{BTreeMap, BTreeSet};

use clap::CommandFactory;
use twitter_updater::cli::{Cli, exit};
use twitter_updater::config::{DEFAULT, DEMO, LIVE, Settings};

const README: &str = include_str!("../../README.md");
const ARCHITECTURE: &str = include_str!("../../docs/architecture.md");
const OPERATIONS: &str = include_str!("../../docs/operations.md");
const RELIABILITY: &str = include_str!("../../docs/reliability.md");
const BENCHMARKS: &str = include_str!("../../docs/benchmarks.md");
const CONTRIBUTING: &str = include_str!("../../CONTRIBUTING.md");
const KEYS: &str = include_str!("../../src/queue/keys.rs");
const LIB: &str = include_str!("../../src/lib.rs");

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

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The rows of the table under a heading, as cells without backticks.
fn table<'a>(text: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let after = text.split_once(heading).unwrap_or_else(|| panic!("no {heading}")).1;
    let rows = after.lines().skip_while(|line| !line.starts_with("|--")).skip(1);
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`')).collect())
        .collect()
}

#[test]
fn default_toml_names_every_setting_there_is() {
    let settings = Settings::load_with(&[], None, &[]).unwrap();
    let mut known: BTreeSet<_> = flat(&settings.shown()).into_keys().collect();
    for secret in ["twitter.bearer_token", "starter.bearer_token"] {
        assert!(known.remove(secret), "{secret} comes from the environment alone");
    }
    assert_eq!(flat(DEFAULT).into_keys().collect::<BTreeSet<_>>(), known);
    for key in flat(DEMO).keys() {
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
    let error = settings.credentials().unwrap_err().to_string();
    assert!(error.contains("main.consumer_key_file /run/secrets/consumer_key cannot be read"), "{error}");
}

#[test]
fn every_setting_has_a_comment() {
    let mut commented = false;
    let mut bare = Vec::new();
    for line in DEFAULT.lines() {
        if line.starts_with('#') {
            commented = true;
        } else if line.is_empty() || line.starts_with('[') {
            commented = false;
        } else if !commented {
            bare.push(line);
        }
    }
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
    assert_eq!(live.into_iter().collect::<BTreeSet<_>>(), LIVE.map(str::to_owned).into());
    let listed: BTreeSet<_> = table(README, "## Live tuning").iter().map(|row| row[0]).collect();
    assert_eq!(listed, LIVE.into());
}

#[test]
fn the_readme_names_settings_with_their_defaults() {
    let defaults = flat(DEFAULT);
    let rows = table(README, "## Settings");
    assert!(rows.len() >= 8);
    for row in rows {
        assert_eq!(defaults.get(row[0]).map(String::as_str), Some(row[1]), "{row:?}");
    }
    let sections = ["updater.", "queue.", "store.", "twitter.", "rebuild.", "log.", "simulator.", "http.", "starter."];
    for document in [README, ARCHITECTURE, OPERATIONS] {
        for word in quoted(document).filter(|word| sections.iter().any(|section| word.starts_with(section))) {
            let key = word.split([' ', ':', '=']).next().unwrap();
            let of_the_code = key.ends_with(".rs");
            assert!(of_the_code || defaults.contains_key(key), "{key} is no setting");
        }
    }
}

#[test]
fn environment_variables_in_the_documents_are_settings() {
    // With a credential, as the documents name one.
    let main = ("TWITTER_UPDATER__TWITTER__CREDENTIALS__MAIN__KIND", "both");
    let known: BTreeSet<_> = flat(&Settings::load_with(&[], None, &[main]).unwrap().shown()).into_keys().collect();
    let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
    for document in [README, DEFAULT] {
        for (at, prefix) in document.match_indices("TWITTER_UPDATER__") {
            let name: String = document[at + prefix.len()..].chars().take_while(|c| is_part(*c)).collect();
            let key = name.to_lowercase().replace("__", ".");
            assert!(known.contains(&key), "{prefix}{name}");
        }
    }
}

#[test]
fn the_readme_names_every_subcommand_and_no_other() {
    let command = Cli::command();
    let known: BTreeSet<_> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let mut named = BTreeSet::new();
    for pattern in ["twitter-updater ", "cargo run --release -- "] {
        for (at, _) in README.match_indices(pattern) {
            let word: String = README[at + pattern.len()..].chars().take_while(char::is_ascii_lowercase).collect();
            if !word.is_empty() {
                named.insert(word);
            }
        }
    }
    assert_eq!(named, known);
    let nested = command.get_subcommands().flat_map(clap::Command::get_subcommands);
    for sub in command.get_subcommands().chain(nested) {
        assert!(sub.get_about().is_some(), "{} says nothing of itself", sub.get_name());
        for argument in sub.get_arguments().filter(|argument| argument.get_id() != "help") {
            assert!(argument.get_help().is_some(), "{} {}", sub.get_name(), argument.get_id());
        }
    }
}

#[test]
fn the_figures_are_those_that_were_measured() {
    let recorded = |name: &str| std::fs::read_to_string(format!("docs/benchmarks/{name}.txt")).unwrap();
    for row in table(README, "## How fast") {
        let bench = recorded(row[3].strip_prefix("cargo bench -- ").unwrap());
        let figure = row[1].split("**").nth(1).unwrap();
        assert!(bench.split_whitespace().any(|word| word == figure), "{figure} is not in the record of {:?}", row[3]);
    }
    // A row's figures stand in one line of the record.
    for (heading, bench) in [
        ("## Queue cycle", "queue_cycle"),
        ("The same work elsewhere", "elsewhere"),
        ("`Queue::schedule` through", "enqueue"),
        ("`twitter-updater enqueue --no-store", "enqueue"),
    ] {
        let record = recorded(bench);
        for row in table(BENCHMARKS, heading) {
            let figures: Vec<&str> = row.iter().map(|cell| cell.trim_matches('*')).collect();
            let in_line = |line: &&str| {
                figures.iter().filter(|figure| line.split_whitespace().any(|word| word == **figure)).count()
            };
            let most = record.lines().map(|line| in_line(&line)).max().unwrap();
            let rounded = figures.iter().filter(|figure| figure.contains('.')).count();
            assert!(most + rounded >= figures.len(), "{figures:?} is in no line of the record of {bench}");
        }
    }
}

#[test]
fn the_exit_codes_are_those_of_the_code() {
    let listed: BTreeSet<u8> = table(README, "## Exit codes").iter().map(|row| row[0].parse().unwrap()).collect();
    assert_eq!(listed, [0, exit::FAILED, exit::USAGE, exit::INPUT, exit::UNAVAILABLE].into());
}

#[test]
fn the_redis_keys_are_those_of_keys_rs() {
    let listed: BTreeMap<_, _> = table(README, "## Redis, for people with redis-cli")
        .iter()
        .map(|row| (row[0].to_owned(), row[1].to_owned()))
        .collect();
    let documented: BTreeMap<_, _> = KEYS
        .lines()
        .filter_map(|line| line.strip_prefix("//! | `"))
        .map(|row| {
            let (key, rest) = row.split_once("` | ").unwrap();
            (key.to_owned(), rest.split(" | ").next().unwrap().to_owned())
        })
        .collect();
    assert!(documented.len() >= 15);
    assert_eq!(listed, documented);
}

/// The modules and functions below a folder of tests: `faults`, `faults::crash`, `on_redis` …
fn tests_below(folder: &std::path::Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        names.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
        if path.is_dir() {
            tests_below(&path, names);
        } else {
            let text = std::fs::read_to_string(&path).unwrap();
            for word in ["fn ", "mod "] {
                for (at, _) in text.match_indices(word) {
                    let rest = &text[at + word.len()..];
                    names.insert(rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect());
                }
            }
        }
    }
}

#[test]
fn the_tests_that_hold_the_invariants_exist() {
    let mut names = BTreeSet::new();
    tests_below(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it"), &mut names);
    let invariants = LIB.split_once("# Invariants").unwrap().1;
    let mut checked = 0;
    for text in [invariants, RELIABILITY] {
        for name in quoted(text).filter(|name| name.contains("::") && !name.contains(' ')) {
            for part in name.split("::") {
                assert!(names.contains(part), "{name}: there is no test or module {part}");
            }
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked}");
}

#[test]
fn the_guide_for_contributors_names_places_and_targets_that_exist() {
    let makefile = std::fs::read_to_string("Makefile").unwrap();
    let (mut places, mut targets) = (0, 0);
    for word in quoted(CONTRIBUTING) {
        if let Some(target) = word.strip_prefix("make ") {
            assert!(makefile.lines().any(|line| line.starts_with(&format!("{target}:"))), "make {target}");
            targets += 1;
        } else if word.contains('/') && !word.contains(' ') {
            let place = word.split('*').next().unwrap();
            let there = [place.to_owned(), format!("src/{place}")];
            assert!(there.iter().any(|path| std::path::Path::new(path).exists()), "{word}");
            places += 1;
        }
    }
    assert!(places > 15 && targets > 4, "{places} places, {targets} targets");
}
