//! Polling starters: they ask a network for the new posts of a timeline, and miss none.
//!
//! The pure parts: [`since`](crate::providers::since) gives the id to ask from, [`paging`] the way back to known posts, [`pace`] the
//! interval, [`position`] the stored state. The interface to a network is [`timeline`](crate::providers::timeline). [`reader`] combines
//! them; [`source`] is its handler. A [stream](crate::pipelines::streams) brings posts sooner. If each post costs, a page has a
//! [`Reservation`](super::page_call::Reservation).

pub mod counters;
pub mod dates;
mod hand_over;
pub mod pace;
pub mod paging;
pub mod position;
pub mod reader;
pub mod share;
pub mod source;
pub mod trouble;
