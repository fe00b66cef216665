//! The words of the field as types: posts, their ids and states, providers. No I/O.

pub mod pipeline_id;
pub mod post;
pub mod provider;
