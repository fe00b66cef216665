//! Streams: what a line says, when to come again, one process at a time, and that nothing is lost with a connection.

mod api;
mod hold;
mod process;
mod pure;
mod reader;
