//! Visits of every item once per period, in the order of the paper on visiting (002, algorithm 1, "Poisson model"). Sorted by
//! their rates, the items fill the period from both ends to the middle, like the pipes of an organ: the busiest are in the
//! middle. Pure.

use crate::base::clock::Millis;

/// Position of an item in the period, 0 to 1. `rank` is the share of quieter items, 0 to 1. The id decides between the two ends,
/// so an item keeps its end; the paper alternates.
#[must_use]
pub fn period_position(rank: f64, id: &str) -> f64 {
    let half = if rank.is_finite() { rank.clamp(0.0, 1.0) / 2.0 } else { 0.5 };
    if has_odd_hash(id) { 1.0 - half } else { half }
}

/// Returns true for half of all ids, by the hash FNV-1a: the same in each process and version.
fn has_odd_hash(id: &str) -> bool {
    let hash = id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash ^ (hash >> 32)) & 1 == 1
}

/// Time from the last visit to that position in the next period, ms. Periods are counted from the epoch.
#[must_use]
pub fn interval(period_position: f64, every: Millis, visited: Millis) -> Millis {
    let every = every.max(1);
    let next = visited.div_euclid(every).saturating_add(1).saturating_mul(every);
    next.saturating_add((period_position * every as f64) as Millis).saturating_sub(visited).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_items_are_in_the_middle_and_half_of_the_others_at_each_end() {
        let ids: Vec<String> = (0..1_000).map(|id| id.to_string()).collect();
        let early = ids.iter().filter(|id| period_position(0.0, id) == 0.0).count();
        assert!((400..600).contains(&early), "{early}");
        assert!(
            ids.iter()
                .all(|id| period_position(1.0, id) == 0.5 && (0.0..=1.0).contains(&period_position(f64::NAN, id)))
        );
    }

    #[test]
    fn an_item_is_visited_once_in_each_period() {
        let mut at = 12_345;
        for period in 0..5 {
            at += interval(0.3, 1_000, at);
            assert_eq!(at, 13_300 + period * 1_000);
        }
        assert_eq!(interval(0.0, 0, 5), 1);
    }
}
