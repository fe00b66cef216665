//! The fields that a call asks for.

use crate::simulator::call::Call;

/// All fields of a post, as X's own 400 listed them in August 2026.
const FIELDS: [&str; 36] = [
    "id",
    "text",
    "edit_history_tweet_ids",
    "withheld",
    "rest_id",
    "created_at",
    "author_id",
    "conversation_id",
    "in_reply_to_user_id",
    "referenced_tweets",
    "attachments",
    "lang",
    "possibly_sensitive",
    "paid_partnership",
    "reply_settings",
    "source",
    "display_text_range",
    "card_uri",
    "community_id",
    "note_tweet",
    "scopes",
    "username",
    "suggested_source_links",
    "suggested_source_links_with_counts",
    "matched_media_notes",
    "note_request_suggestions",
    "public_metrics",
    "context_annotations",
    "entities",
    "geo",
    "edit_controls",
    "media_metadata",
    "non_public_metrics",
    "organic_metrics",
    "promoted_metrics",
    "article",
];

/// The expansions of the same list, and two that it leaves out and that work.
const EXPANSIONS: [&str; 14] = [
    "edit_history_tweet_ids",
    "author_id",
    "in_reply_to_user_id",
    "referenced_tweets",
    "referenced_tweets.id",
    "referenced_tweets.id.author_id",
    "attachments.media_keys",
    "attachments.poll_ids",
    "attachments.media_source_tweet",
    "username",
    "entities.mentions.username",
    "geo.place_id",
    "article.cover_media",
    "article.media_entities",
];

/// Fields that come unasked.
const ALWAYS: [&str; 3] = ["id", "text", "edit_history_tweet_ids"];

/// The parameter with a name that X does not know, and what is wrong with it.
pub type Unknown = (&'static str, String);

/// The fields of one call, and the document by whose names it asks.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    asked: Vec<&'static str>,
    by_post: bool,
}

impl Fields {
    /// Reads them; refuses a name that X does not know.
    pub fn read(call: &Call) -> Result<Self, Unknown> {
        let mut fields = Self::default();
        for (parameter, by_post) in [("tweet.fields", false), ("post.fields", true)] {
            if call.parameter(parameter).is_some() {
                fields.by_post = by_post;
                fields.asked.extend(listed(call, parameter, &FIELDS, |name| word(by_post, name))?);
            }
        }
        listed(call, "expansions", &EXPANSIONS, |name| match name {
            "attachments.media_source_tweet" => name.to_owned(),
            name => word(fields.by_post, name),
        })?;
        Ok(fields)
    }

    /// True for a field that the answer has.
    pub fn has(&self, name: &str) -> bool {
        ALWAYS.contains(&name) || self.asked.contains(&name)
    }

    /// The name of a field in the call's document.
    pub fn word(&self, name: &str) -> String {
        word(self.by_post, name)
    }
}

/// `retweet_count` is `repost_count` in the newer document.
fn word(by_post: bool, name: &str) -> String {
    if by_post { name.replace("tweet", "post") } else { name.to_owned() }
}

fn listed(
    call: &Call,
    parameter: &'static str,
    known: &[&'static str],
    word: impl Fn(&str) -> String,
) -> Result<Vec<&'static str>, Unknown> {
    let Some(list) = call.parameter(parameter) else { return Ok(Vec::new()) };
    let one = |asked: &str| {
        known.iter().copied().find(|name| word(name) == asked).ok_or_else(|| {
            let known: Vec<String> = known.iter().map(|name| word(name)).collect();
            (parameter, format!("value [{asked}] is not one of [{}]", known.join(",")))
        })
    };
    list.split(',').map(one).collect()
}
