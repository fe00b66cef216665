//! A post view, read from its JSON text.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::uri;
use crate::clock::Millis;
use crate::lookup::scalar::{self, not_a_date, present};
use crate::tweet::{Metrics, Tweet};

/// The fields we read, still as JSON: an odd one is no reason to lose the others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Post<'a> {
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow)]
    author: Option<&'a RawValue>,
    #[serde(borrow)]
    record: Option<&'a RawValue>,
    #[serde(borrow)]
    indexed_at: Option<&'a RawValue>,
    #[serde(borrow)]
    repost_count: Option<&'a RawValue>,
    #[serde(borrow)]
    like_count: Option<&'a RawValue>,
    #[serde(borrow)]
    reply_count: Option<&'a RawValue>,
    #[serde(borrow)]
    quote_count: Option<&'a RawValue>,
    #[serde(borrow)]
    bookmark_count: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Author<'a> {
    #[serde(borrow)]
    did: Option<&'a RawValue>,
    #[serde(borrow)]
    handle: Option<&'a RawValue>,
}

/// What the author wrote.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

/// Its uri, if that can be read, and the post.
pub fn read(raw: &str) -> (Option<String>, Result<Tweet, String>) {
    // serde_json's text would quote the input.
    let post: Result<Post<'_>, _> = serde_json::from_str(raw).map_err(|_| "not a post view".to_owned());
    let id = post.as_ref().ok().and_then(|post| present(post.uri)).and_then(scalar::string);
    let tweet = post.and_then(|post| post.tweet(id.clone().ok_or("no uri")?, raw));
    (id, tweet)
}

impl Post<'_> {
    fn tweet(&self, id: String, raw: &str) -> Result<Tweet, String> {
        let record: Record<'_> = present(self.record)
            .and_then(|record| serde_json::from_str(record.get()).ok())
            .ok_or("the record is not an object")?;
        let text = present(record.text).and_then(scalar::string).ok_or("the text is not a string")?;
        let author: Author<'_> =
            present(self.author).and_then(|author| serde_json::from_str(author.get()).ok()).unwrap_or_default();
        let count = |field: Option<&RawValue>| field.and_then(scalar::count);
        Ok(Tweet {
            created_at: self.created_at(&record, &id)?,
            text: Some(text),
            author_id: present(author.did).and_then(scalar::string),
            author_name: present(author.handle).and_then(scalar::string),
            metrics: Metrics {
                retweet_count: count(self.repost_count),
                favorite_count: count(self.like_count),
                reply_count: count(self.reply_count),
                quote_count: count(self.quote_count),
                bookmark_count: count(self.bookmark_count),
                impression_count: None,
            },
            raw: raw.to_owned(),
            id,
        })
    }

    /// The record's date is whatever its client wrote, also a local time that calls itself UTC: what is dated
    /// after it was first seen was made when it was first seen, as Bluesky sorts it (`sortAt`). One before the
    /// epoch (recorded: the year 0) is none; then the uri tells.
    fn created_at(&self, record: &Record<'_>, id: &str) -> Result<Option<Millis>, String> {
        let date = |raw: &RawValue| scalar::string(raw).and_then(|text| scalar::rfc3339(&text));
        let written = match present(record.created_at) {
            None => None,
            Some(raw) => Some(date(raw).ok_or_else(|| not_a_date("createdAt", raw))?),
        };
        let seen = present(self.indexed_at).and_then(date);
        let earlier = [written, seen].into_iter().flatten().min().filter(|at| *at >= 0);
        Ok(earlier.or_else(|| uri::time(uri::key(id).ok()?)))
    }
}
