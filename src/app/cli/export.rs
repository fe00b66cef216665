//! `export`: writes collected data to files.

mod graph;
mod network;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Result;
use serde::Serialize;

use super::start::Start;
use super::{BadUsage, Options, eprint_line, eprint_message};
use crate::app;
use crate::base::clock::Millis;
use crate::base::humanize::counted;
use crate::ingest::{Moment, ProgressDisplay};
use crate::ops::export::{CsvStyle, Export, Format, GraphFormat, Network, NoSuchFormat};
use crate::pipelines::kind::Registered;
use crate::store::export::{ExportState, Wanted};

/// Write collected data to a file.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater export posts --to posts.csv\n  twitter-updater export metrics --to metrics.parquet\n  twitter-updater export posts --since 30d --lang pt,en --format ndjson | gzip > posts.ndjson.gz\n  twitter-updater export raw --to tweets.ndjson\n  twitter-updater export ids --state live\n  twitter-updater export edges --to follows.gexf\n  twitter-updater export mentions --to mentions.gexf --since 30d\n  twitter-updater export edges --to members.graphml --among members.txt --at 2026-01-31T00:00:00Z\n\nThe tables and their columns: docs/data.md. Other processes may run meanwhile: an export is a snapshot of its start. After an interruption the same command continues."
)]
pub(super) struct Arguments {
    /// The table: posts, metrics, changes, ways, unavailable, ids or raw (objects as the network sent them); replies, mentions or reposts, a graph of accounts; where accounts are collected, accounts, account_changes, account_counts or account_posts; where lists are read, edges or crawls; languages; where communities are set, community, community_changes or community_reasons; where media are collected, media or media_uses.
    #[arg(value_name = "TABLE")]
    table: String,
    /// The file; - for standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    to: PathBuf,
    /// csv, ndjson, lines or parquet; of edges, replies, mentions and reposts gexf or graphml, a graph. By default the file's extension; without one, lines for ids and raw, else CSV.
    #[arg(long)]
    format: Option<Kind>,
    /// Only rows in these states: live, unavailable, ended (no longer looked up, and there), missing (no longer looked up, and not there), dead.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = |state: &str| state.trim().parse::<ExportState>())]
    state: Vec<ExportState>,
    /// Only rows in these languages, as the network names them; a post in several is in each of them.
    #[arg(long, value_name = "LANG", value_delimiter = ',')]
    lang: Vec<String>,
    /// Only posts created at this time or later: 30d (ago), or 2026-01-31T08:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<Named>,
    /// Only posts created before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<Named>,
    /// Of a graph: only follows at this time, surely or perhaps.
    #[arg(long, value_name = "TIME", help_heading = "Graphs")]
    at: Option<Named>,
    /// Of a graph: only the accounts of this file (ids, handles or addresses, one a line) and the follows among them.
    #[arg(long, value_name = "FILE", help_heading = "Graphs")]
    among: Option<PathBuf>,
    /// Of a graph: the accounts of this file, those that follow one of them or that one of them follows, and all follows among
    /// these (1.5 degrees).
    #[arg(long, value_name = "FILE", help_heading = "Graphs", conflicts_with = "among")]
    ego: Option<PathBuf>,
    /// Of CSV: put an apostrophe before each text that a spreadsheet would take for a formula. Numbers stay as they are.
    #[arg(long)]
    spreadsheet_safe: bool,
    /// Of CSV: begin with a byte order mark, by which Excel knows that the file is UTF-8.
    #[arg(long)]
    bom: bool,
    /// Of CSV: write ids as they are. By default an x stands before each id of digits alone, so that pandas, R and Excel take it for
    /// text and not for a number, which they round.
    #[arg(long)]
    plain_ids: bool,
    /// Print the result as one JSON object on standard error.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        start.stop_on_signals()?;
        let (pipeline, others) = start.pipelines_with(&self.table)?;
        if let Some(network) = Network::named(&self.table) {
            if self.csv_style() != CsvStyle::default() {
                return BadUsage::because(NOT_CSV);
            }
            return self.draw_network(&start, &pipeline, network, self.graph_format()).await;
        }
        if let Some(format) = self.graph_format() {
            if self.csv_style() != CsvStyle::default() {
                return BadUsage::because(NOT_CSV);
            }
            return self.draw(&start, &pipeline, format).await;
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
        let progress = |rows| display.show_rows(rows, &counted(rows, "row", "rows"));
        let write = async {
            match self.file() {
                None => export.to_output(&start.stop, progress).await,
                Some(file) => export.to_file(file, &start.stop, progress).await.map(Some),
            }
        };
        // Only the progress display needs the row count, so the export does not wait for it.
        let count = async {
            if display.is_shown()
                && let Ok(rows) = export.tables.count(export.table, &export.wanted).await
            {
                display.expect(rows);
            }
            std::future::pending().await
        };
        let done = tokio::select! { done = write => done, done = count => done };
        display.finish();
        self.tell(done?)?;
        Ok(0)
    }

