use async_trait::async_trait;

use super::{SqliteStore, forget, read, read_column, read_first_value, read_value, write};
use crate::media::{self};
use crate::rows::clean;
use crate::{
    FetchAttempt, FileReservation, MediaStore, MediaTotal, MediumSighting, PersonSource, ReservationOutcome, Result,
    StoredMedium, UnusedPage,
};
use engine::base::clock::Millis;
use engine::base::failpoint;

#[async_trait]
impl MediaStore for SqliteStore {
    async fn record_media(&self, namespace: &str, seen: &[MediumSighting]) -> Result<()> {
        if seen.is_empty() {
            return Ok(());
        }
        let mut tx = self.begin().await?;
        let kept = match PersonSource::for_namespace(namespace) {
            Some(of) => {
                let authors: Vec<&str> = seen.iter().filter_map(MediumSighting::author).collect();
                let away = forget::find_blocked_in_network(&mut tx, &self.keys, &of.network, authors).await?;
                seen.iter().filter(|seen| seen.author().is_none_or(|author| !away.contains(author))).cloned().collect()
            }
            None => seen.to_vec(),
        };
        let (media, uses) = media::encode_media(&kept);
        write(&mut *tx, statement!("media/add_items.lite", namespace, &media)).await?;
        for (statement, given) in [(sql!("media/record.lite"), media), (sql!("media/record_uses.lite"), uses)] {
            write(&mut *tx, statement!(statement, namespace, given)).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn media(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<StoredMedium>>> {
        let asked = super::json(ids.iter().map(|id| clean(id)));
        let rows = read(self.readers(), statement!("media/media.lite", namespace, asked)).await?;
        Ok(media::order_by_ids(ids, rows))
    }

    async fn save_media(&self, namespace: &str, tried: &[FetchAttempt]) -> Result<Vec<String>> {
        if tried.is_empty() {
            return Ok(Vec::new());
        }
        let mut tx = self.begin().await?;
        let given = media::encode_attempts(tried);
        let saved = read_column(&mut *tx, statement!("media/save.lite", namespace, given)).await?;
        failpoint::point("before_commit");
        tx.commit().await?;
        Ok(saved)
    }

    async fn media_uses(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<(String, Millis)>> {
        read(self.readers(), statement!("media/uses", namespace, clean(id), limit)).await
    }

    async fn media_of_post(&self, namespace: &str, post: &str) -> Result<Vec<StoredMedium>> {
        read(self.readers(), statement!("media/of_post.lite", namespace, clean(post))).await
    }

    async fn media_totals(&self, namespace: &str) -> Result<Vec<MediaTotal>> {
        read(self.readers(), statement!("media/totals", namespace)).await
    }

    async fn media_bytes(&self) -> Result<i64> {
        read_value(self.readers(), statement!("media/total_file_bytes")).await
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
            read_column(self.readers(), statement!("media/page.lite", namespace, after, limit)).await?;
        let ids = super::json(page.iter().map(|id| id.as_str().into()));
        let mut tx = self.begin().await?;
        write(&mut *tx, statement!("media/remove_outlived_uses.lite", namespace, posts, before, &ids)).await?;
        tx.commit().await?;
        let unused = read(self.readers(), statement!("media/unused.lite", namespace, &ids)).await?;
        Ok(UnusedPage::new(page, limit, unused))
    }

    async fn reserve_file(&self, sha256: &str, bytes: i64, at: Millis, cap: i64) -> Result<FileReservation> {
        let mut tx = self.begin().await?;
        let used: i64 = read_value(&mut *tx, statement!("media/total_file_bytes")).await?;
        let known: Option<Option<Millis>> =
            read_first_value(&mut *tx, statement!("media/removal_started_at.lite", sha256)).await?;
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
        write(&mut *tx, statement!("media/reserve_file.lite", sha256, bytes, at)).await?;
        tx.commit().await?;
        Ok(room)
    }

    async fn unused_files(&self, before: Millis, now: Millis, after: &str, limit: u32) -> Result<UnusedPage<String>> {
        let page: Vec<String> = read_column(self.readers(), statement!("media/files", after, limit)).await?;
        let names = super::json(page.iter().map(|name| name.as_str().into()));
        let mut tx = self.begin().await?;
        let unused = read_column(&mut *tx, statement!("media/unused_files.lite", before, now, names)).await?;
        tx.commit().await?;
        Ok(UnusedPage::new(page, limit, unused))
    }

    async fn forget_files(&self, sha256: &[String], now: Millis) -> Result<()> {
        let mut tx = self.begin().await?;
        let given = super::json(sha256.iter().map(|one| clean(one)));
        write(&mut *tx, statement!("media/forget_files.lite", given, now)).await?;
        Ok(tx.commit().await?)
    }
}
