//! How often a source is polled.

use std::time::Duration;

use proptest::prelude::*;
use twitter_updater::base::clock::Millis;
use twitter_updater::pipelines::timelines::pace::{Pace, interval_lane};

const PAGE: u32 = 200;

fn pace() -> Pace {
    Pace { shortest: Duration::from_secs(5), longest: Duration::from_secs(900), fill: 0.5 }
}

/// The interval after that many polls at a steady rate.
fn settled(mut interval: Millis, per_second: f64, polls: u32) -> Millis {
    for _ in 0..polls {
        let fresh = (interval as f64 / 1_000.0 * per_second).round() as u64;
        interval = pace().next(interval, fresh, interval, PAGE);
    }
    interval
}

#[test]
fn half_a_page_is_what_it_aims_at() {
    for start in [5_000, 60_000, 900_000] {
        assert!((98_000..=102_000).contains(&settled(start, 1.0, 40)), "within the rounding of whole posts");
        assert_eq!(settled(start, 100.0, 40), 5_000, "no shorter than the shortest");
        assert_eq!(settled(start, 0.0, 40), 900_000, "no longer than the longest");
    }
}

#[test]
fn a_burst_is_followed_at_once_and_left_step_by_step() {
    let mut interval = pace().next(100_000, 10_000, 100_000, PAGE);
    assert_eq!(interval, 5_000);
    let mut polls = 0;
    while interval < 90_000 {
        interval = settled(interval, 1.0, 1);
        polls += 1;
    }
    assert!((8..=10).contains(&polls), "half more each time, 1.5^8 = 25, and half the way at the end: {polls}");
}

#[test]
fn lanes_are_few_and_no_more_impatient_than_their_interval() {
    assert_eq!((&*interval_lane(1).name, interval_lane(1).patience), ("1s", 1_000));
    assert_eq!((&*interval_lane(5_000).name, interval_lane(5_000).patience), ("8s", 8_000));
    assert_eq!(&*interval_lane(900_000).name, "1024s");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_stays_within_its_bounds_and_more_posts_make_it_no_longer(
        interval in any::<i64>(),
        fresh in prop_oneof![0..1_000u64, any::<u64>()],
        more in 0..1_000u64,
        elapsed in prop_oneof![0..10_000_000i64, any::<i64>()],
        page in 1..1_000u32,
    ) {
        let next = pace().next(interval, fresh, elapsed, page);
        prop_assert!((5_000..=900_000).contains(&next));
        let within = interval.clamp(5_000, 900_000);
        prop_assert!(next <= within + within / 2);
        prop_assert!(pace().next(interval, fresh.saturating_add(more), elapsed, page) <= next);
    }

    /// Whatever came before, at a steady rate it is soon within a tenth of the ideal, and stays there.
    #[test]
    fn a_steady_rate_is_met(start in 5_000..900_000i64, per_second in 0.2..15.0f64) {
        let ideal = 100.0 / per_second * 1_000.0;
        for polls in 30..40 {
            let interval = settled(start, per_second, polls) as f64;
            prop_assert!((interval - ideal).abs() < ideal / 10.0, "{interval} is not {ideal}");
        }
    }
}
