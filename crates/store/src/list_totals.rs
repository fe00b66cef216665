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

/// Statement of the read lists, by the tables of a list (`of`) and its newest complete read (`whole`). `$1` is the
/// namespace, `$2` and `$3` the first two intervals, `$4` to `$6` the time limits of old reads. It repeats the
/// condition of the index of live items word for word.
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

/// Statement of the unread lists, by the tables of a list (`of`), its crawl under way (`crawl`) and its owner's profile
/// (`account`). `$1` is the namespace, `$2` the time limit of waiting, `$3` the members per page, `$4` those of the
/// longest list, `$5` the namespace of profiles.
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
             THEN account.followers ELSE account.following END, crawl.stated_total) AS stated FROM ",
            $tables,
            " WHERE of.namespace = $1 AND of.state IN ('live', 'unavailable') AND of.state = 'live' \
             AND of.checked_at IS NULL) AS list) AS cut) AS counted"
        )
    };
}

pub(super) use {tier_totals, unread_total};
