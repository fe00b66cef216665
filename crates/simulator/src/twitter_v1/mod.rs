//! Twitter v1.1, simulated.

pub mod application;
pub mod dialect;
pub mod relations;
pub mod replay;
pub mod single;
pub mod timelines;
pub mod users;
