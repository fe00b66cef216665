//! Visits: the timelines of followed accounts.

mod census;
mod networks;
mod refused;
mod rounds;
