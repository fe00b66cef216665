//! The frame of all pages.

use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::assets::VERSION;
use super::format::one_line;
use super::ids::PostId;
use crate::ops::page::routes::{NamespaceRoute, Routes};
use engine::base::clock::Millis;

pub(super) const FIND_PATH: &str = "/find";

/// The referrer is `same-origin`: without any, a browser does not send the origin of a form either.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
];

pub(super) struct Document<'a> {
    pub routes: &'a Routes,
    pub title: String,
    /// Path that the navigation marks as current, without the prefix of the namespace.
    pub current_path: &'static str,
    /// Time of its figures, ms since the epoch.
    pub at: Millis,
    /// Current time by the same clock: the figures may be old.
    pub now: Millis,
    pub events: Option<String>,
    pub query: String,
    pub content: Markup,
}

impl Document<'_> {
    pub(super) fn answer(self, status: StatusCode) -> Response {
        let mut response = (status, Html(self.markup().into_string())).into_response();
        for (name, value) in HEADERS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    fn markup(self) -> Markup {
        let Self { routes, title, current_path, at, now, events, query, content } = self;
        let version = &*VERSION;
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    title { (routes.title(&title)) " · Twitter Updater" }
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    link rel="icon" type="image/svg+xml" href={ "/icon.svg?" (version) };
                    link rel="stylesheet" href={ "/page.css?" (version) };
                    script src={ "/page.js?" (version) } defer {}
                }
                body {
                    a.unseen.skip href="#main" { "Skip to the content" }
                    header.head {
                        a.brand href="/" { (logo()) "Twitter Updater" }
                        @if routes.namespace.is_some() {
                            (page_nav(routes, current_path))
                            (search_form(&routes.items_address(), if routes.holds_accounts() { ACCOUNTS } else { POSTS }, &query))
                        } @else {
                            (search_form(FIND_PATH, if routes.any_holds_accounts() { ALL } else { POSTS }, &query))
                        }
                        span #live role="status" hidden[events.is_none()] { "as it was when it was loaded" }
                        @if !routes.all.is_empty() { (namespace_nav(routes, current_path)) }
                    }
                    main #main data-at=(at) data-now=(now) data-version=(version) data-events=[events] tabindex="-1" {
                        (content)
                    }
                    footer {
                        p {
                            "twitter-updater " (env!("CARGO_PKG_VERSION")) " · JSON: "
                            a href=(routes.status_address()) { (routes.status_address()) }
                            @if routes.optional.metrics { " · Prometheus: " a href="/metrics" { "/metrics" } }
                        }
                        @if routes.optional.logout {
                            form.act #logout method="post" action="/logout" {
                                button type="submit" { "Log out" }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn page_nav(routes: &Routes, current_path: &str) -> Markup {
    html! {
        nav aria-label="Pages" {
            @for (address, name) in [("/", "Overview"), ("/dead", "Dead")] {
                a href=(routes.address(address)) aria-current=[(address == current_path).then_some("page")] { (name) }
            }
        }
    }
}

const POSTS: &str = "Id or address of a post";
const ACCOUNTS: &str = "Account’s id or handle";
const ALL: &str = "Id, address or @handle";

fn search_form(action: &str, label: &str, query: &str) -> Markup {
    html! {
        form role="search" action=(action) method="get" {
            label.unseen for="search" { (label) }
            input #search type="search" name="id" value=(query) placeholder=(label)
                autocomplete="off" spellcheck="false" required;
            button type="submit" { "Find" }
        }
    }
}

fn namespace_nav(routes: &Routes, current_path: &str) -> Markup {
    // The page itself, or a page of that namespace.
    let current = |is: bool| is.then_some(if current_path == "/" { "page" } else { "true" });
    html! {
        nav.namespaces aria-label="Namespaces" {
            a href="/" aria-current=[current(routes.namespace.is_none())] { "All" }
            @for NamespaceRoute { name, root, .. } in &*routes.all {
                a href={ (root) "/" } aria-current=[current(routes.namespace.as_ref() == Some(name))] { (name) }
            }
        }
    }
}

/// Renders one line about nothing to show, which is no error.
pub(super) fn empty_notice(text: &str) -> Markup {
    html! { p.problem.none #problem role="alert" { (text) } }
}

/// Renders one line about an error.
pub(super) fn problem_notice(text: &str) -> Markup {
    html! { p.problem #problem role="alert" { (text) } }
}

pub(super) fn item_link(routes: &Routes, id: &str) -> Markup {
    html! {
        @match PostId::parse(id) {
            Ok(id) => a href=(routes.item_address(id.as_str())) { (id.as_str()) },
            Err(_) => (one_line(id)),
        }
    }
}

fn logo() -> Markup {
    html! {
        svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-linecap="round"
            stroke-linejoin="round" aria-hidden="true" focusable="false" {
            path d="M20.5 12a8.5 8.5 0 1 1-2.6-6.1" {}
            path d="M20.8 2.6v4.6h-4.6" {}
            path d="M12 7.6V12l3 2" {}
        }
    }
}
