//! Edges: follows between accounts, and their times.
//!
//! A *list* is the followers or the friends of an account (its *owner*): an item of the pipeline `followers:<network>`
//! or `friends:<network>`, whose row in `tweet` holds its life. A *crawl* reads a list page by page, newest first. The
//! accounts on it are its *members*. An *edge* is the interval for which a member was on the list:
//!
//! - It **appeared** after the start of the previous complete crawl, which did not show it, and by the time of the page
//!   that did. Before the first complete crawl the lower bound is unknown.
//! - It **vanished** after the request for the last page that showed it, and by the end of the next complete crawl,
//!   which did not. Only a complete crawl closes edges. A member that comes back has a new edge.
//! - Some networks state times of follows. Such a time may be newer than the stored one and than the last page that showed the
//!   member. Then any crawl closes the edge, by its own end, and opens a new one.
//!
//! Pages of all crawls count as proof, however their crawl ended. A crawl that stops at a known tail or a stale cursor
//! adds edges and extends known ones. Each page is stored as the differences of its members' sorted numbers. So crawls
//! do not rewrite open edges; the store looks for the last page that showed an edge when it closes the edge.
//!
//! # Assumptions
//! - A complete crawl shows each member that is on the list from its start to its end. That holds if a cursor is a position in the
//!   order of follows (v1.1, Mastodon, Bluesky). If a cursor counts members, each unfollow above it moves one member over a page
//!   boundary. If the crawl misses that member, it gets a closed edge, and a new one by the next crawl.
//! - A member that follows during a crawl is above its first page. The next crawl shows it, and the lower bound, the start of
//!   this crawl, is before its follow. A member that leaves behind a crawl's page stays open until the next complete crawl.
//! - The store does not notice a member that left and came back between two answers: its edge continues, unless the
//!   network states times of follows.
//! - Times are those of one clock. If it steps back, times of a list stand still, so no lower bound exceeds its upper one.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{ListBounds, ListTotals, PersonSource, Result};
use engine::base::clock::Millis;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CrawlKind {
    Complete,
    /// The newest members: the crawl ends at a page after which this many members in a row were open before it.
    Prefix {
        /// At least 1.
        known_tail: u32,
    },
}

#[derive(Debug, Clone, Copy)]
pub struct NewCrawl {
    pub kind: CrawlKind,
    /// Start of the crawl, before its first request, on the queue's clock, ms since the epoch.
    pub at: Millis,
    pub stated_total: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CrawlUnderWay {
    /// A unique number, never reused. With the cursor it distinguishes an expected page from a late one.
    pub number: i64,
    pub kind: CrawlKind,
    pub cursor: Option<String>,
    pub started_at: Millis,
    /// Time of its newest page, or its start before any page.
    pub newest_at: Millis,
    pub pages: i64,
    /// Distinct members on these pages (see [`SavedEdges::repeated`]).
    pub found: i64,
    pub unreadable: i64,
    pub stated_total: Option<i64>,
}

/// Limit for closing edges on the evidence of one complete crawl. Missing edges above both figures stay open until the next complete
/// crawl misses them, too. The same applies if the whole list is empty. It also applies if more than `least` are missing and the last of
/// several pages is empty. If a page between the two crawls showed an edge, that edge counts as newly missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClosingLimit {
    /// Largest share of the open edges that a crawl may close at once, 0 to 1; 1 allows all, also after an empty page.
    pub share: f64,
    /// Number of edges that a crawl may always close: in a short list a few are a large share.
    pub least: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    /// The list was read to its end, also by a prefix crawl. Closes the open edges that no page of this crawl showed.
    Complete(ClosingLimit),
    /// Stopped at the cap for long lists.
    Capped,
    Hidden,
    /// The network shows only a part of the list (a remote account), or some ids of the crawl were unreadable.
    Partial,
    /// The network no longer accepts the cursor; the list is read again from the top.
    Stale,
    Aborted,
}

