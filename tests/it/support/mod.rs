//! What tests share: private servers and the places they live in.

pub mod account_store;
pub mod browser;
pub mod census;
pub mod disk;
pub mod http;
pub mod journal;
pub mod media_store;
pub mod memory_ledger;
pub mod memory_positions;
pub mod memory_queue;
pub mod memory_store;
pub mod pgbouncer;
pub mod postgres;
pub mod process;
pub mod promoter;
pub mod proxy;
pub mod queue_entries;
pub mod queue_model;
pub mod redis;
pub mod rig;
pub mod role;
pub mod stepping_clock;
pub mod users;
pub mod wait;
pub mod watched_queue;
pub mod world;
