//! The API of each configured provider, and the lookups of its posts and accounts.

use std::sync::Arc;

use anyhow::Result;

use crate::config::{BadConfig, CallsWanted, Settings};
use engine::base::retry::Retry;
use engine::health::Health;
use engine::quota::{Credential, CredentialKind, Window, shortest_pause};
use engine::worker::BACKOFF;
use networks::model::account::Account;
use networks::model::post::Tweet;
use networks::model::provider::Provider;
use networks::providers::bluesky::{self, Bluesky, BlueskyOptions};
use networks::providers::handles::Handles;
use networks::providers::http::{ClientError, HttpClient, HttpOptions};
use networks::providers::lookup::{Api, Lookup, LookupError};
use networks::providers::mastodon::{self, Calls, Mastodon, MastodonOptions};
use networks::providers::registry;
use networks::providers::relations::Relations;
use networks::providers::twitter_v1::{self, TwitterV1, TwitterV1Options};
use networks::providers::x_v2::{self, XV2, XV2Options};

fn http_options(settings: &Settings) -> Result<HttpOptions, BadConfig> {
    let lookup = &settings.lookup;
    Ok(HttpOptions {
        timeout: lookup.timeout,
        connect_timeout: lookup.connect_timeout,
        max_body_bytes: lookup.max_body_bytes,
        proxy: lookup.proxy()?,
        ..HttpOptions::default()
    })
}

/// Opens a provider's API client. An error names the setting that is missing or invalid.
pub fn open_api<T>(
    settings: &Settings,
    provider: &Provider,
    open: impl FnOnce(HttpClient, &str) -> Result<T, ClientError>,
) -> Result<T> {
    let (setting, address) = settings.api(provider)?;
    let opened = HttpClient::new(&http_options(settings)?).and_then(|http| open(http, address));
    Ok(opened.map_err(|why| BadConfig(format!("{setting}: {why}")))?)
}

/// Opens the lookup of a provider's posts. Assumes Mastodon 4.3 or later for an instance with automatic limits: an updater asks it.
pub fn open_lookup(settings: &Settings, provider: &Provider) -> Result<Arc<dyn Lookup>> {
    open_lookup_and_api(settings, provider).map(|(lookup, _)| lookup)
}

pub fn open_lookup_and_api(settings: &Settings, provider: &Provider) -> Result<(Arc<dyn Lookup>, Arc<dyn Api>)> {
    Ok(match open_client(settings, provider)? {
        Client::Twitter(twitter) => as_lookup_and_api(twitter),
        Client::X(x) => as_lookup_and_api(x),
        Client::Mastodon(instance) => as_lookup_and_api(instance),
        Client::Bluesky(bluesky) => as_lookup_and_api(bluesky),
    })
}

pub fn open_accounts(settings: &Settings, provider: &Provider) -> Result<Arc<dyn Lookup<Account>>> {
    Ok(match open_client(settings, provider)? {
        Client::Twitter(twitter) => Arc::new(twitter_v1::account::Accounts(twitter)),
        Client::X(x) => Arc::new(x_v2::account::Accounts(x)),
        Client::Mastodon(instance) => Arc::new(mastodon::account::Accounts(instance)),
        Client::Bluesky(bluesky) => Arc::new(bluesky::account::Accounts(bluesky)),
    })
}

pub fn open_handles(settings: &Settings, provider: &Provider) -> Result<Arc<dyn Handles>> {
    Ok(match open_client(settings, provider)? {
        Client::Twitter(twitter) => Arc::new(twitter_v1::account::Accounts(twitter)),
        Client::X(x) => Arc::new(x_v2::account::Accounts(x)),
        Client::Mastodon(instance) => Arc::new(mastodon::account::Accounts(instance)),
        Client::Bluesky(bluesky) => Arc::new(bluesky::account::Accounts(bluesky)),
    })
}

pub fn open_relations(settings: &Settings, provider: &Provider) -> Result<Arc<dyn Relations>> {
    Ok(match open_client(settings, provider)? {
        Client::Twitter(twitter) => Arc::new(twitter_v1::relations::Follows(twitter)),
        Client::X(x) => Arc::new(x_v2::relations::Follows(x)),
        Client::Mastodon(instance) => Arc::new(mastodon::relations::Follows(instance)),
        Client::Bluesky(bluesky) => Arc::new(bluesky::relations::Follows::new(bluesky)),
    })
}

enum Client {
    Twitter(TwitterV1),
    X(XV2),
    Mastodon(Mastodon),
    Bluesky(Bluesky),
}

fn open_client(settings: &Settings, provider: &Provider) -> Result<Client> {
    let http = http_options(settings)?;
    let (setting, api) = settings.api(provider)?;
    let base_url = api.to_owned();
    let opened = match provider {
        Provider::Twitter => {
            TwitterV1::new(TwitterV1Options { base_url, http, ..TwitterV1Options::default() }).map(Client::Twitter)
        }
        Provider::X => XV2::new(XV2Options { base_url, fields: settings.x_fields()?, http }).map(Client::X),
        Provider::Mastodon(name) => return open_instance(settings, name).map(Client::Mastodon),
        Provider::Bluesky => {
            let leaves_out_hidden = settings.bluesky.leave_out_hidden;
            Bluesky::new(BlueskyOptions { base_url, http, leaves_out_hidden }).map(Client::Bluesky)
        }
    };
    opened.map_err(|why| BadConfig(format!("{setting}: {why}")).into())
}

fn as_lookup_and_api(opened: impl Lookup + Api + 'static) -> (Arc<dyn Lookup>, Arc<dyn Api>) {
    let opened = Arc::new(opened);
    (opened.clone(), opened)
}

