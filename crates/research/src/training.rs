//! Training of the visiting policies' [`Coefficients`]: from the events of many items. Pure.
//!
//! The weights are those of a Poisson regression with an identity link: the events of a span are Σ weight × rate × activity. Each
//! step of the EM algorithm raises its likelihood and keeps weights above 0. The samples are visits at random times, 2 to 18 hours
//! apart, and the events after each of them. The rhythm has only what it would have in production.

use engine::base::clock::Millis;
use engine::schedule::visits::classes;
use engine::schedule::visits::coefficients::{Coefficients, INPUTS};
use engine::schedule::visits::forecast::Forecast;
use engine::schedule::visits::rhythm::{DAY, HOUR, Rhythm, hour_of};

#[derive(Debug, Clone, PartialEq)]
pub struct ObservedItem {
    /// Events, ms since the epoch, rising.
    pub events: Vec<Millis>,
    /// Start of the known events, ms since the epoch.
    pub from: Millis,
    /// End of the known events, ms since the epoch.
    pub until: Millis,
}

impl ObservedItem {
    /// Events from `from` to before `until`.
    #[must_use]
    pub fn events_between(&self, from: Millis, until: Millis) -> &[Millis] {
        let at = |time: Millis| self.events.partition_point(|event| *event < time);
        &self.events[at(from)..at(until).max(at(from))]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "training needs at least 10 items that are known for a week, with 200 events in all; there are {items} with {events}"
)]
pub struct TooFewEvents {
    pub items: usize,
    pub events: usize,
}

#[derive(Debug, Clone, Default)]
pub struct Training {
    pub source: String,
    pub command: String,
}

/// Times since the visit from which weights hold, s.
const LAGS_S: [f64; 6] = [0.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0];
/// Time after a visit in which events count.
const HORIZON: Millis = 10 * DAY;
/// Time for which an item is known before its first sample.
const WARM_UP: Millis = 3 * DAY;
/// Values tried for [`Coefficients::pull`] and [`Coefficients::smooth`].
const PULLS: [f64; 4] = [9.0, 18.0, 36.0, 72.0];
const SMOOTHS: [f64; 3] = [0.0, 0.1, 0.2];
/// Maximum number of items that judge the tried coefficients.
const MAX_JUDGED_ITEMS: usize = 700;
const STEPS: usize = 150;
const RANKS: usize = 20;
/// The budget at which the price is learned, one visit a day, and the bounds of its intervals.
const EVERY: Millis = DAY;
const BOUNDS: (Millis, Millis) = (5 * 60_000, 14 * DAY);

impl Training {
    pub fn train(&self, items: &[ObservedItem]) -> Result<Coefficients, TooFewEvents> {
        let known: Vec<&ObservedItem> = items.iter().filter(|item| item.until - item.from >= 7 * DAY).collect();
        let events = known.iter().map(|item| item.events.len()).sum();
        if known.len() < 10 || events < 200 {
            return Err(TooFewEvents { items: known.len(), events });
        }
        let span_s: f64 = known.iter().map(|item| (item.until - item.from) as f64 / 1e3).sum();
        let mut per_day: Vec<f64> = known.iter().map(|item| item.per_day()).collect();
        per_day.sort_by(f64::total_cmp);
        let rank = |at: usize| per_day[at * (per_day.len() - 1) / RANKS];
        let mut found = Coefficients {
            source: self.source.clone(),
            command: self.command.clone(),
            rate_per_s: events as f64 / span_s,
            root: 1.0,
            pull: PULLS[2],
            smooth: SMOOTHS[2],
            profile: mean_profile(&known),
            lags_s: LAGS_S.to_vec(),
            weights: vec![[1.0 / INPUTS as f64; INPUTS]; LAGS_S.len()],
            ranks_per_day: (0..=RANKS).map(rank).collect(),
        };
        let tried = SMOOTHS.map(|smooth| fit_weights(Coefficients { smooth, ..found.clone() }, &known));
        found = choose_best(tried.into(), &known);
        let tried = PULLS.map(|pull| fit_weights(Coefficients { pull, ..found.clone() }, &known));
        found = choose_best(tried.into(), &known);
        found.root = budget_root(&found, &known);
        Ok(found)
    }
}

