use std::collections::{BTreeSet, HashSet};

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::{SqliteStore, json, read, read_column, read_first_value, read_value, write};
use crate::forget::{
    ACCOUNT_TABLES, Forgetting, ITEM_TABLES, ItemSet, LIST_TABLES, RemovedRows, author_from_id, author_namespaces,
    communities_prefix, is_media, media_namespace, select_dropped_posts, select_network_namespaces,
};
use crate::pseudonyms::{KeyFile, PseudonymKey};
use crate::rows::{Row, clean, number};
use crate::{PersonSource, Result, UnwantedPost};
use engine::base::clock::Millis;
use engine::base::failpoint;

/// Appearances that an account led to, and those in its posts; no index has the former.
const BY_SOURCE: (&str, &str) = ("community_appearance", "source");

/// References of others to the account: accounts it led to, posts it showed, and its own posts that others showed. Visits to its
/// own posts are removed with them. Per table there are two statements. The first reads all rows of namespaces (?1) for references
/// to the account (?2) and returns their keys as JSON. The second removes rows by keys (?1).
const REFERENCES: [(&str, &str, &str); 3] = [
    (BY_SOURCE.0, sql!("forget/find_appearances.lite"), sql!("forget/remove_appearances.lite")),
    ("tweet_way", sql!("forget/find_visits.lite"), sql!("forget/remove_visits.lite")),
    // Range of the ids that start with its address: in ASCII, `0` follows `/`.
    ("account_post", sql!("forget/find_sightings.lite"), sql!("forget/remove_sightings.lite")),
];

const PORTION: usize = 500;

/// Returns the blocked ones of these accounts. In a writing transaction the result holds to its end.
pub(super) async fn find_blocked_in_network<'a>(
    connection: &mut SqliteConnection,
    keys: &KeyFile,
    network: &str,
    accounts: impl IntoIterator<Item = &'a str> + Send,
) -> Result<HashSet<String>> {
    let fingerprint: Option<String> =
        read_first_value(&mut *connection, statement!("forget/wanted_fingerprint.lite")).await?;
    let key = fingerprint.map(|fingerprint| keys.load(&fingerprint)).transpose()?;
    find_blocked_with_key(connection, key, network, accounts).await
}

/// [`find_blocked_in_network`] with the key; `None`: no person is blocked.
async fn find_blocked_with_key<'a>(
    connection: &mut SqliteConnection,
    key: Option<&PseudonymKey>,
    network: &str,
    accounts: impl IntoIterator<Item = &'a str> + Send,
) -> Result<HashSet<String>> {
    let Some(key) = key else { return Ok(HashSet::new()) };
    let hashes: Vec<(String, &str)> =
        accounts.into_iter().map(|account| (key.pseudonym(network, account), account)).collect();
    let asked = json(hashes.iter().map(|(hash, _)| hash.as_str().into()));
    let known: Vec<String> = read_column(connection, statement!("forget/blocked.lite", asked)).await?;
    let known: HashSet<&String> = known.iter().collect();
    Ok(hashes.iter().filter(|(hash, _)| known.contains(hash)).map(|(_, account)| (*account).to_owned()).collect())
}

/// [`find_blocked_in_network`] for rows whose ids are accounts; empty for other rows.
pub(super) async fn find_blocked<'a>(
    connection: &mut SqliteConnection,
    keys: &KeyFile,
    namespace: &str,
    accounts: impl IntoIterator<Item = &'a str> + Send,
) -> Result<HashSet<String>> {
    match PersonSource::for_namespace(namespace) {
        Some(PersonSource { network, by_id: true }) => {
            find_blocked_in_network(connection, keys, &network, accounts).await
        }
        _ => Ok(HashSet::new()),
    }
}

/// Returns the rows of people who are not blocked. Removes stored posts of blocked authors: rows that had only ids
/// until an answer stated the author.
pub(super) async fn retain_unblocked<'a>(
    connection: &mut SqliteConnection,
    keys: &KeyFile,
    namespace: &str,
    rows: Vec<Row<'a>>,
) -> Result<Vec<Row<'a>>> {
    let fingerprint: Option<String> =
        read_first_value(&mut *connection, statement!("forget/wanted_fingerprint.lite")).await?;
    retain_unblocked_with_key(connection, keys, fingerprint.as_deref(), namespace, rows).await
}

