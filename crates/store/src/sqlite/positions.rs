use async_trait::async_trait;

use super::forget::find_blocked;
use super::{SqliteStore, read, read_first, read_value, write};
use crate::positions::{SourceLine, merge_lines, to_saved_source};
use crate::rows::clean;
use crate::{Positions, Result, SavedPage, SavedSource, SourceGap, SourceRow, SourceTrouble};
use engine::base::clock::Millis;

#[async_trait]
impl Positions for SqliteStore {
    async fn saved_source(&self, namespace: &str, source: &str) -> Result<SavedSource> {
        let line = read_first(self.readers(), statement!("positions/saved", namespace, source));
        Ok(to_saved_source(line.await?))
    }

    async fn save_page(&self, namespace: &str, source: &str, page: &SavedPage<'_>) -> Result<bool> {
        let mut tx = self.begin().await?;
        let as_before = statement!("positions/is_followed_as_before.lite", namespace, source, page.followed_at);
        let is_away = !find_blocked(&mut tx, &self.keys, namespace, [source]).await?.is_empty();
        if is_away || !read_value(&mut *tx, as_before).await? {
            return Ok(false);
        }
        for gap in page.gaps {
            let statement =
                statement!("positions/save_gap.lite", namespace, source, &gap.from, &gap.to, &gap.reason, gap.noted_at);
            write(&mut *tx, statement).await?;
        }
        let SavedPage { position, is_start, at, has_new_posts, notes, .. } = *page;
        let notes = notes.map(clean);
        let statement =
            statement!("positions/save.lite", namespace, source, position, at, has_new_posts, notes, is_start);
        let saved = write(&mut *tx, statement).await?;
        tx.commit().await?;
        Ok(saved > 0)
    }

    async fn save_trouble(&self, namespace: &str, source: &str, trouble: &SourceTrouble) -> Result<()> {
        let mut tx = self.begin().await?;
        if !find_blocked(&mut tx, &self.keys, namespace, [source]).await?.is_empty() {
            return Ok(());
        }
        let SourceTrouble { since, failures, ref error, at } = *trouble;
        let (failures, error) = (i64::from(failures), clean(error));
        let statement = statement!("positions/save_trouble.lite", namespace, source, since, failures, error, at);
        write(&mut *tx, statement).await?;
        Ok(tx.commit().await?)
    }

    async fn was_another_source_read(
        &self,
        namespaces: &[String],
        (namespace, source): (&str, &str),
        (since, until): (Millis, Millis),
    ) -> Result<bool> {
        let namespaces = serde_json::json!(namespaces).to_string();
        let statement =
            statement!("positions/was_another_source_read.lite", namespaces, namespace, source, since, until);
        read_value(self.readers(), statement).await
    }

    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>> {
        read(self.readers(), statement!("positions/gaps", namespace, source)).await
    }

    async fn sources(&self, gaps: u32) -> Result<Vec<SourceRow>> {
        let lines: Vec<SourceLine> = read(self.readers(), statement!("positions/sources", i64::from(gaps))).await?;
        Ok(merge_lines(lines))
    }
}
