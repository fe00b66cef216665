//! The dead, for a person: who they are and why, back to life, or to the end of it.
//!
//! The store comes first, then the queue, and what is done already is left as it is: a command that was
//! cut off, or whose reply was lost, is given again. The store knows its dead also when the queue was
//! wiped; the queue may know one that the store does not (a half-done retry, a restored database), so both
//! are asked.

mod text;

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;

use crate::base::clock::{self, Millis};
use crate::engine::queue::{NewJob, Place, Queue, RowRange, Scheduled};
use crate::ingest::{Lanes, StarterError};
use crate::model::post::TweetState;
use crate::store::{Change, Exhumed, Listing, Standing, Store, StoredTweet, Way};

/// Ids in one call to the services.
const PAGE: u32 = 500;

/// A dead tweet on the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadTweet {
    /// Its id.
    pub id: String,
    /// When it was buried, ms since the epoch; the queue alone knows.
    pub buried_at: Option<Millis>,
    /// Why.
    pub reason: String,
    /// True if it is dead in the queue; false after a wipe of the queue.
    pub in_queue: bool,
    /// True if it is dead in the store.
    pub in_store: bool,
}

/// The list of the dead, or its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DeadList {
    /// Dead items of the store, greatest id first; then those that only the queue knows.
    pub dead: Vec<DeadTweet>,
    /// The total in the store.
    pub in_store: u64,
    /// The total in the queue.
    pub in_queue: u64,
    /// There are more than are listed.
    pub more: bool,
}

/// The start of a page of dead items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    /// In the store, greatest id first.
    Store {
        /// With the ids less than this one; `None`: from the top.
        below: Option<String>,
    },
    /// Among those that only the queue knows, buried first first.
    Queue {
        /// After this many of the queue's dead.
        from: u64,
    },
}

impl Default for Cursor {
    fn default() -> Self {
        Self::Store { below: None }
    }
}

/// Some of the dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadPage {
    /// They.
    pub dead: Vec<DeadTweet>,
    /// The start of the next page; `None` after the last.
    pub next: Option<Cursor>,
}

/// An action on dead items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// They live again, due now.
    Retry,
    /// Their life ends.
    Drop,
}

/// The outcome for an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// As asked.
    Done,
    /// Nothing to do: it was already so.
    Already,
    /// It is not dead; one clause names its state.
    Refused(String),
}

/// The outcomes for the ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// As asked.
    pub done: u64,
    /// Nothing to do: it was already so.
    pub already: u64,
    /// Not dead.
    pub refused: u64,
}

/// The places of an id in queue and store.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Whereabouts {
    /// Its place in the queue.
    pub places: Vec<Place>,
    /// Its row in the store.
    pub stored: Option<StoredTweet>,
    /// Its own changes, oldest first.
    pub changes: Vec<Change>,
    /// The ways by which it came, the first one first.
    pub ways: Vec<Came>,
}

/// A way by which a tweet arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Came {
    /// When for the first time, ms since the epoch.
    pub first_at: Millis,
    /// By which way.
    #[serde(flatten)]
    pub way: Way,
}

/// Looks after the dead of one namespace.
#[derive(Debug, Clone)]
pub struct Dead {
    /// The queue.
    pub queue: Arc<dyn Queue>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// Decides the lanes of retried items.
    pub lanes: Lanes,
}

impl Dead {
    /// The first `limit` of the dead.
    ///
    /// # Errors
    /// A service is out.
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

    /// Some of the dead, up to `limit`: from the store while it has any, then those that only the queue knows. A
    /// page may be empty and not the last.
    ///
    /// # Errors
    /// A service is out.
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

    /// The full state of an id, dead or not; `None` if it is unknown.
    ///
    /// # Errors
    /// A service is out.
    pub async fn show(&self, id: &str) -> Result<Option<Whereabouts>, StarterError> {
        let places = self.queue.locate(&[id.to_owned()]).await?.pop().unwrap_or_default();
        let stored = self.store.tweet(self.queue.namespace(), id).await?;
        if places.is_empty() && stored.is_none() {
            return Ok(None);
        }
        let namespace = self.queue.namespace();
        let changes = self.store.changes(namespace, id).await?;
        let ways = self.store.ways(namespace, id).await?.into_iter();
        let ways = ways.map(|(first_at, way)| Came { first_at, way }).collect();
        Ok(Some(Whereabouts { places, stored, changes, ways }))
    }

    /// Does it to these ids; tells each refusal.
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

