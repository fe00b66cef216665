//! Numbers, shares, times and errors as the page writes them.

use std::fmt::Display;

use maud::{Markup, html};

use engine::base::clock::Millis;
pub(super) use engine::base::humanize::truncate_chars;
use engine::base::humanize::{self, group_digits, rfc3339, span};
use networks::model::bound::is_truncated;

const EXCERPT: usize = 4_000;
/// Maximum length of a text on one line, in characters.
const LINE: usize = 500;

/// The text on one line, cut to [`LINE`] characters.
pub(super) fn one_line(text: &str) -> String {
    humanize::one_line(&truncate_chars(text, LINE))
}

pub(super) fn excerpt(text: &str) -> Markup {
    let shown = truncate_chars(text, EXCERPT);
    let is_all = shown.len() == text.len();
    html! {
        blockquote #text dir="auto" { (shown) }
        @if !is_all {
            p.lead { "the beginning of " (group_digits(text.len() as u64)) " bytes; " code { "twitter-updater export" } " writes all of it" }
        }
        @if is_truncated(text) { p.lead { "The text was too long: the store has only its beginning." } }
    }
}

/// Formats a span in whole units: `3m 20s`; below a second in ms.
pub(super) fn format_span(ms: Millis) -> String {
    let ms = ms.max(0);
    span(if ms < 1_000 { ms } else { ms / 1_000 * 1_000 })
}

/// Writes a number rounded to a tenth: `2.5`, `97`, `1,234`.
pub(super) fn round_to_tenth(number: f64) -> String {
    let tenths = (number.max(0.0) * 10.0).round() as u64;
    match tenths % 10 {
        0 => group_digits(tenths / 10),
        rest => format!("{}.{rest}", group_digits(tenths / 10)),
    }
}

/// Writes a share of 1 in percent. Only 1 becomes 100 %, and only 0 becomes 0 %.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 100.0 || percent <= 0.0 {
        return format!("{} %", percent.clamp(0.0, 100.0));
    }
    format!("{:.1} %", percent.clamp(0.1, 99.9))
}

pub(super) fn count_text(number: u64, one: &str) -> String {
    format!("{} {one}{}", group_digits(number), if number == 1 { "" } else { "s" })
}

/// Capitalizes an ASCII word.
pub(super) fn capitalize(word: &str) -> String {
    let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
    first.to_ascii_uppercase() + rest
}

/// Writes a stored number; a dash if it is missing or negative.
pub(super) fn number_or_dash(number: impl Into<Option<i64>>) -> String {
    number.into().and_then(|number| u64::try_from(number).ok()).map_or("–".to_owned(), group_digits)
}

/// Writes a time as `2026-01-31 09:30:00 UTC`.
pub(super) fn date(at: Millis) -> Markup {
    html! {
        @match rfc3339(at) {
            Some(date) => time datetime=(date) { (date.replace('T', " ").replace('Z', " UTC")) },
            None => { (at) " ms" }
        }
    }
}

/// Writes a time relative to `now`, to the second: `in 3m` or `3m ago`. The browser keeps it running. `past` is the word for past times:
/// `ago` or `late`.
pub(super) fn relative_time(at: Millis, now: Millis, past: &str) -> Markup {
    let at = at / 1_000 * 1_000;
    let left = at.saturating_sub(now);
    let whole = span(left.saturating_abs() / 1_000 * 1_000);
    let text = match left.saturating_abs() {
        ..1_000 => "now".to_owned(),
        _ if left > 0 => format!("in {whole}"),
        _ => format!("{whole} {past}"),
    };
    html! {
        @match rfc3339(at) {
            Some(date) => time datetime=(date) title=(date) data-at=(at) data-past=(past) { (text) },
            None => (text),
        }
    }
}

/// Removes the times that a browser keeps running ([`relative_time`]), so that parts can be compared.
pub(super) fn without_times(html: &str) -> String {
    let before = |part: &str| part.rfind("data-past=").unwrap_or(part.len());
    let mut parts = html.split("</time>").peekable();
    let mut text = String::with_capacity(html.len());
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        text.push_str(if is_last { part } else { &part[..before(part)] });
    }
    text
}

/// Prefixes of a database's driver before the database's own words.
const DRIVER: [&str; 2] = ["error returned from database: ", "error communicating with database: "];
/// Messages of databases and systems with their meanings; the first match counts.
const MEANINGS: [(&str, &str); 13] = [
    ("password authentication failed", "it refuses the user or the password"),
    ("Connection refused", "nothing listens at its address"),
    ("No such file or directory", "nothing listens at its address"),
    ("failed to lookup address", "the name of its host is unknown"),
    ("Connection reset by peer", "the connection broke"),
    ("Broken pipe", "the connection broke"),
    ("broken pipe", "the connection broke"),
    ("unexpected end of file", "the connection broke"),
    ("expected to read", "the connection broke"),
    ("terminating connection", "it is shutting down"),
    ("the database system is", "it is starting or shutting down"),
    ("statement timeout", "it took too long to answer"),
    ("disk is full", "its disk is full"),
];

