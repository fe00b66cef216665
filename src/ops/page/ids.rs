//! Ids of posts and accounts, as people type them, or as addresses contain them.

use std::fmt;

use engine::base::id::check_id;
use networks::model::post::{BadId, TweetId};

/// Id of a post or an account, as the queue and the store have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PostId(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidId {
    #[error("{0}")]
    Address(String),
    #[error(transparent)]
    Number(#[from] BadId),
}

impl PostId {
    /// Accepts digits, or an AT URI (`at://…`) or a DID (`did:…`) as Bluesky has them.
    pub(super) fn parse(text: &str) -> Result<Self, InvalidId> {
        if ["at://", "did:"].iter().any(|start| text.starts_with(start)) {
            return check_id(text).map(|()| Self(text.to_owned())).map_err(|why| InvalidId::Address(why.to_string()));
        }
        Ok(Self(TweetId::parse(text)?.to_string()))
    }

    /// Finds the id in a typed text: an id, or the address of a post on Twitter or Mastodon.
    pub(super) fn parse_typed(text: &str) -> Result<Self, InvalidId> {
        let text = text.trim();
        if ["at://", "did:"].iter().any(|start| text.starts_with(start)) {
            return Self::parse(text);
        }
        let mut parts = text.split(['/', '?', '#']);
        let before = |part: &&str| matches!(*part, "status" | "statuses") || part.starts_with('@');
        let id = parts.find(|part| before(part)).and_then(|_| parts.next());
        Self::parse(id.unwrap_or(text))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_or_an_address_leads_to_a_post() {
        let id = "1460323737035677698";
        for text in [
            id.to_owned(),
            format!("  {id}\n"),
            format!("https://twitter.com/TwitterDev/status/{id}"),
            format!("https://x.com/TwitterDev/status/{id}?s=20"),
            format!("twitter.com/i/web/status/{id}#anchor"),
            format!("https://mobile.twitter.com/a/statuses/{id}/photo/1"),
            format!("https://mastodon.social/@Gargron/{id}"),
        ] {
            assert_eq!(PostId::parse_typed(&text).unwrap().as_str(), id, "{text}");
        }
        let uri = "at://did:plc:ewvi7nxzyoun6zhxrhs64oiz/app.bsky.feed.post/3l6oveex3ii2l";
        assert_eq!(PostId::parse_typed(&format!(" {uri} ")).unwrap().as_str(), uri);
        assert_eq!(
            PostId::parse("did:plc:ewvi7nxzyoun6zhxrhs64oiz").unwrap().as_str(),
            "did:plc:ewvi7nxzyoun6zhxrhs64oiz"
        );
        for text in ["", "abc", "https://twitter.com/TwitterDev", "https://x.com/a/status/", "at://a b", "-1"] {
            assert!(PostId::parse_typed(text).is_err(), "{text}");
        }
    }
}
