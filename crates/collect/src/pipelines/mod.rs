//! The pipelines: due items, their requests, and the meaning of the answers.
//!
//! Items that are looked up repeatedly have a [`kind`] in the [`registry`], and [`refresh`] runs them. [`posts`] was the first;
//! [`profiles`] and [`media`] follow from posts. [`timelines`] are polled, [`streams`] are pushed. A [`community`] judges its members by
//! the data of the others.

pub mod apis;
pub mod blame;
pub mod community;
pub mod handles;
pub mod item_handler;
pub mod kind;
pub mod media;
pub mod page_call;
pub mod posts;
pub mod presentation;
pub mod profiles;
pub mod refresh;
pub mod registry;
pub mod relations;
pub mod store_call;
pub mod streams;
pub mod timelines;
pub mod visits;
