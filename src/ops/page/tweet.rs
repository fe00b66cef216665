//! The page of a post: its place in the queue, its stored data, and its counts over time.

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
use super::chart::{Axis, Chart, ChartColor, Series, SeriesShape};
use super::format::{self, capitalize, date, describe_error, excerpt, format_span, one_line, round_to_tenth};
use super::ids::{InvalidId, PostId};
use super::item::{render_object, render_place};
use super::layout::{Document, empty_notice, problem_notice};
use super::network_object;
use super::pages::Page;
use super::visits;
use crate::data::dead::{DeadItems, ItemReport, describe_change};
use crate::ops::NoAnswer;
use crate::ops::freshness::load_corrected_schedule;
use collect::pipelines::kind::ItemContent;
use engine::base::clock::{self, Millis};
use engine::base::humanize::{format_number, group_digits};
use engine::schedule::age::{AgeTable, Bracket};
use engine::schedule::{Bound, Schedule, ScheduledItem};
use networks::model::post::Metrics;
use store::{MetricsAt, StoredTweet};

const MAX_ROWS: usize = 200;
const MAX_POINTS: usize = 400;
/// Labels of the age axis.
const AGES: &str = "1s 10s 1m 10m 1h 6h 1d 7d 30d 180d 2y 20y";
/// Additional labels, used if fewer than `MIN_LABELS` labels are visible.
const BETWEEN: &str = "3s 30s 3m 30m 2h 12h 3d 14d 90d";
const MIN_LABELS: usize = 4;

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
const DRAWN: [(Count, ChartColor); 3] =
    [(COUNTS[0], ChartColor::First), (COUNTS[1], ChartColor::Second), (COUNTS[2], ChartColor::Third)];

#[derive(Debug, Deserialize)]
pub(super) struct ItemQuery {
    #[serde(default)]
    pub id: String,
}

pub(super) struct PostDetails {
    id: PostId,
    noun: &'static str,
    now: Millis,
    report: ItemReport,
    history: Vec<MetricsAt>,
    created_at: Option<Millis>,
    schedule: Arc<dyn Schedule>,
    address: Option<Url>,
}

pub(super) fn invalid_id_notice(why: &InvalidId) -> Markup {
    empty_notice(&format!("{why}. Give an id, or the address of a post: https://twitter.com/user/status/ID"))
}

/// `GET /tweet?id=`, and `/account?id=` where the items are accounts.
pub(super) async fn show_page(
    State(page): State<Arc<Page>>,
    query: Result<Query<ItemQuery>, QueryRejection>,
) -> Response {
    let query = query.map_or_else(|_| String::new(), |Query(query)| query.id);
    if page.content() == ItemContent::Accounts {
        return account::show_page(&page, query).await;
    }
    let answer = |status: StatusCode, title: &str, events: Option<String>, content: Markup| {
        let (routes, title, query, now) = (&page.routes, title.to_owned(), query.clone(), clock::wall_ms());
        Document { routes, title, current_path: "", at: now, now, events, query, content }.answer(status)
    };
    let id = match PostId::parse_typed(&query) {
        Ok(id) => id,
        Err(why) => {
            let content = html! { h1 { "Not an id" } (invalid_id_notice(&why)) };
            return answer(StatusCode::BAD_REQUEST, "Not an id", None, content);
        }
    };
    let title = format!("{} {id}", capitalize(page.words().one));
    match page.load_post(&id).await {
        Ok(Some(details)) => {
            let events = Some(page.routes.post_events_address(id.as_str()));
            let visits = details.report.stored.as_ref().filter(|_| page.content() == ItemContent::Timelines);
            let crawls = match page.holds_lists() {
                true => Some(page.load_crawls(id.as_str()).await),
                false => None,
            };
            let communities = match page.content() == ItemContent::CommunityAccounts {
                true => Some(page.load_communities(id.as_str()).await),
                false => None,
            };
            let content = html! {
                (details.section())
                @if let Some(communities) = communities { (communities.markup(&page)) }
                @if let Some(row) = visits { (visits::section(row)) }
                @if let Some(crawls) = crawls { (crawls.markup()) }
                (page.refresh_form(id.as_str()))
            };
            answer(StatusCode::OK, &title, events, content)
        }
        Ok(None) => {
            let why = "Unknown to queue and store: it was never added.";
            answer(StatusCode::NOT_FOUND, &title, None, html! { h1 { (title) } (empty_notice(why)) })
        }
        Err(why) => {
            let why = format!("The search failed: {}", describe_error(&why));
            answer(StatusCode::SERVICE_UNAVAILABLE, &title, None, html! { h1 { (title) } (problem_notice(&why)) })
        }
    }
}

