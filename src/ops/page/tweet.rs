//! A tweet: its place, its stored data, and its counts over its life.

use std::ops::Range;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use humantime::parse_duration;
use maud::{Markup, html};
use reqwest::Url;
use serde::Deserialize;

use super::account;
use super::chart::{Axis, Chart, Ink, Series, Shape};
use super::community::is_community;
use super::ids::PostId;
use super::item::{object, place};
use super::layout::{Document, nothing, problem};
use super::original;
use super::pages::Page;
use super::rhythm;
use super::words::{self, capital, date, error, excerpt, one_line, plain, time};
use crate::base::clock::{self, Millis};
use crate::base::humanize::{figure, grouped};
use crate::engine::schedule::age::{AgeTable, Bracket};
use crate::engine::schedule::{Bound, Known, Schedule};
use crate::model::post::Metrics;
use crate::ops::dead::{Dead, Whereabouts};
use crate::ops::freshness::corrected;
use crate::store::{MetricsAt, StoredTweet};

/// Rows of the table; the chart has all.
const ROWS: usize = 200;
/// Maximum number of points of the chart: more look alike.
const POINTS: usize = 400;
/// Ages that label the axis of time,
const AGES: &str = "1s 10s 1m 10m 1h 6h 1d 7d 30d 180d 2y 20y";
/// and labels in between, used if there are few.
const BETWEEN: &str = "3s 30s 3m 30m 2h 12h 3d 14d 90d";
const FEW: usize = 4;

