//! Relations: which account follows which. No I/O.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A list of an account: the accounts that follow it, or those that it follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The accounts that follow the owner of the list.
    Followers,
    /// The accounts that the owner of the list follows.
    Friends,
}

impl Side {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Followers, Self::Friends];

    /// The word in the database, the settings and the names of pipelines.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Followers => "followers",
            Self::Friends => "friends",
        }
    }

    /// The follower and the followed account, of a list's owner and a member of the list.
    #[must_use]
    pub fn follower_and_followed<T>(self, owner: T, member: T) -> (T, T) {
        match self {
            Self::Followers => (member, owner),
            Self::Friends => (owner, member),
        }
    }
}

impl FromStr for Side {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|side| side.as_str() == word);
        named.ok_or_else(|| format!("{word:?} is not a list of an account: write followers or friends"))
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a list may lack members although the API returned all of its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Partial {
    /// The owner's account is on another server, of whose relations this server knows a part (Mastodon).
    Remote,
    /// The list is empty, and the answer is the same if the owner hides it (Mastodon).
    Hidden,
    /// A full page came without a link to the next one, or a word that there is none (software that follows Mastodon's API).
    Unlinked,
}

impl Partial {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Remote, Self::Hidden, Self::Unlinked];

    /// The word in the database, in `status` and on the page.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Remote => "remote",
            Self::Hidden => "hidden",
            Self::Unlinked => "unlinked",
        }
    }
}

impl FromStr for Partial {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|reason| reason.as_str() == word);
        named.ok_or_else(|| format!("{word:?} is not a reason for a partial list: write remote, hidden or unlinked"))
    }
}

impl fmt::Display for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for side in Side::ALL {
            assert_eq!(side.to_string().parse(), Ok(side));
        }
        for reason in Partial::ALL {
            assert_eq!(reason.to_string().parse(), Ok(reason));
        }
        assert!("following".parse::<Side>().unwrap_err().ends_with("write followers or friends"));
        assert!("".parse::<Partial>().is_err());
    }

    #[test]
    fn a_side_says_who_follows_whom() {
        assert_eq!(Side::Followers.follower_and_followed("owner", "member"), ("member", "owner"));
        assert_eq!(Side::Friends.follower_and_followed("owner", "member"), ("owner", "member"));
    }
}
