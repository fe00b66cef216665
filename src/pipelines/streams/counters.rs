//! What streams count.

use crate::engine::metrics::counters;

counters! {
    /// What one process has counted of a provider's streams, since it started.
    StreamCounters {
        /// Connections of streams that were made.
        stream_connects,
        /// Posts that streams brought.
        stream_posts,
        /// Lines and posts of streams that could not be read, or not be scheduled.
        stream_broken,
    }
}
