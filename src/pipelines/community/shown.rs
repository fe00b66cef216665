//! What other pipelines tell communities, and whether they are to. No I/O.

use serde::{Deserialize, Serialize};

use crate::config::Settings;
use crate::model::account::{Person, Role};

/// The word for the kind.
pub const COMMUNITY: &str = "community";

/// Returns true if the settings have a community, which is to hear of posts, lists and profiles.
#[must_use]
pub fn are_wanted(settings: &Settings) -> bool {
    !settings.communities.is_empty()
}

/// The accounts that a post or a list shows, as a mention's object has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shown {
    /// The account wrote the post that names it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub posted: bool,
    /// The post counts: it was found by its first lookup. One that a visit brought is looked up, too, or is old.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub counts: bool,
    /// Named in the post, or replied to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mentioned: Vec<String>,
    /// Authors of repeated posts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reposted: Vec<String>,
    /// Accounts that follow it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub followers: Vec<String>,
    /// Accounts that it follows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub friends: Vec<String>,
}

impl Shown {
    /// The accounts in a post; `counts` is true if its first lookup found it.
    #[must_use]
    pub fn by_post(counts: bool, people: Vec<Person>) -> Self {
        let mut shown = Self { posted: true, counts, ..Self::default() };
        for Person { id, role, .. } in people {
            match role {
                Role::Author => {}
                Role::Mentioned => shown.mentioned.push(id),
                Role::Reposted => shown.reposted.push(id),
            }
        }
        shown
    }

    /// Returns true if it shows no account.
    #[must_use]
    pub fn names_nobody(&self) -> bool {
        [&self.mentioned, &self.reposted, &self.followers, &self.friends].into_iter().all(Vec::is_empty)
    }
}
