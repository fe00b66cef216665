//! Pages and ends of crawls for every database, on the few statements of [`CrawlStatements`].

use std::collections::HashMap;
use std::ops::Range;

use async_trait::async_trait;

use super::Result;
use super::edges::{
    ClosingLimit, CrawlEnd, CrawlKind, CrawlOutcome, CrawlUnderWay, EdgePage, End, ListCrawl, ListedMember, Next,
    OVERLAP, SavedEdges, is_stalled, network_of,
};
use super::packed::{AccountKey, pack, unpack};
use super::rows::clean;
use engine::base::clock::Millis;

const PAGES_AT_ONCE: i64 = 64;
const MEMBERS_AT_ONCE: i64 = 50_000;

#[derive(Debug, Clone, sqlx_macros::FromRow)]
pub(super) struct CrawlRow {
    key: i64,
    list: i64,
    kind: String,
    stops_after: Option<i64>,
    started_at: Millis,
    appeared_after: Option<Millis>,
    cursor: Option<String>,
    newest_at: Millis,
    known_tail: i64,
    pages: i64,
    found: i64,
    unreadable: i64,
    stated_total: Option<i64>,
}

impl From<CrawlRow> for CrawlUnderWay {
    fn from(row: CrawlRow) -> Self {
        let stops_after = row.stops_after.and_then(|members| u32::try_from(members).ok());
        let kind = stops_after.map_or(CrawlKind::Complete, |known_tail| CrawlKind::Prefix { known_tail });
        Self {
            number: row.key,
            kind: if row.kind == "complete" { CrawlKind::Complete } else { kind },
            cursor: row.cursor,
            started_at: row.started_at,
            newest_at: row.newest_at,
            pages: row.pages,
            found: row.found,
            unreadable: row.unreadable,
            stated_total: row.stated_total,
        }
    }
}

#[derive(Debug, sqlx_macros::FromRow)]
pub(super) struct ListRow {
    owner: String,
    #[sqlx(flatten)]
    crawl: CrawlRow,
}

impl From<ListRow> for ListCrawl {
    fn from(row: ListRow) -> Self {
        Self { owner: row.owner, crawl: row.crawl.into() }
    }
}

