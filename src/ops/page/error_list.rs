//! The list of the errors that workers recorded, and a search through it.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::errors::{Row, table};
use super::layout::{Document, problem};
use super::pages::Page;
use super::words::{cut, error, one_line};
use crate::base::clock::{self, Millis};
use crate::engine::queue::{ERRORS_KEPT, RecordedError};

const WORDS: usize = 200;

#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorsQuery {
    #[serde(default)]
    text: String,
}

/// `GET /errors?text=`
pub(super) async fn show(State(page): State<Arc<Page>>, asked: Result<Query<ErrorsQuery>, QueryRejection>) -> Response {
    let ErrorsQuery { text } = asked.map(|Query(asked)| asked).unwrap_or_default();
    let words = cut(&one_line(&text), WORDS);
    let now = clock::wall_ms();
    let (status, list) = match page.whole.queue.errors(ERRORS_KEPT).await {
        Ok(mut errors) => {
            errors.retain(|error| error.holds(&words));
            (StatusCode::OK, page.list_of_errors(&errors, &words, now))
        }
        Err(why) => {
            let why = format!("The errors cannot be read: {}", error(&why.to_string()));
            (StatusCode::SERVICE_UNAVAILABLE, problem(&why))
        }
    };
    let content = html! { h1 { "Last errors" } (list) };
    let (title, asked) = ("Last errors".to_owned(), String::new());
    Document { routes: &page.routes, title, here: "/errors", at: now, now, events: None, asked, content }.answer(status)
}

impl Page {
    fn list_of_errors(&self, errors: &[RecordedError], words: &str, now: Millis) -> Markup {
        let rows: Vec<Row<'_>> = errors.iter().map(Row::Recorded).collect();
        html! {
            section.panel #errors aria-label="Last errors" {
                p.lead {
                    "Errors of workers in the last 7 days, the newest first; " code { "twitter-updater status --errors" }
                    " prints those of all pipelines."
                }
                form.act #filter method="get" action=(self.routes.to("/errors")) {
                    input type="search" name="text" value=[(!words.is_empty()).then_some(words)] maxlength=(WORDS)
                        placeholder="Words of an error" aria-label="Words of an error";
                    button type="submit" { "Search" }
                    @if !words.is_empty() { a href=(self.routes.to("/errors")) { "All errors" } }
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
