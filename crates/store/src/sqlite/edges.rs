use async_trait::async_trait;
use sqlx::{Sqlite, SqliteConnection};

use super::forget::find_blocked;
use super::{SqliteStore, read, read_column, read_first, read_first_value, read_one, read_value, write};
use crate::crawling::{self, Closings, CrawlRow, CrawlStatements, ListRow, PageRow, Progress, to_i64};
use crate::edges::{self, EdgeRow, ListEntry};
use crate::graph::{self, GraphFilter, Graphs, PartVisitor};
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

struct SqliteCrawl<'c>(&'c mut SqliteConnection, &'c KeyFile);

impl SqliteCrawl<'_> {
    async fn pages(&mut self, sql: &'static str, of: i64, below: i64, limit: i64) -> Result<Vec<(i64, Vec<u8>)>> {
        read(&mut *self.0, statement!(sql, of, below, limit)).await
    }
}

fn json(values: impl IntoIterator<Item = impl Into<serde_json::Value>>) -> String {
    serde_json::Value::from_iter(values).to_string()
}

#[async_trait]
impl CrawlStatements for SqliteCrawl<'_> {
    async fn under_way(&mut self, namespace: &str, owner: &str) -> Result<Option<CrawlRow>> {
        read_first(&mut *self.0, statement!("edges/under_way.lite", namespace, clean(owner))).await
    }

    async fn known_accounts(&mut self, network: &str, ids: &[&str]) -> Result<Vec<(String, AccountKey)>> {
        let known: String =
            read_value(&mut *self.0, statement!("edges/known_accounts.lite", network, json(ids.iter().copied())))
                .await?;
        Ok(parse_rows(&known)?)
    }

    async fn add_accounts(&mut self, network: &str, ids: &[&str]) -> Result<Vec<(String, AccountKey)>> {
        write(&mut *self.0, statement!("edges/add_network.lite", network)).await?;
        let away =
            find_blocked(self.0, self.1, &edges::namespace(edges::KINDS[0], network), ids.iter().copied()).await?;
        let kept = json(ids.iter().copied().filter(|id| !away.contains(*id)));
        write(&mut *self.0, statement!("edges/add_accounts.lite", network, kept)).await?;
        self.known_accounts(network, ids).await
    }

    async fn open_edges(
        &mut self,
        list: i64,
        members: &[AccountKey],
    ) -> Result<Vec<(AccountKey, i64, Option<Millis>)>> {
        let open: String =
            read_value(&mut *self.0, statement!("edges/open_edges.lite", list, json(members.iter().copied()))).await?;
        Ok(parse_rows(&open)?)
    }

    async fn open_members(&mut self, list: i64, after: AccountKey, limit: i64) -> Result<Vec<AccountKey>> {
        let members: String =
            read_value(&mut *self.0, statement!("edges/open_members.lite", list, after, limit)).await?;
        Ok(parse_rows(&members)?)
    }

    async fn pages_of_crawl(&mut self, crawl: i64, below: i64, limit: i64) -> Result<Vec<(i64, Vec<u8>)>> {
        self.pages(sql!("edges/pages_of_crawl"), crawl, below, limit).await
    }

    async fn pages_of_list(&mut self, list: i64, below: i64, limit: i64) -> Result<Vec<(i64, Vec<u8>)>> {
        self.pages(sql!("edges/pages_of_list"), list, below, limit).await
    }

    async fn first_page_number(&mut self, crawl: i64) -> Result<Option<i64>> {
        read_value(&mut *self.0, statement!("edges/first_page", crawl)).await
    }

    async fn asked_at(&mut self, page: i64) -> Result<Option<Millis>> {
        read_value(&mut *self.0, statement!("edges/asked_at", page)).await
    }

    async fn has_cursor(&mut self, crawl: i64, cursor: &str) -> Result<bool> {
        read_value(&mut *self.0, statement!("edges/has_cursor", crawl, cursor)).await
    }

    async fn withheld_before(&mut self, list: i64) -> Result<Option<i64>> {
        read_value(&mut *self.0, statement!("edges/withheld_before", list)).await
    }

    async fn insert_page(&mut self, page: &PageRow<'_>) -> Result<i64> {
        let statement =
            statement!("edges/insert_page", page.list, page.crawl, page.cursor, page.asked_at, page.at, &page.members);
        read_value(&mut *self.0, statement).await
    }

    async fn insert_edges(&mut self, list: i64, page: i64, members: &[(AccountKey, Option<Millis>)]) -> Result<()> {
        let members = json(members.iter().map(|(key, followed_at)| serde_json::json!([key, followed_at])));
        write(&mut *self.0, statement!("edges/insert_edges.lite", list, page, members)).await?;
        Ok(())
    }

    async fn date_edges(&mut self, list: i64, members: &[(AccountKey, Millis)]) -> Result<()> {
        let members = json(members.iter().map(|(key, followed_at)| serde_json::json!([key, followed_at])));
        write(&mut *self.0, statement!("edges/date_edges.lite", list, members)).await?;
        Ok(())
    }

    async fn close_edges(&mut self, list: i64, crawl: i64, members: &[(AccountKey, i64)]) -> Result<u64> {
        let members = json(members.iter().map(|(key, page)| serde_json::json!([key, page])));
        write(&mut *self.0, statement!("edges/close_edges.lite", list, crawl, members)).await
    }

    async fn advance(&mut self, of: &Progress) -> Result<()> {
        let advance =
            statement!("edges/advance", of.crawl, &of.cursor, of.newest_at, of.known_tail, of.pages, of.found);
        let advance = advance.bind(of.appeared).bind(of.vanished).bind(of.withheld);
        let advance = advance.bind(of.ended.map(|(word, _)| word)).bind(of.ended.map(|(_, at)| at));
        write(&mut *self.0, advance.bind(of.unreadable)).await.map(drop)
    }
}

