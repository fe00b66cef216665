//! Providers. Each has its own namespace in queue and store, and its own quota ledger.

use std::fmt;
use std::str::FromStr;

const MASTODON: &str = "mastodon";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    Twitter,
    X,
    /// A Mastodon instance, by its name in the settings. Each has its own ids, posts and limits.
    Mastodon(String),
    Bluesky,
}

impl Provider {
    #[must_use]
    pub fn ledger(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twitter => f.write_str("twitter"),
            Self::X => f.write_str("x"),
            Self::Mastodon(instance) => write!(f, "{MASTODON}:{instance}"),
            Self::Bluesky => f.write_str("bluesky"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no provider: there are twitter, x, mastodon:INSTANCE and bluesky")]
pub struct NoProvider(String);

impl FromStr for Provider {
    type Err = NoProvider;

    fn from_str(text: &str) -> Result<Self, NoProvider> {
        let instance = text.strip_prefix(MASTODON).and_then(|rest| rest.strip_prefix(':'));
        match (text, instance) {
            ("twitter", _) => Ok(Self::Twitter),
            ("x", _) => Ok(Self::X),
            ("bluesky", _) => Ok(Self::Bluesky),
            (_, Some(instance)) if !instance.is_empty() => Ok(Self::Mastodon(instance.to_owned())),
            _ => Err(NoProvider(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for name in ["twitter", "x", "mastodon:social", "bluesky"] {
            assert_eq!(name.parse::<Provider>().unwrap().to_string(), name);
        }
        for odd in ["", "X", "mastodon", "mastodon:", "mastodons", "twitter:x"] {
            let error = odd.parse::<Provider>().unwrap_err().to_string();
            assert!(error.contains("is no provider: there are twitter"), "{error}");
        }
    }
}
