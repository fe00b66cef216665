//! A provider of the settings: who is asked, and as whom.

use std::sync::Arc;

use anyhow::Result;

use super::{Service, Watched, tuning};
use crate::base::reload::Reloadable;
use crate::base::retry::Retry;
use crate::base::shutdown::Stop;
use crate::config::{BEARER, BadConfig, CallsWanted, Secrets, Settings};
use crate::engine::worker::BACKOFF;
use crate::model::provider::Provider;
use crate::providers::bluesky::{Bluesky, BlueskyOptions};
use crate::providers::http::HttpOptions;
use crate::providers::lookup::{Lookup, LookupError};
use crate::providers::mastodon::{Calls, Mastodon, MastodonOptions};
use crate::providers::registry::capabilities;
use crate::providers::twitter_v1::{TwitterV1, TwitterV1Options};
use crate::providers::x_v2::{XV2, XV2Options};
use crate::quota::{AppToken, Budget, Caller, Credential, CredentialKind, Credentials, UserKeys};

/// The name of the credential that is none.
const ANONYMOUS: &str = "anonymous";

/// The bounds of every call.
pub(super) fn http_options(settings: &Settings) -> HttpOptions {
    let lookup = &settings.lookup;
    HttpOptions {
        timeout: lookup.timeout,
        connect_timeout: lookup.connect_timeout,
        max_body_bytes: lookup.max_body_bytes,
        ..HttpOptions::default()
    }
}

/// The lookup of that provider. Of an instance that is to be asked what it can, what it can since Mastodon 4.3:
/// an updater asks it at the start.
///
/// # Errors
/// The settings make no sense.
pub fn open_lookup(settings: &Settings, provider: &Provider) -> Result<Arc<dyn Lookup>> {
    let http = http_options(settings);
    let (setting, api) = settings.api(provider)?;
    let base_url = api.to_owned();
    let lookup: Result<Arc<dyn Lookup>, String> = match provider {
        Provider::Twitter => {
            let options = TwitterV1Options { base_url, http, ..TwitterV1Options::default() };
            TwitterV1::new(options).map(|lookup| Arc::new(lookup) as Arc<dyn Lookup>)
        }
        Provider::X => {
            let fields = settings.x_fields()?;
            XV2::new(XV2Options { base_url, fields, http }).map(|lookup| Arc::new(lookup) as Arc<dyn Lookup>)
        }
        Provider::Mastodon(name) => {
            return open_instance(settings, name).map(|lookup| Arc::new(lookup) as Arc<dyn Lookup>);
        }
        Provider::Bluesky => Bluesky::new(BlueskyOptions { base_url, http }).map(|lookup| Arc::new(lookup) as _),
    };
    lookup.map_err(|why| BadConfig(format!("{setting}: {why}")).into())
}

fn open_instance(settings: &Settings, name: &str) -> Result<Mastodon> {
    let instance = settings.instance(name)?;
    let calls = match instance.calls {
        CallsWanted::Auto | CallsWanted::Batch => Calls::Batch,
        CallsWanted::Single => Calls::Single,
    };
    let options = MastodonOptions { base_url: instance.api.clone(), calls, http: http_options(settings) };
    Mastodon::new(options).map_err(|why| BadConfig(format!("mastodon.instances.{name}.api: {why}")).into())
}

