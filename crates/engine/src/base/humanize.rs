//! Numbers, spans, times and lines for people. Pure.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::base::clock::{self, Millis};

/// The first time whose year has five digits, ms since the epoch.
const END_OF_DATES: Millis = 253_402_300_800_000;

#[must_use]
pub fn group_digits(number: u64) -> String {
    commas(&number.to_string())
}

/// A number with its noun: `1 entry`, `1,234 entries`.
#[must_use]
pub fn count_with_noun(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", group_digits(number), if number == 1 { one } else { many })
}

/// A number: up to three decimal places if it is small, commas if it is large.
#[must_use]
pub fn format_number(value: f64) -> String {
    let places = match value {
        whole if whole.fract() == 0.0 || whole >= 1_000.0 => 0,
        some if some >= 10.0 => 1,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    commas(whole) + rest
}

const UNITS: [(&str, Millis); 6] =
    [("y", 31_557_600_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A span in at most two units: `1d 2h`, `1h 5m`, `3s 20ms`.
#[must_use]
pub fn span(ms: Millis) -> String {
    let mut left = ms.max(0);
    let counts = UNITS.map(|(unit, length)| {
        let count = left / length;
        left %= length;
        (count, unit)
    });
    let parts = counts.iter().filter(|(count, _)| *count > 0).take(2).map(|(count, unit)| format!("{count}{unit}"));
    let text = parts.collect::<Vec<_>>().join(" ");
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// A time, in ms since the epoch, to the second: `2026-01-31T09:30:00Z`. A number that is no date is shown in ms.
#[must_use]
pub fn format_time(at: Millis) -> String {
    rfc3339(at).unwrap_or_else(|| format!("{at} ms"))
}

/// Formats a time, in ms since the epoch, to the second: `2026-01-31T09:30:00Z`; `None` if the number is no date.
#[must_use]
pub fn rfc3339(at: Millis) -> Option<String> {
    Some(humantime::format_rfc3339_seconds(date(at)?).to_string())
}

/// Formats a time to the millisecond: `2026-01-31T09:30:00.123Z`; `None` if the number is no date.
#[must_use]
pub fn rfc3339_ms(at: Millis) -> Option<String> {
    Some(humantime::format_rfc3339_millis(date(at)?).to_string())
}

fn date(at: Millis) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(clock::span(at)).filter(|_| (0..END_OF_DATES).contains(&at))
}

/// A foreign text in one line: without line breaks, terminal controls and characters that change the writing direction.
#[must_use]
pub fn one_line(text: &str) -> String {
    let plain = strip_direction_marks(text);
    let words = plain.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Lines that may hold foreign texts: without terminal controls and characters that change the writing direction.
#[must_use]
pub fn printable(lines: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    let plain = strip_direction_marks(lines);
    if plain.contains(steers) { Cow::Owned(plain.replace(steers, " ")) } else { plain }
}

/// A text without the Unicode characters that change the writing direction: they make `gpj.exe` look like `exe.jpg`.
#[must_use]
pub fn strip_direction_marks(text: &str) -> Cow<'_, str> {
    let steers =
        |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if text.contains(steers) { Cow::Owned(text.replace(steers, "")) } else { Cow::Borrowed(text) }
}

/// The first `most` characters of a text, with `…` if it was longer.
#[must_use]
pub fn truncate_chars(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

fn commas(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (12_345, "12,345"), (u64::MAX, "18,446,744,073,709,551,615")]
        {
            assert_eq!(group_digits(number), text);
        }
        for (number, text) in [(0, "0 entries"), (1, "1 entry"), (1_000, "1,000 entries")] {
            assert_eq!(count_with_noun(number, "entry", "entries"), text);
        }
        for (value, text) in [(0.9375, "0.938"), (93.75, "93.8"), (84_375.2, "84,375"), (1_500.0, "1,500")] {
            assert_eq!(format_number(value), text);
        }
    }

    #[test]
    fn a_span_has_two_units_at_the_most() {
        for (ms, text) in [(0, "0s"), (-5, "0s"), (3_020, "3s 20ms"), (3_905_001, "1h 5m"), (2_600_000_000, "30d 2h")] {
            assert_eq!(span(ms), text);
        }
    }

    #[test]
    fn a_moment_is_a_date_where_it_can_be() {
        for (at, text) in
            [(1_769_851_800_999, "2026-01-31T09:30:00Z"), (-1, "-1 ms"), (i64::MAX, "9223372036854775807 ms")]
        {
            assert_eq!(format_time(at), text);
        }
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line(" a\r\n\x1b[31mb\u{9b} \t c "), "a [31mb c");
        for steers in ['\u{61c}', '\u{200e}', '\u{200f}']
            .into_iter()
            .chain('\u{202a}'..='\u{202e}')
            .chain('\u{2066}'..='\u{2069}')
        {
            let text = format!("a{steers}b");
            assert_eq!((&*one_line(&text), &*printable(&text)), ("ab", "ab"), "{steers:?}");
        }
        assert_eq!(printable("\u{1b}[2ma\tb\u{9b}\u{7}\nשלום"), " [2ma\tb  \nשלום");
    }
}
