//! Polling starters: they ask a network for what is new in a timeline, and miss nothing.
//!
//! The parts, pure: [`since`](crate::providers::since) says which id to ask from, [`paging`] how to go back until all
//! is had, [`pace`] how often to come; [`position`] is what is kept. The seam to a network is
//! [`timeline`](crate::providers::timeline). [`reader`] puts them together; [`source`] is its handler of the worker's loop.
//! A [stream](crate::pipelines::streams) brings posts sooner, and has its gaps polled. Where each post costs, a page
//! has a [`reservation`] in the budget.

pub mod counters;
pub mod dates;
mod hand_over;
pub mod pace;
pub mod paging;
pub mod position;
pub mod reader;
pub mod reservation;
pub mod share;
pub mod source;
pub mod trouble;
