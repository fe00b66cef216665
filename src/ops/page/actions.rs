//! Actions on the page. They require the token once per browser session, and each is logged.

use std::fmt::Display;
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

use super::form::{ActionForm, ReceivedForm};
use super::format::capitalize;
use super::ids::PostId;
use super::layout::{Document, problem_notice};
use super::pages::Page;
use super::site::Site;
use crate::data::dead::{self, DeadItems};
use crate::ops::NoAnswer;
use collect::ingest::{FORGOTTEN, Rebuild, Refresh, Starter, StarterError};
use collect::pipelines::community::manual_decisions::ManualDecisions;
use collect::pipelines::kind::ItemContent;
use engine::base::clock;
use engine::base::humanize::{one_line, truncate_chars};
use engine::base::retry::RetryPolicy;
use engine::base::token::{AccessToken, Denied, RETRY_AFTER_S};
use networks::model::community::Belonging;
use store::Way;

const MAX_REASON_CHARS: usize = 200;
/// Lease of items that a refresh adds to the queue again.
const REFRESH_LEASE: Duration = Duration::from_secs(60);

pub(super) type Refusal = (StatusCode, String);

pub(super) struct FormSender {
    pub address: IpAddr,
    pub headers: HeaderMap,
}

/// An action on the whole pipeline, or on a post from its page.
#[derive(Debug, Clone, Copy)]
pub(super) enum PageAction {
    Pause,
    Resume,
    Refresh,
    Belong,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum PostAction {
    Refresh,
    Dead(dead::DeadAction),
}

pub(super) fn action_route(act: PageAction) -> MethodRouter<Arc<Page>> {
    routing::post(
        async move |State(page): State<Arc<Page>>,
                    from: ConnectInfo<SocketAddr>,
                    headers: HeaderMap,
                    form: ReceivedForm| {
            let (form, cookie) = match page.check_form(&FormSender { address: from.ip(), headers }, form) {
                Ok(allowed) => allowed,
                Err(refused) => return page.refusal_page(refused),
            };
            match page.act(act, &form).await {
                Ok(to) => with_cookie(Redirect::to(&to), cookie),
                Err(refused) => with_cookie(page.refusal_page(refused), cookie),
            }
        },
    )
}

impl Page {
    /// Returns the form if it has the token, or if its browser sent the token before. Also returns the cookie of a new session.
    pub(super) fn check_form(
        &self,
        sender: &FormSender,
        form: ReceivedForm,
    ) -> Result<(ActionForm, Option<HeaderValue>), Refusal> {
        let Some(token) = &self.shared.token else {
            let why = "The page is read-only: to act here, give it a token (ops.token_file).";
            return Err((StatusCode::FORBIDDEN, why.to_owned()));
        };
        let form = form.0?;
        let cookie = self.check_token(sender, token, &form.token)?;
        Ok((form, cookie))
    }

    fn check_token(
        &self,
        from: &FormSender,
        token: &AccessToken,
        sent: &SecretString,
    ) -> Result<Option<HeaderValue>, Refusal> {
        let refuse = |status, why: &str| Err((status, why.to_owned()));
        if sent.expose_secret().is_empty() {
            return match self.shared.sessions.has_session(&from.headers, token.generation()) {
                true => Ok(None),
                false => refuse(StatusCode::FORBIDDEN, "Nothing was changed: enter the token."),
            };
        }
        match token.check(sent.expose_secret().as_bytes()) {
            Ok(generation) => Ok(self.shared.sessions.begin(generation)),
            Err(Denied::Wrong) => {
                tracing::warn!(from = %from.address, "a wrong token was sent to the page");
                refuse(StatusCode::FORBIDDEN, "Nothing was changed: wrong token.")
            }
            // Not logged: at this rate it would fill the log.
            Err(Denied::TooManyGuesses) => {
                let why =
                    "Nothing was changed: wrong token. There were too many wrong tokens: wait before the next attempt.";
                refuse(StatusCode::TOO_MANY_REQUESTS, why)
            }
        }
    }

    /// Renders the form that pauses or resumes the pipeline; empty without a token.
    pub(super) fn pause_form(&self) -> Markup {
        if self.shared.token.is_none() {
            return html! {};
        }
        html! {
            details.panel #hands {
                summary { "Pause or resume" }
                p.note { "While paused, calls to the network stop; new " (self.words().many) " are still accepted." }
                form.act method="post" action=(self.routes.address("/pause")) {
                    input name="reason" required maxlength=(MAX_REASON_CHARS) placeholder="The reason" aria-label="Reason";
                    (token_field())
                    button.danger type="submit" { "Pause" }
                }
                form.act method="post" action=(self.routes.address("/resume")) {
                    (token_field())
                    button type="submit" { "Resume" }
                }
            }
        }
    }

