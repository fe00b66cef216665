//! Forecast of an item's events after its last visit, and the best time of the next one at a price. Pure.
//!
//! The rate at a time t after the last visit is λ̂(t) = p(hour) × Σ wₖ(t) rₖ. p is the item's own activity by the hour of the day,
//! pulled towards that of all items by [`Coefficients::pull`] events. rₖ are its recent events of each
//! [span](super::rhythm::SPANS), divided by the item's activity in that span, so a night without events is no evidence. The
//! weights depend on the time since the visit: the last half hour counts for the next one, the last ten days for next week.

use super::coefficients::{Coefficients, INPUTS};
use super::rhythm::{DAY, HOUR, Rhythm, SPANS};
use crate::base::clock::Millis;

#[derive(Debug, Clone)]
pub struct Forecast<'a> {
    coefficients: &'a Coefficients,
    /// Start of the forecast: the last visit.
    from: Millis,
    /// Activity before each hour of the day and after the last, as a multiple of the mean hour's.
    sums: [f64; 25],
    /// Events per second of mean activity: one rate per span, then that of all items.
    rates: [f64; INPUTS],
}

/// Least known share of a span. For newer items a single event would look like a storm.
const MIN_KNOWN_SHARE: f64 = 0.05;
/// Steps per expected interval of the look-ahead, and number of these intervals.
const STEPS: usize = 8;
const INTERVALS: usize = 5;
/// Least rate of every item as a share of the average rate, so that no rate is 0.
const MIN_RATE_SHARE: f64 = 0.1;

impl<'a> Forecast<'a> {
    #[must_use]
    pub fn new(coefficients: &'a Coefficients, rhythm: &Rhythm) -> Self {
        let from = rhythm.visited.unwrap_or(rhythm.since);
        let sums = cumulative_sums(&smoothed_profile(coefficients, &rhythm.hours));
        let mut forecast = Self { coefficients, from, sums, rates: [coefficients.rate_per_s * MIN_RATE_SHARE; INPUTS] };
        for ((rate, recent), span) in forecast.rates.iter_mut().zip(rhythm.recent).zip(SPANS) {
            let active = faded_activity(&sums, rhythm.since, from, span as f64);
            *rate = f64::from(recent) / (active.max(span as f64 * MIN_KNOWN_SHARE) / 1e3);
        }
        forecast
    }

    /// The forecast for a known rate, as in a simulation: events per second of mean activity, and activity by the hour as a multiple
    /// of the mean. `certain` must have a single row of weights, 1 for the last input alone.
    #[must_use]
    pub fn from_rate(certain: &'a Coefficients, profile: &[f64; 24], rate_per_s: f64, from: Millis) -> Self {
        let mut rates = [0.0; INPUTS];
        rates[INPUTS - 1] = rate_per_s;
        Self { coefficients: certain, from, sums: cumulative_sums(profile), rates }
    }

    /// Events per second at mean activity, at a time since the last visit, s.
    fn mean_rate_at(&self, lag_s: f64) -> f64 {
        self.coefficients.weights_after(lag_s).iter().zip(&self.rates).map(|(weight, rate)| weight * rate).sum()
    }

    /// Rates of the inputs times the activity of a span, for the training.
    pub fn inputs(&self, after: Millis, until: Millis) -> [f64; INPUTS] {
        let active_s = self.active_s(after, until);
        self.rates.map(|rate| rate * active_s)
    }

    /// Activity between two times since the last visit, as seconds of mean activity.
    fn active_s(&self, after: Millis, until: Millis) -> f64 {
        let at = |lag: Millis| activity(&self.sums, self.from.saturating_add(lag));
        (at(until) - at(after)) / 1e3
    }

