//! How full requests go out, what that costs, and how late tweets are: in simulated time for every rate and
//! number of workers, and some of it in real time, to see that the simulation tells the truth.

mod buffer;
mod demand;
mod load;
mod real;
mod simulated;

use std::time::Duration;

use serde_json::{Value, json};
use twitter_updater::config::Settings;
use twitter_updater::engine::schedule::age::AgeTable;

use self::demand::Tally;
use self::load::Load;
use crate::Size;
use crate::report::{Report, Table, machine};
use crate::support::queue_model::Rules;

const RATES: [f64; 11] = [0.62, 1.0, 1.5, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];
const WORKERS: [usize; 4] = [1, 4, 16, 64];
/// Requests, as a multiple of the ideal ones, from so many updates per second on.
const BAR: (f64, f64) = (1.02, 5.0);
const ABOUT: &str = "\
The default age table after a long while of that demand: tweets come at random, get older, change brackets, end.
Demanded: the updates that the age table asks for of the same tweets in the same time, without lookahead and without
lateness. Ideal: demanded / 100 requests. Buffer TTL 5 s, quota enough, 4 requests in flight per worker.
Simulated: the real worker loops over the reference queue under a clock that jumps from timer to timer; a handler
that takes 150 ms and reschedules by age. No network, no Redis, no store. Worker-local buffers: a model of the
specification's worker under the same tweets; each due id goes to a free worker at random.";

pub async fn run(size: Size) -> Report {
    let ages = ages();
    let mut about = vec![machine()];
    about.extend(ABOUT.lines().map(str::to_owned));
    let tables = vec![matrix(size, &ages).await, designs(size, &ages).await, real_time(size, &ages).await];
    Report { about, tables }
}

/// The settings of whoever sets nothing.
pub fn defaults() -> Settings {
    Settings::load_with(&[], None, &[]).unwrap()
}

/// The default age table.
pub fn ages() -> AgeTable {
    defaults().tweet_age
}

/// A load in simulated time: 60,000 updates, or four hours.
fn load(size: Size, rate: f64, workers: usize, lookahead: f64) -> Load {
    let updates = size.pick(60_000.0, 1_200.0);
    let measured = Duration::from_secs_f64((updates / rate).clamp(120.0, 14_400.0));
    let warm_up = Duration::from_secs_f64((6_000.0 / rate).clamp(60.0, 600.0));
    Load { rate, workers, lookahead, linger: defaults().updater.buffer_ttl, warm_up, measured }
}

async fn matrix(size: Size, ages: &AgeTable) -> Table {
    let mut table = Table::new(
        "Simulated time",
        &columns(&["updates/s", "workers", "lookahead"], &["requests/ideal, worker-local buffers"]),
    );
    for rate in size.pick(RATES.to_vec(), vec![10.0]) {
        for workers in size.pick(WORKERS.to_vec(), vec![1, 4]) {
            let buffers = buffer::run(load(size, rate, workers, 0.0), ages).to_ideal();
            for lookahead in [defaults().updater.lookahead, 0.0] {
                let tally = simulated::run(load(size, rate, workers, lookahead), ages, Rules::default()).await;
                let to_ideal = tally.to_ideal();
                assert!(lookahead == 0.0 || rate < BAR.1 || to_ideal <= BAR.0, "{rate}/s, {workers}: {to_ideal}");
                let mut row = vec![json!(rate), json!(workers), json!(lookahead)];
                row.extend(figures(tally));
                row.push(json!(buffers));
                table.row(row);
            }
        }
    }
    table
}

/// A row's own columns, what [`figures`] finds, and what stands beside it.
fn columns(own: &[&'static str], beside: &[&'static str]) -> Vec<&'static str> {
    let figures = ["ids/request", "updates/demanded", "requests/ideal", "late p50 s", "late p99 s", "late max s"];
    [own, &figures, beside].concat()
}

fn figures(mut tally: Tally) -> Vec<Value> {
    let [p50, p99, max] = [50.0, 99.0, 100.0].map(|percentile| tally.late_s(percentile));
    let updates = tally.updates as f64 / tally.demanded;
    vec![json!(tally.ids_per_request()), json!(updates), json!(tally.to_ideal()), json!(p50), json!(p99), json!(max)]
}

/// Other rules for the free places of a short request, and other lookaheads.
async fn designs(size: Size, ages: &AgeTable) -> Table {
    let mut table = Table::new(
        "Designs, simulated time, 1 worker",
        &columns(&["updates/s", "free places go to what is due soonest", "lookahead", "TTL ms"], &[]),
    );
    let by_interval = Rules { soonest_first: false, ..Rules::default() };
    let soonest = ("over all lanes, up to the first too early", Rules::default());
    let relative = ("relative to the interval", by_interval);
    for rate in size.pick(vec![0.62, 2.0, 5.0, 10.0], vec![10.0]) {
        for ((name, rules), lookahead, ttl) in [
            (relative, 0.02, 5_000),
            (relative, 0.1, 5_000),
            (soonest, 0.02, 5_000),
            (soonest, 0.05, 5_000),
            (soonest, 0.1, 5_000),
            (soonest, 0.25, 5_000),
            (soonest, 0.5, 5_000),
            (soonest, 0.7, 5_000),
            (soonest, 0.9, 5_000),
            // Sent as soon as one is due: all of the wait is made up for by lookahead.
            (soonest, 0.1, 100),
            (soonest, 0.25, 100),
        ] {
            let mut load = Load { linger: Duration::from_millis(ttl), ..load(size, rate, 1, lookahead) };
            if !rules.soonest_first {
                // Until what there was to take along is used up, it looks better than it is.
                load.warm_up = Duration::from_secs(size.pick(7_200, 60));
            }
            let mut row = vec![json!(rate), json!(name), json!(lookahead), json!(ttl)];
            row.extend(figures(simulated::run(load, ages, rules).await));
            table.row(row);
        }
    }
    table
}

/// Three of them in real time, with processes and with the loops alone.
async fn real_time(size: Size, ages: &AgeTable) -> Table {
    let mut table = Table::new("Real time, over Redis", &columns(&["what", "updates/s", "workers", "lookahead"], &[]));
    let mut row = |what: &str, load: Load, tally: Tally| {
        let mut row = vec![json!(what), json!(load.rate), json!(load.workers), json!(load.lookahead)];
        row.extend(figures(tally));
        table.row(row);
    };
    let (processes, loops) = ("processes, simulated API, SQLite", "loops in one process, 150 ms handler");
    let point = |rate, workers, warm_up, measured| Load {
        warm_up: Duration::from_secs(size.pick(warm_up, 2)),
        measured: Duration::from_secs(size.pick(measured, 2)),
        ..load(size, rate, workers, defaults().updater.lookahead)
    };
    // Two requests in 40 s each: they do not disturb each other.
    let rate = size.pick(5.0, 100.0);
    let (one, many) = (point(rate, 1, 45, 200), point(rate, size.pick(64, 2), 45, 200));
    let (of_one, of_many, loops_of_one, loops_of_many) = tokio::join!(
        real::processes(one, ages),
        real::processes(many, ages),
        real::in_process(one, ages),
        real::in_process(many, ages)
    );
    row(processes, one, of_one);
    row(processes, many, of_many);
    row(loops, one, loops_of_one);
    row(loops, many, loops_of_many);
    if size == Size::Smoke {
        return table;
    }
    let busy = point(500.0, 64, 15, 40);
    row(processes, busy, real::processes(busy, ages).await);
    row(loops, busy, real::in_process(busy, ages).await);
    table
}
