//! Removes deleted accounts from all lists, with their own lists, if `store.on_deleted` demands it: once the profile, or the record of
//! the list, has lost its content.
//! The work follows from the store alone, so the next check continues after an interruption.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{OnDeleted, Settings};
use engine::base::shutdown::Stop;
use engine::base::supervise::BackgroundTask;
use engine::base::task;
use store::{Edges, StoreError};

const CHECK_INTERVAL: Duration = Duration::from_secs(1_800);
const PAGE: u32 = 100;

#[derive(Debug)]
pub struct Removal {
    /// Network, as in the namespaces of its lists.
    pub network: String,
    pub edges: Arc<dyn Edges>,
}

impl Removal {
    /// The removal task of a network; `None`: the settings keep deleted data.
    #[must_use]
    pub fn task(network: String, edges: Arc<dyn Edges>, settings: &Settings, stop: Stop) -> Option<BackgroundTask> {
        let removal = Self { network, edges };
        (settings.store.on_deleted != OnDeleted::Keep)
            .then(|| BackgroundTask::with_state("removal", removal, Self::run, &stop))
    }

    async fn run(self: Arc<Self>, stop: Stop) {
        while !stop.is_draining() {
            if let Err(error) = self.remove_due(&stop).await {
                tracing::warn!(network = self.network, %error, "deleted accounts cannot be removed from lists yet");
            }
            stop.sleep(CHECK_INTERVAL).await;
        }
    }

    /// Removes all accounts that are due for it. Returns the number of removed edges. After an error, removed edges stay removed.
    pub async fn remove_due(&self, stop: &Stop) -> Result<u64, StoreError> {
        let mut removed = 0;
        while !stop.is_draining() {
            task::step("removes deleted accounts");
            let page = self.edges.accounts_to_forget(&self.network, PAGE).await?;
            for account in &page {
                removed += self.edges.forget_edges(&self.network, account).await?;
            }
            if page.len() < PAGE as usize {
                break;
            }
        }
        if removed > 0 {
            tracing::info!(network = self.network, edges = removed, "deleted accounts are removed from lists");
        }
        Ok(removed)
    }
}
