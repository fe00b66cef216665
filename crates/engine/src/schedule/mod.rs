//! Schedules: the next due time of an item. Starter, rebuild, refresh and page use only this trait.

pub mod adaptive;
pub mod age;
pub mod bounded;
pub mod budgeted;
pub mod history;
pub mod visits;

use std::fmt::Debug;
use std::sync::Arc;

use self::adaptive::budget::{Normaliser, Spending};
use self::age::AgeTable;
pub use self::budgeted::{Bound, Budgeted, IntervalExplanation};
use self::history::{Answer, History};
use self::visits::rhythm::Rhythm;
use crate::base::activity::Activity;
use crate::base::clock::Millis;
use crate::base::reload::Reloadable;
use crate::lane::Lane;

#[derive(Debug, Clone, Copy, Default)]
pub struct ScheduledItem<'a> {
    pub id: &'a str,
    /// The creation time; and the answers, if the schedule needs them.
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

pub trait Schedule: Send + Sync + Debug {
    /// Next lane of an item after an answer at `now`, ms since the epoch; `None` if its life is over.
    fn next(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next>;

    /// First lane of an item that arrives at `now`; `None` if it is too old to be looked up.
    fn first(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next> {
        self.next(item, now)
    }

    /// Lane for an interval, ms, that was decided without [`next`](Self::next): of an item that the queue lost, or of a retry. `None`:
    /// use the lane of [`next`](Self::next).
    fn lane_for_interval(&self, _interval: Millis) -> Option<Lane> {
        None
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

    /// The budget of its calls, if it has one.
    fn budget(&self) -> Option<&dyn Budgeted> {
        None
    }
}

impl dyn Schedule + '_ {
    /// Returns true if a new item must come with its date.
    #[must_use]
    pub fn needs_date(&self) -> bool {
        self.age_table().is_some()
    }

    /// Returns true if the schedule compares answers, to spend the budget of its age table: then [`next`](Schedule::next) needs them in
    /// [`ScheduledItem::history`].
    #[must_use]
    pub fn needs_history(&self) -> bool {
        self.age_table().is_some() && self.budget().is_some()
    }

    /// Recent events at the last answer, which the caller stores and passes in after the next one ([`History::recent`]). The pace of
    /// an account's counts is stored under any schedule, for the day on which accounts change to the schedule by pace.
    #[must_use]
    pub fn recent_events(&self, item: &ScheduledItem<'_>) -> Option<f64> {
        let pace = item.activity.pace.map(|pace| pace.per_day);
        pace.or_else(|| self.budget()?.recent_events(item))
    }

    /// Calls and events that the last answer adds to the day's budget; `None` if no budget is corrected.
    #[must_use]
    pub fn spending(&self, item: &ScheduledItem<'_>, due: Millis) -> Option<Spending> {
        self.budget()?.spending(item, due)
    }
}

/// Returns the schedule with other corrections of its budget, if it has one.
#[must_use]
pub fn corrected(schedule: &Arc<dyn Schedule>, by: Normaliser) -> Arc<dyn Schedule> {
    schedule.budget().map_or_else(|| schedule.clone(), |budget| budget.with_correction(by))
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
        corrected(&self.schedule.load(), *self.by.load())
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

    fn age_table(&self) -> Option<&AgeTable> {
        Some(self)
    }
}
