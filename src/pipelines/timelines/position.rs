//! The position of a source: its state between two polls. Pure.

use serde::{Deserialize, Serialize};

use crate::base::clock::Millis;

/// The position of a source. Its statements stay true whatever is read later, so of two positions either may be gone on
/// from: the older one only repeats more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// The newest id ever seen; it never falls. `None` while nothing was.
    #[serde(with = "optional_text")]
    pub latest: Option<u64>,
    /// Every post up to this id is handed over or in a gap, also those that are not visible yet: there are none. It never
    /// falls.
    #[serde(with = "text")]
    pub since: u64,
    /// The greatest known id up to `since`.
    #[serde(with = "optional_text")]
    pub anchor: Option<u64>,
    /// A known id a little below it, to ask from where the anchor is gone.
    #[serde(default, alias = "footing", with = "optional_text")]
    pub fallback_anchor: Option<u64>,
    /// When the last whole round began, by their clock as well as it was known, ms since the Unix epoch.
    pub swept_at: Option<Millis>,
    /// The interval in force, ms.
    pub interval: Option<Millis>,
    /// Since when a page comes empty, the first of a round or one that calls itself the last, although a post is known that
    /// should be there: by their clock as well as it was known, ms since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubted_since: Option<Millis>,
    /// A round that is not at its end.
    pub open: Option<Span>,
}

/// A round on its way: everything from `below` on, upwards, is handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The next page ends below this id; `None` while no post came.
    #[serde(with = "optional_text")]
    pub below: Option<u64>,
    /// The API's own cursor for the next page.
    #[serde(alias = "token")]
    pub cursor: Option<String>,
    /// Posts asked for so far: not fewer than were passed.
    pub passed: u64,
    /// Posts so far that are newer than what was known when it began.
    pub fresh: u64,
    /// The newest id known when it began.
    #[serde(with = "optional_text")]
    pub known: Option<u64>,
    /// The value of `since` at its end.
    #[serde(with = "text")]
    pub next_since: u64,
    /// The greatest id met up to `next_since`.
    #[serde(with = "optional_text")]
    pub next_anchor: Option<u64>,
    /// The value of `fallback anchor` at its end.
    #[serde(default, alias = "next_footing", with = "optional_text")]
    pub next_fallback_anchor: Option<u64>,
    /// A page came empty: it is asked from the fallback anchor, to see whether that was the last.
    #[serde(default, alias = "sounding")]
    pub probing: bool,
    /// A page came empty, and it is asked further down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hole: Option<Hole>,
    /// Pages in a row that could not be believed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub odd: u32,
    /// When it began, by their clock as well as it was known, ms since the Unix epoch.
    pub began_at: Millis,
}

/// Where pages come empty in the middle of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hole {
    /// The least id known above it.
    #[serde(with = "text")]
    pub top: u64,
    /// The distance below that to the end of the next page.
    #[serde(with = "text")]
    pub step: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Ids as text in JSON: a number there has 53 bits for many readers.
mod text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
    pub fn serialize<S: Serializer>(id: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// The same where there may be none.
mod optional_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[allow(clippy::ref_option)] // serde's signature
    pub fn serialize<S: Serializer>(id: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        match id {
            Some(id) => to.collect_str(&format_args!("{id}")),
            None => to.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        let text: Option<String> = Option::deserialize(from)?;
        text.map(|text| text.parse().map_err(de::Error::custom)).transpose()
    }
}
