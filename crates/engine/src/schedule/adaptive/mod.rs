//! Adaptive schedule: the next refresh of an item by its own history, at the cost of the age table. Pure: no I/O, no clock, no
//! state in the process.
//!
//! Between two refreshes an item's stored counts miss events. The loss is Σ over events of (next refresh − event), in event
//! seconds. For a number of calls the loss is least if each item is refreshed once its expected loss reaches a price μ, the
//! same for all. The expected loss is ∫ (u − last answer) × λ̂(u) du. [`Model`] estimates λ̂ from counts. The price
//! comes from the age table ([`Adaptive::new`]) and is corrected once a day ([`budget`]). [`grid`] has the lanes.
//!
//! Units: ages and times in ms since the epoch, or s if a name ends in `_s`; counts in weighted events
//! ([`weighted`](super::history::weighted)); rates in events per second; prices in event seconds per call.

pub mod budget;
pub mod curve;
pub mod grid;
pub mod lives;
pub mod model;
pub mod reference;
mod scheduled;
pub mod train;

use std::sync::Arc;

use self::budget::{Normaliser, Spending, table_calls};
use self::grid::Grid;
use self::model::{Counts, Model};
use self::reference::BudgetByAge;
use crate::base::clock::Millis;
use crate::lane::Lane;
use crate::schedule::age::{AgeTable, Bracket};
use crate::schedule::budgeted::Spend;
use crate::schedule::history::{History, sane};
use crate::schedule::{Bound, IntervalExplanation};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Calls, as a multiple of the age table's.
    pub share: f64,
    /// Shortest allowed interval, as a share of the interval that the age table has for that age.
    pub shortest: f64,
    /// Longest allowed interval, as a multiple of the interval that the age table has for that age.
    pub longest: f64,
    /// Lanes per doubling of the interval, 1 to 4.
    pub lanes_per_octave: u32,
    pub spend: Spend,
    /// With [`Spend::Quota`]: share of its interval after which an item may be updated early, 0 to 1.
    pub earliest: f64,
}

impl Default for Options {
    fn default() -> Self {
        let (spend, earliest) = (Spend::Demand, 0.5);
        Self { share: 1.0, shortest: 1.0 / 9.0, longest: 8.0, lanes_per_octave: 1, spend, earliest }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Its patience is at most one step of the grid above the interval.
    pub lane: Lane,
    /// Exact time from now to the due time, ms; 0 if that has passed.
    pub delay: Millis,
    /// Time from the last answer to the due time, ms.
    pub interval: Millis,
    /// The item's rate as a multiple of the average item's at its age.
    pub multiplier: f64,
    /// Estimated rate now, events per second; `None` if the age is unknown.
    pub rate_per_s: Option<f64>,
    /// Recent events at the last answer, to be stored with it. `None` without a count or a date.
    pub recent: Option<f64>,
}

#[derive(Debug, Clone)]
pub struct Adaptive {
    table: AgeTable,
    model: Arc<Model>,
    options: Options,
    normaliser: Normaliser,
    grid: Grid,
    reference: Arc<BudgetByAge>,
    base_price: f64,
    price: f64,
}

/// Steps of the integral per bracket.
const STEPS: u32 = 240;

/// The option within its bounds; 1 if it is not finite.
fn clamp_option(option: f64, least: f64, most: f64) -> f64 {
    if option.is_finite() { option.clamp(least, most) } else { 1.0 }
}

impl Adaptive {
    /// A schedule with the budget of that table. It computes the price, in well below a millisecond.
    #[must_use]
    pub fn new(table: AgeTable, model: Arc<Model>, options: Options, normaliser: Normaliser) -> Self {
        let options = Options {
            share: clamp_option(options.share, 1e-3, 1e3),
            shortest: clamp_option(options.shortest, 1e-3, 1.0),
            longest: clamp_option(options.longest, 1.0, 1e3),
            earliest: clamp_option(options.earliest, 0.0, 1.0),
            ..options
        };
        let patiences = || table.brackets().iter().map(|bracket| bracket.lane.patience as f64);
        let shortest = patiences().fold(f64::INFINITY, f64::min) * options.shortest;
        let longest = patiences().fold(1.0, f64::max) * options.longest;
        let grid = Grid::new(shortest as Millis, longest as Millis, options.lanes_per_octave);
        let reference = Arc::new(BudgetByAge::new(std::iter::empty(), 0.0));
        let mut schedule = Self { table, model, options, normaliser, grid, reference, base_price: 0.0, price: 0.0 };
        schedule.base_price = schedule.base_price();
        let life = table_calls(&schedule.table, 0, schedule.table.lifetime());
        schedule.reference = Arc::new(BudgetByAge::new(schedule.call_steps(schedule.base_price), life));
        schedule.with_normaliser(normaliser)
    }

