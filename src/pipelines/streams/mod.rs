//! The streams: connections that stay open, and what is done with what they bring.

pub mod backoff;
pub mod feed;
pub mod fill;
pub mod hold;
pub mod lines;
pub mod reader;
