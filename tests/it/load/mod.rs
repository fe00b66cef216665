//! Whole systems under load: they want the machine to themselves, so `make test` runs them one at a
//! time after the others; those that mostly wait (its `WAITING`) it runs before.

mod accounts;
mod demo;
mod doors;
mod enqueue;
mod fairness;
mod fault_table;
mod fill;
mod hook;
mod kill;
mod media;
mod memory;
mod page;
mod quota;
mod rebuild;
mod relations;
mod visits;
