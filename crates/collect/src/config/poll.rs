//! `[poll]` and `[poll.sources.*]`: the polled timelines and their intervals.

mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use humantime::format_duration;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

pub use self::streams::{StreamProvider, StreamSettings};
use super::bounds::check_source_duration;
use super::findings::Findings;
use super::{BadConfig, Settings, as_text, is_plain_name};
use networks::model::provider::Provider;
use networks::providers::registry::{all_source_kinds, source_kinds};
use networks::providers::source::SourceKeys;

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PollSettings {
    #[serde(with = "humantime_serde")]
    pub shortest: Duration,
    #[serde(with = "humantime_serde")]
    pub longest: Duration,
    pub fill: f64,
    pub pages: u32,
    #[serde(with = "humantime_serde")]
    pub out_of_order: Duration,
    #[serde(with = "humantime_serde")]
    pub quiet_after: Duration,
    /// Keyed by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, SourceSettings>,
    /// Keyed by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub streams: BTreeMap<String, StreamSettings>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct SourceSettings {
    /// Name as in `providers`; Twitter by default.
    #[serde(default = "twitter", with = "as_text")]
    pub provider: Provider,
    /// Kind, of any provider; empty if it is missing.
    #[serde(default, deserialize_with = "deserialize_source_kind", skip_serializing_if = "String::is_empty")]
    kind: String,
    /// Overrides `poll.out_of_order` and the provider's own value.
    #[serde(default, with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub out_of_order: Option<Duration>,
    /// Overrides `poll.quiet_after`.
    #[serde(default, with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub quiet_after: Option<Duration>,
    /// Settings of the kind; the provider's folder defines them.
    #[serde(flatten, deserialize_with = "deserialize_source_keys")]
    rest: toml::Table,
}

/// Words for a source's kind, of all providers.
static KINDS: LazyLock<Vec<&'static str>> = LazyLock::new(|| sorted_unique(all_source_kinds().flat_map(|of| of.words)));

/// Keys of a source, including those of all providers' kinds.
pub(super) static KEYS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let own = ["provider", "kind", "out_of_order", "quiet_after"];
    sorted_unique(own.into_iter().chain(all_source_kinds().flat_map(|of| of.keys)))
});

fn sorted_unique(words: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    words.collect::<BTreeSet<_>>().into_iter().collect()
}

fn deserialize_source_kind<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let word = String::deserialize(from)?;
    let is_known = KINDS.contains(&&*word);
    is_known.then_some(word.clone()).ok_or_else(|| D::Error::unknown_variant(&word, &KINDS))
}

fn deserialize_source_keys<'de, D: Deserializer<'de>>(from: D) -> Result<toml::Table, D::Error> {
    let rest = toml::Table::deserialize(from)?;
    for (key, value) in &rest {
        if !KEYS.contains(&&**key) {
            return Err(D::Error::unknown_field(key, &KEYS));
        }
        if value.is_array() || value.is_table() {
            return Err(D::Error::custom(format!("invalid type: a list, expected a text in {key}")));
        }
    }
    Ok(rest)
}

fn twitter() -> Provider {
    Provider::Twitter
}

impl PollSettings {
    /// Time without new posts until that source is quiet; `None` means never.
    #[must_use]
    pub fn quiet_after(&self, source: &str) -> Option<Duration> {
        let own = self.sources.get(source).and_then(|source| source.quiet_after);
        Some(own.unwrap_or(self.quiet_after)).filter(|after| !after.is_zero())
    }

    pub(super) fn find_contradictions(&self, found: &mut Findings) {
        if self.longest < self.shortest {
            let (longest, shortest) = (format_duration(self.longest), format_duration(self.shortest));
            let why = format!("poll.longest ({longest}) must be at least poll.shortest ({shortest})");
            found.add_unless_it_follows("poll.longest", why);
        }
        for (name, source) in &self.sources {
            let place = format!("poll.sources.{name}");
            found.record_error(&place, check_name(&place, name).and_then(|()| source.check(&place)));
        }
        for (at, (name, stream)) in self.streams.iter().enumerate() {
            let place = format!("poll.streams.{name}");
            // With invalid sources, it is unknown if one fills the gaps.
            let is_filled =
                |()| if found.has_error_in("poll.sources") { Ok(()) } else { self.check_stream(at, &place, stream) };
            let checked = check_name(&place, name).and_then(is_filled);
            found.record_error(&place, checked);
        }
    }

