//! The stored accounts of a pipeline of profiles: their number by state, and the age of the oldest data. Pure.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::ops::NoAnswer;
use crate::table::Table;
use engine::base::clock::Millis;
use engine::base::humanize::{group_digits, one_line, span};
use networks::model::account::AccountState;
use store::AccountTotal;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct KnownAccounts {
    /// Number of accounts in each state; `None` if the store did not answer.
    pub states: Option<BTreeMap<AccountState, u64>>,
    /// Time of the oldest answer among the last answers of the accounts that are still looked up, ms since the epoch.
    pub oldest_answer_at: Option<Millis>,
    /// Age of that answer, ms.
    pub oldest_data_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl KnownAccounts {
    #[must_use]
    pub fn new(counted: Result<Vec<AccountTotal>, NoAnswer>) -> Self {
        let totals = match counted {
            Ok(totals) => totals,
            Err(why) => return Self { error: Some(one_line(&why.to_string())), ..Self::default() },
        };
        let mut states: BTreeMap<AccountState, u64> = AccountState::ALL.into_iter().map(|state| (state, 0)).collect();
        for total in &totals {
            let known = AccountState::ALL.into_iter().find(|state| state.as_str() == total.state);
            *states.entry(known.unwrap_or_default()).or_default() += u64::try_from(total.accounts).unwrap_or(0);
        }
        let oldest_answer_at = totals.iter().filter_map(|total| total.oldest_answer_at).min();
        Self { states: Some(states), oldest_answer_at, ..Self::default() }
    }

    /// Sets the age of the oldest data at `now`, ms since the epoch.
    #[must_use]
    pub fn with_age_at(self, now: Millis) -> Self {
        Self { oldest_data_ms: self.oldest_answer_at.map(|at| (now - at).max(0)), ..self }
    }

    /// Number of stored accounts; `None` if it could not be read.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        self.states.as_ref().map(|states| states.values().sum())
    }

    #[must_use]
    pub fn oldest_age_text(&self) -> String {
        self.oldest_data_ms.map_or_else(|| "unknown".to_owned(), |age| span(age / 1_000 * 1_000))
    }
}

impl fmt::Display for KnownAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Table::figures(20, 12);
        match &self.states {
            Some(states) => {
                for (state, accounts) in states {
                    lines.figure(state.as_str(), group_digits(*accounts), "");
                }
            }
            None => {
                let why = self.error.as_deref().unwrap_or("the store was not asked");
                lines.line(format!("by state: unknown: {why}"));
            }
        }
        lines.figure("oldest data", self.oldest_age_text(), "");
        lines.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(state: &str, accounts: i64, oldest_answer_at: Option<Millis>) -> AccountTotal {
        AccountTotal { state: state.to_owned(), accounts, oldest_answer_at }
    }

    #[test]
    fn each_state_has_a_number_and_the_oldest_data_an_age() {
        let totals =
            vec![total("suspended", 3, Some(9_000)), total("live", 1_200, Some(5_000)), total("unknown", 4, None)];
        let known = KnownAccounts::new(Ok(totals)).with_age_at(95_000);
        assert_eq!((known.total(), known.oldest_data_ms), (Some(1_207), Some(90_000)));
        let text = known.to_string();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let numbers = ["1,200", "0", "3", "0", "0", "4"];
        for ((row, state), number) in rows.iter().zip(AccountState::ALL).zip(numbers) {
            assert_eq!(row, &[state.as_str(), number], "{text}");
        }
        assert_eq!(rows[6], ["oldest", "data", "1m", "30s"], "{text}");
        let json = serde_json::to_value(&known).unwrap();
        assert_eq!((&json["states"]["live"], &json["oldest_data_ms"]), (&1_200.into(), &90_000.into()));
        assert_eq!(KnownAccounts::new(Ok(vec![total("live", 1, Some(9))])).with_age_at(5).oldest_data_ms, Some(0));
    }

    #[test]
    fn what_the_store_does_not_tell_is_unknown_and_not_nought() {
        let out = KnownAccounts::new(Err(NoAnswer::Failed("no\nroute".to_owned()))).with_age_at(9);
        assert_eq!(out.to_string(), "by state: unknown: no route\noldest data              unknown");
        assert_eq!((out.total(), serde_json::to_value(&out).unwrap()["states"].is_null()), (None, true));
        let never = KnownAccounts::new(Ok(vec![total("unknown", 2, None)])).with_age_at(9);
        assert_eq!((never.total(), never.oldest_age_text()), (Some(2), "unknown".to_owned()));
    }
}
