use async_trait::async_trait;

use sqlx::Connection;

use super::{PostgresStore, timeout_error};
use crate::media;
use crate::rows::clean;
use crate::{
    FetchAttempt, FileReservation, MediaStore, MediaTotal, MediumSighting, ReservationOutcome, Result, StoredMedium,
    UnusedPage,
};
use engine::base::clock::Millis;
use engine::base::failpoint;

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
            let away = sqlx::query_scalar(sql!("media/blocked_authors.pg")).bind(people);
            let away: Vec<String> = away.fetch_one(&mut *transaction).await?;
            let is_kept =
                |seen: &&MediumSighting| !seen.author().is_some_and(|author| away.iter().any(|of| of == author));
            let (media, uses) = media::encode_media(&seen.iter().filter(is_kept).cloned().collect::<Vec<_>>());
            statement!("media/add_items.pg", namespace, &media).execute(&mut *transaction).await?;
            statement!("media/record.pg", namespace, media, uses).execute(&mut *transaction).await?;
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
        let rows = self.read(|| statement!("media/media.pg", namespace, &asked)).await?;
        Ok(media::order_by_ids(ids, rows))
    }

    async fn save_media(&self, namespace: &str, tried: &[FetchAttempt]) -> Result<Vec<String>> {
        if tried.is_empty() {
            return Ok(Vec::new());
        }
        let given = media::encode_attempts(tried);
        failpoint::point("before_commit"); // the statement is its own transaction
        self.read_column(|| statement!("media/save.pg", namespace, &given)).await
    }

    async fn media_uses(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<(String, Millis)>> {
        self.read(|| statement!("media/uses", namespace, clean(id), i64::from(limit))).await
    }

    async fn media_of_post(&self, namespace: &str, post: &str) -> Result<Vec<StoredMedium>> {
        self.read(|| statement!("media/of_post.pg", namespace, clean(post))).await
    }

    async fn media_totals(&self, namespace: &str) -> Result<Vec<MediaTotal>> {
        self.read(|| statement!("media/totals", namespace)).await
    }

    async fn media_bytes(&self) -> Result<i64> {
        self.read_value(|| statement!("media/total_file_bytes")).await
    }

    async fn unused_media(
        &self,
        namespace: &str,
        posts: &str,
        before: Millis,
        after: &str,
        limit: u32,
    ) -> Result<UnusedPage<StoredMedium>> {
        let page: Vec<String> =
            self.read_column(|| statement!("media/page.pg", namespace, after, i64::from(limit))).await?;
        self.write(|| statement!("media/remove_outlived_uses.pg", namespace, posts, before, &page)).await?;
        let unused = self.read(|| statement!("media/unused.pg", namespace, &page)).await?;
        Ok(UnusedPage::new(page, limit, unused))
    }

    async fn reserve_file(&self, sha256: &str, bytes: i64, at: Millis, cap: i64) -> Result<FileReservation> {
        let (is_new, was_known, used): (Option<bool>, bool, i64) =
            self.read_one(|| statement!("media/reserve_file.pg", sha256, bytes, at, cap, media::REMOVAL_MS)).await?;
        Ok(match (is_new, was_known) {
            (Some(true), _) => FileReservation { taken: ReservationOutcome::New, used: used + bytes },
            (Some(false), _) => FileReservation { taken: ReservationOutcome::Known, used },
            (None, true) => FileReservation { taken: ReservationOutcome::Busy, used },
            (None, false) => FileReservation { taken: ReservationOutcome::Full, used },
        })
    }

    async fn unused_files(&self, before: Millis, now: Millis, after: &str, limit: u32) -> Result<UnusedPage<String>> {
        let page: Vec<String> = self.read_column(|| statement!("media/files", after, i64::from(limit))).await?;
        let mut unused: Vec<String> =
            self.read_column(|| statement!("media/unused_files.pg", before, now, &page)).await?;
        if !unused.is_empty() {
            // A separate statement: the previous one does not see a save that it waited for.
            let named: Vec<String> = self.read_column(|| statement!("media/keep_named_files.pg", now, &unused)).await?;
            unused.retain(|file| !named.contains(file));
        }
        Ok(UnusedPage::new(page, limit, unused))
    }

    async fn forget_files(&self, sha256: &[String], now: Millis) -> Result<()> {
        self.write(|| statement!("media/forget_files.pg", sha256, now)).await
    }
}