type Count = (&'static str, fn(&Metrics) -> Option<i64>);
const COUNTS: [Count; 6] = [
    ("likes", |counts| counts.favorite_count),
    ("retweets", |counts| counts.retweet_count),
    ("replies", |counts| counts.reply_count),
    ("quotes", |counts| counts.quote_count),
    ("bookmarks", |counts| counts.bookmark_count),
    ("views", |counts| counts.impression_count),
];
/// The drawn counts. Views have another size than the others.
const DRAWN: [(Count, Ink); 3] = [(COUNTS[0], Ink::First), (COUNTS[1], Ink::Second), (COUNTS[2], Ink::Third)];

#[derive(Debug, Deserialize)]
pub(super) struct ItemQuery {
    #[serde(default)]
    pub id: String,
}

pub(super) struct PostDetails {
    id: PostId,
    called: &'static str,
    now: Millis,
    whereabouts: Whereabouts,
    history: Vec<MetricsAt>,
    created_at: Option<Millis>,
    schedule: Arc<dyn Schedule>,
    address: Option<Url>,
}

pub(super) fn no_post(why: &str) -> Markup {
    nothing(&format!("{why}. Give an id, or the address of a post: https://twitter.com/user/status/ID"))
}

/// `GET /tweet?id=`, and `/account?id=` where the items are accounts.
pub(super) async fn show(State(page): State<Arc<Page>>, asked: Result<Query<ItemQuery>, QueryRejection>) -> Response {
    let asked = asked.map_or_else(|_| String::new(), |Query(asked)| asked.id);
    if page.routes.holds_accounts() {
        return account::show(&page, asked).await;
    }
    let answer = |status: StatusCode, title: &str, events: Option<String>, content: Markup| {
        let (routes, title, asked, now) = (&page.routes, title.to_owned(), asked.clone(), clock::wall_ms());
        Document { routes, title, here: "", at: now, now, events, asked, content }.answer(status)
    };
    let id = match PostId::typed(&asked) {
        Ok(id) => id,
        Err(why) => {
            let content = html! { h1 { "Not an id" } (no_post(&why)) };
            return answer(StatusCode::BAD_REQUEST, "Not an id", None, content);
        }
    };
    let title = format!("{} {id}", capital(page.words().one));
    match page.tweet(&id).await {
        Ok(Some(seen)) => {
            let events = Some(page.routes.to_events_of(id.as_str()));
            let visits = seen.whereabouts.stored.as_ref().filter(|_| page.routes.holds_visits());
            let crawls = match page.holds_lists() {
                true => Some(page.crawls_of(id.as_str()).await),
                false => None,
            };
            let belongs = match is_community(page.whole.queue.namespace()) {
                true => Some(page.belongs(id.as_str()).await),
                false => None,
            };
            let content = html! {
                (seen.section())
                @if let Some(belongs) = belongs { (belongs.markup(&page)) }
                @if let Some(row) = visits { (rhythm::section(row)) }
                @if let Some(crawls) = crawls { (crawls.markup()) }
                (page.refresh_form(id.as_str()))
            };
            answer(StatusCode::OK, &title, events, content)
        }
        Ok(None) => {
            let why = "Unknown to queue and store: it was never put in.";
            answer(StatusCode::NOT_FOUND, &title, None, html! { h1 { (title) } (nothing(why)) })
        }
        Err(why) => {
            let why = format!("The search failed: {}", error(&why));
            answer(StatusCode::SERVICE_UNAVAILABLE, &title, None, html! { h1 { (title) } (problem(&why)) })
        }
    }
}

impl Page {
    /// Reads its state; `None` if neither queue nor store knows it.
    pub(super) async fn tweet(&self, id: &PostId) -> Result<Option<PostDetails>, String> {
        let look = async |dead: &Dead| {
            let key = id.as_str();
            let known = dead.show(key).await.map_err(|error| error.to_string())?;
            let Some(whereabouts) = known else { return Ok(None) };
            let history = dead.store.history(dead.queue.namespace(), key).await;
            let history = history.map_err(|error| error.to_string())?;
            let stored = whereabouts.stored.as_ref();
            let raw = stored.and_then(|stored| stored.raw.as_deref());
            let address = original::address(&self.whole.provider, id, raw);
            let created_at = dead.lanes.created_at(key, stored.and_then(|stored| stored.created_at));
            let schedule = dead.lanes.schedule.in_force();
            let schedule = corrected(&*dead.store, dead.queue.namespace(), schedule).await?;
            Ok::<_, String>(Some(PostDetails {
                id: id.clone(),
                called: self.words().one,
                now: clock::wall_ms(),
                whereabouts,
                history,
                created_at,
                schedule,
                address,
            }))
        };
        self.archive.ask(look).await
    }
}

impl PostDetails {
    pub(super) fn at(&self) -> Millis {
        self.now
    }

    pub(super) fn section(&self) -> Markup {
        let stored = self.whereabouts.stored.as_ref();
        html! {
            section.panel #tweet aria-labelledby="tweet-name" {
                div {
                    h1 #tweet-name { (capital(self.called)) " " (self.id.as_str()) }
                    p #place { (place(&self.whereabouts, self.now)) }
                    @if let Some(address) = &self.address {
                        p {
                            a #original href=(address.as_str()) rel="noreferrer noopener" {
                                "Open it at " (address.host_str().unwrap_or_default())
                            }
                        }
                    }
                    @if let Some(stored) = stored {
                        @match &stored.text {
                            Some(text) => (excerpt(text)),
                            None => p.quiet #text { "no text is stored yet" },
                        }
                        (self.facts(stored))
                        (self.changes())
                        @if let Some(raw) = stored.raw.as_deref().filter(|raw| !raw.is_empty()) { (object(raw)) }
                    } @else {
                        p.quiet #text { "the store does not know it: only the queue does" }
                    }
                }
                @if let Some(stored) = stored { (self.counts(stored)) }
            }
        }
    }

    fn facts(&self, stored: &StoredTweet) -> Markup {
        let moment = |at: Option<Millis>| html! { @match at { Some(at) => (date(at)), None => "–" } };
        html! {
            dl.facts.wide {
                div { dt { "State" } dd { (stored.state) } }
                @if let Some(author) = &stored.author_name { div { dt { "Author" } dd dir="auto" { (one_line(author)) } } }
                div { dt { "Created" } dd { (moment(self.created_at)) } }
                @if let Some(made) = self.created_at { div { dt { "Age" } dd { (time(self.now - made)) } } }
                (self.bracket(stored))
                div { dt { "Next due" } dd { (moment(stored.next_due)) } }
                div { dt { "Newest answer" } dd { (moment(stored.checked_at)) } }
                div { dt { "Lookups" } dd { (words::stored(stored.lookups)) } }
                @if stored.misses > 0 {
                    div {
                        dt { "Unavailable" }
                        dd {
                            (words::stored(stored.misses)) " times in a row"
                            @if let Some(since) = stored.missing_since { ", since " (date(since)) }
                            @if let Some(reason) = &stored.missing_reason { ": " (reason.replace('_', " ")) }
                        }
                    }
                }
                @if let Some(countries) = &stored.withheld_in {
                    div { dt { "Withheld in" } dd { (one_line(countries)) } }
                }
                @if let Some(current) = &stored.current_id {
                    div { dt { "Edited to" } dd.id { (one_line(current)) } }
                }
                @if let Some(why) = &stored.unreadable {
                    div { dt { "Newest lookup" } dd { "could not be read: " (one_line(why)) } }
                }
                @for came in &self.whereabouts.ways { div { dt { "Came by" } dd { (came) } } }
            }
        }
    }

    /// Its bracket; or its interval, if that follows from its counts.
    fn bracket(&self, stored: &StoredTweet) -> Markup {
        let item = Known::new(self.id.as_str(), self.created_at);
        let decided = match self.schedule.needs_history() {
            true => {
                let answered = stored.checked_at.filter(|_| stored.lookups > 0);
                stored.next_due.zip(answered).map(|(due, checked_at)| due - checked_at)
            }
            false => None,
        };
        html! {
            div {
                @if let Some(interval) = decided {
                    dt { "Interval" }
                    dd { (time(interval)) @if let Some(why) = self.why(stored, interval) { ": " (why) } @else { ", by its counts" } }
                } @else {
                    dt { "Bracket" }
                    dd {
                        @match self.schedule.next(&item, self.now) {
                            Some((lane, _)) => { (lane.name) ", every " (time(lane.patience)) }
                            None => "past the last one",
                        }
                    }
                }
            }
        }
    }

    fn why(&self, stored: &StoredTweet, interval: Millis) -> Option<String> {
        let item = Known::answered(self.id.as_str(), self.created_at, stored.checked_at);
        let explained = self.schedule.explained(&item, interval, self.now)?;
        let bound = match explained.bound {
            Some(Bound::Shortest) => "the shortest at its age: at least ",
            Some(Bound::Longest) => "the longest at its age: at most ",
            None => "",
        };
        let (busy, unseen) = (figure(explained.multiplier), figure(explained.unseen.round()));
        Some(format!(
            "{bound}{busy} × as busy as the average post of its age; about {unseen} interactions since the last lookup"
        ))
    }

    /// Changes except for its counts, newest first.
    fn changes(&self) -> Markup {
        let changes = &self.whereabouts.changes;
        html! {
            @if !changes.is_empty() {
                h2 { "Changes" }
                ul #changes {
                    @for change in changes.iter().rev().take(ROWS) {
                        li dir="auto" { (date(change.at)) ": " (change.words()) }
                    }
                }
                @if changes.len() > ROWS { p.lead { "the newest " (ROWS) " of " (grouped(changes.len() as u64)) } }
            }
        }
    }

    /// The history, and the newest answer if it changed nothing. An answer without the post has no counts.
    fn points(&self, stored: &StoredTweet) -> Vec<MetricsAt> {
        let mut points = self.history.clone();
        if let (Some(last), Some(checked_at)) = (points.last().copied(), stored.checked_at)
            && checked_at > last.checked_at
            && stored.misses == 0
        {
            points.push(MetricsAt { checked_at, ..last });
        }
        points
    }

    fn counts(&self, stored: &StoredTweet) -> Markup {
        let points = self.points(stored);
        let columns: Vec<Count> =
            COUNTS.into_iter().filter(|(_, of)| points.iter().any(|at| of(&at.metrics).is_some())).collect();
        html! {
            div #counts {
                h2 { "Counts over its life" }
                @if points.is_empty() {
                    p.lead { "none yet: it was not found so far" }
                } @else {
                    @if let Some(chart) = self.chart(&points) { (chart.markup()) }
                    details #rows {
                        summary { "The same as a table" }
                        div.scroll #rows-box tabindex="0" role="region" aria-label="Counts" {
                            table aria-label="Counts" {
                                thead {
                                    tr {
                                        th scope="col" { "Looked up" }
                                        th.n scope="col" { "Age" }
                                        @for (name, _) in &columns { th.n scope="col" { (name) } }
                                    }
                                }
                                tbody {
                                    @for at in points.iter().rev().take(ROWS) {
                                        tr {
                                            td { (date(at.checked_at)) }
                                            td.n { @match self.created_at { Some(made) => (time(at.checked_at - made)), None => "–" } }
                                            @for (_, of) in &columns {
                                                td.n { (words::stored(of(&at.metrics))) }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                        @if points.len() > ROWS { p.lead { "the newest " (ROWS) " of " (grouped(points.len() as u64)) } }
                    }
                }
            }
        }
    }

    /// `None` if its age is unknown.
    fn chart(&self, points: &[MetricsAt]) -> Option<Chart> {
        let made = self.created_at?;
        let first = points.first()?.checked_at - made;
        let life = self.life(first);
        let step = points.len().div_ceil(POINTS);
        // Counted from the end, so that the newest point is always drawn.
        let drawn = || points.iter().rev().step_by(step).rev();
        let mut series = Vec::new();
        for ((name, of), ink) in DRAWN {
            let points: Vec<(f64, f64)> = drawn()
                .filter_map(|at| Some((((at.checked_at - made) as f64).max(life.start), of(&at.metrics)? as f64)))
                .collect();
            if !points.is_empty() {
                series.push(Series { name: name.to_owned(), ink, shape: Shape::Dotted, points });
            }
        }
        let most = series.iter().flat_map(|series| &series.points).map(|(_, count)| *count).fold(0.0, f64::max);
        let last = series.iter().filter_map(|series| Some((&series.name, series.points.last()?.1)));
        let last: Vec<String> = last.map(|(name, count)| format!("{} {name}", plain(count))).collect();
        let brackets = self.brackets().iter();
        let marks = brackets.map(|bracket| (bracket.under as f64, bracket.lane.name.to_string()));
        let within = |ages: &str| -> Vec<(f64, String)> {
            let age = |word: &str| Some((clock::millis(parse_duration(word).ok()?) as f64, word.to_owned()));
            ages.split(' ').filter_map(age).filter(|(at, _)| life.contains(at)).collect()
        };
        let mut ticks = within(AGES);
        if ticks.len() < FEW {
            ticks.extend(within(BETWEEN));
        }
        Some(Chart {
            gist: format!(
                "Counts by the post's age, on a logarithmic axis of time: {} at the age of {}",
                last.join(", "),
                time(points.last()?.checked_at - made)
            ),
            x: Axis::logarithmic("age", life.clone(), ticks),
            y: Axis::up_to("count", most),
            series,
            marks: marks.filter(|(at, _)| *at > life.start && *at <= life.end).collect(),
        })
    }

    fn brackets(&self) -> &[Bracket] {
        self.schedule.ages().map_or(&[], AgeTable::brackets)
    }

    /// The drawn ages: from its first count, or early in the first bracket, to the end of its current bracket.
    fn life(&self, first: Millis) -> Range<f64> {
        let brackets = self.brackets();
        let early = brackets.first().map_or(first, |bracket| first.min(bracket.under / 10));
        let start = early.max(1_000) as f64;
        let age = self.created_at.map_or(0, |made| self.now - made).max(first);
        let end = brackets.iter().map(|bracket| bracket.under).find(|under| *under >= age).unwrap_or(age);
        start..(end as f64).max(start * 10.0)
    }
}
