//! The fields that a call requests.

use crate::call::Call;

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

/// Fields that come without a request.
const ALWAYS: [&str; 3] = ["id", "text", "edit_history_tweet_ids"];

/// The fields of a user, by OpenAPI 2.166.
const USER_FIELDS: [&str; 26] = [
    "id",
    "name",
    "username",
    "affiliation",
    "confirmed_email",
    "connection_status",
    "created_at",
    "description",
    "entities",
    "is_identity_verified",
    "location",
    "most_recent_tweet_id",
    "parody",
    "pinned_tweet_id",
    "profile_banner_url",
    "profile_image_url",
    "protected",
    "public_metrics",
    "receives_your_dm",
    "subscription",
    "subscription_type",
    "url",
    "verified",
    "verified_followers_count",
    "verified_type",
    "withheld",
];
/// Fields of a user that come without a request.
const USER_ALWAYS: [&str; 3] = ["id", "name", "username"];
/// The expansions of a user.
const USER_EXPANSIONS: [&str; 3] = ["affiliation.user_id", "most_recent_tweet_id", "pinned_tweet_id"];

/// Parameters that every endpoint with posts or users takes.
const COMMON: [&str; 7] =
    ["tweet.fields", "post.fields", "expansions", "user.fields", "media.fields", "poll.fields", "place.fields"];

/// The parameter that X rejects, and the message with the reason.
pub type UnknownParameter = (String, String);

/// The fields of one call, and the document whose names it uses.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    asked: Vec<&'static str>,
    user_fields: Vec<&'static str>,
    expansions: Vec<&'static str>,
    by_post: bool,
}

impl Fields {
    /// Reads the fields at an endpoint of posts; rejects a name that X does not know. `own` are the endpoint's parameters.
    pub fn read(call: &Call, own: &[&str]) -> Result<Self, UnknownParameter> {
        Self::parse(call, own, &EXPANSIONS)
    }

    /// Reads the fields at an endpoint of users; rejects a name that X does not know.
    pub fn read_user_fields(call: &Call, own: &[&str]) -> Result<Self, UnknownParameter> {
        Self::parse(call, own, &USER_EXPANSIONS)
    }

    fn parse(call: &Call, own: &[&str], expansions: &[&'static str]) -> Result<Self, UnknownParameter> {
        let known: Vec<&str> = own.iter().copied().chain(COMMON).collect();
        let is_of_the_signature = |name: &str| name.starts_with("oauth_");
        for (name, _) in &call.parameters {
            if !known.contains(&name.as_str()) && !is_of_the_signature(name) {
                let message = format!("The query parameter [{name}] is not one of [{}]", known.join(","));
                return Err((name.clone(), message));
            }
        }
        let mut fields = Self::default();
        for (parameter, by_post) in [("tweet.fields", false), ("post.fields", true)] {
            if call.parameter(parameter).is_some() {
                fields.by_post = by_post;
                fields.asked.extend(read_names(call, parameter, &FIELDS, |name| translate(by_post, name))?);
            }
        }
        fields.expansions = read_names(call, "expansions", expansions, |name| match name {
            "attachments.media_source_tweet" => name.to_owned(),
            name => translate(fields.by_post, name),
        })?;
        fields.user_fields = read_names(call, "user.fields", &USER_FIELDS, |name| translate(fields.by_post, name))?;
        Ok(fields)
    }

    /// True for a field in the response: a requested one, or one that an expansion needs.
    pub fn has(&self, name: &str) -> bool {
        let goes_by_it = |expansion: &&str| expansion.split('.').next() == Some(name);
        ALWAYS.contains(&name) || self.asked.contains(&name) || self.expansions.iter().any(goes_by_it)
    }

    pub fn has_user_field(&self, name: &str) -> bool {
        USER_ALWAYS.contains(&name) || self.user_fields.contains(&name)
    }

    pub fn expands(&self, name: &str) -> bool {
        self.expansions.contains(&name)
    }

    pub fn has_expansions(&self) -> bool {
        !self.expansions.is_empty()
    }

    pub fn translate(&self, name: &str) -> String {
        translate(self.by_post, name)
    }
}

/// `retweet_count` is `repost_count` in the newer document.
fn translate(by_post: bool, name: &str) -> String {
    if by_post { name.replace("tweet", "post") } else { name.to_owned() }
}

fn read_names(
    call: &Call,
    parameter: &'static str,
    known: &[&'static str],
    translate: impl Fn(&str) -> String,
) -> Result<Vec<&'static str>, UnknownParameter> {
    let Some(list) = call.parameter(parameter) else { return Ok(Vec::new()) };
    let one = |asked: &str| {
        known.iter().copied().find(|name| translate(name) == asked).ok_or_else(|| {
            let known: Vec<String> = known.iter().map(|name| translate(name)).collect();
            let known = known.join(",");
            let message = format!("The `{parameter}` query parameter value [{asked}] is not one of [{known}]");
            (parameter.to_owned(), message)
        })
    };
    list.split(',').map(one).collect()
}
