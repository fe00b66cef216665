//! A delayed queue with leases, lanes and quotas, on Redis or in one SQLite file, and the worker that empties it.
//!
//! Ids become due. A [worker] acquires a permit of a [credential](quota), claims a batch of due ids from the
//! [queue], hands it to a handler, and settles: each id gets the time of its next visit, or ends. A [schedule] computes
//! that time.
//!
//! - A claim is a lease. If a worker dies, its lease expires, and the next claim takes its ids.
//! - Ids wait in [lanes](lane::Lane). When more is due than can be done, all lanes of a tier are late by the same
//!   multiple of their patience.
//! - Any number of processes share nothing but the queue and the ledger.
//!
//! The queue knows ids and not what they stand for. `examples/read_meters.rs` is a whole program; [`queue`] starts with a
//! short one.

pub mod base;
pub mod error_log;
pub mod health;
pub mod lane;
pub mod last_call;
pub mod lateness;
pub mod metrics;
pub mod observer;
pub mod queue;
pub mod quota;
pub mod redis_functions;
pub mod schedule;
pub mod worker;
