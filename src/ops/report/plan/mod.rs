//! Calls, time, storage and money for a number of posts per day, of accounts, or of lists. Pure.
//!
//! [`Plan`] compares the demand of posts with one network. [`AccountsPlan`] and [`ListsPlan`] compare theirs with each
//! network by [`NetworkPlan`]. [`ReadCost`] compares a demand with the budget of reads.

mod accounts;
mod adaptive;
mod checks;
mod fill;
mod lists;
mod network;
mod posts;
mod reads;

pub use self::accounts::{AccountsPlan, Population};
pub use self::adaptive::AdaptivePlan;
pub use self::checks::{ChecksPlan, Costs};
pub use self::fill::{Flow, RequestFill, WINDOW_S};
pub use self::lists::{ListPopulation, ListsPlan};
pub use self::network::{
    ACCOUNT_CALLS, CallLimits, Capacity, CredentialCounts, LIST_CALLS, Network, NetworkPlan, TWITTER_CALLS, X_CALLS,
    X_LIST_CALLS,
};
pub use self::posts::{BadTweetsPerDay, Plan, REDIS_BYTES_PER_ID, largest_tweets_per_day, updates_per_tweet};
pub use self::reads::{
    BadLifetime, READS_PER_ACCOUNT, ReadCost, ReadTerms, ReadsPlan, format_dollars, monthly_reads, reads_per_tweet,
};

#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BadPopulation {
    #[error("--accounts ({0}) must be above 0 and at most 1,000,000,000,000")]
    Accounts(f64),
    #[error("--active and --idle must be shares from 0 to 1, and at most 1 together")]
    Shares,
    #[error("--followers ({0}) must be above 0 and at most 1,000,000,000,000")]
    Lists(f64),
    #[error("--list-sizes ({0}) must be from 0 to 1,000,000,000,000")]
    ListSize(f64),
}
