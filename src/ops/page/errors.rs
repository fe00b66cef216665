//! The section of the last errors. Workers record theirs for a week. The page keeps its own in memory, since a queue that is out records
//! none.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use maud::{Markup, html};

use super::format::{count_text, describe_error, one_line, relative_time, truncate_chars};
use super::layout::item_link;
use super::routes::Routes;
use super::scroll_table::{STACKED, scroll_table};
use crate::ops::report::sources::Sources;
use crate::ops::{LatestReading, Snapshot};
use engine::base::clock::Millis;
use engine::queue::{DeadJob, QueueError, RecordedError, WorkerStats};
use store::OldReader;

/// Rows of the front page, and errors that it reads.
pub(super) const SHOWN: usize = 10;
/// Limit of the page's own errors. It exceeds [`SHOWN`], so a lasting error does not come back as a new one.
const MAX_KEPT: usize = 100;
const MAX_MESSAGE_CHARS: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
enum ErrorOrigin {
    Service(&'static str),
    Named(&'static str, String),
    Post(String),
}

/// An error of the current reading. `at` is `None` if its time is unknown.
#[derive(Debug)]
struct CurrentError {
    at: Option<Millis>,
    origin: ErrorOrigin,
    message: String,
}

#[derive(Debug)]
pub(super) struct KeptError {
    at: Millis,
    origin: ErrorOrigin,
    message: String,
}

#[derive(Debug, Default)]
pub(super) struct ErrorHistory(Mutex<Vec<KeptError>>);

impl ErrorHistory {
    /// Renders `#errors`. `dead`: the last dead items; `recorded`: the newest errors that workers recorded.
    pub(super) fn section(
        &self,
        reading: &LatestReading,
        dead: &[DeadJob],
        sources: Option<&Sources>,
        recorded: &Result<Vec<RecordedError>, QueueError>,
        (routes, now): (&Routes, Millis),
    ) -> Markup {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for found in current_errors(reading, dead, sources) {
            keep_error(&mut kept, found, now);
        }
        if let Err(why) = recorded {
            keep_error(
                &mut kept,
                CurrentError { at: None, origin: ErrorOrigin::Service("queue"), message: shorten(&why.to_string()) },
                now,
            );
        }
        let recorded = recorded.as_deref().unwrap_or_default();
        let known: HashSet<String> = recorded.iter().map(|error| shorten(&error.message)).collect();
        let own = kept.iter().filter(|noted| !known.contains(&noted.message)).map(Row::Own);
        let mut rows: Vec<Row<'_>> = recorded.iter().map(Row::Recorded).chain(own).collect();
        rows.sort_by_key(|row| Reverse(row.at()));
        rows.truncate(SHOWN);
        render_errors(&rows, routes, now)
    }
}

fn current_errors(reading: &LatestReading, dead: &[DeadJob], sources: Option<&Sources>) -> Vec<CurrentError> {
    let mut found = Vec::new();
    let mut add = |at, origin, message: &str| {
        found.push(CurrentError { at, origin, message: shorten(message) });
    };
    if let Some(outage) = &reading.outage {
        add(outage.since_ms, ErrorOrigin::Service("queue"), &outage.why);
    }
    for one in dead {
        add(Some(one.at), ErrorOrigin::Post(one.id.clone()), &one.reason);
    }
    for source in sources.iter().flat_map(|sources| &sources.all) {
        if let Some(trouble) = &source.trouble {
            add(Some(trouble.at), ErrorOrigin::Named("source", source.name.clone()), &trouble.error);
        }
    }
    if let Some(snapshot) = &reading.snapshot {
        add_snapshot_errors(snapshot, add);
    }
    found
}

fn add_snapshot_errors(snapshot: &Snapshot, mut add: impl FnMut(Option<Millis>, ErrorOrigin, &str)) {
    if let Some(outage) = &snapshot.store_out {
        add(outage.since_ms, ErrorOrigin::Service("store"), &outage.why);
    }
    if let Some(outage) = &snapshot.unwritable {
        add(outage.since_ms, ErrorOrigin::Service("disk"), &outage.why);
    }
    if let Some(OldReader { age_ms, what }) = &snapshot.status.old_reader {
        add(
            Some(snapshot.at_ms() - age_ms),
            ErrorOrigin::Service("store"),
            &format!("{what}, has been open for too long: end it"),
        );
    }
    for account in snapshot.accounts.iter().filter(|account| account.parked_for_ms > 0) {
        let why = account.parked_why.as_deref().unwrap_or("parked");
        add(None, ErrorOrigin::Named("credential", account.name.clone()), why);
    }
    for worker in &snapshot.status.stats.workers {
        let origin = || ErrorOrigin::Named("worker", worker.worker.clone());
        if let Some(why) = worker.trouble() {
            let since = worker.fields.get(WorkerStats::TROUBLE_SINCE).and_then(|since| since.parse().ok());
            add(since, origin(), why);
        }
        if let Some(why) = worker.failing() {
            add(None, origin(), why);
        }
        if let Some(why) = worker.fields.get("config_refused").filter(|why| !why.is_empty()) {
            add(None, origin(), why);
        }
    }
}

fn keep_error(kept: &mut Vec<KeptError>, found: CurrentError, now: Millis) {
    let CurrentError { at, origin, message } = found;
    match kept.iter_mut().find(|known| known.message == message) {
        Some(known) if at.is_some_and(|at| at > known.at) => {
            *known = KeptError { at: at.unwrap_or(now), origin, message }
        }
        Some(_) => {}
        None => {
            kept.push(KeptError { at: at.unwrap_or(now), origin, message });
            kept.sort_by_key(|known| Reverse(known.at));
            kept.truncate(MAX_KEPT);
        }
    }
}

fn shorten(text: &str) -> String {
    truncate_chars(&describe_error(text), MAX_MESSAGE_CHARS)
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Row<'a> {
    Own(&'a KeptError),
    Recorded(&'a RecordedError),
}

impl Row<'_> {
    /// Last occurrence, ms since the epoch.
    fn at(&self) -> Millis {
        match self {
            Self::Own(noted) => noted.at,
            Self::Recorded(error) => error.last_ms,
        }
    }
}

fn render_errors(rows: &[Row<'_>], routes: &Routes, now: Millis) -> Markup {
    html! {
        section.panel #errors aria-labelledby="errors-name" {
            h2 #errors-name { "Last errors" }
            @if rows.is_empty() {
                p.lead.none { "No errors in the last 7 days." }
            } @else {
                (table(rows, routes, now))
                p.note { a href=(routes.address("/errors")) { "Search all errors" } }
            }
        }
    }
}

pub(super) fn table(rows: &[Row<'_>], routes: &Routes, now: Millis) -> Markup {
    html! {
        (scroll_table("errors-box", "The last errors", STACKED, &[
            ("", "Source"), ("", "Last seen"), ("", "Count"), ("", "Error")
        ], html! {
            @for row in rows { (render_row(*row, routes, now)) }
        }))
    }
}

fn render_row(row: Row<'_>, routes: &Routes, now: Millis) -> Markup {
    match row {
        Row::Own(KeptError { at, origin, message }) => html! {
            tr {
                th class=(if matches!(origin, ErrorOrigin::Post(_)) { "id" } else { "name" }) scope="row" {
                    @match origin {
                        ErrorOrigin::Service(name) => (name),
                        ErrorOrigin::Named(kind, name) => { (kind) " " (describe_error(name)) }
                        ErrorOrigin::Post(id) => (item_link(routes, id)),
                    }
                }
                td { (relative_time(*at, now, "ago")) }
                td {}
                td.wrap dir="auto" { (message) }
            }
        },
        Row::Recorded(recorded) => {
            let RecordedError { pipeline, kind, host, endpoint, first_ms, last_ms, example, message, .. } = recorded;
            let is_own = routes.namespace.as_ref() == Some(pipeline);
            let origin: Vec<&str> = [pipeline, host, endpoint].map(|part| &**part).into();
            let origin: Vec<&str> =
                origin.into_iter().skip(usize::from(is_own)).filter(|part| !part.is_empty()).collect();
            html! {
                tr {
                    th.name scope="row" { (one_line(kind)) @if !origin.is_empty() { ": " (one_line(&origin.join(" "))) } }
                    td { (relative_time(*last_ms, now, "ago")) }
                    td {
                        (count_text(recorded.count, "time"))
                        @if recorded.count > 1 { ", the first " (relative_time(*first_ms, now, "ago")) }
                    }
                    td.wrap dir="auto" {
                        (shorten(message))
                        @if let Some(example) = example {
                            " For example "
                            @if is_own { (item_link(routes, example)) } @else { (one_line(example)) }
                            "."
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Outage;

    const EVIL: &str = "</td><script>alert(1)</script>";

    fn buried(id: &str, at: Millis, reason: &str) -> DeadJob {
        DeadJob { id: id.to_owned(), at, reason: reason.to_owned() }
    }

    fn section(
        errors: &ErrorHistory,
        reading: &LatestReading,
        dead: &[DeadJob],
        recorded: &[RecordedError],
        now: Millis,
    ) -> String {
        errors.section(reading, dead, None, &Ok(recorded.to_vec()), (&Routes::default(), now)).into_string()
    }

    #[test]
    fn recorded_errors_are_among_those_of_the_page_and_none_is_there_twice() {
        let recorded = |kind: &str, last_ms, message: &str| RecordedError {
            pipeline: "thing:update".to_owned(),
            kind: kind.to_owned(),
            host: EVIL.to_owned(),
            count: 1_234,
            first_ms: 1_000,
            last_ms,
            example: Some("21".to_owned()),
            message: message.to_owned(),
            ..RecordedError::default()
        };
        let dead = [buried("21", 4_000, "HTTP 400"), buried("20", 5_000, "too large")];
        let newest = [recorded("dead", 8_000, "HTTP 400"), recorded("no answer", 3_000, EVIL)];
        let text = section(&ErrorHistory::default(), &LatestReading::default(), &dead, &newest, 9_000);
        assert_eq!(text.matches("HTTP 400").count(), 1, "{text}");
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("no {words}: {text}"));
        assert!(at("HTTP 400") < at("too large") && at("too large") < at("no answer"), "the newest first: {text}");
        assert!(text.contains("1,234 times, the first ") && text.contains("For example 21"), "{text}");
        assert!(!text.contains("<script>") && text.contains("thing:update &lt;/td&gt;"), "{text}");
    }

    #[test]
    fn each_message_is_kept_once_with_its_last_place_and_outlives_its_cause() {
        let errors = ErrorHistory::default();
        let none = section(&errors, &LatestReading::default(), &[], &[], 9_000);
        assert!(none.contains("No errors in the last"), "{none}");
        let outage = Some(Outage { why: "no route".to_owned(), since_ms: Some(5_000) });
        let dead = [buried("21", 4_000, "HTTP 500"), buried("20", 1_000, "HTTP 500")];
        let out = LatestReading { outage, ..LatestReading::default() };
        section(&errors, &out, &dead, &[], 9_000);
        let after = section(&errors, &LatestReading::default(), &[], &[], 10_000);
        assert_eq!((after.matches("HTTP 500").count(), after.matches("no route").count()), (1, 1), "{after}");
        assert!(after.contains(">5s ago<") && after.contains(">6s ago<") && after.contains("id=21"), "{after}");
        assert!(after.find("no route") < after.find("HTTP 500"), "the newest first: {after}");
        let again = [buried("22", 8_000, "HTTP 500")];
        let newer = section(&errors, &LatestReading::default(), &again, &[], 10_000);
        assert!(newer.find("HTTP 500") < newer.find("no route") && newer.contains("id=22"), "{newer}");
    }

    #[test]
    fn messages_are_bounded_and_stay_text() {
        let errors = ErrorHistory::default();
        let dead: Vec<DeadJob> =
            (0..1_000).map(|at| buried(EVIL, at, &format!("{at} {EVIL} {}", "x".repeat(1_000)))).collect();
        let text = section(&errors, &LatestReading::default(), &dead, &[], 10_000);
        assert!(!text.contains("<script>") && text.len() < 20_000, "{text}");
        assert_eq!((errors.0.lock().unwrap().len(), text.matches("<td class=\"wrap\"").count()), (MAX_KEPT, SHOWN));
        assert!(text.contains(">999 &lt;/td&gt;"), "{text}");
    }
}