    /// Returns this schedule with another normaliser, in well below a microsecond.
    #[must_use]
    pub fn with_normaliser(self, normaliser: Normaliser) -> Self {
        let price = self.base_price * normaliser.price * normaliser.level;
        Self { normaliser, price, ..self }
    }

    /// Current price of a call, event seconds.
    #[must_use]
    pub fn price(&self) -> f64 {
        self.price
    }

    pub fn lanes(&self) -> impl Iterator<Item = Lane> {
        self.grid.lanes()
    }

    /// Shortest and longest interval in a bracket, ms.
    #[must_use]
    pub fn interval_bounds(&self, bracket: &Bracket) -> (Millis, Millis) {
        let every = bracket.lane.patience as f64;
        (((every * self.options.shortest) as Millis).max(1), ((every * self.options.longest) as Millis).max(1))
    }

    /// Calls of an average item in its whole life, at a price.
    fn calls_at_price(&self, price: f64) -> f64 {
        self.call_steps(price).map(|(_, calls)| calls).sum()
    }

    /// Calls of an average item in short steps of its life: (age at the end of the step in s, calls in the step).
    fn call_steps(&self, price: f64) -> impl Iterator<Item = (f64, f64)> {
        let curve = &self.model.curve;
        let scale = curve.scale_s;
        let lower =
            |at: usize| at.checked_sub(1).map_or(0.0, |before| self.table.brackets()[before].under as f64 / 1e3);
        self.table.brackets().iter().enumerate().flat_map(move |(at, bracket)| {
            let (lower, upper) = (lower(at), bracket.under as f64 / 1e3);
            let (shortest, longest) = self.interval_bounds(bracket);
            let step = ((upper + scale) / (lower + scale)).ln() / f64::from(STEPS);
            let age = move |steps: f64| (lower + scale) * (steps * step).exp() - scale;
            (0..STEPS).map(move |at| {
                let middle = age(f64::from(at) + 0.5);
                let interval = (2.0 * price / curve.rate(middle)).sqrt();
                let calls = (middle + scale) * step / interval.clamp(shortest as f64 / 1e3, longest as f64 / 1e3);
                (age(f64::from(at + 1)), calls)
            })
        })
    }

    /// The price at which the items of the training make the budget's calls on average. `spend` of the model is their calls divided by
    /// those of an average item at the same price.
    fn base_price(&self) -> f64 {
        let table = table_calls(&self.table, 0, self.table.lifetime());
        let wanted = table * self.options.share / self.model.spend;
        // Calls fall with the price: halve the range of its logarithm.
        let (mut low, mut high) = (-30.0f64, 60.0f64);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if self.calls_at_price(middle.exp()) > wanted { low = middle } else { high = middle }
        }
        high.exp()
    }

    fn counts(created_at: Millis, history: &History) -> Option<Counts> {
        let age_s = |at: Millis| at.saturating_sub(created_at).max(0) as f64 / 1e3;
        let last = history.last?;
        let before = history.earlier();
        let (before_s, count) = before.map_or((0.0, 0.0), |before| (age_s(before.at), sane(before.count)));
        let recent = before.and(history.recent);
        Some(Counts { before_s, before: count, last_s: age_s(last.at), last: sane(last.count), recent })
    }

    /// The next due time; `None` if the item's life is over by the age table.
    #[must_use]
    pub fn next(&self, history: &History, now: Millis) -> Option<Decision> {
        self.next_with_multiplier(history, now, None)
    }

