//! Schedules: when an item is due again. Starter, rebuild, refresh and page know this trait alone.

pub mod adaptive;
pub mod age;

use std::fmt::Debug;
use std::sync::Arc;

use self::age::{AgeTable, SameDay};
use crate::base::clock::Millis;
use crate::base::reload::Reloadable;
use crate::engine::lane::Lane;

/// The data of an item when it is scheduled.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Its id.
    pub id: &'a str,
    /// When it was made, ms since the epoch, if known.
    pub created_at: Option<Millis>,
}

/// A lane, and how long until the item is due in it, ms.
pub type Next = (Lane, Millis);

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

    /// The age table, where it goes by age.
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
        let lane = match item.created_at {
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

/// By age, and rather before a midnight than shortly after it.
#[derive(Debug, Clone)]
pub struct ByAge {
    /// The intervals by age.
    pub ages: AgeTable,
    /// When before midnight.
    pub same_day: SameDay,
}

impl Schedule for ByAge {
    fn next(&self, item: &Known<'_>, now: Millis) -> Option<Next> {
        let (lane, interval) = self.ages.next(item, now)?;
        Some((lane, self.same_day.delay(now, interval)))
    }

    fn first(&self, item: &Known<'_>, now: Millis) -> Option<Next> {
        self.ages.first(item, now)
    }

    fn needs_date(&self) -> bool {
        true
    }

    fn ages(&self) -> Option<&AgeTable> {
        Some(&self.ages)
    }
}
