use async_trait::async_trait;

use sqlx::Connection;

use super::{PostgresStore, timeout_error};
use crate::media::{self, accepts_result, medium_columns, outlived_uses, removable, waits_again};
use crate::rows::clean;
use crate::{
    FetchAttempt, FileReservation, MediaStore, MediaTotal, MediumSighting, ReservationOutcome, Result, StoredMedium,
    UnusedPage,
};
use engine::base::clock::Millis;
use engine::base::failpoint;

/// Each medium is named once, in the order of the ids, so overlapping batches wait for each other and cannot deadlock.
const RECORD: &str = concat!(
    "WITH known AS (INSERT INTO media AS of (namespace, id, url, kind, state, first_at) \
     SELECT $1, tweet.id, value ->> 1, value ->> 2, 'waiting', (value ->> 3)::bigint \
     FROM json_array_elements($2::json) AS given (value) \
     JOIN tweet ON tweet.namespace = $1 AND tweet.id = value ->> 0 ORDER BY tweet.id COLLATE \"C\" \
     ON CONFLICT (namespace, id) DO ",
    waits_again!(),
    ") INSERT INTO media_use SELECT $1, tweet.id, value ->> 1, (value ->> 2)::bigint \
     FROM json_array_elements($3::json) AS given (value) \
     JOIN tweet ON tweet.namespace = $1 AND tweet.id = value ->> 0 ORDER BY tweet.id COLLATE \"C\", value ->> 1 \
     ON CONFLICT DO NOTHING"
);

/// Blocks `forget` until the end of the transaction.
const AWAY: &str = "SELECT CASE WHEN EXISTS (SELECT FROM forgotten_person) THEN forgotten_among($1) ELSE '{}' END";

const ADD: &str = "INSERT INTO tweet (namespace, id, state, first_seen, next_due, lookups, misses) \
     SELECT $1, value ->> 0, 'live', (value ->> 3)::bigint, (value ->> 3)::bigint, 0, 0 \
     FROM json_array_elements($2::json) AS given (value) ORDER BY (value ->> 0) COLLATE \"C\" ON CONFLICT DO NOTHING";

const MEDIA: &str = concat!("SELECT ", medium_columns!(), " FROM media WHERE namespace = $1 AND id = ANY($2)");

/// A removal of a file waits for saves that are about to name it, and sees them then.
const SAVE: &str = concat!(
    "WITH given AS MATERIALIZED (SELECT * FROM json_to_recordset($2::json) AS given (id text, state text, url text, \
     bytes bigint, type text, sha256 text, attempts bigint, failing_since bigint, reason text, at bigint)), \
     there AS MATERIALIZED (SELECT sha256 FROM media_file WHERE sha256 IN (SELECT sha256 COLLATE \"C\" FROM given \
     WHERE state = 'stored') AND removing IS NULL ORDER BY sha256 FOR SHARE) \
     UPDATE media AS of SET state = given.state, url = COALESCE(given.url, of.url), \
     bytes = COALESCE(given.bytes, of.bytes), type = COALESCE(given.type, of.type), sha256 = COALESCE(given.sha256, of.sha256), attempts = given.attempts, \
     failing_since = given.failing_since, reason = given.reason, checked_at = given.at FROM given \
     WHERE of.namespace = $1 AND of.id = given.id COLLATE \"C\" AND ",
    accepts_result!("media_use AS used WHERE used.namespace = $1 AND used.id = of.id"),
    " RETURNING of.id"
);

const OF_POST: &str = concat!(
    "SELECT ",
    medium_columns!(),
    " FROM media WHERE namespace = $1 AND id IN (SELECT id FROM media_use WHERE namespace = $1 AND post = $2) ORDER BY id"
);

/// The statement locks the row of the room to its end, so the next one sees its bytes.
const TAKE: &str = "WITH room AS MATERIALIZED (SELECT bytes FROM media_room FOR UPDATE), \
     taken AS (INSERT INTO media_file AS of (sha256, bytes, at) SELECT $1, $2, $3 FROM room \
     WHERE $4 = 0 OR room.bytes + $2 <= $4 OR EXISTS (SELECT 1 FROM media_file WHERE sha256 = $1) \
     ON CONFLICT (sha256) DO UPDATE SET at = GREATEST(of.at, excluded.at), removing = NULL \
     WHERE of.removing IS NULL OR of.removing < $3 - $5 RETURNING xmax = 0 AS is_new) \
     SELECT (SELECT is_new FROM taken), EXISTS (SELECT 1 FROM media_file WHERE sha256 = $1), room.bytes FROM room";

