//! `export replies`, `export mentions` and `export reposts`: networks of posts.

use anyhow::Result;

use super::Arguments;
use crate::app;
use crate::app::cli::BadUsage;
use crate::app::cli::start::StartedCommand;
use crate::data::export::{GraphFormat, Network, NetworkExport};
use collect::ingest::ProgressDisplay;
use collect::pipelines::kind::RegisteredPipeline;
use collect::pipelines::profiles::PROFILES;
use networks::model::pipeline_id::{Kind, PipelineId};
use networks::model::provider::Provider;
use networks::providers::registry;
use store;

impl Arguments {
    pub(super) async fn export_network(
        &self,
        start: &StartedCommand,
        pipeline: &RegisteredPipeline,
        network: Network,
        format: Option<GraphFormat>,
    ) -> Result<u8> {
        let (word, provider) = (network.as_str(), &pipeline.id.provider);
        let Some(format) = format else {
            return BadUsage::because(format!(
                "{word} are a network of accounts: name a file that ends in .gexf or .graphml, or write --format gexf or graphml"
            ));
        };
        if self.at.is_some() || self.among.is_some() || self.ego.is_some() {
            return BadUsage::because(format!(
                "--at, --among and --ego are for follows; for {word} write --since or --until"
            ));
        }
        if pipeline.id.kind != Kind::Posts {
            return BadUsage::because(format!("{} has no posts, and so no {word}", pipeline.namespace()));
        }
        if (network, provider) == (Network::Reposts, &Provider::Bluesky) {
            return BadUsage::because(
                "reposts on Bluesky are not posts and are not collected: export replies or mentions",
            );
        }
        let settings = &start.settings;
        let (tables, forgetting) = app::open_tables_and_forgetting(settings).await?;
        let export = NetworkExport {
            tables,
            forgetting,
            forgotten_network: store::person_network(provider),
            network,
            posts: self.wanted(pipeline),
            profiles: PipelineId::items(provider, PROFILES).to_string(),
            read_people: registry::people(provider),
            request: self.request(word, &format, pipeline, settings),
            format,
        };
        let display = ProgressDisplay::new(word, None);
        let progress = |posts| display.show_count(posts, "posts");
        let done = export.write_to(self.file(), &start.stop, progress).await;
        display.finish();
        self.report_result(done?)?;
        Ok(0)
    }
}
