//! Edges in PostgreSQL. A page takes several statements in one transaction, guarded by the row of the crawl.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{Connection, FromRow, PgConnection, Postgres};

use super::{PostgresStore, Statement, not_blocked, timeout_error};
use crate::crawling::{self, Closings, CrawlRow, CrawlStatements, ListRow, PageRow, Progress, crawl_columns, to_i64};
use crate::edges::{self, EdgeRow, ListEntry, edge_columns, existed_at, forgotten};
use crate::graph::{self, GraphFilter, Graphs, PartVisitor};
use crate::list_totals::{tier_totals, unread_total};
use crate::packed::AccountKey;
use crate::rows::{clean, number};
use crate::{
    ClosingLimit, CrawlOutcome, CrawlRecord, CrawlUnderWay, Edge, EdgeChange, EdgePage, EdgePlace, Edges, End, Follow,
    ListBounds, ListCrawl, ListTotals, ListedMember, MemberAt, NewCrawl, Result, SavedEdges, StoreError,
};
use engine::base::clock::Millis;
use engine::base::failpoint;

macro_rules! under_way {
    () => {
        concat!(
            "SELECT ",
            crawl_columns!(),
            " FROM list_owner AS list JOIN list_crawl AS crawl ON crawl.list = list.key AND crawl.ended_at IS NULL \
             WHERE list.namespace = $1 AND list.id = $2"
        )
    };
}

const UNDER_WAY: &str = under_way!();
const LOCK_UNDER_WAY: &str = concat!(under_way!(), " FOR UPDATE OF crawl");

/// Returns the list's number and locks its row.
const ADD_LIST: &str = "INSERT INTO list_owner (namespace, id) SELECT namespace, id FROM tweet \
     WHERE namespace = $1 AND id = $2 ON CONFLICT (namespace, id) DO UPDATE SET id = excluded.id \
     RETURNING key::bigint";

/// Times of a list never go back. The start is no later than the claim. The time of a page is the upper bound for all
/// its events, and may be long after the claim.
const BEGIN: &str = "INSERT INTO list_crawl (list, kind, stops_after, started_at, newest_at, stated_total, appeared_after) \
     SELECT $1, $2, $3, started, newest, $5, (SELECT MAX(started_at) FROM list_crawl WHERE list = $1 AND ended = 'complete') \
     FROM (SELECT GREATEST($4, MAX(started_at)) AS started, GREATEST($4, MAX(newest_at)) AS newest \
     FROM list_crawl WHERE list = $1) AS before ON CONFLICT DO NOTHING";

const ALL_UNDER_WAY: &str = concat!(
    "SELECT ",
    crawl_columns!(),
    ", list.id AS owner FROM list_crawl AS crawl JOIN list_owner AS list ON list.key = crawl.list \
     WHERE list.namespace = $1 AND crawl.ended_at IS NULL AND crawl.key > $2 ORDER BY crawl.key LIMIT $3"
);

/// Subqueries with a LIMIT, so that the planner looks up each list separately: see [`KNOWN_ACCOUNTS`].
const TIERS: &str = tier_totals!(
    "tweet AS of LEFT JOIN list_owner AS owner ON owner.namespace = of.namespace AND owner.id = of.id \
     LEFT JOIN LATERAL (SELECT ended_at, pages FROM list_crawl WHERE list_crawl.list = owner.key AND ended = 'complete' \
     ORDER BY key DESC LIMIT 1) AS whole ON TRUE"
);

const UNREAD: &str = unread_total!(
    "tweet AS of LEFT JOIN list_owner AS owner ON owner.namespace = of.namespace AND owner.id = of.id \
     LEFT JOIN LATERAL (SELECT pages, stated_total FROM list_crawl WHERE list_crawl.list = owner.key AND ended_at IS NULL LIMIT 1) \
     AS crawl ON TRUE \
     LEFT JOIN LATERAL (SELECT followers, following FROM account WHERE account.namespace = $5 AND account.id = of.id LIMIT 1) \
     AS account ON TRUE"
);

