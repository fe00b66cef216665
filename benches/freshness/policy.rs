//! Policies that are compared.

use std::sync::Arc;

use twitter_updater::base::clock::{Millis, span};
use twitter_updater::engine::lane::Lane;
use twitter_updater::engine::schedule::adaptive::budget::{Normaliser, Spending};
use twitter_updater::engine::schedule::adaptive::model::Model;
use twitter_updater::engine::schedule::adaptive::{Adaptive, Options};
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::engine::schedule::history::History;

/// A schedule under comparison.
pub enum Policy {
    /// The age table, its intervals times a factor.
    Table { table: AgeTable, factor: f64 },
    /// An adaptive schedule, whose price is corrected once a day.
    Priced {
        table: AgeTable,
        model: Arc<Model>,
        options: Options,
        schedule: Box<Adaptive>,
        normaliser: Normaliser,
        known: Vec<f64>,
    },
}

impl Policy {
    pub fn table(table: &AgeTable, factor: f64) -> Self {
        Self::Table { table: table.clone(), factor }
    }

    pub fn adaptive(table: &AgeTable, model: &Model, share: f64) -> Self {
        let options = Options { share, ..Options::default() };
        Self::with(table, model.clone(), options, vec![])
    }

    /// The √-law without learning: each item is an average one.
    pub fn unlearned(table: &AgeTable, model: &Model, share: f64) -> Self {
        let coefficients = vec![[0.0; 4]; model.coefficients.len()];
        let options = Options { share, ..Options::default() };
        Self::with(table, Model { coefficients, ..model.clone() }, options, vec![])
    }

    /// True multipliers of the items.
    pub fn known(table: &AgeTable, model: &Model, share: f64, known: &[f64]) -> Self {
        let options = Options { share, ..Options::default() };
        Self::with(table, model.clone(), options, known.to_vec())
    }

    fn with(table: &AgeTable, model: Model, options: Options, known: Vec<f64>) -> Self {
        let (model, normaliser) = (Arc::new(model.with_derived_fields()), Normaliser::default());
        let schedule = Box::new(Adaptive::new(table.clone(), model.clone(), options, normaliser));
        Self::Priced { table: table.clone(), model, options, schedule, normaliser, known }
    }

    /// Its lane, interval from now, and what is stored for the next time.
    pub fn next(&self, cascade: usize, history: &History, now: Millis) -> Option<(Lane, Millis, Option<f64>)> {
        match self {
            Self::Table { table, factor } => {
                let lane = table.lane(history.created_at?, now)?;
                let lane = Lane::new(lane.name.clone(), span(lane.patience).mul_f64(*factor));
                let interval = lane.patience;
                Some((lane, interval, None))
            }
            Self::Priced { schedule, known, .. } => {
                let decision = match known.get(cascade) {
                    Some(multiplier) => schedule.next_with_multiplier(history, now, Some(*multiplier)),
                    None => schedule.next(history, now),
                }?;
                Some((decision.lane, decision.delay, decision.recent))
            }
        }
    }

    pub fn adaptive_schedule(&self) -> Option<&Adaptive> {
        match self {
            Self::Table { .. } => None,
            Self::Priced { schedule, .. } => Some(schedule),
        }
    }

    pub fn day_ends(&mut self, day: &Spending) {
        if let Self::Priced { table, model, options, schedule, normaliser, .. } = self {
            *normaliser = normaliser.after_day(day, options.share);
            **schedule = Adaptive::new(table.clone(), model.clone(), *options, *normaliser);
        }
    }

    pub fn normaliser(&self) -> Normaliser {
        match self {
            Self::Table { .. } => Normaliser::default(),
            Self::Priced { normaliser, .. } => *normaliser,
        }
    }
}
