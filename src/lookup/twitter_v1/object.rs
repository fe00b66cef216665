//! A v1.1 tweet object, read from its JSON text.

mod fields;

use serde_json::value::RawValue;

pub use self::fields::MapOrElse;
use crate::clock::Millis;
use crate::lookup::scalar::{self, not_a_date, present};
use crate::tweet::{Metrics, Tweet, TweetId};

/// Twitter's own code for "withheld because of a copyright complaint", everywhere.
const COPYRIGHT: &str = "XY";

/// "Unknown region" of Unicode's CLDR: the answer says withheld, but not where.
const SOMEWHERE: &str = "ZZ";

/// The fields we read, still as JSON. Everything else is skipped without being decoded, and a field
/// that comes twice counts the last time, as with every JSON reader that builds a map.
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
}

/// Of its `user`, the same.
#[derive(Default)]
struct Author<'a> {
    id: Option<&'a RawValue>,
    id_str: Option<&'a RawValue>,
    screen_name: Option<&'a RawValue>,
}

/// A tweet as it was returned.
pub struct Returned {
    /// The tweet; its text is `None` where it is withheld.
    pub tweet: Tweet,
    /// Country codes, comma separated, where it is withheld.
    pub withheld_in: Option<String>,
}

/// Reads one tweet object of API v1.1. A withheld tweet comes without its text.
///
/// # Errors
/// It is none; says in a few words what is wrong with it.
pub fn parse_tweet(raw: &str) -> Result<Tweet, String> {
    Object::parse(raw)?.returned(raw, None).map(|returned| returned.tweet)
}

/// Reads a tweet as ingests hand it over: a v1.1 object, or as little as
/// `{"id": …, "created_at": …}` with the id as text or number and the date in v1.1's form, as RFC 3339,
/// or in seconds or milliseconds since the epoch.
///
/// # Errors
/// It is none; says in a few words what is wrong with it.
pub fn parse_ingested(raw: &str) -> Result<Tweet, String> {
    let raw = raw.trim();
    let object = Object::parse(raw)?;
    let created_at = match present(object.created_at) {
        None => None,
        Some(date) => Some(scalar::any_date(date).ok_or_else(|| not_a_date("created_at", date))?),
    };
    Ok(object.tweet(raw, object.id()?, created_at)?.tweet)
}

impl<'a> Object<'a> {
    /// Splits an object into its fields.
    pub fn parse(raw: &'a str) -> Result<Self, String> {
        serde_json::from_str(raw).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => "not a JSON object".to_owned(),
            // serde_json's text would quote the input.
            _ if error.line() == 1 => format!("not JSON, at column {}", error.column()),
            _ => format!("not JSON, at column {} of its line {}", error.column(), error.line()),
        })
    }

    /// Its id: `id_str`, since whatever went through JavaScript has a rounded `id`; `id` where there is
    /// no readable `id_str`.
    pub fn id(&self) -> Result<TweetId, String> {
        known_id(self.id_str, self.id)
    }

    /// Reads it whole, as an answer of the API: it has a text, and its date is in v1.1's form.
    ///
    /// `key` is the id it was asked by, where the answer says so. It stands in for a missing `id_str`:
    /// a rounded `id` would pass for the id of a later edit.
    pub fn returned(&self, raw: &str, key: Option<&str>) -> Result<Returned, String> {
        let own = present(self.id_str).and_then(|text| scalar::id(text).ok());
        let id = match own.or_else(|| TweetId::parse(key?).ok()) {
            Some(id) => id,
            None => self.id()?,
        };
        let created_at = match present(self.created_at) {
            None => None,
            Some(date) => {
                let read = scalar::string(date).and_then(|text| scalar::created_at(&text));
                Some(read.ok_or_else(|| not_a_date("created_at", date))?)
            }
        };
        let returned = self.tweet(raw, id, created_at)?;
        if returned.tweet.text.is_none() && returned.withheld_in.is_none() {
            return Err("neither full_text nor text".to_owned());
        }
        Ok(returned)
    }

    fn tweet(&self, raw: &str, id: TweetId, created_at: Option<Millis>) -> Result<Returned, String> {
        let text = match present(self.full_text).or(present(self.text)) {
            None => None,
            // HTML entities (&amp;) stay as sent: the stored text is the API's.
            Some(text) => Some(scalar::string(text).ok_or("the text is not a string")?),
        };
        let nobody = Author::default();
        let author = match &self.author {
            None => &nobody,
            Some(MapOrElse::Map(author)) => author,
            Some(MapOrElse::Else) => return Err("the user is not an object".to_owned()),
        };
        let author_name = author.screen_name.and_then(scalar::string);
        let withheld_in = self.withheld_in(text.as_deref(), author_name.as_deref());
        // A retweet's own figures are kept as sent: retweet_count is the original's, favorite_count is
        // 0 (the likes sit in retweeted_status). Taking the original's likes would count them once
        // per retweet in every sum over a store.
        let metrics = Metrics {
            retweet_count: self.retweet_count.and_then(scalar::count),
            favorite_count: self.favorite_count.and_then(scalar::count),
            reply_count: self.reply_count.and_then(scalar::count),
            quote_count: self.quote_count.and_then(scalar::count),
            ..Metrics::default()
        };
        let tweet = Tweet {
            id: id.to_string(),
            created_at,
            text: if withheld_in.is_some() { None } else { text },
            author_id: known_id(author.id_str, author.id).ok().map(|id| id.to_string()),
            author_name,
            metrics,
            raw: raw.to_owned(),
        };
        Ok(Returned { tweet, withheld_in })
    }

    /// Where it is withheld. Twitter returns a withheld tweet with its counts, the list of countries,
    /// and a sentence in place of the text; older answers had the sentence alone, which counts only
    /// when it names the tweet's own author, as anybody may quote it.
    fn withheld_in(&self, text: Option<&str>, author: Option<&str>) -> Option<String> {
        let countries: Vec<&RawValue> =
            self.withheld_in_countries.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let countries: Vec<String> = countries.into_iter().filter_map(scalar::string).collect();
        if !countries.is_empty() {
            return Some(countries.join(","));
        }
        if self.withheld_copyright.is_some_and(|raw| raw.get() == "true") {
            return Some(COPYRIGHT.to_owned());
        }
        let marker = format!("This Tweet from @{} has been withheld ", author?);
        text?.starts_with(&marker).then(|| SOMEWHERE.to_owned())
    }
}

fn known_id(text: Option<&RawValue>, number: Option<&RawValue>) -> Result<TweetId, String> {
    match (present(text), present(number)) {
        (None, None) => Err("no id_str or id".to_owned()),
        (Some(text), None) => scalar::id(text).map_err(|bad| format!("id_str: {bad}")),
        (None, Some(number)) => scalar::id(number).map_err(|bad| format!("id: {bad}")),
        (Some(text), Some(number)) => {
            scalar::id(text).or_else(|bad| scalar::id(number).map_err(|_| format!("id_str: {bad}")))
        }
    }
}
