//! The engine: a delayed queue with leases, the loop that works it, schedules, metrics and health.

pub mod error_log;
pub mod health;
pub mod lane;
pub mod last_call;
pub mod lateness;
pub mod metrics;
pub mod observer;
pub mod queue;
pub mod redis_functions;
pub mod schedule;
pub mod worker;
