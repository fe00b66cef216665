//! The page of dead items: their list, and the forms that retry or drop them.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Redirect, Response};
use axum::routing::{self, MethodRouter};
use maud::{Markup, html};
use serde::Deserialize;

use super::actions::{FormSender, PostAction, Refusal, token_field, with_cookie};
use super::form::{ActionForm, ReceivedForm};
use super::format::{capitalize, count_text, describe_error, one_line, relative_time, truncate_chars};
use super::ids::PostId;
use super::layout::{Document, item_link, problem_notice};
use super::number::Number;
use super::pages::Page;
use super::routes::Routes;
use super::scroll_table::{STACKED, scroll_table};
use crate::data::dead::{ActionCounts, Cursor, DeadAction, DeadItem, DeadItems, DeadPage, reason_filter};
use collect::ingest::StarterError;
use collect::pipelines::kind::ItemWords;
use engine::base::clock;
use engine::base::humanize::group_digits;
use engine::base::id::check_id;

/// Minimum number of rows on a page, if there are more rows.
const MIN_ROWS: usize = 50;
const ROWS_PER_READ: u32 = 50;
/// Limit of reads per page in search of rows with the reason, or of the first row of the next page.
const MAX_READS: usize = 200;
const MAX_WORDS_CHARS: usize = 200;
/// Value of the checkbox that confirms an action on all.
const CONFIRMED: &str = "yes";

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
    fn new(from: Cursor, words: &str) -> Self {
        let words = truncate_chars(&one_line(words), MAX_WORDS_CHARS);
        Self { from, words: (!words.is_empty()).then_some(words) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection {
    One,
    All,
}

/// `GET /dead`
pub(super) async fn show_page(
    State(page): State<Arc<Page>>,
    query: Result<Query<DeadQuery>, QueryRejection>,
) -> Response {
    let query = query.map(|Query(query)| query).unwrap_or_default();
    let notice = notice(&query, page.words()).map(|notice| html! { p.notice #notice role="status" { (notice) } });
    let from = match (query.from, query.below) {
        (Some(Number(from)), _) => Cursor::Queue { from },
        // A text that is no id does not come from a link of the list.
        (None, below) => Cursor::Store { below: below.filter(|below| check_id(below).is_ok()) },
    };
    page.render_list(&DeadFilter::new(from, &query.reason), StatusCode::OK, notice).await
}

fn notice(query: &DeadQuery, words: ItemWords) -> Option<Markup> {
    // A text that is no id does not come from us.
    let id = |text: &Option<String>| text.as_deref().and_then(|text| PostId::parse(text).ok());
    let many = query.many.as_deref().and_then(|many| {
        let Number(refused) = query.refused;
        let done = count_text(query.done.0, words.one);
        let refused = html! { @if refused > 0 { " " (group_digits(refused)) " refused." } };
        match many {
            "retried" => Some(html! { (done) " due now." (refused) }),
            "dropped" => Some(html! { (done) " dropped." (refused) }),
            _ => None,
        }
    });
    many.or_else(|| match (id(&query.retried), id(&query.dropped), id(&query.already)) {
        (Some(id), ..) => Some(html! { (capitalize(words.one)) " " (id.as_str()) " is tracked again, due now." }),
        (_, Some(id), _) => Some(html! { "Tracking of " (words.one) " " (id.as_str()) " has ended." }),
        (.., Some(id)) => Some(html! { "No change: " (words.one) " " (id.as_str()) " was not dead any more." }),
        _ => None,
    })
}

pub(super) fn action_route(act: DeadAction, selection: Selection) -> MethodRouter<Arc<Page>> {
    routing::post(
        async move |State(page): State<Arc<Page>>,
                    from: ConnectInfo<SocketAddr>,
                    headers: HeaderMap,
                    form: ReceivedForm| {
            let (form, cookie) = match page.check_form(&FormSender { address: from.ip(), headers }, form) {
                Ok(allowed) => allowed,
                // A guess beyond the limit must not cost a query of the store.
                Err(refused) if refused.0 == StatusCode::TOO_MANY_REQUESTS => return page.refusal_page(refused),
                Err(refused) => return page.render_list_with_error(refused, "").await,
            };
            let done = match selection {
                Selection::One => page.act_on(act, &form.id).await,
                Selection::All => page.act_on_all(act, &form).await,
            };
            match done {
                Ok(to) => with_cookie(Redirect::to(&to), cookie),
                Err(refused) => with_cookie(page.render_list_with_error(refused, &form.words).await, cookie),
            }
        },
    )
}

fn outcome_key(act: DeadAction) -> &'static str {
    match act {
        DeadAction::Retry => "retried",
        DeadAction::Drop => "dropped",
    }
}

impl Page {
    /// Acts on one post and returns the address to show next.
    async fn act_on(&self, act: DeadAction, id: &str) -> Result<String, Refusal> {
        let (id, done) = self.act_on_post(id, PostAction::Dead(act)).await?;
        tracing::info!(?act, done, "dead posts changed on the page");
        tracing::debug!(%id, ?act, "dead post changed on the page");
        let outcome = if done { outcome_key(act) } else { "already" };
        Ok(self.routes.dead_address(&[(outcome, id.as_str())]))
    }

    /// Acts on all posts, or on those with these words in the reason. Returns the address to show next.
    async fn act_on_all(&self, act: DeadAction, form: &ActionForm) -> Result<String, Refusal> {
        if form.sure != CONFIRMED {
            return Err((
                StatusCode::BAD_REQUEST,
                "Nothing was changed: tick the box to confirm the action on all.".to_owned(),
            ));
        }
        let shown = DeadFilter::new(Cursor::default(), &form.words);
        let words = shown.words.as_deref();
        let all = async |dead: &DeadItems| dead.act_on_all(act, words, |_, _| ()).await;
        let ActionCounts { done, already, refused } = self.archive.query(all).await.map_err(|why| {
            let why = format!("The action did not finish: {}. Repeat it for the rest.", describe_error(&why));
            (StatusCode::SERVICE_UNAVAILABLE, why)
        })?;
        tracing::info!(?act, words, done, already, refused, "dead posts changed in bulk on the page");
        let (done, refused) = (done.to_string(), refused.to_string());
        Ok(self.routes.dead_address(&[("many", outcome_key(act)), ("done", &done), ("refused", &refused)]))
    }

    async fn render_list_with_error(&self, (status, why): Refusal, words: &str) -> Response {
        self.render_list(&DeadFilter::new(Cursor::default(), words), status, Some(problem_notice(&why))).await
    }

    async fn render_list(&self, shown: &DeadFilter, status: StatusCode, notice: Option<Markup>) -> Response {
        let read = async |dead: &DeadItems| {
            let in_store = dead.store.dead(dead.queue.namespace()).await?;
            let in_queue = dead.queue.brief_stats().await?.dead;
            Ok::<_, StarterError>(((in_store, in_queue), read_rows(dead, shown).await?))
        };
        let (status, list) = match self.archive.query(read).await {
            Ok((known, page)) => (status, self.section(known, &page, shown)),
            Err(why) => {
                let status = if status == StatusCode::OK { StatusCode::SERVICE_UNAVAILABLE } else { status };
                let why = format!("The list cannot be read: {}", describe_error(&why));
                (
                    status,
                    if notice.is_some() {
                        html! { p.note.bad { (why) } }
                    } else {
                        problem_notice(&why)
                    },
                )
            }
        };
        let content = html! { h1 { "Dead items" } @if let Some(notice) = notice { (notice) } (list) };
        let (title, query, now) = ("Dead items".to_owned(), String::new(), clock::wall_ms());
        Document { routes: &self.routes, title, current_path: "/dead", at: now, now, events: None, query, content }
            .answer(status)
    }

    fn section(&self, (in_store, in_queue): (u64, u64), page: &DeadPage, shown: &DeadFilter) -> Markup {
        let may_act = self.shared.token.is_some();
        let words = shown.words.as_deref();
        let ItemWords { one, many, .. } = self.words();
        html! {
            section.panel #dead aria-label="Dead items" {
                p.lead {
                    strong { (group_digits(in_store)) } " in the store, " strong { (group_digits(in_queue)) } " in the queue: " (many) " that \
                    failed repeatedly in requests of their own. They are not looked up any more."
                    @if !may_act { " This page is read-only; " code { "twitter-updater dead" } " retries and drops." }
                }
                @if in_store + in_queue > 0 {
                    (self.filter_form(words))
                    @if may_act { (self.bulk_form(words)) }
                }
                @if page.dead.is_empty() {
                    p.note.none { "No dead " (many) @if words.is_some() { " with such a reason" } "." }
                } @else {
                    (table(&page.dead, may_act, &self.routes, one))
                }
                (self.page_links(page, shown))
            }
        }
    }

    fn filter_form(&self, words: Option<&str>) -> Markup {
        html! {
            form.act #filter method="get" action=(self.routes.address("/dead")) {
                input type="search" name="reason" value=[words] maxlength=(MAX_WORDS_CHARS) placeholder="Words of a reason"
                    aria-label="Words of a reason";
                button type="submit" { "Filter" }
                @if words.is_some() { a href=(self.routes.address("/dead")) { "All reasons" } }
            }
        }
    }

    fn bulk_form(&self, words: Option<&str>) -> Markup {
        let whom = words.map_or_else(
            || format!("all dead {}", self.words().many),
            |words| format!("all whose reason contains “{words}”"),
        );
        html! {
            details #many {
                summary { "Retry or drop " (whom) }
                form.act method="post" action=(self.routes.address("/dead/retry-all")) {
                    input type="hidden" name="words" value=(words.unwrap_or_default());
                    label { input type="checkbox" name="sure" value=(CONFIRMED) required; " Yes, " (whom) ", on all pages" }
                    (token_field())
                    button type="submit" { "Retry all" }
                    button.danger type="submit" formaction=(self.routes.address("/dead/drop-all")) { "Drop all" }
                }
            }
        }
    }

    fn page_links(&self, page: &DeadPage, shown: &DeadFilter) -> Markup {
        let words = shown.words.as_ref().map(|words| ("reason", words.as_str()));
        let to = |at: Option<(&str, &str)>| {
            let query: Vec<_> = at.into_iter().chain(words).collect();
            if query.is_empty() { self.routes.address("/dead") } else { self.routes.dead_address(&query) }
        };
        let first = (shown.from != Cursor::default()).then(|| to(None));
        let next = page.next.as_ref().map(|next| match next {
            Cursor::Store { below } => to(below.as_deref().map(|below| ("below", below))),
            Cursor::Queue { from } => to(Some(("from", &from.to_string()))),
        });
        html! {
            @if first.is_some() || next.is_some() {
                nav.pages aria-label="Pages of dead items" {
                    @if let Some(first) = first { a href=(first) { "First page" } }
                    @if let Some(next) = next { a href=(next) rel="next" { "Next page" } }
                }
            }
        }
    }
}

