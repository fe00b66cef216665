//! Text about the API that a pipeline calls: its address and the kinds of credentials, without secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use reqwest::Url;

use super::{Apis, callers};
use collect::config::{Settings, masked};
use collect::pipelines::kind::RegisteredPipeline;
use networks::model::provider::Provider;
use networks::providers::http::{HttpClient, HttpOptions, SIMULATOR_SERVER};

/// Time limit for the check of an address for a simulator; a role waits for it at the start.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Logs the API of each pipeline once. Checks plain-text addresses, without a credential, for a simulator: a simulator
/// has no TLS.
pub async fn announce_apis(settings: &Settings, pipelines: impl IntoIterator<Item = &RegisteredPipeline>) -> Apis {
    let metered = pipelines.into_iter().filter(|one| one.is_metered());
    let providers: BTreeMap<String, Provider> =
        metered.map(|one| (one.id.provider.to_string(), one.id.provider.clone())).collect();
    let descriptions = join_all(providers.iter().map(async |(name, provider)| {
        let description = describe_api(settings, provider)?;
        let is_simulated = is_simulator(settings, provider).await;
        Some((name.clone(), if is_simulated { format!("simulated API at {description}") } else { description }))
    }));
    let apis: Apis = descriptions.await.into_iter().flatten().collect();
    for (provider, api) in &apis {
        tracing::info!(provider, api, "the process calls this API");
    }
    apis
}

/// Address and kinds of credentials of the API; `None` if the settings contain none.
pub fn describe_api(settings: &Settings, provider: &Provider) -> Option<String> {
    let (_, api) = settings.api(provider).ok()?;
    let kinds: BTreeSet<String> = callers(settings, provider).ok()?.iter().map(|(_, kind)| kind.to_string()).collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(" and ");
    Some(format!("{}, credentials: {kinds}", strip_secrets(api)))
}

/// Removes user, password, query and fragment from an address. Hides an address that may have a password elsewhere.
fn strip_secrets(api: &str) -> String {
    let masked = masked(api);
    let Ok(mut url) = Url::parse(&masked) else { return masked };
    // Fails only for an address that cannot have a user.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.as_str().trim_end_matches('/').to_owned()
}

/// Configured address of the API; `None` if the provider is not configured or the address is invalid.
pub(super) fn api_address(settings: &Settings, provider: &Provider) -> Option<Url> {
    Url::parse(settings.api(provider).ok()?.1).ok()
}

async fn is_simulator(settings: &Settings, provider: &Provider) -> bool {
    let Some(mut address) = api_address(settings, provider) else { return false };
    let options = HttpOptions { timeout: PROBE_TIMEOUT, connect_timeout: PROBE_TIMEOUT, ..HttpOptions::default() };
    let (true, Ok(http)) = (address.scheme() == "http", HttpClient::new(&options)) else { return false };
    address.set_path("/simulator/stats");
    address.set_query(None);
    http.server_header(address).await.is_some_and(|name| name == SIMULATOR_SERVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_what_may_be_secret() {
        assert_eq!(strip_secrets("https://api.twitter.com"), "https://api.twitter.com");
        assert_eq!(strip_secrets("http://me:canary@127.0.0.1:80/a/?token=canary#canary"), "http://127.0.0.1/a");
        for odd in ["canary", "http://me:can/ary@host"] {
            assert!(!strip_secrets(odd).contains("can"), "{}", strip_secrets(odd));
        }
    }
}
