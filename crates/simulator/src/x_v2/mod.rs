//! X API v2, simulated.

pub mod dialect;
pub mod relations;
pub mod timelines;
pub mod users;
