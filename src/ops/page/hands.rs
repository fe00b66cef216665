//! What a person does on the page. It asks for the token once a browser and session; each act is logged.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::FormRejection;
use axum::extract::{ConnectInfo, Form, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use subtle::ConstantTimeEq;

use super::ids::PostId;
use super::layout::{Document, problem};
use super::pages::Page;
use crate::base::clock;
use crate::base::humanize::{cut, one_line};
use crate::base::retry::RetryPolicy;
use crate::ingest::{Rebuild, Refresh};
use crate::ops::dead::Dead;

/// The longest reason.
const REASON: usize = 200;
/// How long a page of the queue is ours that puts back what was lost.
const LEASE: Duration = Duration::from_secs(60);

/// Why nothing was done.
pub(super) type Refused = (StatusCode, String);

/// From where a form comes.
pub(super) struct From<'a> {
    pub address: IpAddr,
    pub headers: &'a HeaderMap,
}

impl Page {
    /// Whether who sends this may act: the token came with it, or came from this browser before. Answers the cookie of a new
    /// session.
    pub(super) fn may(&self, from: &From<'_>, sent: &SecretString) -> Result<Option<HeaderValue>, Refused> {
        let refuse = |status, why: &str| Err((status, why.to_owned()));
        let Some(token) = &self.in_common.token else {
            let why = "The page is read-only: to act here, give it a token (ops.token_file).";
            return refuse(StatusCode::FORBIDDEN, why);
        };
        if sent.expose_secret().is_empty() {
            return match self.in_common.sessions.knows(from.headers) {
                true => Ok(None),
                false => refuse(StatusCode::FORBIDDEN, "Nothing was done: give the token."),
            };
        }
        if let Some(wait) = self.in_common.guesses.wait(from.address) {
            let why = format!("Nothing was done: too many wrong tokens came from here. Wait {} s.", wait.as_secs() + 1);
            return refuse(StatusCode::TOO_MANY_REQUESTS, &why);
        }
        // In a time that does not tell how much of it was right.
        if !bool::from(sent.expose_secret().as_bytes().ct_eq(token.expose_secret().as_bytes())) {
            self.in_common.guesses.wrong(from.address);
            tracing::warn!(from = %from.address, "a wrong token was sent to the page");
            return refuse(StatusCode::FORBIDDEN, "Nothing was done: that is not the token.");
        }
        Ok(self.in_common.sessions.begin())
    }

    /// What can be done to the whole pipeline; nothing where nobody may.
    pub(super) fn hands(&self) -> Markup {
        if self.in_common.token.is_none() {
            return html! {};
        }
        html! {
            details.panel #hands {
                summary { "Pause, or go on" }
                p.note { "While it is paused nothing is asked of the network; what comes in is taken all the same." }
                form.act method="post" action=(self.routes.to("/pause")) {
                    input name="reason" required maxlength=(REASON) placeholder="Why: others will ask" aria-label="Reason";
                    (token_field())
                    button.danger type="submit" { "Pause" }
                }
                form.act method="post" action=(self.routes.to("/resume")) {
                    (token_field())
                    button type="submit" { "Go on" }
                }
            }
        }
    }

    /// Makes a post due now; nothing where nobody may.
    pub(super) fn refresh_form(&self, id: &PostId) -> Markup {
        if self.in_common.token.is_none() {
            return html! {};
        }
        html! {
            form.act #refresh method="post" action=(self.routes.to("/refresh")) {
                input type="hidden" name="id" value=(id.as_str());
                (token_field())
                button type="submit" { "Look it up now" }
            }
        }
    }

    /// A page that says why nothing was done.
    fn refused(&self, (status, why): Refused) -> Response {
        let (routes, title, now) = (&self.routes, "Nothing was done".to_owned(), clock::wall_ms());
        let content = html! { h1 { (title) } (problem(&why)) p { a href=(routes.to("/")) { "To the overview" } } };
        Document { routes, title, here: "", at: now, now, events: None, asked: String::new(), content }.answer(status)
    }

    async fn set_pause(&self, reason: Option<&str>) -> Result<(), Refused> {
        self.whole.queue.pause(reason).await.map_err(|error| {
            let why = format!("It is not known whether it was done, do it again: {}", one_line(&error.to_string()));
            (StatusCode::SERVICE_UNAVAILABLE, why)
        })?;
        let namespace = self.whole.queue.namespace();
        tracing::info!(
            namespace,
            reason,
            "somebody {} it on the page",
            if reason.is_some() { "paused" } else { "resumed" }
        );
        Ok(())
    }

    async fn refresh(&self, id: &str) -> Result<PostId, Refused> {
        let id = PostId::parse(id).map_err(|why| (StatusCode::BAD_REQUEST, format!("Nothing was done: {why}.")))?;
        let key = [id.to_string()];
        let mut refused = None;
        let ask = async |dead: &Dead| {
            let Dead { queue, store, lanes } = dead.clone();
            let rebuild = Rebuild { queue, store, lanes, lease: LEASE, rate: 1, retry: RetryPolicy::default() };
            Refresh { rebuild }.ids(&key, |_, why| refused = Some(why.to_owned())).await
        };
        self.archive.ask(ask).await.map_err(|why| {
            let why = format!("It is not known whether it was done, do it again: {}", one_line(&why));
            (StatusCode::SERVICE_UNAVAILABLE, why)
        })?;
        match refused {
            Some(why) => Err((StatusCode::CONFLICT, format!("Tweet {id}: {}.", one_line(&why)))),
            None => {
                tracing::info!(%id, "somebody made a post due on the page");
                Ok(id)
            }
        }
    }
}

