//! Polls of timelines, which miss no post.
//!
//! The pure parts: [`since`](networks::providers::since) gives the first id to request, [`paging`] the way back to known posts, [`pace`] the
//! interval, [`position`] the stored state. The interface to a network is [`timeline`](networks::providers::timeline). [`reader`] combines
//! them; [`source`] is its handler. If each post costs, a page has a [`Reservation`](super::page_call::Reservation).

pub mod counters;
pub mod dates;
mod hand_over;
pub mod pace;
pub mod paging;
pub mod position;
pub mod reader;
pub mod slow_polls;
pub mod source;
pub mod trouble;
