//! What tests share: private servers and the places they live in.

pub mod http;
pub mod postgres;
pub mod process;
pub mod redis;
