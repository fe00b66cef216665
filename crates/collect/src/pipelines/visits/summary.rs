//! Summary of an account's last visit, for people and SQL: the raw object of its row.

use serde::{Deserialize, Serialize};

use engine::base::clock::Millis;
use engine::schedule::visits::rhythm::{Kind, Rhythm};
use engine::schedule::{Bound, Schedule, ScheduledItem};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VisitSummary {
    pub posts: u64,
    /// Recent posts per day.
    pub posts_per_day: f64,
    pub kind: Kind,
    /// Posts expected until the next visit; `None` if the policy does not use them.
    pub expected_posts: Option<f64>,
    /// Reason for the date of the next visit.
    pub why: String,
    /// Shares of the hours of the day (UTC) in its posts, 0 to 1; they add up to 1, or are all 0.
    pub hours: Vec<f64>,
}

impl VisitSummary {
    /// `now`: time of the visit, ms since the epoch; `delay`: ms until the next one.
    #[must_use]
    pub fn new(schedule: &dyn Schedule, account: &ScheduledItem<'_>, posts: u64, now: Millis, delay: Millis) -> Self {
        let explained = schedule.budget().and_then(|budget| budget.explain(account, delay, now.saturating_add(delay)));
        let nothing = Rhythm::new(now);
        let rhythm = account.rhythm.unwrap_or(&nothing);
        let why = match explained.and_then(|explained| explained.bound) {
            Some(Bound::Shortest) => "no account is visited more often",
            Some(Bound::Longest) => "no account is visited more seldom",
            Some(Bound::Unchecked) => "no account waits longer for a check (store.longest_unchecked)",
            None if explained.is_some() => "by then its expected posts are worth a visit",
            None => "it is its turn by then",
        };
        // Three digits are enough for people.
        let rounded = |number: f64| (number * 1e3).round() / 1e3;
        Self {
            posts,
            posts_per_day: rounded(rhythm.per_day()),
            kind: rhythm.kind(now),
            expected_posts: explained.map(|explained| rounded(explained.unseen)),
            why: why.to_owned(),
            hours: rhythm.hour_shares().map(rounded).to_vec(),
        }
    }
}
