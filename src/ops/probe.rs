//! The container's health check: a request to a process of this machine.

use std::time::Duration;

use reqwest::{Client, Url, redirect};

/// Time from the connection to the last byte. Health checks have 30 s, some of them 1 s.
const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_BODY_CHARS: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeFailure {
    #[error("the HTTP client cannot be set up")]
    NoClient,
    #[error("the address is not valid; pass --url http://HOST:PORT/live")]
    InvalidAddress,
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Late,
    #[error("no response from {host_and_port}; pass --url")]
    NoResponse { host_and_port: String },
    #[error("HTTP {status}: {line}")]
    Unhealthy { status: u16, line: String },
}

fn host_and_port(url: &str) -> String {
    let url = Url::parse(url).ok();
    let port = url.as_ref().and_then(Url::port_or_known_default);
    url.as_ref().and_then(Url::host_str).zip(port).map_or_else(String::new, |(host, port)| format!("{host}:{port}"))
}

/// Checks that the address answers with a success status.
pub async fn probe(url: &str) -> Result<(), ProbeFailure> {
    // The process may hold one provider only; a second install changes nothing.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = Client::builder().timeout(TIMEOUT).redirect(redirect::Policy::none()).no_proxy().build();
    let client = client.map_err(|_| ProbeFailure::NoClient)?;
    // The client's own text would repeat the address, which may hold a password.
    let silent = |error: reqwest::Error| match error {
        error if error.is_builder() => ProbeFailure::InvalidAddress,
        error if error.is_timeout() => ProbeFailure::Late,
        _ => ProbeFailure::NoResponse { host_and_port: host_and_port(url) },
    };
    let response = client.get(url).send().await.map_err(silent)?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let body = response.text().await.unwrap_or_default();
    let line: String =
        body.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(MAX_BODY_CHARS).collect();
    Err(ProbeFailure::Unhealthy { status: status.as_u16(), line })
}