impl Page {
    /// Reads a post; `None` if neither queue nor store has it.
    pub(super) async fn load_post(&self, id: &PostId) -> Result<Option<PostDetails>, NoAnswer> {
        let read = async |dead: &DeadItems| {
            let key = id.as_str();
            let known = dead.find(key).await?;
            let Some(report) = known else { return Ok(None) };
            let history = dead.store.history(dead.queue.namespace(), key).await?;
            let stored = report.stored.as_ref();
            let raw = stored.and_then(|stored| stored.raw.as_deref());
            let address = network_object::network_address(&self.whole.provider, id, raw);
            let created_at = dead.lanes.created_at(key, stored.and_then(|stored| stored.created_at));
            let schedule = dead.lanes.schedule.current_schedule();
            let schedule = load_corrected_schedule(&*dead.store, dead.queue.namespace(), schedule).await?;
            Ok::<_, NoAnswer>(Some(PostDetails {
                id: id.clone(),
                noun: self.words().one,
                now: clock::wall_ms(),
                report,
                history,
                created_at,
                schedule,
                address,
            }))
        };
        self.archive.query(read).await
    }
}

impl PostDetails {
    pub(super) fn at(&self) -> Millis {
        self.now
    }

    pub(super) fn section(&self) -> Markup {
        let stored = self.report.stored.as_ref();
        html! {
            section.panel #tweet aria-labelledby="tweet-name" {
                div {
                    h1 #tweet-name { (capitalize(self.noun)) " " (self.id.as_str()) }
                    p #place { (render_place(&self.report, self.now)) }
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
                        @if let Some(raw) = stored.raw.as_deref().filter(|raw| !raw.is_empty()) { (render_object(raw)) }
                    } @else {
                        p.quiet #text { "only the queue has it, not the store" }
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
                @if let Some(made) = self.created_at { div { dt { "Age" } dd { (format_span(self.now - made)) } } }
                (self.interval_row(stored))
                div { dt { "Next due" } dd { (moment(stored.next_due)) } }
                div { dt { "Newest answer" } dd { (moment(stored.checked_at)) } }
                div { dt { "Lookups" } dd { (format::number_or_dash(stored.lookups)) } }
                @if stored.misses > 0 {
                    div {
                        dt { "Unavailable" }
                        dd {
                            (format::number_or_dash(stored.misses)) " times in a row"
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
                @for came in &self.report.ways { div { dt { "Arrived by" } dd { (came) } } }
            }
        }
    }

    /// Renders its interval, with the lane or the reason.
    fn interval_row(&self, stored: &StoredTweet) -> Markup {
        let item = ScheduledItem::new(self.id.as_str(), self.created_at);
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
                    dd { (format_span(interval)) @if let Some(why) = self.explain_interval(stored, interval) { ": " (why) } @else { ", by its counts" } }
                } @else {
                    dt { "Interval" }
                    dd {
                        @match self.schedule.next(&item, self.now) {
                            Some((lane, _)) => { (format_span(lane.patience)) " (lane " (lane.name) ")" }
                            None => "past the last interval",
                        }
                    }
                }
            }
        }
    }

    fn explain_interval(&self, stored: &StoredTweet, interval: Millis) -> Option<String> {
        let item = ScheduledItem::with_answer(self.id.as_str(), self.created_at, stored.checked_at);
        let explained = self.schedule.budget()?.explain(&item, interval, self.now)?;
        let bound = match explained.bound {
            Some(Bound::Shortest) => "minimum for its age; at least ",
            Some(Bound::Longest) => "maximum for its age; at most ",
            Some(Bound::Unchecked) => "limited by store.longest_unchecked; ",
            None => "",
        };
        let (busy, unseen) = (format_number(explained.multiplier), format_number(explained.unseen.round()));
        Some(format!(
            "{bound}{busy} × as busy as the average post of its age; estimated {unseen} interactions since the last lookup"
        ))
    }

