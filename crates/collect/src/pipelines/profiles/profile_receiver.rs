//! Receives accounts from posts and lists: their ids, the times of their posts, and their profiles.
//!
//! A whole profile replaces a lookup if the stored one is older than half of its interval, so most lookups of a post write no profile.
//! After a post, a frozen account has the interval of an active one again.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::pace::estimate_pace;
use crate::ingest::Starter;
use crate::pipelines::refresh::{Arrival, Mention, QueueChanges, Receiver};
use engine::base::activity::{Activity, Pace, newest_activity};
use engine::base::clock::{self, Millis};
use engine::lane::Lane;
use engine::queue::{Due, NewJob};
use engine::schedule::{Schedule, ScheduledItem, Schedules};
use networks::model::account::Account;
use networks::model::post::ItemState;
use networks::providers::registry::ParseAccount;
use store::{Finding, Observation, ScheduleInputs, Sighting, Store, StoreError};

#[derive(Debug)]
pub struct ProfileReceiver {
    pub namespace: String,
    pub parse: ParseAccount,
    pub schedule: Arc<dyn Schedules>,
    pub store: Arc<dyn Store>,
}

#[derive(Default)]
struct AccountMentions<'a> {
    /// Time of its latest post, ms since the epoch, as known from these posts.
    posted_at: Option<Millis>,
    newest: Option<&'a Mention>,
}

#[async_trait]
impl Receiver for ProfileReceiver {
    fn takes(&self, arrival: &Arrival) -> bool {
        matches!(arrival, Arrival::Account { .. })
    }

    async fn receive(&self, starter: &Starter, mentions: &[&Mention]) -> Result<QueueChanges, StoreError> {
        let mut changes = QueueChanges::record_first(starter, mentions).await?;
        let mut by_account = BTreeMap::<&str, AccountMentions<'_>>::new();
        for mention in mentions {
            let (profile, posted_at) = (mention.arrival.profile(), mention.arrival.posted_at());
            if profile.is_none() && posted_at.is_none() {
                continue;
            }
            let mentioned = by_account.entry(&mention.id).or_default();
            mentioned.posted_at = mentioned.posted_at.max(posted_at);
            let is_newer = mentioned.newest.is_none_or(|newest| newest.answered_at < mention.answered_at);
            if profile.is_some() && is_newer {
                mentioned.newest = Some(mention);
            }
        }
        if by_account.is_empty() {
            return Ok(changes);
        }
        let ids: Vec<String> = by_account.keys().map(|id| (*id).to_owned()).collect();
        let signs = self.store.schedule_inputs(&self.namespace, &ids).await?;
        let schedule = self.schedule.current_schedule();
        let (mut answers, mut woken) = (Vec::new(), Vec::new());
        for ((id, mentioned), signs) in by_account.into_iter().zip(signs) {
            // An account without a record is not of this provider, or is dead.
            let Some(signs) = signs.filter(|signs| signs.state != ItemState::Dead) else { continue };
            match self.profile_answer(&*schedule, &mentioned, &signs, &mut changes) {
                Some(answer) => answers.push(answer),
                None => woken.extend(wake_job(&*schedule, id, &mentioned, &signs)),
            }
        }
        self.store.save_accounts(&self.namespace, &answers).await?;
        let due: Vec<(String, Millis)> = woken.iter().map(|(job, at)| (job.id.clone(), *at)).collect();
        self.store.promote(&self.namespace, &due).await?;
        changes.promote.extend(woken.into_iter().map(|(job, _)| job));
        // Last, because sightings show which account was silent: after an interruption, the steps before are repeated.
        self.store.record_sightings(&self.namespace, &sightings(mentions)).await?;
        Ok(changes)
    }
}

