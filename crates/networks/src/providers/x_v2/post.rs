//! Reads a post of X API v2 from its JSON text, with the names of both of X's documents.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::post::{Details, Metrics, Tweet, TweetId};
use crate::providers::scalar::{self, present};
use crate::providers::unreadable::UnreadableObject;

/// Code of v1.1 for a copyright complaint: withheld everywhere.
const COPYRIGHT: &str = "XY";

/// Minimum number of characters of a cut text. An address counts as up to 23 characters, so a cut text may be under X's limit.
const LONG: usize = 240;

#[derive(Deserialize)]
pub struct Post<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    /// Whole text of a post of more than 280 characters.
    #[serde(borrow)]
    note_tweet: Option<&'a RawValue>,
    #[serde(borrow)]
    note_post: Option<&'a RawValue>,
    #[serde(borrow)]
    author_id: Option<&'a RawValue>,
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow)]
    public_metrics: Option<&'a RawValue>,
    #[serde(borrow)]
    withheld: Option<&'a RawValue>,
    #[serde(borrow)]
    edit_history_tweet_ids: Option<&'a RawValue>,
    #[serde(borrow)]
    edit_history_post_ids: Option<&'a RawValue>,
    #[serde(borrow)]
    lang: Option<&'a RawValue>,
    #[serde(borrow)]
    conversation_id: Option<&'a RawValue>,
    #[serde(borrow)]
    in_reply_to_user_id: Option<&'a RawValue>,
    #[serde(borrow)]
    reply_settings: Option<&'a RawValue>,
    #[serde(borrow)]
    referenced_tweets: Option<&'a RawValue>,
    #[serde(borrow)]
    referenced_posts: Option<&'a RawValue>,
}

/// Words of X for the reference of a repost to its original.
const REPOST_KINDS: [&str; 2] = ["retweeted", "reposted"];

#[derive(Deserialize)]
pub(super) struct Reference<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    id: &'a RawValue,
}

/// References of a post, in the field of either version of the API.
pub(super) fn references<'a>(tweets: Option<&'a RawValue>, posts: Option<&'a RawValue>) -> Vec<Reference<'a>> {
    scalar::value(present(tweets).or(present(posts))).unwrap_or_default()
}

