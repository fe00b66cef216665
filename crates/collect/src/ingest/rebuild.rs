//! Restores the queue's lost ids from the store.
//!
//! The rebuild walks the store once: live and unavailable posts, then dead ones. Each page is in the order of ids, youngest posts first.
//! Steps per page:
//!
//! ```text
//!   1. adopt    ids that the queue does not have are leased to us
//!   2. standing their rows are read again
//!   3. settle   live and unavailable ids go to the lane of their age, at the store's due time; dead ids go to the
//!               queue's dead; the others leave the queue
//!   4. standing of the ids that left or were marked dead: ids that are no longer dead leave the queue's dead, and ids
//!               that are live again go through 1 to 4 again
//! ```
//!
//! **Why no id is doubled.** The queue adopts an id in one step, and only if it does not have the id; then the id is
//! leased. Of two rebuilds, or a starter and a rebuild, only one gets it.
//!
//! **Why no ended id is scheduled.** A worker writes that a post is ended or dead to the store before it removes the id
//! from the queue. So an id that left the queue that way is *ended* or *dead* in the store when we adopt it. Step 2 comes
//! after 1 and sees that, even if the page is old. While we hold the lease, no other process looks the post up.
//!
//! **Why no id is lost.** Between steps 2 and 3 a starter may revive an ended post, or a person a dead one. They too
//! change the store first; then the queue answers *leased*, and 3 removes the id. Step 4 repairs this: its read comes
//! after 3, and so after their write. A killed rebuild leaves leases, which expire. After a lost reply, the rebuild
//! repeats the call with its token, or settles again.
//!
//! **Why no retried id stays dead.** Step 3 marks only adopted ids dead that 2 finds dead, even if their page is old. A
//! person who retries or drops one between 2 and 3 changes the store before step 3, so 4 sees it. After 4, it is among
//! the queue's dead as usual.
//!
//! A rebuild that stops between 3 and 4 reports that it did not end, and is run again. For a page of the dead, ids
//! that the queue already has as dead go through 4, too.
//!
//! Two races remain. A worker whose lease was wiped with the queue, or has expired, may end its post in the store after
//! step 2. That post is looked up once more, and the response ends it again. The store accepts no response about the
//! dead, so the worker then marks such a post dead in the queue. If a rebuild is killed between 3 and 4, a post retried
//! between 2 and 3 stays among the queue's dead. The command of that retry reported that it must be repeated.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Serialize;

use super::{IdDate, StarterError};
use engine::base::clock::{self, Millis, Stopwatch};
use engine::base::humanize::{count_with_noun, group_digits};
use engine::base::random;
use engine::base::retry::RetryPolicy;
use engine::base::shutdown::Stop;
use engine::base::task;
use engine::queue::{Adoption, Due, Job, Lane, NewJob, Place, Queue, ScheduleOutcome, Verdict, check_id};
use engine::schedule::{ScheduledItem, Schedules};
use networks::model::post::ItemState;
use store::{ListedItem, Listing, Store};

/// Rows per page, adopted and settled in one step each: 1 to 3 ms of Redis's only thread.
pub(super) const PAGE: u32 = 500;
/// Tolerance for due times later than the store's, ms. No retry waits longer.
const DUE_TOLERANCE_MS: Millis = 2 * 3_600_000;
/// Overdue posts come due spread over this time, ms. At once, they would come due together ever after. In lanes of
/// longer intervals the quota spreads them.
const SPREAD_MS: Millis = 10 * 60_000;

#[derive(Clone)]
pub struct LaneChooser {
    pub schedule: Arc<dyn Schedules>,
    pub unavailable: Lane,
    pub id_date: IdDate,
}

impl LaneChooser {
    /// Returns the lane at `now`, ms since the epoch. `once` means a single lookup. A post past its last age, or
    /// without a date, gets the last lane; the updater ends it or keeps it alive.
    #[must_use]
    pub fn lane(&self, id: &str, state: ItemState, created_at: Option<Millis>, once: bool, now: Millis) -> Lane {
        if once {
            return Lane::once();
        }
        if state == ItemState::Unavailable {
            return self.unavailable.clone();
        }
        let schedule = self.schedule.current_schedule();
        let next = |created_at| schedule.next(&ScheduledItem::new(id, created_at), now);
        let lane = next(self.created_at(id, created_at)).or_else(|| next(None)).map(|(lane, _)| lane);
        lane.unwrap_or_else(|| self.unavailable.clone())
    }

