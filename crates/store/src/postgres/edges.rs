//! Edges in PostgreSQL. A page takes several statements in one transaction, guarded by the row of the crawl.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{Connection, FromRow, PgConnection, Postgres};

use super::{PostgresStore, Statement, timeout_error};
use crate::crawling::{self, Closings, CrawlRow, CrawlStatements, ListRow, PageRow, Progress, to_i64};
use crate::edges::{self, EdgeRow, ListEntry};
use crate::graph::{self, GraphFilter, Graphs, PartVisitor};
use crate::packed::AccountKey;
use crate::rows::{clean, number};
use crate::{
    ClosingLimit, CrawlOutcome, CrawlRecord, CrawlUnderWay, Edge, EdgeChange, EdgePage, EdgePlace, Edges, End, Follow,
    ListBounds, ListCrawl, ListTotals, ListedMember, MemberAt, NewCrawl, Result, SavedEdges, StoreError,
};
use engine::base::clock::Millis;
use engine::base::failpoint;

struct PostgresCrawl<'c> {
    connection: &'c mut PgConnection,
    call_timeout: Duration,
    /// In a transaction: the crawl's row is locked.
    locks: bool,
    store: &'c PostgresStore,
}

impl PostgresCrawl<'_> {
    async fn read<T>(&mut self, statement: Statement) -> Result<Vec<T>>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        let answer = tokio::time::timeout(self.call_timeout, statement.fetch_all(&mut *self.connection)).await;
        let rows = answer.map_err(|_| timeout_error(self.call_timeout))??;
        rows.iter().map(T::from_row).collect::<Result<_, _>>().map_err(StoreError::from)
    }

    async fn read_value<T>(&mut self, statement: Statement) -> Result<T>
    where
        (T,): for<'r> FromRow<'r, PgRow>,
    {
        let row: Option<(T,)> = self.read(statement).await?.pop();
        row.map(|(value,)| value).ok_or_else(|| sqlx::Error::RowNotFound.into())
    }

    async fn write(&mut self, statement: Statement) -> Result<()> {
        self.read::<()>(statement).await.map(drop)
    }
}

