//! `check`: prints the effective configuration, or all its errors, without any connection.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Serialize;

use super::{Options, warn_of_settings, write_answer};
use crate::app::config_follower::to_bad_config;
use crate::app::{self, Service};
use collect::config::{BadConfig, BadConfigs, ExaminedSettings, Settings};
use collect::pipelines::registry::Registry;
use networks::model::provider::Provider;

/// Print the configuration in effect, without secrets. If it is invalid, print all errors and exit with 64.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater check\n  twitter-updater check --config updater.toml --offline\n  twitter-updater check --config updater.toml | grep lookahead\n  twitter-updater check --json | jq .settings.updater\n\nConnects to nothing. The first line is the revision that `status` shows for each worker."
)]
pub(super) struct Arguments {
    /// Check only the settings, without secrets and without the files that settings name.
    #[arg(long)]
    offline: bool,
    /// Print one JSON object: the revision and the settings.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct CheckAnswer {
    config_revision: String,
    settings: Settings,
}

impl Arguments {
    pub fn run(self, mut options: Options) -> Result<u8> {
        let (examined, _) = options.examine(&[])?;
        let wrong = self.all_errors(&examined, &options.registry);
        if !wrong.is_empty() {
            return Err(BadConfigs(wrong).into());
        }
        let settings = examined.into_valid()?;
        app::start_logging(&settings)?;
        if !self.offline {
            warn_of_settings(&settings);
        }
        let text = format!("# config_revision: {}\n{}", settings.revision(), settings.masked_toml());
        write_answer(self.json, &CheckAnswer { config_revision: settings.revision(), settings }, &text)?;
        Ok(0)
    }

    /// Errors in the settings, the secrets, and the named files. `--offline` checks only the settings.
    fn all_errors(&self, examined: &ExaminedSettings, registry: &Registry) -> Vec<BadConfig> {
        let mut wrong = examined.errors();
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
            if !examined.has_error_in(&section(provider)) {
                let error = pipeline.kind.check(&pipeline.id, settings).err().map(to_bad_config);
                let error = error.filter(|error| !wrong.contains(error));
                wrong.extend(error);
                if known.insert(provider.clone()) {
                    wrong.extend(secret_errors(settings, provider, self.offline));
                }
            }
        }
        wrong.extend(app::log_filter(settings).err());
        if self.offline {
            return wrong;
        }
        let model = settings.adaptive.model().err();
        let service = Service::new(settings).err().map(to_bad_config);
        let (starter, ops) = (settings.starter_token().err(), settings.ops_token().err());
        for (section, found) in [("adaptive", model), ("queue", service), ("starter", starter), ("ops", ops)] {
            wrong.extend(found.filter(|_| !examined.has_error_in(section)));
        }
        wrong
    }
}

fn section(provider: &Provider) -> String {
    match provider {
        Provider::Mastodon(name) => format!("mastodon.instances.{name}"),
        other => other.to_string(),
    }
}

fn secret_errors(settings: &Settings, provider: &Provider, offline: bool) -> Vec<BadConfig> {
    let error = |result: Result<()>| result.err().map(to_bad_config);
    match settings.every_credential(provider) {
        _ if offline => error(app::callers(settings, provider).map(drop)).into_iter().collect(),
        Err(BadConfigs(all)) => all,
        Ok(_) => error(app::credentials(settings, provider).map(drop)).into_iter().collect::<Vec<_>>(),
    }
}