    /// Returns the lane of a row at `now`. If the schedule considers more than age, this is the lane that the worker
    /// chose.
    fn lane_of_row(&self, row: &ListedItem, state: ItemState, now: Millis) -> Lane {
        let schedule = self.schedule.current_schedule();
        let chosen = match (state, row.next_due, row.checked_at) {
            (ItemState::Live, Some(due), Some(checked)) if !row.once => {
                schedule.lane_for_interval(due.saturating_sub(checked))
            }
            // Brought forward, and never looked up.
            (ItemState::Live, Some(due @ ..=0), None) if !row.once => schedule.lane_for_interval(due),
            // Never looked up: a schedule that chooses lanes has a separate one for first lookups.
            (ItemState::Live, Some(due), None)
                if !row.once && schedule.lane_for_interval(due.saturating_sub(now)).is_some() =>
            {
                let known = ScheduledItem::new(&row.id, self.created_at(&row.id, row.created_at));
                schedule.first(&known, now).map(|(lane, _)| lane)
            }
            _ => None,
        };
        chosen.unwrap_or_else(|| self.lane(&row.id, state, row.created_at, row.once, now))
    }

    fn is_past_last_age(&self, id: &str, created_at: Option<Millis>, now: Millis) -> bool {
        let created_at = self.created_at(id, created_at);
        self.schedule.current_schedule().next(&ScheduledItem::new(id, created_at), now).is_none()
    }

    /// Creation date, ms since the epoch: from the store, else from the id.
    #[must_use]
    pub fn created_at(&self, id: &str, stored: Option<Millis>) -> Option<Millis> {
        stored.or_else(|| (self.id_date)(id).ok().flatten())
    }
}

impl std::fmt::Debug for LaneChooser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes").field("schedule", &self.schedule).finish_non_exhaustive()
    }
}

/// Result counts of the rows. `known + leased + dead + put_back + buried + withdrawn + refused = rows`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RebuildCounts {
    pub rows: u64,
    pub known: u64,
    pub leased: u64,
    pub dead: u64,
    pub put_back: u64,
    /// Dead in the store, and newly marked dead in the queue.
    pub buried: u64,
    /// Ended, marked dead or dropped after their page was read: not put back.
    pub withdrawn: u64,
    pub refused: u64,
    pub complete: bool,
    /// Last id done if the walk is incomplete; ids descend.
    pub down_to: Option<String>,
    pub seconds: f64,
}

/// Adopted rows that a settle sent to no lane.
#[derive(Debug, Default)]
struct UnscheduledRows<'a> {
    removed: Vec<&'a ListedItem>,
    marked_dead: Vec<&'a ListedItem>,
}

/// A rebuild stopped early. It may be run again from its beginning: ids in the queue stay as they are.
#[derive(Debug, thiserror::Error)]
#[error(
    "the rebuild is done with {}{}, then it stopped; run it again",
    count_with_noun(*.rows, "row", "rows"),
    format_last_id(.last.as_deref())
)]
pub struct RebuildError {
    pub rows: u64,
    pub last: Option<String>,
    #[source]
    pub why: StarterError,
}

fn format_last_id(last: Option<&str>) -> String {
    last.map_or_else(String::new, |id| format!(", down to id {id}"))
}

#[derive(Debug, Clone)]
pub struct Rebuild {
    pub queue: Arc<dyn Queue>,
    pub store: Arc<dyn Store>,
    pub lanes: LaneChooser,
    /// Lease of a page, as long as all leases of the namespace.
    pub lease: Duration,
    /// Maximum rows per second, at least 1.
    pub rate: u32,
    pub retry: RetryPolicy,
}

