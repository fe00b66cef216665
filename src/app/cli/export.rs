//! `export`: writes collected data to files.

mod graph;
mod network;

use std::fmt::{Debug, Display};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Result;
use serde::Serialize;

use super::start::StartedCommand;
use super::{BadUsage, Options, PipelineChoice, eprint_line, eprint_message};
use crate::app;
use crate::data::export::{CsvStyle, Export, Format, FormatError, GraphFormat, Network};
use collect::config::Settings;
use collect::ingest::{InvalidMoment, Moment, ProgressDisplay};
use collect::pipelines::kind::RegisteredPipeline;
use engine::base::clock::Millis;
use engine::base::humanize::count_with_noun;
use store::export::{ExportFilter, ExportState};

/// Write collected data to a file.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater export posts --to posts.csv\n  twitter-updater export metrics --to metrics.parquet\n  twitter-updater export posts --since 30d --lang pt,en --format ndjson | gzip > posts.ndjson.gz\n  twitter-updater export raw --to tweets.ndjson\n  twitter-updater export ids --state live\n  twitter-updater export edges --to follows.gexf\n  twitter-updater export mentions --to mentions.gexf --since 30d\n  twitter-updater export edges --to members.graphml --among members.txt --at 2026-01-31T00:00:00Z\n\nThe tables and their columns: docs/data.md. Other processes may run meanwhile: an export is a snapshot of its start. After an interruption the same command continues."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    choice: PipelineChoice,
    /// Table to export: posts, metrics, changes, ways, unavailable, ids, raw (objects as the network sent them) or
    /// languages. Graphs of accounts: replies, mentions or reposts. If accounts are collected: accounts, account_changes,
    /// account_counts or account_posts. If lists are read: edges or crawls. If communities are configured: community,
    /// community_changes or community_reasons. If media are collected: media or media_uses.
    #[arg(value_name = "TABLE")]
    table: String,
    /// File to write; - for standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    to: PathBuf,
    /// Format: csv, ndjson, lines or parquet; gexf or graphml for a graph of edges, replies, mentions or reposts. The
    /// default is the file's extension; without one, lines for ids and raw, and csv for other tables.
    #[arg(long)]
    format: Option<OutputFormat>,
    /// Only rows in these states: live, unavailable, ended (no longer looked up, found by the last lookup), missing (no
    /// longer looked up, not found by the last lookup), dead.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = |state: &str| state.trim().parse::<ExportState>())]
    state: Vec<ExportState>,
    /// Only rows in these languages, by the network's names. A post in several languages counts for each.
    #[arg(long, value_name = "LANG", value_delimiter = ',')]
    lang: Vec<String>,
    /// Only posts created at this time or later: 30d (ago), or 2026-01-31T08:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<NamedMoment>,
    /// Only posts created before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<NamedMoment>,
    /// Only follows that certainly or possibly existed at this time.
    #[arg(long, value_name = "TIME", help_heading = "Graphs")]
    at: Option<NamedMoment>,
    /// Only the accounts in this file (ids, handles or addresses, one per line) and the follows among them.
    #[arg(long, value_name = "FILE", help_heading = "Graphs")]
    among: Option<PathBuf>,
    /// Only the accounts in this file, their followers and friends, and all follows among these (1.5 degrees).
    #[arg(long, value_name = "FILE", help_heading = "Graphs", conflicts_with = "among")]
    ego: Option<PathBuf>,
    /// For CSV: put an apostrophe before each text that a spreadsheet would read as a formula. Numbers stay unchanged.
    #[arg(long)]
    spreadsheet_safe: bool,
    /// For CSV: begin with a byte order mark, by which Excel recognizes UTF-8.
    #[arg(long)]
    bom: bool,
    /// For CSV: write ids unchanged. By default an x precedes each id of digits alone, because pandas, R and Excel read
    /// it as a number and round it.
    #[arg(long)]
    plain_ids: bool,
    /// Print the result as one JSON object on standard error.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.with_choice(&self.choice).start(&[])?;
        start.stop_on_signals()?;
        let (pipeline, others) = start.pipelines_with(&self.table)?;
        if let Some(network) = Network::from_name(&self.table) {
            if self.csv_style() != CsvStyle::default() {
                return BadUsage::because(NOT_CSV);
            }
            return self.export_network(&start, &pipeline, network, self.graph_format()).await;
        }
        if let Some(format) = self.graph_format() {
            if self.csv_style() != CsvStyle::default() {
                return BadUsage::because(NOT_CSV);
            }
            return self.export_graph(&start, &pipeline, format).await;
        }
        if self.at.is_some() || self.among.is_some() || self.ego.is_some() {
            return BadUsage::because("--at, --among and --ego are for graphs: write --format gexf or graphml");
        }
        if !others.is_empty() {
            let others = others.join(", --pipeline ");
            eprint_message(&format!(
                "these are the {} of {}; there are more: --pipeline {others}",
                self.table,
                pipeline.namespace()
            ));
        }
        let export = self.export(&start, &pipeline).await?;
        let display = ProgressDisplay::rows(&self.table);
        let progress = |rows| display.show_rows(rows, &count_with_noun(rows, "row", "rows"));
        let write = export.write_to(self.file(), &start.stop, progress);
        // Only the progress display needs the row count, so the export does not wait for it.
        let count = async {
            if display.is_shown()
                && let Ok(rows) = export.tables.count(export.table, &export.wanted).await
            {
                display.set_total_rows(rows);
            }
            std::future::pending().await
        };
        let done = tokio::select! { done = write => done, done = count => done };
        display.finish();
        self.report_result(done?)?;
        Ok(0)
    }

    /// Output file; `None` means standard output.
    fn file(&self) -> Option<&Path> {
        Some(&*self.to).filter(|to| *to != Path::new("-"))
    }

    fn csv_style(&self) -> CsvStyle {
        let Self { spreadsheet_safe: without_formulas, bom: with_bom, plain_ids: with_plain_ids, .. } = *self;
        CsvStyle { without_formulas, with_bom, with_plain_ids }
    }

    /// Returns true if rows are chosen by the state, language or date of their items.
    fn filters_rows(&self) -> bool {
        !self.state.is_empty() || !self.lang.is_empty() || self.since.is_some() || self.until.is_some()
    }

    /// Prints the result on standard error; standard output may have the rows.
    fn report_result(&self, done: Option<impl Serialize + Display>) -> Result<()> {
        match done {
            Some(done) if self.json => eprint_line(&serde_json::to_string(&done)?),
            Some(done) => eprint_message(&done.to_string()),
            None => {}
        }
        Ok(())
    }

    fn wanted(&self, pipeline: &RegisteredPipeline) -> ExportFilter {
        ExportFilter {
            namespace: pipeline.namespace(),
            states: self.state.clone(),
            since: self.since.as_ref().map(|since| since.at),
            until: self.until.as_ref().map(|until| until.at),
            languages: self.lang.iter().map(|lang| lang.trim().to_owned()).collect(),
            after: None,
        }
    }

    /// Text of the request, by which an interrupted export is recognized.
    fn request(&self, what: &str, format: &dyn Debug, pipeline: &RegisteredPipeline, settings: &Settings) -> String {
        let Self { state, lang, since, until, .. } = self;
        let [since, until] = [since, until].map(|moment| moment.as_ref().map(|moment| &moment.word));
        let (of, from) = (pipeline.namespace(), app::store_address(settings));
        format!("{what} {format:?} {of} {state:?} {lang:?} {since:?} {until:?} of {from}")
    }

    async fn export(&self, start: &StartedCommand, pipeline: &RegisteredPipeline) -> Result<Export> {
        let settings = &start.settings;
        let Some(table) = pipeline.table(&self.table) else {
            if let Some(setting) = enabling_setting(&self.table).filter(|_| !start.names_pipeline()) {
                return BadUsage::because(format!(
                    "these settings collect no {}: set {setting}, or name your configuration with --config or TWITTER_UPDATER_CONFIG",
                    self.table
                ));
            }
            let names: Vec<&str> = pipeline.tables().map(|table| table.name).collect();
            return BadUsage::because(format!(
                "there is no table {:?}: write one of {}, or a table of other collected data (see `export --help`)",
                self.table,
                names.join(", ")
            ));
        };
        let format = match self.format {
            // Its rows are objects already.
            Some(OutputFormat::Rows(Format::Ndjson)) if table.name == "raw" => Format::Lines,
            Some(OutputFormat::Rows(format)) => format,
            _ => Format::for_file(table, self.file())?,
        };
        let style = self.csv_style();
        let format = match format {
            Format::Csv(_) => Format::Csv(style),
            _ if style != CsvStyle::default() => return BadUsage::because(NOT_CSV),
            format => format,
        };
        if format == Format::Lines && table.columns.len() > 1 {
            return BadUsage::because("--format lines is for ids and raw, which have one column; write csv or ndjson");
        }
        if self.filters_rows() && !table.has_item_filters() {
            return BadUsage::because(format!(
                "--state, --lang, --since and --until are for tables of posts and for ids, and {} has its own times and states: \
                 export the whole table and filter by its columns",
                table.name
            ));
        }
        let wanted = self.wanted(pipeline);
        let request = self.request(table.name, &format, pipeline, settings);
        Ok(Export { tables: app::open_tables(settings).await?, table, wanted, request, format })
    }
}

