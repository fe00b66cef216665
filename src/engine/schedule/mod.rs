//! Schedules: when an item is due next.

pub mod age;
