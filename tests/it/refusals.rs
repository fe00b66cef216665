//! Refusals with 401 and 403: a refused post, account, list or timeline delays no other; a refused credential is parked.

mod credential;
mod items;
mod timelines;
