//! A call with a credential on it; for Twitter and X, the exchange of an application's keys for its token.
//!
//! Source of the exchange: docs.x.com/resources/fundamentals/authentication/oauth-2-0/application-only.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use reqwest::{Request, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::http::{HttpClient, Opened, Reply, authorize, bearer, below, cannot_build, sign};
use super::twitter_v1::errors;
use crate::base::clock;
use crate::providers::lookup::LookupError;
use crate::quota::{AppToken, Credential, CredentialKind};

const TOKEN_PATH: &str = "oauth2/token";

/// Builds a request without a credential; called for each try.
type Build<'a> = &'a (dyn Fn() -> Result<Request, LookupError> + Sync);

/// Asks a provider that takes tokens alone: with the credential's token, or with nothing where it has none.
pub async fn get(http: &HttpClient, address: Url, credential: &Credential) -> Result<Reply, LookupError> {
    let mut request = http.client().get(address).build().map_err(cannot_build)?;
    match &credential.kind {
        CredentialKind::Anonymous => {}
        CredentialKind::Bearer(token) => bearer(&mut request, token)?,
        CredentialKind::User(_) | CredentialKind::App(_) => {
            return Err(LookupError::Credential("it has keys, and this API takes a token".to_owned()));
        }
    }
    http.send(request).await
}

/// As whom the API was asked has to be told where it can never work: there may be many.
fn asked_as(error: LookupError, credential: &Credential) -> LookupError {
    match error {
        LookupError::Stop(why) => LookupError::Stop(format!("{why}, asked as {:?}", credential.name)),
        other => other,
    }
}

/// A refusal of a call without a token says nothing of a token: the server refuses anonymous requests. `remedy` is what to
/// do about that.
pub fn asked_as_nobody(error: LookupError, reply: &Reply, kind: &CredentialKind, remedy: &str) -> LookupError {
    let said = || format!("the server refuses anonymous requests (HTTP {}, {}): {remedy}", reply.status, reply.what());
    match (kind, error) {
        (CredentialKind::Anonymous, LookupError::Credential(_)) => LookupError::Credential(said()),
        (CredentialKind::Anonymous, LookupError::Unready(_)) => LookupError::Unready(said()),
        (_, error) => error,
    }
}

/// Puts credentials on calls. Clones share what was learned of the clock.
#[derive(Debug, Clone)]
pub struct Auth {
    http: HttpClient,
    token_endpoint: Url,
    /// Returns true if the answer says that the sent token is no longer valid.
    means_bad_token: fn(&Reply) -> bool,
    /// Their clock minus ours, in ms, as an answer last told; signatures are dated by theirs.
    clock_offset: Arc<AtomicI64>,
}

impl Auth {
    /// Of the API whose endpoints are below `base`; an error where that cannot be extended.
    pub fn new(http: HttpClient, base: &Url, means_bad_token: fn(&Reply) -> bool) -> Result<Self, String> {
        let token_endpoint = below(base, TOKEN_PATH)?;
        Ok(Self { http, token_endpoint, means_bad_token, clock_offset: Arc::default() })
    }

    /// A clock that is off is corrected by what a refusal said of it.
    pub fn heed(&self, error: &LookupError) {
        if let LookupError::Clock(offset) = error {
            self.clock_offset.store(*offset, Ordering::Relaxed);
        }
    }

    /// The meaning of a refusal for the caller. Corrects a clock that is off.
    pub fn refused(&self, error: LookupError, credential: &Credential) -> LookupError {
        self.heed(&error);
        asked_as(error, credential)
    }

    /// One question in the credential's name.
    pub async fn get(&self, address: &Url, credential: &Credential) -> Result<Reply, LookupError> {
        self.call(&|| self.http.client().get(address.clone()).build().map_err(cannot_build), credential).await
    }

    /// One call in the credential's name.
    pub async fn call(&self, build: Build<'_>, credential: &Credential) -> Result<Reply, LookupError> {
        match &credential.kind {
            // The ids' lease is measured by one call's timeout, so the exchange has to fit in, too.
            CredentialKind::App(app) => HttpClient::within(self.http.timeout(), self.call_as_app(build, app)).await,
            kind => self.http.send(self.signed(build, kind)?).await,
        }
    }

