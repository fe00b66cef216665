//! Interactions that the stored counts miss, by schedule: replays cascades of real items in simulated time.

mod data;
mod picture;
mod policy;
mod replay;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use twitter_updater::engine::schedule::adaptive::model::Model;
use twitter_updater::engine::schedule::adaptive::train::Training;
use twitter_updater::engine::schedule::age::AgeTable;

use self::data::Set;
use self::policy::Policy;
use self::replay::{BATCH, Outcome, Terms, replay};
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
are the other half of the data, each once in ten days; small sets some times, so that there are a thousand items.
The queue is the reference (tests/it/support/queue_model.rs). A claim has up to 100 ids; without a quota an id waits up
to 5 s for others, without lookahead. Calls and quotas count ids. At quotas of 1 and 2 a policy spends what it demands;
at 1/2 and 1/4 a hard quota of that share of the table's calls holds: a claim has as many ids as the quota permits by
then, some up to 0.25 of their interval early. What is unused for 15 minutes is lost.
Best table: the age table times one factor, or the age table held back by the quota, whichever missed less.
Square root: intervals by the average decay, without learning. Each figure: mean of five splits into halves.";

/// Arguments of the bench: folders of cascades (`--data FOLDER`), and whether to train a model from them (`--train`) or
/// to draw the picture of `docs/freshness.md` (`--picture`).
#[derive(Debug, Clone, Default)]
pub struct Given {
    pub folders: Vec<PathBuf>,
    pub train: bool,
    pub picture: bool,
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
        let at_quotas = at_quotas(&sets, &table, splits);
        if given.picture {
            save("docs/freshness.svg", &picture::svg(&at_quotas));
        }
        tables.extend([
            at_quotas,
            of_cohorts(&sets, &table, splits),
            elsewhere(&sets, &table),
            in_batches(&sets, &table, size),
        ]);
    }
    Report { about: ABOUT.lines().map(str::to_owned).collect(), tables }
}

fn train(set: &Set, table: &AgeTable) -> Model {
    Training::new(table.clone(), set.horizon).train(&set.cascades).unwrap()
}

/// Trains on all sets and writes `crates/engine/models/freshness.toml`.
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
    save("crates/engine/models/freshness.toml", &model.to_toml());
}

/// Into a file of the repository.
fn save(file: &str, text: &str) {
    std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(file), text).unwrap();
    eprintln!("written: {file}");
}

/// Change against another, in percent.
fn change(missed: f64, against: f64) -> f64 {
    (missed / against - 1.0) * 100.0
}

/// Does the same with each, all at the same time.
fn each<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let started: Vec<_> = all.iter().map(|one| scope.spawn(|| work(one))).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Outcomes at each of the [`QUOTAS`]: table, best table, square root, adaptive.
fn at_each_quota(train_on: &Model, test: &Set, table: &AgeTable, terms: Terms) -> Vec<[Outcome; 4]> {
    let table = table.with_lifetime(test.horizon);
    let plain = replay(test, &mut Policy::table(&table, 1.0), terms);
    each(&QUOTAS, |quota| compare(train_on, test, &table, *quota, terms, plain))
}

