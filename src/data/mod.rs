//! Commands on stored data: export, removal of old and of unwanted rows, dead items, training of the adaptive model.

pub mod dead;
pub mod export;
pub mod forget;
pub mod prune;
pub mod train;
