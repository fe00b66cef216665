//! Reports for people: status, credentials, capacity, the plan, the stored accounts, the polled sources.

pub mod capacity;
pub mod credentials;
pub mod known_accounts;
pub mod plan;
pub mod sources;
pub mod status;
