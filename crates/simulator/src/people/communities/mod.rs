//! Planted groups of accounts, with their languages, locations, conversations and follows. They are on with
//! [`SimulatorOptions::communities`], and are the truth for measuring a search for a community.
//!
//! `groups` has the groups and their shares as data, `words` the words (`*.txt`), `posts` makes texts, `profiles` profiles.
//! The partition is arithmetic. In each 50 successive accounts a fixed number belongs to each group, at places that rotate
//! from block to block. So the members of a group can be counted, and found by their ranks, without a list.

mod groups;
mod posts;
mod profiles;
mod words;

use self::groups::{BLOCK, FIRST_POSITIONS};
pub use self::groups::{GROUPS, Group, ROUND};
use crate::options::SimulatorOptions;
use crate::random::{draw, mix, to_unit};
use crate::text::AUTHORS;

/// Share of mentions, replies and retweets that go to any account (paper 004: Portuguese users mention 79 % Portuguese accounts).
const TO_ANY_ACCOUNT: f64 = 0.2;
/// Share that goes to friends in the own group; the rest goes to the group's well-known members.
const TO_FRIENDS: f64 = 0.4;
const FRIENDS: u64 = 8;
/// Flatness of the top of the ranks: the first of 1,200 gets 1 % of the share of well-known members.
const FLATNESS: f64 = 20.0;

/// Largest number of accounts in planted groups: all of them write posts.
pub const MOST_IN_COMMUNITIES: u64 = AUTHORS;

#[derive(Debug, Clone, Copy)]
pub struct Communities {
    seed: u64,
    accounts: u64,
}

/// The accounts inside a group, or all others, in whole blocks, each with a rank.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    communities: Communities,
    first: u64,
    places: u64,
}

impl Communities {
    pub fn new(options: &SimulatorOptions, accounts: u64) -> Option<Self> {
        options.communities.then_some(Self { seed: options.seed, accounts })
    }

    /// The author for the bits of an id. All authors are accounts, so some accounts write the posts of two.
    pub fn author(&self, author: u64) -> u64 {
        author % self.accounts
    }

    fn place(&self, number: u64) -> u64 {
        (number % BLOCK + self.rotation(number / BLOCK)) % BLOCK
    }

    fn rotation(&self, block: u64) -> u64 {
        draw(self.seed, ROTATION, block, 0) % BLOCK
    }

    pub fn group(&self, number: u64) -> usize {
        let place = self.place(number);
        FIRST_POSITIONS.iter().rposition(|first| *first <= place).unwrap_or(0)
    }

    pub fn inside(self, group: usize) -> Span {
        Span { communities: self, first: FIRST_POSITIONS[group], places: GROUPS[group].parts }
    }

    pub fn outside(self, group: usize) -> Span {
        let parts = GROUPS[group].parts;
        Span { communities: self, first: (FIRST_POSITIONS[group] + parts) % BLOCK, places: BLOCK - parts }
    }

    /// An account to which `author` talks: mostly in its own group, a friend or a well-known member.
    pub fn peer(&self, author: u64, random: u64) -> u64 {
        let group = self.inside(self.group(author));
        let (how, which) = (to_unit(mix(random ^ HOW)), to_unit(mix(random ^ WHICH)));
        let number = match group.size() {
            0 => zipf_rank(self.accounts, which),
            _ if how < TO_ANY_ACCOUNT => zipf_rank(self.accounts, which),
            size if how < TO_ANY_ACCOUNT + TO_FRIENDS => {
                group.at(draw(self.seed, FRIEND, author, (random % FRIENDS) as i64) % size)
            }
            size => group.at(zipf_rank(size, which)),
        };
        if number == author { (number + 1) % self.accounts } else { number }
    }
}

impl Span {
    pub fn size(&self) -> u64 {
        self.communities.accounts / BLOCK * self.places
    }

    pub fn at(&self, rank: u64) -> u64 {
        let (block, place) = (rank / self.places, self.first + rank % self.places);
        block * BLOCK + (place + BLOCK - self.communities.rotation(block)) % BLOCK
    }

    /// Rank of an account in this span; `None` if it is outside.
    pub fn rank(&self, number: u64) -> Option<u64> {
        let place = (self.communities.place(number) + BLOCK - self.first) % BLOCK;
        let rank = number / BLOCK * self.places + place;
        (place < self.places && rank < self.size()).then_some(rank)
    }
}

/// A rank by Zipf's law, with a flat top.
fn zipf_rank(size: u64, random: f64) -> u64 {
    let rank = FLATNESS * ((1.0 + size as f64 / FLATNESS).powf(random) - 1.0);
    (rank as u64).min(size.saturating_sub(1))
}

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = mix(self.0.wrapping_add(0x9e37_79b9_7f4a_7c15));
        self.0
    }

    /// Returns true with the probability `share`.
    fn happens(&mut self, share: f64) -> bool {
        to_unit(self.next()) < share
    }

    /// A random item; empty if there is none.
    fn pick(&mut self, of: &[&'static str]) -> &'static str {
        let at = self.next() as usize % of.len().max(1);
        of.get(at).copied().unwrap_or_default()
    }
}

const ROTATION: u64 = 201;
const FRIEND: u64 = 202;
const HABITS: u64 = 203;
const PROFILE: u64 = 204;
const HOW: u64 = 0x51_7c_c1;
const WHICH: u64 = 0x27_22_0a;
