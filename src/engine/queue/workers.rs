//! Workers: their heartbeats and their list.

use async_trait::async_trait;

use super::{Lateness, Result};

/// The list of workers, and what they report.
#[async_trait]
pub trait Workers: Send + Sync + std::fmt::Debug {
    /// Says that `worker` is alive, what it says of itself, adds to the namespace's counters, and says how late the
    /// ids were that it has claimed since.
    async fn heartbeat(
        &self,
        worker: &str,
        fields: &[(&str, String)],
        counters: &[(&str, i64)],
        lateness: &Lateness,
    ) -> Result<()>;

    /// Takes a worker that stopped off the list.
    async fn deregister(&self, worker: &str) -> Result<()>;
}
