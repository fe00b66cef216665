//! Text about the API that a pipeline calls: its address and the kinds of credentials, without secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use reqwest::Url;

use super::{Apis, callers};
use crate::config::{Settings, masked};
use crate::model::provider::Provider;
use crate::pipelines::kind::Registered;
use crate::providers::http::{HttpClient, HttpOptions};
use crate::simulator;

/// Time limit for the check if an address is a simulator's; a role waits for it at the start.
const PATIENCE: Duration = Duration::from_secs(1);

/// Logs the API of each pipeline once. Asks an address in clear text, without a credential, if it is a simulator's; one
/// with TLS is not.
pub async fn announce_apis(settings: &Settings, pipelines: impl IntoIterator<Item = &Registered>) -> Apis {
    let metered = pipelines.into_iter().filter(|one| one.is_metered());
    let providers: BTreeMap<String, Provider> =
        metered.map(|one| (one.id.provider.to_string(), one.id.provider.clone())).collect();
    let described = join_all(providers.iter().map(async |(name, provider)| {
        let words = api_in_words(settings, provider)?;
        let is_simulated = is_simulator(settings, provider).await;
        Some((name.clone(), if is_simulated { format!("simulated API at {words}") } else { words }))
    }));
    let apis: Apis = described.await.into_iter().flatten().collect();
    for (provider, api) in &apis {
        tracing::info!(provider, api, "calls this API");
    }
    apis
}

/// Address and kinds of credentials of the API; `None` if the settings contain none.
pub fn api_in_words(settings: &Settings, provider: &Provider) -> Option<String> {
    let (_, api) = settings.api(provider).ok()?;
    let kinds: BTreeSet<String> = callers(settings, provider).ok()?.iter().map(|(_, kind)| kind.to_string()).collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(" and ");
    Some(format!("{}, credentials: {kinds}", strip_secrets(api)))
}

/// Removes user, password, query and fragment from an address. An address that may have a password elsewhere is not
/// shown.
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

pub(super) fn api_address(settings: &Settings, provider: &Provider) -> Option<Url> {
    Url::parse(settings.api(provider).ok()?.1).ok()
}

async fn is_simulator(settings: &Settings, provider: &Provider) -> bool {
    let Some(mut address) = api_address(settings, provider) else { return false };
    let options = HttpOptions { timeout: PATIENCE, connect_timeout: PATIENCE, ..HttpOptions::default() };
    let (true, Ok(http)) = (address.scheme() == "http", HttpClient::new(&options)) else { return false };
    address.set_path("/simulator/stats");
    address.set_query(None);
    http.server(address).await.is_some_and(|name| name == simulator::SERVER_NAME)
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
