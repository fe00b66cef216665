//! Removal: where `store.on_deleted` asks for it, an account that the network has deleted goes from all lists, and its own lists
//! go with it, once its profile, or the record of its list, has lost its content.
//!
//! What is to go follows from the store alone: a process that ends in between leaves it to the next look. A page of another
//! list may show the account once more; then it goes again.

use std::sync::Arc;
use std::time::Duration;

use crate::base::shutdown::Stop;
use crate::base::supervise::Beside;
use crate::base::task;
use crate::config::{OnDeleted, Settings};
use crate::store::{Edges, StoreError};

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1_800);
/// Accounts of a page.
const PAGE: u32 = 100;

/// Removes deleted accounts from lists.
#[derive(Debug)]
pub struct Removal {
    /// The network, as the namespaces of its lists have it.
    pub network: String,
    /// The lists.
    pub edges: Arc<dyn Edges>,
}

impl Removal {
    /// The removal for a network, as a task; `None`: the settings keep what is deleted.
    #[must_use]
    pub fn task(network: String, edges: Arc<dyn Edges>, settings: &Settings, stop: Stop) -> Option<Beside> {
        let removal = Self { network, edges };
        (settings.store.on_deleted != OnDeleted::Keep).then(|| Beside::of("removal", removal, Self::run, &stop))
    }

    /// Works until the process is to stop. A store that is out is asked again the next time.
    async fn run(self: Arc<Self>, stop: Stop) {
        while !stop.is_draining() {
            if let Err(error) = self.look(&stop).await {
                tracing::warn!(network = self.network, %error, "deleted accounts cannot be removed from lists yet");
            }
            stop.sleep(LOOK_EVERY).await;
        }
    }

    /// Removes all that are to go; returns the number of edges that went with them.
    ///
    /// # Errors
    /// The store's. What was removed before stays removed.
    pub async fn look(&self, stop: &Stop) -> Result<u64, StoreError> {
        let mut removed = 0;
        while !stop.is_draining() {
            task::step("removes deleted accounts");
            let page = self.edges.forgotten(&self.network, PAGE).await?;
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
