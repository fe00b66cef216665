//! Twitter v1.1, simulated.

pub mod timelines;
pub mod users;
