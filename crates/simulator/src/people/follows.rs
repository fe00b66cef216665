//! Follows over time: each follow is a function of the seed, the followed account and a slot of time.
//!
//! For each of the first [`POPULAR`] accounts, time is cut into slots of equal length. In each slot one account of a circle starts to
//! follow it, one after the other, and each ends its follow before its turn comes again. The length of a follow is uniform between zero
//! and nearly a whole round, so half of a circle follows at a time. A page needs only its own slots.
//!
//! With planted groups, most turns of a circle belong to the owner's group. The circle ends when their members run out ([`GroupRings`]).

use std::sync::{Arc, OnceLock};

use super::communities::Communities;
use super::rings::{GroupRings, Ring};
use crate::options::{MOST_FOLLOWERS, SimulatorOptions};
use crate::random::{draw, to_unit};
use engine::base::clock::{self, Millis};

/// Number of accounts that have followers: those with the lowest numbers.
pub const POPULAR: u64 = 10_000;
/// The tail of the lengths (Pareto's alpha) and their scale: half of the accounts have four followers or fewer.
const TAIL: f64 = 0.8;
const SCALE: f64 = 3.0;

/// The length of a slot if follows never change.
const CALM_MS: Millis = 3_600_000;
/// Largest age of a follow: 15 years.
const OLDEST_MS: Millis = 15 * 365 * 86_400_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Follow {
    pub follower: u64,
    pub followed: u64,
    pub from: Millis,
    /// End (excluded), ms since the epoch.
    pub until: Millis,
}

impl Follow {
    #[must_use]
    pub fn holds(&self, at: Millis) -> bool {
        (self.from..self.until).contains(&at)
    }
}

#[derive(Debug, Clone)]
pub struct Follows {
    seed: u64,
    accounts: u64,
    since: Millis,
    /// The length of a slot; zero: follows never change.
    every: Millis,
    most: u64,
    all: Ring,
    groups: Option<GroupRings>,
    /// Followers and follows of each account; used with planted groups whose follows never change.
    counted: Arc<OnceLock<Vec<[u32; 2]>>>,
}

/// The accounts that follow one account by turns.
#[derive(Debug, Clone, Copy)]
struct Circle {
    owner: u64,
    first: u64,
    /// Its length, in accounts and in slots.
    length: u64,
    slot_ms: Millis,
}

impl Follows {
    #[must_use]
    pub fn new(options: &SimulatorOptions, accounts: u64) -> Self {
        Self {
            seed: options.seed,
            accounts,
            since: options.accounts_since,
            every: clock::millis(options.follow_changes),
            most: options.most_followers.min(MOST_FOLLOWERS).min((accounts - 1) / 2),
            all: Ring::new(accounts),
            groups: Communities::new(options, accounts).map(GroupRings::new),
            counted: Arc::default(),
        }
    }

    /// The usual number of followers of an account. Account 0 has the most.
    #[must_use]
    pub fn size(&self, owner: u64) -> u64 {
        let turns = self.groups.as_ref().map_or(self.accounts, |groups| groups.turns(owner));
        let most = self.most.min(turns.saturating_sub(1) / 2);
        match owner {
            0 => most,
            POPULAR.. => 0,
            _ if owner >= self.accounts => 0,
            _ => {
                let size = SCALE * ((1.0 - to_unit(draw(self.seed, SIZE, owner, 0))).powf(-1.0 / TAIL) - 1.0);
                (size as u64).min(most)
            }
        }
    }

    fn circle(&self, owner: u64) -> Option<Circle> {
        let size = self.size(owner);
        let length = 2 * size + 1;
        let every = if self.every > 0 { self.every } else { CALM_MS };
        let slot_ms = every.min(OLDEST_MS / length as Millis).max(2);
        let first = draw(self.seed, FIRST, owner, 0);
        (size > 0).then_some(Circle { owner, first, length, slot_ms })
    }

    /// The time that counts: a fixed one if follows never change.
    fn effective_time(&self, at: Millis) -> Millis {
        if self.every > 0 { at } else { self.since }
    }

    fn slot(&self, circle: &Circle, at: Millis) -> i64 {
        (at - self.since).div_euclid(circle.slot_ms)
    }

