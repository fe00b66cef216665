//! Workers: their heartbeats and their list.

use async_trait::async_trait;

use super::{Lateness, Result};

#[async_trait]
pub trait Workers: Send + Sync + std::fmt::Debug {
    /// Records that `worker` is alive, its own report, and the lateness of the ids claimed since the last heartbeat. Adds to the
    /// namespace's counters.
    async fn heartbeat(
        &self,
        worker: &str,
        fields: &[(&str, String)],
        counters: &[(&str, i64)],
        lateness: &Lateness,
    ) -> Result<()>;

    /// Removes a stopped worker from the list.
    async fn deregister(&self, worker: &str) -> Result<()>;
}
