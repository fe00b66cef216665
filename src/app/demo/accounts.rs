//! Accounts of the demo: compares stored data with the simulator's script.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::Result;
use serde::Serialize;

use crate::ops::NoAnswer;
use crate::ops::report::known_accounts::KnownAccounts;
use crate::table::Table;
use engine::base::clock::Millis;
use engine::base::humanize::{group_digits, one_line, rfc3339, span, truncate_chars};
use engine::queue::Queue;
use networks::model::account::AccountState;
use networks::model::provider::Provider;
use simulator::People;
use store::{Change, Listing, Store};

const BATCH: u32 = 1_000;
/// Tolerance, ms: a response is dated by the queue's clock during its call; the simulator may have created it earlier
/// or later.
const SLACK_MS: Millis = 2_000;
const SHOWN_STEPS: usize = 8;
const COLUMNS: usize = 100;

#[derive(Debug, Clone, Default, Serialize)]
pub struct AccountsSummary {
    pub known: u64,
    pub states: BTreeMap<AccountState, u64>,
    pub changes: u64,
    /// Scripted changes between each account's first and newest response.
    pub scripted: u64,
    /// Stored changes of absent accounts that came with a post, which the simulator keeps with the whole profile.
    pub from_posts: u64,
    /// Other stored changes that are not in the script.
    pub not_in_script: u64,
    pub came_back: u64,
    /// Stored accounts that the queue does not have.
    pub lost: u64,
    /// Account with the longest history, preferably one that came back.
    pub example: Option<Example>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Example {
    pub id: String,
    pub handle: String,
    /// Stored changes, oldest first.
    pub history: Vec<Step>,
    #[serde(skip)]
    came_back: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Time of the response with the change, ms since the epoch.
    pub at: Millis,
    pub field: String,
    pub old: String,
    pub new: String,
    /// Delay since the change in the simulator's script, ms; `None` if it is not in the script.
    pub after_ms: Option<Millis>,
    /// True if a post contained it while the account was absent.
    pub by_post: bool,
}

impl Step {
    fn is_return(&self) -> bool {
        self.field == "state" && is_shown_state(&self.new)
    }
}

struct ScriptedAccount<'a> {
    people: &'a People,
    provider: &'a Provider,
    number: u64,
}

impl ScriptedAccount<'_> {
    /// Values of a field that the network returned within `SLACK_MS` of `at`.
    fn values_near(&self, field: &str, at: Millis) -> BTreeSet<String> {
        let Self { people, provider, number } = *self;
        let (from, to) = (at - SLACK_MS, at + SLACK_MS);
        let changed = people.visible_changes(provider, number, from, to).into_iter().map(|change| change.at);
        let value = |at: Millis| {
            if field == "state" {
                return Some(people.reported_state(provider, number, at).to_string());
            }
            let account = people.account(provider, number, at)?;
            account.profile().into_iter().find(|(name, _)| *name == field)?.1.map(|value| value.into_owned())
        };
        changed.chain([from, to]).filter_map(value).collect()
    }

    /// Returns true if the network's posts contain the author's whole profile, which counts as a response.
    fn posts_contain_profiles(&self) -> bool {
        matches!(self.provider, Provider::Twitter | Provider::Mastodon(_))
    }

    fn step(&self, change: &Change) -> Step {
        let (old, new) = (change.old.clone().unwrap_or_default(), change.new.clone().unwrap_or_default());
        let after_ms = self.delay_after_script(change);
        let step = Step { at: change.at, field: change.field.clone(), old, new, after_ms, by_post: false };
        let is_away = self.values_near("handle", change.at).is_empty();
        Step { by_post: after_ms.is_none() && (step.is_return() || is_away) && self.posts_contain_profiles(), ..step }
    }

    /// Delay of the response after the scripted change, ms.
    fn delay_after_script(&self, change: &Change) -> Option<Millis> {
        let new = script_value(&change.field, change.new.as_deref());
        if !self.values_near(&change.field, change.at).contains(&new) {
            return None;
        }
        let script = self.people.visible_changes(self.provider, self.number, 0, change.at + SLACK_MS);
        let made = script.iter().rev().find(|one| one.change.field == change.field && one.change.new == new);
        Some(made.map_or(0, |made| (change.at - made.at).max(0)))
    }
}

/// Converts a stored value to that of the script, which has one state for all absences.
fn script_value(field: &str, stored: Option<&str>) -> String {
    match stored.unwrap_or_default() {
        "deactivated" | "deleted" if field == "state" => AccountState::Unknown.to_string(),
        stored => stored.to_owned(),
    }
}

/// Returns true for the state of an account that its network shows.
fn is_shown_state(state: &str) -> bool {
    matches!(state, "live" | "protected")
}

pub async fn summarize(
    queue: &dyn Queue,
    store: &dyn Store,
    people: &People,
    provider: &Provider,
) -> Result<AccountsSummary> {
    let namespace = queue.namespace();
    let states = KnownAccounts::new(store.account_states(namespace).await.map_err(NoAnswer::from));
    let mut sum = AccountsSummary { known: states.total().unwrap_or(0), ..AccountsSummary::default() };
    sum.states = states.states.unwrap_or_default();
    let mut below: Option<String> = None;
    loop {
        let listed = store.page(namespace, Listing::Tracked, below.as_deref(), BATCH).await?;
        let Some(last) = listed.last() else { break };
        below = Some(last.id.clone());
        let ids: Vec<String> = listed.into_iter().map(|one| one.id).collect();
        sum.lost += queue.locate(&ids).await?.iter().filter(|places| places.is_empty()).count() as u64;
        for id in &ids {
            if let Some(number) = people.number(provider, id) {
                sum.add(store, namespace, id, &ScriptedAccount { people, provider, number }).await?;
            }
        }
    }
    Ok(sum)
}

