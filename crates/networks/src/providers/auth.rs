//! Calls with a credential; for Twitter and X also the exchange of an application's keys for its token.
//!
//! Source of the exchange: docs.x.com/resources/fundamentals/authentication/oauth-2-0/application-only.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use reqwest::{Request, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::http::{
    ClientError, HttpClient, Reply, StreamReply, endpoint_url, request_build_error, set_authorization, set_bearer,
    sign_request,
};
use super::twitter_v1::errors;
use crate::providers::lookup::LookupError;
use engine::base::clock;
use engine::quota::{AppToken, Credential, CredentialKind};

const TOKEN_PATH: &str = "oauth2/token";

/// Builds a request without a credential; called once per attempt.
type BuildRequest<'a> = &'a (dyn Fn() -> Result<Request, LookupError> + Sync);

/// Calls a provider that accepts only bearer tokens. An anonymous credential sends none.
pub async fn get(http: &HttpClient, address: Url, credential: &Credential) -> Result<Reply, LookupError> {
    let mut request = http.client().get(address).build().map_err(request_build_error)?;
    match &credential.kind {
        CredentialKind::Anonymous => {}
        CredentialKind::Bearer(token) => set_bearer(&mut request, token)?,
        CredentialKind::User(_) | CredentialKind::App(_) => {
            return Err(LookupError::Credential("it has keys, but this API accepts only a token".to_owned()));
        }
    }
    http.send(request).await
}

/// Names the credential in a fatal error: several may be configured.
fn add_credential_name(error: LookupError, credential: &Credential) -> LookupError {
    match error {
        LookupError::Stop(why) => LookupError::Stop(format!("{why}, with the credential {:?}", credential.name)),
        other => other,
    }
}

