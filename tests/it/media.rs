//! Media: one file from a host that misbehaves, and the pipeline as a process.

mod arrivals;
#[cfg(feature = "s3")]
pub mod bucket;
mod doubts;
pub mod fetch;
mod fetch_bounds;
mod forgotten;
mod no_room;
pub mod process;
mod race;
mod read;
mod removal;
pub mod server;
mod sizes;
pub mod whole;