/// Writes an error on one line. Our words replace known messages of the database's driver or of the operating system.
pub(super) fn describe_error(error: &(impl Display + ?Sized)) -> String {
    let text = one_line(&error.to_string());
    let meant = |words: &str| MEANINGS.iter().find(|(said, _)| words.contains(said)).map(|(_, meaning)| *meaning);
    if let Some((at, driver)) = DRIVER.iter().find_map(|driver| Some((text.find(driver)?, driver))) {
        let (before, said) = (&text[..at], &text[at + driver.len()..]);
        return meant(said)
            .map_or_else(|| format!("{before}the database says: {said}"), |known| format!("{before}{known}"));
    }
    let said = text.split_once(" (os error").map_or(&*text, |(said, _)| said);
    let known = MEANINGS.iter().find_map(|(words, meaning)| Some((said.strip_suffix(words)?, meaning)));
    match known {
        Some((before, meaning)) => format!("{before}{meaning}"),
        None => text,
    }
}

/// Draws a share of 1 as a bar.
pub(super) fn share_bar(share: f64, tone: &str) -> Markup {
    // Wide enough to be seen, unless it is zero.
    let width = if share > 0.0 { (share * 100.0).clamp(1.0, 100.0) } else { 0.0 };
    html! {
        svg class={ "bar " (tone) } viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect width=(format!("{width:.2}")) height="4" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_numbers_are_short_and_true() {
        for (number, text) in [(-0.0, "0"), (2.5, "2.5"), (97.04, "97"), (1_250.0, "1,250"), (34e6, "34,000,000")] {
            assert_eq!(round_to_tenth(number), text);
        }
        assert_eq!([format_span(-3), format_span(12), format_span(61_999)], ["0s", "12ms", "1m 1s"]);
        assert_eq!([count_text(1, "id"), count_text(2_000, "id")], ["1 id", "2,000 ids"]);
        assert_eq!([capitalize("posts"), capitalize("é"), capitalize("")], ["Posts", "é", ""]);
    }

    #[test]
    fn a_databases_errors_are_put_in_plain_words() {
        for (text, expected) in [
            (
                "the store is not available: error communicating with database: Connection refused (os error 111)",
                "the store is not available: nothing listens at its address",
            ),
            (
                "the store refused the statement: error returned from database: value\ntoo long",
                "the store refused the statement: the database says: value too long",
            ),
            (
                "Unknown: the queue is not available: Connection refused (os error 111)",
                "Unknown: the queue is not available: nothing listens at its address",
            ),
            ("the queue is not available: broken pipe", "the queue is not available: the connection broke"),
            ("HTTP 502: Connection refused by the upstream", "HTTP 502: Connection refused by the upstream"),
            ("no answer within 8 s", "no answer within 8 s"),
        ] {
            assert_eq!(describe_error(text), expected);
        }
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(
            [truncate_chars("пр ивет", 3), truncate_chars("пр ивет", 7), truncate_chars("", 0)],
            ["пр…", "пр ивет", ""]
        );
    }

    #[test]
    fn only_all_is_all_and_only_nothing_is_nothing() {
        for (share, text) in [(1.0, "100 %"), (0.999_999, "99.9 %"), (0.5, "50.0 %"), (0.000_01, "0.1 %"), (0.0, "0 %")]
        {
            assert_eq!(percent(share), text);
        }
        assert!(share_bar(0.000_1, "").into_string().contains("width=\"1.00\""));
    }

    #[test]
    fn a_moment_is_said_from_now_on_both_sides() {
        let at = 1_760_000_000_000;
        let said = |now| relative_time(at, now, "late").into_string();
        assert!(said(at - 200_999).contains("data-past=\"late\">in 3m 20s</time>"), "{}", said(at - 200_999));
        assert!(said(at + 61_000).contains(">1m 1s late</time>"));
        assert!(said(at + 999).contains(">now</time>") && said(at - 999).contains(">now</time>"));
        assert!(date(at).into_string().contains("datetime=\"2025-10-09T08:53:20Z\">2025-10-09 08:53:20 UTC"));
        assert_eq!(date(-1).into_string(), "-1 ms");
        assert_eq!(relative_time(i64::MAX, 0, "ago").into_string().find('<'), None);
        let shown = |at, now| html! { p { "free " (relative_time(at, now, "ago")) ", " (date(at)) "." } }.into_string();
        assert_eq!(without_times(&shown(at, at - 1_000)), without_times(&shown(at + 9, at + 5_000)));
        assert_ne!(without_times(&shown(at, at)), without_times(&shown(at + 1_000, at)));
        assert_eq!(without_times("<p>no time</p>"), "<p>no time</p>");
    }
}
