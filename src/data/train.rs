//! Training of the adaptive schedule from the histories of a store.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use futures::TryStreamExt;
use humantime::format_duration;
use serde::Serialize;

use collect::pipelines::kind::Histories;
use engine::base::clock::{self, Millis};
use engine::base::humanize::group_digits;
use engine::schedule::adaptive::model::Model;
use engine::schedule::adaptive::train::{Cascade, Tally, TooFewEvents, Training};
use engine::schedule::history::weighted;
use engine::schedule::{Schedule, ScheduledItem};
use store::Result;
use store::export::{Cell, ExportFilter, ExportTables, ExportedRow};

/// Maximum number of items in memory, some ten MB. More items are sampled.
const MAX_ITEMS: usize = 20_000;
/// Minimum number of items that were followed up to an age.
const MIN_ITEMS: usize = 500;
/// Maximum age, ms, at the first answer. Of later answers, the times of earlier events are unknown.
const FIRST_ANSWER_WITHIN_MS: Millis = 3_600_000;
/// An item counts as followed up to an age if its last answer came at this share of it or later.
const FOLLOWED_SHARE: f64 = 0.9;

#[derive(Debug, Clone)]
struct ItemHistory {
    id_hash: u64,
    created_at: Millis,
    last_at: Millis,
    /// Age, ms, and weighted count.
    counts: Vec<(Millis, f64)>,
}

/// A sample of a store's items: those with the smallest hashes of ids, so each item has the same chance.
#[derive(Debug)]
pub struct Sample {
    items: Vec<ItemHistory>,
    /// Maximum hash of the id of a sampled item.
    max_hash: u64,
    max_items: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error(
        "training needs at least {MIN_ITEMS} posts that were looked up in their first hour and followed for {}; there are \
         {found}. Collect for longer, or keep the built-in model",
        format_duration(clock::span(*horizon))
    )]
    TooFew {
        found: usize,
        /// The shortest sufficient age, ms.
        horizon: Millis,
    },
    #[error(transparent)]
    TooFewEvents(#[from] TooFewEvents),
}

#[derive(Debug, Clone, Serialize)]
pub struct TrainReport {
    #[serde(skip)]
    pub model: Model,
    pub posts: usize,
    pub followed_for_ms: Millis,
    /// Missed interactions of a model ÷ those of the age table with as many calls: 0.6 means 40 % fewer. The model is trained on one half
    /// of the items and measured on the other.
    pub missed_to_table: f64,
    /// The ratio of the model in use.
    pub missed_to_table_by_model_in_use: f64,
}

impl Default for Sample {
    fn default() -> Self {
        Self { items: Vec::new(), max_hash: u64::MAX, max_items: MAX_ITEMS }
    }
}

impl Sample {
    pub async fn read(
        tables: &dyn ExportTables,
        histories: &Histories,
        wanted: &ExportFilter,
        mut progress: impl FnMut(u64),
    ) -> Result<Self> {
        let mut sample = Self::default();
        let (mut rows, mut read) = (tables.rows(histories.table, wanted), 0);
        let mut current: Option<(String, ItemHistory)> = None;
        while let Some(row) = rows.try_next().await? {
            read += 1;
            progress(read);
            let Some((id, stored)) = parse_row(&row, &histories.weights) else { continue };
            match &mut current {
                Some((before, item)) if *before == id => item.counts.extend(stored.counts),
                _ => {
                    let done = current.replace((id, stored));
                    sample.extend(done.map(|(_, item)| item));
                }
            }
        }
        sample.extend(current.map(|(_, item)| item));
        Ok(sample)
    }

    fn extend(&mut self, item: Option<ItemHistory>) {
        let seen_early =
            |item: &ItemHistory| item.counts.first().is_some_and(|(age, _)| *age <= FIRST_ANSWER_WITHIN_MS);
        self.items.extend(item.filter(|item| item.id_hash <= self.max_hash && seen_early(item)));
        while self.items.len() > self.max_items {
            self.max_hash /= 2;
            let max_hash = self.max_hash;
            self.items.retain(|item| item.id_hash <= max_hash);
        }
    }

