//! Numbers and spans for people. Pure.

use crate::clock::{self, Millis};

/// A whole number with commas between its thousands.
#[must_use]
pub fn grouped(number: u64) -> String {
    commas(&number.to_string())
}

/// A number: three places of what is small, commas in what is large.
#[must_use]
pub fn figure(value: f64) -> String {
    let places = match value {
        whole if whole.fract() == 0.0 || whole >= 1_000.0 => 0,
        some if some >= 10.0 => 1,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    commas(whole) + rest
}

/// A span in at most two units: `1h 5m`, `3s 20ms`.
#[must_use]
pub fn span(ms: Millis) -> String {
    let long = humantime::format_duration(clock::span(ms)).to_string();
    long.split(' ').take(2).collect::<Vec<_>>().join(" ")
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
            assert_eq!(grouped(number), text);
        }
        for (value, text) in [(0.9375, "0.938"), (93.75, "93.8"), (84_375.2, "84,375"), (1_500.0, "1,500")] {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn a_span_has_two_units_at_the_most() {
        for (ms, text) in [(0, "0s"), (-5, "0s"), (3_020, "3s 20ms"), (3_905_001, "1h 5m")] {
            assert_eq!(span(ms), text);
        }
    }
}
