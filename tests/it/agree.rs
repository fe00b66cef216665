//! What the documents state is what the code does.

mod data;
mod fields;
mod flow;
mod links;
mod settings;
mod sizes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::CommandFactory;
use twitter_updater::app::cli::{Cli, exit};

use crate::support::files;

const README: &str = include_str!("../../README.md");
const COMMANDS: &str = include_str!("../../docs/commands.md");
const REDIS: &str = include_str!("../../docs/redis.md");
const RELIABILITY: &str = include_str!("../../docs/reliability.md");
const BENCHMARKS: &str = include_str!("../../docs/benchmarks.md");
const CONTRIBUTING: &str = include_str!("../../CONTRIBUTING.md");
const KEYS: &str = include_str!("../../crates/engine/src/queue/keys.rs");
const LIB: &str = include_str!("../../src/lib.rs");

/// Folder of the pages for contributors.
const INTERNALS: &str = "docs/internals";

/// README and the pages in docs/ and docs/internals/, by their paths.
fn documents() -> BTreeMap<String, String> {
    let mut documents: BTreeMap<_, _> =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|path| (path.to_owned(), read(path))).into();
    documents.extend(pages("docs"));
    documents.extend(pages(INTERNALS));
    documents
}

/// Pages of a folder, by their paths.
fn pages(folder: &str) -> BTreeMap<String, String> {
    let names = std::fs::read_dir(root().join(folder)).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let paths = names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}"));
    paths.map(|path| (path.clone(), read(&path))).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
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
    let listed: BTreeSet<u8> = table(COMMANDS, "## Exit codes").iter().map(|row| row[0].parse().unwrap()).collect();
    assert_eq!(listed, [0, exit::FAILED, exit::USAGE, exit::INPUT, exit::UNAVAILABLE].into());
}

#[test]
fn the_redis_keys_are_those_of_keys_rs() {
    let listed: BTreeMap<_, _> =
        table(REDIS, "## Keys").iter().map(|row| (row[0].to_owned(), row[1].to_owned())).collect();
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
    tests_below(&root().join("tests/it"), &mut names);
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
            let mut there = files::sources().into_iter().map(|folder| folder.join(place));
            assert!(Path::new(place).exists() || there.any(|path| path.exists()), "{word}");
            places += 1;
        }
    }
    assert!(places > 15 && targets > 4, "{places} places, {targets} targets");
}
