use async_trait::async_trait;
use sqlx::{Sqlite, SqliteConnection};

use super::SqliteStore;
use super::forget::find_blocked;
use crate::crawling::{self, Closings, CrawlRow, CrawlStatements, ListRow, PageRow, Progress, crawl_columns, to_i64};
use crate::edges::{self, EdgeRow, ListEntry, edge_columns, existed_at, forgotten};
use crate::graph::{self, GraphFilter, Graphs, PartVisitor};
use crate::list_totals::{tier_totals, unread_total};
use crate::packed::AccountKey;
use crate::pseudonyms::KeyFile;
use crate::rows::clean;
use crate::{
    ClosingLimit, CrawlOutcome, CrawlRecord, CrawlUnderWay, Edge, EdgeChange, EdgePage, EdgePlace, Edges, End, Follow,
    ListBounds, ListCrawl, ListTotals, ListedMember, MemberAt, NewCrawl, Result, SavedEdges,
};
use engine::base::backend::sqlite::parse_rows;
use engine::base::clock::Millis;
use engine::base::failpoint;

const UNDER_WAY: &str = concat!(
    "SELECT ",
    crawl_columns!(),
    " FROM tweet JOIN list_crawl AS crawl ON crawl.list = tweet.key AND crawl.ended_at IS NULL \
     WHERE tweet.namespace = ?1 AND tweet.id = ?2"
);

/// Times of a list never go back. The start is no later than the claim. The time of a page is the upper bound for all
/// its events, and may be long after the claim.
const BEGIN: &str = "INSERT INTO list_crawl (list, kind, stops_after, started_at, newest_at, stated_total, appeared_after) \
     SELECT of.key, ?3, ?4, started, newest, ?6, \
     (SELECT MAX(started_at) FROM list_crawl AS other WHERE other.list = of.key AND other.ended = 'complete') \
     FROM (SELECT tweet.key, MAX(?5, COALESCE((SELECT MAX(started_at) FROM list_crawl WHERE list = tweet.key), ?5)) AS started, \
     MAX(?5, COALESCE((SELECT MAX(newest_at) FROM list_crawl WHERE list = tweet.key), ?5)) AS newest \
     FROM tweet WHERE namespace = ?1 AND id = ?2) AS of WHERE TRUE ON CONFLICT DO NOTHING";

const ALL_UNDER_WAY: &str = concat!(
    "SELECT ",
    crawl_columns!(),
    ", tweet.id AS owner FROM list_crawl AS crawl JOIN tweet ON tweet.key = crawl.list \
     WHERE tweet.namespace = ?1 AND crawl.ended_at IS NULL AND crawl.key > ?2 ORDER BY crawl.key LIMIT ?3"
);

const TIERS: &str = tier_totals!(
    "tweet AS of LEFT JOIN list_crawl AS whole ON whole.key = (SELECT key FROM list_crawl \
     WHERE list = of.key AND ended = 'complete' ORDER BY key DESC LIMIT 1)"
);

const UNREAD: &str = unread_total!(
    "tweet AS of LEFT JOIN list_crawl AS crawl ON crawl.list = of.key AND crawl.ended_at IS NULL \
     LEFT JOIN tweet AS profile ON profile.namespace = $5 AND profile.id = of.id \
     LEFT JOIN account_row AS account ON account.tweet = profile.key"
);

const KNOWN_ACCOUNTS: &str = "SELECT json_group_array(json_array(id, key)) FROM list_account \
     WHERE network = (SELECT key FROM list_network WHERE name = ?1) AND id IN (SELECT value FROM json_each(?2))";

const ADD_ACCOUNTS: &str = "INSERT INTO list_account (network, id) \
     SELECT (SELECT key FROM list_network WHERE name = ?1), value FROM json_each(?2) WHERE TRUE ON CONFLICT DO NOTHING";

// `CROSS JOIN` makes SQLite start with the given members.
const OPEN_EDGES: &str = "SELECT json_group_array(json_array(member, first_page, followed_at)) FROM json_each(?2) \
     CROSS JOIN list_edge ON list = ?1 AND member = value WHERE closed_by IS NULL";

/// By the index of forgotten accounts: the view of accounts would start with all profiles.
const FORGOTTEN: &str = forgotten!("account_row CROSS JOIN tweet ON tweet.key = account_row.tweet", "tweet");

