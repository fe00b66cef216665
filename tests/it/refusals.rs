//! Refusals with 401 and 403: one that is about a post, an account, a list or a timeline delays no other; one that is about the
//! credential parks it.

mod credential;
mod items;
mod timelines;