    /// The file; `None`: standard output.
    fn file(&self) -> Option<&Path> {
        Some(&*self.to).filter(|to| *to != Path::new("-"))
    }

    fn csv_style(&self) -> CsvStyle {
        let Self { spreadsheet_safe: without_formulas, bom: with_bom, plain_ids: with_plain_ids, .. } = *self;
        CsvStyle { without_formulas, with_bom, with_plain_ids }
    }

    /// Returns true if rows are chosen by the state, language or date of their items.
    fn chooses_rows(&self) -> bool {
        !self.state.is_empty() || !self.lang.is_empty() || self.since.is_some() || self.until.is_some()
    }

    /// Says what was done. On standard output is what was asked for.
    fn tell(&self, done: Option<impl Serialize + Display>) -> Result<()> {
        match done {
            Some(done) if self.json => eprint_line(&serde_json::to_string(&done)?),
            Some(done) => eprint_message(&done.to_string()),
            None => {}
        }
        Ok(())
    }

    /// The rows of that pipeline that were asked for.
    fn wanted(&self, pipeline: &Registered) -> Wanted {
        Wanted {
            namespace: pipeline.namespace(),
            states: self.state.clone(),
            since: self.since.as_ref().map(|since| since.at),
            until: self.until.as_ref().map(|until| until.at),
            languages: self.lang.iter().map(|lang| lang.trim().to_owned()).collect(),
            after: None,
        }
    }

    async fn export(&self, start: &Start, pipeline: &Registered) -> Result<Export> {
        let settings = &start.settings;
        let Some(table) = pipeline.table(&self.table) else {
            if let Some(setting) = setting_of(&self.table).filter(|_| !start.names_pipeline()) {
                return BadUsage::because(format!(
                    "these settings collect no {}: set {setting}, or name your configuration with --config or TWITTER_UPDATER_CONFIG",
                    self.table
                ));
            }
            let names: Vec<&str> = pipeline.tables().map(|table| table.name).collect();
            return BadUsage::because(format!(
                "there is no table {:?}; there are {}, and those of what else is collected: see `export --help`",
                self.table,
                names.join(", ")
            ));
        };
        let format = match self.format {
            // Its rows are objects already.
            Some(Kind::Rows(Format::Ndjson)) if table.name == "raw" => Format::Lines,
            Some(Kind::Rows(format)) => format,
            _ => Format::of(table, self.file())?,
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
        if self.chooses_rows() && !table.is_chosen_by_item() {
            return BadUsage::because(format!(
                "--state, --lang, --since and --until are for tables of posts and for ids: {} has times and states of its own, \
                 export it whole and choose from its columns",
                table.name
            ));
        }
        let wanted = self.wanted(pipeline);
        let Self { state, lang, .. } = self;
        let [since, until] = [&self.since, &self.until].map(|moment| moment.as_ref().map(|moment| &moment.word));
        let (of, from) = (pipeline.namespace(), app::store_name(settings));
        let request = format!("{} {format:?} {of} {state:?} {lang:?} {since:?} {until:?} of {from}", table.name);
        Ok(Export { tables: app::open_tables(settings).await?, table, wanted, request, format })
    }
}

const NOT_CSV: &str = "--spreadsheet-safe, --bom and --plain-ids are for CSV: write --format csv, or leave them out";

/// The setting without which there is no such table.
fn setting_of(table: &str) -> Option<&'static str> {
    match table {
        "accounts" | "account_changes" | "account_counts" | "account_posts" => Some("accounts.collect"),
        "edges" | "crawls" => Some("relations.collect"),
        "media" | "media_uses" => Some("media.collect"),
        "community" | "community_changes" | "community_reasons" => Some("communities.NAME"),
        _ => None,
    }
}

/// The format that was asked for.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Rows(Format),
    Graph(GraphFormat),
}

impl FromStr for Kind {
    type Err = NoSuchFormat;

    fn from_str(word: &str) -> Result<Self, NoSuchFormat> {
        GraphFormat::named(word).map_or_else(|| word.parse().map(Self::Rows), |graph| Ok(Self::Graph(graph)))
    }
}

/// A moment, and the word for it: "since 30 days ago" is the same request an hour later.
#[derive(Debug, Clone)]
struct Named {
    word: String,
    at: Millis,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Ok(Self { word: word.to_owned(), at: word.parse::<Moment>()?.0 })
    }
}