impl ProfileReceiver {
    /// Takes the profile of a mention as an answer, if it is whole and new enough. Its queued job is then due later.
    fn profile_answer(
        &self,
        schedule: &dyn Schedule,
        mentioned: &AccountMentions<'_>,
        signs: &ScheduleInputs,
        changes: &mut QueueChanges,
    ) -> Option<Observation<Account>> {
        let is_news = |at| is_outdated(signs, at) || mentioned.ends_silence(schedule, signs, at);
        let mention = mentioned.newest.filter(|mention| is_news(mention.answered_at))?;
        let mut account = (self.parse)(mention.arrival.profile()?).ok()?;
        // An author with only names and a picture is no answer.
        if account.id != mention.id || account.counts.followers.is_none() {
            return None;
        }
        let at = mention.answered_at;
        account.last_post_at = newest_activity([account.last_post_at], at);
        let known = [mentioned.posted_at, signs.active_at, signs.changed_at, account.last_post_at];
        let pace = estimate_pace(&signs.into(), &account.counts, account.created_at, at);
        let activity = Activity { last: newest_activity(known, at).or(Some(at)), pace, ..Activity::default() };
        let known = ScheduledItem { activity, ..ScheduledItem::new(&mention.id, account.created_at) };
        let (lane, delay) = schedule.next(&known, at)?;
        let due = at.saturating_add(delay);
        let job = NewJob { id: mention.id.clone(), lane, due: Due::At(due) };
        let is_later = signs.state == ItemState::Live && signs.next_due <= Some(due);
        match signs.checked_at {
            None => changes.schedule.replace(&job),
            Some(_) if is_later => changes.postpone.push(job),
            // It is back, or awake.
            Some(_) => changes.promote.push(job),
        }
        let recent = schedule.recent_events(&known);
        let answer = Observation::new(&mention.id, at, Finding::Found(account), ItemState::Live, Some(due));
        Some(Observation { recent, ..answer })
    }
}

/// Returns true if the stored answer is older than half of its interval.
fn is_outdated(signs: &ScheduleInputs, at: Millis) -> bool {
    match (signs.checked_at, signs.next_due) {
        (Some(checked), Some(due)) => at.saturating_sub(checked) > due.saturating_sub(checked) / 2,
        (Some(checked), None) => at > checked,
        (None, _) => true,
    }
}

impl AccountMentions<'_> {
    /// Returns true if the account has just posted, but has the interval of a silent one.
    fn ends_silence(&self, schedule: &dyn Schedule, signs: &ScheduleInputs, at: Millis) -> bool {
        let (Some(posted), Some(checked), Some(due)) = (self.posted_at, signs.checked_at, signs.next_due) else {
            return false;
        };
        let was = schedule.lane_for_interval(due.saturating_sub(checked));
        // By its pace, an account may have any interval: a longer one does not show that it was silent.
        let was = was.filter(|was| !was.allows_early_claims());
        let longer =
            was.zip(active_lane(schedule, signs, posted, at)).is_some_and(|(was, awake)| was.patience > awake.patience);
        // A future time, as an earlier version stored it, says nothing.
        let active = signs.active_at.filter(|active| !clock::is_ahead(*active, at));
        longer && active.is_none_or(|active| active < posted)
    }
}

/// Lane of an account that posted at `posted`, as seen at `at`.
fn active_lane(schedule: &dyn Schedule, signs: &ScheduleInputs, posted: Millis, at: Millis) -> Option<Lane> {
    // There is no answer: its pace stays.
    let pace = signs.recent.map(|per_day| Pace { per_day, ..Pace::default() });
    let activity = Activity { last: Some(posted), pace, ..Activity::default() };
    schedule.next(&ScheduledItem { activity, ..ScheduledItem::default() }, at).map(|(lane, _)| lane)
}

/// Job and date of an account to look up now: it has just posted with the interval of a silent one, or is overdue in the store.
fn wake_job(
    schedule: &dyn Schedule,
    id: &str,
    mentioned: &AccountMentions<'_>,
    signs: &ScheduleInputs,
) -> Option<(NewJob, Millis)> {
    let (posted, due) = (mentioned.posted_at?, signs.next_due?);
    let at = mentioned.newest.map_or(posted, |mention| mention.answered_at);
    let lane = active_lane(schedule, signs, posted, at)?;
    let is_due = due <= at && signs.checked_at.is_some_and(|checked| checked < posted);
    let job = NewJob { id: id.to_owned(), lane, due: Due::At(at) };
    (signs.state == ItemState::Live && (is_due || mentioned.ends_silence(schedule, signs, at))).then_some((job, at))
}

fn sightings(mentions: &[&Mention]) -> Vec<Sighting> {
    let seen = |mention: &&Mention| {
        Some(Sighting { account: mention.id.clone(), post: mention.from.clone(), at: mention.arrival.posted_at()? })
    };
    mentions.iter().filter_map(seen).collect()
}
