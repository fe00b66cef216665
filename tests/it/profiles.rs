//! Profiles of accounts: real worker loops over the reference queue, ledger and store, in simulated time, and an API whose
//! accounts follow a script.

mod arrivals;
mod history;
mod order;
mod reasons;
mod unchecked;
mod world;