const FILES: &str = "SELECT sha256 FROM media_file WHERE sha256 > $1 ORDER BY sha256 LIMIT $2";

const UNUSED_FILES: &str = concat!(
    "UPDATE media_file SET removing = $2 WHERE sha256 = ANY($3) AND ",
    removable!(),
    " AND NOT EXISTS (SELECT 1 FROM media WHERE media.sha256 = media_file.sha256 AND media.state = 'stored') \
     RETURNING sha256"
);

/// Just marked files that a medium names which was saved meanwhile.
const NAMED_FILES: &str = "UPDATE media_file SET removing = NULL WHERE sha256 = ANY($2) AND removing = $1 \
     AND EXISTS (SELECT 1 FROM media WHERE media.sha256 = media_file.sha256 AND media.state = 'stored') RETURNING sha256";

/// Locks the row of the room first, as a reservation does.
const FORGET: &str = "WITH room AS MATERIALIZED (SELECT bytes FROM media_room FOR UPDATE) \
     DELETE FROM media_file USING room WHERE sha256 = ANY($1) AND removing = $2";

const PAGE: &str = "SELECT id FROM media WHERE namespace = $1 AND id > $2 ORDER BY id LIMIT $3";

const OUTLIVE: &str = concat!("DELETE FROM media_use WHERE namespace = $1 AND id = ANY($4) AND ", outlived_uses!());

const UNUSED: &str = concat!(
    "SELECT ",
    medium_columns!(),
    " FROM media WHERE namespace = $1 AND id = ANY($2) AND state = 'stored' AND NOT EXISTS (SELECT 1 FROM media_use \
     WHERE media_use.namespace = $1 AND media_use.id = media.id) ORDER BY id"
);

#[async_trait]
impl MediaStore for PostgresStore {
    async fn record_media(&self, namespace: &str, seen: &[MediumSighting]) -> Result<()> {
        if seen.is_empty() {
            return Ok(());
        }
        if self.keys.loaded_key().is_none() {
            self.load_key().await?; // a transaction that misses it has to be made again
        }
        let people = self.account_pseudonyms(namespace, seen.iter().filter_map(MediumSighting::author));
        let (call_timeout, mut connection) = (self.call_timeout, self.pool.acquire().await?);
        let done = async {
            let mut transaction = connection.begin().await?;
            let away: Vec<String> = sqlx::query_scalar(AWAY).bind(people).fetch_one(&mut *transaction).await?;
            let is_kept =
                |seen: &&MediumSighting| !seen.author().is_some_and(|author| away.iter().any(|of| of == author));
            let (media, uses) = media::encode_media(&seen.iter().filter(is_kept).cloned().collect::<Vec<_>>());
            sqlx::query(ADD).bind(namespace).bind(&media).execute(&mut *transaction).await?;
            sqlx::query(RECORD).bind(namespace).bind(media).bind(uses).execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        };
        let done = tokio::time::timeout(call_timeout, done).await.unwrap_or_else(|_| Err(timeout_error(call_timeout)));
        if done.is_err() {
            drop(connection.detach()); // it may hold locks
        }
        done
    }

