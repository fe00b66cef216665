//! Totals of a pipeline's lists: unread lists, and the age of the complete reads of the others. Each list is found by the indexes of
//! lists, crawls and accounts; no edge is read.

use engine::base::clock::Millis;

pub const TIERS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListBounds {
    /// A list that was recorded before this time and never read waits too long.
    pub recorded_before: Millis,
    /// Longest intervals between two visits per tier, in ms, shortest first. Longer ones belong to the last tier.
    pub intervals: [Millis; TIERS],
    /// A complete read of a tier that ended before this time is too old.
    pub complete_before: [Millis; TIERS],
    pub page: u32,
    /// Limit of members after which a list is cut; 0: none.
    pub longest: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, sqlx_macros::FromRow)]
pub struct TierTotal {
    /// Index of the tier, from 0.
    pub tier: i64,
    pub lists: i64,
    pub complete: i64,
    /// End of the oldest of their newest complete reads.
    pub oldest_at: Option<Millis>,
    /// End of the median of their newest complete reads.
    pub median_at: Option<Millis>,
    pub too_old: i64,
    pub pages: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, sqlx_macros::FromRow)]
pub struct UnreadTotal {
    pub lists: i64,
    pub overdue: i64,
    pub oldest_at: Option<Millis>,
    /// Remaining pages of the lists with a known number of members.
    pub pages: f64,
    pub unknown: i64,
    /// Pages already read of lists with unknown size.
    pub unknown_read: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListTotals {
    /// Read lists by tier; tiers without a list are left out.
    pub tiers: Vec<TierTotal>,
    pub unread: UnreadTotal,
}
