//! The same load in simulated time: the real worker loops over the reference queue (the one that the
//! contract's tests hold both backends to) and a clock that jumps from timer to timer.

use std::sync::Arc;

use twitter_updater::base::random;
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::pipelines::posts::NAMESPACE;

use super::demand::Tally;
use super::load::{self, Load};
use crate::support::memory_ledger::MemoryLedger;
use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::queue_model::Rules;

/// Runs it on a thread of its own.
pub async fn run(load: Load, ages: &AgeTable, rules: Rules) -> Tally {
    let ages = ages.clone();
    let simulated = move || {
        let _replayed = random::replay_seed(load.workers as u64);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let clock = ServiceClock::starting_at(1_800_000_000_000);
            let queue = Arc::new(MemoryQueue::new(NAMESPACE, clock.clone(), rules));
            let ledger = Arc::new(MemoryLedger::new(clock.clone()));
            let reach = if rules.soonest_first { load::reach } else { load::reach_by_share };
            load::run(load, &ages, queue, ledger, move || clock.now(), reach).await
        })
    };
    tokio::task::spawn_blocking(simulated).await.unwrap()
}
