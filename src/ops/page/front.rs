//! The front page: whether everything is fresh, and if not, why.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, PreEscaped, html};
use serde::Deserialize;

use super::accounts;
use super::crawls;
use super::errors;
use super::format::{describe_error, one_line, relative_time};
use super::layout::{Document, problem_notice};
use super::lists;
use super::pages::{FrontPage, Page, PartId, reading_now};
use super::routes::Routes;
use super::time_range::{Past, Range, unknown_range};
use super::{polled, state_sections, time_sections};
use crate::ops::{Headline, LatestReading, Snapshot};
use collect::pipelines::kind::ItemContent;
use engine::base::clock;
use engine::queue::{DeadJob, MINUTE_MS, QueueError, RowRange};

/// Number of the last dead posts to read; their reasons are among the last errors.
const MAX_LATEST_DEAD: u32 = 50;
/// Number of dead posts in their section.
const MAX_NAMED_DEAD: usize = 5;

#[derive(Debug, Default, Deserialize)]
pub(super) struct FrontQuery {
    #[serde(default)]
    range: Range,
}

/// `GET /?range=`
pub(super) async fn show_page(
    State(page): State<Arc<Page>>,
    query: Result<Query<FrontQuery>, QueryRejection>,
) -> Response {
    let status = if query.is_ok() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let FrontQuery { range } = query.map(|Query(query)| query).unwrap_or_default();
    let reading = page.reader.current().await;
    let front = page.front_in_range(&reading, range).await;
    let content = html! {
        h1.unseen { (page.routes.title("Is everything fresh?")) }
        @if status == StatusCode::BAD_REQUEST { (problem_notice(&format!("{}. The page shows the last hour.", unknown_range()))) }
        @let (answer, sections) = front.parts.split_at(1);
        @for (_, part) in answer { (PreEscaped(part)) }
        // A screen reader reads this when the answer changes. The answer itself is replaced with each figure.
        p.unseen #spoken role="status" data-state=(Headline::from_reading(&reading).state) {}
        div.grid { @for (_, part) in sections { (PreEscaped(part)) } }
        (page.pause_form())
    };
    let (title, query) = ("Overview".to_owned(), String::new());
    let events = Some(page.routes.range_events_address(range.query_value()));
    Document {
        routes: &page.routes,
        title,
        current_path: "/",
        at: front.at,
        now: reading_now(&reading),
        events,
        query,
        content,
    }
    .answer(status)
}

impl Page {
    pub(super) async fn front_in_range(&self, reading: &LatestReading, range: Range) -> Arc<FrontPage> {
        let front = self.cached_front(reading).await;
        let Some(snapshot) = reading.snapshot.as_ref().filter(|_| range != Range::Hour) else { return front };
        let past = self.load_past(range, snapshot).await;
        let (lateness, flow) = match &past {
            Ok(past) => (
                time_sections::render_lateness(past, None, &self.routes),
                time_sections::render_flow(past, &self.routes),
            ),
            Err(why) => {
                let notice = |id, name| unreadable_section(id, name, range, why, &self.routes);
                (notice("lateness", "Lateness"), notice("flow", "Flow"))
            }
        };
        let mut parts = front.parts.clone();
        for (id, section) in [("lateness", lateness), ("flow", flow)] {
            if let Some((_, html)) = parts.iter_mut().find(|(part, _)| part == id) {
                *html = section.into_string();
            }
        }
        Arc::new(FrontPage { at: front.at, parts })
    }

    /// Reads that range of the past, once per minute for all viewers.
    async fn load_past(&self, range: Range, snapshot: &Snapshot) -> Result<Arc<Past>, QueueError> {
        let minute = snapshot.at_ms().div_euclid(MINUTE_MS);
        let mut known = self.past_cache.lock().await;
        if let Some((_, past)) = known.get(&range).filter(|(read, _)| *read == minute) {
            return Ok(past.clone());
        }
        let hours = self.whole.queue.hours(range.hours()).await?;
        let past = Arc::new(Past::by_hour(range, &hours, snapshot.at_ms()));
        known.insert(range, (minute, past.clone()));
        Ok(past)
    }

    /// Returns the front page with these figures, rendered once for all viewers.
    async fn cached_front(&self, reading: &LatestReading) -> Arc<FrontPage> {
        let same = |last: &LatestReading| {
            let snapshot = match (&last.snapshot, &reading.snapshot) {
                (Some(last), Some(snapshot)) => Arc::ptr_eq(last, snapshot),
                (last, snapshot) => last.is_none() && snapshot.is_none(),
            };
            snapshot && last.outage == reading.outage
        };
        let mut cache = self.front_cache.lock().await;
        if let Some((_, front)) = cache.as_ref().filter(|(last, _)| same(last)) {
            return front.clone();
        }
        let front = Arc::new(self.render_front(reading).await);
        *cache = Some((reading.clone(), front.clone()));
        front
    }