    /// Events expected until a time since the last visit, ms.
    #[must_use]
    pub fn expected_events(&self, until: Millis) -> f64 {
        let lags = self.coefficients.lags_s.iter().map(|lag| (lag * 1e3) as Millis);
        let ends = lags.clone().skip(1).chain([Millis::MAX]);
        let of = |(after, end): (Millis, Millis)| {
            if after < until {
                self.mean_rate_at(after as f64 / 1e3) * self.active_s(after, end.min(until))
            } else {
                0.0
            }
        };
        lags.zip(ends).map(of).sum()
    }

    /// Events per second at a time since the last visit, ms.
    #[cfg(test)]
    fn rate_at(&self, lag: Millis) -> f64 {
        let hour = super::rhythm::hour_of(self.from.saturating_add(lag));
        (self.sums[hour + 1] - self.sums[hour]) * self.mean_rate_at(lag as f64 / 1e3)
    }

    #[must_use]
    pub fn per_day(&self) -> f64 {
        self.expected_events(DAY)
    }

    /// Time from the last visit to the next one, ms, if a visit costs `price` event seconds.
    ///
    /// It plans the visits over the next expected intervals for the least cost of delays and visits, and returns the first one.
    /// Without this look-ahead it would visit an item once the delay reaches the price, even a minute before the item falls asleep.
    #[must_use]
    pub fn interval(&self, price: f64, shortest: Millis, longest: Millis) -> Millis {
        let mean = f64::midpoint(self.mean_rate_at(1_800.0), self.mean_rate_at(12.0 * 3_600.0)).max(f64::MIN_POSITIVE);
        let expected_s = (2.0 * price / mean).sqrt().clamp(shortest as f64 / 1e3, longest as f64 / 1e3);
        let mut step = ((expected_s / STEPS as f64 * 1e3) as Millis).max(1);
        loop {
            let (events, moments) = self.steps(step);
            let steps = self.first_visit_of_best_plan(price, step as f64 / 1e3, &events, &moments);
            let interval = step.saturating_mul(steps as Millis);
            // No visit is worth its price before the end of the look-ahead: the item sleeps. Look further ahead.
            if steps < STEPS * INTERVALS || interval >= longest {
                return interval.clamp(shortest, longest);
            }
            step = step.saturating_mul(2);
        }
    }

    /// Two running sums at the end of each step: expected events, and expected events × their time since now (s).
    fn steps(&self, step: Millis) -> ([f64; STEPS * INTERVALS + 1], [f64; STEPS * INTERVALS + 1]) {
        let mut events = [0.0; STEPS * INTERVALS + 1];
        let mut moments = events;
        let mut before = activity(&self.sums, self.from);
        for at in 0..STEPS * INTERVALS {
            let end = activity(&self.sums, self.from.saturating_add(step.saturating_mul(at as Millis + 1)));
            let middle_s = (at as f64 + 0.5) * step as f64 / 1e3;
            let more = self.mean_rate_at(middle_s) * (end - before) / 1e3;
            events[at + 1] = events[at] + more;
            moments[at + 1] = moments[at] + more * middle_s;
            before = end;
        }
        (events, moments)
    }

    /// Number of steps to the first visit of the cheapest plan that ends with a visit at the end of the last step.
    fn first_visit_of_best_plan(&self, price: f64, step_s: f64, events: &[f64], moments: &[f64]) -> usize {
        let mut best = [(0.0, 0usize); STEPS * INTERVALS + 1];
        for end in 1..events.len() {
            let at_s = end as f64 * step_s;
            let mut cheapest = (f64::INFINITY, end);
            for start in 0..end {
                let delay = at_s * (events[end] - events[start]) - (moments[end] - moments[start]);
                let cost = best[start].0 + price + delay;
                if cost < cheapest.0 {
                    cheapest = (cost, if start == 0 { end } else { best[start].1 });
                }
            }
            best[end] = cheapest;
        }
        best[events.len() - 1].1
    }
}

