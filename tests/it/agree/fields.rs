//! The table of what is stored, field by field: its columns are the table's, its fields those that are read.

use std::collections::BTreeSet;
use std::path::Path;

use super::{read, root, table};

/// Columns of `tweet` that say how a post is kept, not what it says.
const OF_OURS: [&str; 13] = [
    "namespace",
    "state",
    "raw",
    "first_seen",
    "checked_at",
    "changed_at",
    "next_due",
    "lookups",
    "misses",
    "missing_since",
    "missing_reason",
    "reason",
    "recent",
];

/// The sources below that path, of a module and its folder, without their tests.
fn sources(module: &str) -> String {
    fn add(path: &Path, all: &mut String) {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            entries.for_each(|entry| add(&entry, all));
        } else if let Ok(text) = std::fs::read_to_string(path) {
            *all += text.split("#[cfg(test)]").next().unwrap();
        }
    }
    let mut all = String::new();
    add(&root().join(format!("{module}.rs")), &mut all);
    add(&root().join(module), &mut all);
    assert!(!all.is_empty(), "{module}");
    all
}

/// Whether a word stands in a text as a whole.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

#[test]
fn what_is_stored_is_the_table_field_by_field() {
    let document = read("docs/providers.md");
    let rows = table(&document, "## What is stored, field by field");
    let statement = read("crates/store/src/sql/posts/tweet.sql");
    let columns = statement.strip_prefix("SELECT ").unwrap().split_once("\nFROM").unwrap().0;
    let stored: BTreeSet<&str> = columns.split(',').map(str::trim).collect();
    let mut told: BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
    told.extend(OF_OURS);
    told.insert("unreadable");
    assert_eq!(told, stored);

    // Each field that a cell names is one that the provider's reading names, too.
    let mut named = 0;
    for (column, module) in [(1, "twitter_v1"), (2, "x_v2"), (3, "mastodon"), (4, "bluesky")] {
        let source = sources(&format!("crates/networks/src/providers/{module}"));
        for row in &rows {
            for field in row[column].split('`').flat_map(|part| part.split('.')).filter(|word| is_field(word)) {
                // In Rust a field is written with underscores, and renamed.
                let snake: String = field
                    .chars()
                    .flat_map(|c| if c.is_ascii_uppercase() { vec!['_', c.to_ascii_lowercase()] } else { vec![c] })
                    .collect();
                let is_read = has_word(&source, field) || has_word(&source, &snake);
                assert!(is_read, "{} of {module}: {field} is read nowhere", row[0]);
                named += 1;
            }
        }
    }
    assert!(named > 40, "{named}");
}

/// A field's name, and not a word of the sentence about it.
fn is_field(word: &str) -> bool {
    let is_name = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name && (word.contains('_') || word.bytes().skip(1).any(|byte| byte.is_ascii_uppercase())) && word != "ZZ"
}
