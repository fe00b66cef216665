//! Lists of followers in the simulation: members that come and go by a script, the pages that the API shows of them, and
//! what is stored of it, compared with the script.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use twitter_updater::base::clock::Millis;
use twitter_updater::model::relation::ListKind;
use twitter_updater::providers::lookup::{Charge, LookupError, Outcome};
use twitter_updater::providers::relations::{
    ListCapabilities, Listing, Member, Members, PageRequest, RelationPage, Relations, Unreadable,
};
use twitter_updater::quota::Credential;
use twitter_updater::store::{
    CrawlOutcome, CrawlRecord, CrawlUnderWay, Edge, EdgeChange, EdgePage, EdgePlace, Edges, End, Follow, ListBounds,
    ListCrawl, ListTotals, MemberAt, NewCrawl, SavedEdges, StoreError,
};

use super::link::{LinkedLookup, call_of_store};
use super::network::Way;
use super::provider::{ENDPOINT, Provider};
use super::watch::WatchedStore;
use super::world::{NAMESPACE, ORIGIN, World};

/// Accounts that follow an owner by turns,
const MEMBERS: u64 = 14;
/// and members of a page.
const PAGE: usize = 4;
/// A cursor is good for so long, ms.
const CURSOR_LASTS: Millis = 15_000;

/// The follow of an owner by a member that holds at a moment, or the newest before it: each turn of a member has a length of
/// its own, and it follows through the first half of each.
fn turn(owner: &str, member: u64, at: Millis) -> (Millis, Millis) {
    let mut hasher = DefaultHasher::new();
    (owner, member).hash(&mut hasher);
    // Whole sixteenths, so that no two members begin at one moment: cursors are moments.
    let sixteenths = 2_500 + (hasher.finish() % 25_000) as Millis;
    let (length, number) = (16 * sixteenths, member as Millis);
    let ahead = 16 * (sixteenths * number / MEMBERS as Millis) + number;
    let from = at - (at - ORIGIN + ahead).rem_euclid(length);
    (from, from + length / 2)
}

/// The list at a moment, the newest follow first.
fn listed(owner: &str, at: Millis) -> Vec<(Millis, u64)> {
    let turns = (0..MEMBERS).map(|member| (turn(owner, member, at), member));
    let mut listed: Vec<_> =
        turns.filter(|((_, until), _)| at < *until).map(|((from, _), member)| (from, member)).collect();
    listed.sort_unstable_by(|one, other| other.cmp(one));
    listed
}

/// The page behind a cursor; `None`: it is no longer good.
fn page(owner: &str, cursor: Option<&str>, at: Millis) -> Option<Members> {
    let below = match cursor.and_then(|cursor| cursor.split_once('/')) {
        None => Millis::MAX,
        Some((below, given)) => {
            let (below, given): (Millis, Millis) = (below.parse().unwrap(), given.parse().unwrap());
            (at - given <= CURSOR_LASTS).then_some(below)?
        }
    };
    let rest: Vec<_> = listed(owner, at).into_iter().filter(|(from, _)| *from < below).collect();
    let shown = &rest[..rest.len().min(PAGE)];
    let next = shown.last().filter(|_| rest.len() > PAGE).map(|(from, _)| format!("{from}/{at}"));
    let members = shown.iter().map(|(_, member)| Member::new(member.to_string())).collect();
    Some(Members { members, next, ..Members::default() })
}

/// The API's lists at the end of a process's way. Whether there is a list, the nature of its owner says.
#[derive(Debug)]
pub struct LinkedRelations(pub LinkedLookup);

#[async_trait]
impl Relations for LinkedRelations {
    fn capabilities(&self, _: ListKind) -> ListCapabilities {
        ListCapabilities { page_limit: PAGE as u32, charge: Charge::PerCall, endpoint: ENDPOINT }
    }

    async fn page(&self, request: PageRequest<'_>, credential: &Credential) -> Result<RelationPage, LookupError> {
        let (owner, cursor) = (request.owner.to_owned(), request.cursor.map(str::to_owned));
        // The list is read at the moment at which the call is answered.
        let read = move |provider: &Provider| page(&owner, cursor.as_deref(), provider.now());
        let (answer, page) = self.0.answer_with(&[request.owner.to_owned()], credential, read).await?;
        let listing = match (&answer.outcomes[0], page) {
            (Outcome::Unavailable | Outcome::Absent(_) | Outcome::Emptied(..), _) => Listing::OwnerAbsent(None),
            (_, None) => Listing::StaleCursor,
            (Outcome::Broken(why), Some(page)) => {
                let unreadable = Unreadable { count: 1, first: Some(why.clone()) };
                // A member that is there, and that nobody may miss.
                let members = page.members.into_iter().skip(1).collect();
                Listing::Members(Members { members, unreadable, ..page })
            }
            (Outcome::Found(_), Some(page)) => Listing::Members(page),
        };
        Ok(RelationPage { listing, quota: answer.quota })
    }
}

/// The lists of the store at the end of a process's way.
#[derive(Debug)]
pub struct LinkedEdges {
    pub way: Arc<Way>,
    pub store: Arc<WatchedStore>,
}

#[async_trait]
impl Edges for LinkedEdges {
    async fn begin_crawl(
        &self,
        namespace: &str,
        owner: &str,
        new: &NewCrawl,
    ) -> Result<Option<CrawlUnderWay>, StoreError> {
        let (store, namespace, owner, new) = (self.store.clone(), namespace.to_owned(), owner.to_owned(), *new);
        call_of_store(&self.way, async move { store.inner.begin_crawl(&namespace, &owner, &new).await }).await
    }