    /// The follow that starts in a slot; `None` if the turn is the owner's own.
    fn follow(&self, circle: &Circle, slot: i64) -> Option<Follow> {
        let random = |salt: u64| draw(self.seed, salt, circle.owner, slot ^ (slot >> 63).wrapping_mul(0x5bd1_e995));
        let turn = slot.rem_euclid(circle.length as i64) as u64;
        let follower = match &self.groups {
            None => self.all.at(circle.first, turn),
            Some(groups) => groups.at(circle.owner, circle.first, turn),
        };
        let from = self.since + slot * circle.slot_ms + (random(MOMENT) % circle.slot_ms as u64) as Millis;
        // It ends before the same account's next turn begins.
        let longest = (circle.length as Millis - 1) * circle.slot_ms;
        let until = from + 1 + (to_unit(random(LENGTH)) * (longest - 1) as f64) as Millis;
        (follower != circle.owner).then_some(Follow { follower, followed: circle.owner, from, until })
    }

    /// The follow as networks show it: without an end if follows never change.
    fn network_view(&self, follow: Follow) -> Follow {
        if self.every > 0 { follow } else { Follow { until: Millis::MAX, ..follow } }
    }

    /// Followers of an account at `at` whose follows started before `below`, newest first.
    pub fn followers(&self, owner: u64, at: Millis, below: Millis) -> impl Iterator<Item = Follow> {
        let at = self.effective_time(at);
        let circle = self.circle(owner);
        let slots = circle.map(|circle| {
            let newest = self.slot(&circle, at.min(below));
            let oldest = self.slot(&circle, at) - circle.length as i64;
            (oldest..=newest).rev().filter_map(move |slot| self.follow(&circle, slot))
        });
        let follows = slots.into_iter().flatten().filter(move |follow| follow.holds(at) && follow.from < below);
        follows.map(|follow| self.network_view(follow))
    }

    #[must_use]
    pub fn friends(&self, follower: u64, at: Millis) -> Vec<Follow> {
        let seen = self.effective_time(at);
        let mut friends: Vec<Follow> = (0..POPULAR.min(self.accounts))
            .filter_map(|followed| {
                let circle = self.circle(followed)?;
                let slot = self.turn_before(&circle, follower, seen)?;
                // The turn in this slot may not have started yet.
                let turns = [slot, slot - circle.length as i64];
                turns.into_iter().filter_map(|slot| self.follow(&circle, slot)).find(|follow| follow.holds(seen))
            })
            .map(|follow| self.network_view(follow))
            .collect();
        friends.sort_unstable_by_key(|follow| std::cmp::Reverse((follow.from, follow.followed)));
        friends
    }

    /// (Number of followers, number of friends.)
    #[must_use]
    pub fn list_lengths(&self, number: u64, at: Millis) -> (u64, u64) {
        if self.groups.is_none() || self.every > 0 {
            return (self.followers(number, at, Millis::MAX).count() as u64, self.friends(number, at).len() as u64);
        }
        let counted = self.counted.get_or_init(|| {
            let mut counted = vec![[0; 2]; self.accounts as usize];
            for owner in 0..POPULAR.min(self.accounts) {
                for follow in self.followers(owner, at, Millis::MAX) {
                    counted[owner as usize][0] += 1;
                    counted[follow.follower as usize][1] += 1;
                }
            }
            counted
        });
        counted.get(number as usize).map_or((0, 0), |[followers, follows]| (u64::from(*followers), u64::from(*follows)))
    }

    /// The follows between two accounts that hold at some time from `from` until `to`, oldest first.
    #[must_use]
    pub fn between(&self, follower: u64, followed: u64, from: Millis, to: Millis) -> Vec<Follow> {
        let Some(circle) = self.circle(followed) else { return Vec::new() };
        let (from, to) = (self.effective_time(from), self.effective_time(to));
        let Some(last) = self.turn_before(&circle, follower, to) else { return Vec::new() };
        let first = self.slot(&circle, from) - circle.length as i64;
        let turns = (0..).map(|round| last - round * circle.length as i64).take_while(|slot| *slot >= first);
        let mut follows: Vec<Follow> = turns
            .filter_map(|slot| self.follow(&circle, slot))
            .filter(|follow| follow.from <= to && follow.until > from)
            .map(|follow| self.network_view(follow))
            .collect();
        follows.reverse();
        follows
    }

    /// The slot of an account's last turn that begins by `at`; `None` for an account that is not in the circle.
    fn turn_before(&self, circle: &Circle, follower: u64, at: Millis) -> Option<i64> {
        if follower >= self.accounts {
            return None;
        }
        let turn = match &self.groups {
            None => self.all.turn(circle.first, follower),
            Some(groups) => groups.turn(circle.owner, circle.first, follower)?,
        };
        let now = self.slot(circle, at);
        let since = (now - turn as i64).rem_euclid(circle.length as i64);
        (turn < circle.length).then_some(now - since)
    }
}

