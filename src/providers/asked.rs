//! The asked ids, and what has come for each: exactly one outcome, whatever an answer holds.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::account::Account;
use crate::providers::lookup::{LookupError, Outcome, Strangers};

/// The ids of a call: each id once, in the order asked; `None` if there are none.
///
/// # Errors
/// [`LookupError::BatchTooLarge`] for more than `limit`, before any call.
pub fn batch(ids: &[String], limit: usize) -> Result<Option<Vec<&str>>, LookupError> {
    let mut seen = HashSet::with_capacity(ids.len());
    let distinct: Vec<&str> = ids.iter().map(String::as_str).filter(|id| seen.insert(*id)).collect();
    if distinct.len() > limit {
        return Err(LookupError::BatchTooLarge(format!("{} ids, and a call takes {limit}", distinct.len())));
    }
    Ok(Some(distinct).filter(|ids| !ids.is_empty()))
}

/// Collects the outcomes.
pub struct Asked<'a, T> {
    ids: &'a [String],
    /// Places by id; for an id asked twice, the last.
    places: HashMap<&'a str, usize>,
    outcomes: Vec<Option<Outcome<T>>>,
    /// Unrequested objects.
    pub unsolicited: Strangers,
}

impl<'a, T: Clone> Asked<'a, T> {
    /// Nothing has come yet.
    pub fn new(ids: &'a [String]) -> Self {
        let places = ids.iter().enumerate().map(|(place, id)| (id.as_str(), place)).collect();
        Self { ids, places, outcomes: vec![None; ids.len()], unsolicited: Strangers::default() }
    }

    /// The place of an id; `None` if it was not requested.
    pub fn place(&self, id: &str) -> Option<usize> {
        self.places.get(id).copied()
    }

    /// The place of an id without an outcome.
    pub fn open(&self, id: &str) -> Option<usize> {
        self.place(id).filter(|place| self.outcomes[*place].is_none())
    }

    /// Sets the outcome of a place. The first of several wins.
    pub fn put(&mut self, place: usize, outcome: impl FnOnce() -> Outcome<T>) {
        self.outcomes[place].get_or_insert_with(outcome);
    }

    /// Gives each object to the id that it has, and counts those that nobody asked for.
    pub fn give(&mut self, objects: Vec<&RawValue>, read: impl Fn(&str) -> (Option<String>, Result<T, String>)) {
        for raw in objects {
            let (id, object) = read(raw.get());
            match id.as_deref().and_then(|id| self.place(id)) {
                Some(place) => self.put(place, || object.map_or_else(Outcome::Broken, Outcome::Found)),
                None => self.unsolicited.add(id),
            }
        }
    }

    /// One outcome per asked id, in the order asked, and the unrequested objects. An id of which nothing came is unavailable. Where
    /// the answer `names_the_missing`, or an object fits no id and may be of this one, the answer is at fault and says nothing of it.
    ///
    /// # Errors
    /// [`LookupError::BadAnswer`] where an answer at fault has nothing of any of several ids: it answers something else, and nobody
    /// waits a whole interval for that. One that was asked for alone may be the reason itself.
    pub fn outcomes(mut self, names_the_missing: bool) -> Result<(Vec<Outcome<T>>, Strangers), LookupError> {
        let asked = self.places.len();
        let is_at_fault = names_the_missing || self.unsolicited.count > 0;
        if is_at_fault && asked > 1 && self.outcomes.iter().all(Option::is_none) {
            return Err(LookupError::BadAnswer(format!("it mentions none of the {asked} that were asked for")));
        }
        if asked < self.ids.len() {
            for (place, id) in self.ids.iter().enumerate() {
                let last = self.places[id.as_str()];
                self.outcomes[place] = self.outcomes[last].clone();
            }
        }
        let other = || match is_at_fault {
            true => Outcome::Broken("the answer does not mention it".to_owned()),
            false => Outcome::Unavailable,
        };
        let outcomes = self.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(other)).collect();
        Ok((outcomes, self.unsolicited))
    }
}

/// Reads an object: its id, if that can be read, and what `make` makes of the two. `what` it should be, and all errors, are
/// clauses.
pub fn with_id<'a, O: Deserialize<'a>, T>(
    raw: &'a str,
    what: &str,
    id: impl FnOnce(&O) -> Result<String, String>,
    make: impl FnOnce(&O, String) -> Result<T, String>,
) -> (Option<String>, Result<T, String>) {
    // serde_json's text would quote the input.
    let Ok(object) = serde_json::from_str::<O>(raw) else { return (None, Err(format!("not {what}"))) };
    match id(&object) {
        Ok(id) => (Some(id.clone()), make(&object, id)),
        Err(why) => (None, Err(why)),
    }
}

/// A handle as it is compared: networks tell no two apart that differ in capitals alone.
#[must_use]
pub fn folded(handle: &str) -> String {
    handle.to_ascii_lowercase()
}

/// Handles as they are compared, in the order asked.
#[must_use]
pub fn all_folded(handles: &[String]) -> Vec<String> {
    handles.iter().map(|handle| folded(handle)).collect()
}

/// A reader of accounts that answers each with its [folded] handle in place of its id.
pub fn by_handle(
    read: impl Fn(&str) -> (Option<String>, Result<Account, String>),
) -> impl Fn(&str) -> (Option<String>, Result<Account, String>) {
    move |raw| {
        let account = read(raw).1;
        (account.as_ref().ok().and_then(|account| account.handle.as_deref()).map(folded), account)
    }
}

/// Gives each object of a list, which leaves out the missing, to the id that it has; what nobody asked for is counted.
///
/// # Errors
/// As of [`Asked::outcomes`].
pub fn share<T: Clone>(
    ids: &[String],
    objects: Vec<&RawValue>,
    read: impl Fn(&str) -> (Option<String>, Result<T, String>),
) -> Result<(Vec<Outcome<T>>, Strangers), LookupError> {
    let mut asked = Asked::new(ids);
    asked.give(objects, read);
    asked.outcomes(false)
}
