//! Training of the visiting policies, and visit orders and partitions from the papers. For benches only.

pub mod organ_pipe;
pub mod partition;
pub mod training;
