//! The dead: lists them with their reasons, retries them or drops them.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Redirect, Response};
use axum::routing::{self, MethodRouter};
use maud::{Markup, html};
use serde::Deserialize;

use super::form::{Ask, Sent};
use super::hands::{Refused, Sender, ToPost, token_field, with_session};
use super::ids::PostId;
use super::layout::{Document, item_link, problem};
use super::number::Number;
use super::pages::Page;
use super::routes::Routes;
use super::words::{capital, count, cut, error, one_line, relative};
use crate::base::clock;
use crate::base::humanize::grouped;
use crate::engine::queue::check_id;
use crate::ingest::StarterError;
use crate::ops::dead::{Act, Cursor, Dead, DeadPage, DeadTweet, Tally, holding};
use crate::pipelines::kind::Words;

/// Minimum number of rows on a page, if there are more rows.
const ROWS: usize = 50;
/// Rows per read,
const READ: u32 = 50;
/// and maximum number of reads per page, in search of rows with a reason, or of the first row of the next page.
const READS: usize = 200;
const WORDS: usize = 200;
/// Value of the box that confirms an action on all.
const SURE: &str = "yes";

#[derive(Debug, Default, Deserialize)]
pub(super) struct DeadQuery {
    below: Option<String>,
    from: Option<Number>,
    #[serde(default)]
    reason: String,
    retried: Option<String>,
    dropped: Option<String>,
    already: Option<String>,
    /// Name of the action on several posts,
    many: Option<String>,
    #[serde(default)]
    done: Number,
    /// with the number of refused ones.
    #[serde(default)]
    refused: Number,
}

#[derive(Debug, Default)]
struct DeadFilter {
    from: Cursor,
    /// Words that the reasons contain; `None`: all reasons.
    words: Option<String>,
}

