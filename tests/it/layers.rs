//! Imports go one way. A module that needs another of its own height, or one above it, is in the wrong
//! place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What each module may import. Everything else is a mistake, also a module that is not named here.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("chance", &[]),
    ("clock", &[]),
    ("crash", &[]),
    ("live", &[]),
    ("retry", &["chance"]),
    ("shutdown", &[]),
    ("health", &["clock", "shutdown"]),
    ("tweet", &["clock"]),
    ("provider", &[]),
    ("lane", &["clock"]),
    ("lateness", &["clock"]),
    ("metrics", &["clock", "lateness"]),
    ("figures", &["clock"]),
    ("tweet_age", &["clock", "lane", "tweet"]),
    ("config", &["backend", "credential", "lookup", "provider", "tweet_age"]),
    ("credential", &["backend", "chance", "clock", "live"]),
    ("backend", &["clock"]),
    ("queue", &["backend", "clock", "lane", "lateness"]),
    ("wave", &["clock", "queue"]),
    ("lookup", &["clock", "credential", "provider", "tweet"]),
    ("store", &["backend", "clock", "crash", "tweet"]),
    ("simulator", &["clock", "provider", "tweet"]),
    ("worker", &["chance", "clock", "crash", "credential", "health", "live", "metrics", "queue", "retry", "shutdown"]),
    (
        "starter",
        &[
            "chance",
            "clock",
            "crash",
            "figures",
            "health",
            "live",
            "queue",
            "retry",
            "shutdown",
            "store",
            "tweet",
            "tweet_age",
        ],
    ),
    (
        "poll",
        &[
            "chance",
            "clock",
            "crash",
            "credential",
            "lane",
            "live",
            "lookup",
            "metrics",
            "provider",
            "queue",
            "rarely",
            "retry",
            "shutdown",
            "starter",
            "store",
            "tweet",
            "worker",
        ],
    ),
    (
        "ops",
        &[
            "clock",
            "credential",
            "dead",
            "figures",
            "health",
            "lateness",
            "live",
            "lookup",
            "metrics",
            "overload",
            "plan",
            "queue",
            "shutdown",
            "sources",
            "status",
            "store",
            "tweet",
            "tweet_age",
            "wave",
        ],
    ),
    ("dead", &["clock", "figures", "queue", "starter", "store", "tweet"]),
    ("sources", &["clock", "figures", "live", "lookup", "poll", "provider", "queue", "store"]),
    ("status", &["accounts", "clock", "credential", "figures", "lookup", "overload", "plan", "queue", "sources"]),
    ("accounts", &["clock", "credential", "figures", "lookup", "plan"]),
    ("overload", &["credential", "figures", "lookup", "plan", "queue"]),
    ("picture", &["backend"]),
    ("rarely", &["clock"]),
    ("plan", &["clock", "figures", "lookup", "tweet_age"]),
    (
        "updater",
        &[
            "chance",
            "clock",
            "crash",
            "credential",
            "live",
            "lookup",
            "metrics",
            "provider",
            "queue",
            "rarely",
            "store",
            "tweet",
            "tweet_age",
            "wave",
            "worker",
        ],
    ),
    (
        "app",
        &[
            "backend",
            "chance",
            "clock",
            "config",
            "credential",
            "dead",
            "health",
            "lateness",
            "live",
            "lookup",
            "metrics",
            "ops",
            "picture",
            "plan",
            "poll",
            "provider",
            "queue",
            "retry",
            "shutdown",
            "simulator",
            "sources",
            "starter",
            "store",
            "tweet_age",
            "updater",
            "wave",
            "worker",
        ],
    ),
    (
        "demo",
        &[
            "app",
            "clock",
            "config",
            "health",
            "live",
            "metrics",
            "ops",
            "provider",
            "queue",
            "shutdown",
            "simulator",
            "starter",
            "store",
            "tweet",
            "tweet_age",
            "updater",
        ],
    ),
    (
        "cli",
        &[
            "accounts",
            "app",
            "clock",
            "config",
            "dead",
            "demo",
            "live",
            "lookup",
            "ops",
            "plan",
            "provider",
            "queue",
            "shutdown",
            "simulator",
            "sources",
            "starter",
            "status",
            "store",
        ],
    ),
    ("lib", &[]),
    ("main", &[]),
];

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}

/// The modules named after `crate::`, outside of comments.
fn imports(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for (at, _) in line.match_indices("crate::") {
            let name: String = line[at + 7..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            if !name.is_empty() {
                found.insert(name);
            }
        }
        assert!(!line.contains("use crate::{"), "one import a line, so that this test can read it: {line}");
    }
    found
}

#[test]
fn imports_go_one_way() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let may: BTreeMap<_, _> = MAY_IMPORT.iter().copied().collect();
    let mut mistakes = Vec::new();
    for file in &files {
        let name = file.strip_prefix(&src).unwrap().components().next().unwrap().as_os_str().to_str().unwrap();
        let module = name.strip_suffix(".rs").unwrap_or(name);
        let Some(allowed) = may.get(module) else {
            mistakes.push(format!("{module} is not in the table"));
            continue;
        };
        for import in imports(&std::fs::read_to_string(file).unwrap()) {
            if import != module && !allowed.contains(&import.as_str()) {
                mistakes.push(format!("{} imports {import}", file.strip_prefix(&src).unwrap().display()));
            }
        }
    }
    assert!(files.len() > 30, "the sources were found");
    assert!(mistakes.is_empty(), "{mistakes:#?}");
}
