//! The pipelines: what becomes due, what is asked for it, and what an answer means.
//!
//! What is looked up again and again is a [`kind`] with a line in the [`registry`], and [`refresh`] is its machine;
//! [`posts`] is the first. [`timelines`] are polled, [`streams`] are listened to.

pub mod apis;
pub mod kind;
pub mod posts;
pub mod refresh;
pub mod registry;
pub mod streams;
pub mod timelines;
