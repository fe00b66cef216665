//! The pipelines: what becomes due, what is asked for it, and what an answer means.

pub mod posts;
pub mod streams;
pub mod timelines;
pub mod wave;
