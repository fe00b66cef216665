use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, Connection, Row as _};

use super::{PostgresStore, Statement, timeout_error};
use crate::forget::{
    ACCOUNT_TABLES, Forgetting, ITEM_TABLES, ItemSet, LIST_TABLES, NAMESPACES, RemovedRows, author_namespaces,
    communities_prefix, is_media, media_namespace, select_dropped_posts, select_network_namespaces,
};
use crate::pseudonyms::PseudonymKey;
use crate::rows::{self, Row, clean, expired, number};
use crate::{Expiry, PersonSource, Result, StoreError, UnwantedPost};
use engine::base::clock::Millis;
use engine::base::failpoint;

/// Waits for statements that read the table, and blocks later ones until they can see the hash.
const HOLD_WRITES: &str = "LOCK TABLE forgotten_person IN ACCESS EXCLUSIVE MODE";

/// A dump locks the table to its end. All readers would wait behind a call that waits for the dump.
const NOT_FOR_LONG: &str = "SET LOCAL lock_timeout = '5s'";

const BLOCK_ACCOUNT: &str = "INSERT INTO forgotten_person (hash, at) VALUES ($1, $2) ON CONFLICT DO NOTHING";

const UNBLOCK_ACCOUNT: &str =
    "WITH gone AS (DELETE FROM forgotten_person WHERE hash = $1 RETURNING 1) SELECT count(*) FROM gone";

const BLOCKED: &str = "SELECT hash FROM forgotten_person WHERE hash = ANY($1)";

const FINGERPRINT: &str = "SELECT fingerprint FROM forgotten_key";

const MEDIA: &str = "SELECT DISTINCT used.id FROM media_use AS used WHERE used.namespace = $1 AND used.post = ANY($2) \
     AND NOT EXISTS (SELECT FROM media_use AS other WHERE other.namespace = used.namespace AND other.id = used.id \
     AND NOT other.post = ANY($2))";

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

const REFUSED: &str = concat!(
    "SELECT id FROM UNNEST($2::text[], $3::text[]) AS given (id, author) \
     WHERE EXISTS (SELECT FROM forgotten_person) AND ",
    super::author!(),
    " = ANY((SELECT forgotten_among($1))::text[])"
);

/// Follows and unfollows of these accounts, or of authors of these posts, wait; so does a page of a visit to them.
const HOLD_FOLLOWS: &str = "SELECT account, left_at IS NULL FROM visit WHERE namespace = $1 AND account IN (SELECT UNNEST($2::text[]) \
     UNION SELECT author_id FROM tweet WHERE namespace = $3 AND id = ANY($4)) ORDER BY account COLLATE \"C\" FOR SHARE";

const AUTHORS: &str = "SELECT id, author_id FROM tweet WHERE namespace = $1 AND id = ANY($2)";

const UNREAD: &str = "WITH gaps AS (DELETE FROM source_gap WHERE namespace = $1 AND source = ANY($2)) \
     DELETE FROM source_position WHERE namespace = $1 AND source = ANY($2)";

