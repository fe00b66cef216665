//! The page of errors that workers recorded, with a search.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::errors::{Row, table};
use super::format::{describe_error, one_line, truncate_chars};
use super::layout::{Document, problem_notice};
use super::pages::Page;
use engine::base::clock::{self, Millis};
use engine::queue::{ERRORS_KEPT, RecordedError};

const MAX_WORDS_CHARS: usize = 200;

#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorsQuery {
    #[serde(default)]
    text: String,
}

/// `GET /errors?text=`
pub(super) async fn show_page(
    State(page): State<Arc<Page>>,
    query: Result<Query<ErrorsQuery>, QueryRejection>,
) -> Response {
    let ErrorsQuery { text } = query.map(|Query(query)| query).unwrap_or_default();
    let words = truncate_chars(&one_line(&text), MAX_WORDS_CHARS);
    let now = clock::wall_ms();
    let (status, list) = match page.whole.queue.errors(ERRORS_KEPT).await {
        Ok(mut errors) => {
            errors.retain(|error| error.contains_text(&words));
            (StatusCode::OK, page.errors_section(&errors, &words, now))
        }
        Err(why) => {
            let why = format!("The errors cannot be read: {}", describe_error(&why.to_string()));
            (StatusCode::SERVICE_UNAVAILABLE, problem_notice(&why))
        }
    };
    let content = html! { h1 { "Last errors" } (list) };
    let (title, query) = ("Last errors".to_owned(), String::new());
    Document { routes: &page.routes, title, current_path: "/errors", at: now, now, events: None, query, content }
        .answer(status)
}

impl Page {
    fn errors_section(&self, errors: &[RecordedError], words: &str, now: Millis) -> Markup {
        let rows: Vec<Row<'_>> = errors.iter().map(Row::Recorded).collect();
        html! {
            section.panel #errors aria-label="Last errors" {
                p.lead {
                    "Errors of workers in the last 7 days, the newest first; " code { "twitter-updater status --errors" }
                    " prints those of all pipelines."
                }
                form.act #filter method="get" action=(self.routes.address("/errors")) {
                    input type="search" name="text" value=[(!words.is_empty()).then_some(words)] maxlength=(MAX_WORDS_CHARS)
                        placeholder="Words of an error" aria-label="Words of an error";
                    button type="submit" { "Search" }
                    @if !words.is_empty() { a href=(self.routes.address("/errors")) { "All errors" } }
                }
                @if rows.is_empty() {
                    p.note.none { "No errors" @if !words.is_empty() { " with these words" } "." }
                } @else {
                    (table(&rows, &self.routes, now))
                }
            }
        }
    }
}
