//! Bluesky, simulated.

pub mod dialect;
pub mod timelines;
