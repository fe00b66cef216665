//! Relations: follows between accounts. No I/O.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::words::UnknownWord;

/// A list of an account: its followers, or the accounts that it follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ListKind {
    Followers,
    Friends,
}

impl ListKind {
    pub const ALL: [Self; 2] = [Self::Followers, Self::Friends];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Followers => "followers",
            Self::Friends => "friends",
        }
    }
}

impl FromStr for ListKind {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let named = Self::ALL.into_iter().find(|side| side.as_str() == word);
        named.ok_or_else(|| UnknownWord::new(word, "not a list of an account: write followers or friends"))
    }
}

impl fmt::Display for ListKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reason why a list may lack members although the API returned all of its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartialReason {
    /// The owner's account is on another server; this server knows only a part of its relations (Mastodon).
    Remote,
    /// The list is empty. The response is the same if the owner hides the list (Mastodon).
    Hidden,
    /// A full page came without a link to the next page and without an end mark (software that follows Mastodon's API).
    Unlinked,
}

impl PartialReason {
    pub const ALL: [Self; 3] = [Self::Remote, Self::Hidden, Self::Unlinked];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Remote => "remote",
            Self::Hidden => "hidden",
            Self::Unlinked => "unlinked",
        }
    }
}

impl FromStr for PartialReason {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let named = Self::ALL.into_iter().find(|reason| reason.as_str() == word);
        named.ok_or_else(|| UnknownWord::new(word, "not a reason for a partial list: write remote, hidden or unlinked"))
    }
}

impl fmt::Display for PartialReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for side in ListKind::ALL {
            assert_eq!(side.to_string().parse(), Ok(side));
        }
        for reason in PartialReason::ALL {
            assert_eq!(reason.to_string().parse(), Ok(reason));
        }
        assert!("following".parse::<ListKind>().unwrap_err().to_string().ends_with("write followers or friends"));
        assert!("".parse::<PartialReason>().is_err());
    }
}
