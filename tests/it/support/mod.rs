//! What tests share: private servers and the places they live in.

pub mod memory_store;
pub mod postgres;
pub mod watched_queue;
