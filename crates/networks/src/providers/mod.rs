//! The networks: one folder each, and the seams between them and the pipelines.

pub mod auth;
pub mod bluesky;
pub mod handles;
pub mod http;
pub mod id_outcomes;
pub mod limits;
pub mod lookup;
pub mod mastodon;
pub mod metered;
pub mod named;
mod pieces;
pub mod proxy;
pub mod registry;
pub mod relations;
pub mod scalar;
pub mod since;
pub mod source;
pub mod stream;
pub mod timeline;
pub mod twitter_v1;
pub mod unreadable;
pub mod x_v2;