    /// One call in the credential's name whose answer goes on: [`HttpClient::open`].
    ///
    /// # Errors
    /// [`LookupError::Outage`] where no answer came; the others are about the credential, or its token.
    pub async fn open(&self, build: Build<'_>, credential: &Credential) -> Result<Opened, LookupError> {
        let app = match &credential.kind {
            CredentialKind::App(app) => app,
            kind => return self.http.open(self.signed(build, kind)?).await,
        };
        let token = self.token(app).await?;
        let opened = self.http.open(with_bearer(build, &token)?).await?;
        match &opened {
            Opened::Refused(reply) if (self.means_bad_token)(reply) => match self.next_token(app, &token).await? {
                Some(next) => self.http.open(with_bearer(build, &next)?).await,
                None => Ok(opened),
            },
            _ => Ok(opened),
        }
    }

    /// A request with what the credential itself says, which an application's keys do not.
    fn signed(&self, build: Build<'_>, kind: &CredentialKind) -> Result<Request, LookupError> {
        let mut request = build()?;
        match kind {
            CredentialKind::Anonymous | CredentialKind::App(_) => {}
            CredentialKind::Bearer(token) => bearer(&mut request, token)?,
            CredentialKind::User(keys) => {
                let now = clock::wall_ms().saturating_add(self.clock_offset.load(Ordering::Relaxed));
                sign(&mut request, keys, now)?;
            }
        }
        Ok(request)
    }

    /// A refused token is exchanged for a new one and the call repeated, once: who is refused spends
    /// nothing of the window, and parking the credential for a token that merely ended would cost it.
    async fn call_as_app(&self, build: Build<'_>, app: &AppToken) -> Result<Reply, LookupError> {
        let token = self.token(app).await?;
        let reply = self.http.send(with_bearer(build, &token)?).await?;
        if !(self.means_bad_token)(&reply) {
            return Ok(reply);
        }
        match self.next_token(app, &token).await? {
            Some(next) => self.http.send(with_bearer(build, &next)?).await,
            None => Ok(reply),
        }
    }

    /// Another token in place of one that was refused; `None` where the same is given again.
    async fn next_token(&self, app: &AppToken, refused: &SecretString) -> Result<Option<SecretString>, LookupError> {
        app.refused(refused).await;
        let next = self.token(app).await?;
        if next.expose_secret() == refused.expose_secret() {
            return Ok(None);
        }
        tracing::info!("the API no longer took the application's token and gave another");
        Ok(Some(next))
    }

    /// The application's token. It may take half of a call's time, so that a token endpoint without an
    /// answer is known as that; the call itself needs the other half.
    async fn token(&self, app: &AppToken) -> Result<SecretString, LookupError> {
        let exchange = app.get(async || self.exchange(app).await);
        HttpClient::within(self.http.timeout() / 2, exchange).await.map_err(not_given)
    }

    /// Exchanges an application's keys for its token.
    async fn exchange(&self, app: &AppToken) -> Result<SecretString, LookupError> {
        let form = [("grant_type", "client_credentials")];
        let request = self.http.client().post(self.token_endpoint.clone()).form(&form).build();
        let mut request = request.map_err(cannot_build)?;
        authorize(&mut request, &app.basic())?;
        let reply = self.http.send(request).await?;
        if reply.status != 200 {
            return Err(errors::decide(&reply, TOKEN_PATH));
        }
        let issued: Option<Issued> = serde_json::from_slice(&reply.body).ok();
        let good = issued.filter(|issued| issued.token_type.eq_ignore_ascii_case("bearer"));
        let token = good.map(|issued| issued.access_token).filter(|token| !token.expose_secret().is_empty());
        token.ok_or_else(|| LookupError::BadAnswer(format!("it holds no bearer token: {}", reply.what())))
    }
}

fn with_bearer(build: Build<'_>, token: &SecretString) -> Result<Request, LookupError> {
    let mut request = build()?;
    bearer(&mut request, token)?;
    Ok(request)
}

/// What it means for a call that there is no token for it. No id was asked for, so none can be why; and
/// the window that an answer tells is the exchange's own.
fn not_given(error: LookupError) -> LookupError {
    match error {
        LookupError::Outage(why) | LookupError::BadAnswer(why) => {
            LookupError::Unready(format!("its token cannot be fetched: {why}"))
        }
        // Another credential may have a token already, so this one alone is parked.
        LookupError::Overloaded { pause, .. } => LookupError::Throttled { status: 503, pause, quota: None },
        LookupError::Throttled { status, pause, .. } => LookupError::Throttled { status, pause, quota: None },
        refused @ (LookupError::Credential(_) | LookupError::Unready(_)) => refused,
        other => LookupError::Credential(format!("it is given no token: {other}")),
    }
}

/// The answer to an exchange.
#[derive(Deserialize)]
struct Issued {
    token_type: String,
    access_token: SecretString,
}
