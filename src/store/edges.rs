//! Edges: who follows whom, and since when.
//!
//! A *list* is the followers or the friends of an account (its *owner*): an item of the pipeline `followers:<network>` or
//! `friends:<network>`, whose row in `tweet` holds its life. A *crawl* reads a list page by page, newest first. The accounts
//! on it are its *members*, and the time for which one was on it is an *edge*, an interval:
//!
//! - it **appeared** after the start of the complete crawl before, which did not show it, and by the time of the page that
//!   did. Before the first complete crawl the lower bound is unknown;
//! - it **vanished** after the request for the last page that showed it, and by the end of the next complete crawl, which did
//!   not. Only a complete crawl closes edges. A member that comes back has a new edge;
//! - where the network tells the times of follows, and tells a younger one than before, of after the last page that showed the
//!   member, any crawl closes the edge, by its own end, and begins a new one.
//!
//! Pages of all crawls count as proof, whatever the end of their crawl: a crawl that stops at a known tail, or at a stale
//! cursor, adds edges and extends the time for which known ones were there. Each page is kept, as the differences of its
//! members' sorted numbers, so an edge that is there is not written again by each crawl: the last page that showed it is looked
//! for when it closes.
//!
//! # Assumptions
//! - A complete crawl shows each member that is on the list from its start to its end. That holds where a cursor is a place in
//!   the order of follows (v1.1, Mastodon, Bluesky). Where a cursor counts places, each unfollow above it moves one member
//!   over a seam of two pages. Such a member, if it is missed, gets a closed edge and a new one by the next crawl.
//! - A member that follows while a crawl runs is above its first page. The next crawl shows it, and the lower bound, the start
//!   of this one, is before its follow. A member that leaves behind a crawl's page stays open until the next complete crawl.
//! - A member that left and came back between two answers was never seen to be away: its edge goes on, unless the network tells
//!   the times of follows.
//! - Times are those of one clock. Where it steps back, times of a list stand still, so no bound is above its upper one.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{ListBounds, ListTotals, PersonOf, Result};
use crate::base::clock::Millis;

/// The extent of a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CrawlKind {
    /// The whole list.
    Complete,
    /// The newest members: the crawl ends at a page after which so many members in a row were known as open before it.
    Prefix {
        /// Known members in a row, at least 1.
        known_tail: u32,
    },
}

/// A crawl that is to begin.
#[derive(Debug, Clone, Copy)]
pub struct NewCrawl {
    /// Its extent.
    pub kind: CrawlKind,
    /// A time before its first request, on the queue's clock, ms since the epoch.
    pub at: Millis,
    /// The number of members that the owner's profile told.
    pub told: Option<i64>,
}

/// A crawl under way, between two pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CrawlUnderWay {
    /// Its number, never used again. With the cursor it tells a page that is expected from a late one.
    pub number: i64,
    /// Its extent.
    pub kind: CrawlKind,
    /// The cursor of the next page; `None`: the first page.
    pub cursor: Option<String>,
    /// When it began, ms since the epoch.
    pub started_at: Millis,
    /// Its newest page, or else its start, ms since the epoch.
    pub newest_at: Millis,
    /// Saved pages.
    pub pages: i64,
    /// Distinct members on them (see [`PageSaved::repeated`]).
    pub found: i64,
    /// Ids on them that could not be read.
    pub unreadable: i64,
    /// The number of members that the owner's profile told.
    pub told: Option<i64>,
}

/// The limit up to which a complete crawl may close edges by itself. Above both figures it closes none of them, until the next
/// complete crawl misses them as well. The same holds if more than the second figure are missing and the last of several pages is
/// empty, or if the whole list is empty. An edge that a page showed in between counts as missing for the first time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WaveGuard {
    /// Largest share of the open edges that a crawl may close at once, 0 to 1; 1 allows all, also after an empty page.
    pub share: f64,
    /// Edges that a crawl may close in any case: of short lists a few are a large share.
    pub least: u64,
}

