//! Everything that can break, broken on purpose: nothing is lost, nothing is doubled, and the work goes
//! on by itself.

mod crash;
mod edits;
mod full_disk;
mod history;
mod lost_file;
mod media;
mod network;
mod poison;
mod redis;
mod store;
mod supervision;
mod zombie;