/// Activity by the hour as a multiple of the mean: the item's events, smoothed over neighbouring hours, pulled towards the profile
/// of all items.
fn smoothed_profile(coefficients: &Coefficients, hours: &[f32; 24]) -> [f64; 24] {
    let Coefficients { pull, smooth, profile, .. } = coefficients;
    let own = |hour: usize| f64::from(hours[hour % 24]);
    let sum: f64 = (0..24).map(own).sum();
    std::array::from_fn(|hour| {
        let smoothed = own(hour) * (1.0 - 2.0 * smooth) + (own(hour + 1) + own(hour + 23)) * smooth;
        (smoothed * 24.0 + pull * profile[hour]) / (sum + pull)
    })
}

fn cumulative_sums(profile: &[f64; 24]) -> [f64; 25] {
    let mut sums = [0.0; 25];
    for hour in 0..24 {
        sums[hour + 1] = sums[hour] + profile[hour];
    }
    sums
}

/// Integral of the activity from the epoch to `at`, in ms of mean activity. Exact, since the activity is constant within an hour.
fn activity(sums: &[f64; 25], at: Millis) -> f64 {
    let (days, rest) = (at.div_euclid(DAY), at.rem_euclid(DAY));
    let hour = (rest / HOUR) as usize;
    let in_hour = (rest % HOUR) as f64 * (sums[hour + 1] - sums[hour]);
    days as f64 * sums[24] * HOUR as f64 + sums[hour] * HOUR as f64 + in_hour
}

