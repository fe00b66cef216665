//! Timelines of Bluesky: posts of an account, and search.
//!
//! Sources: the lexicons app.bsky.feed.getAuthorFeed and app.bsky.feed.searchPosts; docs.bsky.app (advanced-guides/timestamps);
//! the reference server, bluesky-social/atproto (`packages/bsky`: `api/app/bsky/feed/getAuthorFeed.ts` and `searchPosts.ts`,
//! `data-plane/server/db/pagination.ts`).
//!
//! **Positions.** Ids are at-uris: they do not show the position of a post in its timeline. Both timelines are sorted by a *sort time*, the
//! earlier of `createdAt` and `indexedAt`; for a repost it is the time of the repost. So each post of a page gets a number, its *feed
//! position*: the sort time, and below it some bits of its uri ([`LAYOUT`]). `order` computes the positions.
//!
//! **An author feed** has no lower bound: each page holds known posts, and the walk goes down by cursors until it meets them. A cursor
//! is the time of the last item: `2024-06-28T02:59:07.446Z` at Bluesky, `1719543547446__bafy…` in the reference server. If a cursor is
//! refused, the reader makes one from the time. If a cursor is a bare time, the next page begins 1 ms above it, since other posts of
//! the last post's millisecond may be left.
//!
//! **A search** is read with its parameters `since` and `until`. Its cursor is a count of posts, which a deletion shifts, and Bluesky
//! refuses it to callers without a login (bsky-docs#296). The reader uses a cursor only if time does not lead on: below an empty page,
//! within one millisecond, and at a server that ignores `until`.
//!
//! **The last page** has no cursor. But an author feed's page with posts and without a cursor may have further pages (atproto#2616).
//! If the page ends above the known posts, and the form of the server's cursors is known, the reader requests the next page by time.
//!
//! **A cursor that the server cannot read** gets a 400, or a 500 from the reference server. So the reader repeats a failed call without
//! the cursor: if the server answers that, the cursor is stale and there is no outage.
//!
//! **`Date` is ignored.** An index lags by an unknown time, and answers without a login come from caches.

mod body;
mod order;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use reqwest::Url;
use serde::Deserialize;

pub use self::body::{ParsedPage, read};
pub use self::order::{LAYOUT, feed_position};
use crate::providers::auth::get;
use crate::providers::bluesky::{self, errors, is_stale_cursor, parse_date};
use crate::providers::http::{ClientError, HttpClient, Reply, parse_base_url};
use crate::providers::lookup::LookupError;
use crate::providers::since::Reading;
use crate::providers::source::{NetworkTimeline, SourceKind, SourceQuery, accept_if, check_length, check_no_sign};
use crate::providers::timeline::{NextPage, Page, Rules, TimelineRequest, measure_reading, target_error};
use engine::base::clock::{self, Millis};
use engine::quota::{Credential, CredentialKind};

/// Posts per page: the lexicons' limit.
const COUNT: u32 = 100;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Kind {
    /// Posts of an account, including replies and reposts.
    Author {
        /// Handle or DID.
        actor: String,
    },
    Search {
        /// In Bluesky's own syntax, up to 1,000 characters. The server states no limit, but addresses have one.
        query: String,
    },
}

/// Clones share the connections and the facts learned about the server.
#[derive(Debug, Clone)]
pub struct BlueskyApi {
    http: HttpClient,
    /// Ends with a slash.
    base: Url,
    forms: Arc<CursorForms>,
    searches: Arc<SearchTraits>,
}

impl BlueskyApi {
    pub fn new(http: HttpClient, base_url: &str) -> Result<Self, ClientError> {
        Ok(Self { http, base: parse_base_url(base_url)?, forms: Arc::default(), searches: Arc::default() })
    }
}

/// Form of a cursor that is made from a time.
#[derive(Debug, Default)]
struct CursorForms {
    /// Odd if the next cursor has the reference server's form.
    refused: AtomicU8,
    /// True once a cursor of the server has shown its form.
    is_known: AtomicBool,
}