const NOT_CSV: &str = "--spreadsheet-safe, --bom and --plain-ids are for CSV: write --format csv, or leave them out";

/// Setting that enables the table; `None` if it needs none.
fn enabling_setting(table: &str) -> Option<&'static str> {
    match table {
        "accounts" | "account_changes" | "account_counts" | "account_posts" => Some("accounts.collect"),
        "edges" | "crawls" => Some("relations.collect"),
        "media" | "media_uses" => Some("media.collect"),
        "community" | "community_changes" | "community_reasons" => Some("communities.NAME"),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy)]
enum OutputFormat {
    Rows(Format),
    Graph(GraphFormat),
}

impl FromStr for OutputFormat {
    type Err = FormatError;

    fn from_str(word: &str) -> Result<Self, FormatError> {
        GraphFormat::from_name(word).map_or_else(|| word.parse().map(Self::Rows), |graph| Ok(Self::Graph(graph)))
    }
}

/// Moment with its text on the command line: "since 30 days ago" is the same request an hour later.
#[derive(Debug, Clone)]
struct NamedMoment {
    word: String,
    at: Millis,
}

impl FromStr for NamedMoment {
    type Err = InvalidMoment;

    fn from_str(word: &str) -> Result<Self, InvalidMoment> {
        Ok(Self { word: word.to_owned(), at: word.parse::<Moment>()?.0 })
    }
}
