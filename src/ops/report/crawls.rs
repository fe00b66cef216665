//! Crawls of lists under way: progress, and time left by the quota. Pure.
//!
//! **Expected pages.** The members that the owner's profile stated ÷ the members of a page. They are unknown for a crawl of the newest
//! members, which ends at known members.
//!
//! **Time left.** The crawls under way share the calls of the quota and take turns. A crawl with *r* pages left ends when each other crawl
//! has had *r* calls, or fewer if it has fewer pages left. Later crawls, and calls of other pipelines at the endpoint, are left out.

use std::fmt;

use serde::Serialize;

use crate::ops::NoAnswer;
use crate::ops::report::plan::WINDOW_S;
use crate::ops::report::quota_load::QuotaLoad;
use crate::table::Table;
use collect::pipelines::kind::ListPages;
use engine::base::clock::Millis;
use engine::base::humanize::{format_number, format_time, group_digits, one_line, span};
use store::{CrawlKind, ListCrawl};

/// Maximum number of crawls that are read and counted.
pub const MAX_CRAWLS: u32 = 1_000;
/// Maximum number of crawls listed as JSON and on the page.
const MAX_LISTED: usize = 100;
/// Maximum number of crawls listed as text.
const MAX_LINES: usize = 20;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Crawls {
    /// Number of crawls, at most [`MAX_CRAWLS`]; `None` if the store did not answer.
    pub under_way: Option<u64>,
    /// The earliest crawls by start.
    pub listed: Vec<CrawlProgress>,
    /// The other crawls, for the times left.
    #[serde(skip)]
    pub others: Vec<CrawlProgress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CrawlProgress {
    pub owner: String,
    /// `complete`, or `prefix`: the newest members.
    pub kind: &'static str,
    /// ms since the epoch.
    pub started_at: Millis,
    /// Time of the newest page, or else of the start, ms since the epoch.
    pub newest_at: Millis,
    pub pages: u64,
    pub expected_pages: Option<u64>,
    /// Distinct members on the saved pages.
    pub found: u64,
    /// The number of members that the owner's profile stated; `None`: unknown.
    pub stated_total: Option<u64>,
    /// ms; `None`: unknown.
    pub left_ms: Option<Millis>,
}

impl CrawlProgress {
    fn new(of: ListCrawl, list: ListPages) -> Self {
        let ListCrawl { owner, crawl } = of;
        let number = |stored: i64| u64::try_from(stored).unwrap_or(0);
        let (pages, stated) = (number(crawl.pages), crawl.stated_total.map(number));
        // A crawl under way has at least one page left.
        let expected = |stated: u64| list.count_for(stated).max(pages + 1);
        Self {
            owner,
            kind: match crawl.kind {
                CrawlKind::Complete => "complete",
                CrawlKind::Prefix { .. } => "prefix",
            },
            started_at: crawl.started_at,
            newest_at: crawl.newest_at,
            pages,
            expected_pages: stated.filter(|_| crawl.kind == CrawlKind::Complete).map(expected),
            found: number(crawl.found),
            stated_total: stated,
            left_ms: None,
        }
    }

    fn pages_left(&self) -> Option<u64> {
        Some(self.expected_pages?.saturating_sub(self.pages))
    }

    #[must_use]
    pub fn time_left_text(&self) -> String {
        self.left_ms.map_or_else(unknown, |ms| span(ms.max(1_000) / 1_000 * 1_000))
    }

    #[must_use]
    pub fn expected_pages_text(&self) -> String {
        self.expected_pages.map_or_else(unknown, group_digits)
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

impl Crawls {
    #[must_use]
    pub fn new(read: Result<Vec<ListCrawl>, NoAnswer>, list: ListPages) -> Self {
        match read {
            Ok(crawls) => {
                let mut listed: Vec<_> = crawls.into_iter().map(|crawl| CrawlProgress::new(crawl, list)).collect();
                let under_way = Some(listed.len() as u64);
                let others = listed.split_off(listed.len().min(MAX_LISTED));
                Self { under_way, listed, others, error: None }
            }
            Err(why) => Self { error: Some(one_line(&why.to_string())), ..Self::default() },
        }
    }

    /// Sets the time left of each listed crawl.
    #[must_use]
    pub fn with_time_left(mut self, quota: &QuotaLoad) -> Self {
        let is_known = quota.supply_calls_per_15_min > 0.0 && quota.unmetered == 0;
        let all = self.listed.iter().chain(&self.others);
        let (known, unknown): (Vec<_>, Vec<_>) = all.map(CrawlProgress::pages_left).partition(Option::is_some);
        let mut known: Vec<u64> = known.into_iter().flatten().collect();
        known.sort_unstable();
        for crawl in &mut self.listed {
            let calls = |own: u64| {
                let shorter = known.partition_point(|pages| *pages <= own);
                let whole: u64 = known[..shorter].iter().sum();
                whole + own * (known.len() - shorter + unknown.len()) as u64
            };
            let ms = |calls: u64| (calls as f64 / quota.supply_calls_per_15_min * WINDOW_S * 1e3) as Millis;
            crawl.left_ms = crawl.pages_left().filter(|_| is_known).map(|own| ms(calls(own)));
        }
        self
    }

    #[must_use]
    pub fn count_text(&self) -> String {
        match self.under_way {
            Some(crawls) if crawls >= u64::from(MAX_CRAWLS) => format!("{} or more", group_digits(crawls)),
            Some(crawls) => group_digits(crawls),
            None => unknown(),
        }
    }

    /// Returns the earliest start, ms since the epoch.
    #[must_use]
    pub fn oldest_start(&self) -> Option<Millis> {
        self.listed.iter().chain(&self.others).map(|crawl| crawl.started_at).min()
    }
}

impl fmt::Display for Crawls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.error {
            return write!(f, "unknown: {why}");
        }
        let mut count = Table::figures(20, 12);
        count.figure("under way", self.count_text(), "");
        write!(f, "{count}")?;
        if self.listed.is_empty() {
            return Ok(());
        }
        let header = ["owner", "kind", "pages", "expected", "members", "began", "time left"];
        let mut table = Table::new("<20 <9>8>10>12  <21 <", &header);
        for crawl in self.listed.iter().take(MAX_LINES) {
            let (owner, pages, members) =
                (one_line(&crawl.owner), group_digits(crawl.pages), format_number(crawl.found as f64));
            let (expected, began, left) =
                (crawl.expected_pages_text(), format_time(crawl.started_at), crawl.time_left_text());
            table.row(&[&owner, &crawl.kind, &pages, &expected, &members, &began, &left]);
        }
        write!(f, "\n{table}")?;
        let more = self.under_way.unwrap_or(0).saturating_sub(MAX_LINES as u64);
        if more > 0 { write!(f, "\n… and {} more", group_digits(more)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::report::quota_load::tests::quota;
    use store::CrawlUnderWay;

    fn crawl(owner: &str, kind: CrawlKind, pages: i64, stated: Option<i64>) -> ListCrawl {
        let crawl = CrawlUnderWay {
            number: 1,
            kind,
            cursor: None,
            started_at: 1_700_000_000_000,
            newest_at: 1_700_000_000_000,
            pages,
            found: pages * 5_000,
            unreadable: 0,
            stated_total: stated,
        };
        ListCrawl { owner: owner.to_owned(), crawl }
    }

    const PAGES: ListPages = ListPages { page: 5_000, longest: 0 };

    #[test]
    fn crawls_share_the_calls_until_each_has_its_pages() {
        let of = [
            crawl("short", CrawlKind::Complete, 1, Some(9_000)),
            crawl("long", CrawlKind::Complete, 2, Some(50_000)),
            crawl("newest", CrawlKind::Prefix { known_tail: 100 }, 0, Some(50_000)),
            crawl("unknown", CrawlKind::Complete, 4, None),
            // More members than its profile stated.
            crawl("grown", CrawlKind::Complete, 3, Some(10_000)),
        ];
        let crawls = Crawls::new(Ok(of.to_vec()), PAGES).with_time_left(&quota(15.0, 0));
        let left: Vec<_> = crawls.listed.iter().map(|crawl| (crawl.expected_pages, crawl.left_ms)).collect();
        // One call per minute: 1 page of each of five; 8 of the long one and of both unknown ones, and 1 of each short one.
        let minutes = |pages: Millis| Some(pages * 60_000);
        let expected =
            [(Some(2), minutes(5)), (Some(10), minutes(8 * 3 + 2)), (None, None), (None, None), (Some(4), minutes(5))];
        assert_eq!(left, expected);
        let text = crawls.to_string();
        let row = |owner: &str| {
            let line = text.lines().find(|line| line.starts_with(owner)).unwrap_or_else(|| panic!("{text}"));
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("long"), ["long", "complete", "2", "10", "10,000", "2023-11-14T22:13:20Z", "26m"]);
        assert_eq!(row("newest")[3..], ["unknown", "0", "2023-11-14T22:13:20Z", "unknown"]);
        // A cap cuts the list. A quota without a limit gives no time.
        let capped = Crawls::new(Ok(vec![of[1].clone()]), ListPages { longest: 20_000, ..PAGES });
        assert_eq!(capped.listed[0].expected_pages, Some(4));
        for quota in [quota(0.0, 0), quota(15.0, 1)] {
            assert_eq!(capped.clone().with_time_left(&quota).listed[0].left_ms, None);
        }
    }

    #[test]
    fn what_the_store_does_not_tell_is_unknown_and_many_are_counted() {
        let out = Crawls::new(Err(NoAnswer::Failed("no\nroute".to_owned())), PAGES).with_time_left(&quota(15.0, 0));
        assert_eq!((out.to_string(), out.under_way, out.oldest_start()), ("unknown: no route".to_owned(), None, None));
        let none = Crawls::new(Ok(Vec::new()), PAGES);
        assert_eq!(none.to_string().split_whitespace().collect::<Vec<_>>(), ["under", "way", "0"]);
        let all = vec![crawl("1", CrawlKind::Complete, 0, Some(1)); MAX_CRAWLS as usize];
        let many = Crawls::new(Ok(all), PAGES).with_time_left(&quota(1_000.0, 0));
        assert_eq!((many.listed.len(), many.count_text().as_str()), (MAX_LISTED, "1,000 or more"));
        assert_eq!(many.listed[0].left_ms, Some(900_000), "all of them count");
        assert!(many.to_string().ends_with("… and 980 more"));
    }
}
