//! Entries of the reference queue ([`QueueModel`](super::queue_model::QueueModel)), found by id, by lane and due time,
//! and by lease, so that a claim of a simulation looks only at ids that it may take.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use twitter_updater::base::clock::Millis;
use twitter_updater::engine::queue::HOUR_MS;

/// The hour since the epoch.
fn hour(at: Millis) -> Millis {
    at.div_euclid(HOUR_MS)
}

/// The place of an id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum At {
    Delayed { lane: Arc<str>, due: Millis },
    Leased { fence: Millis, token: Arc<str>, lane: Arc<str>, due: Millis },
    Dead { at: Millis, reason: Arc<str> },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    pub at: At,
    pub deliveries: u32,
    pub failures: u32,
    /// The fence under which it is alone in its process.
    pub trial: Option<Millis>,
    /// Of a promote while it was leased: the due and the lane that it takes when it is given back.
    pub note: Option<(Millis, Arc<str>)>,
}

impl Entry {
    /// An entry without a past.
    pub fn new(at: At) -> Self {
        Self { at, deliveries: 0, failures: 0, trial: None, note: None }
    }
}

/// A delayed id, after its due time.
pub type Waiting<'a> = (Millis, &'a String, &'a Entry);

/// An id has one entry, so it is in one place by construction; the others follow from the entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries {
    by_id: BTreeMap<String, Entry>,
    delayed: BTreeMap<Arc<str>, BTreeSet<(Millis, String)>>,
    /// The number of delayed ids by the hour in which they come due. Simulations of months ask at each step how many are due.
    by_hour: BTreeMap<Millis, u64>,
    leased: BTreeSet<(Millis, String)>,
}

impl Hash for Entries {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.by_id.hash(state);
    }
}

impl Entries {
    pub fn get(&self, id: &str) -> Option<&Entry> {
        self.by_id.get(id)
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.by_id.iter()
    }

    /// Puts an entry in place of what was known of that id.
    pub fn put(&mut self, id: &str, entry: Entry) {
        self.remove(id);
        match &entry.at {
            At::Delayed { lane, due } => {
                self.delayed.entry(lane.clone()).or_default().insert((*due, id.to_owned()));
                *self.by_hour.entry(hour(*due)).or_default() += 1;
            }
            At::Leased { fence, .. } => {
                self.leased.insert((*fence, id.to_owned()));
            }
            At::Dead { .. } => {}
        }
        self.by_id.insert(id.to_owned(), entry);
    }

    pub fn change(&mut self, id: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(mut entry) = self.by_id.get(id).cloned() {
            change(&mut entry);
            self.put(id, entry);
        }
    }

    pub fn remove(&mut self, id: &str) {
        match self.by_id.remove_entry(id) {
            Some((id, Entry { at: At::Delayed { lane, due }, .. })) => {
                if let Some(of_lane) = self.delayed.get_mut(&lane) {
                    of_lane.remove(&(due, id));
                    if of_lane.is_empty() {
                        self.delayed.remove(&lane);
                    }
                }
                if let Some(ids) = self.by_hour.get_mut(&hour(due)) {
                    *ids -= 1;
                    if *ids == 0 {
                        self.by_hour.remove(&hour(due));
                    }
                }
            }
            Some((id, Entry { at: At::Leased { fence, .. }, .. })) => {
                self.leased.remove(&(fence, id));
            }
            _ => {}
        }
    }

    /// Delayed ids of a lane that are due in that range, by due time and id.
    pub fn delayed<'a>(
        &'a self,
        lane: &str,
        due: Range<Millis>,
    ) -> impl DoubleEndedIterator<Item = Waiting<'a>> + use<'a> {
        // Most of the time nothing of a lane is due.
        let has_any = |of_lane: &&BTreeSet<(Millis, String)>| of_lane.first().is_some_and(|first| first.0 < due.end);
        let of_lane = self.delayed.get(lane).filter(has_any);
        let dues = (due.start, String::new())..(due.end.max(due.start), String::new());
        let of_lane = of_lane.into_iter().flat_map(move |of_lane| of_lane.range(dues.clone()));
        of_lane.filter_map(|(due, id)| Some((*due, id, self.by_id.get(id)?)))
    }

    /// Due times of a lane's delayed ids, in order.
    pub fn dues(&self, lane: &str) -> impl Iterator<Item = Millis> + use<'_> {
        self.delayed.get(lane).into_iter().flatten().map(|(due, _)| *due)
    }

    /// The number of ids that are due.
    pub fn due(&self, now: Millis) -> u64 {
        let this_hour = (hour(now) * HOUR_MS, String::new())..(now + 1, String::new());
        let of_lane = |of_lane: &BTreeSet<(Millis, String)>| of_lane.range(this_hour.clone()).count() as u64;
        self.by_hour.range(..hour(now)).map(|(_, ids)| ids).chain(&[self.delayed.values().map(of_lane).sum()]).sum()
    }

    /// Leased ids, by fence and id.
    pub fn leased(&self) -> impl Iterator<Item = (Millis, &String, &Entry)> {
        self.leased.iter().filter_map(|(fence, id)| Some((*fence, id, self.by_id.get(id)?)))
    }
}
