//! `language`: trains and evaluates models of a language's variants, and classifies texts.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Subcommand;
use serde::Serialize;

use super::new_file::NewFile;
use super::refusals::LINES_PRINTED;
use super::{BadUsage, NOT_ONE_LINE, eprint_message, exit, single_line, write_answer, write_line, write_raw_line};
use crate::table::Table;
use collect::ingest::detect_binary;
use engine::base::humanize::group_digits;
use locate::language::evaluate::{EvaluationSettings, LabelFigures, evaluate};
use locate::language::labelled::{self, LabelledText};
use locate::language::train::Training;
use locate::language::{Variants, detect};

/// Train, evaluate and try models that distinguish the variants of a language, such as European and Brazilian Portuguese.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  twitter-updater language evaluate labelled.tsv")]
pub(super) enum Command {
    /// Train a model of two variants from labelled texts. Each line has a text and a label, separated by a tab.
    #[command(
        after_help = "Examples:\n  twitter-updater language train sentences.tsv --out pt.variants --source Bosque --licence CC-BY-SA-4.0\n  twitter-updater language train posts.tsv --out es.variants --language es --labels es-ES,es-MX --source own-posts --licence none\n\nA first line may name the columns (text, label). Lines with other labels are left out. Exits with 65 if lines were refused; the rest is used. docs/communities.md explains the model."
    )]
    Train(Train),
    /// Measure a model on labelled texts: precision and recall for groups of texts with one label, such as the posts of
    /// one person.
    #[command(
        after_help = "Examples:\n  twitter-updater language evaluate labelled.tsv\n  twitter-updater language evaluate labelled.tsv --group 1 --json | jq '.labels[0].recall'\n  twitter-updater language evaluate labelled.tsv --model my.variants --group 5\n\nThe intervals (95 %) come from a bootstrap: the texts are drawn with replacement, 200 times. Exits with 65 if lines were refused, or there was no text."
    )]
    Evaluate(Evaluate),
    /// Print the language of each text from standard input, one text per line: language, confidence, log-odds of the
    /// first variant over the second.
    #[command(
        after_help = "Examples:\n  cut -f1 posts.tsv | twitter-updater language detect\n  cut -f1 posts.tsv | twitter-updater language detect --json | jq .language\n\nA dash means unknown: too little text, or a language without variants."
    )]
    Detect(Detect),
}

#[derive(Debug, clap::Args)]
pub(super) struct Train {
    /// File of the labelled texts; - for standard input.
    file: PathBuf,
    /// Write the model to this file. An existing file is replaced.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Code of the language, ISO 639-1.
    #[arg(long, value_name = "CODE", value_parser = language_code, default_value = "pt")]
    language: String,
    /// Labels of the first and the second variant.
    #[arg(long, value_name = "ONE,OTHER", value_parser = label_pair, default_value = "PT-PT,PT-BR")]
    labels: [String; 2],
    /// Source of the texts; the model contains it.
    #[arg(long, value_name = "TEXT", value_parser = nonempty_line)]
    source: String,
    /// Licence of the texts, and so of the model; the model contains it.
    #[arg(long, value_name = "TEXT", value_parser = nonempty_line)]
    licence: String,
    /// Take the markers (words that only one of the variants has) from this model. The default is the compiled-in model if
    /// its labels are the same, otherwise none.
    #[arg(long, value_name = "FILE")]
    markers: Option<PathBuf>,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Evaluate {
    /// File of the labelled texts; - for standard input.
    file: PathBuf,
    /// File of the model. The default is the compiled-in model of Portuguese.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Number of texts per group.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    group: u32,
    /// Number of groups per label, drawn with replacement.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    resamples: u32,
    /// Seed of the random draw; the same seed draws the same groups.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Detect {
    /// File of the model of variants. The default is the compiled-in model of Portuguese.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Accepts a text that fits on one line of a model.
fn nonempty_line(text: &str) -> Result<String, BadUsage> {
    single_line(text).and_then(|text| if text.is_empty() { Err(BadUsage(NOT_ONE_LINE.to_owned())) } else { Ok(text) })
}

fn language_code(text: &str) -> Result<String, BadUsage> {
    let is_code = (2..=3).contains(&text.len()) && text.bytes().all(|letter| letter.is_ascii_lowercase());
    let error = || BadUsage("must be two or three small letters, like pt".to_owned());
    if is_code { Ok(text.to_owned()) } else { Err(error()) }
}

fn label_pair(text: &str) -> Result<[String; 2], BadUsage> {
    match text.split_once(',') {
        Some((one, other)) if !one.is_empty() && !other.is_empty() && one != other && !other.contains(',') => {
            Ok([one.to_owned(), other.to_owned()])
        }
        _ => Err(BadUsage("must be two different labels, separated by a comma".to_owned())),
    }
}

impl Command {
    pub fn run(self) -> Result<u8> {
        match self {
            Self::Train(train) => train.run(),
            Self::Evaluate(evaluate) => evaluate.run(),
            Self::Detect(detect) => detect.run(),
        }
    }
}

/// Reads the texts of a file. Returns them with the exit code, which reports refused lines.
fn read_texts(file: &Path) -> Result<(Vec<LabelledText>, u8)> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(file).map(|read| bytes = read)
    };
    read.with_context(|| format!("{} cannot be read", file.display()))?;
    let name = file.display();
    if let Some(what) = detect_binary(&bytes) {
        eprint_message(&format!("{name} is {what}"));
        return Ok((Vec::new(), exit::INPUT));
    }
    let mut refused = 0;
    let texts = labelled::read(&bytes, |line, why| {
        refused += 1;
        if refused <= LINES_PRINTED {
            eprint_message(&format!("{name} line {line} {why}"));
        }
    });
    if refused > LINES_PRINTED {
        eprint_message(&format!("{name}: {} lines were refused in all", group_digits(refused)));
    }
    Ok((texts, if refused == 0 { 0 } else { exit::INPUT }))
}

