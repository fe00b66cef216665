//! One binary for every test that needs more than one module.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::disallowed_methods, missing_docs)]

mod cli;
mod load;
mod lookup;
mod queue;
mod recordings;
mod replay;
mod simulator;
mod starter;
mod store;
mod support;
