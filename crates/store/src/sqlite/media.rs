use async_trait::async_trait;

use super::{SqliteStore, forget};
use crate::media::{self, accepts_result, medium_columns, outlived_uses, removable, waits_again};
use crate::rows::clean;
use crate::{
    FetchAttempt, FileReservation, MediaStore, MediaTotal, MediumSighting, PersonSource, ReservationOutcome, Result,
    StoredMedium, UnusedPage,
};
use engine::base::clock::Millis;
use engine::base::failpoint;

// `CROSS JOIN` makes SQLite start with the given media. Otherwise it scans the namespace and reads the JSON again for each row.
const RECORD: &str = concat!(
    "INSERT INTO media_row AS of (tweet, url, kind, state, first_at) \
     SELECT tweet.key, value ->> 1, value ->> 2, 'waiting', value ->> 3 FROM json_each(?2) \
     CROSS JOIN tweet ON tweet.namespace = ?1 AND tweet.id = value ->> 0 WHERE TRUE ON CONFLICT (tweet) DO ",
    waits_again!()
);

const ADD: &str = "INSERT INTO tweet (namespace, id, state, first_seen, next_due, lookups, misses) \
     SELECT ?1, value ->> 0, 'live', value ->> 3, value ->> 3, 0, 0 FROM json_each(?2) WHERE TRUE ON CONFLICT DO NOTHING";

const USE: &str = "INSERT INTO media_use_row SELECT tweet.key, value ->> 1, value ->> 2 FROM json_each(?2) \
     CROSS JOIN tweet ON tweet.namespace = ?1 AND tweet.id = value ->> 0 WHERE TRUE ON CONFLICT DO NOTHING";

const MEDIA: &str = concat!(
    "SELECT ",
    medium_columns!(),
    " FROM media WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2))"
);

const SAVE: &str = concat!(
    "WITH given AS MATERIALIZED (SELECT tweet.key, value ->> 'state' AS state, value ->> 'url' AS url, \
     value ->> 'bytes' AS bytes, value ->> 'type' AS type, value ->> 'sha256' AS sha256, value ->> 'attempts' AS attempts, \
     value ->> 'failing_since' AS failing_since, value ->> 'reason' AS reason, value ->> 'at' AS at FROM json_each(?2) \
     CROSS JOIN tweet ON tweet.namespace = ?1 AND tweet.id = value ->> 'id'), \
     there AS (SELECT sha256 FROM media_file WHERE sha256 IN (SELECT sha256 FROM given) AND removing IS NULL) \
     UPDATE media_row AS of SET state = given.state, url = COALESCE(given.url, of.url), \
     bytes = COALESCE(given.bytes, of.bytes), type = COALESCE(given.type, of.type), sha256 = COALESCE(given.sha256, of.sha256), attempts = given.attempts, \
     failing_since = given.failing_since, reason = given.reason, checked_at = given.at FROM given \
     WHERE of.tweet = given.key AND ",
    accepts_result!("media_use_row AS used WHERE used.tweet = of.tweet"),
    " RETURNING (SELECT saved.id FROM tweet AS saved WHERE saved.key = tweet)"
);

const OF_POST: &str = concat!(
    "SELECT ",
    medium_columns!(),
    " FROM media WHERE namespace = ?1 AND id IN (SELECT tweet.id FROM media_use_row AS used \
     JOIN tweet ON tweet.key = used.tweet WHERE used.post = ?2 AND tweet.namespace = ?1) ORDER BY id"
);

const TAKE: &str = "INSERT INTO media_file (sha256, bytes, at) VALUES (?1, ?2, ?3) \
     ON CONFLICT (sha256) DO UPDATE SET at = MAX(at, excluded.at), removing = NULL";

const FILES: &str = "SELECT sha256 FROM media_file WHERE sha256 > ?1 ORDER BY sha256 LIMIT ?2";

const UNUSED_FILES: &str = concat!(
    "UPDATE media_file SET removing = $2 WHERE sha256 IN (SELECT value FROM json_each($3)) AND ",
    removable!(),
    " AND NOT EXISTS (SELECT 1 FROM media_row WHERE media_row.sha256 = media_file.sha256 AND media_row.state = 'stored') \
     RETURNING sha256"
);

const PAGE: &str = "SELECT tweet.id FROM tweet JOIN media_row ON media_row.tweet = tweet.key \
     WHERE tweet.namespace = ?1 AND tweet.id > ?2 ORDER BY tweet.id LIMIT ?3";

const OUTLIVE: &str = concat!(
    "DELETE FROM media_use_row WHERE tweet IN (SELECT key FROM tweet WHERE namespace = $1 \
     AND id IN (SELECT value FROM json_each($4))) AND ",
    outlived_uses!()
);

const UNUSED: &str = concat!(
    "SELECT ",
    medium_columns!(),
    " FROM media WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2)) AND state = 'stored' \
     AND NOT EXISTS (SELECT 1 FROM media_use WHERE media_use.namespace = ?1 AND media_use.id = media.id) ORDER BY id"
);

