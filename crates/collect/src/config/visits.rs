//! `[visits]`

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::BadConfig;
use engine::base::clock;
use engine::base::humanize::span;
use engine::schedule::budgeted::Spend;
use engine::schedule::visits::{Options, Policy};

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VisitSettings {
    pub collect: bool,
    #[serde(deserialize_with = "super::word")]
    pub policy: Policy,
    #[serde(with = "humantime_serde")]
    pub every: Duration,
    #[serde(with = "humantime_serde")]
    pub shortest: Duration,
    #[serde(with = "humantime_serde")]
    pub longest: Duration,
    #[serde(deserialize_with = "super::word")]
    pub spend: Spend,
    pub earliest: f64,
    pub pages: u32,
    pub by_counts: bool,
    pub parts: u32,
    pub here: String,
    pub hash_posts: f64,
    pub hash_weight: f64,
    pub night: String,
    #[serde(with = "humantime_serde")]
    pub posted_within: Duration,
}

impl VisitSettings {
    /// Parts that this process visits, from 0 on.
    pub fn parts_here(&self) -> Result<BTreeSet<u32>, BadConfig> {
        if self.here.trim().is_empty() {
            return Ok((0..self.parts).collect());
        }
        let part = |word: &str| {
            let part = word.trim().parse().ok().filter(|part| *part < self.parts);
            part.ok_or_else(|| {
                let (word, last) = (word.trim(), self.parts.saturating_sub(1));
                BadConfig(format!(
                    "visits.here: {word:?} is not a part: with visits.parts = {}, write 0 to {last}",
                    self.parts
                ))
            })
        };
        self.here.split(',').map(part).collect()
    }

    /// Hours (UTC) in which no account is lowered: the first, and the one after the last.
    pub fn night(&self) -> Result<[u8; 2], BadConfig> {
        let hours = || {
            let (from, to) = self.night.split_once('-')?;
            let hour = |text: &str| text.trim().parse::<u8>().ok().filter(|hour| *hour < 24);
            Some([hour(from)?, hour(to)?])
        };
        hours().ok_or_else(|| {
            BadConfig(format!("visits.night: {:?} is not a pair of hours: write it like 1-7", self.night))
        })
    }

    pub fn options(&self) -> Result<Options, BadConfig> {
        let [every, shortest, longest] = [self.every, self.shortest, self.longest].map(clock::millis);
        if !(shortest <= every && every <= longest) {
            let [every, shortest, longest] = [every, shortest, longest].map(span);
            return Err(BadConfig(format!(
                "visits.every must be between visits.shortest and visits.longest ({shortest} ≤ {every} ≤ {longest})"
            )));
        }
        let mut options = Options { policy: self.policy, every, shortest, longest, ..Options::default() };
        (options.spend, options.earliest) = (self.spend, self.earliest);
        (options.hash.events, options.hash.weight) = (self.hash_posts, self.hash_weight);
        (options.classes.night, options.classes.just) = (self.night()?, clock::millis(self.posted_within));
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Settings;

    #[test]
    fn parts_and_hours_are_read_and_a_wrong_one_is_reported() {
        let with = |name: &str, value: &str| {
            let name = format!("TWITTER_UPDATER__VISITS__{name}");
            let variables = [(name.as_str(), value), ("TWITTER_UPDATER__VISITS__PARTS", "3")];
            Settings::load_with(&[], None, &variables).map(|settings| settings.visits)
        };
        assert_eq!(with("HERE", "").unwrap().parts_here().unwrap().len(), 3);
        assert_eq!(with("HERE", "2, 0").unwrap().parts_here().unwrap().into_iter().collect::<Vec<_>>(), [0, 2]);
        let error = with("HERE", "3").unwrap().parts_here().unwrap_err().to_string();
        assert!(error.ends_with("visits.here: \"3\" is not a part: with visits.parts = 3, write 0 to 2"), "{error}");
        assert_eq!(with("NIGHT", "23-5").unwrap().night().unwrap(), [23, 5]);
        assert!(with("NIGHT", "late").unwrap().options().unwrap_err().to_string().contains("visits.night"));
        let error = with("SHORTEST", "7h").unwrap().options().unwrap_err().to_string();
        assert!(error.contains("between visits.shortest and visits.longest (7h ≤ "), "{error}");
    }
}
