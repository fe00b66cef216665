//! The common part of all lists of followers and friends: pages by the times of the follows, and their cursors.

use axum::response::Response;

use super::shared::Api;
use crate::base::clock::{self, Millis};
use crate::model::provider::Provider;
use crate::model::relation::Side;
use crate::simulator::dialect::Dialect;
use crate::simulator::dice::{draw, unit};
use crate::simulator::faults::Endpoint;
use crate::simulator::people::Follow;
use crate::simulator::windows::Window;

/// Low bits of a cursor: the second in which it was issued. They wrap after 12 days.
const GIVEN_BITS: u32 = 20;
const GIVEN: Millis = (1 << GIVEN_BITS) - 1;

#[derive(Debug, Clone, Copy)]
pub(crate) struct List<'a> {
    pub(crate) provider: &'a Provider,
    pub(crate) side: Side,
    pub(crate) owner: u64,
    /// True for the records of follows (Bluesky), false for the accounts.
    pub(crate) of_records: bool,
}

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) follows: Vec<Follow>,
    /// The cursor of the next page. Mastodon has one after each full page.
    pub(crate) next: Option<u64>,
    /// Cursor of the previous page; `None` on the first.
    pub(crate) previous: Option<u64>,
}

impl Page {
    pub(crate) fn members(&self, side: Side) -> impl Iterator<Item = u64> {
        self.follows.iter().map(move |follow| match side {
            Side::Followers => follow.follower,
            Side::Friends => follow.followed,
        })
    }
}

impl Api {
    /// The page after a cursor, or the first one; `None` if the cursor has expired.
    pub(crate) fn list_page(&self, list: List<'_>, cursor: Option<u64>, limit: usize, now: Millis) -> Option<Page> {
        let people = self.world.people();
        let below = match cursor {
            None => Millis::MAX,
            Some(cursor) if self.is_stale(cursor, now) => return None,
            Some(cursor) => moment(cursor),
        };
        let List { provider, side, owner, of_records } = list;
        let mut follows: Vec<Follow> = match of_records {
            true => people.records_below(owner, now, below).take(limit + 1).collect(),
            false => people.list_below(provider, side, owner, now, below).take(limit + 1).collect(),
        };
        let rest = (follows.len() > limit).then(|| follows.split_off(limit));
        let is_full = follows.len() == limit && matches!(provider, Provider::Mastodon(_));
        let next = follows.last().filter(|_| rest.is_some() || is_full).map(|last| {
            let behind = rest.as_ref().and_then(|rest| rest.first());
            // A page without a new member would repeat for ever.
            let is_new = follows.first().is_some_and(|first| first.from > last.from);
            let overlaps = is_new && behind.is_some_and(|behind| self.overlaps(list, last.from, behind.from));
            let again = cursor.filter(|_| self.repeats(owner));
            again.unwrap_or_else(|| written(last.from + Millis::from(overlaps), now))
        });
        if cursor.is_some() && next.is_none() && self.faults.empties_last_pages() {
            follows.clear();
        }
        let previous = cursor.and_then(|_| follows.first()).map(|first| written(first.from, now));
        Some(Page { follows, next, previous })
    }

    /// Returns true if the next page repeats the last member of this one, as at Twitter. It always does for two follows of one
    /// millisecond, so that no member is left out.
    fn overlaps(&self, list: List<'_>, last: Millis, behind: Millis) -> bool {
        let may = matches!(list.provider, Provider::Twitter | Provider::Mastodon(_));
        let is_drawn = draw(self.options.seed, SEAM, list.owner, last) % 5 < 2;
        last == behind || may && is_drawn
    }

    /// Returns true if the lists of this account repeat their second page for ever.
    fn repeats(&self, owner: u64) -> bool {
        unit(draw(self.options.seed, REPEATS, owner, 0)) < self.options.cursors_repeat
    }

    fn is_stale(&self, cursor: u64, now: Millis) -> bool {
        let age = (now.div_euclid(1_000) - (cursor as Millis & GIVEN)) & GIVEN;
        let longest = clock::millis(self.options.cursors_last) / 1_000;
        !self.options.cursors_last.is_zero() && age > longest
    }

    pub(crate) async fn of_relations(
        &self,
        dialect: Dialect,
        owner: &str,
        window: Option<Window>,
        answer: super::accounts::Answer,
    ) -> Response {
        self.unless_struck(Endpoint::Relations, dialect, &[owner], window, answer).await
    }
}

/// A cursor in Twitter's form: the time in ms, then low bits that clients cannot interpret.
fn written(below: Millis, now: Millis) -> u64 {
    ((below as u64) << GIVEN_BITS) | (now.div_euclid(1_000) & GIVEN) as u64
}

fn moment(cursor: u64) -> Millis {
    (cursor >> GIVEN_BITS) as Millis
}

const SEAM: u64 = 181;
const REPEATS: u64 = 182;
