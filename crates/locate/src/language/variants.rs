//! The variants of a language, such as Portuguese of Portugal and of Brazil: a model of n-grams of letters, and markers.
//!
//! A post's weight is its log-odds (natural logarithm), the first label over the second:
//!
//! ```text
//! n-grams   scale × Σ ln(p(gram | first) / p(gram | second)) / √(number of grams)     2 to 6 letters
//! markers   + their weights, each marker once a post, together between -2 and 2
//! together  between -4 and 4
//! ```
//!
//! The root allows for dependent letters: twice the letters are not twice the evidence. The scale gives the log-odds of held-out
//! sentences.

use std::fmt::Write as _;
use std::sync::LazyLock;

use super::cut::clean_text;
use super::markers::{Marker, Markers};
use super::words::normalized_letters;

pub const MIN_GRAM_LETTERS: usize = 2;
pub const MAX_GRAM_LETTERS: usize = 6;
/// One short word has fewer n-grams, and gives no evidence.
const MIN_GRAMS: u32 = 12;
/// Limit of the joint weight of a post's markers, log-odds.
const MAX_MARKER_LOG_ODDS: f32 = 2.0;
/// Limit of a post's weight, log-odds (55 to 1): one strange post among thirty decides nothing.
const MAX_LOG_ODDS: f32 = 4.0;
/// Posts beyond this number make a person no surer: posts of one person are alike.
const MAX_COUNTED_POSTS: usize = 30;
/// Unit of the weights of n-grams in the file.
const HUNDREDTHS: f32 = 100.0;
const FORMAT: &str = "twitter-updater variants 1";

