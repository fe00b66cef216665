//! The seam to a timeline: a page of posts, newest first.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;

use super::since::{IdLayout, Reading};
use crate::base::clock::{self, Millis, Stopwatch};
use crate::model::post::Tweet;
use crate::providers::http::Reply;
use crate::providers::lookup::{LookupError, Quota};
use crate::quota::Credential;

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
    /// Posts with a date that cannot be, which have another one here; those that still have it are not counted.
    pub misdated: usize,
    /// Whether there is another.
    pub more: More,
    /// When it was read.
    pub reading: Reading,
    /// The quota that the answer stated, if any.
    pub quota: Option<Quota>,
}

/// The rules of a timeline's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The endpoint's name in the quota ledger.
    pub endpoint: &'static str,
    /// The relation of its ids to time.
    pub layout: IdLayout,
    /// The time by which ids may appear out of order, in ms.
    pub k: Millis,
    /// The maximum number of posts in a page.
    pub count: u32,
    /// True if a known post is asked for, too, to see that a page reaches what is known. Of no use where the API says
    /// itself which page is the last.
    pub anchored: bool,
    /// The API returns only this many of the newest posts.
    pub depth: Option<u64>,
    /// The API returns only posts younger than this, in ms.
    pub window: Option<Millis>,
    /// The API shows no posts younger than this.
    pub behind: Duration,
}

impl Rules {
    /// The rules of an API that shows all posts at once, and does not mark the last page.
    #[must_use]
    pub const fn of(endpoint: &'static str, layout: IdLayout, k: Millis, count: u32) -> Self {
        Self { endpoint, layout, k, count, anchored: true, depth: None, window: None, behind: Duration::ZERO }
    }
}

/// The parameters of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Only ids above this; `None`: all.
    pub since: Option<u64>,
    /// Only ids below this; `None`: from the newest on.
    pub below: Option<u64>,
    /// The API's own cursor for this page, where it gave one.
    pub cursor: Option<String>,
    /// The maximum number of posts.
    pub count: u32,
}

/// The way to the next page, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum More {
    /// The API does not say.
    #[default]
    Unsaid,
    /// This was the last.
    No,
    /// Asked for with this cursor.
    Cursor(String),
    /// The cursor this page was asked for with is no longer good: nothing came, and it is to be asked for by ids.
    Anew,
}

/// A timeline that can be read in pages. An error's [`LookupError::BadRequest`] is about this timeline alone: it is
/// not there, or not ours to see.
#[async_trait]
pub trait Timeline: Send + Sync + std::fmt::Debug {
    /// Its rules.
    fn rules(&self) -> Rules;

    /// One call.
    async fn page(&self, ask: &Ask, credential: &Credential) -> Result<Page, LookupError>;
}

/// The answer concerns only this timeline.
#[must_use]
pub fn of_target(said: &str) -> LookupError {
    LookupError::BadRequest(format!("it does not exist, is not visible to us, or is not a valid timeline: {said}"))
}

/// Makes a call. Tells what its answer says of the moment at which the timeline was looked at, too, by an API that shows
/// nothing younger than `behind`.
///
/// An answer out of a cache has the `Date` at which it left the cache, which proves nothing: it is left out where
/// the answer says that it comes from one, or might. `Age` is no remedy: nginx keeps answers and sends none, and it is
/// what stands in front of most Mastodon instances (their own `dist/nginx.conf`).
///
/// # Errors
/// The errors of the call.
pub async fn timed(
    call: impl Future<Output = Result<Reply, LookupError>>,
    behind: Duration,
) -> Result<(Reply, Reading), LookupError> {
    let (at, watch, behind) = (clock::wall_ms(), Stopwatch::start(), clock::millis(behind));
    let reply = call.await?;
    let date = reply.date().filter(|_| !may_be_cached(&reply));
    let reading = Reading {
        sent_at: at.saturating_sub(behind),
        took: watch.elapsed_ms() + 1, // rounded up
        date: date.map(|date| date.saturating_sub(behind)),
    };
    Ok((reply, reading))
}

/// Returns true if an answer may come from a cache.
fn may_be_cached(reply: &Reply) -> bool {
    let control = reply.header("cache-control").unwrap_or_default().to_ascii_lowercase();
    reply.header("age").is_some() || ["public", "s-maxage"].iter().any(|word| control.contains(word))
}

/// Reads the posts of a page. Answers how many came in a shape we cannot read, too: those are known by their ids, which
/// `id_of` finds.
///
/// # Errors
/// [`LookupError::BadAnswer`] where a post has no id, or none that is a number: passed over, it would be lost.
pub fn read_posts(
    raws: Vec<&RawValue>,
    parse: impl Fn(&str) -> Result<Tweet, String>,
    id_of: impl Fn(&str) -> Option<String>,
) -> Result<(Vec<Post>, usize), LookupError> {
    let mut broken = 0;
    let mut posts = Vec::with_capacity(raws.len());
    for raw in raws {
        let tweet = match parse(raw.get()) {
            Ok(tweet) => tweet,
            Err(why) => {
                tracing::warn!(why, "a post came in a shape we cannot read: it is scheduled by its id");
                broken += 1;
                bare(id_of(raw.get()).unwrap_or_default())
            }
        };
        let number = tweet.id.parse().ok().filter(|_| tweet.id.bytes().all(|byte| byte.is_ascii_digit()));
        let id = number.ok_or_else(|| LookupError::BadAnswer("a post in it has no id that is a number".to_owned()))?;
        posts.push(Post { id, tweet });
    }
    Ok((posts, broken))
}

/// A post of which the id is all that can be read.
fn bare(id: String) -> Tweet {
    Tweet { id, ..Tweet::default() }
}