/// Replaces the error of a refused anonymous call: no token is at fault. `remedy` states what the operator can do.
pub fn explain_anonymous_refusal(
    error: LookupError,
    reply: &Reply,
    kind: &CredentialKind,
    remedy: &str,
) -> LookupError {
    let refusal_text =
        || format!("the server refuses anonymous requests (HTTP {}, {}): {remedy}", reply.status, reply.describe());
    match (kind, error) {
        (CredentialKind::Anonymous, LookupError::Credential(_)) => LookupError::Credential(refusal_text()),
        (CredentialKind::Anonymous, LookupError::Unready(_)) => LookupError::Unready(refusal_text()),
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
    pub fn new(http: HttpClient, base: &Url, means_bad_token: fn(&Reply) -> bool) -> Result<Self, ClientError> {
        let token_endpoint = endpoint_url(base, TOKEN_PATH)?;
        Ok(Self { http, token_endpoint, means_bad_token, clock_offset: Arc::default() })
    }

    pub fn store_clock_offset(&self, error: &LookupError) {
        if let LookupError::Clock(offset) = error {
            self.clock_offset.store(*offset, Ordering::Relaxed);
        }
    }

    /// Stores the clock offset, and names the credential in a fatal error.
    pub fn record_refusal(&self, error: LookupError, credential: &Credential) -> LookupError {
        self.store_clock_offset(&error);
        add_credential_name(error, credential)
    }

    pub async fn get(&self, address: &Url, credential: &Credential) -> Result<Reply, LookupError> {
        self.call(&|| self.http.client().get(address.clone()).build().map_err(request_build_error), credential).await
    }

    pub async fn call(&self, build: BuildRequest<'_>, credential: &Credential) -> Result<Reply, LookupError> {
        match &credential.kind {
            // The lease of the ids allows for one call's timeout, so the exchange must fit into it, too.
            CredentialKind::App(app) => {
                HttpClient::with_timeout(self.http.timeout(), self.call_with_app_token(build, app)).await
            }
            kind => self.http.send(self.build_with_credential(build, kind)?).await,
        }
    }

    /// Makes a call with an endless answer ([`HttpClient::open_stream`]). [`LookupError::Outage`] if no answer came.
    pub async fn open_stream(
        &self,
        build: BuildRequest<'_>,
        credential: &Credential,
    ) -> Result<StreamReply, LookupError> {
        let app = match &credential.kind {
            CredentialKind::App(app) => app,
            kind => return self.http.open_stream(self.build_with_credential(build, kind)?).await,
        };
        let token = self.app_token(app).await?;
        let opened = self.http.open_stream(build_with_bearer(build, &token)?).await?;
        match &opened {
            StreamReply::Refused(reply) if (self.means_bad_token)(reply) => {
                match self.replace_rejected_token(app, &token).await? {
                    Some(next) => self.http.open_stream(build_with_bearer(build, &next)?).await,
                    None => Ok(opened),
                }
            }
            _ => Ok(opened),
        }
    }

    /// Builds a request and adds the credential. Application keys add nothing here: they need a token.
    fn build_with_credential(&self, build: BuildRequest<'_>, kind: &CredentialKind) -> Result<Request, LookupError> {
        let mut request = build()?;
        match kind {
            CredentialKind::Anonymous | CredentialKind::App(_) => {}
            CredentialKind::Bearer(token) => set_bearer(&mut request, token)?,
            CredentialKind::User(keys) => {
                let now = clock::wall_ms().saturating_add(self.clock_offset.load(Ordering::Relaxed));
                sign_request(&mut request, keys, now)?;
            }
        }
        Ok(request)
    }

    /// Repeats the call once with a new token if the first is rejected: a rejected call uses no quota.
    async fn call_with_app_token(&self, build: BuildRequest<'_>, app: &AppToken) -> Result<Reply, LookupError> {
        let token = self.app_token(app).await?;
        let reply = self.http.send(build_with_bearer(build, &token)?).await?;
        if !(self.means_bad_token)(&reply) {
            return Ok(reply);
        }
        match self.replace_rejected_token(app, &token).await? {
            Some(next) => self.http.send(build_with_bearer(build, &next)?).await,
            None => Ok(reply),
        }
    }

    /// Fetches a token in place of a rejected one; `None` if the API returns the same token.
    async fn replace_rejected_token(
        &self,
        app: &AppToken,
        refused: &SecretString,
    ) -> Result<Option<SecretString>, LookupError> {
        app.record_refusal(refused).await;
        let next = self.app_token(app).await?;
        if next.expose_secret() == refused.expose_secret() {
            return Ok(None);
        }
        tracing::info!("the API rejected the application's token and issued another");
        Ok(Some(next))
    }

    /// Returns the application's token. The exchange may take half of a call's timeout; the call needs the other half.
    async fn app_token(&self, app: &AppToken) -> Result<SecretString, LookupError> {
        let exchange = app.get(async || self.fetch_token(app).await);
        HttpClient::with_timeout(self.http.timeout() / 2, exchange).await.map_err(token_error)
    }

    async fn fetch_token(&self, app: &AppToken) -> Result<SecretString, LookupError> {
        let form = [("grant_type", "client_credentials")];
        let request = self.http.client().post(self.token_endpoint.clone()).form(&form).build();
        let mut request = request.map_err(request_build_error)?;
        set_authorization(&mut request, &app.basic_header())?;
        let reply = self.http.send(request).await?;
        if reply.status != 200 {
            return Err(errors::decide(&reply, TOKEN_PATH));
        }
        let issued: Option<IssuedToken> = serde_json::from_slice(&reply.body).ok();
        let good = issued.filter(|issued| issued.token_type.eq_ignore_ascii_case("bearer"));
        let token = good.map(|issued| issued.access_token).filter(|token| !token.expose_secret().is_empty());
        token.ok_or_else(|| LookupError::BadAnswer(format!("it holds no bearer token: {}", reply.describe())))
    }
}

fn build_with_bearer(build: BuildRequest<'_>, token: &SecretString) -> Result<Request, LookupError> {
    let mut request = build()?;
    set_bearer(&mut request, token)?;
    Ok(request)
}

/// Error of a call whose token cannot be fetched. The ids are not at fault. A quota window in `error` is that of token requests, so it
/// is dropped.
fn token_error(error: LookupError) -> LookupError {
    match error {
        LookupError::Outage(why) | LookupError::BadAnswer(why) => {
            LookupError::Unready(format!("its token cannot be fetched: {why}"))
        }
        // Another credential may already have a token, so only this one is parked.
        LookupError::Overloaded { pause, .. } => LookupError::Throttled { status: 503, pause, quota: None },
        LookupError::Throttled { status, pause, .. } => LookupError::Throttled { status, pause, quota: None },
        refused @ (LookupError::Credential(_) | LookupError::Unready(_)) => refused,
        other => LookupError::Credential(format!("the API issues no token for it: {other}")),
    }
}

#[derive(Deserialize)]
struct IssuedToken {
    token_type: String,
    access_token: SecretString,
}