/// Behaviour of the server in searches, learned from its answers.
#[derive(Debug, Default)]
struct SearchTraits {
    /// True if the server refuses cursors to callers without a login.
    refuses_cursors: AtomicBool,
    /// True if the server ignores `until`, so that only cursors lead on.
    ignores_until: AtomicBool,
}

impl CursorForms {
    fn write(&self, below: Millis) -> String {
        // Both forms exclude the posts of the millisecond `below`: no CID begins with a digit.
        if self.refused.load(Ordering::Relaxed).is_multiple_of(2) { iso(below) } else { format!("{below}__0") }
    }

    /// Learns the form from a cursor of the server.
    fn learn_form(&self, cursor: &str) {
        if body::cursor_time(cursor).is_some() {
            self.refused.store(u8::from(cursor.contains("__")), Ordering::Relaxed);
            self.is_known.store(true, Ordering::Relaxed);
        }
    }

    /// Notes a refused cursor; returns true if the other form has not been tried.
    fn note_refused(&self) -> bool {
        self.refused.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
    }
}

/// Moment in ms since the Unix epoch, as Bluesky writes it; at most the year 2109, the limit of a feed position.
fn iso(at: Millis) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + clock::span(at.clamp(0, LAYOUT.made_at(u64::MAX)))).to_string()
}

/// Moment before which a page below this position must end: other posts of the position's millisecond may be left.
fn page_end(below: u64) -> Millis {
    LAYOUT.made_at(below).saturating_add(1)
}

/// Returns true if a request by time would return the same page again.
fn is_stuck(ask: &TimelineRequest, read: &ParsedPage) -> bool {
    match (ask.below, read.posts.iter().map(|post| post.id).min()) {
        (Some(below), Some(least)) => LAYOUT.made_at(least) >= LAYOUT.made_at(below),
        _ => false,
    }
}

fn has_posts_after_end(ask: &TimelineRequest, read: &ParsedPage) -> bool {
    let end = ask.below.map(page_end);
    read.posts.iter().any(|post| end.is_some_and(|end| LAYOUT.made_at(post.id) > end))
}

/// Raises a bare-time cursor by 1 ms, so that the next page begins with the millisecond at which this one ends.
fn raise_cursor(cursor: &str) -> String {
    parse_date(cursor).map_or_else(|| cursor.to_owned(), |at| iso(at.saturating_add(1)))
}

impl NetworkTimeline<Kind> {
    fn address(&self, ask: &TimelineRequest) -> Result<Url, LookupError> {
        let path = format!("xrpc/app.bsky.feed.{}", self.rules.endpoint);
        let mut address = self.api.base.join(&path).map_err(|error| LookupError::Stop(error.to_string()))?;
        let mut query = address.query_pairs_mut();
        let mut cursor = ask.cursor.clone();
        match &self.kind {
            Kind::Author { actor } => {
                query.append_pair("actor", actor);
                query.append_pair("filter", "posts_with_replies").append_pair("includePins", "false");
                cursor = cursor.or_else(|| Some(self.api.forms.write(page_end(ask.below?))));
            }
            Kind::Search { query: text } => {
                query.append_pair("q", text).append_pair("sort", "latest");
                if let Some(since) = ask.since {
                    query.append_pair("since", &iso(LAYOUT.made_at(since.saturating_add(1)))); // inclusive
                }
                if let Some(below) = ask.below {
                    query.append_pair("until", &iso(page_end(below))); // exclusive
                }
            }
        }
        query.append_pair("limit", &ask.count.to_string());
        if let Some(cursor) = cursor {
            query.append_pair("cursor", &cursor);
        }
        drop(query);
        Ok(address)
    }