impl DeadFilter {
    fn of(from: Cursor, words: &str) -> Self {
        let words = cut(&one_line(words), WORDS);
        Self { from, words: (!words.is_empty()).then_some(words) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    One,
    All,
}

/// `GET /dead`
pub(super) async fn show(State(page): State<Arc<Page>>, asked: Result<Query<DeadQuery>, QueryRejection>) -> Response {
    let asked = asked.map(|Query(asked)| asked).unwrap_or_default();
    let notice = notice(&asked, page.words()).map(|notice| html! { p.notice #notice role="status" { (notice) } });
    let from = match (asked.from, asked.below) {
        (Some(Number(from)), _) => Cursor::Queue { from },
        // A text that is no id does not come from a link of the list.
        (None, below) => Cursor::Store { below: below.filter(|below| check_id(below).is_ok()) },
    };
    page.list(&DeadFilter::of(from, &asked.reason), StatusCode::OK, notice).await
}

fn notice(asked: &DeadQuery, words: Words) -> Option<Markup> {
    // A text that is no id does not come from us.
    let id = |text: &Option<String>| text.as_deref().and_then(|text| PostId::parse(text).ok());
    let many = asked.many.as_deref().and_then(|many| {
        let Number(refused) = asked.refused;
        let done = count(asked.done.0, words.one);
        let refused = html! { @if refused > 0 { " " (grouped(refused)) " refused." } };
        match many {
            "retried" => Some(html! { (done) " due now." (refused) }),
            "dropped" => Some(html! { (done) " dropped." (refused) }),
            _ => None,
        }
    });
    many.or_else(|| match (id(&asked.retried), id(&asked.dropped), id(&asked.already)) {
        (Some(id), ..) => Some(html! { (capital(words.one)) " " (id.as_str()) " lives again, due now." }),
        (_, Some(id), _) => Some(html! { "The life of " (words.one) " " (id.as_str()) " has ended." }),
        (.., Some(id)) => Some(html! { "No change: " (words.one) " " (id.as_str()) " was not dead any more." }),
        _ => None,
    })
}

pub(super) fn post(act: Act, whom: Whom) -> MethodRouter<Arc<Page>> {
    routing::post(
        async move |State(page): State<Arc<Page>>, from: ConnectInfo<SocketAddr>, headers: HeaderMap, form: Sent| {
            let (ask, cookie) = match page.form(&Sender { address: from.ip(), headers }, form) {
                Ok(allowed) => allowed,
                // A guess beyond the limit must not cost a query of the store.
                Err(refused) if refused.0 == StatusCode::TOO_MANY_REQUESTS => return page.refused(refused),
                Err(refused) => return page.not_done(refused, "").await,
            };
            let done = match whom {
                Whom::One => page.act_on(act, &ask.id).await,
                Whom::All => page.act_on_all(act, &ask).await,
            };
            match done {
                Ok(to) => with_session(Redirect::to(&to), cookie),
                Err(refused) => with_session(page.not_done(refused, &ask.words).await, cookie),
            }
        },
    )
}

fn word(act: Act) -> &'static str {
    match act {
        Act::Retry => "retried",
        Act::Drop => "dropped",
    }
}

impl Page {
    /// Acts on one post and returns the address to show next.
    async fn act_on(&self, act: Act, id: &str) -> Result<String, Refused> {
        let (id, done) = self.to_post(id, ToPost::Dead(act)).await?;
        tracing::info!(?act, done, "dead posts changed on the page");
        tracing::debug!(%id, ?act, "on the page");
        let outcome = if done { word(act) } else { "already" };
        Ok(self.routes.to_dead(&[(outcome, id.as_str())]))
    }

    /// Acts on all posts, or on those with the words of a reason. Returns the address to show next.
    async fn act_on_all(&self, act: Act, ask: &Ask) -> Result<String, Refused> {
        if ask.sure != SURE {
            return Err((StatusCode::BAD_REQUEST, "Nothing was changed: tick the box that all are meant.".to_owned()));
        }
        let shown = DeadFilter::of(Cursor::default(), &ask.words);
        let words = shown.words.as_deref();
        let all = async |dead: &Dead| dead.act_on_all(act, words, |_, _| ()).await;
        let Tally { done, already, refused } = self.archive.ask(all).await.map_err(|why| {
            let why = format!("Perhaps not all are done. Do it again; what is done stays done: {}", error(&why));
            (StatusCode::SERVICE_UNAVAILABLE, why)
        })?;
        tracing::info!(?act, words, done, already, refused, "dead posts changed in bulk on the page");
        let (done, refused) = (done.to_string(), refused.to_string());
        Ok(self.routes.to_dead(&[("many", word(act)), ("done", &done), ("refused", &refused)]))
    }

    async fn not_done(&self, (status, why): Refused, words: &str) -> Response {
        self.list(&DeadFilter::of(Cursor::default(), words), status, Some(problem(&why))).await
    }

    async fn list(&self, shown: &DeadFilter, status: StatusCode, notice: Option<Markup>) -> Response {
        let read = async |dead: &Dead| {
            let in_store = dead.store.dead(dead.queue.namespace()).await?;
            let in_queue = dead.queue.brief().await?.dead;
            Ok::<_, StarterError>(((in_store, in_queue), rows(dead, shown).await?))
        };
        let (status, list) = match self.archive.ask(read).await {
            Ok((known, page)) => (status, self.section(known, &page, shown)),
            Err(why) => {
                let status = if status == StatusCode::OK { StatusCode::SERVICE_UNAVAILABLE } else { status };
                let why = format!("The list cannot be read: {}", error(&why));
                (
                    status,
                    if notice.is_some() {
                        html! { p.note.bad { (why) } }
                    } else {
                        problem(&why)
                    },
                )
            }
        };
        let content = html! { h1 { "The dead" } @if let Some(notice) = notice { (notice) } (list) };
        let (title, asked, now) = ("The dead".to_owned(), String::new(), clock::wall_ms());
        Document { routes: &self.routes, title, here: "/dead", at: now, now, events: None, asked, content }
            .answer(status)
    }

    fn section(&self, (in_store, in_queue): (u64, u64), page: &DeadPage, shown: &DeadFilter) -> Markup {
        let may = self.in_common.token.is_some();
        let words = shown.words.as_deref();
        let Words { one, many, .. } = self.words();
        html! {
            section.panel #dead aria-label="The dead" {
                p.lead {
                    strong { (grouped(in_store)) } " in the store, " strong { (grouped(in_queue)) } " in the queue: " (many) " that \
                    failed repeatedly in requests of their own. They are not looked up any more."
                    @if !may { " This page is read-only; " code { "twitter-updater dead" } " retries and drops." }
                }
                @if in_store + in_queue > 0 {
                    (self.filter(words))
                    @if may { (self.many(words)) }
                }
                @if page.dead.is_empty() {
                    p.note.none { "No dead " (many) @if words.is_some() { " with such a reason" } "." }
                } @else {
                    (table(&page.dead, may, &self.routes, one))
                }
                (self.pages(page, shown))
            }
        }
    }

    fn filter(&self, words: Option<&str>) -> Markup {
        html! {
            form.act #filter method="get" action=(self.routes.to("/dead")) {
                input type="search" name="reason" value=[words] maxlength=(WORDS) placeholder="Words of a reason"
                    aria-label="Words of a reason";
                button type="submit" { "Filter" }
                @if words.is_some() { a href=(self.routes.to("/dead")) { "All reasons" } }
            }
        }
    }

    fn many(&self, words: Option<&str>) -> Markup {
        let whom = words.map_or_else(
            || format!("all dead {}", self.words().many),
            |words| format!("all whose reason holds “{words}”"),
        );
        html! {
            details #many {
                summary { "Retry or drop " (whom) }
                form.act method="post" action=(self.routes.to("/dead/retry-all")) {
                    input type="hidden" name="words" value=(words.unwrap_or_default());
                    label { input type="checkbox" name="sure" value=(SURE) required; " Yes, " (whom) ", on all pages" }
                    (token_field())
                    button type="submit" { "Retry all" }
                    button.danger type="submit" formaction=(self.routes.to("/dead/drop-all")) { "Drop all" }
                }
            }
        }
    }