/// The end of a crawl, as its reader tells it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    /// The list was read to its end, also by a prefix crawl. Closes the open edges that no page of this crawl showed.
    Complete(WaveGuard),
    /// The crawl was cut at the cap for long lists.
    Capped,
    /// The owner hides the list.
    Hidden,
    /// The network shows a part of the list only (a remote account), or not all ids of the crawl could be read.
    Partial,
    /// The network no longer accepts the cursor; the list is read again from the top.
    Stale,
    /// The crawl was given up for another reason.
    Aborted,
}

/// Returns true if a crawl with so many pages and so many distinct members on them leads nowhere: APIs leave out a few members of a
/// page, and not nearly all of a hundred pages.
#[must_use]
pub fn brings_nothing(pages: i64, found: i64) -> bool {
    pages >= 100 && found < pages
}

/// The next step after a page.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The page behind this cursor.
    Page(String),
    /// None: the crawl ends.
    End(End),
}

/// A member on a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSeen {
    /// The id of the account.
    pub id: String,
    /// When it followed, ms since the epoch, where the network tells it (Bluesky). A time outside the interval that the
    /// crawls prove is not kept. An open edge without one gets it; one with an older one may end by it.
    pub followed_at: Option<Millis>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgePage {
    /// The number of its crawl.
    pub crawl: i64,
    /// The cursor with which it was asked for; `None`: the first page.
    pub cursor: Option<String>,
    /// Its members in the order told, newest first. Pages may overlap.
    pub members: Vec<MemberSeen>,
    /// Ids on it that could not be read.
    pub unreadable: i64,
    /// The next step.
    pub next: Next,
    /// A time before the request, on the queue's clock, ms since the epoch: that of the claim will do.
    pub asked_at: Millis,
    /// A time after the answer was given, on the queue's clock, ms since the epoch.
    pub answered_at: Millis,
}

/// The way in which a crawl ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrawlEnd {
    /// It read the whole list, and closed the edges that it did not show.
    Complete,
    /// It read the whole list, and would have closed more edges than [`WaveGuard`] allows: it closed none of them. The next
    /// complete crawl confirms them or not. Edges that the crawl before withheld, and that no page has shown since, it closed.
    Withheld,
    /// A prefix crawl came to known members.
    KnownTail,
    /// See [`End::Capped`].
    Capped,
    /// See [`End::Hidden`].
    Hidden,
    /// See [`End::Partial`].
    Partial,
    /// See [`End::Stale`].
    Stale,
    /// The next cursor was one of its earlier pages, or [page after page brings nothing](brings_nothing).
    Looped,
    /// See [`End::Aborted`].
    Aborted,
}

/// The effect of the end of a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The way in which it ended.
    pub end: CrawlEnd,
    /// Edges that it closed.
    pub vanished: u64,
    /// Edges that it did not show and did not close: [`CrawlEnd::Withheld`].
    pub withheld: u64,
}

/// The effect of [`Edges::save_edges`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSaved {
    /// Members whose edges are new.
    pub new: u64,
    /// Ids that the page holds again, or that the [`OVERLAP`] pages of this crawl before it held.
    pub repeated: u64,
    /// Members in a row, counted from the page's end and over former pages that were known as a whole, whose edges were open
    /// before this crawl.
    pub known_tail: u64,
    /// The crawl's end, if it ended: as [`Next::End`] says, at a known tail, or since its next cursor was one of its earlier
    /// pages.
    pub ended: Option<Ended>,
}

/// Pages of a crawl in which a page's ids are looked for, to count those that overlap. The count of a crawl that has ended is
/// exact over all of its pages.
pub const OVERLAP: u32 = 64;

/// The record of a crawl.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct CrawlRecord {
    /// Its number.
    pub number: i64,
    /// `complete` or `prefix`.
    pub kind: String,
    /// When it began, ms since the epoch.
    pub started_at: Millis,
    /// When it ended, ms since the epoch; `None`: it is under way.
    pub ended_at: Option<Millis>,
    /// The word of its [`CrawlEnd`].
    pub ended: Option<String>,
    /// Pages.
    pub pages: i64,
    /// Distinct members on them.
    pub found: i64,
    /// The number of members that the owner's profile told.
    pub told: Option<i64>,
    /// Edges that appeared.
    pub appeared: i64,
    /// Edges that it closed.
    pub vanished: i64,
    /// Edges that it did not show and did not close.
    pub withheld: i64,
}

