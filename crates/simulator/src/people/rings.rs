//! Rings of accounts: the order in which accounts become followers.

use super::communities::{Communities, GROUPS, ROUND, Span};

/// A ring of accounts: equal steps visit each account once.
#[derive(Debug, Clone, Copy)]
pub struct Ring {
    size: u64,
    /// The step from an account to the next one, and its inverse modulo the size.
    pub step: u64,
    pub back: u64,
}

impl Ring {
    pub fn new(size: u64) -> Self {
        // About the golden section of the ring: neighbours are far apart.
        let from = (size as f64 * 0.618) as u64 + 1;
        let (step, back) = (from..).find_map(|step| Some((step, inverse(step, size.max(1))?))).unwrap_or((1, 1));
        Self { size: size.max(1), step, back }
    }

    /// The account of a turn; `first` is the account of turn 0.
    pub fn at(&self, first: u64, turn: u64) -> u64 {
        (turn * self.step + first % self.size) % self.size
    }

    pub fn turn(&self, first: u64, account: u64) -> u64 {
        (account + self.size - first % self.size) % self.size * self.back % self.size
    }
}

/// The inverse of a number modulo another; `None` if they have a common divisor.
pub fn inverse(of: u64, modulus: u64) -> Option<u64> {
    let (mut old, mut new) = ((of % modulus) as i64, modulus as i64);
    let (mut old_factor, mut new_factor) = (1, 0);
    while new != 0 {
        let times = old / new;
        (old, new) = (new, old - times * new);
        (old_factor, new_factor) = (new_factor, old_factor - times * new_factor);
    }
    // Modulo 1 every number is 0, which is its own inverse.
    (old == 1 || modulus == 1).then(|| i64::rem_euclid(old_factor, modulus as i64) as u64)
}

/// Rings of planted groups. The first turns of each [`ROUND`] belong to members of the group, the others to other accounts.
#[derive(Debug, Clone)]
pub struct GroupRings {
    communities: Communities,
    rings: Vec<[Ring; 2]>,
}

impl GroupRings {
    pub fn new(communities: Communities) -> Self {
        let rings = |group| [communities.inside(group), communities.outside(group)].map(|span| Ring::new(span.size()));
        Self { communities, rings: (0..GROUPS.len()).map(rings).collect() }
    }

    fn parts(group: usize) -> [u64; 2] {
        [GROUPS[group].followers, ROUND - GROUPS[group].followers]
    }

    fn spans(&self, group: usize) -> [Span; 2] {
        [self.communities.inside(group), self.communities.outside(group)]
    }

    /// Number of turns before an account would come again: the longest circle around an owner.
    pub fn turns(&self, owner: u64) -> u64 {
        let group = self.communities.group(owner);
        let sides = self.spans(group).into_iter().zip(Self::parts(group)).filter(|(_, parts)| *parts > 0);
        sides.map(|(span, parts)| span.size() / parts * ROUND).min().unwrap_or(0)
    }

    pub fn at(&self, owner: u64, first: u64, turn: u64) -> u64 {
        let group = self.communities.group(owner);
        let [inside, outside] = Self::parts(group);
        let (round, turn) = (turn / ROUND, turn % ROUND);
        let (side, rank) =
            if turn < inside { (0, round * inside + turn) } else { (1, round * outside + turn - inside) };
        self.spans(group)[side].at(self.rings[group][side].at(first, rank))
    }

    pub fn turn(&self, owner: u64, first: u64, account: u64) -> Option<u64> {
        let group = self.communities.group(owner);
        let is_inside = self.communities.group(account) == group;
        let (side, before) = if is_inside { (0, 0) } else { (1, GROUPS[group].followers) };
        let parts = Self::parts(group)[side];
        let rank = self.rings[group][side].turn(first, self.spans(group)[side].rank(account)?);
        (parts > 0).then(|| rank / parts * ROUND + before + rank % parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimulatorOptions;

    #[test]
    fn a_number_has_an_inverse_unless_they_share_a_divisor() {
        assert_eq!((inverse(3, 7), inverse(4, 8), inverse(5, 1)), (Some(5), None, Some(0)));
        for accounts in [1, 2, 3, 10, 32_768, 600_001, 1 << 20] {
            let ring = Ring::new(accounts);
            assert_eq!(ring.step * ring.back % accounts, 1 % accounts, "{accounts}");
        }
    }

    #[test]
    fn each_turn_of_a_group_is_another_account_s() {
        let options = SimulatorOptions { communities: true, ..SimulatorOptions::default() };
        for accounts in [49, 50, 630] {
            let communities = Communities::new(&options, accounts).unwrap();
            let groups = GroupRings::new(communities);
            for owner in 0..accounts {
                let turns = groups.turns(owner);
                let met: Vec<u64> = (0..turns).map(|turn| groups.at(owner, 12_345, turn)).collect();
                let distinct: std::collections::HashSet<&u64> = met.iter().collect();
                assert_eq!(distinct.len() as u64, turns, "of {owner}");
                let back = met.iter().map(|account| groups.turn(owner, 12_345, *account));
                assert!(back.eq((0..turns).map(Some)), "of {owner}");
                let inside = met.iter().filter(|account| communities.group(**account) == communities.group(owner));
                let share = GROUPS[communities.group(owner)].followers;
                assert_eq!(inside.count() as u64, turns * share / ROUND);
            }
        }
    }
}
