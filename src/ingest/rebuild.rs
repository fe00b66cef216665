//! Putting back from the store what the queue has lost.
//!
//! The store is walked once, the living and then the dead, page by page in the order of ids, youngest tweets first. Of each page
//!
//! ```text
//!   1. adopt    the ids that are in none of the queue's places are ours, under a lease
//!   2. standing their rows are read again
//!   3. settle   what lives goes to the lane of its age, due when the store says; the dead are buried; the others leave
//!   4. standing of those that left or are buried: who is dead no more leaves the queue's dead, and who lives again
//!               meanwhile goes through 1 to 4 again
//! ```
//!
//! **Why no id is doubled.** An id is adopted only where it is nowhere, in one step of the queue; from then on it is
//! leased. Two rebuilds, a starter and a rebuild: one of them gets it.
//!
//! **Why no id is revived.** A worker ends or buries a tweet in the store first and takes it out of the queue after. So
//! an id that is nowhere because a worker was done with it is *ended* in the store by the time we adopt it, and 2,
//! which comes after 1, sees that, however old the page was. While we hold the lease nobody else looks the tweet up.
//!
//! **Why no id is lost.** Between 2 and 3 a starter may bring an ended tweet to life, or a person one of the dead:
//! their store comes first as well, then the queue tells them *leased*, then 3 takes it out. That is what 4 is for: its
//! read comes after 3, and so after theirs. A rebuild that is killed leaves leases, which run out; one whose reply is
//! lost asks again with its token or settles again.
//!
//! **Why no retried one stays buried.** Only an id that is nowhere and that 2 finds dead is buried, however old its page was. A
//! person who retries or drops it between 2 and 3 has changed the store before our burial, so 4 sees that; one who comes after
//! 4 finds it among the queue's dead, as always.
//!
//! One that is cut off between 3 and 4 says that it did not end, and is run again: of a page of the dead, those that the queue
//! has buried already go through 4, too.
//!
//! What is left to chance: a worker whose lease was wiped with the queue, or has run out, may still end
//! its tweet in the store after 2. That tweet is looked up once more, and the answer ends it again; the
//! store takes no answer about the dead, and the worker that hears so buries it in the queue. And of a rebuild that is killed
//! between 3 and 4, one that was retried just between 2 and 3 stays in the queue's dead: whoever retried it was told to try
//! again.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Serialize;

use super::{IdDate, StarterError};
use crate::base::clock::{self, Millis, Stopwatch};
use crate::base::humanize::{counted, grouped};
use crate::base::random;
use crate::base::retry::RetryPolicy;
use crate::base::shutdown::Stop;
use crate::base::task;
use crate::engine::queue::{Adopted, Due, Job, Lane, NewJob, Place, Queue, Scheduled, Verdict, check_id};
use crate::engine::schedule::{Known, Schedules};
use crate::model::post::TweetState;
use crate::store::{Listed, Listing, Store};

/// Rows of a page: what the queue adopts, and settles, in one step; 1 to 3 ms each of Redis's only thread.
pub(super) const PAGE: u32 = 500;
/// Tolerance for due times that are later than the store's, ms. No retry waits longer.
const DUE_TOLERANCE_MS: Millis = 2 * 3_600_000;
/// Overdue tweets come due within this time and not at once, or they would come due together ever after.
/// Lanes of longer intervals are spread by the quota.
const SPREAD_MS: Millis = 10 * 60_000;

/// The lane of a tweet, as the updater chooses it.
#[derive(Clone)]
pub struct Lanes {
    /// When items are due.
    pub schedule: Arc<dyn Schedules>,
    /// The lane of tweets the provider does not return.
    pub unavailable: Lane,
    /// Reads the date from an id, if the store does not know it.
    pub id_date: IdDate,
}

