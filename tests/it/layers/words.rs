//! The engine speaks of ids, items and APIs: of no post, and of no network.

use std::path::PathBuf;

use super::folder_of;
use crate::support::files;

const WORDS: &[&str] = &["tweet", "tweets", "post", "posts", "provider", "providers", "twitter", "mastodon", "bluesky"];

/// The program's own name: in paths of documentation, the environment's variables, keys and functions of Redis.
const PROGRAM: &[&str] = &["twitter_updater", "twitter-updater", "TWITTER_UPDATER"];

/// The words of a line, in lower case: `postsSeen`, `posts_seen` and `POSTS_SEEN` are two each.
fn words(line: &str) -> Vec<String> {
    let line = PROGRAM.iter().fold(line.to_owned(), |line, name| line.replace(name, " "));
    let letters: Vec<char> = line.chars().collect();
    let mut words = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        let is = |at: usize, of: fn(&char) -> bool| letters.get(at).is_some_and(of);
        let before = at.wrapping_sub(1);
        // `aB`, and the `B` of `AABb`.
        let is_hump = letter.is_uppercase()
            && (is(before, |c| c.is_lowercase())
                || is(before, |c| c.is_uppercase()) && is(at + 1, |c| c.is_lowercase()));
        if is_hump || !letter.is_alphabetic() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphabetic()) {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

#[test]
fn the_engine_names_no_network_and_no_post() {
    for said in
        ["getTweetDelay", "HTTPPost", "a post's", "posts_seen", "STREAM_POSTS", "twitter_updater_tweet", "{twitter}"]
    {
        assert!(words(said).iter().any(|word| WORDS.contains(&&**word)), "{said}: {:?}", words(said));
    }
    for said in ["twitter_updater::engine", "postpone", "TWITTER_UPDATER_POISON"] {
        assert!(!words(said).iter().any(|word| WORDS.contains(&&**word)), "{said}: {:?}", words(said));
    }
    let engine = folder_of("engine");
    let mut found: Vec<PathBuf> =
        ["src", "examples"].iter().flat_map(|part| files::below(&engine.join(part))).collect();
    found.extend(["README.md", "Cargo.toml"].map(|file| engine.join(file)));
    assert!(found.len() > 90, "the sources were found");
    found.sort();
    let mut mistakes = Vec::new();
    for file in found {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(&engine).unwrap().display().to_string();
        // A file's name is read as its line 0.
        for (at, line) in std::iter::once(name.as_str()).chain(text.lines()).enumerate() {
            let said = words(line).into_iter().filter(|word| WORDS.contains(&&**word));
            mistakes.extend(said.map(|word| format!("{name}:{at}: {word}")));
        }
    }
    assert!(mistakes.is_empty(), "{mistakes:#?}");
}