impl Rebuild {
    /// Walks the store once, or until it is stopped; calls `progress` after each page.
    pub async fn run(&self, stop: &Stop, progress: impl Fn(&RebuildCounts)) -> Result<RebuildCounts, RebuildError> {
        let watch = Stopwatch::start();
        let limit = self.page_limit();
        let mut sum = RebuildCounts::default();
        let (mut of, mut last) = (Listing::Tracked, None::<String>);
        let untimed = match self.with_retries(stop, || self.untimed_lanes().boxed()).await {
            Ok(lanes) => lanes.unwrap_or_default(),
            Err(why) => return Err(RebuildError { rows: sum.rows, last, why }),
        };
        while !stop.is_draining() {
            task::step("compares store and queue");
            let page = self.with_retries(stop, || self.page(of, last.as_deref(), limit).boxed()).await;
            let page = match page {
                Ok(Some(page)) => page,
                Ok(None) => break,
                Err(why) => return Err(RebuildError { rows: sum.rows, last, why }),
            };
            // One token for all tries of a page: the queue repeats a reply that was lost.
            let token = format!("rebuild-{:016x}", random::number());
            match self.with_retries(stop, || self.put_back(&token, &page).boxed()).await {
                Ok(Some(done)) => sum.add(&done),
                Ok(None) => break,
                Err(why) => return Err(RebuildError { rows: sum.rows, last, why }),
            }
            if of == Listing::Tracked && !untimed.is_empty() {
                match self.with_retries(stop, || self.restore_due_times(&untimed, &page).boxed()).await {
                    Ok(Some(())) => {}
                    Ok(None) => break,
                    Err(why) => return Err(RebuildError { rows: sum.rows, last, why }),
                }
            }
            last = page.last().map(|row| row.id.clone()).or(last);
            progress(&sum);
            if page.len() < limit as usize {
                if of == Listing::Dead {
                    sum.complete = true;
                    break;
                }
                // After the tracked posts, whose lookups must not wait.
                (of, last) = (Listing::Dead, None);
            }
            self.keep_to_rate(sum.rows, &watch, stop).await;
        }
        sum.down_to = last.filter(|_| !sum.complete);
        sum.seconds = watch.elapsed().as_secs_f64();
        Ok(sum)
    }

    pub(super) fn page_limit(&self) -> u32 {
        PAGE.min(self.rate.max(1))
    }

    pub(super) async fn keep_to_rate(&self, rows: u64, watch: &Stopwatch, stop: &Stop) {
        let earliest = Duration::from_secs_f64(rows as f64 / f64::from(self.rate.max(1)));
        stop.sleep(earliest.saturating_sub(watch.elapsed())).await;
    }

    async fn page(&self, of: Listing, below: Option<&str>, limit: u32) -> Result<Vec<ListedItem>, StarterError> {
        Ok(self.store.page(self.queue.namespace(), of, below, limit).await?)
    }

    /// Returns the lanes without lateness that hold jobs which are not due.
    async fn untimed_lanes(&self) -> Result<Vec<String>, StarterError> {
        let lanes = self.queue.stats().await?.lanes.into_iter();
        Ok(lanes
            .filter(|lane| !lane.order.counts_lateness() && lane.delayed > lane.due)
            .map(|lane| lane.lane)
            .collect())
    }

    /// Restores the store's due times for rows that wait far too long in one of the lanes `untimed`. They were enqueued
    /// while the queue's clock was ahead. In other lanes `Administration::repair_due_times` corrects
    /// the due times.
    async fn restore_due_times(&self, untimed: &[String], rows: &[ListedItem]) -> Result<(), StarterError> {
        let rows: Vec<&ListedItem> =
            rows.iter().filter(|row| row.next_due.is_some() && check_id(&row.id).is_ok()).collect();
        let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
        let places = self.queue.locate(&ids).await?;
        let now = self.queue.brief_stats().await?.now_ms;
        let is_late = |row: &ListedItem, places: &[Place]| match places {
            [Place::Delayed { lane, due }] => {
                untimed.contains(lane) && *due > row.next_due.unwrap_or(*due).max(now).saturating_add(DUE_TOLERANCE_MS)
            }
            _ => false,
        };
        let late = rows.into_iter().zip(&places).filter(|(row, places)| is_late(row, places)).map(|(row, _)| row);
        let job = |row: &ListedItem| {
            let lane = self.lanes.lane_of_row(row, row.state, now);
            NewJob { id: row.id.clone(), due: self.due_time(row, &lane, now), lane }
        };
        let jobs: Vec<NewJob> = late.map(job).collect();
        if !jobs.is_empty() {
            tracing::warn!(
                namespace = self.queue.namespace(),
                ids = jobs.len(),
                "rebuild: due times of the queue are far later than those of the store, perhaps from a clock that was ahead; restoring them"
            );
            self.queue.promote(&jobs).await?;
        }
        Ok(())
    }

