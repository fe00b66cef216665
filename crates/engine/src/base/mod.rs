//! Tools without knowledge of queues, quotas or networks.

pub mod activity;
pub mod backend;
pub mod call_error;
pub mod clock;
pub mod failpoint;
pub mod humanize;
pub mod id;
pub mod log_throttle;
pub mod private_file;
pub mod random;
pub mod reload;
pub mod retry;
pub mod shutdown;
pub mod subnets;
pub mod supervise;
pub mod task;
pub mod token;
