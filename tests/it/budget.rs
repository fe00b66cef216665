//! The budget of reads: against a model of what X charges, and with a worker that asks its simulated API.

mod bill;
mod same_day;
mod worker;
