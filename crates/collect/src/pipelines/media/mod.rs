//! Media of posts: fetches each picture, video and sound once, and stores it by the hash of its bytes.
//!
//! ```text
//!   posts ─ media of found ones ([`media_receiver`]) ─▶ fresh ─▶ fetch ─▶ stored, gone or refused: ended
//!                                                  └──▶ retry ⟲ later each time, given up after a while
//! ```
//!
//! The hosts set the pace ([`hosts`]), not a quota. Strangers choose addresses ([`addresses`]) and bytes ([`fetch`], [`file_type`]).

pub mod addresses;
#[cfg(feature = "s3")]
pub mod bucket;
pub mod counters;
pub mod fetch;
pub mod file_type;
pub mod files;
pub mod handler;
pub mod hash;
pub mod hosts;
pub mod media_receiver;
pub mod partial_files;
pub mod removal;
pub mod schedule;
pub mod storage;
pub mod unusable_storage;

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;

use self::addresses::PrivateHosts;
use self::counters::FetchCounters;
use self::fetch::{Fetcher, Limits};
use self::files::{FileStorage, Folder};
use self::handler::{MediaWork, RetryLimits};
use self::hosts::{HostLimiter, Politeness};
use self::media_receiver::MediaReceiver;
use self::partial_files::PartialFiles;
use self::removal::UnusedMediaRemoval;
use self::schedule::FreshFirstSchedule;
use self::storage::MediaStorage;
use self::unusable_storage::UnusableStorage;
use super::item_handler::ItemHandler;
use super::kind::{
    Intake, ItemTerms, ItemWords, OpenContext, OpenPipeline, PipelineHandler, PipelineKind, Presentation,
    ReceiverContext,
};
use super::store_call::PipelineStore;
use crate::config::{BadConfig, MediaSettings, Settings};
use crate::pipelines::refresh::Receiver;
use engine::base::supervise::BackgroundTask;
use engine::schedule::Schedule;
use networks::model::pipeline_id::{POSTS, PipelineId};
use networks::providers::lookup::{Capabilities, Charge};
use networks::providers::registry;
use store::Database;
use store::export::{self, Table};

pub const MEDIA: &str = "media";
/// The files of a batch are fetched at the same time.
const CAPABILITIES: Capabilities = Capabilities { batch_limit: 16, charge: Charge::Nothing, endpoint: MEDIA };

/// One pipeline for each provider in the settings, if `media.collect` is on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Media;

#[async_trait]
impl PipelineKind for Media {
    fn pipelines(&self, settings: &Settings) -> Result<Vec<PipelineId>, BadConfig> {
        if !settings.media.collect {
            return Ok(Vec::new());
        }
        settings.media.wanted_kinds()?;
        private_hosts(&settings.media)?;
        Ok(settings.providers()?.iter().map(|provider| PipelineId::items(provider, MEDIA)).collect())
    }

    fn capabilities(&self, _: &PipelineId) -> Capabilities {
        CAPABILITIES
    }

    fn schedule(&self, _: &PipelineId, settings: &Settings) -> Arc<dyn Schedule> {
        Arc::new(FreshFirstSchedule { first_delay: settings.media.retry })
    }

    fn intake(&self, _: &PipelineId) -> Intake {
        Intake::ids(Arc::new(|_: &str| Ok(None)))
    }

    fn terms(&self, settings: &Settings) -> ItemTerms {
        // A file is removed with the posts that show it.
        ItemTerms { notices_deletions: false, named_by: vec![POSTS], ..ItemTerms::new(settings) }
    }

    fn receiver(&self, of: &PipelineId, receiving: ReceiverContext) -> Option<Arc<dyn Receiver>> {
        Some(Arc::new(MediaReceiver { namespace: of.to_string(), store: receiving.database.store }))
    }

    fn check(&self, _: &PipelineId, settings: &Settings) -> Result<()> {
        settings.media.wanted_kinds()?;
        private_hosts(&settings.media)?;
        open_storage(&settings.media)?;
        Ok(())
    }

    async fn open(&self, opening: OpenContext) -> Result<OpenPipeline> {
        let OpenContext { id, settings, queue, worker, database: Database { store, .. }, metrics, stop, .. } = opening;
        let media = &settings.media;
        let used = u64::try_from(store.media_bytes().await?).unwrap_or(0);
        let parts = PartialFiles::new(&media.folder, media.max_disk_bytes, used);
        if let Err(error) = parts.prepare() {
            // Each batch tries again, and its health shows the same.
            tracing::warn!(folder = %media.folder.display(), "{}", UnusableStorage::folder(&error));
        }
        let storage = Arc::new(MediaStorage { parts, files: open_storage(media)?, store: store.clone() });
        let (namespace, counters) = (id.to_string(), Arc::<FetchCounters>::default());
        metrics.add_counters(&namespace, counters.clone());
        let limits = Limits {
            max_bytes: media.max_bytes,
            stall: media.stall,
            connect: settings.lookup.connect_timeout,
            proxy: settings.lookup.proxy()?,
        };
        let politeness =
            Politeness { per_host: media.per_host, first_pause: media.retry, longest_pause: media.longest_retry };
        let fetcher = Fetcher::new(private_hosts(media)?, limits, HostLimiter::new(politeness), storage.clone());
        let removal = UnusedMediaRemoval {
            namespace: namespace.clone(),
            posts: PipelineId::posts(&id.provider).to_string(),
            queue,
            worker,
            storage,
            store: store.clone(),
            counters: counters.clone(),
        };
        let handler = ItemHandler(MediaWork {
            items: PipelineStore::new(namespace, store, &settings.updater),
            fetcher: Arc::new(fetcher.map_err(|error| BadConfig(error.to_string()))?),
            smaller: registry::smaller_pictures(&id.provider),
            retrying: RetryLimits {
                first_delay: media.retry,
                longest_delay: media.longest_retry,
                give_up_after: media.give_up_after,
            },
            counters,
            metrics,
        });
        let beside = Some(BackgroundTask::with_state("removal", removal, UnusedMediaRemoval::run, &stop));
        Ok(OpenPipeline { work: PipelineHandler::Unmetered(Arc::new(handler)), capabilities: CAPABILITIES, beside })
    }
}

impl Presentation for Media {
    fn words(&self) -> ItemWords {
        ItemWords::MEDIA
    }

    fn tables(&self) -> &'static [Table] {
        export::MEDIA
    }
}

fn open_storage(settings: &MediaSettings) -> Result<Arc<dyn FileStorage>, BadConfig> {
    match settings.bucket()? {
        None => Ok(Arc::new(Folder::new(&settings.folder))),
        #[cfg(feature = "s3")]
        Some(bucket) => {
            let bucket = bucket::Bucket::new(&bucket, settings.stall);
            bucket.map(|bucket| Arc::new(bucket) as Arc<dyn FileStorage>).map_err(|why| BadConfig(format!("media.store: {why}")))
        }
        #[cfg(not(feature = "s3"))]
        Some(_) => Err(BadConfig(
            "media.store: this program was built without S3: build it with `cargo build --release --features s3`, or leave \
             media.store empty for media.folder"
                .to_owned(),
        )),
    }
}

fn private_hosts(settings: &MediaSettings) -> Result<PrivateHosts, BadConfig> {
    settings.private_hosts.parse().map_err(|why| BadConfig(format!("media.private_hosts: {why}")))
}
