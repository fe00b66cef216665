//! Whole systems under load. Those whose speed, memory or lateness is measured want the machine to themselves: `make test` runs
//! them one at a time after the others. Those that only break things run beside the faults (`FAULTS` in the Makefile).

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
