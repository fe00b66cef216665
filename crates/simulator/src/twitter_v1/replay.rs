//! Recorded tweets, served again as they were recorded.
//!
//! Recordings come in many shapes: plain arrays and maps, `{"statuses": […]}`, cassettes whose bodies are strings of JSON
//! (`http_interactions[].response.body.string`, `response.body`). So a file only has to be JSON. Every object inside that
//! looks like a v1.1 tweet is used, including retweeted and quoted ones and those inside strings.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

/// Limit of nested strings of JSON: a cassette has one level.
const NESTED_STRINGS: u32 = 3;

#[derive(Debug, Default)]
pub struct Replay {
    tweets: HashMap<String, Recorded>,
    /// Unused files, with the reason.
    pub skipped: Vec<(PathBuf, String)>,
}

/// Origin of an object; the greatest origin of an id wins, or the first file. A response of `statuses/lookup` is greater than another,
/// and an object of its own than one inside another tweet, which is abridged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Origin {
    lookup: bool,
    own: bool,
}

#[derive(Debug)]
struct Recorded {
    origin: Origin,
    raw: String,
}

impl Replay {
    /// Loads every `*.json` below `dir`. Only an unreadable `dir` is an error; unreadable files are listed in
    /// [`Replay::skipped`].
    pub fn load(dir: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        let mut replay = Self::default();
        list_files(dir, &mut files, &mut replay.skipped)?;
        files.sort();
        for file in files {
            if let Err(why) = replay.read(&file) {
                replay.skipped.push((file, why));
            }
        }
        Ok(replay)
    }

    /// The object recorded for this id, byte for byte.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&str> {
        self.tweets.get(id).map(|recorded| recorded.raw.as_str())
    }

    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.tweets.keys().map(String::as_str)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.tweets.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tweets.is_empty()
    }

    fn read(&mut self, file: &Path) -> Result<(), String> {
        let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
        // One document, or one per line.
        let documents =
            serde_json::Deserializer::from_str(text.trim_start_matches('\u{feff}')).into_iter::<&RawValue>();
        for document in documents {
            let document = document.map_err(|error| format!("not JSON: {error}"))?;
            self.scan(document.get(), Origin { lookup: false, own: true }, NESTED_STRINGS);
        }
        Ok(())
    }

    fn scan(&mut self, raw: &str, mut origin: Origin, strings: u32) {
        match raw.as_bytes().first() {
            Some(b'{') => {
                // An object that cannot be split (a name with half a surrogate pair) holds no usable tweet.
                let Ok(fields) = serde_json::from_str::<HashMap<String, &RawValue>>(raw) else { return };
                if let (Some(request), true) = (fields.get("request"), fields.contains_key("response")) {
                    origin.lookup = request.get().replace('\\', "").contains("statuses/lookup");
                }
                if let Some(id) = tweet_id(&fields) {
                    let recorded = self.tweets.get(&id);
                    if recorded.is_none_or(|recorded| recorded.origin < origin) {
                        self.tweets.insert(id, Recorded { origin, raw: raw.to_owned() });
                    }
                    origin.own = false;
                }
                for field in fields.values() {
                    self.scan(field.get(), origin, strings);
                }
            }
            Some(b'[') => {
                let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw) else { return };
                for item in items {
                    self.scan(item.get(), origin, strings);
                }
            }
            Some(b'"') if strings > 0 && raw.contains('{') => {
                // The string holds a document, or is just a text with a brace in it.
                let Ok(inner) = serde_json::from_str::<String>(raw) else { return };
                if let Ok(document) = serde_json::from_str::<&RawValue>(&inner) {
                    self.scan(document.get(), origin, strings - 1);
                }
            }
            _ => {}
        }
    }
}

/// The id of an object with the parts of a v1.1 tweet: an id, a date in v1.1's form, a text and a user.
/// Objects of API v2 have another date and no user inside.
fn tweet_id(fields: &HashMap<String, &RawValue>) -> Option<String> {
    let text = |name: &str| fields.get(name).and_then(|raw| raw.get().strip_prefix('"')?.strip_suffix('"'));
    let digits = |text: &&str| (1..=19).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = text("id_str").filter(digits).or_else(|| fields.get("id").map(|raw| raw.get()).filter(digits))?;
    // `Tue Mar 21 20:50:14 +0000 2006`
    let dated = text("created_at").is_some_and(|date| date.len() == 30 && date.as_bytes()[20] == b'+');
    let said = text("full_text").or_else(|| text("text")).is_some();
    let signed = fields.get("user").is_some_and(|user| user.get().starts_with('{'));
    (dated && said && signed).then(|| id.to_owned())
}

/// The `*.json` files below a folder. Links to folders are not followed, so the search ends.
fn list_files(dir: &Path, files: &mut Vec<PathBuf>, skipped: &mut Vec<(PathBuf, String)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if let Err(error) = list_files(&path, files, skipped) {
                skipped.push((path, error.to_string()));
            }
        } else if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
            files.push(path);
        }
    }
    Ok(())
}
