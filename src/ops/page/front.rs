//! The front page: is everything fresh, and if not, why?

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, PreEscaped, html};
use serde::Deserialize;

use super::accounts;
use super::community::is_community;
use super::crawls;
use super::errors;
use super::layout::{Document, problem};
use super::lists;
use super::media::is_media;
use super::pages::{Front, Page, Part, now};
use super::past::{Past, Range, unknown_range};
use super::routes::Routes;
use super::words::{error, one_line, relative};
use super::{polled, state_sections, time_sections};
use crate::base::clock;
use crate::engine::queue::{Buried, MINUTE_MS, QueueError, RowRange};
use crate::ops::{Answer, LatestReading, Snapshot};
use crate::pipelines::kind::Words;

/// Number of the last dead posts to read: their reasons are among the last errors,
const LATEST: u32 = 50;
/// and number of those that are named.
const NAMED: usize = 5;

#[derive(Debug, Default, Deserialize)]
pub(super) struct FrontQuery {
    #[serde(default)]
    range: Range,
}

/// `GET /?range=`
pub(super) async fn show(State(page): State<Arc<Page>>, asked: Result<Query<FrontQuery>, QueryRejection>) -> Response {
    let status = if asked.is_ok() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let FrontQuery { range } = asked.map(|Query(asked)| asked).unwrap_or_default();
    let seen = page.reader.look().await;
    let front = page.with_range(&seen, range).await;
    let content = html! {
        h1.unseen { (page.routes.title("Is everything fresh?")) }
        @if status == StatusCode::BAD_REQUEST { (problem(&format!("{}. Shown is the last hour.", unknown_range()))) }
        @let (answer, sections) = front.parts.split_at(1);
        @for (_, part) in answer { (PreEscaped(part)) }
        // A screen reader reads this when the answer changes. The answer itself is replaced with each figure.
        p.unseen #spoken role="status" data-state=(Answer::of(&seen).state) {}
        div.grid { @for (_, part) in sections { (PreEscaped(part)) } }
        (page.hands())
    };
    let (title, asked) = ("Overview".to_owned(), String::new());
    let events = Some(page.routes.to_events_of_range(range.word()));
    Document { routes: &page.routes, title, here: "/", at: front.at, now: now(&seen), events, asked, content }
        .answer(status)
}

impl Page {
    pub(super) async fn with_range(&self, seen: &LatestReading, range: Range) -> Arc<Front> {
        let front = self.made(seen).await;
        let Some(snapshot) = seen.snapshot.as_ref().filter(|_| range != Range::Hour) else { return front };
        let past = self.past(range, snapshot).await;
        let (lateness, flow) = match &past {
            Ok(past) => (time_sections::lateness(past, None, &self.routes), time_sections::flow(past, &self.routes)),
            Err(why) => {
                let notice = |id, name| unreadable(id, name, range, why, &self.routes);
                (notice("lateness", "Lateness"), notice("flow", "Flow"))
            }
        };
        let mut parts = front.parts.clone();
        for (id, section) in [("lateness", lateness), ("flow", flow)] {
            if let Some((_, html)) = parts.iter_mut().find(|(part, _)| part == id) {
                *html = section.into_string();
            }
        }
        Arc::new(Front { at: front.at, parts })
    }

    /// Returns that range of the past, read once a minute for all viewers.
    async fn past(&self, range: Range, snapshot: &Snapshot) -> Result<Arc<Past>, QueueError> {
        let minute = snapshot.at_ms().div_euclid(MINUTE_MS);
        let mut known = self.past.lock().await;
        if let Some((_, past)) = known.get(&range).filter(|(read, _)| *read == minute) {
            return Ok(past.clone());
        }
        let hours = self.whole.queue.hours(range.hours()).await?;
        let past = Arc::new(Past::by_hour(range, &hours, snapshot.at_ms()));
        known.insert(range, (minute, past.clone()));
        Ok(past)
    }

    /// Returns the front page with these figures, made once for all viewers.
    async fn made(&self, seen: &LatestReading) -> Arc<Front> {
        let same = |last: &LatestReading| {
            let snapshot = match (&last.snapshot, &seen.snapshot) {
                (Some(last), Some(snapshot)) => Arc::ptr_eq(last, snapshot),
                (last, snapshot) => last.is_none() && snapshot.is_none(),
            };
            snapshot && last.outage == seen.outage
        };
        let mut made = self.made.lock().await;
        if let Some((_, front)) = made.as_ref().filter(|(last, _)| same(last)) {
            return front.clone();
        }
        let front = Arc::new(self.front(seen).await);
        *made = Some((seen.clone(), front.clone()));
        front
    }

