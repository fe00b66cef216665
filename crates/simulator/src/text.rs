//! Texts of simulated posts, with the positions of their hashtags, mentions and links.

use std::ops::Range;

use super::random::mix;
use networks::model::post::TweetId;

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
pub const HANDLE_STARTS: [&str; 10] =
    ["quiet", "bright", "old", "rapid", "lucky", "tiny", "brave", "sleepy", "north", "blue"];
pub const HANDLE_ENDS: [&str; 10] =
    ["heron", "river", "coder", "fox", "pilot", "maple", "otter", "signal", "harbor", "sparrow"];

pub const AUTHORS: u64 = 1 << 15;

/// Authors with the ids from 1 to 10006, which the others leave free.
const EARLY: Range<u64> = 20_001..30_007;

/// A language that no network knows.
pub const UNDETERMINED: &str = "und";

/// A text and its entities, as Twitter calls them; positions count code points, as the API does.
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
    pub fn random(mut random: u64) -> Self {
        let mut text = Self::default();
        let words = 4 + random % 24;
        for _ in 0..words {
            random = mix(random.wrapping_add(1));
            text.push_word(WORDS[(random % WORDS.len() as u64) as usize]);
        }
        random = mix(random.wrapping_add(1));
        if random & 1 == 0 {
            text.push_word(MARKS[(random >> 8) as usize % MARKS.len()]);
        }
        if random & 6 == 0 {
            text.push_hashtag(TAGS[(random >> 16) as usize % TAGS.len()]);
        }
        if random & 24 == 0 {
            text.push_mention((random >> 24) % AUTHORS);
        }
        if random & 32 == 0 {
            text.push_link(random);
        }
        text
    }

    pub fn retweet(author: u64, original: &Self) -> Self {
        let mut text = Self { stated_language: original.stated_language, ..Self::default() };
        text.push_word("RT");
        text.push_mention(author);
        text.push_word(":");
        text.push_word(&original.text);
        text
    }

    pub fn plain(said: String) -> Self {
        Self { length: said.chars().count(), text: said, ..Self::default() }
    }

    pub fn language(&self) -> &'static str {
        self.stated_language.unwrap_or("en")
    }

    pub fn push_hashtag(&mut self, tag: &'static str) {
        let (from, to) = self.push_word(&format!("#{tag}"));
        self.hashtags.push((from, to, tag));
    }

    pub fn push_mention(&mut self, author: u64) {
        let (from, to) = self.push_word(&format!("@{}", screen_name(author)));
        self.mentions.push((from, to, author));
    }

    pub fn push_link(&mut self, random: u64) {
        let url = format!("https://t.co/{:010x}", random >> 24);
        let (from, to) = self.push_word(&url);
        self.urls.push((from, to, url));
    }

    /// Adds a word. Returns its start and end, in code points.
    pub fn push_word(&mut self, word: &str) -> (usize, usize) {
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
    let (first, second) = (HANDLE_STARTS[(author % 10) as usize], HANDLE_ENDS[(author / 10 % 10) as usize]);
    format!("{first}_{second}{}", author / 100)
}

pub fn first_display_name(author: u64) -> String {
    let (first, second) = (HANDLE_STARTS[(author % 10) as usize], HANDLE_ENDS[(author / 10 % 10) as usize]);
    if author.is_multiple_of(7) { format!("{first} {second} 🌍") } else { format!("{first} {second}") }
}

/// An author's id, in the range of early user ids.
pub fn user_id(author: u64) -> u64 {
    if EARLY.contains(&author) { author - (EARLY.start - 1) } else { 10_007 + author * 7_919 }
}

pub const MOST_USERS: usize = 100;
/// Users that do not exist, by id and by handle.
pub const MISSING_USERS: [&str; 2] = ["404", "missing"];

pub fn author_with_id(id: u64) -> Option<u64> {
    number_with_id(id).filter(|number| *number < AUTHORS)
}

/// The number of the account with an id; only the first accounts write posts.
pub fn number_with_id(id: u64) -> Option<u64> {
    let number = match id.checked_sub(10_007) {
        None => id + EARLY.start - 1,
        Some(above) => above / 7_919,
    };
    (user_id(number) == id).then_some(number)
}

/// The author with a handle, if any; capitals are ignored.
pub fn author_with_handle(handle: &str) -> Option<u64> {
    number_with_first_handle(handle).filter(|number| *number < AUTHORS)
}

pub fn number_with_first_handle(handle: &str) -> Option<u64> {
    let handle = handle.to_ascii_lowercase();
    let digits = handle.trim_start_matches(|c: char| !c.is_ascii_digit());
    let place = |names: &[&str], is: &dyn Fn(&str) -> bool| names.iter().position(|name| is(name));
    let first = place(&HANDLE_STARTS, &|name| handle.starts_with(name))? as u64;
    let second = place(&HANDLE_ENDS, &|name| handle.trim_end_matches(digits).ends_with(name))? as u64;
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
            assert_eq!(author_with_id(user_id(author)), Some(author));
            assert_eq!(author_with_handle(&screen_name(author).to_uppercase()), Some(author));
        }
        for none in [0, 10_008, 10_007 + 7_919 * AUTHORS, u64::MAX] {
            assert_eq!(author_with_id(none), None);
        }
        for none in ["", "one", "quiet_heron", "quiet_heron01", "quiet_heron400", "heron_quiet1", "1"] {
            assert_eq!(author_with_handle(none), None, "{none}");
        }
    }
}
