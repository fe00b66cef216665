use engine::metrics::counters;

counters! {
    /// The counts of one process for the media of a namespace, since its start.
    FetchCounters {
        /// Files that were fetched and are new.
        media_stored,
        /// Files that were fetched and were stored already, by their hash.
        media_known,
        /// Bytes of the files that are new.
        media_bytes,
        /// Files that were continued where an earlier attempt broke off.
        media_continued,
        /// Media whose host does not give their files.
        media_gone,
        /// Media that are not wanted: too large, of another type, or not on the public internet.
        media_refused,
        /// Attempts that failed and are repeated.
        media_attempts_failed,
        /// Media that failed for too long and are given up.
        media_failed,
        /// Attempts that failed because no bytes are left, or because the folder or the bucket takes no file.
        media_no_room,
        /// Media whose files were removed, because no stored post shows them any more.
        media_removed,
    }
}
