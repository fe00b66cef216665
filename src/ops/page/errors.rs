//! The last errors, for who comes after them: each message once, with where and when, the newest first, as long as the
//! process lives.

use std::cmp::Reverse;
use std::sync::{Mutex, PoisonError};

use maud::{Markup, html};

use super::layout::item_link;
use super::routes::Routes;
use super::words::{cut, error, relative};
use crate::base::clock::Millis;
use crate::engine::queue::{Buried, WorkerStats};
use crate::ops::report::sources::Sources;
use crate::ops::{Seen, Snapshot};
use crate::store::OldReader;

/// How many are shown,
const SHOWN: usize = 10;
/// and how many are kept: one that lasts must not come back as a new one.
const KEPT: usize = 100;
/// The longest message, in characters.
const LONGEST: usize = 300;

/// Where an error was.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Service(&'static str),
    Named(&'static str, String),
    Post(String),
}

/// A message, where it came from last, and since when; `None` where only the page knows, which has just seen it.
#[derive(Debug)]
struct Found {
    at: Option<Millis>,
    place: Place,
    message: String,
}

#[derive(Debug)]
struct Noted {
    at: Millis,
    place: Place,
    message: String,
}

/// The errors that the page of a namespace has seen.
#[derive(Debug, Default)]
pub(super) struct Errors(Mutex<Vec<Noted>>);

impl Errors {
    /// `#errors`, with those of now. `dead` are the last that were buried.
    pub(super) fn section(
        &self,
        seen: &Seen,
        dead: &[Buried],
        sources: Option<&Sources>,
        routes: &Routes,
        now: Millis,
    ) -> Markup {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for found in of_now(seen, dead, sources) {
            note(&mut kept, found, now);
        }
        shown(&kept, routes, now)
    }
}

fn of_now(seen: &Seen, dead: &[Buried], sources: Option<&Sources>) -> Vec<Found> {
    let mut found = Vec::new();
    let mut add = |at, place, message: &str| {
        found.push(Found { at, place, message: cut(&error(message), LONGEST) });
    };
    if let Some(outage) = &seen.outage {
        add(outage.since_ms, Place::Service("queue"), &outage.why);
    }
    for one in dead {
        add(Some(one.at), Place::Post(one.id.clone()), &one.reason);
    }
    for source in sources.iter().flat_map(|sources| &sources.all) {
        if let Some(trouble) = &source.trouble {
            add(Some(trouble.at), Place::Named("source", source.name.clone()), &trouble.error);
        }
    }
    if let Some(snapshot) = &seen.snapshot {
        of_snapshot(snapshot, add);
    }
    found
}

fn of_snapshot(snapshot: &Snapshot, mut add: impl FnMut(Option<Millis>, Place, &str)) {
    if let Some(outage) = &snapshot.store_out {
        add(outage.since_ms, Place::Service("store"), &outage.why);
    }
    if let Some(outage) = &snapshot.unwritable {
        add(outage.since_ms, Place::Service("disk"), &outage.why);
    }
    if let Some(OldReader { age_ms, what }) = &snapshot.status.old_reader {
        add(
            Some(snapshot.at_ms() - age_ms),
            Place::Service("store"),
            &format!("{what}, has been open for long: end it"),
        );
    }
    for account in snapshot.accounts.iter().filter(|account| account.parked_for_ms > 0) {
        let why = account.parked_why.as_deref().unwrap_or("parked");
        add(None, Place::Named("credential", account.name.clone()), why);
    }
    for worker in &snapshot.status.stats.workers {
        let place = || Place::Named("worker", worker.worker.clone());
        if let Some(why) = worker.trouble() {
            let since = worker.fields.get(WorkerStats::TROUBLE_SINCE).and_then(|since| since.parse().ok());
            add(since, place(), why);
        }
        if let Some(why) = worker.failing() {
            add(None, place(), why);
        }
        if let Some(why) = worker.fields.get("config_refused").filter(|why| !why.is_empty()) {
            add(None, place(), why);
        }
    }
}

