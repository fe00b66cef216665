//! The words of the field as types: posts, their media and accounts, their ids and states, providers. No I/O.

pub mod account;
pub mod bound;
pub mod community;
pub mod media;
pub mod pipeline_id;
pub mod plain_text;
pub mod post;
pub mod provider;
pub mod relation;
pub mod words;