    async fn crawl(&self, namespace: &str, owner: &str) -> Result<Option<CrawlUnderWay>, StoreError> {
        let (store, namespace, owner) = (self.store.clone(), namespace.to_owned(), owner.to_owned());
        call_of_store(&self.way, async move { store.inner.crawl(&namespace, &owner).await }).await
    }

    async fn save_edges(
        &self,
        namespace: &str,
        owner: &str,
        page: &EdgePage,
    ) -> Result<Option<SavedEdges>, StoreError> {
        let (store, namespace, owner) = (self.store.clone(), namespace.to_owned(), owner.to_owned());
        let page = page.clone();
        call_of_store(&self.way, async move {
            let saved = store.inner.save_edges(&namespace, &owner, &page).await?;
            store.note_page(&owner, format_args!("{saved:?}"));
            Ok(saved)
        })
        .await
    }

    async fn end_crawl(
        &self,
        namespace: &str,
        owner: &str,
        (number, cursor): (i64, Option<&str>),
        at: Millis,
        end: End,
    ) -> Result<Option<CrawlOutcome>, StoreError> {
        let (store, namespace, owner) = (self.store.clone(), namespace.to_owned(), owner.to_owned());
        let cursor = cursor.map(str::to_owned);
        call_of_store(&self.way, async move {
            let ended = store.inner.end_crawl(&namespace, &owner, (number, cursor.as_deref()), at, end).await?;
            store.note_page(&owner, format_args!("{ended:?}"));
            Ok(ended)
        })
        .await
    }

    async fn crawls(&self, namespace: &str, owner: &str, limit: u32) -> Result<Vec<CrawlRecord>, StoreError> {
        let (store, namespace, owner) = (self.store.clone(), namespace.to_owned(), owner.to_owned());
        call_of_store(&self.way, async move { store.inner.crawls(&namespace, &owner, limit).await }).await
    }

    async fn crawls_under_way(&self, namespace: &str, after: i64, limit: u32) -> Result<Vec<ListCrawl>, StoreError> {
        self.store.inner.crawls_under_way(namespace, after, limit).await
    }

    async fn list_totals(&self, namespace: &str, bounds: &ListBounds) -> Result<ListTotals, StoreError> {
        self.store.inner.list_totals(namespace, bounds).await
    }

    async fn members_at(
        &self,
        namespace: &str,
        owner: &str,
        at: Millis,
        after: Option<EdgePlace>,
        limit: u32,
    ) -> Result<Vec<MemberAt>, StoreError> {
        self.store.inner.members_at(namespace, owner, at, after, limit).await
    }

    async fn edge_changes(
        &self,
        namespace: &str,
        change: EdgeChange,
        span: (Millis, Millis),
        after: Option<EdgePlace>,
        limit: u32,
    ) -> Result<Vec<(EdgePlace, Edge)>, StoreError> {
        self.store.inner.edge_changes(namespace, change, span, after, limit).await
    }

    async fn follows_among(
        &self,
        network: &str,
        ids: &[String],
        at: Option<Millis>,
    ) -> Result<Vec<Follow>, StoreError> {
        self.store.inner.follows_among(network, ids, at).await
    }

    async fn accounts_to_forget(&self, network: &str, limit: u32) -> Result<Vec<String>, StoreError> {
        self.store.inner.accounts_to_forget(network, limit).await
    }

    async fn forget_edges(&self, network: &str, account: &str) -> Result<u64, StoreError> {
        self.store.inner.forget_edges(network, account).await
    }
}

/// Compares the edges that are stored with the script.
pub async fn check(world: &World) {
    let (store, now) = (&world.store.inner, world.now());
    let edges = store.edge_changes(NAMESPACE, EdgeChange::Appeared, (0, Millis::MAX), None, u32::MAX).await.unwrap();
    for (_, edge) in edges {
        let member = edge.member.parse().unwrap();
        // All turns that may have been seen.
        let turns: Vec<_> = std::iter::successors(Some(turn(&edge.owner, member, now)), |(from, _)| {
            Some(turn(&edge.owner, member, from - 1)).filter(|(_, until)| *until > ORIGIN - 1_000_000)
        })
        .collect();
        let began = |(from, _): &&(Millis, Millis)| {
            edge.appeared_after.is_none_or(|after| after < *from) && *from <= edge.appeared_by
        };
        let ended = |(_, until): &&(Millis, Millis)| {
            edge.vanished_after.is_some_and(|after| after < *until) && edge.vanished_by.is_some_and(|by| *until <= by)
        };
        if turns.iter().find(began).is_none() {
            world.log.wrong(format_args!("no follow began then: {edge:?} of {turns:?}"));
        }
        if edge.vanished_by.is_some() && turns.iter().find(ended).is_none() {
            world.log.wrong(format_args!("no follow ended then: {edge:?} of {turns:?}"));
        }
        let crawls = store.crawls(NAMESPACE, &edge.owner, u32::MAX).await.unwrap();
        let whole = crawls.iter().find(|crawl| crawl.ended.as_deref() == Some("complete"));
        let since = whole.map_or(Millis::MIN, |crawl| crawl.started_at);
        if edge.vanished_by.is_none() && !turns.iter().any(|(_, until)| *until > since) {
            world.log.wrong(format_args!("open, and it ended before the last complete crawl: {edge:?} of {turns:?}"));
        }
    }
}
