//! The simulated network of `demo --community`, whose groups are planted, for real processes.

use std::path::Path;

use twitter_updater::app::demo::community::{seeds, with_communities};
use twitter_updater::config::COMMUNITY_DEMO;
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, Running, SimulatorOptions};

use super::community::seed;
use super::process::variables;
use super::world::{Backends, World};

/// The pipeline of the demo's community.
pub const COMMUNITY: &str = "community:twitter:pt-pt";

/// The network without a quota, and services with the demo's settings, the test's lease and time limit.
pub struct Planted {
    pub api: Running,
    pub world: World,
    /// The community's first members, which it knows.
    pub seeds: Vec<String>,
}

/// The network with so many accounts.
pub async fn planted(backends: Backends, folder: &Path, accounts: u64) -> Planted {
    let options = SimulatorOptions { calls_per_window: 0, app_calls_per_window: 0, ..SimulatorOptions::default() };
    let options = SimulatorOptions { accounts, missing_share: 0.0, ..with_communities(options) };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let mut world = World::new(backends, folder, &api.base_url()).await;
    let file = folder.join("community.toml");
    std::fs::write(&file, COMMUNITY_DEMO).unwrap();
    // The demo's own times go for a short test.
    let keep = ["LEASE", "SAVE_TIMEOUT", "TWEET_AGE"];
    world.settings.retain(|(name, _)| !keep.iter().any(|word| name.ends_with(word)));
    world.settings.push(("TWITTER_UPDATER_CONFIG".to_owned(), file.display().to_string()));
    world.settings.extend(variables(&[("updater.lease", "20s"), ("updater.save_timeout", "5s")]));
    let seeds = seeds(api.people(), &Provider::Twitter);
    seed(&world, "pt-pt", &seeds);
    Planted { api, world, seeds }
}
