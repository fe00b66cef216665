//! Differences between two configurations, and the settings that a running process applies.

use std::collections::BTreeMap;
use std::fmt;

use config::Config;
use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret, SecretString};

use super::masking::is_masked;
use super::{AccountSettings, AdaptiveSettings, Settings};

/// Settings that a running process applies. Others need a restart.
pub const LIVE_SETTINGS: [&str; 22] = [
    "tweet_age",
    "schedule",
    "adaptive.model_file",
    "adaptive.faster",
    "adaptive.slower",
    "adaptive.spend",
    "adaptive.earliest",
    "accounts.schedule",
    "accounts.active",
    "accounts.idle",
    "accounts.frozen",
    "accounts.idle_after",
    "log.level",
    "store.longest_unchecked",
    "x.reads",
    "x.reads_per",
    "x.reads_from_day",
    "x.price_per_read",
    "x.same_day",
    "updater.buffer_ttl",
    "updater.lookahead",
    "updater.concurrency",
];

/// Worker name: replicas may differ in it and still run one configuration.
const WORKER_NAME: &str = "updater.name";
const REVISION_BYTES: usize = 4;

/// One changed setting, as text. Secrets are masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub setting: String,
    /// Old value; `None` if it was missing.
    pub old: Option<String>,
    /// New value; `None` if it was removed.
    pub new: Option<String>,
}

/// Changed settings, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    pub live: Vec<Change>,
    pub waiting: Vec<Change>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "(not set)".to_owned());
        if self.old == self.new {
            write!(f, "{}: its secret", self.setting)
        } else {
            write!(f, "{}: {} → {}", self.setting, shown(&self.old), shown(&self.new))
        }
    }
}

impl Settings {
    #[must_use]
    pub fn changes_to(&self, new: &Self) -> Changes {
        let (was, is) = (self.flat_values(), new.flat_values());
        let secret_keys = self.changed_secrets(new);
        let keys: std::collections::BTreeSet<&String> = was.keys().chain(is.keys()).collect();
        let mut changes = Changes::default();
        for key in keys {
            let is_live = LIVE_SETTINGS.contains(&key.as_str()) || self.is_community_setting(new, key);
            let (old, new) = (was.get(key).cloned(), is.get(key).cloned());
            if old != new || secret_keys.contains(&key) {
                let of = if is_live { &mut changes.live } else { &mut changes.waiting };
                of.push(Change { setting: key.clone(), old, new });
            }
        }
        changes
    }

    /// Returns true for a setting of a community in both configurations: all of these may change live.
    fn is_community_setting(&self, new: &Self, key: &str) -> bool {
        let name = key.strip_prefix("communities.").and_then(|rest| rest.split('.').next());
        name.is_some_and(|name| self.communities.contains_key(name) && new.communities.contains_key(name))
    }

    /// Returns these settings with the live ones taken from `new`.
    #[must_use]
    pub fn with_live_settings(&self, new: &Self) -> Self {
        let mut applied = self.clone();
        applied.tweet_age.clone_from(&new.tweet_age);
        applied.schedule = new.schedule;
        applied.adaptive = AdaptiveSettings { weights: self.adaptive.weights, ..new.adaptive.clone() };
        applied.accounts = AccountSettings {
            schedule: new.accounts.schedule,
            active: new.accounts.active,
            idle: new.accounts.idle,
            frozen: new.accounts.frozen,
            idle_after: new.accounts.idle_after,
            ..self.accounts.clone()
        };
        for (name, community) in &mut applied.communities {
            if let Some(new) = new.communities.get(name) {
                community.clone_from(new);
            }
        }
        applied.log.level.clone_from(&new.log.level);
        applied.store.longest_unchecked = new.store.longest_unchecked;
        applied.x.reads = new.x.reads;
        applied.x.reads_per = new.x.reads_per;
        applied.x.reads_from_day = new.x.reads_from_day;
        applied.x.price_per_read = new.x.price_per_read;
        applied.x.same_day = new.x.same_day;
        applied.updater.buffer_ttl = new.updater.buffer_ttl;
        applied.updater.lookahead = new.updater.lookahead;
        applied.updater.concurrency = new.updater.concurrency;
        applied
    }

