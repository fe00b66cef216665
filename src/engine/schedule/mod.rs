//! Schedules: when an item is due again. Starter, rebuild, refresh and page know this trait alone.

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
use crate::base::clock::Millis;
use crate::base::reload::Reloadable;
use crate::engine::lane::{Lane, PASSING};
use crate::model::activity::Activity;

/// The data of an item when it is scheduled.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'a> {
    /// Its id.
    pub id: &'a str,
    /// When it was made; and its answers, if the schedule [needs](Schedule::needs_history) them.
    pub history: History,
    /// When it was last known to be there, ms since the epoch, where that is later than its last answer.
    pub checked_at: Option<Millis>,
    /// Its signs of life.
    pub activity: Activity,
    /// The rhythm of its events, where it is one that is visited.
    pub rhythm: Option<&'a Rhythm>,
}

impl<'a> Known<'a> {
    /// An item of which only its id and when it was made are known, ms since the epoch.
    #[must_use]
    pub fn new(id: &'a str, created_at: Option<Millis>) -> Self {
        Self { id, history: History { created_at, ..History::default() }, ..Self::default() }
    }

    /// The same with when its last answer was given, ms since the epoch, and not what it said.
    #[must_use]
    pub fn answered(id: &'a str, created_at: Option<Millis>, at: Option<Millis>) -> Self {
        let last = at.map(|at| Answer { at, count: 0.0 });
        Self { id, history: History { created_at, last, ..History::default() }, ..Self::default() }
    }
}

/// A lane, and how long until the item is due in it, ms.
pub type Next = (Lane, Millis);

/// What a decided interval says of an item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Explained {
    /// Its estimated rate, as a multiple of the average item's at its age.
    pub multiplier: f64,
    /// Estimated events per second now.
    pub rate_per_s: f64,
    /// Events expected since its last answer.
    pub unseen: f64,
    /// The bound of the age table's interval that decided instead.
    pub bound: Option<Bound>,
}

/// A bound of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The shortest interval at that age: the item is at least that busy.
    Shortest,
    /// The longest one: the item is at most that busy.
    Longest,
}

/// When the items of a pipeline are due.
pub trait Schedule: Send + Sync + Debug {
    /// The next lane of an item after an answer at `now`, ms since the epoch; `None` if its life is over.
    fn next(&self, item: &Known<'_>, now: Millis) -> Option<Next>;

    /// The first lane of an item that arrives at `now`; `None` if it is too old to be looked up.
    fn first(&self, item: &Known<'_>, now: Millis) -> Option<Next> {
        self.next(item, now)
    }

    /// Returns true if a new item must come with its date.
    fn needs_date(&self) -> bool {
        false
    }

    /// Returns true if it compares an item's answers: then [`next`](Self::next) needs them in [`Known::history`].
    fn needs_history(&self) -> bool {
        false
    }

    /// Recent events as of the item's last answer: to be stored with that answer, and given back after the next one
    /// ([`History::recent`]).
    fn recent(&self, _item: &Known<'_>) -> Option<f64> {
        None
    }

    /// Calls and events that an item's last answer adds to the budget of the day; `None` if the schedule has no budget.
    /// `due`: when it was due, ms since the epoch.
    fn spending(&self, _item: &Known<'_>, _due: Millis) -> Option<Spending> {
        None
    }

    /// The same schedule with these corrections of its budget; `None` if it has no budget.
    fn corrected(&self, _by: Normaliser) -> Option<Arc<dyn Schedule>> {
        None
    }

    /// Calls that its budget of the day should have, as a multiple of the age table's, where the quota carries `quota`
    /// times the table's (`None`: not known, or endless).
    fn share(&self, _quota: Option<f64>) -> f64 {
        1.0
    }

    /// How early an item may be updated to spend idle quota, as a share of its lane's patience; 0: not at all.
    fn early(&self) -> f64 {
        0.0
    }

    /// The lane of an interval, ms, that was decided earlier: for an item that the queue has lost. `None`: the lane of
    /// [`next`](Self::next).
    fn lane_of(&self, _interval: Millis) -> Option<Lane> {
        None
    }

    /// What an interval, ms, that was decided at the item's last answer says of it at `now`; `None` where intervals go by age
    /// alone, or its date or answer is not known.
    fn explained(&self, _item: &Known<'_>, _interval: Millis, _now: Millis) -> Option<Explained> {
        None
    }

    /// Returns true if items pass through the lane of that name: its patience is no interval, so they state no demand.
    fn is_passing(&self, lane: &str) -> bool {
        PASSING.contains(&lane)
    }

    /// The longest interval, ms, that any item of that age has; `None` if its life is over.
    fn longest(&self, item: &Known<'_>, now: Millis) -> Option<Millis> {
        self.next(item, now).map(|(lane, _)| lane.patience)
    }

    /// Lanes with an interval from the settings. A changed interval also applies to the items that wait in them.
    fn lanes(&self) -> Vec<Lane> {
        self.ages().map_or_else(Vec::new, AgeTable::lanes)
    }

    /// The age table, where it goes by age, or has its budget from one.
    fn ages(&self) -> Option<&AgeTable> {
        None
    }
}

/// A schedule that may change while it is used: the one in force is asked for, and goes for a whole batch.
pub trait Schedules: Send + Sync + Debug {
    /// The schedule in force.
    fn in_force(&self) -> Arc<dyn Schedule>;
}

impl<S: Schedule + 'static> Schedules for Reloadable<S> {
    fn in_force(&self) -> Arc<dyn Schedule> {
        self.load()
    }
}

