//! Reports for people: status, credentials, capacity, plans, stored accounts, polled sources, recorded errors.

pub mod crawls;
pub mod credentials;
pub mod errors;
pub mod known_accounts;
pub mod list_backlog;
pub mod plan;
pub mod quota_load;
pub mod sources;
pub mod status;
