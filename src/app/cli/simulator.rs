//! `simulator`: serves the simulated APIs.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Result, bail};

use super::{Options, write_line};
use crate::config::Settings;
use crate::model::provider::Provider;
use crate::quota::{AppToken, Credential, CredentialKind, UserKeys};
use crate::simulator::{self, SimulatedCredential, SimulatedKeys, SimulatorOptions};

/// Serve a simulated API of each network: set twitter.api to the printed address.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater simulator\n  twitter-updater simulator --listen 127.0.0.1:8081 --replay recordings/"
)]
pub(super) struct Arguments {
    /// The address; port 0 takes a free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    /// Serve only the recorded tweets in this folder's JSON files.
    #[arg(long, value_name = "FOLDER")]
    replay: Option<PathBuf>,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        start.stop_on_signals()?;
        let settings = &start.settings;
        let options = SimulatorOptions { replay: self.replay, ..settings.simulator.clone() };
        let options = if options.check_credentials { only_known(settings, options)? } else { options };
        let running = simulator::start(self.listen, options).await?;
        // The first line: the address for twitter.api, x.api, bluesky.api, or an instance's.
        write_line(&format!("simulated API at {}", running.base_url()))?;
        start.stop.draining().await;
        running.stop().await;
        Ok(0)
    }
}

/// Admits only the credentials of the settings.
fn only_known(settings: &Settings, options: SimulatorOptions) -> Result<SimulatorOptions> {
    let instances = settings.mastodon.instances.keys().cloned().map(Provider::Mastodon);
    let (mut bearer_tokens, mut credentials) = (Vec::new(), Vec::new());
    for provider in [Provider::Twitter, Provider::X].into_iter().chain(instances) {
        for Credential { name, kind } in settings.credentials(&provider)? {
            let name = format!("{provider}:{name}");
            let keys = match kind {
                CredentialKind::User(UserKeys { consumer_key, consumer_secret, token, token_secret }) => {
                    SimulatedKeys::User { consumer_key, consumer_secret, token, token_secret }
                }
                CredentialKind::App(AppToken { consumer_key, consumer_secret, .. }) => {
                    SimulatedKeys::App { consumer_key, consumer_secret }
                }
                CredentialKind::Bearer(token) => {
                    bearer_tokens.push(token);
                    continue;
                }
                CredentialKind::Anonymous => continue,
            };
            credentials.push(SimulatedCredential { name, keys });
        }
    }
    if bearer_tokens.is_empty() && credentials.is_empty() {
        bail!(
            "simulator.check_credentials is on and no credential is named: add one under [twitter.credentials.NAME] or \
             [x.credentials.NAME], or turn it off"
        );
    }
    Ok(SimulatorOptions { bearer_tokens: Some(bearer_tokens), credentials: Some(credentials), public: true, ..options })
}
