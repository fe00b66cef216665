//! The documents for contributors stay short.

use super::*;

/// Words of the map, the architecture and the guide together.
const MOST_WORDS: usize = 6_000;
/// Words of a page of docs/internals/.
const MOST_WORDS_OF_A_PAGE: usize = 1_000;

fn count_words(text: &str) -> usize {
    text.split_whitespace().count()
}

#[test]
fn map_architecture_and_guide_are_short_together() {
    let words = [LIB, CONTRIBUTING, &read("docs/architecture.md")].map(count_words);
    let sum: usize = words.iter().sum();
    assert!(sum <= MOST_WORDS, "{sum} words: {words:?}");
}

#[test]
fn each_page_of_internals_is_short_and_in_the_index() {
    let pages = pages(INTERNALS);
    let (indexes, pages): (Vec<_>, Vec<_>) = pages.iter().partition(|(page, _)| page.ends_with("/README.md"));
    let [(_, index)] = indexes[..] else { panic!("{} indexes", indexes.len()) };
    assert!(pages.len() >= 10, "{} pages", pages.len());
    for (page, text) in &pages {
        let words = count_words(text);
        assert!(words <= MOST_WORDS_OF_A_PAGE, "{page}: {words} words");
        let link = format!("]({})", page.rsplit('/').next().unwrap());
        let lines = index.lines().filter(|line| line.contains(&link)).count();
        assert_eq!(lines, 1, "{page} has one line in the index");
    }
}
