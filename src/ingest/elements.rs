//! The elements of a JSON array, one after the other, without a list of them in memory.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The white space of JSON.
const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// A body of which nothing can be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// The place where it breaks off.
    pub index: u64,
    /// One clause.
    pub reason: String,
}

/// The elements of an array, not looked into: the array is read to its end, and then each element again when its turn
/// comes. A list of millions of elements takes no memory of its own.
pub(super) fn elements(text: &str) -> Result<ArrayElements<'_>, Unreadable> {
    let read = Cell::new(0);
    let unreadable = |reason: String| Unreadable { index: read.get(), reason };
    let mut json = serde_json::Deserializer::from_str(text);
    // serde_json's text may quote the body.
    let not_json =
        |error: serde_json::Error| unreadable(format!("not JSON, at line {}, column {}", error.line(), error.column()));
    json.deserialize_seq(Counter(&read)).map_err(not_json)?;
    json.end().map_err(|_| unreadable("there is data after the array".to_owned()))?;
    Ok(ArrayElements(text))
}

/// Counts the elements of an array, so that an error has a place.
struct Counter<'c>(&'c Cell<u64>);

impl<'de> Visitor<'de> for Counter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        while array.next_element::<IgnoredAny>()?.is_some() {
            self.0.set(self.0.get() + 1);
        }
        Ok(())
    }
}

/// The elements of a text that is an array; holds the rest of it, from the bracket or comma before the next element.
pub(super) struct ArrayElements<'a>(&'a str);

impl<'a> Iterator for ArrayElements<'a> {
    type Item = &'a RawValue;

    fn next(&mut self) -> Option<&'a RawValue> {
        let rest = self.0.trim_start_matches(SPACE).strip_prefix(['[', ','])?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        // Behind the last element, and in an empty array, is a bracket, which is no value.
        let element = values.next()?.ok();
        self.0 = element.map_or("", |_| &rest[values.byte_offset()..]);
        element
    }
}