/// ∫ activity × e^-((to - t) / span) dt from `since` to `to`, ms of mean activity: the divisor of recent events.
fn faded_activity(sums: &[f64; 25], since: Millis, to: Millis, span: f64) -> f64 {
    // An endless past by repeated days, minus the part before `since`.
    let endless = |end: Millis| {
        let mut sum = 0.0;
        let mut later = 1.0;
        let mut at = end;
        let first = end.saturating_sub(DAY);
        while at > first {
            let start = (at - 1).div_euclid(HOUR).saturating_mul(HOUR).max(first);
            let hour = super::rhythm::hour_of(start);
            let earlier = later * (-((at - start) as f64) / span).exp();
            sum += (sums[hour + 1] - sums[hour]) * span * (later - earlier);
            (later, at) = (earlier, start);
        }
        sum / -(-(DAY as f64) / span).exp_m1()
    };
    let known = to.saturating_sub(since).max(0) as f64;
    let before = (-known / span).exp();
    if before < 1e-9 { endless(to) } else { endless(to) - before * endless(since) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schedule::visits::classes;

    const NOW: Millis = 1_700_006_400_000;

    fn certain() -> Coefficients {
        let mut weights = [0.0; INPUTS];
        weights[INPUTS - 1] = 1.0;
        Coefficients { lags_s: vec![0.0], weights: vec![weights], ..Coefficients::embedded().unwrap() }
    }

    /// Half an event an hour from 8 to 20, none at other times, for two weeks up to the end of a day.
    fn by_day(coefficients: &Coefficients) -> Forecast<'_> {
        let start = day(NOW);
        let mut rhythm = Rhythm::new(start);
        let events: Vec<Millis> =
            (0..14).flat_map(|at| (4..10).map(move |hour| start + at * DAY + hour * 2 * HOUR)).collect();
        rhythm.record_visit(&events, start + 14 * DAY, &classes::Rules::default());
        Forecast::new(coefficients, &rhythm)
    }

    fn day(at: Millis) -> Millis {
        at.div_euclid(DAY) * DAY
    }

    #[test]
    fn at_an_even_rate_the_interval_is_that_of_the_root_law() {
        let certain = certain();
        for (per_hour, hours) in [(1.0, 4.0), (20.0, 1.0), (0.1, 30.0)] {
            let (rate, interval_s) = (per_hour / 3_600.0, hours * 3_600.0);
            let price = rate * interval_s * interval_s / 2.0;
            let forecast = Forecast::from_rate(&certain, &[1.0; 24], rate, NOW);
            let interval = forecast.interval(price, 1, 100 * DAY) as f64 / 1e3;
            assert!((interval / interval_s - 1.0).abs() < 0.13, "{interval} {interval_s}");
            assert!((forecast.expected_events(HOUR) / per_hour - 1.0).abs() < 1e-9);
            assert!((forecast.rate_at(HOUR) / rate - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn an_item_that_sleeps_is_visited_when_it_is_awake() {
        let mut hours = [0.0; 24];
        hours[8..20].fill(2.0);
        let certain = certain();
        let rate = 0.5 / 3_600.0;
        // From 16:00 on. A visit is worth the delay of an even rate's eight hours.
        let from = day(NOW) + 16 * HOUR;
        let price = rate * (8.0 * 3_600.0f64).powi(2) / 2.0;
        let at = |price: f64| {
            (from + Forecast::from_rate(&certain, &hours, rate, from).interval(price, 1, 9 * DAY)) % DAY / HOUR
        };
        assert!((19..=20).contains(&at(price)), "when it falls asleep: {}", at(price));
        // From midnight: no event can have happened before 8.
        let midnight = Forecast::from_rate(&certain, &hours, rate, day(NOW));
        assert!(midnight.interval(price / 100.0, 1, 9 * DAY) > 8 * HOUR);
    }

    #[test]
    fn hours_are_learnt_and_a_night_without_events_is_no_silence() {
        let coefficients = Coefficients::embedded().unwrap();
        let forecast = by_day(&coefficients);
        let [night, day] = [3, 12].map(|hour| forecast.rate_at(hour * HOUR));
        assert!(day > 2.0 * night, "{day} {night}");
        assert!((3.0..9.0).contains(&forecast.per_day()), "six a day: {}", forecast.per_day());
        let sum = forecast.expected_events(5 * DAY);
        assert!(sum > forecast.expected_events(4 * DAY) && forecast.expected_events(0) == 0.0, "{sum}");
    }

    #[test]
    fn what_recent_events_are_divided_by_is_the_activity_that_was_seen() {
        let mut hours = [0.5; 24];
        hours[6..18].fill(1.5);
        let sums = cumulative_sums(&hours);
        for (known, span) in [(5 * HOUR, 2.0 * HOUR as f64), (9 * DAY, DAY as f64), (40 * DAY, 10.0 * DAY as f64)] {
            let since = NOW - known;
            let step = known / 100_000;
            let each = (0..100_000).map(|at| {
                let middle = since + at * step + step / 2;
                (activity(&sums, middle + 1) - activity(&sums, middle)) * (-((NOW - middle) as f64) / span).exp()
            });
            let slowly = each.sum::<f64>() * step as f64;
            let at_once = faded_activity(&sums, since, NOW, span);
            assert!((at_once / slowly - 1.0).abs() < 1e-3, "{at_once} {slowly}");
        }
    }

    proptest! {
        #[test]
        fn any_rhythm_has_an_interval_within_the_bounds_that_rises_with_the_price(
            events in prop::collection::vec(-30 * DAY..DAY, 0..60),
            price in prop::num::f64::POSITIVE,
            likely in 1.0..1e9f64,
            shortest in 1..HOUR,
            longest in HOUR..30 * DAY,
        ) {
            let coefficients = Coefficients::embedded().unwrap();
            let mut rhythm = Rhythm::new(NOW);
            let events: Vec<Millis> = events.iter().map(|event| NOW + event).collect();
            rhythm.record_visit(&events, NOW, &classes::Rules::default());
            let forecast = Forecast::new(&coefficients, &rhythm);
            let at = |price: f64| forecast.interval(price, shortest, longest);
            prop_assert!((shortest..=longest).contains(&at(price)));
            // Steps of an eighth and the hours of the day: a higher price hardly ever gives a shorter interval.
            prop_assert!(at(likely * 16.0) >= at(likely), "{} {}", at(likely), at(likely * 16.0));
            prop_assert!(forecast.per_day().is_finite() && forecast.per_day() > 0.0);
        }
    }
}