impl SqliteStore {
    /// Removes edges of an account's own lists, many at a time, until few are left.
    async fn forget_most(&self, network: &str, account: &str) -> Result<u64> {
        let [followers, friends] = edges::KINDS.map(|kind| edges::namespace(kind, network));
        let mut forgotten = 0;
        loop {
            let mut tx = self.begin().await?;
            let statement =
                statement!("edges/remove_edge_portion.lite", &followers, &friends, account, edges::FORGOTTEN_AT_ONCE);
            let gone = write(&mut *tx, statement).await?;
            tx.commit().await?;
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
        let mut tx = self.readers().begin().await?;
        graph::read::<Sqlite>(&mut tx, wanted, visit).await
    }
}

#[async_trait]
impl Edges for SqliteStore {
    async fn begin_crawl(&self, namespace: &str, owner: &str, new: &NewCrawl) -> Result<Option<CrawlUnderWay>> {
        let (kind, stops_after) = crawling::encode_kind(new.kind);
        let mut tx = self.begin().await?;
        let statement =
            statement!("edges/begin.lite", namespace, clean(owner), kind, stops_after, new.at, new.stated_total);
        write(&mut *tx, statement).await?;
        let crawl = SqliteCrawl(&mut tx, &self.keys).under_way(namespace, owner).await?;
        tx.commit().await?;
        Ok(crawl.map(CrawlUnderWay::from))
    }

    async fn crawl(&self, namespace: &str, owner: &str) -> Result<Option<CrawlUnderWay>> {
        let row: Option<CrawlRow> =
            read_first(self.readers(), statement!("edges/under_way.lite", namespace, clean(owner))).await?;
        Ok(row.map(CrawlUnderWay::from))
    }

    async fn save_edges(&self, namespace: &str, owner: &str, page: &EdgePage) -> Result<Option<SavedEdges>> {
        let list = (namespace, owner);
        let waits_for = (page.crawl, page.cursor.as_deref());
        let closings = self.find_closings(list, waits_for, &page.members, page.next.guard()).await?;
        let Some(closings) = closings else { return Ok(None) };
        let mut tx = self.begin().await?;
        let saved = crawling::save_page(&mut SqliteCrawl(&mut tx, &self.keys), list, page, &closings).await?;
        failpoint::point("before_commit");
        tx.commit().await?;
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
        let mut tx = self.begin().await?;
        let tables = &mut SqliteCrawl(&mut tx, &self.keys);
        let ended = crawling::end_crawl(tables, list, waits_for, at, end, &closings).await?;
        tx.commit().await?;
        Ok(ended)
    }

    async fn crawls(&self, namespace: &str, owner: &str, limit: u32) -> Result<Vec<CrawlRecord>> {
        read(self.readers(), statement!("edges/crawls", namespace, clean(owner), i64::from(limit))).await
    }

    async fn crawls_under_way(&self, namespace: &str, after: i64, limit: u32) -> Result<Vec<ListCrawl>> {
        let crawls: Vec<ListRow> =
            read(self.readers(), statement!("edges/all_under_way.lite", namespace, after, i64::from(limit))).await?;
        Ok(crawls.into_iter().map(ListCrawl::from).collect())
    }

