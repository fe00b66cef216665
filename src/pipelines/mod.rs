//! The pipelines: due items, their requests, and the meaning of the answers.
//!
//! Items that are looked up repeatedly have a [`kind`] with a line in the [`registry`], and [`refresh`] is its machine;
//! [`posts`] was the first, and [`profiles`] of accounts and [`media`] follow from them. [`timelines`] are polled, [`streams`] are listened to.
//! A [`community`] judges who belongs to it, by what the others collect.

pub mod apis;
pub mod blame;
pub mod community;
pub mod handles;
pub mod kind;
pub mod media;
pub mod page_call;
pub mod posts;
pub mod profiles;
pub mod refresh;
pub mod registry;
pub mod relations;
pub mod store_call;
pub mod streams;
pub mod timelines;
pub mod visits;
