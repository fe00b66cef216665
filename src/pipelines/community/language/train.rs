//! Training of a model of variants from labelled texts, and of its scale from held-out texts.

use std::collections::HashMap;

use super::cut::cut;
use super::labelled::Labelled;
use super::markers::Marker;
use super::variants::{Head, LONGEST, SHORTEST, Variants};
use super::words::letters;

#[derive(Debug, Clone)]
pub struct Training {
    /// ISO 639-1: `pt`.
    pub language: String,
    /// Labels of the two variants; texts with other labels are skipped.
    pub labels: [String; 2],
    pub source: String,
    pub licence: String,
    /// Words of posts, with weights that no count gives.
    pub markers: Vec<Marker>,
}

/// N-grams in a model: those with the highest G² (likelihood ratio of counts). Fewer move the middle between the labels away from 0.
const KEPT: usize = 15_000;
/// Smoothing: added to each count.
const ADDED: f64 = 0.75;
/// Minimum count of an n-gram in all texts: a rarer one says nothing.
const RAREST: f64 = 2.0;
/// Parts of the texts; each is held out once. Parts are runs of lines: sentences of one article stay together.
const PARTS: usize = 10;
const FEWEST_TEXTS: usize = 100;
/// See `Head::sure`.
const SURE: f32 = 3.6;

impl Variants {
    /// Trains a model. The same texts in the same order give the same model. Fails if a label has too few texts.
    pub fn train(labelled: impl Iterator<Item = Labelled>, training: &Training) -> Result<Self, String> {
        let of = |label: &str| training.labels.iter().position(|known| known == label);
        let texts: Vec<(Vec<char>, usize)> =
            labelled.filter_map(|one| of(&one.label).map(|label| (letters(&cut(&one.text)), label))).collect();
        for (at, label) in training.labels.iter().enumerate() {
            let count = texts.iter().filter(|(_, of)| *of == at).count();
            if count < FEWEST_TEXTS {
                return Err(format!(
                    "has {count} texts labelled {label}; a model needs at least {FEWEST_TEXTS} of each label"
                ));
            }
        }
        let mut held_out = Vec::with_capacity(texts.len());
        for part in 0..PARTS {
            let (from, to) = (part * texts.len() / PARTS, (part + 1) * texts.len() / PARTS);
            let model = Self::new(training.head(1.0), weights(texts[..from].iter().chain(&texts[to..])), Vec::new());
            held_out
                .extend(texts[from..to].iter().map(|(letters, label)| (f64::from(model.of_grams(letters).0), *label)));
        }
        let head = training.head(scale(&held_out));
        Ok(Self::new(head, weights(texts.iter()), training.markers.clone()))
    }
}

impl Training {
    fn head(&self, scale: f32) -> Head {
        Head {
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
fn weights<'a>(texts: impl Iterator<Item = &'a (Vec<char>, usize)>) -> Vec<(String, f32)> {
    let mut counts: HashMap<&[char], [f64; 2]> = HashMap::new();
    let mut all = [0.0; 2];
    for (letters, label) in texts {
        for from in 0..letters.len() {
            for length in SHORTEST..=LONGEST.min(letters.len() - from) {
                counts.entry(&letters[from..from + length]).or_default()[*label] += 1.0;
                all[*label] += 1.0;
            }
        }
    }
    let share = |count: f64, label: usize| (count + ADDED) / (all[label] + 2.0 * ADDED);
    let g_squared = |count: [f64; 2]| -> f64 {
        let together = count[0] + count[1];
        let part = |label: usize| {
            let expected = together * all[label] / (all[0] + all[1]);
            if count[label] > 0.0 { count[label] * (count[label] / expected).ln() } else { 0.0 }
        };
        2.0 * (part(0) + part(1))
    };
    let common = counts.into_iter().filter(|(_, count)| count[0] + count[1] >= RAREST);
    let mut ranked: Vec<(&[char], f64, f64)> =
        common.map(|(gram, count)| (gram, g_squared(count), (share(count[0], 0) / share(count[1], 1)).ln())).collect();
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(other.0)));
    ranked.truncate(KEPT);
    let rounded = |weight: f64| ((weight * 100.0).round() / 100.0) as f32;
    ranked.into_iter().map(|(gram, _, weight)| (gram.iter().collect(), rounded(weight))).collect()
}

/// Factor that turns held-out sums into the observed log-odds: logistic regression through 0, by Newton's method.
fn scale(held_out: &[(f64, usize)]) -> f32 {
    let mut scale = 0.0_f64;
    for _ in 0..50 {
        let (mut slope, mut bend) = (0.0, 0.0);
        for (x, label) in held_out {
            let first = 1.0 / (1.0 + (-scale * x).exp());
            slope += (if *label == 0 { 1.0 } else { 0.0 } - first) * x;
            bend += first * (1.0 - first) * x * x;
        }
        if bend <= f64::EPSILON {
            break;
        }
        let step = slope / bend;
        scale += step;
        if step.abs() < 1e-9 {
            break;
        }
    }
    ((scale.max(0.001) * 1_000.0).round() / 1_000.0) as f32
}