/// The lookup of that provider, which was asked what it can, where the settings say so. An instance that is out is
/// asked again and again: `watched` hears of it, and no other provider waits for it. `None` when it was stopped first.
///
/// # Errors
/// The settings make no sense.
pub(super) async fn learn_lookup(
    settings: &Settings,
    provider: &Provider,
    watched: &Watched,
    stop: &Stop,
) -> Result<Option<Arc<dyn Lookup>>> {
    let Provider::Mastodon(name) = provider else { return open_lookup(settings, provider).map(Some) };
    if settings.instance(name)?.calls != CallsWanted::Auto {
        return open_lookup(settings, provider).map(Some);
    }
    let lookup = open_instance(settings, name)?;
    let mut retry = Retry::new(BACKOFF.0, BACKOFF.1);
    loop {
        watched.health.beat();
        let learnt = tokio::select! {
            learnt = lookup.clone().learn() => learnt,
            () = stop.draining() => return Ok(None),
        };
        match learnt {
            Ok(lookup) => {
                let ids = lookup.capabilities().batch_limit;
                tracing::info!(provider = %provider, ids, "the instance says how many statuses a call takes");
                return Ok(Some(Arc::new(lookup)));
            }
            // It answers, and keeps to itself what it runs: one status a call is what every version takes.
            Err(LookupError::Credential(why) | LookupError::BadRequest(why) | LookupError::Stop(why)) => {
                tracing::warn!(provider = %provider, why, "the instance does not say what it runs: one status a call");
                let single = open_instance(settings, name)?.with_calls(Calls::Single);
                return Ok(Some(Arc::new(single)));
            }
            Err(error) => {
                if watched.health.is_out(&error.to_string()) {
                    tracing::warn!(provider = %provider, %error, "the instance does not answer: asking again and again");
                }
                stop.sleep(retry.next_delay()).await;
            }
        }
    }
}

/// The credentials that the settings name; the anonymous one where they name none.
///
/// # Errors
/// A secret is missing or unfit, or none is given for an API that needs one.
pub fn credentials(settings: &Settings, provider: &Provider) -> Result<Vec<Credential>> {
    let named = settings.every_credential(provider)?;
    if !named.is_empty() {
        let credential = |(name, secrets)| Credential { name, kind: kind(secrets) };
        return Ok(named.into_iter().map(credential).collect());
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

/// What the secrets make.
fn kind(secrets: Secrets) -> CredentialKind {
    match secrets {
        Secrets::User { consumer_key, consumer_secret, token, token_secret } => {
            CredentialKind::User(UserKeys { consumer_key, consumer_secret, token, token_secret })
        }
        Secrets::App { consumer_key, consumer_secret } => {
            CredentialKind::App(AppToken::new(consumer_key, consumer_secret))
        }
        Secrets::Bearer(token) => CredentialKind::Bearer(token),
    }
}

/// The names of the credentials and as whom each calls, as [`credentials`] has them. No secret is read for
/// it; a bearer token that the environment alone gives is known by its name.
///
/// # Errors
/// A name or a kind cannot be.
pub fn callers(settings: &Settings, provider: &Provider) -> Result<Vec<(String, Caller)>> {
    let named = settings.callers(provider)?;
    let (_, api) = settings.api(provider)?;
    Ok(match named.is_empty() {
        false => named,
        true if needs_credential(provider, api) => vec![(BEARER.to_owned(), Caller::AppOnly)],
        true => vec![(ANONYMOUS.to_owned(), Caller::Anonymous)],
    })
}

/// The credentials with the ledger they share with all other processes.
///
/// # Errors
/// No credential, or the ledger is not there.
pub async fn open_credentials(settings: &Settings, service: &Service, provider: &Provider) -> Result<Arc<Credentials>> {
    let credentials = credentials(settings, provider)?;
    let ledger = service.ledger(provider).await?;
    // A permit lives as long as the lease of the batch it was taken for.
    let credentials = Credentials::new(credentials, ledger, settings.updater.pacing, settings.updater.lease);
    Ok(Arc::new(match live_budget(settings, provider) {
        Some(budget) => credentials.with_budget(budget),
        None => credentials,
    }))
}

/// The budget of reads, where the provider charges for them.
#[must_use]
pub fn live_budget(settings: &Settings, provider: &Provider) -> Option<Reloadable<Budget>> {
    tuning::budget(settings, capabilities(provider)).map(Reloadable::new)
}

/// Whether that is the API of Twitter or X itself, which answers nobody without a credential.
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
