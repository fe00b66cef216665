//! What simulated people write, with the places of its hashtags, mentions and links.

use super::world::mix;

const WORDS: [&str; 40] = [
    "morning",
    "coffee",
    "the",
    "a",
    "of",
    "today",
    "train",
    "again",
    "café",
    "naïve",
    "release",
    "ship",
    "bug",
    "fixed",
    "finally",
    "weekend",
    "rain",
    "sunny",
    "Zürich",
    "日本語",
    "привет",
    "love",
    "this",
    "song",
    "with",
    "friends",
    "and",
    "data",
    "never",
    "always",
    "why",
    "is",
    "it",
    "late",
    "game",
    "tonight",
    "goal",
    "news",
    "thread",
    "reading",
];
const MARKS: [&str; 8] = ["😋", "🚀", "❤️", "👩‍💻", "&amp;", "…", "&lt;3", "\"quoted\""];
const TAGS: [&str; 6] = ["rustlang", "Breaking", "öffentlich", "東京", "MondayMood", "opendata"];
const FIRST: [&str; 10] = ["quiet", "bright", "old", "rapid", "lucky", "tiny", "brave", "sleepy", "north", "blue"];
const SECOND: [&str; 10] = ["heron", "river", "coder", "fox", "pilot", "maple", "otter", "signal", "harbor", "sparrow"];

/// A text and what Twitter calls its entities; places count code points, as the API does.
#[derive(Default)]
pub struct Text {
    pub text: String,
    pub length: usize,
    pub hashtags: Vec<(usize, usize, &'static str)>,
    pub mentions: Vec<(usize, usize, u64)>,
    pub urls: Vec<(usize, usize, String)>,
}

impl Text {
    /// The text that this number stands for: 4 to 27 words, at most 280 characters.
    pub fn of(mut dice: u64) -> Self {
        let mut text = Self::default();
        let words = 4 + dice % 24;
        for _ in 0..words {
            dice = mix(dice.wrapping_add(1));
            text.word(WORDS[(dice % WORDS.len() as u64) as usize]);
        }
        dice = mix(dice.wrapping_add(1));
        if dice & 1 == 0 {
            text.word(MARKS[(dice >> 8) as usize % MARKS.len()]);
        }
        if dice & 6 == 0 {
            let tag = TAGS[(dice >> 16) as usize % TAGS.len()];
            let (from, to) = text.word(&format!("#{tag}"));
            text.hashtags.push((from, to, tag));
        }
        if dice & 24 == 0 {
            text.mention((dice >> 24) % 20_000);
        }
        if dice & 32 == 0 {
            let url = format!("https://t.co/{:010x}", dice >> 24);
            let (from, to) = text.word(&url);
            text.urls.push((from, to, url));
        }
        text
    }

    /// A retweet's text: the original's behind its author's name.
    pub fn retweet(author: u64, original: u64) -> Self {
        let mut text = Self::default();
        text.word("RT");
        text.mention(author);
        text.word(":");
        let Self { text: said, .. } = Self::of(original);
        text.word(&said);
        text
    }

    /// A text without entities.
    pub fn plain(said: String) -> Self {
        Self { length: said.chars().count(), text: said, ..Self::default() }
    }

    fn mention(&mut self, author: u64) {
        let (from, to) = self.word(&format!("@{}", screen_name(author)));
        self.mentions.push((from, to, author));
    }

    fn word(&mut self, word: &str) -> (usize, usize) {
        if self.length > 0 && word != ":" {
            self.text.push(' ');
            self.length += 1;
        }
        let from = self.length;
        self.text.push_str(word);
        self.length += word.chars().count();
        (from, self.length)
    }
}

/// An author's handle.
pub fn screen_name(author: u64) -> String {
    let (first, second) = (FIRST[(author % 10) as usize], SECOND[(author / 10 % 10) as usize]);
    format!("{first}_{second}{}", author / 100)
}

/// An author's display name.
pub fn name(author: u64) -> String {
    let (first, second) = (FIRST[(author % 10) as usize], SECOND[(author / 10 % 10) as usize]);
    if author.is_multiple_of(7) { format!("{first} {second} 🌍") } else { format!("{first} {second}") }
}

/// An author's id: spread over the range of early user ids.
pub fn user_id(author: u64) -> u64 {
    10_007 + author * 7_919
}
