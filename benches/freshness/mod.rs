//! Interactions that the stored counts miss, by schedule: replays cascades of real items in simulated time.

mod data;
mod policy;
mod replay;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use twitter_updater::engine::schedule::adaptive::OF_A_HARD_QUOTA;
use twitter_updater::engine::schedule::adaptive::model::Model;
use twitter_updater::engine::schedule::adaptive::train::Training;
use twitter_updater::engine::schedule::age::AgeTable;

use self::data::Set;
use self::policy::Policy;
use self::replay::{Outcome, replay};
use crate::Size;
use crate::report::{Report, Table};

/// The default of `config/default.toml`.
const AGES: &str = "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h, 30d: 1d";
const QUOTAS: [f64; 4] = [1.0, 0.5, 0.25, 2.0];
const SPLITS: u64 = 5;
const ABOUT: &str = "\
Missed: interactions that the stored counts do not show yet, per item and moment, from an item's beginning to the end of
its horizon (to where its events are known, at most 30 days): sum over events of (next refresh - event) / horizon.
Items come evenly for a lifetime and ten days before the measured ones, and for a lifetime after them. The measured ones
are the other half of the data, each once in ten days; small sets some times, so that there are a thousand items. Calls
are single ids. At quotas of 1 and 2 a policy spends what it demands; at 1/2 and 1/4 a hard quota of that share of the
table's calls holds, in the queue's order; what is unused for 15 minutes is lost.
Best table: the age table times one factor, or the age table held back by the quota, whichever missed less.
Square root: intervals by the average decay, without learning. Each figure: mean of five splits into halves.";

/// Arguments of the bench: folders of cascades (`--data FOLDER`), and whether to train a model from them (`--train`).
#[derive(Debug, Clone, Default)]
pub struct Given {
    pub folders: Vec<PathBuf>,
    pub train: bool,
}

pub async fn run(size: Size, given: Given) -> Report {
    // Hours of simulated time take seconds of a processor: not on a thread that others wait for.
    tokio::task::spawn_blocking(move || measure(size, &given)).await.unwrap()
}

fn measure(size: Size, given: &Given) -> Report {
    let table: AgeTable = AGES.parse().unwrap();
    let sets: Vec<Set> = given.folders.iter().map(|folder| data::read(folder, &table)).collect();
    if given.train {
        write(&sets, &table);
    }
    let splits = size.pick(SPLITS, 1);
    let mut tables = vec![known_rates(size, &table)];
    if !sets.is_empty() {
        tables.push(at_quotas(&sets, &table, splits));
        tables.push(elsewhere(&sets, &table));
    }
    Report { about: ABOUT.lines().map(str::to_owned).collect(), tables }
}

fn train(set: &Set, table: &AgeTable) -> Model {
    Training::new(table.clone(), set.horizon).train(&set.cascades).unwrap()
}

/// Trains on all sets and writes `config/freshness.toml`.
fn write(sets: &[Set], table: &AgeTable) {
    assert!(!sets.is_empty(), "--train needs --data FOLDER");
    // The set whose events are known for longest has the tail of the curve, too.
    let set = sets.iter().max_by_key(|set| (set.horizon, set.cascades.len())).unwrap();
    let arguments: Vec<String> = sets.iter().map(|set| format!("--data {}", set.name)).collect();
    let training = Training {
        source: format!("{}: {} items", set.name, set.cascades.len()),
        command: format!("cargo bench -- freshness {} --train", arguments.join(" ")),
        ..Training::new(table.clone(), set.horizon)
    };
    let model = training.train(&set.cascades).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/freshness.toml");
    std::fs::write(&path, model.text()).unwrap();
    eprintln!("written: {}", path.display());
}

/// Change against another, in percent.
fn change(missed: f64, against: f64) -> f64 {
    (missed / against - 1.0) * 100.0
}

/// A split's outcomes: table, best table, square root, adaptive.
fn compare(train_on: &Model, test: &Set, table: &AgeTable, quota: f64) -> [Outcome; 4] {
    let table = table.until(test.horizon);
    let plain = replay(test, &mut Policy::table(&table, 1.0), None);
    let hard = (quota < 1.0).then_some(plain.calls * quota);
    let of_table = if quota < 1.0 { replay(test, &mut Policy::table(&table, 1.0), hard) } else { plain };
    let scaled = if quota == 1.0 { plain } else { replay(test, &mut Policy::table(&table, 1.0 / quota), hard) };
    let best = if scaled.missed < of_table.missed { scaled } else { of_table };
    let share = if quota < 1.0 { quota * OF_A_HARD_QUOTA } else { quota };
    let unlearned = replay(test, &mut Policy::unlearned(&table, train_on, share), hard);
    let adaptive = replay(test, &mut Policy::adaptive(&table, train_on, share), hard);
    [of_table, best, unlearned, adaptive]
        .map(|outcome| Outcome { calls: outcome.calls / (plain.calls * quota), ..outcome })
}

