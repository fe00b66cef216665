//! Who belongs to a community, and what that was decided by. No I/O.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::words::stored_as_word;

/// The state of an account in a community.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Belonging {
    /// It appeared; nothing is collected of it.
    Seen,
    /// Evidence is collected of it.
    Candidate,
    /// It was judged, and the evidence decides nothing.
    Open,
    /// It belongs.
    Member,
    /// It does not belong.
    Outside,
}

impl Belonging {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Seen, Self::Candidate, Self::Open, Self::Member, Self::Outside];

    /// The word in the database and for people.
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

    /// Returns true if it is decided.
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

/// What one test says of an account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The test: `place`, `language` or `friends`.
    pub test: String,
    /// -1 (it does not belong) to 1 (it belongs).
    pub says: f64,
    /// The weight of that.
    pub weight: f64,
    /// What it stands on, in words.
    pub about: String,
}