    /// Checks that the stream has a source to fill its gaps, and its own credential.
    fn check_stream(&self, at: usize, place: &str, stream: &StreamSettings) -> Result<(), BadConfig> {
        let refuse = |text: String| Err(BadConfig(text));
        let Some(source) = self.sources.get(&stream.fills) else {
            return refuse(format!(
                "{place}.fills ({:?}) must be the NAME of a [poll.sources.NAME] with the same posts, which fills \
                 the gaps of the stream",
                stream.fills
            ));
        };
        if source.provider != stream.provider.provider() {
            return refuse(format!(
                "{place}.fills ({:?}) is a source of {}, which has other posts: name a source of {}",
                stream.fills,
                source.provider,
                stream.provider.provider()
            ));
        }
        let is_same =
            |other: &&StreamSettings| other.provider == stream.provider && other.credential == stream.credential;
        if self.streams.values().take(at).any(|other| is_same(&other)) {
            return refuse(format!(
                "{place}: an account has one stream, and another of poll.streams already has its credential: name \
                 another in {place}.credential"
            ));
        }
        Ok(())
    }
}

fn check_name(place: &str, name: &str) -> Result<(), BadConfig> {
    let error = || BadConfig(format!("{place}: a name has up to 100 characters of a to z, 0 to 9, _ and -"));
    if is_plain_name(name) { Ok(()) } else { Err(error()) }
}

impl Settings {
    /// Checks that each source's provider is configured, and that its posts are looked up.
    pub(super) fn check_source_providers(&self, found: &mut Findings) {
        if found.has_error_in("mastodon") || found.has_error_in("providers") {
            return; // an instance or a list that is itself wrong
        }
        let providers = self.providers().unwrap_or_default();
        for (name, source) in &self.poll.sources {
            let place = format!("poll.sources.{name}.provider");
            let is_named = providers.contains(&source.provider);
            let is_complete = self.api(&source.provider).map(drop).and_then(|()| {
                let why = format!(
                    "{} is not in providers, so its posts would not be looked up: add it there",
                    source.provider
                );
                if is_named { Ok(()) } else { Err(BadConfig(why)) }
            });
            found.record_error(&place, is_complete.map_err(|why| BadConfig(format!("{place}: {}", why.0))));
        }
    }
}

impl SourceSettings {
    /// Keys and values of the source as texts, without empty and `false` ones.
    #[must_use]
    pub fn source_keys(&self) -> SourceKeys {
        let text = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let present = self.rest.iter().filter(|(_, value)| value.as_bool() != Some(false));
        let present =
            present.map(|(key, value)| (key.clone(), text(value))).chain([("kind".to_owned(), self.kind.clone())]);
        present.filter(|(_, text)| !text.trim().is_empty()).collect()
    }