/// Statements about the ids or members of a page look up each of them separately: the planner cannot join a subquery
/// with a LIMIT in another way. Otherwise it would read all accounts of a network, or all edges of a list, for each
/// page. Without statistics it assumes that both are few, and with them that a page is a large part.
const KNOWN_ACCOUNTS: &str = "SELECT known.id, known.key::bigint FROM UNNEST($2::text[]) AS given (id) CROSS JOIN LATERAL \
     (SELECT id, key FROM list_account WHERE network = (SELECT key FROM list_network WHERE name = $1) \
     AND id = given.id COLLATE \"C\" LIMIT 1) AS known";

/// In the order of the ids, so that two pages wait for each other and cannot deadlock. Only new ids: a conflict uses up
/// a number.
const ADD_ACCOUNTS: &str = concat!(
    "INSERT INTO list_account (network, id) SELECT network.key, given.id \
     FROM list_network AS network, UNNEST($2::text[]) AS given (id) WHERE network.name = $1 AND ",
    not_blocked!("given.id", "$3"),
    " ORDER BY given.id COLLATE \"C\" ON CONFLICT DO NOTHING RETURNING id, key::bigint"
);

/// The lock that an insert takes as well: see [`HOLD_PAGES`].
const HOLD_ACCOUNTS: &str = "LOCK TABLE list_account IN ROW EXCLUSIVE MODE";

const OPEN_EDGES: &str = "SELECT edge.member::bigint, edge.first_page::bigint, edge.followed_at \
     FROM UNNEST($2::bigint[]) AS given (member) CROSS JOIN LATERAL (SELECT member, first_page, followed_at FROM list_edge \
     WHERE list = $1 AND list_edge.member = given.member AND closed_by IS NULL LIMIT 1) AS edge";

const OPEN_MEMBERS: &str = "SELECT member::bigint FROM list_edge WHERE list = $1 AND member > $2 AND closed_by IS NULL \
     ORDER BY list_edge.member LIMIT $3";

const INSERT_EDGES: &str = "INSERT INTO list_edge (list, member, first_page, followed_at) \
     SELECT $1, member, $2, followed_at FROM UNNEST($3::bigint[], $4::bigint[]) AS given (member, followed_at)";

/// A scalar subquery cannot be joined in another way either.
const DATE_EDGES: &str = "UPDATE list_edge SET followed_at = given.followed_at \
     FROM UNNEST($2::bigint[], $3::bigint[]) AS given (member, followed_at) \
     WHERE list = $1 AND list_edge.member = given.member AND closed_by IS NULL AND list_edge.followed_at IS NULL \
     AND (SELECT first.at >= given.followed_at AND COALESCE(since.appeared_after < given.followed_at, TRUE) \
     FROM list_page AS first JOIN list_crawl AS since ON since.key = first.crawl WHERE first.key = list_edge.first_page)";

const CLOSE_EDGES: &str = "WITH closed AS (UPDATE list_edge SET closed_by = $2, last_page = given.page \
     FROM UNNEST($3::bigint[], $4::bigint[]) AS given (member, page) \
     WHERE list = $1 AND list_edge.member = given.member AND closed_by IS NULL RETURNING 1) SELECT count(*) FROM closed";

/// In the order of the answer, page by page. For an unknown limit the planner assumes a small part of the whole. For a
/// known one it assumes all rows, so each page would read and sort the list to its end.
const MEMBERS_AT: &str = concat!(
    "SELECT ",
    edge_columns!("edge.id"),
    " FROM edge WHERE edge.list = (SELECT key FROM list_owner WHERE namespace = $1 AND id = $2) AND ",
    existed_at!("$3"),
    " AND (edge.member_key, edge.first_page) > ($4, $5) ORDER BY edge.member_key, edge.first_page LIMIT (SELECT $6)"
);

/// With these settings the planner reads changes in the order of their index of time, and all else by its key. Without
/// statistics, as after a first crawl, it expects few edges in any period, and would read and sort all for each page.
const BY_INDEXES: &str = "SELECT set_config(name, 'off', true) FROM UNNEST(ARRAY['enable_seqscan', 'enable_bitmapscan', \
     'enable_hashjoin', 'enable_mergejoin', 'enable_sort']) AS of (name)";

