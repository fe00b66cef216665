//! `[poll.streams.*]`: which streams are read, and which source has their gaps.

use serde::{Deserialize, Serialize};

use crate::model::provider::Provider;

/// `[poll.streams.NAME]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct StreamSettings {
    pub provider: StreamProvider,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub track: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub follow: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub locations: String,
    /// Empty: the only one there is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub credential: String,
    pub fills: String,
}

impl StreamSettings {
    /// The words, accounts and places that it asks for, as one text; `None` where X's rules say it.
    #[must_use]
    pub fn asks_for(&self) -> Option<String> {
        let named = [("track", &self.track), ("follow", &self.follow), ("locations", &self.locations)];
        let asked: Vec<String> = named
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| format!("{name}: {text}"))
            .collect();
        Some(asked.join("; ")).filter(|asked| !asked.is_empty())
    }
}

/// `poll.streams.NAME.provider`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum StreamProvider {
    Twitter,
    X,
}

impl StreamProvider {
    /// The provider whose stream it is.
    #[must_use]
    pub fn provider(self) -> Provider {
        match self {
            Self::Twitter => Provider::Twitter,
            Self::X => Provider::X,
        }
    }
}

/// The filters of a v1.1 stream: phrases, users and boxes.
const PHRASES: usize = 400;
const USERS: usize = 5_000;
const BOXES: usize = 25;
/// The longest phrase, in bytes.
const LONGEST_PHRASE: usize = 60;

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|one| !one.is_empty())
}

impl StreamSettings {
    /// The errors in the section itself; each begins with the setting's own name.
    pub(super) fn check(&self) -> Result<(), String> {
        let lists = [("track", &self.track), ("follow", &self.follow), ("locations", &self.locations)];
        let given: Vec<_> = lists.into_iter().filter(|(_, value)| list(value).next().is_some()).collect();
        match (self.provider, given.first()) {
            (StreamProvider::Twitter, None) => {
                return Err(": track, follow or locations is missing: it says what is streamed".to_owned());
            }
            (StreamProvider::X, Some((key, _))) => {
                return Err(format!(
                    ".{key} is of no use to provider = \"x\": its account's rules say what is streamed"
                ));
            }
            _ => {}
        }
        if list(&self.track).count() > PHRASES || list(&self.track).any(|phrase| phrase.len() > LONGEST_PHRASE) {
            return Err(format!(".track has up to {PHRASES} phrases, of up to {LONGEST_PHRASE} bytes"));
        }
        let is_id = |id: &str| id.bytes().all(|byte| byte.is_ascii_digit());
        if list(&self.follow).count() > USERS || !list(&self.follow).all(is_id) {
            return Err(format!(".follow has up to {USERS} ids of users, which are numbers"));
        }
        let places: Vec<Option<f64>> = list(&self.locations).map(|number| number.parse().ok()).collect();
        let is_place = |place: &Option<f64>| place.is_some_and(|degrees| (-180.0..=180.0).contains(&degrees));
        if !places.len().is_multiple_of(4) || places.len() > 4 * BOXES || !places.iter().all(is_place) {
            return Err(format!(
                ".locations has up to {BOXES} boxes: four numbers each, the south-west corner's longitude and latitude, \
                 then the north-east's"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::poll::tests::settings;

    #[test]
    fn streams_have_a_filter_and_a_source_that_fills_their_gaps() {
        let source = "providers = \"twitter, x\"\n[poll.sources.rust]\nkind = \"search\"\nquery = \"rust\"\n";
        let stream = |name: &str, rest: &str| format!("[poll.streams.{name}]\nfills = \"rust\"\n{rest}\n");
        let twitter = "provider = \"twitter\"\ntrack = \"rust, cargo\"";
        let of_x = "[poll.sources.x]\nprovider = \"x\"\nkind = \"search\"\nquery = \"rust\"\n\
                    [poll.streams.b]\nprovider = \"x\"\nfills = \"x\"\n";
        let good = format!("{source}{of_x}{}", stream("a", twitter));
        assert_eq!(settings(&good).unwrap().poll.streams.len(), 2);
        for (rest, says) in [
            ("provider = \"twitter\"", "poll.streams.b: track, follow or locations is missing"),
            ("provider = \"x\"\ntrack = \"rust\"", "poll.streams.b.track is of no use"),
            ("provider = \"mastodon\"", "mastodon"),
            ("provider = \"twitter\"\nfollow = \"jack\"", "poll.streams.b.follow has up to 5000 ids"),
            ("provider = \"twitter\"\nlocations = \"1,2,3\"", "poll.streams.b.locations has up to 25 boxes"),
            ("provider = \"twitter\"\nlocations = \"1,2,3,n\"", "poll.streams.b.locations"),
            ("provider = \"twitter\"\ntrack = \"x\"", "an account has one stream"),
            ("provider = \"x\"\nrules = \"x\"", "`rules`"),
            ("provider = \"x\"", "is a source of twitter, whose posts are others: name one of x"),
        ] {
            let text = format!("{source}{}{}", stream("a", twitter), stream("b", rest));
            let error = settings(&text).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{rest:?}: {error}");
        }
        let error = settings(&stream("a", twitter)).unwrap_err();
        assert!(error.contains("poll.streams.a.fills (\"rust\") must be the NAME"), "{error}");
    }
}
