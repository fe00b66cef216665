//! `export edges --format gexf`: the follower graph.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{Arguments, OutputFormat};
use crate::app;
use crate::app::cli::refusals::Refusals;
use crate::app::cli::start::StartedCommand;
use crate::app::cli::{BadUsage, exit};
use crate::data::export::{GraphExport, GraphFormat};
use collect::ingest::{AccountReader, HEADER_SKIPPED, Input, InvalidEntry, ProgressDisplay};
use collect::pipelines::kind::RegisteredPipeline;
use collect::pipelines::profiles::PROFILES;
use networks::model::pipeline_id::PipelineId;
use networks::model::relation::ListKind;
use networks::providers::named::AccountRef;
use networks::providers::registry::read_account_ref;
use store::{GraphFilter, Scope, Store};

const EDGES: &str = "edges";

impl Arguments {
    pub(super) fn graph_format(&self) -> Option<GraphFormat> {
        match self.format {
            Some(OutputFormat::Graph(format)) => Some(format),
            Some(OutputFormat::Rows(_)) => None,
            None => self.file().and_then(GraphFormat::from_path),
        }
    }

    pub(super) async fn export_graph(
        &self,
        start: &StartedCommand,
        pipeline: &RegisteredPipeline,
        format: GraphFormat,
    ) -> Result<u8> {
        if self.table != EDGES || pipeline.table(EDGES).is_none() {
            return BadUsage::because(
                "gexf and graphml are for edges (set relations.collect), replies, mentions and reposts",
            );
        }
        if self.filters_rows() {
            return BadUsage::because(
                "--state, --lang, --since and --until are for rows; for a graph write --at, --among or --ego",
            );
        }
        let settings = &start.settings;
        let (graphs, store) = app::open_graphs(settings).await?;
        let provider = &pipeline.id.provider;
        let profiles = PipelineId::items(provider, PROFILES).to_string();
        let both = ListKind::ALL.map(|side| PipelineId::items(provider, side.as_str()).to_string());
        let lists = if start.names_pipeline() { vec![pipeline.namespace()] } else { both.to_vec() };
        let display = ProgressDisplay::new(EDGES, None);
        let mut refused = 0;
        let mut read = async |file: &Path| {
            let (ids, lines) = accounts(file, pipeline, (&profiles, &*store), &display).await?;
            refused = lines;
            Ok::<_, anyhow::Error>(ids)
        };
        let scope = match (&self.among, &self.ego) {
            (Some(file), _) => Scope::Among(read(file).await?),
            (None, Some(file)) => Scope::Around(read(file).await?),
            (None, None) => Scope::All,
        };
        let Self { among, ego, at, .. } = self;
        let word = at.as_ref().map(|at| &at.word);
        let request = format!("{format:?} {lists:?} {among:?} {ego:?} {word:?} of {}", app::store_address(settings));
        let wanted = GraphFilter { lists, profiles, at: at.as_ref().map(|at| at.at), scope };
        let export = GraphExport { graphs, wanted, request, format };
        let progress = |parts| display.show_count(parts, "accounts and edges");
        let done = export.write_to(self.file(), &start.stop, progress).await;
        display.finish();
        self.report_result(done?)?;
        Ok(if refused == 0 { 0 } else { exit::INPUT })
    }
}

/// Returns the account ids in a file, and the number of invalid lines. A handle must be that of a stored profile.
async fn accounts(
    file: &Path,
    pipeline: &RegisteredPipeline,
    (profiles, store): (&str, &dyn Store),
    display: &ProgressDisplay,
) -> Result<(Vec<String>, u64)> {
    let input = Input::open(file).await?;
    let (mut ids, mut refused, mut refusals) = (Vec::new(), 0, Refusals::new(display));
    let mut lines =
        AccountReader::new(tokio::io::BufReader::new(input.source), read_account_ref(&pipeline.id.provider));
    while let Some(line) = lines.next().await.with_context(|| format!("{} cannot be read", file.display()))? {
        let id = match line.named {
            Ok(AccountRef::Id(id)) => Ok(id),
            Ok(AccountRef::Handle(handle)) => {
                let bearers = store.handle_bearers(profiles, &handle).await?;
                let bearer = bearers.into_iter().find(|bearer| bearer.until.is_none());
                bearer.map(|bearer| bearer.id).ok_or_else(|| {
                    format!(
                        "no stored profile has the handle {handle}; write the id, or add the account with enqueue --accounts"
                    )
                })
            }
            Err(InvalidEntry::HeaderLine(_)) => {
                refusals.print(line.line, HEADER_SKIPPED);
                continue;
            }
            Err(why) => Err(why.to_string()),
        };
        match id {
            Ok(id) => ids.push(id),
            Err(why) => {
                refused += 1;
                refusals.print(line.line, &why);
            }
        }
    }
    if ids.is_empty() {
        bail!("{} has no account: write one per line", file.display());
    }
    Ok((ids, refused))
}