const APPEARED: &str = concat!(
    "SELECT ",
    edge_columns!("edge.id"),
    " FROM edge WHERE edge.namespace = $1 AND edge.appeared_by >= $2 AND edge.appeared_by < $3 \
     AND (edge.appeared_by, edge.first_page, edge.member_key) > ($4, $5, $6) \
     ORDER BY edge.appeared_by, edge.first_page, edge.member_key LIMIT (SELECT $7)"
);

/// Only the view's own columns. A join with the view would exceed `join_collapse_limit` by one table, and the planner
/// would start with a read of all edges.
const VANISHED: &str = concat!(
    "SELECT ",
    edge_columns!("edge.id"),
    " FROM edge WHERE edge.namespace = $1 AND edge.vanished_by >= $2 AND edge.vanished_by < $3 \
     AND (edge.vanished_by, edge.closed_by, edge.member_key) > ($4, $5, $6) \
     ORDER BY edge.vanished_by, edge.closed_by, edge.member_key LIMIT (SELECT $7)"
);

/// By each account's own edges: no more than the lists that were read, regardless of their length.
const FOLLOWS: &str = concat!(
    "SELECT DISTINCT account.id AS member, list.id AS owner FROM list_account AS account \
     JOIN list_edge AS of ON of.member = account.key JOIN list_owner AS list ON list.key = of.list \
     WHERE account.network = (SELECT key FROM list_network WHERE name = $3) AND account.id = ANY($2) \
     AND list.namespace = $1 AND list.id = ANY($2) \
     AND CASE WHEN $4::bigint IS NULL THEN of.closed_by IS NULL ELSE EXISTS (SELECT 1 FROM edge \
     WHERE edge.list = of.list AND edge.member_key = of.member AND edge.first_page = of.first_page AND ",
    existed_at!("$4"),
    ") END"
);

/// Locks the crawls of an account's own lists, since every page locks its crawl first.
const HOLD_CRAWLS: &str = "SELECT FROM list_crawl WHERE ended_at IS NULL AND list IN \
     (SELECT key FROM list_owner WHERE namespace IN ($1, $2) AND id = $3) ORDER BY key FOR UPDATE";

/// Pages are saved before or after this lock, so no unfinished page names a removed account.
const HOLD_PAGES: &str = "LOCK TABLE list_account IN SHARE ROW EXCLUSIVE MODE";

const FORGET_SOME: &str = "WITH gone AS (DELETE FROM list_edge WHERE ctid = ANY(ARRAY(\
     SELECT of.ctid FROM list_owner AS list JOIN list_edge AS of ON of.list = list.key \
     WHERE list.namespace IN ($1, $2) AND list.id = $3 LIMIT $4)) RETURNING 1) SELECT count(*) FROM gone";

const FORGET_MEMBER: &str = "WITH gone AS (DELETE FROM list_account \
     WHERE network = (SELECT key FROM list_network WHERE name = $1) AND id = $2 RETURNING key), \
     edges AS (DELETE FROM list_edge WHERE member IN (SELECT key FROM gone) RETURNING 1) SELECT count(*) FROM edges";

const FORGET_LIST: &str = "WITH list AS MATERIALIZED (SELECT key FROM list_owner WHERE namespace = $1 AND id = $2), \
     pages AS (DELETE FROM list_page WHERE list IN (SELECT key FROM list)), \
     crawls AS (DELETE FROM list_crawl WHERE list IN (SELECT key FROM list)), \
     edges AS (DELETE FROM list_edge WHERE list IN (SELECT key FROM list) RETURNING 1) SELECT count(*) FROM edges";

struct PostgresCrawl<'c> {
    connection: &'c mut PgConnection,
    call_timeout: Duration,
    /// In a transaction: the crawl's row is locked.
    locks: bool,
    store: &'c PostgresStore,
}

