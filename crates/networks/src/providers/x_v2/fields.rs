//! Requested fields and expansions, by the names of X's two documents.
//!
//! Sources: OpenAPI 2.166 and 2.167, and the lists in a 400 of X from August 2026, which have names that the newer document leaves out
//! (`author_id`, `referenced_posts`, `in_reply_to_user_id`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Fields that the product reads; always requested.
const REQUIRED: [&str; 11] = [
    "author_id",
    "conversation_id",
    "created_at",
    "edit_history_tweet_ids",
    "in_reply_to_user_id",
    "lang",
    "note_tweet",
    "public_metrics",
    "referenced_tweets",
    "reply_settings",
    "withheld",
];

/// Other fields that any credential may see.
const PUBLIC: [&str; 14] = [
    "article",
    "attachments",
    "card_uri",
    "community_id",
    "context_annotations",
    "display_text_range",
    "edit_controls",
    "entities",
    "geo",
    "media_metadata",
    "paid_partnership",
    "possibly_sensitive",
    "scopes",
    "source",
];

/// Fields for the author's own credential.
const PRIVATE: [&str; 3] = ["non_public_metrics", "organic_metrics", "promoted_metrics"];

/// Users, posts and media that X can return beside the posts. X charges for users and posts.
const EXPANSIONS: [&str; 14] = [
    "article.cover_media",
    "article.media_entities",
    "attachments.media_keys",
    SOURCE,
    "attachments.poll_ids",
    "author_id",
    "edit_history_tweet_ids",
    "entities.mentions.username",
    "geo.place_id",
    "in_reply_to_user_id",
    "referenced_tweets",
    "referenced_tweets.id",
    "referenced_tweets.id.author_id",
    "username",
];

/// Requested fields of an account: those that the product reads. The stored object also gets the kind of verification, and the
/// entities, which have shortened addresses in full.
const ACCOUNT_FIELDS: [&str; 15] = [
    "created_at",
    "description",
    "entities",
    "location",
    "most_recent_tweet_id",
    "name",
    "profile_banner_url",
    "profile_image_url",
    "protected",
    "public_metrics",
    "url",
    "username",
    "verified",
    "verified_type",
    "withheld",
];

/// Name that is the same in both documents, although it contains "tweet".
const SOURCE: &str = "attachments.media_source_tweet";

const ALL: &str = "all";

/// Document of X whose names a request uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldNames {
    /// `tweet.fields`, `edit_history_tweet_ids`: up to 2.166, and in all prose.
    #[default]
    Tweet,
    /// `post.fields`, `edit_history_post_ids`: from 2.167 on.
    Post,
}

impl FieldNames {
    fn parameter(self) -> &'static str {
        match self {
            Self::Tweet => "tweet.fields",
            Self::Post => "post.fields",
        }
    }

    fn translate(self, name: &str) -> String {
        match self {
            Self::Post if name != SOURCE => name.replace("tweet", "post"),
            _ => name.to_owned(),
        }
    }

    fn list(self, names: impl IntoIterator<Item = &'static str>, between: &str) -> String {
        names.into_iter().map(|name| self.translate(name)).collect::<Vec<_>>().join(between)
    }
}

/// A name in the settings that neither document has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownName {
    #[error("fields: {name:?} is not a field of a post: write all, or any of {known}")]
    Field { name: String, known: String },
    #[error("expansions: {name:?} is not an expansion: write any of {known}")]
    Expansion { name: String, known: String },
}

/// Requested fields and expansions, besides the id and the text, which always come.
#[derive(Debug, Clone)]
pub struct Fields {
    names: FieldNames,
    fields: String,
    expansions: String,
}

impl Fields {
    #[must_use]
    pub fn all(names: FieldNames) -> Self {
        let fields: BTreeSet<&str> = REQUIRED.into_iter().chain(PUBLIC).collect();
        Self { names, fields: names.list(fields, ","), expansions: String::new() }
    }

