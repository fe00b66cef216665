//! Tweets of a file or a body, one by one: ids, objects, and the posts of a page.

use std::io;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::AsyncBufRead;

use super::elements::elements;
use super::lines::{CR_ALONE, Lines};
use super::named::{SEPARATORS, unquoted};
use crate::model::post::Ingested;
use crate::model::post::{BadId, TweetId};
use crate::providers::registry::Parse;
use crate::providers::x_v2::media::Included;

/// Why a line is no tweet that names the columns of the others.
pub(super) const NAMES_COLUMNS: &str = "the line names the columns";

/// The maximum number of posts in an object's `data`. X's answers have up to 500; their results are held at once.
const MOST_POSTS: usize = 5_000;

/// One tweet, or why it is none.
#[derive(Debug, PartialEq)]
pub struct Item {
    /// The line where it begins, from 1.
    pub line: u64,
    /// About its length in bytes.
    pub bytes: usize,
    /// The tweet; an error is one clause. Whether a bare id is one is not looked at here.
    pub tweet: Result<Ingested, String>,
    /// What to do about the line where its tweet is refused, by its looks.
    pub hint: Option<&'static str>,
}

/// Reads tweets: a bare or quoted id or a JSON object on a line, JSON over many lines, lists, and X's answers and
/// stream lines, whose posts stand in `data`. Blank lines and comments (`#`) are passed over.
#[derive(Debug)]
pub struct Tweets<R> {
    lines: Lines<R>,
    parse: Parse,
    /// The rest of a page.
    page: std::vec::IntoIter<Item>,
    /// A line was read.
    is_begun: bool,
}

impl<R: AsyncBufRead + Unpin> Tweets<R> {
    /// The tweets of that source; `parse` reads an object.
    pub fn new(source: R, parse: Parse) -> Self {
        Self { lines: Lines::new(source), parse, page: Vec::new().into_iter(), is_begun: false }
    }

    /// Bytes read so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lines.bytes()
    }

    /// The number of the last line of which all tweets were handed out, from 1; 0 before the first.
    #[must_use]
    pub fn done_line(&self) -> u64 {
        match self.page.as_slice().first() {
            Some(item) => item.line.saturating_sub(1),
            None => self.lines.number(),
        }
    }

    /// The next tweet. Can be dropped at any await and called again.
    ///
    /// # Errors
    /// The error of the source.
    pub async fn next(&mut self) -> io::Result<Option<Item>> {
        loop {
            if let Some(item) = self.page.next() {
                return Ok(Some(item));
            }
            let Some(line) = self.lines.next().await? else { return Ok(None) };
            let number = line.number;
            let text = match line.text {
                Ok(text) => text,
                Err(why) => return Ok(Some(Item { line: number, bytes: 0, tweet: Err(why.to_owned()), hint: None })),
            };
            if text.starts_with('#') {
                continue;
            }
            if !std::mem::replace(&mut self.is_begun, true) && names_columns(text) {
                let tweet = Err(NAMES_COLUMNS.to_owned());
                return Ok(Some(Item { line: number, bytes: text.len(), tweet, hint: None }));
            }
            match read(text, self.parse) {
                Read::One(tweet) => {
                    return Ok(Some(Item { line: number, bytes: text.len(), tweet, hint: hint(text) }));
                }
                Read::Page(tweets) => {
                    let bytes = text.len() / tweets.len().max(1);
                    let item = |tweet| Item { line: number, bytes, tweet, hint: None };
                    self.page = tweets.into_iter().map(item).collect::<Vec<_>>().into_iter();
                }
            }
        }
    }
}

/// The tweets in a text.
#[derive(Debug, PartialEq)]
pub(super) enum Read {
    /// A tweet.
    One(Result<Ingested, String>),
    /// The posts of an object's `data`; there may be none.
    Page(Vec<Result<Ingested, String>>),
}

