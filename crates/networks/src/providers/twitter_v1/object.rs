//! Reads a v1.1 tweet object from its JSON text.

mod fields;

use serde_json::value::RawValue;

pub use self::fields::MapOrElse;
use crate::model::post::{Details, Metrics, Tweet, TweetId};
use crate::providers::scalar::{self, date_error, present};
use crate::providers::unreadable::UnreadableObject;
use crate::providers::x_v2::post::read_counts;
use engine::base::clock::Millis;

/// Twitter's own code for a copyright complaint: withheld everywhere.
const COPYRIGHT: &str = "XY";

/// Code for unknown countries ("Unknown region" of Unicode's CLDR): withheld, but the answer does not say where.
const SOMEWHERE: &str = "ZZ";

/// Fields still as JSON; all others are skipped. A repeated field counts the last time, as in JSON readers that build a map.
#[derive(Default)]
pub struct Object<'a> {
    id: Option<&'a RawValue>,
    id_str: Option<&'a RawValue>,
    created_at: Option<&'a RawValue>,
    full_text: Option<&'a RawValue>,
    text: Option<&'a RawValue>,
    author: Option<MapOrElse<Author<'a>>>,
    retweet_count: Option<&'a RawValue>,
    favorite_count: Option<&'a RawValue>,
    reply_count: Option<&'a RawValue>,
    quote_count: Option<&'a RawValue>,
    withheld_copyright: Option<&'a RawValue>,
    withheld_in_countries: Option<&'a RawValue>,
    lang: Option<&'a RawValue>,
    in_reply_to_status_id: Option<&'a RawValue>,
    in_reply_to_status_id_str: Option<&'a RawValue>,
    in_reply_to_user_id: Option<&'a RawValue>,
    in_reply_to_user_id_str: Option<&'a RawValue>,
    quoted_status_id: Option<&'a RawValue>,
    quoted_status_id_str: Option<&'a RawValue>,
    retweeted_status: Option<&'a RawValue>,
    extended_tweet: Option<&'a RawValue>,
    truncated: Option<&'a RawValue>,
    /// From an object of X API v2, which has no `user`: people ingest such objects as twarc2 writes them.
    author_id: Option<&'a RawValue>,
    public_metrics: Option<&'a RawValue>,
}

#[derive(Default)]
struct Author<'a> {
    id: Option<&'a RawValue>,
    id_str: Option<&'a RawValue>,
    screen_name: Option<&'a RawValue>,
}

/// Reads one tweet object of API v1.1. A notice in place of its text gives no text. An error is a short text for people.
pub fn parse_tweet(raw: &str) -> Result<Tweet, UnreadableObject> {
    Object::parse(raw)?.to_whole_tweet(raw, None)
}

/// Reads a tweet of an ingest: a v1.1 object, or as little as `{"id": …, "created_at": …}` (the date as in [`scalar::any_date`]).
/// An error is a short text for people.
pub fn parse_ingested(raw: &str) -> Result<Tweet, UnreadableObject> {
    let raw = raw.trim();
    let object = Object::parse(raw)?;
    let created_at = match present(object.created_at) {
        None => None,
        Some(date) => Some(scalar::any_date(date).ok_or_else(|| date_error("created_at", date))?),
    };
    object.to_tweet(raw, object.id()?, created_at)
}

impl<'a> Object<'a> {
    pub fn parse(raw: &'a str) -> Result<Self, UnreadableObject> {
        serde_json::from_str(raw).map_err(|error| UnreadableObject::from_json_error(&error))
    }

    pub fn id(&self) -> Result<TweetId, UnreadableObject> {
        exact_id(self.id_str, self.id)
    }

    /// Reads a whole object of an answer: it has a text, and its date is in v1.1's form. `key` is the requested id, if the answer
    /// states it. It replaces a missing `id_str`: a rounded `id` would look like the id of a later edit.
    pub fn to_whole_tweet(&self, raw: &str, key: Option<&str>) -> Result<Tweet, UnreadableObject> {
        let own = present(self.id_str).and_then(|text| scalar::id(text).ok());
        let id = match own.or_else(|| TweetId::parse(key?).ok()) {
            Some(id) => id,
            None => self.id()?,
        };
        let created_at = scalar::date(self.created_at, "created_at", scalar::twitter_date)?;
        let tweet = self.to_tweet(raw, id, created_at)?;
        if tweet.text.is_none() && tweet.withheld_in.is_none() {
            return Err(UnreadableObject::NoText);
        }
        Ok(tweet)
    }