    async fn list_totals(&self, namespace: &str, bounds: &ListBounds) -> Result<ListTotals> {
        let ListBounds { recorded_before, intervals, complete_before, page, longest } = *bounds;
        let tiers = statement!("edges/tier_totals.lite", namespace, intervals[0], intervals[1]);
        let tiers = complete_before.into_iter().fold(tiers, |tiers, before| tiers.bind(before));
        let (page, profiles) =
            (i64::from(page.max(1)), edges::namespace(edges::PROFILES, edges::network_of(namespace)));
        let unread =
            statement!("edges/unread_totals.lite", namespace, recorded_before, page, to_i64(longest), profiles);
        Ok(ListTotals { tiers: read(self.readers(), tiers).await?, unread: read_one(self.readers(), unread).await? })
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
        let statement =
            statement!("edges/members_at.lite", namespace, clean(owner), at, member, page, i64::from(limit));
        let members: Vec<EdgeRow> = read(self.readers(), statement).await?;
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
        let statement =
            if change == EdgeChange::Appeared { sql!("edges/appeared.lite") } else { sql!("edges/vanished.lite") };
        let statement = statement!(statement, namespace, from.max(at), until, at, by, member, i64::from(limit));
        let changes: Vec<EdgeRow> = read(self.readers(), statement).await?;
        Ok(changes.into_iter().map(|row| row.into_change(change)).collect())
    }

    async fn follows_among(&self, network: &str, ids: &[String], at: Option<Millis>) -> Result<Vec<Follow>> {
        let given = json(ids.iter().map(|id| clean(id)));
        let mut follows = Vec::new();
        for kind in edges::KINDS {
            let statement = statement!("edges/follows.lite", edges::namespace(kind, network), &given, network, at);
            let found: Vec<ListEntry> = read(self.readers(), statement).await?;
            follows.extend(found.into_iter().map(|on_list| on_list.follow(kind)));
        }
        Ok(edges::sort_and_dedup(follows))
    }

    async fn accounts_to_forget(&self, network: &str, limit: u32) -> Result<Vec<String>> {
        let [followers, friends, profiles] =
            [edges::KINDS[0], edges::KINDS[1], edges::PROFILES].map(|kind| edges::namespace(kind, network));
        let statement =
            statement!("edges/accounts_to_forget.lite", network, followers, friends, profiles, i64::from(limit));
        read_column(self.readers(), statement).await
    }

    async fn forget_edges(&self, network: &str, account: &str) -> Result<u64> {
        let account = clean(account);
        let mut forgotten = self.forget_most(network, &account).await?;
        let mut tx = self.begin().await?;
        let known = SqliteCrawl(&mut tx, &self.keys).known_accounts(network, &[&account]).await?;
        for (_, key) in known {
            forgotten += write(&mut *tx, statement!("edges/forget_member_edges.lite", key)).await?;
            write(&mut *tx, statement!("edges/forget_account.lite", key)).await?;
        }
        for kind in edges::KINDS {
            let list = statement!("edges/list_key.lite", edges::namespace(kind, network), &account);
            let list: Option<i64> = read_first_value(&mut *tx, list).await?;
            forgotten += write(&mut *tx, statement!("edges/forget_list_edges.lite", list)).await?;
            write(&mut *tx, statement!("edges/forget_list_pages.lite", list)).await?;
            write(&mut *tx, statement!("edges/forget_list_crawls.lite", list)).await?;
        }
        tx.commit().await?;
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
        let plan = plan(sql!("edges/accounts_to_forget.lite")).await;
        assert!(plan.iter().any(|step| step.contains("INDEX account_forgotten")), "{plan:?}");
    }

    #[tokio::test]
    async fn lists_are_counted_by_indexes() {
        for (statement, index) in [
            (sql!("edges/tier_totals.lite"), "list_crawl_by_list"),
            (sql!("edges/unread_totals.lite"), "list_crawl_under_way"),
        ] {
            let plan = plan(statement).await;
            assert!(plan.iter().any(|step| step.contains(&format!("INDEX {index}"))), "{plan:?}");
            let is_of_table = |step: &&String| !step.contains("subquery") && !step.contains("placed");
            assert_eq!(plan.iter().filter(is_of_table).find(|step| step.starts_with("SCAN")), None, "{plan:?}");
        }
    }
}
