//! The counters of lists.

use engine::metrics::counters;

counters! {
    /// The counts of one process for the lists of a namespace, since its start.
    ListCounters {
        /// Pages of lists that were stored.
        list_pages,
        /// Members that joined a list.
        edges_appeared,
        /// Members that left a list.
        edges_vanished,
        /// Lists that were read to their end.
        lists_complete,
        /// Lists that were read again from the top, since the network no longer accepted the cursor.
        lists_restarted,
        /// Lists whose end would have removed too many members: the next complete crawl decides.
        lists_withheld,
    }
}
