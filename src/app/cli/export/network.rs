//! `export replies`, `export mentions` and `export reposts`: networks of posts.

use anyhow::Result;

use super::Arguments;
use crate::app;
use crate::app::cli::BadUsage;
use crate::app::cli::start::Start;
use crate::ingest::ProgressDisplay;
use crate::model::pipeline_id::{Kind, PipelineId};
use crate::model::provider::Provider;
use crate::ops::export::{GraphFormat, Network, NetworkExport};
use crate::pipelines::kind::Registered;
use crate::pipelines::profiles::PROFILES;
use crate::providers::registry;
use crate::store;

impl Arguments {
    pub(super) async fn draw_network(
        &self,
        start: &Start,
        pipeline: &Registered,
        network: Network,
        format: Option<GraphFormat>,
    ) -> Result<u8> {
        let (word, provider) = (network.as_str(), &pipeline.id.provider);
        let Some(format) = format else {
            return BadUsage::because(format!(
                "{word} are a network of accounts: name a file that ends in .gexf or .graphml, or say which by --format"
            ));
        };
        if self.at.is_some() || self.among.is_some() || self.ego.is_some() {
            return BadUsage::because(format!(
                "--at, --among and --ego are for follows; of {word} write --since or --until"
            ));
        }
        if pipeline.id.kind != Kind::Posts {
            return BadUsage::because(format!("{} has no posts, and so no {word}", pipeline.namespace()));
        }
        if (network, provider) == (Network::Reposts, &Provider::Bluesky) {
            return BadUsage::because(
                "a repost on Bluesky is no post and is not collected: there are replies and mentions",
            );
        }
        let settings = &start.settings;
        let (tables, forgetting) = app::open_tables_of_people(settings).await?;
        let posts = self.wanted(pipeline);
        let Self { state, lang, since, until, .. } = self;
        let [since, until] = [since, until].map(|moment| moment.as_ref().map(|moment| &moment.word));
        let (of, from) = (pipeline.namespace(), app::store_name(settings));
        let request = format!("{word} {format:?} {of} {state:?} {lang:?} {since:?} {until:?} of {from}");
        let export = NetworkExport {
            tables,
            forgetting,
            people_of: store::network(provider),
            network,
            posts,
            profiles: PipelineId::items(provider, PROFILES).to_string(),
            people: registry::people(provider),
            request,
            format,
        };
        let display = ProgressDisplay::new(word, None);
        let progress = |posts| display.show_count(posts, "posts");
        let done = match self.file() {
            None => export.to_output(&start.stop, progress).await,
            Some(file) => export.to_file(file, &start.stop, progress).await.map(Some),
        };
        display.finish();
        self.tell(done?)?;
        Ok(0)
    }
}
