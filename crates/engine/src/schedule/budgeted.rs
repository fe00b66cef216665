//! Schedules with a daily budget of calls. A daily correction keeps the calls within the budget ([`budget`](super::adaptive::budget)).

use std::fmt::Debug;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::adaptive::budget::{Normaliser, Spending};
use super::adaptive::grid::MAX_STEP;
use super::{Schedule, ScheduledItem};
use crate::base::clock::Millis;

pub trait Budgeted: Send + Sync + Debug {
    /// Calls and events that the last answer adds to the day's budget; `None` if there is nothing to correct. `due` is its due time, ms
    /// since the epoch.
    fn spending(&self, item: &ScheduledItem<'_>, due: Millis) -> Option<Spending>;

    /// Returns this schedule with other corrections of its budget.
    fn with_correction(&self, by: Normaliser) -> Arc<dyn Schedule>;

    fn quota_use(&self) -> QuotaUse {
        QuotaUse::default()
    }

    /// Recent events at the last answer, by the item's history.
    fn recent_events(&self, _item: &ScheduledItem<'_>) -> Option<f64> {
        None
    }

    /// Explains an interval, ms, that was decided at the item's last answer. `None` if the item's date or answer is unknown.
    fn explain(&self, _item: &ScheduledItem<'_>, _interval: Millis, _now: Millis) -> Option<IntervalExplanation> {
        None
    }
}

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
    /// Longest time since the last check: the item may wait longer by its estimate.
    Unchecked,
}

/// Source of the number of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spend {
    /// As many calls as the age table would make.
    #[default]
    Demand,
    /// 97 % of the quota, if that is more than the demand, up to [`QuotaUse::max_share`].
    Quota,
}

/// Limits for calls beyond the demand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuotaUse {
    /// Maximum calls, as a multiple of the budget's; at least 1.
    pub max_share: f64,
    /// Maximum earliness of an update, as a share of its lane's patience; 0: never early.
    pub max_earliness: f64,
}

impl Default for QuotaUse {
    fn default() -> Self {
        Self { max_share: 1.0, max_earliness: 0.0 }
    }
}

impl QuotaUse {
    /// `earliest`: share of its interval after which an item may be updated early.
    #[must_use]
    pub fn new(spend: Spend, max_share: f64, earliest: f64) -> Self {
        match spend {
            Spend::Demand => Self::default(),
            // At that earliness, `earliest` of the interval is over in any lane.
            Spend::Quota => Self { max_share: max_share.max(1.0), max_earliness: (1.0 - earliest) / MAX_STEP },
        }
    }

    /// Calls to spend, as a multiple of the budget's. `quota` is the quota in the same unit; `None` if it is unknown or unlimited.
    #[must_use]
    pub fn call_share(self, quota: Option<f64>) -> f64 {
        // Early updates spend the rest. A demand above the quota would look like too few credentials.
        const NEARLY: f64 = 0.97;
        let quota = quota.filter(|quota| quota.is_finite()).unwrap_or(0.0);
        // A quota below the budget's calls is shared out in the queue's order, for any demand.
        (quota * NEARLY).clamp(1.0, self.max_share)
    }
}
