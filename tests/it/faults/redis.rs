//! Redis breaks under updaters in full swing. They find their way back by themselves, and each tweet is in
//! exactly one place.

mod clock_ahead;
mod interrupted;
mod lost_writes;
mod swing;