    /// Returns true if the cursor may be the cause of a refusal. Any other cause shows without a cursor, too.
    fn refuses_cursor(&self, ask: &TimelineRequest) -> bool {
        if ask.cursor.is_some() {
            return true;
        }
        matches!(self.kind, Kind::Author { .. }) && ask.below.is_some() && self.api.forms.note_refused()
    }

    fn refusal_error(&self, reply: &Reply, credential: &Credential) -> LookupError {
        use LookupError::{BadRequest, BatchTooLarge};

        match errors::decide(reply) {
            // The server answers all other calls, so no credential is parked.
            _ if self.is_closed_to(credential) && matches!(reply.status, 401 | 403) => BadRequest(format!(
                "the server refuses a search without a login (HTTP {}): set bluesky.api to a server that answers it",
                reply.status
            )),
            BadRequest(said) | BatchTooLarge(said) => target_error(&said),
            // Without a session, no session is refused: the requested account is suspended.
            LookupError::Credential(said) if is_anonymous(credential) && reply.status == 400 => target_error(&said),
            _ => bluesky::refusal_error(reply, &credential.kind),
        }
    }

    /// Returns true for a search without a login: servers may refuse such a caller the cursor, or the whole search.
    fn is_closed_to(&self, credential: &Credential) -> bool {
        matches!(self.kind, Kind::Search { .. }) && is_anonymous(credential)
    }

    fn next_page(&self, ask: &TimelineRequest, read: &ParsedPage, is_closed: bool) -> NextPage {
        let is_empty = read.posts.is_empty();
        // A request by time would return the same page again.
        let is_had = is_empty || is_stuck(ask, read);
        let by_cursor = || self.api.searches.ignores_until.load(Ordering::Relaxed) && !is_closed;
        match (&self.kind, &read.cursor) {
            // An empty page with its own cursor is the end.
            (_, Some(_)) if is_empty && read.cursor == ask.cursor => NextPage::No,
            // There is more, but the server would refuse the cursor: the reader looks further down.
            (_, Some(_)) if is_closed && is_empty => NextPage::Unstated,
            (_, Some(cursor)) if is_had => NextPage::Cursor(cursor.clone()),
            (Kind::Author { .. }, Some(cursor)) => NextPage::Cursor(raise_cursor(cursor)),
            (Kind::Search { .. }, Some(cursor)) if by_cursor() => NextPage::Cursor(cursor.clone()),
            (Kind::Search { .. }, None) if ask.cursor.is_some() => NextPage::No,
            (_, None) if is_had => NextPage::No,
            (Kind::Author { .. }, None) if !self.may_continue_below(ask, read) => NextPage::No,
            _ => NextPage::Unstated,
        }
    }

    /// Returns true if an author feed may continue below a page without a cursor: the page ends above the known posts.
    fn may_continue_below(&self, ask: &TimelineRequest, read: &ParsedPage) -> bool {
        let least = read.posts.iter().map(|post| post.id).min();
        let is_above = ask.since.zip(least).is_some_and(|(since, least)| least > since.saturating_add(1));
        is_above && self.api.forms.is_known.load(Ordering::Relaxed)
    }

    async fn fails_because_of_cursor(
        &self,
        ask: &TimelineRequest,
        credential: &Credential,
    ) -> Result<bool, LookupError> {
        let with_cursor = self.address(ask)?;
        let without = self.address(&TimelineRequest { since: None, below: None, cursor: None, count: 1 })?;
        if !with_cursor.query_pairs().any(|(name, _)| name == "cursor") {
            return Ok(false);
        }
        is_stale_cursor(&self.api.http, [with_cursor, without], credential).await
    }
}

fn is_anonymous(credential: &Credential) -> bool {
    matches!(credential.kind, CredentialKind::Anonymous)
}

#[async_trait]
impl SourceKind for Kind {
    type Api = BlueskyApi;

