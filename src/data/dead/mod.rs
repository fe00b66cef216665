//! Dead items, for a person: lists them with their reasons, retries or drops them.
//!
//! Each command changes the store first, then the queue, so an interrupted command can be repeated. The store keeps its dead after the
//! queue was wiped. The queue may have dead items that the store lacks (a half-done retry, a restored database), so both are read.

mod text;

pub use self::text::describe_change;

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;

use collect::ingest::{LaneChooser, StarterError};
use engine::base::clock::{self, Millis};
use engine::queue::{NewJob, Place, Queue, RowRange, ScheduleOutcome};
use networks::model::post::ItemState;
use store::{Change, DeadResolution, Listing, Standing, Store, StoredTweet, Way};

const PAGE: u32 = 500;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadItem {
    pub id: String,
    /// Time at which it became dead, ms since the epoch. Only the queue has it.
    pub buried_at: Option<Millis>,
    pub reason: String,
    /// True if it is dead in the queue; false after a wipe of the queue.
    pub in_queue: bool,
    pub in_store: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DeadList {
    /// Dead items of the store, greatest id first; then those that only the queue has.
    pub dead: Vec<DeadItem>,
    pub in_store: u64,
    pub in_queue: u64,
    pub more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    Store {
        /// Ids less than this one follow; `None`: from the top.
        below: Option<String>,
    },
    /// Dead items that only the queue has, longest dead first.
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
    pub dead: Vec<DeadItem>,
    /// Start of the next page; `None` after the last.
    pub next: Option<Cursor>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadAction {
    Retry,
    /// Ends their tracking.
    Drop,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionOutcome {
    Done,
    Already,
    /// Refused, with the reason as one clause.
    Refused(String),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ActionCounts {
    pub done: u64,
    pub already: u64,
    pub refused: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ItemReport {
    pub places: Vec<Place>,
    pub stored: Option<StoredTweet>,
    pub changes: Vec<Change>,
    /// Ways by which it arrived, first arrival first.
    pub ways: Vec<FirstArrival>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FirstArrival {
    /// Ms since the epoch.
    pub first_at: Millis,
    #[serde(flatten)]
    pub way: Way,
}

#[derive(Debug, Clone)]
pub struct DeadItems {
    pub queue: Arc<dyn Queue>,
    pub store: Arc<dyn Store>,
    pub lanes: LaneChooser,
}

impl DeadItems {
    pub async fn list(&self, limit: usize) -> Result<DeadList, StarterError> {
        let mut list = DeadList {
            dead: Vec::new(),
            in_store: self.store.dead(self.queue.namespace()).await?,
            in_queue: self.queue.brief_stats().await?.dead,
            more: false,
        };
        let mut next = Some(Cursor::default());
        while let Some(from) = next.filter(|_| list.dead.len() <= limit) {
            let page = self.read_page(&from, PAGE).await?;
            list.dead.extend(page.dead);
            next = page.next;
        }
        list.more = list.dead.len() > limit;
        list.dead.truncate(limit);
        Ok(list)
    }

    /// Reads up to `limit` dead items: from the store while it has any, then those that only the queue has. A page may be empty without
    /// being the last.
    pub async fn read_page(&self, from: &Cursor, limit: u32) -> Result<DeadPage, StarterError> {
        match from {
            Cursor::Store { below } => self.read_store_page(below.as_deref(), limit).await,
            Cursor::Queue { from } => self.read_queue_page(*from, limit).await,
        }
    }

    async fn read_store_page(&self, below: Option<&str>, limit: u32) -> Result<DeadPage, StarterError> {
        let page = self.store.page(self.queue.namespace(), Listing::Dead, below, limit).await?;
        let ids: Vec<String> = page.iter().map(|row| row.id.clone()).collect();
        let next = match ids.last() {
            Some(last) if ids.len() == limit as usize => Cursor::Store { below: Some(last.clone()) },
            _ => Cursor::Queue { from: 0 },
        };
        let mut dead = Vec::with_capacity(ids.len());
        if !ids.is_empty() {
            for (row, places) in page.into_iter().zip(self.queue.locate(&ids).await?) {
                let buried = find_death(&places);
                let reason = row.reason.unwrap_or_default();
                let buried_at = buried.map(|(at, _)| at);
                dead.push(DeadItem { id: row.id, buried_at, reason, in_queue: buried.is_some(), in_store: true });
            }
        }
        Ok(DeadPage { dead, next: Some(next) })
    }

    async fn read_queue_page(&self, from: u64, limit: u32) -> Result<DeadPage, StarterError> {
        let rows = RowRange::new(from, limit);
        let page = self.queue.list_dead(rows).await?;
        let next = rows.next_after(page.len()).map(|from| Cursor::Queue { from });
        let ids: Vec<String> = page.iter().map(|buried| buried.id.clone()).collect();
        let mut dead = Vec::new();
        if !ids.is_empty() {
            let standings = self.store.standing(self.queue.namespace(), &ids).await?;
            for (buried, _) in page.into_iter().zip(standings).filter(|(_, standing)| !is_dead(standing.as_ref())) {
                let (buried_at, reason) = (Some(buried.at), buried.reason);
                dead.push(DeadItem { id: buried.id, buried_at, reason, in_queue: true, in_store: false });
            }
        }
        Ok(DeadPage { dead, next })
    }

    /// Returns the full state of an item, dead or not; `None` if it is unknown.
    pub async fn find(&self, id: &str) -> Result<Option<ItemReport>, StarterError> {
        let places = self.queue.locate(&[id.to_owned()]).await?.pop().unwrap_or_default();
        let stored = self.store.tweet(self.queue.namespace(), id).await?;
        if places.is_empty() && stored.is_none() {
            return Ok(None);
        }
        let namespace = self.queue.namespace();
        let changes = self.store.changes(namespace, id).await?;
        let ways = self.store.ways(namespace, id).await?.into_iter();
        let ways = ways.map(|(first_at, way)| FirstArrival { first_at, way }).collect();
        Ok(Some(ItemReport { places, stored, changes, ways }))
    }

    /// Applies the action to these ids and reports each refusal. After an error of a service, the call can be repeated.
    pub async fn act(
        &self,
        act: DeadAction,
        ids: &[String],
        mut on_refused: impl FnMut(&str, &str),
    ) -> Result<ActionCounts, StarterError> {
        let mut tally = ActionCounts::default();
        for ids in ids.chunks(PAGE as usize) {
            tally.count(ids, &self.act_on(act, ids).await?, &mut on_refused);
        }
        Ok(tally)
    }

    /// Applies the action to all dead items, or to those whose reason contains these words (case is ignored). Otherwise as
    /// [`DeadItems::act`].
    pub async fn act_on_all(
        &self,
        act: DeadAction,
        words: Option<&str>,
        mut on_refused: impl FnMut(&str, &str),
    ) -> Result<ActionCounts, StarterError> {
        let is_meant = reason_filter(words);
        let namespace = self.queue.namespace();
        let mut tally = ActionCounts::default();
        let mut below: Option<String> = None;
        loop {
            let page = self.store.page(namespace, Listing::Dead, below.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { break };
            below = Some(last.id.clone());
            let meant = page.into_iter().filter(|row| is_meant(row.reason.as_deref().unwrap_or_default()));
            let ids: Vec<String> = meant.map(|row| row.id).collect();
            tally.count(&ids, &self.act_on(act, &ids).await?, &mut on_refused);
        }
        // Items that only the queue has. Each finished one leaves this list. Items that die later wait for the next command, or this one
        // might never end.
        let began = self.queue.brief_stats().await?.now_ms;
        let mut from = 0;
        loop {
            let page = self.queue.list_dead(RowRange::new(from, PAGE)).await?;
            let buried: Vec<_> = page.into_iter().take_while(|buried| buried.at <= began).collect();
            if buried.is_empty() {
                return Ok(tally);
            }
            let page_rows = buried.len();
            let meant = buried.into_iter().filter(|buried| is_meant(&buried.reason));
            let ids: Vec<String> = meant.map(|buried| buried.id).collect();
            let done = self.act_on(act, &ids).await?;
            // Refused items stay in the list: skip them.
            from += done.iter().filter(|done| matches!(done, ActionOutcome::Refused(_))).count() as u64;
            from += (page_rows - ids.len()) as u64;
            tally.count(&ids, &done, &mut on_refused);
        }
    }

    async fn act_on(&self, act: DeadAction, ids: &[String]) -> Result<Vec<ActionOutcome>, StarterError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let standings = self.store.standing(self.queue.namespace(), ids).await?;
        let places = self.queue.locate(ids).await?;
        let items: Vec<LocatedItem<'_>> = (ids.iter().zip(standings).zip(places))
            .map(|((id, standing), places)| LocatedItem { id, standing, places })
            .collect();
        let mut answers: Vec<ActionOutcome> = items.iter().map(|item| self.decide(act, item)).collect();
        let todo: Vec<&LocatedItem<'_>> = items
            .iter()
            .zip(&answers)
            .filter(|(_, done)| **done == ActionOutcome::Done)
            .map(|(item, _)| item)
            .collect();
        match act {
            DeadAction::Retry => {
                // A worker that has leased an item may be about to mark it dead.
                let leased = self.retry(&todo).await?;
                for (_, done) in items.iter().zip(&mut answers).filter(|(item, _)| leased.contains(item.id)) {
                    *done = ActionOutcome::Refused("a worker has leased it: try again in a minute".to_owned());
                }
            }
            DeadAction::Drop => self.drop(&todo).await?,
        }
        Ok(answers)
    }

    fn decide(&self, act: DeadAction, item: &LocatedItem<'_>) -> ActionOutcome {
        let state = item.standing.as_ref().map(|standing| standing.state);
        let in_queue = find_death(&item.places).is_some();
        match (act, state) {
            (_, None) if item.places.is_empty() => ActionOutcome::Refused(match (self.lanes.id_date)(item.id) {
                Ok(_) => "neither the queue nor the store has it".to_owned(),
                Err(why) => why.to_string(),
            }),
            (DeadAction::Retry, Some(ItemState::Ended)) => {
                ActionOutcome::Refused("its tracking has ended; enqueue it to track it again".to_owned())
            }
            (_, Some(ItemState::Dead)) => ActionOutcome::Done,
            (_, _) if in_queue => ActionOutcome::Done,
            (DeadAction::Drop, Some(ItemState::Ended)) => {
                // Dropped already, but perhaps still in the queue.
                if item.places.is_empty() { ActionOutcome::Already } else { ActionOutcome::Done }
            }
            (DeadAction::Drop, Some(state)) => ActionOutcome::Refused(format!("it is not dead but {state}")),
            (DeadAction::Drop, None) => ActionOutcome::Refused("it is not dead".to_owned()),
            (DeadAction::Retry, _) => {
                // Retried already, and perhaps not in the queue any more.
                if item.places.is_empty() { ActionOutcome::Done } else { ActionOutcome::Already }
            }
        }
    }

    async fn retry(&self, todo: &[&LocatedItem<'_>]) -> Result<HashSet<String>, StarterError> {
        if todo.is_empty() {
            return Ok(HashSet::new());
        }
        let now = clock::wall_ms();
        let rows: Vec<DeadResolution> = todo.iter().map(|item| self.resolution(item, Some(now))).collect();
        self.store.resolve_dead(self.queue.namespace(), now, &rows).await?;
        let answers = self.queue.revive(&self.due_jobs(todo, now)).await?;
        let leased = todo.iter().zip(answers).filter(|(_, answer)| *answer == ScheduleOutcome::Leased);
        Ok(leased.map(|(item, _)| item.id.clone()).collect())
    }

    async fn drop(&self, todo: &[&LocatedItem<'_>]) -> Result<(), StarterError> {
        if todo.is_empty() {
            return Ok(());
        }
        let (namespace, now) = (self.queue.namespace(), clock::wall_ms());
        // Dead in the queue alone. The store ends only its own dead, so it marks them dead first.
        let is_dead_in_queue_only = |item: &&&LocatedItem<'_>| {
            !item.standing.as_ref().is_some_and(|of| matches!(of.state, ItemState::Dead | ItemState::Ended))
        };
        let reason =
            |item: &&LocatedItem<'_>| (item.id.clone(), find_death(&item.places).map_or("", |(_, why)| why).to_owned());
        let buried: Vec<(String, String)> = todo.iter().filter(is_dead_in_queue_only).map(reason).collect();
        self.store.mark_dead(namespace, now, &buried).await?;
        let rows: Vec<DeadResolution> = todo.iter().map(|item| self.resolution(item, None)).collect();
        self.store.resolve_dead(namespace, now, &rows).await?;
        let ids: Vec<String> = todo.iter().map(|item| item.id.clone()).collect();
        self.queue.forget(&ids).await?;
        // A starter may have enqueued one meanwhile. The queue then answered that it has the item, so it must get it back.
        let standings = self.store.standing(namespace, &ids).await?;
        let is_tracked = |item: &Option<Standing>| {
            item.as_ref().is_some_and(|item| matches!(item.state, ItemState::Live | ItemState::Unavailable))
        };
        let restored: Vec<&LocatedItem<'_>> =
            todo.iter().zip(&standings).filter(|(_, item)| is_tracked(item)).map(|(item, _)| *item).collect();
        if !restored.is_empty() {
            self.queue.revive(&self.due_jobs(&restored, now)).await?;
        }
        Ok(())
    }

    fn resolution(&self, item: &LocatedItem<'_>, next_due: Option<Millis>) -> DeadResolution {
        DeadResolution { id: item.id.clone(), created_at: self.lanes.created_at(item.id, item.created_at()), next_due }
    }

    /// Jobs that are due now, each in the lane of its age.
    fn due_jobs(&self, items: &[&LocatedItem<'_>], now: Millis) -> Vec<NewJob> {
        let job = |item: &&LocatedItem<'_>| {
            let once = item.standing.as_ref().is_some_and(|item| item.once);
            let lane = self.lanes.lane(item.id, ItemState::Live, item.created_at(), once, now);
            NewJob { id: item.id.clone(), lane, due: 0.into() }
        };
        items.iter().map(job).collect()
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

impl ActionCounts {
    fn count(&mut self, ids: &[String], done: &[ActionOutcome], on_refused: &mut impl FnMut(&str, &str)) {
        for (id, done) in ids.iter().zip(done) {
            match done {
                ActionOutcome::Done => self.done += 1,
                ActionOutcome::Already => self.already += 1,
                ActionOutcome::Refused(why) => {
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

/// Returns a predicate that accepts reasons with these words (case is ignored). Without words, it accepts every reason.
pub fn reason_filter(words: Option<&str>) -> impl Fn(&str) -> bool + use<> {
    let words = words.map(str::to_lowercase);
    move |reason| words.as_ref().is_none_or(|words| reason.to_lowercase().contains(words))
}

/// Returns the time and reason of the death if the id is dead in the queue.
fn find_death(places: &[Place]) -> Option<(Millis, &str)> {
    places.iter().find_map(|place| match place {
        Place::Dead { at, reason } => Some((*at, reason.as_str())),
        _ => None,
    })
}