/// At a quota of what the table calls without one.
fn compare(train_on: &Model, test: &Set, table: &AgeTable, quota: f64, terms: Terms, plain: Outcome) -> [Outcome; 4] {
    let hard = terms.with((quota < 1.0).then_some(plain.calls * quota));
    let of_table = if quota < 1.0 { replay(test, &mut Policy::table(table, 1.0), hard) } else { plain };
    let scaled = if quota == 1.0 { plain } else { replay(test, &mut Policy::table(table, 1.0 / quota), hard) };
    let best = if scaled.missed < of_table.missed { scaled } else { of_table };
    // As the product: a quota below the table's calls does not lower what is demanded.
    let share = quota.max(1.0);
    let unlearned = replay(test, &mut Policy::unlearned(table, train_on, share), hard);
    let adaptive = replay(test, &mut Policy::adaptive(table, train_on, share), hard);
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
        let outcomes: Vec<Vec<[Outcome; 4]>> = (1..=splits)
            .map(|seed| set.halves(seed))
            .map(|(train_half, test)| at_each_quota(&train(&train_half, table), &test, table, Terms::ONE_BY_ONE))
            .collect();
        for (at, quota) in QUOTAS.into_iter().enumerate() {
            let outcomes: Vec<[Outcome; 4]> = outcomes.iter().map(|quotas| quotas[at]).collect();
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

/// The same where claims are full: four times the items, and a claim waits until a quota permits 100 ids; without a
/// quota, by the default lookahead.
fn in_batches(sets: &[Set], table: &AgeTable, size: Size) -> Table {
    let columns = [
        "set",
        "quota",
        "ids per claim",
        "table",
        "best table",
        "adaptive",
        "to table %",
        "to best table %",
        "adaptive calls/quota",
    ];
    let mut report = Table::new("The same with few ids in a claim and with full claims, one split", &columns);
    let few = Terms { times: size.pick(4, 1), ..Terms::ONE_BY_ONE };
    let full = Terms { fewest: BATCH, lookahead: crate::fill::defaults().updater.lookahead, ..few };
    for set in sets {
        let (train_half, test) = set.halves(1);
        let model = train(&train_half, table);
        let both = each(&[few, full], |terms| at_each_quota(&model, &test, table, *terms));
        for (at, quota) in QUOTAS.into_iter().enumerate() {
            for outcomes in &both {
                let [of_table, best, _, adaptive] = outcomes[at];
                let missed = [of_table, best, adaptive].map(|outcome| outcome.missed);
                let to = [of_table, best].map(|other| change(adaptive.missed, other.missed));
                let mut row = vec![json!(set.name), json!(quota), json!(adaptive.per_claim)];
                row.extend(missed.into_iter().chain(to).chain([adaptive.calls]).map(|value| json!(value)));
                report.row(row);
            }
        }
    }
    report
}

/// Items that all come within a day, against the age table at as many calls.
fn of_cohorts(sets: &[Set], table: &AgeTable, splits: u64) -> Table {
    let columns =
        ["set", "quota", "to table at as many calls %", "worst split's", "best split's", "adaptive calls/quota"];
    let mut report = Table::new("Items that all come within one day, without a quota", &columns);
    let terms = Terms { is_cohort: true, ..Terms::ONE_BY_ONE };
    for set in sets {
        let splits: Vec<(Model, Set)> = (1..=splits)
            .map(|seed| set.halves(seed))
            .map(|(train_half, test)| (train(&train_half, table), test))
            .collect();
        let table = table.with_lifetime(set.horizon);
        for share in [1.0, 0.5] {
            let outcomes = each(&splits, |(model, test)| {
                let adaptive = replay(test, &mut Policy::adaptive(&table, model, share), terms);
                let plain = replay(test, &mut Policy::table(&table, 1.0), terms);
                let to_table = change(adaptive.missed, at_as_many_calls(test, &table, terms, adaptive.calls).missed);
                (to_table, adaptive.calls / (plain.calls * share))
            });
            let mean = |of: fn(&(f64, f64)) -> f64| outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64;
            let changes = || outcomes.iter().map(|outcome| outcome.0);
            let (worst, best) = (changes().fold(f64::MIN, f64::max), changes().fold(f64::MAX, f64::min));
            let figures = [mean(|outcome| outcome.0), worst, best, mean(|outcome| outcome.1)];
            let mut row = vec![json!(set.name), json!(share)];
            row.extend(figures.map(|value| json!(value)));
            report.row(row);
        }
    }
    report
}

/// The age table times the factor at which it makes as many calls, within half a percent.
fn at_as_many_calls(test: &Set, table: &AgeTable, terms: Terms, calls: f64) -> Outcome {
    const STEPS: usize = 14;
    let mut factor = 1.0;
    let mut outcome = replay(test, &mut Policy::table(table, factor), terms);
    for _ in 0..STEPS {
        let off = outcome.calls / calls;
        if (off - 1.0).abs() < 0.005 {
            break;
        }
        factor *= off;
        outcome = replay(test, &mut Policy::table(table, factor), terms);
    }
    outcome
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
    // One that was trained on one of these sets is among them.
    let embedded = Model::embedded().ok().filter(|model| !sets.iter().any(|set| model.source.starts_with(&set.name)));
    models.extend(embedded.map(|model| ("crates/engine/models/freshness.toml".to_owned(), model)));
    for set in sets {
        // A model is no test on the set that it was trained on.
        for (name, model) in models.iter().filter(|(name, _)| *name != set.name) {
            let outcomes = at_each_quota(model, set, table, Terms::ONE_BY_ONE);
            for (quota, [of_table, best, _, adaptive]) in QUOTAS.into_iter().zip(outcomes) {
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
    let plain = replay(&test, &mut Policy::table(table, 1.0), Terms::ONE_BY_ONE);
    let quotas = size.pick(QUOTAS.to_vec(), vec![1.0]);
    let outcomes = each(&quotas, |quota| {
        let best = replay(&test, &mut Policy::known(table, &truth, *quota, &known), Terms::ONE_BY_ONE);
        (best, replay(&test, &mut Policy::adaptive(table, &model, *quota), Terms::ONE_BY_ONE))
    });
    for (quota, (best, adaptive)) in quotas.into_iter().zip(outcomes) {
        // Missed interactions are proportional to 1 / calls, so both are compared at the same number of calls.
        let off = change(adaptive.missed * adaptive.calls, best.missed * best.calls);
        let mut row = vec![json!(test.cascades.len()), json!(quota)];
        row.extend([plain.missed, best.missed, adaptive.missed, off].map(|value| json!(value)));
        row.extend([change(adaptive.missed, plain.missed), adaptive.calls / best.calls].map(|value| json!(value)));
        report.row(row);
    }
    report
}