#[async_trait]
impl CrawlStatements for PostgresCrawl<'_> {
    async fn under_way(&mut self, namespace: &str, owner: &str) -> Result<Option<CrawlRow>> {
        let sql = if self.locks { sql!("edges/lock_under_way.pg") } else { sql!("edges/under_way.pg") };
        Ok(self.read(statement!(sql, namespace, clean(owner))).await?.pop())
    }

    async fn known_accounts(&mut self, network: &str, ids: &[&str]) -> Result<Vec<(String, AccountKey)>> {
        if self.locks {
            // A known account cannot be forgotten before this page is saved.
            self.write(statement!("edges/hold_accounts.pg")).await?;
        }
        self.read(statement!("edges/known_accounts.pg", network, ids)).await
    }

    async fn add_accounts(&mut self, network: &str, ids: &[&str]) -> Result<Vec<(String, AccountKey)>> {
        self.write(statement!("edges/add_network.pg", network)).await?;
        let people = self.store.pseudonyms(edges::person_network_of_lists(network).as_deref(), ids.iter().copied());
        let added = self.read(statement!("edges/add_accounts.pg", network, ids, people)).await?;
        // Another page added the rest meanwhile, or the rest is blocked.
        if added.len() == ids.len() { Ok(added) } else { self.known_accounts(network, ids).await }
    }

    async fn open_edges(
        &mut self,
        list: i64,
        members: &[AccountKey],
    ) -> Result<Vec<(AccountKey, i64, Option<Millis>)>> {
        self.read(statement!("edges/open_edges.pg", list, members)).await
    }

    async fn open_members(&mut self, list: i64, after: AccountKey, limit: i64) -> Result<Vec<AccountKey>> {
        let members: Vec<(AccountKey,)> = self.read(statement!("edges/open_members.pg", list, after, limit)).await?;
        Ok(members.into_iter().map(|(member,)| member).collect())
    }

    async fn pages_of_crawl(&mut self, crawl: i64, below: i64, limit: i64) -> Result<Vec<(i64, Vec<u8>)>> {
        self.read(statement!("edges/pages_of_crawl", crawl, below, limit)).await
    }

    async fn pages_of_list(&mut self, list: i64, below: i64, limit: i64) -> Result<Vec<(i64, Vec<u8>)>> {
        self.read(statement!("edges/pages_of_list", list, below, limit)).await
    }

    async fn first_page_number(&mut self, crawl: i64) -> Result<Option<i64>> {
        self.read_value(statement!("edges/first_page", crawl)).await
    }

    async fn asked_at(&mut self, page: i64) -> Result<Option<Millis>> {
        self.read_value(statement!("edges/asked_at", page)).await
    }

    async fn has_cursor(&mut self, crawl: i64, cursor: &str) -> Result<bool> {
        self.read_value(statement!("edges/has_cursor", crawl, cursor)).await
    }

    async fn withheld_before(&mut self, list: i64) -> Result<Option<i64>> {
        self.read_value(statement!("edges/withheld_before", list)).await
    }

    async fn insert_page(&mut self, page: &PageRow<'_>) -> Result<i64> {
        let PageRow { list, crawl, cursor, asked_at, at, members } = page;
        self.read_value(statement!("edges/insert_page", list, crawl, cursor, asked_at, at, members)).await
    }

    async fn insert_edges(&mut self, list: i64, page: i64, members: &[(AccountKey, Option<Millis>)]) -> Result<()> {
        let (keys, followed): (Vec<AccountKey>, Vec<Option<Millis>>) = members.iter().copied().unzip();
        self.write(statement!("edges/insert_edges.pg", list, page, keys, followed)).await
    }

    async fn date_edges(&mut self, list: i64, members: &[(AccountKey, Millis)]) -> Result<()> {
        let (keys, followed): (Vec<AccountKey>, Vec<Millis>) = members.iter().copied().unzip();
        self.write(statement!("edges/date_edges.pg", list, keys, followed)).await
    }

    async fn close_edges(&mut self, list: i64, crawl: i64, members: &[(AccountKey, i64)]) -> Result<u64> {
        let (keys, pages): (Vec<AccountKey>, Vec<i64>) = members.iter().copied().unzip();
        let closed = self.read_value(statement!("edges/close_edges.pg", list, crawl, keys, pages)).await?;
        Ok(number(closed))
    }

    async fn advance(&mut self, of: &Progress) -> Result<()> {
        let advance =
            statement!("edges/advance", of.crawl, &of.cursor, of.newest_at, of.known_tail, of.pages, of.found);
        let advance = advance.bind(of.appeared).bind(of.vanished).bind(of.withheld);
        let advance = advance.bind(of.ended.map(|(word, _)| word)).bind(of.ended.map(|(_, at)| at));
        self.write(advance.bind(of.unreadable)).await
    }
}

/// Runs a step in a transaction. Drops the connection after a failure: it may hold an open transaction, or be dead.
macro_rules! in_transaction {
    ($store:expr, |$tables:ident| $step:expr) => {{
        let (call_timeout, mut connection) = ($store.call_timeout, $store.pool.acquire().await?);
        let limited = |_| timeout_error(call_timeout);
        let taken = async {
            let mut transaction = tokio::time::timeout(call_timeout, connection.begin()).await.map_err(limited)??;
            let $tables = &mut PostgresCrawl { connection: &mut transaction, call_timeout, locks: true, store: $store };
            let taken = $step.await?;
            failpoint::point("before_commit");
            tokio::time::timeout(call_timeout, transaction.commit()).await.map_err(limited)??;
            Ok::<_, StoreError>(taken)
        };
        let taken = taken.await;
        if taken.is_err() {
            drop(connection.detach());
        }
        taken
    }};
}

impl PostgresStore {
    /// Closings at the end of a crawl, if there are any, read before its transaction.
    async fn find_closings(
        &self,
        list: (&str, &str),
        waits_for: (i64, Option<&str>),
        members: &[ListedMember],
        guard: Option<ClosingLimit>,
    ) -> Result<Option<Closings>> {
        let Some(guard) = guard else { return Ok(Some(Closings::default())) };
        let mut connection = self.pool.acquire().await?;
        let tables = &mut PostgresCrawl {
            connection: &mut connection,
            call_timeout: self.call_timeout,
            locks: false,
            store: self,
        };
        let closings = crawling::find_closings(tables, list, waits_for, members, guard).await;
        if closings.is_err() {
            drop(connection.detach());
        }
        closings
    }
}