pub(super) async fn retain_unblocked_with_key<'a>(
    connection: &mut SqliteConnection,
    keys: &KeyFile,
    fingerprint: Option<&str>,
    namespace: &str,
    mut rows: Vec<Row<'a>>,
) -> Result<Vec<Row<'a>>> {
    let Some(fingerprint) = fingerprint else { return Ok(rows) };
    let key = keys.load(fingerprint)?;
    let Some(PersonSource { network, by_id }) = PersonSource::for_namespace(namespace) else { return Ok(rows) };
    if is_media(namespace) {
        // A medium does not name its owner, and a removed one may have been a forgotten person's. So only
        // `record_media` creates rows.
        let ids = json(rows.iter().map(|row| row.id.as_ref().into()));
        let known: Vec<String> = read_column(&mut *connection, statement!("posts/known.lite", namespace, ids)).await?;
        let known: HashSet<String> = known.into_iter().collect();
        rows.retain(|row| known.contains(&*row.id));
    }
    let author = |row: &Row<'_>| row.author_id.as_deref().or_else(|| author_from_id(&row.id)).map(str::to_owned);
    let of = |row: &Row<'_>| if by_id { Some(row.id.to_string()) } else { author(row) };
    let people: Vec<String> = rows.iter().filter_map(of).collect();
    let away = find_blocked_with_key(connection, Some(key), &network, people.iter().map(String::as_str)).await?;
    if away.is_empty() {
        return Ok(rows);
    }
    let is_away = |row: &Row<'_>| of(row).is_some_and(|person| away.contains(&person));
    let refused = rows.iter().filter(|row| is_away(row)).map(|row| row.id.to_string()).collect();
    let refused = ItemSet { namespace: namespace.to_owned(), ids: refused };
    // The media were recorded before the save: see `pipelines/refresh/fan_out.rs`.
    let media = media_of_posts(connection, &refused).await?;
    remove(connection, &media).await?;
    remove(connection, &refused).await?;
    rows.retain(|row| !is_away(row));
    Ok(rows)
}

async fn media_of_posts(connection: &mut SqliteConnection, posts: &ItemSet) -> Result<ItemSet> {
    let Some(namespace) = media_namespace(&posts.namespace) else { return Ok(ItemSet::default()) };
    let ids = json(posts.ids.iter().map(|id| clean(id)));
    let ids = read_column(connection, statement!("forget/media_of_posts.lite", &namespace, ids)).await?;
    Ok(ItemSet { namespace, ids })
}

/// Removes references of authors, communities, visits and languages to posts whose content is about to be removed. The
/// removal also deletes the author, by which the references are found.
pub(super) async fn remove_post_references(connection: &mut SqliteConnection, posts: &ItemSet) -> Result<()> {
    remove_authored(connection, posts).await?;
    remove_appearances(connection, posts).await?;
    let ids = json(posts.ids.iter().map(|id| clean(id)));
    write(&mut *connection, statement!("forget/remove_languages.lite", &posts.namespace, &ids)).await?;
    write(connection, statement!("forget/remove_visits_to.lite", &posts.namespace, &ids)).await.map(drop)
}

/// Removes the posts from the lists of their authors; returns the number of rows.
async fn remove_authored(connection: &mut SqliteConnection, posts: &ItemSet) -> Result<u64> {
    let namespaces = author_namespaces(&posts.namespace);
    if namespaces.is_empty() {
        return Ok(0);
    }
    let ids = json(posts.ids.iter().map(|id| clean(id)));
    let namespaces = json(namespaces.iter().map(|namespace| namespace.as_str().into()));
    write(connection, statement!("forget/remove_authored.lite", &posts.namespace, ids, namespaces)).await
}

