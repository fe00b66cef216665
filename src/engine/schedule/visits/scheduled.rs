//! The visits as their callers know them.

use std::sync::Arc;

use super::{Policy, Visits};
use crate::base::clock::Millis;
use crate::engine::lane::Lane;
use crate::engine::schedule::adaptive::Spend;
use crate::engine::schedule::adaptive::budget::{Normaliser, Spending};
use crate::engine::schedule::adaptive::grid::WIDEST_STEP;
use crate::engine::schedule::{Bound, Explained, Known, Next, Schedule};

impl Schedule for Visits {
    fn next(&self, item: &Known<'_>, now: Millis) -> Option<Next> {
        let Some(rhythm) = item.rhythm else {
            return Some((self.grid.lane(self.options.every), self.options.every));
        };
        let visited = rhythm.visited.map_or(now, |visited| visited.min(now));
        let interval = self.interval(rhythm, item.id);
        Some((self.grid.lane(interval), visited.saturating_add(interval).saturating_sub(now).max(0)))
    }

    fn first(&self, _item: &Known<'_>, _now: Millis) -> Option<Next> {
        Some((Lane::first(), 0))
    }

    /// One visit demanded in the planned interval, beside one in each [`every`](super::Options::every): in round robin and
    /// in the Poisson order these are the same, and there is nothing to correct.
    fn spending(&self, item: &Known<'_>, due: Millis) -> Option<Spending> {
        let is_fixed = self.options.policy == Policy::Hash && self.options.hash.events > 0.0;
        if is_fixed || matches!(self.options.policy, Policy::RoundRobin | Policy::Poisson) {
            return None;
        }
        let spent = item.rhythm.and_then(|rhythm| {
            let (visited, before) = (rhythm.visited?, rhythm.before?);
            let elapsed = visited.saturating_sub(before).max(0) as f64;
            let planned = due.saturating_sub(before);
            // A visit that came late, as the quota was short, or early, as some was left, is elapsed ÷ planned demanded ones.
            let calls = if planned > 0 && elapsed > 0.0 { elapsed / planned as f64 } else { 1.0 };
            Some(Spending { calls, table_calls: elapsed / self.options.every as f64, ..Spending::default() })
        });
        Some(spent.unwrap_or_default())
    }

    fn corrected(&self, by: Normaliser) -> Option<Arc<dyn Schedule>> {
        Some(Arc::new(self.clone().normalised(by)))
    }

    fn share(&self, quota: Option<f64>) -> f64 {
        // Early visits spend the rest. A demand above the quota would look like too few credentials.
        const NEARLY: f64 = 0.97;
        let spends = self.options.spend == Spend::Quota;
        let quota = quota.filter(|quota| spends && quota.is_finite()).unwrap_or(0.0);
        (quota * NEARLY).clamp(1.0, (self.options.every as f64 / self.options.shortest as f64).max(1.0))
    }

    fn early(&self) -> f64 {
        if self.options.spend == Spend::Quota { (1.0 - self.options.earliest) / WIDEST_STEP } else { 0.0 }
    }

    fn lane_of(&self, interval: Millis) -> Option<Lane> {
        Some(self.grid.lane(interval))
    }

    fn explained(&self, item: &Known<'_>, interval: Millis, now: Millis) -> Option<Explained> {
        let rhythm = item.rhythm?;
        let expected = self.expected(rhythm, item.id, interval, now);
        let bound = match expected.why {
            super::Why::Shortest => Some(Bound::Shortest),
            super::Why::Longest => Some(Bound::Longest),
            _ => None,
        };
        let rate_per_s = expected.per_day / 86_400.0;
        let multiplier = rate_per_s / self.coefficients.rate_per_s;
        Some(Explained { multiplier, rate_per_s, unseen: expected.unseen, bound })
    }

    fn longest(&self, _item: &Known<'_>, _now: Millis) -> Option<Millis> {
        Some(match self.options.policy {
            Policy::RoundRobin => self.options.every,
            Policy::Poisson => self.options.every.saturating_mul(2).min(self.options.longest),
            _ => self.options.longest,
        })
    }
}
