//! The seam to a timeline: a page of posts, newest first.

use async_trait::async_trait;

use super::paging::{Ask, More, Rules};
use super::since::Reading;
use crate::credential::Credential;
use crate::lookup::{LookupError, Quota};
use crate::tweet::Tweet;

/// A post on a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Post {
    /// Its id, as a number.
    pub id: u64,
    /// The post as it came.
    pub tweet: Tweet,
}

/// A page.
#[derive(Debug, Clone)]
pub struct Page {
    /// Its posts.
    pub posts: Vec<Post>,
    /// Posts that came in a shape we cannot read; they are known by their ids, and looked up later.
    pub broken: usize,
    /// Whether there is another.
    pub more: More,
    /// When it was read.
    pub reading: Reading,
    /// What the answer said about the quota, if it did.
    pub quota: Option<Quota>,
}

/// A timeline that can be read in pages. An error's [`LookupError::BadRequest`] is about this timeline alone: it is
/// not there, or not ours to see.
#[async_trait]
pub trait Timeline: Send + Sync + std::fmt::Debug {
    /// The endpoint's name in the quota ledger.
    fn endpoint(&self) -> &'static str;

    /// What it can do.
    fn rules(&self) -> Rules;

    /// One call.
    async fn page(&self, ask: &Ask, credential: &Credential) -> Result<Page, LookupError>;
}
