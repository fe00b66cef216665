//! The counters of lists.

use crate::engine::metrics::counters;

counters! {
    /// The counts of one process for the lists of a namespace, since its start.
    Reads {
        /// Pages of lists that were stored.
        list_pages,
        /// Members of lists that are new.
        edges_appeared,
        /// Members of lists that are gone.
        edges_vanished,
        /// Lists that were read to their end.
        lists_complete,
        /// Lists that were read again from the top, since the network no longer accepted the cursor.
        lists_restarted,
        /// Lists whose end would have removed too many members: the next complete crawl decides.
        lists_withheld,
    }
}
