//! Lists in the memory store: a model of the contract.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use twitter_updater::base::clock::Millis;
use twitter_updater::store::{
    ClosingLimit, CrawlEnd, CrawlKind, CrawlOutcome, CrawlRecord, CrawlUnderWay, Edge, EdgeChange, EdgePage, EdgePlace,
    Edges, End, Follow, ListBounds, ListCrawl, ListTotals, MemberAt, NewCrawl, Next, SavedEdges, StoreError,
    is_stalled,
};

use super::memory_store::MemoryStore;

type Key = (String, String);

/// All lists, by namespace and owner.
#[derive(Debug, Default)]
pub struct EdgesInMemory {
    lists: BTreeMap<Key, List>,
    crawls: i64,
}

#[derive(Debug, Default)]
struct List {
    crawls: Vec<Crawl>,
    pages: Vec<Page>,
    edges: Vec<InMemory>,
}

#[derive(Debug)]
struct Crawl {
    under_way: CrawlUnderWay,
    /// The start of the complete crawl before.
    appeared_after: Option<Millis>,
    known_tail: u64,
    ended: Option<CrawlEnd>,
    appeared: i64,
    vanished: i64,
    withheld: i64,
}

#[derive(Debug)]
struct Page {
    crawl: i64,
    cursor: Option<String>,
    asked_at: Millis,
    at: Millis,
    members: BTreeSet<String>,
}

/// An edge, by the places of its first and last page, and of the crawl that closed it.
#[derive(Debug)]
struct InMemory {
    member: String,
    first: usize,
    closed: Option<(usize, usize)>,
    followed_at: Option<Millis>,
}

/// The words of ends, as databases have them.
fn word(end: CrawlEnd) -> String {
    serde_json::to_value(end).unwrap().as_str().unwrap().to_owned()
}

impl List {
    /// The crawl that waits for that cursor.
    fn waiting(&mut self, number: i64, cursor: Option<&str>) -> Option<usize> {
        let at = self.crawls.len().checked_sub(1)?;
        let Crawl { under_way, ended, .. } = &self.crawls[at];
        (ended.is_none() && under_way.number == number && under_way.cursor.as_deref() == cursor).then_some(at)
    }

    fn open(&self, member: &str) -> Option<&InMemory> {
        self.edges.iter().find(|edge| edge.closed.is_none() && edge.member == member)
    }

    /// The members on the pages of a crawl.
    fn shown(&self, crawl: i64) -> BTreeSet<&String> {
        self.pages.iter().filter(|page| page.crawl == crawl).flat_map(|page| &page.members).collect()
    }

    fn first_page(&self, crawl: i64) -> usize {
        self.pages.iter().position(|page| page.crawl == crawl).unwrap_or(self.pages.len())
    }

    fn end(&mut self, at: usize, end: End, is_last_empty: bool) -> CrawlOutcome {
        let crawl = self.crawls[at].under_way.number;
        let mut ended = CrawlOutcome { end: CrawlEnd::Complete, vanished: 0, withheld: 0 };
        ended.end = match end {
            End::Complete(guard) => return self.close(at, (guard, is_last_empty), ended),
            End::Capped => CrawlEnd::Capped,
            End::Hidden => CrawlEnd::Hidden,
            End::Partial => CrawlEnd::Partial,
            End::Stale => CrawlEnd::Stale,
            End::Aborted => CrawlEnd::Aborted,
        };
        let found = self.shown(crawl).len() as i64;
        let of = &mut self.crawls[at];
        (of.ended, of.under_way.found) = (Some(ended.end), found);
        ended
    }