async fn begin(
    tables: &mut PostgresCrawl<'_>,
    (namespace, owner): (&str, &str),
    new: &NewCrawl,
) -> Result<Option<CrawlUnderWay>> {
    let number: Option<(i64,)> = tables.read(statement!("edges/add_list.pg", namespace, clean(owner))).await?.pop();
    let Some((number,)) = number else { return Ok(None) };
    let (kind, stops_after) = crawling::encode_kind(new.kind);
    tables.write(statement!("edges/begin.pg", number, kind, stops_after, new.at, new.stated_total)).await?;
    Ok(tables.under_way(namespace, owner).await?.map(CrawlUnderWay::from))
}

async fn forget(tables: &mut PostgresCrawl<'_>, (network, account): (&str, &str)) -> Result<u64> {
    let [followers, friends] = edges::KINDS.map(|kind| edges::namespace(kind, network));
    tables.write(statement!("edges/hold_crawls.pg", followers, friends, clean(account))).await?;
    tables.write(statement!("edges/hold_pages.pg")).await?;
    let mut forgotten: i64 = tables.read_value(statement!("edges/forget_member.pg", network, clean(account))).await?;
    for kind in edges::KINDS {
        let list = statement!("edges/forget_list.pg", edges::namespace(kind, network), clean(account));
        forgotten += tables.read_value::<i64>(list).await?;
    }
    Ok(number(forgotten))
}

#[async_trait]
impl Graphs for PostgresStore {
    async fn graph(&self, wanted: &GraphFilter, visit: PartVisitor<'_>) -> Result<()> {
        const ONE_VIEW: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.gather_statistics().await;
        let mut transaction = self.pool.begin_with(ONE_VIEW).await?;
        graph::read::<Postgres>(&mut transaction, wanted, visit).await
    }
}

#[async_trait]
impl Edges for PostgresStore {
    async fn begin_crawl(&self, namespace: &str, owner: &str, new: &NewCrawl) -> Result<Option<CrawlUnderWay>> {
        in_transaction!(self, |tables| begin(tables, (namespace, owner), new))
    }

    async fn crawl(&self, namespace: &str, owner: &str) -> Result<Option<CrawlUnderWay>> {
        let row: Option<CrawlRow> =
            self.read_first(|| statement!("edges/under_way.pg", namespace, clean(owner))).await?;
        Ok(row.map(CrawlUnderWay::from))
    }

    async fn save_edges(&self, namespace: &str, owner: &str, page: &EdgePage) -> Result<Option<SavedEdges>> {
        let at = (namespace, owner);
        let waits_for = (page.crawl, page.cursor.as_deref());
        let closings = self.find_closings(at, waits_for, &page.members, page.next.guard()).await?;
        let Some(closings) = closings else { return Ok(None) };
        if self.keys.loaded_key().is_none() {
            self.load_key().await?; // a transaction that misses it has to be made again
        }
        in_transaction!(self, |tables| crawling::save_page(tables, at, page, &closings))
    }

    async fn end_crawl(
        &self,
        namespace: &str,
        owner: &str,
        waits_for: (i64, Option<&str>),
        at: Millis,
        end: End,
    ) -> Result<Option<CrawlOutcome>> {
        let of = (namespace, owner);
        let Some(closings) = self.find_closings(of, waits_for, &[], end.guard()).await? else { return Ok(None) };
        in_transaction!(self, |tables| crawling::end_crawl(tables, of, waits_for, at, end, &closings))
    }

    async fn crawls(&self, namespace: &str, owner: &str, limit: u32) -> Result<Vec<CrawlRecord>> {
        self.read(|| statement!("edges/crawls", namespace, clean(owner), i64::from(limit))).await
    }