/// One that is made anew from changed settings.
impl Schedules for Reloadable<Arc<dyn Schedule>> {
    fn in_force(&self) -> Arc<dyn Schedule> {
        (*self.load()).clone()
    }
}

/// A schedule with the corrections of its budget.
#[derive(Debug, Clone)]
pub struct Corrected {
    /// The schedule, as the settings have it.
    pub schedule: Reloadable<Arc<dyn Schedule>>,
    /// The corrections.
    pub by: Reloadable<Normaliser>,
}

impl Schedules for Corrected {
    fn in_force(&self) -> Arc<dyn Schedule> {
        let schedule = self.schedule.load();
        schedule.corrected(*self.by.load()).unwrap_or_else(|| (*schedule).clone())
    }
}

impl From<Corrected> for Arc<dyn Schedules> {
    fn from(schedule: Corrected) -> Self {
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

/// An unknown date counts as older than any bracket but the last, which keeps the item alive. One from the future by
/// more than skew is as young as can be, rather than the end of a life.
impl Schedule for AgeTable {
    fn next(&self, item: &Known<'_>, now: Millis) -> Option<Next> {
        let lane = match item.history.created_at {
            Some(created_at) => self.lane(created_at.min(now), now),
            None => self.brackets().last().map(|bracket| &bracket.lane),
        }?;
        Some((lane.clone(), lane.patience))
    }

    fn needs_date(&self) -> bool {
        true
    }

    fn ages(&self) -> Option<&AgeTable> {
        Some(self)
    }
}

/// A schedule, but rather before a midnight than shortly after it.
#[derive(Debug, Clone)]
pub struct BeforeMidnight {
    /// The schedule.
    pub schedule: Arc<dyn Schedule>,
    /// When before midnight.
    pub same_day: SameDay,
}

impl Schedule for BeforeMidnight {
    fn next(&self, item: &Known<'_>, now: Millis) -> Option<Next> {
        let (lane, delay) = self.schedule.next(item, now)?;
        Some((lane, self.same_day.delay(now, delay)))
    }

    fn first(&self, item: &Known<'_>, now: Millis) -> Option<Next> {
        self.schedule.first(item, now)
    }

    fn needs_date(&self) -> bool {
        self.schedule.needs_date()
    }

    fn needs_history(&self) -> bool {
        self.schedule.needs_history()
    }

    fn recent(&self, item: &Known<'_>) -> Option<f64> {
        self.schedule.recent(item)
    }

    fn spending(&self, item: &Known<'_>, due: Millis) -> Option<Spending> {
        self.schedule.spending(item, due)
    }

    fn corrected(&self, by: Normaliser) -> Option<Arc<dyn Schedule>> {
        let schedule = self.schedule.corrected(by)?;
        Some(Arc::new(Self { schedule, same_day: self.same_day }))
    }

    fn share(&self, quota: Option<f64>) -> f64 {
        self.schedule.share(quota)
    }

    fn early(&self) -> f64 {
        self.schedule.early()
    }

    fn lane_of(&self, interval: Millis) -> Option<Lane> {
        self.schedule.lane_of(interval)
    }

    fn explained(&self, item: &Known<'_>, interval: Millis, now: Millis) -> Option<Explained> {
        self.schedule.explained(item, interval, now)
    }

    fn is_passing(&self, lane: &str) -> bool {
        self.schedule.is_passing(lane)
    }

    fn longest(&self, item: &Known<'_>, now: Millis) -> Option<Millis> {
        self.schedule.longest(item, now)
    }

    fn ages(&self) -> Option<&AgeTable> {
        self.schedule.ages()
    }
}
