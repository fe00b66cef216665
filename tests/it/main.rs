//! One binary for every test that needs more than one module.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::disallowed_methods, missing_docs)]

mod addresses;
mod agree;
mod budget;
mod cli;
mod credentials;
mod faults;
mod fuzz;
mod handles;
mod http;
mod humanize;
mod ingest;
mod k8s;
mod layers;
mod ledger;
mod load;
mod media;
mod model;
mod operations;
mod page;
mod plan;
mod profiles;
mod providers;
mod queue;
mod rebuild;
mod recordings;
mod refresh;
mod replay;
mod simulation;
mod simulator;
mod state_machine;
mod store;
mod support;
mod things;
mod timelines;
mod worker;
