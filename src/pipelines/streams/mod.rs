//! Streams: posts as they are made, over a connection that stays open.
//!
//! ```text
//!   hold ─▶ connect ─┬▶ lines ─▶ posts ─▶ queue_tweets    (a stream is quick, and loses what is made while it is away)
//!    ▲       ▲       └▶ the polled source is put due        (it misses none: docs/polling.md)
//!    │       └── back-off, by what went wrong ◀── it broke
//!    └── another has it, or the queue is out
//! ```
//!
//! A stream promises nothing: what was not delivered is never sent again. So each has a polled source of the same
//! posts, whose position says which posts are known for certain; after each connection of a stream that source is
//! polled at once. The stream is connected first, so nothing falls between the two.
//!
//! Reading order: [`stream`](crate::providers::stream) is the seam to an API's stream; [`lines`] takes bytes apart,
//! [`backoff`] says when to come again (both pure); [`hold`] sees to it that one process is connected; [`fill`] has the
//! gap polled, [`feed`] hands posts over; [`reader`] puts them together.

pub mod backoff;
pub mod counters;
pub mod feed;
pub mod fill;
pub mod hold;
pub mod lines;
pub mod reader;
