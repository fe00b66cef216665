//! Delay of posts from their making to a visit, by visiting policy: real and made-up people in simulated time; and the
//! tables of the papers.

pub mod data;
mod paper;
mod probe;
mod replay;
mod rivals;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use research::training::{ObservedItem, Training};
use serde_json::json;
use twitter_updater::engine::schedule::budgeted::Spend;
use twitter_updater::engine::schedule::visits::coefficients::{Coefficients, INPUTS};
use twitter_updater::engine::schedule::visits::rhythm::DAY;
use twitter_updater::engine::schedule::visits::{Options, Policy, Visits};

use self::data::Set;
use self::replay::Outcome;
use crate::Size;
use crate::report::{Report, Table};

const ABOUT: &str = "\
Delay: from a post to the visit that finds it, hours, of all posts of the second half of each person's time; posts that no
visit found count up to the end. The first half trains. Networks of less than 26.9 days are left out, and people whose
timeline was cut: 1,000 posts and more, the first of them later than two days after the network's first and later than 1.5
times the person's longest silence.
Uneven: as many visits of a person and day on average, made whenever they are due; each policy at the price (classes, hash
and adaptive: a factor on all intervals or thresholds) at which it makes as many.
Quota: so many visits of a person and day, spread evenly over time, unused ones lost; the queue is the reference
(tests/it/support/queue_model.rs), the price is corrected once a day, visits may be made when half of their interval is over.
Best settings: of classes and hash, searched on the measured half itself, one setting after another, twice over.";

/// Visits of a person and day.
const BUDGETS: [f64; 2] = [1.0, 4.0];
const POLICIES: [Policy; 5] = [Policy::RoundRobin, Policy::Poisson, Policy::Classes, Policy::Hash, Policy::Adaptive];

/// Arguments of the bench: folders of timelines (`--data FOLDER`), and whether to train coefficients from the first of them
/// (`--train`).
#[derive(Debug, Clone, Default)]
pub struct Given {
    pub folders: Vec<PathBuf>,
    pub train: bool,
}

pub async fn run(size: Size, given: Given) -> Report {
    // Weeks of simulated time take minutes of a processor: not on a thread that others wait for.
    tokio::task::spawn_blocking(move || measure(size, &given)).await.unwrap()
}

pub fn measure(size: Size, given: &Given) -> Report {
    let mut tables = Vec::new();
    if given.train {
        write(given);
    }
    tables.push(known_rates(size));
    for folder in &given.folders {
        let set = data::read(folder);
        let found = Arc::new(train(&set));
        let (table, settings) = real(&set, &found);
        tables.push(table);
        tables.push(with_a_probe(&set, &found));
        tables.push(coverage(&set, &found, &settings));
    }
    tables.extend([paper::order(size), paper::hash_tables(size), paper::partitions(size), paper::machines(size)]);
    Report { about: ABOUT.lines().map(str::to_owned).collect(), tables }
}

/// Coefficients of the first half.
fn train(set: &Set) -> Coefficients {
    training(set).train(&learnt(set)).unwrap()
}

fn training(set: &Set) -> Training {
    Training {
        source: format!("{}: first half of {} timelines", set.name, set.people.len()),
        command: format!("cargo bench -- visits --data {} --train", set.name),
    }
}

fn learnt(set: &Set) -> Vec<ObservedItem> {
    let first = |person: &data::Person| {
        let (from, until) = (person.observed.from, person.split);
        ObservedItem { events: person.observed.events_between(from, until).to_vec(), from, until }
    };
    set.people.iter().map(first).collect()
}

/// Trains and writes `crates/engine/models/visits.toml`.
fn write(given: &Given) {
    let folder = given.folders.first().expect("--train needs --data FOLDER");
    let file = "crates/engine/models/visits.toml";
    let text = train(&data::read(folder)).to_toml();
    std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(file), text).unwrap();
    eprintln!("written: {file}");
}

pub fn options(policy: Policy, per_day: f64) -> Options {
    Options { policy, every: (DAY as f64 / per_day) as i64, ..Options::default() }
}

fn name(policy: Policy) -> String {
    json!(policy).as_str().unwrap_or_default().to_owned()
}

/// Does the same with each, all at the same time.
fn each<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let started: Vec<_> = all.iter().map(|one| scope.spawn(|| work(one))).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// All policies on real people, each with its best settings; and these settings.
fn real(set: &Set, found: &Arc<Coefficients>) -> (Table, Vec<Options>) {
    let columns = [
        "visits a day",
        "spent",
        "policy",
        "mean h",
        "p95 h",
        "posts/visit",
        "visits",
        "used",
        "to round robin",
        "adaptive to it",
        "settings",
    ];
    let title = format!(
        "{}: {} people; left out: {} networks, {} people",
        set.name,
        set.people.len(),
        set.left_out[0],
        set.left_out[1]
    );
    let mut table = Table::new(&title, &columns);
    let mut settings = Vec::new();
    for per_day in BUDGETS {
        let best = each(&POLICIES, |policy| rivals::best(set, found, *policy, per_day));
        let uneven: Vec<Outcome> = best.iter().map(|best| best.outcome.clone()).collect();
        let quota = each(&best, |best| {
            let options = Options { spend: Spend::Quota, ..best.options };
            replay::at_quota(set, &Visits::new(options, found.clone()), per_day)
        });
        for (spent, outcomes) in [("uneven", uneven), ("quota", quota)] {
            // At equal visits: a delay is as the time between two visits.
            let delay = |outcome: &Outcome| outcome.mean_h * outcome.calls / per_day;
            let (turn, ours) = (delay(&outcomes[0]), delay(&outcomes[outcomes.len() - 1]));
            for (best, outcome) in best.iter().zip(&outcomes) {
                let Outcome { mean_h, p95_h, per_call, calls, used, .. } = *outcome;
                let mut row = vec![json!(per_day), json!(spent), json!(name(best.options.policy))];
                let ratios = [delay(outcome) / turn, ours / delay(outcome)];
                row.extend([mean_h, p95_h, per_call, calls, used].into_iter().chain(ratios).map(|value| json!(value)));
                row.push(json!(rivals::text(&best.options)));
                table.row(row);
            }
        }
        settings.extend(best.into_iter().map(|best| best.options));
    }
    (table, settings)
}

