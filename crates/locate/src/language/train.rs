//! Training of a model of variants from labelled texts, and of its scale from held-out texts.

use std::collections::HashMap;

use super::cut::clean_text;
use super::labelled::LabelledText;
use super::markers::Marker;
use super::variants::{MAX_GRAM_LETTERS, MIN_GRAM_LETTERS, ModelHeader, Variants};
use super::words::normalized_letters;

#[derive(Debug, Clone)]
pub struct Training {
    /// ISO 639-1: `pt`.
    pub language: String,
    /// Labels of the two variants; texts with other labels are skipped.
    pub labels: [String; 2],
    pub source: String,
    pub licence: String,
    /// Words of posts, with weights that were set by hand.
    pub markers: Vec<Marker>,
}

/// N-grams in a model: those with the highest G² (likelihood ratio of counts). Fewer move the middle between the labels away from 0.
const MAX_GRAMS: usize = 15_000;
const SMOOTHING: f64 = 0.75;
/// A rarer n-gram gives no evidence.
const MIN_GRAM_COUNT: f64 = 2.0;
/// Parts of the texts; each is held out once. Parts are runs of lines: sentences of one article stay together.
const HELD_OUT_PARTS: usize = 10;
const MIN_TEXTS: usize = 100;
const SURE: f32 = 3.6;

/// A label has too few texts for a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("has {count} texts labelled {label}; a model needs at least {MIN_TEXTS} of each label")]
pub struct TooFewTexts {
    count: usize,
    label: String,
}

impl Variants {
    /// The same texts in the same order give the same model.
    pub fn train(labelled: impl Iterator<Item = LabelledText>, training: &Training) -> Result<Self, TooFewTexts> {
        let of = |label: &str| training.labels.iter().position(|known| known == label);
        let texts: Vec<(Vec<char>, usize)> = labelled
            .filter_map(|one| of(&one.label).map(|label| (normalized_letters(&clean_text(&one.text)), label)))
            .collect();
        for (at, label) in training.labels.iter().enumerate() {
            let count = texts.iter().filter(|(_, of)| *of == at).count();
            if count < MIN_TEXTS {
                return Err(TooFewTexts { count, label: label.clone() });
            }
        }
        let mut held_out = Vec::with_capacity(texts.len());
        for part in 0..HELD_OUT_PARTS {
            let (from, to) = (part * texts.len() / HELD_OUT_PARTS, (part + 1) * texts.len() / HELD_OUT_PARTS);
            let model =
                Self::new(training.header(1.0), gram_weights(texts[..from].iter().chain(&texts[to..])), Vec::new());
            held_out.extend(
                texts[from..to].iter().map(|(letters, label)| (f64::from(model.gram_log_odds(letters).0), *label)),
            );
        }
        let header = training.header(fit_scale(&held_out));
        Ok(Self::new(header, gram_weights(texts.iter()), training.markers.clone()))
    }
}

impl Training {
    fn header(&self, scale: f32) -> ModelHeader {
        ModelHeader {
            language: self.language.clone(),
            labels: self.labels.clone(),
            source: self.source.clone(),
            licence: self.licence.clone(),
            scale,
            sure: SURE,
        }
    }
}

/// N-grams with the highest G², and their log-odds, rounded as in the file.
fn gram_weights<'a>(texts: impl Iterator<Item = &'a (Vec<char>, usize)>) -> Vec<(String, f32)> {
    let mut counts: HashMap<&[char], [f64; 2]> = HashMap::new();
    let mut all = [0.0; 2];
    for (letters, label) in texts {
        for from in 0..letters.len() {
            for length in MIN_GRAM_LETTERS..=MAX_GRAM_LETTERS.min(letters.len() - from) {
                counts.entry(&letters[from..from + length]).or_default()[*label] += 1.0;
                all[*label] += 1.0;
            }
        }
    }
    let share = |count: f64, label: usize| (count + SMOOTHING) / (all[label] + 2.0 * SMOOTHING);
    let g_squared = |count: [f64; 2]| -> f64 {
        let together = count[0] + count[1];
        let part = |label: usize| {
            let expected = together * all[label] / (all[0] + all[1]);
            if count[label] > 0.0 { count[label] * (count[label] / expected).ln() } else { 0.0 }
        };
        2.0 * (part(0) + part(1))
    };
    let common = counts.into_iter().filter(|(_, count)| count[0] + count[1] >= MIN_GRAM_COUNT);
    let mut ranked: Vec<(&[char], f64, f64)> =
        common.map(|(gram, count)| (gram, g_squared(count), (share(count[0], 0) / share(count[1], 1)).ln())).collect();
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(other.0)));
    ranked.truncate(MAX_GRAMS);
    let rounded = |weight: f64| ((weight * 100.0).round() / 100.0) as f32;
    ranked.into_iter().map(|(gram, _, weight)| (gram.iter().collect(), rounded(weight))).collect()
}

/// Factor that turns held-out sums into the observed log-odds: logistic regression through 0, by Newton's method.
fn fit_scale(held_out: &[(f64, usize)]) -> f32 {
    let mut scale = 0.0_f64;
    for _ in 0..50 {
        let (mut slope, mut curvature) = (0.0, 0.0);
        for (x, label) in held_out {
            let first = 1.0 / (1.0 + (-scale * x).exp());
            slope += (if *label == 0 { 1.0 } else { 0.0 } - first) * x;
            curvature += first * (1.0 - first) * x * x;
        }
        if curvature <= f64::EPSILON {
            break;
        }
        let step = slope / curvature;
        scale += step;
        if step.abs() < 1e-9 {
            break;
        }
    }
    ((scale.max(0.001) * 1_000.0).round() / 1_000.0) as f32
}
