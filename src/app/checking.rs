//! `check`: everything that can be found wrong with a configuration without connecting to anything.

use anyhow::{Error, Result};

use super::{Service, callers, credentials, logging, open_lookup};
use crate::config::{BadConfig, BadConfigs, Examined, Settings};
use crate::model::provider::Provider;

/// Everything that is wrong: beside the settings the secrets and the files that they name, but for `offline`, where
/// these may not be at hand.
#[must_use]
pub fn check(examined: &Examined, offline: bool) -> Vec<BadConfig> {
    let mut wrong = examined.wrong();
    let Some(settings) = &examined.settings else { return wrong };
    // A wrong list is among the findings already.
    for provider in settings.providers().unwrap_or_default() {
        // With a wrong section, a missing secret may be no mistake of its own.
        if !examined.is_wrong_below(&section(&provider)) {
            wrong.extend(wrong_with(settings, &provider, offline));
        }
    }
    wrong.extend(logging::filter(settings).err());
    if !offline && !examined.is_wrong_below("queue") {
        wrong.extend(Service::new(settings).err().map(as_bad_config));
    }
    if !offline && !examined.is_wrong_below("starter") {
        wrong.extend(settings.starter_token().err());
    }
    if !offline && !examined.is_wrong_below("ops") {
        wrong.extend(settings.ops_token().err());
    }
    wrong
}

/// Where a provider's settings are.
fn section(provider: &Provider) -> String {
    match provider {
        Provider::Mastodon(name) => format!("mastodon.instances.{name}"),
        other => other.to_string(),
    }
}

fn wrong_with(settings: &Settings, provider: &Provider, offline: bool) -> Vec<BadConfig> {
    let error = |result: Result<()>| result.err().map(as_bad_config);
    let lookup = error(open_lookup(settings, provider).map(drop));
    let secrets = match settings.every_credential(provider) {
        _ if offline => error(callers(settings, provider).map(drop)).into_iter().collect(),
        Err(BadConfigs(all)) => all,
        Ok(_) => error(credentials(settings, provider).map(drop)).into_iter().collect::<Vec<_>>(),
    };
    lookup.into_iter().chain(secrets).collect()
}

fn as_bad_config(error: Error) -> BadConfig {
    error.downcast().unwrap_or_else(|error| BadConfig(format!("{error:#}")))
}