const OPEN_MEMBERS: &str = "SELECT json_group_array(member) FROM (SELECT member FROM list_edge \
     WHERE list = ?1 AND member > ?2 AND closed_by IS NULL ORDER BY member LIMIT ?3)";

const INSERT_EDGES: &str = "INSERT INTO list_edge (list, member, first_page, followed_at) \
     SELECT ?1, value ->> 0, ?2, value ->> 1 FROM json_each(?3)";

/// An upsert, as in [`CLOSE_EDGES`].
const DATE_EDGES: &str = "INSERT INTO list_edge (list, member, first_page, followed_at) \
     SELECT of.list, of.member, of.first_page, value ->> 1 FROM json_each(?2) \
     CROSS JOIN list_edge AS of ON of.list = ?1 AND of.member = value ->> 0 \
     CROSS JOIN list_page AS first ON first.key = of.first_page CROSS JOIN list_crawl AS since ON since.key = first.crawl \
     WHERE of.closed_by IS NULL AND of.followed_at IS NULL AND first.at >= value ->> 1 \
     AND (since.appeared_after IS NULL OR since.appeared_after < value ->> 1) \
     ON CONFLICT (list, member, first_page) DO UPDATE SET followed_at = excluded.followed_at";

/// An upsert, which always starts with the given members; for an UPDATE the planner may choose another order.
const CLOSE_EDGES: &str = "INSERT INTO list_edge (list, member, first_page, last_page, closed_by) \
     SELECT of.list, of.member, of.first_page, value ->> 1, ?2 FROM json_each(?3) \
     CROSS JOIN list_edge AS of ON of.list = ?1 AND of.member = value ->> 0 WHERE of.closed_by IS NULL \
     ON CONFLICT (list, member, first_page) DO UPDATE SET last_page = excluded.last_page, closed_by = excluded.closed_by";

const MEMBERS_AT: &str = concat!(
    "SELECT ",
    edge_columns!("tweet.id"),
    " FROM edge_row AS edge JOIN tweet ON tweet.key = edge.tweet \
     WHERE edge.tweet = (SELECT key FROM tweet WHERE namespace = ?1 AND id = ?2) AND ",
    existed_at!("?3"),
    " AND (member_key, first_page) > (?4, ?5) ORDER BY member_key, first_page LIMIT ?6"
);

const APPEARED: &str = concat!(
    "SELECT ",
    edge_columns!("tweet.id"),
    " FROM list_page AS shown CROSS JOIN edge_row AS edge ON edge.first_page = shown.key \
     JOIN tweet ON tweet.key = edge.tweet \
     WHERE namespace = ?1 AND shown.at >= ?2 AND shown.at < ?3 AND (shown.at, edge.first_page, member_key) > (?4, ?5, ?6) \
     ORDER BY shown.at, edge.first_page, member_key LIMIT ?7"
);

const VANISHED: &str = concat!(
    "SELECT ",
    edge_columns!("tweet.id"),
    " FROM list_crawl AS gone CROSS JOIN edge_row AS edge ON edge.closed_by = gone.key \
     JOIN tweet ON tweet.key = edge.tweet \
     WHERE namespace = ?1 AND gone.ended_at >= ?2 AND gone.ended_at < ?3 \
     AND (gone.ended_at, edge.closed_by, member_key) > (?4, ?5, ?6) \
     ORDER BY gone.ended_at, edge.closed_by, member_key LIMIT ?7"
);

/// By each account's own edges: no more than the lists that were read, regardless of their length.
const FOLLOWS: &str = concat!(
    "SELECT DISTINCT account.id AS member, tweet.id AS owner FROM json_each(?2) AS given \
     CROSS JOIN list_account AS account \
     ON account.network = (SELECT key FROM list_network WHERE name = ?3) AND account.id = given.value \
     CROSS JOIN list_edge AS of ON of.member = account.key CROSS JOIN tweet ON tweet.key = of.list \
     WHERE tweet.namespace = ?1 AND tweet.id IN (SELECT value FROM json_each(?2)) \
     AND (CASE WHEN ?4 IS NULL THEN of.closed_by IS NULL ELSE EXISTS (SELECT 1 FROM edge_row AS edge \
     WHERE edge.tweet = of.list AND edge.member_key = of.member AND edge.first_page = of.first_page AND ",
    existed_at!("?4"),
    ") END)"
);