    pub(super) async fn front(&self, seen: &LatestReading) -> Front {
        let mut parts: Vec<(Part, String)> = vec![("headline".into(), headline(seen).into_string())];
        let at = seen.snapshot.as_ref().map_or_else(clock::wall_ms, |snapshot| snapshot.at_ms());
        let sources = match &self.in_common.polled {
            Some(polled) => Some(polled.sources().await),
            None => None,
        };
        let mut latest = Vec::new();
        if let Some(snapshot) = &seen.snapshot {
            latest = self.latest_dead(snapshot.status.stats.dead).await;
            let mut add = |id: &'static str, section: Markup| parts.push((id.into(), section.into_string()));
            add("freshness", state_sections::freshness(snapshot));
            add("quota", state_sections::quota(snapshot));
            let (past, oldest_ms) = (Past::by_minute(snapshot), snapshot.status.stats.oldest_lateness_ms);
            add("lateness", time_sections::lateness(&past, Some(oldest_ms), &self.routes));
            add("coming", time_sections::coming(snapshot));
            add("flow", time_sections::flow(&past, &self.routes));
            add("workers", state_sections::workers(snapshot));
            add("dead", state_sections::dead(snapshot, &latest[..latest.len().min(NAMED)], &self.routes));
            if is_media(self.whole.queue.namespace()) {
                add("media", self.media.section(self.archive.store(), self.whole.queue.namespace()).await);
            }
            if is_community(self.whole.queue.namespace()) {
                add("community", self.community_section().await);
            }
            if self.holds_lists() {
                add("lists", lists::section(snapshot));
                add("crawls", crawls::section(snapshot, &self.routes));
            }
            if self.routes.holds_accounts() {
                add("accounts", accounts::section(snapshot));
            }
            if self.words() == Words::POSTS {
                add("tweets", self.young.section(&self.archive, &self.routes, snapshot.at_ms()).await);
            }
        } else {
            let items = match self.words() {
                words if words == Words::POSTS => Some(("tweets", "Youngest posts")),
                _ => self.routes.holds_accounts().then_some(("accounts", "Accounts")),
            };
            for (id, name) in [
                ("freshness", "Freshness"),
                ("quota", "Quota"),
                ("lateness", "Lateness"),
                ("coming", "Coming due"),
                ("flow", "Flow"),
                ("workers", "Workers"),
                ("dead", "Dead"),
            ]
            .into_iter()
            .chain(items)
            {
                let empty = html! { section.panel id=(id) aria-label=(name) { h2 { (name) } p.lead.none { "No figures yet." } } };
                parts.push((id.into(), empty.into_string()));
            }
        }
        // The figures state why a queue does not answer.
        let recorded = match seen.outage {
            None => self.whole.queue.errors(errors::SHOWN).await,
            Some(_) => Ok(Vec::new()),
        };
        let errors = self.errors.section(seen, &latest, sources.as_ref(), &recorded, (&self.routes, at));
        parts.push(("errors".into(), errors.into_string()));
        if let Some(sources) = &sources {
            parts.push(("sources".into(), polled::section(sources, at).into_string()));
        }
        Front { at, parts }
    }

    /// The last buried posts, latest first. They are read when their number has changed. Empty if the queue does not answer: the rest of
    /// the page says so.
    async fn latest_dead(&self, dead: u64) -> Vec<Buried> {
        let mut known = self.latest.lock().await;
        if known.0 != dead {
            let rows = RowRange::new(dead.saturating_sub(LATEST.into()), LATEST);
            let Ok(mut latest) = self.whole.queue.dead(rows).await else {
                return Vec::new();
            };
            latest.reverse();
            *known = (dead, latest);
        }
        known.1.clone()
    }
}

fn unreadable(id: &str, name: &str, range: Range, why: &QueueError, routes: &Routes) -> Markup {
    html! {
        section.panel id=(id) aria-label=(name) {
            h2 { (name) }
            (Past::none(range).ranges(routes, id))
            p.lead.bad { "The last " (range.name()) " cannot be read now: " (error(&why.to_string())) }
        }
    }
}

/// Splits a sentence such as `Late: 3 of 9 tweets are overdue: there are too few workers` into the state and its reason.
fn said(sentence: &str) -> (&str, Option<&str>) {
    let what = sentence.find(": ").and_then(|state| Some(state + 2 + sentence[state + 2..].find(": ")?));
    what.map_or((sentence, None), |end| (&sentence[..end], Some(&sentence[end + 2..])))
}

fn headline(seen: &LatestReading) -> Markup {
    let answer = Answer::of(seen);
    let sentence = one_line(&answer.sentence); // as `status` and the metrics have it
    html! {
        div.answer #headline {
            p #answer data-state=(answer.state) {
                span {
                    @match said(&sentence) {
                        (what, Some(why)) => { (what) ": " span.more { (why) } }
                        (what, None) => (what),
                    }
                }
            }
            @if let (Some(_), Some(snapshot)) = (&seen.outage, &seen.snapshot) {
                p.stale {
                    "The figures below are old: they were read "
                    (relative(snapshot.at_ms(), clock::wall_ms(), "ago")) "."
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_has_its_reason_after_the_second_colon() {
        assert_eq!(said("Fresh: all of them"), ("Fresh: all of them", None));
        assert_eq!(said("Stopped: it is paused: by me: now"), ("Stopped: it is paused", Some("by me: now")));
        assert_eq!(said("quiet"), ("quiet", None));
    }
}
