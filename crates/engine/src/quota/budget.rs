//! Budget of reads, for an API that charges once per UTC day for each item that it returns.
//!
//! Reads are counted before the call ([`Credentials::reserve`](super::Credentials::reserve)), in one step of the ledger. So workers
//! cannot exceed the budget together, and a worker that dies leaves a count that is too high, not too low. An id that was counted
//! today is free. Ids that the call did not read are taken back ([`Credentials::charge`](super::Credentials::charge)).
//!
//! The API's clock decides the day of a read. Within [`Budget::margin`] of a UTC midnight an id counts for both days.
//!
//! These rules are pure. `lua/reads.lua` has the same rules for Redis; the contract suite compares the two.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use time::{Date, Duration as Days, OffsetDateTime};

use crate::base::clock::{self, Millis};

pub const DAY_MS: Millis = 86_400_000;
/// Longest useful margin: with a longer one, more than two days would be possible.
const LONGEST_MARGIN_MS: Millis = DAY_MS / 2;
/// Days whose reads are kept: more than the longest period has.
pub(super) const DAYS_KEPT: i64 = 62;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Items that may be read in a period; 0: no limit.
    pub reads: u64,
    pub per: Period,
    /// Time around a UTC midnight in which the API's day of a read is unknown, ms. It covers the longest call and the
    /// difference of the clocks. At most half a day counts.
    pub margin: Millis,
    /// US dollars per item.
    pub price_per_read: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    Month {
        /// Day of a calendar month (UTC) on which the period begins: 1 to 28.
        from_day: u32,
    },
    /// A length in ms, aligned to the Unix epoch: 86,400,000 are UTC days.
    Every(Millis),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// Whole UTC days, as days since the epoch: first day (included), last day (excluded).
    Days(i64, i64),
    /// A period whose length is no whole number of days: length in ms, number of the period.
    Part(Millis, i64),
}

impl Period {
    /// Budget period of a read at `now` that the API counts for UTC day `day`: it contains `day`, or `now` if it is not whole days.
    #[must_use]
    pub fn span(self, day: i64, now: Millis) -> Span {
        match self {
            Self::Month { from_day } => {
                // From the 28th at the latest, 31 days later is in the next month, and 28 days earlier in the one before.
                let from = from_day.clamp(1, 28) as u8;
                let this = day_in_month(date(day), from);
                let first = if this <= day { this } else { day_in_month(date(this - 28), from) };
                Span::Days(first, day_in_month(date(first + 31), from))
            }
            Self::Every(length) if length >= DAY_MS && length % DAY_MS == 0 => {
                let days = length / DAY_MS;
                let first = day.div_euclid(days) * days;
                Span::Days(first, first + days)
            }
            // The ledger's clock decides: no API uses such a period.
            Self::Every(length) => Span::Part(length.max(1), now.div_euclid(length.max(1))),
        }
    }

    /// Arguments for scripts: the length in ms (0: a month), and the first day of the month.
    pub(super) fn arguments(self) -> (Millis, u32) {
        match self {
            Self::Month { from_day } => (0, from_day.clamp(1, 28)),
            Self::Every(length) => (length.max(1), 0),
        }
    }
}

fn date(day: i64) -> Date {
    OffsetDateTime::UNIX_EPOCH.date().saturating_add(Days::days(day))
}

/// Day number of the day `of_month` (1 to 28) in the month of `date`, in days since the epoch.
fn day_in_month(date: Date, of_month: u8) -> i64 {
    (date.replace_day(of_month).unwrap_or(date) - OffsetDateTime::UNIX_EPOCH.date()).whole_days()
}

impl Budget {
    /// UTC days for which the API may charge a call at `now`, each with its period. One day; two around midnight.
    #[must_use]
    pub fn days(&self, now: Millis) -> Vec<(i64, Span)> {
        let margin = self.margin();
        let (first, last) = (day(now - margin), day(now + margin));
        let with_span = |day| (day, self.per.span(day, now));
        if first == last { vec![with_span(first)] } else { vec![with_span(first), with_span(last)] }
    }

    pub(super) fn margin(&self) -> Millis {
        self.margin.clamp(0, LONGEST_MARGIN_MS)
    }