/// A crawl under way, and its list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListCrawl {
    /// The owner's id.
    pub owner: String,
    /// The crawl.
    #[serde(flatten)]
    pub crawl: CrawlUnderWay,
}

/// An edge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct Edge {
    /// The owner of the list.
    pub owner: String,
    /// The account on the list.
    pub member: String,
    /// It appeared after this moment, ms since the epoch; `None`: unknown.
    pub appeared_after: Option<Millis>,
    /// It appeared by this moment.
    pub appeared_by: Millis,
    /// The time of the follow, where the network tells it. It lies between the two.
    pub followed_at: Option<Millis>,
    /// It vanished after this moment; `None`: it is open.
    pub vanished_after: Option<Millis>,
    /// It vanished by this moment; `None`: it is open.
    pub vanished_by: Option<Millis>,
    /// Of a closed one: `unfollowed`; `suspended`, `deactivated` or `deleted`, as profiles show the member then; or `unknown`,
    /// if they are not collected or not looked up since, or were missing then without a reason.
    pub cause: Option<String>,
}

/// An edge among the members of a list at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberAt {
    /// True if pages prove that the edge existed then. Otherwise the moment lies between its bounds, or, for an open edge,
    /// after the newest crawl that proves it.
    pub surely: bool,
    /// The edge.
    #[serde(flatten)]
    pub edge: Edge,
    /// The place behind which the next page begins.
    #[serde(skip)]
    pub place: EdgePlace,
}

/// A place in an order of edges. Its numbers are the store's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EdgePlace(pub i64, pub i64, pub i64);

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeChange {
    /// The edge appeared: [`Edge::appeared_by`].
    Appeared,
    /// The edge vanished: [`Edge::vanished_by`].
    Vanished,
}

/// One account follows another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, sqlx_macros::FromRow)]
pub struct Follow {
    /// The account that follows.
    pub follower: String,
    /// The account that is followed.
    pub followed: String,
}

/// The contract, beside [`Store`](super::Store), in the same database. Errors are those of
/// [`Lifecycle`](super::Lifecycle).
///
/// `namespace` is a pipeline of lists (`followers:twitter`), `owner` an item of it; `network` is the part of it behind the
/// first colon (`twitter`). Calls about one list follow one another, in whatever process.
#[async_trait]
pub trait Edges: Send + Sync + std::fmt::Debug {
    /// Begins a crawl of a list that is recorded as an item, and returns it; or the one that is under way, unchanged. `None`:
    /// there is no such item.
    async fn begin_crawl(&self, namespace: &str, owner: &str, new: &NewCrawl) -> Result<Option<CrawlUnderWay>>;

    /// The crawl of a list that is under way.
    async fn crawl(&self, namespace: &str, owner: &str) -> Result<Option<CrawlUnderWay>>;

    /// Saves a page, all or nothing: its new edges, the page as proof, the next cursor or the end. Returns `None` if the crawl
    /// has ended or waits for another cursor: the page came late, or a second time, and changed nothing.
    async fn save_edges(&self, namespace: &str, owner: &str, page: &EdgePage) -> Result<Option<PageSaved>>;

    /// Ends a crawl without a further page. Returns `None`, and changes nothing, as [`Edges::save_edges`] does. `at` is the
    /// time on the queue's clock, ms since the epoch.
    async fn end_crawl(
        &self,
        namespace: &str,
        owner: &str,
        (number, cursor): (i64, Option<&str>),
        at: Millis,
        end: End,
    ) -> Result<Option<Ended>>;

    /// The crawls of a list, newest first; `limit` of them.
    async fn crawls(&self, namespace: &str, owner: &str, limit: u32) -> Result<Vec<CrawlRecord>>;

    /// Crawls under way of a pipeline's lists by their numbers, behind that number; `limit` of them.
    async fn crawls_under_way(&self, namespace: &str, after: i64, limit: u32) -> Result<Vec<ListCrawl>>;

    /// Totals of a pipeline's lists, read and unread.
    async fn list_totals(&self, namespace: &str, bounds: &ListBounds) -> Result<ListTotals>;

