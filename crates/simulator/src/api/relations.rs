//! The common part of all lists of followers and friends: pages by the times of the follows, and their cursors.

use axum::response::Response;

use super::shared::Api;
use crate::dialect::Dialect;
use crate::faults::Endpoint;
use crate::people::Follow;
use crate::random::{draw, to_unit};
use crate::windows::Window;
use engine::base::clock::{self, Millis};
use networks::model::provider::Provider;
use networks::model::relation::ListKind;

/// Low bits of a cursor: the second in which it was issued. They wrap after 12 days.
const ISSUED_BITS: u32 = 20;
const ISSUED_MASK: Millis = (1 << ISSUED_BITS) - 1;

#[derive(Debug, Clone, Copy)]
pub struct List<'a> {
    pub provider: &'a Provider,
    pub side: ListKind,
    pub owner: u64,
    /// True for the records of follows (Bluesky), false for the accounts.
    pub(crate) of_records: bool,
}

#[derive(Debug)]
pub struct Page {
    pub follows: Vec<Follow>,
    /// The cursor of the next page. Mastodon has one after each full page.
    pub next: Option<u64>,
    pub previous: Option<u64>,
}

impl Page {
    pub fn members(&self, side: ListKind) -> impl Iterator<Item = u64> {
        self.follows.iter().map(move |follow| match side {
            ListKind::Followers => follow.follower,
            ListKind::Friends => follow.followed,
        })
    }
}

impl Api {
    /// The page after a cursor, or the first one; `None` if the cursor has expired.
    pub fn list_page(&self, list: List<'_>, cursor: Option<u64>, limit: usize, now: Millis) -> Option<Page> {
        let people = self.world.people();
        let below = match cursor {
            None => Millis::MAX,
            Some(cursor) if self.is_stale(cursor, now) => return None,
            Some(cursor) => cursor_time(cursor),
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
            again.unwrap_or_else(|| write_cursor(last.from + Millis::from(overlaps), now))
        });
        if cursor.is_some() && next.is_none() && self.faults.empties_last_pages() {
            follows.clear();
        }
        let previous = cursor.and_then(|_| follows.first()).map(|first| write_cursor(first.from, now));
        Some(Page { follows, next, previous })
    }

    /// Returns true if the next page repeats the last member of this one, as at Twitter. It always does for two follows of one millisecond.
    fn overlaps(&self, list: List<'_>, last: Millis, behind: Millis) -> bool {
        let may = matches!(list.provider, Provider::Twitter | Provider::Mastodon(_));
        let is_drawn = draw(self.options.seed, OVERLAP, list.owner, last) % 5 < 2;
        last == behind || may && is_drawn
    }

    fn repeats(&self, owner: u64) -> bool {
        to_unit(draw(self.options.seed, REPEATS, owner, 0)) < self.options.cursors_repeat
    }

    fn is_stale(&self, cursor: u64, now: Millis) -> bool {
        let age = (now.div_euclid(1_000) - (cursor as Millis & ISSUED_MASK)) & ISSUED_MASK;
        let longest = clock::millis(self.options.cursors_last) / 1_000;
        !self.options.cursors_last.is_zero() && age > longest
    }

    /// Sends `answer` about the lists of `owner`, or the fault that the rules inject in place of it.
    pub(crate) async fn answer_list_or_fault(
        &self,
        dialect: Dialect,
        owner: &str,
        window: Option<Window>,
        answer: super::accounts::Answer,
    ) -> Response {
        self.apply_fault(Endpoint::Relations, dialect, &[owner], window, answer).await
    }
}

/// A cursor in Twitter's form: the time in ms, then low bits that clients cannot interpret.
fn write_cursor(below: Millis, now: Millis) -> u64 {
    ((below as u64) << ISSUED_BITS) | (now.div_euclid(1_000) & ISSUED_MASK) as u64
}

fn cursor_time(cursor: u64) -> Millis {
    (cursor >> ISSUED_BITS) as Millis
}

const OVERLAP: u64 = 181;
const REPEATS: u64 = 182;
