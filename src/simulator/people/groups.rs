//! Planted groups of accounts, as tests and the demo ask for them.

use super::communities::{Communities, GROUPS};
use super::person::People;
use crate::model::provider::Provider;

impl People {
    /// The planted groups; `None` unless [they are on](crate::simulator::SimulatorOptions::communities).
    pub(crate) fn communities(&self) -> Option<&Communities> {
        self.communities.as_ref()
    }

    /// The label of the planted group of an account; `None` where there are no groups, and no such account.
    #[must_use]
    pub fn group(&self, number: u64) -> Option<&'static str> {
        let communities = self.communities.filter(|_| number < self.count())?;
        Some(GROUPS[communities.group(number)].label)
    }

    /// The label of the planted group of the account with an id at a network.
    #[must_use]
    pub fn group_of(&self, provider: &Provider, id: &str) -> Option<&'static str> {
        self.group(self.number(provider, id)?)
    }

    /// The ids at a network of all members of a planted group, the account with the lowest number first; lower ranks are
    /// mentioned more often.
    #[must_use]
    pub fn members(&self, provider: &Provider, label: &str) -> Vec<String> {
        let members = (0..self.count()).filter(|number| self.group(*number) == Some(label));
        members.map(|number| self.id(provider, number)).collect()
    }
}
