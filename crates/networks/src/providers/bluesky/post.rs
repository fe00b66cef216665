//! Reads a post view from its JSON text.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::account::NO_HANDLE;
use super::uri;
use crate::model::post::{Details, Metrics, SECONDS_BELOW, Tweet};
use crate::providers::id_outcomes::read_object;
use crate::providers::scalar::{self, present};
use crate::providers::unreadable::UnreadableObject;
use engine::base::clock::Millis;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Post<'a> {
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow)]
    author: Option<&'a RawValue>,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
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
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Label<'a> {
    #[serde(borrow)]
    val: Option<&'a RawValue>,
    /// True if the label is withdrawn.
    #[serde(borrow)]
    neg: Option<&'a RawValue>,
}

/// Labels of a view, without the withdrawn ones.
fn labels(field: Option<&RawValue>) -> Vec<String> {
    let labels: Vec<&RawValue> = scalar::value(field).unwrap_or_default();
    let labels = labels.into_iter().filter_map(|label| scalar::value::<Label<'_>>(Some(label)));
    let standing = labels.filter(|label| label.neg.is_none_or(|neg| neg.get() != "true"));
    standing.filter_map(|label| present(label.val).and_then(scalar::string)).filter(|label| !label.is_empty()).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    langs: Option<&'a RawValue>,
    #[serde(borrow)]
    reply: Option<&'a RawValue>,
    #[serde(borrow)]
    embed: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    parent: Option<&'a RawValue>,
    #[serde(borrow)]
    root: Option<&'a RawValue>,
}

/// Reference to a record, or an embed that contains one; beside media it is one level deeper.
#[derive(Deserialize)]
struct Reference<'a> {
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow)]
    record: Option<&'a RawValue>,
}

impl<'a> Reference<'a> {
    fn parse(field: Option<&'a RawValue>) -> Option<Self> {
        scalar::value(field)
    }

    /// Uri of the referenced post, at most two levels deep. Feeds, lists and other records can be embedded, too.
    fn post(self) -> Option<String> {
        let mut here = self;
        for _ in 0..2 {
            if present(here.uri).is_some() {
                break;
            }
            here = Self::parse(here.record)?;
        }
        present(here.uri).and_then(scalar::string).filter(|uri| uri::record_key(uri).is_ok())
    }
}

/// Reads a post view: its uri, if readable, and the post or the reason why it is unreadable.
pub fn read(raw: &str) -> (Option<String>, Result<Tweet, UnreadableObject>) {
    let id = |post: &Post<'_>| present(post.uri).and_then(scalar::string).ok_or(UnreadableObject::Missing("uri"));
    read_object(raw, "a post view", id, |post, id| post.to_tweet(id, raw))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dates<'a> {
    #[serde(borrow)]
    indexed_at: Option<&'a RawValue>,
    #[serde(borrow)]
    record: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordDate<'a> {
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
}

/// RFC 3339 date in ms since the Unix epoch.
#[must_use]
pub fn parse_date(text: &str) -> Option<Millis> {
    scalar::rfc3339(text)
}

fn read_date(raw: Option<&RawValue>) -> Option<Millis> {
    parse_date(&scalar::string(raw?)?)
}

fn read_written_date(raw: Option<&RawValue>) -> Option<Millis> {
    scalar::rfc3339_or_utc(&scalar::string(raw?)?)
}

/// Time at which the server first saw a post, or a reason to show one; ms since the Unix epoch.
#[must_use]
pub fn indexed_at(raw: &str) -> Option<Millis> {
    read_date(serde_json::from_str::<Dates<'_>>(raw).ok()?.indexed_at)
}

/// Sort key of Bluesky (`sortAt`), ms since the Unix epoch: the earlier of the record's date and [`indexed_at`]. `None` if a present
/// date is unreadable: then the server may have sorted it anywhere.
#[must_use]
pub fn sort_time(raw: &str) -> Option<Millis> {
    let dates: Dates<'_> = serde_json::from_str(raw).ok()?;
    let seen = read_date(dates.indexed_at)?;
    match scalar::value::<RecordDate<'_>>(dates.record).and_then(|record| present(record.created_at)) {
        None => Some(seen),
        date => Some(read_written_date(date)?.min(seen)),
    }
}

impl Record<'_> {
    fn details(&self, id: &str) -> Details {
        let reply: Option<Reply<'_>> = scalar::value(self.reply);
        let post = |field: Option<&RawValue>| Reference::parse(field)?.post();
        let reply_to = reply.as_ref().and_then(|reply| post(reply.parent));
        let langs: Vec<String> = scalar::value(self.langs).unwrap_or_default();
        Details {
            lang: Some(langs.join(",")).filter(|langs| !langs.is_empty()),
            reply_to_author: reply_to.as_deref().and_then(uri::author_did).map(str::to_owned),
            reply_to,
            quote_of: post(self.embed),
            conversation_id: match &reply {
                Some(reply) => post(reply.root),
                None => Some(id.to_owned()),
            },
            truncated: Some(false),
            ..Details::default()
        }
    }
}

impl Post<'_> {
    fn to_tweet(&self, id: String, raw: &str) -> Result<Tweet, UnreadableObject> {
        let record: Record<'_> = scalar::value(self.record).ok_or(UnreadableObject::NotAnObject("record"))?;
        let text = scalar::required_text(record.text, "text")?;
        let author: Author<'_> = scalar::value(self.author).unwrap_or_default();
        let count = |field: Option<&RawValue>| field.and_then(scalar::count);
        let mut known = [labels(self.labels), labels(author.labels)].concat();
        known.sort_unstable();
        known.dedup();
        let known = known.join(",");
        Ok(Tweet {
            created_at: self.created_at(&record, &id),
            text: Some(text),
            author_id: present(author.did).and_then(scalar::string),
            author_name: present(author.handle).and_then(scalar::string).filter(|handle| handle != NO_HANDLE),
            metrics: Metrics {
                retweet_count: count(self.repost_count),
                favorite_count: count(self.like_count),
                reply_count: count(self.reply_count),
                quote_count: count(self.quote_count),
                bookmark_count: count(self.bookmark_count),
                impression_count: None,
            },
            details: Details { labels: Some(known).filter(|known| !known.is_empty()), ..record.details(&id) },
            withheld_in: None,
            newer: Vec::new(),
            raw: raw.to_owned(),
            id,
        })
    }

    /// Time of a post. A client's date after the indexing is replaced by the indexing, as in Bluesky's sort order (`sortAt`). An unreadable
    /// or impossibly early date (recorded: the years 0 and 1965) is dropped; then the uri gives the time.
    fn created_at(&self, record: &Record<'_>, id: &str) -> Option<Millis> {
        let (written, seen) = (read_written_date(record.created_at), read_date(self.indexed_at));
        let earlier = [written, seen].into_iter().flatten().min();
        let by_key = || uri::tid_time(uri::record_key(id).ok()?);
        let can_be = |at: &Millis| *at >= SECONDS_BELOW;
        earlier.filter(can_be).or_else(|| by_key().filter(can_be))
    }
}
