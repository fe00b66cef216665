//! The figures of a model of variants on labelled texts: groups of texts of one label, as a person's posts are.

use serde::Serialize;

use super::labelled::Labelled;
use super::variants::{Variants, Weight};

/// How a model is evaluated.
#[derive(Debug, Clone, Copy)]
pub struct Evaluation {
    /// Texts of a group, ≥ 1.
    pub group: usize,
    /// Groups of each label, ≥ 1, drawn with replacement.
    pub resamples: usize,
    /// The same seed draws the same groups.
    pub seed: u64,
}

/// Counted groups of one label.
#[derive(Debug, Clone, Serialize)]
pub struct LabelFigures {
    /// The label.
    pub label: String,
    /// Texts with it.
    pub texts: usize,
    /// Groups that the model called its first label, its second label, and left open.
    pub called: [usize; 3],
    /// The share of groups of this label that were called so, 0 to 1; `None` for a label that the model does not know.
    pub recall: Option<f64>,
    /// Of the groups that were called so, the share that was, where both labels have as many groups; `None` also where none
    /// was called so. Groups of labels that the model does not know are not counted.
    pub precision: Option<f64>,
    /// The interval (95 %) of recall, from evaluations of texts drawn with replacement: of other texts of the same kind.
    pub recall_interval: Option<[f64; 2]>,
    /// The same of precision.
    pub precision_interval: Option<[f64; 2]>,
}

/// Repetitions for the intervals.
const REPETITIONS: usize = 200;

/// Draws groups of each label and judges them. Labels are in the order of the model, then others by name.
#[must_use]
pub fn evaluate(model: &Variants, texts: &[Labelled], how: Evaluation) -> Vec<LabelFigures> {
    let [first, second] = model.labels();
    let mut labels: Vec<&str> =
        texts.iter().map(|text| text.label.as_str()).filter(|l| *l != first && *l != second).collect();
    labels.sort_unstable();
    labels.dedup();
    let of = |label: &str| -> Vec<Weight> {
        texts.iter().filter(|text| text.label == label).map(|text| model.weigh(&text.text)).collect()
    };
    let both = [of(first), of(second)];
    let mut random = Random(how.seed);
    let called = both.each_ref().map(|weights| draw(model, weights, how, &mut random));
    let repeated: Vec<[[usize; 3]; 2]> = (0..REPETITIONS)
        .map(|_| both.each_ref().map(|weights| draw(model, &random.again(weights), how, &mut random)))
        .collect();
    let known = [first, second].into_iter().enumerate().map(|(at, label)| LabelFigures {
        label: label.to_owned(),
        texts: both[at].len(),
        called: called[at],
        recall: recall(&called, at),
        precision: precision(&called, at),
        recall_interval: interval(repeated.iter().filter_map(|called| recall(called, at)).collect()),
        precision_interval: interval(repeated.iter().filter_map(|called| precision(called, at)).collect()),
    });
    let mut figures: Vec<LabelFigures> = known.collect();
    for label in labels {
        let weights = of(label);
        figures.push(LabelFigures {
            label: label.to_owned(),
            texts: weights.len(),
            called: draw(model, &weights, how, &mut random),
            recall: None,
            precision: None,
            recall_interval: None,
            precision_interval: None,
        });
    }
    figures
}

/// Groups by what they were called: first, second, open.
fn draw(model: &Variants, weights: &[Weight], how: Evaluation, random: &mut Random) -> [usize; 3] {
    let mut called = [0; 3];
    if weights.is_empty() {
        return called;
    }
    for _ in 0..how.resamples {
        let group = (0..how.group).map(|_| weights[random.below(weights.len())]);
        called[model.judge(group).label.unwrap_or(2)] += 1;
    }
    called
}

fn recall(called: &[[usize; 3]; 2], label: usize) -> Option<f64> {
    share(called[label][label], called[label].iter().sum())
}

fn precision(called: &[[usize; 3]; 2], label: usize) -> Option<f64> {
    share(called[label][label], called[0][label] + called[1][label])
}

fn share(part: usize, of: usize) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// From the 2.5th to the 97.5th of a hundred.
fn interval(mut values: Vec<f64>) -> Option<[f64; 2]> {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get(((values.len() as f64 - 1.0) * share).round() as usize).copied();
    Some([at(0.025)?, at(0.975)?])
}

/// SplitMix64: the same everywhere, and for ever.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * limit as u128) >> 64) as usize
    }

    /// As many, drawn with replacement.
    fn again(&mut self, weights: &[Weight]) -> Vec<Weight> {
        (0..weights.len()).map(|_| weights[self.below(weights.len())]).collect()
    }
}