/// Removes references to the posts from appearances; returns the number of removed rows.
async fn remove_appearances(connection: &mut SqliteConnection, posts: &ItemSet) -> Result<u64> {
    let Some(prefix) = communities_prefix(&posts.namespace) else { return Ok(0) };
    let ids = json(posts.ids.iter().map(|id| clean(id)));
    let found = write(&mut *connection, statement!("forget/remove_search_appearances.lite", &prefix, &ids)).await?;
    write(connection, statement!("forget/clear_posts_of_appearances.lite", &prefix, &ids)).await?;
    Ok(found)
}

pub(super) async fn remove(connection: &mut SqliteConnection, items: &ItemSet) -> Result<RemovedRows> {
    let ids = json(items.ids.iter().map(|id| clean(id)));
    let mut removed = RemovedRows::default();
    if let Some(media) = media_namespace(&items.namespace) {
        // Finds each use by its post, instead of checking every medium of the network for each post.
        let uses = write(&mut *connection, statement!("forget/remove_uses.lite", media, &ids)).await?;
        removed.add("media_use", uses);
    }
    removed.add("account_post", remove_authored(connection, items).await?);
    removed.add("community_appearance", remove_appearances(connection, items).await?);
    let keys: String = read_value(&mut *connection, statement!("forget/keys.lite", &items.namespace, &ids)).await?;
    let of_item = ITEM_TABLES.iter().map(|table| (*table, format!("{table}_row"), "tweet"));
    let of_list = LIST_TABLES.iter().map(|table| (*table, (*table).to_owned(), "list"));
    for (table, name, column) in of_item.chain(of_list).chain([("tweet", "tweet".to_owned(), "key")]) {
        let sql = format!("DELETE FROM {name} WHERE {column} IN (SELECT value FROM json_each(?1))");
        removed.add(table, write(&mut *connection, statement!(AssertSqlSafe(sql), &keys)).await?);
    }
    Ok(removed)
}

impl SqliteStore {
    /// Returns the key; creates it for the first blocked person.
    async fn key(&self) -> Result<&PseudonymKey> {
        let known: Option<String> = read_first_value(self.readers(), statement!("forget/fingerprint")).await?;
        if let Some(known) = known {
            return self.keys.load(&known);
        }
        let fingerprint = self.keys.fingerprint()?;
        let mut tx = self.begin().await?;
        write(&mut *tx, statement!("forget/note_fingerprint.lite", fingerprint)).await?;
        let known: String = read_value(&mut *tx, statement!("forget/fingerprint")).await?;
        tx.commit().await?;
        self.keys.load(&known)
    }

    async fn namespaces_of(&self, network: &str) -> Result<Vec<(String, bool)>> {
        let known: Vec<String> = read_column(self.readers(), statement!("forget/namespaces")).await?;
        Ok(select_network_namespaces(known, network))
    }

    /// Removes all references that `read` finds; returns their number. Other processes write during the read, so it
    /// repeats until nothing is found.
    async fn remove_references(
        &self,
        read: &'static str,
        remove: &'static str,
        namespaces: &str,
        account: &str,
    ) -> Result<u64> {
        let mut removed = 0;
        loop {
            let keys: Vec<String> = read_column(self.readers(), statement!(read, namespaces, account)).await?;
            if keys.is_empty() {
                return Ok(removed);
            }
            for keys in keys.chunks(PORTION) {
                let mut tx = self.begin().await?;
                removed += write(&mut *tx, statement!(remove, format!("[{}]", keys.join(",")), account)).await?;
                tx.commit().await?;
            }
        }
    }
}

fn namespaces_of_table(table: &str) -> String {
    sql!("forget/namespaces").replace("FROM tweet", &format!("FROM {table}"))
}

async fn namespaces_in(connection: &mut SqliteConnection, table: &str, network: &str) -> Result<String> {
    let sql = AssertSqlSafe(namespaces_of_table(table));
    let known: Vec<String> = read_column(connection, statement!(sql)).await?;
    let of: Vec<String> =
        select_network_namespaces(known, network).into_iter().map(|(namespace, _)| namespace).collect();
    Ok(serde_json::json!(of).to_string())
}