    /// A post has the date of its author's clock, and appears when it is indexed: seconds later at best. Bluesky's own guide allows
    /// clocks to differ by two minutes.
    const OUT_OF_ORDER: Duration = Duration::from_secs(120);

    fn source_query(&self) -> SourceQuery<'_> {
        let actor = match self {
            Self::Author { actor } => actor,
            Self::Search { query } => return check_length(1_000, "query", query),
        };
        check_no_sign('@', "actor", actor)?;
        let is_fit = |c: char| c.is_ascii_alphanumeric() || "._:%-".contains(c);
        let is_named = actor.starts_with("did:") || actor.contains('.');
        accept_if(actor.len() <= 300 && actor.chars().all(is_fit) && is_named, actor, || {
            ".actor is a handle, like alice.bsky.social, or a DID, like did:plc:…".to_owned()
        })
    }

    fn rules(&self, k: Millis) -> Rules {
        let endpoint = match self {
            Self::Author { .. } => "getAuthorFeed",
            Self::Search { .. } => "searchPosts",
        };
        // The quota counts calls, so a known post is requested, too.
        Rules::new(endpoint, LAYOUT, k, COUNT)
    }

    async fn page(
        timeline: &NetworkTimeline<Self>,
        ask: &TimelineRequest,
        credential: &Credential,
    ) -> Result<Page, LookupError> {
        let call = get(&timeline.api.http, timeline.address(ask)?, credential);
        let (reply, reading) = measure_reading(call, timeline.rules.behind).await?;
        let reading = Reading { date: None, ..reading };
        let quota = errors::quota(&reply);
        let is_anonymous_search = timeline.is_closed_to(credential);
        let searches = &timeline.api.searches;
        let is_refused = is_anonymous_search && ask.cursor.is_some() && matches!(reply.status, 401 | 403);
        if is_refused {
            searches.refuses_cursors.store(true, Ordering::Relaxed);
        }
        let is_closed = is_anonymous_search && searches.refuses_cursors.load(Ordering::Relaxed);
        let is_stale = match reply.status {
            400 => true,
            500.. => timeline.fails_because_of_cursor(ask, credential).await?,
            _ => false,
        };
        if is_refused || is_stale && timeline.refuses_cursor(ask) {
            tracing::info!("the server refused the cursor of a page; the poller continues by time");
            return Ok(Page {
                posts: Vec::new(),
                broken: 0,
                misdated: 0,
                more: NextPage::CursorExpired,
                reading,
                quota,
            });
        }
        if is_stale && reply.status >= 500 {
            let why = "the server rejects a cursor that is made from a time, but answers without a cursor";
            return Err(LookupError::BadRequest(why.to_owned()));
        }
        let reply = reply.require_json(|reply| timeline.refusal_error(reply, credential))?;
        let read = read(&timeline.kind, &reply.body, ask.below)?;
        if is_closed && read.cursor.is_some() && is_stuck(ask, &read) {
            let why = match searches.ignores_until.load(Ordering::Relaxed) {
                true => "the server ignores until, and the next page of a search needs a login there",
                false => "all posts of a page are of one millisecond, and the next page needs a login",
            };
            return Err(LookupError::BadRequest(why.to_owned()));
        }
        if matches!(timeline.kind, Kind::Search { .. }) && ask.cursor.is_none() && has_posts_after_end(ask, &read) {
            searches.ignores_until.store(true, Ordering::Relaxed);
        }
        if !read.posts.is_empty() && read.cursor.is_some() && read.cursor == ask.cursor {
            let why = "the server returned the cursor of the request, so its pages go round in circles";
            return Err(LookupError::BadRequest(why.to_owned()));
        }
        if let Some(cursor) = &read.cursor {
            timeline.api.forms.learn_form(cursor);
        }
        let more = timeline.next_page(ask, &read, is_closed);
        let ParsedPage { posts, broken, misdated, .. } = read;
        Ok(Page { posts, broken, misdated, more, reading, quota })
    }
}
