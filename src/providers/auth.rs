//! Calls with a credential; for Twitter and X also the exchange of an application's keys for its token.
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

/// Builds a request without a credential; called once per attempt.
type Build<'a> = &'a (dyn Fn() -> Result<Request, LookupError> + Sync);

/// Calls a provider that accepts only bearer tokens. An anonymous credential sends none.
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

/// Names the credential in a fatal error: several may be configured.
fn asked_as(error: LookupError, credential: &Credential) -> LookupError {
    match error {
        LookupError::Stop(why) => LookupError::Stop(format!("{why}, asked as {:?}", credential.name)),
        other => other,
    }
}

/// Replaces the error of a refused anonymous call: the server refuses anonymous requests, and no token is at fault. `remedy`
/// states what the operator can do.
pub fn explain_anonymous_refusal(
    error: LookupError,
    reply: &Reply,
    kind: &CredentialKind,
    remedy: &str,
) -> LookupError {
    let said = || format!("the server refuses anonymous requests (HTTP {}, {}): {remedy}", reply.status, reply.what());
    match (kind, error) {
        (CredentialKind::Anonymous, LookupError::Credential(_)) => LookupError::Credential(said()),
        (CredentialKind::Anonymous, LookupError::Unready(_)) => LookupError::Unready(said()),
        (_, error) => error,
    }
}

/// Puts credentials on calls. Clones share the clock offset.
#[derive(Debug, Clone)]
pub struct Auth {
    http: HttpClient,
    token_endpoint: Url,
    /// Returns true if the answer rejects the sent token.
    means_bad_token: fn(&Reply) -> bool,
    /// Provider's clock minus ours, in ms, from the last refusal that stated it. Signatures use the provider's time.
    clock_offset: Arc<AtomicI64>,
}

impl Auth {
    /// Fails if `base`, the common address of the API's endpoints, cannot be extended.
    pub fn new(http: HttpClient, base: &Url, means_bad_token: fn(&Reply) -> bool) -> Result<Self, String> {
        let token_endpoint = below(base, TOKEN_PATH)?;
        Ok(Self { http, token_endpoint, means_bad_token, clock_offset: Arc::default() })
    }

    /// Stores the clock offset that a refusal stated.
    pub fn heed(&self, error: &LookupError) {
        if let LookupError::Clock(offset) = error {
            self.clock_offset.store(*offset, Ordering::Relaxed);
        }
    }

    /// Stores the clock offset, and names the credential in a fatal error.
    pub fn refused(&self, error: LookupError, credential: &Credential) -> LookupError {
        self.heed(&error);
        asked_as(error, credential)
    }

    pub async fn get(&self, address: &Url, credential: &Credential) -> Result<Reply, LookupError> {
        self.call(&|| self.http.client().get(address.clone()).build().map_err(cannot_build), credential).await
    }

    pub async fn call(&self, build: Build<'_>, credential: &Credential) -> Result<Reply, LookupError> {
        match &credential.kind {
            // The lease of the ids allows for one call's timeout, so the exchange must fit into it, too.
            CredentialKind::App(app) => HttpClient::within(self.http.timeout(), self.call_as_app(build, app)).await,
            kind => self.http.send(self.signed(build, kind)?).await,
        }
    }

    /// Makes a call with an endless answer: [`HttpClient::open`].
    ///
    /// # Errors
    /// [`LookupError::Outage`] if no answer came; the others concern the credential, or its token.
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

    /// Builds a request and adds the credential. Application keys add nothing here: they need a token.
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

    /// Exchanges a rejected token for a new one and repeats the call once. A rejected call uses no quota, and parking the
    /// credential for an expired token would waste the window.
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

    /// Fetches a token in place of a rejected one; `None` if the API returns the same token.
    async fn next_token(&self, app: &AppToken, refused: &SecretString) -> Result<Option<SecretString>, LookupError> {
        app.refused(refused).await;
        let next = self.token(app).await?;
        if next.expose_secret() == refused.expose_secret() {
            return Ok(None);
        }
        tracing::info!("the API no longer took the application's token and gave another");
        Ok(Some(next))
    }

    /// Returns the application's token. The exchange may take half of a call's timeout, so a silent token endpoint gets its own
    /// error. The call itself needs the other half.
    async fn token(&self, app: &AppToken) -> Result<SecretString, LookupError> {
        let exchange = app.get(async || self.exchange(app).await);
        HttpClient::within(self.http.timeout() / 2, exchange).await.map_err(not_given)
    }

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

/// Error of a call whose token cannot be fetched. The exchange carried no ids, so no id is at fault, and a stated window is the
/// exchange's own.
fn not_given(error: LookupError) -> LookupError {
    match error {
        LookupError::Outage(why) | LookupError::BadAnswer(why) => {
            LookupError::Unready(format!("its token cannot be fetched: {why}"))
        }
        // Another credential may already have a token, so only this one is parked.
        LookupError::Overloaded { pause, .. } => LookupError::Throttled { status: 503, pause, quota: None },
        LookupError::Throttled { status, pause, .. } => LookupError::Throttled { status, pause, quota: None },
        refused @ (LookupError::Credential(_) | LookupError::Unready(_)) => refused,
        other => LookupError::Credential(format!("it is given no token: {other}")),
    }
}

#[derive(Deserialize)]
struct Issued {
    token_type: String,
    access_token: SecretString,
}
