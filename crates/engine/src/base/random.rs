//! The one place that draws random numbers: for unique names, and for the jitter of delays.
//!
//! A simulation draws them from a seed. Values that must never repeat (a signature's nonce) are not drawn here.

use std::cell::RefCell;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

thread_local! {
    static REPLAYED: RefCell<Option<StdRng>> = const { RefCell::new(None) };
}

#[must_use]
pub fn number() -> u64 {
    REPLAYED.with_borrow_mut(|seeded| seeded.as_mut().map_or_else(rand::random, |seeded| seeded.random()))
}

/// A uniform random number from 0 to 1, 1 excluded.
#[must_use]
pub fn fraction() -> f64 {
    REPLAYED.with_borrow_mut(|seeded| seeded.as_mut().map_or_else(rand::random, |seeded| seeded.random()))
}

pub fn shuffle<T>(items: &mut [T]) {
    REPLAYED.with_borrow_mut(|seeded| match seeded {
        Some(seeded) => items.shuffle(seeded),
        None => items.shuffle(&mut rand::rng()),
    });
}

/// Makes this thread draw from `seed` until the returned value is dropped. For simulations.
#[must_use]
pub fn replay_seed(seed: u64) -> SeedGuard {
    REPLAYED.set(Some(StdRng::seed_from_u64(seed)));
    SeedGuard(())
}

#[derive(Debug)]
pub struct SeedGuard(());

impl Drop for SeedGuard {
    fn drop(&mut self) {
        REPLAYED.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_the_draws_and_only_while_it_is_held() {
        let draw = || {
            let _replayed = replay_seed(7);
            let mut items = [1, 2, 3, 4, 5, 6, 7, 8];
            shuffle(&mut items);
            assert_eq!(items.iter().sum::<i32>(), 36, "each is still there: {items:?}");
            (number(), fraction(), items, number())
        };
        assert_eq!(draw(), draw());
        assert_ne!(number(), number());
        assert_ne!(number(), draw().0);
    }
}