    /// The members of a list at a moment, ms since the epoch, surely or perhaps; `limit` of them behind a place. One
    /// that left and came back around that moment is there with both edges.
    async fn members_at(
        &self,
        namespace: &str,
        owner: &str,
        at: Millis,
        after: Option<EdgePlace>,
        limit: u32,
    ) -> Result<Vec<MemberAt>>;

    /// Edges of a pipeline's lists that appeared or vanished `from` a moment and before another, ms since the epoch, by their
    /// upper bounds and in that order; `limit` of them behind a place.
    async fn edge_changes(
        &self,
        namespace: &str,
        change: EdgeChange,
        (from, until): (Millis, Millis),
        after: Option<EdgePlace>,
        limit: u32,
    ) -> Result<Vec<(EdgePlace, Edge)>>;

    /// The follows among these accounts at a moment, ms since the epoch, surely or perhaps, by the lists of followers and of
    /// friends of a network, each once and sorted. `None`: now, by the open edges.
    async fn follows_among(&self, network: &str, ids: &[String], at: Option<Millis>) -> Result<Vec<Follow>>;

    /// The pairs of these accounts that follow each other (see [`Edges::follows_among`]), each once and sorted.
    async fn mutual_among(&self, network: &str, ids: &[String], at: Option<Millis>) -> Result<Vec<(String, String)>> {
        Ok(mutual(&self.follows_among(network, ids, at).await?))
    }

    /// Accounts whose content was removed since the network no longer has them (`Observation::forget`), by their profiles or by
    /// the records of their own lists, and which are on a list or have one; `limit` of them.
    async fn forgotten(&self, network: &str, limit: u32) -> Result<Vec<String>>;

    /// Removes an account from all lists of a network, and its own lists with their crawls and pages; returns the number of
    /// edges. Kept pages of other lists hold a number that means nothing any more. A very long list goes in several
    /// transactions, its crawls with the last one: interrupted, the same call goes on.
    async fn forget_edges(&self, network: &str, account: &str) -> Result<u64>;
}

/// The pairs that follow each other, out of sorted follows.
fn mutual(follows: &[Follow]) -> Vec<(String, String)> {
    let is_returned = |follow: &&Follow| {
        follow.follower < follow.followed
            && follows
                .binary_search_by(|other| (&other.follower, &other.followed).cmp(&(&follow.followed, &follow.follower)))
                .is_ok()
    };
    let pairs = follows.iter().filter(is_returned);
    pairs.map(|follow| (follow.follower.clone(), follow.followed.clone())).collect()
}

/// The kinds of lists, by the first word of their namespaces.
pub(super) const KINDS: [&str; 2] = ["followers", "friends"];

/// The kind of profiles, by the first word of its namespaces.
pub(super) const PROFILES: &str = "profiles";

/// The namespace of a network's lists.
pub(super) fn namespace(kind: &str, network: &str) -> String {
    format!("{kind}:{network}")
}

/// The network of the people on the lists of a network, which a provider may share.
pub(super) fn people(network: &str) -> Option<String> {
    PersonOf::rows(&namespace(KINDS[0], network)).map(|person| person.network)
}

/// The network of a namespace of lists.
pub(super) fn network_of(namespace: &str) -> &str {
    namespace.split_once(':').map_or(namespace, |(_, network)| network)
}

/// An edge with its places.
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
    pub(super) fn at(self, at: Millis) -> MemberAt {
        let Self { edge, seen_at, member_number, page_number, .. } = self;
        let surely = edge.followed_at.unwrap_or(edge.appeared_by) <= at && at <= seen_at;
        MemberAt { surely, edge, place: EdgePlace(0, member_number, page_number) }
    }

    pub(super) fn changed(self, change: EdgeChange) -> (EdgePlace, Edge) {
        let (at, by) = match change {
            EdgeChange::Appeared => (Some(self.edge.appeared_by), Some(self.page_number)),
            EdgeChange::Vanished => (self.edge.vanished_by, self.end_number),
        };
        (EdgePlace(at.unwrap_or_default(), by.unwrap_or_default(), self.member_number), self.edge)
    }
}

