//! The body of a successful answer, in both of its forms, to one outcome per asked id.

use std::borrow::Cow;

use serde::de::{IgnoredAny, MapAccess};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::object::{Fields, MapOrElse, Object};
use crate::model::post::Tweet;
use crate::providers::asked::{Asked, not_mentioned};
use crate::providers::lookup::{LookupError, Outcome, Strangers, not_json, text};

/// Reads a body. Answers the outcomes in the order of `ids`, and the number of unrequested objects.
///
/// With `map=true` the body is `{"id": {"<id>": {…} | null, …}}`: null is missing, and an id that the map does not
/// mention is broken. Otherwise it is an array in any order with the missing left out; an element that fits no
/// asked id may be any of those, which are broken then. Each object is cut out first and read by itself, so a broken
/// one costs no other.
///
/// # Errors
/// [`LookupError::BadAnswer`] for a body of another shape, in words that do not repeat it.
pub fn read(body: &[u8], ids: &[String]) -> Result<(Vec<Outcome>, Strangers), LookupError> {
    let body = text(body);
    let mut asked = Asked::new(ids);
    let mut names_the_missing = false;
    match body.trim_start().as_bytes().first() {
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(&body).map_err(|error| not_json(&error))?;
            for raw in items {
                returned(&mut asked, None, raw);
            }
        }
        Some(b'{') => {
            let fields: Body<'_> = serde_json::from_str(&body).map_err(|error| not_json(&error))?;
            names_the_missing = true;
            for (id, raw) in mapped(fields)?.0 {
                if raw.get() != "null" {
                    returned(&mut asked, Some(&id), raw);
                } else if let Some(place) = asked.place(&id) {
                    asked.put(place, || Outcome::Unavailable);
                }
            }
        }
        Some(_) => return Err(LookupError::BadAnswer("it is neither an object nor an array".to_owned())),
        None => return Err(LookupError::BadAnswer("it is empty".to_owned())),
    }
    let unsolicited = std::mem::take(&mut asked.unsolicited);
    let other = if names_the_missing || unsolicited.count > 0 { not_mentioned() } else { Outcome::Unavailable };
    Ok((asked.outcomes(&other), unsolicited))
}

/// The map inside a map form's `id`.
fn mapped(fields: Body<'_>) -> Result<Pairs<'_>, LookupError> {
    if fields.says_error {
        return Err(LookupError::BadAnswer("a success that says error".to_owned()));
    }
    let map = match fields.id {
        Some(MapOrElse::Map(pairs)) => Some(pairs),
        Some(MapOrElse::Else) | None => None,
    };
    map.ok_or_else(|| LookupError::BadAnswer("an object without a map of tweets in \"id\"".to_owned()))
}

/// An object that came; in the map form `key` is the id it was asked by, and the object's own may differ.
fn returned(asked: &mut Asked<'_, Tweet>, key: Option<&str>, raw: &RawValue) {
    let raw = raw.get();
    let object = Object::parse(raw);
    let own = match (key, &object) {
        (None, Ok(object)) => object.id().ok().map(|id| id.to_string()),
        _ => None,
    };
    let Some(place) = key.or(own.as_deref()).and_then(|id| asked.place(id)) else {
        asked.unsolicited.add(key.map(str::to_owned).or(own));
        return;
    };
    asked.put(place, || match object.and_then(|object| object.returned(raw, key)) {
        Ok(tweet) => Outcome::Found(tweet),
        Err(reason) => Outcome::Broken(reason),
    });
}

/// The map form's own fields, read in one go with the map in it: a second walk over the body would cost as much
/// as reading the tweets.
#[derive(Default)]
struct Body<'a> {
    /// The first `id`.
    id: Option<MapOrElse<Pairs<'a>>>,
    /// True if there is an `error` or an `errors`.
    says_error: bool,
}

impl<'de> Fields<'de> for Body<'de> {
    type Name = Name<'de>;

    fn take<A: MapAccess<'de>>(&mut self, Name(name): Name<'de>, map: &mut A) -> Result<(), A::Error> {
        self.says_error |= name == "errors" || name == "error";
        if name == "id" && self.id.is_none() {
            self.id = Some(map.next_value()?);
            return Ok(());
        }
        map.next_value::<IgnoredAny>().map(drop)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Body<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Body::walk(deserializer)
    }
}

/// A JSON object as it came: in order, repeated names included, values still as text.
#[derive(Default)]
struct Pairs<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// A field's name.
#[derive(Deserialize)]
pub struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Fields<'de> for Pairs<'de> {
    type Name = Name<'de>;

    fn take<A: MapAccess<'de>>(&mut self, Name(name): Name<'de>, map: &mut A) -> Result<(), A::Error> {
        self.0.push((name, map.next_value()?));
        Ok(())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Pairs::walk(deserializer)
    }
}
