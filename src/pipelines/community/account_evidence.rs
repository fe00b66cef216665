//! Data that other pipelines send to communities. No I/O.

use serde::{Deserialize, Serialize};

use crate::config::Settings;
use crate::model::account::{Person, Role};

pub const COMMUNITY: &str = "community";

/// Returns true if the settings have a community, which needs posts, lists and profiles.
#[must_use]
pub fn are_wanted(settings: &Settings) -> bool {
    !settings.communities.is_empty()
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountEvidence {
    /// The account wrote the post.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub posted: bool,
    /// The post counts: its first lookup found it. A post from a visit is looked up, too, or is old.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub counts: bool,
    /// Named in the post, or replied to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mentioned: Vec<String>,
    /// Authors of repeated posts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reposted: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub followers: Vec<String>,
    /// Accounts that it follows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub friends: Vec<String>,
}

impl AccountEvidence {
    /// Accounts in a post; `counts` is true if its first lookup found it.
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

    #[must_use]
    pub fn names_no_account(&self) -> bool {
        [&self.mentioned, &self.reposted, &self.followers, &self.friends].into_iter().all(Vec::is_empty)
    }
}