    fn pages(&self, page: &DeadPage, shown: &DeadFilter) -> Markup {
        let words = shown.words.as_ref().map(|words| ("reason", words.as_str()));
        let to = |at: Option<(&str, &str)>| {
            let query: Vec<_> = at.into_iter().chain(words).collect();
            if query.is_empty() { self.routes.to("/dead") } else { self.routes.to_dead(&query) }
        };
        let first = (shown.from != Cursor::default()).then(|| to(None));
        let next = page.next.as_ref().map(|next| match next {
            Cursor::Store { below } => to(below.as_deref().map(|below| ("below", below))),
            Cursor::Queue { from } => to(Some(("from", &from.to_string()))),
        });
        html! {
            @if first.is_some() || next.is_some() {
                nav.pages aria-label="Pages of the dead" {
                    @if let Some(first) = first { a href=(first) { "First page" } }
                    @if let Some(next) = next { a href=(next) rel="next" { "Next page" } }
                }
            }
        }
    }
}

/// Reads the rows of a page. A next page is linked only if it has rows, or if the search for its rows would take too long.
async fn rows(dead: &Dead, shown: &DeadFilter) -> Result<DeadPage, StarterError> {
    let is_meant = holding(shown.words.as_deref());
    let mut page = DeadPage { dead: Vec::new(), next: Some(shown.from.clone()) };
    for _ in 0..READS {
        let Some(at) = &page.next else { break };
        let DeadPage { dead: mut rows, next } = dead.page(at, READ).await?;
        rows.retain(|row| is_meant(&row.reason));
        if page.dead.len() >= ROWS && !rows.is_empty() {
            break;
        }
        page.dead.append(&mut rows);
        page.next = next;
    }
    Ok(page)
}

fn table(dead: &[DeadTweet], may: bool, routes: &Routes, one: &str) -> Markup {
    html! {
        div.scroll #dead-box tabindex="0" role="region" aria-label="List of the dead" {
            table.stacked aria-label="List of the dead" {
                thead {
                    tr {
                        th scope="col" { (capital(one)) }
                        th scope="col" { "Buried" }
                        th scope="col" { "Reason" }
                        th scope="col" { "Known to" }
                        @if may { th scope="col" { "Do" } }
                    }
                }
                tbody { @for dead in dead { (row(dead, may, routes, one)) } }
            }
        }
    }
}

fn row(dead: &DeadTweet, may: bool, routes: &Routes, one: &str) -> Markup {
    let known_to = match (dead.in_store, dead.in_queue) {
        (true, false) => "store",
        (false, true) => "queue",
        _ => "both",
    };
    html! {
        tr {
            th.id scope="row" { (item_link(routes, &dead.id)) }
            td data-name="Buried" {
                @match dead.buried_at { Some(at) => (relative(at, clock::wall_ms(), "ago")), None => "–" }
            }
            td.wrap dir="auto" { (one_line(&dead.reason)) }
            td data-name="Known to" { (known_to) }
            @if may {
                td.wrap {
                    details {
                        summary { "Retry or drop" span.unseen { " " (one) " " (dead.id) } }
                        form.act method="post" action=(routes.to("/dead/retry")) {
                            input type="hidden" name="id" value=(dead.id);
                            (token_field())
                            button type="submit" { "Retry" }
                            button.danger type="submit" formaction=(routes.to("/dead/drop")) { "Drop" }
                        }
                    }
                }
            }
        }
    }
}
