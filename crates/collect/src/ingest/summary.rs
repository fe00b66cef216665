use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::rounding::RoundingDetector;
use super::{FORGOTTEN, Queued};
use engine::base::clock::Millis;
use engine::base::humanize::{self, count_with_noun, group_digits};

const NAMED_REFUSALS: usize = 50;
/// Rejected lines of one reason that a command prints; others are only counted.
pub const LINES_OF_ONE_REASON: u64 = 3;
/// Maximum number of distinct reasons in a [`Summary`]: reasons quote the line, so a broken file has any number.
const NAMED_REASONS: usize = 100;
const OTHER_REASONS: &str = "other reasons";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Line where the entry begins, from 1.
    pub line: u64,
    pub reason: String,
}

/// Result counts of a file's entries. `scheduled + known + too_old + dead + refused = lines`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    pub name: String,
    /// Entries: ids, posts and rejected ones. In a file of one entry per line, the lines that are not blank.
    pub lines: u64,
    pub scheduled: u64,
    pub known: u64,
    pub too_old: u64,
    pub dead: u64,
    pub refused: u64,
    pub refusals: Vec<Refusal>,
    pub refused_by_reason: BTreeMap<String, u64>,
    /// Problem that a person should check, although the entries were scheduled.
    pub warning: Option<String>,
    /// Seconds from reading until the first entry is due. An entry already in the queue keeps its own due time.
    pub first_update_s: Option<f64>,
    pub last_update_s: Option<f64>,
    pub seconds: f64,
    pub ids_per_second: f64,
    #[serde(skip)]
    rounding: RoundingDetector,
}

impl Summary {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// An empty file is most likely a mistake.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// Returns true if there were entries and none was rejected. Otherwise a command should exit with an error.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        !self.is_empty() && self.refused == 0
    }

    pub(super) fn count(&mut self, queued: &Queued) {
        match queued {
            Queued::Scheduled => self.scheduled += 1,
            Queued::Known | Queued::Leased => self.known += 1,
            Queued::TooOld => self.too_old += 1,
            Queued::Dead => self.dead += 1,
            Queued::Forgotten => self.count_refused(FORGOTTEN),
            Queued::Refused(why) => self.count_refused(&why.to_string()),
        }
    }

    pub(super) fn refuse(&mut self, line: u64, reason: &str) {
        if self.refusals.len() < NAMED_REFUSALS {
            self.refusals.push(Refusal { line, reason: reason.to_owned() });
        }
        self.count_refused(reason);
    }

    fn count_refused(&mut self, reason: &str) {
        self.refused += 1;
        match self.refused_by_reason.get_mut(reason) {
            Some(count) => *count += 1,
            None => {
                let full = self.refused_by_reason.len() >= NAMED_REASONS;
                let reason = if full { OTHER_REASONS } else { reason };
                *self.refused_by_reason.entry(reason.to_owned()).or_default() += 1;
            }
        }
    }

    /// Counts an entry's due time; both times in ms since the epoch.
    pub(super) fn count_due(&mut self, at: Option<Millis>, now: Millis) {
        let Some(seconds) = at.map(|at| (at - now) as f64 / 1e3) else { return };
        self.first_update_s = Some(self.first_update_s.map_or(seconds, |first| first.min(seconds)));
        self.last_update_s = Some(self.last_update_s.map_or(seconds, |last| last.max(seconds)));
    }

    pub(super) fn check_rounding(&mut self, line: u64, id: &str) {
        self.rounding.add_id(line, id);
    }

    pub(super) fn finish(&mut self, seconds: f64) {
        self.warning = self.rounding.warning("line");
        self.seconds = seconds;
        self.ids_per_second = if seconds > 0.0 { self.lines as f64 / seconds } else { 0.0 };
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return write!(f, "{} is empty: nothing to schedule", self.name);
        }
        writeln!(
            f,
            "{}: {} in {:.1} s ({} per second)",
            self.name,
            count_with_noun(self.lines, "entry", "entries"),
            self.seconds,
            group_digits(self.ids_per_second as u64)
        )?;
        let rows = [
            ("scheduled", self.scheduled, ""),
            ("known", self.known, "in the queue already"),
            ("too old", self.too_old, "past the last age bracket, not updated any more; `--once` looks them up once"),
            ("dead", self.dead, "failed for good earlier; `dead retry` retries them"),
            ("refused", self.refused, ""),
        ];
        let width = group_digits(self.lines).len();
        for (what, count, remark) in rows {
            let row = format!("  {what:<9}  {:>width$}  {remark}", group_digits(count));
            writeln!(f, "{}", row.trim_end())?;
        }
        if let (Some(first), Some(last)) = (self.first_update_s, self.last_update_s)
            && self.scheduled > 0
        {
            let in_words = |seconds: f64| match seconds as Millis {
                0 => "now".to_owned(),
                whole => format!("in {}", humanize::span(whole * 1_000)),
            };
            let (first, last) = (in_words(first), in_words(last));
            let all = if first == last { String::new() } else { format!(", the last {last}") };
            writeln!(f, "  first update {first}{all}")?;
        }
        // Otherwise each rejected line was printed.
        let has_unprinted_lines = self.refused_by_reason.values().any(|lines| *lines > LINES_OF_ONE_REASON);
        if has_unprinted_lines || self.refused > self.refusals.len() as u64 {
            writeln!(f, "  refused, by reason:")?;
            let mut by_reason: Vec<_> = self.refused_by_reason.iter().collect();
            by_reason.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            for (reason, count) in by_reason {
                writeln!(f, "    {:>width$}  {reason}", group_digits(*count))?;
            }
        }
        if let Some(warning) = &self.warning {
            writeln!(f, "  warning: {warning}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_reasons_takes_little_room() {
        let mut summary = Summary::new("x");
        for line in 1..=10_000 {
            summary.lines += 1;
            summary.refuse(line, &format!("reason {line}"));
        }
        assert_eq!(summary.refusals.len(), NAMED_REFUSALS);
        assert_eq!(summary.refused_by_reason.len(), NAMED_REASONS + 1);
        assert_eq!(summary.refused_by_reason.values().sum::<u64>(), 10_000);
        assert_eq!(summary.refused_by_reason[OTHER_REASONS], 9_900);
        let text = summary.to_string();
        assert!(text.contains("9,900  other reasons"), "{text}");
    }

    #[test]
    fn it_reads_well() {
        let mut summary = Summary::new("tweets.txt");
        summary.lines = 1_234;
        summary.scheduled = 1_230;
        summary.known = 3;
        summary.refuse(7, "the id is negative");
        summary.check_rounding(9, "1500000000000000000");
        for due in [3_605_000, 5_000, 60_000] {
            summary.count_due(Some(due), 5_000);
        }
        summary.finish(2.0);
        let text = "\
tweets.txt: 1,234 entries in 2.0 s (617 per second)
  scheduled  1,230
  known          3  in the queue already
  too old        0  past the last age bracket, not updated any more; `--once` looks them up once
  dead           0  failed for good earlier; `dead retry` retries them
  refused        1
  first update now, the last in 1h
  warning: 1 of 1 long ids end in 00, where 1 in 100 is usual; the first is at line 9. A spreadsheet may have \
rounded them: export the column as text and send the ids again.
";
        assert_eq!(summary.to_string(), text);
        assert!(!summary.is_clean());
        let mut one = Summary::new("one.txt");
        one.lines = 1;
        assert!(one.to_string().starts_with("one.txt: 1 entry in 0.0 s"), "{one}");
        assert_eq!(Summary::new("-").to_string(), "- is empty: nothing to schedule");
    }
}
