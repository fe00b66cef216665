//! Workers: their heartbeats and their list.

use async_trait::async_trait;

use super::{Lateness, Result};

#[async_trait]
pub trait Workers: Send + Sync + std::fmt::Debug {
    /// Records that `worker` is alive, with its report and the lateness of newly claimed ids. Adds to the namespace's counters.
    async fn heartbeat(
        &self,
        worker: &str,
        fields: &[(&str, String)],
        counters: &[(&str, i64)],
        lateness: &Lateness,
    ) -> Result<()>;

    async fn deregister(&self, worker: &str) -> Result<()>;
}