    /// Renders the form that makes a post or an account due now; empty without a token.
    pub(super) fn refresh_form(&self, id: &str) -> Markup {
        if self.shared.token.is_none() {
            return html! {};
        }
        html! {
            form.act #refresh method="post" action=(self.routes.address("/refresh")) {
                input type="hidden" name="id" value=(id);
                (token_field())
                button type="submit" { "Look it up now" }
            }
        }
    }

    pub(super) fn refusal_page(&self, (status, why): Refusal) -> Response {
        let (routes, title, now) = (&self.routes, "Nothing was changed".to_owned(), clock::wall_ms());
        let content =
            html! { h1 { (title) } (problem_notice(&why)) p { a href=(routes.address("/")) { "To the overview" } } };
        let page =
            Document { routes, title, current_path: "", at: now, now, events: None, query: String::new(), content };
        let mut answer = page.answer(status);
        if status == StatusCode::TOO_MANY_REQUESTS {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
        }
        answer
    }

    /// Acts and returns the address to show next.
    async fn act(&self, act: PageAction, form: &ActionForm) -> Result<String, Refusal> {
        let reason = truncate_chars(&one_line(&form.reason), MAX_REASON_CHARS);
        match act {
            PageAction::Pause if reason.is_empty() => {
                Err((StatusCode::BAD_REQUEST, "Nothing was changed: enter a reason.".to_owned()))
            }
            PageAction::Pause => self.set_pause(Some(&reason)).await.map(|()| self.routes.address("/")),
            PageAction::Resume => self.set_pause(None).await.map(|()| self.routes.address("/")),
            PageAction::Belong => self.decide(form, &reason).await,
            PageAction::Refresh => {
                let (id, _) = self.act_on_post(&form.id, PostAction::Refresh).await?;
                tracing::info!(%id, "post made due on the page");
                Ok(self.routes.item_address(id.as_str()))
            }
        }
    }

    async fn decide(&self, form: &ActionForm, reason: &str) -> Result<String, Refusal> {
        let wrong = |why: &dyn Display| (StatusCode::BAD_REQUEST, format!("Nothing was changed: {why}."));
        if self.content() != ItemContent::CommunityAccounts {
            return Err(wrong(&"this pipeline is no community"));
        }
        let id = PostId::parse(&form.id).map_err(|why| wrong(&why))?.to_string();
        let decisions = [Belonging::Member, Belonging::Outside, Belonging::Candidate];
        let state = decisions.into_iter().find(|state| state.as_str() == form.words);
        let state = state.ok_or_else(|| wrong(&"choose member, outside or candidate"))?;
        let database = self.database.load();
        let communities = database.as_ref().as_ref().map_err(unknown_result)?.communities.clone();
        let decide = async |dead: &DeadItems| {
            let DeadItems { queue, store, lanes } = dead.clone();
            let namespace = queue.namespace().to_owned();
            let only_ids = |_: &str| Err(networks::providers::unreadable::UnreadableObject::NotAccepted);
            let starter = Starter::new(queue, Some(store.clone()), lanes.schedule, lanes.id_date, only_ids);
            let by_hand =
                ManualDecisions { namespace, store, communities, starter: starter.with_way(Way::new("by_hand")) };
            by_hand.decide(std::slice::from_ref(&id), state, "the page", reason, clock::wall_ms()).await
        };
        if !self.archive.query(decide).await.map_err(|why| unknown_result(&why))?.is_empty() {
            return Err((StatusCode::CONFLICT, format!("Nothing was changed: {FORGOTTEN}.")));
        }
        tracing::info!(%id, %state, reason, "decided on the page");
        Ok(self.routes.item_address(&id))
    }

    async fn set_pause(&self, reason: Option<&str>) -> Result<(), Refusal> {
        self.whole.queue.pause(reason).await.map_err(|error| unknown_result(&error.into()))?;
        let namespace = self.whole.queue.namespace();
        let act = if reason.is_some() { "paused" } else { "resumed" };
        tracing::info!(namespace, reason, "{act} on the page");
        Ok(())
    }

    /// Acts on the post of that id. Returns the id, and false if there was nothing left to do.
    pub(super) async fn act_on_post(&self, id: &str, act: PostAction) -> Result<(PostId, bool), Refusal> {
        let id = PostId::parse(id).map_err(|why| (StatusCode::BAD_REQUEST, format!("Nothing was changed: {why}.")))?;
        let mut refused = None;
        let key = [id.to_string()];
        let ask = async |dead: &DeadItems| {
            let on_refused = |_: &str, why: &str| refused = Some(why.to_owned());
            Ok::<_, StarterError>(match act {
                PostAction::Refresh => {
                    let DeadItems { queue, store, lanes } = dead.clone();
                    let rebuild =
                        Rebuild { queue, store, lanes, lease: REFRESH_LEASE, rate: 1, retry: RetryPolicy::default() };
                    Refresh { rebuild }.ids(&key, on_refused).await?.posts() > 0
                }
                PostAction::Dead(act) => dead.act(act, &key, on_refused).await?.done > 0,
            })
        };
        let done = self.archive.query(ask).await.map_err(|why| unknown_result(&why))?;
        match refused {
            Some(why) => {
                Err((StatusCode::CONFLICT, format!("{} {id}: {}.", capitalize(self.words().one), one_line(&why))))
            }
            None => Ok((id, done)),
        }
    }
}

/// Refusal after an error of a service, which may have acted nevertheless.
pub(super) fn unknown_result(why: &NoAnswer) -> Refusal {
    let why = format!("The result is unknown; try again: {}", one_line(&why.to_string()));
    (StatusCode::SERVICE_UNAVAILABLE, why)
}

/// `POST /logout`
pub(super) async fn log_out(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    if site.sessions.end(&headers) {
        tracing::info!("a session on the page was ended by its browser");
    }
    with_cookie(Redirect::to("/"), site.sessions.expired_cookie())
}

/// Renders the field for the token. It may stay empty if this browser sent the token before.
pub(super) fn token_field() -> Markup {
    html! {
        input type="password" name="token" placeholder="Token, once" aria-label="Token: once in this browser"
            autocomplete="current-password";
    }
}

pub(super) fn with_cookie(answer: impl IntoResponse, cookie: Option<HeaderValue>) -> Response {
    let mut answer = answer.into_response();
    if let Some(cookie) = cookie {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}
