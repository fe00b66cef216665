//! Divides the followed accounts among the parts by the work of each, with few moves.
//!
//! ```text
//!   recorded in the new part (store) ─▶ an old delay there is removed (queue) ─▶ the list names the new part (store) ─▶ due in it (queue)
//!                                                  from here on the old part ends the account's job without a call ─┘
//! ```
//!
//! The next call finishes an interrupted move: it adds every account to its part, where it is missing. At most one visit is repeated.

use std::collections::BTreeSet;

use super::follow::Follower;
use crate::ingest::StarterError;
use engine::base::clock::Millis;
use engine::schedule::visits::rhythm::{DAY, Rhythm};
use engine::schedule::{Schedule, ScheduledItem};
use store::{FollowedAccount, Part};

const ACCOUNTS_PER_BATCH: usize = 1_000;
/// Maximum deviation of a part's work from the mean, as a share of the mean, before accounts are moved.
const MAX_DEVIATION: f64 = 0.02;

#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Division {
    /// Accounts, by part.
    pub accounts: Vec<u64>,
    /// Expected visits per day, by part.
    pub visits_per_day: Vec<f64>,
    pub moved: u64,
    /// Accounts that were missing in their part's queue.
    pub scheduled: u64,
}

/// Assigns each account (work, present part) to a part, with equal work for each of `parts`. Pure.
///
/// Accounts without a part go first, the most work first, each to the part with the least (LPT). Then the part with the most work gives
/// to the one with the least, until none is further than two hundredths from the mean, or no move helps.
///
/// ```
/// # use twitter_updater_collect::pipelines::visits::divide::assign_parts;
/// // A new part gets a share, and the accounts that stay do not move.
/// assert_eq!(assign_parts(&[(3.0, 0), (1.0, 0), (2.0, 0)], 2), [1, 0, 0]);
/// ```
#[must_use]
pub fn assign_parts(accounts: &[(f64, Part)], parts: u32) -> Vec<Part> {
    let parts = Part::from(parts.max(1));
    let mut of: Vec<Part> = accounts.iter().map(|(_, part)| *part).collect();
    let work = |at: usize| accounts[at].0.max(0.0);
    let mut by_work: Vec<usize> = (0..of.len()).collect();
    by_work.sort_by(|one, other| work(*other).total_cmp(&work(*one)));
    let has_no_part = |part: Part| !(0..parts).contains(&part);
    let mut loads = vec![0.0; usize::try_from(parts).unwrap_or(1)];
    for at in by_work.iter().filter(|at| !has_no_part(of[**at])) {
        loads[part_index(of[*at])] += work(*at);
    }
    for at in &by_work {
        if has_no_part(of[*at]) {
            let (least, _) = least_and_most_loaded(&loads);
            of[*at] = Part::try_from(least).unwrap_or(0);
            loads[least] += work(*at);
        }
    }
    let mean = loads.iter().sum::<f64>() / loads.len() as f64;
    // Each account moves at most once.
    let mut moved = BTreeSet::new();
    loop {
        let (least, most) = least_and_most_loaded(&loads);
        if loads[most] <= mean * (1.0 + MAX_DEVIATION) && loads[least] >= mean * (1.0 - MAX_DEVIATION) {
            return of;
        }
        // The largest account that leaves the giver no smaller than the taker becomes.
        let room = (loads[most] - loads[least]) / 2.0;
        let fits = |at: &&usize| part_index(of[**at]) == most && work(**at) <= room && !moved.contains(*at);
        let Some(at) = by_work.iter().find(fits).copied().filter(|at| work(*at) > 0.0) else { return of };
        moved.insert(at);
        of[at] = Part::try_from(least).unwrap_or(0);
        loads[most] -= work(at);
        loads[least] += work(at);
    }
}

fn part_index(part: Part) -> usize {
    usize::try_from(part).unwrap_or(0)
}

fn least_and_most_loaded(loads: &[f64]) -> (usize, usize) {
    let by_load = |one: &usize, other: &usize| loads[*one].total_cmp(&loads[*other]);
    let all = || 0..loads.len();
    (all().min_by(by_load).unwrap_or(0), all().max_by(by_load).unwrap_or(0))
}

