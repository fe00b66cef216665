//! The elements of a JSON array, one after the other, without holding all of them in memory.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// Index of the first unreadable element.
    pub index: u64,
    pub reason: String,
}

/// Returns the elements of an array, unparsed. The array is read twice: once to validate it, then element by element.
/// Millions of elements need no extra memory.
pub(super) fn elements(text: &str) -> Result<ArrayElements<'_>, Unreadable> {
    let read = Cell::new(0);
    let unreadable = |reason: String| Unreadable { index: read.get(), reason };
    let mut json = serde_json::Deserializer::from_str(text);
    // serde_json's own message may quote the body.
    let not_json =
        |error: serde_json::Error| unreadable(format!("not JSON, at line {}, column {}", error.line(), error.column()));
    json.deserialize_seq(Counter(&read)).map_err(not_json)?;
    json.end().map_err(|_| unreadable("there is data after the array".to_owned()))?;
    Ok(ArrayElements(text))
}

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

/// The rest of an array's text, from the bracket or comma before the next element.
pub(super) struct ArrayElements<'a>(&'a str);

impl<'a> Iterator for ArrayElements<'a> {
    type Item = &'a RawValue;

    fn next(&mut self) -> Option<&'a RawValue> {
        let rest = self.0.trim_start_matches(SPACE).strip_prefix(['[', ','])?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        // After the last element, and in an empty array, comes a bracket, which is not a value.
        let element = values.next()?.ok();
        self.0 = element.map_or("", |_| &rest[values.byte_offset()..]);
        element
    }
}
