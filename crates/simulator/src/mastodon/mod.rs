//! Mastodon, simulated.

pub mod accounts;
pub mod dialect;
pub mod relations;
pub mod timelines;
