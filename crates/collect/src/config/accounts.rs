//! `[accounts]`

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{BadConfig, OnDeleted, Settings, comma_separated};
use networks::model::account::Role;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccountSchedule {
    Silence,
    Adaptive,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AccountSettings {
    pub collect: bool,
    pub from_posts: String,
    pub from_lists: u64,
    #[serde(deserialize_with = "super::word")]
    pub schedule: AccountSchedule,
    #[serde(with = "humantime_serde")]
    pub active: Duration,
    #[serde(with = "humantime_serde")]
    pub idle: Duration,
    #[serde(with = "humantime_serde")]
    pub frozen: Duration,
    #[serde(with = "humantime_serde")]
    pub idle_after: Duration,
    #[serde(with = "humantime_serde")]
    pub freeze_after: Duration,
    #[serde(with = "humantime_serde")]
    pub gone: Duration,
}

impl AccountSettings {
    pub fn roles(&self) -> Result<Vec<Role>, BadConfig> {
        let role = |word: &str| Role::ALL.into_iter().find(|role| role.as_str() == word);
        let unknown = |word| {
            let known = Role::ALL.map(Role::as_str).join(", ");
            BadConfig(format!("accounts.from_posts: {word:?} is unknown: write any of {known}"))
        };
        comma_separated(&self.from_posts).map(|word| role(word).ok_or_else(|| unknown(word))).collect()
    }
}

impl Settings {
    /// Intervals of active, idle and frozen accounts. They are at most `store.longest_unchecked` unless
    /// `store.on_deleted` is `keep`.
    #[must_use]
    pub fn account_intervals(&self) -> [Duration; 3] {
        let AccountSettings { active, idle, frozen, .. } = self.accounts;
        let is_bounded = self.store.on_deleted != OnDeleted::Keep;
        let longest = if is_bounded { self.store.longest_unchecked } else { Duration::MAX };
        [active, idle, frozen].map(|interval| interval.min(longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_posts_are_named_by_their_part() {
        let with = |words: &str| {
            let settings = Settings::load_with(&[], None, &[("TWITTER_UPDATER__ACCOUNTS__FROM_POSTS", words)]);
            settings.and_then(|settings| settings.accounts.roles())
        };
        assert_eq!(with(" author,reposted ").unwrap(), [Role::Author, Role::Reposted]);
        assert_eq!(with("").unwrap(), []);
        let error = with("author, friends").unwrap_err().to_string();
        assert!(
            error.contains("accounts.from_posts: \"friends\" is unknown: write any of author, mentioned, reposted"),
            "{error}"
        );
    }
}
