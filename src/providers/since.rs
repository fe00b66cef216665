//! Which id to ask from, so that no post is passed over. Pure.
//!
//! Snowflake ids are only *k-sorted*: a post may become visible up to k after one with a greater id. So a
//! poller that asks for what is newer than the newest post it has seen passes over posts that appear
//! late. The remedy, its pseudocode and the choice of k are those of tesaguri, "Twitter API における
//! タイムラインの取得漏れ問題" (2023-02-07): ask from k before the moment of the last reading, never from
//! further back than k before the newest post, and never from beyond that post.
//!
//! # Why nothing is passed over
//!
//! What the network promises: a post with the timestamp t in its id becomes visible between t − a and
//! t + (k − a), by the network's clock, for some a from 0 to k. Be r the moment at which a reading looked, and *hidden* a
//! post that was not visible then. Its timestamp h is more than r − k + a.
//! - The reading's own moment R ([`Reading::asked_at`]) is at most r, so h > R − k: its id is above
//!   `first_at(R − k) − 1`.
//! - The newest post seen, of timestamp l, was visible at r or before: l ≤ r + a, so h > l − k: its id is above
//!   `first_at(l − k) − 1` as well.
//!
//! So the greater of both bounds is below every hidden post, and so is the lesser of that and the
//! newest post's id. The paper takes R from the poller's clock, and says that one that is ahead loses posts
//! all the same. Here R is the lesser of that clock and of what the answer's `Date` proves, and where there is no
//! `Date`, the ids alone are believed: the second bound needs no clock.
//!
//! Two ids are outside of this, as in the paper: those whose timestamp is at most k after the network's epoch (on Twitter
//! and Mastodon those were handed out in sequence), after which `since` is the newest id itself.

use serde::{Deserialize, Serialize};

use crate::base::clock::Millis;

/// The relation of a network's ids to their dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdLayout {
    /// Bits below the timestamp, under 64.
    pub shift: u32,
    /// The timestamps' zero, ms since the Unix epoch.
    pub epoch: Millis,
}

impl IdLayout {
    /// 41 bits of time, 10 of machine, 12 of sequence, since 2010-11-04.
    pub const TWITTER: Self = Self { shift: 22, epoch: 1_288_834_974_657 };
    /// 48 bits of time, 16 of sequence, since 1970 (Mastodon's `lib/mastodon/snowflake.rb`).
    pub const MASTODON: Self = Self { shift: 16, epoch: 0 };

    /// The least id that can be made at `at`, ms since the Unix epoch: 0 before the network's epoch, the greatest
    /// id there is beyond the last.
    #[must_use]
    pub fn first_at(self, at: Millis) -> u64 {
        let since = u128::try_from(at.saturating_sub(self.epoch)).unwrap_or(0);
        u64::try_from(since << self.shift).unwrap_or(u64::MAX)
    }

    /// When an id was made, ms since the Unix epoch.
    #[must_use]
    pub fn made_at(self, id: u64) -> Millis {
        let since = Millis::try_from(id >> self.shift).unwrap_or(Millis::MAX);
        since.saturating_add(self.epoch)
    }

    /// The id to ask from (exclusive) after a reading that left `latest` as the newest id ever seen.
    ///
    /// `asked_at` is [`Reading::asked_at`], ms since the Unix epoch; without it the ids alone are believed. `k` is
    /// how much out of order ids may appear, in ms.
    #[must_use]
    pub fn since(self, latest: u64, asked_at: Option<Millis>, k: Millis) -> u64 {
        let k = u64::try_from(k).unwrap_or(0);
        let timestamp = latest >> self.shift;
        // The shift cannot overflow: what is shifted is less than `latest` was before its own shift.
        let lower = if timestamp <= k { latest } else { ((timestamp - k) << self.shift) - 1 };
        let k = Millis::try_from(k).unwrap_or(Millis::MAX);
        let by_clock = asked_at.map_or(0, |at| self.first_at(at.saturating_sub(k)).saturating_sub(1));
        by_clock.min(latest).max(lower)
    }
}

/// The evidence for the moment at which a page was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Our wall clock when the request was sent, ms since the Unix epoch.
    pub sent_at: Millis,
    /// The time from then until the answer arrived, on a monotonic clock, in ms, rounded up.
    pub took: Millis,
    /// The answer's `Date`, ms since the Unix epoch: their clock, cut off to whole seconds.
    pub date: Option<Millis>,
}

impl Reading {
    /// A moment, ms since the Unix epoch, that their clock had passed before they looked at the timeline;
    /// `None` where the answer does not say.
    ///
    /// They wrote `Date` before the answer was here, so `Date − took` is before the request left, whatever
    /// our clock says: no delay on the way or inside the server can make it too late. Ours is asked, too: a front
    /// with a fast clock is then believed only where both are wrong.
    #[must_use]
    pub fn asked_at(&self) -> Option<Millis> {
        let date = self.date?;
        Some(date.saturating_sub(self.took.max(0)).min(self.sent_at))
    }

    /// The same where nothing is lost by an error: our clock, where the answer does not say.
    #[must_use]
    pub fn about(&self) -> Millis {
        self.asked_at().unwrap_or(self.sent_at)
    }
}