    async fn media(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<StoredMedium>>> {
        let asked: Vec<String> = ids.iter().map(|id| clean(id).into_owned()).collect();
        let rows = self.rows(|| sqlx::query(MEDIA).bind(namespace.to_owned()).bind(asked.clone())).await?;
        Ok(media::order_by_ids(ids, rows))
    }

    async fn save_media(&self, namespace: &str, tried: &[FetchAttempt]) -> Result<Vec<String>> {
        if tried.is_empty() {
            return Ok(Vec::new());
        }
        let given = media::encode_attempts(tried);
        failpoint::point("before_commit"); // the statement is its own transaction
        let saved: Vec<(String,)> =
            self.rows(|| sqlx::query(SAVE).bind(namespace.to_owned()).bind(given.clone())).await?;
        Ok(saved.into_iter().map(|(id,)| id).collect())
    }

    async fn media_uses(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<(String, Millis)>> {
        let statement = || sqlx::query(media::USES).bind(namespace.to_owned()).bind(clean(id).into_owned());
        self.rows(|| statement().bind(i64::from(limit))).await
    }

    async fn media_of_post(&self, namespace: &str, post: &str) -> Result<Vec<StoredMedium>> {
        self.rows(|| sqlx::query(OF_POST).bind(namespace.to_owned()).bind(clean(post).into_owned())).await
    }

    async fn media_totals(&self, namespace: &str) -> Result<Vec<MediaTotal>> {
        self.rows(|| sqlx::query(media::TOTALS).bind(namespace.to_owned())).await
    }

    async fn media_bytes(&self) -> Result<i64> {
        let (bytes,): (i64,) = self.row(|| sqlx::query(media::BYTES)).await?;
        Ok(bytes)
    }

    async fn unused_media(
        &self,
        namespace: &str,
        posts: &str,
        before: Millis,
        after: &str,
        limit: u32,
    ) -> Result<UnusedPage<StoredMedium>> {
        let page = || sqlx::query(PAGE).bind(namespace.to_owned()).bind(after.to_owned()).bind(i64::from(limit));
        let page: Vec<(String,)> = self.rows(page).await?;
        let page: Vec<String> = page.into_iter().map(|(id,)| id).collect();
        let outlive = || sqlx::query(OUTLIVE).bind(namespace.to_owned()).bind(posts.to_owned()).bind(before);
        let _: Vec<()> = self.rows(|| outlive().bind(page.clone())).await?;
        let unused = self.rows(|| sqlx::query(UNUSED).bind(namespace.to_owned()).bind(page.clone())).await?;
        Ok(UnusedPage::new(page, limit, unused))
    }

    async fn reserve_file(&self, sha256: &str, bytes: i64, at: Millis, cap: i64) -> Result<FileReservation> {
        let take = || sqlx::query(TAKE).bind(sha256.to_owned()).bind(bytes).bind(at).bind(cap).bind(media::REMOVAL_MS);
        let (is_new, was_known, used): (Option<bool>, bool, i64) = self.row(take).await?;
        Ok(match (is_new, was_known) {
            (Some(true), _) => FileReservation { taken: ReservationOutcome::New, used: used + bytes },
            (Some(false), _) => FileReservation { taken: ReservationOutcome::Known, used },
            (None, true) => FileReservation { taken: ReservationOutcome::Busy, used },
            (None, false) => FileReservation { taken: ReservationOutcome::Full, used },
        })
    }

    async fn unused_files(&self, before: Millis, now: Millis, after: &str, limit: u32) -> Result<UnusedPage<String>> {
        let page = || sqlx::query(FILES).bind(after.to_owned()).bind(i64::from(limit));
        let page: Vec<(String,)> = self.rows(page).await?;
        let page: Vec<String> = page.into_iter().map(|(sha256,)| sha256).collect();
        let unused = || sqlx::query(UNUSED_FILES).bind(before).bind(now).bind(page.clone());
        let mut unused: Vec<(String,)> = self.rows(unused).await?;
        if !unused.is_empty() {
            // A separate statement: the previous one does not see a save that it waited for.
            let marked: Vec<String> = unused.iter().map(|(sha256,)| sha256.clone()).collect();
            let named: Vec<(String,)> = self.rows(|| sqlx::query(NAMED_FILES).bind(now).bind(marked.clone())).await?;
            unused.retain(|file| !named.contains(file));
        }
        Ok(UnusedPage::new(page, limit, unused.into_iter().map(|(sha256,)| sha256).collect()))
    }

    async fn forget_files(&self, sha256: &[String], now: Millis) -> Result<()> {
        let _: Vec<()> = self.rows(|| sqlx::query(FORGET).bind(sha256.to_vec()).bind(now)).await?;
        Ok(())
    }
}
