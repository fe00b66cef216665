//! Forgets a person: stores the hash of its id, then removes its rows in portions. See [`store::Forgetting`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;

use collect::pipelines::profiles::PROFILES;
use engine::base::clock::Millis;
use engine::queue::{Queue, QueueError};
use engine::quota::Ledger;
use networks::model::pipeline_id::{Kind, PipelineId};
use networks::model::provider::Provider;
use networks::providers::x_v2;
use store::{Database, HandleBearer, ItemSet, RemovedRows, StoreError, person_network, providers_of_network};

const PORTION: usize = 500;

/// The reason why a removal ended early. Finished work stays; the same call does the rest.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// Queues and ledgers from which a person's data is removed.
#[async_trait]
pub trait ForgetServices: Send + Sync {
    async fn open_queue(&self, namespace: &str) -> Result<Arc<dyn Queue>, QueueError>;

    async fn open_ledger(&self, provider: &Provider) -> Result<Arc<dyn Ledger>, QueueError>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct ForgetReport {
    /// False: the person was blocked before.
    pub is_new: bool,
    pub removed: RemovedRows,
    /// Rows of other accounts, by pipeline, whose raw object names the person. They stay.
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
    pub async fn stored_items(&self) -> Result<Vec<ItemSet>, StoreError> {
        self.database.forgetting.find_items_about(&person_network(&self.provider), &self.account).await
    }

    /// Blocks the person, and removes its rows and jobs. `at` is in ms since the epoch. After an error, the same call does the rest.
    pub async fn run(&self, queues: &dyn ForgetServices, at: Millis) -> Result<ForgetReport, ForgetError> {
        let Database { forgetting, edges, .. } = &self.database;
        let network = person_network(&self.provider);
        let handles: Vec<String> = self.current_handles().await?.iter().map(|handle| handle.to_lowercase()).collect();
        let mut done = ForgetReport {
            is_new: forgetting.block_account(&network, &self.account, at).await?,
            ..ForgetReport::default()
        };
        // Before its profile, which holds its handle.
        done.removed.extend(forgetting.remove_account(&network, &self.account, &handles).await?);
        // Lists before their items, by which they are found.
        for provider in providers_of_network(&self.provider) {
            let gone = edges.forget_edges(&provider.to_string(), &self.account).await?;
            done.removed.add("list_edge", gone);
        }
        let mut ledgers = Vec::new();
        for provider in providers_of_network(&self.provider) {
            ledgers.push(queues.open_ledger(&provider).await?);
        }
        self.forget_reads(&ledgers, &x_v2::account::read_keys(&self.account), &mut done).await?;
        let mut stored_items = self.stored_items().await?;
        self.forget_errors(queues, &stored_items, &handles).await?;
        // Profiles last: a caller that names the person by its handle needs them, also after a removal that was killed.
        stored_items.sort_by_key(|items| self.is_profile(&items.namespace));
        for items in stored_items {
            for ids in items.ids.chunks(PORTION) {
                let portion = ItemSet { namespace: items.namespace.clone(), ids: ids.to_vec() };
                // Before the rows, which hold the ids.
                self.forget_reads(&ledgers, &self.post_and_version_ids(&portion).await?, &mut done).await?;
                let media = forgetting.media_of_posts(&portion).await?;
                for portion in [media, portion].into_iter().filter(|portion| !portion.ids.is_empty()) {
                    // Before the rows: after a kill, the next removal finds the remaining work by them. A job that a worker holds ends
                    // with its next answer, since it has no row.
                    queues.open_queue(&portion.namespace).await?.forget(&portion.ids).await?;
                    done.removed.extend(forgetting.remove_items(&portion).await?);
                }
            }
        }
        // Last, when the media of its posts are gone.
        for media in forgetting.find_media_without_post(&network).await? {
            for ids in media.ids.chunks(PORTION) {
                let portion = ItemSet { namespace: media.namespace.clone(), ids: ids.to_vec() };
                queues.open_queue(&portion.namespace).await?.forget(&portion.ids).await?;
                done.removed.extend(forgetting.remove_items(&portion).await?);
            }
        }
        done.stays = forgetting.count_mentions(&network, &self.account).await?;
        done.bytes_left = forgetting.erase_removed_bytes().await.err().map(|error| error.to_string());
        Ok(done)
    }

    async fn forget_errors(
        &self,
        queues: &dyn ForgetServices,
        stored_items: &[ItemSet],
        handles: &[String],
    ) -> Result<(), QueueError> {
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for provider in providers_of_network(&self.provider) {
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
            queues.open_queue(&namespace).await?.forget_errors(&ids).await?;
        }
        Ok(())
    }

    /// Returns the ids of posts and of their last versions (edits). Items of other kinds have none.
    async fn post_and_version_ids(&self, items: &ItemSet) -> Result<Vec<String>, StoreError> {
        if PipelineId::parse(&items.namespace).is_none_or(|id| id.kind != Kind::Posts) {
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
        done: &mut ForgetReport,
    ) -> Result<(), QueueError> {
        if !ids.is_empty() {
            for ledger in ledgers {
                done.removed.add("charged_read", ledger.forget(ids).await?);
            }
        }
        Ok(())
    }

    fn is_profile(&self, namespace: &str) -> bool {
        providers_of_network(&self.provider).iter().any(|of| PipelineId::items(of, PROFILES).to_string() == namespace)
    }

    /// Returns the current handles of the stored profiles. A handle that another account has taken over is left out, even if an older
    /// profile of another API still has it.
    pub async fn current_handles(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut handles = BTreeSet::new();
        for provider in providers_of_network(&self.provider) {
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
pub async fn bearers(database: &Database, provider: &Provider, handle: &str) -> Result<Vec<HandleBearer>, StoreError> {
    let mut bearers = Vec::new();
    for provider in providers_of_network(provider) {
        bearers
            .extend(database.store.handle_bearers(&PipelineId::items(&provider, PROFILES).to_string(), handle).await?);
    }
    Ok(bearers)
}
