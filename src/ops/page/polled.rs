//! The section about polled sources: newest post, next poll, errors and gaps of each.

use maud::{Markup, html};

use super::format::{count_text, date, describe_error, one_line, relative_time};
use super::scroll_table::{STACKED, scroll_table};
use crate::ops::report::sources::{QueueState, Source, Sources, failures_text};
use engine::base::clock::Millis;
use engine::base::humanize::group_digits;
use store::{SourceGap, SourceTrouble};

/// `#sources`; hidden if there are none.
pub(super) fn section(sources: &Sources, now: Millis) -> Markup {
    if sources.is_empty() {
        return html! { div #sources hidden {} };
    }
    let Sources { all, error: out, .. } = sources;
    let number_of = |is: fn(&&Source) -> bool| all.iter().filter(is).count() as u64;
    let failing = number_of(|source| source.trouble.is_some());
    let quiet = number_of(|source| source.is_quiet);
    let with_gaps = number_of(|source| source.gaps > 0);
    html! {
        section.panel #sources aria-labelledby="sources-name" {
            h2 #sources-name { "Sources" }
            @if let Some(why) = out {
                p.lead.bad { "The store does not answer: " (describe_error(why)) }
            } @else {
                p.lead {
                    strong { (count_text(all.len() as u64, "source")) } " polled for new posts"
                    @if failing > 0 { "; " strong.bad { (group_digits(failing)) } " cannot be read" }
                    @if quiet > 0 { "; " strong.warn { (group_digits(quiet)) } " brought no new post for long" }
                    @if with_gaps > 0 { "; " strong.warn { (group_digits(with_gaps)) } " with gaps: posts may be missing" }
                }
                (scroll_table("sources-box", "The polled sources", STACKED, &[
                    ("", "Source"), ("", "Endpoint"), ("", "Newest post"), ("lesser", "Created"), ("", "Polled"),
                    ("", "Due"), ("n", "Gaps")
                ], html! {
                    @for source in all { (source_rows(source, now)) }
                }))
            }
        }
    }
}

