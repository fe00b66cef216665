//! The queue's contract as plain rules over a map, with the time as an argument: the reference. `model.rs`
//! checks it in every order of events, `state_machine.rs` compares the real backends with it, and
//! `memory_queue.rs` puts a clock to it, for simulations.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use twitter_updater::base::clock::{Millis, millis};
use twitter_updater::engine::queue::{
    ClaimRequest, DUE_SLACK, Job, Lane, LaneStats, NewJob, Order, PAGE_LIMIT, Place, PostponeOutcome, PromoteOutcome,
    Sample, ScheduleOutcome, Stats, Verdict, suspect_limit, worker_name_of_token,
};

use super::queue_entries::{At, Entries, Entry, Waiting};

/// The tier below zero, then lateness ÷ patience: the greater, the sooner.
pub type Urgency = (i16, f64);

/// Rules of the contract that can be left out, to see that somebody notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    /// A settle applies only to ids its claim still holds.
    pub fence_checked: bool,
    /// The same token again answers the same batch.
    pub token_remembered: bool,
    /// Ids that are given back are as they were.
    pub release_uncounted: bool,
    /// A lease that ran out frees its ids.
    pub leases_end: bool,
    /// Free places go to what is due soonest; otherwise to what is soonest relative to its patience.
    pub soonest_first: bool,
    /// The note about a promoted job outlives its lease, and is applied when the job is given back.
    pub note_outlives_lease: bool,
    /// A promote makes no job due later: of two dues the earlier one counts.
    pub earlier_due_wins: bool,
    /// No job of a later tier is claimed before one of an earlier tier.
    pub tiers_are_strict: bool,
    /// A newest-first lane gives its newest due job first.
    pub newest_first: bool,
    /// Only lanes by lateness lend what is not due yet.
    pub only_timed_lend: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            fence_checked: true,
            token_remembered: true,
            release_uncounted: true,
            leases_end: true,
            soonest_first: true,
            note_outlives_lease: true,
            earlier_due_wins: true,
            tiers_are_strict: true,
            newest_first: true,
            only_timed_lend: true,
        }
    }
}

/// Suspects have a call of their own in four while others wait.
const OTHERS_FIRST: u8 = 3;

/// What a claim of the model answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// A batch: its lease's deadline, its jobs, and whether its token had it already.
    Batch { deadline: Millis, jobs: Vec<Job>, repeated: bool },
    /// Nothing yet; how long to wait, and why it is paused.
    Empty { wait: Millis, paused: Option<String> },
}

/// Where each id is. An id has one entry, so it is in one place by construction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct QueueModel {
    pub rules: Rules,
    jobs: Entries,
    /// By tier, most impatient first.
    lanes: Vec<Lane>,
    last_fence: Millis,
    /// Claims of others that are to come before the next of suspects.
    others_first: u8,
    paused: Option<String>,
}