fn removal_statement(sql: &str, items: &ItemSet, which: Option<Expiry>) -> Statement {
    let remove = sqlx::query(AssertSqlSafe(sql.to_owned())).bind(items.namespace.clone()).bind(items.ids.clone());
    let remove = remove.bind(which.and_then(rows::expiry_time));
    let remove = remove.bind(media_namespace(&items.namespace)).bind(author_namespaces(&items.namespace));
    remove.bind(communities_prefix(&items.namespace))
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
        let refused = || sqlx::query(REFUSED).bind(people()).bind(ids.clone()).bind(authors.clone());
        let refused: Vec<(String,)> = self.rows(refused).await?;
        if !refused.is_empty() {
            let ids = refused.into_iter().map(|(id,)| id).collect();
            let posts = ItemSet { namespace: namespace.to_owned(), ids };
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
        // A late answer changes nothing: a newer one is stored.
        const SAID: &str = "WITH said AS (SELECT post.id, post.author_id FROM tweet AS post \
             JOIN unnest($2, $5::bigint[]) AS given (id, at) ON post.namespace = $1 AND post.id = given.id \
             WHERE post.checked_at IS NULL OR post.checked_at <= given.at), \
             languages AS (DELETE FROM post_language WHERE namespace = $1 AND id IN (SELECT id FROM said)), \
             visits AS (DELETE FROM tweet_way WHERE namespace = $1 AND id IN (SELECT id FROM said) AND pipeline = 'visit'), \
             found AS (DELETE FROM community_appearance WHERE post COLLATE \"C\" IN (SELECT id FROM said) \
             AND starts_with(namespace, $4) AND reason = 'search'), \
             shown AS (UPDATE community_appearance SET post = NULL WHERE post COLLATE \"C\" IN (SELECT id FROM said) \
             AND starts_with(namespace, $4) AND reason <> 'search') \
             DELETE FROM account_post AS of USING said AS post \
             WHERE of.namespace = ANY($3) AND of.id = post.author_id AND of.post = post.id";
        let forgotten = rows.iter().filter(|row| row.is_forgotten()).map(|row| (row.id.to_string(), row.first_seen));
        let (ids, at): (Vec<String>, Vec<Millis>) = forgotten.unzip();
        if !ids.is_empty() {
            let (authors, communities) = (author_namespaces(namespace), communities_prefix(namespace));
            let said = || {
                let said = sqlx::query(SAID).bind(namespace.to_owned()).bind(ids.clone());
                said.bind(authors.clone()).bind(communities.clone()).bind(at.clone())
            };
            let _: Vec<()> = self.rows(said).await?;
        }
        Ok(())
    }

    pub(super) async fn remove_selected(&self, items: &ItemSet, which: Option<Expiry>) -> Result<RemovedRows> {
        let sql = removal_sql(which.map(|_| expired!()));
        failpoint::point("before_commit"); // the statement is its own transaction
        let (counts,): (String,) = self.row(|| removal_statement(&sql, items, which)).await?;
        parse_removed_rows(&counts)
    }

    /// Returns the key; creates it for the first blocked person.
    async fn key(&self) -> Result<&PseudonymKey> {
        let known: Vec<(String,)> = self.rows(|| sqlx::query(FINGERPRINT)).await?;
        if let Some((known,)) = known.first() {
            return self.keys.load(known);
        }
        let fingerprint = self.keys.fingerprint()?;
        let note = || {
            sqlx::query("INSERT INTO forgotten_key (fingerprint) VALUES ($1) ON CONFLICT DO NOTHING")
                .bind(fingerprint.clone())
        };
        let _: Vec<()> = self.rows(note).await?;
        let (known,): (String,) = self.row(|| sqlx::query(FINGERPRINT)).await?;
        self.keys.load(&known)
    }

    async fn namespaces_of(&self, network: &str) -> Result<Vec<(String, bool)>> {
        let known: Vec<(String,)> = self.rows(|| sqlx::query(NAMESPACES)).await?;
        Ok(select_network_namespaces(known.into_iter().map(|(namespace,)| namespace), network))
    }

    async fn namespaces_in(&self, table: &str, network: &str) -> Result<Vec<String>> {
        let sql = format!("SELECT DISTINCT namespace FROM {table}");
        let known: Vec<(String,)> = self.rows(|| sqlx::query(AssertSqlSafe(sql.clone()))).await?;
        let of = select_network_namespaces(known.into_iter().map(|(namespace,)| namespace), network);
        Ok(of.into_iter().map(|(namespace, _)| namespace).collect())
    }

    async fn count(&self, sql: &str, namespaces: &[String], values: &[String]) -> Result<u64> {
        let sql = format!("WITH gone AS ({sql} RETURNING 1) SELECT count(*) FROM gone");
        let statement = || sqlx::query(AssertSqlSafe(sql.clone())).bind(namespaces.to_vec()).bind(values.to_vec());
        let (gone,): (i64,) = self.row(statement).await?;
        Ok(number(gone))
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
            sqlx::query(HOLD_WRITES).execute(&mut *transaction).await?;
            let added =
                sqlx::query(BLOCK_ACCOUNT).bind(hash).bind(at).execute(&mut *transaction).await?.rows_affected();
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
        let (gone,): (i64,) = self.row(|| sqlx::query(UNBLOCK_ACCOUNT).bind(hash.clone())).await?;
        Ok(gone > 0)
    }

    async fn are_blocked(&self, network: &str, accounts: &[String]) -> Result<Vec<bool>> {
        self.load_key().await?;
        let Some(key) = self.keys.loaded_key() else { return Ok(vec![false; accounts.len()]) };
        let hashes: Vec<String> = accounts.iter().map(|account| key.pseudonym(network, account)).collect();
        let away: Vec<(String,)> = self.rows(|| sqlx::query(BLOCKED).bind(hashes.clone())).await?;
        let away: HashSet<String> = away.into_iter().map(|(hash,)| hash).collect();
        Ok(hashes.iter().map(|hash| away.contains(hash)).collect())
    }

    async fn find_items_about(&self, network: &str, account: &str) -> Result<Vec<ItemSet>> {
        const OF_ID: &str = "SELECT id FROM tweet WHERE namespace = $1 AND id = $2";
        // Includes posts whose person only the id, or the visit that brought them, shows.
        const OF_AUTHOR: &str = "SELECT id FROM tweet WHERE namespace = $1 \
             AND (author_id = $2 OR starts_with(id, 'at://' || $2 || '/') OR starts_with(id, $2 || '/')) \
             UNION SELECT tweet.id FROM tweet_way AS way JOIN tweet ON tweet.namespace = way.namespace AND tweet.id = way.id \
             WHERE way.namespace = $1 AND way.pipeline = 'visit' AND way.source = $2 AND tweet.author_id IS NULL";
        let mut items = Vec::new();
        for (namespace, by_id) in self.namespaces_of(network).await? {
            let sql = if by_id { OF_ID } else { OF_AUTHOR };
            let asked = || sqlx::query(sql).bind(namespace.clone()).bind(clean(account).into_owned());
            let ids: Vec<(String,)> = self.rows(asked).await?;
            if !ids.is_empty() {
                items.push(ItemSet { namespace, ids: ids.into_iter().map(|(id,)| id).collect() });
            }
        }
        Ok(items)
    }

    async fn find_media_without_post(&self, network: &str) -> Result<Vec<ItemSet>> {
        const WITHOUT_POST: &str = "SELECT id FROM tweet WHERE namespace = $1 AND NOT EXISTS (SELECT FROM media_use AS used \
             WHERE used.namespace = tweet.namespace AND used.id = tweet.id)";
        let mut media = Vec::new();
        for (namespace, _) in self.namespaces_of(network).await?.into_iter().filter(|(of, _)| is_media(of)) {
            let ids: Vec<(String,)> = self.rows(|| sqlx::query(WITHOUT_POST).bind(namespace.clone())).await?;
            media.push(ItemSet { ids: ids.into_iter().map(|(id,)| id).collect(), namespace });
        }
        Ok(media)
    }

    async fn media_of_posts(&self, posts: &ItemSet) -> Result<ItemSet> {
        let Some(namespace) = media_namespace(&posts.namespace) else { return Ok(ItemSet::default()) };
        let asked = || sqlx::query(MEDIA).bind(namespace.clone()).bind(posts.ids.clone());
        let ids: Vec<(String,)> = self.rows(asked).await?;
        Ok(ItemSet { ids: ids.into_iter().map(|(id,)| id).collect(), namespace })
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
            let hold = sqlx::query_as(HOLD_FOLLOWS).bind(visits).bind(&accounts).bind(posts).bind(&ids);
            let people: Vec<(String, bool)> = hold.fetch_all(&mut *transaction).await?;
            // A separate statement: it reads the state after the locks.
            let authors = sqlx::query_as(AUTHORS).bind(posts).bind(&ids).fetch_all(&mut *transaction).await?;
            let those = |followed: bool| -> Vec<String> {
                people.iter().filter(|(_, is_followed)| *is_followed == followed).map(|(id, _)| id.clone()).collect()
            };
            sqlx::query(UNREAD).bind(visits).bind(those(false)).execute(&mut *transaction).await?;
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
        const APPEARED_IN: &str = "DELETE FROM community_appearance WHERE namespace = ANY($1) \
             AND starts_with(post, 'at://' || ($2::text[])[1] || '/')";
        let mut removed = RemovedRows::default();
        let account = [clean(account).into_owned()];
        for (table, column) in ACCOUNT_TABLES {
            let namespaces = self.namespaces_in(table, network).await?;
            let sql = format!("DELETE FROM {table} WHERE namespace = ANY($1) AND {column} = ANY($2)");
            removed.add(table, self.count(&sql, &namespaces, &account).await?);
        }
        // Also removes appearances in its own posts, of any account.
        let namespaces = self.namespaces_in("community_appearance", network).await?;
        removed.add("community_appearance", self.count(APPEARED_IN, &namespaces, &account).await?);
        let namespaces = self.namespaces_in("account_handle", network).await?;
        let sql = "DELETE FROM account_handle WHERE namespace = ANY($1) AND handle = ANY($2)";
        removed.add("account_handle", self.count(sql, &namespaces, handles).await?);
        // References in others' posts: that it showed them, and that others showed its own. Visits to its own posts are
        // removed with them.
        const SHOWN: &str = "DELETE FROM tweet_way AS way USING tweet WHERE way.namespace = ANY($1) AND way.pipeline = 'visit' \
             AND way.source = ANY($2) AND tweet.namespace = way.namespace AND tweet.id = way.id AND tweet.author_id IS NOT NULL";
        const SHOWN_BY: &str = "DELETE FROM account_post WHERE namespace = ANY($1) AND starts_with(post, 'at://' || ($2::text[])[1] || '/')";
        let (own, posts): (Vec<_>, Vec<_>) =
            self.namespaces_of(network).await?.into_iter().partition(|(_, by_id)| *by_id);
        let names = |of: Vec<(String, bool)>| of.into_iter().map(|(namespace, _)| namespace).collect::<Vec<String>>();
        removed.add("tweet_way", self.count(SHOWN, &names(posts), &account).await?);
        removed.add("account_post", self.count(SHOWN_BY, &names(own), &account).await?);
        Ok(removed)
    }

    async fn erase_removed_bytes(&self) -> Result<()> {
        Ok(())
    }

    async fn count_mentions(&self, network: &str, account: &str) -> Result<RemovedRows> {
        const NAMED: &str =
            "SELECT count(*) FROM tweet WHERE namespace = $1 AND position('\"' || $2 || '\"' in raw) > 0";
        let mut stay = RemovedRows::default();
        for (namespace, _) in self.namespaces_of(network).await? {
            let named = || sqlx::query(NAMED).bind(namespace.clone()).bind(clean(account).into_owned());
            let (rows,): (i64,) = self.row(named).await?;
            stay.add(&namespace, number(rows));
        }
        Ok(stay)
    }
}
