//! What tests share: private servers and the places they live in.

pub mod http;
pub mod memory_store;
pub mod postgres;
pub mod process;
pub mod redis;
pub mod wait;
pub mod watched_queue;