struct SqliteCrawl<'c>(&'c mut SqliteConnection, &'c KeyFile);

impl SqliteCrawl<'_> {
    async fn pages(&mut self, sql: &'static str, of: i64, below: i64, limit: i64) -> Result<Vec<(i64, Vec<u8>)>> {
        Ok(sqlx::query_as(sql).bind(of).bind(below).bind(limit).fetch_all(&mut *self.0).await?)
    }
}

fn json(values: impl IntoIterator<Item = impl Into<serde_json::Value>>) -> String {
    serde_json::Value::from_iter(values).to_string()
}

#[async_trait]
impl CrawlStatements for SqliteCrawl<'_> {
    async fn under_way(&mut self, namespace: &str, owner: &str) -> Result<Option<CrawlRow>> {
        Ok(sqlx::query_as(UNDER_WAY).bind(namespace).bind(clean(owner)).fetch_optional(&mut *self.0).await?)
    }

    async fn known_accounts(&mut self, network: &str, ids: &[&str]) -> Result<Vec<(String, AccountKey)>> {
        let known = sqlx::query_scalar(KNOWN_ACCOUNTS).bind(network).bind(json(ids.iter().copied()));
        let known: String = known.fetch_one(&mut *self.0).await?;
        Ok(parse_rows(&known)?)
    }

    async fn add_accounts(&mut self, network: &str, ids: &[&str]) -> Result<Vec<(String, AccountKey)>> {
        const ADD_NETWORK: &str = "INSERT INTO list_network (name) VALUES (?1) ON CONFLICT DO NOTHING";
        sqlx::query(ADD_NETWORK).bind(network).execute(&mut *self.0).await?;
        let away =
            find_blocked(self.0, self.1, &edges::namespace(edges::KINDS[0], network), ids.iter().copied()).await?;
        let kept = json(ids.iter().copied().filter(|id| !away.contains(*id)));
        sqlx::query(ADD_ACCOUNTS).bind(network).bind(kept).execute(&mut *self.0).await?;
        self.known_accounts(network, ids).await
    }

    async fn open_edges(
        &mut self,
        list: i64,
        members: &[AccountKey],
    ) -> Result<Vec<(AccountKey, i64, Option<Millis>)>> {
        let open = sqlx::query_scalar(OPEN_EDGES).bind(list).bind(json(members.iter().copied()));
        let open: String = open.fetch_one(&mut *self.0).await?;
        Ok(parse_rows(&open)?)
    }

    async fn open_members(&mut self, list: i64, after: AccountKey, limit: i64) -> Result<Vec<AccountKey>> {
        let members = sqlx::query_scalar(OPEN_MEMBERS).bind(list).bind(after).bind(limit);
        let members: String = members.fetch_one(&mut *self.0).await?;
        Ok(parse_rows(&members)?)
    }

    async fn pages_of_crawl(&mut self, crawl: i64, below: i64, limit: i64) -> Result<Vec<(i64, Vec<u8>)>> {
        self.pages(crawling::PAGES_OF_CRAWL, crawl, below, limit).await
    }

    async fn pages_of_list(&mut self, list: i64, below: i64, limit: i64) -> Result<Vec<(i64, Vec<u8>)>> {
        self.pages(crawling::PAGES_OF_LIST, list, below, limit).await
    }

    async fn first_page_number(&mut self, crawl: i64) -> Result<Option<i64>> {
        Ok(sqlx::query_scalar(crawling::FIRST_PAGE).bind(crawl).fetch_one(&mut *self.0).await?)
    }

    async fn asked_at(&mut self, page: i64) -> Result<Option<Millis>> {
        Ok(sqlx::query_scalar(crawling::ASKED_AT).bind(page).fetch_one(&mut *self.0).await?)
    }

    async fn has_cursor(&mut self, crawl: i64, cursor: &str) -> Result<bool> {
        Ok(sqlx::query_scalar(crawling::HAS_CURSOR).bind(crawl).bind(cursor).fetch_one(&mut *self.0).await?)
    }

    async fn withheld_before(&mut self, list: i64) -> Result<Option<i64>> {
        Ok(sqlx::query_scalar(crawling::WITHHELD_BEFORE).bind(list).fetch_one(&mut *self.0).await?)
    }

    async fn insert_page(&mut self, page: &PageRow<'_>) -> Result<i64> {
        let insert = sqlx::query_scalar(crawling::INSERT_PAGE).bind(page.list).bind(page.crawl).bind(page.cursor);
        let insert = insert.bind(page.asked_at).bind(page.at).bind(&page.members);
        Ok(insert.fetch_one(&mut *self.0).await?)
    }

    async fn insert_edges(&mut self, list: i64, page: i64, members: &[(AccountKey, Option<Millis>)]) -> Result<()> {
        let members = json(members.iter().map(|(key, followed_at)| serde_json::json!([key, followed_at])));
        sqlx::query(INSERT_EDGES).bind(list).bind(page).bind(members).execute(&mut *self.0).await?;
        Ok(())
    }

    async fn date_edges(&mut self, list: i64, members: &[(AccountKey, Millis)]) -> Result<()> {
        let members = json(members.iter().map(|(key, followed_at)| serde_json::json!([key, followed_at])));
        sqlx::query(DATE_EDGES).bind(list).bind(members).execute(&mut *self.0).await?;
        Ok(())
    }

    async fn close_edges(&mut self, list: i64, crawl: i64, members: &[(AccountKey, i64)]) -> Result<u64> {
        let members = json(members.iter().map(|(key, page)| serde_json::json!([key, page])));
        let close = sqlx::query(CLOSE_EDGES).bind(list).bind(crawl).bind(members);
        Ok(close.execute(&mut *self.0).await?.rows_affected())
    }

    async fn advance(&mut self, of: &Progress) -> Result<()> {
        let advance = sqlx::query(crawling::ADVANCE).bind(of.crawl).bind(of.cursor.as_deref()).bind(of.newest_at);
        let advance = advance.bind(of.known_tail).bind(of.pages).bind(of.found).bind(of.appeared).bind(of.vanished);
        let advance = advance.bind(of.withheld).bind(of.ended.map(|(word, _)| word)).bind(of.ended.map(|(_, at)| at));
        advance.bind(of.unreadable).execute(&mut *self.0).await?;
        Ok(())
    }
}

