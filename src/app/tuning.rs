//! What of an updater may change while it runs, made from the settings.

use crate::config::Settings;
use crate::live::Live;
use crate::lookup::{Capabilities, Charge};
use crate::tweet_age::AgeTable;
use crate::worker::ClaimSettings;

/// The values, as those who use them share them.
#[derive(Clone)]
pub(super) struct Tuning {
    pub ages: Live<AgeTable>,
    pub claims: Live<ClaimSettings>,
    pub concurrency: Live<usize>,
    capabilities: Capabilities,
}

impl Tuning {
    pub fn new(settings: &Settings, capabilities: Capabilities) -> Self {
        Self {
            ages: settings.tweet_age.clone().into(),
            claims: claims(settings, capabilities).into(),
            concurrency: settings.updater.concurrency.into(),
            capabilities,
        }
    }

    /// Takes over what may change live.
    pub fn set(&self, settings: &Settings) {
        self.ages.set(settings.tweet_age.clone());
        self.claims.set(claims(settings, self.capabilities));
        self.concurrency.set(settings.updater.concurrency);
    }
}

fn claims(settings: &Settings, capabilities: Capabilities) -> ClaimSettings {
    let updater = &settings.updater;
    ClaimSettings {
        limit: capabilities.batch_limit,
        linger: updater.buffer_ttl,
        // An id that costs by itself is never asked for early.
        lookahead: if capabilities.charge == Charge::PerCall { updater.lookahead } else { 0.0 },
        lease: updater.lease,
    }
}