    async fn crawls_under_way(&self, namespace: &str, after: i64, limit: u32) -> Result<Vec<ListCrawl>> {
        let rows: Vec<ListRow> =
            self.read(|| statement!("edges/all_under_way.pg", namespace, after, i64::from(limit))).await?;
        Ok(rows.into_iter().map(ListCrawl::from).collect())
    }

    async fn list_totals(&self, namespace: &str, bounds: &ListBounds) -> Result<ListTotals> {
        let ListBounds { recorded_before, intervals, complete_before, page, longest } = *bounds;
        let tiers = || {
            let tiers = statement!("edges/tier_totals.pg", namespace, intervals[0], intervals[1]);
            complete_before.into_iter().fold(tiers, |tiers, before| tiers.bind(before))
        };
        let (page, profiles) =
            (i64::from(page.max(1)), edges::namespace(edges::PROFILES, edges::network_of(namespace)));
        let unread =
            || statement!("edges/unread_totals.pg", namespace, recorded_before, page, to_i64(longest), &profiles);
        Ok(ListTotals { tiers: self.read(tiers).await?, unread: self.read_one(unread).await? })
    }

    async fn members_at(
        &self,
        namespace: &str,
        owner: &str,
        at: Millis,
        after: Option<EdgePlace>,
        limit: u32,
    ) -> Result<Vec<MemberAt>> {
        let EdgePlace(_, member, page) = after.unwrap_or_default();
        let limit = i64::from(limit);
        let rows: Vec<EdgeRow> =
            self.read(|| statement!("edges/members_at.pg", namespace, clean(owner), at, member, page, limit)).await?;
        Ok(rows.into_iter().map(|row| row.into_member(at)).collect())
    }

    async fn edge_changes(
        &self,
        namespace: &str,
        change: EdgeChange,
        (from, until): (Millis, Millis),
        after: Option<EdgePlace>,
        limit: u32,
    ) -> Result<Vec<(EdgePlace, Edge)>> {
        let EdgePlace(at, by, member) = after.unwrap_or_default();
        let sql = if change == EdgeChange::Appeared { sql!("edges/appeared.pg") } else { sql!("edges/vanished.pg") };
        let changes = statement!(sql, namespace, from.max(at), until, at, by, member, i64::from(limit));
        let read = async |tables: &mut PostgresCrawl<'_>| {
            tables.write(statement!("edges/plan_by_indexes.pg")).await?;
            tables.read(changes).await
        };
        let rows: Vec<EdgeRow> = in_transaction!(self, |tables| read(tables))?;
        Ok(rows.into_iter().map(|row| row.into_change(change)).collect())
    }

    async fn follows_among(&self, network: &str, ids: &[String], at: Option<Millis>) -> Result<Vec<Follow>> {
        let given: Vec<String> = ids.iter().map(|id| clean(id).into_owned()).collect();
        let mut follows = Vec::new();
        for kind in edges::KINDS {
            let lists = edges::namespace(kind, network);
            let found: Vec<ListEntry> =
                self.read(|| statement!("edges/follows.pg", &lists, &given, network, at)).await?;
            follows.extend(found.into_iter().map(|on_list| on_list.follow(kind)));
        }
        Ok(edges::sort_and_dedup(follows))
    }

    async fn accounts_to_forget(&self, network: &str, limit: u32) -> Result<Vec<String>> {
        let [followers, friends, profiles] =
            [edges::KINDS[0], edges::KINDS[1], edges::PROFILES].map(|kind| edges::namespace(kind, network));
        self.read_column(|| {
            statement!("edges/accounts_to_forget.pg", network, &followers, &friends, &profiles, i64::from(limit))
        })
        .await
    }

    async fn forget_edges(&self, network: &str, account: &str) -> Result<u64> {
        let [followers, friends] = edges::KINDS.map(|kind| edges::namespace(kind, network));
        let most = edges::FORGOTTEN_AT_ONCE;
        let some = || statement!("edges/remove_edge_portion.pg", &followers, &friends, clean(account), most);
        let mut forgotten = 0;
        loop {
            let gone: i64 = self.read_value(some).await?;
            forgotten += number(gone);
            if gone < most {
                break;
            }
        }
        Ok(forgotten + in_transaction!(self, |tables| forget(tables, (network, account)))?)
    }
}
