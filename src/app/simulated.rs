//! `simulator`: the simulated APIs by the settings.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Result, bail};

use super::write_line;
use crate::base::shutdown::Stop;
use crate::config::{Secrets, Settings, SimulatorSettings};
use crate::model::provider::Provider;
use crate::simulator::{self, SimulatedCredential, SimulatedKeys, SimulatorOptions};

/// The simulator's options in the settings.
#[must_use]
pub fn simulator_options(settings: &SimulatorSettings, replay: Option<PathBuf>) -> SimulatorOptions {
    SimulatorOptions {
        latency: settings.latency,
        jitter: settings.jitter,
        calls_per_window: settings.calls_per_window,
        app_calls_per_window: settings.app_calls_per_window,
        x_calls_per_window: settings.x_calls_per_window,
        x_app_calls_per_window: settings.x_app_calls_per_window,
        mastodon_calls_per_window: settings.mastodon_calls_per_window,
        bluesky_calls_per_window: settings.bluesky_calls_per_window,
        window: settings.window,
        gzip: settings.gzip,
        missing_share: settings.missing_share,
        withheld_share: settings.withheld_share,
        retweet_share: settings.retweet_share,
        edited_share: settings.edited_share,
        growth: settings.growth,
        seed: settings.seed,
        replay,
        ..SimulatorOptions::default()
    }
}

/// Runs the simulator until it is stopped.
///
/// # Errors
/// The address is taken, or there is nothing to replay; credentials are to be checked, and none is named.
pub async fn run_simulator(
    settings: &Settings,
    listen: SocketAddr,
    replay: Option<PathBuf>,
    stop: &Stop,
) -> Result<()> {
    let options = simulator_options(&settings.simulator, replay);
    let options = if settings.simulator.check_credentials { only_known(settings, options)? } else { options };
    let running = simulator::start(listen, options).await?;
    // The first line: what to put into twitter.api, x.api, bluesky.api, or an instance's.
    write_line(&format!("simulated API at {}", running.base_url()))?;
    stop.draining().await;
    running.stop().await;
    Ok(())
}

/// Only the credentials of the settings are let in.
fn only_known(settings: &Settings, options: SimulatorOptions) -> Result<SimulatorOptions> {
    let instances = settings.mastodon.instances.keys().cloned().map(Provider::Mastodon);
    let (mut bearer_tokens, mut credentials) = (Vec::new(), Vec::new());
    for provider in [Provider::Twitter, Provider::X].into_iter().chain(instances) {
        for (name, secrets) in settings.credentials(&provider)? {
            let name = format!("{provider}:{name}");
            let keys = match secrets {
                Secrets::Bearer(token) => {
                    bearer_tokens.push(token);
                    continue;
                }
                Secrets::User { consumer_key, consumer_secret, token, token_secret } => {
                    SimulatedKeys::User { consumer_key, consumer_secret, token, token_secret }
                }
                Secrets::App { consumer_key, consumer_secret } => SimulatedKeys::App { consumer_key, consumer_secret },
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