/// Asks for the token; empty where it came from this browser before.
pub(super) fn token_field() -> Markup {
    html! {
        input type="password" name="token" placeholder="Token, once" aria-label="Token: once in this browser"
            autocomplete="current-password";
    }
}

/// The same answer with the cookie of a new session.
pub(super) fn with_session(answer: impl IntoResponse, cookie: Option<HeaderValue>) -> Response {
    let mut answer = answer.into_response();
    if let Some(cookie) = cookie {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}

/// What a form of these says.
#[derive(Debug, Deserialize)]
pub(super) struct Ask {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    id: String,
    token: SecretString,
}

/// What a form asks for.
#[derive(Debug, Clone, Copy)]
enum Act {
    Pause,
    Resume,
    Refresh,
}

type Sent = Result<Form<Ask>, FormRejection>;

/// `POST /pause`
pub(super) async fn pause(
    page: State<Arc<Page>>,
    from: ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    form: Sent,
) -> Response {
    act(page, from, headers, form, Act::Pause).await
}

/// `POST /resume`
pub(super) async fn resume(
    page: State<Arc<Page>>,
    from: ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    form: Sent,
) -> Response {
    act(page, from, headers, form, Act::Resume).await
}

/// `POST /refresh`
pub(super) async fn refresh(
    page: State<Arc<Page>>,
    from: ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    form: Sent,
) -> Response {
    act(page, from, headers, form, Act::Refresh).await
}

async fn act(
    State(page): State<Arc<Page>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    form: Sent,
    act: Act,
) -> Response {
    let Ok(Form(Ask { reason, id, token })) = form else {
        return page.refused((StatusCode::BAD_REQUEST, "Nothing was done: send a form with its fields.".to_owned()));
    };
    let cookie = match page.may(&From { address: from.ip(), headers: &headers }, &token) {
        Ok(cookie) => cookie,
        Err(refused) => return page.refused(refused),
    };
    let reason = cut(&one_line(&reason), REASON);
    let done = match act {
        Act::Pause if reason.is_empty() => {
            Err((StatusCode::BAD_REQUEST, "Nothing was done: say why, others will ask.".to_owned()))
        }
        Act::Pause => page.set_pause(Some(&reason)).await.map(|()| page.routes.to("/")),
        Act::Resume => page.set_pause(None).await.map(|()| page.routes.to("/")),
        Act::Refresh => page.refresh(&id).await.map(|id| page.routes.to_tweet(id.as_str())),
    };
    match done {
        Ok(to) => with_session(Redirect::to(&to), cookie),
        Err(refused) => with_session(page.refused(refused), cookie),
    }
}