impl SqliteStore {
    /// Removes edges of an account's own lists, many at a time, until few are left.
    async fn forget_most(&self, network: &str, account: &str) -> Result<u64> {
        const SOME: &str = "DELETE FROM list_edge WHERE (list, member, first_page) IN (\
             SELECT of.list, of.member, of.first_page FROM tweet CROSS JOIN list_edge AS of ON of.list = tweet.key \
             WHERE tweet.namespace IN (?1, ?2) AND tweet.id = ?3 LIMIT ?4)";
        let [followers, friends] = edges::KINDS.map(|kind| edges::namespace(kind, network));
        let mut forgotten = 0;
        loop {
            let mut transaction = self.begin().await?;
            let some = sqlx::query(SOME).bind(&followers).bind(&friends).bind(account).bind(edges::FORGOTTEN_AT_ONCE);
            let gone = some.execute(&mut *transaction).await?.rows_affected();
            transaction.commit().await?;
            forgotten += gone;
            if gone < edges::FORGOTTEN_AT_ONCE as u64 {
                return Ok(forgotten);
            }
        }
    }

    /// Closings at the end of a crawl, if there are any, read outside the writer.
    async fn find_closings(
        &self,
        list: (&str, &str),
        waits_for: (i64, Option<&str>),
        members: &[ListedMember],
        guard: Option<ClosingLimit>,
    ) -> Result<Option<Closings>> {
        let Some(guard) = guard else { return Ok(Some(Closings::default())) };
        let mut reader = self.readers().acquire().await?;
        crawling::find_closings(&mut SqliteCrawl(&mut reader, &self.keys), list, waits_for, members, guard).await
    }
}

#[async_trait]
impl Graphs for SqliteStore {
    async fn graph(&self, wanted: &GraphFilter, visit: PartVisitor<'_>) -> Result<()> {
        // The transaction reads the state of its first statement.
        let mut transaction = self.readers().begin().await?;
        graph::read::<Sqlite>(&mut transaction, wanted, visit).await
    }
}