fn source_rows(source: &Source, now: Millis) -> Markup {
    html! {
        tr {
            th.name scope="row" { (one_line(&source.name)) }
            td data-name="Endpoint" {
                (source.address().map_or_else(|| "–".to_owned(), |address| one_line(&address)))
            }
            td.id data-name="Newest post" { (source.newest_id.as_deref().map_or_else(|| "–".to_owned(), one_line)) }
            td.lesser { @match source.newest_at { Some(at) => (date(at)), None => "–" } }
            td data-name="Polled" {
                @match source.saved_at { Some(at) => (relative_time(at, now, "ago")), None => (source.unread_text()) }
            }
            td data-name="Due" {
                @match (source.turn, source.due_at) {
                    (QueueState::Delayed, _) if source.is_paused() => span.warn { "paused" },
                    (QueueState::Delayed, Some(at)) => (relative_time(at, now, "late")),
                    (QueueState::Dead | QueueState::Absent, _) => span.bad { (source.turn.text()) },
                    (turn, _) => (turn.text()),
                }
            }
            td.n data-name="Gaps" { (group_digits(source.gaps)) }
        }
        @if let Some(SourceTrouble { since, failures, error: why, .. }) = &source.trouble {
            tr {
                td.wrap.bad colspan="7" dir="auto" {
                    (one_line(&source.name)) " cannot be read since " (date(*since)) (failures_text(*failures)) ": " (why)
                }
            }
        }
        @if let Some(since) = source.quiet_since() {
            tr { td.wrap.warn colspan="7" { (one_line(&source.name)) " brought no new post since " (date(since)) } }
        }
        @for SourceGap { from, to, reason, noted_at } in &source.latest_gaps {
            tr {
                td.wrap.warn colspan="7" dir="auto" {
                    "may be missing from " (one_line(&source.name)) ": ids " span.id { (one_line(from)) } " to " span.id { (one_line(to)) }
                    ", noted " (relative_time(*noted_at, now, "ago")) ": " (one_line(reason))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::report::sources::Poller;

    const EVIL: &str = "</td><script>alert(1)</script>\"'&";

    fn source(turn: QueueState, due_at: Option<Millis>) -> Source {
        Source {
            newest_id: Some("1460323737035677698".to_owned()),
            newest_at: Some(1_637_003_285_069),
            saved_at: Some(8_000),
            turn,
            due_at,
            ..crate::ops::report::sources::tests::source("rust")
        }
    }

    fn render_sources(all: Vec<Source>, error: Option<&str>) -> String {
        section(&Sources { all, error: error.map(str::to_owned), ..Sources::default() }, 10_000).into_string()
    }

    #[test]
    fn each_source_says_how_far_it_was_read_and_when_it_is_due() {
        let text =
            render_sources(vec![source(QueueState::Delayed, Some(70_000)), source(QueueState::Absent, None)], None);
        for says in
            ["2 sources", ">1460323737035677698<", "2021-11-15 19:08:05 UTC", ">2s ago<", ">in 1m<", "in no queue"]
        {
            assert!(text.contains(says), "{says}: {text}");
        }
        assert!(!text.contains("missing"), "{text}");
        assert!(render_sources(vec![source(QueueState::Delayed, Some(4_000))], None).contains(">6s late<"));
        let paused = Poller::Paused { reason: "why".to_owned() };
        let paused = Source { poller: paused, ..source(QueueState::Delayed, Some(4_000)) };
        assert!(render_sources(vec![paused], None).contains("<span class=\"warn\">paused</span>"));
    }

    #[test]
    fn a_gap_says_from_where_to_where_and_stays_text() {
        let gap = SourceGap { from: "1".into(), to: EVIL.into(), reason: EVIL.into(), noted_at: 5_000 };
        let gappy =
            Source { name: EVIL.to_owned(), gaps: 1_234, latest_gaps: vec![gap], ..source(QueueState::Leased, None) };
        let text = render_sources(vec![gappy], None);
        for says in [">1,234<", "may be missing", "ids <span class=\"id\">1</span> to", ">5s ago<", "polled now"] {
            assert!(text.contains(says), "{says}: {text}");
        }
        assert!(!text.contains("<script>") && text.contains("&lt;script&gt;"), "{text}");
    }

    #[test]
    fn what_cannot_be_read_and_what_is_quiet_says_since_when_also_before_the_first_page() {
        let error = format!("HTTP 500 {EVIL}");
        let trouble = Some(SourceTrouble { since: 1_000, failures: 1_234, error, at: 9_000 });
        let new =
            Source { saved_at: None, newest_id: None, trouble: trouble.clone(), ..source(QueueState::Delayed, None) };
        let old = Source { trouble, ..source(QueueState::Delayed, None) };
        let calm = Source { is_quiet: true, brought_at: Some(2_000), ..source(QueueState::Delayed, None) };
        let text = render_sources(vec![new, old, calm], None);
        for says in [
            "<strong class=\"bad\">2</strong> cannot be read; <strong class=\"warn\">1</strong> brought no new post",
            ">no page yet<",
            "rust cannot be read since <time datetime=\"1970-01-01T00:00:01Z\">1970-01-01 00:00:01 UTC</time> \
             (1,234 times): HTTP 500 &lt;/td&gt;",
            "rust brought no new post since <time datetime=\"1970-01-01T00:00:02Z\">",
        ] {
            assert!(text.contains(says), "{says}: {text}");
        }
        assert!(!text.contains("<script>"), "{text}");
    }

    #[test]
    fn nothing_is_seen_where_there_are_none_and_why_where_it_is_not_known() {
        assert_eq!(render_sources(Vec::new(), None), "<div id=\"sources\" hidden></div>");
        let out = render_sources(Vec::new(), Some("no <route>"));
        assert!(out.contains("does not answer: no &lt;route&gt;") && !out.contains("<table"), "{out}");
    }
}
