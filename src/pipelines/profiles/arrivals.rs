//! What posts say of accounts: that they are there, that they have just posted, and what their profiles are.
//!
//! A whole profile inside a post is an answer, if the stored one is older than half of its interval: then nobody has to ask.
//! So a post that is refreshed eighty times does not write its author eighty times. A post of a frozen account wakes it.

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
use crate::model::post::TweetState;
use crate::pipelines::refresh::{Mention, Received, Receiver};
use crate::providers::registry::ParseAccount;
use crate::store::{Observation, Seen, Sighting, Signs, Store, StoreError};

/// Receives the accounts of posts.
#[derive(Debug)]
pub struct Arrivals {
    /// The pipeline of the accounts.
    pub namespace: String,
    /// Reads an account as it stands in a post.
    pub parse: ParseAccount,
    /// When accounts are due.
    pub schedule: Arc<dyn Schedules>,
    /// The store.
    pub store: Arc<dyn Store>,
}

/// The mentions of one account in a batch of posts.
#[derive(Default)]
struct Arrival<'a> {
    /// When it last posted, ms since the epoch, as far as these posts tell.
    posted_at: Option<Millis>,
    /// The newest mention with an object.
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
            // One that was not recorded is none of the provider's, or is dead.
            let Some(signs) = signs.filter(|signs| signs.state != TweetState::Dead) else { continue };
            match self.answer(&*schedule, &arrival, &signs, &mut received) {
                Some(answer) => answers.push(answer),
                None => woken.extend(wake(&*schedule, id, &arrival, &signs)),
            }
        }
        self.store.save_accounts(&self.namespace, &answers).await?;
        let due: Vec<(String, Millis)> = woken.iter().map(|(job, at)| (job.id.clone(), *at)).collect();
        self.store.promote(&self.namespace, &due).await?;
        received.promote.extend(woken.into_iter().map(|(job, _)| job));
        // Last, since they tell who was silent: what is cut off before comes again.
        self.store.record_sightings(&self.namespace, &sightings(mentions)).await?;
        Ok(received)
    }
}

impl Arrivals {
    /// The profile that came along as an answer, where it is whole and new enough; its job in the queue is due later then.
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
        // An author that is shown by names and picture alone is no answer.
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
        let is_later = signs.state == TweetState::Live && signs.next_due <= Some(due);
        match signs.checked_at {
            None => received.schedule.replace(&job),
            Some(_) if is_later => received.postpone.push(job),
            // It is back, or awake.
            Some(_) => received.promote.push(job),
        }
        let recent = schedule.recent(&known);
        let answer = Observation::new(&mention.id, at, Seen::Found(account), TweetState::Live, Some(due));
        Some(Observation { recent, ..answer })
    }
}

/// Returns true if an answer of that time, ms since the epoch, is news: the stored one is older than half of its interval.
fn is_wanted(signs: &Signs, at: Millis) -> bool {
    match (signs.checked_at, signs.next_due) {
        (Some(checked), Some(due)) => at.saturating_sub(checked) > due.saturating_sub(checked) / 2,
        (Some(checked), None) => at > checked,
        (None, _) => true,
    }
}

impl Arrival<'_> {
    /// Returns true if it has just posted and is looked up as a silent one; `at` is when that was found, ms since the epoch.
    fn wakes(&self, schedule: &dyn Schedule, signs: &Signs, at: Millis) -> bool {
        let (Some(posted), Some(checked), Some(due)) = (self.posted_at, signs.checked_at, signs.next_due) else {
            return false;
        };
        let was = schedule.lane_of(due.saturating_sub(checked));
        // By its pace an account has any interval: a longer one does not say that it was silent.
        let was = was.filter(|was| !was.lends());
        let longer =
            was.zip(awake(schedule, signs, posted, at)).is_some_and(|(was, awake)| was.patience > awake.patience);
        // One that is ahead, as an earlier version stored it, says nothing.
        let active = signs.active_at.filter(|active| !clock::is_ahead(*active, at));
        longer && active.is_none_or(|active| active < posted)
    }
}

/// The lane of an account that posted then and was found at `at`, ms since the epoch.
fn awake(schedule: &dyn Schedule, signs: &Signs, posted: Millis, at: Millis) -> Option<Lane> {
    // No answer: its pace is what it was.
    let pace = signs.recent.map(|per_day| Pace { per_day, ..Pace::default() });
    let activity = Activity { last: Some(posted), pace, ..Activity::default() };
    schedule.next(&Known { activity, ..Known::default() }, at).map(|(lane, _)| lane)
}

/// An account that has just posted and was looked up as a silent one is looked up now; its job, and that moment. So is one
/// that the store has as overdue: the queue may not have heard of it.
fn wake(schedule: &dyn Schedule, id: &str, arrival: &Arrival<'_>, signs: &Signs) -> Option<(NewJob, Millis)> {
    let (posted, due) = (arrival.posted_at?, signs.next_due?);
    let at = arrival.newest.map_or(posted, |mention| mention.answered_at);
    let lane = awake(schedule, signs, posted, at)?;
    let is_due = due <= at && signs.checked_at.is_some_and(|checked| checked < posted);
    let job = NewJob { id: id.to_owned(), lane, due: Due::At(at) };
    (signs.state == TweetState::Live && (is_due || arrival.wakes(schedule, signs, at))).then_some((job, at))
}

/// Posts with their authors.
fn sightings(mentions: &[&Mention]) -> Vec<Sighting> {
    let seen = |mention: &&Mention| {
        Some(Sighting { account: mention.id.clone(), post: mention.from.clone(), at: mention.acted_at? })
    };
    mentions.iter().filter_map(seen).collect()
}
