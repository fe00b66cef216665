//! Reads the pieces of a body in one pass, each as a typed value and as its text.
//!
//! A broken object must not cost the others. With serde alone, each object would be cut out and then parsed: two passes. Reading
//! answers takes a large part of an update's time (docs/performance.md).

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Deserializer;
use serde_json::value::RawValue;

use crate::providers::lookup::{LookupError, json_error};

const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

#[derive(Debug)]
pub struct Piece<'a, T> {
    pub text: &'a str,
    /// Typed value or its error, whose position is relative to `text`.
    pub value: serde_json::Result<T>,
}

/// The body is not JSON from here on.
#[derive(Debug)]
pub struct InvalidJson;

type WalkResult<T = ()> = Result<T, InvalidJson>;

#[derive(Debug)]
pub struct Walk<'a>(&'a str);

/// Walks over a whole body, which is one value. [`LookupError::BadAnswer`] states the position where it is not JSON.
pub fn walk<'a, T>(body: &'a str, read: impl FnOnce(&mut Walk<'a>) -> WalkResult<T>) -> Result<T, LookupError> {
    let mut walk = Walk(body);
    match read(&mut walk) {
        Ok(read) if walk.peek().is_none() => Ok(read),
        _ => Err(serde_json::from_str::<IgnoredAny>(body)
            .map_or_else(|error| json_error(&error), |_| LookupError::BadAnswer("a name in it is no text".to_owned()))),
    }
}

impl<'a> Walk<'a> {
    /// Next character that is no space, without consuming it.
    pub fn peek(&mut self) -> Option<u8> {
        self.0 = self.0.trim_start_matches(SPACE);
        self.0.bytes().next()
    }

    fn consume(&mut self, character: u8) -> WalkResult {
        self.peek().filter(|next| *next == character).ok_or(InvalidJson)?;
        self.0 = &self.0[1..];
        Ok(())
    }

    /// Walks over a list and calls `each` per element. It holds no element, since there may be any number.
    pub fn list<T: Deserialize<'a>>(&mut self, mut each: impl FnMut(Piece<'a, T>)) -> WalkResult {
        self.walk_items(b'[', b']', |walk| {
            each(walk.piece()?);
            Ok(())
        })
    }

    /// Walks over an object with any names, and calls `each` per name and value, also for repeated names.
    pub fn map<T: Deserialize<'a>>(&mut self, mut each: impl FnMut(Cow<'a, str>, Piece<'a, T>)) -> WalkResult {
        self.object(|walk, name| {
            each(name, walk.piece()?);
            Ok(())
        })
    }

    /// Walks over an object and calls `field` per name, at its value.
    pub fn object(&mut self, mut field: impl FnMut(&mut Self, Cow<'a, str>) -> WalkResult) -> WalkResult {
        self.walk_items(b'{', b'}', |walk| {
            let Name(name) = walk.piece()?.value.map_err(|_| InvalidJson)?;
            walk.consume(b':')?;
            field(walk, name)
        })
    }

    fn walk_items(&mut self, open: u8, close: u8, mut item: impl FnMut(&mut Self) -> WalkResult) -> WalkResult {
        self.consume(open)?;
        if self.consume(close).is_ok() {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.consume(close).is_ok() {
                return Ok(());
            }
            self.consume(b',')?;
        }
    }

    pub fn piece<T: Deserialize<'a>>(&mut self) -> WalkResult<Piece<'a, T>> {
        self.peek(); // skips the space
        let (value, mut end) = self.read::<T>()?;
        if value.is_err() {
            // Valid JSON of another kind ends after the error's position.
            let (raw, its_end) = self.read::<&RawValue>()?;
            raw.map_err(|_| InvalidJson)?;
            end = its_end;
        }
        let (text, rest) = self.0.split_at(end);
        self.0 = rest;
        Ok(Piece { text, value })
    }

    fn read<T: Deserialize<'a>>(&self) -> WalkResult<(serde_json::Result<T>, usize)> {
        let mut values = Deserializer::from_str(self.0).into_iter();
        let value = values.next().ok_or(InvalidJson)?;
        Ok((value, values.byte_offset()))
    }

    pub fn skip(&mut self) -> WalkResult {
        self.piece::<IgnoredAny>()?.value.map(drop).map_err(|_| InvalidJson)
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(body: &str) -> Result<Vec<(&str, Option<i64>)>, String> {
        let mut pieces = Vec::new();
        let each = |Piece { text, value }| pieces.push((text, value.ok()));
        walk(body, |walk| walk.list(each)).map_err(|error| error.to_string())?;
        Ok(pieces)
    }

    #[test]
    fn a_piece_that_is_another_kind_of_value_costs_no_other() {
        let body = " [ 1 ,{\"a\":[\"]\\\"\"]}, \"2\",null,-3\n,4.5,[],5] \n";
        let pieces = [
            ("1", Some(1)),
            ("{\"a\":[\"]\\\"\"]}", None),
            ("\"2\"", None),
            ("null", None),
            ("-3", Some(-3)),
            ("4.5", None),
            ("[]", None),
            ("5", Some(5)),
        ];
        assert_eq!(numbers(body).unwrap(), pieces);
        assert_eq!(numbers("[]").unwrap(), []);
    }

    #[test]
    fn a_map_has_its_names_in_their_order() {
        let mut read = Vec::new();
        let each =
            |name: Cow<'_, str>, piece: Piece<'_, IgnoredAny>| read.push((name.into_owned(), piece.text.to_owned()));
        walk(r#"{"a": 1, "b\u0062": {"a": 2}, "a": [3] }"#, |walk| walk.map(each)).unwrap();
        let known = [("a", "1"), ("bb", "{\"a\": 2}"), ("a", "[3]")];
        assert_eq!(read, known.map(|(name, text)| (name.to_owned(), text.to_owned())));
        let ignored = |_: Cow<'_, str>, _: Piece<'_, IgnoredAny>| ();
        let bad_name = walk(r#"{"\ud800": 1}"#, |walk| walk.map(ignored)).unwrap_err();
        assert!(bad_name.to_string().contains("a name in it is no text"), "{bad_name}");
    }

    proptest::proptest! {
        /// A list has the pieces that serde finds in it, and fails where serde fails.
        #[test]
        fn a_list_is_what_serde_takes_for_one(body in r#"\[?([0-9]|1\.|-|,|"|\\|\[|\]|\{|\}|:|a|null| |\u{a0}){0,12}\]?"#) {
            let known = serde_json::from_str::<Vec<&RawValue>>(&body).ok();
            let known: Option<Vec<&str>> = known.map(|known| known.into_iter().map(RawValue::get).collect());
            let read = numbers(&body).ok().map(|read| read.into_iter().map(|(text, _)| text).collect());
            proptest::prop_assert_eq!(read, known);
        }
    }
}