    /// Renders its changes except for counts, newest first.
    fn changes(&self) -> Markup {
        let changes = &self.report.changes;
        html! {
            @if !changes.is_empty() {
                h2 { "Changes" }
                ul #changes {
                    @for change in changes.iter().rev().take(MAX_ROWS) {
                        li dir="auto" { (date(change.at)) ": " (describe_change(change)) }
                    }
                }
                @if changes.len() > MAX_ROWS { p.lead { "the newest " (MAX_ROWS) " of " (group_digits(changes.len() as u64)) } }
            }
        }
    }

    /// Returns the history, and the newest answer if it changed nothing. An answer without the post has no counts.
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
                    p.lead { "no counts: no answer has had it yet" }
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
                                    @for at in points.iter().rev().take(MAX_ROWS) {
                                        tr {
                                            td { (date(at.checked_at)) }
                                            td.n { @match self.created_at { Some(made) => (format_span(at.checked_at - made)), None => "–" } }
                                            @for (_, of) in &columns {
                                                td.n { (format::number_or_dash(of(&at.metrics))) }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                        @if points.len() > MAX_ROWS { p.lead { "the newest " (MAX_ROWS) " of " (group_digits(points.len() as u64)) } }
                    }
                }
            }
        }
    }

    /// `None` if its age is unknown.
    fn chart(&self, points: &[MetricsAt]) -> Option<Chart> {
        let made = self.created_at?;
        let first = points.first()?.checked_at - made;
        let ages_shown = self.age_range(first);
        let step = points.len().div_ceil(MAX_POINTS);
        // Counted from the end, so that the newest point is always drawn.
        let drawn = || points.iter().rev().step_by(step).rev();
        let mut series = Vec::new();
        for ((name, of), color) in DRAWN {
            let points: Vec<(f64, f64)> = drawn()
                .filter_map(|at| Some((((at.checked_at - made) as f64).max(ages_shown.start), of(&at.metrics)? as f64)))
                .collect();
            if !points.is_empty() {
                series.push(Series { name: name.to_owned(), color, shape: SeriesShape::Dotted, points });
            }
        }
        let most = series.iter().flat_map(|series| &series.points).map(|(_, count)| *count).fold(0.0, f64::max);
        let last = series.iter().filter_map(|series| Some((&series.name, series.points.last()?.1)));
        let last: Vec<String> = last.map(|(name, count)| format!("{} {name}", round_to_tenth(count))).collect();
        let brackets = self.brackets().iter();
        let marks = brackets.map(|bracket| (bracket.under as f64, bracket.lane.name.to_string()));
        let within = |ages: &str| -> Vec<(f64, String)> {
            let age = |word: &str| Some((clock::millis(parse_duration(word).ok()?) as f64, word.to_owned()));
            ages.split(' ').filter_map(age).filter(|(at, _)| ages_shown.contains(at)).collect()
        };
        let mut ticks = within(AGES);
        if ticks.len() < MIN_LABELS {
            ticks.extend(within(BETWEEN));
        }
        Some(Chart {
            alt_text: format!(
                "Counts by the post's age, on a logarithmic axis of time: {} at the age of {}",
                last.join(", "),
                format_span(points.last()?.checked_at - made)
            ),
            x: Axis::logarithmic("age", ages_shown.clone(), ticks),
            y: Axis::from_zero("count", most),
            series,
            marks: marks.filter(|(at, _)| *at > ages_shown.start && *at <= ages_shown.end).collect(),
        })
    }

    fn brackets(&self) -> &[Bracket] {
        self.schedule.age_table().map_or(&[], AgeTable::brackets)
    }

    /// Returns the ages to draw: from its first count, or early in the first bracket, to the end of its current bracket.
    fn age_range(&self, first: Millis) -> Range<f64> {
        let brackets = self.brackets();
        let early = brackets.first().map_or(first, |bracket| first.min(bracket.under / 10));
        let start = early.max(1_000) as f64;
        let age = self.created_at.map_or(0, |made| self.now - made).max(first);
        let end = brackets.iter().map(|bracket| bracket.under).find(|under| *under >= age).unwrap_or(age);
        start..(end as f64).max(start * 10.0)
    }
}
