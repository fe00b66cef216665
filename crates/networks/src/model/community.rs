//! Membership of accounts in a community, and the evidence for it. No I/O.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::words::stored_as_word;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Belonging {
    /// It appeared; no evidence is collected.
    Seen,
    Candidate,
    /// It was judged, and the evidence decides nothing.
    Open,
    Member,
    Outside,
}

impl Belonging {
    pub const ALL: [Self; 5] = [Self::Seen, Self::Candidate, Self::Open, Self::Member, Self::Outside];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seen => "seen",
            Self::Candidate => "candidate",
            Self::Open => "open",
            Self::Member => "member",
            Self::Outside => "outside",
        }
    }

    #[must_use]
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Member | Self::Outside)
    }
}

impl fmt::Display for Belonging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

stored_as_word!(Belonging, "state");

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvidenceItem {
    /// The test: `place`, `language` or `friends`.
    pub test: String,
    /// -1 (it does not belong) to 1 (it belongs).
    pub says: f64,
    pub weight: f64,
    /// The evidence, in words.
    pub about: String,
}
