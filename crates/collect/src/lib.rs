//! Settings, ways in, and pipelines.

pub mod config;
pub mod ingest;
pub mod pipelines;
