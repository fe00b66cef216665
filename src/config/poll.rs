//! `[poll]` and `[poll.sources.*]`: which timelines are polled, and how often.

mod streams;

use std::collections::BTreeMap;
use std::time::Duration;

use humantime::format_duration;
use serde::{Deserialize, Serialize};

pub use self::streams::{StreamProvider, StreamSettings};
use super::contradictions::is_within;
use super::findings::Findings;
use super::{BadConfig, Settings, as_text, word};
use crate::model::provider::Provider;

/// `[poll]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
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
    /// By name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, SourceSettings>,
    /// By name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub streams: BTreeMap<String, StreamSettings>,
}

/// `[poll.sources.NAME]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct SourceSettings {
    /// As it is named in `providers`; Twitter where nothing is said.
    #[serde(default = "twitter", with = "as_text")]
    pub provider: Provider,
    #[serde(deserialize_with = "word")]
    pub kind: SourceKind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub query: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub screen_name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub list_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hashtag: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub account_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// Of a timeline of Mastodon: what was written on the instance, and nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub local: bool,
    /// In place of `poll.out_of_order`, or of Bluesky's own.
    #[serde(default, with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub out_of_order: Option<Duration>,
    /// In place of `poll.quiet_after`.
    #[serde(default, with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub quiet_after: Option<Duration>,
}

impl SourceSettings {
    /// The query or account that it asks for; `None` where its kind says all.
    #[must_use]
    pub fn asks_for(&self) -> Option<String> {
        let accounts = [&self.screen_name, &self.list_id, &self.user_id, &self.account_id, &self.actor];
        let texts = [&self.query, &self.hashtag].into_iter().chain(accounts);
        texts.into_iter().find(|text| !text.is_empty()).cloned()
    }
}

/// `poll.sources.NAME.kind`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum SourceKind {
    Search,
    User,
    List,
    Home,
    Public,
    Hashtag,
    Account,
    Author,
}

/// The longest query that a search takes, in characters: of Twitter; of X, where most plans take 512; of Bluesky, whose
/// server says no limit, what an address has room for.
const LONGEST_QUERY: [(Provider, usize); 3] =
    [(Provider::Twitter, 500), (Provider::X, 4_096), (Provider::Bluesky, 1_000)];

fn twitter() -> Provider {
    Provider::Twitter
}

/// The kinds of a provider's timelines, each with the setting that says what it is a timeline of.
fn kinds(provider: &Provider) -> &'static [(SourceKind, &'static str, Option<&'static str>)] {
    use SourceKind::{Account, Author, Hashtag, Home, List, Public, Search, User};

    match provider {
        Provider::Twitter => &[
            (Search, "search", Some("query")),
            (User, "user", Some("screen_name")),
            (List, "list", Some("list_id")),
            (Home, "home", None),
        ],
        Provider::X => &[(Search, "search", Some("query")), (User, "user", Some("user_id"))],
        Provider::Mastodon(_) => {
            &[(Public, "public", None), (Hashtag, "hashtag", Some("hashtag")), (Account, "account", Some("account_id"))]
        }
        Provider::Bluesky => &[(Author, "author", Some("actor")), (Search, "search", Some("query"))],
    }
}

impl PollSettings {
    /// How long that source may bring nothing before it is told of as quiet; `None`: for ever.
    #[must_use]
    pub fn quiet_after(&self, source: &str) -> Option<Duration> {
        let own = self.sources.get(source).and_then(|source| source.quiet_after);
        Some(own.unwrap_or(self.quiet_after)).filter(|after| !after.is_zero())
    }

