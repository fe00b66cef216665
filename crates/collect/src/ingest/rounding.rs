//! Detects ids that lost their last digits: in a spreadsheet, or as float64 numbers.

use engine::base::humanize::group_digits;

/// Largest number up to which float64 holds every whole number exactly.
const EXACT: u64 = 1 << 53;
/// Minimum number of ids for the warning of float64. Ids with sequence number 0 are exact in float64, too, so a short list may have only
/// such ids.
const FEWEST: u64 = 20;

/// Counts ids that look rounded.
///
/// A spreadsheet keeps 15 digits, and JavaScript prints about 17: their ids end in 00, as only 1 in 100 does by chance.
/// In pandas and R, a column with an empty cell becomes float64. Each id is then the nearest number that float64 holds,
/// a multiple of 256 above 2^60. Many real ids are such numbers, so only a whole file of them is a sign.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoundingDetector {
    long: u64,
    round: u64,
    first_round: u64,
    /// True if one ends in 0000, as hardly any does by chance.
    has_four_zeros: bool,
    large: u64,
    /// Large ids that float64 changes.
    inexact: u64,
}

impl RoundingDetector {
    pub fn add_id(&mut self, line: u64, id: &str) {
        if id.len() < 16 || !id.bytes().all(|digit| digit.is_ascii_digit()) {
            return;
        }
        self.long += 1;
        if id.ends_with("00") {
            if self.round == 0 {
                self.first_round = line;
            }
            self.round += 1;
            self.has_four_zeros |= id.ends_with("0000");
        }
        if let Ok(number) = id.parse::<u64>()
            && number > EXACT
        {
            self.large += 1;
            self.inexact += u64::from(number as f64 as u64 != number);
        }
    }

    /// Returns a sentence for people if the ids look rounded. `place`: noun for a position in the input, like `line`.
    #[must_use]
    pub fn warning(&self, place: &str) -> Option<String> {
        const REMEDY: &str = "export the column as text and send the ids again.";
        // 5 %: five times the share by chance. A single one may be chance.
        if (self.round > 1 || self.has_four_zeros) && self.round * 20 >= self.long {
            return Some(format!(
                "{} of {} long ids end in 00, where 1 in 100 is usual; the first is at {place} {}. A spreadsheet may have \
                 rounded them: {REMEDY}",
                group_digits(self.round),
                group_digits(self.long),
                self.first_round
            ));
        }
        (self.large >= FEWEST && self.inexact == 0).then(|| {
            format!(
                "all {} long ids are numbers that float64 holds exactly, as hardly any list of ids is. pandas, R or JavaScript may \
                 have rounded them: {REMEDY}",
                group_digits(self.large)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_spreadsheet_are_noticed_from_five_percent_on() {
        let of = |round: u64, long: u64| {
            let mut rounding = RoundingDetector::default();
            for line in 1..=long {
                let last = if line > long - round { "00" } else { "17" };
                rounding.add_id(line, &format!("15000000000012{last}"));
            }
            rounding.add_id(long + 1, "100"); // short ids do not count
            rounding.add_id(long + 2, "not an id, however long 00");
            rounding.warning("line")
        };
        assert_eq!(of(0, 0), None);
        assert_eq!(of(0, 10), None);
        assert_eq!(of(4, 100), None);
        let warning = of(5, 100).unwrap();
        assert!(warning.contains("5 of 100") && warning.contains("line 96"), "{warning}");
        assert_eq!((of(1, 1), of(1, 20)), (None, None), "one of a few is chance");
        assert!(of(2, 40).is_some() && of(2, 2).is_some());
        let mut rounding = RoundingDetector::default();
        rounding.add_id(1, "1460323737035680000");
        assert!(rounding.warning("line").is_some(), "no chance ends in 0000");
    }

    #[test]
    fn ids_of_float64_are_noticed_where_all_are_and_there_are_twenty() {
        let of = |rounded: u64, inexact: u64| {
            let mut rounding = RoundingDetector::default();
            let mut look_at = |n: u64, id: u64| rounding.add_id(n, &id.to_string());
            // Multiples of 256, none of which ends in 00.
            (1..=rounded).for_each(|n| look_at(n, 1_460_323_737_035_677_696 + 256 * 25 * n));
            (1..=inexact).for_each(|n| look_at(n, 1_460_323_737_035_677_699 + 4_096 * n));
            rounding.warning("line")
        };
        assert!(of(20, 0).unwrap().starts_with("all 20 long ids are numbers that float64 holds"));
        assert_eq!((of(19, 0), of(2_000, 1), of(0, 2_000)), (None, None, None));
        let mut small = RoundingDetector::default();
        (0..100).for_each(|n| small.add_id(n, &(1_000_000_000_000_001 + 3 * n).to_string()));
        assert_eq!(small.warning("line"), None, "float64 holds all of them");
    }
}
