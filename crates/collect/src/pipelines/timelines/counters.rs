use engine::metrics::counters;

counters! {
    /// The counts of one process for the sources of a namespace, since its start.
    PollCounters {
        /// Polls of a source, of a page or several.
        polls,
        /// Polls that ended before all available posts were read; no post is lost.
        polls_failed,
        /// Pages read, handed over and saved.
        pages,
        /// Posts on those pages.
        posts_seen,
        /// Posts that were not known before.
        posts_new,
        /// Posts that appeared later than their source allows: `out_of_order` is too small.
        posts_out_of_order,
        /// Posts with an impossible date, replaced by the date in the id or the current time.
        posts_misdated,
        /// Posts that cannot be scheduled, and are only stored.
        posts_refused,
        /// Gaps noted: posts that the API no longer returns.
        gaps,
    }
}
