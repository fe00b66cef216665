//! `export edges --format gexf`: the follower graph.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{Arguments, Kind};
use crate::app;
use crate::app::cli::refusals::Refusals;
use crate::app::cli::start::Start;
use crate::app::cli::{BadUsage, exit};
use crate::ingest::{Input, NAMES_COLUMNS, NamedLines, ProgressDisplay, SKIPPED};
use crate::model::pipeline_id::PipelineId;
use crate::model::relation::Side;
use crate::ops::export::{GraphExport, GraphFormat};
use crate::pipelines::kind::Registered;
use crate::pipelines::profiles::PROFILES;
use crate::providers::named::Named;
use crate::providers::registry::account_of;
use crate::store::{GraphWanted, Scope, Store};

const EDGES: &str = "edges";

impl Arguments {
    pub(super) fn graph_format(&self) -> Option<GraphFormat> {
        match self.format {
            Some(Kind::Graph(format)) => Some(format),
            Some(Kind::Rows(_)) => None,
            None => self.file().and_then(GraphFormat::of),
        }
    }

    pub(super) async fn draw(&self, start: &Start, pipeline: &Registered, format: GraphFormat) -> Result<u8> {
        if self.table != EDGES || pipeline.table(EDGES).is_none() {
            return BadUsage::because(
                "gexf and graphml are for edges (set relations.collect), replies, mentions and reposts",
            );
        }
        if self.chooses_rows() {
            return BadUsage::because(
                "--state, --lang, --since and --until are for rows; of a graph write --at, --among or --ego",
            );
        }
        let settings = &start.settings;
        let (graphs, store) = app::open_graphs(settings).await?;
        let provider = &pipeline.id.provider;
        let profiles = PipelineId::items(provider, PROFILES).to_string();
        let both = Side::ALL.map(|side| PipelineId::items(provider, side.as_str()).to_string());
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
        let request = format!("{format:?} {lists:?} {among:?} {ego:?} {word:?} of {}", app::store_name(settings));
        let wanted = GraphWanted { lists, profiles, at: at.as_ref().map(|at| at.at), scope };
        let export = GraphExport { graphs, wanted, request, format };
        let progress = |parts| display.show_count(parts, "accounts and edges");
        let done = match self.file() {
            None => export.to_output(&start.stop, progress).await,
            Some(file) => export.to_file(file, &start.stop, progress).await.map(Some),
        };
        display.finish();
        self.tell(done?)?;
        Ok(if refused == 0 { 0 } else { exit::INPUT })
    }
}

/// Returns the account ids in a file, and the number of invalid lines. A handle must be that of a stored profile.
async fn accounts(
    file: &Path,
    pipeline: &Registered,
    (profiles, store): (&str, &dyn Store),
    display: &ProgressDisplay,
) -> Result<(Vec<String>, u64)> {
    let input = Input::open(file).await?;
    let (mut ids, mut refused, mut refusals) = (Vec::new(), 0, Refusals::beside(display));
    let mut lines = NamedLines::new(tokio::io::BufReader::new(input.source), account_of(&pipeline.id.provider));
    while let Some(line) = lines.next().await.with_context(|| format!("{} cannot be read", file.display()))? {
        let id = match line.named {
            Ok(Named::Id(id)) => Ok(id),
            Ok(Named::Handle(handle)) => {
                let bearers = store.bearers(profiles, &handle).await?;
                let bearer = bearers.into_iter().find(|bearer| bearer.until.is_none());
                bearer.map(|bearer| bearer.id).ok_or_else(|| {
                    format!(
                        "no stored profile has the handle {handle}; write the id, or put it in by enqueue --accounts"
                    )
                })
            }
            Err(why) if why == NAMES_COLUMNS => {
                refusals.tell(line.line, SKIPPED);
                continue;
            }
            Err(why) => Err(why),
        };
        match id {
            Ok(id) => ids.push(id),
            Err(why) => {
                refused += 1;
                refusals.tell(line.line, &why);
            }
        }
    }
    if ids.is_empty() {
        bail!("{} names no account", file.display());
    }
    Ok((ids, refused))
}
