use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, Connection, Row as _};

use super::{PostgresStore, Statement, timeout_error};
use crate::forget::{
    ACCOUNT_TABLES, Forgetting, ITEM_TABLES, ItemSet, LIST_TABLES, RemovedRows, author_namespaces, communities_prefix,
    is_media, media_namespace, select_dropped_posts, select_network_namespaces,
};
use crate::pseudonyms::PseudonymKey;
use crate::rows::{self, Row, clean, number};
use crate::{Expiry, PersonSource, Result, StoreError, UnwantedPost};
use engine::base::clock::Millis;
use engine::base::failpoint;

/// A dump locks the table to its end. All readers would wait behind a call that waits for the dump.
const NOT_FOR_LONG: &str = "SET LOCAL lock_timeout = '5s'";

/// Condition of expired rows, as in `posts/expired.lite.sql`; `$3` is their time.
const EXPIRED: &str = "state = 'ended' AND CASE WHEN $3 IS NULL THEN misses > 0 AND lookups > misses AND raw IS NULL \
     ELSE COALESCE(checked_at, first_seen) < $3 END AND NOT EXISTS (SELECT 1 FROM media \
     WHERE media.namespace = tweet.namespace AND media.id = tweet.id AND media.state = 'stored')";

/// Removes items with their rows in all tables, in one statement, and returns the counts per table. With `expired`,
/// removes only the expired ones. Without it, also removes rows of items without a row of their own. It locks items
/// before any removal, in the order of their ids, as all statements do.
fn removal_sql(expired: Option<&str>) -> String {
    let these = if expired.is_some() { "IN (SELECT id FROM items)" } else { "= ANY($2)" };
    // The same parameters in both cases.
    let condition = expired.unwrap_or("$3::bigint IS NULL");
    let of_item = ITEM_TABLES.iter().map(|table| (*table, format!("of.namespace = $1 AND of.id {these}")));
    let of_list = LIST_TABLES.iter().map(|table| (*table, "of.list IN (SELECT key FROM lists)".to_owned()));
    let appeared = format!("of.post COLLATE \"C\" {these} AND starts_with(of.namespace, $6)");
    let others = [
        // Rows of authors and media, which are other items: a statement may not delete a row twice.
        (
            "account_post",
            format!(
                "of.namespace = ANY($5) AND (of.id, of.post) IN (SELECT post.author_id, post.id FROM tweet AS post \
                 WHERE post.namespace = $1 AND post.id {these})"
            ),
        ),
        // An appearance by a search leads from the post itself. In others the member that showed the account stays,
        // without the post.
        ("community_appearance", format!("{appeared} AND of.reason = 'search'")),
        ("media_use", format!("of.namespace = $4 AND of.post {these}")),
        ("list_owner", "of.key IN (SELECT key FROM lists)".to_owned()),
        ("tweet", format!("of.namespace = $1 AND of.id {these}")),
    ];
    let parts: Vec<(&str, String)> = of_item.chain(of_list).chain(others).collect();
    let deletes: Vec<String> = (0..)
        .zip(&parts)
        .map(|(n, (table, which))| format!("gone_{n} AS (DELETE FROM {table} AS of WHERE {which} RETURNING 1)"))
        .collect();
    let counts: Vec<String> = (0..)
        .zip(&parts)
        .map(|(n, (table, _))| format!("json_build_array('{table}', (SELECT count(*) FROM gone_{n}))"))
        .collect();
    format!(
        "WITH items AS MATERIALIZED (SELECT id FROM tweet WHERE namespace = $1 AND id = ANY($2) AND {condition} \
         ORDER BY id FOR UPDATE), \
         lists AS MATERIALIZED (SELECT key FROM list_owner WHERE namespace = $1 AND id {these}), \
         shown AS (UPDATE community_appearance AS of SET post = NULL WHERE {appeared} AND of.reason <> 'search'), {} \
         SELECT json_build_array({})::text FROM (SELECT count(*) FROM items) AS locked",
        deletes.join(", "),
        counts.join(", ")
    )
}

