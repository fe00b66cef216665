//! What puts posts into a queue: new ones, those that it has lost, and the dead.

use std::sync::Arc;

use crate::base::reload::Reloadable;
use crate::base::retry::RetryPolicy;
use crate::config::Settings;
use crate::engine::queue::{Lane, Queue};
use crate::engine::schedule::age::AgeTable;
use crate::ingest::{Lanes, Rebuild, Starter};
use crate::model::provider::Provider;
use crate::ops::dead::Dead;
use crate::pipelines::posts::UNAVAILABLE_LANE;
use crate::providers::registry::{date_of, parse};
use crate::store::Store;

/// A starter of that provider's posts; the queue is that of its namespace.
#[must_use]
pub fn starter(
    provider: &Provider,
    queue: Arc<dyn Queue>,
    store: Option<Arc<dyn Store>>,
    ages: impl Into<Reloadable<AgeTable>>,
) -> Starter {
    Starter::new(queue, store, ages, Arc::new(date_of(provider)), parse(provider))
}

/// The lane of each tweet, chosen as the updater chooses it.
fn lanes(settings: &Settings, provider: &Provider) -> Lanes {
    Lanes {
        ages: settings.tweet_age.clone().into(),
        unavailable: Lane::new(UNAVAILABLE_LANE, settings.updater.unavailable_every),
        id_date: Arc::new(date_of(provider)),
    }
}

/// What puts back into that queue what it has lost.
pub fn rebuild_of(
    settings: &Settings,
    provider: &Provider,
    queue: Arc<dyn Queue>,
    store: Arc<dyn Store>,
    ages: Reloadable<AgeTable>,
) -> Rebuild {
    Rebuild {
        queue,
        store,
        lanes: Lanes { ages, ..lanes(settings, provider) },
        lease: settings.updater.lease,
        rate: settings.rebuild.rate,
        retry: RetryPolicy::default(),
    }
}

/// The dead of that queue.
pub fn dead_of(settings: &Settings, provider: &Provider, queue: Arc<dyn Queue>, store: Arc<dyn Store>) -> Dead {
    Dead { queue, store, lanes: lanes(settings, provider) }
}
