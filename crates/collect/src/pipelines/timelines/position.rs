//! State of a source between two polls. Pure.

use serde::{Deserialize, Serialize};

use engine::base::clock::Millis;

/// Its statements stay true, so a source may continue from an older position: that only repeats more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Newest id ever seen; it never falls. `None` if there was none.
    #[serde(with = "optional_text")]
    pub latest: Option<u64>,
    /// Every post up to this id is handed over or in a gap, and none is still to appear. It never falls.
    #[serde(with = "text")]
    pub since: u64,
    /// Greatest known id up to `since`.
    #[serde(with = "optional_text")]
    pub anchor: Option<u64>,
    /// A known id a little below it, to ask from if the anchor is gone.
    #[serde(default, alias = "footing", with = "optional_text")]
    pub fallback_anchor: Option<u64>,
    /// Start of the last whole round, by the network's clock as far as it was known, ms since the Unix epoch.
    pub swept_at: Option<Millis>,
    pub interval: Option<Millis>,
    /// Start of unexpected empty pages, where a known post should be, by the network's clock as far as it was known, ms since the Unix
    /// epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubted_since: Option<Millis>,
    pub open: Option<OpenRound>,
}

/// A round in progress: all posts from `below` upwards are handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenRound {
    /// The next page ends below this id; `None` until a post came.
    #[serde(with = "optional_text")]
    pub below: Option<u64>,
    #[serde(alias = "token")]
    pub cursor: Option<String>,
    /// Number of posts requested so far. Fewer may have been received, since a page need not be full.
    pub passed: u64,
    /// Posts so far that are newer than `known`.
    pub fresh: u64,
    /// Newest known id at its start.
    #[serde(with = "optional_text")]
    pub known: Option<u64>,
    /// Value of `since` at its end.
    #[serde(with = "text")]
    pub next_since: u64,
    /// Greatest id met up to `next_since`.
    #[serde(with = "optional_text")]
    pub next_anchor: Option<u64>,
    /// Value of `fallback_anchor` at its end.
    #[serde(default, alias = "next_footing", with = "optional_text")]
    pub next_fallback_anchor: Option<u64>,
    /// A page was empty: the request from the fallback anchor shows if it was the last.
    #[serde(default, alias = "sounding")]
    pub probing: bool,
    /// A page was empty, and the round continues further down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hole: Option<EmptyRange>,
    /// Untrusted pages in a row.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub odd: u32,
    /// Start, by the network's clock as far as it was known, ms since the Unix epoch.
    pub began_at: Millis,
}

/// Range of ids whose pages were empty, in the middle of a round. A round reads the timeline down to known posts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmptyRange {
    /// Least known id above the range.
    #[serde(with = "text")]
    pub top: u64,
    /// Distance from `top` down to the end of the next page.
    #[serde(with = "text")]
    pub step: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Ids as text in JSON: many readers limit a number to 53 bits.
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