    pub(super) fn contradictions(&self, found: &mut Findings) {
        if self.longest < self.shortest {
            let (longest, shortest) = (format_duration(self.longest), format_duration(self.shortest));
            let why = format!("poll.longest ({longest}) must be at least poll.shortest ({shortest})");
            found.add_unless_it_follows("poll.longest", why);
        }
        for (name, source) in &self.sources {
            let place = format!("poll.sources.{name}");
            let checked = check_name(&place, name);
            found.take(&place, checked.and_then(|()| source.check().map_err(|why| BadConfig(format!("{place}{why}")))));
        }
        for (at, (name, stream)) in self.streams.iter().enumerate() {
            let place = format!("poll.streams.{name}");
            let checked = check_name(&place, name);
            let checked = checked.and_then(|()| stream.check().map_err(|why| BadConfig(format!("{place}{why}"))));
            // Of sources that are wrong themselves it is not known whether they fill it.
            let is_filled = |()| if found.is_below("poll.sources") { Ok(()) } else { self.fills(at, &place, stream) };
            let checked = checked.and_then(is_filled);
            found.take(&place, checked);
        }
    }

    /// The stream has a source that fills its gaps, and a credential of its own.
    fn fills(&self, at: usize, place: &str, stream: &StreamSettings) -> Result<(), BadConfig> {
        let refuse = |text: String| Err(BadConfig(text));
        let Some(source) = self.sources.get(&stream.fills) else {
            return refuse(format!(
                "{place}.fills ({:?}) must be the NAME of a [poll.sources.NAME] with the same posts: what a stream \
                 misses is polled",
                stream.fills
            ));
        };
        if source.provider != stream.provider.provider() {
            return refuse(format!(
                "{place}.fills ({:?}) is a source of {}, whose posts are others: name one of {}",
                stream.fills,
                source.provider,
                stream.provider.provider()
            ));
        }
        let is_same =
            |other: &&StreamSettings| other.provider == stream.provider && other.credential == stream.credential;
        if self.streams.values().take(at).any(|other| is_same(&other)) {
            return refuse(format!(
                "{place}: an account has one stream, and another of poll.streams has its credential already; name \
                 another in {place}.credential"
            ));
        }
        Ok(())
    }
}

fn check_name(place: &str, name: &str) -> Result<(), BadConfig> {
    let is_fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    if name.is_empty() || name.len() > 100 || !name.chars().all(is_fit) {
        return Err(BadConfig(format!("{place}: a name has up to 100 of a to z, 0 to 9, _ and -")));
    }
    Ok(())
}

impl Settings {
    /// Each source's provider has what it needs.
    pub(super) fn sources_have_providers(&self, found: &mut Findings) {
        if found.is_below("mastodon") {
            return; // an instance that is wrong itself
        }
        for (name, source) in &self.poll.sources {
            let place = format!("poll.sources.{name}.provider");
            let api = self.api(&source.provider).map(drop);
            found.take(&place, api.map_err(|why| BadConfig(format!("{place}: {}", why.0))));
        }
    }
}

