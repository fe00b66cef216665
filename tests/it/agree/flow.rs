//! The way of a post through the code is the code's.

use super::*;

/// The page that follows a post through the functions.
const LIFE: &str = "docs/internals/life-of-a-post.md";

/// Whether a file defines that function or type, or says what a type does.
fn defines(text: &str, name: &str) -> bool {
    ["fn ", "struct ", "enum ", "trait ", "impl ", "for ", "> "].iter().any(|word| {
        let definition = format!("{word}{name}");
        let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        text.match_indices(&definition).any(|(at, _)| !goes_on(&text[at + definition.len()..]))
    })
}

/// Each path exists, and each `Type::function` is in a file that its step names.
#[test]
fn each_step_names_files_and_functions_that_are_there() {
    let way = read(LIFE);
    let (mut files, mut functions) = (0, 0);
    let steps = way.split("\n").fold(vec![String::new()], |mut steps, line| {
        if line.starts_with(|c: char| c.is_ascii_digit()) {
            steps.push(String::new());
        }
        let step = steps.last_mut().unwrap();
        step.push_str(line);
        step.push('\n');
        steps
    });
    for step in &steps {
        let paths: Vec<&str> =
            quoted(step).filter(|word| word.starts_with("src/") || word.starts_with("crates/")).collect();
        let texts: Vec<String> = paths.iter().map(|path| read(path)).collect();
        files += paths.len();
        for word in quoted(step).filter(|word| word.contains("::") && !word.contains(' ')) {
            let (of, function) = word.rsplit_once("::").unwrap();
            let there = texts.iter().any(|text| defines(text, of) && defines(text, function));
            assert!(there, "{word} is in none of {paths:?}");
            functions += 1;
        }
    }
    assert!(files > 25 && functions > 25, "{files} files, {functions} functions");
    // And everywhere else on the pages for contributors.
    let mut documents = pages(INTERNALS);
    documents.insert("docs/architecture.md".to_owned(), read("docs/architecture.md"));
    for (page, document) in &documents {
        for word in quoted(document).filter(|word| word.starts_with("src/") || word.starts_with("crates/")) {
            let place = root().join(word.trim_end_matches('/'));
            assert!(place.exists(), "{page}: {word}");
        }
    }
}

/// A point at which tests kill the process is told where it is, and none is left out.
#[test]
fn each_crash_point_is_told() {
    let way = read(LIFE);
    let places = read("crates/engine/src/base/failpoint.rs");
    let points = places.split_once("POINTS: &[&str] = &[").unwrap().1.split("];").next().unwrap();
    for point in points.split('"').skip(1).step_by(2) {
        assert!(way.contains(&format!("`{point}`")), "{point} is not told");
    }
}
