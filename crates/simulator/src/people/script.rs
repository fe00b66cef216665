//! The list of an account's changes.

use super::person::{People, Person};
use engine::base::clock::Millis;
use networks::model::account::Change;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedChange {
    /// Time from which the new value holds, ms since the epoch.
    pub at: Millis,
    /// The field as in [`Person`], or `state`, and its values.
    pub change: Change,
}

impl People {
    /// The changes of an account after `from` until `to`, oldest first. An account does not change while it is away.
    #[must_use]
    pub fn list_changes(&self, number: u64, from: Millis, to: Millis) -> Vec<ScriptedChange> {
        let changes = |at: Millis| differences(&self.person_at(number, at - 1), &self.person_at(number, at));
        let moments = self.moments(number, from, to).into_iter();
        moments.flat_map(|at| changes(at).into_iter().map(move |change| ScriptedChange { at, change })).collect()
    }

    pub(super) fn moments(&self, number: u64, from: Millis, to: Millis) -> Vec<Millis> {
        let absences = self.absences.between(number, from, to);
        let ends = absences.into_iter().flat_map(|away| [away.from, away.until]).filter(|at| *at > from && *at <= to);
        let mut moments: Vec<Millis> = self.changes.moments(number, from, to).chain(ends).collect();
        moments.sort_unstable();
        moments.dedup();
        moments
    }
}

/// The fields in which two states of an account differ, without the counts and the newest post.
fn differences(old: &Person, new: &Person) -> Vec<Change> {
    let fields = |of: &Person| {
        [
            ("state", of.state.to_string()),
            ("handle", of.handle.clone()),
            ("display_name", of.display_name.clone()),
            ("description", of.description.clone()),
            ("location", of.location.clone()),
            ("url", of.url.clone()),
            ("picture", of.picture.clone()),
            ("protected", of.protected.to_string()),
            ("verified", of.verified.to_string()),
        ]
    };
    let both = fields(old).into_iter().zip(fields(new)).filter(|((_, old), (_, new))| old != new);
    both.map(|((field, old), (_, new))| Change { field, old, new }).collect()
}
