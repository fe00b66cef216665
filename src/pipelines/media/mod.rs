//! Media of posts: fetches each picture, video and sound once, and stores it by the hash of its bytes.
//!
//! ```text
//!   posts ─ media of found ones ([`arrivals`]) ─▶ fresh ─▶ fetch ─▶ stored, gone or refused: ended
//!                                                  └──▶ retry ⟲ later each time, given up after a while
//! ```
//!
//! The hosts set the pace ([`hosts`]), not a quota. Strangers choose addresses ([`addresses`]) and bytes ([`fetch`], [`file_type`]).

pub mod addresses;
pub mod arrivals;
#[cfg(feature = "s3")]
pub mod bucket;
pub mod counters;
pub mod fetch;
pub mod file_type;
pub mod files;
pub mod handler;
pub mod hash;
pub mod hosts;
pub mod keeper;
pub mod parts;
pub mod removal;
pub mod schedule;

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;

use self::addresses::PrivateHosts;
use self::arrivals::Arrivals;
use self::counters::Fetches;
use self::fetch::{Fetcher, Limits};
use self::files::{Files, Folder};
use self::handler::{MediaHandler, Retrying};
use self::hosts::{Hosts, Politeness};
use self::keeper::Keeper;
use self::parts::{Parts, unusable};
use self::removal::Removal;
use self::schedule::FreshFirst;
use super::kind::{Opened, Opening, PipelineKind, Words, Work};
use crate::base::clock::Millis;
use crate::base::supervise::Beside;
use crate::config::{BadConfig, MediaSettings, Settings};
use crate::engine::schedule::{Schedule, Schedules};
use crate::model::pipeline_id::PipelineId;
use crate::pipelines::refresh::Receiver;
use crate::providers::lookup::{Capabilities, Charge};
use crate::providers::registry;
use crate::store::export::{self, Table};
use crate::store::{Database, Store};

pub const MEDIA: &str = "media";
/// Files per batch; they are fetched at the same time.
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
        settings.media.wanted()?;
        private_hosts(&settings.media)?;
        Ok(settings.providers()?.iter().map(|provider| PipelineId::items(provider, MEDIA)).collect())
    }

    fn words(&self) -> Words {
        Words::MEDIA
    }

    fn capabilities(&self, _: &PipelineId) -> Capabilities {
        CAPABILITIES
    }

    fn schedule(&self, _: &PipelineId, settings: &Settings) -> Arc<dyn Schedule> {
        Arc::new(FreshFirst { first_delay: settings.media.retry })
    }

    /// A file is removed with the posts that show it.
    fn notices_deletions(&self) -> bool {
        false
    }

    fn date_of(&self, _: &PipelineId, _: &str) -> Result<Option<Millis>, String> {
        Ok(None)
    }

    fn receiver(&self, of: &PipelineId, _: Arc<dyn Schedules>, store: Arc<dyn Store>) -> Option<Arc<dyn Receiver>> {
        Some(Arc::new(Arrivals { namespace: of.to_string(), store }))
    }

    fn tables(&self) -> &'static [Table] {
        export::MEDIA
    }

    fn check(&self, _: &PipelineId, settings: &Settings) -> Result<()> {
        settings.media.wanted()?;
        private_hosts(&settings.media)?;
        place(&settings.media)?;
        Ok(())
    }

    async fn open(&self, opening: Opening) -> Result<Opened> {
        let Opening { id, settings, queue, worker, database: Database { store, .. }, metrics, stop, .. } = opening;
        let media = &settings.media;
        let used = u64::try_from(store.media_bytes().await?).unwrap_or(0);
        let parts = Parts::new(&media.folder, media.max_disk_bytes, used);
        if let Err(error) = parts.prepare() {
            // Each batch tries again, and its health shows the same.
            tracing::warn!(folder = %media.folder.display(), "{}", unusable(&error));
        }
        let keeper = Arc::new(Keeper { parts, files: place(media)?, store: store.clone() });
        let (namespace, counters) = (id.to_string(), Arc::<Fetches>::default());
        metrics.also_show(&namespace, counters.clone());
        let limits = Limits {
            max_bytes: media.max_bytes,
            stall: media.stall,
            connect: settings.lookup.connect_timeout,
            proxy: settings.lookup.proxy()?,
        };
        let politeness =
            Politeness { per_host: media.per_host, first_pause: media.retry, longest_pause: media.longest_retry };
        let fetcher = Fetcher::new(private_hosts(media)?, limits, Hosts::new(politeness), keeper.clone());
        let removal = Removal {
            namespace: namespace.clone(),
            posts: PipelineId::posts(&id.provider).to_string(),
            queue,
            worker,
            keeper,
            store: store.clone(),
            counters: counters.clone(),
        };
        let handler = MediaHandler {
            namespace,
            fetcher: Arc::new(fetcher.map_err(BadConfig)?),
            smaller: registry::smaller_pictures(&id.provider),
            store,
            retrying: Retrying { first: media.retry, most: media.longest_retry, give_up_after: media.give_up_after },
            save_timeout: settings.updater.save_timeout,
            max_deliveries: settings.updater.max_deliveries,
            counters,
            metrics,
        };
        let beside = Some(Beside::of("removal", removal, Removal::run, &stop));
        Ok(Opened { work: Work::Free(Arc::new(handler)), capabilities: CAPABILITIES, beside })
    }
}

fn place(settings: &MediaSettings) -> Result<Arc<dyn Files>, BadConfig> {
    match settings.bucket()? {
        None => Ok(Arc::new(Folder::new(&settings.folder))),
        #[cfg(feature = "s3")]
        Some(bucket) => {
            let bucket = bucket::Bucket::new(&bucket, settings.stall);
            bucket.map(|bucket| Arc::new(bucket) as Arc<dyn Files>).map_err(|why| BadConfig(format!("media.store: {why}")))
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