#[async_trait]
impl Forgetting for SqliteStore {
    async fn check_key(&self) -> Result<()> {
        let fingerprint: Option<String> =
            read_first_value(self.readers(), statement!("forget/wanted_fingerprint.lite")).await?;
        fingerprint.map_or(Ok(()), |fingerprint| self.keys.load(&fingerprint).map(drop))
    }

    async fn block_account(&self, network: &str, account: &str, at: Millis) -> Result<bool> {
        let key = self.key().await?;
        let mut tx = self.begin().await?;
        let added =
            write(&mut *tx, statement!("forget/block_account.lite", key.pseudonym(network, account), at)).await?;
        tx.commit().await?;
        Ok(added > 0)
    }

    async fn unblock_account(&self, network: &str, account: &str) -> Result<bool> {
        let mut tx = self.begin().await?;
        if find_blocked_in_network(&mut tx, &self.keys, network, [account]).await?.is_empty() {
            return Ok(false);
        }
        let hash = self.keys.loaded_key().map(|key| key.pseudonym(network, account));
        let removed = write(&mut *tx, statement!("forget/unblock_account.lite", hash)).await?;
        tx.commit().await?;
        Ok(removed > 0)
    }

    async fn are_blocked(&self, network: &str, accounts: &[String]) -> Result<Vec<bool>> {
        let mut reader = self.readers().acquire().await?;
        let away =
            find_blocked_in_network(&mut reader, &self.keys, network, accounts.iter().map(String::as_str)).await?;
        Ok(accounts.iter().map(|account| away.contains(account)).collect())
    }

    async fn find_items_about(&self, network: &str, account: &str) -> Result<Vec<ItemSet>> {
        let mut items = Vec::new();
        for (namespace, by_id) in self.namespaces_of(network).await? {
            let sql = if by_id { sql!("forget/items_by_id") } else { sql!("forget/items_by_author.lite") };
            let statement = statement!(sql, &namespace, clean(account));
            let ids: Vec<String> = read_column(self.readers(), statement).await?;
            if !ids.is_empty() {
                items.push(ItemSet { namespace, ids });
            }
        }
        Ok(items)
    }

    async fn find_media_without_post(&self, network: &str) -> Result<Vec<ItemSet>> {
        let mut media = Vec::new();
        for (namespace, _) in self.namespaces_of(network).await?.into_iter().filter(|(of, _)| is_media(of)) {
            let ids: Vec<String> =
                read_column(self.readers(), statement!("forget/media_without_post.lite", &namespace)).await?;
            media.push(ItemSet { namespace, ids });
        }
        Ok(media)
    }

    async fn media_of_posts(&self, posts: &ItemSet) -> Result<ItemSet> {
        media_of_posts(&mut *self.readers().acquire().await?, posts).await
    }

    async fn remove_items(&self, items: &ItemSet) -> Result<RemovedRows> {
        let mut tx = self.begin().await?;
        let removed = remove(&mut tx, items).await?;
        failpoint::point("before_commit");
        tx.commit().await?;
        Ok(removed)
    }

    async fn drop_posts(&self, posts: &str, visits: &str, unwanted: &[UnwantedPost]) -> Result<RemovedRows> {
        let mut tx = self.begin().await?;
        let ids = json(unwanted.iter().map(|of| clean(&of.post)));
        let authors = read(&mut *tx, statement!("forget/authors.lite", posts, ids)).await?;
        let authors: Vec<(String, Option<String>)> = authors;
        let by = authors.iter().filter_map(|(_, author)| author.as_deref());
        let people: BTreeSet<&str> = unwanted.iter().map(|of| of.account.as_str()).chain(by).collect();
        let people = json(people.into_iter().map(clean));
        let followed = read_column(&mut *tx, statement!("forget/followed.lite", visits, &people)).await?;
        for table in ["source_gap", "source_position"] {
            let sql = format!(
                "DELETE FROM {table} WHERE namespace = ?1 AND source IN (SELECT value FROM json_each(?2)) \
                 AND source NOT IN (SELECT value FROM json_each(?3))"
            );
            write(&mut *tx, statement!(AssertSqlSafe(sql), visits, &people, serde_json::json!(followed).to_string()))
                .await?;
        }
        let items = ItemSet { namespace: posts.to_owned(), ids: select_dropped_posts(unwanted, authors, &followed) };
        let removed = remove(&mut tx, &items).await?;
        failpoint::point("before_commit");
        tx.commit().await?;
        Ok(removed)
    }

