//! Bluesky, simulated.

pub mod accounts;
pub mod dialect;
pub mod timelines;