/// The coefficients with fitted weights.
fn fit_weights(mut coefficients: Coefficients, items: &[&ObservedItem]) -> Coefficients {
    let samples = collect_samples(&coefficients, items);
    for (weights, samples) in coefficients.weights.iter_mut().zip(&samples) {
        fit_span_weights(weights, samples);
    }
    coefficients
}

/// The coefficients with the least delay in simulated visits. The busiest items would decide the likelihood.
fn choose_best(mut tried: Vec<Coefficients>, items: &[&ObservedItem]) -> Coefficients {
    let some: Vec<&ObservedItem> = items.iter().copied().step_by(items.len().div_ceil(MAX_JUDGED_ITEMS)).collect();
    let delays: Vec<f64> = tried.iter().map(|one| fit_price(one, &some, EVERY / 2, 3).1).collect();
    let least = (0..tried.len()).min_by(|one, other| delays[*one].total_cmp(&delays[*other])).unwrap_or(0);
    tried.swap_remove(least)
}

impl ObservedItem {
    fn per_day(&self) -> f64 {
        self.events.len() as f64 * DAY as f64 / (self.until - self.from).max(1) as f64
    }
}

/// Activity by the hour. An item counts by the root of its events, so that the busiest do not decide alone.
fn mean_profile(items: &[&ObservedItem]) -> [f64; 24] {
    let mut hours = [1.0; 24];
    for item in items {
        let weight = 1.0 / (item.events.len().max(1) as f64).sqrt();
        item.events.iter().for_each(|event| hours[hour_of(*event)] += weight);
    }
    let mean = hours.iter().sum::<f64>() / 24.0;
    hours.map(|hour| hour / mean)
}

/// Inputs, and the number of events that followed.
type Sample = ([f64; INPUTS], f64);

fn collect_samples(coefficients: &Coefficients, items: &[&ObservedItem]) -> Vec<Vec<Sample>> {
    let mut samples = vec![Vec::new(); LAGS_S.len()];
    let ends = || LAGS_S.into_iter().skip(1).map(|lag| (lag * 1e3) as Millis).chain([HORIZON]);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for item in items {
        let mut rhythm = Rhythm::new(item.from);
        let (mut seen, mut at) = (item.from, item.from + WARM_UP);
        while at < item.until - HOUR {
            rhythm.record_visit(item.events_between(seen, at), at, &classes::Rules::default());
            let forecast = Forecast::new(coefficients, &rhythm);
            for ((of_lag, lag), end) in samples.iter_mut().zip(LAGS_S).zip(ends()) {
                let start = (lag * 1e3) as Millis;
                if at + end <= item.until {
                    let came = item.events_between(at + start, at + end).len();
                    of_lag.push((forecast.inputs(start, end), came as f64));
                }
            }
            seen = at;
            at += 2 * HOUR + (random.share() * (16 * HOUR) as f64) as Millis;
        }
    }
    samples
}

/// Repeatable draws (xorshift): a second training gives the same coefficients.
struct Random(u64);