    /// Short digest of all settings except secrets and `updater.name`, equal for processes with the same configuration.
    #[must_use]
    pub fn revision(&self) -> String {
        let mut text = String::new();
        for (key, value) in self.flat_values() {
            if key != WORKER_NAME {
                text += &format!("{key} = {value:?}\n");
            }
        }
        let digest = digest(&SHA256, text.as_bytes());
        digest.as_ref().iter().take(REVISION_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Values by `section.key`, secrets masked.
    pub(super) fn flat_values(&self) -> BTreeMap<String, String> {
        let mut flat = BTreeMap::new();
        // Settings that cannot be shown cannot be compared: see `Settings::masked_toml`.
        if let Ok(table) = toml::Table::try_from(self) {
            flatten("", toml::Value::Table(table), &mut flat);
        }
        flat
    }

    /// Returns the settings whose values are masked, with the values in `given`.
    pub(super) fn masked_values(&self, given: &Config) -> BTreeMap<String, SecretString> {
        let masked = self.flat_values().into_iter().filter(|(_, shown)| is_masked(shown));
        masked.filter_map(|(key, _)| given.get_string(&key).ok().map(|text| (key, text.into()))).collect()
    }

    /// Returns the settings that differ in their masked values.
    fn changed_secrets<'a>(&'a self, new: &'a Self) -> Vec<&'a String> {
        let text = |of: &Self, key| of.masked.get(key).map(|secret| secret.expose_secret().to_owned());
        let keys = self.masked.keys().chain(new.masked.keys());
        keys.filter(|key| text(self, *key) != text(new, *key)).collect()
    }
}

fn flatten(at: &str, value: toml::Value, into: &mut BTreeMap<String, String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                flatten(&if at.is_empty() { key } else { format!("{at}.{key}") }, value, into);
            }
        }
        toml::Value::String(text) => drop(into.insert(at.to_owned(), text)),
        other => drop(into.insert(at.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::findings::Findings;

    /// One setting of each kind: its name, and two values other than the default.
    const OTHERS: [(&str, [&str; 2]); 23] = [
        ("tweet_age", ["1h: 1m", "1h: 2m, 2h: 1h"]),
        ("schedule", ["adaptive", "adaptive"]),
        ("adaptive.model_file", ["a.toml", "b.toml"]),
        ("adaptive.faster", ["1.0", "2.0"]),
        ("adaptive.slower", ["1.0", "2.0"]),
        ("adaptive.spend", ["quota", "quota"]),
        ("adaptive.earliest", ["0.4", "0.6"]),
        ("adaptive.weights.views", ["0.01", "0.02"]),
        ("log.level", ["warn", "debug"]),
        ("log.format", ["json", "json"]),
        ("store.longest_unchecked", ["2d", "12h"]),
        ("x.reads", ["1000", "2000"]),
        ("x.reads_per", ["1d", "2d"]),
        ("x.reads_from_day", ["7", "28"]),
        ("x.price_per_read", ["0.01", "0.0"]),
        ("x.same_day", ["0.0", "0.25"]),
        ("updater.buffer_ttl", ["6s", "1m"]),
        ("updater.lookahead", ["0.0", "0.25"]),
        ("updater.concurrency", ["1", "16"]),
        ("updater.lease", ["61s", "2m"]),
        ("updater.max_deliveries", ["3", "4"]),
        ("lookup.timeout", ["9s", "8s"]),
        ("queue.redis.connections", ["1", "2"]),
    ];

    fn settings(set: &BTreeMap<&str, &str>) -> Settings {
        let variable = |key: &str| format!("TWITTER_UPDATER__{}", key.to_uppercase().replace('.', "__"));
        let named: Vec<_> = set.iter().map(|(key, value)| (variable(key), *value)).collect();
        let variables: Vec<_> = named.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        Settings::load_with(&[], None, &variables).unwrap()
    }

    fn random_settings() -> impl Strategy<Value = BTreeMap<&'static str, &'static str>> {
        prop::collection::vec((0..OTHERS.len(), 0..2usize), 0..6)
            .prop_map(|chosen| chosen.into_iter().map(|(at, which)| (OTHERS[at].0, OTHERS[at].1[which])).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_live_is_taken_over_and_the_rest_waits(was in random_settings(), is in random_settings()) {
            let (old, new) = (settings(&was), settings(&is));
            let changes = old.changes_to(&new);
            for change in changes.live.iter().chain(&changes.waiting) {
                prop_assert!(was.get(&*change.setting) != is.get(&*change.setting), "{}", change);
            }
            for (key, _) in OTHERS.iter().filter(|(key, _)| was.get(key) != is.get(key)) {
                let of = if LIVE_SETTINGS.contains(key) { &changes.live } else { &changes.waiting };
                prop_assert!(of.iter().any(|change| change.setting == *key), "{} is not in {:?}", key, changes);
            }
            let applied = old.with_live_settings(&new);
            let mut found = Findings::default();
            applied.find_contradictions(&mut found);
            prop_assert!(found.is_empty());
            prop_assert_eq!(old.changes_to(&applied), Changes { live: changes.live, ..Changes::default() });
            prop_assert_eq!(applied.changes_to(&new), Changes { waiting: changes.waiting, ..Changes::default() });
            prop_assert_eq!(old.revision() == new.revision(), was == is);
        }
    }

    #[test]
    fn a_change_is_one_line_without_secrets() {
        let of = |url: &str| settings(&[("store.postgres.url", url)].into());
        let changes = of("postgres://me:canary@h/db").changes_to(&of("postgres://me:canary2@h/db"));
        assert_eq!(changes.waiting.len(), 1);
        assert_eq!(changes.waiting[0].to_string(), "store.postgres.url: its secret");
        for (key, was, is) in [
            ("twitter.bearer_token", "canary", "canary2"),
            ("queue.redis.url", "redis+unix:///s?pass=canary", "redis+unix:///s?pass=canary2"),
        ] {
            let changes = settings(&[(key, was)].into()).changes_to(&settings(&[(key, is)].into()));
            assert_eq!(
                changes.waiting.iter().map(Change::to_string).collect::<Vec<_>>(),
                [format!("{key}: its secret")]
            );
        }
        let (old, new) = (of("postgres://me:canary@h/db"), of("postgres://me:canary2@i/db"));
        let line = old.changes_to(&new).waiting[0].to_string();
        assert_eq!(line, "store.postgres.url: postgres://***@h/db → postgres://***@i/db");
        let file = "[twitter.credentials.main]\nkind = \"app\"\nbearer_token_file = \"/x\"\n";
        let named = Settings::load_text(std::path::Path::new("a.toml"), file, &[]).unwrap();
        let shown: Vec<String> =
            settings(&BTreeMap::new()).changes_to(&named).waiting.iter().map(Change::to_string).collect();
        assert!(shown.contains(&"twitter.credentials.main.kind: (not set) → app".to_owned()), "{shown:?}");
    }

    #[test]
    fn the_revision_knows_neither_names_nor_secrets() {
        let plain = settings(&BTreeMap::new());
        let named = settings(&[("updater.name", "pod-1"), ("twitter.bearer_token", "canary")].into());
        let bearer = |settings: &Settings| settings.flat_values()["twitter.bearer_token"].clone();
        assert_ne!(bearer(&plain), bearer(&named), "whether there is one is no secret");
        let other = settings(&[("updater.name", "pod-2"), ("twitter.bearer_token", "canary2")].into());
        assert_eq!(named.revision(), other.revision());
        assert_eq!(plain.revision().len(), 2 * REVISION_BYTES);
        assert_ne!(plain.revision(), settings(&[("updater.buffer_ttl", "6s")].into()).revision());
    }
}