    /// Next due time of an item with a known multiplier, as in a simulation; `None` if its life is over by the age table.
    #[must_use]
    pub fn next_with_multiplier(&self, history: &History, now: Millis, known: Option<f64>) -> Option<Decision> {
        let last = history.last.map_or(now, |answer| answer.at.min(now));
        let Some(created_at) = history.created_at else {
            let interval = self.table.brackets().last()?.lane.patience;
            let delay = last.saturating_add(interval).saturating_sub(now).max(0);
            let lane = self.grid.lane(interval);
            return Some(Decision { lane, delay, interval, multiplier: 1.0, rate_per_s: None, recent: None });
        };
        let age = now.saturating_sub(created_at);
        // An item that has answered exists, even if its date is in the future.
        let seen = if history.last.is_some() { now.max(created_at) } else { now };
        let bracket = self.table.bracket(created_at, seen)?;
        let counts = Self::counts(created_at, history);
        let recent = counts.map(|counts| self.model.recent_events(&counts));
        let level = self.normaliser.level;
        let learned = counts.zip(recent).map_or(1.0, |(counts, recent)| {
            self.model.multiplier(counts.last_s, &self.model.features(&counts, recent, level))
        });
        let multiplier = known.filter(|known| known.is_finite() && *known > 0.0).unwrap_or(learned);
        let since_s = last.saturating_sub(created_at).max(0) as f64 / 1e3;
        let (shortest, longest) = self.interval_bounds(bracket);
        let latest_s = since_s + longest as f64 / 1e3;
        let reached_s = self.model.curve.age_at_loss(since_s, self.price / (level * multiplier), latest_s);
        let interval = (((reached_s - since_s) * 1e3) as Millis).clamp(shortest, longest);
        // The last refresh is at the end of the life, not long after it.
        let end = self.table.lifetime().saturating_sub(last.saturating_sub(created_at)).max(shortest);
        let interval = interval.min(end);
        let rate = self.model.curve.rate(age.max(0) as f64 / 1e3) * level * multiplier;
        let delay = last.saturating_add(interval).saturating_sub(now).max(0);
        Some(Decision { lane: self.grid.lane(interval), delay, interval, multiplier, rate_per_s: Some(rate), recent })
    }

    /// Explains an interval, ms, that was decided at the item's last answer. With the price, it gives the multiplier of that time.
    #[must_use]
    pub fn explain(&self, history: &History, interval: Millis, now: Millis) -> Option<IntervalExplanation> {
        let (created_at, last) = (history.created_at?, history.last?.at);
        let age_s = |at: Millis| at.saturating_sub(created_at).max(0) as f64 / 1e3;
        let (since_s, now_s) = (age_s(last), age_s(now.max(last)));
        let missed = self.model.curve.expected_loss(since_s, since_s + interval.max(1) as f64 / 1e3);
        // The bounds of intervals may imply a rate that no model would estimate, so the multiplier is limited.
        let multiplier = (self.price / missed / self.normaliser.level).clamp(self.model.least, self.model.greatest);
        let busy = multiplier * self.normaliser.level;
        let (shortest, longest) = self.interval_bounds(self.table.bracket(created_at, last.max(created_at))?);
        let bound = match interval {
            interval if interval <= shortest => Some(Bound::Shortest),
            interval if interval >= longest => Some(Bound::Longest),
            _ => None,
        };
        let rate_per_s = busy * self.model.curve.rate(now_s);
        Some(IntervalExplanation {
            multiplier,
            rate_per_s,
            unseen: busy * self.model.curve.events(since_s, now_s),
            bound,
        })
    }

