use async_trait::async_trait;

use super::PostgresStore;
use crate::positions::{merge_lines, to_saved_source};
use crate::rows::clean;
use crate::{Positions, Result, SavedPage, SavedSource, SourceGap, SourceRow, SourceTrouble};
use engine::base::clock::Millis;

#[async_trait]
impl Positions for PostgresStore {
    async fn saved_source(&self, namespace: &str, source: &str) -> Result<SavedSource> {
        Ok(to_saved_source(self.read_first(|| statement!("positions/saved", namespace, source)).await?))
    }

    async fn save_page(&self, namespace: &str, source: &str, page: &SavedPage<'_>) -> Result<bool> {
        let SavedPage { position, is_start, at, gaps, has_new_posts, notes, followed_at } = *page;
        let column = |of: fn(&SourceGap) -> &String| gaps.iter().map(|gap| &**of(gap)).collect::<Vec<&str>>();
        let (from, to, reason) = (column(|gap| &gap.from), column(|gap| &gap.to), column(|gap| &gap.reason));
        let noted_at: Vec<Millis> = gaps.iter().map(|gap| gap.noted_at).collect();
        let save = || {
            let save = statement!("positions/save.pg", namespace, source, position, at, &from, &to, &reason, &noted_at);
            let people = self.account_pseudonyms(namespace, [source]);
            save.bind(has_new_posts).bind(notes.map(clean)).bind(people).bind(followed_at).bind(is_start)
        };
        let saved: Option<(i64,)> = self.read_first(save).await?;
        assert!(saved.is_none_or(|(saved_at,)| saved_at == at));
        Ok(saved.is_some())
    }

    async fn save_trouble(&self, namespace: &str, source: &str, trouble: &SourceTrouble) -> Result<()> {
        let SourceTrouble { since, failures, ref error, at } = *trouble;
        let (failures, error) = (i64::from(failures), clean(error));
        let people = || self.account_pseudonyms(namespace, [source]);
        self.write(|| statement!("positions/save_trouble.pg", namespace, source, since, failures, &error, at, people()))
            .await
    }

    async fn was_another_source_read(
        &self,
        namespaces: &[String],
        (namespace, source): (&str, &str),
        (since, until): (Millis, Millis),
    ) -> Result<bool> {
        self.read_value(|| {
            statement!("positions/was_another_source_read.pg", namespaces, namespace, source, since, until)
        })
        .await
    }

    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>> {
        self.read(|| statement!("positions/gaps", namespace, source)).await
    }

    async fn sources(&self, gaps: u32) -> Result<Vec<SourceRow>> {
        Ok(merge_lines(self.read(|| statement!("positions/sources", i64::from(gaps))).await?))
    }
}
