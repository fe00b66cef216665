//! The product in simulated time: the real worker, updater and credentials, several processes of them,
//! over services in memory, on one thread and a clock that jumps from timer to timer. An hour takes a
//! second, and a seed says all that happens in it.

mod communities;
mod files;
pub mod link;
mod lists;
mod misses;
pub mod network;
mod outage;
mod process;
mod provider;
mod refusals;
mod seeds;
mod visits;
mod watch;
mod world;
