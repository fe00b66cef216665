//! What of an updater may change while it runs, made from the settings.

use std::time::Duration;

use crate::base::clock::{self, Millis};
use crate::base::reload::Reloadable;
use crate::config::Settings;
use crate::engine::schedule::age::{AgeTable, SameDay};
use crate::engine::worker::ClaimSettings;
use crate::ops::report::plan::{ReadTerms, per_month};
use crate::providers::lookup::{Capabilities, Charge};
use crate::providers::x_v2;
use crate::quota::{Budget, Period};

/// How far a provider's clock and the ledger's may be apart, and how long the ledger may take to answer.
const CLOCKS: Duration = Duration::from_secs(10);
/// How long an id that is due may wait for a worker, and a batch for its save.
const ON_THE_WAY: Duration = Duration::from_secs(60);

/// The values, as those who use them share them.
#[derive(Clone)]
pub(super) struct Tuning {
    pub ages: Reloadable<AgeTable>,
    pub claims: Reloadable<ClaimSettings>,
    pub concurrency: Reloadable<usize>,
    pub same_day: Reloadable<SameDay>,
    /// Where the provider charges for reads.
    budget: Option<Reloadable<Budget>>,
    capabilities: Capabilities,
}

impl Tuning {
    /// `budget` is that of the credentials.
    pub fn new(settings: &Settings, capabilities: Capabilities, budget: Option<Reloadable<Budget>>) -> Self {
        Self {
            ages: settings.tweet_age.clone().into(),
            claims: claims(settings, capabilities).into(),
            concurrency: settings.updater.concurrency.into(),
            same_day: same_day(settings, capabilities).into(),
            budget,
            capabilities,
        }
    }

    /// Takes over what may change live.
    pub fn set(&self, settings: &Settings) {
        self.ages.set(settings.tweet_age.clone());
        self.same_day.set(same_day(settings, self.capabilities));
        if let (Some(live), Some(budget)) = (&self.budget, budget(settings, self.capabilities)) {
            live.set(budget);
        }
        // The last: whoever waits for work hears of it, and asks the new budget.
        self.claims.set(claims(settings, self.capabilities));
        self.concurrency.set(settings.updater.concurrency);
    }
}

/// The budget of a provider that charges for reads.
pub(super) fn budget(settings: &Settings, capabilities: Capabilities) -> Option<Budget> {
    let x = &settings.x;
    (capabilities.charge == Charge::PerIdPerUtcDay).then(|| Budget {
        reads: x.reads,
        per: x.reads_per.period(x.reads_from_day),
        margin: margin(settings),
        price_per_read: x.price_per_read,
    })
}

/// Around a midnight: what a call takes, on clocks that differ.
fn margin(settings: &Settings) -> Millis {
    clock::millis(settings.lookup.timeout.saturating_add(CLOCKS))
}

/// Of a provider that charges a post once in a UTC day: what is due so early is read on the day it was read on last.
pub(super) fn same_day(settings: &Settings, capabilities: Capabilities) -> SameDay {
    if capabilities.charge != Charge::PerIdPerUtcDay {
        return SameDay::default();
    }
    let on_the_way = clock::millis(settings.updater.buffer_ttl.saturating_add(ON_THE_WAY));
    SameDay { share: settings.x.same_day, margin: margin(settings).saturating_add(on_the_way) }
}

/// What a plan for X reckons by.
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
