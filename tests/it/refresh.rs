//! The handler of `tweet:update`, alone and in a worker, over the simulated API.

mod adaptive;
mod answers;
mod error_table;
mod fan_out;
mod forget;
mod missing;
mod once;
mod outages;
mod refused;
mod replies_lost;
mod stated;
mod strangers;