fn removal_statement(sql: &str, items: &ItemSet, which: Option<Expiry>) -> Statement {
    statement!(
        AssertSqlSafe(sql.to_owned()),
        &items.namespace,
        &items.ids,
        which.and_then(rows::expiry_time),
        media_namespace(&items.namespace),
        author_namespaces(&items.namespace),
        communities_prefix(&items.namespace)
    )
}

fn parse_removed_rows(counts: &str) -> Result<RemovedRows> {
    let counts: Vec<(String, u64)> =
        serde_json::from_str(counts).map_err(|error| StoreError::Refused(error.to_string()))?;
    let mut removed = RemovedRows::default();
    counts.iter().for_each(|(table, rows)| removed.add(table, *rows));
    Ok(removed)
}

impl PostgresStore {
    /// Removes stored posts of blocked authors: rows that had only ids until an answer stated the author.
    pub(super) async fn remove_blocked_posts(&self, namespace: &str, rows: &[Row<'_>]) -> Result<()> {
        let Some(PersonSource { by_id: false, .. }) = PersonSource::for_namespace(namespace) else { return Ok(()) };
        let ids: Vec<String> = rows.iter().map(|row| row.id.to_string()).collect();
        let authors: Vec<Option<String>> = rows.iter().map(|row| row.author_id.as_deref().map(str::to_owned)).collect();
        let people = || self.row_pseudonyms(namespace, rows, &[]);
        let refused: Vec<String> =
            self.read_column(|| statement!("forget/blocked_posts.pg", people(), &ids, &authors)).await?;
        if !refused.is_empty() {
            let posts = ItemSet { namespace: namespace.to_owned(), ids: refused };
            // The media were recorded before the save: see `pipelines/refresh/fan_out.rs`.
            let media = self.media_of_posts(&posts).await?;
            self.remove_items(&media).await?;
            self.remove_items(&posts).await?;
        }
        Ok(())
    }

    /// Removes references of authors, communities, visits and languages to posts whose content is about to be removed.
    /// The removal also deletes the author, by which the references are found.
    pub(super) async fn remove_post_references(&self, namespace: &str, rows: &[Row<'_>]) -> Result<()> {
        let forgotten = rows.iter().filter(|row| row.is_forgotten()).map(|row| (row.id.to_string(), row.first_seen));
        let (ids, at): (Vec<String>, Vec<Millis>) = forgotten.unzip();
        if !ids.is_empty() {
            let (authors, communities) = (author_namespaces(namespace), communities_prefix(namespace));
            let remove = || statement!("forget/remove_references.pg", namespace, &ids, &authors, &communities, &at);
            self.write(remove).await?;
        }
        Ok(())
    }

    pub(super) async fn remove_selected(&self, items: &ItemSet, which: Option<Expiry>) -> Result<RemovedRows> {
        let sql = removal_sql(which.map(|_| EXPIRED));
        failpoint::point("before_commit"); // the statement is its own transaction
        let counts: String = self.read_value(|| removal_statement(&sql, items, which)).await?;
        parse_removed_rows(&counts)
    }

    /// Returns the key; creates it for the first blocked person.
    async fn key(&self) -> Result<&PseudonymKey> {
        let known: Option<(String,)> = self.read_first(|| statement!("forget/fingerprint")).await?;
        if let Some((known,)) = known {
            return self.keys.load(&known);
        }
        let fingerprint = self.keys.fingerprint()?;
        self.write(|| statement!("forget/note_fingerprint.pg", &fingerprint)).await?;
        let known: String = self.read_value(|| statement!("forget/fingerprint")).await?;
        self.keys.load(&known)
    }

    async fn namespaces_of(&self, network: &str) -> Result<Vec<(String, bool)>> {
        let known: Vec<String> = self.read_column(|| statement!("forget/namespaces")).await?;
        Ok(select_network_namespaces(known, network))
    }

    async fn namespaces_in(&self, table: &str, network: &str) -> Result<Vec<String>> {
        let sql = format!("SELECT DISTINCT namespace FROM {table}");
        let known: Vec<String> = self.read_column(|| statement!(AssertSqlSafe(sql.clone()))).await?;
        let of = select_network_namespaces(known, network);
        Ok(of.into_iter().map(|(namespace, _)| namespace).collect())
    }

    /// Runs a removal that returns the number of its rows.
    async fn remove_counted(&self, sql: &str, namespaces: &[String], values: &[String]) -> Result<u64> {
        let removed = self.read_value(|| statement!(AssertSqlSafe(sql.to_owned()), namespaces, values));
        Ok(number(removed.await?))
    }
}

#[async_trait]
impl Forgetting for PostgresStore {
    async fn check_key(&self) -> Result<()> {
        self.load_key().await
    }

    async fn block_account(&self, network: &str, account: &str, at: Millis) -> Result<bool> {
        let hash = self.key().await?.pseudonym(network, account);
        let (call_timeout, mut connection) = (self.call_timeout, self.pool.acquire().await?);
        let done = async {
            let mut transaction = connection.begin().await?;
            sqlx::query(NOT_FOR_LONG).execute(&mut *transaction).await?;
            statement!("forget/hold_writes.pg").execute(&mut *transaction).await?;
            let added =
                statement!("forget/block_account.pg", hash, at).execute(&mut *transaction).await?.rows_affected();
            transaction.commit().await?;
            Ok::<_, StoreError>(added > 0)
        };
        let done = tokio::time::timeout(call_timeout.max(Duration::from_secs(1)), done).await;
        let done = done.unwrap_or_else(|_| Err(timeout_error(call_timeout)));
        if done.is_err() {
            drop(connection.detach()); // it may hold the lock
        }
        done
    }

    async fn unblock_account(&self, network: &str, account: &str) -> Result<bool> {
        self.load_key().await?;
        let Some(key) = self.keys.loaded_key() else { return Ok(false) };
        let hash = key.pseudonym(network, account);
        let gone: i64 = self.read_value(|| statement!("forget/unblock_account.pg", &hash)).await?;
        Ok(gone > 0)
    }

    async fn are_blocked(&self, network: &str, accounts: &[String]) -> Result<Vec<bool>> {
        self.load_key().await?;
        let Some(key) = self.keys.loaded_key() else { return Ok(vec![false; accounts.len()]) };
        let hashes: Vec<String> = accounts.iter().map(|account| key.pseudonym(network, account)).collect();
        let away: Vec<String> = self.read_column(|| statement!("forget/blocked.pg", &hashes)).await?;
        let away: HashSet<String> = away.into_iter().collect();
        Ok(hashes.iter().map(|hash| away.contains(hash)).collect())
    }

    async fn find_items_about(&self, network: &str, account: &str) -> Result<Vec<ItemSet>> {
        let mut items = Vec::new();
        for (namespace, by_id) in self.namespaces_of(network).await? {
            let sql = if by_id { sql!("forget/items_by_id") } else { sql!("forget/items_by_author.pg") };
            let ids: Vec<String> = self.read_column(|| statement!(sql, &namespace, clean(account))).await?;
            if !ids.is_empty() {
                items.push(ItemSet { namespace, ids });
            }
        }
        Ok(items)
    }

    async fn find_media_without_post(&self, network: &str) -> Result<Vec<ItemSet>> {
        let mut media = Vec::new();
        for (namespace, _) in self.namespaces_of(network).await?.into_iter().filter(|(of, _)| is_media(of)) {
            let ids: Vec<String> = self.read_column(|| statement!("forget/media_without_post.pg", &namespace)).await?;
            media.push(ItemSet { namespace, ids });
        }
        Ok(media)
    }

    async fn media_of_posts(&self, posts: &ItemSet) -> Result<ItemSet> {
        let Some(namespace) = media_namespace(&posts.namespace) else { return Ok(ItemSet::default()) };
        let ids = self.read_column(|| statement!("forget/media_of_posts.pg", &namespace, &posts.ids)).await?;
        Ok(ItemSet { namespace, ids })
    }

    async fn remove_items(&self, items: &ItemSet) -> Result<RemovedRows> {
        self.remove_selected(items, None).await
    }

    async fn drop_posts(&self, posts: &str, visits: &str, unwanted: &[UnwantedPost]) -> Result<RemovedRows> {
        let accounts: Vec<String> = unwanted.iter().map(|of| clean(&of.account).into_owned()).collect();
        let ids: Vec<String> = unwanted.iter().map(|of| of.post.clone()).collect();
        let (call_timeout, mut connection) = (self.call_timeout, self.pool.acquire().await?);
        let done = async {
            let mut transaction = connection.begin().await?;
            let hold =
                sqlx::query_as(sql!("forget/hold_follows.pg")).bind(visits).bind(&accounts).bind(posts).bind(&ids);
            let people: Vec<(String, bool)> = hold.fetch_all(&mut *transaction).await?;
            // A separate statement: it reads the state after the locks.
            let authors = sqlx::query_as(sql!("forget/authors.pg")).bind(posts).bind(&ids);
            let authors = authors.fetch_all(&mut *transaction).await?;
            let those = |followed: bool| -> Vec<String> {
                people.iter().filter(|(_, is_followed)| *is_followed == followed).map(|(id, _)| id.clone()).collect()
            };
            statement!("forget/reset_positions.pg", visits, those(false)).execute(&mut *transaction).await?;
            let items =
                ItemSet { namespace: posts.to_owned(), ids: select_dropped_posts(unwanted, authors, &those(true)) };
            let sql = removal_sql(None);
            let counts: String =
                removal_statement(&sql, &items, None).fetch_one(&mut *transaction).await?.try_get(0)?;
            failpoint::point("before_commit");
            transaction.commit().await?;
            parse_removed_rows(&counts)
        };
        let done = tokio::time::timeout(call_timeout, done).await.unwrap_or_else(|_| Err(timeout_error(call_timeout)));
        if done.is_err() {
            drop(connection.detach()); // it may hold the locks
        }
        done
    }

    async fn remove_account(&self, network: &str, account: &str, handles: &[String]) -> Result<RemovedRows> {
        let mut removed = RemovedRows::default();
        let account = &[clean(account).into_owned()][..];
        let tables = ACCOUNT_TABLES.iter().map(|(table, column)| (*table, *column, account));
        for (table, column, values) in tables.chain([("account_handle", "handle", handles)]) {
            let namespaces = self.namespaces_in(table, network).await?;
            let sql = format!(
                "WITH gone AS (DELETE FROM {table} WHERE namespace = ANY($1) AND {column} = ANY($2) RETURNING 1) \
                 SELECT count(*) FROM gone"
            );
            removed.add(table, self.remove_counted(&sql, &namespaces, values).await?);
        }
        // Appearances in its own posts, of any account. Then references in others' posts: that it showed them, and that
        // others showed its own. Visits to its own posts are removed with them.
        let (own, posts): (Vec<_>, Vec<_>) =
            self.namespaces_of(network).await?.into_iter().partition(|(_, by_id)| *by_id);
        let names = |of: Vec<(String, bool)>| of.into_iter().map(|(namespace, _)| namespace).collect::<Vec<String>>();
        for (table, sql, namespaces) in [
            (
                "community_appearance",
                sql!("forget/remove_appearances.pg"),
                self.namespaces_in("community_appearance", network).await?,
            ),
            ("tweet_way", sql!("forget/remove_visits.pg"), names(posts)),
            ("account_post", sql!("forget/remove_sightings.pg"), names(own)),
        ] {
            removed.add(table, self.remove_counted(sql, &namespaces, account).await?);
        }
        Ok(removed)
    }

    async fn erase_removed_bytes(&self) -> Result<()> {
        Ok(())
    }

    async fn count_mentions(&self, network: &str, account: &str) -> Result<RemovedRows> {
        let mut stay = RemovedRows::default();
        for (namespace, _) in self.namespaces_of(network).await? {
            let rows: i64 =
                self.read_value(|| statement!("forget/count_mentions.pg", &namespace, clean(account))).await?;
            stay.add(&namespace, number(rows));
        }
        Ok(stay)
    }
}
