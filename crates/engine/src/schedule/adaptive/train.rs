//! Training of a [`Model`]: from the events of many items to a decay curve and coefficients. Pure.
//!
//! The cost of a wrong rate is known. An item with rate λ, refreshed as if it were λ̂, costs λ λ̂^-½ + λ̂^½, times a constant.
//! The cost is per unit of time, for missed events and for calls at their price. It is least at λ̂ = E λ and convex in ln λ̂, so
//! training minimizes it. A Poisson likelihood would let the few busiest items decide. The samples are the decisions of the
//! schedule itself, so it is trained on its own intervals: train, run, train again.

use std::sync::Arc;

use super::budget::{Normaliser, table_calls};
use super::curve::Curve;
use super::model::{Counts, FEATURES, Model};
use super::{Adaptive, Options};
use crate::base::clock::Millis;
use crate::schedule::age::AgeTable;
use crate::schedule::history::{Answer, History, sane};

#[derive(Debug, Clone)]
pub struct Cascade {
    /// Ages of its events, ms, rising.
    ages: Vec<Millis>,
    /// Number of events before each of them, and in all.
    counts: Vec<f64>,
    /// Sums of the ages before each event and after the last.
    sums: Vec<f64>,
}

impl Cascade {
    /// Takes the ages of events, s, in any order. Drops ages that are not above 0, at or beyond `horizon`, or not finite. Equal ages
    /// are separate events.
    #[must_use]
    pub fn new(ages_s: &[f64], horizon: Millis) -> Self {
        let ages = ages_s.iter().filter(|age| age.is_finite()).map(|age| ((age * 1e3) as Millis, 1.0));
        Self::from_events(ages.collect(), horizon)
    }

    /// Takes an item's counts at ages, ms, rising. Events between two counts are spread evenly over the time since the last answer,
    /// at most `longest(age)`, since a history has no answers without a change. A count below an earlier one adds nothing.
    #[must_use]
    pub fn from_counts(counts: &[(Millis, f64)], longest: impl Fn(Millis) -> Millis, horizon: Millis) -> Self {
        let (mut before, mut seen) = (0, 0.0);
        let mut events = Vec::new();
        for &(age, count) in counts {
            let more = sane(count) - seen;
            if more > 0.0 {
                let from = before.max(age.saturating_sub(longest(age)));
                let pieces = more.ceil().min(PIECES);
                let at = |piece: usize| from + ((age - from) as f64 * (piece as f64 + 0.5) / pieces) as Millis;
                events.extend((0..pieces as usize).map(|piece| (at(piece), more / pieces)));
                seen += more;
            }
            before = age;
        }
        Self::from_events(events, horizon)
    }

    fn from_events(mut events: Vec<(Millis, f64)>, horizon: Millis) -> Self {
        events.retain(|(age, _)| *age > 0 && *age < horizon);
        events.sort_unstable_by_key(|(age, _)| *age);
        let (mut counts, mut sums) = (vec![0.0], vec![0.0]);
        for (at, (age, weight)) in events.iter().enumerate() {
            counts.push(counts[at] + weight);
            sums.push(sums[at] + weight * *age as f64);
        }
        Self { ages: events.into_iter().map(|(age, _)| age).collect(), counts, sums }
    }

    /// Number of events up to an age, ms: an index into the lists.
    fn events_until(&self, age: Millis) -> usize {
        self.ages.partition_point(|event| *event <= age)
    }

    #[must_use]
    pub fn count(&self, age: Millis) -> f64 {
        self.counts[self.events_until(age)]
    }

    fn total(&self) -> f64 {
        self.counts[self.ages.len()]
    }

    /// Σ (to − event) over its events after `from` and not after `to`, event seconds.
    #[must_use]
    pub fn loss(&self, from: Millis, to: Millis) -> f64 {
        let (first, last) = (self.events_until(from), self.events_until(to).max(self.events_until(from)));
        ((self.counts[last] - self.counts[first]) * to as f64 - (self.sums[last] - self.sums[first])) / 1e3
    }
}

/// Maximum number of moments over which an increment is spread.
const PIECES: f64 = 8.0;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tally {
    pub calls: f64,
    /// Missed, event seconds.
    pub missed: f64,
}

