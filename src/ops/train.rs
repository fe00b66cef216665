//! Training of the adaptive schedule from the histories of a store.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use futures::TryStreamExt;
use humantime::format_duration;
use serde::Serialize;

use crate::base::clock::{self, Millis};
use crate::base::humanize::grouped;
use crate::engine::schedule::adaptive::model::Model;
use crate::engine::schedule::adaptive::train::{Cascade, Tally, TooLittle, Training};
use crate::engine::schedule::history::weighted;
use crate::engine::schedule::{Known, Schedule};
use crate::pipelines::kind::Histories;
use crate::store::Result;
use crate::store::export::{Cell, Exported, Tables, Wanted};

/// Maximum number of items in memory, some ten MB. If there are more, they are sampled.
const MOST: usize = 20_000;
/// Minimum number of items: fewer say too little about an age.
const FEWEST: usize = 500;
/// An item that was first looked up later than this after its creation is left out: the times of its events are unknown.
const FIRST_ANSWER: Millis = 3_600_000;
/// An item counts as followed up to an age if it was answered at this share of it.
const FOLLOWED: f64 = 0.9;

#[derive(Debug, Clone)]
struct Stored {
    lot: u64,
    created_at: Millis,
    last_at: Millis,
    /// Age, ms, and weighted count.
    counts: Vec<(Millis, f64)>,
}

/// A sample of a store's items. Each item has the same chance, in any order.
#[derive(Debug)]
pub struct Sample {
    items: Vec<Stored>,
    /// Items whose lot is greater are left out.
    below: u64,
    most: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum CannotTrain {
    #[error(
        "training needs at least {FEWEST} posts that were looked up in their first hour and followed for {}; there are \
         {found}. Collect for longer, or keep the built-in model",
        format_duration(clock::span(*horizon))
    )]
    TooFew {
        /// Items that were followed up to that age.
        found: usize,
        /// The shortest sufficient age, ms.
        horizon: Millis,
    },
    #[error(transparent)]
    TooLittle(#[from] TooLittle),
}

#[derive(Debug, Clone, Serialize)]
pub struct Trained {
    #[serde(skip)]
    pub model: Model,
    pub posts: usize,
    pub followed_for_ms: Millis,
    /// Missed interactions ÷ those of the age table with the same number of calls. Measured on the half of the items that a model was not
    /// trained on: 0.6 means 40 % fewer.
    pub missed_to_table: f64,
    /// The same ratio for the model in use.
    pub missed_to_table_by_model_in_use: f64,
}

impl Default for Sample {
    fn default() -> Self {
        Self { items: Vec::new(), below: u64::MAX, most: MOST }
    }
}

impl Sample {
    pub async fn read(
        tables: &dyn Tables,
        histories: &Histories,
        wanted: &Wanted,
        mut progress: impl FnMut(u64),
    ) -> Result<Self> {
        let mut sample = Self::default();
        let (mut rows, mut read) = (tables.rows(histories.table, wanted), 0);
        let mut current: Option<(String, Stored)> = None;
        while let Some(row) = rows.try_next().await? {
            read += 1;
            progress(read);
            let Some((id, stored)) = stored(&row, &histories.weights) else { continue };
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

    fn extend(&mut self, item: Option<Stored>) {
        let seen_early = |item: &Stored| item.counts.first().is_some_and(|(age, _)| *age <= FIRST_ANSWER);
        self.items.extend(item.filter(|item| item.lot <= self.below && seen_early(item)));
        while self.items.len() > self.most {
            self.below /= 2;
            let below = self.below;
            self.items.retain(|item| item.lot <= below);
        }
    }

    /// Trains a model. `training` has the horizon of the age table, which is shortened if too few items were followed for that time.
    /// `schedule` is the one by which they were looked up.
    pub fn train(
        &self,
        training: Training,
        schedule: &dyn Schedule,
        in_use: &Model,
    ) -> std::result::Result<Trained, CannotTrain> {
        let followed = |horizon: Millis| -> Vec<&Stored> {
            let age = |item: &Stored| (item.last_at - item.created_at) as f64;
            self.items.iter().filter(|item| age(item) >= FOLLOWED * horizon as f64).collect()
        };
        let brackets = training.table.brackets().iter().rev().map(|bracket| bracket.under);
        let ends: Vec<Millis> = brackets.filter(|end| *end <= training.horizon).collect();
        let horizon = ends.iter().copied().find(|end| followed(*end).len() >= FEWEST);
        let Some(horizon) = horizon else {
            let horizon = ends.last().copied().unwrap_or(training.horizon);
            return Err(CannotTrain::TooFew { found: followed(horizon).len(), horizon });
        };
        let training = Training { horizon, ..training };
        let longest = |item: &Stored| {
            let item = Known::new("", Some(item.created_at));
            move |age: Millis| {
                let at = item.history.created_at.unwrap_or(0) + age;
                schedule.longest(&item, at).unwrap_or(Millis::MAX)
            }
        };
        let items = followed(horizon);
        let cascade = |item: &&Stored| Cascade::of_counts(&item.counts, longest(item), horizon);
        let (one, other): (Vec<&Stored>, Vec<&Stored>) = items.iter().partition(|item| item.lot % 2 == 0);
        let [one, other, all] = [one, other, items].map(|items| items.iter().map(cascade).collect::<Vec<_>>());
        let table = training.by_table(&other);
        let worth = |model: &Model| -> f64 {
            let Tally { missed, .. } = training.by_model(&other, model, table.calls);
            missed / table.missed
        };
        let half = training.train(&one)?;
        Ok(Trained {
            posts: all.len(),
            followed_for_ms: horizon,
            missed_to_table: worth(&half),
            missed_to_table_by_model_in_use: worth(in_use),
            model: training.train(&all)?,
        })
    }
}

/// The row of an item; `None` if its date or its counts are unknown.
fn stored(row: &Exported, weights: &[f64]) -> Option<(String, Stored)> {
    let number = |cell: &Cell| if let Cell::Number(number) = cell { Some(*number) } else { None };
    let [Cell::Text(id), created_at, last_at, at, counts @ ..] = &row.cells[..] else { return None };
    let (created_at, last_at, at) = (number(created_at)?, number(last_at)?, number(at)?);
    let counts: Vec<(Option<i64>, f64)> = counts.iter().map(number).zip(weights.iter().copied()).collect();
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    let counts = vec![((at - created_at).max(0), weighted(&counts)?)];
    Some((id.clone(), Stored { lot: hasher.finish(), created_at, last_at, counts }))
}

impl fmt::Display for Trained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fewer = |share: f64| {
            let percent = ((1.0 - share) * 100.0).round();
            if percent >= 0.0 { format!("{percent} % fewer") } else { format!("{} % more", -percent) }
        };
        let followed = format_duration(clock::span(self.followed_for_ms));
        writeln!(f, "{} posts, each followed for {followed}", grouped(self.posts as u64))?;
        writeln!(
            f,
            "Missed interactions with the calls of tweet_age, on the half of them that it was not trained on:"
        )?;
        writeln!(f, "  this model          {} than tweet_age", fewer(self.missed_to_table))?;
        write!(f, "  the model in use    {} than tweet_age", fewer(self.missed_to_table_by_model_in_use))
    }
}
