//! Positions in memory: a model of the contract for tests.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use twitter_updater::base::clock::Millis;
use twitter_updater::store::{Positions, SavedPage, SavedSource, SourceGap, SourceRow, SourceTrouble, StoreError};

#[derive(Debug, Default)]
pub struct MemoryPositions(Mutex<BTreeMap<(String, String), SourceRow>>, Mutex<BTreeMap<(String, String), String>>);

impl MemoryPositions {
    /// What is kept of a source.
    pub fn row(&self, namespace: &str, source: &str) -> SourceRow {
        let blank = SourceRow {
            namespace: namespace.to_owned(),
            source: source.to_owned(),
            position: None,
            saved_at: None,
            brought_at: None,
            trouble: None,
            gaps: 0,
            latest_gaps: Vec::new(),
        };
        let known = self.0.lock().unwrap().get(&(namespace.to_owned(), source.to_owned())).cloned();
        known.unwrap_or(blank)
    }

    fn put(&self, row: SourceRow) {
        self.0.lock().unwrap().insert((row.namespace.clone(), row.source.clone()), row);
    }
}

#[async_trait]
impl Positions for MemoryPositions {
    async fn saved_source(&self, namespace: &str, source: &str) -> Result<SavedSource, StoreError> {
        let SourceRow { position, trouble, .. } = self.row(namespace, source);
        let notes = self.1.lock().unwrap().get(&(namespace.to_owned(), source.to_owned())).cloned();
        Ok(SavedSource { position, trouble, notes, followed_at: None })
    }

    async fn save_page(&self, namespace: &str, source: &str, page: &SavedPage<'_>) -> Result<bool, StoreError> {
        let mut row = self.row(namespace, source);
        if page.is_start && row.position.is_some() {
            return Ok(false);
        }
        row.position = Some(page.position.to_owned());
        (row.saved_at, row.trouble) = (Some(page.at), None);
        row.brought_at = row.brought_at.filter(|_| !page.has_new_posts).or(Some(page.at));
        for gap in page.gaps {
            if !row.latest_gaps.iter().any(|known| known.from == gap.from && known.to == gap.to) {
                row.latest_gaps.insert(0, gap.clone());
            }
        }
        row.gaps = row.latest_gaps.len() as u64;
        self.put(row);
        if let Some(notes) = page.notes {
            self.1.lock().unwrap().insert((namespace.to_owned(), source.to_owned()), notes.to_owned());
        }
        Ok(true)
    }

    async fn save_trouble(&self, namespace: &str, source: &str, trouble: &SourceTrouble) -> Result<(), StoreError> {
        let mut row = self.row(namespace, source);
        row.brought_at = row.brought_at.or(Some(trouble.since));
        row.trouble = Some(trouble.clone());
        self.put(row);
        Ok(())
    }

    async fn was_another_source_read(
        &self,
        namespaces: &[String],
        (namespace, source): (&str, &str),
        (since, until): (Millis, Millis),
    ) -> Result<bool, StoreError> {
        let rows = self.0.lock().unwrap();
        Ok(rows.values().any(|row| {
            let is_other = (row.namespace.as_str(), row.source.as_str()) != (namespace, source);
            is_other && namespaces.contains(&row.namespace) && row.saved_at.is_some_and(|at| at > since && at <= until)
        }))
    }

    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>, StoreError> {
        Ok(self.row(namespace, source).latest_gaps.into_iter().rev().collect())
    }

    async fn sources(&self, gaps: u32) -> Result<Vec<SourceRow>, StoreError> {
        let mut rows: Vec<SourceRow> = self.0.lock().unwrap().values().cloned().collect();
        rows.iter_mut().for_each(|row| row.latest_gaps.truncate(gaps as usize));
        Ok(rows)
    }
}