    /// The last answer's addition to the day's spending: one call, the calls of the budget, and the events of average items since the
    /// answer before. An item of unknown age adds nothing. The first answer of an item that arrived old adds nothing either, since
    /// that call does not depend on the price.
    ///
    /// `due` is the due time, ms since the epoch. A call that was late (too few calls) or early (spare calls) counts as
    /// elapsed ÷ interval: the normaliser compares the demand with the budget. If it compared the calls made, a quota below the
    /// budget would lower the price for ever, and spare calls would raise it for ever.
    #[must_use]
    pub fn spending(&self, history: &History, due: Option<Millis>) -> Spending {
        let (Some(created_at), Some(last)) = (history.created_at, history.last) else {
            return Spending::default();
        };
        let to = last.at.saturating_sub(created_at).max(0);
        let before = history.earlier();
        let is_young = self.table.brackets().first().is_some_and(|bracket| to <= self.interval_bounds(bracket).1);
        if before.is_none() && !is_young {
            return Spending::default();
        }
        let from = before.map_or(0, |before| before.at.saturating_sub(created_at)).max(0);
        let counted = before.map_or(0.0, |before| before.count);
        let since = before.map_or(created_at, |before| before.at);
        let planned = due.map_or(0, |due| due.saturating_sub(since));
        let elapsed = last.at.saturating_sub(since);
        Spending {
            calls: if planned > 0 && elapsed > 0 { elapsed as f64 / planned as f64 } else { 1.0 },
            table_calls: self.reference.calls_between(from, to),
            events: sane(last.count - counted),
            average_events: self.model.curve.events(from as f64 / 1e3, to as f64 / 1e3),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::grid::MAX_STEP;
    use super::*;
    use crate::schedule::Budgeted;
    use crate::schedule::history::Answer;

    const MINUTE: Millis = 60_000;
    const HOUR: Millis = 60 * MINUTE;
    const DAY: Millis = 24 * HOUR;
    const MADE: Millis = 1_700_000_000_000;

    fn schedule(share: f64) -> Adaptive {
        let table = "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h, 30d: 1d".parse().unwrap();
        let options = Options { share, ..Options::default() };
        Adaptive::new(table, Arc::new(Model::embedded().unwrap()), options, Normaliser::default())
    }

    fn history(last: (Millis, f64), before: Option<(Millis, f64)>) -> History {
        let answer = |(age, count)| Answer { at: MADE + age, count };
        History { created_at: Some(MADE), last: Some(answer(last)), before: before.map(answer), recent: None }
    }

    #[test]
    fn a_busy_item_is_refreshed_more_often_than_a_quiet_one() {
        let schedule = schedule(1.0);
        let at = |count| {
            let history = history((6 * HOUR, count), Some((5 * HOUR, count * 0.9)));
            schedule.next(&history, MADE + 6 * HOUR).unwrap()
        };
        let (quiet, busy) = (at(10.0), at(5_000.0));
        assert!(busy.interval * 3 < quiet.interval, "{busy:?} {quiet:?}");
        assert!(busy.rate_per_s > quiet.rate_per_s && busy.recent > quiet.recent);
    }

    #[test]
    fn an_increment_counts_more_than_the_count() {
        let schedule = schedule(1.0);
        let interval = |before| {
            schedule.next(&history((6 * HOUR, 300.0), Some((5 * HOUR, before))), MADE + 6 * HOUR).unwrap().interval
        };
        assert!(interval(200.0) < interval(299.0));
        // A count that falls is an increment of 0.
        assert_eq!(interval(300.0), interval(1e9));
    }

    #[test]
    fn what_is_not_known_is_average() {
        let schedule = schedule(1.0);
        let none = schedule.next(&History::default(), MADE).unwrap();
        assert_eq!((none.interval, none.rate_per_s), (DAY, None));
        let unasked = History { created_at: Some(MADE), ..History::default() };
        assert!((schedule.next(&unasked, MADE).unwrap().multiplier - 1.0).abs() < 1e-12);
        assert_eq!(schedule.next(&unasked, MADE + 30 * DAY), None);
        assert_eq!(schedule.next(&unasked, MADE - HOUR), None);
    }

    #[test]
    fn half_the_budget_is_a_higher_price() {
        assert!(schedule(0.5).price() > 2.0 * schedule(1.0).price());
        assert!(schedule(2.0).price() < schedule(1.0).price());
    }

    #[test]
    fn the_quota_decides_on_the_calls_where_it_is_to_be_spent() {
        let of = |spend| {
            let options = Options { spend, ..Options::default() };
            Adaptive { options, ..schedule(1.0) }.quota_use()
        };
        let (demand, quota) = (of(Spend::Demand), of(Spend::Quota));
        assert_eq!([None, Some(2.0), Some(0.4)].map(|of| demand.call_share(of)), [1.0; 3]);
        // Never less than the age table's demand, so that a lack of quota stays visible.
        assert_eq!([None, Some(2.0), Some(0.4), Some(f64::NAN)].map(|of| quota.call_share(of)), [1.0, 1.94, 1.0, 1.0]);
        // Never more than the bounds of intervals allow.
        assert!(quota.call_share(Some(1e9)) < 9.0);
        assert_eq!(demand.max_earliness, 0.0);
        // In a lane whose patience is twice the interval, half of the interval is still over.
        assert!(quota.max_earliness > 0.2 && quota.max_earliness * MAX_STEP <= 0.5);
    }

    #[test]
    fn a_budget_has_the_tables_calls_in_a_life_at_the_schedules_ages() {
        let schedule = schedule(1.0);
        let answers = |from, to| schedule.spending(&history((to, 2.0), Some((from, 1.0))), None).table_calls;
        let life = answers(0, 30 * DAY);
        assert!((life - table_calls(&schedule.table, 0, 30 * DAY)).abs() < 1e-6);
        // After the first hour attention fades: the schedule makes more calls at first, and fewer later, than the table.
        let [first_hours, last_week] = [(HOUR, 6 * HOUR), (23 * DAY, 30 * DAY)];
        assert!(
            answers(first_hours.0, first_hours.1) > 1.2 * table_calls(&schedule.table, first_hours.0, first_hours.1)
        );
        assert!(answers(last_week.0, last_week.1) < table_calls(&schedule.table, last_week.0, last_week.1));
    }

    #[test]
    fn the_first_answer_of_an_old_item_says_nothing_of_the_price() {
        let schedule = schedule(1.0);
        assert_eq!(schedule.spending(&history((2 * DAY, 9.0), None), Some(MADE + 2 * DAY)), Spending::default());
        let young = schedule.spending(&history((2 * MINUTE, 9.0), None), Some(MADE + 2 * MINUTE));
        assert_eq!((young.calls, young.events), (1.0, 9.0));
    }

    #[test]
    fn the_last_refresh_is_at_the_end_of_the_life() {
        let history = history((29 * DAY + 20 * HOUR, 5.0), Some((25 * DAY, 5.0)));
        let decision = schedule(0.1).next(&history, MADE + 29 * DAY + 20 * HOUR).unwrap();
        assert_eq!(decision.delay, 4 * HOUR);
    }

    proptest! {
        #[test]
        fn any_history_has_an_interval_within_the_bounds(
            age in -DAY..40 * DAY,
            counts in (prop::num::f64::ANY, prop::num::f64::ANY),
            recent in prop::option::of(prop::num::f64::ANY),
            back in -DAY..DAY,
            after in 0..DAY,
            share in 0.1..10.0f64,
        ) {
            let schedule = schedule(share);
            let mut history = history((age, counts.0), Some((age - back, counts.1)));
            history.recent = recent;
            let now = MADE + age + after;
            let bracket = schedule.table.brackets().iter().find(|bracket| age + after < bracket.under);
            let decision = schedule.next(&history, now);
            prop_assert_eq!(decision.is_some(), bracket.is_some());
            if let (Some(decision), Some(bracket)) = (decision, bracket) {
                let (shortest, longest) = schedule.interval_bounds(bracket);
                prop_assert!(decision.interval >= shortest && decision.interval <= longest);
                prop_assert!(decision.delay >= 0 && decision.delay <= decision.interval);
                prop_assert!(decision.lane.patience >= decision.interval);
                prop_assert!(decision.recent.is_some_and(|recent| recent.is_finite() && recent >= 0.0));
                prop_assert!(decision.rate_per_s.is_some_and(|rate| rate.is_finite() && rate > 0.0));
            }
            let spending = schedule.spending(&history, Some(now));
            prop_assert!(spending.calls.is_finite() && spending.calls >= 0.0 && spending.table_calls >= 0.0);
            prop_assert!(spending.events.is_finite() && spending.average_events.is_finite());
        }

        #[test]
        fn more_events_never_mean_a_longer_interval_by_much(count in 0.0..1e6f64, more in 1.0..1e6f64) {
            let schedule = schedule(1.0);
            let interval = |count| {
                schedule.next(&history((DAY, count), Some((20 * HOUR, count * 0.95))), MADE + DAY).unwrap().interval
            };
            prop_assert!(interval(count + more) as f64 <= interval(count) as f64 * 1.01);
        }
    }
}
