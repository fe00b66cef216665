//! Polling starters: they ask a network for what is new in a timeline, and miss nothing.
//!
//! The parts, pure: [`since`] says which id to ask from, [`paging`] how to go back until all is had, [`pace`] how
//! often to come. [`timeline`] is the seam to a network, [`twitter_v1`] the first; [`source`] puts them together, as a
//! handler of the worker's loop.

pub mod pace;
pub mod paging;
pub mod since;
pub mod source;
pub mod timeline;
pub mod twitter_v1;