    /// Does it to all who are dead now, or to those whose reason holds these words, in capitals or not; tells each refusal.
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
        // Those that only the queue knows. Who is done with leaves this list; who was buried since then waits
        // for the next command, or this one might never end.
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
            // Those that stay.
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
        let known: Vec<Known<'_>> = (ids.iter().zip(standings).zip(places))
            .map(|((id, standing), places)| Known { id, standing, places })
            .collect();
        let mut answers: Vec<Done> = known.iter().map(|known| self.judge(act, known)).collect();
        let todo: Vec<&Known<'_>> =
            known.iter().zip(&answers).filter(|(_, done)| **done == Done::Done).map(|(known, _)| known).collect();
        match act {
            Act::Retry => {
                // One that a worker has, it is perhaps about to bury.
                let leased = self.retry(&todo).await?;
                for (_, done) in known.iter().zip(&mut answers).filter(|(known, _)| leased.contains(known.id)) {
                    *done = Done::Refused("a worker has it right now: try again in a minute".to_owned());
                }
            }
            Act::Drop => self.drop(&todo).await?,
        }
        Ok(answers)
    }

    /// The action for an id.
    fn judge(&self, act: Act, known: &Known<'_>) -> Done {
        let state = known.standing.as_ref().map(|standing| standing.state);
        let in_queue = buried(&known.places).is_some();
        match (act, state) {
            (_, None) if known.places.is_empty() => Done::Refused(match (self.lanes.id_date)(known.id) {
                Ok(_) => "neither the queue nor the store knows it".to_owned(),
                Err(why) => why,
            }),
            (Act::Retry, Some(TweetState::Ended)) => {
                Done::Refused("its life has ended; enqueue it to give it a new one".to_owned())
            }
            (_, Some(TweetState::Dead)) => Done::Done,
            (_, _) if in_queue => Done::Done,
            (Act::Drop, Some(TweetState::Ended)) => {
                // Dropped already, and perhaps not out of the queue yet.
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

    /// Answers those that a worker has right now.
    async fn retry(&self, todo: &[&Known<'_>]) -> Result<HashSet<String>, StarterError> {
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

    async fn drop(&self, todo: &[&Known<'_>]) -> Result<(), StarterError> {
        if todo.is_empty() {
            return Ok(());
        }
        let (namespace, now) = (self.queue.namespace(), clock::wall_ms());
        // Dead in the queue alone: the store ends none but its dead.
        let strange = |known: &&&Known<'_>| {
            !known.standing.as_ref().is_some_and(|of| matches!(of.state, TweetState::Dead | TweetState::Ended))
        };
        let reason =
            |known: &&Known<'_>| (known.id.clone(), buried(&known.places).map_or("", |(_, why)| why).to_owned());
        let buried: Vec<(String, String)> = todo.iter().filter(strange).map(reason).collect();
        self.store.bury(namespace, now, &buried).await?;
        let rows: Vec<Exhumed> = todo.iter().map(|known| self.exhumed(known, None)).collect();
        self.store.exhume(namespace, now, &rows).await?;
        let ids: Vec<String> = todo.iter().map(|known| known.id.clone()).collect();
        self.queue.forget(&ids).await?;
        // A starter that gave one a new life in between was told that the queue has it.
        let standings = self.store.standing(namespace, &ids).await?;
        let lives = |known: &Option<Standing>| {
            known.as_ref().is_some_and(|known| matches!(known.state, TweetState::Live | TweetState::Unavailable))
        };
        let again: Vec<&Known<'_>> =
            todo.iter().zip(&standings).filter(|(_, known)| lives(known)).map(|(known, _)| *known).collect();
        if !again.is_empty() {
            self.queue.exhume(&self.jobs(&again, now)).await?;
        }
        Ok(())
    }

    fn exhumed(&self, known: &Known<'_>, next_due: Option<Millis>) -> Exhumed {
        Exhumed { id: known.id.clone(), created_at: self.lanes.created_at(known.id, known.created_at()), next_due }
    }

    /// Due now, each in the lane of its age.
    fn jobs(&self, known: &[&Known<'_>], now: Millis) -> Vec<NewJob> {
        let job = |known: &&Known<'_>| {
            let once = known.standing.as_ref().is_some_and(|known| known.once);
            let lane = self.lanes.of(known.id, TweetState::Live, known.created_at(), once, now);
            NewJob { id: known.id.clone(), lane, due: 0.into() }
        };
        known.iter().map(job).collect()
    }
}

/// An id, and what the services say of it.
struct Known<'a> {
    id: &'a String,
    standing: Option<Standing>,
    places: Vec<Place>,
}

impl Known<'_> {
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
    standing.is_some_and(|standing| standing.state == TweetState::Dead)
}

/// Tells whether a reason contains these words, in capitals or not. Without words, every reason does.
pub fn holding(words: Option<&str>) -> impl Fn(&str) -> bool + use<> {
    let words = words.map(str::to_lowercase);
    move |reason| words.as_ref().is_none_or(|words| reason.to_lowercase().contains(words))
}

/// When and why it was buried, where one of the places is the grave.
fn buried(places: &[Place]) -> Option<(Millis, &str)> {
    places.iter().find_map(|place| match place {
        Place::Dead { at, reason } => Some((*at, reason.as_str())),
        _ => None,
    })
}
