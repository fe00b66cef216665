//! Schedules: the next due time of an item. Starter, rebuild, refresh and page use only this trait.

pub mod adaptive;
pub mod age;
pub mod checked;
pub mod history;
pub mod visits;

use std::fmt::Debug;
use std::sync::Arc;

use self::adaptive::budget::{Normaliser, Spending};
use self::age::{AgeTable, SameDay};
use self::history::{Answer, History};
use self::visits::rhythm::Rhythm;
use crate::base::activity::Activity;
use crate::base::clock::Millis;
use crate::base::reload::Reloadable;
use crate::lane::{Lane, PASS_THROUGH_LANES};

#[derive(Debug, Clone, Copy, Default)]
pub struct ScheduledItem<'a> {
    pub id: &'a str,
    /// The creation time; and the answers, if the schedule [needs](Schedule::needs_history) them.
    pub history: History,
    /// Time of the last check that the item exists, ms since the epoch, if later than its last answer.
    pub checked_at: Option<Millis>,
    pub activity: Activity,
    /// Rhythm of its events, if it is an item that is visited.
    pub rhythm: Option<&'a Rhythm>,
}

impl<'a> ScheduledItem<'a> {
    #[must_use]
    pub fn new(id: &'a str, created_at: Option<Millis>) -> Self {
        Self { id, history: History { created_at, ..History::default() }, ..Self::default() }
    }

    /// An item whose last answer has the time `at`, ms since the epoch, and no counts.
    #[must_use]
    pub fn with_answer(id: &'a str, created_at: Option<Millis>, at: Option<Millis>) -> Self {
        let last = at.map(|at| Answer { at, count: 0.0 });
        Self { id, history: History { created_at, last, ..History::default() }, ..Self::default() }
    }
}

/// A lane, and the time until the item is due in it, ms.
pub type Next = (Lane, Millis);

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntervalExplanation {
    /// Estimated rate, as a multiple of the average item's rate at its age.
    pub multiplier: f64,
    /// Estimated events per second now.
    pub rate_per_s: f64,
    /// Events expected since its last answer.
    pub unseen: f64,
    /// Bound that decided the interval instead of the estimate.
    pub bound: Option<Bound>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Shortest interval at that age: the item is at least that busy.
    Shortest,
    /// Longest interval at that age: the item is at most that busy.
    Longest,
}

