//! The counters of a poller.

use crate::engine::metrics::counters;

counters! {
    /// The counts of one process for the sources of a namespace, since its start.
    Polls {
        /// Polls of a source, of a page or several.
        polls,
        /// Polls of those that ended without what there was to be had: nothing is lost by it.
        polls_failed,
        /// Pages read, handed over and saved.
        pages,
        /// Posts on those pages.
        posts_seen,
        /// Posts that were not known before.
        posts_new,
        /// Posts of those that appeared later than their source promises.
        posts_out_of_order,
        /// Posts with a date that cannot be, in whose place their id's was taken, or this moment.
        posts_misdated,
        /// Posts that cannot be scheduled, and are only stored.
        posts_refused,
        /// Gaps noted: posts that the API did not give any more.
        gaps,
    }
}
