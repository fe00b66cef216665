//! Lists of followers and friends, by real processes against a simulated network whose truth is known.

mod backlog;
mod cut_short;
mod gone;
mod odd;
mod order;
mod recorded;
mod storm;
mod truth;
