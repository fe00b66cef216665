//! Turns the body of a successful answer, in both of its forms, into one outcome per requested id.

use super::object::Object;
use crate::model::post::Tweet;
use crate::providers::id_outcomes::IdOutcomes;
use crate::providers::lookup::{LookupError, Outcome, UnsolicitedObjects, decode_lossy};
use crate::providers::pieces::{Piece, walk};
use crate::providers::unreadable::UnreadableObject;

/// Reads a body. Returns the outcomes in the order of `ids`, and the unrequested objects. An error does not repeat the body.
///
/// With `map=true` the body is `{"id": {"<id>": {…} | null, …}}`: null is missing, and an id that the map omits is broken. Otherwise
/// it is an array in any order without the missing tweets; if an element has no requested id, the missing ids are broken.
pub fn read(body: &[u8], ids: &[String]) -> Result<(Vec<Outcome>, UnsolicitedObjects), LookupError> {
    let body = decode_lossy(body);
    let mut asked = IdOutcomes::new(ids);
    let names_the_missing = match body.trim_start().as_bytes().first() {
        Some(b'[') => {
            walk(&body, |walk| walk.list(|piece| assign_returned(&mut asked, None, piece)))?;
            false
        }
        Some(b'{') => {
            walk_map(&body, |id, piece| {
                if piece.text != "null" {
                    assign_returned(&mut asked, Some(id), piece);
                } else if let Some(position) = asked.position(id) {
                    asked.set_outcome(position, || Outcome::Unavailable);
                }
            })?;
            true
        }
        Some(_) => return Err(LookupError::BadAnswer("it is neither an object nor an array".to_owned())),
        None => return Err(LookupError::BadAnswer("it is empty".to_owned())),
    };
    asked.finish(names_the_missing)
}

/// Walks over the map in a map form's first `id`. An error in the body invalidates all of it.
fn walk_map<'a>(body: &'a str, mut each: impl FnMut(&str, Piece<'a, Object<'a>>)) -> Result<(), LookupError> {
    let (mut has_map, mut says_error, mut has_id) = (false, false, false);
    walk(body, |walk| {
        walk.object(|walk, name| {
            says_error |= name == "errors" || name == "error";
            if name != "id" || std::mem::replace(&mut has_id, true) || walk.peek() != Some(b'{') {
                return walk.skip();
            }
            has_map = true;
            walk.map(|id, piece| each(&id, piece))
        })
    })?;
    if says_error {
        return Err(LookupError::BadAnswer("a success that says error".to_owned()));
    }
    has_map
        .then_some(())
        .ok_or_else(|| LookupError::BadAnswer("an object without a map of tweets in \"id\"".to_owned()))
}

/// Sets the outcome of the requested id that a returned object belongs to; an unrequested object is counted. `key`: the requested id
/// in the map form of an answer (the object's own id may differ), `None` in the list form.
fn assign_returned(asked: &mut IdOutcomes<'_, Tweet>, key: Option<&str>, Piece { text, value }: Piece<'_, Object<'_>>) {
    let own = match (key, &value) {
        (None, Ok(object)) => object.id().ok().map(|id| id.to_string()),
        _ => None,
    };
    let Some(position) = key.or(own.as_deref()).and_then(|id| asked.position(id)) else {
        asked.unsolicited.add(key.map(str::to_owned).or(own));
        return;
    };
    asked.set_outcome(position, || {
        let object = value.map_err(|error| UnreadableObject::from_json_error(&error));
        object.and_then(|object| object.to_whole_tweet(text, key)).into()
    });
}
