//! `export`: writes collected data to files.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, bail};

use super::{Options, eprint_line, say};
use crate::app;
use crate::base::clock::Millis;
use crate::config::Settings;
use crate::ingest::{Moment, ProgressDisplay};
use crate::model::post::TweetState;
use crate::ops::export::{Export, Format};
use crate::pipelines::kind::Registered;
use crate::store::export::Wanted;

/// Write collected data to a file: posts, metrics, changes, accounts, ways, unavailable, ids, raw.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater export posts --to posts.csv\n  twitter-updater export metrics --to metrics.parquet\n  twitter-updater export posts --since 30d --lang pt,en --format ndjson | gzip > posts.ndjson.gz\n  twitter-updater export raw --to tweets.ndjson\n  twitter-updater export ids --state live\n\nThe tables and their columns: docs/data.md. Other processes may run meanwhile: an export is a snapshot of its start. After an interruption the same command continues."
)]
pub(super) struct Arguments {
    /// The table: posts, metrics, changes, ways, unavailable, ids or raw (objects as the network sent them); where accounts are collected, accounts, account_changes, account_counts or account_posts.
    #[arg(value_name = "TABLE")]
    table: String,
    /// The file; - for standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    to: PathBuf,
    /// csv, ndjson, lines or parquet. By default the file's extension; without one, lines for ids and raw, else CSV.
    #[arg(long)]
    format: Option<Format>,
    /// Only rows in these states: live, unavailable, ended, dead.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = str::parse::<TweetState>)]
    state: Vec<TweetState>,
    /// Only rows in these languages, as the network names them.
    #[arg(long, value_name = "LANG", value_delimiter = ',')]
    lang: Vec<String>,
    /// Only posts created at this time or later: 30d (ago), or 2026-01-31T08:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<Named>,
    /// Only posts created before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<Named>,
    /// Print the result as one JSON object on standard error.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        start.stop_on_signals()?;
        let pipeline = start.pipeline_with(&self.table)?;
        let export = self.export(&start.settings, &pipeline).await?;
        let display = ProgressDisplay::new(&self.table, None);
        let progress = |rows| display.show_count(rows, "rows");
        let done = if self.to == Path::new("-") {
            export.to_output(&start.stop, progress).await
        } else {
            export.to_file(&self.to, &start.stop, progress).await.map(Some)
        };
        display.finish();
        // On standard output is what was asked for.
        match done? {
            Some(done) if self.json => eprint_line(&serde_json::to_string(&done)?),
            Some(done) => say(&done.to_string()),
            None => {}
        }
        Ok(0)
    }

    async fn export(&self, settings: &Settings, pipeline: &Registered) -> Result<Export> {
        let Some(table) = pipeline.table(&self.table) else {
            let names: Vec<&str> = pipeline.tables().map(|table| table.name).collect();
            bail!("there is no table {:?}; there are {}", self.table, names.join(", "));
        };
        let named = Some(&*self.to).filter(|to| *to != Path::new("-"));
        let format = self.format.map_or_else(|| Format::of(table, named), Ok)?;
        if format == Format::Lines && table.columns.len() > 1 {
            bail!("--format lines is for ids and raw, which have one column; write csv or ndjson");
        }
        let wanted = Wanted {
            namespace: pipeline.namespace(),
            states: self.state.clone(),
            since: self.since.as_ref().map(|since| since.at),
            until: self.until.as_ref().map(|until| until.at),
            languages: self.lang.clone(),
            after: None,
        };
        let Self { state, lang, .. } = self;
        let [since, until] = [&self.since, &self.until].map(|moment| moment.as_ref().map(|moment| &moment.word));
        let (of, from) = (pipeline.namespace(), app::store_name(settings));
        let request = format!("{} {format:?} {of} {state:?} {lang:?} {since:?} {until:?} of {from}", table.name);
        Ok(Export { tables: app::open_tables(settings).await?, table, wanted, request, format })
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
