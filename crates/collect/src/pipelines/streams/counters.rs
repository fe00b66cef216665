//! The counters of streams.

use engine::metrics::counters;

counters! {
    /// The counts of one process for a provider's streams, since its start.
    StreamCounters {
        /// Connections of streams that were made.
        stream_connects,
        /// Posts that streams brought.
        stream_posts,
        /// Lines and posts of streams that could not be read, or not be scheduled.
        stream_broken,
    }
}