fn note(kept: &mut Vec<Noted>, found: Found, now: Millis) {
    let Found { at, place, message } = found;
    match kept.iter_mut().find(|known| known.message == message) {
        Some(known) if at.is_some_and(|at| at > known.at) => *known = Noted { at: at.unwrap_or(now), place, message },
        Some(_) => {}
        None => {
            kept.push(Noted { at: at.unwrap_or(now), place, message });
            kept.sort_by_key(|known| Reverse(known.at));
            kept.truncate(KEPT);
        }
    }
}

fn shown(kept: &[Noted], routes: &Routes, now: Millis) -> Markup {
    let mut newest: Vec<&Noted> = kept.iter().collect();
    newest.sort_by_key(|noted| Reverse(noted.at));
    html! {
        section.panel #errors aria-labelledby="errors-name" {
            h2 #errors-name { "Last errors" }
            @if newest.is_empty() {
                p.lead.none { "No errors since this process started." }
            } @else {
                div.scroll #errors-box tabindex="0" role="region" aria-label="The last errors" {
                    table.stacked aria-label="The last errors" {
                        thead { tr { th scope="col" { "Where" } th scope="col" { "When" } th scope="col" { "Error" } } }
                        tbody {
                            @for Noted { at, place, message } in newest.into_iter().take(SHOWN) {
                                tr {
                                    th class=(if matches!(place, Place::Post(_)) { "id" } else { "name" }) scope="row" {
                                        @match place {
                                            Place::Service(name) => (name),
                                            Place::Named(kind, name) => { (kind) " " (error(name)) }
                                            Place::Post(id) => (item_link(routes, id)),
                                        }
                                    }
                                    td { (relative(*at, now, "ago")) }
                                    td.wrap dir="auto" { (message) }
                                }
                            }
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

    fn buried(id: &str, at: Millis, reason: &str) -> Buried {
        Buried { id: id.to_owned(), at, reason: reason.to_owned() }
    }

    #[test]
    fn each_message_is_kept_once_with_its_last_place_and_outlives_its_cause() {
        let (errors, routes) = (Errors::default(), Routes::default());
        let none = errors.section(&Seen::default(), &[], None, &routes, 9_000).into_string();
        assert!(none.contains("No errors since"), "{none}");
        let outage = Some(Outage { why: "no route".to_owned(), since_ms: Some(5_000) });
        let dead = [buried("21", 4_000, "HTTP 500"), buried("20", 1_000, "HTTP 500")];
        let out = Seen { outage, ..Seen::default() };
        errors.section(&out, &dead, None, &routes, 9_000);
        let after = errors.section(&Seen::default(), &[], None, &routes, 10_000).into_string();
        assert_eq!((after.matches("HTTP 500").count(), after.matches("no route").count()), (1, 1), "{after}");
        assert!(after.contains(">5s ago<") && after.contains(">6s ago<") && after.contains("id=21"), "{after}");
        assert!(after.find("no route") < after.find("HTTP 500"), "the newest first: {after}");
        let again = [buried("22", 8_000, "HTTP 500")];
        let newer = errors.section(&Seen::default(), &again, None, &routes, 10_000).into_string();
        assert!(newer.find("HTTP 500") < newer.find("no route") && newer.contains("id=22"), "{newer}");
    }

    #[test]
    fn messages_are_bounded_and_stay_text() {
        let errors = Errors::default();
        let dead: Vec<Buried> =
            (0..1_000).map(|at| buried(EVIL, at, &format!("{at} {EVIL} {}", "x".repeat(1_000)))).collect();
        let text = errors.section(&Seen::default(), &dead, None, &Routes::default(), 10_000).into_string();
        assert!(!text.contains("<script>") && text.len() < 20_000, "{text}");
        assert_eq!((errors.0.lock().unwrap().len(), text.matches("<td class=\"wrap\"").count()), (KEPT, SHOWN));
        assert!(text.contains(">999 &lt;/td&gt;"), "{text}");
    }
}
