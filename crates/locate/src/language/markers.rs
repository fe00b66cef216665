//! Words that only one variant has: `autocarro`, `ônibus`, laughter, `está fazendo` and `está a fazer`.

use std::collections::{HashMap, HashSet};

use super::words::remove_accent;

#[derive(Debug, Clone, PartialEq)]
pub struct Marker {
    pub label: usize,
    /// Log-odds that the marker adds for its label, > 0.
    pub weight: f32,
    /// One to three words, lower case, without accents. `{estar}` is any form of the verb, `*ndo` any gerund, `*r` any infinitive.
    pub words: String,
}

/// Forms of *estar*, including the short ones of posts.
const ESTAR: &[&str] = &[
    "esta", "estao", "estou", "estas", "estamos", "estava", "estavam", "estavas", "esteve", "tou", "tava", "tavam",
    "tavas", "ta", "tao", "tamos",
];
const ESTAR_NAME: &str = "{estar}";
const GERUND: &str = "*ndo";
const INFINITIVE: &str = "*r";
const MAX_MARKER_WORDS: usize = 3;

/// Words that end like a gerund but are none.
const NO_GERUNDS: &[&str] = &[
    "quando",
    "segundo",
    "comando",
    "fernando",
    "armando",
    "orlando",
    "dividendo",
    "contrabando",
    "tremendo",
    "horrendo",
];

#[derive(Debug, Clone, Default)]
pub struct Markers {
    all: Vec<Marker>,
    by_words: HashMap<String, usize>,
    /// First words of all markers. Most words of a post need only this lookup.
    first: HashSet<String>,
}

impl Markers {
    /// A later marker replaces an earlier one with the same words.
    #[must_use]
    pub fn new(all: Vec<Marker>) -> Self {
        let by_words = all.iter().enumerate().map(|(at, marker)| (marker.words.clone(), at)).collect();
        let first = all.iter().filter_map(|marker| marker.words.split(' ').next()).map(str::to_owned).collect();
        Self { all, by_words, first }
    }

    #[must_use]
    pub fn all(&self) -> &[Marker] {
        &self.all
    }

    pub fn find<'a>(&'a self, clean_text: &str, mut hit: impl FnMut(&'a Marker)) {
        let words: Vec<String> =
            clean_text.split(|c: char| !c.is_alphabetic()).filter(|w| !w.is_empty()).map(normalize_word).collect();
        let mut key = String::new();
        for at in 0..words.len() {
            // Plain words first, then the names of their classes.
            for is_classed in [false, true] {
                let named = |word: &str| if is_classed { word_class(word) } else { None };
                let first = named(&words[at]).unwrap_or(&words[at]);
                if is_classed && named(&words[at]).is_none() || !self.first.contains(first) {
                    continue;
                }
                key.clear();
                for word in words[at..].iter().take(MAX_MARKER_WORDS) {
                    if !key.is_empty() {
                        key.push(' ');
                    }
                    key.push_str(named(word).unwrap_or(word));
                    if let Some(found) = self.by_words.get(key.as_str()) {
                        hit(&self.all[*found]);
                    }
                }
            }
        }
    }
}

/// Removes accents and drawn-out letters from a word; gives laughter one form: `kkk`, `rsrs`, `huehue`.
fn normalize_word(word: &str) -> String {
    let letters: Vec<char> = word.chars().flat_map(char::to_lowercase).map(remove_accent).collect();
    let is_of = |these: [char; 2]| letters.iter().all(|letter| these.contains(letter));
    if letters.len() >= 3 && letters.iter().all(|letter| *letter == 'k') {
        return "kkk".to_owned();
    }
    if letters.len() >= 3 && is_of(['r', 's']) && letters[0] == 'r' && letters[1] == 's' {
        return "rsrs".to_owned();
    }
    // `agoraaaa` is `agora`; `carro` keeps both.
    letters.chunk_by(|one, next| one == next).flat_map(|row| if row.len() > 2 { &row[..1] } else { row }).collect()
}

fn word_class(word: &str) -> Option<&'static str> {
    if ESTAR.contains(&word) {
        return Some(ESTAR_NAME);
    }
    if word.len() > 5 && word.ends_with("ndo") && !NO_GERUNDS.contains(&word) {
        return Some(GERUND);
    }
    (word.len() > 3 && ["ar", "er", "ir"].iter().any(|end| word.ends_with(end)) || word == "ir" || word == "ver")
        .then_some(INFINITIVE)
}
