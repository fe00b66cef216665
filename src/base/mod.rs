//! Tools without knowledge of queues, quotas or networks.

pub mod backend;
pub mod clock;
pub mod failpoint;
pub mod humanize;
pub mod private_file;
pub mod random;
pub mod rarely;
pub mod reload;
pub mod retry;
pub mod shutdown;
pub mod subnets;
pub mod supervise;
pub mod task;
pub mod token;