fn at_quotas(sets: &[Set], table: &AgeTable, splits: u64) -> Table {
    let columns = [
        "set",
        "quota",
        "table",
        "best table",
        "square root",
        "adaptive",
        "to table %",
        "to best table %",
        "root to table %",
        "adaptive calls/quota",
        "worst split's",
        "best split's",
    ];
    let mut report = Table::new("Missed interactions per item and moment", &columns);
    for set in sets {
        let halves: Vec<(Model, Set)> = (1..=splits)
            .map(|seed| set.halves(seed))
            .map(|(train_half, test)| (train(&train_half, table), test))
            .collect();
        for quota in QUOTAS {
            let outcomes: Vec<[Outcome; 4]> =
                halves.iter().map(|(model, test)| compare(model, test, table, quota)).collect();
            report.row(row(&set.name, quota, &outcomes));
        }
    }
    report
}

fn row(name: &str, quota: f64, outcomes: &[[Outcome; 4]]) -> Vec<Value> {
    let mean = |of: &dyn Fn(&[Outcome; 4]) -> f64| outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64;
    let calls: Vec<f64> = outcomes.iter().map(|outcome| outcome[3].calls).collect();
    let changes = outcomes.iter().map(|outcome| change(outcome[3].missed, outcome[1].missed));
    let (worst, best) = changes.fold((f64::MIN, f64::MAX), |(worst, best), one| (worst.max(one), best.min(one)));
    let mut row = vec![json!(name), json!(quota)];
    row.extend((0..4).map(|at| json!(mean(&|outcome| outcome[at].missed))));
    row.push(json!(mean(&|outcome| change(outcome[3].missed, outcome[0].missed))));
    row.push(json!(mean(&|outcome| change(outcome[3].missed, outcome[1].missed))));
    row.push(json!(mean(&|outcome| change(outcome[2].missed, outcome[0].missed))));
    row.push(json!(calls.iter().sum::<f64>() / calls.len() as f64));
    row.extend([json!(worst), json!(best)]);
    row
}

/// Trained on all of one set, run on all of the others.
fn elsewhere(sets: &[Set], table: &AgeTable) -> Table {
    let columns = [
        "trained on",
        "run on",
        "quota",
        "to table %",
        "to best table %",
        "adaptive calls/quota",
        "price factor",
        "level",
    ];
    let mut report = Table::new("Trained on one set, run on another", &columns);
    let mut models: Vec<(String, Model)> = sets.iter().map(|set| (set.name.clone(), train(set, table))).collect();
    models.extend(Model::embedded().ok().map(|model| ("config/freshness.toml".to_owned(), model)));
    for set in sets {
        // A model is no test on the set that it was trained on.
        for (name, model) in
            models.iter().filter(|(name, model)| *name != set.name && !model.source.starts_with(&set.name))
        {
            for quota in QUOTAS {
                let [of_table, best, _, adaptive] = compare(model, set, table, quota);
                let (to_table, to_best) =
                    (change(adaptive.missed, of_table.missed), change(adaptive.missed, best.missed));
                let own = [to_table, to_best, adaptive.calls, adaptive.normaliser.price, adaptive.normaliser.level];
                let mut row = vec![json!(name), json!(set.name), json!(quota)];
                row.extend(own.map(|value| json!(value)));
                report.row(row);
            }
        }
    }
    report
}

/// Items whose true rates are known.
fn known_rates(size: Size, table: &AgeTable) -> Table {
    let columns =
        ["items", "quota", "table", "known rates", "adaptive", "to known rates %", "to table %", "calls/known"];
    let mut report = Table::new("Synthetic items, whose rates are known", &columns);
    let set = data::made_up(size.pick(1_000, 120), table);
    let (train_half, test) = set.halves(1);
    let model = train(&train_half, table);
    let (known, curve) = test.truth.clone().unwrap();
    let truth = Model { curve, ..model.clone() };
    for quota in size.pick(QUOTAS.to_vec(), vec![1.0]) {
        let plain = replay(&test, &mut Policy::table(table, 1.0), None);
        let best = replay(&test, &mut Policy::known(table, &truth, quota, &known), None);
        let adaptive = replay(&test, &mut Policy::adaptive(table, &model, quota), None);
        // Missed interactions are proportional to 1 / calls, so both are compared at the same number of calls.
        let off = change(adaptive.missed * adaptive.calls, best.missed * best.calls);
        let mut row = vec![json!(test.cascades.len()), json!(quota)];
        row.extend([plain.missed, best.missed, adaptive.missed, off].map(|value| json!(value)));
        row.extend([change(adaptive.missed, plain.missed), adaptive.calls / best.calls].map(|value| json!(value)));
        report.row(row);
    }
    report
}