pub trait Schedule: Send + Sync + Debug {
    /// Next lane of an item after an answer at `now`, ms since the epoch; `None` if its life is over.
    fn next(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next>;

    /// First lane of an item that arrives at `now`; `None` if it is too old to be looked up.
    fn first(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next> {
        self.next(item, now)
    }

    /// Returns true if a new item must come with its date.
    fn needs_date(&self) -> bool {
        false
    }

    /// Returns true if the schedule compares answers: then [`next`](Self::next) needs them in [`ScheduledItem::history`].
    fn needs_history(&self) -> bool {
        false
    }

    /// Recent events at the last answer, which the caller stores and passes in after the next one ([`History::recent`]).
    fn recent_events(&self, _item: &ScheduledItem<'_>) -> Option<f64> {
        None
    }

    /// Calls and events that the last answer adds to the day's budget; `None` without a budget. `due` is its due time, ms since the
    /// epoch.
    fn spending(&self, _item: &ScheduledItem<'_>, _due: Millis) -> Option<Spending> {
        None
    }

    /// Returns this schedule with other corrections of its budget; `None` if it has no budget.
    fn with_correction(&self, _by: Normaliser) -> Option<Arc<dyn Schedule>> {
        None
    }

    /// Calls for the day's budget, as a multiple of the age table's. `quota` is the quota in the same unit; `None` if it is unknown
    /// or unlimited.
    fn call_share(&self, _quota: Option<f64>) -> f64 {
        1.0
    }

    /// Maximum earliness of an update that uses idle quota, as a share of its lane's patience; 0: never early.
    fn max_earliness(&self) -> f64 {
        0.0
    }

    /// Lane for an earlier interval, ms, of an item that the queue lost. `None`: use the lane of [`next`](Self::next).
    fn lane_for_interval(&self, _interval: Millis) -> Option<Lane> {
        None
    }

    /// Explains an interval, ms, that was decided at the item's last answer. `None` if intervals depend on age alone, or if the
    /// item's date or answer is unknown.
    fn explain(&self, _item: &ScheduledItem<'_>, _interval: Millis, _now: Millis) -> Option<IntervalExplanation> {
        None
    }

    /// Returns true if items only pass through that lane. Its patience is no interval, so the items state no demand.
    fn is_pass_through(&self, lane: &str) -> bool {
        PASS_THROUGH_LANES.contains(&lane)
    }

    /// Longest interval of any item of that age, ms; `None` if its life is over.
    fn longest_interval(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Millis> {
        self.next(item, now).map(|(lane, _)| lane.patience)
    }

    /// Lanes with an interval from the settings. A changed interval also applies to the items that wait in them.
    fn lanes(&self) -> Vec<Lane> {
        self.age_table().map_or_else(Vec::new, AgeTable::lanes)
    }

    /// The age table, if the schedule goes by age or takes its budget from one.
    fn age_table(&self) -> Option<&AgeTable> {
        None
    }
}

/// A schedule that may change at run time. The caller gets the current one and uses it for a whole batch.
pub trait Schedules: Send + Sync + Debug {
    fn current_schedule(&self) -> Arc<dyn Schedule>;
}

impl<S: Schedule + 'static> Schedules for Reloadable<S> {
    fn current_schedule(&self) -> Arc<dyn Schedule> {
        self.load()
    }
}

impl Schedules for Reloadable<Arc<dyn Schedule>> {
    fn current_schedule(&self) -> Arc<dyn Schedule> {
        (*self.load()).clone()
    }
}

#[derive(Debug, Clone)]
pub struct CorrectedSchedule {
    pub schedule: Reloadable<Arc<dyn Schedule>>,
    pub by: Reloadable<Normaliser>,
}

impl Schedules for CorrectedSchedule {
    fn current_schedule(&self) -> Arc<dyn Schedule> {
        let schedule = self.schedule.load();
        schedule.with_correction(*self.by.load()).unwrap_or_else(|| (*schedule).clone())
    }
}

impl From<CorrectedSchedule> for Arc<dyn Schedules> {
    fn from(schedule: CorrectedSchedule) -> Self {
        Arc::new(schedule)
    }
}

impl<S> From<Reloadable<S>> for Arc<dyn Schedules>
where
    Reloadable<S>: Schedules + 'static,
{
    fn from(schedule: Reloadable<S>) -> Self {
        Arc::new(schedule)
    }
}

impl From<AgeTable> for Arc<dyn Schedules> {
    fn from(ages: AgeTable) -> Self {
        Reloadable::new(ages).into()
    }
}

/// An item with an unknown date is in the last bracket, which keeps it alive. A date in the future counts as age 0.
impl Schedule for AgeTable {
    fn next(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next> {
        let lane = match item.history.created_at {
            Some(created_at) => self.lane(created_at.min(now), now),
            None => self.brackets().last().map(|bracket| &bracket.lane),
        }?;
        Some((lane.clone(), lane.patience))
    }

    fn needs_date(&self) -> bool {
        true
    }

    fn age_table(&self) -> Option<&AgeTable> {
        Some(self)
    }
}

/// A schedule that prefers a time before midnight to one shortly after it.
#[derive(Debug, Clone)]
pub struct BeforeMidnight {
    pub schedule: Arc<dyn Schedule>,
    pub same_day: SameDay,
}

impl Schedule for BeforeMidnight {
    fn next(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next> {
        let (lane, delay) = self.schedule.next(item, now)?;
        Some((lane, self.same_day.delay(now, delay)))
    }

    fn first(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next> {
        self.schedule.first(item, now)
    }

    fn needs_date(&self) -> bool {
        self.schedule.needs_date()
    }

    fn needs_history(&self) -> bool {
        self.schedule.needs_history()
    }

    fn recent_events(&self, item: &ScheduledItem<'_>) -> Option<f64> {
        self.schedule.recent_events(item)
    }

    fn spending(&self, item: &ScheduledItem<'_>, due: Millis) -> Option<Spending> {
        self.schedule.spending(item, due)
    }

    fn with_correction(&self, by: Normaliser) -> Option<Arc<dyn Schedule>> {
        let schedule = self.schedule.with_correction(by)?;
        Some(Arc::new(Self { schedule, same_day: self.same_day }))
    }

    fn call_share(&self, quota: Option<f64>) -> f64 {
        self.schedule.call_share(quota)
    }

    fn max_earliness(&self) -> f64 {
        self.schedule.max_earliness()
    }

    fn lane_for_interval(&self, interval: Millis) -> Option<Lane> {
        self.schedule.lane_for_interval(interval)
    }

    fn explain(&self, item: &ScheduledItem<'_>, interval: Millis, now: Millis) -> Option<IntervalExplanation> {
        self.schedule.explain(item, interval, now)
    }

    fn is_pass_through(&self, lane: &str) -> bool {
        self.schedule.is_pass_through(lane)
    }

    fn longest_interval(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Millis> {
        self.schedule.longest_interval(item, now)
    }

    fn age_table(&self) -> Option<&AgeTable> {
        self.schedule.age_table()
    }
}
