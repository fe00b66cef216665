//! Section `[simulator]`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatorSettings {
    #[serde(with = "humantime_serde")]
    pub latency: Duration,
    #[serde(with = "humantime_serde")]
    pub jitter: Duration,
    pub seed: u64,
    pub calls_per_window: u32,
    pub app_calls_per_window: u32,
    pub x_calls_per_window: u32,
    pub x_app_calls_per_window: u32,
    pub mastodon_calls_per_window: u32,
    pub bluesky_calls_per_window: u32,
    #[serde(with = "humantime_serde")]
    pub window: Duration,
    pub check_credentials: bool,
    pub gzip: bool,
    pub missing_share: f64,
    pub withheld_share: f64,
    pub retweet_share: f64,
    pub edited_share: f64,
    #[serde(with = "humantime_serde")]
    pub growth: Duration,
}
