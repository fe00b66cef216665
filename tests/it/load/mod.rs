//! Whole systems under load: they want the machine to themselves, so `make test` runs them one at a
//! time after the others. Those that mostly wait (`WAITING` in the Makefile) run together, before the others.

mod accounts;
mod demo;
mod doors;
mod enqueue;
mod fairness;
mod fault_table;
mod fill;
mod hook;
mod intervals;
mod kill;
mod long_query;
mod media;
mod memory;
mod page;
mod quota;
mod rebuild;
mod relations;
mod visits;
