//! The seam to a timeline: a page of posts, newest first.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;

use super::since::{IdLayout, Reading};
use crate::model::post::Tweet;
use crate::providers::http::Reply;
use crate::providers::lookup::{LookupError, Quota};
use crate::providers::unreadable::UnreadableObject;
use engine::base::clock::{self, Millis, Stopwatch};
use engine::quota::Credential;

#[derive(Debug, Clone, PartialEq)]
pub struct Post {
    pub id: u64,
    pub tweet: Tweet,
}

#[derive(Debug, Clone)]
pub struct Page {
    pub posts: Vec<Post>,
    /// Number of posts in an unreadable shape; `posts` has only their ids, and they are looked up later.
    pub broken: usize,
    /// Number of posts whose impossible date was replaced; a post that keeps such a date is not counted.
    pub misdated: usize,
    pub more: NextPage,
    pub reading: Reading,
    pub quota: Option<Quota>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    pub endpoint: &'static str,
    pub layout: IdLayout,
    /// Time in ms by which ids may appear out of order.
    pub k: Millis,
    /// Maximum number of posts per page.
    pub count: u32,
    /// True if a request includes a known post, to check that a page reaches the known posts. Useless if the API marks the last page.
    pub anchored: bool,
    /// Number of newest posts that the API returns at most.
    pub depth: Option<u64>,
    /// Maximum age of the posts that the API returns, in ms.
    pub window: Option<Millis>,
    /// Minimum age of the posts that the API shows.
    pub behind: Duration,
}

impl Rules {
    /// Rules of an API that shows all posts at once, and does not mark the last page.
    #[must_use]
    pub const fn new(endpoint: &'static str, layout: IdLayout, k: Millis, count: u32) -> Self {
        Self { endpoint, layout, k, count, anchored: true, depth: None, window: None, behind: Duration::ZERO }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineRequest {
    /// Lower bound of the ids (exclusive); `None`: no bound.
    pub since: Option<u64>,
    /// Upper bound of the ids (exclusive); `None`: from the newest on.
    pub below: Option<u64>,
    /// API's own cursor for this page, if it gave one.
    pub cursor: Option<String>,
    pub count: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NextPage {
    #[default]
    Unstated,
    No,
    Cursor(String),
    /// The cursor of this request has expired, and nothing came: request the page by ids.
    CursorExpired,
}

/// Timeline that is read in pages. [`LookupError::BadRequest`] concerns this timeline alone: it does not exist, or is not visible to us.
#[async_trait]
pub trait Timeline: Send + Sync + std::fmt::Debug {
    fn rules(&self) -> Rules;

    async fn page(&self, ask: &TimelineRequest, credential: &Credential) -> Result<Page, LookupError>;
}

#[must_use]
pub fn target_error(said: &str) -> LookupError {
    LookupError::BadRequest(format!("it does not exist, is not visible to us, or is not a valid timeline: {said}"))
}

/// Makes a call, and returns the evidence for the moment of its reading. The API shows nothing younger than `behind`.
///
/// `Date` is dropped if the answer may come from a cache: it is then the time at which the answer left the cache. `Age` cannot
/// correct it: nginx, in front of most Mastodon instances (their `dist/nginx.conf`), caches answers and sends none.
pub async fn measure_reading(
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

fn may_be_cached(reply: &Reply) -> bool {
    let control = reply.header("cache-control").unwrap_or_default().to_ascii_lowercase();
    reply.header("age").is_some() || ["public", "s-maxage"].iter().any(|word| control.contains(word))
}

/// Reads the posts of a page. Also returns the number of unreadable posts; `read_id` finds their ids.
///
/// # Errors
/// [`LookupError::BadAnswer`] if a post has no id, or none that is a number: skipping the post would lose it.
pub fn read_posts(
    raws: Vec<&RawValue>,
    parse: impl Fn(&str) -> Result<Tweet, UnreadableObject>,
    read_id: impl Fn(&str) -> Option<String>,
) -> Result<(Vec<Post>, usize), LookupError> {
    let mut broken = 0;
    let mut posts = Vec::with_capacity(raws.len());
    for raw in raws {
        let tweet = match parse(raw.get()) {
            Ok(tweet) => tweet,
            Err(why) => {
                tracing::warn!(why = why.to_string(), "a post is unreadable; the poller schedules it by its id");
                broken += 1;
                tweet_with_id(read_id(raw.get()).unwrap_or_default())
            }
        };
        let number = tweet.id.parse().ok().filter(|_| tweet.id.bytes().all(|byte| byte.is_ascii_digit()));
        let id = number.ok_or_else(|| LookupError::BadAnswer("a post in it has no id that is a number".to_owned()))?;
        posts.push(Post { id, tweet });
    }
    Ok((posts, broken))
}

fn tweet_with_id(id: String) -> Tweet {
    Tweet { id, ..Tweet::default() }
}
