use engine::metrics::counters;

counters! {
    /// The counts of one process for a community, since its start.
    JudgementCounters {
        /// Accounts that were judged.
        accounts_judged,
        /// Accounts that were judged and are members.
        judged_members,
        /// Accounts that were judged and do not belong.
        judged_outside,
        /// Accounts that became candidates.
        candidates_admitted,
    }
}
