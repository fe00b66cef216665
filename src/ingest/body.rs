//! The unchecked body of a request: a JSON array, or the content of a file.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::tweets::{Read, Tweets, read};
use crate::model::post::Ingested;
use crate::providers::registry::Parse;

const UTF8_BOM: &str = "\u{feff}";

/// A body, to be read tweet by tweet.
pub(super) enum Body<'a> {
    /// The posts of an array's elements.
    Array(Box<dyn Iterator<Item = Item> + Send + 'a>),
    /// The content of a file.
    Lines(Box<Tweets<&'a [u8]>>),
}

/// One tweet of a body, or why it is none.
pub(super) struct Item {
    /// Its place from 0: the element, or the line where it begins, with blank ones counted.
    pub index: u64,
    /// Its length in bytes, where it is read.
    pub bytes: usize,
    /// The reason.
    pub tweet: Result<Ingested, String>,
}

/// A body of which nothing can be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// The place where it breaks off.
    pub index: u64,
    /// One clause.
    pub reason: String,
}

impl<'a> Body<'a> {
    /// Looks at what it is; `parse` reads an object. An array is JSON as a whole: one that breaks off is not half-read.
    pub fn new(bytes: &'a [u8], parse: Parse) -> Result<Self, Unreadable> {
        let text = std::str::from_utf8(bytes).map(|text| text.trim_start_matches(UTF8_BOM).trim());
        match text {
            Ok("") => Err(Unreadable { index: 0, reason: "the body is empty".to_owned() }),
            Ok(text) if text.starts_with('[') => {
                let elements = (0..).zip(elements(text)?);
                let posts = elements.flat_map(move |(index, element)| read_element(index, element.get(), parse));
                Ok(Self::Array(Box::new(posts)))
            }
            _ => Ok(Self::Lines(Box::new(Tweets::new(bytes, parse)))),
        }
    }

    /// The next tweet.
    pub async fn next(&mut self) -> Option<Item> {
        match self {
            Self::Array(posts) => posts.next(),
            Self::Lines(tweets) => {
                // Memory cannot fail to be read.
                let item = tweets.next().await.ok().flatten()?;
                Some(Item { index: item.line - 1, bytes: item.bytes, tweet: item.tweet })
            }
        }
    }
}

/// The posts of an array's element: a tweet object, an object with posts in it, or an id as text or number.
fn read_element(index: u64, text: &str, parse: Parse) -> Vec<Item> {
    let item = |tweet| Item { index, bytes: text.len(), tweet };
    let tweet = match text.as_bytes().first() {
        Some(b'{') => match read(text, parse) {
            Read::One(tweet) => tweet,
            Read::Page(tweets) => return tweets.into_iter().map(item).collect(),
        },
        Some(b'"') => serde_json::from_str(text).map(|id: String| Ingested::bare(id)).map_err(|_| not_a_tweet()),
        // As it was written: a number of 19 digits fits no double.
        Some(b'-' | b'0'..=b'9') => Ok(Ingested::bare(text)),
        _ => Err(not_a_tweet()),
    };
    vec![item(tweet)]
}

fn not_a_tweet() -> String {
    "neither a tweet object nor an id".to_owned()
}

/// The elements of an array, not looked into.
fn elements(text: &str) -> Result<Vec<&RawValue>, Unreadable> {
    let read = Cell::new(0);
    let unreadable = |reason: String| Unreadable { index: read.get(), reason };
    let mut json = serde_json::Deserializer::from_str(text);
    // serde_json's text may quote the body.
    let not_json =
        |error: serde_json::Error| unreadable(format!("not JSON, at line {}, column {}", error.line(), error.column()));
    let elements = json.deserialize_seq(Elements(&read)).map_err(not_json)?;
    json.end().map_err(|_| unreadable("there is data after the array".to_owned()))?;
    Ok(elements)
}

/// Counts while it reads, so that an error has a place.
struct Elements<'c>(&'c Cell<u64>);

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = array.next_element()? {
            elements.push(element);
            self.0.set(self.0.get() + 1);
        }
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::post::Tweet;

    /// An object is a tweet with its whole text as the id, so that it shows what was cut out.
    fn parse(raw: &str) -> Result<Tweet, String> {
        serde_json::from_str::<serde_json::Value>(raw).map_err(|_| "not JSON".to_owned())?;
        Ok(Tweet { id: raw.to_owned(), raw: raw.to_owned(), ..Tweet::default() })
    }

    async fn all(bytes: &[u8]) -> Vec<(u64, Result<String, String>)> {
        let mut body = Body::new(bytes, parse).unwrap();
        let mut read = Vec::new();
        while let Some(item) = body.next().await {
            read.push((item.index, item.tweet.map(|tweet| tweet.id)));
        }
        read
    }

    #[tokio::test]
    async fn each_form_gives_its_tweets_with_their_places() {
        let ok = |index, id: &str| (index, Ok(id.to_owned()));
        let no = |index, why: &str| (index, Err(why.to_owned()));
        for (bytes, expected) in [
            (r#" {"id": 1} "#, vec![ok(0, r#"{"id": 1}"#)]),
            ("{\n  \"id\": 1\n}\n", vec![ok(0, "{\n  \"id\": 1\n}")]),
            (
                "\u{feff}[1460000000000000001, \"2\", {\"id\":3}]",
                vec![ok(0, "1460000000000000001"), ok(1, "2"), ok(2, "{\"id\":3}")],
            ),
            ("[]", vec![]),
            (
                "[null, [1], true, 1]",
                vec![
                    no(0, "neither a tweet object nor an id"),
                    no(1, "neither a tweet object nor an id"),
                    no(2, "neither a tweet object nor an id"),
                    ok(3, "1"),
                ],
            ),
            (
                "{\"id\":1}\n\n{\"id\":2}\r\n{\"id\":",
                vec![
                    ok(0, "{\"id\":1}"),
                    ok(2, "{\"id\":2}"),
                    no(3, "not JSON: the object or list that begins here is cut off; export it again"),
                ],
            ),
            ("20\n\"21\"\n", vec![ok(0, "20"), ok(1, "21")]),
            ("20", vec![ok(0, "20")]),
        ] {
            assert_eq!(all(bytes.as_bytes()).await, expected, "{bytes:?}");
        }
        assert_eq!(all(b"20\n\xff\n22").await[1], no(1, "the line is not UTF-8 text"));
    }

    #[test]
    fn what_is_nothing_at_all_says_where_it_breaks() {
        for (bytes, index, says) in [
            (&b""[..], 0, "empty"),
            (b" \n ", 0, "empty"),
            (b"[1, 2, {\"id\":", 2, "not JSON, at line 1, column"),
            (b"[1, 2", 2, "not JSON"),
            (b"[1]\n[2]", 1, "there is data after the array"),
        ] {
            let Err(unreadable) = Body::new(bytes, parse) else { panic!("{bytes:?} is read") };
            assert_eq!(unreadable.index, index, "{bytes:?}");
            assert!(unreadable.reason.contains(says), "{unreadable:?}");
        }
    }
}
