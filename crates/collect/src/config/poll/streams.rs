//! `[poll.streams.*]`: the streams, and the source that fills the gaps of each.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use networks::model::provider::Provider;

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSettings {
    pub provider: StreamProvider,
    #[serde(default, skip_serializing, deserialize_with = "removed_filter")]
    pub track: (),
    #[serde(default, skip_serializing, deserialize_with = "removed_filter")]
    pub follow: (),
    #[serde(default, skip_serializing, deserialize_with = "removed_filter")]
    pub locations: (),
    /// Empty means the only credential.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub credential: String,
    pub fills: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamProvider {
    X,
}

impl StreamProvider {
    #[must_use]
    pub fn provider(self) -> Provider {
        match self {
            Self::X => Provider::X,
        }
    }
}

impl<'de> Deserialize<'de> for StreamProvider {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match &*String::deserialize(deserializer)? {
            "x" => Ok(Self::X),
            "twitter" => Err(D::Error::custom(
                "twitter has no streams any more, since Twitter has shut down those of API v1.1: remove this \
                 poll.streams section (the source in fills is polled without it), or set provider to x",
            )),
            _ => Err(D::Error::custom("invalid provider of a stream: only x has streams")),
        }
    }
}

/// Rejects the removed filters of v1.1's streams.
fn removed_filter<'de, D: Deserializer<'de>>(_: D) -> Result<(), D::Error> {
    Err(D::Error::custom(
        "track, follow and locations were removed with the streams of API v1.1, which Twitter has shut down: remove \
         them; the rules of the account select the posts of a stream of x",
    ))
}

#[cfg(test)]
mod tests {
    use crate::config::poll::tests::settings;

    #[test]
    fn streams_have_a_source_that_fills_their_gaps() {
        let source = "providers = \"twitter, x\"\n[poll.sources.rust]\nkind = \"search\"\nquery = \"rust\"\n\
                      [poll.sources.x]\nprovider = \"x\"\nkind = \"search\"\nquery = \"rust\"\n";
        let stream = |name: &str, rest: &str| format!("[poll.streams.{name}]\n{rest}\n");
        let good = format!("{source}{}", stream("a", "provider = \"x\"\nfills = \"x\""));
        assert_eq!(settings(&good).unwrap().poll.streams.len(), 1);
        for (rest, says) in [
            ("provider = \"mastodon\"\nfills = \"x\"", "only x has streams"),
            ("provider = \"x\"\nfills = \"x\"", "poll.streams.b: an account has one stream"),
            ("provider = \"x\"\nfills = \"x\"\nrules = \"x\"", "`rules`"),
            ("provider = \"x\"\nfills = \"rust\"", "is a source of twitter, which has other posts: name a source of x"),
            ("provider = \"x\"\nfills = \"none\"", "poll.streams.b.fills (\"none\") must be the NAME"),
        ] {
            let error = settings(&format!("{good}{}", stream("b", rest))).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{rest:?}: {error}");
        }
    }

    #[test]
    fn a_stream_of_api_v1_is_refused_with_the_remedy() {
        for (rest, says) in [
            ("provider = \"twitter\"", "remove this poll.streams section"),
            ("provider = \"x\"\ntrack = \"rust\"", "remove them"),
            ("provider = \"x\"\nfollow = \"12\"", "remove them"),
            ("provider = \"x\"\nlocations = \"1,2,3,4\"", "remove them"),
        ] {
            let text = format!(
                "providers = \"x\"\n[poll.sources.x]\nprovider = \"x\"\nkind = \"search\"\nquery = \"rust\"\n\
                 [poll.streams.old]\nfills = \"x\"\n{rest}\n"
            );
            let error = settings(&text).unwrap_err();
            assert!(
                error.contains(says) && error.contains("API v1.1") && error.contains("poll.streams.old"),
                "{error}"
            );
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
