//! Credentials of a provider: their names, their secrets, and the ledger with their quota.

use std::sync::Arc;

use anyhow::Result;

use super::{Service, tuning};
use collect::config::{BEARER, BadConfig, Settings};
use engine::base::reload::Reloadable;
use engine::quota::{Budget, Caller, Credential, CredentialKind, Credentials};
use networks::model::provider::Provider;
use networks::providers::registry::capabilities;

const ANONYMOUS: &str = "anonymous";

/// Returns the configured credentials, or the anonymous one if there are none. An error if the API needs a credential.
pub fn credentials(settings: &Settings, provider: &Provider) -> Result<Vec<Credential>> {
    let named = settings.every_credential(provider)?;
    if !named.is_empty() {
        return Ok(named);
    }
    let (_, api) = settings.api(provider)?;
    if needs_credential(provider, api) {
        let section = provider.to_string();
        return Err(BadConfig(format!(
            "{api} needs a credential: set TWITTER_UPDATER__{}__BEARER_TOKEN or {section}.bearer_token_file, or \
             name one in [{section}.credentials.NAME]",
            section.to_uppercase()
        ))
        .into());
    }
    Ok(vec![Credential { name: ANONYMOUS.to_owned(), kind: CredentialKind::Anonymous }])
}

/// Returns the names of the [`credentials`] and the caller type of each, in the same order. Reads no secret.
pub fn callers(settings: &Settings, provider: &Provider) -> Result<Vec<(String, Caller)>> {
    let named = settings.callers(provider)?;
    let (_, api) = settings.api(provider)?;
    Ok(match named.is_empty() {
        false => named,
        true if needs_credential(provider, api) => vec![(BEARER.to_owned(), Caller::AppOnly)],
        true => vec![(ANONYMOUS.to_owned(), Caller::Anonymous)],
    })
}

/// Opens the credentials with the ledger that all processes share.
pub async fn open_credentials(settings: &Settings, service: &Service, provider: &Provider) -> Result<Arc<Credentials>> {
    let credentials = credentials(settings, provider)?;
    let ledger = service.ledger(provider).await?;
    // A permit lives as long as the lease of its batch.
    let credentials = Credentials::new(credentials, ledger, settings.updater.pacing, settings.updater.lease);
    Ok(Arc::new(match live_budget(settings, provider) {
        Some(budget) => credentials.with_budget(budget),
        None => credentials,
    }))
}

/// Opens the ledger without credentials, for a pipeline that needs no quota.
pub(super) async fn open_ledger_only(
    settings: &Settings,
    service: &Service,
    provider: &Provider,
) -> Result<Arc<Credentials>> {
    let (ledger, updater) = (service.ledger(provider).await?, &settings.updater);
    Ok(Arc::new(Credentials::new(Vec::new(), ledger, updater.pacing, updater.lease)))
}

/// Budget of reads, which changes with the settings; `None` if the provider charges no ids.
#[must_use]
pub fn live_budget(settings: &Settings, provider: &Provider) -> Option<Reloadable<Budget>> {
    tuning::budget(settings, capabilities(provider)).map(Reloadable::new)
}

/// Returns true for the real APIs of Twitter and X, which reject requests without a credential.
fn needs_credential(provider: &Provider, api: &str) -> bool {
    if !matches!(provider, Provider::Twitter | Provider::X) {
        return false;
    }
    let url = reqwest::Url::parse(api).ok();
    let host = url.as_ref().and_then(reqwest::Url::host_str).unwrap_or_default().trim_end_matches('.');
    ["twitter.com", "x.com"].iter().any(|domain| {
        host.strip_suffix(domain).is_some_and(|subdomain| subdomain.is_empty() || subdomain.ends_with('.'))
    })
}