/// Returns true if a crawl with this many pages and distinct members makes no progress. APIs leave out a few members of
/// a page, but not nearly all of a hundred pages.
#[must_use]
pub fn is_stalled(pages: i64, found: i64) -> bool {
    pages >= 100 && found < pages
}

#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    Page(String),
    End(End),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedMember {
    pub id: String,
    /// Time of the follow, if the network states it (Bluesky). The store drops a time outside the interval that crawls
    /// prove. The time is added to an open edge without one. An open edge with an older time may end by it.
    pub followed_at: Option<Millis>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EdgePage {
    pub crawl: i64,
    pub cursor: Option<String>,
    /// Members in the network's order, newest first. Pages may overlap.
    pub members: Vec<ListedMember>,
    pub unreadable: i64,
    pub next: Next,
    /// On the queue's clock, before the request; the time of the claim is sufficient.
    pub asked_at: Millis,
    /// On the queue's clock, after the answer.
    pub answered_at: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrawlEnd {
    Complete,
    /// It read the whole list, but would have closed more edges than [`ClosingLimit`] allows, so it closed none. The next
    /// complete crawl may confirm them. It closed the edges that the previous crawl withheld and no page showed since.
    Withheld,
    KnownTail,
    Capped,
    Hidden,
    Partial,
    Stale,
    /// The next cursor was that of an earlier page, or [page after page brings nothing](is_stalled).
    Looped,
    Aborted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrawlOutcome {
    pub end: CrawlEnd,
    pub vanished: u64,
    /// Number of missing edges that it left open: [`CrawlEnd::Withheld`].
    pub withheld: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedEdges {
    pub new: u64,
    /// Ids that occur again on this page, or on the previous [`OVERLAP`] pages of this crawl.
    pub repeated: u64,
    /// Members in a row whose edges were open before this crawl. Counted back from the end of the page, and over
    /// previous pages that were known as a whole.
    pub known_tail: u64,
    /// The crawl's end, if it ended: by [`Next::End`], at a known tail, or because its next cursor was that of an earlier page.
    pub ended: Option<CrawlOutcome>,
}

/// Number of previous pages that are searched for repeated ids. The count of an ended crawl is exact over all its pages.
pub const OVERLAP: u32 = 64;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct CrawlRecord {
    pub number: i64,
    /// `complete` or `prefix`.
    pub kind: String,
    pub started_at: Millis,
    /// `None` while it is under way.
    pub ended_at: Option<Millis>,
    /// Word of its [`CrawlEnd`].
    pub ended: Option<String>,
    pub pages: i64,
    pub found: i64,
    pub stated_total: Option<i64>,
    pub appeared: i64,
    pub vanished: i64,
    pub withheld: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListCrawl {
    pub owner: String,
    #[serde(flatten)]
    pub crawl: CrawlUnderWay,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct Edge {
    pub owner: String,
    pub member: String,
    /// Lower bound of the start, ms since the epoch; `None` if unknown.
    pub appeared_after: Option<Millis>,
    /// Upper bound of the start.
    pub appeared_by: Millis,
    /// Time of the follow, if the network states it; between the two bounds.
    pub followed_at: Option<Millis>,
    /// Lower bound of the end; `None` while the edge is open.
    pub vanished_after: Option<Millis>,
    /// Upper bound of the end; `None` while the edge is open.
    pub vanished_by: Option<Millis>,
    /// Cause of the end: `unfollowed`; or `suspended`, `deactivated` or `deleted`, as the member's profile shows for
    /// that time. `unknown` if profiles are not collected, not looked up since, or were missing then without a reason.
    pub cause: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberAt {
    /// True if pages prove that the edge existed then. If false, the moment lies between its bounds, or after the
    /// newest crawl that proves an open edge.
    pub surely: bool,
    #[serde(flatten)]
    pub edge: Edge,
    #[serde(skip)]
    pub place: EdgePlace,
}

/// A position in an order of edges. The numbers are internal to the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EdgePlace(pub i64, pub i64, pub i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeChange {
    Appeared,
    Vanished,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, sqlx_macros::FromRow)]
pub struct Follow {
    pub follower: String,
    pub followed: String,
}

/// The contract of edges, in the same database as [`Store`](super::Store). Errors are those of
/// [`Lifecycle`](super::Lifecycle). Times are ms since the epoch.
///
/// `namespace` is a pipeline of lists (`followers:twitter`), `owner` an item of it; `network` is its part after the
/// first colon (`twitter`). Calls about one list must not overlap, in any process.
#[async_trait]
pub trait Edges: Send + Sync + std::fmt::Debug {
    /// Starts a crawl of a recorded list and returns it. If a crawl is under way, returns it unchanged. `None`: no such item.
    async fn begin_crawl(&self, namespace: &str, owner: &str, new: &NewCrawl) -> Result<Option<CrawlUnderWay>>;

    async fn crawl(&self, namespace: &str, owner: &str) -> Result<Option<CrawlUnderWay>>;

    /// Saves a page, all or nothing: new edges, the page as proof, and the next cursor or the end. Returns `None` and
    /// changes nothing if the crawl ended or expects another cursor: the page is late or repeated.
    async fn save_edges(&self, namespace: &str, owner: &str, page: &EdgePage) -> Result<Option<SavedEdges>>;

    /// Ends a crawl without another page. Returns `None` and changes nothing in the cases of [`Edges::save_edges`].
    /// `at` is on the queue's clock.
    async fn end_crawl(
        &self,
        namespace: &str,
        owner: &str,
        (number, cursor): (i64, Option<&str>),
        at: Millis,
        end: End,
    ) -> Result<Option<CrawlOutcome>>;

    async fn crawls(&self, namespace: &str, owner: &str, limit: u32) -> Result<Vec<CrawlRecord>>;

    /// Returns up to `limit` crawls under way with numbers above `after`, sorted by number.
    async fn crawls_under_way(&self, namespace: &str, after: i64, limit: u32) -> Result<Vec<ListCrawl>>;

    async fn list_totals(&self, namespace: &str, bounds: &ListBounds) -> Result<ListTotals>;

    /// Returns up to `limit` members at `at`, certain or possible, sorted by position. `after`: position of the last
    /// member of the previous call, which is left out; `None` starts. A member that left and came back around `at` has
    /// both edges.
    async fn members_at(
        &self,
        namespace: &str,
        owner: &str,
        at: Millis,
        after: Option<EdgePlace>,
        limit: u32,
    ) -> Result<Vec<MemberAt>>;

    /// Returns up to `limit` edges that appeared or vanished in `from..until` by their upper bounds, in that order.
    /// `after`: position of the last edge of the previous call, which is left out; `None` starts.
    async fn edge_changes(
        &self,
        namespace: &str,
        change: EdgeChange,
        (from, until): (Millis, Millis),
        after: Option<EdgePlace>,
        limit: u32,
    ) -> Result<Vec<(EdgePlace, Edge)>>;

    /// Returns the follows between these accounts, certain or possible, from lists of followers and of friends, sorted and
    /// without duplicates. `at`: the moment, ms since the epoch; `None` means now, by the open edges.
    async fn follows_among(&self, network: &str, ids: &[String], at: Option<Millis>) -> Result<Vec<Follow>>;

    async fn mutual_among(&self, network: &str, ids: &[String], at: Option<Millis>) -> Result<Vec<(String, String)>> {
        Ok(mutual_pairs(&self.follows_among(network, ids, at).await?))
    }

    /// Returns up to `limit` accounts on a list, or with one, whose content was removed because the network deleted them
    /// (`Observation::forget`). The removal is recorded in an account's profile, or in the rows of its lists.
    async fn accounts_to_forget(&self, network: &str, limit: u32) -> Result<Vec<String>>;

    /// Removes an account from all lists of a network, with its own lists, crawls and pages; returns the number of
    /// edges. Pages of other lists keep its number, which no longer means anything. A very long list takes several
    /// transactions, with its crawls in the last one. After an interruption the same call continues.
    async fn forget_edges(&self, network: &str, account: &str) -> Result<u64>;
}

fn mutual_pairs(follows: &[Follow]) -> Vec<(String, String)> {
    let is_returned = |follow: &&Follow| {
        follow.follower < follow.followed
            && follows
                .binary_search_by(|other| (&other.follower, &other.followed).cmp(&(&follow.followed, &follow.follower)))
                .is_ok()
    };
    let pairs = follows.iter().filter(is_returned);
    pairs.map(|follow| (follow.follower.clone(), follow.followed.clone())).collect()
}

pub(super) const KINDS: [&str; 2] = ["followers", "friends"];

pub(super) const PROFILES: &str = "profiles";

pub(super) fn namespace(kind: &str, network: &str) -> String {
    format!("{kind}:{network}")
}

/// Network under which accounts on these lists are forgotten; several providers may share it. `None` for a network of no
/// provider.
pub(super) fn person_network_of_lists(network: &str) -> Option<String> {
    PersonSource::for_namespace(&namespace(KINDS[0], network)).map(|person| person.network)
}

pub(super) fn network_of(namespace: &str) -> &str {
    namespace.split_once(':').map_or(namespace, |(_, network)| network)
}

#[derive(Debug, sqlx_macros::FromRow)]
pub(super) struct EdgeRow {
    #[sqlx(flatten)]
    edge: Edge,
    seen_at: Millis,
    member_number: i64,
    page_number: i64,
    end_number: Option<i64>,
}

impl EdgeRow {
    pub(super) fn into_member(self, at: Millis) -> MemberAt {
        let Self { edge, seen_at, member_number, page_number, .. } = self;
        let surely = edge.followed_at.unwrap_or(edge.appeared_by) <= at && at <= seen_at;
        MemberAt { surely, edge, place: EdgePlace(0, member_number, page_number) }
    }

    /// Returns the edge and its position in the order of changes.
    pub(super) fn into_change(self, change: EdgeChange) -> (EdgePlace, Edge) {
        let (at, by) = match change {
            EdgeChange::Appeared => (Some(self.edge.appeared_by), Some(self.page_number)),
            EdgeChange::Vanished => (self.edge.vanished_by, self.end_number),
        };
        (EdgePlace(at.unwrap_or_default(), by.unwrap_or_default(), self.member_number), self.edge)
    }
}

#[derive(Debug, sqlx_macros::FromRow)]
pub(super) struct ListEntry {
    owner: String,
    member: String,
}

impl ListEntry {
    pub(super) fn follow(self, kind: &str) -> Follow {
        let (follower, followed) = if kind == KINDS[0] { (self.member, self.owner) } else { (self.owner, self.member) };
        Follow { follower, followed }
    }
}

pub(super) fn sort_and_dedup(mut follows: Vec<Follow>) -> Vec<Follow> {
    follows.sort_unstable();
    follows.dedup();
    follows
}

pub(super) const FORGOTTEN_AT_ONCE: i64 = 50_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_follow_each_other_are_pairs() {
        let follow =
            |(follower, followed): (&str, &str)| Follow { follower: follower.into(), followed: followed.into() };
        let follows = [("b", "a"), ("a", "b"), ("c", "a"), ("c", "b"), ("b", "c"), ("a", "a"), ("b", "a")];
        let follows = sort_and_dedup(follows.map(follow).to_vec());
        assert_eq!(follows.len(), 6);
        assert_eq!(mutual_pairs(&follows), [("a".into(), "b".into()), ("b".into(), "c".into())]);
    }

    #[test]
    fn a_network_is_what_follows_the_kind() {
        assert_eq!(network_of(&namespace("friends", "mastodon:social")), "mastodon:social");
    }
}