/// Made-up people, whose rates and hours are known.
fn known_rates(size: Size) -> Table {
    let columns = [
        "people",
        "visits a day",
        "round robin h",
        "known rates h",
        "adaptive h",
        "adaptive to known",
        "to round robin",
    ];
    let mut table = Table::new("Made-up people, whose rates and hours are known", &columns);
    let set = data::made_up(size.pick(2_000, 80), 28, 12);
    let found = Arc::new(train(&set));
    let mut weights = [0.0; INPUTS];
    weights[INPUTS - 1] = 1.0;
    let certain = Coefficients { lags_s: vec![0.0], weights: vec![weights], ..(*found).clone() };
    for per_day in size.pick(BUDGETS.to_vec(), vec![1.0]) {
        let of = |policy, certain: Option<&Coefficients>| {
            let visits = Visits::new(options(policy, per_day), found.clone());
            let (_, outcome) = replay::at_calls(&set, &visits, per_day, certain);
            outcome.mean_h * outcome.calls / per_day
        };
        let turn = of(Policy::RoundRobin, None);
        let [known, ours] = [of(Policy::Adaptive, Some(&certain)), of(Policy::Adaptive, None)];
        let row = [set.people.len() as f64, per_day, turn, known, ours, ours / known, ours / turn];
        table.row(row.map(|value| json!(value)).to_vec());
    }
    table
}

/// A probe of 100 people's counts and visits where a count moved, beside policies that make as many calls.
fn with_a_probe(set: &Set, found: &Arc<Coefficients>) -> Table {
    let columns = [
        "probed each min",
        "calls a day",
        "visits a day",
        "mean h",
        "p95 h",
        "round robin h, as many calls",
        "adaptive h, as many calls",
        "X: $ a person and month, probes",
        "X: $, posts alone",
    ];
    let mut table = Table::new(&format!("{}: a probe of 100 people's counts first", set.name), &columns);
    // Prices of X: a profile read, and a post read (docs/providers.md). Posts are read once whatever the policy.
    const PROFILE: f64 = 0.010;
    const POST: f64 = 0.005;
    let rows = each(&[15, 60, 240], |minutes| {
        let probed = probe::probed(set, minutes * 60_000);
        let beside = |policy| {
            let visits = Visits::new(options(policy, probed.calls), found.clone());
            replay::at_calls(set, &visits, probed.calls, None).1
        };
        let [turn, ours] = [Policy::RoundRobin, Policy::Adaptive].map(beside);
        let posts = turn.per_call * turn.calls * POST * 30.0;
        let dollars = [probed.profiles * PROFILE * 30.0 + posts, posts];
        let row = [*minutes as f64, probed.calls, probed.visits, probed.mean_h, probed.p95_h, turn.mean_h, ours.mean_h];
        row.into_iter().chain(dollars).map(|value| json!(value)).collect()
    });
    rows.into_iter().for_each(|row| table.row(row));
    table
}

/// An API that shows the newest post of a person alone: the share of all posts that was the newest at some visit.
fn coverage(set: &Set, found: &Arc<Coefficients>, settings: &[Options]) -> Table {
    let columns = ["visits a day", "policy", "% of posts", "% per person", "thesis %", "thesis, % per person"];
    let title = format!("{}: newest post alone (004, section 5.2.3)", set.name);
    let mut table = Table::new(&title, &columns);
    let of_classes = settings.iter().rev().find(|options| options.policy == Policy::Classes).copied();
    let cases: Vec<(f64, Options)> = [6.0, 12.0, 24.0]
        .into_iter()
        .flat_map(|per_day| {
            let every = options(Policy::RoundRobin, per_day).every;
            let classes = Options { every, ..of_classes.unwrap_or(options(Policy::Classes, per_day)) };
            [options(Policy::RoundRobin, per_day), classes, options(Policy::Adaptive, per_day)]
                .map(|one| (per_day, one))
        })
        .collect();
    let outcomes = each(&cases, |(per_day, options)| {
        replay::at_calls(set, &Visits::new(*options, found.clone()), *per_day, None).1
    });
    for ((per_day, options), outcome) in cases.iter().zip(outcomes) {
        let [posts, people] = outcome.newest.map(|share| share * 100.0);
        let own = options.policy == Policy::Classes;
        let thesis = if own { [json!(75.2), json!(80.2)] } else { [json!(null), json!(null)] };
        table.row(
            [vec![json!(per_day), json!(name(options.policy)), json!(posts), json!(people)], thesis.to_vec()].concat(),
        );
    }
    table
}
