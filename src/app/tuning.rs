//! The live settings of an updater.

use std::time::Duration;

use super::InForce;
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::base::task;
use crate::config::Settings;
use crate::engine::worker::ClaimSettings;
use crate::ops::report::plan::{Fill, ReadTerms, per_month};
use crate::pipelines::posts::{margin, same_day};
use crate::providers::lookup::{Capabilities, Charge};
use crate::providers::x_v2;
use crate::quota::{Budget, Period};

#[derive(Clone)]
pub(super) struct Tuning {
    pub claims: Reloadable<ClaimSettings>,
    pub concurrency: Reloadable<usize>,
    /// Set if the provider charges for reads.
    budget: Option<Reloadable<Budget>>,
    capabilities: Capabilities,
    lease: Duration,
}

impl Tuning {
    /// `budget` is that of the credentials, `lease` that of the pipeline's batches.
    pub fn new(
        settings: &Settings,
        capabilities: Capabilities,
        lease: Duration,
        budget: Option<Reloadable<Budget>>,
    ) -> Self {
        Self {
            claims: claims(settings, capabilities, lease).into(),
            concurrency: settings.updater.concurrency.into(),
            budget,
            capabilities,
            lease,
        }
    }

    /// Applies the settings in force, now and after each change, until the process stops.
    pub async fn follow(&self, in_force: Reloadable<InForce>, stop: Stop) {
        let mut changes = in_force.changes();
        while !stop.is_draining() {
            let settings = &in_force.load().settings;
            if let (Some(live), Some(budget)) = (&self.budget, budget(settings, self.capabilities)) {
                live.set(budget);
            }
            // Set last: it wakes idle claimers, which then read the new budget.
            self.claims.set(claims(settings, self.capabilities, self.lease));
            self.concurrency.set(settings.updater.concurrency);
            task::waits("waits for a change", None);
            stop.token().run_until_cancelled(changes.next()).await;
            task::step("takes over settings");
        }
    }
}

pub fn budget(settings: &Settings, capabilities: Capabilities) -> Option<Budget> {
    let x = &settings.x;
    (capabilities.charge == Charge::PerIdPerUtcDay).then(|| Budget {
        reads: x.reads,
        per: x.reads_per.period(x.reads_from_day),
        margin: margin(settings),
        price_per_read: x.price_per_read,
    })
}

#[must_use]
pub fn fill(settings: &Settings, capabilities: Capabilities) -> Fill {
    Fill::of(capabilities, settings.updater.buffer_ttl, settings.updater.lookahead)
}

#[must_use]
pub fn read_terms(settings: &Settings) -> ReadTerms {
    let x = &settings.x;
    let allowed = match x.reads_per.period(x.reads_from_day) {
        Period::Month { .. } => x.reads as f64,
        Period::Every(length) => per_month(x.reads, length),
    };
    ReadTerms {
        same_day: same_day(settings, x_v2::CAPABILITIES),
        price_per_read: x.price_per_read,
        reads_per_month: (x.reads > 0).then_some(allowed),
    }
}

fn claims(settings: &Settings, capabilities: Capabilities, lease: Duration) -> ClaimSettings {
    let updater = &settings.updater;
    ClaimSettings {
        limit: capabilities.batch_limit,
        linger: updater.buffer_ttl,
        // A billed id is never looked up early.
        lookahead: if capabilities.charge == Charge::PerCall { updater.lookahead } else { 0.0 },
        lease,
    }
}
