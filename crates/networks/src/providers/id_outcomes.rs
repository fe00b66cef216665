//! Requested ids and their outcomes: exactly one outcome per id, whatever the answer holds.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::account::Account;
use crate::providers::lookup::{LookupError, Outcome, UnsolicitedObjects};
use crate::providers::unreadable::UnreadableObject;

/// Distinct ids of a call, in the order asked; `None` if there are none. More than `limit` ids are a [`LookupError::BatchTooLarge`].
pub fn distinct_ids(ids: &[String], limit: usize) -> Result<Option<Vec<&str>>, LookupError> {
    let mut seen = HashSet::with_capacity(ids.len());
    let distinct: Vec<&str> = ids.iter().map(String::as_str).filter(|id| seen.insert(*id)).collect();
    if distinct.len() > limit {
        return Err(LookupError::BatchTooLarge(format!("{} ids, over the limit of {limit} per call", distinct.len())));
    }
    Ok(Some(distinct).filter(|ids| !ids.is_empty()))
}

pub struct IdOutcomes<'a, T> {
    ids: &'a [String],
    /// Position of each id in `ids`; for a repeated id, its last position.
    positions: HashMap<&'a str, usize>,
    outcomes: Vec<Option<Outcome<T>>>,
    pub unsolicited: UnsolicitedObjects,
}

impl<'a, T: Clone> IdOutcomes<'a, T> {
    pub fn new(ids: &'a [String]) -> Self {
        let positions = ids.iter().enumerate().map(|(position, id)| (id.as_str(), position)).collect();
        Self { ids, positions, outcomes: vec![None; ids.len()], unsolicited: UnsolicitedObjects::default() }
    }

    /// Position of a requested id in `ids`, the last one if it is repeated; `None` for an unrequested id.
    pub fn position(&self, id: &str) -> Option<usize> {
        self.positions.get(id).copied()
    }

    pub fn position_without_outcome(&self, id: &str) -> Option<usize> {
        self.position(id).filter(|position| self.outcomes[*position].is_none())
    }

    /// Sets the outcome of the id at `position`. The first of several wins.
    pub fn set_outcome(&mut self, position: usize, outcome: impl FnOnce() -> Outcome<T>) {
        self.outcomes[position].get_or_insert_with(outcome);
    }

    /// Assigns each object to the requested id it carries, and counts unrequested objects.
    pub fn assign(
        &mut self,
        objects: Vec<&RawValue>,
        read: impl Fn(&str) -> (Option<String>, Result<T, UnreadableObject>),
    ) {
        for raw in objects {
            let (id, object) = read(raw.get());
            match id.as_deref().and_then(|id| self.position(id)) {
                Some(position) => self.set_outcome(position, || Outcome::from(object)),
                None => self.unsolicited.add(id),
            }
        }
    }

    /// Returns one outcome per requested id, in the order asked, and the unrequested objects. An id without an object is
    /// unavailable; in a faulty answer (one that `names_the_missing`, or has an unrequested object) it is `Broken`.
    ///
    /// # Errors
    /// [`LookupError::BadAnswer`] if a faulty answer mentions none of several ids: it answers another request.
    pub fn finish(mut self, names_the_missing: bool) -> Result<(Vec<Outcome<T>>, UnsolicitedObjects), LookupError> {
        let asked = self.positions.len();
        let is_at_fault = names_the_missing || self.unsolicited.count > 0;
        if is_at_fault && asked > 1 && self.outcomes.iter().all(Option::is_none) {
            return Err(LookupError::BadAnswer(format!("it mentions none of the {asked} requested items")));
        }
        if asked < self.ids.len() {
            for (place, id) in self.ids.iter().enumerate() {
                let last = self.positions[id.as_str()];
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

/// Reads an object: its id, if readable, and the result of `make`. `what` names its kind in the error.
pub fn read_object<'a, O: Deserialize<'a>, T>(
    raw: &'a str,
    what: &'static str,
    id: impl FnOnce(&O) -> Result<String, UnreadableObject>,
    make: impl FnOnce(&O, String) -> Result<T, UnreadableObject>,
) -> (Option<String>, Result<T, UnreadableObject>) {
    // serde_json's text would quote the input.
    let Ok(object) = serde_json::from_str::<O>(raw) else { return (None, Err(UnreadableObject::Not(what))) };
    match id(&object) {
        Ok(id) => (Some(id.clone()), make(&object, id)),
        Err(why) => (None, Err(why)),
    }
}

/// Normalized handle: networks do not distinguish handles that differ only in capitals.
#[must_use]
pub fn fold_handle(handle: &str) -> String {
    handle.to_ascii_lowercase()
}

#[must_use]
pub fn fold_handles(handles: &[String]) -> Vec<String> {
    handles.iter().map(|handle| fold_handle(handle)).collect()
}

/// Wraps a reader of accounts: it returns the [folded](fold_handle) handle in place of the id.
pub fn read_by_handle(
    read: impl Fn(&str) -> (Option<String>, Result<Account, UnreadableObject>),
) -> impl Fn(&str) -> (Option<String>, Result<Account, UnreadableObject>) {
    move |raw| {
        let account = read(raw).1;
        (account.as_ref().ok().and_then(|account| account.handle.as_deref()).map(fold_handle), account)
    }
}

/// Assigns each object of a list to its id. The list leaves out missing items; unrequested objects are counted.
pub fn assign_objects<T: Clone>(
    ids: &[String],
    objects: Vec<&RawValue>,
    read: impl Fn(&str) -> (Option<String>, Result<T, UnreadableObject>),
) -> Result<(Vec<Outcome<T>>, UnsolicitedObjects), LookupError> {
    let mut asked = IdOutcomes::new(ids);
    asked.assign(objects, read);
    asked.finish(false)
}
