//! Converts the settings `[simulator]` to options of the simulator.

use collect::config::SimulatorSettings;
use simulator::SimulatorOptions;

#[must_use]
pub fn simulator_options(settings: &SimulatorSettings) -> SimulatorOptions {
    SimulatorOptions {
        latency: settings.latency,
        jitter: settings.jitter,
        seed: settings.seed,
        calls_per_window: settings.calls_per_window,
        app_calls_per_window: settings.app_calls_per_window,
        x_calls_per_window: settings.x_calls_per_window,
        x_app_calls_per_window: settings.x_app_calls_per_window,
        mastodon_calls_per_window: settings.mastodon_calls_per_window,
        bluesky_calls_per_window: settings.bluesky_calls_per_window,
        window: settings.window,
        check_credentials: settings.check_credentials,
        gzip: settings.gzip,
        missing_share: settings.missing_share,
        withheld_share: settings.withheld_share,
        retweet_share: settings.retweet_share,
        edited_share: settings.edited_share,
        growth: settings.growth,
        ..SimulatorOptions::default()
    }
}