#[async_trait]
impl Edges for SqliteStore {
    async fn begin_crawl(&self, namespace: &str, owner: &str, new: &NewCrawl) -> Result<Option<CrawlUnderWay>> {
        let (kind, stops_after) = crawling::encode_kind(new.kind);
        let mut transaction = self.begin().await?;
        let begin = sqlx::query(BEGIN).bind(namespace).bind(clean(owner)).bind(kind).bind(stops_after);
        begin.bind(new.at).bind(new.stated_total).execute(&mut *transaction).await?;
        let crawl = SqliteCrawl(&mut transaction, &self.keys).under_way(namespace, owner).await?;
        transaction.commit().await?;
        Ok(crawl.map(CrawlUnderWay::from))
    }

    async fn crawl(&self, namespace: &str, owner: &str) -> Result<Option<CrawlUnderWay>> {
        let row: Option<CrawlRow> =
            sqlx::query_as(UNDER_WAY).bind(namespace).bind(clean(owner)).fetch_optional(self.readers()).await?;
        Ok(row.map(CrawlUnderWay::from))
    }

    async fn save_edges(&self, namespace: &str, owner: &str, page: &EdgePage) -> Result<Option<SavedEdges>> {
        let list = (namespace, owner);
        let waits_for = (page.crawl, page.cursor.as_deref());
        let closings = self.find_closings(list, waits_for, &page.members, page.next.guard()).await?;
        let Some(closings) = closings else { return Ok(None) };
        let mut transaction = self.begin().await?;
        let saved = crawling::save_page(&mut SqliteCrawl(&mut transaction, &self.keys), list, page, &closings).await?;
        failpoint::point("before_commit");
        transaction.commit().await?;
        Ok(saved)
    }

    async fn end_crawl(
        &self,
        namespace: &str,
        owner: &str,
        waits_for: (i64, Option<&str>),
        at: Millis,
        end: End,
    ) -> Result<Option<CrawlOutcome>> {
        let list = (namespace, owner);
        let Some(closings) = self.find_closings(list, waits_for, &[], end.guard()).await? else { return Ok(None) };
        let mut transaction = self.begin().await?;
        let tables = &mut SqliteCrawl(&mut transaction, &self.keys);
        let ended = crawling::end_crawl(tables, list, waits_for, at, end, &closings).await?;
        transaction.commit().await?;
        Ok(ended)
    }

    async fn crawls(&self, namespace: &str, owner: &str, limit: u32) -> Result<Vec<CrawlRecord>> {
        let crawls = sqlx::query_as(edges::CRAWLS).bind(namespace).bind(clean(owner)).bind(i64::from(limit));
        Ok(crawls.fetch_all(self.readers()).await?)
    }

    async fn crawls_under_way(&self, namespace: &str, after: i64, limit: u32) -> Result<Vec<ListCrawl>> {
        let crawls = sqlx::query_as(ALL_UNDER_WAY).bind(namespace).bind(after).bind(i64::from(limit));
        let crawls: Vec<ListRow> = crawls.fetch_all(self.readers()).await?;
        Ok(crawls.into_iter().map(ListCrawl::from).collect())
    }

    async fn list_totals(&self, namespace: &str, bounds: &ListBounds) -> Result<ListTotals> {
        let ListBounds { recorded_before, intervals, complete_before, page, longest } = *bounds;
        let tiers = sqlx::query_as(TIERS).bind(namespace).bind(intervals[0]).bind(intervals[1]);
        let tiers = complete_before.into_iter().fold(tiers, |tiers, before| tiers.bind(before));
        let unread = sqlx::query_as(UNREAD).bind(namespace).bind(recorded_before).bind(i64::from(page.max(1)));
        let unread = unread.bind(to_i64(longest)).bind(edges::namespace(edges::PROFILES, edges::network_of(namespace)));
        let (tiers, unread) = (tiers.fetch_all(self.readers()).await?, unread.fetch_one(self.readers()).await?);
        Ok(ListTotals { tiers, unread })
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
        let members = sqlx::query_as(MEMBERS_AT).bind(namespace).bind(clean(owner)).bind(at).bind(member).bind(page);
        let members: Vec<EdgeRow> = members.bind(i64::from(limit)).fetch_all(self.readers()).await?;
        Ok(members.into_iter().map(|row| row.into_member(at)).collect())
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
        let statement = if change == EdgeChange::Appeared { APPEARED } else { VANISHED };
        let changes = sqlx::query_as(statement).bind(namespace).bind(from.max(at)).bind(until).bind(at).bind(by);
        let changes: Vec<EdgeRow> = changes.bind(member).bind(i64::from(limit)).fetch_all(self.readers()).await?;
        Ok(changes.into_iter().map(|row| row.into_change(change)).collect())
    }

