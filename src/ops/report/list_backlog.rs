//! Lists that were never read, the age of the others, and the calls needed for both. Pure.
//!
//! **First reads** are a backlog. The pages of a list follow from the members that its owner's profile states, or else are the average of
//! the complete reads, or else 1. In both orders (`relations.order`), new lists are read before the others, but after the lists whose
//! owners posted again.
//!
//! **Upkeep** is a rate: the visits of all lists, as `plan --followers` calculates them
//! ([`VisitIntervals::daily_total`](collect::pipelines::kind::VisitIntervals::daily_total)). A list that was never read counts, too.

use std::fmt;

use serde::Serialize;

use crate::ops::NoAnswer;
use crate::ops::report::plan::WINDOW_S;
use crate::ops::report::quota_load::QuotaLoad;
use crate::table::Table;
use collect::pipelines::kind::{ListTerms, ListTier};
use engine::base::clock::Millis;
use engine::base::humanize::{format_number, group_digits, one_line, span};
use store::{ListBounds, ListTotals, TIERS, TierTotal, UnreadTotal};

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ListBacklog {
    #[serde(flatten)]
    pub figures: Option<ListFigures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ListFigures {
    /// Lists whose owners are available.
    pub lists: u64,
    pub unread: u64,
    /// Lists that were never read and wait longer than their interval.
    pub unread_overdue: u64,
    /// The interval of lists, ms (`relations.revisit`).
    pub interval_ms: Millis,
    /// Longest wait for a first read, ms; `None` if no list waits.
    pub oldest_unread_ms: Option<Millis>,
    /// Calls of all first reads, estimated.
    pub first_calls: u64,
    /// Calls of the visits that come before first reads.
    #[serde(skip)]
    pub calls_before: f64,
    /// Time until each list has been read once, ms, without further lists; `None`: the quota is unknown.
    pub read_once_ms: Option<Millis>,
    pub upkeep_calls_per_15_min: f64,
    pub tiers: Vec<TierFigures>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TierFigures {
    pub tier: String,
    pub revisit_ms: Millis,
    /// Maximum time between two complete reads, ms.
    pub complete_within_ms: Millis,
    pub lists: u64,
    pub complete: u64,
    /// Median age of the newest complete reads, ms.
    pub median_age_ms: Option<Millis>,
    /// Age of the oldest of these reads, ms.
    pub oldest_age_ms: Option<Millis>,
    /// Lists whose newest complete read is older than `complete_within_ms`.
    pub too_old: u64,
    /// Mean number of pages of these reads.
    pub pages_per_list: Option<f64>,
}

/// Returns the times that classify lists in a count at `now`, ms since the epoch.
#[must_use]
pub fn bounds(terms: &ListTerms, now: Millis) -> ListBounds {
    let mut bounds = ListBounds {
        recorded_before: now.saturating_sub(terms.new.revisit_ms),
        intervals: [Millis::MAX; TIERS],
        complete_before: [0; TIERS],
        page: terms.pages.page,
        longest: terms.pages.longest,
    };
    for (at, tier) in terms.tiers.iter().take(TIERS).enumerate() {
        bounds.intervals[at] = tier.up_to_ms;
        bounds.complete_before[at] = now.saturating_sub(tier.every.complete_within_ms());
    }
    bounds
}

fn number(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

impl ListBacklog {
    #[must_use]
    pub fn new(read: Result<ListTotals, NoAnswer>, terms: &ListTerms, now: Millis) -> Self {
        match read {
            Ok(totals) => Self { figures: Some(ListFigures::new(&totals, terms, now)), error: None },
            Err(why) => Self { figures: None, error: Some(one_line(&why.to_string())) },
        }
    }

    /// Sets the time until each list has been read once.
    #[must_use]
    pub fn with_read_once(mut self, quota: &QuotaLoad) -> Self {
        if let Some(figures) = &mut self.figures {
            let supply = quota.supply_calls_per_15_min;
            let calls = figures.first_calls as f64 + figures.calls_before;
            figures.read_once_ms = match figures.unread {
                0 => Some(0),
                _ if supply > 0.0 && quota.unmetered == 0 => Some((calls / supply * WINDOW_S * 1e3) as Millis),
                _ => None,
            };
        }
        self
    }
}

impl ListFigures {
    fn new(ListTotals { tiers, unread }: &ListTotals, terms: &ListTerms, now: Millis) -> Self {
        let age = |at: Millis| (now - at).max(0);
        let of_tier = |(at, tier): (usize, &ListTier)| {
            let total = tiers.iter().find(|total| total.tier == at as i64).copied().unwrap_or_default();
            let TierTotal { lists, complete, oldest_at, median_at, too_old, pages, .. } = total;
            TierFigures {
                tier: tier.name.to_string(),
                revisit_ms: tier.every.revisit_ms,
                complete_within_ms: tier.every.complete_within_ms(),
                lists: number(lists),
                complete: number(complete),
                median_age_ms: median_at.map(age),
                oldest_age_ms: oldest_at.map(age),
                too_old: number(too_old),
                pages_per_list: pages,
            }
        };
        let figures: Vec<TierFigures> = terms.tiers.iter().enumerate().map(of_tier).collect();
        let read = figures.iter().filter_map(|tier| Some((tier.complete as f64, tier.pages_per_list?)));
        let (reads, pages) = read.fold((0.0, 0.0), |(reads, sum), (lists, pages)| (reads + lists, sum + lists * pages));
        let usual_pages = if reads > 0.0 { (pages / reads).max(1.0) } else { 1.0 };

        let UnreadTotal { lists, overdue, oldest_at, pages, unknown, unknown_read } = *unread;
        let unknown = number(unknown) as f64;
        // Each list has at least one page left.
        let first_calls = pages + (unknown * usual_pages - unknown_read).max(unknown);
        let pages_of_new = if lists > 0 { (first_calls / lists as f64).max(1.0) } else { 1.0 };
        let (mut per_day, mut calls_before) = (lists as f64 * terms.new.daily_total(pages_of_new, 1.0), 0.0);
        for (tier, of) in terms.tiers.iter().zip(&figures) {
            let (lists, pages) = (of.lists as f64, of.pages_per_list.unwrap_or(usual_pages));
            per_day += lists * tier.every.daily_total(pages, 1.0);
            if tier.is_before_new {
                calls_before += lists * tier.every.average_per_visit(pages, 1.0);
            }
        }
        Self {
            lists: number(lists) + figures.iter().map(|tier| tier.lists).sum::<u64>(),
            unread: number(lists),
            unread_overdue: number(overdue),
            interval_ms: terms.new.revisit_ms,
            oldest_unread_ms: oldest_at.map(age),
            first_calls: first_calls.ceil() as u64,
            calls_before,
            read_once_ms: None,
            upkeep_calls_per_15_min: per_day * WINDOW_S / 86_400.0,
            tiers: figures,
        }
    }

    #[must_use]
    pub fn read_once_text(&self) -> String {
        self.read_once_ms.map_or_else(|| "unknown".to_owned(), |ms| span((ms + 999) / 1_000 * 1_000))
    }
}

impl TierFigures {
    #[must_use]
    pub fn age_text(age_ms: Option<Millis>) -> String {
        age_ms.map_or_else(|| "–".to_owned(), |age| span(age / 1_000 * 1_000))
    }
}

impl fmt::Display for ListBacklog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(figures) = &self.figures else {
            return write!(f, "unknown: {}", self.error.as_deref().unwrap_or("no count has finished yet"));
        };
        let (unread, overdue) = (group_digits(figures.unread), group_digits(figures.unread_overdue));
        let interval = span(figures.interval_ms);
        let mut counts = Table::figures(20, 12);
        counts.figure("never read", unread, format!("({overdue} of them for longer than {interval})"));
        if figures.unread > 0 {
            counts.figure("calls for them", format_number(figures.first_calls as f64), "");
            counts.figure("each read once in", figures.read_once_text(), "");
        }
        let header =
            ["tier", "visited every", "read whole every", "lists", "read whole", "median age", "oldest age", "too old"];
        let mut tiers = Table::new("<10>14>18>10>12>14>14>10", &header);
        for tier in &figures.tiers {
            let [revisit, whole] = [tier.revisit_ms, tier.complete_within_ms].map(span);
            let [lists, complete, too_old] = [tier.lists, tier.complete, tier.too_old].map(group_digits);
            let [median, oldest] = [tier.median_age_ms, tier.oldest_age_ms].map(TierFigures::age_text);
            tiers.row(&[&tier.tier, &revisit, &whole, &lists, &complete, &median, &oldest, &too_old]);
        }
        write!(f, "{counts}\n\n{tiers}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::report::quota_load::tests::quota;
    use collect::pipelines::kind::{ListPages, VisitIntervals};

    const NOW: Millis = 1_800_000_000_000;
    const DAY: Millis = 86_400_000;

    /// Visited every 10 days, read as a whole every 30.
    fn terms() -> ListTerms {
        let every = VisitIntervals::new(10 * DAY, 30 * DAY, 100);
        let tier = |name: &str, up_to_ms, is_before_new| ListTier { name: name.into(), every, up_to_ms, is_before_new };
        let tiers = vec![tier("repeat", 0, true), tier("visited", Millis::MAX, false)];
        ListTerms { pages: ListPages { page: 5_000, longest: 0 }, new: every, tiers }
    }

    fn figures(totals: &ListTotals, supply: f64, unmetered: usize) -> ListFigures {
        ListBacklog::new(Ok(totals.clone()), &terms(), NOW).with_read_once(&quota(supply, unmetered)).figures.unwrap()
    }

    fn unread(lists: i64) -> UnreadTotal {
        let oldest_at = (lists > 0).then_some(NOW - 11 * DAY);
        UnreadTotal { lists, overdue: lists, oldest_at, pages: 0.0, unknown: lists, unknown_read: 0.0 }
    }

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} and not {expected}");
    }

    #[test]
    fn lists_that_were_never_read_are_a_backlog() {
        let totals = ListTotals { tiers: Vec::new(), unread: unread(297) };
        let all = figures(&totals, 15.0, 0);
        // One page each, one call per minute; no size and no read is known.
        assert_eq!((all.lists, all.unread, all.first_calls, all.read_once_ms), (297, 297, 297, Some(297 * 60_000)));
        assert_eq!((all.unread_overdue, all.oldest_unread_ms), (297, Some(11 * DAY)));
        // Each list needs one page every 10 days.
        close(all.upkeep_calls_per_15_min, 297.0 / 960.0);
        for (supply, unmetered) in [(0.0, 0), (15.0, 1)] {
            assert_eq!(figures(&totals, supply, unmetered).read_once_ms, None, "the quota is unknown");
        }
        let text = ListBacklog::new(Ok(totals), &terms(), NOW).with_read_once(&quota(15.0, 0)).to_string();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0].join(" "), "never read 297 (297 of them for longer than 10d)", "{text}");
        assert_eq!(rows[1].join(" "), "calls for them 297");
        assert_eq!(rows[2].join(" "), "each read once in 4h 57m");
        assert_eq!(rows[5].join(" "), "repeat 10d 30d 0 0 – – 0");
    }

    #[test]
    fn sizes_come_from_profiles_or_else_from_reads() {
        let visited = TierTotal {
            tier: 1,
            lists: 100,
            complete: 90,
            oldest_at: Some(NOW - 40 * DAY),
            median_at: Some(NOW - 12 * DAY),
            too_old: 7,
            pages: Some(4.0),
        };
        let repeat = TierTotal { tier: 0, lists: 9, ..TierTotal::default() };
        // Four lists have 30 pages left by their profiles. Two lists have an unknown size; one page of them was read.
        let waiting = UnreadTotal { lists: 6, pages: 30.0, unknown: 2, unknown_read: 1.0, ..unread(6) };
        let all = figures(&ListTotals { tiers: vec![repeat, visited], unread: waiting }, 15.0, 0);
        assert_eq!((all.lists, all.unread, all.first_calls), (115, 6, 37));
        // Every third visit of a list of 4 pages is complete: 2 calls on average. Nine lists come first.
        assert_eq!(all.read_once_ms, Some((37 + 9 * 2) * 60_000));
        let per_day = 109.0 * 2.0 / 10.0 + 6.0 * (37.0 / 6.0 / 30.0 + 2.0 / 30.0);
        close(all.upkeep_calls_per_15_min, per_day / 96.0);
        let tier = &all.tiers[1];
        assert_eq!((tier.lists, tier.complete, tier.too_old, &*tier.tier), (100, 90, 7, "visited"));
        assert_eq!((tier.median_age_ms, tier.oldest_age_ms), (Some(12 * DAY), Some(40 * DAY)));
        assert_eq!(all.tiers[0].median_age_ms, None);
        // Lists of unknown size may have more pages than the average: at least one page is left of each.
        let long = UnreadTotal { unknown_read: 50.0, ..unread(2) };
        assert_eq!(figures(&ListTotals { tiers: vec![visited], unread: long }, 15.0, 0).first_calls, 2);
    }

    #[test]
    fn no_list_waits_where_there_is_none_and_what_is_unknown_is_said() {
        let none = figures(&ListTotals::default(), 0.0, 0);
        assert_eq!((none.lists, none.unread, none.first_calls, none.read_once_ms), (0, 0, 0, Some(0)));
        close(none.upkeep_calls_per_15_min, 0.0);
        let out = ListBacklog::new(Err(NoAnswer::Failed("no\nroute".to_owned())), &terms(), NOW)
            .with_read_once(&quota(15.0, 0));
        assert_eq!((out.to_string(), out.figures.is_none()), ("unknown: no route".to_owned(), true));
        assert_eq!(serde_json::to_string(&out).unwrap(), r#"{"error":"no route"}"#);
    }

    #[test]
    fn bounds_are_those_of_the_tiers() {
        let bounds = bounds(&terms(), NOW);
        assert_eq!(bounds.recorded_before, NOW - 10 * DAY);
        assert_eq!(bounds.intervals, [0, Millis::MAX, Millis::MAX]);
        assert_eq!(bounds.complete_before, [NOW - 30 * DAY, NOW - 30 * DAY, 0]);
    }
}
