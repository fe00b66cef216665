//! What `x.same_day` saves, and with which age tables: a post's life over many creation times. Printed, and held.

use twitter_updater::base::clock::Millis;
use twitter_updater::engine::schedule::age::{AgeTable, SameDay};
use twitter_updater::ops::report::plan::reads_per_tweet;
use twitter_updater::quota::DAY_MS;

/// `lookup.timeout`, clocks, `updater.buffer_ttl`, a batch on its way: with the default settings.
const MARGIN: Millis = 85_000;

/// The updates of one that is made at that moment, none later than its table has it.
fn updates(ages: &AgeTable, same_day: SameDay, made_at: Millis) -> u64 {
    let (mut at, mut updates) = (made_at, 0);
    let mut delay = ages.update_delay(made_at, made_at);
    while let Some(after) = delay {
        at += after;
        updates += 1;
        delay = ages.update_delay(made_at, at).map(|interval| {
            let delay = same_day.delay(at, interval);
            assert!(delay <= interval);
            delay
        });
    }
    updates
}

#[test]
fn it_saves_with_intervals_a_little_above_a_day_and_with_no_others() {
    let young = "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h";
    let mut saved = Vec::new();
    println!(
        "{:<28}{:>9}{:>10}{:>10}{:>9}{:>16}",
        "after 7 days", "same_day", "reads", "without", "saved", "more updates"
    );
    for (rest, share) in [
        ("30d: 1d", 0.2),
        ("30d: 1d", 0.5),
        ("30d: 1h", 0.2),
        ("30d: 20h", 0.2),
        ("30d: 2d", 0.5),
        ("30d: 25h", 0.1),
        ("30d: 25h", 0.2),
        ("30d: 26h", 0.1),
        ("30d: 26h", 0.2),
        ("30d: 28h", 0.2),
        ("30d: 28h", 0.3),
        ("90d: 26h", 0.2),
    ] {
        let ages: AgeTable = format!("{young}, {rest}").parse().unwrap();
        let [with, without] = [share, 0.0].map(|share| {
            let same_day = SameDay { share, margin: MARGIN };
            let all = (0..96).map(|time| updates(&ages, same_day, 20_000 * DAY_MS + time * DAY_MS / 96)).sum::<u64>();
            (reads_per_tweet(&ages, same_day).unwrap(), all as f64)
        });
        let (less, more) = (1.0 - with.0 / without.0, with.1 / without.1 - 1.0);
        let [reads, before, less_pc, more_pc] = [with.0, without.0, less * 100.0, more * 100.0];
        println!("{rest:<28}{share:>9}{reads:>10.2}{before:>10.2}{less_pc:>8.1}%{more_pc:>15.1}%");
        saved.push(less);
    }
    assert!(saved[..5].iter().all(|saved| *saved == 0.0), "nothing can be saved there, nothing is moved: {saved:?}");
    assert!(saved[6] > 0.2 && saved[8] > 0.25 && saved[11] > 0.35, "25h, 26h, and 26h for long: {saved:?}");
    assert!(saved.iter().all(|saved| *saved >= 0.0), "nobody pays more for it: {saved:?}");
}
