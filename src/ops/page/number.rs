//! Numbers in queries.

use std::borrow::Cow;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A number in a query. If out of range, it becomes the nearest in range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Number(pub u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        let digits = text.strip_prefix('-').unwrap_or(&text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(D::Error::custom("not a whole number"));
        }
        // All are digits: only a number that is too large cannot be parsed.
        Ok(Self(if text.starts_with('-') { 0 } else { digits.parse().unwrap_or(u64::MAX) }))
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::Query;
    use axum::http::Uri;

    use super::*;

    #[test]
    fn a_number_out_of_range_is_the_nearest_in_range() {
        let read = |text: &str| {
            let uri: Uri = format!("/?n={text}").parse().unwrap();
            Query::<Vec<(String, Number)>>::try_from_uri(&uri).ok().map(|Query(pairs)| pairs[0].1.0)
        };
        assert_eq!((read("0"), read("7"), read("-1")), (Some(0), Some(7), Some(0)));
        assert_eq!(read("18446744073709551615"), Some(u64::MAX));
        assert_eq!(read("1000000000000000000000000000000"), Some(u64::MAX));
        for text in ["", "-", "x", "1e3", "+1", "0x7"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