const SIZE: u64 = 161;
const FIRST: u64 = 162;
const MOMENT: u64 = 163;
const LENGTH: u64 = 164;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;

    const NOW: Millis = 1_795_000_000_000;

    fn follows(accounts: u64, changes: Duration) -> Follows {
        of_groups(accounts, changes, false)
    }

    fn of_groups(accounts: u64, changes: Duration, communities: bool) -> Follows {
        let options = SimulatorOptions { follow_changes: changes, communities, ..SimulatorOptions::default() };
        Follows::new(&options, accounts)
    }

    #[test]
    fn both_sides_and_each_pair_tell_the_same_world() {
        let minute = Duration::from_secs(60);
        for (changes, groups) in [(Duration::ZERO, false), (minute, false), (Duration::ZERO, true), (minute, true)] {
            let world = of_groups(600, changes, groups);
            let all: HashSet<Follow> = (0..600).flat_map(|owner| world.followers(owner, NOW, Millis::MAX)).collect();
            let other: HashSet<Follow> = (0..600).flat_map(|owner| world.friends(owner, NOW)).collect();
            assert!(all == other && all.len() > 5_000, "{} {}", all.len(), other.len());
            for follow in all.iter().take(500) {
                assert!(follow.holds(NOW) && follow.follower != follow.followed);
                assert_eq!(world.between(follow.follower, follow.followed, NOW, NOW), [*follow]);
            }
            let pairs: HashSet<(u64, u64)> = all.iter().map(|follow| (follow.follower, follow.followed)).collect();
            assert_eq!(pairs.len(), all.len(), "each follows another once");
            for number in 0..600 {
                let counted = [|follow: &Follow| follow.followed, |follow: &Follow| follow.follower]
                    .map(|of| all.iter().filter(|follow| of(follow) == number).count() as u64);
                assert_eq!(world.list_lengths(number, NOW), counted.into());
            }
        }
    }

    #[test]
    fn a_pair_has_its_follows_one_after_the_other() {
        let world = follows(50, Duration::from_secs(60));
        let (from, to) = (NOW - 86_400_000, NOW);
        let mut again = 0;
        for follower in 0..50 {
            let follows = world.between(follower, 0, from, to);
            assert!(follows.windows(2).all(|pair| pair[0].until <= pair[1].from), "{follows:?}");
            again += usize::from(follows.len() > 1);
            for at in (from..to).step_by(7_000_000) {
                let holds = follows.iter().any(|follow| follow.holds(at));
                let listed = world.followers(0, at, Millis::MAX).any(|follow| follow.follower == follower);
                assert_eq!(holds, listed, "{follower} at {at}");
            }
        }
        assert!(again > 20, "{again} of them come back");
    }

    #[test]
    fn a_list_is_newest_first_and_begins_anywhere() {
        let world = follows(20_000, Duration::from_secs(600));
        let all: Vec<Follow> = world.followers(0, NOW, Millis::MAX).collect();
        assert!(all.windows(2).all(|pair| pair[0].from > pair[1].from));
        let usual = world.size(0) as f64;
        assert!((all.len() as f64 / usual - 1.0).abs() < 0.05, "{} of {usual}", all.len());
        for at in [0, 1, 500, all.len() - 1] {
            assert!(world.followers(0, NOW, all[at].from).eq(all[at + 1..].iter().copied()), "{at}");
        }
    }

    #[test]
    fn lengths_are_skewed_from_none_to_the_most() {
        let world = follows(1 << 20, Duration::ZERO);
        let sizes: Vec<u64> = (0..POPULAR).map(|owner| world.size(owner)).collect();
        let share = |is: fn(u64) -> bool| sizes.iter().filter(|size| is(**size)).count() as f64 / sizes.len() as f64;
        assert_eq!(sizes.iter().max(), Some(&MOST_FOLLOWERS));
        assert!(share(|size| size == 0) > 0.1 && share(|size| size < 10) > 0.6);
        assert!(share(|size| size > 1_000) > 0.002 && share(|size| size > 50_000) > 0.0);
        assert_eq!((world.size(POPULAR), world.followers(POPULAR, NOW, Millis::MAX).count()), (0, 0));
        let first = world.followers(0, NOW, Millis::MAX).next().unwrap();
        assert!(first.from > 0 && first.until == Millis::MAX);
    }
}