    async fn remove_account(&self, network: &str, account: &str, handles: &[String]) -> Result<RemovedRows> {
        let mut removed = RemovedRows::default();
        let account = clean(account);
        let (accounts, handles) = (serde_json::json!([account]).to_string(), serde_json::json!(handles).to_string());
        let mut tx = self.begin().await?;
        let tables =
            ACCOUNT_TABLES.iter().filter(|of| **of != BY_SOURCE).map(|(table, column)| (*table, *column, &accounts));
        for (table, column, values) in tables.chain([("account_handle", "handle", &handles)]) {
            let namespaces = namespaces_in(&mut tx, table, network).await?;
            let sql = format!(
                "DELETE FROM {table} WHERE namespace IN (SELECT value FROM json_each(?1)) \
                 AND {column} IN (SELECT value FROM json_each(?2))"
            );
            removed.add(table, write(&mut *tx, statement!(AssertSqlSafe(sql), namespaces, values)).await?);
        }
        tx.commit().await?;
        // Runs after the removal: an account that is no longer a member leads to no others.
        let led_to = namespaces_in(&mut *self.readers().acquire().await?, BY_SOURCE.0, network).await?;
        let (own, posts): (Vec<_>, Vec<_>) =
            self.namespaces_of(network).await?.into_iter().partition(|(_, by_id)| *by_id);
        let names = |of: Vec<(String, bool)>| json(of.iter().map(|(namespace, _)| namespace.as_str().into()));
        let namespaces = [led_to, names(posts), names(own)];
        for ((table, read, remove), namespaces) in REFERENCES.into_iter().zip(&namespaces) {
            removed.add(table, self.remove_references(read, remove, namespaces, &account).await?);
        }
        Ok(removed)
    }

    async fn erase_removed_bytes(&self) -> Result<()> {
        Ok(self.file.rewrite().await?)
    }

    async fn count_mentions(&self, network: &str, account: &str) -> Result<RemovedRows> {
        let mut stay = RemovedRows::default();
        for (namespace, _) in self.namespaces_of(network).await? {
            let rows: i64 =
                read_value(self.readers(), statement!("forget/count_mentions.lite", &namespace, clean(account)))
                    .await?;
            stay.add(&namespace, number(rows));
        }
        Ok(stay)
    }
}

#[cfg(test)]
mod tests {
    use sqlx::Connection;

    use super::super::MIGRATIONS;
    use super::*;

    async fn plan(connection: &mut SqliteConnection, sql: &str) -> Vec<String> {
        let plan = sqlx::query_as(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")));
        let plan: Vec<(i64, i64, i64, String)> = plan.fetch_all(connection).await.unwrap();
        plan.into_iter().map(|(.., step)| step).collect()
    }

    /// No other process writes during a removal, so slow reads come before it.
    #[tokio::test]
    async fn what_is_removed_of_an_account_is_found_by_its_key() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        MIGRATIONS.run_direct(None, &mut connection, false).await.unwrap();
        let keys = [
            "(namespace=? AND account=? AND source=?)",
            "(tweet=? AND pipeline=? AND source=?)",
            "(tweet=? AND post>? AND post<?)",
        ];
        for ((table, _, remove), key) in REFERENCES.into_iter().zip(keys) {
            let plan = plan(&mut connection, remove).await;
            assert!(plan[0].contains(key), "{table}: {plan:?}");
        }
        for sql in [sql!("forget/remove_search_appearances.lite"), sql!("forget/clear_posts_of_appearances.lite")] {
            let plan = plan(&mut connection, sql).await;
            assert!(plan[0].contains("community_appearance_by_post (post=?)"), "{plan:?}");
        }
        for (table, _) in ACCOUNT_TABLES {
            let plan = plan(&mut connection, &namespaces_of_table(table)).await;
            assert!(!plan.iter().any(|step| step.contains(&format!("SCAN {table}"))), "{table}: {plan:?}");
        }
    }
}
