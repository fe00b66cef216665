//! Totals of a pipeline's lists: those that wait for their first read, and the age of the complete reads of the others. Each list
//! is looked up by the indexes of lists, crawls and accounts; no edge is read.

use crate::base::clock::Millis;

/// Largest number of tiers of lists.
pub const TIERS: usize = 3;

/// The bounds by which lists are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListBounds {
    /// A list that was recorded before this moment, ms since the epoch, and was never read, waits too long.
    pub recorded_before: Millis,
    /// The longest time between a visit and the next one in each tier, ms, the shortest first. A longer one is of the last tier.
    pub intervals: [Millis; TIERS],
    /// A complete read of each tier that ended before this moment is too old, ms since the epoch.
    pub complete_before: [Millis; TIERS],
    /// Members of a page.
    pub page: u32,
    /// Members after which a list is cut; 0: never.
    pub longest: u64,
}

/// The lists that were read of a tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, sqlx_macros::FromRow)]
pub struct TierTotal {
    /// The tier, counted from 0.
    pub tier: i64,
    /// Lists.
    pub lists: i64,
    /// Lists with a complete read.
    pub complete: i64,
    /// The end of the oldest of their newest complete reads, ms since the epoch.
    pub oldest_at: Option<Millis>,
    /// The end of the median of their newest complete reads, ms since the epoch.
    pub median_at: Option<Millis>,
    /// Lists whose newest complete read is too old.
    pub too_old: i64,
    /// Average pages of those reads.
    pub pages: Option<f64>,
}

/// The lists that wait for their first read.
#[derive(Debug, Clone, Copy, Default, PartialEq, sqlx_macros::FromRow)]
pub struct UnreadTotal {
    /// Lists.
    pub lists: i64,
    /// Lists that wait too long.
    pub overdue: i64,
    /// When the first of them was recorded, ms since the epoch.
    pub oldest_at: Option<Millis>,
    /// Pages left of the lists whose number of members is known.
    pub pages: f64,
    /// Lists whose number of members is unknown.
    pub unknown: i64,
    /// Pages read of the lists of unknown size.
    pub unknown_read: f64,
}

/// The living lists of a pipeline; those of unavailable owners are left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListTotals {
    /// The lists that were read, by tiers; a tier without a list is left out.
    pub tiers: Vec<TierTotal>,
    /// The lists that were never read.
    pub unread: UnreadTotal,
}

/// The statement of the lists that were read, by the tables of a list (`of`) and its newest complete read (`whole`); `$1` is the
/// namespace, `$2` and `$3` the first two intervals, `$4` to `$6` the moments before which a read is too old. The condition of the
/// index of living items stands there word for word.
macro_rules! tier_totals {
    ($tables:literal) => {
        concat!(
            "SELECT CAST(tier AS BIGINT) AS tier, COUNT(*) AS lists, COUNT(at) AS complete, MIN(at) AS oldest_at, \
             MAX(CASE WHEN place = (reads + 1) / 2 THEN at END) AS median_at, \
             COUNT(CASE WHEN at < CASE tier WHEN 0 THEN $4 WHEN 1 THEN $5 ELSE $6 END THEN 1 END) AS too_old, \
             CAST(AVG(pages) AS DOUBLE PRECISION) AS pages \
             FROM (SELECT tier, at, pages, COUNT(at) OVER (PARTITION BY tier) AS reads, \
             ROW_NUMBER() OVER (PARTITION BY tier ORDER BY at NULLS LAST) AS place \
             FROM (SELECT CASE WHEN COALESCE(of.next_due - of.checked_at, 0) <= $2 THEN 0 \
             WHEN of.next_due - of.checked_at <= $3 THEN 1 ELSE 2 END AS tier, whole.ended_at AS at, whole.pages \
             FROM ",
            $tables,
            " WHERE of.namespace = $1 AND of.state IN ('live', 'unavailable') AND of.state = 'live' \
             AND of.checked_at IS NOT NULL) AS list) AS placed GROUP BY tier ORDER BY tier"
        )
    };
}

/// The statement of the lists that were never read, by the tables of a list (`of`), its crawl under way (`crawl`) and its owner's
/// profile (`account`); `$1` is the namespace, `$2` the moment before which a list waits too long, `$3` the members of a page, `$4`
/// those of the longest list, `$5` the namespace of profiles.
macro_rules! unread_total {
    ($tables:literal) => {
        concat!(
            "SELECT COUNT(*) AS lists, COUNT(CASE WHEN first_seen < $2 THEN 1 END) AS overdue, MIN(first_seen) AS oldest_at, \
             COALESCE(SUM(CAST(CASE WHEN expected - read > 1 THEN expected - read WHEN expected IS NOT NULL THEN 1 END \
             AS DOUBLE PRECISION)), 0.0) AS pages, \
             COUNT(CASE WHEN expected IS NULL THEN 1 END) AS unknown, \
             COALESCE(SUM(CAST(CASE WHEN expected IS NULL THEN read END AS DOUBLE PRECISION)), 0.0) AS unknown_read \
             FROM (SELECT first_seen, read, members / $3 + CASE WHEN members % $3 > 0 THEN 1 ELSE 0 END AS expected \
             FROM (SELECT first_seen, read, CASE WHEN $4 > 0 AND stated > $4 THEN $4 ELSE stated END AS members \
             FROM (SELECT of.first_seen, COALESCE(crawl.pages, 0) AS read, COALESCE(CASE WHEN $1 LIKE 'followers:%' \
             THEN account.followers ELSE account.following END, crawl.told) AS stated FROM ",
            $tables,
            " WHERE of.namespace = $1 AND of.state IN ('live', 'unavailable') AND of.state = 'live' \
             AND of.checked_at IS NULL) AS list) AS cut) AS counted"
        )
    };
}

pub(super) use {tier_totals, unread_total};
