//! Feed positions of a page's items: numbers in the order of the feed. Pure.
//!
//! A walk through the pages ends at the first position below the known posts, and the next walk ends just below the newest post of
//! this one. So no position may be too *low*: one old date at the end of a page (a pinned post, a record dated by hand) would end the
//! walk above unread posts. A position that is too *high* costs at most one page, if it is no later than the reading: no `indexedAt` is.
//!
//! The feed's own order is more reliable than any date: an item is no older than the items after it, and no older than the page's
//! cursor, if that holds a time.

use crate::providers::since::IdLayout;
use engine::base::clock::Millis;

/// Layout of a feed position: 42 bits of the sort time in ms since 1970, enough until 2109, and 22 bits of the uri.
pub const LAYOUT: IdLayout = IdLayout { shift: 22, epoch: 0 };

/// Feed position of an item with that sort time, ms since the Unix epoch. `name` distinguishes items of the same millisecond.
///
/// ```
/// # use twitter_updater_networks::providers::bluesky::timeline::{LAYOUT, feed_position};
/// let uri = "at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3l6oveex3ii2l";
/// assert_eq!(LAYOUT.made_at(feed_position(1_729_857_600_000, uri)), 1_729_857_600_000);
/// ```
#[must_use]
pub fn feed_position(at: Millis, name: &str) -> u64 {
    // FNV-1a: the same in every version, since positions are stored.
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    // The upper half depends little on the last bytes.
    LAYOUT.first_at(at) | ((hash ^ (hash >> 32)) & ((1 << LAYOUT.shift) - 1))
}

#[derive(Debug, Clone)]
pub struct Item<'a> {
    /// Sort time, ms since the Unix epoch; `None` if it is unreadable, or the item stands out of order.
    pub at: Option<Millis>,
    /// Name that distinguishes items of the same millisecond.
    pub name: &'a str,
}

/// Feed positions of a page's items, newest first, as in the feed. `floor` is the time of the page's own cursor; the page was
/// requested below the position `below`. `None` if no time is known. If the server ignored `below`, the positions show it.
pub fn feed_positions(items: &[Item<'_>], floor: Option<Millis>, below: Option<u64>) -> Option<Vec<u64>> {
    let mut least = floor.or_else(|| items.iter().rev().find_map(|item| item.at))?.max(0);
    let from_oldest = items.iter().rev().map(|item| {
        least = least.max(item.at.unwrap_or(least));
        least
    });
    let mut times: Vec<Millis> = from_oldest.collect();
    times.reverse();
    let (newest, oldest) = (times.first().copied()?, times.last().copied()?);
    let is_heeded = |below: &u64| {
        let end = LAYOUT.made_at(*below);
        oldest < end || (oldest == end && newest == end)
    };
    let most = below.filter(is_heeded).map_or(u64::MAX, |below| below.saturating_sub(1));
    Some(items.iter().zip(times).map(|(item, at)| feed_position(at, item.name).min(most)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(items: &[Option<Millis>], floor: Option<Millis>) -> Option<Vec<Millis>> {
        let items: Vec<Item<'_>> = items.iter().map(|at| Item { at: *at, name: "a" }).collect();
        Some(
            feed_positions(&items, floor, None)?
                .into_iter()
                .map(|feed_position| LAYOUT.made_at(feed_position))
                .collect(),
        )
    }

    #[test]
    fn an_old_date_ends_no_walk() {
        // A pinned post comes first; a record dated by hand may be anywhere.
        assert_eq!(times(&[None, Some(90), Some(80)], None), Some(vec![90, 90, 80]));
        assert_eq!(times(&[Some(90), Some(7), Some(80)], None), Some(vec![90, 80, 80]));
        assert_eq!(times(&[Some(90), Some(80), None], None), Some(vec![90, 80, 80]));
        assert_eq!(times(&[Some(90), Some(80), Some(7)], Some(75)), Some(vec![90, 80, 75]), "the cursor knows");
        assert_eq!(times(&[Some(90), Some(-5)], None), Some(vec![90, 0]));
        assert_eq!(times(&[None, None], Some(60)), Some(vec![60, 60]));
        assert_eq!(times(&[None, None], None), None);
        assert_eq!(times(&[], Some(60)), None);
    }

    #[test]
    fn what_comes_below_a_place_is_below_it_or_shows_that_it_is_not() {
        let below = feed_position(80, "a");
        let of = |all: &[Option<Millis>]| {
            let items: Vec<Item<'_>> = all.iter().map(|at| Item { at: *at, name: "b" }).collect();
            feed_positions(&items, None, Some(below)).unwrap()
        };
        // A repost's date may be too late, and posts of the same millisecond may be left.
        assert!(of(&[Some(99), Some(70)]).iter().all(|feed_position| *feed_position < below));
        assert!(of(&[Some(80), Some(70)]).iter().all(|feed_position| *feed_position < below));
        assert!(of(&[Some(80), Some(80)]).iter().all(|feed_position| *feed_position < below));
        assert!(
            of(&[Some(99), Some(80)]).iter().any(|feed_position| *feed_position >= below),
            "the page above it once more"
        );
        assert!(of(&[Some(99), Some(90)]).iter().all(|feed_position| *feed_position >= below));
    }

    #[test]
    fn two_of_one_millisecond_differ() {
        assert_ne!(feed_position(80, "at://a/1"), feed_position(80, "at://a/2"));
        assert_eq!(LAYOUT.made_at(feed_position(-1, "x")), 0);
        let (least, most) = (LAYOUT.first_at(80), LAYOUT.first_at(81) - 1);
        for name in ["", "a", "at://did:plc:a/app.bsky.feed.post/3l6oveex3ii2l", "é"] {
            assert!((least..=most).contains(&feed_position(80, name)), "{name}");
        }
    }
}