/// Reads the rows of a page. A next page is linked only if it has rows, or if the search for its rows would take too long.
async fn read_rows(dead: &DeadItems, shown: &DeadFilter) -> Result<DeadPage, StarterError> {
    let is_meant = reason_filter(shown.words.as_deref());
    let mut page = DeadPage { dead: Vec::new(), next: Some(shown.from.clone()) };
    for _ in 0..MAX_READS {
        let Some(at) = &page.next else { break };
        let DeadPage { dead: mut rows, next } = dead.read_page(at, ROWS_PER_READ).await?;
        rows.retain(|row| is_meant(&row.reason));
        if page.dead.len() >= MIN_ROWS && !rows.is_empty() {
            break;
        }
        page.dead.append(&mut rows);
        page.next = next;
    }
    Ok(page)
}

fn table(dead: &[DeadItem], may_act: bool, routes: &Routes, one: &str) -> Markup {
    let name = capitalize(one);
    let columns = [("", &*name), ("", "Dead since"), ("", "Reason"), ("", "Known to"), ("", "Action")];
    let columns = if may_act { &columns[..] } else { &columns[..4] };
    let rows = html! { @for dead in dead { (row(dead, may_act, routes, one)) } };
    scroll_table("dead-box", "List of dead items", STACKED, columns, rows)
}

fn row(dead: &DeadItem, may_act: bool, routes: &Routes, one: &str) -> Markup {
    let known_to = match (dead.in_store, dead.in_queue) {
        (true, false) => "store",
        (false, true) => "queue",
        _ => "both",
    };
    html! {
        tr {
            th.id scope="row" { (item_link(routes, &dead.id)) }
            td data-name="Dead since" {
                @match dead.buried_at { Some(at) => (relative_time(at, clock::wall_ms(), "ago")), None => "–" }
            }
            td.wrap dir="auto" { (one_line(&dead.reason)) }
            td data-name="Known to" { (known_to) }
            @if may_act {
                td.wrap {
                    details {
                        summary { "Retry or drop" span.unseen { " " (one) " " (dead.id) } }
                        form.act method="post" action=(routes.address("/dead/retry")) {
                            input type="hidden" name="id" value=(dead.id);
                            (token_field())
                            button type="submit" { "Retry" }
                            button.danger type="submit" formaction=(routes.address("/dead/drop")) { "Drop" }
                        }
                    }
                }
            }
        }
    }
}
