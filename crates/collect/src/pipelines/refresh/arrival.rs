//! Data that comes along with an id that another pipeline names. No I/O.

use networks::model::account::{Person, Role};
use networks::model::media::Medium;

use engine::base::clock::Millis;

/// The data that a pipeline has about the named id. [`Receiver::takes`](super::Receiver::takes) selects the variants of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// Nothing but the id: for the pipeline of that kind, a word of
    /// [`PipelineId::items`](networks::model::pipeline_id::PipelineId::items).
    Id(&'static str),
    /// An account in a post or on a list.
    Account {
        /// Its profile as the network returned it, if the item has one.
        profile: Option<String>,
        /// Time of its post, ms since the epoch, if the item shows that the account posted.
        posted_at: Option<Millis>,
    },
    /// The author of a post that was found for the first time.
    Author { posted_at: Option<Millis> },
    /// `author`: the author of its post, with whom it must be forgotten.
    Medium { medium: Medium, author: Option<String> },
    /// Signs of membership that a post or a list shows.
    Evidence(AccountEvidence),
    /// The account has posted since its last answer.
    NewPosts,
    /// The account has its first profile, or a page of its posts was read: communities may judge it.
    NewFacts,
}

impl Arrival {
    /// Time of the account's post, ms since the epoch, if the item shows one.
    #[must_use]
    pub fn posted_at(&self) -> Option<Millis> {
        match self {
            Self::Account { posted_at, .. } | Self::Author { posted_at } => *posted_at,
            _ => None,
        }
    }

    /// The account's profile as the network returned it, if the item has one.
    #[must_use]
    pub fn profile(&self) -> Option<&str> {
        match self {
            Self::Account { profile, .. } => profile.as_deref(),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountEvidence {
    /// The account wrote the post.
    pub posted: bool,
    /// True if the first lookup found the post. False for posts of a visit: their own lookup counts them, or they are too old.
    pub is_new_post: bool,
    /// Named in the post, or replied to.
    pub mentioned: Vec<String>,
    /// Authors of repeated posts.
    pub reposted: Vec<String>,
    pub followers: Vec<String>,
    /// Accounts that it follows.
    pub friends: Vec<String>,
    /// Number of members that stand on the list before these.
    pub listed_before: u64,
}

impl AccountEvidence {
    /// `is_new_post`: the first lookup found the post.
    #[must_use]
    pub fn from_post(is_new_post: bool, people: Vec<Person>) -> Self {
        let mut evidence = Self { posted: true, is_new_post, ..Self::default() };
        for Person { id, role, .. } in people {
            match role {
                Role::Author => {}
                Role::Mentioned => evidence.mentioned.push(id),
                Role::Reposted => evidence.reposted.push(id),
            }
        }
        evidence
    }

    /// Returns true if it contains no mention, repost, follower or friend.
    #[must_use]
    pub fn names_no_account(&self) -> bool {
        [&self.mentioned, &self.reposted, &self.followers, &self.friends].into_iter().all(Vec::is_empty)
    }
}
