//! The dead, for a person: lists them with their reasons, retries them or drops them.
//!
//! The store comes first, then the queue, and finished work is left as it is. A command that was cut off, or whose reply was lost, can be
//! given again. The store knows its dead even after the queue was wiped. The queue may know one that the store does not (a half-done
//! retry, a restored database), so both are asked.

mod text;

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;

use crate::base::clock::{self, Millis};
use crate::engine::queue::{NewJob, Place, Queue, RowRange, Scheduled};
use crate::ingest::{Lanes, StarterError};
use crate::model::post::ItemState;
use crate::store::{Change, Exhumed, Listing, Standing, Store, StoredTweet, Way};

const PAGE: u32 = 500;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadTweet {
    pub id: String,
    /// Time at which it became dead, ms since the epoch; only the queue knows it.
    pub buried_at: Option<Millis>,
    pub reason: String,
    /// True if it is dead in the queue; false after a wipe of the queue.
    pub in_queue: bool,
    pub in_store: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DeadList {
    /// Dead items of the store, greatest id first; then those that only the queue knows.
    pub dead: Vec<DeadTweet>,
    pub in_store: u64,
    pub in_queue: u64,
    pub more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    /// In the store, greatest id first.
    Store {
        /// Ids less than this one follow; `None`: from the top.
        below: Option<String>,
    },
    /// Among those that only the queue knows, oldest burial first.
    Queue {
        /// Number of the queue's dead to skip.
        from: u64,
    },
}

impl Default for Cursor {
    fn default() -> Self {
        Self::Store { below: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadPage {
    pub dead: Vec<DeadTweet>,
    /// The start of the next page; `None` after the last.
    pub next: Option<Cursor>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Retry,
    /// Ends their tracking.
    Drop,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    Done,
    Already,
    /// It is not dead; one clause names its state.
    Refused(String),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub done: u64,
    pub already: u64,
    pub refused: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Whereabouts {
    pub places: Vec<Place>,
    pub stored: Option<StoredTweet>,
    pub changes: Vec<Change>,
    /// The ways by which it arrived, the first one first.
    pub ways: Vec<FirstArrival>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FirstArrival {
    /// First arrival by this way, ms since the epoch.
    pub first_at: Millis,
    #[serde(flatten)]
    pub way: Way,
}

#[derive(Debug, Clone)]
pub struct Dead {
    pub queue: Arc<dyn Queue>,
    pub store: Arc<dyn Store>,
    pub lanes: Lanes,
}

impl Dead {
    pub async fn list(&self, limit: usize) -> Result<DeadList, StarterError> {
        let mut list = DeadList {
            dead: Vec::new(),
            in_store: self.store.dead(self.queue.namespace()).await?,
            in_queue: self.queue.brief().await?.dead,
            more: false,
        };
        let mut next = Some(Cursor::default());
        while let Some(from) = next.filter(|_| list.dead.len() <= limit) {
            let page = self.page(&from, PAGE).await?;
            list.dead.extend(page.dead);
            next = page.next;
        }
        list.more = list.dead.len() > limit;
        list.dead.truncate(limit);
        Ok(list)
    }

    /// Lists up to `limit` of the dead: from the store while it has any, then those that only the queue knows. A page may be empty
    /// without being the last.
    pub async fn page(&self, from: &Cursor, limit: u32) -> Result<DeadPage, StarterError> {
        match from {
            Cursor::Store { below } => self.page_of_store(below.as_deref(), limit).await,
            Cursor::Queue { from } => self.page_of_queue(*from, limit).await,
        }
    }

    async fn page_of_store(&self, below: Option<&str>, limit: u32) -> Result<DeadPage, StarterError> {
        let page = self.store.page(self.queue.namespace(), Listing::Dead, below, limit).await?;
        let ids: Vec<String> = page.iter().map(|row| row.id.clone()).collect();
        let next = match ids.last() {
            Some(last) if ids.len() == limit as usize => Cursor::Store { below: Some(last.clone()) },
            _ => Cursor::Queue { from: 0 },
        };
        let mut dead = Vec::with_capacity(ids.len());
        if !ids.is_empty() {
            for (row, places) in page.into_iter().zip(self.queue.locate(&ids).await?) {
                let buried = buried(&places);
                let reason = row.reason.unwrap_or_default();
                let buried_at = buried.map(|(at, _)| at);
                dead.push(DeadTweet { id: row.id, buried_at, reason, in_queue: buried.is_some(), in_store: true });
            }
        }
        Ok(DeadPage { dead, next: Some(next) })
    }

    async fn page_of_queue(&self, from: u64, limit: u32) -> Result<DeadPage, StarterError> {
        let rows = RowRange::new(from, limit);
        let page = self.queue.dead(rows).await?;
        let next = rows.next_after(page.len()).map(|from| Cursor::Queue { from });
        let ids: Vec<String> = page.iter().map(|buried| buried.id.clone()).collect();
        let mut dead = Vec::new();
        if !ids.is_empty() {
            let standings = self.store.standing(self.queue.namespace(), &ids).await?;
            for (buried, _) in page.into_iter().zip(standings).filter(|(_, standing)| !is_dead(standing.as_ref())) {
                let (buried_at, reason) = (Some(buried.at), buried.reason);
                dead.push(DeadTweet { id: buried.id, buried_at, reason, in_queue: true, in_store: false });
            }
        }
        Ok(DeadPage { dead, next })
    }

    /// Returns the full state of an id, dead or not; `None` if it is unknown.
    pub async fn show(&self, id: &str) -> Result<Option<Whereabouts>, StarterError> {
        let places = self.queue.locate(&[id.to_owned()]).await?.pop().unwrap_or_default();
        let stored = self.store.tweet(self.queue.namespace(), id).await?;
        if places.is_empty() && stored.is_none() {
            return Ok(None);
        }
        let namespace = self.queue.namespace();
        let changes = self.store.changes(namespace, id).await?;
        let ways = self.store.ways(namespace, id).await?.into_iter();
        let ways = ways.map(|(first_at, way)| FirstArrival { first_at, way }).collect();
        Ok(Some(Whereabouts { places, stored, changes, ways }))
    }

    /// Applies the action to these ids and reports each refusal.
    ///
    /// # Errors
    /// A service is out; the same call may be made again.
    pub async fn act(
        &self,
        act: Act,
        ids: &[String],
        mut on_refused: impl FnMut(&str, &str),
    ) -> Result<Tally, StarterError> {
        let mut tally = Tally::default();
        for ids in ids.chunks(PAGE as usize) {
            tally.count(ids, &self.act_on(act, ids).await?, &mut on_refused);
        }
        Ok(tally)
    }

    /// Applies the action to all dead items, or to those whose reason holds these words (case is ignored). Reports each refusal.
    ///
    /// # Errors
    /// A service is out; the same call may be made again.
    pub async fn act_on_all(
        &self,
        act: Act,
        words: Option<&str>,
        mut on_refused: impl FnMut(&str, &str),
    ) -> Result<Tally, StarterError> {
        let is_meant = holding(words);
        let namespace = self.queue.namespace();
        let mut tally = Tally::default();
        let mut below: Option<String> = None;
        loop {
            let page = self.store.page(namespace, Listing::Dead, below.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { break };
            below = Some(last.id.clone());
            let meant = page.into_iter().filter(|row| is_meant(row.reason.as_deref().unwrap_or_default()));
            let ids: Vec<String> = meant.map(|row| row.id).collect();
            tally.count(&ids, &self.act_on(act, &ids).await?, &mut on_refused);
        }
        // Items that only the queue knows. Each finished one leaves this list. Later burials wait for the next command, or this one might
        // never end.
        let began = self.queue.brief().await?.now_ms;
        let mut from = 0;
        loop {
            let page = self.queue.dead(RowRange::new(from, PAGE)).await?;
            let buried: Vec<_> = page.into_iter().take_while(|buried| buried.at <= began).collect();
            if buried.is_empty() {
                return Ok(tally);
            }
            let looked_at = buried.len();
            let meant = buried.into_iter().filter(|buried| is_meant(&buried.reason));
            let ids: Vec<String> = meant.map(|buried| buried.id).collect();
            let done = self.act_on(act, &ids).await?;
            // Refused items stay in the list: skip them.
            from += done.iter().filter(|done| matches!(done, Done::Refused(_))).count() as u64;
            from += (looked_at - ids.len()) as u64;
            tally.count(&ids, &done, &mut on_refused);
        }
    }

    async fn act_on(&self, act: Act, ids: &[String]) -> Result<Vec<Done>, StarterError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let standings = self.store.standing(self.queue.namespace(), ids).await?;
        let places = self.queue.locate(ids).await?;
        let known: Vec<LocatedItem<'_>> = (ids.iter().zip(standings).zip(places))
            .map(|((id, standing), places)| LocatedItem { id, standing, places })
            .collect();
        let mut answers: Vec<Done> = known.iter().map(|known| self.judge(act, known)).collect();
        let todo: Vec<&LocatedItem<'_>> =
            known.iter().zip(&answers).filter(|(_, done)| **done == Done::Done).map(|(known, _)| known).collect();
        match act {
            Act::Retry => {
                // A worker that holds one may be about to bury it.
                let leased = self.retry(&todo).await?;
                for (_, done) in known.iter().zip(&mut answers).filter(|(known, _)| leased.contains(known.id)) {
                    *done = Done::Refused("a worker has it right now: try again in a minute".to_owned());
                }
            }
            Act::Drop => self.drop(&todo).await?,
        }
        Ok(answers)
    }

    fn judge(&self, act: Act, known: &LocatedItem<'_>) -> Done {
        let state = known.standing.as_ref().map(|standing| standing.state);
        let in_queue = buried(&known.places).is_some();
        match (act, state) {
            (_, None) if known.places.is_empty() => Done::Refused(match (self.lanes.id_date)(known.id) {
                Ok(_) => "neither the queue nor the store knows it".to_owned(),
                Err(why) => why,
            }),
            (Act::Retry, Some(ItemState::Ended)) => {
                Done::Refused("its life has ended; enqueue it to give it a new one".to_owned())
            }
            (_, Some(ItemState::Dead)) => Done::Done,
            (_, _) if in_queue => Done::Done,
            (Act::Drop, Some(ItemState::Ended)) => {
                // Dropped already, but perhaps still in the queue.
                if known.places.is_empty() { Done::Already } else { Done::Done }
            }
            (Act::Drop, Some(state)) => Done::Refused(format!("it is not dead but {state}")),
            (Act::Drop, None) => Done::Refused("it is not dead".to_owned()),
            (Act::Retry, _) => {
                // Retried already, and perhaps not in the queue any more.
                if known.places.is_empty() { Done::Done } else { Done::Already }
            }
        }
    }

    async fn retry(&self, todo: &[&LocatedItem<'_>]) -> Result<HashSet<String>, StarterError> {
        if todo.is_empty() {
            return Ok(HashSet::new());
        }
        let now = clock::wall_ms();
        let rows: Vec<Exhumed> = todo.iter().map(|known| self.exhumed(known, Some(now))).collect();
        self.store.exhume(self.queue.namespace(), now, &rows).await?;
        let answers = self.queue.exhume(&self.jobs(todo, now)).await?;
        let leased = todo.iter().zip(answers).filter(|(_, answer)| *answer == Scheduled::Leased);
        Ok(leased.map(|(known, _)| known.id.clone()).collect())
    }

    async fn drop(&self, todo: &[&LocatedItem<'_>]) -> Result<(), StarterError> {
        if todo.is_empty() {
            return Ok(());
        }
        let (namespace, now) = (self.queue.namespace(), clock::wall_ms());
        // Dead in the queue alone. The store ends only its own dead, so it buries them first.
        let strange = |known: &&&LocatedItem<'_>| {
            !known.standing.as_ref().is_some_and(|of| matches!(of.state, ItemState::Dead | ItemState::Ended))
        };
        let reason =
            |known: &&LocatedItem<'_>| (known.id.clone(), buried(&known.places).map_or("", |(_, why)| why).to_owned());
        let buried: Vec<(String, String)> = todo.iter().filter(strange).map(reason).collect();
        self.store.bury(namespace, now, &buried).await?;
        let rows: Vec<Exhumed> = todo.iter().map(|known| self.exhumed(known, None)).collect();
        self.store.exhume(namespace, now, &rows).await?;
        let ids: Vec<String> = todo.iter().map(|known| known.id.clone()).collect();
        self.queue.forget(&ids).await?;
        // A starter may have scheduled one again in between. The queue then reported that it has it, so it is queued again.
        let standings = self.store.standing(namespace, &ids).await?;
        let lives = |known: &Option<Standing>| {
            known.as_ref().is_some_and(|known| matches!(known.state, ItemState::Live | ItemState::Unavailable))
        };
        let again: Vec<&LocatedItem<'_>> =
            todo.iter().zip(&standings).filter(|(_, known)| lives(known)).map(|(known, _)| *known).collect();
        if !again.is_empty() {
            self.queue.exhume(&self.jobs(&again, now)).await?;
        }
        Ok(())
    }

    fn exhumed(&self, known: &LocatedItem<'_>, next_due: Option<Millis>) -> Exhumed {
        Exhumed { id: known.id.clone(), created_at: self.lanes.created_at(known.id, known.created_at()), next_due }
    }

    /// Jobs that are due now, each in the lane of its age.
    fn jobs(&self, known: &[&LocatedItem<'_>], now: Millis) -> Vec<NewJob> {
        let job = |known: &&LocatedItem<'_>| {
            let once = known.standing.as_ref().is_some_and(|known| known.once);
            let lane = self.lanes.of(known.id, ItemState::Live, known.created_at(), once, now);
            NewJob { id: known.id.clone(), lane, due: 0.into() }
        };
        known.iter().map(job).collect()
    }
}

struct LocatedItem<'a> {
    id: &'a String,
    standing: Option<Standing>,
    places: Vec<Place>,
}

impl LocatedItem<'_> {
    fn created_at(&self) -> Option<Millis> {
        self.standing.as_ref().and_then(|standing| standing.created_at)
    }
}

impl Tally {
    fn count(&mut self, ids: &[String], done: &[Done], on_refused: &mut impl FnMut(&str, &str)) {
        for (id, done) in ids.iter().zip(done) {
            match done {
                Done::Done => self.done += 1,
                Done::Already => self.already += 1,
                Done::Refused(why) => {
                    self.refused += 1;
                    on_refused(id, why);
                }
            }
        }
    }
}

fn is_dead(standing: Option<&Standing>) -> bool {
    standing.is_some_and(|standing| standing.state == ItemState::Dead)
}

/// Returns a test for reasons that contain these words (case is ignored). Without words, every reason passes.
pub fn holding(words: Option<&str>) -> impl Fn(&str) -> bool + use<> {
    let words = words.map(str::to_lowercase);
    move |reason| words.as_ref().is_none_or(|words| reason.to_lowercase().contains(words))
}

/// Returns the time and reason of the death if the id is dead in the queue.
fn buried(places: &[Place]) -> Option<(Millis, &str)> {
    places.iter().find_map(|place| match place {
        Place::Dead { at, reason } => Some((*at, reason.as_str())),
        _ => None,
    })
}
