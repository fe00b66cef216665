//! Evidence about accounts in posts: that they exist, that they have just posted, and their profiles.
//!
//! A whole profile in a post replaces a lookup if the stored one is older than half of its interval. So a post that is refreshed
//! eighty times does not write its author eighty times. A post of a frozen account wakes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;

use super::pace::pace;
use crate::base::clock::{self, Millis};
use crate::engine::lane::Lane;
use crate::engine::queue::{Due, NewJob};
use crate::engine::schedule::{Known, Schedule, Schedules};
use crate::ingest::Starter;
use crate::model::account::Account;
use crate::model::activity::{Activity, Pace, newest};
use crate::model::post::ItemState;
use crate::pipelines::refresh::{Mention, Received, Receiver};
use crate::providers::registry::ParseAccount;
use crate::store::{Observation, Seen, Sighting, Signs, Store, StoreError};

#[derive(Debug)]
pub struct Arrivals {
    pub namespace: String,
    pub parse: ParseAccount,
    pub schedule: Arc<dyn Schedules>,
    pub store: Arc<dyn Store>,
}

#[derive(Default)]
struct Arrival<'a> {
    /// Time of its latest post, ms since the epoch, as known from these posts.
    posted_at: Option<Millis>,
    newest: Option<&'a Mention>,
}

#[async_trait]
impl Receiver for Arrivals {
    async fn receive(&self, starter: &Starter, mentions: &[&Mention]) -> Result<Received, StoreError> {
        let first: BTreeSet<&str> =
            mentions.iter().filter(|mention| mention.is_first).map(|mention| mention.id.as_str()).collect();
        let mut received = Received { schedule: starter.record_ids(first).await?, ..Received::default() };
        let mut arrivals = BTreeMap::<&str, Arrival<'_>>::new();
        for mention in mentions.iter().filter(|mention| mention.object.is_some() || mention.acted_at.is_some()) {
            let arrival = arrivals.entry(&mention.id).or_default();
            arrival.posted_at = arrival.posted_at.max(mention.acted_at);
            let is_newer = arrival.newest.is_none_or(|newest| newest.answered_at < mention.answered_at);
            if mention.object.is_some() && is_newer {
                arrival.newest = Some(mention);
            }
        }
        if arrivals.is_empty() {
            return Ok(received);
        }
        let ids: Vec<String> = arrivals.keys().map(|id| (*id).to_owned()).collect();
        let signs = self.store.signs(&self.namespace, &ids).await?;
        let schedule = self.schedule.in_force();
        let (mut answers, mut woken) = (Vec::new(), Vec::new());
        for ((id, arrival), signs) in arrivals.into_iter().zip(signs) {
            // An account without a record is not of this provider, or is dead.
            let Some(signs) = signs.filter(|signs| signs.state != ItemState::Dead) else { continue };
            match self.answer(&*schedule, &arrival, &signs, &mut received) {
                Some(answer) => answers.push(answer),
                None => woken.extend(wake(&*schedule, id, &arrival, &signs)),
            }
        }
        self.store.save_accounts(&self.namespace, &answers).await?;
        let due: Vec<(String, Millis)> = woken.iter().map(|(job, at)| (job.id.clone(), *at)).collect();
        self.store.promote(&self.namespace, &due).await?;
        received.promote.extend(woken.into_iter().map(|(job, _)| job));
        // Last, because sightings show which account was silent: after an interruption, the steps before are repeated.
        self.store.record_sightings(&self.namespace, &sightings(mentions)).await?;
        Ok(received)
    }
}

