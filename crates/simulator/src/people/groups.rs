//! Planted groups of accounts, for tests and the demo.

use super::communities::{Communities, GROUPS};
use super::person::People;
use networks::model::provider::Provider;

impl People {
    /// The planted groups; `None` unless [they are on](crate::SimulatorOptions::communities).
    pub fn communities(&self) -> Option<&Communities> {
        self.communities.as_ref()
    }

    /// Label of the community of an account; `None` without communities.
    #[must_use]
    pub fn group(&self, number: u64) -> Option<&'static str> {
        let communities = self.communities.filter(|_| number < self.count())?;
        Some(GROUPS[communities.group(number)].label)
    }

    #[must_use]
    pub fn group_with_id(&self, provider: &Provider, id: &str) -> Option<&'static str> {
        self.group(self.number(provider, id)?)
    }

    /// Ids at a network of all members of a planted group, lowest number first: those are mentioned more often.
    #[must_use]
    pub fn members(&self, provider: &Provider, label: &str) -> Vec<String> {
        let members = (0..self.count()).filter(|number| self.group(*number) == Some(label));
        members.map(|number| self.id(provider, number)).collect()
    }
}