/// Simulates the life of one item from age 0 to `horizon`, ms: `next` returns the interval to the next refresh. A last call ends
/// the life; missed events count only up to the horizon.
pub fn simulate_life(
    cascade: &Cascade,
    horizon: Millis,
    mut next: impl FnMut(&History) -> (Millis, Option<f64>),
) -> Tally {
    let mut history = History { created_at: Some(0), ..History::default() };
    let mut tally = Tally::default();
    let mut at = 0;
    while at < horizon {
        let (interval, recent) = next(&history);
        let due = at + interval.max(1);
        tally.calls += 1.0;
        tally.missed += cascade.loss(at, due.min(horizon));
        history.before = history.last;
        history.recent = recent;
        history.last = Some(Answer { at: due, count: cascade.count(due) });
        at = due;
    }
    tally
}

#[must_use]
pub fn simulate_all(cascades: &[Cascade], horizon: Millis, schedule: &Adaptive) -> Tally {
    let mut sum = Tally::default();
    for cascade in cascades {
        let tally = simulate_life(cascade, horizon, |history| decide(schedule, history, horizon));
        sum = Tally { calls: sum.calls + tally.calls, missed: sum.missed + tally.missed };
    }
    sum
}

fn decide(schedule: &Adaptive, history: &History, horizon: Millis) -> (Millis, Option<f64>) {
    let now = history.last.map_or(0, |answer| answer.at);
    schedule.next(history, now).map_or((horizon, None), |decision| (decision.interval, decision.recent))
}

#[derive(Debug, Clone)]
pub struct Training {
    /// The age table, whose calls are the budget.
    pub table: AgeTable,
    pub options: Options,
    /// Age up to which the events are known, ms; at most the table's lifetime is used.
    pub horizon: Millis,
    pub source: String,
    pub command: String,
    pub fade: f64,
    pub multipliers: (f64, f64),
}

