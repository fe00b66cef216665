//! Forgets a person: stores its hash first, then removes its rows in portions. See [`crate::store::Forgetting`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;

use crate::base::clock::Millis;
use crate::engine::queue::{Queue, QueueError};
use crate::model::pipeline_id::{Kind, PipelineId};
use crate::model::provider::Provider;
use crate::pipelines::profiles::PROFILES;
use crate::providers::x_v2;
use crate::quota::Ledger;
use crate::store::{Bearer, Database, ItemsOf, RemovedRows, StoreError, network, providers};

const PORTION: usize = 500;

/// A removal ended early. Finished work stays; the same call again does the rest.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Queue(#[from] QueueError),
}

#[async_trait]
pub trait QueuesOf: Send + Sync {
    async fn queue_of(&self, namespace: &str) -> Result<Arc<dyn Queue>, QueueError>;

    async fn ledger_of(&self, provider: &Provider) -> Result<Arc<dyn Ledger>, QueueError>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Forgotten {
    /// False: the person was blocked before.
    pub is_new: bool,
    pub removed: RemovedRows,
    /// By pipeline, rows of others whose raw object names the person. They stay.
    pub stays: RemovedRows,
    /// The reason why bytes of removed rows may still be in the SQLite file or its WAL.
    pub bytes_left: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Forget {
    pub database: Database,
    pub provider: Provider,
    pub account: String,
}

impl Forget {
    pub async fn stored_items(&self) -> Result<Vec<ItemsOf>, StoreError> {
        self.database.forgetting.items_of(&network(&self.provider), &self.account).await
    }

    /// Blocks the person, and removes its rows and its jobs. `at`: ms since the epoch.
    ///
    /// # Errors
    /// A service is out: the same call again does the rest.
    pub async fn run(&self, queues: &dyn QueuesOf, at: Millis) -> Result<Forgotten, ForgetError> {
        let Database { forgetting, edges, .. } = &self.database;
        let network = network(&self.provider);
        let handles: Vec<String> = self.handles().await?.iter().map(|handle| handle.to_lowercase()).collect();
        let mut done =
            Forgotten { is_new: forgetting.keep_away(&network, &self.account, at).await?, ..Forgotten::default() };
        // Before its profile, which holds its handle.
        done.removed.extend(forgetting.remove_account(&network, &self.account, &handles).await?);
        // Lists before their items, by which they are found.
        for provider in providers(&self.provider) {
            let gone = edges.forget_edges(&provider.to_string(), &self.account).await?;
            done.removed.add("list_edge", gone);
        }
        let mut ledgers = Vec::new();
        for provider in providers(&self.provider) {
            ledgers.push(queues.ledger_of(&provider).await?);
        }
        self.forget_reads(&ledgers, &x_v2::account::reads(&self.account), &mut done).await?;
        let mut stored_items = self.stored_items().await?;
        self.forget_errors(queues, &stored_items, &handles).await?;
        // Profiles last: a caller that names the person by its handle needs them, also after a removal that was killed.
        stored_items.sort_by_key(|items| self.is_profile(&items.namespace));
        for items in stored_items {
            for ids in items.ids.chunks(PORTION) {
                let portion = ItemsOf { namespace: items.namespace.clone(), ids: ids.to_vec() };
                // Before the rows, which hold the ids.
                self.forget_reads(&ledgers, &self.versions(&portion).await?, &mut done).await?;
                let media = forgetting.media_of_posts(&portion).await?;
                for portion in [media, portion].into_iter().filter(|portion| !portion.ids.is_empty()) {
                    // Before the rows: after a kill, the next removal finds the remaining work by them. A job that a worker holds ends
                    // with its next answer, since it has no row.
                    queues.queue_of(&portion.namespace).await?.forget(&portion.ids).await?;
                    done.removed.extend(forgetting.remove_items(&portion).await?);
                }
            }
        }
        // Last, when the media of its posts are gone.
        for media in forgetting.media_without_post(&network).await? {
            for ids in media.ids.chunks(PORTION) {
                let portion = ItemsOf { namespace: media.namespace.clone(), ids: ids.to_vec() };
                queues.queue_of(&portion.namespace).await?.forget(&portion.ids).await?;
                done.removed.extend(forgetting.remove_items(&portion).await?);
            }
        }
        done.stays = forgetting.mentions_of(&network, &self.account).await?;
        done.bytes_left = forgetting.wipe().await.err().map(|error| error.to_string());
        Ok(done)
    }

    async fn forget_errors(
        &self,
        queues: &dyn QueuesOf,
        stored_items: &[ItemsOf],
        handles: &[String],
    ) -> Result<(), QueueError> {
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for provider in providers(&self.provider) {
            for pipeline in [PipelineId::posts(&provider), PipelineId::items(&provider, PROFILES)] {
                names.entry(pipeline.to_string()).or_default();
            }
        }
        for items in stored_items {
            names.entry(items.namespace.clone()).or_default().extend(items.ids.iter().cloned());
        }
        for (namespace, mut ids) in names {
            ids.push(self.account.clone());
            ids.extend_from_slice(handles);
            queues.queue_of(&namespace).await?.forget_errors(&ids).await?;
        }
        Ok(())
    }

    /// Returns the ids of posts and of their last versions (edits). Items of other kinds have none.
    async fn versions(&self, items: &ItemsOf) -> Result<Vec<String>, StoreError> {
        if PipelineId::read(&items.namespace).is_none_or(|id| id.kind != Kind::Posts) {
            return Ok(Vec::new());
        }
        let standings = self.database.store.standing(&items.namespace, &items.ids).await?;
        let edited = standings.into_iter().flatten().filter_map(|standing| standing.current_id);
        Ok(items.ids.iter().cloned().chain(edited).collect())
    }

    async fn forget_reads(
        &self,
        ledgers: &[Arc<dyn Ledger>],
        ids: &[String],
        done: &mut Forgotten,
    ) -> Result<(), QueueError> {
        if !ids.is_empty() {
            for ledger in ledgers {
                done.removed.add("charged_read", ledger.forget(ids).await?);
            }
        }
        Ok(())
    }

    fn is_profile(&self, namespace: &str) -> bool {
        providers(&self.provider).iter().any(|of| PipelineId::items(of, PROFILES).to_string() == namespace)
    }

    /// Returns the current handles of its stored profiles. Another account may have taken over a former handle. Such a handle is left out
    /// even if an older profile of another API of the network still has it.
    pub async fn handles(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut handles = BTreeSet::new();
        for provider in providers(&self.provider) {
            let namespace = PipelineId::items(&provider, PROFILES).to_string();
            let stored = self.database.store.account(&namespace, &self.account).await?;
            let Some(handle) = stored.and_then(|stored| stored.handle) else { continue };
            let bearers = bearers(&self.database, &self.provider, &handle).await?;
            if !bearers.iter().any(|bearer| bearer.id == self.account && bearer.until.is_some()) {
                handles.insert(handle);
            }
        }
        Ok(handles)
    }
}

/// Returns the current and former accounts of that handle, by the profiles of all APIs of the network.
pub async fn bearers(database: &Database, provider: &Provider, handle: &str) -> Result<Vec<Bearer>, StoreError> {
    let mut bearers = Vec::new();
    for provider in providers(provider) {
        bearers.extend(database.store.bearers(&PipelineId::items(&provider, PROFILES).to_string(), handle).await?);
    }
    Ok(bearers)
}
