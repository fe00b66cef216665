//! Lists of followers and friends as the networks show them.

use super::follows::{Follow, Follows};
use super::lives::Absence;
use super::person::People;
use crate::random::{draw, to_unit};
use engine::base::clock::Millis;
use networks::model::provider::Provider;
use networks::model::relation::ListKind;

impl People {
    #[must_use]
    pub fn follows(&self) -> &Follows {
        &self.follows
    }

    /// List of an account as a network shows it, newest follow first, without members that are away. Mastodon shows a part of the lists
    /// of accounts on other servers.
    #[must_use]
    pub fn list(&self, provider: &Provider, side: ListKind, owner: u64, at: Millis) -> Vec<Follow> {
        self.list_below(provider, side, owner, at, Millis::MAX).collect()
    }

    pub(super) fn follows_in_order(
        &self,
        side: ListKind,
        owner: u64,
        at: Millis,
        below: Millis,
    ) -> Box<dyn Iterator<Item = Follow> + '_> {
        match side {
            ListKind::Followers => Box::new(self.follows.followers(owner, at, below)),
            ListKind::Friends => {
                let friends = self.follows.friends(owner, at).into_iter();
                Box::new(friends.filter(move |follow| follow.from < below))
            }
        }
    }

    pub fn list_below(
        &self,
        provider: &Provider,
        side: ListKind,
        owner: u64,
        at: Millis,
        below: Millis,
    ) -> impl Iterator<Item = Follow> {
        let is_mastodon = matches!(provider, Provider::Mastodon(_));
        let is_part = is_mastodon && self.is_remote(owner);
        let is_hidden = is_mastodon && self.is_hidden(owner);
        let follows = (!is_hidden).then(|| self.follows_in_order(side, owner, at, below)).into_iter().flatten();
        follows.filter(move |follow| {
            let (follower, followed) = (follow.follower, follow.followed);
            let member = if side == ListKind::Followers { follower } else { followed };
            let is_known = !is_part || draw(self.seed, KNOWN, follower, followed as i64) & 1 == 0;
            is_known && self.absences.absence_at(member, at).is_none()
        })
    }

    /// Times (start, excluded end) at which an account was on another's list of followers, as far as they touch the span; oldest first.
    #[must_use]
    pub fn times_on_list(&self, follower: u64, followed: u64, from: Millis, to: Millis) -> Vec<(Millis, Millis)> {
        let absences = self.absences.between(follower, from, to);
        let follows = self.follows.between(follower, followed, from, to).into_iter();
        follows.flat_map(|follow| subtract_absences(follow.from, follow.until, &absences)).collect()
    }

    /// The records of an account's follows at that time (Bluesky), newest first, including follows of accounts that are away.
    pub fn records_below(&self, owner: u64, at: Millis, below: Millis) -> impl Iterator<Item = Follow> {
        self.follows_in_order(ListKind::Friends, owner, at, below)
    }

    #[must_use]
    pub fn is_hidden(&self, number: u64) -> bool {
        to_unit(draw(self.seed, HIDDEN, number, 0)) < self.lists_hidden
    }

    #[must_use]
    pub fn is_remote(&self, number: u64) -> bool {
        to_unit(draw(self.seed, REMOTE, number, 0)) < self.accounts_remote
    }
}

fn subtract_absences(since: Millis, until: Millis, absences: &[Absence]) -> Vec<(Millis, Millis)> {
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
