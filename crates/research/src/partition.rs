//! Partitions of items by their expected work, for several crawlers. Pure.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The partition of each item, 0 to `parts` − 1, by longest processing time first: items by falling work, each to the partition
/// with the least work yet. Negative or non-finite work counts as 0. No partition has more than 4/3 of the least possible
/// (Graham 1969). With many items, the work of two partitions differs by about that of the smallest item.
#[must_use]
pub fn partition_longest_first(work: &[f64], parts: usize) -> Vec<usize> {
    let parts = parts.max(1);
    let mut sorted: Vec<usize> = (0..work.len()).collect();
    sorted.sort_by(|one, other| sane(work[*other]).total_cmp(&sane(work[*one])).then(one.cmp(other)));
    let mut loads: BinaryHeap<Reverse<(Load, usize, usize)>> =
        (0..parts).map(|part| Reverse((Load(0.0), 0, part))).collect();
    let mut partitions = vec![0; work.len()];
    for item in sorted {
        if let Some(Reverse((Load(load), count, part))) = loads.pop() {
            partitions[item] = part;
            // Items without work are spread, too.
            loads.push(Reverse((Load(load + sane(work[item])), count + 1, part)));
        }
    }
    partitions
}

/// The paper's way (002, section 5.1.1): the items sorted by their work alternate between two partitions, and each partition is
/// halved again in the same way: 2^`halvings` partitions.
#[must_use]
pub fn partition_alternating(work: &[f64], halvings: u32) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..work.len()).collect();
    sorted.sort_by(|one, other| sane(work[*one]).total_cmp(&sane(work[*other])).then(one.cmp(other)));
    // Each halving alternates, so the lowest bits of the position are the partition.
    let mut partitions = vec![0; work.len()];
    let mask = 1usize.checked_shl(halvings).map_or(usize::MAX, |parts| parts - 1);
    sorted.into_iter().enumerate().for_each(|(place, item)| partitions[item] = place & mask);
    partitions
}

#[must_use]
pub fn loads(work: &[f64], partitions: &[usize], parts: usize) -> Vec<f64> {
    let mut loads = vec![0.0; parts.max(1)];
    for (work, part) in work.iter().zip(partitions) {
        if let Some(load) = loads.get_mut(*part) {
            *load += sane(*work);
        }
    }
    loads
}

fn sane(work: f64) -> f64 {
    if work.is_finite() { work.clamp(0.0, 1e15) } else { 0.0 }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Load(f64);

impl Eq for Load {}

impl PartialOrd for Load {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Load {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spread(loads: &[f64]) -> f64 {
        loads.iter().copied().fold(0.0, f64::max) - loads.iter().copied().fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn the_longest_first_is_the_more_even_way() {
        let work: Vec<f64> = (1..=1_000).map(|at| 1_000.0 / f64::from(at)).collect();
        let even = spread(&loads(&work, &partition_longest_first(&work, 16), 16));
        let turns = spread(&loads(&work, &partition_alternating(&work, 4), 16));
        // One item alone is more than a sixteenth: no split is more even than to leave it alone.
        assert!(even < 580.0 && turns > 900.0, "{even} {turns}");
        assert_eq!(partition_alternating(&[5.0, 1.0, 3.0, 2.0], 1), [1, 0, 0, 1]);
        assert_eq!(partition_longest_first(&[0.0; 6], 3).iter().filter(|part| **part == 2).count(), 2);
    }

    proptest! {
        #[test]
        fn each_item_is_in_one_partition(work in prop::collection::vec(prop::num::f64::ANY, 0..80), parts in 0usize..20) {
            let partitions = partition_longest_first(&work, parts);
            prop_assert_eq!(partitions.len(), work.len());
            prop_assert!(partitions.iter().all(|part| *part < parts.max(1)));
            let loads = loads(&work, &partitions, parts);
            let most = work.iter().copied().map(sane).fold(0.0, f64::max);
            // The fullest was the emptiest before it got its last item.
            prop_assert!(spread(&loads) <= most * (1.0 + 1e-9), "{loads:?}");
        }

        #[test]
        fn by_turns_the_counts_differ_by_one(work in prop::collection::vec(0.0..9.0f64, 0..80), halvings in 0u32..5) {
            let partitions = partition_alternating(&work, halvings);
            let counts = loads(&vec![1.0; work.len()], &partitions, 1 << halvings);
            prop_assert!(spread(&counts) <= 1.0);
        }
    }
}