    fn to_tweet(&self, raw: &str, id: TweetId, created_at: Option<Millis>) -> Result<Tweet, UnreadableObject> {
        let no_author = Author::default();
        let author = match &self.author {
            None => &no_author,
            Some(MapOrElse::Map(author)) => author,
            Some(MapOrElse::Else) => return Err(UnreadableObject::NotAnObject("user")),
        };
        let author_name = author.screen_name.and_then(scalar::string);
        let original: Option<Object<'_>> = scalar::value(self.retweeted_status);
        let (text, truncated) = self.whole_text(original.as_ref())?;
        let withheld_in = self.withheld_in();
        // Other authors may quote the notice.
        let is_notice = text
            .as_deref()
            .and_then(scalar::handle_in_notice)
            .is_some_and(|author| withheld_in.is_some() || author_name.as_deref() == Some(author));
        // A retweet keeps its own figures as sent: retweet_count is the original's, and favorite_count is 0 (the likes are in
        // retweeted_status). The original's likes would count once per retweet in every sum over a store.
        let metrics = match present(self.public_metrics) {
            Some(counts) => read_counts(Some(counts)),
            None => Metrics {
                retweet_count: self.retweet_count.and_then(scalar::count),
                favorite_count: self.favorite_count.and_then(scalar::count),
                reply_count: self.reply_count.and_then(scalar::count),
                quote_count: self.quote_count.and_then(scalar::count),
                ..Metrics::default()
            },
        };
        let author_id = exact_id(author.id_str, author.id).ok();
        let author_id = author_id.or_else(|| scalar::id(present(self.author_id)?).ok());
        let id_in = |text, number| exact_id(text, number).ok().map(|id| id.to_string());
        let details = Details {
            lang: present(self.lang).and_then(scalar::string),
            reply_to: id_in(self.in_reply_to_status_id_str, self.in_reply_to_status_id),
            reply_to_author: id_in(self.in_reply_to_user_id_str, self.in_reply_to_user_id),
            retweet_of: original.as_ref().and_then(|original| Some(original.id().ok()?.to_string())),
            quote_of: id_in(self.quoted_status_id_str, self.quoted_status_id),
            truncated: text.as_ref().map(|_| truncated),
            ..Details::default()
        };
        Ok(Tweet {
            id: id.to_string(),
            created_at,
            text: text.filter(|_| !is_notice),
            author_id: author_id.map(|id| id.to_string()),
            author_name,
            metrics,
            details,
            withheld_in: withheld_in.or_else(|| is_notice.then(|| SOMEWHERE.to_owned())),
            newer: Vec::new(),
            raw: raw.to_owned(),
        })
    }

    /// Text as whole as the object has it, and true if it is still cut short. HTML entities (&amp;) stay as sent: the stored text is
    /// the API's.
    ///
    /// Objects of streams and older archives have the first 140 characters in `text` and the rest in `extended_tweet`. The text of a
    /// retweet ("RT @ann: …") is cut to 140, and whole in `original`. If the original has no author, the retweet's own text names it.
    fn whole_text(&self, original: Option<&Object<'_>>) -> Result<(Option<String>, bool), UnreadableObject> {
        let extended: Option<Object<'_>> = scalar::value(self.extended_tweet);
        let extended = extended.and_then(|extended| scalar::string(present(extended.full_text)?));
        let own = present(self.full_text).or(present(self.text));
        let own = own.map(|text| scalar::required_text(Some(text), "text")).transpose()?;
        let name = |original: &Object<'_>| match &original.author {
            Some(MapOrElse::Map(author)) => author.screen_name.and_then(scalar::string),
            Some(MapOrElse::Else) | None => None,
        };
        if let Some(original) = original
            && let Some(name) = name(original).or_else(|| scalar::reposted_handle(own.as_deref()?).map(str::to_owned))
            && let Ok((Some(text), truncated)) = original.whole_text(None)
            && scalar::handle_in_notice(&text) != Some(&*name)
        {
            return Ok((Some(format!("RT @{name}: {text}")), truncated));
        }
        let truncated = extended.is_none() && self.truncated.is_some_and(|raw| raw.get() == "true");
        Ok((extended.or(own), truncated))
    }

    fn withheld_in(&self) -> Option<String> {
        let countries: Vec<&RawValue> = scalar::value(self.withheld_in_countries).unwrap_or_default();
        let countries: Vec<String> = countries.into_iter().filter_map(scalar::string).collect();
        if !countries.is_empty() {
            return Some(countries.join(","));
        }
        self.withheld_copyright.is_some_and(|raw| raw.get() == "true").then(|| COPYRIGHT.to_owned())
    }
}

/// Id from `id_str`, since JavaScript rounds `id`; from `id` if there is no readable `id_str`.
pub fn exact_id(text: Option<&RawValue>, number: Option<&RawValue>) -> Result<TweetId, UnreadableObject> {
    match (present(text), present(number)) {
        (None, None) => Err(UnreadableObject::Missing("id_str or id")),
        (Some(text), None) => scalar::id(text).map_err(|bad| UnreadableObject::BadId("id_str", bad)),
        (None, Some(number)) => scalar::id(number).map_err(|bad| UnreadableObject::BadId("id", bad)),
        (Some(text), Some(number)) => {
            scalar::id(text).or_else(|bad| scalar::id(number).map_err(|_| UnreadableObject::BadId("id_str", bad)))
        }
    }
}