    /// Closes the open edges that no page of a crawl showed, unless they are too many, or many behind an empty last page.
    fn close(
        &mut self,
        at: usize,
        (guard, is_last_empty): (ClosingLimit, bool),
        mut ended: CrawlOutcome,
    ) -> CrawlOutcome {
        let number = self.crawls[at].under_way.number;
        let shown: BTreeSet<String> = self.shown(number).into_iter().cloned().collect();
        let open = self.edges.iter().filter(|edge| edge.closed.is_none());
        let (mut gone, all): (Vec<String>, usize) = (
            open.clone().map(|edge| edge.member.clone()).filter(|member| !shown.contains(member)).collect(),
            open.count(),
        );
        let whole = |crawl: &&Crawl| matches!(crawl.ended, Some(CrawlEnd::Complete | CrawlEnd::Withheld));
        let before = self.crawls[..at].iter().rev().find(whole).filter(|of| of.ended == Some(CrawlEnd::Withheld));
        let own = self.first_page(number);
        let since = before.map(|before| self.first_page(before.under_way.number).min(own));
        let is_doubted = |member: &&String| {
            since.is_none_or(|since| self.pages[since..own].iter().any(|page| page.members.contains(*member)))
        };
        let doubted: BTreeSet<String> = gone.iter().filter(is_doubted).cloned().collect();
        let is_many = doubted.len() as u64 > guard.least;
        let far_too_many = is_many && doubted.len() as f64 > guard.share * all as f64;
        let is_empty = shown.is_empty() && self.crawls[at].under_way.stated_total != Some(0) && !doubted.is_empty();
        let is_cut_short = is_many && is_last_empty;
        if far_too_many || (is_empty || is_cut_short) && guard.share < 1.0 {
            (ended.end, ended.withheld) = (CrawlEnd::Withheld, doubted.len() as u64);
            gone.retain(|member| !doubted.contains(member));
        }
        for member in &gone {
            let last = self.pages.iter().rposition(|page| page.members.contains(member)).unwrap();
            let edge = self.edges.iter_mut().find(|edge| edge.closed.is_none() && edge.member == *member).unwrap();
            edge.closed = Some((last, at));
        }
        ended.vanished = gone.len() as u64;
        let crawl = &mut self.crawls[at];
        crawl.vanished += ended.vanished as i64;
        crawl.withheld = ended.withheld as i64;
        (crawl.ended, crawl.under_way.found) = (Some(ended.end), shown.len() as i64);
        ended
    }

    fn save(&mut self, page: &EdgePage) -> Option<SavedEdges> {
        let at = self.waiting(page.crawl, page.cursor.as_deref())?;
        let CrawlUnderWay { number, kind, started_at, newest_at, .. } = self.crawls[at].under_way;
        let when = page.answered_at.max(newest_at);
        let members: BTreeSet<String> = page.members.iter().map(|member| member.id.clone()).collect();
        let shown = self.shown(number);
        let fresh = members.iter().filter(|member| !shown.contains(member)).count();
        let own = self.first_page(number);
        let after = self.crawls[at].appeared_after;
        for edge in self.edges.iter_mut().filter(|edge| edge.closed.is_none()) {
            let told = page.members.iter().find(|of| of.id == edge.member).and_then(|of| of.followed_at);
            let Some(told) = told.filter(|told| *told <= when) else { continue };
            let first = &self.pages[edge.first];
            let of = self.crawls.iter().position(|crawl| crawl.under_way.number == first.crawl).unwrap();
            let is_young = |after: Option<Millis>| after.is_none_or(|after| after < told);
            match edge.followed_at {
                None if is_young(self.crawls[of].appeared_after) && told <= first.at => edge.followed_at = Some(told),
                Some(before) if before < told && is_young(after) => {
                    let last = self.pages.iter().rposition(|page| page.members.contains(&edge.member)).unwrap();
                    if self.pages[last].asked_at < told {
                        edge.closed = Some((last, at));
                        self.crawls[at].vanished += 1;
                    }
                }
                _ => {}
            }
        }
        let was_known = |id: &str| self.open(id).is_some_and(|edge| edge.first < own);
        let tail = page.members.iter().rev().take_while(|member| was_known(&member.id)).count();
        let is_known = tail == page.members.len();
        let known_tail = tail as u64 + if is_known { self.crawls[at].known_tail } else { 0 };
        let first = self.pages.len();
        let new: Vec<InMemory> = members
            .iter()
            .filter(|member| self.open(member).is_none())
            .map(|member| {
                let told = page.members.iter().find(|of| of.id == *member).and_then(|of| of.followed_at);
                let followed_at = told.filter(|told| after.is_none_or(|after| after < *told) && *told <= when);
                InMemory { member: member.clone(), first, closed: None, followed_at }
            })
            .collect();
        let asked_at = page.asked_at.max(started_at).min(when);
        self.pages.push(Page { crawl: number, cursor: page.cursor.clone(), asked_at, at: when, members });
        let crawl = &mut self.crawls[at];
        crawl.known_tail = known_tail;
        crawl.appeared += new.len() as i64;
        crawl.under_way.newest_at = when;
        crawl.under_way.pages += 1;
        crawl.under_way.found += fresh as i64;
        crawl.under_way.unreadable += page.unreadable;
        let mut saved = SavedEdges {
            new: new.len() as u64,
            repeated: (page.members.len() - fresh) as u64,
            known_tail,
            ended: None,
        };
        self.edges.extend(new);
        let stop = |end| CrawlOutcome { end, vanished: 0, withheld: 0 };
        saved.ended = match &page.next {
            Next::End(end) => Some(self.end(at, *end, page.members.is_empty() && page.cursor.is_some())),
            Next::Page(next) => {
                let is_again = self.pages.iter().any(|of| of.crawl == number && of.cursor.as_ref() == Some(next));
                let under_way = &mut self.crawls[at].under_way;
                under_way.cursor = Some(next.clone());
                let is_again = is_again || is_stalled(under_way.pages, under_way.found);
                match kind {
                    _ if is_again => Some(stop(CrawlEnd::Looped)),
                    CrawlKind::Prefix { known_tail: enough } if known_tail >= u64::from(enough) => {
                        Some(stop(CrawlEnd::KnownTail))
                    }
                    _ => None,
                }
            }
        };
        self.crawls[at].ended = saved.ended.map(|ended| ended.end);
        Some(saved)
    }