    pub(super) async fn render_front(&self, reading: &LatestReading) -> FrontPage {
        let mut parts: Vec<(PartId, String)> = vec![("headline".into(), headline(reading).into_string())];
        let at = reading.snapshot.as_ref().map_or_else(clock::wall_ms, |snapshot| snapshot.at_ms());
        let sources = match &self.shared.polled {
            Some(polled) => Some(polled.sources().await),
            None => None,
        };
        let mut latest = Vec::new();
        if let Some(snapshot) = &reading.snapshot {
            latest = self.latest_dead(snapshot.status.stats.dead).await;
            let mut add = |id: &'static str, section: Markup| parts.push((id.into(), section.into_string()));
            add("freshness", state_sections::freshness(snapshot));
            add("quota", state_sections::quota(snapshot));
            let (past, oldest_ms) = (Past::by_minute(snapshot), snapshot.status.stats.oldest_lateness_ms);
            add("lateness", time_sections::render_lateness(&past, Some(oldest_ms), &self.routes));
            add("coming", time_sections::render_coming(snapshot));
            add("flow", time_sections::render_flow(&past, &self.routes));
            add("workers", state_sections::workers(snapshot));
            add("dead", state_sections::dead(snapshot, &latest[..latest.len().min(MAX_NAMED_DEAD)], &self.routes));
            if self.content() == ItemContent::Media {
                add("media", self.media.section(self.archive.store(), self.whole.queue.namespace()).await);
            }
            if self.content() == ItemContent::CommunityAccounts {
                add("community", self.community_section().await);
            }
            if self.holds_lists() {
                add("lists", lists::section(snapshot));
                add("crawls", crawls::section(snapshot, &self.routes));
            }
            if self.content() == ItemContent::Accounts {
                add("accounts", accounts::section(snapshot));
            }
            if self.content() == ItemContent::Posts {
                add("tweets", self.young.section(&self.archive, &self.routes, snapshot.at_ms()).await);
            }
        } else {
            let items = match self.content() {
                ItemContent::Posts => Some(("tweets", "Youngest posts")),
                ItemContent::Accounts => Some(("accounts", "Accounts")),
                _ => None,
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
        // The outage of a queue is among the errors of the reading.
        let recorded = match reading.outage {
            None => self.whole.queue.errors(errors::SHOWN).await,
            Some(_) => Ok(Vec::new()),
        };
        let errors = self.errors.section(reading, &latest, sources.as_ref(), &recorded, (&self.routes, at));
        parts.push(("errors".into(), errors.into_string()));
        if let Some(sources) = &sources {
            parts.push(("sources".into(), polled::section(sources, at).into_string()));
        }
        FrontPage { at, parts }
    }

    /// Reads the last dead posts, latest first, when their number has changed. Empty if the queue does not answer: the headline states it.
    async fn latest_dead(&self, dead: u64) -> Vec<DeadJob> {
        let mut known = self.dead_cache.lock().await;
        if known.0 != dead {
            let rows = RowRange::new(dead.saturating_sub(MAX_LATEST_DEAD.into()), MAX_LATEST_DEAD);
            let Ok(mut latest) = self.whole.queue.list_dead(rows).await else {
                return Vec::new();
            };
            latest.reverse();
            *known = (dead, latest);
        }
        known.1.clone()
    }
}

fn unreadable_section(id: &str, name: &str, range: Range, why: &QueueError, routes: &Routes) -> Markup {
    html! {
        section.panel id=(id) aria-label=(name) {
            h2 { (name) }
            (Past::empty(range).range_links(routes, id))
            p.lead.bad { "The last " (range.name()) " cannot be read now: " (describe_error(&why.to_string())) }
        }
    }
}

/// Splits a sentence such as `Late: 3 of 9 tweets are overdue: there are too few workers` into the state and its reason.
fn split_reason(sentence: &str) -> (&str, Option<&str>) {
    let what = sentence.find(": ").and_then(|state| Some(state + 2 + sentence[state + 2..].find(": ")?));
    what.map_or((sentence, None), |end| (&sentence[..end], Some(&sentence[end + 2..])))
}

fn headline(reading: &LatestReading) -> Markup {
    let answer = Headline::from_reading(reading);
    let sentence = one_line(&answer.sentence); // as `status` and the metrics have it
    html! {
        div.answer #headline {
            p #answer data-state=(answer.state) {
                span {
                    @match split_reason(&sentence) {
                        (what, Some(why)) => { (what) ": " span.more { (why) } }
                        (what, None) => (what),
                    }
                }
            }
            @if let (Some(_), Some(snapshot)) = (&reading.outage, &reading.snapshot) {
                p.stale {
                    "The figures below are old: they were read "
                    (relative_time(snapshot.at_ms(), clock::wall_ms(), "ago")) "."
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
        assert_eq!(split_reason("Fresh: all of them"), ("Fresh: all of them", None));
        assert_eq!(split_reason("Stopped: it is paused: by me: now"), ("Stopped: it is paused", Some("by me: now")));
        assert_eq!(split_reason("quiet"), ("quiet", None));
    }
}