fn open_instance(settings: &Settings, name: &str) -> Result<Mastodon> {
    let instance = settings.instance(name)?;
    let calls = match instance.calls {
        CallsWanted::Auto | CallsWanted::Batch => Calls::Batch,
        CallsWanted::Single => Calls::Single,
    };
    let options = MastodonOptions { base_url: instance.api.clone(), calls, http: http_options(settings)? };
    Mastodon::new(options).map_err(|why| BadConfig(format!("mastodon.instances.{name}.api: {why}")).into())
}

/// Requests the limits of an instance first, if the settings say so: repeatedly while it is down.
pub async fn open_lookup_with_limits(
    settings: &Settings,
    provider: &Provider,
    health: &Health,
) -> Result<Arc<dyn Lookup>> {
    match fetch_limits(settings, provider, health).await? {
        Some(instance) => Ok(Arc::new(instance)),
        None => open_lookup(settings, provider),
    }
}

pub async fn open_accounts_with_limits(
    settings: &Settings,
    provider: &Provider,
    health: &Health,
) -> Result<Arc<dyn Lookup<Account>>> {
    match fetch_limits(settings, provider, health).await? {
        Some(instance) => Ok(Arc::new(mastodon::account::Accounts(instance))),
        None => open_accounts(settings, provider),
    }
}

/// A lookup that shows if a credential may call its endpoint.
#[derive(Debug, Clone)]
pub enum CheckLookup {
    Posts(Arc<dyn Lookup>),
    Accounts(Arc<dyn Lookup<Account>>),
}

impl CheckLookup {
    /// Looks up an unused id. Returns the quota window if the API states it.
    pub async fn call(&self, provider: &Provider, credential: &Credential) -> Result<Option<Window>, LookupError> {
        let [post, account] = registry::unused_ids(provider).map(str::to_owned);
        match self {
            Self::Posts(lookup) => lookup.look_up(&[post], credential).await.map(|answer| answer.quota),
            Self::Accounts(lookup) => lookup.look_up(&[account], credential).await.map(|answer| answer.quota),
        }
    }
}

/// Opens a provider's API and its lookup at that endpoint; `None`: there is none. Asks an instance with automatic limits once.
pub async fn open_for_check(
    settings: &Settings,
    provider: &Provider,
    endpoint: &str,
) -> Result<(Arc<dyn Api>, Option<CheckLookup>)> {
    let (mut posts, api) = open_lookup_and_api(settings, provider)?;
    let mut accounts = open_accounts(settings, provider)?;
    if let Some((instance, credential)) = instance_to_ask(settings, provider)? {
        let instance = fetch_limits_once(&instance, &credential).await.map_or(instance, |(instance, _)| instance);
        (posts, accounts) = (Arc::new(instance.clone()), Arc::new(mastodon::account::Accounts(instance)));
    }
    let lookup = if posts.capabilities().endpoint == endpoint {
        Some(CheckLookup::Posts(posts))
    } else if accounts.capabilities().endpoint == endpoint {
        Some(CheckLookup::Accounts(accounts))
    } else {
        None
    };
    Ok((api, lookup))
}

/// Instance to ask for its limits, and the credential for the request; `None` if its limits are configured.
fn instance_to_ask(settings: &Settings, provider: &Provider) -> Result<Option<(Mastodon, Credential)>> {
    let Provider::Mastodon(name) = provider else { return Ok(None) };
    if settings.instance(name)?.calls != CallsWanted::Auto {
        return Ok(None);
    }
    let credential = settings.every_credential(provider)?.into_iter().next();
    let anonymous = || Credential { name: "anonymous".to_owned(), kind: CredentialKind::Anonymous };
    Ok(Some((open_instance(settings, name)?, credential.unwrap_or_else(anonymous))))
}

/// Asks the instance for its limits. If it answers without its version, also returns the reason: every version takes one status per call.
async fn fetch_limits_once(
    instance: &Mastodon,
    credential: &Credential,
) -> Result<(Mastodon, Option<String>), LookupError> {
    match instance.clone().learn_calls(credential).await {
        Ok(instance) => Ok((instance, None)),
        Err(LookupError::Credential(why) | LookupError::BadRequest(why) | LookupError::Stop(why)) => {
            Ok((instance.clone().with_calls(Calls::Single), Some(why)))
        }
        Err(error) => Err(error),
    }
}

/// Repeats the request until the instance answers; `None` if its limits are configured.
async fn fetch_limits(settings: &Settings, provider: &Provider, health: &Health) -> Result<Option<Mastodon>> {
    let Some((instance, credential)) = instance_to_ask(settings, provider)? else { return Ok(None) };
    let (mut retry, mut refusals) = (Retry::new(BACKOFF.0, BACKOFF.1), 0);
    loop {
        health.record_turn();
        match fetch_limits_once(&instance, &credential).await {
            Ok((instance, None)) => {
                let ids = Lookup::<Tweet>::capabilities(&instance).batch_limit;
                tracing::info!(provider = %provider, ids, "the instance states its limit of statuses per call");
                return Ok(Some(instance));
            }
            Ok((instance, Some(why))) => {
                tracing::warn!(provider = %provider, why, "the instance does not state its version: the updater requests one status per call");
                return Ok(Some(instance));
            }
            Err(error) => {
                if health.record_outage(&error.to_string()) {
                    tracing::warn!(provider = %provider, %error, "the instance does not answer: the updater retries");
                }
                // The ledger does not count these calls, so this loop keeps the pause after a refusal.
                let delay = match error.park() {
                    Some(park) => {
                        refusals += 1;
                        park.pause.max(shortest_pause(refusals))
                    }
                    None => retry.next_delay(),
                };
                tokio::time::sleep(delay).await;
            }
        }
    }
}