/// Id of the post that this one reposts; `None` if it is no repost.
pub(super) fn reposted_id(references: &[Reference<'_>]) -> Option<String> {
    referenced(references, &REPOST_KINDS)
}

fn referenced(references: &[Reference<'_>], kinds: &[&str]) -> Option<String> {
    let of = references.iter().find(|reference| kinds.contains(&&*reference.kind))?;
    Some(scalar::id(of.id).ok()?.to_string())
}

#[derive(Deserialize)]
struct Note<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Withheld<'a> {
    copyright: Option<bool>,
    #[serde(borrow, default)]
    country_codes: Vec<Cow<'a, str>>,
}

/// Id of a post object; `None` if it is unreadable.
#[must_use]
pub fn read_id(raw: &str) -> Option<String> {
    Some(Post::parse(raw).ok()?.id().ok()?.to_string())
}

impl<'a> Post<'a> {
    pub fn parse(raw: &'a str) -> Result<Self, UnreadableObject> {
        // serde_json's text would quote the input.
        serde_json::from_str(raw).map_err(|_| UnreadableObject::Not("a JSON object with each field once"))
    }

    pub fn id(&self) -> Result<TweetId, UnreadableObject> {
        let id = present(self.id).ok_or(UnreadableObject::Missing("id"))?;
        scalar::id(id).map_err(|bad| UnreadableObject::BadId("id", bad))
    }

    /// Ids of all versions, its own among them.
    pub fn history(&self) -> Vec<String> {
        let ids = present(self.edit_history_tweet_ids).or(present(self.edit_history_post_ids));
        let ids: Vec<&RawValue> = scalar::value(ids).unwrap_or_default();
        ids.into_iter().filter_map(|id| scalar::id(id).ok()).map(|id| id.to_string()).collect()
    }

    /// Ids of the versions after `id`, oldest first: ids rise.
    fn newer_than(&self, id: TweetId) -> Vec<String> {
        let history = self.history();
        let mut newer: Vec<TweetId> = history.iter().filter_map(|version| TweetId::parse(version).ok()).collect();
        newer.retain(|version| *version > id);
        newer.sort_unstable();
        newer.into_iter().map(|version| version.to_string()).collect()
    }

    pub fn to_tweet(&self, raw: &str) -> Result<Tweet, UnreadableObject> {
        let id = self.id()?;
        let created_at = scalar::date(self.created_at, "created_at", scalar::rfc3339)?;
        let note = self.note();
        // HTML entities (&amp;) stay as sent: the stored text is the API's.
        let text = note.or(present(self.text)).map(|text| scalar::required_text(Some(text), "text")).transpose()?;
        let withheld_in = withheld_in(self.withheld);
        let details = self.details(text.as_deref(), note.is_some());
        if text.is_none() && withheld_in.is_none() {
            return Err(UnreadableObject::Missing("text"));
        }
        Ok(Tweet {
            newer: self.newer_than(id),
            id: id.to_string(),
            created_at,
            text: text.filter(|text| withheld_in.is_none() || scalar::handle_in_notice(text).is_none()),
            author_id: present(self.author_id).and_then(|id| scalar::id(id).ok()).map(|id| id.to_string()),
            author_name: None,
            metrics: read_counts(self.public_metrics),
            details,
            withheld_in,
            raw: raw.to_owned(),
        })
    }

    /// The text of a retweet is cut to 140 characters, and of a retweeted long post to 280; another object has the rest.
    fn details(&self, text: Option<&str>, is_note: bool) -> Details {
        let references = references(self.referenced_tweets, self.referenced_posts);
        let id = |field| Some(scalar::id(present(field)?).ok()?.to_string());
        let retweet_of = reposted_id(&references);
        Details {
            lang: present(self.lang).and_then(scalar::string),
            reply_to: referenced(&references, &["replied_to"]),
            reply_to_author: id(self.in_reply_to_user_id),
            quote_of: referenced(&references, &["quoted"]),
            conversation_id: id(self.conversation_id),
            reply_settings: present(self.reply_settings).and_then(scalar::string),
            truncated: text.map(|text| {
                !is_note && text.ends_with('\u{2026}') && (retweet_of.is_some() || text.chars().count() >= LONG)
            }),
            retweet_of,
            labels: None,
        }
    }

    fn note(&self) -> Option<&'a RawValue> {
        let note = present(self.note_tweet).or(present(self.note_post))?;
        present(serde_json::from_str::<Note<'_>>(note.get()).ok()?.text)
    }
}

/// Counts in a post's `public_metrics`; missing and non-numeric ones are unknown.
#[must_use]
pub fn read_counts(field: Option<&RawValue>) -> Metrics {
    let counts: HashMap<Cow<'_, str>, &RawValue> = scalar::value(field).unwrap_or_default();
    let count = |name: &str| counts.get(name).and_then(|raw| scalar::count(raw));
    Metrics {
        retweet_count: count("retweet_count").or_else(|| count("repost_count")),
        favorite_count: count("like_count"),
        reply_count: count("reply_count"),
        quote_count: count("quote_count"),
        bookmark_count: count("bookmark_count"),
        impression_count: count("impression_count"),
    }
}

/// Countries in which a post or an account is withheld, separated by commas.
pub fn withheld_in(field: Option<&RawValue>) -> Option<String> {
    let withheld: Withheld<'_> = scalar::value(field)?;
    if !withheld.country_codes.is_empty() {
        return Some(withheld.country_codes.join(","));
    }
    (withheld.copyright == Some(true)).then(|| COPYRIGHT.to_owned())
}
