//! Forms of the page: small, and read in a short time.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Form, FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use secrecy::SecretString;
use serde::Deserialize;

use super::pages::Page;

/// Maximum size of a form, in bytes: an id, a reason and a token.
pub(super) const FORM_BYTES: usize = 16 << 10;
/// Time limit for a form: a browser sends it with the head of the request.
const FORM_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Deserialize)]
pub(super) struct ActionForm {
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub id: String,
    /// Words in the reasons of the dead posts to act on; or a decision about an account.
    #[serde(default)]
    pub words: String,
    /// Confirms an action on all of them.
    #[serde(default)]
    pub sure: String,
    pub token: SecretString,
}

/// A received form, or its rejection.
pub(super) struct ReceivedForm(pub Result<ActionForm, (StatusCode, String)>);

impl FromRequest<Arc<Page>> for ReceivedForm {
    type Rejection = std::convert::Infallible;

    async fn from_request(request: Request, page: &Arc<Page>) -> Result<Self, Self::Rejection> {
        Ok(Self(read_form(request, page).await.map_err(|(status, why)| (status, why.to_owned()))))
    }
}

async fn read_form(request: Request, page: &Arc<Page>) -> Result<ActionForm, (StatusCode, &'static str)> {
    if page.shared.token.is_none() {
        let why = "The page is read-only: to act here, give it a token (ops.token_file).";
        return Err((StatusCode::FORBIDDEN, why));
    }
    let declared = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|bytes| bytes > FORM_BYTES) {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "Nothing was changed: the form is too large."));
    }
    match tokio::time::timeout(FORM_TIMEOUT, Form::from_request(request, page)).await {
        Ok(Ok(Form(form))) => Ok(form),
        Ok(Err(_)) => {
            let why = "Nothing was changed: send a form with the fields id and token, or reason and token.";
            Err((StatusCode::BAD_REQUEST, why))
        }
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "Nothing was changed: the form did not arrive within 5 s.")),
    }
}
