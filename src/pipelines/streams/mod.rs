//! Streams: new posts over a connection that stays open.
//!
//! ```text
//!   hold ─▶ connect ─┬▶ lines ─▶ posts ─▶ queue_tweets    (a stream is quick, and loses what is made while it is away)
//!    ▲       ▲       └▶ the polled source is put due        (it misses none: docs/polling.md)
//!    │       └── back-off, by what went wrong ◀── it broke
//!    └── another has it, or the queue is out
//! ```
//!
//! A stream never sends a post again. So each has a polled source of the same posts, whose position shows the posts that are known for
//! certain. The source is polled after each connection of the stream: nothing falls between the two.
//!
//! Reading order: [`stream`](crate::providers::stream) is the interface to an API's stream; [`lines`] cuts bytes, [`backoff`] gives
//! delays (both pure); [`hold`] lets one process connect; [`fill`] polls the gap, [`feed`] hands posts over; [`reader`] combines them.

pub mod backoff;
pub mod counters;
pub mod feed;
pub mod fill;
pub mod hold;
pub mod lines;
pub mod reader;