impl Arrivals {
    /// Takes the profile of a mention as an answer, if it is whole and new enough. Its queued job is then due later.
    fn answer(
        &self,
        schedule: &dyn Schedule,
        arrival: &Arrival<'_>,
        signs: &Signs,
        received: &mut Received,
    ) -> Option<Observation<Account>> {
        let is_news = |at| is_wanted(signs, at) || arrival.wakes(schedule, signs, at);
        let mention = arrival.newest.filter(|mention| is_news(mention.answered_at))?;
        let mut account = (self.parse)(mention.object.as_deref()?).ok()?;
        // An author with only names and a picture is no answer.
        if account.id != mention.id || account.counts.followers.is_none() {
            return None;
        }
        let at = mention.answered_at;
        account.last_post_at = newest([account.last_post_at], at);
        let known = [arrival.posted_at, signs.active_at, signs.changed_at, account.last_post_at];
        let pace = pace(&signs.into(), &account.counts, account.created_at, at);
        let activity = Activity { last: newest(known, at).or(Some(at)), pace, ..Activity::default() };
        let known = Known { activity, ..Known::new(&mention.id, account.created_at) };
        let (lane, delay) = schedule.next(&known, at)?;
        let due = at.saturating_add(delay);
        let job = NewJob { id: mention.id.clone(), lane, due: Due::At(due) };
        let is_later = signs.state == ItemState::Live && signs.next_due <= Some(due);
        match signs.checked_at {
            None => received.schedule.replace(&job),
            Some(_) if is_later => received.postpone.push(job),
            // It is back, or awake.
            Some(_) => received.promote.push(job),
        }
        let recent = schedule.recent(&known);
        let answer = Observation::new(&mention.id, at, Seen::Found(account), ItemState::Live, Some(due));
        Some(Observation { recent, ..answer })
    }
}

/// Returns true if an answer at `at` is news: the stored one is older than half of its interval.
fn is_wanted(signs: &Signs, at: Millis) -> bool {
    match (signs.checked_at, signs.next_due) {
        (Some(checked), Some(due)) => at.saturating_sub(checked) > due.saturating_sub(checked) / 2,
        (Some(checked), None) => at > checked,
        (None, _) => true,
    }
}

impl Arrival<'_> {
    /// Returns true if the account has just posted, but has the interval of a silent one.
    fn wakes(&self, schedule: &dyn Schedule, signs: &Signs, at: Millis) -> bool {
        let (Some(posted), Some(checked), Some(due)) = (self.posted_at, signs.checked_at, signs.next_due) else {
            return false;
        };
        let was = schedule.lane_of(due.saturating_sub(checked));
        // By its pace, an account may have any interval: a longer one does not show that it was silent.
        let was = was.filter(|was| !was.lends());
        let longer =
            was.zip(awake(schedule, signs, posted, at)).is_some_and(|(was, awake)| was.patience > awake.patience);
        // A future time, as an earlier version stored it, says nothing.
        let active = signs.active_at.filter(|active| !clock::is_ahead(*active, at));
        longer && active.is_none_or(|active| active < posted)
    }
}

/// Lane of an account that posted at `posted`, as seen at `at`.
fn awake(schedule: &dyn Schedule, signs: &Signs, posted: Millis, at: Millis) -> Option<Lane> {
    // There is no answer: its pace stays.
    let pace = signs.recent.map(|per_day| Pace { per_day, ..Pace::default() });
    let activity = Activity { last: Some(posted), pace, ..Activity::default() };
    schedule.next(&Known { activity, ..Known::default() }, at).map(|(lane, _)| lane)
}

/// Job and date of an account to look up now: it has just posted with the interval of a silent one, or is overdue in the store.
fn wake(schedule: &dyn Schedule, id: &str, arrival: &Arrival<'_>, signs: &Signs) -> Option<(NewJob, Millis)> {
    let (posted, due) = (arrival.posted_at?, signs.next_due?);
    let at = arrival.newest.map_or(posted, |mention| mention.answered_at);
    let lane = awake(schedule, signs, posted, at)?;
    let is_due = due <= at && signs.checked_at.is_some_and(|checked| checked < posted);
    let job = NewJob { id: id.to_owned(), lane, due: Due::At(at) };
    (signs.state == ItemState::Live && (is_due || arrival.wakes(schedule, signs, at))).then_some((job, at))
}

fn sightings(mentions: &[&Mention]) -> Vec<Sighting> {
    let seen = |mention: &&Mention| {
        Some(Sighting { account: mention.id.clone(), post: mention.from.clone(), at: mention.acted_at? })
    };
    mentions.iter().filter_map(seen).collect()
}