impl Follower {
    /// Divides all followed accounts by their expected visits. After an error, the same call does the rest.
    pub async fn divide(&self, schedule: &dyn Schedule, now: Millis) -> Result<Division, StarterError> {
        let mut accounts = Vec::<(FollowedAccount, f64)>::new();
        loop {
            let above = accounts.last().map_or(String::new(), |(last, _)| last.account.clone());
            let limit = u32::try_from(ACCOUNTS_PER_BATCH).unwrap_or(u32::MAX);
            let page = self.followed.page_followed(&self.namespace(), &above, limit).await?;
            if page.is_empty() {
                break;
            }
            accounts.extend(page.into_iter().map(|account| {
                let work = visits_per_day(schedule, &account, now);
                // The notes are no longer needed.
                (FollowedAccount { notes: None, ..account }, work)
            }));
        }
        let parts = u32::try_from(self.parts.len()).unwrap_or(1);
        let given: Vec<(f64, Part)> = accounts.iter().map(|(account, work)| (*work, account.part)).collect();
        let of = assign_parts(&given, parts);
        let mut done = Division {
            accounts: vec![0; self.parts.len()],
            visits_per_day: vec![0.0; self.parts.len()],
            ..Division::default()
        };
        for part in 0..Part::from(parts) {
            let mine: Vec<&(FollowedAccount, f64)> =
                accounts.iter().zip(&of).filter(|(_, to)| **to == part).map(|(account, _)| account).collect();
            done.accounts[part_index(part)] = mine.len() as u64;
            done.visits_per_day[part_index(part)] = mine.iter().map(|(_, work)| work).sum();
            for some in mine.chunks(ACCOUNTS_PER_BATCH) {
                let come: Vec<String> =
                    some.iter().filter(|(one, _)| one.part != part).map(|(one, _)| one.account.clone()).collect();
                let ids = some.iter().map(|(one, _)| one.account.as_str()).collect();
                done.scheduled += self.enqueue_in_part(part, ids, &come).await?;
                done.moved += come.len() as u64;
            }
        }
        Ok(done)
    }
}

fn visits_per_day(schedule: &dyn Schedule, account: &FollowedAccount, now: Millis) -> f64 {
    let rhythm = account.notes.clone().map(Rhythm::from);
    let known = ScheduledItem { rhythm: rhythm.as_ref(), ..ScheduledItem::new(&account.account, None) };
    let patience = schedule.next(&known, now).map_or(DAY, |(lane, _)| lane.patience);
    DAY as f64 / patience.max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn new_accounts_go_where_the_least_work_is_the_largest_first() {
        let without_part = |works: &[f64]| works.iter().map(|work| (*work, -1)).collect::<Vec<_>>();
        assert_eq!(assign_parts(&without_part(&[1.0, 5.0, 3.0, 2.0]), 2), [0, 0, 1, 1]);
        assert_eq!(assign_parts(&[], 3), Vec::<Part>::new());
        assert_eq!(assign_parts(&without_part(&[0.0, 0.0]), 2).len(), 2);
    }

    #[test]
    fn what_is_even_stays() {
        let even: Vec<(f64, Part)> = (0..1_000).map(|at| (1.0, at % 4)).collect();
        assert_eq!(assign_parts(&even, 4), even.iter().map(|(_, part)| *part).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn each_part_has_nearly_the_same_work_and_few_move(
            works in prop::collection::vec(0.01f64..1.0, 400..600), parts in 1u32..9, before in 1i64..9,
        ) {
            let given: Vec<(f64, Part)> = works.iter().enumerate().map(|(at, work)| (*work, at as i64 % before)).collect();
            let of = assign_parts(&given, parts);
            let mut loads = vec![0.0; parts as usize];
            for ((work, _), part) in given.iter().zip(&of) {
                prop_assert!((0..i64::from(parts)).contains(part));
                loads[part_index(*part)] += work;
            }
            let mean = loads.iter().sum::<f64>() / f64::from(parts);
            prop_assert!(loads.iter().all(|load| (load / mean - 1.0).abs() < 0.06), "{loads:?}");
            if i64::from(parts) == before {
                let moved = given.iter().zip(&of).filter(|((_, was), is)| was != *is).count();
                prop_assert!(moved < given.len() / 4, "{moved} of {}", given.len());
            }
        }
    }
}
