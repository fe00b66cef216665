//! Reads a status from its JSON text.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::post::{Details, Metrics, Tweet};
use crate::providers::id_outcomes::read_object;
use crate::providers::scalar::{self, present};
use crate::providers::unreadable::UnreadableObject;

#[derive(Deserialize)]
struct Status<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    account: Option<&'a RawValue>,
    #[serde(borrow)]
    reblogs_count: Option<&'a RawValue>,
    #[serde(borrow)]
    favourites_count: Option<&'a RawValue>,
    #[serde(borrow)]
    replies_count: Option<&'a RawValue>,
    /// Only on newer servers.
    #[serde(borrow)]
    quotes_count: Option<&'a RawValue>,
    #[serde(borrow)]
    language: Option<&'a RawValue>,
    #[serde(borrow)]
    in_reply_to_id: Option<&'a RawValue>,
    #[serde(borrow)]
    in_reply_to_account_id: Option<&'a RawValue>,
    #[serde(borrow)]
    reblog: Option<&'a RawValue>,
    /// Since 4.4; other servers put the quoted status itself here.
    #[serde(borrow)]
    quote: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ReferredStatus<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    quoted_status: Option<&'a RawValue>,
    #[serde(borrow)]
    quoted_status_id: Option<&'a RawValue>,
}

impl<'a> ReferredStatus<'a> {
    fn parse(field: Option<&'a RawValue>) -> Option<Self> {
        scalar::value(field)
    }

    fn id(&self) -> Option<String> {
        present(self.id).and_then(text_or_number)
    }

    fn quoted(&self) -> Option<String> {
        let status = Self::parse(self.quoted_status).and_then(|status| status.id());
        status.or_else(|| present(self.quoted_status_id).and_then(text_or_number)).or_else(|| self.id())
    }
}

#[derive(Deserialize, Default)]
struct Account<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    /// `user`, or `user@instance` for another instance's account.
    #[serde(borrow)]
    acct: Option<&'a RawValue>,
}

/// Returns the id, if readable, and the status. The counts of a boost are its own, not the original's.
pub fn read(raw: &str) -> (Option<String>, Result<Tweet, UnreadableObject>) {
    read_object(raw, "a status", |status: &Status<'_>| required_id(status.id), |status, id| status.to_tweet(id, raw))
}

/// Id of a status object; `None` if it is unreadable.
#[must_use]
pub fn read_id(raw: &str) -> Option<String> {
    read(raw).0
}

impl Status<'_> {
    fn to_tweet(&self, id: String, raw: &str) -> Result<Tweet, UnreadableObject> {
        let created_at = scalar::date(self.created_at, "created_at", scalar::rfc3339)?;
        let content = scalar::required_text(self.content, "content")?;
        let account: Account<'_> = scalar::value(self.account).unwrap_or_default();
        let count = |field: Option<&RawValue>| field.and_then(scalar::count);
        Ok(Tweet {
            id,
            created_at,
            text: Some(content),
            author_id: present(account.id).and_then(text_or_number),
            author_name: present(account.acct).and_then(scalar::string),
            metrics: Metrics {
                retweet_count: count(self.reblogs_count),
                favorite_count: count(self.favourites_count),
                reply_count: count(self.replies_count),
                quote_count: count(self.quotes_count),
                ..Metrics::default()
            },
            details: Details {
                lang: present(self.language).and_then(scalar::string),
                reply_to: present(self.in_reply_to_id).and_then(text_or_number),
                reply_to_author: present(self.in_reply_to_account_id).and_then(text_or_number),
                retweet_of: ReferredStatus::parse(self.reblog).and_then(|status| status.id()),
                quote_of: ReferredStatus::parse(self.quote).and_then(|quote| quote.quoted()),
                truncated: Some(false),
                ..Details::default()
            },
            withheld_in: None,
            newer: Vec::new(),
            raw: raw.to_owned(),
        })
    }
}

/// Id of an object, which must have one.
pub fn required_id(field: Option<&RawValue>) -> Result<String, UnreadableObject> {
    present(field).and_then(text_or_number).ok_or(UnreadableObject::Missing("id"))
}

/// Reads an id: a string; the oldest servers, and some other software, write numbers.
pub fn text_or_number(raw: &RawValue) -> Option<String> {
    scalar::string(raw).or_else(|| Some(raw.get().parse::<u64>().ok()?.to_string()))
}