    /// Trains a model. The horizon of `training` is shortened if too few items were followed for that time. `schedule` is the one by which
    /// they were looked up.
    pub fn train(
        &self,
        training: Training,
        schedule: &dyn Schedule,
        in_use: &Model,
    ) -> std::result::Result<TrainReport, TrainError> {
        let followed = |horizon: Millis| -> Vec<&ItemHistory> {
            let age = |item: &ItemHistory| (item.last_at - item.created_at) as f64;
            self.items.iter().filter(|item| age(item) >= FOLLOWED_SHARE * horizon as f64).collect()
        };
        let brackets = training.table.brackets().iter().rev().map(|bracket| bracket.under);
        let ends: Vec<Millis> = brackets.filter(|end| *end <= training.horizon).collect();
        let horizon = ends.iter().copied().find(|end| followed(*end).len() >= MIN_ITEMS);
        let Some(horizon) = horizon else {
            let horizon = ends.last().copied().unwrap_or(training.horizon);
            return Err(TrainError::TooFew { found: followed(horizon).len(), horizon });
        };
        let training = Training { horizon, ..training };
        let longest = |item: &ItemHistory| {
            let item = ScheduledItem::new("", Some(item.created_at));
            move |age: Millis| {
                let at = item.history.created_at.unwrap_or(0) + age;
                schedule.longest_interval(&item, at).unwrap_or(Millis::MAX)
            }
        };
        let items = followed(horizon);
        let cascade = |item: &&ItemHistory| Cascade::from_counts(&item.counts, longest(item), horizon);
        let (one, other): (Vec<&ItemHistory>, Vec<&ItemHistory>) = items.iter().partition(|item| item.id_hash % 2 == 0);
        let [one, other, all] = [one, other, items].map(|items| items.iter().map(cascade).collect::<Vec<_>>());
        let table = training.evaluate_table(&other);
        let missed_ratio = |model: &Model| -> f64 {
            let Tally { missed, .. } = training.evaluate_model(&other, model, table.calls);
            missed / table.missed
        };
        let half = training.train(&one)?;
        Ok(TrainReport {
            posts: all.len(),
            followed_for_ms: horizon,
            missed_to_table: missed_ratio(&half),
            missed_to_table_by_model_in_use: missed_ratio(in_use),
            model: training.train(&all)?,
        })
    }
}

/// Parses a row of an item's history; `None` if its date or its counts are unknown.
fn parse_row(row: &ExportedRow, weights: &[f64]) -> Option<(String, ItemHistory)> {
    let number = |cell: &Cell| if let Cell::Number(number) = cell { Some(*number) } else { None };
    let [Cell::Text(id), created_at, last_at, at, counts @ ..] = &row.cells[..] else { return None };
    let (created_at, last_at, at) = (number(created_at)?, number(last_at)?, number(at)?);
    let counts: Vec<(Option<i64>, f64)> = counts.iter().map(number).zip(weights.iter().copied()).collect();
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    let counts = vec![((at - created_at).max(0), weighted(&counts)?)];
    Some((id.clone(), ItemHistory { id_hash: hasher.finish(), created_at, last_at, counts }))
}

impl fmt::Display for TrainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fewer = |share: f64| {
            let percent = ((1.0 - share) * 100.0).round();
            if percent >= 0.0 { format!("{percent} % fewer") } else { format!("{} % more", -percent) }
        };
        let followed = format_duration(clock::span(self.followed_for_ms));
        writeln!(f, "{} posts, each followed for {followed}", group_digits(self.posts as u64))?;
        writeln!(
            f,
            "Missed interactions with as many calls as tweet_age, on the half of the posts that it was not trained on:"
        )?;
        writeln!(f, "  this model          {} than tweet_age", fewer(self.missed_to_table))?;
        write!(f, "  the model in use    {} than tweet_age", fewer(self.missed_to_table_by_model_in_use))
    }
}
