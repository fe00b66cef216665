//! Keeps every tweet of a system fresh, by age, within an API quota, and loses none.

pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod credential;
pub mod demo;
pub mod lookup;
pub mod metrics;
pub mod queue;
pub mod retry;
pub mod shutdown;
pub mod simulator;
pub mod starter;
pub mod status;
pub mod store;
pub mod tweet;
pub mod tweet_age;
pub mod updater;
pub mod worker;