    async fn follows_among(&self, network: &str, ids: &[String], at: Option<Millis>) -> Result<Vec<Follow>> {
        let given = json(ids.iter().map(|id| clean(id)));
        let mut follows = Vec::new();
        for kind in edges::KINDS {
            let found = sqlx::query_as(FOLLOWS).bind(edges::namespace(kind, network)).bind(&given).bind(network);
            let found: Vec<ListEntry> = found.bind(at).fetch_all(self.readers()).await?;
            follows.extend(found.into_iter().map(|on_list| on_list.follow(kind)));
        }
        Ok(edges::sort_and_dedup(follows))
    }

    async fn accounts_to_forget(&self, network: &str, limit: u32) -> Result<Vec<String>> {
        let [followers, friends, profiles] =
            [edges::KINDS[0], edges::KINDS[1], edges::PROFILES].map(|kind| edges::namespace(kind, network));
        let forgotten = sqlx::query_scalar(FORGOTTEN).bind(network).bind(followers).bind(friends).bind(profiles);
        Ok(forgotten.bind(i64::from(limit)).fetch_all(self.readers()).await?)
    }

    async fn forget_edges(&self, network: &str, account: &str) -> Result<u64> {
        let account = clean(account);
        let mut forgotten = self.forget_most(network, &account).await?;
        let mut transaction = self.begin().await?;
        let known = SqliteCrawl(&mut transaction, &self.keys).known_accounts(network, &[&account]).await?;
        for (_, key) in known {
            let edges = "DELETE FROM list_edge WHERE member = ?1";
            forgotten += sqlx::query(edges).bind(key).execute(&mut *transaction).await?.rows_affected();
            let account = "DELETE FROM list_account WHERE key = ?1";
            sqlx::query(account).bind(key).execute(&mut *transaction).await?;
        }
        for kind in edges::KINDS {
            let list = "SELECT key FROM tweet WHERE namespace = ?1 AND id = ?2";
            let list = sqlx::query_scalar(list).bind(edges::namespace(kind, network)).bind(&account);
            let list: Option<i64> = list.fetch_optional(&mut *transaction).await?;
            for (delete, counts) in [
                ("DELETE FROM list_edge WHERE list = ?1", true),
                ("DELETE FROM list_page WHERE list = ?1", false),
                ("DELETE FROM list_crawl WHERE list = ?1", false),
            ] {
                let gone = sqlx::query(delete).bind(list).execute(&mut *transaction).await?.rows_affected();
                forgotten += if counts { gone } else { 0 };
            }
        }
        transaction.commit().await?;
        Ok(forgotten)
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection};

    use super::super::MIGRATIONS;
    use super::*;

    async fn plan(statement: &str) -> Vec<String> {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        MIGRATIONS.run_direct(None, &mut connection, false).await.unwrap();
        let plan = sqlx::query_as(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")));
        let plan: Vec<(i64, i64, i64, String)> = plan.fetch_all(&mut connection).await.unwrap();
        plan.into_iter().map(|(.., step)| step).collect()
    }

    #[tokio::test]
    async fn the_forgotten_are_found_by_their_index() {
        let plan = plan(FORGOTTEN).await;
        assert!(plan.iter().any(|step| step.contains("INDEX account_forgotten")), "{plan:?}");
    }

    #[tokio::test]
    async fn lists_are_counted_by_indexes() {
        for (statement, index) in [(TIERS, "list_crawl_by_list"), (UNREAD, "list_crawl_under_way")] {
            let plan = plan(statement).await;
            assert!(plan.iter().any(|step| step.contains(&format!("INDEX {index}"))), "{plan:?}");
            let is_of_table = |step: &&String| !step.contains("subquery") && !step.contains("placed");
            assert_eq!(plan.iter().filter(is_of_table).find(|step| step.starts_with("SCAN")), None, "{plan:?}");
        }
    }
}
