//! The best settings of the policies, searched on the very people that they are measured on.

use std::sync::Arc;

use twitter_updater::engine::schedule::visits::coefficients::Coefficients;
use twitter_updater::engine::schedule::visits::rhythm::{DAY, HOUR};
use twitter_updater::engine::schedule::visits::{Options, Policy, Visits};

use super::data::Set;
use super::options;
use super::replay::{self, Outcome};

/// Settings, and what comes of them without a quota.
pub struct Best {
    pub options: Options,
    pub outcome: Outcome,
}

type Change = fn(&mut Options, f64);

/// Values of each setting that are tried.
fn settings(policy: Policy) -> Vec<(Change, Vec<f64>)> {
    match policy {
        Policy::Classes => vec![
            (|options, by| options.classes.step = by, vec![1.05, 1.1, 1.2, 1.4, 1.7, 2.2]),
            (|options, by| options.classes.up = by as u8, vec![1.0, 2.0, 5.0, 10.0, 20.0, 40.0]),
            (|options, by| options.classes.down = by as u8, vec![2.0, 5.0, 10.0, 20.0, 40.0, 80.0]),
            (|options, by| options.classes.just = (by * HOUR as f64) as i64, vec![0.0, 1.0, 8.0, 24.0, 48.0]),
            (|options, by| options.classes.night = night(by), vec![0.0, 4.0, 8.0]),
        ],
        Policy::Hash => vec![
            (|options, by| options.hash.span = (by * DAY as f64) as i64, vec![0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 14.0]),
            (|options, by| options.hash.weight = by, vec![0.05, 0.1, 0.2, 0.4, 0.7, 0.9]),
            (|options, by| options.hash.by_kind = by > 0.0, vec![0.0, 1.0]),
            (|options, by| options.hash.weekends = by > 0.0, vec![0.0, 1.0]),
        ],
        _ => vec![],
    }
}

/// So many hours from 8 UTC on: the quietest of these people begin then.
fn night(hours: f64) -> [u8; 2] {
    [8, 8 + hours as u8]
}

/// One setting after another, each at the best of the others so far; twice.
pub fn best(set: &Set, found: &Arc<Coefficients>, policy: Policy, per_day: f64) -> Best {
    let at = |options: Options| {
        let (_, outcome) = replay::at_calls(set, &Visits::new(options, found.clone()), per_day, None);
        // One that cannot make so many visits by any threshold is none.
        let delay = if (outcome.calls / per_day - 1.0).abs() < 0.05 {
            outcome.mean_h * outcome.calls / per_day
        } else {
            f64::INFINITY
        };
        (delay, Best { options, outcome })
    };
    let mut best = at(options(policy, per_day));
    for (change, values) in settings(policy).iter().chain(&settings(policy)) {
        for value in values {
            let mut options = best.1.options;
            change(&mut options, *value);
            if options == best.1.options {
                continue;
            }
            let other = at(options);
            if other.0 < best.0 {
                best = other;
            }
        }
    }
    best.1
}

/// The settings in words.
pub fn text(options: &Options) -> String {
    let hours = |ms: i64| ms as f64 / HOUR as f64;
    match options.policy {
        Policy::Classes => {
            let rules = options.classes;
            format!(
                "step {}, up {}, down {}, just {} h, night {:?}",
                rules.step,
                rules.up,
                rules.down,
                hours(rules.just),
                rules.night
            )
        }
        Policy::Hash => {
            let rules = options.hash;
            let [weekends, kinds] = [rules.weekends, rules.by_kind].map(|is| if is { "yes" } else { "no" });
            format!("weight {}, span {} h, weekends {weekends}, by kind {kinds}", rules.weight, hours(rules.span))
        }
        _ => "-".into(),
    }
}