impl QueueModel {
    pub fn with(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    pub fn schedule(&mut self, now: Millis, job: &NewJob) -> ScheduleOutcome {
        self.learn(&job.lane);
        match self.jobs.get(&job.id).map(|entry| &entry.at) {
            Some(At::Delayed { .. }) => ScheduleOutcome::Known,
            Some(At::Leased { .. }) => ScheduleOutcome::Leased,
            Some(At::Dead { .. }) => ScheduleOutcome::Dead,
            None => {
                let at = At::Delayed { lane: job.lane.name.clone(), due: job.due.moment(now) };
                self.jobs.put(&job.id, Entry::new(at));
                ScheduleOutcome::Scheduled
            }
        }
    }

    /// Takes what is in no place under a lease; its deadline, and what became of each id.
    pub fn adopt(&mut self, now: Millis, token: &str, ids: &[String], lease: Millis) -> (Millis, Vec<ScheduleOutcome>) {
        let taken = self.jobs.leased().find_map(|(fence, _, entry)| match &entry.at {
            At::Leased { token: of, .. } if **of == *token && fence > now => Some(fence),
            _ => None,
        });
        let deadline = taken.unwrap_or_else(|| (now + lease.max(1)).max(self.last_fence + 1));
        let adopt = |id: &String| match self.jobs.get(id).map(|entry| &entry.at) {
            Some(At::Delayed { .. }) => ScheduleOutcome::Known,
            Some(At::Leased { fence, .. }) if Some(*fence) == taken => ScheduleOutcome::Scheduled,
            Some(At::Leased { .. }) => ScheduleOutcome::Leased,
            Some(At::Dead { .. }) => ScheduleOutcome::Dead,
            None => {
                let at = At::Leased { fence: deadline, token: token.into(), lane: "default".into(), due: now };
                self.jobs.put(id, Entry::new(at));
                self.last_fence = self.last_fence.max(deadline);
                ScheduleOutcome::Scheduled
            }
        };
        let answers = ids.iter().map(adopt).collect();
        (deadline, answers)
    }

    /// Takes an id out of the dead, or from nowhere, into its lane.
    pub fn revive(&mut self, now: Millis, job: &NewJob) -> ScheduleOutcome {
        if self.jobs.get(&job.id).is_some_and(|entry| matches!(entry.at, At::Dead { .. })) {
            self.jobs.remove(&job.id);
        }
        self.schedule(now, job)
    }

    /// Makes a delayed job due earlier or moves it to another lane; notes the same of a leased one.
    pub fn promote(&mut self, now: Millis, job: &NewJob) -> PromoteOutcome {
        let (earlier_due_wins, asked) = (self.rules.earlier_due_wins, job.due.moment(now));
        let earlier = |known: Millis| if earlier_due_wins { known.min(asked) } else { asked };
        let Some(mut entry) = self.jobs.get(&job.id).cloned() else { return PromoteOutcome::Absent };
        let promoted = match &mut entry.at {
            At::Dead { .. } => return PromoteOutcome::Dead,
            At::Delayed { lane, due } => {
                (*lane, *due) = (job.lane.name.clone(), earlier(*due));
                PromoteOutcome::Moved
            }
            At::Leased { .. } => {
                let due = entry.note.as_ref().map_or(asked, |(known, _)| earlier(*known));
                entry.note = Some((due, job.lane.name.clone()));
                PromoteOutcome::Noted
            }
        };
        self.jobs.put(&job.id, entry);
        self.learn(&job.lane);
        promoted
    }

    /// Makes a delayed job due later, in that lane.
    pub fn postpone(&mut self, now: Millis, job: &NewJob) -> PostponeOutcome {
        let asked = job.due.moment(now);
        let Some(mut entry) = self.jobs.get(&job.id).cloned() else { return PostponeOutcome::Absent };
        match &mut entry.at {
            At::Dead { .. } => PostponeOutcome::Dead,
            At::Leased { .. } => PostponeOutcome::Leased,
            At::Delayed { due, .. } if *due >= asked => PostponeOutcome::Kept,
            At::Delayed { lane, due } => {
                (*lane, *due) = (job.lane.name.clone(), asked);
                self.jobs.put(&job.id, entry);
                self.learn(&job.lane);
                PostponeOutcome::Moved
            }
        }
    }

    /// Spreads what is due beyond a lane's patience and the slack over its next patience; says how many that were.
    pub fn repair_due_times(&mut self, now: Millis, slack: Millis, limit: usize) -> u64 {
        if self.last_fence - now > slack {
            return 0;
        }
        let mut left = limit.min(PAGE_LIMIT);
        for lane in self.lanes.clone().into_iter().filter(|lane| lane.order.counts_lateness()) {
            left -= self.spread(now, &lane, slack, left);
        }
        (limit.min(PAGE_LIMIT) - left) as u64
    }

    /// Applies this kind to a known lane, and spreads its ids that are due too late over its patience; returns their number.
    pub fn apply_lane(&mut self, now: Millis, lane: &Lane, slack: Millis, limit: usize) -> u64 {
        if !self.lanes.iter().any(|known| known.name == lane.name) {
            return 0;
        }
        self.learn(lane);
        if !lane.order.counts_lateness() || self.last_fence - now > slack {
            return 0;
        }
        self.spread(now, lane, 0, limit.min(PAGE_LIMIT)) as u64
    }

    /// Spreads ids that are due later than a lane's patience + slack over its patience; returns their number.
    fn spread(&mut self, now: Millis, lane: &Lane, slack: Millis, limit: usize) -> usize {
        let Lane { name, patience, .. } = lane;
        let beyond = now + patience + slack + 1..Millis::MAX;
        let far: Vec<String> = self.jobs.delayed(name, beyond).take(limit).map(|(_, id, _)| id.clone()).collect();
        for (at, id) in far.iter().enumerate() {
            let share = (patience * (at as Millis + 1) + far.len() as Millis - 1) / far.len() as Millis;
            let due = now + share.max(1);
            self.jobs.change(id, |entry| entry.at = At::Delayed { lane: name.clone(), due });
        }
        far.len()
    }

    /// All ids of each lane, and last of the leased.
    pub fn whole_sample(&self) -> Vec<Sample> {
        let of = |lane: Option<&Lane>, mut ids: Vec<String>| {
            ids.sort_unstable();
            Sample {
                lane: lane.map(|lane| lane.name.to_string()),
                patience_ms: lane.map(|lane| lane.patience),
                order: lane.map(|lane| lane.order).unwrap_or_default(),
                total: ids.len() as u64,
                ids,
            }
        };
        let ids = |name| self.jobs.delayed(name, Millis::MIN..Millis::MAX).map(|(_, id, _)| id.clone()).collect();
        let lanes = self.lanes.iter().map(|lane| of(Some(lane), ids(&lane.name)));
        lanes.chain([of(None, self.jobs.leased().map(|(_, id, _)| id.clone()).collect())]).collect()
    }

    /// Removes an id that is dead or delayed, and the note about one that is leased.
    pub fn forget(&mut self, id: &str) {
        self.jobs.change(id, |entry| entry.note = None);
        if self.jobs.get(id).is_some_and(|entry| !matches!(entry.at, At::Leased { .. })) {
            self.jobs.remove(id);
        }
    }

    pub fn claim(&mut self, now: Millis, request: &ClaimRequest<'_>) -> Claimed {
        if let Some((deadline, jobs)) = self.claimed_before(now, request.token) {
            return Claimed::Batch { deadline, jobs, repeated: true };
        }
        if self.paused.is_some() {
            return Claimed::Empty { wait: millis(request.linger), paused: self.paused.clone() };
        }
        let suspects_turn = self.others_first == 0;
        let (first, suspects) = self.expired(now, request);
        let (mut jobs, mut expired) = match (first.is_empty(), suspects.is_empty()) {
            (false, _) => (first, true),
            (true, false) if suspects_turn => (suspects.clone(), true),
            _ => (Vec::new(), false),
        };
        if !expired {
            let others = if suspects_turn { Err(None) } else { self.ready(now, request, false) };
            (jobs, expired) = match others {
                Ok(jobs) => (jobs, false),
                Err(_) if !suspects.is_empty() => (suspects, true),
                Err(_) => match self.ready(now, request, true).or_else(|waited| match suspects_turn {
                    // Where idle quota is spent: none of them is due.
                    true if request.early > 0.0 => self.ready(now, request, false),
                    _ => Err(waited),
                }) {
                    Ok(jobs) => (jobs, false),
                    Err(waited) => return Claimed::Empty { wait: self.wait(now, request, waited), paused: None },
                },
            };
        }
        let of_suspects = jobs.first().is_some_and(|job| job.deliveries > u32::from(expired));
        self.others_first = if of_suspects { OTHERS_FIRST } else { self.others_first.saturating_sub(1) };
        let deadline = (now + millis(request.lease).max(1)).max(self.last_fence + 1);
        self.last_fence = deadline;
        let token: Arc<str> = request.token.into();
        for job in &jobs {
            let at = At::Leased { fence: deadline, token: token.clone(), lane: job.lane.clone(), due: job.due };
            let Job { deliveries, failures, .. } = *job;
            let note = self.jobs.get(&job.id).and_then(|entry| entry.note.clone());
            let note = note.filter(|_| self.rules.note_outlives_lease);
            self.jobs.put(&job.id, Entry { at, deliveries, failures, trial: None, note });
        }
        Claimed::Batch { deadline, jobs, repeated: false }
    }

    /// What that token holds already.
    fn claimed_before(&self, now: Millis, asked: &str) -> Option<(Millis, Vec<Job>)> {
        let held = |(_, id, entry): (Millis, &String, &Entry)| match &entry.at {
            At::Leased { fence, token, lane, due } if **token == *asked && *fence > now => {
                let job = Job {
                    id: id.clone(),
                    lane: lane.clone(),
                    due: *due,
                    deliveries: entry.deliveries,
                    failures: entry.failures,
                    order: self.order_of(lane),
                };
                Some((*fence, job))
            }
            _ => None,
        };
        if !self.rules.token_remembered {
            return None;
        }
        let held: Vec<_> = self.jobs.leased().filter_map(held).collect();
        Some((held.first()?.0, held.into_iter().map(|(_, job)| job).collect()))
    }

    /// Leases whose time is up, for the first time and once more, in the order they ran out: half a batch
    /// at the most, halved again per further delivery.
    fn expired(&self, now: Millis, request: &ClaimRequest<'_>) -> (Vec<Job>, Vec<Job>) {
        let ends = self.jobs.leased().next().is_some_and(|(fence, ..)| fence <= now);
        if !self.rules.leases_end || !ends {
            return Default::default();
        }
        let first = self.lanes.first().map_or_else(|| "default".into(), |lane| lane.name.clone());
        let over = self.jobs.leased().take_while(|(fence, ..)| *fence <= now).map(|(fence, id, entry)| Job {
            id: id.clone(),
            lane: first.clone(),
            due: (fence - millis(request.lease)).max(0),
            deliveries: entry.deliveries + 1,
            failures: entry.failures + u32::from(entry.trial == Some(fence)),
            order: self.order_of(&first),
        });
        let over: Vec<Job> = over.take(2 * request.limit).collect();
        let (first, suspects): (Vec<Job>, Vec<Job>) = over.into_iter().partition(|job| job.deliveries == 1);
        (halved(first, request.limit), halved(suspects, request.limit))
    }

    /// The due ids of all lanes that make a batch, or how long the oldest due one has waited.
    fn ready(&self, now: Millis, request: &ClaimRequest<'_>, suspects_too: bool) -> Result<Vec<Job>, Option<Millis>> {
        let lanes = &self.lanes;
        let newest = |at: usize| self.rules.newest_first && lanes[at].order == Order::NewestFirst;
        let waiting = |at: usize, dues: Range<Millis>| {
            let waiting = self.jobs.delayed(&lanes[at].name, dues);
            waiting.filter(move |(.., entry)| suspects_too || entry.deliveries == 0).map(move |of| (at, of))
        };
        let is_early = request.early > 0.0;
        if !is_early && self.next_due().is_none_or(|due| due > now) {
            return Err(None);
        }
        // In its order no lane gives more than the first of its ids, as many as a batch has.
        let due = |at| -> Vec<(usize, Waiting<'_>)> {
            let due = waiting(at, Millis::MIN..now + 1);
            if newest(at) { due.rev().take(request.limit).collect() } else { due.take(request.limit).collect() }
        };
        let mut all: Vec<_> = (0..lanes.len()).flat_map(due).collect();
        let first = |at| waiting(at, Millis::MIN..now + 1).next().map(|(_, (due, ..))| now - due);
        let oldest = (0..lanes.len()).filter_map(first).max();
        if !is_early && all.len() < request.limit && oldest.is_none_or(|waited| waited < millis(request.linger)) {
            return Err(oldest);
        }
        let tier = |at: usize| if self.rules.tiers_are_strict { lanes[at].tier } else { 0 };
        let lateness = |at: usize, due: Millis| (now - due) as f64 / lanes[at].patience as f64;
        let by_lateness = |(in_a, a): &(usize, Waiting<'_>), (in_b, b): &(usize, Waiting<'_>)| {
            let later = lateness(*in_b, b.0).total_cmp(&lateness(*in_a, a.0));
            later.then_with(|| (in_a, a.0, a.1).cmp(&(in_b, b.0, b.1)))
        };
        all.sort_by(|one, other| {
            let ((in_a, a), (in_b, b)) = (one, other);
            let by_lane = (tier(*in_a), newest(*in_a)).cmp(&(tier(*in_b), newest(*in_b)));
            by_lane.then_with(|| match newest(*in_a) {
                true => b.0.cmp(&a.0).then_with(|| in_a.cmp(in_b)).then_with(|| b.1.cmp(a.1)),
                false => by_lateness(one, other),
            })
        });
        // Suspects are not early, nor does anything go with them.
        let is_suspect = |(_, entry): (&String, &Entry)| entry.deliveries > 0;
        if is_early && suspects_too && self.jobs.iter().any(is_suspect) {
            return self.picked(all, request);
        }
        // In the places that are free what is due soonest: relative to its patience, where idle quota is spent; otherwise
        // up to the first that it is too early for.
        let share = if is_early { request.early } else { request.lookahead };
        if share > 0.0 && all.len() < request.limit {
            let may = |lane: &Lane| if is_early { lane.allows_early_claims() } else { lane.order.counts_lateness() };
            let allows_early_claims = |at: &usize| may(&lanes[*at]) || !self.rules.only_timed_lend;
            let soon = |at| waiting(at, now + 1..Millis::MAX).take(request.limit);
            let mut soon: Vec<_> = (0..lanes.len()).filter(allows_early_claims).flat_map(soon).collect();
            soon.sort_by(|one, other| match is_early || !self.rules.soonest_first {
                true => by_lateness(one, other),
                false => (one.1.0, one.0, one.1.1).cmp(&(other.1.0, other.0, other.1.1)),
            });
            all.extend(soon.into_iter().take_while(|(at, (due, ..))| -lateness(*at, *due) <= share));
        }
        self.picked(all, request)
    }

    /// The batch of these, the most urgent first.
    fn picked(&self, all: Vec<(usize, Waiting<'_>)>, request: &ClaimRequest<'_>) -> Result<Vec<Job>, Option<Millis>> {
        if all.is_empty() {
            return Err(None);
        }
        let job = |(at, (due, id, entry)): (usize, Waiting<'_>)| {
            let Lane { name, order, .. } = &self.lanes[at];
            let Entry { deliveries, failures, .. } = *entry;
            Job { id: id.clone(), lane: name.clone(), due, deliveries, failures, order: *order }
        };
        let mut picked: Vec<Job> = all.into_iter().take(request.limit).map(job).collect();
        // Suspects travel apart; the most urgent says which of the two this batch is.
        let suspects = picked.first().is_some_and(|job| job.deliveries > 0);
        picked.retain(|job| (job.deliveries > 0) == suspects);
        Ok(if suspects { halved(picked, request.limit) } else { picked })
    }

    fn wait(&self, now: Millis, request: &ClaimRequest<'_>, waited: Option<Millis>) -> Millis {
        let mut wait = millis(request.linger) - waited.unwrap_or(0);
        if let Some((fence, ..)) = self.jobs.leased().next() {
            wait = wait.min(fence - now);
        }
        let soon =
            |lane: &Lane| self.jobs.delayed(&lane.name, Millis::MIN..now.saturating_add(wait)).take(request.limit);
        let mut dues: Vec<Millis> = self.lanes.iter().flat_map(soon).map(|(due, ..)| due).collect();
        dues.sort_unstable();
        if let Some(ready) = request.limit.checked_sub(1).and_then(|at| dues.get(at)) {
            wait = wait.min(ready - now);
        }
        wait.max(1)
    }

    /// Applies verdicts; says of each whether it was.
    pub fn settle(&mut self, now: Millis, deadline: Millis, verdicts: &[(Job, Verdict)]) -> Vec<bool> {
        let settle = |(job, verdict): &(Job, Verdict)| {
            let Some((deliveries, failures)) = self.held(now, deadline, &job.id) else { return false };
            let (at, deliveries, failures) = match verdict {
                Verdict::Reschedule { lane, due } => {
                    self.learn(lane);
                    (self.back(&job.id, &lane.name, due.moment(now)), 0, 0)
                }
                Verdict::Finish => {
                    self.jobs.remove(&job.id);
                    return true;
                }
                Verdict::Retry { after, counted } => {
                    self.know(&job.lane);
                    let at = self.back(&job.id, &job.lane, now + after.max(&0));
                    (at, deliveries + u32::from(*counted), failures + u32::from(*counted))
                }
                Verdict::Suspect { after } => {
                    self.know(&job.lane);
                    (self.back(&job.id, &job.lane, now + after.max(&0)), deliveries + 1, failures)
                }
                Verdict::MarkDead { reason } => (At::Dead { at: now, reason: reason.as_str().into() }, 0, 0),
            };
            self.jobs.put(&job.id, Entry { deliveries, failures, ..Entry::new(at) });
            true
        };
        verdicts.iter().map(settle).collect()
    }

    /// Gives ids back; says of each whether it was.
    pub fn release(&mut self, now: Millis, deadline: Millis, jobs: &[Job]) -> Vec<bool> {
        let release = |job: &Job| {
            let Some((deliveries, failures)) = self.held(now, deadline, &job.id) else { return false };
            self.know(&job.lane);
            let deliveries = deliveries + u32::from(!self.rules.release_uncounted);
            let at = self.back(&job.id, &job.lane, job.due);
            self.jobs.put(&job.id, Entry { deliveries, failures, ..Entry::new(at) });
            true
        };
        jobs.iter().map(release).collect()
    }

    /// Where a job goes that is given back: where its note says, if it was promoted meanwhile.
    fn back(&self, id: &str, lane: &Arc<str>, due: Millis) -> At {
        let note = self.jobs.get(id).and_then(|entry| entry.note.clone());
        match note.filter(|_| self.rules.note_outlives_lease) {
            Some((noted, lane)) if self.rules.earlier_due_wins => At::Delayed { lane, due: noted.min(due) },
            Some((noted, lane)) => At::Delayed { lane, due: noted },
            None => At::Delayed { lane: lane.clone(), due },
        }
    }

    /// Notes that what this lease holds is alone in its process; says whether there is any.
    pub fn mark_trial(&mut self, now: Millis, deadline: Millis, token: &str) -> bool {
        let held = |(fence, _, entry): &(Millis, &String, &Entry)| {
            *fence == deadline && now < deadline && matches!(&entry.at, At::Leased { token: of, .. } if **of == *token)
        };
        let held: Vec<String> = self.jobs.leased().filter(held).map(|(_, id, _)| id.clone()).collect();
        for id in &held {
            self.jobs.change(id, |entry| entry.trial = Some(deadline));
        }
        !held.is_empty()
    }

    /// The deliveries and failures of an id that this lease holds.
    fn held(&self, now: Millis, deadline: Millis, id: &str) -> Option<(u32, u32)> {
        let entry = self.jobs.get(id)?;
        let At::Leased { fence, .. } = entry.at else { return None };
        (!self.rules.fence_checked || (fence == deadline && now < deadline))
            .then_some((entry.deliveries, entry.failures))
    }

    pub fn pause(&mut self, reason: Option<&str>) {
        self.paused = reason.map(str::to_owned);
    }

    pub fn place(&self, id: &str) -> Option<Place> {
        self.jobs.get(id).map(|entry| match &entry.at {
            At::Delayed { lane, due } => Place::Delayed { lane: lane.to_string(), due: *due },
            At::Leased { fence, token, .. } => {
                Place::Leased { fence: *fence, by: Some(worker_name_of_token(token).to_owned()) }
            }
            At::Dead { at, reason } => Place::Dead { at: *at, reason: reason.to_string() },
        })
    }

    pub fn is_suspect(&self, id: &str) -> bool {
        self.jobs.get(id).is_some_and(|entry| entry.deliveries > 0)
    }

    pub fn places(&self) -> impl Iterator<Item = (&String, Place)> {
        self.jobs.iter().filter_map(|(id, _)| Some((id, self.place(id)?)))
    }

    pub fn due(&self, now: Millis) -> u64 {
        self.jobs.due(now)
    }

    /// The number of a lane's ids that are due.
    pub fn due_of(&self, lane: &str, now: Millis) -> u64 {
        self.jobs.dues(lane).take_while(|due| *due <= now).count() as u64
    }

    /// When the next id is due, or was.
    pub fn next_due(&self) -> Option<Millis> {
        let first = |lane: &Lane| self.jobs.delayed(&lane.name, Millis::MIN..Millis::MAX).next();
        self.lanes.iter().filter_map(first).map(|(due, ..)| due).min()
    }

    /// How urgent: by its tier, then by how late it is, measured in the lane's own interval. Of a lane that has the newest
    /// first, the one that has waited least goes first, and after all others of the tier.
    pub fn urgency(&self, now: Millis, lane: &str, due: Millis) -> Urgency {
        let (tier, patience) = self.lane(lane).map_or((0, 60_000), |lane| (lane.tier, lane.patience));
        let tier = if self.rules.tiers_are_strict { tier } else { 0 };
        let late = (now - due) as f64 / patience as f64;
        (-i16::from(tier), if self.order_of(lane) == Order::NewestFirst { -late } else { late })
    }

    /// The greatest urgency of those that wait and are no suspects; `None` when nothing is due.
    pub fn most_urgent(&self, now: Millis) -> Option<Urgency> {
        let urgency = |entry: &Entry| match &entry.at {
            At::Delayed { lane, due } if *due <= now && entry.deliveries == 0 => Some(self.urgency(now, lane, *due)),
            _ => None,
        };
        let of_all = self.jobs.iter().map(|(_, entry)| entry).filter_map(urgency);
        of_all.reduce(|one, other| if other > one { other } else { one })
    }

    fn lane(&self, name: &str) -> Option<&Lane> {
        self.lanes.iter().find(|lane| *lane.name == *name)
    }

    /// Lanes travel with jobs.
    fn learn(&mut self, lane: &Lane) {
        if self.lane(&lane.name) != Some(lane) {
            self.lanes.retain(|known| known.name != lane.name);
            self.lanes.push(lane.clone());
            let tier = |lane: &Lane| if self.rules.tiers_are_strict { lane.tier } else { 0 };
            self.lanes.sort_by(|a, b| (tier(a), a.patience, &a.name).cmp(&(tier(b), b.patience, &b.name)));
        }
    }

    fn order_of(&self, lane: &str) -> Order {
        self.lane(lane).map_or_else(Order::default, |lane| lane.order)
    }

    /// A lane somebody gives a job back to.
    fn know(&mut self, name: &Arc<str>) {
        if self.lane(name).is_none() {
            self.learn(&Lane::new(name.clone(), Duration::from_secs(60)));
        }
    }

    pub fn stats(&self, now: Millis) -> Stats {
        let fence_ahead_ms = (self.last_fence - now).max(0);
        let mut stats = Stats { now_ms: now, paused: self.paused.clone(), fence_ahead_ms, ..Stats::default() };
        for Lane { name, patience: patience_ms, tier, order } in self.lanes.clone() {
            let mut lane = LaneStats { lane: name.to_string(), patience_ms, tier, order, ..LaneStats::default() };
            let counts_lateness = order.counts_lateness();
            for due in self.jobs.dues(&name) {
                lane.delayed += 1;
                lane.due += u64::from(due <= now);
                let oldest = if counts_lateness { &mut lane.oldest_lateness_ms } else { &mut lane.oldest_age_ms };
                *oldest = (*oldest).max(now - due);
                lane.beyond += u64::from(counts_lateness && due > now + patience_ms + millis(DUE_SLACK));
            }
            stats.delayed += lane.delayed;
            stats.due += lane.due;
            stats.oldest_lateness_ms = stats.oldest_lateness_ms.max(lane.oldest_lateness_ms);
            stats.lanes.push(lane);
        }
        for entry in self.jobs.iter().map(|(_, entry)| entry) {
            match entry.at {
                At::Leased { fence, .. } => {
                    stats.leased += 1;
                    stats.expired += u64::from(fence <= now);
                }
                At::Dead { .. } => stats.dead += 1,
                At::Delayed { .. } => {}
            }
        }
        stats
    }
}

/// The first of these, halved per delivery.
fn halved(jobs: Vec<Job>, limit: usize) -> Vec<Job> {
    let (mut kept, mut most) = (Vec::new(), 0);
    for job in jobs {
        most = most.max(job.deliveries);
        if kept.len() >= suspect_limit(limit, most) {
            break;
        }
        kept.push(job);
    }
    kept
}
