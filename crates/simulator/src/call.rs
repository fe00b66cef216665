use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;

use super::dialect::Dialect;

/// The largest form: a hundred ids are 2 KB.
const FORM_BYTES: usize = 1 << 20;

pub struct Call {
    pub method: String,
    /// Without the query, as RFC 5849 (3.4.1.2) signs it.
    pub address: String,
    /// The `Authorization` header, or the `access_token` of a Mastodon client.
    pub authorization: Option<String>,
    /// The query's parameters, then the form's; decoded.
    pub parameters: Vec<(String, String)>,
}

impl<S: Sync> FromRequest<S> for Call {
    type Rejection = Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let text = |name| text(&parts.headers, name);
        let host = text(HOST.as_str()).unwrap_or_default().to_lowercase();
        // A default port is not signed.
        let host = host.strip_suffix(":80").unwrap_or(&host);
        let mut parameters = pairs(parts.uri.query().unwrap_or_default());
        if text(CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
            let Ok(form) = to_bytes(body, FORM_BYTES).await else {
                return Err(StatusCode::PAYLOAD_TOO_LARGE.into_response());
            };
            parameters.extend(pairs(&String::from_utf8_lossy(&form)));
        }
        let mut call = Self {
            method: parts.method.to_string(),
            address: format!("http://{host}{}", parts.uri.path()),
            authorization: text(AUTHORIZATION.as_str()).map(str::to_owned),
            parameters,
        };
        if call.authorization.is_none() && call.dialect() == Dialect::Mastodon {
            call.authorization = call.parameter("access_token").map(|token| format!("Bearer {token}"));
        }
        Ok(call)
    }
}

impl Call {
    pub fn dialect(&self) -> Dialect {
        Dialect::of_path(self.address.splitn(4, '/').nth(3).unwrap_or_default())
    }

    /// A boolean parameter. Clients in Python write `True`.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.parameter(name).map(|value| ["true", "t", "1"].iter().any(|word| value.eq_ignore_ascii_case(word)))
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.parameter(name)?.parse().ok()
    }

    /// A parameter; the last of several, so a form overrides the query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter that may be repeated.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.parameters.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn pairs(text: &str) -> Vec<(String, String)> {
    let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    };
    text.split('&').filter(|pair| !pair.is_empty()).map(pair).collect()
}