    /// Checks the source of the section `place`.
    fn check(&self, place: &str) -> Result<(), BadConfig> {
        for (key, own) in [("out_of_order", self.out_of_order), ("quiet_after", self.quiet_after)] {
            if let Some(own) = own {
                check_source_duration(&format!("{place}.{key}"), &format!("poll.{key}"), own)?;
            }
        }
        let checked = (source_kinds(&self.provider).check)(&self.provider, &self.source_keys());
        checked.map_err(|why| BadConfig(format!("{place}{why}")))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Settings;

    pub(super) fn settings(text: &str) -> Result<Settings, String> {
        Settings::load_text(Path::new("poll.toml"), text, &[]).map_err(|error| error.to_string())
    }

    #[test]
    fn sources_have_what_their_kind_needs() {
        let good = "[poll.sources.news]\nkind = \"search\"\nquery = \"rust\"\nout_of_order = \"2s\"\n\
                    [poll.sources.home]\nkind = \"home\"\n";
        assert_eq!(settings(good).unwrap().poll.sources.len(), 2);
        let good = "providers = \"x, mastodon:social, bluesky\"\n[mastodon.instances.social]\napi = \"http://a\"\n[poll.sources.a]\nprovider = \"x\"\nkind = \"user\"\n\
                    user_id = \"12\"\n[poll.sources.b]\nprovider = \"mastodon:social\"\nkind = \"public\"\nlocal = true\n\
                    [poll.sources.c]\nprovider = \"bluesky\"\nkind = \"author\"\nactor = \"did:plc:z72i7hdynmk6r22z27h6tvur\"\n\
                    [poll.sources.d]\nprovider = \"bluesky\"\nkind = \"search\"\nquery = \"rust lang\"\n";
        let masked_toml = settings(good).unwrap().masked_toml();
        assert!(
            masked_toml.contains("provider = \"x\"") && masked_toml.contains("provider = \"mastodon:social\""),
            "{masked_toml}"
        );
        for (text, says) in [
            ("[poll.sources.a]\nkind = \"search\"\n", "poll.sources.a.query is missing"),
            ("[poll.sources.a]\nkind = \"home\"\nquery = \"x\"\n", "poll.sources.a.query does not apply"),
            (
                "[poll.sources.a]\nkind = \"user\"\nscreen_name = \"@x\"\n",
                "poll.sources.a.screen_name must not start with @",
            ),
            ("[poll.sources.a]\nkind = \"list\"\nlist_id = \"x\"\n", "must be a number"),
            ("[poll.sources.a]\nkind = \"lists\"\n", "lists"),
            ("[poll.sources.a]\nkind = \"public\"\n", "twitter has no timeline of that kind, but search, user"),
            (
                "[poll.sources.a]\nprovider = \"x\"\nkind = \"home\"\n",
                "x has no timeline of that kind, but search, user",
            ),
            ("[poll.sources.a]\nprovider = \"x\"\nkind = \"search\"\n", "poll.sources.a.query is missing"),
            ("[poll.sources.a]\nprovider = \"x\"\nkind = \"user\"\n", "poll.sources.a.user_id is missing"),
            ("[poll.sources.a]\nprovider = \"x\"\nkind = \"user\"\nuser_id = \"jack\"\n", "user_id must be a number"),
            (
                "[poll.sources.a]\nprovider = \"x\"\nkind = \"user\"\nuser_id = \"1\"\nscreen_name = \"a\"\n",
                "poll.sources.a.screen_name does not apply",
            ),
            ("[poll.sources.a]\nkind = \"home\"\nlocal = true\n", "poll.sources.a.local does not apply"),
            (
                "[poll.sources.a]\nprovider = \"bluesky\"\nkind = \"home\"\n",
                "bluesky has no timeline of that kind, but author, search",
            ),
            ("[poll.sources.a]\nprovider = \"bluesky\"\nkind = \"author\"\n", "poll.sources.a.actor is missing"),
            ("[poll.sources.a]\nprovider = \"bluesky\"\nkind = \"search\"\n", "poll.sources.a.query is missing"),
            (
                "[poll.sources.a]\nprovider = \"bluesky\"\nkind = \"author\"\nactor = \"alice\"\n",
                "poll.sources.a.actor is a handle, like alice.bsky.social, or a DID",
            ),
            (
                "[poll.sources.a]\nprovider = \"bluesky\"\nkind = \"author\"\nactor = \"@alice.example.org\"\n",
                "poll.sources.a.actor must not start with @",
            ),
            ("[poll.sources.a]\nkind = \"home\"\nactor = \"a.org\"\n", "poll.sources.a.actor does not apply"),
            ("[poll.sources.a]\nkind = \"author\"\n", "twitter has no timeline of that kind, but search, user"),
            ("[poll.sources.a]\nprovider = \"myspace\"\nkind = \"home\"\n", "\"myspace\" is no provider"),
            (
                "[poll.sources.a]\nprovider = \"mastodon:b\"\nkind = \"hashtag\"\nhashtag = \"#c\"\n",
                "poll.sources.a.hashtag must not start with #",
            ),
            (
                "[poll.sources.a]\nprovider = \"mastodon:b\"\nkind = \"account\"\n",
                "poll.sources.a.account_id is missing",
            ),
            (
                "[poll.sources.a]\nprovider = \"mastodon:b\"\nkind = \"public\"\n",
                "poll.sources.a.provider: mastodon:b has no section: add [mastodon.instances.b]",
            ),
            ("[poll.sources.\"a b\"]\nkind = \"home\"\n", "a name has up to 100"),
            ("[poll.sources.a]\nkind = \"home\"\nk = \"1s\"\n", "`k`"),
            ("[poll]\nlongest = \"1s\"\n", "poll.longest"),
        ] {
            let error = settings(text).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{text:?}: {error}");
        }
    }

    #[test]
    fn each_source_may_be_quiet_for_as_long_as_it_says_and_the_others_as_all() {
        let text = "[poll.sources.a]\nkind = \"home\"\n[poll.sources.b]\nkind = \"home\"\nquiet_after = \"60d\"\n\
                    [poll.sources.c]\nkind = \"home\"\nquiet_after = \"0s\"\n";
        let days = |text: &str| {
            let poll = settings(text).unwrap().poll;
            ["a", "b", "c"].map(|name| poll.quiet_after(name).map(|after| after.as_secs() / 86_400))
        };
        assert_eq!(days(text), [Some(1), Some(60), None]);
        assert_eq!(days(&format!("[poll]\nquiet_after = \"0s\"\n{text}")), [None, Some(60), None]);
        let error = settings(&text.replace("60d", "11years")).unwrap_err();
        assert!(error.contains("poll.sources.b.quiet_after (11years) must be 0s to 10years"), "{error}");
    }
}
