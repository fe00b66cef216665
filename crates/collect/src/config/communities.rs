//! `[communities.NAME]`: conditions of membership, sources of candidates, and data collected of members.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::findings::Findings;
use super::{BadConfig, Settings, as_text, comma_separated, is_plain_name};
use networks::model::account::Role;
use networks::model::provider::Provider;

/// Word for the compiled-in gazetteer in `places_files`.
const SHIPPED: &str = "shipped";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    Shipped,
    /// A file in the format of the gazetteer.
    File(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct CommunitySettings {
    pub on: bool,
    #[serde(with = "as_text")]
    pub provider: Provider,
    pub seeds: String,
    pub from_posts: String,
    pub from_lists: u32,
    pub from_searches: String,
    pub appearances: u32,
    pub new_a_day: u64,
    pub share_a_day: f64,
    pub most: u64,
    #[serde(with = "humantime_serde")]
    pub grow_every: Duration,
    pub country: String,
    pub language: String,
    pub variant: String,
    pub variants_file: PathBuf,
    pub places_files: String,
    pub names_file: PathBuf,
    pub posts: u32,
    pub place_weight: f64,
    pub language_weight: f64,
    pub friends_weight: f64,
    pub names_weight: f64,
    pub threshold: f64,
    #[serde(with = "humantime_serde")]
    pub judge_again: Duration,
    pub timelines: bool,
    pub followers: bool,
    pub friends: bool,
}

impl Settings {
    #[must_use]
    pub fn has_communities(&self) -> bool {
        !self.communities.is_empty()
    }
}

impl Default for CommunitySettings {
    fn default() -> Self {
        Self {
            on: true,
            provider: Provider::Twitter,
            seeds: String::new(),
            from_posts: "mentioned, reposted".to_owned(),
            from_lists: 100,
            from_searches: String::new(),
            appearances: 2,
            new_a_day: 5_000,
            share_a_day: 3.0,
            most: 1_000_000,
            grow_every: Duration::from_secs(60),
            country: String::new(),
            language: String::new(),
            variant: String::new(),
            variants_file: PathBuf::new(),
            places_files: SHIPPED.to_owned(),
            names_file: PathBuf::new(),
            posts: 30,
            place_weight: 1.0,
            language_weight: 1.0,
            friends_weight: 0.5,
            names_weight: 0.25,
            threshold: 0.5,
            judge_again: Duration::from_secs(30 * 86_400),
            timelines: true,
            followers: false,
            friends: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is unknown: write any of mentioned, reposted")]
pub struct UnknownRole(String);

impl CommunitySettings {
    #[must_use]
    pub fn seed_ids(&self) -> Vec<String> {
        comma_separated(&self.seeds).map(str::to_owned).collect()
    }

    #[must_use]
    pub fn searches(&self) -> Vec<String> {
        comma_separated(&self.from_searches).map(str::to_owned).collect()
    }

    pub fn places(&self) -> impl Iterator<Item = Places> {
        comma_separated(&self.places_files)
            .map(|word| if word == SHIPPED { Places::Shipped } else { Places::File(word.into()) })
    }

    /// Roles in a member's post that make an account a candidate.
    pub fn roles(&self) -> Result<Vec<Role>, UnknownRole> {
        let role = |word: &str| {
            let known = [Role::Mentioned, Role::Reposted].into_iter().find(|role| role.as_str() == word);
            known.ok_or_else(|| UnknownRole(word.to_owned()))
        };
        comma_separated(&self.from_posts).map(role).collect()
    }

    /// Returns true if membership has no condition, so that all candidates belong.
    #[must_use]
    pub fn accepts_all(&self) -> bool {
        self.country.is_empty() && self.language.is_empty() && self.variant.is_empty()
    }

    fn find_contradictions(&self, place: &str, settings: &Settings, found: &mut Findings) {
        let mut wrong = |setting: &str, why: String| {
            let setting = format!("{place}.{setting}");
            let why = format!("{setting}: {why}");
            found.add(setting, why);
        };
        self.check_bounds(&mut wrong);
        if let Err(why) = self.roles() {
            wrong("from_posts", why.to_string());
        }
        let is_code = |text: &str, is_letter: fn(&u8) -> bool| {
            text.is_empty() || (text.len() == 2 && text.as_bytes().iter().all(is_letter))
        };
        let Self { country, language, variant, .. } = self;
        if !is_code(country, u8::is_ascii_uppercase) {
            wrong(
                "country",
                format!("{country:?} is not a country code: write the two capital letters of ISO 3166, like PT"),
            );
        }
        if !is_code(language, u8::is_ascii_lowercase) {
            wrong(
                "language",
                format!("{language:?} is not a language code: write the two small letters of ISO 639, like pt"),
            );
        }
        if !country.is_empty() && self.places().next().is_none() {
            let why = "it is empty, and country needs names of places: write shipped, or the paths of your own files";
            wrong("places_files", why.to_owned());
        }
        if country.is_empty() && !self.names_file.as_os_str().is_empty() {
            wrong("names_file", format!("names are evidence for a country: set {place}.country, too"));
        }
        for seed in comma_separated(&self.seeds).filter(|seed| seed.starts_with('@')) {
            let why = format!(
                "{seed} is a handle, which may move to another account: write the account's id, or use `community seed`"
            );
            wrong("seeds", why);
        }
        if !variant.is_empty() && language.is_empty() {
            wrong("variant", format!("{variant:?} is a variant of a language: set {place}.language, too"));
        }
        if self.on {
            self.check_dependencies(settings, &mut wrong);
        }
    }

    fn check_bounds(&self, wrong: &mut impl FnMut(&str, String)) {
        let mut check = |setting: &str, value: f64, least: f64, most: f64| {
            if !(least..=most).contains(&value) {
                wrong(setting, format!("{value} is out of bounds: write {least} to {most}"));
            }
        };
        check("threshold", self.threshold, 0.05, 1.0);
        check("share_a_day", self.share_a_day, 0.0, 1_000.0);
        check("place_weight", self.place_weight, 0.0, 100.0);
        check("language_weight", self.language_weight, 0.0, 100.0);
        check("friends_weight", self.friends_weight, 0.0, 100.0);
        check("names_weight", self.names_weight, 0.0, 100.0);
        check("posts", self.posts.into(), 1.0, 200.0);
        check("appearances", self.appearances.into(), 1.0, 1e6);
        check("from_lists", self.from_lists.into(), 0.0, 5_000.0);
        for (setting, value) in [("grow_every", self.grow_every), ("judge_again", self.judge_again)] {
            let (least, most) = (Duration::from_millis(100), Duration::from_secs(100 * 365 * 86_400));
            if !(least..=most).contains(&value) {
                wrong(setting, "it is out of bounds: write 100ms to 100 years".to_owned());
            }
        }
    }

    fn check_dependencies(&self, settings: &Settings, wrong: &mut impl FnMut(&str, String)) {
        let sources = &settings.poll.sources;
        for source in comma_separated(&self.from_searches).filter(|source| !sources.contains_key(*source)) {
            wrong("from_searches", format!("there is no [poll.sources.{source}]: add it, or remove the name"));
        }
        if !settings.accounts.collect {
            wrong("on", "a community needs profiles: set accounts.collect = true".to_owned());
        } else if !comma_separated(&settings.accounts.from_posts).any(|word| word == Role::Author.as_str()) {
            wrong("on", "a community needs the authors of posts: add author to accounts.from_posts".to_owned());
        }
        if (self.timelines || !self.language.is_empty()) && !settings.visits.collect {
            let why = "a community with timelines or language needs visits, which collect the posts of its accounts: set \
                       visits.collect = true, or set timelines = false and leave language empty";
            wrong("timelines", why.to_owned());
        }
        let lists: Vec<&str> = comma_separated(&settings.relations.collect).collect();
        for (side, is_on) in [("followers", self.followers), ("friends", self.friends)] {
            if is_on && !lists.contains(&side) {
                wrong(side, format!("its accounts' {side} are not collected: add {side} to relations.collect"));
            }
        }
    }
}

impl Settings {
    pub fn community(&self, name: &str) -> Result<&CommunitySettings, BadConfig> {
        self.communities.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.communities.keys().map(String::as_str).collect();
            let known = if names.is_empty() {
                "the settings have none: add [communities.NAME]".to_owned()
            } else {
                format!("write one of {}", names.join(", "))
            };
            BadConfig(format!("there is no community {name:?}: {known}"))
        })
    }

    pub(super) fn check_communities(&self, found: &mut Findings) {
        for (name, community) in &self.communities {
            let place = format!("communities.{name}");
            if !is_plain_name(name) {
                let why = format!("{place}: a name has up to 100 characters of a to z, 0 to 9, _ and -");
                found.add(&place, why);
            }
            community.find_contradictions(&place, self, found);
        }
    }
}