impl SourceSettings {
    /// Each kind has the one setting that says what it is a timeline of.
    fn check(&self) -> Result<(), String> {
        let (provider, kinds) = (&self.provider, kinds(&self.provider));
        let Some((_, _, needed)) = kinds.iter().find(|(kind, ..)| *kind == self.kind) else {
            let words: Vec<&str> = kinds.iter().map(|(_, word, _)| *word).collect();
            return Err(format!(".kind: {provider} has no timeline of that kind, but {}", words.join(", ")));
        };
        for (key, value) in [
            ("query", &self.query),
            ("screen_name", &self.screen_name),
            ("list_id", &self.list_id),
            ("user_id", &self.user_id),
            ("hashtag", &self.hashtag),
            ("account_id", &self.account_id),
            ("actor", &self.actor),
        ] {
            match (value.trim().is_empty(), Some(key) == *needed) {
                (true, true) => return Err(format!(".{key} is missing: it says what is polled")),
                (false, false) => return Err(format!(".{key} is of no use to this kind of source: leave it out")),
                _ => {}
            }
        }
        for (key, own) in [("out_of_order", self.out_of_order), ("quiet_after", self.quiet_after)] {
            let within = own.map_or(Ok(()), |own| is_within(&format!("poll.{key}"), own));
            within.map_err(|why| format!(".{key}{why}"))?;
        }
        if self.local && !matches!(self.kind, SourceKind::Public | SourceKind::Hashtag) {
            return Err(".local is of no use to this kind of source: leave it out".to_owned());
        }
        let longest = LONGEST_QUERY.iter().find(|(of, _)| of == provider).map_or(0, |(_, longest)| *longest);
        if self.query.chars().count() > longest {
            return Err(format!(".query is longer than {longest} characters"));
        }
        for (key, value, sign) in
            [("screen_name", &self.screen_name, '@'), ("hashtag", &self.hashtag, '#'), ("actor", &self.actor, '@')]
        {
            if value.starts_with(sign) {
                return Err(format!(".{key} stands without its {sign}"));
            }
        }
        for (key, id) in [("list_id", &self.list_id), ("user_id", &self.user_id), ("account_id", &self.account_id)] {
            if !id.chars().all(|c| c.is_ascii_digit()) {
                return Err(format!(".{key} is a number"));
            }
        }
        let is_actor = |actor: &str| {
            let is_fit = |c: char| c.is_ascii_alphanumeric() || "._:%-".contains(c);
            actor.len() <= 300 && actor.chars().all(is_fit) && (actor.starts_with("did:") || actor.contains('.'))
        };
        if !self.actor.is_empty() && !is_actor(&self.actor) {
            return Err(".actor is a handle, like alice.bsky.social, or a DID, like did:plc:…".to_owned());
        }
        Ok(())
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
        let good = "[mastodon.instances.social]\napi = \"http://a\"\n[poll.sources.a]\nprovider = \"x\"\nkind = \"user\"\n\
                    user_id = \"12\"\n[poll.sources.b]\nprovider = \"mastodon:social\"\nkind = \"public\"\nlocal = true\n\
                    [poll.sources.c]\nprovider = \"bluesky\"\nkind = \"author\"\nactor = \"did:plc:z72i7hdynmk6r22z27h6tvur\"\n\
                    [poll.sources.d]\nprovider = \"bluesky\"\nkind = \"search\"\nquery = \"rust lang\"\n";
        let shown = settings(good).unwrap().shown();
        assert!(shown.contains("provider = \"x\"") && shown.contains("provider = \"mastodon:social\""), "{shown}");
        for (text, says) in [
            ("[poll.sources.a]\nkind = \"search\"\n", "poll.sources.a.query is missing"),
            ("[poll.sources.a]\nkind = \"home\"\nquery = \"x\"\n", "poll.sources.a.query is of no use"),
            ("[poll.sources.a]\nkind = \"user\"\nscreen_name = \"@x\"\n", "without its @"),
            ("[poll.sources.a]\nkind = \"list\"\nlist_id = \"x\"\n", "is a number"),
            ("[poll.sources.a]\nkind = \"lists\"\n", "lists"),
            ("[poll.sources.a]\nkind = \"public\"\n", "twitter has no timeline of that kind, but search, user"),
            (
                "[poll.sources.a]\nprovider = \"x\"\nkind = \"home\"\n",
                "x has no timeline of that kind, but search, user",
            ),
            ("[poll.sources.a]\nprovider = \"x\"\nkind = \"search\"\n", "poll.sources.a.query is missing"),
            ("[poll.sources.a]\nprovider = \"x\"\nkind = \"user\"\n", "poll.sources.a.user_id is missing"),
            ("[poll.sources.a]\nprovider = \"x\"\nkind = \"user\"\nuser_id = \"jack\"\n", "user_id is a number"),
            (
                "[poll.sources.a]\nprovider = \"x\"\nkind = \"user\"\nuser_id = \"1\"\nscreen_name = \"a\"\n",
                "poll.sources.a.screen_name is of no use",
            ),
            ("[poll.sources.a]\nkind = \"home\"\nlocal = true\n", "poll.sources.a.local is of no use"),
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
                "poll.sources.a.actor stands without its @",
            ),
            ("[poll.sources.a]\nkind = \"home\"\nactor = \"a.org\"\n", "poll.sources.a.actor is of no use"),
            ("[poll.sources.a]\nkind = \"author\"\n", "twitter has no timeline of that kind, but search, user"),
            ("[poll.sources.a]\nprovider = \"myspace\"\nkind = \"home\"\n", "\"myspace\" is no provider"),
            (
                "[poll.sources.a]\nprovider = \"mastodon:b\"\nkind = \"hashtag\"\nhashtag = \"#c\"\n",
                "poll.sources.a.hashtag stands without its #",
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
