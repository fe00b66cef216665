//! The dead: who they are and why, back to life, or to the end of it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Redirect, Response};
use axum::routing::{self, MethodRouter};
use maud::{Markup, html};
use serde::Deserialize;

use super::hands::{Refused, Sender, Sent, ToPost, token_field, with_session};
use super::ids::PostId;
use super::layout::{Document, problem, tweet_link};
use super::pages::Page;
use super::words::relative;
use crate::base::clock;
use crate::base::humanize::{grouped, one_line};
use crate::ops::dead::{Act, Cursor, Dead, DeadPage, DeadTweet};
use crate::ops::page::routes::Routes;

/// Rows on a page.
const ROWS: u32 = 50;

/// Which page of the list, and what was done before it is shown.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Asked {
    below: Option<String>,
    from: Option<u64>,
    retried: Option<String>,
    dropped: Option<String>,
    already: Option<String>,
}

/// `GET /dead`
pub(super) async fn show(State(page): State<Arc<Page>>, asked: Result<Query<Asked>, QueryRejection>) -> Response {
    let asked = asked.map(|Query(asked)| asked).unwrap_or_default();
    // What is no id was not written by us.
    let id = |text: &Option<String>| text.as_deref().and_then(|text| PostId::parse(text).ok());
    let told = match (id(&asked.retried), id(&asked.dropped), id(&asked.already)) {
        (Some(id), ..) => Some(html! { "Tweet " (id.as_str()) " lives again, due now." }),
        (_, Some(id), _) => Some(html! { "The life of tweet " (id.as_str()) " has ended." }),
        (.., Some(id)) => Some(html! { "Nothing was to be done: tweet " (id.as_str()) " was not dead any more." }),
        _ => None,
    };
    let told = told.map(|told| html! { p.told #told role="status" { (told) } });
    let from = match (asked.from, asked.below) {
        (Some(from), _) => Cursor::Queue { from },
        (None, below) => Cursor::Store { below },
    };
    page.list(&from, StatusCode::OK, told).await
}

/// The route of the form that does this to one of them.
pub(super) fn post(act: Act) -> MethodRouter<Arc<Page>> {
    routing::post(
        async move |State(page): State<Arc<Page>>, from: ConnectInfo<SocketAddr>, headers: HeaderMap, form: Sent| {
            let (ask, cookie) = match page.form(&Sender { address: from.ip(), headers }, form) {
                Ok(allowed) => allowed,
                Err(refused) => return page.not_done(refused).await,
            };
            match page.act_on(act, &ask.id).await {
                Ok(to) => with_session(Redirect::to(&to), cookie),
                Err(refused) => with_session(page.not_done(refused).await, cookie),
            }
        },
    )
}

impl Page {
    /// Answers where it leads.
    async fn act_on(&self, act: Act, id: &str) -> Result<String, Refused> {
        let (id, done) = self.to_post(id, ToPost::Dead(act)).await?;
        tracing::info!(?act, done, "somebody looked after the dead on the page");
        tracing::debug!(%id, ?act, "on the page");
        let told = match act {
            _ if !done => "already",
            Act::Retry => "retried",
            Act::Drop => "dropped",
        };
        Ok(self.routes.to_dead(told, id.as_str()))
    }

    /// The list, with the reason before it.
    async fn not_done(&self, (status, why): Refused) -> Response {
        self.list(&Cursor::default(), status, Some(problem(&why))).await
    }

    /// The list from there on, with a line before it.
    async fn list(&self, from: &Cursor, status: StatusCode, told: Option<Markup>) -> Response {
        let read = async |dead: &Dead| {
            let known = (
                dead.store.counts(dead.queue.namespace()).await.map_err(|error| error.to_string())?.dead,
                dead.queue.stats().await.map_err(|error| error.to_string())?.dead,
            );
            Ok::<_, String>((known, dead.page(from, ROWS).await.map_err(|error| error.to_string())?))
        };
        let (status, list) = match self.archive.ask(read).await {
            Ok((known, page)) => (status, self.table(known, &page, from)),
            Err(why) => {
                let status = if status == StatusCode::OK { StatusCode::SERVICE_UNAVAILABLE } else { status };
                let why = format!("The list cannot be read now: {}", one_line(&why));
                (
                    status,
                    if told.is_some() {
                        html! { p.note.bad { (why) } }
                    } else {
                        problem(&why)
                    },
                )
            }
        };
        let content = html! { h1 { "The dead" } @if let Some(told) = told { (told) } (list) };
        let (title, asked, now) = ("The dead".to_owned(), String::new(), clock::wall_ms());
        Document { routes: &self.routes, title, here: "/dead", at: now, now, events: None, asked, content }
            .answer(status)
    }

    fn table(&self, (in_store, in_queue): (u64, u64), page: &DeadPage, from: &Cursor) -> Markup {
        let may = self.in_common.token.is_some();
        let next = page.next.as_ref().map(|next| match next {
            Cursor::Store { below } => self.routes.to_dead("below", below.as_deref().unwrap_or_default()),
            Cursor::Queue { from } => self.routes.to_dead("from", &from.to_string()),
        });
        html! {
            section.panel #dead aria-label="The dead" {
                p.lead {
                    strong { (grouped(in_store)) } " in the store, " strong { (grouped(in_queue)) } " in the queue. A tweet is set \
                    aside after it failed again and again while it was alone; it is not looked up any more."
                    @if !may { " This page is read-only; " code { "twitter-updater dead" } " retries and drops." }
                }
                @if page.dead.is_empty() {
                    p.note.none { "nobody on this page" }
                } @else {
                    div.scroll #dead-box tabindex="0" role="region" aria-label="List of the dead" {
                        table aria-label="List of the dead" {
                            thead {
                                tr {
                                    th scope="col" { "Tweet" }
                                    th scope="col" { "Buried" }
                                    th scope="col" { "Reason" }
                                    th scope="col" { "Known to" }
                                    @if may { th scope="col" { "Do" } }
                                }
                            }
                            tbody { @for dead in &page.dead { (row(dead, may, &self.routes)) } }
                        }
                    }
                }
                nav.pages aria-label="Pages of the dead" {
                    @if *from != Cursor::default() { a href=(self.routes.to("/dead")) { "To the first page" } }
                    @if let Some(next) = next { a href=(next) rel="next" { "Next page" } }
                }
            }
        }
    }
}

fn row(dead: &DeadTweet, may: bool, routes: &Routes) -> Markup {
    let known_to = match (dead.in_store, dead.in_queue) {
        (true, false) => "store",
        (false, true) => "queue",
        _ => "both",
    };
    html! {
        tr {
            th.id scope="row" { (tweet_link(routes, &dead.id)) }
            td { @match dead.buried_at { Some(at) => (relative(at, clock::wall_ms(), "ago")), None => "–" } }
            td.wrap dir="auto" { (one_line(&dead.reason)) }
            td { (known_to) }
            @if may {
                td {
                    details {
                        summary { "Retry or drop" span.unseen { " tweet " (dead.id) } }
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
