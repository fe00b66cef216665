//! Planned calls against the calls of real worker loops over the reference queue, in simulated time.

#[allow(dead_code)] // the rest is the bench's
#[path = "../../../benches/fill/demand.rs"]
pub mod demand;
#[allow(dead_code)]
#[path = "../../../benches/fill/load.rs"]
pub mod load;
#[allow(dead_code)]
#[path = "../../../benches/fill/real.rs"]
pub mod real;
#[allow(dead_code)]
#[path = "../../../benches/fill/simulated.rs"]
mod simulated;

use std::time::Duration;

use futures::future::join_all;
use twitter_updater::config::Settings;
use twitter_updater::ops::report::plan::Plan;

use self::load::Load;
use super::{SPECIFICATION, TTL, ages, with};
use crate::support::queue_model::Rules;

const RATES: [f64; 11] = [0.05, 0.2, 0.62, 1.0, 1.5, 2.0, 3.5, 5.0, 10.0, 20.0, 50.0];
const LOOKAHEADS: [f64; 5] = [0.0, 0.1, 0.2, 0.3, 0.5];
/// Updates that are measured at each point: where requests go out short, a hundred requests and more.
const UPDATES: f64 = 12_000.0;
const UPDATES_OF_FULL_REQUESTS: f64 = 3_000.0;
/// How far the plan may be from what was measured.
const WITHIN: f64 = 0.15;
/// The same for a lookahead between the two formulas: at about 1/s only two or three requests fit into the 3 minutes of the
/// first lane, and its ids, which are due together again, keep them at two. The plan then names 18 % too many calls.
const WITHIN_BETWEEN: f64 = 0.2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_planned_for_every_rate_and_lookahead() {
    let ages = ages(SPECIFICATION);
    let points = RATES.into_iter().flat_map(|rate| LOOKAHEADS.map(|lookahead| (rate, lookahead)));
    let seen = join_all(points.map(async |(rate, lookahead)| {
        let updates = if rate < 10.0 { UPDATES } else { UPDATES_OF_FULL_REQUESTS };
        let measured = Duration::from_secs_f64((updates / rate).max(120.0));
        // Lanes need several of their intervals until due times have settled.
        let warm_up = Duration::from_secs(1_200);
        let load = Load { rate, workers: 1, lookahead, linger: TTL, warm_up, measured };
        let tally = simulated::run(load, &ages, Rules::default()).await;
        let calls = tally.requests as f64 / measured.as_secs_f64();
        let tweets_per_day = rate * 86_400.0 / 81.0;
        let plan = Plan::new(&ages, tweets_per_day, with(lookahead, TTL)).unwrap();
        println!(
            "{rate:>5}/s, lookahead {lookahead:<4}: {:>8.0} calls a day of {:>5.1} ids; planned {:>8.0} of {:>5.1}, {:.3} of them",
            calls * 86_400.0,
            tally.ids_per_request(),
            plan.lookups_per_second * 86_400.0,
            plan.ids_per_lookup,
            plan.lookups_per_second / calls,
        );
        (rate, lookahead, plan.lookups_per_second / calls)
    }))
    .await;
    let within = |lookahead: f64| if lookahead == 0.3 { WITHIN_BETWEEN } else { WITHIN };
    let off: Vec<_> =
        seen.into_iter().filter(|(_, lookahead, ratio)| (ratio - 1.0).abs() > within(*lookahead)).collect();
    assert!(off.is_empty(), "updates/s, lookahead, planned ÷ measured: {off:?}");
}

/// A cron job for each bracket, that looks up 100 ids a request: calls a day for 20,000 posts.
pub const OF_CRON: f64 = 1_107.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_full_at_every_size_with_the_default_lookahead() {
    let ages = ages(SPECIFICATION);
    let defaults = Settings::load_with(&[], None, &[]).unwrap().updater;
    // Updates per second (0.62: 20,000 posts, 1.5: 48,500), and the most requests, as a multiple of the ideal.
    let runs = [(0.62, f64::MAX), (1.5, 1.1), (5.0, 1.02), (20.0, 1.02)].map(async |(rate, most)| {
        let measured = Duration::from_secs_f64(40_000.0 / rate);
        let warm_up = Duration::from_secs(3_600);
        let load = Load { rate, workers: 4, lookahead: defaults.lookahead, linger: defaults.buffer_ttl, warm_up, measured };
        let mut tally = simulated::run(load, &ages, Rules::default()).await;
        let calls = tally.requests as f64 * 86_400.0 / measured.as_secs_f64();
        let late = tally.late_s(100.0);
        println!(
            "{rate:>5}/s: {calls:.0} calls a day, {:.3} of the ideal, {:.3} of the updates demanded, up to {late:.2} s late",
            tally.to_ideal(),
            tally.updates as f64 / tally.demanded
        );
        assert!(tally.to_ideal() <= most, "{rate}/s: {}", tally.to_ideal());
        assert!(rate > 0.62 || calls <= OF_CRON, "{rate}/s: {calls} calls a day");
        // To the step of the simulated clock.
        assert!(late <= defaults.buffer_ttl.as_secs_f64() + 0.01, "{rate}/s: {late} s late");
    });
    join_all(runs).await;
}