impl Training {
    /// Uses the settings that did best in `cargo bench -- freshness`.
    #[must_use]
    pub fn new(table: AgeTable, horizon: Millis) -> Self {
        let (source, command) = (String::new(), String::new());
        Self { table, options: Options::default(), horizon, source, command, fade: 2.0, multipliers: (0.25, 100.0) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooFewEvents {
    #[error("training needs at least 10 items with 200 events in all; there are {items} with {events}")]
    Items { items: usize, events: usize },
}

/// Ratio of neighbouring knots of the decay curve, and of neighbouring ages of coefficients.
const KNOT_RATIO: f64 = 1.6;
const BAND_RATIO: f64 = 3.5;
/// The first of each, s.
const FIRST_KNOT_S: f64 = 60.0;
const FIRST_BAND_S: f64 = 300.0;
/// Maximum number of prices tried for a given number of calls.
const MAX_PRICE_TRIES: usize = 40;
/// Rounds of "run, then fit".
const ROUNDS: usize = 3;

impl Training {
    pub fn train(&self, cascades: &[Cascade]) -> Result<Model, TooFewEvents> {
        let items = cascades.iter().filter(|cascade| !cascade.ages.is_empty()).count();
        let events = cascades.iter().map(Cascade::total).sum::<f64>() as usize;
        if items < 10 || events < 200 {
            return Err(TooFewEvents::Items { items, events });
        }
        let horizon = self.horizon.clamp(1, self.table.lifetime());
        let curve = self.fit_curve(cascades, horizon);
        let known = Self { table: self.table.with_lifetime(horizon), ..self.clone() };
        let (least, greatest) = self.multipliers;
        let horizon_s = horizon as f64 / 1e3;
        let age_s: Vec<f64> = std::iter::successors(Some(FIRST_BAND_S), |age| Some(age * BAND_RATIO))
            .take_while(|age| *age < horizon_s)
            .collect();
        let age_s = if age_s.is_empty() { vec![FIRST_BAND_S] } else { age_s };
        let coefficients = vec![[0.0, 0.5, 0.2, 0.2]; age_s.len()];
        let (source, command) = (self.source.clone(), self.command.clone());
        let model = Model {
            source,
            command,
            fade: self.fade,
            least,
            greatest,
            spend: 1.0,
            population: population_groups(cascades),
            age_s,
            coefficients,
            curve,
            recent_at: vec![],
        };
        let mut model = model.with_derived_fields();
        let wanted = cascades.len() as f64 * table_calls(&known.table, 0, horizon);
        let mut price = 1.0;
        for _ in 0..ROUNDS {
            let (schedule, found) = known.fit_price(cascades, horizon, &model, price, wanted);
            price = found;
            let samples = collect_samples(cascades, horizon, &schedule, &model);
            fit_coefficients(&mut model, &samples);
        }
        let (schedule, _) = known.fit_price(cascades, horizon, &model, price, wanted);
        model.spend = wanted / cascades.len() as f64 / schedule.calls_at_price(schedule.price());
        Ok(model)
    }

    #[must_use]
    pub fn evaluate_table(&self, cascades: &[Cascade]) -> Tally {
        let by_age = |history: &History| {
            let age = history.last.map_or(0, |answer| answer.at);
            (self.table.update_delay(0, age).unwrap_or(self.horizon), None)
        };
        let lives = cascades.iter().map(|cascade| simulate_life(cascade, self.horizon, by_age));
        lives.fold(Tally::default(), |sum, one| Tally { calls: sum.calls + one.calls, missed: sum.missed + one.missed })
    }

    /// Calls and misses of a model, at the price at which it makes `calls` calls.
    #[must_use]
    pub fn evaluate_model(&self, cascades: &[Cascade], model: &Model, calls: f64) -> Tally {
        let known = Self { table: self.table.with_lifetime(self.horizon), ..self.clone() };
        simulate_all(cascades, self.horizon, &known.fit_price(cascades, self.horizon, model, 1.0, calls).0)
    }

    /// The schedule at the price that spends `wanted` calls, and that price.
    fn fit_price(
        &self,
        cascades: &[Cascade],
        horizon: Millis,
        model: &Model,
        from: f64,
        wanted: f64,
    ) -> (Adaptive, f64) {
        let model = Arc::new(model.clone());
        let at = |price: f64| {
            let normaliser = Normaliser { price, level: 1.0 };
            let schedule = Adaptive::new(self.table.clone(), model.clone(), self.options, normaliser);
            let off = simulate_all(cascades, horizon, &schedule).calls / wanted;
            (schedule, off)
        };
        let (mut price, mut exponent) = (from, 2.0);
        let (mut schedule, mut off) = at(price);
        for _ in 0..MAX_PRICE_TRIES {
            if (off - 1.0).abs() < 0.005 || !(1e-9..1e9).contains(&price) {
                break;
            }
            let next = price * off.powf(exponent).clamp(0.05, 20.0);
            let (schedule_there, off_there) = at(next);
            // Calls come in steps, and the bounds of the intervals exclude some numbers: if a step goes too far, the next one is shorter.
            if (off_there - 1.0).abs() < (off - 1.0).abs() {
                (price, schedule, off) = (next, schedule_there, off_there);
            } else {
                exponent /= 2.0;
            }
        }
        (schedule, price)
    }

    /// The mean count by age. Beyond the horizon it continues the trend of the last knots.
    fn fit_curve(&self, cascades: &[Cascade], horizon: Millis) -> Curve {
        let horizon_s = horizon as f64 / 1e3;
        let (mut age_s, mut count) = (vec![0.0], vec![0.0f64]);
        let inner = std::iter::successors(Some(FIRST_KNOT_S), |age| Some(age * KNOT_RATIO));
        let ages = inner.take_while(|age| age * KNOT_RATIO.sqrt() < horizon_s).chain([horizon_s]);
        for age in ages {
            let at = (age * 1e3) as Millis;
            let mean = cascades.iter().map(|cascade| cascade.count(at)).sum::<f64>() / cascades.len() as f64;
            let before = count[count.len() - 1];
            // Without events between two ages the count still rises a little, so that rates stay above 0.
            let least = before * 1e-6 + 1e-9;
            age_s.push(age);
            count.push(mean.max(before + least));
        }
        let end = count.len() - 1;
        let slope = |at: usize| {
            (count[at] - count[at - 1]) / ((age_s[at] + FIRST_KNOT_S) / (age_s[at - 1] + FIRST_KNOT_S)).ln()
        };
        let back = 4.min(end - 1);
        let falls = if back == 0 { 1.0 } else { (slope(end) / slope(end - back)).powf(1.0 / back as f64) };
        let mut step = slope(end) * KNOT_RATIO.ln();
        let lifetime_s = self.table.lifetime() as f64 / 1e3;
        while age_s[age_s.len() - 1] < lifetime_s {
            step *= falls.clamp(0.3, 1.0);
            age_s.push(age_s[age_s.len() - 1] * KNOT_RATIO);
            count.push(count[count.len() - 1] + step);
        }
        Curve { scale_s: FIRST_KNOT_S, age_s, count }
    }
}

fn population_groups(cascades: &[Cascade]) -> Vec<f64> {
    const GROUPS: usize = 20;
    let mut totals: Vec<f64> = cascades.iter().map(Cascade::total).collect();
    totals.sort_by(f64::total_cmp);
    let mean = |totals: &[f64]| totals.iter().sum::<f64>() / totals.len() as f64;
    let groups = GROUPS.min(totals.len());
    let group = |at: usize| &totals[at * totals.len() / groups..(at + 1) * totals.len() / groups];
    (0..groups).map(|at| mean(group(at)) / mean(&totals)).collect()
}

struct Sample {
    features: [f64; FEATURES],
    age_s: f64,
    /// Events until the next refresh, as a multiple of the average item's.
    found: f64,
    /// Share in the cost: √(time × average events).
    weight: f64,
}

fn collect_samples(cascades: &[Cascade], horizon: Millis, schedule: &Adaptive, model: &Model) -> Vec<Sample> {
    let mut samples = Vec::new();
    for cascade in cascades {
        simulate_life(cascade, horizon, |history| {
            let (interval, recent) = decide(schedule, history, horizon);
            if let (Some(counts), Some(recent)) = (Adaptive::counts(0, history), recent) {
                samples.extend(new_sample(cascade, horizon, model, &counts, recent, interval));
            }
            (interval, recent)
        });
    }
    samples
}

fn new_sample(
    cascade: &Cascade,
    horizon: Millis,
    model: &Model,
    counts: &Counts,
    recent: f64,
    interval: Millis,
) -> Option<Sample> {
    let from = (counts.last_s * 1e3).round() as Millis;
    let to = (from + interval).min(horizon);
    let span_s = (to - from) as f64 / 1e3;
    let average = model.curve.events(counts.last_s, to as f64 / 1e3);
    let events = cascade.count(to) - cascade.count(from);
    let features = model.features(counts, recent, 1.0);
    let sample =
        || Sample { features, age_s: counts.last_s, found: events / average, weight: (span_s * average).sqrt() };
    (average > 0.0 && span_s > 0.0).then(sample)
}

/// Strength of the pull between neighbouring ages' coefficients, and of all to 0, per unit of weight.
const SMOOTHING: f64 = 1e-3;
const SHRINKAGE: f64 = 1e-6;

/// Newton's method: the loss is convex.
fn fit_coefficients(model: &mut Model, samples: &[Sample]) {
    let size = model.age_s.len() * FEATURES;
    let total: f64 = samples.iter().map(|sample| sample.weight).sum();
    for _ in 0..20 {
        let (mut slope, mut bend) = (vec![0.0; size], vec![0.0; size * size]);
        for sample in samples {
            add_derivatives(model, sample, &mut slope, &mut bend);
        }
        let old: Vec<f64> = model.coefficients.iter().flatten().copied().collect();
        for at in 0..size {
            slope[at] += SHRINKAGE * total * old[at];
            bend[at * size + at] += SHRINKAGE * total;
            let next = at + FEATURES;
            if next < size {
                let pull = SMOOTHING * total;
                slope[at] += pull * (old[at] - old[next]);
                slope[next] -= pull * (old[at] - old[next]);
                for (row, column, by) in [(at, at, pull), (next, next, pull), (at, next, -pull), (next, at, -pull)] {
                    bend[row * size + column] += by;
                }
            }
        }
        let step = solve_positive_definite(bend, slope);
        let mut largest = 0.0f64;
        for (coefficient, step) in model.coefficients.iter_mut().flatten().zip(step) {
            let step = step.clamp(-1.0, 1.0);
            *coefficient -= step;
            largest = largest.max(step.abs());
        }
        if largest < 1e-6 {
            break;
        }
    }
}

fn add_derivatives(model: &Model, sample: &Sample, slope: &mut [f64], bend: &mut [f64]) {
    let size = slope.len();
    let mut inputs = [(0, 0.0); 2 * FEATURES];
    let mut ln_rate = 0.0;
    for (half, (at, weight)) in model.weights(sample.age_s).into_iter().enumerate() {
        for (feature, value) in sample.features.iter().enumerate() {
            inputs[half * FEATURES + feature] = (at * FEATURES + feature, weight * value);
            ln_rate += model.coefficients[at][feature] * weight * value;
        }
    }
    let half = (ln_rate.clamp(-10.0, 10.0) / 2.0).exp();
    let (missed, calls) = (sample.found / half, half);
    let (first, second) = (sample.weight * 0.5 * (calls - missed), sample.weight * 0.25 * (calls + missed));
    for (row, by) in inputs {
        slope[row] += first * by;
        for (column, other) in inputs {
            bend[row * size + column] += second * by * other;
        }
    }
}

fn solve_positive_definite(mut matrix: Vec<f64>, mut right: Vec<f64>) -> Vec<f64> {
    let size = right.len();
    for row in 0..size {
        for column in 0..=row {
            let known: f64 = (0..column).map(|at| matrix[row * size + at] * matrix[column * size + at]).sum();
            let rest = matrix[row * size + column] - known;
            matrix[row * size + column] =
                if row == column { rest.max(1e-12).sqrt() } else { rest / matrix[column * size + column] };
        }
    }
    for row in 0..size {
        let known: f64 = (0..row).map(|at| matrix[row * size + at] * right[at]).sum();
        right[row] = (right[row] - known) / matrix[row * size + row];
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|at| matrix[at * size + row] * right[at]).sum();
        right[row] = (right[row] - known) / matrix[row * size + row];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Millis = 86_400_000;

    fn table() -> AgeTable {
        "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h".parse().unwrap()
    }

    /// Items whose rates fall as 1 / age: half of them busy, half quiet.
    fn items() -> Vec<Cascade> {
        let item = |at: u32| {
            let count = if at.is_multiple_of(2) { 20 } else { 400 };
            let ages: Vec<f64> = (0..count)
                .map(|event| 60.0 * (f64::from(event * 7 + at % 7) / f64::from(count * 7) * 9.0).exp())
                .collect();
            Cascade::new(&ages, 7 * DAY)
        };
        (0..60).map(item).collect()
    }

    #[test]
    fn bad_ages_are_left_out_and_equal_ones_count() {
        let cascade = Cascade::new(&[5.0, -3.0, 2.0, 2.0, f64::NAN, 0.0, 1e9], 10_000);
        assert_eq!(cascade.ages, [2_000, 2_000, 5_000]);
        assert!((cascade.loss(0, 6_000) - 9.0).abs() < 1e-9);
        assert!((cascade.loss(2_000, 6_000) - 1.0).abs() < 1e-9);
        assert_eq!(cascade.loss(6_000, 2_000), 0.0);
    }

    #[test]
    fn increments_are_spread_over_the_time_since_the_last_answer() {
        // Seen at 100 s and, after answers without a change, at 1,000 s; the interval then is 200 s.
        let counts = [(100_000, 2.0), (1_000_000, 6.0), (1_100_000, 5.0), (1_200_000, 6.0), (1_300_000, 7.0)];
        let cascade = Cascade::from_counts(&counts, |_| 200_000, DAY);
        assert_eq!(cascade.ages, [25_000, 75_000, 825_000, 875_000, 925_000, 975_000, 1_250_000]);
        assert_eq!(counts.map(|(age, _)| cascade.count(age)), [2.0, 6.0, 6.0, 6.0, 7.0]);
        let many = Cascade::from_counts(&[(80_000, 1_000.0)], |_| DAY, DAY);
        assert_eq!((many.ages.len(), many.count(40_000), many.total()), (8, 500.0, 1_000.0));
        assert!((many.loss(0, 80_000) - 1_000.0 * 40.0).abs() < 1e-6);
    }

    #[test]
    fn too_little_is_refused() {
        let few = vec![Cascade::new(&[1.0], DAY); 3];
        let error = Training::new(table(), DAY).train(&few).unwrap_err();
        assert_eq!(error, TooFewEvents::Items { items: 3, events: 3 });
    }

    #[test]
    fn a_trained_model_is_read_back_spends_its_budget_and_misses_less() {
        let (items, table) = (items(), table());
        let model = Training::new(table.clone(), 7 * DAY).train(&items).unwrap();
        assert_eq!(Model::parse(&model.to_toml()).unwrap(), model);
        let training = Training::new(table.clone(), 7 * DAY);
        let plain = training.evaluate_table(&items);
        let priced = training.evaluate_model(&items, &model, plain.calls);
        assert!((priced.calls / plain.calls - 1.0).abs() < 0.01, "{priced:?} {plain:?}");
        let schedule = Adaptive::new(table, Arc::new(model), Options::default(), Normaliser::default());
        let learnt = simulate_all(&items, 7 * DAY, &schedule);
        assert!((learnt.calls / plain.calls - 1.0).abs() < 0.05, "{learnt:?} {plain:?}");
        assert!(learnt.missed < 0.8 * plain.missed, "{learnt:?} {plain:?}");
    }
}
