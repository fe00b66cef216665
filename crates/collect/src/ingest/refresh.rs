//! Brings lookups forward: posts that a person wants now, and posts that a mass miss made unavailable.
//!
//! The store comes before the queue ([`Store::promote`], [`Jobs::promote`](engine::queue::Jobs::promote)). If
//! the command is cut off in between, the store says *due* and the queue reaches the post later; the same command fixes
//! it. A post that the queue has lost is restored.

use std::str::FromStr;

use serde::Serialize;

use super::StarterError;
use super::rebuild::{PAGE, Rebuild};
use engine::base::clock::{self, Millis, Stopwatch};
use engine::base::random;
use engine::base::shutdown::Stop;
use engine::base::task;
use engine::queue::{NewJob, PromoteOutcome, check_id};
use networks::model::post::ItemState;
use store::{ListedItem, Listing, Standing};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LivingState {
    Live,
    Unavailable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write live or unavailable")]
pub struct InvalidState;

impl FromStr for LivingState {
    type Err = InvalidState;

    fn from_str(word: &str) -> Result<Self, InvalidState> {
        match word {
            "live" => Ok(Self::Live),
            "unavailable" => Ok(Self::Unavailable),
            _ => Err(InvalidState),
        }
    }
}

/// A time, ms since the epoch: `2h` is two hours ago, `2026-01-31T08:00:00Z` a date, `2026-01-31` its midnight (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Millis);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write it like 2h, 2026-01-31 or 2026-01-31T08:00:00Z")]
pub struct InvalidMoment;

impl FromStr for Moment {
    type Err = InvalidMoment;

    fn from_str(text: &str) -> Result<Self, InvalidMoment> {
        if let Ok(ago) = humantime::parse_duration(text) {
            return Ok(Self(clock::wall_ms().saturating_sub(clock::millis(ago))));
        }
        let midnight = || humantime::parse_rfc3339_weak(&format!("{text}T00:00:00Z")).ok();
        let date = humantime::parse_rfc3339_weak(text).ok().or_else(midnight);
        let since_1970 = date.and_then(|date| date.duration_since(std::time::UNIX_EPOCH).ok());
        since_1970.map(|span| Self(clock::millis(span))).ok_or(InvalidMoment)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RefreshFilter {
    pub state: Option<LivingState>,
    /// Selects posts whose last response came at this time or later.
    pub since: Option<Moment>,
    /// Spreads the due times over one interval of each post.
    pub spread: bool,
}

impl RefreshFilter {
    fn matches(&self, row: &ListedItem) -> bool {
        let state = match row.state {
            ItemState::Live => LivingState::Live,
            ItemState::Unavailable => LivingState::Unavailable,
            ItemState::Ended | ItemState::Dead => return false,
        };
        self.state.is_none_or(|wanted| wanted == state)
            && self.since.is_none_or(|since| row.checked_at.is_some_and(|checked| checked >= since.0))
            && check_id(&row.id).is_ok()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RefreshCounts {
    /// Due at once (or within an interval, if spread), in the lane of their age.
    pub promoted: u64,
    /// Held by a worker: due again after the release.
    pub leased: u64,
    pub put_back: u64,
    /// Rejected ids: unknown, ended, dead, or invalid.
    pub refused: u64,
    /// True if it stopped before the end: some posts are unchanged.
    pub stopped: bool,
}

impl RefreshCounts {
    fn add(&mut self, other: &Self) {
        self.promoted += other.promoted;
        self.leased += other.leased;
        self.put_back += other.put_back;
        self.refused += other.refused;
    }

    #[must_use]
    pub fn posts(&self) -> u64 {
        self.promoted + self.leased + self.put_back
    }
}

impl std::fmt::Display for RefreshCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { promoted, leased, put_back, refused, stopped } = self;
        if *stopped {
            write!(f, "stopped before the end, run it again: ")?;
        }
        write!(f, "{promoted} due now, {leased} in flight and due again after it, {put_back} put back into the queue")?;
        if *refused > 0 { write!(f, ", {refused} refused") } else { Ok(()) }
    }
}

#[derive(Debug, Clone)]
pub struct Refresh {
    pub rebuild: Rebuild,
}

impl Refresh {
    /// Makes these posts due now. Calls `refused` with each rejected id and the reason.
    pub async fn ids(
        &self,
        ids: &[String],
        mut refused: impl FnMut(&str, &str),
    ) -> Result<RefreshCounts, StarterError> {
        let Rebuild { queue, store, .. } = &self.rebuild;
        let mut sum = RefreshCounts::default();
        for ids in ids.chunks(PAGE as usize) {
            let mut rows = Vec::with_capacity(ids.len());
            for (id, known) in ids.iter().zip(store.standing(queue.namespace(), ids).await?) {
                let why = match known.as_ref().map(|known| known.state) {
                    _ if check_id(id).is_err() => "this is no id of a post",
                    None => "it is not in the store: add it with `enqueue`",
                    Some(ItemState::Ended) => "its tracking has ended: add it again with `enqueue`",
                    Some(ItemState::Dead) => "it is dead: retry it with `dead retry`",
                    Some(state @ (ItemState::Live | ItemState::Unavailable)) => {
                        let Standing { created_at, checked_at, once, .. } = known.unwrap_or_default();
                        let id = id.clone();
                        rows.push(ListedItem { id, state, created_at, next_due: None, checked_at, reason: None, once });
                        continue;
                    }
                };
                refused(id, why);
                sum.refused += 1;
            }
            sum.add(&self.promote(rows, false).await?);
        }
        Ok(sum)
    }

    /// Makes all selected posts due, at the rate of a rebuild. Retries while a service is down, and ends early if it is
    /// stopped. Calls `progress` with the number of rows read.
    pub async fn all(
        &self,
        which: RefreshFilter,
        stop: &Stop,
        progress: impl Fn(u64, &RefreshCounts),
    ) -> Result<RefreshCounts, StarterError> {
        let Rebuild { queue, store, retry, .. } = &self.rebuild;
        let (limit, watch) = (self.rebuild.page_limit(), Stopwatch::start());
        let (mut sum, mut read, mut last) = (RefreshCounts::default(), 0, None::<String>);
        let mut delays = retry.start();
        while !stop.is_draining() {
            task::step("brings lookups forward");
            let page = async {
                let page = store.page(queue.namespace(), Listing::Tracked, last.as_deref(), limit).await?;
                let rows = page.iter().filter(|row| which.matches(row)).cloned().collect();
                Ok::<_, StarterError>((self.promote(rows, which.spread).await?, page))
            };
            let (done, page) = match page.await {
                Ok(done) => done,
                Err(error) if error.is_temporary() && delays.attempts() < retry.tries => {
                    let delay = delays.next_delay();
                    tracing::warn!(%error, delay_ms = clock::millis(delay), "refresh: a page cannot be made due yet");
                    stop.sleep(delay).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            delays.reset();
            sum.add(&done);
            read += page.len() as u64;
            progress(read, &sum);
            if page.len() < limit as usize {
                return Ok(sum);
            }
            // Workers claim and save meanwhile. Rows that are only read cost them little.
            self.rebuild.keep_to_rate(sum.posts(), &watch, stop).await;
            last = page.into_iter().last().map(|row| row.id);
        }
        Ok(RefreshCounts { stopped: true, ..sum })
    }

    /// Brings these posts forward, each in the lane of its age. An unavailable post, too, is checked like a live one.
    async fn promote(&self, mut rows: Vec<ListedItem>, spread: bool) -> Result<RefreshCounts, StarterError> {
        if rows.is_empty() {
            return Ok(RefreshCounts::default());
        }
        let Rebuild { queue, store, lanes, .. } = &self.rebuild;
        let now = clock::wall_ms();
        let mut jobs = Vec::with_capacity(rows.len());
        for row in &mut rows {
            let lane = lanes.lane(&row.id, ItemState::Live, row.created_at, row.once, now);
            let delay = if spread { (random::fraction() * lane.patience as f64) as Millis } else { 0 };
            row.next_due = Some(now.saturating_add(delay));
            jobs.push(NewJob { id: row.id.clone(), lane, due: delay.into() });
        }
        let dues: Vec<(String, Millis)> =
            rows.iter().map(|row| (row.id.clone(), row.next_due.unwrap_or(now))).collect();
        store.promote(queue.namespace(), &dues).await?;
        let answers = queue.promote(&jobs).await?;
        let mut done = RefreshCounts::default();
        let mut lost = Vec::new();
        for (row, answer) in rows.into_iter().zip(answers) {
            match answer {
                PromoteOutcome::Moved => done.promoted += 1,
                PromoteOutcome::Noted => done.leased += 1,
                // Died since it was read: the store has that state, too, or will have it.
                PromoteOutcome::Dead => done.refused += 1,
                PromoteOutcome::Absent => lost.push(row),
            }
        }
        if !lost.is_empty() {
            let rebuilt = self.rebuild.put_back(&format!("refresh-{:016x}", random::number()), &lost).await?;
            done.put_back += rebuilt.put_back;
            done.leased += rebuilt.leased;
            done.promoted += rebuilt.known;
            done.refused += rebuilt.dead + rebuilt.withdrawn + rebuilt.refused;
        }
        Ok(done)
    }
}