impl Random {
    fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn fit_span_weights(weights: &mut [f64; INPUTS], samples: &[Sample]) {
    let mut expected = [0.0; INPUTS];
    for (inputs, _) in samples {
        expected.iter_mut().zip(inputs).for_each(|(sum, input)| *sum += input);
    }
    for _ in 0..STEPS {
        let mut found = [0.0; INPUTS];
        for (inputs, came) in samples.iter().filter(|(_, came)| *came > 0.0) {
            let mean: f64 = weights.iter().zip(inputs).map(|(weight, input)| weight * input).sum();
            if mean > 0.0 {
                found.iter_mut().zip(inputs).for_each(|(sum, input)| *sum += came / mean * input);
            }
        }
        for ((weight, found), expected) in weights.iter_mut().zip(found).zip(expected) {
            *weight = if expected > 0.0 { *weight * found / expected } else { 0.0 };
        }
    }
    // No item is expected to be silent for ever.
    weights[INPUTS - 1] = weights[INPUTS - 1].max(1e-3);
}

/// √(2μ) ÷ the interval, for the price μ at which these items are visited once a day on average.
fn budget_root(coefficients: &Coefficients, items: &[&ObservedItem]) -> f64 {
    let (price, _) = fit_price(coefficients, items, EVERY, 6);
    (2.0 * price).sqrt() / (EVERY as f64 / 1e3)
}

/// The price at which the items are visited once per `every` on average, and the delay of their events at that number of
/// visits. It takes `times` approximations.
fn fit_price(coefficients: &Coefficients, items: &[&ObservedItem], every: Millis, times: u32) -> (f64, f64) {
    let every_s = every as f64 / 1e3;
    let (mut price, mut at_once) = (every_s * every_s * coefficients.rate_per_s / 4.0, 0.0);
    for _ in 0..times {
        let mut sum = VisitCosts::default();
        items.iter().for_each(|item| sum.add_simulated_visits(coefficients, item, price));
        let off = sum.visits * every as f64 / sum.time;
        at_once = sum.delay * off;
        price *= off.powi(2).clamp(1e-3, 1e3);
    }
    (price, at_once)
}

#[derive(Debug, Default)]
struct VisitCosts {
    visits: f64,
    /// Observed time, ms.
    time: f64,
    /// Σ visit − event, ms.
    delay: f64,
}

impl VisitCosts {
    /// Simulates the visits of an item at a price, and adds their number, the observed time and the delays. The last visit counts in
    /// proportion to the observed part of its interval.
    fn add_simulated_visits(&mut self, coefficients: &Coefficients, item: &ObservedItem, price: f64) {
        let mut rhythm = Rhythm::new(item.from);
        let (mut seen, mut at) = (item.from, item.from + WARM_UP);
        self.time += (item.until - at).max(0) as f64;
        while at < item.until {
            rhythm.record_visit(item.events_between(seen, at), at, &classes::Rules::default());
            let interval = Forecast::new(coefficients, &rhythm).interval(price, BOUNDS.0, BOUNDS.1);
            self.visits += ((item.until - at) as f64 / interval as f64).min(1.0);
            (seen, at) = (at, at + interval);
            let end = at.min(item.until);
            self.delay += item.events_between(seen, end).iter().map(|event| (end - event) as f64).sum::<f64>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items of 1 to 24 events a day at even steps, each by day alone.
    fn items() -> Vec<ObservedItem> {
        let until = 21 * DAY;
        let events = |per_day: i64| {
            let of_day = move |day: i64| (0..per_day).map(move |at| day * DAY + 6 * HOUR + at * 12 * HOUR / per_day);
            (0..21).flat_map(of_day).collect()
        };
        (1..=24).map(|per_day| ObservedItem { events: events(per_day), from: 0, until }).collect()
    }

    #[test]
    fn what_is_learnt_forecasts_the_items_it_was_learnt_from() {
        let items = items();
        let found = Training::default().train(&items).unwrap();
        assert_eq!(Coefficients::parse(&found.to_toml()).unwrap(), found, "the file has it all");
        assert_eq!(Training::default().train(&items).unwrap(), found, "trained twice it is the same");
        assert!((found.rate_per_s * 86_400.0 - 12.5).abs() < 0.01, "{}", found.rate_per_s);
        assert!(found.profile[12] > 5.0 * found.profile[2]);
        for item in [&items[3], &items[20]] {
            let mut rhythm = Rhythm::new(0);
            rhythm.record_visit(&item.events, item.until, &classes::Rules::default());
            let per_day = Forecast::new(&found, &rhythm).per_day();
            assert!((per_day / item.per_day() - 1.0).abs() < 0.15, "{per_day} {}", item.per_day());
        }
        // At the price of a visit a day these items are visited once a day.
        let price = (found.root * 86_400.0).powi(2) / 2.0;
        let mut lived = VisitCosts::default();
        items.iter().for_each(|item| lived.add_simulated_visits(&found, item, price));
        let visits = lived.visits;
        assert!((visits / (items.len() as f64 * 18.0) - 1.0).abs() < 0.05, "{visits}");
    }

    #[test]
    fn too_little_is_said() {
        let few = items().split_off(20);
        assert_eq!(Training::default().train(&few), Err(TooFewEvents { items: 4, events: 21 * (21 + 22 + 23 + 24) }));
        let short: Vec<ObservedItem> =
            items().into_iter().map(|item| ObservedItem { until: 6 * DAY, ..item }).collect();
        assert_eq!(Training::default().train(&short), Err(TooFewEvents { items: 0, events: 0 }));
    }
}