    /// Parses comma-separated names of either document, and adds the required fields. `all` stands for every public field.
    pub fn new(names: FieldNames, fields: &str, expansions: &str) -> Result<Self, UnknownName> {
        let mut asked = BTreeSet::from(REQUIRED);
        for name in split_names(fields) {
            let fields = REQUIRED.into_iter().chain(PUBLIC).chain(PRIVATE);
            if name == ALL {
                asked.extend(PUBLIC);
                continue;
            }
            let known = find_name(name, fields.clone());
            asked.insert(
                known.ok_or_else(|| UnknownName::Field { name: name.to_owned(), known: names.list(fields, ", ") })?,
            );
        }
        let expansions = split_names(expansions).map(|name| {
            find_name(name, EXPANSIONS)
                .ok_or_else(|| UnknownName::Expansion { name: name.to_owned(), known: names.list(EXPANSIONS, ", ") })
        });
        let expansions = expansions.collect::<Result<BTreeSet<_>, _>>()?;
        Ok(Self { names, fields: names.list(asked, ","), expansions: names.list(expansions, ",") })
    }

    /// Name and value of the query parameter that requests the fields of accounts.
    #[must_use]
    pub fn account_parameter(&self) -> (&'static str, String) {
        ("user.fields", self.names.list(ACCOUNT_FIELDS, ","))
    }

    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [(self.names.parameter(), &*self.fields), ("expansions", &*self.expansions)];
        all.into_iter().filter(|(_, names)| !names.is_empty())
    }
}

impl Default for Fields {
    fn default() -> Self {
        Self::all(FieldNames::default())
    }
}

fn split_names(names: &str) -> impl Iterator<Item = &str> {
    names.split(',').map(str::trim).filter(|name| !name.is_empty())
}

fn find_name(name: &str, names: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    names.into_iter().find(|known| *known == name || FieldNames::Post.translate(known) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_parameters(names: FieldNames, fields: &str, expansions: &str) -> Vec<(&'static str, String)> {
        let fields = Fields::new(names, fields, expansions).unwrap();
        fields.parameters().map(|(parameter, names)| (parameter, names.to_owned())).collect()
    }

    #[test]
    fn what_the_product_reads_is_always_asked_for() {
        let [(parameter, least)] = &build_parameters(FieldNames::Tweet, "", "")[..] else { panic!() };
        assert_eq!((*parameter, least), ("tweet.fields", &REQUIRED.join(",")));
        let [(_, some)] = &build_parameters(FieldNames::Tweet, " geo ,lang, ", "")[..] else { panic!() };
        assert_eq!(*some, REQUIRED.join(",").replace("in_reply", "geo,in_reply"));
        let all: Vec<_> = Fields::default().parameters().map(|(_, names)| names.to_owned()).collect();
        assert_eq!(build_parameters(FieldNames::Tweet, "all", "")[0].1, all[0]);
        assert!(PRIVATE.iter().all(|name| !all[0].contains(name)) && PUBLIC.iter().all(|name| all[0].contains(name)));
        assert!(build_parameters(FieldNames::Tweet, "all, organic_metrics", "")[0].1.contains(",organic_metrics,"));
    }

    #[test]
    fn either_document_s_names_are_taken_and_the_chosen_one_s_are_sent() {
        for given in ["note_tweet, edit_history_tweet_ids", "note_post, edit_history_post_ids"] {
            let [(parameter, fields)] = &build_parameters(FieldNames::Post, given, "")[..] else { panic!() };
            assert_eq!(*parameter, "post.fields");
            assert_eq!(*fields, REQUIRED.join(",").replace("tweet", "post"));
        }
        let expansions = "referenced_posts.id, author_id, attachments.media_source_tweet";
        let tweet = &build_parameters(FieldNames::Tweet, "", expansions)[1];
        assert_eq!((tweet.0, &*tweet.1), ("expansions", &*format!("{SOURCE},author_id,referenced_tweets.id")));
        assert_eq!(
            build_parameters(FieldNames::Post, "", expansions)[1].1,
            format!("{SOURCE},author_id,referenced_posts.id")
        );
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_list() {
        let error = Fields::new(FieldNames::Post, "lang, colour", "").unwrap_err().to_string();
        assert!(error.starts_with("fields: \"colour\" is not a field") && error.contains("all, or any of"), "{error}");
        assert!(error.contains("edit_history_post_ids") && error.contains("organic_metrics"), "{error}");
        let error = Fields::new(FieldNames::Tweet, "all", "all").unwrap_err().to_string();
        assert!(error.starts_with("expansions: \"all\" is not") && error.contains("referenced_tweets.id"), "{error}");
    }
}