impl PostgresCrawl<'_> {
    async fn rows<T>(&mut self, statement: Statement) -> Result<Vec<T>>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        let answer = tokio::time::timeout(self.call_timeout, statement.fetch_all(&mut *self.connection)).await;
        let rows = answer.map_err(|_| timeout_error(self.call_timeout))??;
        rows.iter().map(T::from_row).collect::<Result<_, _>>().map_err(StoreError::from)
    }

    async fn value<T>(&mut self, statement: Statement) -> Result<T>
    where
        (T,): for<'r> FromRow<'r, PgRow>,
    {
        let row: Option<(T,)> = self.rows(statement).await?.pop();
        row.map(|(value,)| value).ok_or_else(|| sqlx::Error::RowNotFound.into())
    }

    async fn execute(&mut self, statement: Statement) -> Result<()> {
        self.rows::<()>(statement).await.map(drop)
    }
}

fn owned(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn list_statement(sql: &'static str, namespace: &str, owner: &str) -> Statement {
    sqlx::query(sql).bind(namespace.to_owned()).bind(clean(owner).into_owned())
}

#[async_trait]
impl CrawlStatements for PostgresCrawl<'_> {
    async fn under_way(&mut self, namespace: &str, owner: &str) -> Result<Option<CrawlRow>> {
        let sql = if self.locks { LOCK_UNDER_WAY } else { UNDER_WAY };
        Ok(self.rows(list_statement(sql, namespace, owner)).await?.pop())
    }

    async fn known_accounts(&mut self, network: &str, ids: &[&str]) -> Result<Vec<(String, AccountKey)>> {
        if self.locks {
            // A known account cannot be forgotten before this page is saved.
            self.execute(sqlx::query(HOLD_ACCOUNTS)).await?;
        }
        self.rows(sqlx::query(KNOWN_ACCOUNTS).bind(network.to_owned()).bind(owned(ids))).await
    }

    async fn add_accounts(&mut self, network: &str, ids: &[&str]) -> Result<Vec<(String, AccountKey)>> {
        const ADD_NETWORK: &str = "INSERT INTO list_network (name) SELECT $1 \
             WHERE NOT EXISTS (SELECT 1 FROM list_network WHERE name = $1) ON CONFLICT DO NOTHING";
        self.execute(sqlx::query(ADD_NETWORK).bind(network.to_owned())).await?;
        let add = sqlx::query(ADD_ACCOUNTS).bind(network.to_owned()).bind(owned(ids));
        let people = self.store.pseudonyms(edges::person_network_of_lists(network).as_deref(), ids.iter().copied());
        let added = self.rows(add.bind(people)).await?;
        // Another page added the rest meanwhile, or the rest is blocked.
        if added.len() == ids.len() { Ok(added) } else { self.known_accounts(network, ids).await }
    }

    async fn open_edges(
        &mut self,
        list: i64,
        members: &[AccountKey],
    ) -> Result<Vec<(AccountKey, i64, Option<Millis>)>> {
        self.rows(sqlx::query(OPEN_EDGES).bind(list).bind(members.to_vec())).await
    }

    async fn open_members(&mut self, list: i64, after: AccountKey, limit: i64) -> Result<Vec<AccountKey>> {
        let members: Vec<(AccountKey,)> =
            self.rows(sqlx::query(OPEN_MEMBERS).bind(list).bind(after).bind(limit)).await?;
        Ok(members.into_iter().map(|(member,)| member).collect())
    }

    async fn pages_of_crawl(&mut self, crawl: i64, below: i64, limit: i64) -> Result<Vec<(i64, Vec<u8>)>> {
        self.rows(sqlx::query(crawling::PAGES_OF_CRAWL).bind(crawl).bind(below).bind(limit)).await
    }

    async fn pages_of_list(&mut self, list: i64, below: i64, limit: i64) -> Result<Vec<(i64, Vec<u8>)>> {
        self.rows(sqlx::query(crawling::PAGES_OF_LIST).bind(list).bind(below).bind(limit)).await
    }

    async fn first_page_number(&mut self, crawl: i64) -> Result<Option<i64>> {
        self.value(sqlx::query(crawling::FIRST_PAGE).bind(crawl)).await
    }

    async fn asked_at(&mut self, page: i64) -> Result<Option<Millis>> {
        self.value(sqlx::query(crawling::ASKED_AT).bind(page)).await
    }

    async fn has_cursor(&mut self, crawl: i64, cursor: &str) -> Result<bool> {
        self.value(sqlx::query(crawling::HAS_CURSOR).bind(crawl).bind(cursor.to_owned())).await
    }

    async fn withheld_before(&mut self, list: i64) -> Result<Option<i64>> {
        self.value(sqlx::query(crawling::WITHHELD_BEFORE).bind(list)).await
    }

    async fn insert_page(&mut self, page: &PageRow<'_>) -> Result<i64> {
        let insert = sqlx::query(crawling::INSERT_PAGE).bind(page.list).bind(page.crawl);
        let insert = insert.bind(page.cursor.map(str::to_owned)).bind(page.asked_at).bind(page.at);
        self.value(insert.bind(page.members.clone())).await
    }

    async fn insert_edges(&mut self, list: i64, page: i64, members: &[(AccountKey, Option<Millis>)]) -> Result<()> {
        let (keys, followed): (Vec<AccountKey>, Vec<Option<Millis>>) = members.iter().copied().unzip();
        self.execute(sqlx::query(INSERT_EDGES).bind(list).bind(page).bind(keys).bind(followed)).await
    }

    async fn date_edges(&mut self, list: i64, members: &[(AccountKey, Millis)]) -> Result<()> {
        let (keys, followed): (Vec<AccountKey>, Vec<Millis>) = members.iter().copied().unzip();
        self.execute(sqlx::query(DATE_EDGES).bind(list).bind(keys).bind(followed)).await
    }

    async fn close_edges(&mut self, list: i64, crawl: i64, members: &[(AccountKey, i64)]) -> Result<u64> {
        let (keys, pages): (Vec<AccountKey>, Vec<i64>) = members.iter().copied().unzip();
        let closed = self.value(sqlx::query(CLOSE_EDGES).bind(list).bind(crawl).bind(keys).bind(pages)).await?;
        Ok(number(closed))
    }

    async fn advance(&mut self, of: &Progress) -> Result<()> {
        let advance = sqlx::query(crawling::ADVANCE).bind(of.crawl).bind(of.cursor.clone()).bind(of.newest_at);
        let advance = advance.bind(of.known_tail).bind(of.pages).bind(of.found).bind(of.appeared).bind(of.vanished);
        let advance = advance.bind(of.withheld).bind(of.ended.map(|(word, _)| word)).bind(of.ended.map(|(_, at)| at));
        self.execute(advance.bind(of.unreadable)).await
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
    let number: Option<(i64,)> = tables.rows(list_statement(ADD_LIST, namespace, owner)).await?.pop();
    let Some((number,)) = number else { return Ok(None) };
    let (kind, stops_after) = crawling::encode_kind(new.kind);
    let begin = sqlx::query(BEGIN).bind(number).bind(kind).bind(stops_after).bind(new.at).bind(new.stated_total);
    tables.execute(begin).await?;
    Ok(tables.under_way(namespace, owner).await?.map(CrawlUnderWay::from))
}

async fn forget(tables: &mut PostgresCrawl<'_>, (network, account): (&str, &str)) -> Result<u64> {
    let [followers, friends] = edges::KINDS.map(|kind| edges::namespace(kind, network));
    let hold = sqlx::query(HOLD_CRAWLS).bind(followers).bind(friends).bind(clean(account).into_owned());
    tables.execute(hold).await?;
    tables.execute(sqlx::query(HOLD_PAGES)).await?;
    let mut forgotten: i64 = tables.value(list_statement(FORGET_MEMBER, network, account)).await?;
    for kind in edges::KINDS {
        let gone: i64 = tables.value(list_statement(FORGET_LIST, &edges::namespace(kind, network), account)).await?;
        forgotten += gone;
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
        let mut rows: Vec<CrawlRow> = self.rows(|| list_statement(UNDER_WAY, namespace, owner)).await?;
        Ok(rows.pop().map(CrawlUnderWay::from))
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
        self.rows(|| list_statement(edges::CRAWLS, namespace, owner).bind(i64::from(limit))).await
    }

    async fn crawls_under_way(&self, namespace: &str, after: i64, limit: u32) -> Result<Vec<ListCrawl>> {
        let statement = || sqlx::query(ALL_UNDER_WAY).bind(namespace.to_owned()).bind(after).bind(i64::from(limit));
        let rows: Vec<ListRow> = self.rows(statement).await?;
        Ok(rows.into_iter().map(ListCrawl::from).collect())
    }

    async fn list_totals(&self, namespace: &str, bounds: &ListBounds) -> Result<ListTotals> {
        let ListBounds { recorded_before, intervals, complete_before, page, longest } = *bounds;
        let tiers = || {
            let tiers = sqlx::query(TIERS).bind(namespace.to_owned()).bind(intervals[0]).bind(intervals[1]);
            complete_before.into_iter().fold(tiers, |tiers, before| tiers.bind(before))
        };
        let unread = || {
            let unread = sqlx::query(UNREAD).bind(namespace.to_owned()).bind(recorded_before);
            let unread = unread.bind(i64::from(page.max(1))).bind(to_i64(longest));
            unread.bind(edges::namespace(edges::PROFILES, edges::network_of(namespace)))
        };
        Ok(ListTotals { tiers: self.rows(tiers).await?, unread: self.row(unread).await? })
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
        let statement = || list_statement(MEMBERS_AT, namespace, owner).bind(at).bind(member).bind(page);
        let rows: Vec<EdgeRow> = self.rows(|| statement().bind(i64::from(limit))).await?;
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
        let sql = if change == EdgeChange::Appeared { APPEARED } else { VANISHED };
        let changes = sqlx::query(sql).bind(namespace.to_owned()).bind(from.max(at)).bind(until);
        let changes = changes.bind(at).bind(by).bind(member).bind(i64::from(limit));
        let read = async |tables: &mut PostgresCrawl<'_>| {
            tables.execute(sqlx::query(BY_INDEXES)).await?;
            tables.rows(changes).await
        };
        let rows: Vec<EdgeRow> = in_transaction!(self, |tables| read(tables))?;
        Ok(rows.into_iter().map(|row| row.into_change(change)).collect())
    }

    async fn follows_among(&self, network: &str, ids: &[String], at: Option<Millis>) -> Result<Vec<Follow>> {
        let given: Vec<String> = ids.iter().map(|id| clean(id).into_owned()).collect();
        let mut follows = Vec::new();
        for kind in edges::KINDS {
            let statement = || {
                let follows = sqlx::query(FOLLOWS).bind(edges::namespace(kind, network)).bind(given.clone());
                follows.bind(network.to_owned()).bind(at)
            };
            let found: Vec<ListEntry> = self.rows(statement).await?;
            follows.extend(found.into_iter().map(|on_list| on_list.follow(kind)));
        }
        Ok(edges::sort_and_dedup(follows))
    }

    async fn accounts_to_forget(&self, network: &str, limit: u32) -> Result<Vec<String>> {
        const FORGOTTEN: &str = forgotten!("account", "list_owner");
        let [followers, friends, profiles] =
            [edges::KINDS[0], edges::KINDS[1], edges::PROFILES].map(|kind| edges::namespace(kind, network));
        let statement = || {
            let forgotten = sqlx::query(FORGOTTEN).bind(network.to_owned()).bind(followers.clone());
            forgotten.bind(friends.clone()).bind(profiles.clone()).bind(i64::from(limit))
        };
        let rows: Vec<(String,)> = self.rows(statement).await?;
        Ok(rows.into_iter().map(|(account,)| account).collect())
    }

    async fn forget_edges(&self, network: &str, account: &str) -> Result<u64> {
        let [followers, friends] = edges::KINDS.map(|kind| edges::namespace(kind, network));
        let some = || {
            let some = sqlx::query(FORGET_SOME).bind(followers.clone()).bind(friends.clone());
            some.bind(clean(account).into_owned()).bind(edges::FORGOTTEN_AT_ONCE)
        };
        let mut forgotten = 0;
        loop {
            let gone: Vec<(i64,)> = self.rows(some).await?;
            let gone: i64 = gone.iter().map(|(edges,)| edges).sum();
            forgotten += number(gone);
            if gone < edges::FORGOTTEN_AT_ONCE {
                break;
            }
        }
        Ok(forgotten + in_transaction!(self, |tables| forget(tables, (network, account)))?)
    }
}
