//! Posts and accounts of the networks, and calls of their APIs.

pub mod model;
pub mod providers;