#[async_trait]
impl MediaStore for SqliteStore {
    async fn record_media(&self, namespace: &str, seen: &[MediumSighting]) -> Result<()> {
        if seen.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin().await?;
        let kept = match PersonSource::for_namespace(namespace) {
            Some(of) => {
                let authors: Vec<&str> = seen.iter().filter_map(MediumSighting::author).collect();
                let away = forget::find_blocked_in_network(&mut transaction, &self.keys, &of.network, authors).await?;
                seen.iter().filter(|seen| seen.author().is_none_or(|author| !away.contains(author))).cloned().collect()
            }
            None => seen.to_vec(),
        };
        let (media, uses) = media::encode_media(&kept);
        sqlx::query(ADD).bind(namespace).bind(&media).execute(&mut *transaction).await?;
        for (statement, given) in [(RECORD, media), (USE, uses)] {
            sqlx::query(statement).bind(namespace).bind(given).execute(&mut *transaction).await?;
        }
        Ok(transaction.commit().await?)
    }

    async fn media(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<StoredMedium>>> {
        let asked = super::json(ids.iter().map(|id| clean(id)));
        let rows = sqlx::query_as(MEDIA).bind(namespace).bind(asked).fetch_all(self.readers()).await?;
        Ok(media::order_by_ids(ids, rows))
    }

    async fn save_media(&self, namespace: &str, tried: &[FetchAttempt]) -> Result<Vec<String>> {
        if tried.is_empty() {
            return Ok(Vec::new());
        }
        let mut transaction = self.begin().await?;
        let given = media::encode_attempts(tried);
        let saved = sqlx::query_scalar(SAVE).bind(namespace).bind(given).fetch_all(&mut *transaction).await?;
        failpoint::point("before_commit");
        transaction.commit().await?;
        Ok(saved)
    }

    async fn media_uses(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<(String, Millis)>> {
        let uses = sqlx::query_as(media::USES).bind(namespace).bind(clean(id)).bind(limit);
        Ok(uses.fetch_all(self.readers()).await?)
    }

    async fn media_of_post(&self, namespace: &str, post: &str) -> Result<Vec<StoredMedium>> {
        Ok(sqlx::query_as(OF_POST).bind(namespace).bind(clean(post)).fetch_all(self.readers()).await?)
    }

    async fn media_totals(&self, namespace: &str) -> Result<Vec<MediaTotal>> {
        Ok(sqlx::query_as(media::TOTALS).bind(namespace).fetch_all(self.readers()).await?)
    }

    async fn media_bytes(&self) -> Result<i64> {
        Ok(sqlx::query_scalar(media::BYTES).fetch_one(self.readers()).await?)
    }

    async fn unused_media(
        &self,
        namespace: &str,
        posts: &str,
        before: Millis,
        after: &str,
        limit: u32,
    ) -> Result<UnusedPage<StoredMedium>> {
        let page = sqlx::query_scalar(PAGE).bind(namespace).bind(after).bind(limit);
        let page: Vec<String> = page.fetch_all(self.readers()).await?;
        let ids = super::json(page.iter().map(|id| id.as_str().into()));
        let mut transaction = self.begin().await?;
        let outlive = sqlx::query(OUTLIVE).bind(namespace).bind(posts).bind(before).bind(&ids);
        outlive.execute(&mut *transaction).await?;
        transaction.commit().await?;
        let unused = sqlx::query_as(UNUSED).bind(namespace).bind(&ids).fetch_all(self.readers()).await?;
        Ok(UnusedPage::new(page, limit, unused))
    }

    async fn reserve_file(&self, sha256: &str, bytes: i64, at: Millis, cap: i64) -> Result<FileReservation> {
        const REMOVING: &str = "SELECT removing FROM media_file WHERE sha256 = ?1";
        let mut transaction = self.begin().await?;
        let used: i64 = sqlx::query_scalar(media::BYTES).fetch_one(&mut *transaction).await?;
        let known: Option<Option<Millis>> =
            sqlx::query_scalar(REMOVING).bind(sha256).fetch_optional(&mut *transaction).await?;
        let room = match known {
            Some(Some(removing)) if removing >= at - media::REMOVAL_MS => {
                return Ok(FileReservation { taken: ReservationOutcome::Busy, used });
            }
            Some(_) => FileReservation { taken: ReservationOutcome::Known, used },
            None if cap > 0 && used + bytes > cap => {
                return Ok(FileReservation { taken: ReservationOutcome::Full, used });
            }
            None => FileReservation { taken: ReservationOutcome::New, used: used + bytes },
        };
        sqlx::query(TAKE).bind(sha256).bind(bytes).bind(at).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(room)
    }

    async fn unused_files(&self, before: Millis, now: Millis, after: &str, limit: u32) -> Result<UnusedPage<String>> {
        let page: Vec<String> = sqlx::query_scalar(FILES).bind(after).bind(limit).fetch_all(self.readers()).await?;
        let names = super::json(page.iter().map(|name| name.as_str().into()));
        let mut transaction = self.begin().await?;
        let unused = sqlx::query_scalar(UNUSED_FILES).bind(before).bind(now).bind(names);
        let unused = unused.fetch_all(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(UnusedPage::new(page, limit, unused))
    }

    async fn forget_files(&self, sha256: &[String], now: Millis) -> Result<()> {
        const FORGET: &str =
            "DELETE FROM media_file WHERE sha256 IN (SELECT value FROM json_each(?1)) AND removing = ?2";
        let mut transaction = self.begin().await?;
        let given = super::json(sha256.iter().map(|one| clean(one)));
        sqlx::query(FORGET).bind(given).bind(now).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }
}