pub(super) fn encode_kind(kind: CrawlKind) -> (&'static str, Option<i64>) {
    match kind {
        CrawlKind::Complete => ("complete", None),
        CrawlKind::Prefix { known_tail } => ("prefix", Some(i64::from(known_tail))),
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    pub crawl: i64,
    pub cursor: Option<String>,
    pub newest_at: Millis,
    pub known_tail: i64,
    pub pages: i64,
    pub found: i64,
    /// Added to the previous numbers, as the following three.
    pub appeared: i64,
    pub vanished: i64,
    pub withheld: i64,
    pub unreadable: i64,
    pub ended: Option<(&'static str, Millis)>,
}

#[derive(Debug)]
pub(super) struct PageRow<'a> {
    pub list: i64,
    pub crawl: i64,
    pub cursor: Option<&'a str>,
    pub asked_at: Millis,
    pub at: Millis,
    pub members: Vec<u8>,
}

/// Statements of a database, inside or outside a transaction.
#[async_trait]
pub(super) trait CrawlStatements: Send {
    /// Returns a list's crawl under way; in a transaction, locks it.
    async fn under_way(&mut self, namespace: &str, owner: &str) -> Result<Option<CrawlRow>>;

    async fn known_accounts(&mut self, network: &str, ids: &[&str]) -> Result<Vec<(String, AccountKey)>>;

    /// Gives numbers to ids without one; returns the numbers of all ids. `ids` is sorted.
    async fn add_accounts(&mut self, network: &str, ids: &[&str]) -> Result<Vec<(String, AccountKey)>>;

    /// Returns the members with an open edge, its first page and the time of its follow. `members` is sorted.
    async fn open_edges(&mut self, list: i64, members: &[AccountKey])
    -> Result<Vec<(AccountKey, i64, Option<Millis>)>>;

    /// Returns members with open edges after `after`, sorted.
    async fn open_members(&mut self, list: i64, after: AccountKey, limit: i64) -> Result<Vec<AccountKey>>;

    /// Returns a crawl's pages below `below`, newest first.
    async fn pages_of_crawl(&mut self, crawl: i64, below: i64, limit: i64) -> Result<Vec<(i64, Vec<u8>)>>;

    /// Returns a list's pages of all crawls below `below`, newest first.
    async fn pages_of_list(&mut self, list: i64, below: i64, limit: i64) -> Result<Vec<(i64, Vec<u8>)>>;

    /// Returns the number of a crawl's first page; `None` for a crawl without pages.
    async fn first_page_number(&mut self, crawl: i64) -> Result<Option<i64>>;

    async fn asked_at(&mut self, page: i64) -> Result<Option<Millis>>;

    async fn has_cursor(&mut self, crawl: i64, cursor: &str) -> Result<bool>;

    /// Returns the newest crawl that read the list to its end, if it withheld its closings.
    async fn withheld_before(&mut self, list: i64) -> Result<Option<i64>>;

    async fn insert_page(&mut self, page: &PageRow<'_>) -> Result<i64>;

    /// Inserts open edges with the times of their follows. `members` is sorted.
    async fn insert_edges(&mut self, list: i64, page: i64, members: &[(AccountKey, Option<Millis>)]) -> Result<()>;

    /// Sets the times of follows of open edges without one, if they lie within the edges' intervals. `members` is sorted.
    async fn date_edges(&mut self, list: i64, members: &[(AccountKey, Millis)]) -> Result<()>;

    /// Closes open edges, each with the last page that showed it; returns their number. `members` is sorted.
    async fn close_edges(&mut self, list: i64, crawl: i64, members: &[(AccountKey, i64)]) -> Result<u64>;

    async fn advance(&mut self, progress: &Progress) -> Result<()>;
}

/// Closings of a crawl that read its list to the end, computed before the transaction that writes them.
#[derive(Debug, Default)]
pub(super) struct Closings {
    edges: Vec<(AccountKey, i64)>,
    withheld: u64,
    /// Distinct members that it showed; `None` if its end closes nothing, so that nothing was searched.
    found: Option<u64>,
}

/// Returns the numbers in `sorted` that `other` lacks; both are sorted.
fn difference(sorted: &[AccountKey], other: &[AccountKey]) -> Vec<AccountKey> {
    let mut other = other.iter().peekable();
    let is_absent = |key: &&AccountKey| {
        while other.next_if(|next| next < key).is_some() {}
        other.peek() != Some(key)
    };
    sorted.iter().filter(is_absent).copied().collect()
}

/// Returns the distinct members of all pages of a crawl and of `more`, sorted.
async fn collect_members(
    tables: &mut dyn CrawlStatements,
    crawl: i64,
    more: Vec<AccountKey>,
) -> Result<Vec<AccountKey>> {
    let (mut members, mut below) = (more, i64::MAX);
    loop {
        let pages = tables.pages_of_crawl(crawl, below, PAGES_AT_ONCE).await?;
        for (_, page) in &pages {
            unpack(page, &mut members)?;
        }
        match pages.last() {
            Some((last, _)) => below = *last,
            None => break,
        }
    }
    members.sort_unstable();
    members.dedup();
    Ok(members)
}

/// Returns the members with open edges that are not in `shown`, and the number of all open edges.
async fn missing_members(
    tables: &mut dyn CrawlStatements,
    list: i64,
    shown: &[AccountKey],
) -> Result<(Vec<AccountKey>, u64)> {
    let (mut unseen, mut open, mut after, mut rest) = (Vec::new(), 0, 0, shown);
    loop {
        let members = tables.open_members(list, after, MEMBERS_AT_ONCE).await?;
        let Some(last) = members.last() else { return Ok((unseen, open)) };
        let (now, later) = rest.split_at(rest.partition_point(|key| key <= last));
        unseen.extend(difference(&members, now));
        open += members.len() as u64;
        (after, rest) = (*last, later);
    }
}

async fn last_pages(
    tables: &mut dyn CrawlStatements,
    list: i64,
    mut members: Vec<AccountKey>,
) -> Result<Vec<(AccountKey, i64)>> {
    let (mut found, mut below, mut page) = (Vec::with_capacity(members.len()), i64::MAX, Vec::new());
    while !members.is_empty() {
        let pages = tables.pages_of_list(list, below, PAGES_AT_ONCE).await?;
        let Some((last, _)) = pages.last() else { break };
        below = *last;
        for (number, blob) in &pages {
            page.clear();
            unpack(blob, &mut page)?;
            let absent = difference(&members, &page);
            if absent.len() < members.len() {
                found.extend(difference(&members, &absent).into_iter().map(|member| (member, *number)));
                members = absent;
            }
        }
    }
    // If pages were removed, the edge still stores its first page.
    if !members.is_empty() {
        let open = tables.open_edges(list, &members).await?;
        found.extend(open.into_iter().map(|(member, first, _)| (member, first)));
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns the members that no page of the list with a number in `pages` showed.
async fn members_unshown_since(
    tables: &mut dyn CrawlStatements,
    list: i64,
    pages: Range<i64>,
    mut members: Vec<AccountKey>,
) -> Result<Vec<AccountKey>> {
    let (mut below, mut page) = (pages.end, Vec::new());
    while !members.is_empty() {
        let newest = tables.pages_of_list(list, below, PAGES_AT_ONCE).await?;
        let Some((last, _)) = newest.last() else { break };
        below = *last;
        for (_, blob) in newest.iter().filter(|(number, _)| *number >= pages.start) {
            page.clear();
            unpack(blob, &mut page)?;
            members = difference(&members, &page);
        }
        if below < pages.start {
            break;
        }
    }
    Ok(members)
}

/// Finds the edges that the end of a crawl closes. `None`: the crawl expects another cursor.
pub(super) async fn find_closings(
    tables: &mut dyn CrawlStatements,
    (namespace, owner): (&str, &str),
    (number, cursor): (i64, Option<&str>),
    members: &[ListedMember],
    guard: ClosingLimit,
) -> Result<Option<Closings>> {
    let Some(row) = tables.under_way(namespace, owner).await? else { return Ok(None) };
    if row.key != number || row.cursor.as_deref() != cursor {
        return Ok(None);
    }
    let ids = sorted_ids(members);
    let ids: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
    let on_page = tables.known_accounts(network_of(namespace), &ids).await?;
    let new = (ids.len() - on_page.len()) as u64;
    let shown = collect_members(tables, row.key, on_page.into_iter().map(|(_, key)| key).collect()).await?;
    let mut closings = Closings { found: Some(shown.len() as u64 + new), ..Closings::default() };
    let first = tables.first_page_number(row.key).await?.unwrap_or(i64::MAX);
    if tables.pages_of_list(row.list, first, 1).await?.is_empty() {
        return Ok(Some(closings)); // the first crawl of the list: all open edges are its own
    }
    let (mut gone, open) = missing_members(tables, row.list, &shown).await?;
    let doubted = match tables.withheld_before(row.list).await? {
        Some(before) if !gone.is_empty() => {
            // A crawl without a page confirms nothing.
            let since = tables.first_page_number(before).await?.unwrap_or(0);
            let confirmed = members_unshown_since(tables, row.list, since..first, gone.clone()).await?;
            difference(&gone, &confirmed)
        }
        _ => gone.clone(),
    };
    let is_many = doubted.len() as u64 > guard.least;
    let far_too_many = is_many && doubted.len() as f64 > guard.share * open as f64;
    // A list with members hardly ever loses all of them at once.
    let is_empty = closings.found == Some(0) && row.stated_total != Some(0) && !doubted.is_empty();
    // A fault that empties the last page looks like the loss of the oldest members.
    let is_cut_short = is_many && members.is_empty() && cursor.is_some();
    if far_too_many || (is_empty || is_cut_short) && guard.share < 1.0 {
        closings.withheld = doubted.len() as u64;
        gone = difference(&gone, &doubted);
    }
    closings.edges = last_pages(tables, row.list, gone).await?;
    Ok(Some(closings))
}

fn sorted_ids(members: &[ListedMember]) -> Vec<std::borrow::Cow<'_, str>> {
    let mut ids: Vec<_> = members.iter().map(|member| clean(&member.id)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl CrawlEnd {
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        serde_json::from_value(word.into()).ok()
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Withheld => "withheld",
            Self::KnownTail => "known_tail",
            Self::Capped => "capped",
            Self::Hidden => "hidden",
            Self::Partial => "partial",
            Self::Stale => "stale",
            Self::Looped => "looped",
            Self::Aborted => "aborted",
        }
    }
}

async fn end(
    tables: &mut dyn CrawlStatements,
    row: &CrawlRow,
    end: CrawlEnd,
    closings: &Closings,
    progress: &mut Progress,
) -> Result<CrawlOutcome> {
    let mut ended = CrawlOutcome { end, vanished: 0, withheld: 0 };
    if let Some(found) = closings.found {
        ended.vanished = tables.close_edges(row.list, row.key, &closings.edges).await?;
        ended.withheld = closings.withheld;
        if ended.withheld > 0 {
            ended.end = CrawlEnd::Withheld;
        }
        progress.found = to_i64(found);
    } else if progress.pages > i64::from(OVERLAP) {
        progress.found = to_i64(collect_members(tables, row.key, Vec::new()).await?.len() as u64);
    }
    progress.vanished += to_i64(ended.vanished);
    progress.withheld = to_i64(ended.withheld);
    progress.ended = Some((ended.end.as_str(), progress.newest_at));
    Ok(ended)
}

pub(super) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl End {
    pub(super) fn guard(self) -> Option<ClosingLimit> {
        match self {
            Self::Complete(guard) => Some(guard),
            _ => None,
        }
    }
}

impl Next {
    pub(super) fn guard(&self) -> Option<ClosingLimit> {
        match self {
            Self::Page(_) => None,
            Self::End(end) => end.guard(),
        }
    }
}

fn crawl_end_of(end: End) -> CrawlEnd {
    match end {
        End::Complete(_) => CrawlEnd::Complete,
        End::Capped => CrawlEnd::Capped,
        End::Hidden => CrawlEnd::Hidden,
        End::Partial => CrawlEnd::Partial,
        End::Stale => CrawlEnd::Stale,
        End::Aborted => CrawlEnd::Aborted,
    }
}

/// Ends a crawl in the caller's transaction. `None`: it expects another cursor.
pub(super) async fn end_crawl(
    tables: &mut dyn CrawlStatements,
    (namespace, owner): (&str, &str),
    (number, cursor): (i64, Option<&str>),
    at: Millis,
    how: End,
    closings: &Closings,
) -> Result<Option<CrawlOutcome>> {
    let Some(row) = tables.under_way(namespace, owner).await? else { return Ok(None) };
    if row.key != number || row.cursor.as_deref() != cursor {
        return Ok(None);
    }
    let mut progress = Progress {
        crawl: row.key,
        cursor: row.cursor.clone(),
        newest_at: at.max(row.newest_at),
        known_tail: row.known_tail,
        pages: row.pages,
        found: row.found,
        ..Progress::default()
    };
    let ended = end(tables, &row, crawl_end_of(how), closings, &mut progress).await?;
    tables.advance(&progress).await?;
    Ok(Some(ended))
}

/// Saves a page in the caller's transaction. `None`: the crawl does not expect it.
pub(super) async fn save_page(
    tables: &mut dyn CrawlStatements,
    (namespace, owner): (&str, &str),
    page: &EdgePage,
    closings: &Closings,
) -> Result<Option<SavedEdges>> {
    let Some(row) = tables.under_way(namespace, owner).await? else { return Ok(None) };
    if row.key != page.crawl || row.cursor != page.cursor {
        return Ok(None);
    }
    // While a clock is behind, times of a list stand still.
    let at = page.answered_at.max(row.newest_at);
    let asked_at = page.asked_at.max(row.started_at).min(at);

    let ids = sorted_ids(&page.members);
    let ids: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
    let network = network_of(namespace);
    let mut numbers: HashMap<String, AccountKey> = tables.known_accounts(network, &ids).await?.into_iter().collect();
    let unknown: Vec<&str> = ids.iter().copied().filter(|id| !numbers.contains_key(*id)).collect();
    if !unknown.is_empty() {
        numbers.extend(tables.add_accounts(network, &unknown).await?);
    }
    let mut keys: Vec<AccountKey> = numbers.values().copied().collect();
    keys.sort_unstable();
    let follow_times: HashMap<AccountKey, Millis> = page
        .members
        .iter()
        .filter_map(|member| Some((*numbers.get(&*clean(&member.id))?, member.followed_at?)))
        .filter(|(_, time)| *time <= at)
        .collect();
    let is_new = |time: &Millis| row.appeared_after.is_none_or(|after| after < *time);
    let opened = tables.open_edges(row.list, &keys).await?;

    // If the stated time of a follow is newer than the stored one and than the last page that showed the member, it is a new
    // follow: the previous one had ended. If no time is stored, it may be the same follow, by a clock that is ahead.
    let is_restated = |(key, _, followed): &&(AccountKey, i64, Option<Millis>)| {
        let time = follow_times.get(key).copied().filter(is_new);
        time.zip(*followed).is_some_and(|(time, followed)| followed < time)
    };
    let again: Vec<AccountKey> = opened.iter().filter(is_restated).map(|(key, ..)| *key).collect();
    let again = last_pages(tables, row.list, again).await?;
    let mut renewed = Vec::new();
    for (member, last) in again {
        let asked_at = tables.asked_at(last).await?;
        if asked_at.zip(follow_times.get(&member).copied()).is_some_and(|(asked_at, time)| asked_at < time) {
            renewed.push((member, last));
        }
    }
    let closed = if renewed.is_empty() { 0 } else { tables.close_edges(row.list, row.key, &renewed).await? };
    let undated = opened.iter().filter(|(.., followed)| followed.is_none());
    let mut dated: Vec<(AccountKey, Millis)> =
        undated.filter_map(|(key, ..)| Some((*key, *follow_times.get(key)?))).collect();
    if !dated.is_empty() {
        dated.sort_unstable();
        tables.date_edges(row.list, &dated).await?;
    }
    let goes_on = |(key, _): &(AccountKey, i64)| renewed.binary_search_by_key(key, |(member, _)| *member).is_err();
    let open: HashMap<AccountKey, i64> =
        opened.into_iter().map(|(key, first, _)| (key, first)).filter(goes_on).collect();

    let (mut fresh, mut earlier) = (keys.clone(), Vec::new());
    for (_, blob) in &tables.pages_of_crawl(row.key, i64::MAX, i64::from(OVERLAP)).await? {
        earlier.clear();
        unpack(blob, &mut earlier)?;
        fresh = difference(&fresh, &earlier);
    }

    let first_page = tables.first_page_number(row.key).await?;
    let was_known = |member: &&ListedMember| {
        let first = numbers.get(&*clean(&member.id)).and_then(|key| open.get(key));
        first.is_some_and(|first| first_page.is_none_or(|own| *first < own))
    };
    let tail = page.members.iter().rev().take_while(was_known).count();
    let all = tail == page.members.len();
    let known_tail = tail as i64 + if all { row.known_tail } else { 0 };

    let new: Vec<(AccountKey, Option<Millis>)> = keys
        .iter()
        .filter(|key| !open.contains_key(key))
        .map(|key| (*key, follow_times.get(key).copied().filter(is_new)))
        .collect();
    let cursor = page.cursor.as_deref();
    let written = PageRow { list: row.list, crawl: row.key, cursor, asked_at, at, members: pack(&keys) };
    let number = tables.insert_page(&written).await?;
    tables.insert_edges(row.list, number, &new).await?;

    let mut progress = Progress {
        crawl: row.key,
        cursor: row.cursor.clone(),
        newest_at: at,
        known_tail,
        pages: row.pages + 1,
        found: row.found + fresh.len() as i64,
        appeared: new.len() as i64,
        vanished: to_i64(closed),
        unreadable: page.unreadable,
        ..Progress::default()
    };
    let ends = match &page.next {
        Next::End(end) => Some(crawl_end_of(*end)),
        Next::Page(next) => {
            let next = clean(next);
            progress.cursor = Some(next.clone().into_owned());
            let stops_after = row.stops_after.map(|members| members.max(1));
            if is_stalled(progress.pages, progress.found) || tables.has_cursor(row.key, &next).await? {
                Some(CrawlEnd::Looped)
            } else if stops_after.is_some_and(|members| known_tail >= members) {
                Some(CrawlEnd::KnownTail)
            } else {
                None
            }
        }
    };
    let ended = match ends {
        Some(how) => Some(end(tables, &row, how, closings, &mut progress).await?),
        None => None,
    };
    tables.advance(&progress).await?;
    Ok(Some(SavedEdges {
        new: new.len() as u64,
        repeated: (page.members.len() - fresh.len()) as u64,
        known_tail: known_tail as u64,
        ended,
    }))
}
