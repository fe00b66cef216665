//! Visits: the timelines of followed accounts.

mod census;