fn read_model(file: Option<&PathBuf>) -> Result<Variants> {
    let Some(file) = file else { return Ok(Variants::shipped().clone()) };
    let text = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    Variants::parse(&text).map_err(|why| anyhow::anyhow!("{}: {why}", file.display()))
}

#[derive(Debug, Serialize)]
struct Trained {
    texts: [usize; 2],
    grams: usize,
    markers: usize,
    bytes: usize,
}

impl Train {
    fn run(self) -> Result<u8> {
        let out = NewFile::begin(&self.out)?;
        let (texts, code) = read_texts(&self.file)?;
        let shipped = Variants::shipped();
        let markers = match &self.markers {
            Some(file) => read_model(Some(file))?.markers().to_vec(),
            None if shipped.labels() == [self.labels[0].as_str(), self.labels[1].as_str()] => {
                shipped.markers().to_vec()
            }
            None => Vec::new(),
        };
        let counts = self.labels.each_ref().map(|label| texts.iter().filter(|text| text.label == *label).count());
        let Self { language, labels, source, licence, .. } = self;
        let training = Training { language, labels, source, licence, markers };
        let trained = Variants::train(texts.into_iter(), &training)
            .map_err(|why| anyhow::anyhow!("{} {why}", self.file.display()))?;
        let text = trained.to_text();
        out.write(&text)?;
        let answer =
            Trained { texts: counts, grams: trained.grams(), markers: trained.markers().len(), bytes: text.len() };
        let summary = format!(
            "{}: {} n-grams of {} {} and {} {} texts, {} markers, {} bytes",
            self.out.display(),
            group_digits(answer.grams as u64),
            group_digits(counts[0] as u64),
            trained.labels()[0],
            group_digits(counts[1] as u64),
            trained.labels()[1],
            answer.markers,
            group_digits(answer.bytes as u64),
        );
        write_answer(self.json, &answer, &summary)?;
        Ok(code)
    }
}

#[derive(Debug, Serialize)]
struct Evaluated {
    group: u32,
    resamples: u32,
    labels: Vec<LabelFigures>,
}

impl Evaluate {
    fn run(self) -> Result<u8> {
        let model = read_model(self.model.as_ref())?;
        let (texts, mut code) = read_texts(&self.file)?;
        let how =
            EvaluationSettings { group: self.group as usize, resamples: self.resamples as usize, seed: self.seed };
        let labels = evaluate(&model, &texts, how);
        if code == 0 && labels.iter().all(|of| of.texts == 0) {
            code = exit::INPUT;
            eprint_message(&format!("{} has no labelled text", self.file.display()));
        }
        let text = table(&labels, model.labels(), &self);
        write_answer(self.json, &Evaluated { group: self.group, resamples: self.resamples, labels }, &text)?;
        Ok(code)
    }
}

fn table(labels: &[LabelFigures], [first, second]: [&str; 2], how: &Evaluate) -> String {
    let percent = |share: Option<f64>| share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", share * 100.0));
    let with = |share: Option<f64>, interval: Option<[f64; 2]>| match interval {
        Some([from, to]) if share.is_some() => {
            format!("{} ({:.1}–{:.1})", percent(share), from * 100.0, to * 100.0)
        }
        _ => percent(share),
    };
    let header = ["label", "texts", &format!("as {first}"), &format!("as {second}"), "open", "precision", "recall"];
    let mut table = Table::new("<12>8>12>12>8>24>24", &header);
    for of in labels {
        let [as_first, as_second, open] = &of.called;
        let (precision, recall) = (with(of.precision, of.precision_interval), with(of.recall, of.recall_interval));
        table.row(&[&of.label, &group_digits(of.texts as u64), as_first, as_second, open, &precision, &recall]);
    }
    format!("{} groups of {} texts of each label\n{table}\n", group_digits(how.resamples.into()), how.group)
}

#[derive(Debug, Serialize)]
struct Detection {
    language: Option<&'static str>,
    confidence: Option<f64>,
    log_odds: Option<f32>,
    grams: Option<u32>,
    markers: Option<[u16; 2]>,
}

impl Detect {
    fn run(self) -> Result<u8> {
        let model = read_model(self.model.as_ref())?;
        let mut input = std::io::stdin().lock();
        let mut line = Vec::new();
        loop {
            line.clear();
            if input.read_until(b'\n', &mut line).context("standard input cannot be read")? == 0 {
                return Ok(0);
            }
            let text = String::from_utf8_lossy(&line);
            let found = detect(&text);
            let weight = found.filter(|found| found.language == model.language()).map(|_| model.weigh(&text));
            let answer = Detection {
                language: found.map(|found| found.language),
                confidence: found.map(|found| found.confidence),
                log_odds: weight.map(|weight| weight.log_odds),
                grams: weight.map(|weight| weight.grams),
                markers: weight.map(|weight| weight.markers),
            };
            self.print(&answer)?;
        }
    }

    fn print(&self, answer: &Detection) -> Result<()> {
        if self.json {
            return write_raw_line(&serde_json::to_string(answer)?);
        }
        let dash = || "-".to_owned();
        let confidence = answer.confidence.map_or_else(dash, |share| format!("{share:.2}"));
        let log_odds = answer.log_odds.map_or_else(dash, |odds| format!("{odds:+.2}"));
        write_line(&format!("{}\t{confidence}\t{log_odds}", answer.language.unwrap_or("-")))
    }
}