/// Reads a bare or quoted id, or a JSON object.
pub(super) fn read(text: &str, parse: Parse) -> Read {
    if text.starts_with('{') {
        let tweet = parse(text).map(Ingested::from);
        // What is a post itself is not searched for others.
        let page = if tweet.is_err() { page(text, parse) } else { None };
        return page.map_or(Read::One(tweet), Read::Page);
    }
    if text.starts_with('[') {
        return Read::One(Err("a list in a list; write one list of posts".to_owned()));
    }
    let quoted = ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    Read::One(Ok(Ingested::bare(quoted.unwrap_or(text).trim())))
}

/// An answer or a stream line of X API v2, as the API and twarc write them.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
}

/// An answer without posts says so.
#[derive(Deserialize)]
struct Meta {
    result_count: u64,
}

/// The posts in an object's `data`; `None` where it holds none and does not say that there are none.
fn page(text: &str, parse: Parse) -> Option<Vec<Result<Ingested, String>>> {
    let Envelope { data, meta } = serde_json::from_str(text).ok()?;
    let Some(data) = data.map(RawValue::get) else {
        let Meta { result_count } = serde_json::from_str(meta?.get()).ok()?;
        return (result_count == 0).then(Vec::new);
    };
    let included = Included::of(text);
    let post = |raw: &str| parse(included.put_into(raw).as_deref().unwrap_or(raw)).map(Ingested::from);
    if data.starts_with('{') {
        return Some(vec![post(data).map_err(|why| format!("its data: {why}"))]);
    }
    let posts = || elements(data).ok();
    if posts()?.nth(MOST_POSTS).is_some() {
        return Some(vec![Err(format!("its data has more than {MOST_POSTS} posts; write one object per post"))]);
    }
    let numbered = (1..).zip(posts()?);
    Some(numbered.map(|(n, raw)| post(raw.get()).map_err(|why| format!("post {n} of its data: {why}"))).collect())
}

/// Returns true if a first line has the column `id`, alone or first, as our own export writes it, or as others name it.
fn names_columns(text: &str) -> bool {
    let first = unquoted(text.split(SEPARATORS).next().unwrap_or_default()).replace(' ', "_");
    ["id", "id_str", "ids", "post_id", "status_id", "tweet_id", "tweetid", "url"]
        .iter()
        .any(|name| first.eq_ignore_ascii_case(name))
}

/// What a refused bare id's line looks like, with what to do about it.
fn hint(text: &str) -> Option<&'static str> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) || text.starts_with(['{', '[']) {
        return None;
    }
    if TweetId::parse(text) == Err(BadId::Scientific) {
        return None; // the comma of "1,46E+18" separates no columns
    }
    const HINTS: [(char, &str); 4] = [
        (',', "the line has a comma; only the id column is wanted"),
        (';', "the line has a semicolon; only the id column is wanted"),
        ('\t', "the line has a tab; only the id column is wanted"),
        ('\r', CR_ALONE),
    ];
    HINTS.iter().find(|(odd, _)| text.contains(*odd)).map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_bare_or_quoted() {
        let id = |text| read(text, |_| unreachable!());
        for text in ["123", "\"123\"", "'123'", "\" 123 \""] {
            assert_eq!(id(text), Read::One(Ok(Ingested::bare("123"))));
        }
        for text in ["\"", "'12", "\"12'"] {
            assert_eq!(id(text), Read::One(Ok(Ingested::bare(text))));
        }
    }

    #[test]
    fn the_column_has_one_of_several_names() {
        for line in ["id", "ids", "url", "tweetid", "Tweet Id", "\"Tweet ID\",text", "status_id;x"] {
            assert!(names_columns(line), "{line}");
        }
        for line in ["20", "text,id", "ideas", "https://x.com/jack/status/20"] {
            assert!(!names_columns(line), "{line}");
        }
    }

    #[test]
    fn a_hint_says_what_the_line_looks_like() {
        assert!(hint("123,foo").unwrap().contains("comma"));
        assert!(hint("123\tfoo").unwrap().contains("tab"));
        assert!(hint("123\r456").unwrap().contains("CR"));
        assert_eq!(hint("1,46E+18"), None);
        assert_eq!(hint("12x"), None);
        assert_eq!(hint("123"), None);
        assert_eq!(hint("{\"id\":1,"), None);
    }
}