    /// Retries while a service is down; `None` if it is stopped meanwhile.
    async fn with_retries<'a, T>(
        &self,
        stop: &Stop,
        run: impl Fn() -> BoxFuture<'a, Result<T, StarterError>> + Send,
    ) -> Result<Option<T>, StarterError> {
        let mut delays = self.retry.start();
        loop {
            let error = match run().await {
                Ok(done) => return Ok(Some(done)),
                Err(error) => error,
            };
            let Some(delay) = self.retry.next_retry(&mut delays, error.is_temporary()) else { return Err(error) };
            tracing::warn!(
                %error,
                failures = delays.attempts(),
                delay_ms = clock::millis(delay),
                "rebuild: a page could not be restored yet"
            );
            stop.sleep(delay).await;
            if stop.is_draining() {
                return Ok(None);
            }
        }
    }

    /// Restores the rows that the queue does not have: live and unavailable ones to their lanes, dead ones to the queue's
    /// dead. A failed call may be repeated with the same token.
    pub async fn put_back(&self, token: &str, rows: &[ListedItem]) -> Result<RebuildCounts, StarterError> {
        let mut sum = RebuildCounts { rows: rows.len() as u64, ..RebuildCounts::default() };
        let mut left: Vec<&ListedItem> = Vec::with_capacity(rows.len());
        for row in rows {
            if let Err(why) = check_id(&row.id) {
                tracing::warn!(id = ?row.id, why, "rebuild: a row of the store cannot be scheduled");
                sum.refused += 1;
            } else {
                left.push(row);
            }
        }
        while !left.is_empty() {
            let ids: Vec<String> = left.iter().map(|row| row.id.clone()).collect();
            let adopted = self.queue.adopt(token, &ids, self.lease).await?;
            let (mut ours, mut dead) = (Vec::new(), Vec::new());
            for (row, answer) in left.into_iter().zip(&adopted.answers) {
                match answer {
                    ScheduleOutcome::Scheduled => ours.push(row),
                    ScheduleOutcome::Known => sum.known += 1,
                    ScheduleOutcome::Leased => sum.leased += 1,
                    // Perhaps marked dead by an interrupted try of this rebuild.
                    ScheduleOutcome::Dead if row.state == ItemState::Dead => dead.push(row),
                    ScheduleOutcome::Dead => sum.dead += 1,
                }
            }
            let UnscheduledRows { mut removed, marked_dead } = self.settle(&adopted, &ours).await?;
            sum.put_back += (ours.len() - removed.len() - marked_dead.len()) as u64;
            for (dead_rows, count) in [(dead, &mut sum.dead), (marked_dead, &mut sum.buried)] {
                let revived = self.forget_revived(&dead_rows).await?;
                *count += (dead_rows.len() - revived.len()) as u64;
                removed.extend(revived);
            }
            left = self.filter_tracked(&removed).await?;
            sum.withdrawn += (removed.len() - left.len()) as u64;
        }
        Ok(sum)
    }

    /// Settles the adopted rows by their stored state, read again: live and unavailable ids go to their lanes, dead ones
    /// to the queue's dead, and all others leave the queue. Returns the rows that went to no lane.
    async fn settle<'a>(
        &self,
        adopted: &Adoption,
        ours: &[&'a ListedItem],
    ) -> Result<UnscheduledRows<'a>, StarterError> {
        let mut unscheduled = UnscheduledRows::default();
        if ours.is_empty() {
            return Ok(unscheduled);
        }
        let states = self.states(ours).await?;
        let mut verdicts = Vec::with_capacity(ours.len());
        for (row, state) in ours.iter().zip(states) {
            let lane = self.lanes.lane_of_row(row, state.unwrap_or(row.state), adopted.now);
            let verdict = match state {
                Some(ItemState::Live | ItemState::Unavailable) => {
                    Verdict::Reschedule { lane: lane.clone(), due: self.due_time(row, &lane, adopted.now) }
                }
                // A post that was marked dead after its page of tracked posts was read comes again on a page of the
                // dead, with its reason.
                Some(ItemState::Dead) if row.state == ItemState::Dead => {
                    unscheduled.marked_dead.push(*row);
                    Verdict::MarkDead { reason: row.reason.clone().unwrap_or_default() }
                }
                _ => {
                    unscheduled.removed.push(*row);
                    Verdict::Finish
                }
            };
            let job = Job {
                id: row.id.clone(),
                lane: lane.name.clone(),
                due: adopted.now,
                deliveries: 0,
                failures: 0,
                order: Default::default(),
            };
            verdicts.push((job, verdict));
        }
        let settled = self.queue.settle(&adopted.fence, &verdicts, &[]).await?;
        if settled.lost > 0 {
            // They stay in the queue: their lease expired, and the next claim takes them.
            tracing::warn!(
                lost = settled.lost,
                "rebuild: settling a page outlasted its lease; a worker will claim these ids"
            );
        }
        Ok(unscheduled)
    }

    /// Removes ids from the queue's dead that are no longer dead in the store, and returns them. A person retried or
    /// dropped them since their page was read, perhaps before step 3.
    async fn forget_revived<'a>(&self, dead_rows: &[&'a ListedItem]) -> Result<Vec<&'a ListedItem>, StarterError> {
        let states = self.states(dead_rows).await?;
        let revived = dead_rows.iter().zip(states).filter(|(_, state)| *state != Some(ItemState::Dead));
        let revived: Vec<&ListedItem> = revived.map(|(row, _)| *row).collect();
        if !revived.is_empty() {
            let ids: Vec<String> = revived.iter().map(|row| row.id.clone()).collect();
            self.queue.forget(&ids).await?;
        }
        Ok(revived)
    }

    /// Returns the stored due time. An overdue row comes due at a random time from now: within its lateness, its lane's
    /// interval and [`SPREAD_MS`]. A lane ordered by old due times keeps the stored one.
    fn due_time(&self, row: &ListedItem, lane: &Lane, now: Millis) -> Due {
        match row.next_due {
            Some(due) if !lane.order.counts_lateness() => Due::At(due),
            _ => self.delay_until_due(row, lane, now).into(),
        }
    }

    fn delay_until_due(&self, row: &ListedItem, lane: &Lane, now: Millis) -> Millis {
        let delay = row.next_due.unwrap_or(now) - now;
        if delay > 0 && (row.once || !self.lanes.is_past_last_age(&row.id, row.created_at, now)) {
            return delay;
        }
        let most = (-delay).clamp(0, lane.patience.min(SPREAD_MS));
        (random::fraction() * most as f64) as Millis
    }

    async fn filter_tracked<'a>(&self, rows: &[&'a ListedItem]) -> Result<Vec<&'a ListedItem>, StarterError> {
        let states = self.states(rows).await?;
        let lives = |state: &Option<ItemState>| matches!(state, Some(ItemState::Live | ItemState::Unavailable));
        Ok(rows.iter().zip(states).filter(|(_, state)| lives(state)).map(|(row, _)| *row).collect())
    }

    async fn states(&self, rows: &[&ListedItem]) -> Result<Vec<Option<ItemState>>, StarterError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
        let standings = self.store.standing(self.queue.namespace(), &ids).await?;
        Ok(standings.into_iter().map(|known| known.map(|known| known.state)).collect())
    }
}

impl RebuildCounts {
    fn add(&mut self, page: &Self) {
        self.rows += page.rows;
        self.known += page.known;
        self.leased += page.leased;
        self.dead += page.dead;
        self.put_back += page.put_back;
        self.buried += page.buried;
        self.withdrawn += page.withdrawn;
        self.refused += page.refused;
    }
}

impl std::fmt::Display for RebuildCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rows, known, leased, dead, put_back, buried, withdrawn, refused, complete, seconds, .. } = self;
        if !*complete {
            write!(f, "stopped before the end{}, run it again: ", format_last_id(self.down_to.as_deref()))?;
        }
        write!(
            f,
            "{} in {seconds:.1} s: {} in the queue already, {} put back, {} leased, {} dead, {} withdrawn",
            count_with_noun(*rows, "row", "rows"),
            group_digits(*known),
            group_digits(*put_back),
            group_digits(*leased),
            group_digits(*dead),
            group_digits(*withdrawn)
        )?;
        if *buried > 0 {
            write!(f, ", {} marked dead again", group_digits(*buried))?;
        }
        if *refused > 0 { write!(f, ", {} refused", group_digits(*refused)) } else { Ok(()) }
    }
}
