//! `check`: prints the effective configuration, or all its errors, without any connection.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Serialize;

use super::{Options, warn_of_settings, write_answer};
use crate::app::follow::as_bad_config;
use crate::app::{self, Service};
use crate::config::{BadConfig, BadConfigs, Examined, Settings};
use crate::model::provider::Provider;
use crate::pipelines::registry::Registry;

/// Print the configuration in effect, without secrets. If it is invalid, print all errors and exit with 64.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater check\n  twitter-updater check --config updater.toml --offline\n  twitter-updater check --config updater.toml | grep lookahead\n  twitter-updater check --json | jq .settings.updater\n\nConnects to nothing. The first line is the revision that `status` shows for each worker."
)]
pub(super) struct Arguments {
    /// Check only the settings, without secrets and without the files that settings name.
    #[arg(long)]
    offline: bool,
    /// One JSON object: the revision and the settings.
    #[arg(long)]
    json: bool,
}

/// The answer as JSON.
#[derive(Debug, Serialize)]
struct Checked {
    config_revision: String,
    settings: Settings,
}

impl Arguments {
    pub fn run(self, mut options: Options) -> Result<u8> {
        let (examined, _) = options.examine(&[])?;
        let wrong = self.wrong(&examined, &options.registry);
        if !wrong.is_empty() {
            return Err(BadConfigs(wrong).into());
        }
        let settings = examined.sound()?;
        app::start_logging(&settings)?;
        if !self.offline {
            warn_of_settings(&settings);
        }
        let text = format!("# config_revision: {}\n{}", settings.revision(), settings.masked_toml());
        write_answer(self.json, &Checked { config_revision: settings.revision(), settings }, &text)?;
        Ok(0)
    }

    /// All errors in the settings, the secrets, and the files that they name. `--offline` checks only the settings,
    /// since secrets and files may be elsewhere.
    fn wrong(&self, examined: &Examined, registry: &Registry) -> Vec<BadConfig> {
        let mut wrong = examined.wrong();
        let Some(settings) = &examined.settings else { return wrong };
        let mut known = BTreeSet::new();
        let (pipelines, unknown) = registry.pipelines_and_errors(settings);
        for error in unknown {
            // Two kinds that share a setting find the same error, and the settings may have reported it before.
            if !wrong.contains(&error) {
                wrong.push(error);
            }
        }
        for pipeline in pipelines {
            let provider = &pipeline.id.provider;
            // In a wrong section, a missing secret may not be a separate error.
            if !examined.is_wrong_below(&section(provider)) {
                let error = pipeline.kind.check(&pipeline.id, settings).err().map(as_bad_config);
                let error = error.filter(|error| !wrong.contains(error));
                wrong.extend(error);
                if known.insert(provider.clone()) {
                    wrong.extend(wrong_secrets(settings, provider, self.offline));
                }
            }
        }
        wrong.extend(app::log_filter(settings).err());
        if self.offline {
            return wrong;
        }
        let model = settings.adaptive.model().err();
        let service = Service::new(settings).err().map(as_bad_config);
        let (starter, ops) = (settings.starter_token().err(), settings.ops_token().err());
        for (section, found) in [("adaptive", model), ("queue", service), ("starter", starter), ("ops", ops)] {
            wrong.extend(found.filter(|_| !examined.is_wrong_below(section)));
        }
        wrong
    }
}

/// The section of a provider's settings.
fn section(provider: &Provider) -> String {
    match provider {
        Provider::Mastodon(name) => format!("mastodon.instances.{name}"),
        other => other.to_string(),
    }
}

fn wrong_secrets(settings: &Settings, provider: &Provider, offline: bool) -> Vec<BadConfig> {
    let error = |result: Result<()>| result.err().map(as_bad_config);
    match settings.every_credential(provider) {
        _ if offline => error(app::callers(settings, provider).map(drop)).into_iter().collect(),
        Err(BadConfigs(all)) => all,
        Ok(_) => error(app::credentials(settings, provider).map(drop)).into_iter().collect::<Vec<_>>(),
    }
}