#[derive(Debug, Clone)]
pub struct Variants {
    pub(super) header: ModelHeader,
    /// Log-odds, first label over second, by the hash of the letters.
    grams: Grams,
    markers: Markers,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelHeader {
    /// ISO 639-1: `pt`.
    pub language: String,
    /// Names of the two variants as in labelled texts: `PT-PT`, `PT-BR`.
    pub labels: [String; 2],
    pub source: String,
    /// Licence of the source, and so of the model.
    pub licence: String,
    /// Factor from (sum of n-grams / √number of n-grams) to log-odds.
    pub scale: f32,
    /// Joint log-odds (mean × posts, at most 30) for a label. 3.6 is 37 to 1, a precision of 0.974 if the model is right about itself.
    pub sure: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Weight {
    /// Log-odds (natural logarithm) of the first label over the second, -4 to 4.
    pub log_odds: f32,
    /// N-grams in the text; a post with fewer than 12 does not count.
    pub grams: u32,
    /// Different markers of each label.
    pub markers: [u16; 2],
}

#[derive(Debug, Clone, PartialEq)]
pub struct VariantVerdict {
    /// Posts with enough text.
    pub posts: usize,
    /// Mean log-odds per post, first label over second.
    pub mean: f64,
    pub markers: [u64; 2],
    /// Index of the label, 0 or 1; `None` if it is open.
    pub label: Option<usize>,
    /// Probability of the first label minus that of the second, -1 to 1. 0 with no posts; ±0.95 and beyond have a label.
    pub score: f64,
}

/// Reason why a file is no model of variants, and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidModel {
    #[error("is no model of variants: its first line is not {FORMAT:?}; `language train` makes one")]
    Format,
    #[error("line {number}: {fault}; train the model again with `language train`")]
    Line { number: usize, fault: LineFault },
    #[error("has no {0}: the file is cut off")]
    Missing(&'static str),
    #[error("{0} must be a number")]
    NotANumber(&'static str),
    #[error("{0} must be above 0")]
    NotPositive(&'static str),
    #[error("labels must be two different names, tab separated")]
    Labels,
}

/// Reason why a line of a model is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    #[error("has no tab")]
    NoTab,
    #[error("an n-gram must have {MIN_GRAM_LETTERS} to {MAX_GRAM_LETTERS} letters, not {0}")]
    GramLength(usize),
    #[error("{0:?} is unknown")]
    UnknownKey(String),
    #[error("{0} occurs twice")]
    RepeatedKey(&'static str),
    #[error("a marker's label must be 0 or 1")]
    MarkerLabel,
    #[error("a marker's weight must be {0}")]
    MarkerWeight(&'static str),
    #[error("a marker needs words")]
    NoWords,
}

impl Variants {
    /// Portuguese of Portugal (`PT-PT`) and of Brazil (`PT-BR`), counted from UD Portuguese Bosque (CC BY-SA 4.0).
    #[must_use]
    #[allow(clippy::expect_used, reason = "the file is compiled in, and a test reads it")]
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<Variants> = LazyLock::new(|| {
            Variants::parse(include_str!("pt.variants")).expect("the compiled-in model is well-formed")
        });
        &SHIPPED
    }

    pub(super) fn new(header: ModelHeader, grams: Vec<(String, f32)>, markers: Vec<Marker>) -> Self {
        Self { header, grams: Grams::new(grams), markers: Markers::new(markers) }
    }

    #[must_use]
    pub fn language(&self) -> &str {
        &self.header.language
    }

    #[must_use]
    pub fn labels(&self) -> [&str; 2] {
        [&self.header.labels[0], &self.header.labels[1]]
    }

    #[must_use]
    pub fn header(&self) -> &ModelHeader {
        &self.header
    }

    #[must_use]
    pub fn grams(&self) -> usize {
        self.grams.all.len()
    }

    #[must_use]
    pub fn markers(&self) -> &[Marker] {
        self.markers.all()
    }

    #[must_use]
    pub fn weigh(&self, text: &str) -> Weight {
        let text = clean_text(text);
        let (gram_log_odds, grams) = self.gram_log_odds(&normalized_letters(&text));
        let mut seen: Vec<&str> = Vec::new();
        let (mut markers, mut marked) = ([0_u16; 2], 0.0_f32);
        self.markers.find(&text, |marker| {
            // A post has few markers: a list is the fastest set.
            if seen.len() < 64 && !seen.contains(&marker.words.as_str()) {
                seen.push(&marker.words);
                markers[marker.label] += 1;
                marked += if marker.label == 0 { marker.weight } else { -marker.weight };
            }
        });
        let log_odds = (gram_log_odds + marked.clamp(-MAX_MARKER_LOG_ODDS, MAX_MARKER_LOG_ODDS))
            .clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS);
        Weight { log_odds, grams, markers }
    }

    /// (Log odds of the first label by the letter sequences, number of known sequences.)
    pub(super) fn gram_log_odds(&self, letters: &[char]) -> (f32, u32) {
        let (sum, grams) = self.grams.sum_weights(letters);
        (if grams == 0 { 0.0 } else { self.header.scale * sum / (grams as f32).sqrt() }, grams)
    }

    /// Judges a person by all posts, in any order.
    pub fn judge(&self, weights: impl Iterator<Item = Weight>) -> VariantVerdict {
        let mut verdict = VariantVerdict { posts: 0, mean: 0.0, markers: [0; 2], label: None, score: 0.0 };
        let mut sum = 0.0;
        for weight in weights.filter(|weight| weight.grams >= MIN_GRAMS && weight.log_odds.is_finite()) {
            verdict.posts += 1;
            sum += f64::from(weight.log_odds);
            for (all, post_count) in verdict.markers.iter_mut().zip(weight.markers) {
                *all += u64::from(post_count);
            }
        }
        if verdict.posts > 0 {
            verdict.mean = sum / verdict.posts as f64;
            let together = verdict.mean * verdict.posts.min(MAX_COUNTED_POSTS) as f64;
            verdict.label = (together.abs() >= f64::from(self.header.sure)).then_some(usize::from(together < 0.0));
            verdict.score = (together / 2.0).tanh();
        }
        verdict
    }

    /// Reads the output of [`to_text`](Self::to_text).
    pub fn parse(text: &str) -> Result<Self, InvalidModel> {
        let mut reader = ModelReader::default();
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with("# ") && !line.is_empty());
        match lines.next() {
            Some((_, first)) if first.trim_end() == FORMAT => {}
            _ => return Err(InvalidModel::Format),
        }
        for (number, line) in lines {
            reader.line(line).map_err(|fault| InvalidModel::Line { number, fault })?;
        }
        reader.finish()
    }

    /// Writes the model as text, the same for the same model. After comments and the format, one line each:
    ///
    /// ```text
    /// language  pt                        tab separated, like all of them
    /// labels    PT-PT  PT-BR
    /// source    …
    /// licence   …
    /// scale     0.5
    /// sure      3.6
    /// marker    0  1  autocarro           of label 0, weight 1
    /// -112      _vo                       an n-gram: hundredths of its log-odds, and its letters; _ is the space
    /// ```
    #[must_use]
    pub fn to_text(&self) -> String {
        let ModelHeader { language, labels: [first, second], source, licence, scale, sure } = &self.header;
        let mut text = format!(
            "# Log-odds of n-grams of letters and of words, {first} over {second}: a model of the variants of a language.\n\
             # Counted from: {source}\n# Licence of this file: {licence}\n\
             {FORMAT}\nlanguage\t{language}\nlabels\t{first}\t{second}\nsource\t{source}\nlicence\t{licence}\nscale\t{scale}\nsure\t{sure}\n"
        );
        for Marker { label, weight, words } in self.markers.all() {
            let _ = writeln!(text, "marker\t{label}\t{weight}\t{words}");
        }
        for (gram, weight) in &self.grams.all {
            let _ = writeln!(text, "{}\t{}", (weight * HUNDREDTHS).round() as i32, gram.replace(' ', "_"));
        }
        text
    }
}

#[derive(Default)]
struct ModelReader {
    values: [Option<String>; 6],
    grams: Vec<(String, f32)>,
    markers: Vec<Marker>,
}

const KEYS: [&str; 6] = ["language", "labels", "source", "licence", "scale", "sure"];

impl ModelReader {
    fn line(&mut self, line: &str) -> Result<(), LineFault> {
        let (key, value) = line.split_once('\t').ok_or(LineFault::NoTab)?;
        // Most lines have an n-gram; their first column is a number, never a key.
        if let Ok(weight) = key.parse::<i32>() {
            let length = value.chars().count();
            if !(MIN_GRAM_LETTERS..=MAX_GRAM_LETTERS).contains(&length) {
                return Err(LineFault::GramLength(length));
            }
            self.grams.push((value.replace('_', " "), weight as f32 / HUNDREDTHS));
            return Ok(());
        }
        match key {
            "marker" => self.markers.push(marker(value)?),
            _ => {
                let at =
                    KEYS.iter().position(|known| *known == key).ok_or_else(|| LineFault::UnknownKey(key.to_owned()))?;
                if self.values[at].replace(value.to_owned()).is_some() {
                    return Err(LineFault::RepeatedKey(KEYS[at]));
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Variants, InvalidModel> {
        let [language, labels, source, licence, scale, sure] = &self.values;
        let need = |at: usize, values: &Option<String>| {
            values.clone().filter(|value| !value.is_empty()).ok_or(InvalidModel::Missing(KEYS[at]))
        };
        let number = |at: usize, values: &Option<String>| {
            let value: f32 = need(at, values)?.parse().map_err(|_| InvalidModel::NotANumber(KEYS[at]))?;
            if value.is_finite() && value > 0.0 { Ok(value) } else { Err(InvalidModel::NotPositive(KEYS[at])) }
        };
        let labels = need(1, labels)?;
        let (first, second) = labels
            .split_once('\t')
            .filter(|(first, second)| !first.is_empty() && !second.is_empty() && first != second)
            .ok_or(InvalidModel::Labels)?;
        if self.grams.is_empty() {
            return Err(InvalidModel::Missing("n-gram"));
        }
        let header = ModelHeader {
            language: need(0, language)?,
            labels: [first.to_owned(), second.to_owned()],
            source: need(2, source)?,
            licence: need(3, licence)?,
            scale: number(4, scale)?,
            sure: number(5, sure)?,
        };
        Ok(Variants::new(header, self.grams, self.markers))
    }
}

fn marker(value: &str) -> Result<Marker, LineFault> {
    let mut parts = value.splitn(3, '\t');
    let mut next = || parts.next().unwrap_or_default();
    let (label, weight, words) = (next(), next(), next());
    let label = ["0", "1"].iter().position(|known| *known == label).ok_or(LineFault::MarkerLabel)?;
    let weight: f32 = weight.parse().map_err(|_| LineFault::MarkerWeight("a number"))?;
    if !weight.is_finite() || weight <= 0.0 {
        return Err(LineFault::MarkerWeight("above 0"));
    }
    if words.is_empty() {
        return Err(LineFault::NoWords);
    }
    Ok(Marker { label, weight, words: words.to_owned() })
}

/// N-grams by their hash, in an open-addressing table.
#[derive(Debug, Clone)]
struct Grams {
    all: Vec<(String, f32)>,
    /// Hash (0 marks an empty slot) and weight. The size is a power of two; at most half of the slots are full.
    table: Vec<(u32, f32)>,
}

impl Grams {
    fn new(all: Vec<(String, f32)>) -> Self {
        let mut table = vec![(0, 0.0); (all.len() * 2).next_power_of_two().max(2)];
        for (gram, weight) in &all {
            let hash = gram.chars().fold(HASH_SEED, mix_letter);
            let mut at = table_index(hash, table.len());
            while table[at].0 != 0 && table[at].0 != nonzero_hash(hash) {
                at = (at + 1) & (table.len() - 1);
            }
            table[at] = (nonzero_hash(hash), *weight);
        }
        Self { all, table }
    }

    fn weight(&self, hash: u32) -> f32 {
        let mut at = table_index(hash, self.table.len());
        loop {
            match self.table[at] {
                (0, _) => return 0.0,
                (of, weight) if of == nonzero_hash(hash) => return weight,
                _ => at = (at + 1) & (self.table.len() - 1),
            }
        }
    }

    fn sum_weights(&self, letters: &[char]) -> (f32, u32) {
        let (mut sum, mut count) = (0.0_f64, 0_u32);
        for from in 0..letters.len() {
            let mut hash = HASH_SEED;
            for (at, letter) in letters[from..].iter().take(MAX_GRAM_LETTERS).enumerate() {
                hash = mix_letter(hash, *letter);
                if at + 1 >= MIN_GRAM_LETTERS {
                    sum += f64::from(self.weight(hash));
                    count = count.saturating_add(1);
                }
            }
        }
        (sum as f32, count)
    }
}

// FNV-1a over whole letters: two of a model's 15,000 n-grams share a hash in one of forty models.
const HASH_SEED: u32 = 0x811c_9dc5;

fn mix_letter(hash: u32, letter: char) -> u32 {
    (hash ^ letter as u32).wrapping_mul(0x0100_0193)
}

/// Avoids 0, the mark of an empty slot.
fn nonzero_hash(hash: u32) -> u32 {
    hash.max(1)
}

fn table_index(hash: u32, size: usize) -> usize {
    // The high bits of a product are mixed best.
    (hash.wrapping_mul(0x9e37_79b9) >> 8) as usize & (size - 1)
}