impl Lanes {
    /// The lane of a tweet at `now`, ms since the epoch; `once`: it is looked up once. One whose life is over by its age, or whose date
    /// nobody knows, is in the last: the updater ends it, or keeps it alive.
    #[must_use]
    pub fn of(&self, id: &str, state: TweetState, created_at: Option<Millis>, once: bool, now: Millis) -> Lane {
        if once {
            return Lane::once();
        }
        if state == TweetState::Unavailable {
            return self.unavailable.clone();
        }
        let schedule = self.schedule.in_force();
        let next = |created_at| schedule.next(&Known::new(id, created_at), now);
        let lane = next(self.created_at(id, created_at)).or_else(|| next(None)).map(|(lane, _)| lane);
        lane.unwrap_or_else(|| self.unavailable.clone())
    }

    /// The lane of a row in that state at `now`: if the schedule does not go by age alone, the lane that its worker chose.
    fn of_row(&self, row: &Listed, state: TweetState, now: Millis) -> Lane {
        let schedule = self.schedule.in_force();
        let chosen = match (state, row.next_due, row.checked_at) {
            (TweetState::Live, Some(due), Some(checked)) if !row.once => schedule.lane_of(due.saturating_sub(checked)),
            // Brought forward to the moment of its last lookup, which is never.
            (TweetState::Live, Some(due @ ..=0), None) if !row.once => schedule.lane_of(due),
            // It was never looked up: those of a schedule that chooses lanes have one of their own.
            (TweetState::Live, Some(due), None) if !row.once && schedule.lane_of(due.saturating_sub(now)).is_some() => {
                let known = Known::new(&row.id, self.created_at(&row.id, row.created_at));
                schedule.first(&known, now).map(|(lane, _)| lane)
            }
            _ => None,
        };
        chosen.unwrap_or_else(|| self.of(&row.id, state, row.created_at, row.once, now))
    }

    /// Returns true if a tweet's life is over by its age.
    fn is_over(&self, id: &str, created_at: Option<Millis>, now: Millis) -> bool {
        let created_at = self.created_at(id, created_at);
        self.schedule.in_force().next(&Known::new(id, created_at), now).is_none()
    }

    /// When a tweet was made, ms since the epoch: as the store knows it, or its id.
    #[must_use]
    pub fn created_at(&self, id: &str, stored: Option<Millis>) -> Option<Millis> {
        stored.or_else(|| (self.id_date)(id).ok().flatten())
    }
}

impl std::fmt::Debug for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes").field("schedule", &self.schedule).finish_non_exhaustive()
    }
}

/// The outcomes of the rows. `known + leased + dead + put_back + buried + withdrawn + refused = rows`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Rebuilt {
    /// Rows of tweets that live or are dead.
    pub rows: u64,
    /// Delayed already.
    pub known: u64,
    /// A worker has it right now.
    pub leased: u64,
    /// Dead in the queue.
    pub dead: u64,
    /// In the queue now, not before.
    pub put_back: u64,
    /// Dead in the store, and now in the queue, which had lost them.
    pub buried: u64,
    /// Ended, buried or dropped after their page was read: not put back.
    pub withdrawn: u64,
    /// Rows whose id cannot be a job's.
    pub refused: u64,
    /// True if the store was walked to its end.
    pub complete: bool,
    /// The last id that is done with, when it was not: ids fall.
    pub down_to: Option<String>,
    /// The duration.
    pub seconds: f64,
}

/// Why a rebuild stopped. It may be run again from its beginning: what is in the queue stays as it is.
#[derive(Debug, thiserror::Error)]
#[error(
    "the rebuild is done with {}{}, then it stopped; run it again",
    counted(*.rows, "row", "rows"),
    down_to(.last.as_deref())
)]
pub struct RebuildError {
    /// Rows that are done with.
    pub rows: u64,
    /// The last id of those.
    pub last: Option<String>,
    /// The error.
    #[source]
    pub why: StarterError,
}

fn down_to(last: Option<&str>) -> String {
    last.map_or_else(String::new, |id| format!(", down to id {id}"))
}