    fn edge(&self, owner: &str, edge: &InMemory) -> Edge {
        let first = &self.pages[edge.first];
        let of = self.crawls.iter().find(|crawl| crawl.under_way.number == first.crawl).unwrap();
        Edge {
            owner: owner.to_owned(),
            member: edge.member.clone(),
            appeared_after: of.appeared_after,
            appeared_by: first.at,
            followed_at: edge.followed_at,
            vanished_after: edge.closed.map(|(last, _)| self.pages[last].asked_at),
            vanished_by: edge.closed.map(|(_, crawl)| self.crawls[crawl].under_way.newest_at),
            cause: edge.closed.map(|_| "unknown".to_owned()),
        }
    }
}

impl EdgesInMemory {
    fn begin(&mut self, key: Key, new: &NewCrawl) -> CrawlUnderWay {
        let list = self.lists.entry(key).or_default();
        if let Some(under_way) = list.crawls.last().filter(|crawl| crawl.ended.is_none()) {
            return under_way.under_way.clone();
        }
        self.crawls += 1;
        let latest = |of: fn(&CrawlUnderWay) -> Millis| list.crawls.iter().map(|crawl| of(&crawl.under_way)).max();
        let [started_at, newest_at] = [latest(|crawl| crawl.started_at), latest(|crawl| crawl.newest_at)]
            .map(|at| at.map_or(new.at, |at| at.max(new.at)));
        let complete = list.crawls.iter().filter(|crawl| crawl.ended == Some(CrawlEnd::Complete));
        let appeared_after = complete.map(|crawl| crawl.under_way.started_at).max();
        let under_way = CrawlUnderWay {
            number: self.crawls,
            kind: new.kind,
            cursor: None,
            started_at,
            newest_at,
            pages: 0,
            found: 0,
            unreadable: 0,
            stated_total: new.stated_total,
        };
        let crawl = Crawl {
            under_way: under_way.clone(),
            appeared_after,
            known_tail: 0,
            ended: None,
            appeared: 0,
            vanished: 0,
            withheld: 0,
        };
        list.crawls.push(crawl);
        under_way
    }
}

fn key(namespace: &str, owner: &str) -> Key {
    (namespace.to_owned(), owner.to_owned())
}

