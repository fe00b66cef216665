//! Habits of speech that docs/glossary.md and CONTRIBUTING.md exclude, counted by line in the sources, the default configuration and the help
//! texts. The numbers may only fall.

use std::path::{Path, PathBuf};

use crate::support::files;

/// A habit: its name, a test of a line, and the number of lines that still have it.
struct Habit {
    name: &'static str,
    has: fn(&str) -> bool,
    allowed: usize,
}

const HABITS: [Habit; 7] = [
    Habit { name: "nobody, somebody, anybody, whoever", has: names_a_vague_person, allowed: 3 },
    Habit { name: "told (reported, stated, returned)", has: |line| parts(line).any(|part| part == "told"), allowed: 0 },
    Habit {
        name: "so many, so much, so long (the number of, up to N)",
        has: |line| ["so many", "so much", "so long"].iter().any(|phrase| has_phrase(line, phrase)),
        allowed: 0,
    },
    Habit {
        name: "a comment that opens with What, Who, Whose, Where, Whether or How",
        has: opens_with_a_clause,
        allowed: 0,
    },
    Habit {
        name: "anew, mend (again, fix)",
        has: |line| parts(line).any(|part| matches!(&*part, "anew" | "mend" | "mends" | "mended")),
        allowed: 2,
    },
    Habit {
        name: "kept away, begun, by itself (blocked, started, automatically)",
        has: |line| {
            parts(line).any(|part| part == "begun") || has_phrase(line, "kept away") || has_phrase(line, "by itself")
        },
        allowed: 0,
    },
    Habit {
        name: "believe (confirm, trust, accept)",
        has: |line| parts(line).any(|part| matches!(&*part, "believe" | "believes" | "believed" | "belief")),
        allowed: 0,
    },
];

fn names_a_vague_person(line: &str) -> bool {
    parts(line).any(|part| matches!(&*part, "nobody" | "somebody" | "anybody" | "whoever" | "whosever"))
}

fn opens_with_a_clause(line: &str) -> bool {
    let comment = line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).trim_start());
    let first = comment.and_then(|comment| comment.split(' ').next()).unwrap_or_default();
    matches!(first, "What" | "Who" | "Whose" | "Where" | "Whether" | "How")
}

/// The words of a line in lower case, also those within names.
fn parts(line: &str) -> impl Iterator<Item = String> + '_ {
    line.split(|c: char| !c.is_ascii_alphabetic()).filter(|part| !part.is_empty()).map(str::to_ascii_lowercase)
}

fn has_phrase(line: &str, phrase: &str) -> bool {
    let words: Vec<String> = parts(line).collect();
    let phrase: Vec<&str> = phrase.split(' ').collect();
    words.windows(phrase.len()).any(|window| window == phrase)
}

#[test]
fn habits_of_speech_only_decrease() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = files::source_files(&["rs", "sql", "lua"]);
    paths.extend(files::ending_in(&["toml"], &root.join("config")));
    paths.push(root.join("docs/commands.md"));
    let texts: Vec<(PathBuf, String)> =
        paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect();
    let mut wrong = Vec::new();
    for Habit { name, has, allowed } in HABITS {
        let lines = || texts.iter().flat_map(|(path, text)| text.lines().enumerate().map(move |line| (path, line)));
        let found: Vec<_> = lines().filter(|(_, (_, line))| has(line)).collect();
        println!("{name}: {} lines", found.len());
        if found.len() < allowed {
            wrong.push(format!("{name}: {} lines, {allowed} are allowed: lower the number", found.len()));
        } else if found.len() > allowed {
            let places =
                found.iter().map(|(path, (at, line))| format!("  {}:{}: {}", path.display(), at + 1, line.trim()));
            let places: Vec<String> = places.collect();
            wrong.push(format!("{name}: {} lines, {allowed} are allowed:\n{}", found.len(), places.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_habit_is_recognized_within_names_and_not_within_other_words() {
    let has = |name: &str, line: &str| HABITS.iter().any(|habit| habit.name.starts_with(name) && (habit.has)(line));
    assert!(has("told", "let told_by = 1;") && has("told", "struct Told;") && !has("told", "let threshold = 1;"));
    assert!(has("so many", "so many ids") && !has("so many", "also many ids"));
    assert!(
        has("a comment", "    /// How many ids.")
            && !has("a comment", "/// However")
            && !has("a comment", "let x = 1;")
    );
    assert!(has("nobody", "Nobody asks") && has("kept", "is kept away") && !has("kept", "kept"));
    assert!(has("believe", "is_believed(") && has("anew", "mended"));
}
