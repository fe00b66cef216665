//! Numbers, shares and moments as the page writes them.

use maud::{Markup, html};

use crate::base::clock::Millis;
pub(super) use crate::base::humanize::cut;
use crate::base::humanize::{grouped, rfc3339, span};

/// A whole span: `3m 20s`; below a second in ms.
pub(super) fn time(ms: Millis) -> String {
    let ms = ms.max(0);
    span(if ms < 1_000 { ms } else { ms / 1_000 * 1_000 })
}

/// The same in one unit, for an axis or a column: `3m`, `1.5h`, `200ms`.
pub(super) fn short(ms: f64) -> String {
    let units = [(86_400_000.0, "d"), (3_600_000.0, "h"), (60_000.0, "m"), (1_000.0, "s")];
    let (by, unit) = units.into_iter().find(|(by, _)| ms >= *by).unwrap_or((1.0, "ms"));
    let value = ms / by;
    let places = usize::from(value < 10.0 && (value * 10.0).round() % 10.0 != 0.0);
    format!("{value:.places$}{unit}")
}

/// A number in at most four signs: `950`, `1.2k`, `34k`, `5.6M`.
pub(super) fn brief(number: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let Some((by, unit)) = units.into_iter().find(|(by, _)| number >= *by) else {
        let places = usize::from(number < 10.0 && (number * 10.0).round() % 10.0 != 0.0);
        return format!("{number:.places$}");
    };
    let value = number / by;
    let places = usize::from(value < 10.0 && (value * 10.0).floor() % 10.0 != 0.0);
    format!("{value:.places$}{unit}")
}

/// A share of 1 in percent. What is not whole is never shown as 100 %, what is not nought never as 0 %.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 100.0 || percent <= 0.0 {
        return format!("{} %", percent.clamp(0.0, 100.0));
    }
    format!("{:.1} %", percent.clamp(0.1, 99.9))
}

/// A number of things.
pub(super) fn count(number: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A number as it is stored: a dash where there is none, or what no number of things can be.
pub(super) fn stored(number: impl Into<Option<i64>>) -> String {
    number.into().and_then(|number| u64::try_from(number).ok()).map_or("–".to_owned(), grouped)
}

/// A moment as a date: `2026-01-31 09:30:00 UTC`.
pub(super) fn date(at: Millis) -> Markup {
    html! {
        @match rfc3339(at) {
            Some(date) => time datetime=(date) { (date.replace('T', " ").replace('Z', " UTC")) },
            None => { (at) " ms" }
        }
    }
}

/// A moment seen from `now`, to the second, `in 3m` or `3m ago`, which goes on in the browser. `past` is the word
/// for what is over: `ago`, or `late`.
pub(super) fn relative(at: Millis, now: Millis, past: &str) -> Markup {
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

/// Without what a browser moves on by itself, see [`relative`]: two such texts that are alike show the same.
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

/// A share as a bar; its number stands beside it in words.
pub(super) fn bar(share: f64, tone: &str) -> Markup {
    // Wide enough to be seen, unless it is nought.
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
        for (ms, text) in [(0.0, "0ms"), (999.0, "999ms"), (1_500.0, "1.5s"), (60_000.0, "1m"), (5_400_000.0, "1.5h")] {
            assert_eq!(short(ms), text);
        }
        for (number, text) in
            [(0.0, "0"), (2.5, "2.5"), (999.0, "999"), (1_000.0, "1k"), (1_250.0, "1.2k"), (34e6, "34M")]
        {
            assert_eq!(brief(number), text);
        }
        assert_eq!([time(-3), time(12), time(61_999)], ["0s", "12ms", "1m 1s"]);
        assert_eq!([count(1, "id"), count(2_000, "id")], ["1 id", "2,000 ids"]);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!([cut("пр ивет", 3), cut("пр ивет", 7), cut("", 0)], ["пр…", "пр ивет", ""]);
    }

    #[test]
    fn only_all_is_all_and_only_nothing_is_nothing() {
        for (share, text) in [(1.0, "100 %"), (0.999_999, "99.9 %"), (0.5, "50.0 %"), (0.000_01, "0.1 %"), (0.0, "0 %")]
        {
            assert_eq!(percent(share), text);
        }
        assert!(bar(0.000_1, "").into_string().contains("width=\"1.00\""));
    }

    #[test]
    fn a_moment_is_said_from_now_on_both_sides() {
        let at = 1_760_000_000_000;
        let said = |now| relative(at, now, "late").into_string();
        assert!(said(at - 200_999).contains("data-past=\"late\">in 3m 20s</time>"), "{}", said(at - 200_999));
        assert!(said(at + 61_000).contains(">1m 1s late</time>"));
        assert!(said(at + 999).contains(">now</time>") && said(at - 999).contains(">now</time>"));
        assert!(date(at).into_string().contains("datetime=\"2025-10-09T08:53:20Z\">2025-10-09 08:53:20 UTC"));
        assert_eq!(date(-1).into_string(), "-1 ms");
        assert_eq!(relative(i64::MAX, 0, "ago").into_string().find('<'), None);
        let shown = |at, now| html! { p { "free " (relative(at, now, "ago")) ", " (date(at)) "." } }.into_string();
        assert_eq!(without_times(&shown(at, at - 1_000)), without_times(&shown(at + 9, at + 5_000)));
        assert_ne!(without_times(&shown(at, at)), without_times(&shown(at + 1_000, at)));
        assert_eq!(without_times("<p>no time</p>"), "<p>no time</p>");
    }
}
