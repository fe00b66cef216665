//! X API v2, simulated.

pub mod dialect;
pub mod timelines;
pub mod users;
