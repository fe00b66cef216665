//! Figures of a model of variants on labelled texts. A group of texts with one label stands for a person's posts.

use serde::Serialize;

use super::labelled::LabelledText;
use super::variants::{Variants, Weight};

#[derive(Debug, Clone, Copy)]
pub struct EvaluationSettings {
    /// Texts per group, ≥ 1.
    pub group: usize,
    /// Groups per label, ≥ 1, drawn with replacement.
    pub resamples: usize,
    pub seed: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct LabelFigures {
    pub label: String,
    pub texts: usize,
    /// Groups that got the first label, the second label, and no label.
    pub called: [usize; 3],
    /// Recall, 0 to 1: share of the groups of this label's texts that the model judged to have this label. `None` for a label that the
    /// model does not know.
    pub recall: Option<f64>,
    /// Share of correct groups among those that got this label, of equally many groups of both labels. `None` if no group got it.
    pub precision: Option<f64>,
    /// 95 % interval of recall, from evaluations of texts drawn with replacement: for other texts of the same kind.
    pub recall_interval: Option<[f64; 2]>,
    pub precision_interval: Option<[f64; 2]>,
}

const BOOTSTRAP_REPETITIONS: usize = 200;

/// Judges random groups of each label. The model's labels come first, then others by name.
#[must_use]
pub fn evaluate(model: &Variants, texts: &[LabelledText], settings: EvaluationSettings) -> Vec<LabelFigures> {
    let [first, second] = model.labels();
    let mut labels: Vec<&str> =
        texts.iter().map(|text| text.label.as_str()).filter(|l| *l != first && *l != second).collect();
    labels.sort_unstable();
    labels.dedup();
    let of = |label: &str| -> Vec<Weight> {
        texts.iter().filter(|text| text.label == label).map(|text| model.weigh(&text.text)).collect()
    };
    let both = [of(first), of(second)];
    let mut random = Random(settings.seed);
    let called = both.each_ref().map(|weights| judge_random_groups(model, weights, settings, &mut random));
    let repeated: Vec<[[usize; 3]; 2]> = (0..BOOTSTRAP_REPETITIONS)
        .map(|_| {
            both.each_ref().map(|weights| judge_random_groups(model, &random.resample(weights), settings, &mut random))
        })
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
            called: judge_random_groups(model, &weights, settings, &mut random),
            recall: None,
            precision: None,
            recall_interval: None,
            precision_interval: None,
        });
    }
    figures
}

/// Counts the verdicts on random groups: first label, second label, open.
fn judge_random_groups(
    model: &Variants,
    weights: &[Weight],
    settings: EvaluationSettings,
    random: &mut Random,
) -> [usize; 3] {
    let mut called = [0; 3];
    if weights.is_empty() {
        return called;
    }
    for _ in 0..settings.resamples {
        let group = (0..settings.group).map(|_| weights[random.below(weights.len())]);
        called[model.judge(group).label.unwrap_or(2)] += 1;
    }
    called
}

fn recall(called: &[[usize; 3]; 2], label: usize) -> Option<f64> {
    ratio(called[label][label], called[label].iter().sum())
}

fn precision(called: &[[usize; 3]; 2], label: usize) -> Option<f64> {
    ratio(called[label][label], called[0][label] + called[1][label])
}

fn ratio(part: usize, of: usize) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// The 2.5th and the 97.5th percentile.
fn interval(mut values: Vec<f64>) -> Option<[f64; 2]> {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get(((values.len() as f64 - 1.0) * share).round() as usize).copied();
    Some([at(0.025)?, at(0.975)?])
}

/// SplitMix64: gives the same numbers on every platform, for ever.
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

    fn resample(&mut self, weights: &[Weight]) -> Vec<Weight> {
        (0..weights.len()).map(|_| weights[self.below(weights.len())]).collect()
    }
}
