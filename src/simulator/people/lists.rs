//! Lists of followers and friends as the networks show them.

use super::follows::{Follow, Follows};
use super::lives::Away;
use super::person::People;
use crate::base::clock::Millis;
use crate::model::provider::Provider;
use crate::model::relation::Side;
use crate::simulator::dice::{draw, unit};

impl People {
    #[must_use]
    pub fn follows(&self) -> &Follows {
        &self.follows
    }

    /// The list of an account that a network shows at that time, newest follow first. Members that are away are left out, at
    /// Bluesky of the views. Mastodon shows a part of the lists of accounts on other servers.
    #[must_use]
    pub fn list(&self, provider: &Provider, side: Side, owner: u64, at: Millis) -> Vec<Follow> {
        self.list_below(provider, side, owner, at, Millis::MAX).collect()
    }

    /// Follows that started before `below`, newest first.
    pub(super) fn in_order(
        &self,
        side: Side,
        owner: u64,
        at: Millis,
        below: Millis,
    ) -> Box<dyn Iterator<Item = Follow> + '_> {
        match side {
            Side::Followers => Box::new(self.follows.followers(owner, at, below)),
            Side::Friends => {
                let friends = self.follows.friends(owner, at).into_iter();
                Box::new(friends.filter(move |follow| follow.from < below))
            }
        }
    }

    pub fn list_below(
        &self,
        provider: &Provider,
        side: Side,
        owner: u64,
        at: Millis,
        below: Millis,
    ) -> impl Iterator<Item = Follow> {
        let is_mastodon = matches!(provider, Provider::Mastodon(_));
        let is_part = is_mastodon && self.is_remote(owner);
        let is_hidden = is_mastodon && self.is_hidden(owner);
        let follows = (!is_hidden).then(|| self.in_order(side, owner, at, below)).into_iter().flatten();
        follows.filter(move |follow| {
            let (follower, followed) = (follow.follower, follow.followed);
            let member = if side == Side::Followers { follower } else { followed };
            let is_known = !is_part || draw(self.seed, KNOWN, follower, followed as i64) & 1 == 0;
            is_known && self.lives.away(member, at).is_none()
        })
    }

    /// Times for which an account was on the list of another's followers, as far as they touch the span from `from` to `to`,
    /// oldest first: each with its start and its end (excluded). An account that is away is on no list ([`People::list`]), and
    /// is there again when it returns.
    #[must_use]
    pub fn stays(&self, follower: u64, followed: u64, from: Millis, to: Millis) -> Vec<(Millis, Millis)> {
        let absences = self.lives.absences(follower, from, to);
        let follows = self.follows.between(follower, followed, from, to).into_iter();
        follows.flat_map(|follow| without(follow.from, follow.until, &absences)).collect()
    }

    /// The records of an account's follows at that time (Bluesky), newest first, including follows of accounts that are away.
    pub fn records_below(&self, owner: u64, at: Millis, below: Millis) -> impl Iterator<Item = Follow> {
        self.in_order(Side::Friends, owner, at, below)
    }

    /// Returns true if the owner of an account hides its lists (Mastodon).
    #[must_use]
    pub fn is_hidden(&self, number: u64) -> bool {
        unit(draw(self.seed, HIDDEN, number, 0)) < self.lists_hidden
    }

    #[must_use]
    pub fn is_remote(&self, number: u64) -> bool {
        unit(draw(self.seed, REMOTE, number, 0)) < self.accounts_remote
    }
}

/// The rest of a span without these absences, which are in order.
fn without(since: Millis, until: Millis, absences: &[Away]) -> Vec<(Millis, Millis)> {
    let (mut left, mut from) = (Vec::new(), since);
    for away in absences.iter().filter(|away| away.from < until && away.until > since) {
        if away.from > from {
            left.push((from, away.from));
        }
        from = away.until;
    }
    if from < until {
        left.push((from, until));
    }
    left
}

const HIDDEN: u64 = 171;
const REMOTE: u64 = 172;
const KNOWN: u64 = 173;
