//! The live settings of an updater.

use std::time::Duration;

use super::ActiveConfig;
use crate::ops::report::plan::{ReadTerms, RequestFill, monthly_reads};
use collect::config::Settings;
use collect::pipelines::posts::{midnight_margin, same_day};
use engine::base::reload::Reloadable;
use engine::base::shutdown::Stop;
use engine::base::task;
use engine::quota::{Budget, Period};
use engine::worker::ClaimSettings;
use networks::providers::lookup::{Capabilities, Charge};
use networks::providers::x_v2;

#[derive(Clone)]
pub(super) struct LiveTuning {
    pub claims: Reloadable<ClaimSettings>,
    pub concurrency: Reloadable<usize>,
    /// Set if the provider charges for reads.
    budget: Option<Reloadable<Budget>>,
    capabilities: Capabilities,
    lease: Duration,
}

impl LiveTuning {
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
    pub async fn follow(&self, in_force: Reloadable<ActiveConfig>, stop: Stop) {
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

/// Budget of reads by the settings; `None` if the provider charges no ids.
pub fn budget(settings: &Settings, capabilities: Capabilities) -> Option<Budget> {
    let x = &settings.x;
    (capabilities.charge == Charge::PerIdPerUtcDay).then(|| Budget {
        reads: x.reads,
        per: x.reads_per.period(x.reads_from_day),
        margin: midnight_margin(settings),
        price_per_read: x.price_per_read,
    })
}

#[must_use]
pub fn request_fill(settings: &Settings, capabilities: Capabilities) -> RequestFill {
    RequestFill::new(capabilities, settings.updater.buffer_ttl, settings.updater.lookahead)
}

#[must_use]
pub fn read_terms(settings: &Settings) -> ReadTerms {
    let x = &settings.x;
    let allowed = match x.reads_per.period(x.reads_from_day) {
        Period::Month { .. } => x.reads as f64,
        Period::Every(length) => monthly_reads(x.reads, length),
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