impl AccountsSummary {
    async fn add(&mut self, store: &dyn Store, namespace: &str, id: &str, truth: &ScriptedAccount<'_>) -> Result<()> {
        let Some(account) = store.account(namespace, id).await? else { return Ok(()) };
        // The first response with counts is the first of all.
        let first = store.account_counts(namespace, id).await?.first().map(|counts| counts.checked_at);
        if let Some((first, last)) = first.zip(account.checked_at) {
            self.scripted += truth.people.visible_changes(truth.provider, truth.number, first, last).len() as u64;
        }
        let changes = store.account_changes(namespace, id).await?;
        let history: Vec<Step> = changes.iter().map(|change| truth.step(change)).collect();
        self.changes += history.len() as u64;
        self.from_posts += history.iter().filter(|step| step.by_post).count() as u64;
        self.not_in_script += history.iter().filter(|step| step.after_ms.is_none() && !step.by_post).count() as u64;
        let mut states = history.iter().filter(|step| step.field == "state");
        let went = states.any(|step| !step.is_return());
        let came_back = went && states.any(|step| step.is_return() && !step.by_post);
        self.came_back += u64::from(came_back);
        let rank = |came_back: bool, steps: usize| (came_back, steps);
        let best = self.example.as_ref().map(|known| rank(known.came_back, known.history.len()));
        if !history.is_empty() && best < Some(rank(came_back, history.len())) {
            let handle = account.handle.unwrap_or_default();
            self.example = Some(Example { id: id.to_owned(), handle, history, came_back });
        }
        Ok(())
    }
}

impl fmt::Display for AccountsSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Table::figures(17, 9);
        lines.figure("accounts", group_digits(self.known), "");
        for (state, accounts) in self.states.iter().filter(|(_, accounts)| **accounts > 0) {
            lines.figure(&format!("  {}", state.as_str()), group_digits(*accounts), "");
        }
        let scripted = format!("of {} in the simulator's script", group_digits(self.scripted));
        lines.figure("changes found", group_digits(self.changes), scripted);
        lines.figure("  not in it", group_digits(self.not_in_script), "");
        if self.from_posts > 0 {
            let why = "the simulator's posts stay while their authors are away";
            lines.figure("  from posts", group_digits(self.from_posts), why);
        }
        lines.figure("came back", group_digits(self.came_back), "");
        lines.figure("accounts lost", group_digits(self.lost), "");
        write!(f, "{lines}")?;
        match &self.example {
            Some(example) => write!(f, "\n\n{example}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Example {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{} ({}) and its changes:", one_line(&self.handle), self.id)?;
        for step in self.history.iter().take(SHOWN_STEPS) {
            let (at, old, new) = (rfc3339(step.at).unwrap_or_default(), one_line(&step.old), one_line(&step.new));
            let after = match step.after_ms {
                Some(after) => format!("seen {} after the change", span(after / 100 * 100)),
                None if step.by_post => "found in one of its posts while it was away".to_owned(),
                None => "not in the simulator's script".to_owned(),
            };
            write!(
                f,
                "\n  {}",
                truncate_chars(
                    &format!("{at}  {}: {} → {}", step.field, truncate_chars(&old, 24), truncate_chars(&new, 24)),
                    COLUMNS
                )
            )?;
            write!(f, " ({after})")?;
        }
        match self.history.len().saturating_sub(SHOWN_STEPS) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use simulator::SimulatorOptions;

    #[test]
    fn a_change_outside_the_script_is_distinguished_from_a_scripted_one() {
        let options = SimulatorOptions {
            account_changes: Duration::from_secs(30),
            accounts_gone: 0.2,
            account_away: Duration::from_secs(20),
            accounts_since: 1_800_000_000_000,
            ..SimulatorOptions::default()
        };
        let people = People::new(&options);
        let (from, to) = (options.accounts_since, options.accounts_since + 600_000);
        let provider = Provider::Twitter;
        let mut found = 0;
        for number in 0..20 {
            let truth = ScriptedAccount { people: &people, provider: &provider, number };
            for scripted in people.visible_changes(&provider, number, from, to) {
                let change = |new: &str, at| Change {
                    at,
                    field: scripted.change.field.to_owned(),
                    old: Some(scripted.change.old.clone()),
                    new: Some(new.to_owned()),
                };
                assert_eq!(
                    truth.delay_after_script(&change(&scripted.change.new, scripted.at)),
                    Some(0),
                    "{scripted:?}"
                );
                assert_eq!(truth.delay_after_script(&change("never so", scripted.at)), None);
                found += 1;
            }
        }
        assert!(found > 50, "{found}");
        // A post of an absent account contains its whole profile on Twitter, and a part of it on X.
        let away = (0..50).find_map(|number| {
            let gone = |at: &Millis| people.reported_state(&provider, number, *at) == AccountState::Unknown;
            let at = (from..to).step_by(500).find(|at| gone(at) && gone(&(at + 4_000)))?;
            Some((number, at + SLACK_MS))
        });
        let (number, at) = away.unwrap();
        let returned =
            Change { at, field: "state".to_owned(), old: Some("unknown".to_owned()), new: Some("live".to_owned()) };
        for (provider, by_post) in [(Provider::Twitter, true), (Provider::X, false)] {
            let step = ScriptedAccount { people: &people, provider: &provider, number }.step(&returned);
            assert_eq!((step.after_ms, step.by_post), (None, by_post), "{provider}");
        }
        assert_eq!(script_value("state", Some("deleted")), "unknown");
        assert_eq!(script_value("description", Some("deleted")), "deleted");
    }
}
