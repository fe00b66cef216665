//! The makers of things, whom the things fan out to. They are asked for and kept as things are, once an hour.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use twitter_updater::base::clock::Millis;
use twitter_updater::config::{BadConfig, Settings};
use twitter_updater::engine::queue::Lane;
use twitter_updater::engine::schedule::{Next, Schedule, ScheduledItem};
use twitter_updater::model::pipeline_id::PipelineId;
use twitter_updater::pipelines::kind::{Intake, ItemTerms, OpenContext, OpenPipeline, PipelineKind, Presentation};
use twitter_updater::providers::lookup::Capabilities;

use super::pipeline::{Keeper, Shelf, capabilities, date_of};

/// At once, then hourly: a test sees each looked up once.
#[derive(Debug)]
struct Hourly;

impl Schedule for Hourly {
    fn next(&self, _: &ScheduledItem<'_>, _: Millis) -> Option<Next> {
        Some((Lane::new("hourly", Duration::from_secs(3_600)), 3_600_000))
    }

    fn first(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next> {
        self.next(item, now).map(|(lane, _)| (lane, 0))
    }
}

#[derive(Debug)]
pub struct Makers;

impl Presentation for Makers {}

#[async_trait]
impl PipelineKind for Makers {
    fn pipelines(&self, settings: &Settings) -> Result<Vec<PipelineId>, BadConfig> {
        Ok(settings.providers()?.iter().map(|provider| PipelineId::items(provider, "makers")).collect())
    }

    fn capabilities(&self, _: &PipelineId) -> Capabilities {
        capabilities("makers")
    }

    fn schedule(&self, _: &PipelineId, _: &Settings) -> Arc<dyn Schedule> {
        Arc::new(Hourly)
    }

    fn intake(&self, _: &PipelineId) -> Intake {
        Intake::ids(Arc::new(date_of))
    }

    /// Things name them.
    fn terms(&self, settings: &Settings) -> ItemTerms {
        ItemTerms { named_by: vec!["things"], ..ItemTerms::new(settings) }
    }

    async fn open(&self, opening: OpenContext) -> Result<OpenPipeline> {
        let shelf = Shelf::of(&opening, "makers")?;
        Ok(opening.refresher(shelf, Keeper))
    }
}