/// Puts back from the store what the queue has lost.
#[derive(Debug, Clone)]
pub struct Rebuild {
    /// The queue.
    pub queue: Arc<dyn Queue>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// Decides the lane of each row.
    pub lanes: Lanes,
    /// The lease of a page, as long as all leases of the namespace.
    pub lease: Duration,
    /// The maximum number of rows a second, at least 1.
    pub rate: u32,
    /// The behaviour while the store or the queue is down.
    pub retry: RetryPolicy,
}

impl Rebuild {
    /// Walks the store once, or until it is stopped; tells `progress` after each page.
    ///
    /// # Errors
    /// [`RebuildError`], which says how far it came.
    pub async fn run(&self, stop: &Stop, progress: impl Fn(&Rebuilt)) -> Result<Rebuilt, RebuildError> {
        let watch = Stopwatch::start();
        let limit = self.page_limit();
        let mut sum = Rebuilt::default();
        let (mut of, mut last) = (Listing::Living, None::<String>);
        let untimed = match self.patiently(stop, || self.untimed().boxed()).await {
            Ok(lanes) => lanes.unwrap_or_default(),
            Err(why) => return Err(RebuildError { rows: sum.rows, last, why }),
        };
        while !stop.is_draining() {
            task::step("compares store and queue");
            let page = self.patiently(stop, || self.page(of, last.as_deref(), limit).boxed()).await;
            let page = match page {
                Ok(Some(page)) => page,
                Ok(None) => break,
                Err(why) => return Err(RebuildError { rows: sum.rows, last, why }),
            };
            // One token for all tries of a page: a reply that was lost is given again.
            let token = format!("rebuild-{:016x}", random::number());
            match self.patiently(stop, || self.put_back(&token, &page).boxed()).await {
                Ok(Some(done)) => sum.add(&done),
                Ok(None) => break,
                Err(why) => return Err(RebuildError { rows: sum.rows, last, why }),
            }
            if of == Listing::Living && !untimed.is_empty() {
                match self.patiently(stop, || self.bring_forward(&untimed, &page).boxed()).await {
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
                // After the living, whose refreshes must not wait.
                (of, last) = (Listing::Dead, None);
            }
            self.keep_to_rate(sum.rows, &watch, stop).await;
        }
        sum.down_to = last.filter(|_| !sum.complete);
        sum.seconds = watch.elapsed().as_secs_f64();
        Ok(sum)
    }

    /// Rows of a page: no more than it may put back in a second.
    pub(super) fn page_limit(&self) -> u32 {
        PAGE.min(self.rate.max(1))
    }

    /// Waits while more rows were put back, since `watch` was started, than the rate allows.
    pub(super) async fn keep_to_rate(&self, rows: u64, watch: &Stopwatch, stop: &Stop) {
        let earliest = Duration::from_secs_f64(rows as f64 / f64::from(self.rate.max(1)));
        stop.sleep(earliest.saturating_sub(watch.elapsed())).await;
    }

    async fn page(&self, of: Listing, below: Option<&str>, limit: u32) -> Result<Vec<Listed>, StarterError> {
        Ok(self.store.page(self.queue.namespace(), of, below, limit).await?)
    }

    /// Lanes without lateness that hold jobs which are not due.
    async fn untimed(&self) -> Result<Vec<String>, StarterError> {
        let lanes = self.queue.stats().await?.lanes.into_iter();
        Ok(lanes.filter(|lane| !lane.order.is_timed() && lane.delayed > lane.due).map(|lane| lane.lane).collect())
    }

    /// Gives rows that wait far too long in one of these lanes the due times of the store. They were enqueued while the queue's clock
    /// was ahead. In the other lanes [`mend`](crate::engine::queue::Administration::mend) corrects the due times.
    async fn bring_forward(&self, untimed: &[String], rows: &[Listed]) -> Result<(), StarterError> {
        let rows: Vec<&Listed> =
            rows.iter().filter(|row| row.next_due.is_some() && check_id(&row.id).is_ok()).collect();
        let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
        let places = self.queue.locate(&ids).await?;
        let now = self.queue.brief().await?.now_ms;
        let is_late = |row: &Listed, places: &[Place]| match places {
            [Place::Delayed { lane, due }] => {
                untimed.contains(lane) && *due > row.next_due.unwrap_or(*due).max(now).saturating_add(DUE_TOLERANCE_MS)
            }
            _ => false,
        };
        let late = rows.into_iter().zip(&places).filter(|(row, places)| is_late(row, places)).map(|(row, _)| row);
        let job = |row: &Listed| {
            let lane = self.lanes.of_row(row, row.state, now);
            NewJob { id: row.id.clone(), due: self.due(row, &lane, now), lane }
        };
        let jobs: Vec<NewJob> = late.map(job).collect();
        if !jobs.is_empty() {
            tracing::warn!(
                namespace = self.queue.namespace(),
                ids = jobs.len(),
                "the queue has far later due times than the store, probably from a clock that was ahead: the store's are restored"
            );
            self.queue.promote(&jobs).await?;
        }
        Ok(())
    }

    /// Tries while a service is away; `None` when it is stopped meanwhile.
    async fn patiently<'a, T>(
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
            let Some(delay) = self.retry.another(&mut delays, error.is_passing()) else { return Err(error) };
            tracing::warn!(%error, failures = delays.attempts(), delay_ms = clock::millis(delay), "a page could not be restored yet");
            stop.sleep(delay).await;
            if stop.is_draining() {
                return Ok(None);
            }
        }
    }

    /// Puts back what is nowhere of these rows: what lives into its lane, and the dead of a page of the dead among the queue's.
    ///
    /// # Errors
    /// [`StarterError`]; the same call may be made again, with the same token.
    pub async fn put_back(&self, token: &str, rows: &[Listed]) -> Result<Rebuilt, StarterError> {
        let mut sum = Rebuilt { rows: rows.len() as u64, ..Rebuilt::default() };
        let mut left: Vec<&Listed> = Vec::with_capacity(rows.len());
        for row in rows {
            if let Err(why) = check_id(&row.id) {
                tracing::warn!(id = ?row.id, why, "a row of the store cannot be scheduled");
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
                    Scheduled::Scheduled => ours.push(row),
                    Scheduled::Known => sum.known += 1,
                    Scheduled::Leased => sum.leased += 1,
                    // Perhaps by a try of ours that was cut off.
                    Scheduled::Dead if row.state == TweetState::Dead => dead.push(row),
                    Scheduled::Dead => sum.dead += 1,
                }
            }
            let (mut out, buried) = self.settle(&adopted, &ours).await?;
            sum.put_back += (ours.len() - out.len() - buried.len()) as u64;
            for (graves, count) in [(dead, &mut sum.dead), (buried, &mut sum.buried)] {
                let risen = self.risen(&graves).await?;
                *count += (graves.len() - risen.len()) as u64;
                out.extend(risen);
            }
            left = self.living(&out).await?;
            sum.withdrawn += (out.len() - left.len()) as u64;
        }
        Ok(sum)
    }

    /// Puts those that live into their lanes, buries the dead, and lets go of the others. Answers the others, then the buried.
    async fn settle<'a>(
        &self,
        adopted: &Adopted,
        ours: &[&'a Listed],
    ) -> Result<(Vec<&'a Listed>, Vec<&'a Listed>), StarterError> {
        let (mut out, mut buried) = (Vec::new(), Vec::new());
        if ours.is_empty() {
            return Ok((out, buried));
        }
        let states = self.states(ours).await?;
        let mut verdicts = Vec::with_capacity(ours.len());
        for (row, state) in ours.iter().zip(states) {
            let lane = self.lanes.of_row(row, state.unwrap_or(row.state), adopted.now);
            let verdict = match state {
                Some(TweetState::Live | TweetState::Unavailable) => {
                    Verdict::Reschedule { lane: lane.clone(), due: self.due(row, &lane, adopted.now) }
                }
                // One that died after its page of the living was read comes again, with its reason, on a page of the dead.
                Some(TweetState::Dead) if row.state == TweetState::Dead => {
                    buried.push(*row);
                    Verdict::Bury { reason: row.reason.clone().unwrap_or_default() }
                }
                _ => {
                    out.push(*row);
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
            // They are in the queue: their lease ran out, and the next claim takes them.
            tracing::warn!(lost = settled.lost, "a page took longer than its lease");
        }
        Ok((out, buried))
    }

    /// Takes out of the queue's dead those that are not dead in the store any more, which it answers: somebody retried or dropped
    /// them since their page was read, and perhaps asked the queue before we buried them.
    async fn risen<'a>(&self, graves: &[&'a Listed]) -> Result<Vec<&'a Listed>, StarterError> {
        let states = self.states(graves).await?;
        let risen = graves.iter().zip(states).filter(|(_, state)| *state != Some(TweetState::Dead));
        let risen: Vec<&Listed> = risen.map(|(row, _)| *row).collect();
        if !risen.is_empty() {
            let ids: Vec<String> = risen.iter().map(|row| row.id.clone()).collect();
            self.queue.forget(&ids).await?;
        }
        Ok(risen)
    }

    /// When it is due: when the store says. What is overdue comes due a little later than now: at the most as late again as
    /// it is, an interval, and [`SPREAD_MS`]. In a lane whose order is that of old due times, it keeps its own.
    fn due(&self, row: &Listed, lane: &Lane, now: Millis) -> Due {
        match row.next_due {
            Some(due) if !lane.order.is_timed() => Due::At(due),
            _ => self.delay(row, lane, now).into(),
        }
    }

    fn delay(&self, row: &Listed, lane: &Lane, now: Millis) -> Millis {
        let delay = row.next_due.unwrap_or(now) - now;
        if delay > 0 && (row.once || !self.lanes.is_over(&row.id, row.created_at, now)) {
            return delay;
        }
        let most = (-delay).clamp(0, lane.patience.min(SPREAD_MS));
        (random::share() * most as f64) as Millis
    }

    /// The live ones of the rows.
    async fn living<'a>(&self, rows: &[&'a Listed]) -> Result<Vec<&'a Listed>, StarterError> {
        let states = self.states(rows).await?;
        let lives = |state: &Option<TweetState>| matches!(state, Some(TweetState::Live | TweetState::Unavailable));
        Ok(rows.iter().zip(states).filter(|(_, state)| lives(state)).map(|(row, _)| *row).collect())
    }

    /// The state of each now; `None` where it has no row.
    async fn states(&self, rows: &[&Listed]) -> Result<Vec<Option<TweetState>>, StarterError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
        let standings = self.store.standing(self.queue.namespace(), &ids).await?;
        Ok(standings.into_iter().map(|known| known.map(|known| known.state)).collect())
    }
}

impl Rebuilt {
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

impl std::fmt::Display for Rebuilt {
    /// One line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rows, known, leased, dead, put_back, buried, withdrawn, refused, complete, seconds, .. } = self;
        if !*complete {
            write!(f, "stopped before the end{}, run it again: ", down_to(self.down_to.as_deref()))?;
        }
        write!(
            f,
            "{} in {seconds:.1} s: {} in the queue already, {} put back, {} leased, {} dead, {} withdrawn",
            counted(*rows, "row", "rows"),
            grouped(*known),
            grouped(*put_back),
            grouped(*leased),
            grouped(*dead),
            grouped(*withdrawn)
        )?;
        if *buried > 0 {
            write!(f, ", {} buried again", grouped(*buried))?;
        }
        if *refused > 0 { write!(f, ", {} refused", grouped(*refused)) } else { Ok(()) }
    }
}
