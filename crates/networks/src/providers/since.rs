//! Id to request from, so that no post is missed. Pure.
//!
//! Snowflake ids are only *k-sorted*: a post may become visible up to k after a post with a greater id. A poller that requests
//! only ids above the newest seen post therefore misses late posts. The remedy, its pseudocode and the choice of k are those of
//! tesaguri, "Twitter API における タイムラインの取得漏れ問題" (2023-02-07): request from k before the moment of the last reading, never from
//! further back than k before the newest post, and never from beyond that post.
//!
//! # Why no post is missed
//!
//! The network promises: a post with the timestamp t in its id becomes visible between t − a and t + (k − a), by the network's
//! clock, for some a from 0 to k. Let r be the moment of a reading, and call a post *hidden* if it was not visible then. Its
//! timestamp h is more than r − k + a.
//! - The recorded moment R ([`Reading::asked_at`]) is at most r, so h > R − k: its id is above `first_at(R − k) − 1`.
//! - The newest seen post, of timestamp l, was visible by r: l ≤ r + a, so h > l − k: its id is above `first_at(l − k) − 1` as well.
//!
//! The greater of both bounds is therefore below every hidden post, and so is the lesser of that and the newest post's id. The paper
//! takes R from the poller's clock, and says that a fast clock still loses posts. Here R is the lesser of that clock and of the time
//! that the answer's `Date` proves. Without a `Date`, only the ids count: the second bound needs no clock.
//!
//! Exception, as in the paper: ids whose timestamp is at most k after the network's epoch. On Twitter and Mastodon these were
//! assigned in sequence. After such an id, `since` is the newest id itself.

use serde::{Deserialize, Serialize};

use engine::base::clock::Millis;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdLayout {
    /// Number of bits below the timestamp, under 64.
    pub shift: u32,
    /// Zero of the timestamps, ms since the Unix epoch.
    pub epoch: Millis,
}

impl IdLayout {
    /// 41 bits of time, 10 of machine, 12 of sequence, since 2010-11-04.
    pub const TWITTER: Self = Self { shift: 22, epoch: 1_288_834_974_657 };
    /// 48 bits of time, 16 of sequence, since 1970 (Mastodon's `lib/mastodon/snowflake.rb`).
    pub const MASTODON: Self = Self { shift: 16, epoch: 0 };

    /// Smallest id that can be made at `at`, ms since the Unix epoch: 0 before the network's epoch, `u64::MAX` beyond the last id.
    #[must_use]
    pub fn first_at(self, at: Millis) -> u64 {
        let since = u128::try_from(at.saturating_sub(self.epoch)).unwrap_or(0);
        u64::try_from(since << self.shift).unwrap_or(u64::MAX)
    }

    /// Creation time of an id, ms since the Unix epoch.
    #[must_use]
    pub fn made_at(self, id: u64) -> Millis {
        let since = Millis::try_from(id >> self.shift).unwrap_or(Millis::MAX);
        since.saturating_add(self.epoch)
    }

    /// Id to request from (exclusive) after a reading; `latest` is the newest id ever seen. `asked_at` is [`Reading::asked_at`],
    /// ms since the Unix epoch; without it only the ids count. `k` is the time in ms by which ids may be out of order.
    #[must_use]
    pub fn since(self, latest: u64, asked_at: Option<Millis>, k: Millis) -> u64 {
        let k = u64::try_from(k).unwrap_or(0);
        let timestamp = latest >> self.shift;
        // The shift cannot overflow: the value is less than `timestamp`, which comes from a right shift of the same width.
        let lower = if timestamp <= k { latest } else { ((timestamp - k) << self.shift) - 1 };
        let k = Millis::try_from(k).unwrap_or(Millis::MAX);
        let by_clock = asked_at.map_or(0, |at| self.first_at(at.saturating_sub(k)).saturating_sub(1));
        by_clock.min(latest).max(lower)
    }
}

/// Evidence for the moment at which a page was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Our wall clock at sending, ms since the Unix epoch.
    pub sent_at: Millis,
    /// Time from sending to the answer, on a monotonic clock, in ms, rounded up.
    pub took: Millis,
    /// `Date` of the answer, ms since the Unix epoch: the server's clock, cut off to whole seconds.
    pub date: Option<Millis>,
}

impl Reading {
    /// Moment, ms since the Unix epoch, that the server's clock had passed before it read the timeline; `None` without a `Date`.
    ///
    /// The server wrote `Date` before the answer arrived, so `Date − took` is before the sending, whatever our clock shows. No delay can
    /// make it too late. The result is also at most our clock: a front with a fast clock causes an error only if both are wrong.
    #[must_use]
    pub fn asked_at(&self) -> Option<Millis> {
        let date = self.date?;
        Some(date.saturating_sub(self.took.max(0)).min(self.sent_at))
    }

    /// Approximate moment, for uses where an error loses nothing: our clock if there is no `Date`.
    #[must_use]
    pub fn about(&self) -> Millis {
        self.asked_at().unwrap_or(self.sent_at)
    }
}
