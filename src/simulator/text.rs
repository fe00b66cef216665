//! Texts of simulated posts, with the places of their hashtags, mentions and links.

use std::ops::Range;

use super::dice::mix;
use crate::model::post::TweetId;

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
/// First parts of handles.
pub const FIRST: [&str; 10] = ["quiet", "bright", "old", "rapid", "lucky", "tiny", "brave", "sleepy", "north", "blue"];
/// Second parts of handles.
pub const SECOND: [&str; 10] =
    ["heron", "river", "coder", "fox", "pilot", "maple", "otter", "signal", "harbor", "sparrow"];

pub const AUTHORS: u64 = 1 << 15;

/// Authors with the ids from 1 to 10006, which the others leave free.
const EARLY: Range<u64> = 20_001..30_007;

/// A language that no network knows.
pub const UNDETERMINED: &str = "und";

/// A text and its entities, as Twitter calls them; places count code points, as the API does.
#[derive(Default)]
pub struct Text {
    pub text: String,
    pub length: usize,
    pub hashtags: Vec<(usize, usize, &'static str)>,
    pub mentions: Vec<(usize, usize, u64)>,
    pub urls: Vec<(usize, usize, String)>,
    /// The language that a network states; `None` is English.
    pub stated_language: Option<&'static str>,
    /// The parent of a reply, and the parent's author.
    pub reply: Option<(TweetId, u64)>,
}

impl Text {
    /// The text for this number: 4 to 27 words, at most 280 characters.
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
            text.tag(TAGS[(dice >> 16) as usize % TAGS.len()]);
        }
        if dice & 24 == 0 {
            text.mention((dice >> 24) % AUTHORS);
        }
        if dice & 32 == 0 {
            text.link(dice);
        }
        text
    }

    pub fn retweet(author: u64, original: &Self) -> Self {
        let mut text = Self { stated_language: original.stated_language, ..Self::default() };
        text.word("RT");
        text.mention(author);
        text.word(":");
        text.word(&original.text);
        text
    }

    pub fn plain(said: String) -> Self {
        Self { length: said.chars().count(), text: said, ..Self::default() }
    }

    pub fn language(&self) -> &'static str {
        self.stated_language.unwrap_or("en")
    }

    pub fn tag(&mut self, tag: &'static str) {
        let (from, to) = self.word(&format!("#{tag}"));
        self.hashtags.push((from, to, tag));
    }

    pub fn mention(&mut self, author: u64) {
        let (from, to) = self.word(&format!("@{}", screen_name(author)));
        self.mentions.push((from, to, author));
    }

    pub fn link(&mut self, dice: u64) {
        let url = format!("https://t.co/{:010x}", dice >> 24);
        let (from, to) = self.word(&url);
        self.urls.push((from, to, url));
    }

    pub fn word(&mut self, word: &str) -> (usize, usize) {
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

pub fn screen_name(author: u64) -> String {
    let (first, second) = (FIRST[(author % 10) as usize], SECOND[(author / 10 % 10) as usize]);
    format!("{first}_{second}{}", author / 100)
}

pub fn name(author: u64) -> String {
    let (first, second) = (FIRST[(author % 10) as usize], SECOND[(author / 10 % 10) as usize]);
    if author.is_multiple_of(7) { format!("{first} {second} 🌍") } else { format!("{first} {second}") }
}

/// An author's id, in the range of early user ids.
pub fn user_id(author: u64) -> u64 {
    if EARLY.contains(&author) { author - (EARLY.start - 1) } else { 10_007 + author * 7_919 }
}

pub const MOST_USERS: usize = 100;
/// Users that do not exist, by id and by handle.
pub const MISSING_USERS: [&str; 2] = ["404", "missing"];

pub fn author_with(id: u64) -> Option<u64> {
    number_with(id).filter(|number| *number < AUTHORS)
}

/// The number of the account with an id; only the first accounts write posts.
pub fn number_with(id: u64) -> Option<u64> {
    let number = match id.checked_sub(10_007) {
        None => id + EARLY.start - 1,
        Some(above) => above / 7_919,
    };
    (user_id(number) == id).then_some(number)
}

/// The author with a handle, if any; capitals are ignored.
pub fn author_named(handle: &str) -> Option<u64> {
    number_named(handle).filter(|number| *number < AUTHORS)
}

/// The number of the account with this first handle.
pub fn number_named(handle: &str) -> Option<u64> {
    let handle = handle.to_ascii_lowercase();
    let digits = handle.trim_start_matches(|c: char| !c.is_ascii_digit());
    let place = |names: &[&str], is: &dyn Fn(&str) -> bool| names.iter().position(|name| is(name));
    let first = place(&FIRST, &|name| handle.starts_with(name))? as u64;
    let second = place(&SECOND, &|name| handle.trim_end_matches(digits).ends_with(name))? as u64;
    let hundreds = digits.parse::<u64>().ok().filter(|number| *number < 1 << 32)?;
    let number = hundreds * 100 + second * 10 + first;
    (screen_name(number) == handle).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_is_found_by_id_and_by_handle() {
        for author in 0..AUTHORS {
            assert_eq!(author_with(user_id(author)), Some(author));
            assert_eq!(author_named(&screen_name(author).to_uppercase()), Some(author));
        }
        for none in [0, 10_008, 10_007 + 7_919 * AUTHORS, u64::MAX] {
            assert_eq!(author_with(none), None);
        }
        for none in ["", "one", "quiet_heron", "quiet_heron01", "quiet_heron400", "heron_quiet1", "1"] {
            assert_eq!(author_named(none), None, "{none}");
        }
    }
}