fn record(of: &Crawl) -> CrawlRecord {
    let CrawlUnderWay { number, kind, started_at, newest_at, pages, found, stated_total, .. } = of.under_way;
    CrawlRecord {
        number,
        kind: if kind == CrawlKind::Complete { "complete" } else { "prefix" }.to_owned(),
        started_at,
        ended_at: of.ended.map(|_| newest_at),
        ended: of.ended.map(word),
        pages,
        found,
        stated_total,
        appeared: of.appeared,
        vanished: of.vanished,
        withheld: of.withheld,
    }
}

#[async_trait]
impl Edges for MemoryStore {
    async fn begin_crawl(
        &self,
        namespace: &str,
        owner: &str,
        new: &NewCrawl,
    ) -> Result<Option<CrawlUnderWay>, StoreError> {
        if self.known(namespace, owner)?.is_none() {
            return Ok(None);
        }
        self.with_edges(|edges| Some(edges.begin(key(namespace, owner), new)))
    }

    async fn crawl(&self, namespace: &str, owner: &str) -> Result<Option<CrawlUnderWay>, StoreError> {
        self.with_edges(|edges| {
            let newest = edges.lists.get(&key(namespace, owner))?.crawls.last()?;
            newest.ended.is_none().then(|| newest.under_way.clone())
        })
    }

    async fn save_edges(
        &self,
        namespace: &str,
        owner: &str,
        page: &EdgePage,
    ) -> Result<Option<SavedEdges>, StoreError> {
        self.with_edges(|edges| edges.lists.get_mut(&key(namespace, owner))?.save(page))
    }

    async fn end_crawl(
        &self,
        namespace: &str,
        owner: &str,
        (number, cursor): (i64, Option<&str>),
        at: Millis,
        end: End,
    ) -> Result<Option<CrawlOutcome>, StoreError> {
        self.with_edges(|edges| {
            let list = edges.lists.get_mut(&key(namespace, owner))?;
            let place = list.waiting(number, cursor)?;
            let under_way = &mut list.crawls[place].under_way;
            under_way.newest_at = under_way.newest_at.max(at);
            Some(list.end(place, end, cursor.is_some()))
        })
    }

    async fn crawls(&self, namespace: &str, owner: &str, limit: u32) -> Result<Vec<CrawlRecord>, StoreError> {
        self.with_edges(|edges| {
            let crawls = edges.lists.get(&key(namespace, owner)).into_iter().flat_map(|list| list.crawls.iter().rev());
            crawls.take(limit as usize).map(record).collect()
        })
    }

    /// All of them, in no order.
    async fn edge_changes(
        &self,
        namespace: &str,
        _change: EdgeChange,
        _span: (Millis, Millis),
        _after: Option<EdgePlace>,
        _limit: u32,
    ) -> Result<Vec<(EdgePlace, Edge)>, StoreError> {
        self.with_edges(|edges| {
            let lists = edges.lists.iter().filter(|((of, _), _)| of == namespace);
            let all = lists.flat_map(|((_, owner), list)| list.edges.iter().map(|edge| list.edge(owner, edge)));
            all.map(|edge| (EdgePlace::default(), edge)).collect()
        })
    }

    async fn crawls_under_way(&self, _: &str, _: i64, _: u32) -> Result<Vec<ListCrawl>, StoreError> {
        unimplemented!("no test asks the memory for it")
    }

    async fn list_totals(&self, _: &str, _: &ListBounds) -> Result<ListTotals, StoreError> {
        unimplemented!("no test asks the memory for it")
    }

    async fn members_at(
        &self,
        _: &str,
        _: &str,
        _: Millis,
        _: Option<EdgePlace>,
        _: u32,
    ) -> Result<Vec<MemberAt>, StoreError> {
        unimplemented!("no test asks the memory for it")
    }

    async fn follows_among(&self, _: &str, _: &[String], _: Option<Millis>) -> Result<Vec<Follow>, StoreError> {
        unimplemented!("no test asks the memory for it")
    }

    async fn accounts_to_forget(&self, _: &str, _: u32) -> Result<Vec<String>, StoreError> {
        unimplemented!("no test asks the memory for it")
    }

    async fn forget_edges(&self, _: &str, _: &str) -> Result<u64, StoreError> {
        unimplemented!("no test asks the memory for it")
    }
}
