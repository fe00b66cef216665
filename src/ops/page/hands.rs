//! Actions on the page. The page asks for the token once per browser session, and logs each action.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, State};
use axum::http::header::{RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{self, MethodRouter};
use maud::{Markup, html};
use secrecy::{ExposeSecret, SecretString};

use super::community::is_community;
use super::form::{Ask, Sent};
use super::ids::PostId;
use super::layout::{Document, problem};
use super::pages::Page;
use super::site::Site;
use super::words::capital;
use crate::base::clock;
use crate::base::humanize::{cut, one_line};
use crate::base::retry::RetryPolicy;
use crate::base::token::{AccessToken, Denied, GUESS_AGAIN_S};
use crate::ingest::{FORGOTTEN, Rebuild, Refresh, Starter, StarterError};
use crate::model::community::Belonging;
use crate::ops::dead::{self, Dead};
use crate::pipelines::community::by_hand::ByHand;
use crate::store::Way;

const REASON: usize = 200;
/// Lease of a page of the queue while a refresh puts lost items back.
const LEASE: Duration = Duration::from_secs(60);

pub(super) type Refused = (StatusCode, String);

pub(super) struct Sender {
    pub address: IpAddr,
    pub headers: HeaderMap,
}

/// An action on the whole pipeline, or on a post from its page.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    Pause,
    Resume,
    Refresh,
    Belong,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ToPost {
    Refresh,
    Dead(dead::Act),
}

pub(super) fn post(act: Act) -> MethodRouter<Arc<Page>> {
    routing::post(
        async move |State(page): State<Arc<Page>>, from: ConnectInfo<SocketAddr>, headers: HeaderMap, form: Sent| {
            let (ask, cookie) = match page.form(&Sender { address: from.ip(), headers }, form) {
                Ok(allowed) => allowed,
                Err(refused) => return page.refused(refused),
            };
            match page.act(act, &ask).await {
                Ok(to) => with_session(Redirect::to(&to), cookie),
                Err(refused) => with_session(page.refused(refused), cookie),
            }
        },
    )
}

impl Page {
    /// Returns the form if its sender may act: the token came with it, or came from this browser before. Also returns the cookie of a new
    /// session.
    pub(super) fn form(&self, sender: &Sender, form: Sent) -> Result<(Ask, Option<HeaderValue>), Refused> {
        let Some(token) = &self.in_common.token else {
            let why = "The page is read-only: to act here, give it a token (ops.token_file).";
            return Err((StatusCode::FORBIDDEN, why.to_owned()));
        };
        let ask = form.0?;
        let cookie = self.may(sender, token, &ask.token)?;
        Ok((ask, cookie))
    }

    fn may(&self, from: &Sender, token: &AccessToken, sent: &SecretString) -> Result<Option<HeaderValue>, Refused> {
        let refuse = |status, why: &str| Err((status, why.to_owned()));
        if sent.expose_secret().is_empty() {
            return match self.in_common.sessions.knows(&from.headers, token.generation()) {
                true => Ok(None),
                false => refuse(StatusCode::FORBIDDEN, "Nothing was changed: enter the token."),
            };
        }
        match token.check(sent.expose_secret().as_bytes()) {
            Ok(generation) => Ok(self.in_common.sessions.begin(generation)),
            Err(Denied::Wrong) => {
                tracing::warn!(from = %from.address, "a wrong token was sent to the page");
                refuse(StatusCode::FORBIDDEN, "Nothing was changed: wrong token.")
            }
            // Not logged: at this rate it would fill the log.
            Err(Denied::TooManyGuesses) => {
                let why = "Nothing was changed: wrong token. Too many wrong tokens come in: wait before the next one.";
                refuse(StatusCode::TOO_MANY_REQUESTS, why)
            }
        }
    }

    /// The actions on the whole pipeline; empty without a token.
    pub(super) fn hands(&self) -> Markup {
        if self.in_common.token.is_none() {
            return html! {};
        }
        html! {
            details.panel #hands {
                summary { "Pause or resume" }
                p.note { "While it is paused, calls to the network stop; new ones are still accepted." }
                form.act method="post" action=(self.routes.to("/pause")) {
                    input name="reason" required maxlength=(REASON) placeholder="The reason" aria-label="Reason";
                    (token_field())
                    button.danger type="submit" { "Pause" }
                }
                form.act method="post" action=(self.routes.to("/resume")) {
                    (token_field())
                    button type="submit" { "Resume" }
                }
            }
        }
    }

    /// The form that makes a post or an account due now; empty without a token.
    pub(super) fn refresh_form(&self, id: &str) -> Markup {
        if self.in_common.token.is_none() {
            return html! {};
        }
        html! {
            form.act #refresh method="post" action=(self.routes.to("/refresh")) {
                input type="hidden" name="id" value=(id);
                (token_field())
                button type="submit" { "Look it up now" }
            }
        }
    }

    pub(super) fn refused(&self, (status, why): Refused) -> Response {
        let (routes, title, now) = (&self.routes, "Nothing was changed".to_owned(), clock::wall_ms());
        let content = html! { h1 { (title) } (problem(&why)) p { a href=(routes.to("/")) { "To the overview" } } };
        let page = Document { routes, title, here: "", at: now, now, events: None, asked: String::new(), content };
        let mut answer = page.answer(status);
        if status == StatusCode::TOO_MANY_REQUESTS {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(GUESS_AGAIN_S));
        }
        answer
    }

    /// Acts and returns the address to show next.
    async fn act(&self, act: Act, ask: &Ask) -> Result<String, Refused> {
        let reason = cut(&one_line(&ask.reason), REASON);
        match act {
            Act::Pause if reason.is_empty() => {
                Err((StatusCode::BAD_REQUEST, "Nothing was changed: enter a reason.".to_owned()))
            }
            Act::Pause => self.set_pause(Some(&reason)).await.map(|()| self.routes.to("/")),
            Act::Resume => self.set_pause(None).await.map(|()| self.routes.to("/")),
            Act::Belong => self.decide(ask, &reason).await,
            Act::Refresh => {
                let (id, _) = self.to_post(&ask.id, ToPost::Refresh).await?;
                tracing::info!(%id, "post made due on the page");
                Ok(self.routes.to_item(id.as_str()))
            }
        }
    }

    async fn decide(&self, ask: &Ask, reason: &str) -> Result<String, Refused> {
        let wrong = |why: &str| (StatusCode::BAD_REQUEST, format!("Nothing was changed: {why}."));
        if !is_community(self.whole.queue.namespace()) {
            return Err(wrong("these are no accounts of a community"));
        }
        let id = PostId::parse(&ask.id).map_err(|why| wrong(&why))?.to_string();
        let decisions = [Belonging::Member, Belonging::Outside, Belonging::Candidate];
        let state = decisions.into_iter().find(|state| state.as_str() == ask.words);
        let state = state.ok_or_else(|| wrong("decide for member, outside or candidate"))?;
        let database = self.database.load();
        let communities = database.as_ref().as_ref().map_err(|why| not_known(why))?.communities.clone();
        let decide = async |dead: &Dead| {
            let Dead { queue, store, lanes } = dead.clone();
            let namespace = queue.namespace().to_owned();
            let only_ids = |_: &str| Err("only ids can be put in here".to_owned());
            let starter = Starter::new(queue, Some(store.clone()), lanes.schedule, lanes.id_date, only_ids);
            let by_hand = ByHand { namespace, store, communities, starter: starter.by(Way::of("by_hand")) };
            by_hand.decide(std::slice::from_ref(&id), state, "the page", reason, clock::wall_ms()).await
        };
        if !self.archive.ask(decide).await.map_err(|why| not_known(&why))?.is_empty() {
            return Err((StatusCode::CONFLICT, format!("Nothing was changed: {FORGOTTEN}.")));
        }
        tracing::info!(%id, %state, reason, "decided on the page");
        Ok(self.routes.to_item(&id))
    }

    async fn set_pause(&self, reason: Option<&str>) -> Result<(), Refused> {
        self.whole.queue.pause(reason).await.map_err(|error| not_known(&error.to_string()))?;
        let namespace = self.whole.queue.namespace();
        let act = if reason.is_some() { "paused" } else { "resumed" };
        tracing::info!(namespace, reason, "{act} on the page");
        Ok(())
    }

    /// Acts on the post of that id. Returns the id, and false if there was nothing left to do.
    pub(super) async fn to_post(&self, id: &str, act: ToPost) -> Result<(PostId, bool), Refused> {
        let id = PostId::parse(id).map_err(|why| (StatusCode::BAD_REQUEST, format!("Nothing was changed: {why}.")))?;
        let mut refused = None;
        let key = [id.to_string()];
        let ask = async |dead: &Dead| {
            let on_refused = |_: &str, why: &str| refused = Some(why.to_owned());
            Ok::<_, StarterError>(match act {
                ToPost::Refresh => {
                    let Dead { queue, store, lanes } = dead.clone();
                    let rebuild = Rebuild { queue, store, lanes, lease: LEASE, rate: 1, retry: RetryPolicy::default() };
                    Refresh { rebuild }.ids(&key, on_refused).await?.posts() > 0
                }
                ToPost::Dead(act) => dead.act(act, &key, on_refused).await?.done > 0,
            })
        };
        let done = self.archive.ask(ask).await.map_err(|why| not_known(&why))?;
        match refused {
            Some(why) => {
                Err((StatusCode::CONFLICT, format!("{} {id}: {}.", capital(self.words().one), one_line(&why))))
            }
            None => Ok((id, done)),
        }
    }
}

/// The refusal after an error of a service, which may have acted nevertheless.
pub(super) fn not_known(why: &str) -> Refused {
    let why = format!("The result is unknown; try again: {}", one_line(why));
    (StatusCode::SERVICE_UNAVAILABLE, why)
}

/// `POST /logout`
pub(super) async fn log_out(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    if site.sessions.end(&headers) {
        tracing::info!("a session on the page was ended by its browser");
    }
    with_session(Redirect::to("/"), site.sessions.no_cookie())
}

/// The field for the token. It may stay empty if the token came from this browser before.
pub(super) fn token_field() -> Markup {
    html! {
        input type="password" name="token" placeholder="Token, once" aria-label="Token: once in this browser"
            autocomplete="current-password";
    }
}

pub(super) fn with_session(answer: impl IntoResponse, cookie: Option<HeaderValue>) -> Response {
    let mut answer = answer.into_response();
    if let Some(cookie) = cookie {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}