/// A member of a list.
#[derive(Debug, sqlx_macros::FromRow)]
pub(super) struct OnList {
    owner: String,
    member: String,
}

impl OnList {
    /// Who follows whom, by the kind of the list.
    pub(super) fn follow(self, kind: &str) -> Follow {
        let (follower, followed) = if kind == KINDS[0] { (self.member, self.owner) } else { (self.owner, self.member) };
        Follow { follower, followed }
    }
}

/// Each once, sorted.
pub(super) fn sorted(mut follows: Vec<Follow>) -> Vec<Follow> {
    follows.sort_unstable();
    follows.dedup();
    follows
}

/// Columns of [`EdgeRow`] in the view of edges, by the expression for the owner. A crawl under way may have closed an edge
/// already: its newest page is its end so far.
macro_rules! edge_columns {
    ($owner:literal) => {
        concat!(
            $owner,
            " AS owner, edge.member, edge.appeared_after, edge.appeared_by, edge.followed_at, edge.vanished_after, \
             COALESCE(edge.vanished_by, (SELECT newest_at FROM list_crawl WHERE key = edge.closed_by)) AS vanished_by, \
             edge.cause, edge.seen_at, edge.member_number, edge.page_number, \
             CAST(edge.closed_by AS BIGINT) AS end_number"
        )
    };
}

/// The condition that an edge existed at a moment, surely or perhaps.
macro_rules! existed {
    ($at:literal) => {
        concat!(
            "COALESCE(edge.followed_at <= ",
            $at,
            ", edge.appeared_after < ",
            $at,
            ", TRUE) AND (edge.closed_by IS NULL OR COALESCE(edge.vanished_by > ",
            $at,
            ", TRUE))"
        )
    };
}

pub(super) use {edge_columns, existed};

/// Edges of an account's own lists that are removed in one transaction.
pub(super) const FORGOTTEN_AT_ONCE: i64 = 50_000;

/// The statement of [`Edges::forgotten`], by the table of profiles, and that of lists that have a crawl; `$1` is the network, `$2`
/// and `$3` the namespaces of its lists, `$4` that of its profiles. The condition of the index of living items stands there word
/// for word.
macro_rules! forgotten {
    ($accounts:literal, $lists:literal) => {
        concat!(
            "SELECT gone.id FROM (SELECT id FROM ",
            $accounts,
            " WHERE namespace = $4 AND forgotten_at IS NOT NULL \
             UNION SELECT id FROM tweet WHERE namespace IN ($2, $3) AND state IN ('live', 'unavailable') \
             AND state = 'unavailable' AND misses > 0 AND lookups > misses AND raw IS NULL) AS gone \
             WHERE EXISTS (SELECT 1 FROM list_account WHERE list_account.id = gone.id \
             AND list_account.network = (SELECT key FROM list_network WHERE name = $1)) \
             OR EXISTS (SELECT 1 FROM ",
            $lists,
            " AS list JOIN list_crawl ON list_crawl.list = list.key \
             WHERE list.namespace IN ($2, $3) AND list.id = gone.id) LIMIT $5"
        )
    };
}

pub(super) use forgotten;

/// The statement of [`Edges::crawls`].
pub(super) const CRAWLS: &str = "SELECT number, kind, started_at, ended_at, ended, pages, found, told, appeared, vanished, \
     withheld FROM crawl WHERE namespace = $1 AND id = $2 ORDER BY number DESC LIMIT $3";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_follow_each_other_are_pairs() {
        let follow =
            |(follower, followed): (&str, &str)| Follow { follower: follower.into(), followed: followed.into() };
        let follows = [("b", "a"), ("a", "b"), ("c", "a"), ("c", "b"), ("b", "c"), ("a", "a"), ("b", "a")];
        let follows = sorted(follows.map(follow).to_vec());
        assert_eq!(follows.len(), 6);
        assert_eq!(mutual(&follows), [("a".into(), "b".into()), ("b".into(), "c".into())]);
    }

    #[test]
    fn a_network_is_what_follows_the_kind() {
        assert_eq!(network_of(&namespace("friends", "mastodon:social")), "mastodon:social");
    }
}
