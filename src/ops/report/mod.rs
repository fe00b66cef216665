//! Reports for people: status, credentials, capacity, the plan, the polled sources.

pub mod capacity;
pub mod credentials;
pub mod plan;
pub mod sources;
pub mod status;