    #[must_use]
    pub fn status(&self, counted: &CountedReads) -> BudgetStatus {
        let CountedReads { now, by_day, .. } = counted;
        let days = self.days(*now);
        let costs = |span: Span| days.iter().filter(|(_, of)| *of == span).count() as u64;
        let is_full =
            |span: Span, more: u64| self.reads > 0 && counted.reads_in(span).saturating_add(more) > self.reads;
        let has_room = !days.iter().any(|(_, span)| is_full(*span, costs(*span)));
        // Around the end of a period: the full one. Its reset is the time by which the API's clock must have passed its end.
        let last = days.iter().map(|(_, span)| *span).rfind(|span| is_full(*span, 1));
        let shown = last.or_else(|| days.first().map(|(_, span)| *span)).unwrap_or(Span::Part(1, *now));
        let (start, reset) = match shown {
            Span::Days(from, to) => (from * DAY_MS, to * DAY_MS + self.margin()),
            Span::Part(length, number) => (number * length, (number + 1) * length),
        };
        let read = counted.reads_in(shown);
        BudgetStatus {
            reads: read,
            limit: (self.reads > 0).then_some(self.reads),
            spent: is_full(shown, 1),
            since_ms: start,
            reset_in_ms: (reset - now).max(1),
            today: by_day.get(&day(*now)).copied().unwrap_or(0),
            dollars: read as f64 * self.price_per_read,
            has_room,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountedReads {
    /// The ledger's clock, ms since the epoch.
    pub now: Millis,
    pub by_day: BTreeMap<i64, u64>,
    /// Number of a period that is no whole number of days, and its reads.
    pub part: Option<(i64, u64)>,
}

impl CountedReads {
    #[must_use]
    pub fn reads_in(&self, span: Span) -> u64 {
        match span {
            Span::Days(from, to) => self.by_day.range(from..to).map(|(_, reads)| reads).sum(),
            Span::Part(_, number) => self.part.filter(|(of, _)| *of == number).map_or(0, |(_, reads)| reads),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BudgetStatus {
    /// Items that were read in this period, or may have been.
    pub reads: u64,
    /// Limit of the period; `None`: no limit.
    pub limit: Option<u64>,
    /// True if it is used up. Calls stop until its reset.
    pub spent: bool,
    pub since_ms: Millis,
    /// Time until the next period, ms.
    pub reset_in_ms: Millis,
    pub today: u64,
    /// Upper bound of the cost of this period's reads, US dollars.
    pub dollars: f64,
    /// True if one more item may be read now.
    #[serde(skip)]
    pub has_room: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChargedReads {
    /// Requested, and not returned: the API does not charge them.
    pub unread: Vec<String>,
    /// Requested, and returned under another id: the last version of an edited item. The API charges that id.
    pub edited: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetPeriod {
    Month,
    /// A length, aligned to the Unix epoch.
    Every(Duration),
}

impl BudgetPeriod {
    #[must_use]
    pub fn period(self, from_day: u32) -> Period {
        match self {
            Self::Month => Period::Month { from_day },
            Self::Every(length) => Period::Every(clock::millis(length)),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a period: write \"month\", or a duration from 1s to 31d, like \"1d\"")]
pub struct BadPeriod(String);

impl FromStr for BudgetPeriod {
    type Err = BadPeriod;

    fn from_str(text: &str) -> Result<Self, BadPeriod> {
        if text.trim() == "month" {
            return Ok(Self::Month);
        }
        let length = humantime::parse_duration(text.trim()).map_err(|_| BadPeriod(text.to_owned()))?;
        let allowed = Duration::from_secs(1)..=Duration::from_secs(31 * 86_400);
        if allowed.contains(&length) { Ok(Self::Every(length)) } else { Err(BadPeriod(text.to_owned())) }
    }
}

impl fmt::Display for BudgetPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Month => f.write_str("month"),
            Self::Every(length) => humantime::format_duration(*length).fmt(f),
        }
    }
}

pub(super) fn day(now: Millis) -> i64 {
    now.div_euclid(86_400_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(text: &str) -> i64 {
        let at = humantime::parse_rfc3339_weak(&format!("{text} 00:00:00")).unwrap();
        i64::try_from(at.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()).unwrap() / 86_400
    }

    fn month(from_day: u32, on: &str) -> (i64, i64) {
        match (Period::Month { from_day }).span(days(on), 0) {
            Span::Days(from, to) => (from, to),
            Span::Part(..) => panic!("a month is whole days"),
        }
    }

    #[test]
    fn every_day_is_in_the_month_that_holds_it() {
        for (day, from_day) in (-1_000..60_000).flat_map(|day| [1, 15, 28].map(|from| (day, from))) {
            let Span::Days(from, to) = (Period::Month { from_day }).span(day, 0) else {
                panic!("a month is whole days")
            };
            assert!((from..to).contains(&day) && (28..=31).contains(&(to - from)), "{day}: {from} to {to}");
            assert_eq!([from, to].map(|at| u32::from(date(at).day())), [from_day; 2]);
        }
    }

    #[test]
    fn a_month_begins_on_its_day() {
        for (from_day, on, from, to) in [
            (1, "2026-02-06", "2026-02-01", "2026-03-01"),
            (1, "2024-02-29", "2024-02-01", "2024-03-01"),
            (7, "2026-02-06", "2026-01-07", "2026-02-07"),
            (7, "2026-02-07", "2026-02-07", "2026-03-07"),
            (28, "2026-01-01", "2025-12-28", "2026-01-28"),
            (15, "2025-12-31", "2025-12-15", "2026-01-15"),
        ] {
            assert_eq!(month(from_day, on), (days(from), days(to)), "{from_day} on {on}");
        }
    }

    fn budget(reads: u64, per: Period) -> Budget {
        Budget { reads, per, margin: 30_000, price_per_read: 0.005 }
    }

    #[test]
    fn around_midnight_a_read_counts_for_both_days() {
        let month = budget(10, Period::Month { from_day: 1 });
        let midnight = days("2026-03-01") * DAY_MS;
        let counts_for = |at: Millis| month.days(midnight + at).into_iter().map(|(day, _)| day).collect::<Vec<_>>();
        let (before, after) = (days("2026-02-28"), days("2026-03-01"));
        assert_eq!(counts_for(-30_001), [before]);
        assert_eq!(counts_for(-30_000), [before, after]);
        assert_eq!(counts_for(29_999), [before, after]);
        assert_eq!(counts_for(30_000), [after]);
        // And in both months.
        let [(_, february), (_, march)] = month.days(midnight)[..] else { panic!("two days") };
        assert_eq!((february, march), (Span::Days(before - 27, after), Span::Days(after, after + 31)));
        // A period within a day uses the ledger's clock: the read counts once for each day, in the one period.
        let hour = budget(10, Period::Every(3_600_000)).days(midnight);
        assert!(hour.len() == 2 && hour[0].1 == hour[1].1, "{hour:?}");
    }

    #[test]
    fn it_is_spent_until_the_apis_clock_has_to_be_past_the_reset() {
        let per = Period::Month { from_day: 1 };
        let (february, march) = (days("2026-02-01"), days("2026-03-01"));
        let at = |now: Millis, of_february: u64, of_march: u64| {
            let by_day = [(february, of_february), (march, of_march)].into();
            budget(10, per).status(&CountedReads { now, by_day, part: None })
        };
        let (middle, midnight) = ((february + 10) * DAY_MS, march * DAY_MS);
        let some = at(middle + 60_000, 9, 0);
        assert_eq!((some.reads, some.limit, some.spent, some.has_room), (9, Some(10), false, true));
        assert_eq!((some.since_ms, some.today, some.dollars), (february * DAY_MS, 0, 0.045));
        // One is left, and at midnight it would count twice.
        assert!(!at(middle, 9, 0).has_room && !at(middle, 9, 0).spent);
        let spent = at(middle + 60_000, 10, 0);
        assert_eq!((spent.spent, spent.has_room), (true, false));
        assert_eq!(spent.reset_in_ms, midnight + 30_000 - middle - 60_000);
        let just_after = at(midnight + 10_000, 10, 3);
        assert_eq!((just_after.spent, just_after.has_room, just_after.reset_in_ms), (true, false, 20_000));
        let after = at(midnight + 30_000, 10, 3);
        assert_eq!((after.reads, after.spent, after.has_room, after.today), (3, false, true, 3));
        // Without a limit there is always room; reads are counted all the same.
        let endless = Budget { reads: 0, ..budget(0, per) };
        let reads = endless.status(&CountedReads { now: middle, by_day: [(february, 99)].into(), part: None });
        assert_eq!((reads.reads, reads.limit, reads.spent, reads.has_room), (99, None, false, true));
    }

    #[test]
    fn a_period_is_a_month_or_a_duration() {
        for (text, period) in [
            ("month", Period::Month { from_day: 7 }),
            ("1d", Period::Every(DAY_MS)),
            (" 3s ", Period::Every(3_000)),
            ("31d", Period::Every(31 * DAY_MS)),
        ] {
            assert_eq!(text.parse::<BudgetPeriod>().unwrap().period(7), period);
        }
        for text in ["", "week", "0s", "999ms", "32d", "-1d"] {
            let error = text.parse::<BudgetPeriod>().unwrap_err().to_string();
            assert!(error.contains("month") && error.contains(&format!("{text:?}")), "{error}");
        }
        assert_eq!("1day 2h".parse::<BudgetPeriod>().unwrap().to_string(), "1day 2h");
        assert_eq!(BudgetPeriod::Month.to_string().parse(), Ok(BudgetPeriod::Month));
    }
}
