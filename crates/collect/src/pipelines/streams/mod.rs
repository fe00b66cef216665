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
//! [`lease`] lets one process connect; [`gap_filler`] polls the gap, [`post_handover`] hands posts over; [`reader`] combines them.

pub mod backoff;
pub mod counters;
pub mod gap_filler;
pub mod lease;
pub mod lines;
pub mod post_handover;
pub mod reader;
